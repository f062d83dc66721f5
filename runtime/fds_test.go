package runtime

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Threats, Isolation 5: whatever the host left open, the program gets three
// descriptors. 100 of the host's are not even close-on-exec.
func TestNoDescriptorLeaks(t *testing.T) {
	for range 100 {
		fd, err := syscall.Open(t.TempDir(), syscall.O_RDONLY|syscall.O_DIRECTORY, 0) // no O_CLOEXEC
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(fd) })
	}
	// A new host has a launcher that was forked with all of them open.
	h := ownHost(t)
	const list = `#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
int main(void){DIR*d=opendir("/proc/self/fd");struct dirent*e;int own=dirfd(d);
while((e=readdir(d)))if(e->d_name[0]!='.'&&atoi(e->d_name)!=own)printf("%s ",e->d_name);puts("");return 0;}`
	p := NewPolicy("/workspace/prog")
	p.Bridge.Tools = emptySet(t)
	p.Files = []File{{Data: compileC(t, list), Target: "prog", Mode: 0o755}}
	if r := runOn(t, h, p, RunOptions{}).ok(t); r.Out != "0 1 2 \n" {
		t.Errorf("descriptors %q", r.Out)
	}
	launcher := launcherOf(t)
	for _, pid := range launcher {
		fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if len(fds) > 20 {
			t.Errorf("the launcher holds %d descriptors", len(fds))
		}
	}
	if len(launcher) == 0 {
		t.Error("control: no launcher found")
	}
}

// ownHost opens a host for one test, which checks that nothing of it is left.
func ownHost(t testing.TB) *Host {
	t.Helper()
	requireRoot(t)
	dir := filepath.Join(t.TempDir(), "state")
	h, err := Open(Options{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if err := nothingLeft(dir, h.self.id); err != nil {
			t.Error(err)
		}
	})
	return h
}

// launcherOf lists the launchers of this process.
func launcherOf(t testing.TB) []int {
	t.Helper()
	var out []int
	for _, pid := range children(os.Getpid()) {
		if comm(pid) == "sbxrun-launcher" {
			out = append(out, pid)
		}
	}
	return out
}

// children lists the direct children of all threads of a process.
func children(pid int) []int {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var out []int
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for _, w := range strings.Fields(string(b)) {
			var n int
			fmt.Sscan(w, &n)
			out = append(out, n)
		}
	}
	return out
}

// The descriptors 0 to 2 lead nowhere but to the run's own pipes.
func TestStdioCannotBeAbused(t *testing.T) {
	r := sh(t, `(echo x >&0) 2>/dev/null || true
echo via-path > /proc/self/fd/1; (cat < /proc/self/fd/1 >/dev/null) 2>/dev/null & sleep 0; kill $! 2>/dev/null
readlink /proc/self/fd/0 /proc/self/fd/1 | sed 's/[0-9]*//g'; true`).ok(t)
	if !strings.HasPrefix(r.Out, "via-path\n") || !strings.Contains(r.Out, "pipe:[]") {
		t.Errorf("%v", r)
	}
}

// A file given as standard input is read through its own description: written
// to it cannot be, and its owner stays.
func TestStdinFileStaysReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte("given\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := NewPolicy("bash", "-c", "cat; (echo bad >&0) 2>/dev/null; (echo bad > /proc/self/fd/0) 2>/dev/null; (exec 3<>/dev/stdin) 2>/dev/null && echo reopened; true")
	if r := runOn(t, testHost(t), p, RunOptions{Stdin: f}).ok(t); !strings.HasPrefix(r.Out, "given\n") {
		t.Errorf("%v", r)
	}
	data, _ := os.ReadFile(path)
	fi, _ := os.Stat(path)
	if string(data) != "given\n" || fi.Sys().(*syscall.Stat_t).Uid != 0 || fi.Mode().Perm() != 0o600 {
		t.Errorf("the file has changed: %q %v", data, fi.Mode())
	}
}

// Case 29: without input there is the end of input, not a wait.
func TestStdinIsEmptyByDefault(t *testing.T) {
	if r := runArgs(t, []string{"cat"}, timeout(slow*4)).ok(t); r.Out != "" {
		t.Errorf("%v", r)
	}
}

func TestStdinPasses(t *testing.T) {
	r, w := blockingPipe(t)
	defer r.Close()
	payload := strings.Repeat("0123456789\x00\xff\n", 50_000)
	go func() { w.WriteString(payload); w.Close() }()
	if end := runOn(t, testHost(t), NewPolicy("cat"), RunOptions{Stdin: r}).ok(t); end.Out != payload {
		t.Errorf("%d bytes of %d came back", len(end.Out), len(payload))
	}
}

// A pipe from os.Pipe is the usual thing that a Go host has at hand; its
// descriptor does not block, which is the host's matter and not the program's.
func TestStdinFromOSPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := newLineWriter()
	s, err := testHost(t).Start(t.Context(), NewPolicy("sh", "-c", "echo ready; cat"), RunOptions{Stdin: r, Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	out.await("ready")
	eventually(t, "the program to wait for input or to end", slow, func() bool {
		select {
		case <-s.done:
			return true
		default:
		}
		pids := sandboxPIDs(s)
		return len(pids) > 2 && comm(pids[len(pids)-1]) == "cat"
	})
	w.WriteString("late input\n")
	w.Close()
	if end := s.Wait(); end.ExitStatus() != 0 || !strings.Contains(out.String(), "late input") {
		t.Errorf("%v", ended{Result: end, Out: out.String()})
	}
}
