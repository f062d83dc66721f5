package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sbxrun/sbxrun/runtime"
)

// cpuGroup is a cgroup that counts the CPU time of all that this process
// starts. getrusage(2) would miss what bubblewrap does not wait for.
type cpuGroup struct{ dir, file string }

func newCPUGroup() (*cpuGroup, error) {
	name := fmt.Sprintf("sbxrun-bench-%d", os.Getpid())
	g := &cpuGroup{dir: filepath.Join("/sys/fs/cgroup", name), file: "cpu.stat"}
	if _, err := os.Stat("/sys/fs/cgroup/cpuacct"); err == nil {
		g = &cpuGroup{dir: filepath.Join("/sys/fs/cgroup/cpuacct", name), file: "cpuacct.usage"}
	}
	return g, os.Mkdir(g.dir, 0o755)
}

func (g *cpuGroup) usage() (time.Duration, error) {
	data, err := os.ReadFile(filepath.Join(g.dir, g.file))
	if err != nil {
		return 0, err
	}
	if g.file == "cpuacct.usage" {
		n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		return time.Duration(n), err
	}
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, fmt.Errorf("%s has no usage", g.file)
}

// move puts this process (and so what it starts) into a group.
func (g *cpuGroup) move(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// cpuClaims compares the CPU time of a sandbox, host side and launcher
// included, with bubblewrap's.
func cpuClaims(rounds int, _ *runtime.Host) ([]claim, error) {
	g, err := newCPUGroup()
	if err != nil {
		return nil, err
	}
	if err := g.move(g.dir); err != nil {
		return nil, err
	}
	defer func() {
		g.move(filepath.Dir(g.dir))
		os.Remove(g.dir)
	}()
	host, err := runtime.Open(runtime.Options{Warm: 1}) // its launcher is to be in the group
	if err != nil {
		return nil, err
	}
	defer host.Close()
	var ours, bwrap time.Duration
	const batch = 20
	for range max(1, rounds/batch) {
		a, err := g.usage()
		if err != nil {
			return nil, err
		}
		for range batch {
			r, err := host.Run(context.Background(), runtime.NewPolicy("/bin/true"), runtime.RunOptions{})
			if err != nil {
				return nil, err
			}
			ours += r.Usage.CPU // counted in the sandbox's own group
		}
		b, err := g.usage()
		if err != nil {
			return nil, err
		}
		for range batch {
			if err := runCommand("bwrap", bwrapArgs()...); err != nil {
				return nil, err
			}
		}
		c, err := g.usage()
		if err != nil {
			return nil, err
		}
		ours, bwrap = ours+b-a, bwrap+c-b
	}
	n := time.Duration(max(1, rounds/batch) * batch)
	fmt.Printf("CPU time a sandbox\n  %-28s %8.2f ms\n  %-28s %8.2f ms\n", "embedded", ms(ours/n), "bwrap --unshare-all", ms(bwrap/n))
	return []claim{{"embedded / bwrap, CPU time", float64(ours) / float64(bwrap), 0.9}}, nil
}

// hostClaims shows that a large host program or many mounts change little.
func hostClaims(rounds int, _ *runtime.Host) ([]claim, error) {
	plain, err := timedHost()
	if err != nil {
		return nil, err
	}
	defer plain.host.Close()
	before := &subject{name: "plain host", run: func() error { return runEmbedded(plain.host) }}
	if err := measure(rounds, before); err != nil {
		return nil, err
	}
	heap := make([]byte, 1<<30)
	for i := 0; i < len(heap); i += 4096 {
		heap[i] = 1
	}
	large := &subject{name: "1 GiB heap", run: before.run}
	if err := measure(rounds, large); err != nil {
		return nil, err
	}
	clear(heap[:1])
	heap = nil
	mounts, err := manyMounts(rounds)
	if err != nil {
		return nil, err
	}
	for _, s := range []*subject{before, large, mounts} {
		fmt.Printf("  %-28s %8.2f ms\n", "embedded, "+s.name, ms(s.median()))
	}
	return []claim{{"embedded, 1 GiB heap / without", ratio(large, before), 1.25},
		{"embedded, 1,000 more mounts / without", ratio(mounts, before), 1.25}}, nil
}

type hostHandle struct{ host *runtime.Host }

func timedHost() (*hostHandle, error) {
	h, err := runtime.Open(runtime.Options{Warm: 1})
	return &hostHandle{h}, err
}

// manyMounts measures in a child with 1,000 mounts in its own mount namespace.
func manyMounts(rounds int) (*subject, error) {
	cmd := exec.Command("/proc/self/exe", "-mounts", strconv.Itoa(rounds))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	s := &subject{name: "1,000 more mounts"}
	for f := range strings.FieldsSeq(string(out)) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil, err
		}
		s.wall = append(s.wall, time.Duration(n))
	}
	if len(s.wall) == 0 {
		return nil, fmt.Errorf("no times from the host with many mounts")
	}
	return s, nil
}

// serveMounts is the child of manyMounts.
func serveMounts(rounds int) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sbxrun-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for range 1000 {
		if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	h, err := timedHost()
	if err != nil {
		return err
	}
	s := &subject{name: "mounts", run: func() error { return runEmbedded(h.host) }}
	err = measure(rounds, s)
	h.host.Close()
	for range 1000 {
		syscall.Unmount(dir, syscall.MNT_DETACH)
	}
	for _, d := range s.wall {
		fmt.Println(d.Nanoseconds())
	}
	return err
}
