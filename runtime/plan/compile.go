// Package plan turns an OCI runtime spec into the ordered, typed operations that
// the launcher executes, and into their wire form. It is pure: nothing here
// touches the host, so every plan can be tested and explained without privilege.
//
// A spec may only ask for what the direct engine enforces; everything else is
// refused, with the field named.
package plan

import (
	"fmt"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/rootfs"
	"github.com/sbxrun/sbxrun/seccomp"
)

// Descriptors of the two requests that make a sandbox, by position. A first
// request carries the cgroup's from FDCgroup on, a second one the input files'
// from FDFirstFile on.
const (
	FDSetup     = 0
	FDPlan      = 1
	FDCgroup    = 2
	FDStdin     = 2
	FDStdout    = 3
	FDStderr    = 4
	FDFirstFile = 5
)

// Slots of the descriptors that a sandbox's init hands back to the host.
const (
	SlotRequests  = 0 // /workspace/.bridge/req
	SlotReplies   = 1 // /workspace/.bridge/resp, writable
	SlotWorkspace = 2
	SlotSNMP      = 3 // /proc/net/snmp of the sandbox's network namespace
	SlotSNMP6     = 4
)

// IDs are the identities of one sandbox.
type IDs struct {
	// UID and GID are the program's as the host sees them, SupervisorUID and
	// SupervisorGID those of the sandbox's PID 1.
	UID, GID, SupervisorUID, SupervisorGID uint32
	// Rootless means that the launcher is root of a user namespace of its own
	// and maps nothing but the caller's ids, 0 in there.
	Rootless bool
}

// InputFile is one file copied into the workspace.
type InputFile struct {
	Target string // absolute, below /workspace
	Mode   uint32
	Size   int64
}

// BridgeFile is one host-written file of the bridge's directory.
type BridgeFile struct {
	Path string // relative to /workspace/.bridge
	Mode uint32
	Data []byte
}

// Input is all that makes one sandbox.
type Input struct {
	Spec *specs.Spec
	View *rootfs.View
	IDs  IDs
	// JoinFDs is the number of cgroup v1 descriptors to enter, from position
	// FDCgroup + FirstJoin on.
	JoinFDs, FirstJoin int
	// Files are the input files, their descriptors from FDFirstFile on.
	Files []InputFile
	// Bridge holds tools.json and the stubs; nil means no bridge.
	Bridge []BridgeFile
	// RequestBytes is the size of the bridge's request directory.
	RequestBytes int64
	Filters      seccomp.Set
	// HardLimit returns the host's hard limit for a resource (getrlimit(2)).
	HardLimit func(resource uint64) uint64
}

// The root tmpfs holds directories, links and a few small files only.
const (
	rootBytes  = 2 << 20
	rootInodes = 1024
	// The bridge directory's tmpfs: tools.json, stubs and mount points.
	bridgeBytes  = MaxSize
	bridgeInodes = 64
)

// Request and reply directories of the bridge (bridge-protocol, Directories).
const (
	// MaxRequestBytes is the size of the request directory, 16 of the largest
	// requests in flight; a small memory limit makes it smaller.
	MaxRequestBytes = 16 << 20
	// RequestInodes is the number of requests that can lie there.
	RequestInodes = 1024
	// Replies: the quota of 64 MiB plus what is being written.
	replyBytes  = 96 << 20
	replyInodes = 4096

	bridgeDir = rootfs.Workspace + "/.bridge"
)

// Per-sandbox ceilings of what would otherwise be counted against the host's
// own user (user_namespaces(7), /proc/sys/user). No further user namespaces:
// that is where most of the kernel's attack surface for an unprivileged program
// lies. The inotify figures are what a large build or a file watcher needs.
const (
	maxUserNamespaces   = "0"
	maxInotifyInstances = "16"
	maxInotifyWatches   = "4096"
)

