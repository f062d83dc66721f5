// Package rootfs says what a sandbox sees as its root file system: a small
// read-only tmpfs with bind mounts of the host's /usr or of a directory's
// entries, and a few files that sbxrun writes itself. Mount points of the
// sandbox's own (/proc, /dev, /tmp, /workspace) always lie in that tmpfs, never
// in a tree that somebody else can write to.
package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbxrun/sbxrun/errdef"
)

// Kind is the type of file that a bind's source must have.
type Kind uint64

// The kinds, numbered as in the launcher.
const (
	KindDir  Kind = 1
	KindFile Kind = 2
	KindChar Kind = 3
)

// View is the content of a root file system, in the order of creation: parents
// come before children.
type View struct {
	Dirs  []Dir
	Links []Link
	Files []File
	Binds []Bind
}

// Dir is a directory made in the root tmpfs.
type Dir struct {
	Path string // absolute and clean
	Mode uint32
}

// Link is a symbolic link made in the root tmpfs; its target means what it
// means inside.
type Link struct{ Target, Path string }

// File is a generated regular file.
type File struct {
	Path string
	Mode uint32
	Data string
}

// Bind is a read-only, nosuid bind mount of a host file.
type Bind struct {
	Source, Target string
	Kind           Kind
	Major, Minor   uint32 // of a KindChar source
	NoFollow       bool   // the source's last component is untrusted
}

// EmptyDir is a directory of every view with nothing in it: masked directories
// are covered with it. NullDevice covers masked files.
const (
	EmptyDir   = "/mnt"
	NullDevice = "/dev/null"
)

// Workspace is the program's own writable directory.
const Workspace = "/workspace"

// maxEntries bounds the top level of a directory rootfs: distributions have
// about 25, and every entry is a mount.
const maxEntries = 256

// reserved are the top-level names whose place sbxrun fills itself.
func reserved(name string) bool {
	switch name {
	case "proc", "dev", "sys", "tmp", "run", "mnt", "workspace":
		return true
	}
	return false
}

func (v *View) common() {
	v.Dirs = append(v.Dirs,
		Dir{"/proc", 0o555}, Dir{"/dev", 0o755}, Dir{"/dev/pts", 0o755}, Dir{"/dev/shm", 0o755},
		Dir{"/tmp", 0o755}, Dir{"/run", 0o755}, Dir{EmptyDir, 0o755}, Dir{Workspace, 0o755})
	v.Links = append(v.Links,
		Link{"/proc/self/fd", "/dev/fd"}, Link{"/proc/self/fd/0", "/dev/stdin"},
		Link{"/proc/self/fd/1", "/dev/stdout"}, Link{"/proc/self/fd/2", "/dev/stderr"},
		Link{"pts/ptmx", "/dev/ptmx"})
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		v.Files = append(v.Files, File{"/dev/" + d.name, 0o444, ""})
		v.Binds = append(v.Binds, Bind{Source: "/dev/" + d.name, Target: "/dev/" + d.name,
			Kind: KindChar, Major: d.major, Minor: d.minor})
	}
}

// Identity is what the generated /etc names.
type Identity struct {
	UID, GID uint32
	Hostname string
}

// Host returns the minimal view of the host: /usr and the links or directories
// that lead into it, and an /etc of our own.
func Host(id Identity) (*View, error) {
	v := &View{}
	v.common()
	v.Dirs = append(v.Dirs, Dir{"/usr", 0o755}, Dir{"/var", 0o755})
	v.Links = append(v.Links, Link{"/tmp", "/var/tmp"})
	v.Binds = append(v.Binds, Bind{Source: "/usr", Target: "/usr", Kind: KindDir})
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		path := "/" + name
		fi, err := os.Lstat(path)
		switch {
		case os.IsNotExist(err):
		case err != nil:
			return nil, &errdef.Error{Code: errdef.Setup, Op: "rootfs", Err: err}
		case fi.Mode()&os.ModeSymlink != 0: // merged /usr
			target, err := os.Readlink(path)
			if err != nil {
				return nil, &errdef.Error{Code: errdef.Setup, Op: "rootfs", Err: err}
			}
			v.Links = append(v.Links, Link{target, path})
		case fi.IsDir():
			v.Dirs = append(v.Dirs, Dir{path, 0o755})
			v.Binds = append(v.Binds, Bind{Source: path, Target: path, Kind: KindDir})
		}
	}
	v.etc(id)
	return v, nil
}

