package main

import (
	"strconv"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/hostfile"
	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/values"
	"github.com/sbxrun/sbxrun/runtime"
)

// recordOptions say where the records go, and where settings come from.
func recordOptions(p *runtime.Policy) []*option {
	return []*option{
		{
			name: "profile", arg: "FILE", runOnly: true, usage: "take settings from a JSON file; flags win over it",
			set: func(*request, value) error { return nil }, // read before all others
		},
		{
			name: "result", arg: "FILE|FD", runOnly: true, usage: "write the result record, refusals included, to a file or an open descriptor",
			allowed: "a path, or the number of a descriptor from 3 that is open for writing",
			set: func(r *request, v value) error {
				text, path, err := sinkPath(v)
				if err != nil {
					return err
				}
				r.resultTo = text
				r.result, err = hostfile.OpenRecord(text, path)
				return err
			},
		},
		{
			name: "events", arg: "FILE|FD", runOnly: true, usage: "append audit records, one JSON line each, to a file or an open descriptor",
			allowed: "a path, or the number of a descriptor from 3 that is open for writing",
			set: func(r *request, v value) error {
				text, path, err := sinkPath(v)
				if err != nil {
					return err
				}
				r.eventsTo = text
				if text == r.resultTo {
					return values.Bad(values.Quote(v.text) + " is where --result goes")
				}
				r.events, err = hostfile.OpenLines(text, path)
				return err
			},
		},
		pairOption("label", "NAME=VALUE", "your own word in the audit records", &p.Labels, "NAME=VALUE", ""),
		{
			name: "state-dir", arg: "DIR", usage: "folder for the record of running sandboxes (default /run/sbxrun for root)",
			allowed: "a path",
			set: func(r *request, v value) error {
				if v.text == "" {
					return values.Bad("the value is empty")
				}
				if err := values.NoNUL(v.text); err != nil {
					return err
				}
				dir, err := v.hostPath(v.text)
				if err == nil {
					r.stateDir = dir
				}
				return err
			},
			show: func(r *request) []string {
				if r.stateDir == "" {
					return nil
				}
				return []string{r.stateDir}
			},
		},
	}
}

// sinkPath returns the sink as text that is equal for equal sinks, and the path
// where it is a file.
func sinkPath(v value) (text, path string, err error) {
	if v.text == "" {
		return "", "", values.Bad("the value is empty")
	}
	if fd, ok := hostfile.FD(v.text); ok {
		return strconv.Itoa(fd), "", nil // "03" is 3
	}
	path, err = v.hostPath(v.text)
	return path, path, err
}