// Template compiles what all sandboxes of one root configuration share.
func Template(v *rootfs.View, rootless bool) *Plan {
	p := &Plan{}
	p.add(OpRoot, [4]uint64{rootBytes, rootInodes})
	for _, d := range v.Dirs {
		p.add(OpDir, [4]uint64{uint64(d.Mode)}, trimSlash(d.Path))
	}
	for _, l := range v.Links {
		p.add(OpSymlink, [4]uint64{}, l.Target, trimSlash(l.Path))
	}
	for _, f := range v.Files {
		p.add(OpWrite, [4]uint64{uint64(f.Mode)}, trimSlash(f.Path), f.Data)
	}
	for _, b := range v.Binds {
		attr, dev, flags := uint64(AttrRdonly|AttrNosuid|AttrNodev), uint64(0), uint64(0)
		switch b.Kind {
		case rootfs.KindChar:
			attr, dev = AttrRdonly|AttrNosuid|AttrNoexec, uint64(b.Major)<<32|uint64(b.Minor)
		case rootfs.KindDir:
			flags |= bindRecursive
		}
		if b.NoFollow {
			flags |= bindNoFollow
		}
		p.add(OpBind, [4]uint64{attr, uint64(b.Kind), dev, flags}, b.Source, trimSlash(b.Target))
	}
	if rootless {
		// The kernel lets a user namespace mount a fresh procfs only where a full
		// one is in sight; the init removes this one again.
		p.add(OpBind, [4]uint64{0, uint64(rootfs.KindDir), 0, bindRecursive}, "/proc", trimSlash(rootfs.EmptyDir))
	}
	p.add(OpPivot, [4]uint64{})
	p.add(OpAttr, [4]uint64{AttrRdonly}, "/")
	return p
}

const (
	bindRecursive = 1
	bindNoFollow  = 2

	exportDir      = 1
	exportOptional = 2
)

// Prepare compiles the first part of one sandbox: all that depends on its
// policy but on no single run. It ends where the sandbox waits for its program.
func Prepare(in Input) (*Plan, error) {
	if err := checkSpec(in.Spec); err != nil {
		return nil, err
	}
	p := &Plan{Ops: make([]Operation, 0, 128)}
	for i := range in.JoinFDs {
		p.add(OpJoin, [4]uint64{uint64(FDCgroup + in.FirstJoin + i)})
	}
	p.add(OpEnter, [4]uint64{})
	p.add(OpUnshare, [4]uint64{cloneNewNS | cloneNewNet | cloneNewIPC | cloneNewUTS | cloneNewCgroup})
	if err := p.mounts(&in); err != nil {
		return nil, err
	}
	p.add(OpLoopback, [4]uint64{})
	p.add(OpHostname, [4]uint64{}, in.Spec.Hostname)
	p.bridge(&in)
	p.add(OpExport, [4]uint64{SlotWorkspace, exportDir}, rootfs.Workspace)
	p.add(OpExport, [4]uint64{SlotSNMP}, "/proc/self/net/snmp")
	p.add(OpExport, [4]uint64{SlotSNMP6, exportOptional}, "/proc/self/net/snmp6")
	if err := p.rlimits(&in); err != nil {
		return nil, err
	}
	p.add(OpAwait, [4]uint64{})
	return p, nil
}

// Run compiles the second part: the run's identity, files and program, to the
// execve.
func Run(in Input) (*Plan, error) {
	if err := checkSpec(in.Spec); err != nil {
		return nil, err
	}
	p := &Plan{Ops: make([]Operation, 0, 32)}
	user := in.Spec.Process.User
	p.add(OpStdio, [4]uint64{FDStdin, FDStdout, FDStderr})
	p.add(OpChown, [4]uint64{uint64(in.IDs.UID), uint64(in.IDs.GID)}, rootfs.Workspace)
	p.files(&in)
	if !in.IDs.Rootless {
		p.add(OpSupervisor, [4]uint64{uint64(in.IDs.SupervisorUID), uint64(in.IDs.SupervisorGID)})
	}
	p.add(OpProgram, [4]uint64{uint64(user.UID), uint64(in.IDs.UID), uint64(user.GID), uint64(in.IDs.GID)},
		string(in.Filters.Init))
	p.add(OpUserSysctl, [4]uint64{}, "max_user_namespaces", maxUserNamespaces)
	p.add(OpUserSysctl, [4]uint64{}, "max_inotify_instances", maxInotifyInstances)
	p.add(OpUserSysctl, [4]uint64{}, "max_inotify_watches", maxInotifyWatches)
	keepGroups := uint64(0)
	if in.IDs.Rootless {
		keepGroups = 1 // setgroups(2) is denied there; the host side refuses callers that have any
	}
	p.add(OpIdentity, [4]uint64{uint64(user.UID), uint64(user.GID), keepGroups})
	p.add(OpDropCaps, [4]uint64{})
	p.add(OpNoNewPrivs, [4]uint64{})
	p.add(OpChdir, [4]uint64{}, in.Spec.Process.Cwd)
	p.add(OpSeccomp, [4]uint64{}, string(in.Filters.Deny)) // first: the other one refuses seccomp(2)
	p.add(OpSeccomp, [4]uint64{}, string(in.Filters.Allow))
	p.exec(in.Spec.Process)
	return p, nil
}

