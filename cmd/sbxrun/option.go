package main

import (
	"errors"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/values"
	"github.com/sbxrun/sbxrun/errdef"
)

// option is one setting of a run. The same table serves the flags, the keys of
// a profile, the help, the man page's test and `explain`, so that none of them
// can know a setting that another does not.
type option struct {
	name string // the flag without "--", and the profile's key
	arg  string // the placeholder in the help; "" for a switch
	// usage is the help's one line.
	usage string
	// def is the default as the flag would be written, "" where there is none.
	def string
	// many says that the option may be given more than once; each of its values
	// has a key (a variable's name, a path), and one key is given once.
	many bool
	// object says that a profile writes the values as {"KEY": "VALUE"}.
	object bool
	// runOnly says that the option belongs to one run and not to a profile.
	runOnly bool
	// allowed describes the values that are accepted, for errors.
	allowed string
	// hint says how to mend a wrong value, where allowed does not.
	hint string
	// set checks one value and puts it into the request.
	set func(*request, value) error
	// show returns the effective values for `explain`, as they would be written;
	// nil where the option has no effect of its own.
	show func(*request) []string
}

// value is one text given for an option.
type value struct {
	text string
	// origin names where it was given: "--memory", or "p.json: memory".
	origin string
	// base is the folder that relative host paths start from; "" is the working
	// directory.
	base string
	// profile says that it came from a profile.
	profile bool
}

// hostPath returns the path on the host that p means in this value.
func (v value) hostPath(p string) (string, error) {
	if v.base != "" && !filepath.IsAbs(p) {
		p = filepath.Join(v.base, p)
	}
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", &errdef.Error{Code: errdef.Invalid, Msg: "the working directory is gone", Err: err,
			Hint: "give an absolute path"}
	}
	return abs, nil
}

// apply sets the value and words its error: which option, what is wrong, what
// is allowed.
func (o *option) apply(r *request, v value) error {
	err := o.set(r, v)
	if err == nil {
		return nil
	}
	var bad values.Bad
	if errors.As(err, &bad) {
		e := errdef.Field(v.origin, bad.Error(), o.allowed)
		e.Hint = o.hint
		return e
	}
	var typed *errdef.Error
	if errors.As(err, &typed) {
		e := *typed
		if e.Path != "" {
			e.Path = v.origin + ": " + e.Path
		} else {
			e.Path = v.origin
		}
		if e.Hint == "" {
			e.Hint = o.hint
		}
		return &e
	}
	return &errdef.Error{Code: errdef.Invalid, Path: v.origin, Err: err, Hint: o.hint}
}

// given holds the raw texts of the command line by option. Nothing is checked
// while the command line is read, so that --result is known before the first
// refusal, wherever it stands.
type given map[string][]string

// addFlags makes a flag of every option.
func (g given) addFlags(flags *pflag.FlagSet, options []*option) {
	flags.SortFlags = false
	for _, o := range options {
		f := flags.VarPF(&rawFlag{option: o, given: g}, o.name, "", o.usage)
		if o.arg == "" {
			f.NoOptDefVal = "true"
		}
	}
}

// rawFlag collects the texts given for one flag.
type rawFlag struct {
	option *option
	given  given
}

// Set keeps the text; a flag that is no list keeps its last one.
func (f *rawFlag) Set(text string) error {
	if !f.option.many {
		f.given[f.option.name] = nil
	}
	f.given[f.option.name] = append(f.given[f.option.name], text)
	return nil
}

// String returns the default for the help.
func (f *rawFlag) String() string {
	if f.option == nil {
		return ""
	}
	return f.option.def
}

// Type returns the placeholder for the help.
func (f *rawFlag) Type() string {
	if f.option.arg == "" {
		return "bool"
	}
	return f.option.arg
}
