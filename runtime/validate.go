package runtime

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
	"github.com/sbxrun/sbxrun/rootfs"
)

// Validate refuses, with code invalid, whatever is missing, out of bounds or
// contradictory, and names the field and what it allows; a limit that this
// process may not set is refused with code unsupported.
func (p *Policy) Validate() error {
	for _, check := range []func() error{p.checkProgram, p.checkIdentity, p.checkLimits, p.checkTmpfs, p.checkPlaces, p.checkBridge} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Policy) checkProgram() error {
	if len(p.Args) == 0 || p.Args[0] == "" {
		return errdef.Field("command", "no program given", "a name or path, and its arguments")
	}
	if len(p.Args) > MaxArgs {
		return errdef.Field("command", fmt.Sprintf("%d arguments", len(p.Args)), fmt.Sprintf("at most %d", MaxArgs))
	}
	if len(p.Env) > MaxEnv {
		return errdef.Field("env", fmt.Sprintf("%d variables", len(p.Env)), fmt.Sprintf("at most %d", MaxEnv))
	}
	args, env := 0, 0
	for _, a := range p.Args {
		if err := checkString("command", a); err != nil {
			return err
		}
		args += len(a) + 1
	}
	for k, v := range p.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return errdef.Field("env", fmt.Sprintf("%q is no variable name", k), "KEY=VALUE, the key without =")
		}
		if err := checkString("env", k+"="+v); err != nil {
			return err
		}
		env += len(k) + len(v) + 2
	}
	if args > MaxArgBytes {
		return errdef.Field("command", fmt.Sprintf("%d bytes of arguments", args), fmt.Sprintf("at most %d", MaxArgBytes))
	}
	if args+env > MaxArgBytes {
		return errdef.Field("env", fmt.Sprintf("%d bytes of environment and arguments", args+env), fmt.Sprintf("at most %d", MaxArgBytes))
	}
	return nil
}

func checkString(field, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return errdef.Field(field, "a string holds a NUL byte", "bytes without NUL")
	}
	if len(s) > MaxStringBytes {
		return errdef.Field(field, fmt.Sprintf("a string of %d bytes", len(s)), fmt.Sprintf("at most %d each", MaxStringBytes))
	}
	return nil
}

func (p *Policy) checkIdentity() error {
	const maxID = 1<<32 - 2 // (uid_t)-1 means "no change" to setresuid(2)
	switch {
	case p.UID == 0 || p.GID == 0:
		return errdef.Field("user", "uid and gid 0 are never given", "1 to 4294967294")
	case p.UID > maxID || p.GID > maxID:
		return errdef.Field("user", "4294967295 is no id", "1 to 4294967294")
	case !validHostname(p.Hostname):
		return errdef.Field("hostname", fmt.Sprintf("%q is no host name", p.Hostname), "1 to 63 of a-z, A-Z, 0-9 and -")
	case p.Network != NetworkNone:
		return &errdef.Error{Code: errdef.Unsupported, Op: "policy", Path: "net",
			Msg:  fmt.Sprintf("network mode %q cannot be enforced by this version (allowed: none)", p.Network),
			Hint: "offer what the program needs from outside as a tool"}
	}
	return nil
}

func validHostname(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
	})
}

