package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"unicode/utf8"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/hostfile"
	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/values"
	"github.com/sbxrun/sbxrun/errdef"
)

// maxProfileBytes bounds a profile. The longest sensible one is a list of
// variables, which the kernel caps at 2 MiB for a program.
const maxProfileBytes = 4 << 20

// profile holds the texts of a profile by option, in its order.
type profile map[string][]value

// loadProfile reads the profile: one JSON object whose keys are flag names.
// Relative host paths in it start from its own folder.
func loadProfile(path string, options []*option) (profile, error) {
	data, err := hostfile.Read(path, maxProfileBytes)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, &errdef.Error{Code: errdef.Invalid, Path: hostfile.Shown(path), Err: err}
	}
	return parseProfile(data, hostfile.Shown(path), dir, options)
}

// parseProfile reads the profile's text. It walks the tokens itself: the
// decoder would take a repeated key, a key in other letters and text after the
// object in silence.
func parseProfile(data []byte, name, dir string, options []*option) (profile, error) {
	if !utf8.Valid(data) {
		return nil, profileError(name, "not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	p := profile{}
	err := eachMember(dec, func(key string) error {
		o := profileOption(key, options)
		if o == nil {
			return unknownKey(name, key, options)
		}
		if _, twice := p[key]; twice {
			return profileError(name, fmt.Sprintf("key %s is given twice", values.Quote(key)))
		}
		texts, err := optionTexts(dec, o)
		if err != nil {
			return err
		}
		p[key] = []value{}
		for _, t := range texts {
			p[key] = append(p[key], value{text: t, origin: name + ": " + key, base: dir, profile: true})
		}
		return nil
	})
	if err == nil {
		if _, end := dec.Token(); end != io.EOF {
			err = errors.New("text after the object")
		}
	}
	var typed *errdef.Error
	if err != nil && !errors.As(err, &typed) {
		return nil, profileError(name, fmt.Sprintf("%v (byte %d)", err, dec.InputOffset()))
	}
	return p, err
}

// optionTexts reads the value of one key as the texts that the flag would get.
func optionTexts(dec *json.Decoder, o *option) ([]string, error) {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return nil, plainJSONError(err)
	}
	value := json.NewDecoder(bytes.NewReader(raw))
	value.UseNumber()
	switch {
	case o.object && raw[0] == '{':
		var texts []string
		seen := map[string]bool{}
		err := eachMember(value, func(key string) error {
			text, err := scalarText(value, o)
			if err == nil && seen[key] {
				err = fmt.Errorf("key %s of %q is given twice", values.Quote(key), o.name)
			}
			seen[key] = true
			texts = append(texts, key+"="+text)
			return err
		})
		return texts, err
	case o.many && raw[0] == '[':
		_, _ = value.Token()
		texts := []string{}
		for value.More() {
			text, err := scalarText(value, o)
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
		return texts, nil
	case o.many:
		want := "a list of texts"
		if o.object {
			want = "an object of texts, or a list"
		}
		return nil, fmt.Errorf("%q must be %s", o.name, want)
	}
	text, err := scalarText(value, o)
	return []string{text}, err
}

// scalarText reads one text, number or, for a switch, truth value.
func scalarText(dec *json.Decoder, o *option) (string, error) {
	token, err := dec.Token()
	if err != nil {
		return "", plainJSONError(err)
	}
	isSwitch := o.arg == ""
	switch t := token.(type) {
	case string:
		if !isSwitch {
			return t, nil
		}
	case json.Number:
		if !isSwitch {
			return t.String(), nil
		}
	case bool:
		if isSwitch {
			return fmt.Sprint(t), nil
		}
	}
	if isSwitch {
		return "", fmt.Errorf("%q must be true or false", o.name)
	}
	return "", fmt.Errorf("%q takes text and numbers only", o.name)
}

// eachMember calls f with each key of the object that comes next; f reads the
// key's value.
func eachMember(dec *json.Decoder, f func(key string) error) error {
	token, err := dec.Token()
	if err != nil {
		return plainJSONError(err)
	}
	if token != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return plainJSONError(err)
		}
		key, _ := token.(string)
		if err := f(key); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return plainJSONError(err)
}

func plainJSONError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON text ends too early")
	}
	return err
}

func profileOption(key string, options []*option) *option {
	for _, o := range options {
		if o.name == key && !o.runOnly {
			return o
		}
	}
	return nil
}

func unknownKey(name, key string, options []*option) error {
	e := profileError(name, fmt.Sprintf("unknown key %s", values.Quote(key)))
	var names []string
	for _, o := range options {
		switch {
		case !o.runOnly:
			names = append(names, o.name)
		case o.name == key:
			e.Msg = fmt.Sprintf("key %q is not for a profile", key)
			e.Hint = "give it as the flag --" + key
			return e
		}
	}
	if near := nearest(key, names); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return e
}

func profileError(name, what string) *errdef.Error {
	return &errdef.Error{Code: errdef.Invalid, Op: "profile", Path: name, Msg: what,
		Hint: `the keys of a profile are the flags of "sbxrun do" without "--"`}
}
