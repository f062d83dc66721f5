package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/hostfile"
	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/values"
	"github.com/sbxrun/sbxrun/errdef"
)

func toolsOption() *option {
	return &option{
		name: "tools", arg: "FILE", usage: "tools that the program may call, described in a JSON file",
		set: func(r *request, v value) error {
			if v.text == "" {
				return values.Bad("the value is empty")
			}
			file, err := v.hostPath(v.text)
			if err != nil {
				return err
			}
			// Checked here, since opening a FIFO in its place would wait for a writer.
			if st, err := os.Stat(file); err != nil || !st.Mode().IsRegular() {
				return hostfile.CheckSource(file)
			}
			r.toolsFile = file
			return nil
		},
		show: func(r *request) []string {
			if r.toolsFile == "" {
				return nil
			}
			return []string{r.toolsFile}
		},
	}
}

func toolOption() *option {
	return &option{
		name: "tool", arg: "NAME=CMD", many: true, object: true,
		usage:   "tool that runs a command on the host, JSON in and JSON out",
		allowed: "NAME=CMD, such as weather='./weather --json'", set: addTool,
		show: func(r *request) (texts []string) {
			for _, t := range r.tools {
				texts = append(texts, t.Name+"="+t.Description)
			}
			return texts
		},
	}
}

func addTool(r *request, v value) error {
	name, line, err := values.Pair(v.text)
	if err != nil {
		return err
	}
	argv, err := values.Words(line)
	if err != nil {
		return err
	}
	program := argv[0]
	if strings.Contains(program, "/") {
		if program, err = v.hostPath(program); err != nil {
			return err
		}
	}
	// Found now, so that a misspelt program is an error here and not a failing
	// tool in the middle of a run.
	found, err := exec.LookPath(program)
	if err != nil {
		return &errdef.Error{Code: errdef.Invalid, Msg: fmt.Sprintf("program %s: %v", values.Quote(argv[0]), errors.Unwrap(err))}
	}
	handler, err := bridge.Command(append([]string{found}, argv[1:]...), nil)
	if err != nil {
		return err
	}
	replaces, err := r.claim("tool", name, v)
	if err != nil {
		return err
	}
	t := bridge.Tool{Name: name, Description: values.JoinWords(argv), Handler: handler}
	if !replaces {
		r.tools = append(r.tools, t)
		return nil
	}
	for i := range r.tools {
		if r.tools[i].Name == name {
			r.tools[i] = t
		}
	}
	return nil
}
