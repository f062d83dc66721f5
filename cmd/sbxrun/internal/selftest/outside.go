package selftest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// outside is the probe as the host sees it. The ids that a program has on the
// host are nothing that it can be trusted to tell, and where the caller is not
// root it cannot know them: it sees those of the launcher's user namespace.
type outside struct {
	config string // the last argument of the probe, which no other process has

	mu         sync.Mutex
	uids, gids []string // of each process found, each once
}

// look reads the ids of the probe's processes. It is called while one waits for
// the tool's answer, so there is one.
func (o *outside) look() {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.HasSuffix(line, []byte("\x00"+o.config+"\x00")) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
		if err != nil {
			continue
		}
		o.mu.Lock()
		o.uids, o.gids = addIDs(o.uids, status, "Uid:"), addIDs(o.gids, status, "Gid:")
		o.mu.Unlock()
	}
}

// addIDs adds the real, effective, saved and file system id of a status file.
func addIDs(to []string, status []byte, line string) []string {
	for l := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(l, line); ok {
			for _, id := range strings.Fields(rest) {
				if !slices.Contains(to, id) {
					to = append(to, id)
				}
			}
		}
	}
	return to
}

// verdicts judges the ids: root's sandboxes have one of their own, which is
// never root's; everybody else's have the caller's.
func (o *outside) verdicts(uid, gid int) []Verdict {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []Verdict
	for _, v := range []struct {
		name  string
		ids   []string
		owner int
	}{{"uid-outside", o.uids, uid}, {"gid-outside", o.gids, gid}} {
		expected, got := strconv.Itoa(v.owner), strings.Join(v.ids, " ")
		if uid == 0 {
			expected = "nonzero"
			if got != "" && !slices.Contains(v.ids, "0") {
				got = "nonzero"
			}
		}
		if got == "" {
			got = missing
		}
		all = append(all, Verdict{Name: v.name, Expected: expected, Got: got})
	}
	return all
}
