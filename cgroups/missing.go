package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/sbxrun/sbxrun/errdef"
)

// opCgroups is the Op of this package's typed errors.
const opCgroups = "cgroups"

const (
	hintDelegate = "run it in a delegated cgroup: systemd-run --user --scope -p Delegate=yes COMMAND " +
		"(a controller that is still missing there: Delegate=cpu memory pids in a drop-in of user@.service), or run it as root"
	hintChown = "cgroup v1 has no delegation by systemd: as root make a cgroup for this user in every controller " +
		"(memory, cpu, pids, cpuacct), chown the directories to the user and start the command inside them; or run it as root"
	hintContainer = "the cgroup file system is read-only, as in a container: start the container with a writable cgroup " +
		"of its own (podman: --security-opt unmask=/sys/fs/cgroup, Docker: --privileged or a cgroup mount with rw)"
	hintBusy = "start it in a cgroup of its own: systemd-run --scope -p Delegate=yes COMMAND (--user without root); " +
		"in a container move the other processes into a child cgroup first"
	hintSwap = "switch swap off (swapoff -a), or boot with swapaccount=1"
)

// trouble is why a controller cannot be used.
type trouble struct {
	controller string // "" means all of the hierarchy
	what       string
	errno      syscall.Errno
	hint       string
}

// Missing lists what keeps sandboxes from being limited on this host, each
// with a hint; empty means that [Open] can work.
func (l *Layout) Missing() []*errdef.Error { return l.missing }

func (l *Layout) miss(controller string, t trouble) {
	if controller == usageController {
		return // measures only: Stats then has no CPU time
	}
	l.missing = append(l.missing, unenforceable(controller, t))
}

func unenforceable(controller string, t trouble) *errdef.Error {
	return &errdef.Error{
		Code:  errdef.Unsupported,
		Op:    opCgroups,
		Msg:   fmt.Sprintf("%s limit cannot be enforced: cgroup controller %q %s", controller, controller, t.what),
		Errno: t.errno,
		Hint:  t.hint,
	}
}

func hintNoController(m Mode, controller string) string {
	switch m {
	case ModeNone:
		return "mount a cgroup hierarchy: mount -t cgroup2 cgroup2 /sys/fs/cgroup (in a container: start it with one)"
	case ModeV2:
		return fmt.Sprintf("boot a kernel that has the controller, without cgroup_disable=%s, and enable it in "+
			"cgroup.subtree_control of every parent", controller)
	}
	return fmt.Sprintf("mount it: mount -t cgroup -o %s %s /sys/fs/cgroup/%s, or boot with cgroup v2 "+
		"(systemd.unified_cgroup_hierarchy=1)", controller, controller, controller)
}

// notWritable explains a place that is not ours to make groups in.
func notWritable(version int, err error) *trouble {
	t := &trouble{what: "is not delegated to this process", errno: errnoOf(err), hint: hintDelegate}
	switch {
	case t.errno == syscall.EROFS:
		t.hint = hintContainer
	case version == 1:
		t.hint = hintChown
	}
	return t
}

func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	errors.As(err, &e)
	return e
}

// failure types an error of a step in a hierarchy.
func failure(op string, err error) error {
	e := &errdef.Error{Code: errdef.Setup, Op: op, Errno: errnoOf(err), Err: err}
	switch e.Errno {
	case syscall.EEXIST:
		e.Code = errdef.Exists
	case syscall.ENOENT:
		e.Code = errdef.NotFound
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		e.Code = errdef.Permission
	case syscall.ENOMEM, syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN:
		e.Code = errdef.Resource
	}
	return e
}

// swapOff returns an error when swap is in use: asked where the kernel has no
// swap accounting, so that no limit can keep a sandbox out of it.
func (e env) swapOff() error {
	text, err := os.ReadFile(e.proc + "/swaps")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without CONFIG_SWAP
	}
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	if len(strings.Split(strings.TrimSpace(string(text)), "\n")) <= 1 { // the heading
		return nil
	}
	return &errdef.Error{
		Code: errdef.Unsupported, Op: opCgroups, Hint: hintSwap,
		Msg: "memory limit cannot be enforced: the host swaps and its kernel has no swap accounting",
	}
}
