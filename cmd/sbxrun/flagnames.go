package main

import (
	"errors"

	"github.com/sbxrun/sbxrun/errdef"
)

// flagNames names the flag in an error that names a field of the policy: the
// fields go by the same words.
func flagNames(err error) error {
	var e *errdef.Error
	if !errors.As(err, &e) || e.Op != "policy" {
		return err
	}
	if optionNamed(options(newRequest(nil)), e.Path) == nil {
		return err
	}
	named := *e
	named.Path = "--" + e.Path
	return &named
}
