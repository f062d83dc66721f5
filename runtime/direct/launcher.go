// Package direct is sbxrun's own engine: a tiny static launcher in a sealed
// memfd that forks each sandbox and executes its plan. The protocol between the
// two is drawn in launcher/launcher.h.
//
// The package needs no cgo, no re-exec of the embedding program and no hook in
// it. One [Launcher] serves all sandboxes of a host; the cost of a sandbox does
// not depend on the host program's size.
package direct

//go:generate ./launcher/build.sh

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
	"github.com/sbxrun/sbxrun/runtime/plan"
)

const (
	// setupTimeout bounds template building and the set-up of one sandbox. Both
	// take a few milliseconds; a machine under heavy load may need a thousand
	// times that.
	setupTimeout = 30 * time.Second
	// maxSlots is the launcher's MAX_SLOTS: root configurations kept ready.
	maxSlots = 64
	// maxFDs is the launcher's MAX_FDS.
	maxFDs = 200

	requestSize = 24
	reportSize  = 24
)

type requestType uint32

const (
	reqTemplate requestType = 1
	reqLaunch   requestType = 2
	reqDrop     requestType = 3
	reqSpare    requestType = 4
	reqRun      requestType = 5
)

type reportType uint32

const (
	repLaunched reportType = 1
	repReady    reportType = 2
	repStarted  reportType = 3
	repFailed   reportType = 4
	repExit     reportType = 5
)

// report is the launcher's struct report.
type report struct {
	kind     reportType
	step     uint32
	op       plan.Op
	value    int32
	exported uint32
	phase    uint32
}

// Launcher is the helper process. It is safe for concurrent use.
type Launcher struct {
	rootless bool
	refill   bool // keep a network namespace ready for the next sandbox

	mu    sync.Mutex
	done  bool     // closed: no process is started any more
	ctl   *os.File // nil while there is no process
	pid   int
	slots map[[sha256.Size]byte]*slot
	clock uint64 // orders the use of slots
}

type slot struct {
	index    uint32
	lastUsed uint64
}

// New returns a launcher, which starts its process when it is needed or
// [Launcher.Spawn] is called. Without root it works in a user namespace of its
// own (rootless). A launcher that will serve one sandbox only (oneShot) keeps
// nothing ready for a next one.
func New(oneShot bool) (*Launcher, error) {
	if len(launcherImage) == 0 {
		return nil, &errdef.Error{Code: errdef.Unsupported, Op: "launcher",
			Msg: "the direct engine supports x86-64 and arm64 only"}
	}
	return &Launcher{rootless: os.Geteuid() != 0, refill: !oneShot}, nil
}

// Spawn starts the process ahead of its first request.
func (l *Launcher) Spawn() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctl != nil {
		return nil
	}
	return l.spawn()
}

// Load builds a template ahead of the first sandbox that uses it.
func (l *Launcher) Load(t *plan.Shared) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retry(func() error {
		_, err := l.template(t)
		return err
	})
}

// Rootless reports whether the launcher works without privilege.
func (l *Launcher) Rootless() bool { return l.rootless }

// spawn starts the process; l.mu is held.
func (l *Launcher) spawn() error {
	fail := func(err error) error {
		return &errdef.Error{Code: errdef.Setup, Op: "launcher", Msg: "cannot start", Err: err,
			Hint: "sbxrun needs /proc mounted and memfd_create(2) with execution allowed (sysctl vm.memfd_noexec=0)"}
	}
	if l.done {
		return &errdef.Error{Code: errdef.State, Op: "launcher", Msg: "the launcher is closed"}
	}
	binary, err := image()
	if err != nil {
		return fail(err)
	}
	exe, err := sys.Memfd("sbxrun-launcher", binary, true)
	if err != nil {
		return fail(err)
	}
	null, err := sys.OpenNull()
	if err != nil {
		sys.CloseAll([]int{exe})
		return fail(err)
	}
	ctl, far, err := sys.SeqpacketPair("launcher")
	if err != nil {
		sys.CloseAll([]int{exe, null})
		return fail(err)
	}
	argv := []string{"sbxrun-launcher"}
	if l.rootless {
		argv = append(argv, strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid()))
	}
	pid, err := sys.SpawnLauncher(exe, far, null, argv)
	sys.CloseAll([]int{exe, null, far})
	if err != nil {
		ctl.Close()
		return fail(err)
	}
	l.ctl, l.pid, l.slots = ctl, pid, map[[sha256.Size]byte]*slot{}
	// While the host prepares the first sandbox, the launcher makes its network
	// namespace. A launcher that is dead already shows at the next request.
	_ = l.write(reqSpare, 0, 0, nil)
	return nil
}

// Close ends the launcher and with it every sandbox that still runs.
func (l *Launcher) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
	return l.stop()
}

func (l *Launcher) stop() error {
	if l.ctl == nil {
		return nil
	}
	l.ctl.Close()
	l.ctl = nil
	_, err := sys.Reap(l.pid)
	return err
}

// Request is one sandbox to prepare. The descriptors stay the caller's.
type Request struct {
	Template *plan.Shared
	Plan     *plan.Shared // the first plan, see [plan.Prepare]
	// CgroupFD is the cgroup v2 directory to be born into, -1 for none; JoinFDs
	// are cgroup v1 files to enter.
	CgroupFD int
	JoinFDs  []int
}

