package selftest

import (
	"net"
	"testing"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/probe"
)

// TestEachAttemptIsJudged holds the probe's list and the judge's together.
func TestEachAttemptIsJudged(t *testing.T) {
	judged := map[string]bool{"tool-call": true}
	for _, e := range escapes {
		if judged[e.name] {
			t.Errorf("%s is judged twice", e.name)
		}
		judged[e.name] = true
	}
	tried := map[string]bool{}
	for _, name := range probe.Names() {
		if tried[name] {
			t.Errorf("%s is tried twice", name)
		}
		tried[name] = true
		if !judged[name] {
			t.Errorf("nobody judges %s", name)
		}
	}
	for name := range judged {
		if !tried[name] {
			t.Errorf("nobody tries %s", name)
		}
	}
}

func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		expected, got string
		want          bool
	}{
		{"EPERM", "EPERM", true},
		{"EPERM|ENOSYS", "ENOSYS", true},
		{"EPERM", "EPERMX", false},
		{"EPERM", "", false},
		{"EPERM|ENOSYS", "EPERM|ENOSYS", false},
		{probe.None, "ok", false},
	} {
		if got := accepts(c.expected, c.got); got != c.want {
			t.Errorf("accepts(%q, %q) = %t", c.expected, c.got, got)
		}
	}
}

func TestParseTakesNoTwoAnswers(t *testing.T) {
	got := parse([]byte(`{"name":"a","got":"EPERM"}
garbage
{"name":"a","got":"ok"}
{"name":"b","got":"EPERM"}
{"name":"b","got":"EPERM"}
`))
	if got["a"] != "two answers" || got["b"] != "EPERM" || len(got) != 2 {
		t.Errorf("parse = %v", got)
	}
}

// TestCanariesNoticeOthers is the control of all canaries: the host reaches each
// of them, and one connection that is not its own is noticed.
func TestCanariesNoticeOthers(t *testing.T) {
	cs, err := openCanaries()
	if err != nil {
		t.Fatal(err)
	}
	defer cs.close()
	if got := cs.controls(); got != expectReached {
		t.Fatal(got)
	}
	for _, v := range cs.verdicts() {
		if v.Got != v.Expected {
			t.Errorf("%s: %s", v.Name, v.Got)
		}
	}
	for _, c := range cs.all {
		conn, err := net.Dial(c.network, c.address)
		if err != nil {
			t.Fatal(err)
		}
		if c.network == "udp4" {
			if _, err := conn.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
	}
	for _, v := range cs.verdicts()[1:] {
		if v.Got == v.Expected {
			t.Errorf("%s: another connection was not noticed", v.Name)
		}
	}
}
