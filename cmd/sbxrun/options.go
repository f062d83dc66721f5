package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/values"
	"github.com/sbxrun/sbxrun/runtime"
)

// options returns all options with the defaults of the request.
func options(r *request) []*option {
	var all []*option
	all = append(all, fileOptions()...)
	all = append(all, limitOptions(&r.policy)...)
	all = append(all, programOptions(&r.policy)...)
	all = append(all, channelOptions(&r.policy)...)
	all = append(all, recordOptions(&r.policy)...)
	for _, o := range all {
		if o.def == "" && o.show != nil && !o.many {
			if texts := o.show(r); len(texts) == 1 {
				o.def = texts[0]
			}
		}
	}
	return all
}

// limitOptions are the limits. None has a value for "unlimited".
func limitOptions(p *runtime.Policy) []*option {
	return []*option{
		memoryOption(p),
		{
			name: "cpus", arg: "N", usage: "processors' worth of CPU time",
			allowed: fmt.Sprintf("%v to %d, such as 1 or 0.5", leastCPUs, mostCPUs),
			set: func(_ *request, v value) (err error) {
				p.Limits.CPUs, err = read(p.Limits.CPUs)(values.Share(v.text, leastCPUs, mostCPUs))
				return err
			},
			show: func(*request) []string { return []string{strconv.FormatFloat(p.Limits.CPUs, 'f', -1, 64)} },
		},
		countOption("pids", "processes and threads", &p.Limits.Pids, leastPids, mostPids, "64"),
		durationOption("timeout", "wall-clock time of the program", &p.Limits.Timeout, "30s"),
		sizeOption("workspace-size", "bytes in /workspace, which live in memory",
			&p.Limits.WorkspaceBytes, leastDisk, mostDisk, "64M"),
		sizeOption("tmp-size", "bytes in /tmp, which live in memory",
			&p.Limits.TmpBytes, leastDisk, mostDisk, "16M"),
		sizeOption("output-limit", "bytes of standard output and of standard error, each",
			&p.Limits.OutputBytes, leastOutput, mostOutput, "1M"),
		wordOption("output-overflow", "past --output-limit: drop the rest, or end the run",
			(*string)(&p.Limits.OutputOverflow), string(runtime.OverflowDiscard), string(runtime.OverflowStop)),
		countOption("open-files", "open files of each process", &p.Limits.OpenFiles, leastOpenFiles, mostOpenFiles, "256"),
	}
}

// memoryOption also scales the default sizes of the file systems, which live in
// that memory, so that a small sandbox needs one number. It stands before the
// options that set those sizes.
func memoryOption(p *runtime.Policy) *option {
	var bytes int64
	o := sizeOption("memory", "memory of all processes, page cache and file systems together",
		&bytes, leastMemory, mostMemory, "256M")
	set := o.set
	o.set = func(r *request, v value) error {
		err := set(r, v)
		if err == nil {
			p.Limits.SetMemory(bytes)
		}
		return err
	}
	o.show = func(*request) []string { return []string{values.FormatSize(p.Limits.Memory)} }
	return o
}

// read keeps the old value where a new one could not be read.
func read[T any](old T) func(T, error) (T, error) {
	return func(v T, err error) (T, error) {
		if err != nil {
			return old, err
		}
		return v, nil
	}
}

func sizeOption(name, usage string, to *int64, least, most int64, example string) *option {
	return &option{
		name: name, arg: "SIZE", usage: usage,
		allowed: values.FormatSize(least) + " to " + values.FormatSize(most) + ", such as " + example,
		set: func(_ *request, v value) (err error) {
			*to, err = read(*to)(values.Size(v.text, least, most))
			return err
		},
		show: func(*request) []string { return []string{values.FormatSize(*to)} },
	}
}

func countOption(name, usage string, to *int64, least, most int64, example string) *option {
	return &option{
		name: name, arg: "N", usage: usage,
		allowed: strconv.FormatInt(least, 10) + " to " + strconv.FormatInt(most, 10) + ", such as " + example,
		set: func(_ *request, v value) (err error) {
			*to, err = read(*to)(values.Count(v.text, least, most))
			return err
		},
		show: func(*request) []string { return []string{strconv.FormatInt(*to, 10)} },
	}
}

func durationOption(name, usage string, to *time.Duration, example string) *option {
	return &option{
		name: name, arg: "TIME", usage: usage,
		allowed: values.FormatDuration(leastTime) + " to " + values.FormatDuration(mostTime) +
			" with a unit (ms, s, m, h), such as " + example,
		set: func(_ *request, v value) (err error) {
			*to, err = read(*to)(values.Duration(v.text, leastTime, mostTime))
			return err
		},
		show: func(*request) []string { return []string{values.FormatDuration(*to)} },
	}
}

// wordOption takes one of a few words.
func wordOption(name, usage string, to *string, words ...string) *option {
	return &option{
		name: name, arg: strings.Join(words, "|"), usage: usage, allowed: strings.Join(words, ", "),
		set: func(_ *request, v value) error {
			for _, w := range words {
				if v.text == w {
					*to = w
					return nil
				}
			}
			return notOneOf(v.text)
		},
		show: func(*request) []string { return []string{*to} },
	}
}

func notOneOf(text string) error {
	if text == "" {
		return values.Bad("the value is empty")
	}
	return values.Bad(values.Quote(text) + " is not known")
}