func (p *Policy) checkLimits() error {
	l := &p.Limits
	for _, n := range []struct {
		field       string
		value       int64
		least, most int64
		multiple    int64
	}{
		{"memory", l.Memory, MinMemory, 1 << 50, pageSize},
		{"pids", l.Pids, 1, MaxPids, 1},
		{"timeout", int64(l.Timeout), 1e6, int64(MaxTimeout), 1},
		{"output-limit", l.OutputBytes, 1, 1 << 40, 1},
		{"open-files", l.OpenFiles, MinOpenFiles, 1 << 20, 1},
		{"file-limit", l.FileBytes, 1, MaxFileBytes, 1},
		{"workspace-size", l.WorkspaceBytes, pageSize, 1 << 50, pageSize},
		{"workspace-inodes", l.WorkspaceInodes, 16, MaxInodes, 1},
		{"tmp-size", l.TmpBytes, pageSize, 1 << 50, pageSize},
		{"tmp-inodes", l.TmpInodes, 16, MaxInodes, 1},
		{"shm-size", l.ShmBytes, pageSize, 1 << 50, pageSize},
		{"shm-inodes", l.ShmInodes, 16, MaxInodes, 1},
	} {
		show := func(v int64) string {
			if n.field == "timeout" {
				return fmt.Sprint(timeDuration(v))
			}
			return strconv.FormatInt(v, 10)
		}
		if n.value < n.least || n.value > n.most {
			return errdef.Field(n.field, show(n.value)+" is out of bounds; there is no unlimited", show(n.least)+" to "+show(n.most))
		}
		if n.value%n.multiple != 0 {
			return errdef.Field(n.field, show(n.value)+" bytes is not a whole number of pages", "multiples of "+show(n.multiple))
		}
	}
	if !(l.CPUs >= minCPUs && l.CPUs <= maxCPUs) {
		return errdef.Field("cpus", fmt.Sprintf("%v is out of bounds; there is no unlimited", l.CPUs), fmt.Sprintf("%v to %d", minCPUs, maxCPUs))
	}
	if l.OutputOverflow != OverflowDiscard && l.OutputOverflow != OverflowStop {
		return errdef.Field("output-overflow", fmt.Sprintf("unknown value %q", l.OutputOverflow), "discard, stop")
	}
	const rlimitNofile = 7
	if hard := sys.HardLimit(rlimitNofile); uint64(l.OpenFiles) > hard {
		return &errdef.Error{Code: errdef.Unsupported, Op: "policy", Path: "open-files",
			Msg:  fmt.Sprintf("limit of %d open files cannot be set: this process's own hard limit is %d", l.OpenFiles, hard),
			Hint: "lower --open-files or raise the caller's limit (ulimit -Hn)"}
	}
	return nil
}

// What a full tmpfs takes of the memory limit besides its bytes: the kernel's
// inode with its directory entry (a kilobyte, measured with slabinfo), and the
// page index.
const (
	inodeBytes   = 1280
	pageOverhead = 64
)

// checkTmpfs holds all that the program can fill below the memory limit: a full
// disk is ENOSPC, never an OOM kill.
func (p *Policy) checkTmpfs() error {
	l := &p.Limits
	sum := l.WorkspaceBytes + l.TmpBytes + l.ShmBytes + p.requestBytes()
	sum += sum/pageOverhead + inodeBytes*(l.WorkspaceInodes+l.TmpInodes+l.ShmInodes+p.requestInodes())
	if sum >= l.Memory {
		return errdef.Field("workspace-size",
			fmt.Sprintf("%d bytes of workspace, /tmp, /dev/shm and tool requests, inodes included, do not fit below the memory limit of %d", sum, l.Memory),
			"a sum below memory")
	}
	return nil
}

func (p *Policy) checkPlaces() error {
	if err := checkInside("cwd", p.Cwd, false); err != nil {
		return err
	}
	if d := p.Rootfs.Dir; d != "" && !path.IsAbs(d) {
		return errdef.Field("rootfs", fmt.Sprintf("%q is not an absolute path", d), "host, or the absolute path of a directory")
	}
	if len(p.Files) > MaxFiles {
		return errdef.Field("file", fmt.Sprintf("%d files", len(p.Files)), fmt.Sprintf("at most %d", MaxFiles))
	}
	if len(p.Outputs) > MaxOutputs {
		return errdef.Field("out", fmt.Sprintf("%d files", len(p.Outputs)), fmt.Sprintf("at most %d", MaxOutputs))
	}
	if len(p.Binds) > MaxBinds {
		return errdef.Field("bind-ro", fmt.Sprintf("%d binds", len(p.Binds)), fmt.Sprintf("at most %d", MaxBinds))
	}
	seen := map[string]bool{}
	for _, f := range p.Files {
		t := workspacePath(f.Target)
		if err := checkWorkspace("file", t); err != nil {
			return err
		}
		if seen[t] {
			return errdef.Field("file", fmt.Sprintf("%q is given twice", t), "each target once")
		}
		seen[t] = true
		if f.Mode&^0o777 != 0 {
			return errdef.Field("file", fmt.Sprintf("mode %o", f.Mode), "permission bits, 0 to 0777")
		}
	}
	for t := range seen { // a file cannot also be another one's directory
		for d := path.Dir(t); d != rootfs.Workspace && d != "/" && d != "."; d = path.Dir(d) {
			if seen[d] {
				return errdef.Field("file", fmt.Sprintf("%q lies below the file %q", t, d), "distinct files and directories")
			}
		}
	}
	for _, o := range p.Outputs {
		if err := checkWorkspace("out", workspacePath(o.Path)); err != nil {
			return err
		}
	}
	for _, b := range p.Binds {
		if !path.IsAbs(b.Source) {
			return errdef.Field("bind-ro", fmt.Sprintf("%q is not an absolute path", b.Source), "SRC[:DST], both absolute")
		}
		if err := checkSource(b.Source); err != nil {
			return err
		}
		if err := checkInside("bind-ro", b.Target, true); err != nil {
			return err
		}
	}
	return nil
}