func (p *Plan) mounts(in *Input) error {
	for _, m := range in.Spec.Mounts {
		if m.Type == "bind" { // part of the template
			continue
		}
		flags, data, err := mountOptions(m.Options)
		if err != nil {
			return err
		}
		p.add(OpMount, [4]uint64{flags}, m.Source, m.Destination, m.Type, strings.Join(data, ","))
		if m.Type == "proc" {
			p.proc(in)
		}
	}
	return nil
}

// proc hides what the kernel shows of the host in a procfs that was mounted a
// moment ago, and keeps hold of the one directory that the program's process
// has to write to.
func (p *Plan) proc(in *Input) {
	if in.IDs.Rootless {
		p.add(OpUmount, [4]uint64{}, rootfs.EmptyDir)
	}
	p.add(OpHold, [4]uint64{}, "/proc/sys/user")
	for _, path := range in.Spec.Linux.MaskedPaths {
		p.add(OpMask, [4]uint64{}, path, rootfs.NullDevice, rootfs.EmptyDir)
	}
	for _, path := range in.Spec.Linux.ReadonlyPaths {
		p.add(OpMount, [4]uint64{msBind}, path, path, "", "")
		p.add(OpMount, [4]uint64{msBind | msRemount | msRdonly | msNosuid | msNodev | msNoexec}, "", path, "", "")
	}
}

// bridge mounts the tool channel: host-written files in a read-only tmpfs, with
// the request and the reply directory as two more on top. The host gets both as
// descriptors; that of the replies is writable, the program's view is not.
func (p *Plan) bridge(in *Input) {
	if in.Bridge == nil {
		return
	}
	const hardened = msNosuid | msNodev | msNoexec
	p.add(OpDir, [4]uint64{0o755}, bridgeDir)
	p.add(OpMount, [4]uint64{msNosuid | msNodev}, "tmpfs", bridgeDir, "tmpfs",
		tmpfsOptions("0755", bridgeBytes, bridgeInodes))
	for _, dir := range []string{"/req", "/resp", "/sdk"} {
		p.add(OpDir, [4]uint64{0o755}, bridgeDir+dir)
	}
	for _, f := range in.Bridge {
		p.add(OpWrite, [4]uint64{uint64(f.Mode)}, bridgeDir+"/"+f.Path, string(f.Data))
	}
	req, resp := bridgeDir+"/req", bridgeDir+"/resp"
	p.add(OpMount, [4]uint64{hardened}, "tmpfs", req, "tmpfs", tmpfsOptions("1733", in.RequestBytes, RequestInodes))
	p.add(OpMount, [4]uint64{hardened}, "tmpfs", resp, "tmpfs", tmpfsOptions("0711", replyBytes, replyInodes))
	p.add(OpExport, [4]uint64{SlotRequests, exportDir}, req)
	p.add(OpExport, [4]uint64{SlotReplies, exportDir}, resp)
	p.add(OpMount, [4]uint64{msBind}, resp, resp, "", "")
	p.add(OpMount, [4]uint64{msBind | msRemount | msRdonly | hardened}, "", resp, "", "")
	p.add(OpMount, [4]uint64{msBind | msRemount | msRdonly | msNosuid | msNodev}, "", bridgeDir, "", "")
}

