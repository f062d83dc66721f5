package runtime

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// 100 goroutines launch at once; each gets its own sandbox and its own output.
func TestManyAtOnce(t *testing.T) {
	h := testHost(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for i := range 100 {
		wg.Go(func() {
			p := NewPolicy("bash", "-c", fmt.Sprintf("echo %d > f; cat f; id -u", i))
			p.Limits.Timeout = 2 * time.Minute
			r := runOn(t, h, p, RunOptions{})
			if r.Out != fmt.Sprintf("%d\n1000\n", i) || r.ExitStatus() != 0 {
				t.Errorf("%d: %v", i, r)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[r.ID] = true
		})
	}
	wg.Wait()
	if len(ids) != 100 {
		t.Errorf("%d ids", len(ids))
	}
}

// Two hosts in one process are apart: ids, cgroups, launchers.
func TestTwoHosts(t *testing.T) {
	a, b := ownHost(t), ownHost(t)
	for _, h := range []*Host{a, b, a} {
		if r := runOn(t, h, NewPolicy("echo", "x"), RunOptions{}).ok(t); r.Out != "x\n" {
			t.Errorf("%v", r)
		}
	}
	if a.self.id == b.self.id {
		t.Error("one id")
	}
}

// Identities, root file systems and binds in turn: more than the launcher keeps.
func TestManyTemplates(t *testing.T) {
	h := ownHost(t)
	for round := range 2 {
		for i := range 80 {
			p := NewPolicy("id", "-u")
			p.UID = uint32(2000 + i)
			if r := runOn(t, h, p, RunOptions{}); r.Out != fmt.Sprintln(2000+i) {
				t.Errorf("round %d, %d: %v", round, i, r)
			}
		}
	}
}
