package runtime

import (
	"time"

	"github.com/sbxrun/sbxrun/bridge"
)

// NetworkMode says which network a sandbox has.
type NetworkMode string

// NetworkNone is a fresh network namespace with nothing but loopback. It is
// the default and the only mode that this version builds; every other value is
// refused.
const NetworkNone NetworkMode = "none"

// OverflowMode says what happens to a program that writes more than its
// output limit.
type OverflowMode string

const (
	// OverflowDiscard drains and drops what exceeds the limit: the program goes
	// on, the result says truncated.
	OverflowDiscard OverflowMode = "discard"
	// OverflowStop ends the run with the reason output-limit.
	OverflowStop OverflowMode = "stop"
)

// Policy is everything that one sandbox may do and consume. Start from
// [NewPolicy], which fills in the defaults: no field means "unlimited", and a
// zero or negative limit is refused by [Policy.Validate].
type Policy struct {
	// Args is the program and its arguments. A name without a slash is looked
	// up in the sandbox's PATH, inside the sandbox.
	Args []string
	// Env holds the program's variables besides the few that sbxrun sets (PATH,
	// HOME, LANG, the bridge's stub paths, thread counts that follow the CPU
	// limit); an entry here wins over those. Nothing of the host's environment
	// is passed on.
	Env map[string]string
	// Cwd is the absolute working directory, by default /workspace.
	Cwd string
	// UID and GID are the program's ids inside the sandbox, never 0. On the
	// host they are mapped to ids that belong to this sandbox alone.
	UID, GID uint32
	// Hostname is the sandbox's host name (sethostname(2)).
	Hostname string

	// Rootfs is what the program sees as its root file system, read-only.
	Rootfs Rootfs
	// Binds are further host files or directories, read-only.
	Binds []Bind
	// Files are copied in before the program starts.
	Files []File
	// Outputs are regular files fetched from the workspace after the end.
	Outputs []Output

	Limits  Limits
	Network NetworkMode

	// Bridge is the tool channel. Without tools there is none.
	Bridge Bridge

	// Labels are the caller's own words for audit records.
	Labels map[string]string
}

// Rootfs names the root file system. The zero value is the host's own /usr
// with a minimal /etc.
type Rootfs struct {
	// Dir is a directory that holds a root file system; "" means the host view.
	Dir string
}

// Bind shows one host file or directory inside the sandbox, read-only,
// nosuid and nodev.
type Bind struct {
	Source string // host path, absolute
	Target string // path inside, absolute and clean; not below /proc, /sys, /dev or /workspace
}

// File is one regular file put into the workspace before the program starts.
// Its bytes are charged to the sandbox.
type File struct {
	// Source is a host path: a regular file, not a symbolic link, at most
	// MaxFileBytes long. Ignored where Data is not nil.
	Source string
	// Data is the content itself.
	Data []byte
	// Target is the path inside, absolute or relative to /workspace, and below
	// /workspace.
	Target string
	// Mode is the file's permission bits; 0 means 0644, or 0755 where Source is
	// executable by its owner.
	Mode uint32
}

// Output is one regular file read from the workspace after the run.
type Output struct {
	Path string // inside: absolute or relative to /workspace
	Dest string // host path, replaced by rename; "" = into FetchedFile.Data
}

// Bridge is the tool channel's policy. Limits are mandatory like all others.
type Bridge struct {
	// Tools is what the program may call; nil means no bridge at all.
	Tools *bridge.Set
	// MaxCalls is the number of calls that may be dispatched in the run. 0 means
	// none.
	MaxCalls int
	// Concurrency is the number of calls in flight.
	Concurrency int
	// ToolTimeout bounds each call.
	ToolTimeout time.Duration
}

// Limits are the resource limits of one sandbox. All are mandatory and
// positive.
type Limits struct {
	// Memory in bytes, page cache and tmpfs included; swap is always 0.
	Memory int64
	// CPUs is the share of processors, 1 = one full processor.
	CPUs float64
	// Pids is the number of the program's processes and threads (sbxrun's own
	// init is not counted).
	Pids int64
	// Timeout is the wall-clock time of the program, measured monotonically.
	Timeout time.Duration
	// WorkspaceBytes and WorkspaceInodes bound /workspace; the bytes must be
	// less than Memory, so that a full disk is ENOSPC and never an OOM kill.
	WorkspaceBytes, WorkspaceInodes int64
	// TmpBytes and TmpInodes bound /tmp; ShmBytes and ShmInodes /dev/shm.
	TmpBytes, TmpInodes int64
	ShmBytes, ShmInodes int64
	// OutputBytes bounds standard output and standard error, each.
	OutputBytes int64
	// OutputOverflow says what happens past OutputBytes.
	OutputOverflow OverflowMode
	// OpenFiles is RLIMIT_NOFILE, soft and hard.
	OpenFiles int64
	// FileBytes is the size cap of each file fetched by Outputs.
	FileBytes int64
}