// Prepare builds a sandbox as far as no single run is concerned. It returns
// when that is under way; a failure shows when the sandbox is started. The
// caller must Start or Discard it.
func (l *Launcher) Prepare(r Request) (*Process, error) {
	planFD, err := sys.Memfd("sbxrun-plan", r.Plan.Data, false)
	if err != nil {
		return nil, setupErr(err)
	}
	near, far, err := sys.SeqpacketPair("sandbox")
	if err != nil {
		sys.CloseAll([]int{planFD})
		return nil, setupErr(err)
	}
	fds := append(make([]int, 0, 8), far, planFD)
	cgroup := uint32(0)
	if r.CgroupFD >= 0 {
		fds = append(fds, r.CgroupFD)
		cgroup = uint32(len(fds))
	}
	err = l.send(r.Template, cgroup, append(fds, r.JoinFDs...))
	sys.CloseAll([]int{far, planFD})
	if err != nil {
		near.Close()
		return nil, err
	}
	return &Process{sock: near, plans: [2]*plan.Plan{r.Plan.Plan}}, nil
}

// send makes sure of the template and sends the launch request.
func (l *Launcher) send(template *plan.Shared, cgroup uint32, fds []int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retry(func() error {
		index, err := l.template(template)
		if err != nil {
			return err
		}
		return l.write(reqLaunch, index, cgroup, fds)
	})
}

// retry replaces a launcher that has died, once; l.mu is held.
func (l *Launcher) retry(f func() error) error {
	var err error
	for range 2 {
		if l.ctl == nil {
			if err = l.spawn(); err != nil {
				return err
			}
		}
		if err = f(); !launcherGone(err) {
			return err
		}
		l.stop()
	}
	return err
}

func launcherGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

func (l *Launcher) write(kind requestType, slot, cgroup uint32, fds []int) error {
	spare := uint32(0)
	if kind == reqSpare || (kind == reqLaunch && l.refill) {
		spare = 1
	}
	return sendRequest(l.ctl, fds, uint32(kind), slot, cgroup, uint32(len(fds)), spare, 0)
}

func sendRequest(sock *os.File, fds []int, words ...uint32) error {
	b := make([]byte, 0, requestSize)
	for _, v := range words {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	if err := sys.SendFDs(sock, b, fds); err != nil {
		return setupErr(err)
	}
	return nil
}

// template returns the slot of a template, built on first use; l.mu is held.
func (l *Launcher) template(t *plan.Shared) (uint32, error) {
	l.clock++
	if s := l.slots[t.Key]; s != nil {
		s.lastUsed = l.clock
		return s.index, nil
	}
	index, err := l.freeSlot()
	if err != nil {
		return 0, err
	}
	planFD, err := sys.Memfd("sbxrun-template", t.Data, false)
	if err != nil {
		return 0, setupErr(err)
	}
	near, far, err := sys.SeqpacketPair("template")
	if err != nil {
		sys.CloseAll([]int{planFD})
		return 0, setupErr(err)
	}
	defer near.Close()
	err = l.write(reqTemplate, index, 0, []int{far, planFD})
	sys.CloseAll([]int{far, planFD})
	if err != nil {
		return 0, err
	}
	near.SetReadDeadline(time.Now().Add(setupTimeout))
	rep, fds, err := recvReport(near)
	sys.CloseAll(fds)
	if err != nil {
		return 0, setupErr(err)
	}
	if rep.kind != repReady {
		return 0, stepError(t.Plan, rep)
	}
	l.slots[t.Key] = &slot{index: index, lastUsed: l.clock}
	return index, nil
}

// freeSlot returns an unused slot, dropping the least recently used template
// when all are taken.
func (l *Launcher) freeSlot() (uint32, error) {
	if n := len(l.slots); n < maxSlots {
		used := make([]bool, maxSlots)
		for _, s := range l.slots {
			used[s.index] = true
		}
		for i, u := range used {
			if !u {
				return uint32(i), nil
			}
		}
	}
	var oldest [sha256.Size]byte
	var victim *slot
	for k, s := range l.slots {
		if victim == nil || s.lastUsed < victim.lastUsed {
			oldest, victim = k, s
		}
	}
	delete(l.slots, oldest)
	return victim.index, l.write(reqDrop, victim.index, 0, nil)
}

func recvReport(sock *os.File) (report, []int, error) {
	var b [reportSize + 1]byte
	n, fds, err := sys.RecvFDs(sock, b[:])
	if err != nil {
		return report{}, nil, err
	}
	if n != reportSize {
		sys.CloseAll(fds)
		return report{}, nil, fmt.Errorf("launcher sent %d bytes, expected %d", n, reportSize)
	}
	le := binary.LittleEndian
	return report{reportType(le.Uint32(b[0:])), le.Uint32(b[4:]), plan.Op(le.Uint32(b[8:])),
		int32(le.Uint32(b[12:])), le.Uint32(b[16:]), le.Uint32(b[20:])}, fds, nil
}

func setupErr(err error) error {
	code := errdef.Setup
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		code = errdef.Resource
	}
	return &errdef.Error{Code: code, Op: "launch", Msg: "cannot launch the sandbox", Err: err}
}
