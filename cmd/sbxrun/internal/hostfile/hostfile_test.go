package hostfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxrun/sbxrun/errdef"
)

func TestReadRefusesOtherKinds(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(at("fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for path, want := range map[string]string{
		at("nope"): "no such file", at("fifo"): "is a FIFO", dir: "is a folder", "/dev/zero": "is a device",
		at("file") + "/x": "not a directory",
	} {
		if _, err := Read(path, 10); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("Read(%q): %v; want %q", path, err, want)
		}
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v: something waited", took)
	}
	if data, err := Read(at("file"), 4); err != nil || string(data) != "text" {
		t.Errorf("Read = %q, %v", data, err)
	}
	if _, err := Read(at("file"), 3); err == nil || !strings.Contains(err.Error(), "larger than 3") {
		t.Errorf("over the limit: %v", err)
	}
}

func TestRecordIsWholeOrAbsent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	r, err := OpenRecord(path, path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("there is a file before the record is written: %v", err)
	}
	// A name left by a process of the same number must not spoil it.
	stale := filepath.Join(filepath.Dir(path), fmt.Sprintf(".r.%d.tmp", os.Getpid()))
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Write([]byte("text\n")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "text\n" {
		t.Errorf("record %q, %v", data, err)
	}
}

// TestRecordWithoutUnnamedFiles takes the way of file systems that have none.
func TestRecordWithoutUnnamedFiles(t *testing.T) {
	dir := t.TempDir()
	r := &Record{path: filepath.Join(dir, "r")}
	if err := r.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "r" {
		t.Errorf("folder: %v, %v", entries, err)
	}
}

func TestDiscardedRecordLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	r, err := OpenRecord("r", filepath.Join(dir, "r"))
	if err != nil {
		t.Fatal(err)
	}
	r.Discard()
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("folder: %v", entries)
	}
}

func TestDescriptors(t *testing.T) {
	for text, want := range map[string]int{"3": 3, "10": 10, "007": 7, "99999999999999999999": -1, "2147483648": -1, "-1": -1, "-99999999999999999999": -1} {
		if fd, ok := FD(text); !ok || fd != want {
			t.Errorf("FD(%q) = %d, %t", text, fd, ok)
		}
	}
	for _, text := range []string{"", "./3", "./-1", "3a", "-a", "-", "--1", "3 "} {
		if _, ok := FD(text); ok {
			t.Errorf("FD(%q) is a number", text)
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Go's own descriptors have the close-on-exec flag and are never taken.
	if _, err := inherited(int(f.Fd())); err == nil || !strings.Contains(err.Error(), "not open") {
		t.Errorf("a descriptor of this process was taken: %v", err)
	}
	// What came through exec has not.
	dup, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 50)
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenLines(fmt.Sprint(dup), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write([]byte("line")); err != nil {
		t.Fatal(err)
	}
	if flags, _ := unix.FcntlInt(uintptr(dup), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 {
		t.Error("the descriptor would be inherited")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(f.Name()); string(data) != "line\n" {
		t.Errorf("file: %q", data)
	}
}

func TestNumbersThatNoDescriptorHas(t *testing.T) {
	for _, text := range []string{"-1", "-3", "99999999999999999999"} {
		_, lines := OpenLines(text, "")
		_, record := OpenRecord(text, "")
		for _, err := range []error{lines, record} {
			if !errdef.Is(err, errdef.Invalid) || !strings.Contains(err.Error(), "no descriptor") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// TestAdopt: what the caller left open is inherited by nobody, and can still be
// written to by its number, once.
func TestAdopt(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dup, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 60)
	if err != nil {
		t.Fatal(err)
	}
	Adopt()
	if flags, err := unix.FcntlInt(uintptr(dup), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the descriptor would be inherited: %v", err)
	}
	for fd := range 3 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC != 0 {
			t.Errorf("standard stream %d would not be inherited", fd)
		}
	}
	r, err := OpenRecord(fmt.Sprint(dup), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLines(fmt.Sprint(dup), ""); err == nil {
		t.Error("the descriptor was taken twice")
	}
	if err := r.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(f.Name()); string(data) != "text" {
		t.Errorf("file: %q", data)
	}
	if _, err := OpenLines(fmt.Sprint(f.Fd()), ""); err == nil || !strings.Contains(err.Error(), "not open") {
		t.Errorf("a descriptor of this process was taken: %v", err)
	}
}

// TestNobodyReads: a pipe that nobody reads costs a bounded time and a typed
// error, and the sink takes nothing after it.
func TestNobodyReads(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil { // blocking, as a caller's is
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(p[0]), "r"), os.NewFile(uintptr(p[1]), "w")
	defer r.Close()
	l := &Lines{file: w, limit: 100 * time.Millisecond}
	if err := l.Write([]byte("fits")); err != nil || l.Err() != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err := l.Write(make([]byte, 1<<20))
	if !errdef.Is(err, errdef.Resource) || !strings.Contains(err.Error(), "nothing was read") {
		t.Errorf("a full pipe: %v", err)
	}
	if again := l.Write([]byte("more")); again == nil || l.Err() == nil {
		t.Error("the sink took a line after half of another")
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	if err := l.Close(); err != nil { // must not wait for the write either
		t.Error(err)
	}
}
