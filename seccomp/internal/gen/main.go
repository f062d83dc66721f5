// Command gen compiles the system call policy into BPF.
//
//	gen DIR    writes {amd64,arm64}_{allow,deny,init}.bpf into DIR
//
// It is plain Go. libseccomp compiles the same policy in the tests, which prove
// that both answer alike.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
		for _, name := range slices.Sorted(maps.Keys(filters)) {
			prog := filters[name]
			path := filepath.Join(dir, arch+"_"+name+".bpf")
			if err := os.WriteFile(path, prog, 0o644); err != nil {
				return err
			}
			fmt.Printf("%s: %d instructions\n", path, len(prog)/8)
		}
	}
	return nil
}
