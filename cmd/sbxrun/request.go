package main

import (
	"errors"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/hostfile"
	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/runtime"
)

// request is one run as the command line and the profile describe it.
type request struct {
	policy   runtime.Policy
	stdin    bool
	stateDir string
	seccomp  string
	isolated string

	toolsFile string
	tools     []bridge.Tool // of --tool, in order

	resultTo, eventsTo string // as given, "" without
	result             *hostfile.Record
	events             *hostfile.Lines

	// keys remembers who gave each key of an option that is a list.
	keys map[string]value
}

// newRequest returns the request that no flag and no profile changed.
func newRequest(args []string) *request {
	return &request{
		policy:   runtime.NewPolicy(args...),
		seccomp:  "default",
		isolated: "native",
		keys:     map[string]value{},
	}
}

// claim reports whether the value may set the key of a list option, and
// whether it replaces one of the profile.
func (r *request) claim(option, key string, v value) (replaces bool, err error) {
	id := option + "\x00" + key
	before, given := r.keys[id]
	r.keys[id] = v
	if given && before.profile == v.profile {
		return false, errdef.Field("", quoteValue(key)+" is given twice", "")
	}
	return given, nil
}

// build makes the request of what was given. It returns a request also with an
// error, so that a refusal can be recorded where --result says.
func build(g given, args []string) (*request, error) {
	r := newRequest(args)
	options := options(r)
	// First of all the place of the record: every later refusal goes there.
	if err := applyFlag(r, optionNamed(options, "result"), g); err != nil {
		return r, err
	}
	if err := applyAll(r, options, g); err != nil {
		return r, err
	}
	if err := r.loadTools(); err != nil {
		return r, err
	}
	if r.result != nil && r.result.Path() != "" && r.eventsTo == r.resultTo {
		return r, errdef.Field("--events", "is the same file as --result", "")
	}
	if len(args) == 0 {
		return r, &errdef.Error{Code: errdef.Invalid, Msg: "no program given",
			Hint: `write it after "--": sbxrun do -- CMD [ARG...]`}
	}
	return r, flagNames(r.policy.Validate())
}

func applyAll(r *request, options []*option, g given) error {
	var prof profile
	if texts := g["profile"]; len(texts) > 0 {
		var err error
		if prof, err = loadProfile(texts[0], options); err != nil {
			return err
		}
	}
	for _, o := range options {
		if o.name == "result" || o.name == "profile" {
			continue
		}
		if o.many || len(g[o.name]) == 0 {
			for _, v := range prof[o.name] {
				if err := o.apply(r, v); err != nil {
					return err
				}
			}
		}
		if err := applyFlag(r, o, g); err != nil {
			return err
		}
	}
	return nil
}

func applyFlag(r *request, o *option, g given) error {
	for _, text := range g[o.name] {
		if err := o.apply(r, value{text: text, origin: "--" + o.name}); err != nil {
			return err
		}
	}
	return nil
}

func optionNamed(options []*option, name string) *option {
	for _, o := range options {
		if o.name == name {
			return o
		}
	}
	return nil
}

// loadTools joins the tools of the file and those of --tool.
func (r *request) loadTools() error {
	var tools []bridge.Tool
	if r.toolsFile != "" {
		set, err := bridge.LoadToolsFile(r.toolsFile)
		if err != nil {
			return prefixed("--tools", err)
		}
		tools = append(tools, set.Tools()...)
	}
	tools = append(tools, r.tools...)
	if r.toolsFile == "" && len(tools) == 0 {
		return nil
	}
	set, err := bridge.NewSet(tools)
	if err != nil {
		return prefixed("--tool", err)
	}
	r.policy.Bridge.Tools = set
	return nil
}

// prefixed names the flag that an error of another package belongs to.
func prefixed(flag string, err error) error {
	e := &errdef.Error{Code: errdef.Invalid, Op: "tools", Path: flag, Err: err, Hint: errdef.HintOf(err)}
	var typed *errdef.Error
	if errors.As(err, &typed) {
		e.Code = typed.Code
	}
	return e
}

// discard releases what the request opened and did not use.
func (r *request) discard() {
	if r.result != nil {
		r.result.Discard()
	}
	if r.events != nil {
		_ = r.events.Close() // nothing is buffered
	}
}
