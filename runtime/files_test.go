package runtime

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
)

func source(path, target string) tweak {
	return func(p *Policy) { p.Files = append(p.Files, File{Source: path, Target: target}) }
}

func write(t testing.TB, path, data string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFilesIn(t *testing.T) {
	dir := t.TempDir()
	r := sh(t, `cat a d/e/f bin empty | tr '\0' 0; stat -c '%n %a %u' a d d/e d/e/f exe bin; echo more >> a && rm d/e/f && ./exe`,
		source(write(t, filepath.Join(dir, "a"), "A\n", 0o600), "a"),
		source(write(t, filepath.Join(dir, "exe"), "#!/bin/sh\necho ran\n", 0o700), "exe"),
		withFile("d/e/f", 0, []byte("F\n")), withFile("/workspace/bin", 0o640, []byte("\x00\x00\n")), withFile("empty", 0, []byte{})).ok(t)
	want := "A\nF\n00\na 644 1000\nd 755 1000\nd/e 755 1000\nd/e/f 644 1000\nexe 755 1000\nbin 640 1000\nran\n"
	if r.Out != want {
		t.Errorf("%q, want %q", r.Out, want)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "a")); string(b) != "A\n" {
		t.Errorf("the source has changed: %q", b)
	}
}

// What is no plain file is refused by name, at once.
func TestFilesInRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "real"), "x", 0o644)
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	huge, err := os.Create(filepath.Join(dir, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	huge.Truncate(MaxFileBytes + 1)
	huge.Close()
	for _, bad := range []string{filepath.Join(dir, "link"), filepath.Join(dir, "fifo"), dir, "/dev/zero", filepath.Join(dir, "huge"), filepath.Join(dir, "missing")} {
		start := time.Now()
		r := runArgs(t, []string{"true"}, source(bad, "x"))
		if r.Started || r.Error.Code != errdef.Invalid || !strings.Contains(r.Error.Message, bad) || time.Since(start) > slow {
			t.Errorf("%s: %v", bad, r)
		}
	}
	runArgs(t, []string{"true"}, source(filepath.Join(dir, "real"), "x")).ok(t)
}

func TestFilesInPastTheWorkspace(t *testing.T) {
	r := runArgs(t, []string{"true"}, withFile("big", 0, make([]byte, 2<<20)), func(p *Policy) { p.Limits.WorkspaceBytes = 1 << 20 })
	if r.Started || r.Error.Code != errdef.Setup || r.Error.Errno != "ENOSPC" || r.Error.Hint == "" {
		t.Errorf("%v", r)
	}
}

func out(path, dest string) tweak {
	return func(p *Policy) { p.Outputs = append(p.Outputs, Output{path, dest}) }
}

func TestFilesOut(t *testing.T) {
	dir := t.TempDir()
	dest := filepath.Join(dir, "dest")
	if err := os.Symlink("/etc/hosts-sbxrun-test", dest); err != nil { // replaced, not followed
		t.Fatal(err)
	}
	r := sh(t, `mkdir -p a/b; printf 'x\0y' > a/b/c; echo two > two; chmod 000 two; exit 3`, out("a/b/c", ""), out("/workspace/two", dest))
	if *r.ExitCode != 3 || len(r.Files) != 2 || string(r.Files[0].Data) != "x\x00y" || r.Files[0].Size != 3 || r.Files[1].Dest != dest {
		t.Errorf("%v %+v", r, r.Files)
	}
	data, err := os.ReadFile(dest)
	fi, _ := os.Lstat(dest)
	if err != nil || string(data) != "two\n" || !fi.Mode().IsRegular() {
		t.Errorf("%q %v %v", data, fi.Mode(), err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("beside it: %v", got)
	}
}

// Case 14 and all its relatives: what the program left in place of the file.
func TestFilesOutHostile(t *testing.T) {
	for name, script := range map[string]string{
		"FIFO": "mkfifo out", "link": "ln -s /etc/passwd out", "link to own": "echo x > f; ln -s f out", "directory": "mkdir out", "missing": "true",
		"socket":    `/usr/bin/python3 -c 'import socket; socket.socket(1).bind("out")'`,
		"too large": "head -c 2000000 /dev/zero > out", "sparse": "truncate -s 1T out", "proc link": "ln -s /proc/self/environ out",
	} {
		r := sh(t, script, out("out", ""), timeout(20*time.Second), func(p *Policy) { p.Limits.FileBytes = 1 << 20 })
		if len(r.Files) != 0 || r.Error == nil || !strings.Contains(r.Error.Path, "/workspace/out") || r.ExitStatus() != StatusRefused || !r.Started {
			t.Errorf("%s: %v", name, r)
		}
	}
	for name, script := range map[string]string{"directory link": "ln -s /etc d", "up": "ln -s .. d", "own": "mkdir e; echo x > e/passwd; ln -s e d", "proc": "ln -s /proc/self/root/etc d"} {
		r := sh(t, script, out("d/passwd", ""))
		if len(r.Files) != 0 || r.Error == nil {
			t.Errorf("%s: %v %+v", name, r, r.Files)
		}
	}
	// One that fails does not take the others with it.
	r := sh(t, "mkfifo a; echo b > b", out("a", ""), out("b", ""))
	if len(r.Files) != 1 || string(r.Files[0].Data) != "b\n" || r.Error == nil {
		t.Errorf("%v %+v", r, r.Files)
	}
}

func TestFilesOutOfADeepTree(t *testing.T) {
	r := py(t, `
import os
for _ in range(1500): os.mkdir("d"); os.chdir("d")
os.chdir("/workspace"); open("ok", "w").write("ok")`, out("ok", ""), out(strings.Repeat("d/", 200)+"none", ""))
	if len(r.Files) != 1 || string(r.Files[0].Data) != "ok" || r.Error == nil {
		t.Errorf("%v", r)
	}
}

func TestFilesOutAfterATimeout(t *testing.T) {
	r := sh(t, "echo part > f; sleep 1000", out("f", ""), timeout(time.Second))
	if r.Reason != ReasonTimeout || len(r.Files) != 1 || string(r.Files[0].Data) != "part\n" {
		t.Errorf("%v %+v", r, r.Files)
	}
}

func TestManyFiles(t *testing.T) {
	var tweaks []tweak
	for i := range MaxFiles {
		name := "d/" + strings.Repeat("n", 1+i)
		tweaks = append(tweaks, withFile(name, 0, bytes.Repeat([]byte{byte(i)}, i)), out(name, ""))
	}
	r := sh(t, "ls d | wc -l", tweaks...).ok(t)
	if r.Out != "128\n" || len(r.Files) != MaxFiles || len(r.Files[100].Data) != 100 {
		t.Errorf("%v", r)
	}
}
