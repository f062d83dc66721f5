package rootfs

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxrun/sbxrun/errdef"
)

var id = Identity{UID: 1000, GID: 1001, Hostname: "box"}

// tree makes a directory: "name/" is a directory, "name->target" a link, any
// other name a file.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, n := range names {
		var err error
		link, target, isLink := strings.Cut(n, "->")
		switch {
		case isLink:
			err = os.Symlink(target, filepath.Join(dir, link))
		case strings.HasSuffix(n, "/"):
			err = os.MkdirAll(filepath.Join(dir, n), 0o755)
		default:
			err = os.WriteFile(filepath.Join(dir, n), nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (v *View) bind(target string) *Bind {
	for i := range v.Binds {
		if v.Binds[i].Target == target {
			return &v.Binds[i]
		}
	}
	return nil
}

// checkOrder holds that parents come before children and nothing is made twice.
func checkOrder(t *testing.T, v *View) {
	t.Helper()
	made := map[string]bool{"/": true}
	add := func(path string) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			t.Errorf("%q is not a clean absolute path", path)
		}
		if !made[filepath.Dir(path)] {
			t.Errorf("%q has no parent yet", path)
		}
		if made[path] {
			t.Errorf("%q is made twice", path)
		}
		made[path] = true
	}
	for _, d := range v.Dirs {
		add(d.Path)
	}
	for _, l := range v.Links {
		add(l.Path)
	}
	for _, f := range v.Files {
		add(f.Path)
	}
	for _, b := range v.Binds {
		if !made[b.Target] && !v.covered(filepath.Dir(b.Target)) {
			t.Errorf("bind target %q does not exist", b.Target)
		}
	}
}

func TestHostView(t *testing.T) {
	v, err := Host(id)
	if err != nil {
		t.Fatal(err)
	}
	checkOrder(t, v)
	for _, b := range v.Binds {
		for _, bad := range []string{"/etc/passwd", "/etc/shadow", "/etc/ssh", "/root", "/home", "/var", "/run", "/proc", "/sys", "/boot"} {
			if b.Source == bad || strings.HasPrefix(b.Source, bad+"/") {
				t.Errorf("the host's %s is shown", b.Source)
			}
		}
	}
	if v.bind("/usr") == nil {
		t.Error("no /usr")
	}
	var passwd string
	for _, f := range v.Files {
		if f.Path == "/etc/passwd" {
			passwd = f.Data
		}
	}
	if !strings.Contains(passwd, "sandbox:x:1000:1001:") || strings.Contains(passwd, "root") {
		t.Errorf("passwd: %q", passwd)
	}
}

func TestDevices(t *testing.T) {
	v, err := Host(id)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]uint32{"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0}}
	for _, b := range v.Binds {
		if b.Kind != KindChar {
			continue
		}
		name := filepath.Base(b.Target)
		if want[name] != [2]uint32{b.Major, b.Minor} {
			t.Errorf("%s: %d:%d", b.Target, b.Major, b.Minor)
		}
		delete(want, name)
	}
	if len(want) != 0 {
		t.Errorf("missing %v", want)
	}
}

func TestDirectory(t *testing.T) {
	dir := tree(t, "bin->usr/bin", "usr/", "etc/", "proc/", "dev/", "sys/", "tmp->/elsewhere", "run->/host", "mnt/", "workspace/", "a file")
	v, err := Directory(dir)
	if err != nil {
		t.Fatal(err)
	}
	checkOrder(t, v)
	for _, target := range []string{"/usr", "/etc", "/a file"} {
		b := v.bind(target)
		if b == nil || b.Source != dir+target || !b.NoFollow {
			t.Errorf("%s: %+v", target, b)
		}
	}
	for _, target := range []string{"/proc", "/sys", "/tmp", "/run", "/mnt", "/workspace", "/dev"} {
		if b := v.bind(target); b != nil {
			t.Errorf("%s comes from the tree: %+v", target, b)
		}
	}
	for _, l := range v.Links {
		if l.Path == "/tmp" || l.Path == "/run" {
			t.Errorf("%s is a link from the tree", l.Path)
		}
	}
}

// Case 15: what is refused, and the same name as a directory is not.
func TestDirectoryRefusesLinkedSystemDirs(t *testing.T) {
	for _, name := range []string{"proc", "dev", "sys"} {
		_, err := Directory(tree(t, "usr/", name+"->/"+name))
		if !errdef.Is(err, errdef.Invalid) || !strings.Contains(err.Error(), "/"+name) {
			t.Errorf("link %s: %v", name, err)
		}
		if _, err := Directory(tree(t, "usr/", name+"/")); err != nil {
			t.Errorf("directory %s: %v", name, err)
		}
	}
}

func TestDirectoryRefusesSpecialFiles(t *testing.T) {
	dir := tree(t, "usr/")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Directory(dir); !errdef.Is(err, errdef.Invalid) || !strings.Contains(err.Error(), "FIFO") {
		t.Errorf("FIFO: %v", err)
	}
	dir = tree(t, "usr/")
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Directory(dir); !errdef.Is(err, errdef.Invalid) || !strings.Contains(err.Error(), "socket") {
		t.Errorf("socket: %v", err)
	}
}

func TestDirectoryBounds(t *testing.T) {
	var names []string
	for i := range maxEntries {
		names = append(names, fmt.Sprintf("d%03d/", i))
	}
	dir := tree(t, names...)
	if _, err := Directory(dir); err != nil {
		t.Errorf("%d entries: %v", maxEntries, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "one-more"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Directory(dir); !errdef.Is(err, errdef.Invalid) || !strings.Contains(err.Error(), "256") {
		t.Errorf("one more: %v", err)
	}
	for _, bad := range []string{"", "relative", "/nonexistent/sbxrun", filepath.Join(tree(t, "f"), "f")} {
		if _, err := Directory(bad); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAddBind(t *testing.T) {
	src := tree(t, "dir/", "file", "link->file")
	for _, c := range []struct {
		source, target string
		kind           Kind
	}{
		{"dir", "/opt/a/b", KindDir}, {"file", "/opt/f", KindFile}, {"link", "/opt/l", KindFile}, {"file", "/opt/a/b/below", KindFile},
	} {
		v, err := Host(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.AddBind(filepath.Join(src, c.source), c.target); err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		checkOrder(t, v)
		if b := v.bind(c.target); b == nil || b.Kind != c.kind {
			t.Errorf("%+v: %+v", c, b)
		}
	}
}

func TestAddBindTwiceSharesParents(t *testing.T) {
	src := tree(t, "a/", "b/")
	v, err := Host(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"a", "b"} {
		if err := v.AddBind(filepath.Join(src, n), "/opt/x/"+n); err != nil {
			t.Fatal(err)
		}
	}
	checkOrder(t, v)
}

func TestAddBindRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	v := &View{}
	for _, bad := range []string{fifo, "/dev/null", filepath.Join(dir, "missing")} {
		if err := v.AddBind(bad, "/opt/x"); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if len(v.Binds) != 0 {
		t.Errorf("left %+v", v.Binds)
	}
}
