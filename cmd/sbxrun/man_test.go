package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

const manPage = "../../docs/man/sbxrun.1"

// TestManPageHasTheFlags holds that the manual page documents each flag of each
// command and no other.
func TestManPageHasTheFlags(t *testing.T) {
	page := readFile(t, manPage)
	flags := map[string]bool{"help": true}
	for _, c := range append((&app{}).rootCommand().Commands(), (&app{}).rootCommand()) {
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	}
	inPage := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)\bFl -([a-z][a-z-]*)`).FindAllStringSubmatch(page, -1) {
		inPage[m[1]] = true
		if !flags[m[1]] {
			t.Errorf("the page has --%s, the command has not", m[1])
		}
	}
	for name := range flags {
		if !inPage[name] {
			t.Errorf("the command has --%s, the page has not", name)
		}
	}
}

// TestManPageHasTheDefaults compares the defaults of the options.
func TestManPageHasTheDefaults(t *testing.T) {
	items := map[string]string{}
	for _, part := range strings.Split(readFile(t, manPage), "\n.It Fl -")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		text, _, _ = strings.Cut(text, "\n.El")
		name, _, _ = strings.Cut(name, " ")
		items[name] = text
	}
	for _, o := range options(newRequest(nil)) {
		text, ok := items[o.name]
		if !ok {
			t.Errorf("--%s has no entry", o.name)
			continue
		}
		if o.def != "" && !strings.Contains(text, "\nDefault: "+o.def+".") {
			t.Errorf("the entry of --%s does not end in \"Default: %s.\":\n%s", o.name, o.def, text)
		}
		if o.many && !strings.Contains(text, "May be repeated.") && !strings.Contains(text, "not in this version") && !strings.Contains(text, "Not in this version") {
			t.Errorf("the entry of --%s does not say that it may be repeated", o.name)
		}
	}
}

// TestManPageHasTheCommands holds that each command has an entry.
func TestManPageHasTheCommands(t *testing.T) {
	page := readFile(t, manPage)
	for _, c := range (&app{}).rootCommand().Commands() {
		if !strings.Contains(page, "\n.It Cm "+c.Name()+"\n") {
			t.Errorf("the page has no entry for %q", c.Name())
		}
	}
}

func TestManPageLint(t *testing.T) {
	tool, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("mandoc is not installed")
	}
	out, _ := exec.Command(tool, "-Tlint", manPage).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		// Cross references depend on which other packages have pages here.
		if !strings.Contains(line, "outdated mandoc.db") && !strings.Contains(line, "referenced manual not found") {
			t.Error(strings.TrimSpace(line))
		}
	}
}