func tmpfsOptions(mode string, bytes, inodes int64) string {
	return fmt.Sprintf("mode=%s,size=%d,nr_inodes=%d", mode, bytes, inodes)
}

func (p *Plan) files(in *Input) {
	owner := uint64(in.IDs.UID)<<32 | uint64(in.IDs.GID)
	made := map[string]bool{rootfs.Workspace: true}
	for i, f := range in.Files {
		for j := len(rootfs.Workspace) + 1; j < len(f.Target); j++ {
			if dir := f.Target[:j]; f.Target[j] == '/' && !made[dir] {
				made[dir] = true
				p.add(OpDir, [4]uint64{0o755, uint64(in.IDs.UID), uint64(in.IDs.GID)}, dir)
			}
		}
		p.add(OpCopy, [4]uint64{uint64(FDFirstFile + i), uint64(f.Mode), uint64(f.Size), owner}, f.Target)
	}
}

func (p *Plan) rlimits(in *Input) error {
	for _, r := range in.Spec.Process.Rlimits {
		res, ok := rlimitByName(r.Type)
		if !ok {
			return unsupported("process.rlimits", r.Type)
		}
		p.add(OpRlimit, [4]uint64{res, r.Soft, r.Hard})
	}
	// What no policy names but the kernel would take from the caller: the
	// program gets a fixed small value, or the caller's where that is smaller.
	for _, r := range []struct{ res, value uint64 }{
		{rlimitSigpending, 4096}, // queued signals, counted per user
		{rlimitMsgqueue, 819200}, // the kernel's own default
		{rlimitMemlock, 8 << 20}, // the kernel's own default
		{rlimitNice, 0},          // no negative nice values
		{rlimitRtprio, 0},        // no real-time scheduling
	} {
		v := min(r.value, in.HardLimit(r.res))
		p.add(OpRlimit, [4]uint64{r.res, v, v})
	}
	return nil
}

// exec lists the candidates for the program: the name itself, or each directory
// of the sandbox's PATH with it, so that the launcher parses nothing.
func (p *Plan) exec(proc *specs.Process) {
	candidates := []string{proc.Args[0]}
	if !strings.Contains(proc.Args[0], "/") {
		candidates = candidates[:0]
		for _, kv := range proc.Env {
			if path, ok := strings.CutPrefix(kv, "PATH="); ok {
				candidates = candidates[:0]
				for dir := range strings.SplitSeq(path, ":") {
					if strings.HasPrefix(dir, "/") { // never the working directory
						candidates = append(candidates, strings.TrimSuffix(dir, "/")+"/"+proc.Args[0])
					}
				}
			}
		}
		if len(candidates) == 0 {
			candidates = []string{"/nonexistent/" + proc.Args[0]}
		}
	}
	strs := make([]string, 0, len(candidates)+len(proc.Args)+len(proc.Env))
	strs = append(strs, candidates...)
	strs = append(strs, proc.Args...)
	strs = append(strs, proc.Env...)
	p.add(OpExec, [4]uint64{uint64(len(candidates)), uint64(len(proc.Args)), uint64(len(proc.Env))}, strs...)
}

// mountOptions splits an OCI mount's options into mount(2) flags and data.
func mountOptions(opts []string) (flags uint64, data []string, err error) {
	for _, o := range opts {
		switch o {
		case "ro":
			flags |= msRdonly
		case "nosuid":
			flags |= msNosuid
		case "nodev":
			flags |= msNodev
		case "noexec":
			flags |= msNoexec
		default:
			if !strings.Contains(o, "=") {
				return 0, nil, unsupported("mounts.options", o)
			}
			data = append(data, o)
		}
	}
	return flags, data, nil
}

func unsupported(field, value string) error {
	return &errdef.Error{Code: errdef.Unsupported, Op: "plan", Path: field,
		Msg: fmt.Sprintf("%q cannot be enforced by the direct engine", value)}
}
