package runtime

import (
	"crypto/sha256"
	"sync"

	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/runtime/plan"
)

// prepared is a sandbox that is built but for its program: its cgroup, its
// namespaces and its mounts.
type prepared struct {
	id    string
	kind  sandboxKind
	group *cgroups.Group
	proc  Process
	// waited tells that it was not made for the run that uses it.
	waited bool
}

// sandboxKind is what a prepared sandbox was built from; a run can use one of
// exactly its own kind.
type sandboxKind struct {
	template, plan [sha256.Size]byte
	limits         cgroups.Limits
}

// recipe makes sandboxes of one kind.
type recipe struct {
	kind     sandboxKind
	template *plan.Shared
	plan     *plan.Shared
}

// prepare builds one.
func (h *Host) prepare(r *recipe, id string) (*prepared, error) {
	p := &prepared{id: id, kind: r.kind}
	var err error
	if !h.layout.MovesCaller() { // the launcher works while the cgroup is made
		var loaded sync.WaitGroup
		loaded.Go(func() { _ = h.engine.Load(r.template) }) // Create says what is wrong
		defer loaded.Wait()
	}
	if p.group, err = h.group(p.id, weakenLimits(r.kind.limits)); err != nil {
		return nil, err
	}
	cgroupFD, _ := p.group.CloneFD()
	p.proc, err = h.engine.Create(CreateRequest{Template: r.template, Plan: r.plan, CgroupFD: cgroupFD, JoinFDs: p.group.JoinFDs()})
	if err != nil {
		p.group.Remove()
		return nil, err
	}
	return p, nil
}

// discard takes it down.
func (p *prepared) discard() {
	p.proc.Discard()
	p.group.Remove()
}

// warmPool keeps prepared sandboxes for the next runs. Each is used once.
type warmPool struct {
	size int

	mu     sync.Mutex
	closed bool
	ready  []*prepared // oldest first
	busy   sync.WaitGroup
}

// take returns a prepared sandbox of the kind, nil without one.
func (w *warmPool) take(kind sandboxKind) *prepared {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, p := range w.ready {
		if p.kind == kind {
			w.ready = append(w.ready[:i], w.ready[i+1:]...)
			return p
		}
	}
	return nil
}

// refill prepares another sandbox of the kind in the background. A failure is
// not reported here: the run that would have used the sandbox builds its own,
// and reports what is wrong.
func (w *warmPool) refill(h *Host, r *recipe) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.size == 0 || w.closed {
		return
	}
	w.busy.Add(1)
	go func() {
		defer w.busy.Done()
		p, err := h.prepare(r, newID())
		if err != nil {
			return
		}
		p.waited = true
		if old := w.put(p); old != nil {
			old.discard()
		}
	}()
}

// put adds p and returns what has no place any more.
func (w *warmPool) put(p *prepared) *prepared {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return p
	}
	w.ready = append(w.ready, p)
	if len(w.ready) <= w.size {
		return nil
	}
	old := w.ready[0]
	w.ready = w.ready[1:]
	return old
}

// close ends the pool and all that waits in it.
func (w *warmPool) close() {
	w.mu.Lock()
	w.closed = true
	ready := w.ready
	w.ready = nil
	w.mu.Unlock()
	w.busy.Wait()
	for _, p := range ready {
		p.discard()
	}
}
