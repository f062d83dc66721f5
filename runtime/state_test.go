package runtime

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/errdef"
)

// privateDir is a state directory of the test's own.
func privateDir(t testing.TB) string {
	t.Helper()
	dir, err := stateDir(Options{StateDir: filepath.Join(t.TempDir(), "state")})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func mustClaim(t testing.TB, dir string) *supervisor {
	t.Helper()
	s, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	// What a "crashed" one leaves in the machine's own directory is given back.
	t.Cleanup(func() {
		if os.Geteuid() == 0 {
			reapClaims(detect(t), -1)
		}
	})
	return s
}

// crash is what the death of a supervisor does: the lock goes, the names stay.
func (s *supervisor) crash() {
	for _, f := range s.files {
		f.Close()
	}
}

func detect(t testing.TB) *cgroups.Layout {
	t.Helper()
	l, err := cgroups.Detect()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestClaimAndRelease(t *testing.T) {
	dir := privateDir(t)
	s := mustClaim(t, dir)
	if got := names(t, dir); len(got) != 1 { // the claim on ids is in the machine's directory
		t.Errorf("names: %v", got)
	}
	data, err := os.ReadFile(filepath.Join(dir, s.id+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil || r != (record{1, s.id, os.Getpid(), s.firstID}) {
		t.Errorf("record %s: %v", data, err)
	}
	if (s.firstID-idBase)%idBlock != 0 || s.firstID < idBase || uint64(s.firstID)+idBlock > 0x7fff0000 {
		t.Errorf("block %#x", s.firstID)
	}
	if err := s.release(); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestConcurrentClaimsAreUnique(t *testing.T) {
	dir := privateDir(t)
	const n = 100
	all := make([]*supervisor, n)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			s, err := claim(dir)
			if err != nil {
				t.Error(err)
				return
			}
			all[i] = s
		})
	}
	wg.Wait()
	ids, blocks := map[string]bool{}, map[uint32]bool{}
	for _, s := range all {
		if s == nil {
			t.FailNow()
		}
		ids[s.id], blocks[s.firstID] = true, true
	}
	if len(ids) != n || len(blocks) != n {
		t.Errorf("%d ids, %d blocks", len(ids), len(blocks))
	}
	// A reaper beside them takes nothing away.
	if done, err := reap(dir, detect(t), -1); err != nil || len(done) != 0 {
		t.Errorf("reaped %v, %v", done, err)
	}
	for _, s := range all {
		if err := s.release(); err != nil {
			t.Error(err)
		}
	}
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A record cut at every length, or scribbled over, hides no live supervisor and
// revives no dead one: the lock alone counts.
func TestDamagedRecords(t *testing.T) {
	dir, layout := privateDir(t), detect(t)
	live := mustClaim(t, dir)
	defer live.release()
	path := filepath.Join(dir, live.id+".json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	contents := [][]byte{nil, []byte("{"), []byte("null"), []byte(`{"pid":1}`), []byte(`{"pid":-1,"supervisor":"../../x"}`), make([]byte, 1<<16)}
	for n := range data {
		contents = append(contents, data[:n])
	}
	for _, c := range contents {
		if err := os.WriteFile(path, c, 0o600); err != nil {
			t.Fatal(err)
		}
		dead := mustClaim(t, dir)
		if err := os.WriteFile(filepath.Join(dir, dead.id+".json"), c, 0o600); err != nil {
			t.Fatal(err)
		}
		dead.crash()
		done, err := reap(dir, layout, -1)
		if err != nil || len(done) != 1 || done[0].Supervisor != dead.id {
			t.Fatalf("record %.30q: reaped %v, %v", c, done, err)
		}
		if got := names(t, dir); len(got) != 1 { // the claim on ids is in the machine's directory
			t.Fatalf("record %.30q: %v", c, got)
		}
	}
}

func TestReapTakesAllOfTheDead(t *testing.T) {
	dir, layout := privateDir(t), detect(t)
	before := names(t, dir)
	for range 5 {
		mustClaim(t, dir).crash()
	}
	if err := os.WriteFile(filepath.Join(dir, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if done, err := reap(dir, layout, 2); err != nil || len(done) != 2 {
		t.Errorf("at most two: %v, %v", done, err)
	}
	done, err := reap(dir, layout, -1)
	if err != nil || len(done) != 3 {
		t.Errorf("the rest: %v, %v", done, err)
	}
	if got := names(t, dir); len(got) != len(before)+1 || got[0] != "README" {
		t.Errorf("left: %v", got)
	}
	if done, err := reap(dir, layout, -1); err != nil || len(done) != 0 {
		t.Errorf("once more: %v, %v", done, err)
	}
}

func TestConcurrentReapers(t *testing.T) {
	dir, layout := privateDir(t), detect(t)
	for range 30 {
		mustClaim(t, dir).crash()
	}
	var mu sync.Mutex
	total := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			done, err := reap(dir, layout, -1)
			mu.Lock()
			defer mu.Unlock()
			total += len(done)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if left := names(t, dir); len(left) != 0 || total < 30 {
		t.Errorf("reaped %d, left %v", total, left)
	}
}

// What a hostile neighbour might put into the directory is not followed and
// blocks nobody.
func TestReapMeetsOddFiles(t *testing.T) {
	dir, layout := privateDir(t), detect(t)
	target := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(target, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, "ids-1")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "ids-2"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, dir).crash()
	done, err := reap(dir, layout, -1)
	if len(done) != 1 {
		t.Errorf("reaped %v, %v", done, err)
	}
	if _, err := os.Stat(target); err != nil {
		t.Errorf("the link's target is gone: %v", err)
	}
}

func TestStateDirRefusals(t *testing.T) {
	base := t.TempDir()
	mk := func(name string, mode os.FileMode) string {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, ok := range map[string]bool{
		mk("private", 0o700): true, mk("readable", 0o755): true, mk("group", 0o770): false, mk("sticky", 0o777|os.ModeSticky): false,
	} {
		_, err := stateDir(Options{StateDir: name})
		if ok && err != nil || !ok && !(errdef.Is(err, errdef.Permission) && errdef.HintOf(err) != "") {
			t.Errorf("%s: %v", name, err)
		}
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(filepath.Join(base, "private"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := stateDir(Options{StateDir: link}); !errdef.Is(err, errdef.Permission) {
		t.Errorf("link: %v", err)
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := stateDir(Options{StateDir: file}); err == nil {
		t.Error("a file is taken for a directory")
	}
	if os.Geteuid() == 0 {
		foreign := mk("foreign", 0o700)
		if err := os.Chown(foreign, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if _, err := stateDir(Options{StateDir: foreign}); !errdef.Is(err, errdef.Permission) {
			t.Errorf("foreign: %v", err)
		}
	}
}

func TestIDPool(t *testing.T) {
	var p idPool
	seen := map[uint32]bool{}
	for range idBlock / idsPerSandbox {
		n, err := p.take()
		if err != nil || seen[n] {
			t.Fatalf("%d: %v", n, err)
		}
		seen[n] = true
	}
	if _, err := p.take(); !errdef.Is(err, errdef.Resource) {
		t.Errorf("empty: %v", err)
	}
	p.free = append(p.free, 7, 9)
	if n, err := p.take(); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestNewIDs(t *testing.T) {
	a, b := newID(), newID()
	if a == b || len(a) != 32 || strings.Trim(a, "0123456789abcdef") != "" {
		t.Error(a, b)
	}
}
