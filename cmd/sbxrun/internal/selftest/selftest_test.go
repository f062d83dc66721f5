package selftest

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/probe"
)

// TestEachAttemptIsJudged holds the probe's list and the judge's together.
func TestEachAttemptIsJudged(t *testing.T) {
	judged := map[string]bool{"tool-call": true} // the host's ids are seen by the host alone
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

// TestOutsideIDs: the host's own look at its processes, and what is expected of
// root and of others.
func TestOutsideIDs(t *testing.T) {
	o := &outside{config: "/workspace/sbxrun-probe-TEST"}
	cmd := exec.Command("sh", "-c", "read x", o.config)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	for end := time.Now().Add(5 * time.Second); len(o.uids) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		o.look()
	}
	uid, gid := os.Getuid(), os.Getgid()
	for _, v := range o.verdicts(uid, gid) {
		// A program with root's own ids is what must never be.
		if accepts(v.Expected, v.Got) != (uid != 0) {
			t.Errorf("%+v", v)
		}
	}
	for _, c := range []struct {
		ids    string
		caller int
		ok     bool
	}{
		{"1879048192", 0, true}, {"0", 0, false}, {"1879048192 0", 0, false}, {"", 0, false},
		{"1000", 1000, true}, {"0", 1000, false}, {"1000 0", 1000, false}, {"1001", 1000, false}, {"", 1000, false},
	} {
		ids := strings.Fields(c.ids)
		for _, v := range (&outside{uids: ids, gids: ids}).verdicts(c.caller, c.caller) {
			if accepts(v.Expected, v.Got) != c.ok {
				t.Errorf("ids %q of caller %d: %+v", c.ids, c.caller, v)
			}
		}
	}
}

func TestExpectationsWithoutRoot(t *testing.T) {
	for name := range rootless {
		i := slices.IndexFunc(escapes[:], func(e expectation) bool { return e.name == name })
		if i < 0 {
			t.Errorf("nobody tries %s", name)
			continue
		}
		e := escapes[i]
		if e.of(0) != e.expected || e.of(1000) == e.expected {
			t.Errorf("%s: %q as root, %q else", name, e.of(0), e.of(1000))
		}
	}
	for _, e := range escapes {
		if rootless[e.name] == "" && e.of(1000) != e.expected {
			t.Errorf("%s: %q without root", e.name, e.of(1000))
		}
	}
}