// Directory returns the view of a directory that holds a root file system. Its
// content is hostile: top-level entries are bound one by one without following
// links, and the places that sbxrun fills itself must not be links.
func Directory(dir string) (*View, error) {
	bad := func(what, hint string) error {
		return &errdef.Error{Code: errdef.Invalid, Op: "policy", Path: "rootfs", Msg: what, Hint: hint}
	}
	if !filepath.IsAbs(dir) {
		return nil, bad(fmt.Sprintf("%q is not an absolute path", dir), "")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, &errdef.Error{Code: errdef.Invalid, Op: "policy", Path: "rootfs", Err: err}
	}
	if len(entries) > maxEntries {
		return nil, bad(fmt.Sprintf("%q has %d top-level entries (allowed: at most %d)", dir, len(entries), maxEntries), "")
	}
	v := &View{}
	v.common()
	for _, e := range entries {
		name, path, source := e.Name(), "/"+e.Name(), filepath.Join(dir, e.Name())
		switch {
		case reserved(name):
			// "run", "mnt" and "tmp" may be anything: they are covered, not used.
			if e.Type()&os.ModeSymlink != 0 && (name == "proc" || name == "dev" || name == "sys") {
				return nil, bad(fmt.Sprintf("%q is a symbolic link", source),
					"a root file system whose /proc, /sys or /dev is a link is refused; make it a directory")
			}
		case e.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(source)
			if err != nil {
				return nil, &errdef.Error{Code: errdef.Invalid, Op: "policy", Path: "rootfs", Err: err}
			}
			v.Links = append(v.Links, Link{target, path})
		case e.IsDir():
			v.Dirs = append(v.Dirs, Dir{path, 0o755})
			v.Binds = append(v.Binds, Bind{Source: source, Target: path, Kind: KindDir, NoFollow: true})
		case e.Type().IsRegular():
			v.Files = append(v.Files, File{path, 0o444, ""})
			v.Binds = append(v.Binds, Bind{Source: source, Target: path, Kind: KindFile, NoFollow: true})
		default:
			return nil, bad(fmt.Sprintf("%q is a %s", source, typeName(e.Type())),
				"a root file system may hold directories, regular files and symbolic links at its top level")
		}
	}
	return v, nil
}

func typeName(m os.FileMode) string {
	switch {
	case m&os.ModeNamedPipe != 0:
		return "FIFO"
	case m&os.ModeSocket != 0:
		return "socket"
	case m&os.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// AddBind adds a host file or directory at target. Parents that the view does
// not bind are made in the root tmpfs; below a bind they must exist.
func (v *View) AddBind(source, target string) error {
	fi, err := os.Stat(source)
	if err != nil {
		return &errdef.Error{Code: errdef.Invalid, Op: "policy", Path: "bind-ro", Err: err}
	}
	kind := KindFile
	switch {
	case fi.IsDir():
		kind = KindDir
	case !fi.Mode().IsRegular():
		return errdef.Field("bind-ro", fmt.Sprintf("%q is a %s", source, typeName(fi.Mode())), "regular files and directories")
	}
	if !v.covered(filepath.Dir(target)) {
		v.addParents(target)
		if kind == KindDir && !v.hasDir(target) {
			v.Dirs = append(v.Dirs, Dir{target, 0o755})
		} else if kind == KindFile && !v.hasFile(target) {
			v.Files = append(v.Files, File{target, 0o444, ""})
		}
	}
	v.Binds = append(v.Binds, Bind{Source: source, Target: target, Kind: kind})
	return nil
}

func (v *View) covered(path string) bool {
	for _, b := range v.Binds {
		if path == b.Target || strings.HasPrefix(path, b.Target+"/") {
			return true
		}
	}
	return false
}

func (v *View) addParents(target string) {
	for i := 1; i < len(target); i++ {
		if target[i] == '/' && !v.hasDir(target[:i]) {
			v.Dirs = append(v.Dirs, Dir{target[:i], 0o755})
		}
	}
}

func (v *View) hasDir(path string) bool {
	for _, d := range v.Dirs {
		if d.Path == path {
			return true
		}
	}
	return false
}

func (v *View) hasFile(path string) bool {
	for _, f := range v.Files {
		if f.Path == path {
			return true
		}
	}
	return false
}