// checkSource refuses to show the host's kernel file systems, whose content is
// the host's own state and not files.
func checkSource(source string) error {
	clean := path.Clean(source)
	for _, tree := range []string{"/proc", "/sys", "/dev"} {
		if clean == "/" || clean == tree || strings.HasPrefix(clean, tree+"/") {
			return errdef.Field("bind-ro", fmt.Sprintf("%q shows the host's %s", source, tree), "sources that neither hold nor lie below /proc, /sys or /dev")
		}
	}
	return nil
}

// workspacePath makes a file's place absolute.
func workspacePath(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return rootfs.Workspace + "/" + p
}

func checkWorkspace(field, p string) error {
	if path.Clean(p) != p || !strings.HasPrefix(p, rootfs.Workspace+"/") || strings.IndexByte(p, 0) >= 0 {
		return errdef.Field(field, fmt.Sprintf("%q", p), "a clean path below "+rootfs.Workspace)
	}
	if p == bridgeDir || strings.HasPrefix(p, bridgeDir+"/") {
		return errdef.Field(field, fmt.Sprintf("%q belongs to the tool bridge", p), "other paths below "+rootfs.Workspace)
	}
	return checkString(field, p)
}

// checkInside checks a path inside the sandbox; the places that sbxrun fills
// itself are no place for a bind, and /proc is no place to start in.
func checkInside(field, p string, bind bool) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.IndexByte(p, 0) >= 0 {
		return errdef.Field(field, fmt.Sprintf("%q", p), "a clean absolute path inside the sandbox")
	}
	top, _, _ := strings.Cut(p[1:], "/")
	own := []string{"proc", "sys", "dev"}
	if bind {
		own = append(own, "workspace", "tmp", "mnt", "run")
		if p == "/" {
			return errdef.Field(field, `"/" is the root itself`, "a path below it; see --rootfs")
		}
	}
	if slices.Contains(own, top) {
		return errdef.Field(field, fmt.Sprintf("%q lies below /%s", p, top), "paths outside /"+strings.Join(own, ", /"))
	}
	return nil
}

func (p *Policy) checkBridge() error {
	b := &p.Bridge
	if b.Tools == nil {
		return nil
	}
	switch {
	case b.MaxCalls < 0 || b.MaxCalls > MaxToolCalls:
		return errdef.Field("max-tool-calls", strconv.Itoa(b.MaxCalls)+" is out of bounds; there is no unlimited", fmt.Sprintf("0 to %d", MaxToolCalls))
	case b.Concurrency < 1 || b.Concurrency > MaxToolConcurrency:
		return errdef.Field("tool-concurrency", strconv.Itoa(b.Concurrency)+" is out of bounds", fmt.Sprintf("1 to %d", MaxToolConcurrency))
	case b.ToolTimeout <= 0 || b.ToolTimeout > MaxTimeout:
		return errdef.Field("tool-timeout", b.ToolTimeout.String()+" is out of bounds; there is no unlimited", "1ms to "+MaxTimeout.String())
	}
	return nil
}

const (
	// MaxToolCalls bounds the budget: every served id is remembered.
	MaxToolCalls = 1 << 20
	// MaxToolConcurrency bounds the calls in flight of one sandbox.
	MaxToolConcurrency = 1024
)
