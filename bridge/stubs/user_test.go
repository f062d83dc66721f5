package stubs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sbxrun/sbxrun/bridge"
)

// programUID is a user that is nobody else.
const programUID = 54321

// The program is another user than the host, and the directories have the modes
// that a sandbox has: it can list neither, and every call works.
func TestPythonAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("requires root")
		}
		t.Skip("requires root")
	}
	s := serve(t, bridge.Config{MaxCalls: 1000, UID: programUID}, echo())
	for path, mode := range map[string]os.FileMode{
		filepath.Dir(s.dir): 0o755, s.dir: 0o755,
		filepath.Join(s.dir, "req"): os.ModeSticky | 0o733, filepath.Join(s.dir, "resp"): 0o711,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	s.wants(`
import os, threading
from sbx_tools import *
import sbx_tools
os.setgid(54321); os.setuid(54321); os.umask(0o077)
for d in ("req", "resp"):
    try: os.listdir(sbx_tools._BRIDGE + "/" + d)
    except PermissionError: print("not listable")
assert all(echo(i) == i for i in range(50))
ts = [threading.Thread(target=lambda: [echo(i) for i in range(20)]) for _ in range(8)]
for t in ts: t.start()
for t in ts: t.join()
print(len(sbx_tools._slots) >= 1, len(list_tools()))
set_result("mine")`, "not listable\nnot listable\nTrue 1")
	if got, err := s.srv.Result(); string(got) != `"mine"` || err != nil {
		t.Errorf("%s %v", got, err)
	}
}
