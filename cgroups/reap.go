package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

const (
	// reapFor bounds a reap: `sbxrun reap` and `delete --force` have deadlines.
	reapFor = 3 * time.Second
	// reapPause is between two rounds of killing on v1.
	reapPause = 2 * time.Millisecond
	// reapDepth bounds the descent: sandboxes have no groups inside, so more
	// than a few levels are not ours.
	reapDepth = 8
)

// Leftovers lists the supervisor ids that have directories at the places of l,
// live or dead: `sbxrun reap` compares them with the supervisors that live.
func Leftovers(l *Layout) ([]string, error) {
	var ids []string
	for _, t := range l.trees {
		base, err := l.env.openBase(t)
		if err != nil {
			return nil, failure("cgroup-open", err)
		}
		names, err := base.Dirs()
		base.Close()
		if err != nil {
			return nil, failure("cgroup-open", err)
		}
		for _, n := range names {
			id, ours := strings.CutPrefix(n, prefix)
			if ours && checkID("supervisor", id) == nil && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Reap removes what a supervisor left: it kills the processes inside its
// directories and removes those bottom-up. It acts only below directories
// named sbxrun-<supervisorID> at the places of l; nothing there is no error.
//
// Preconditions: the owner is dead, which the caller proves (pid and start
// time, or a lock).
//
// It takes 3 s at most and then fails with code state, naming what remains. A
// group that holds the calling process is refused.
func Reap(l *Layout, supervisorID string) error {
	if err := checkID("supervisor", supervisorID); err != nil {
		return err
	}
	var errs []error
	deadline := time.Now().Add(reapFor)
	for _, t := range l.trees {
		errs = append(errs, l.env.reapTree(t, prefix+supervisorID, deadline))
	}
	return errors.Join(errs...)
}

func (e env) reapTree(t tree, name string, deadline time.Time) error {
	base, err := e.openBase(t)
	if err != nil {
		return failure("cgroup-open", err)
	}
	defer base.Close()
	dir, err := base.OpenDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failure("cgroup-open", err)
	}
	defer dir.Close()
	if err := refuseOwn(dir, reapDepth); err != nil {
		return err
	}
	if t.version == 2 {
		if err := dir.Write("cgroup.kill", "1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failure("cgroup-kill", err)
		}
	}
	if err := empty(dir, reapDepth, deadline); err != nil {
		return err
	}
	if err := removeDir(base, name, deadline); err != nil {
		return remains(base, name, err)
	}
	return nil
}

// empty kills and removes everything below d, and kills what is in d itself.
func empty(d *sys.CgroupDir, depth int, deadline time.Time) error {
	names, err := d.Dirs()
	if err != nil {
		return failure("cgroup-open", err)
	}
	for _, n := range names {
		if depth == 0 {
			return remains(d, n, errors.New("nested too deeply"))
		}
		sub, err := d.OpenDir(n)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return failure("cgroup-open", err)
		}
		err = empty(sub, depth-1, deadline)
		sub.Close()
		if err != nil {
			return err
		}
		if err := removeDir(d, n, deadline); err != nil {
			return remains(d, n, err)
		}
	}
	return killAll(d, deadline)
}

// killAll kills the processes in d until there are none. One that forks faster
// than one round kills is met again in the next: the pids limit holds.
func killAll(d *sys.CgroupDir, deadline time.Time) error {
	for {
		pids, err := procs(d, ".")
		if err != nil {
			return failure("cgroup-kill", err)
		}
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return remains(d, ".", errors.New("cannot be emptied"))
		}
		if err := killOnce(d, pids); err != nil {
			return err
		}
		time.Sleep(reapPause)
	}
}

// killOnce kills each of pids that is still in d once we hold its pidfd: the
// number of a process that exited may belong to a stranger by the time we open
// it, but then the second list does not have it.
func killOnce(d *sys.CgroupDir, pids []int) error {
	held := map[int]int{}
	defer func() {
		for _, fd := range held {
			sys.CgroupClose(fd)
		}
	}()
	for _, pid := range pids[:min(len(pids), heldAtOnce)] {
		if pid <= 1 {
			continue // 0: not in our pid namespace; 1: never ours
		}
		if fd, err := sys.CgroupPidHandle(pid); err == nil {
			held[pid] = fd
		}
	}
	now, err := procs(d, ".")
	if err != nil {
		return failure("cgroup-kill", err)
	}
	for _, pid := range now {
		fd, ok := held[pid]
		if !ok {
			continue
		}
		if err := sys.CgroupPidKill(fd); err != nil {
			return failure("cgroup-kill", err)
		}
	}
	return nil
}

// heldAtOnce bounds the pidfds of one round, far below the usual limit of
// 1,024 descriptors.
const heldAtOnce = 256

// refuseOwn fails when the calling process is in d or below: an id given by
// mistake must not end the caller.
func refuseOwn(d *sys.CgroupDir, depth int) error {
	pids, err := procs(d, ".")
	if err != nil {
		return failure("cgroup-kill", err)
	}
	if slices.Contains(pids, os.Getpid()) {
		return &errdef.Error{Code: errdef.State, Op: "cgroup-reap", Path: d.Path(), Msg: "the calling process is inside"}
	}
	names, err := d.Dirs()
	if err != nil || depth == 0 {
		return nil // empty reports it
	}
	for _, n := range names {
		sub, err := d.OpenDir(n)
		if err != nil {
			continue
		}
		err = refuseOwn(sub, depth-1)
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func remains(d *sys.CgroupDir, name string, cause error) error {
	e := &errdef.Error{Code: errdef.State, Op: "cgroup-reap", Path: d.Path() + "/" + name, Err: cause}
	if pids, err := procs(d, name); err == nil && len(pids) > 0 {
		e.Msg = "processes remain (" + pidList(pids) + ")"
	}
	return e
}
