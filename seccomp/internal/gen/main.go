//go:build cgo && linux && amd64

// Command gen compiles the system call policy with libseccomp.
//
//	gen DIR    writes {amd64,arm64}_{allow,deny,init}.bpf into DIR
//
// It needs cgo and libseccomp's headers, which the package that embeds its
// output doesn't.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	for _, arch := range []string{"amd64", "arm64"} {
		filters, err := compile(arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		for name, prog := range filters {
			path := filepath.Join(dir, arch+"_"+name+".bpf")
			if err := os.WriteFile(path, prog, 0o644); err != nil {
				return err
			}
			fmt.Printf("%s: %d instructions\n", path, len(prog)/8)
		}
	}
	return nil
}
