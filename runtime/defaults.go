package runtime

import (
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/rootfs"
)

// The default limits: what a model-written script with a few hundred kilobytes
// of data needs, small enough that a hundred of them fit a laptop.
const (
	DefaultMemory          = 256 << 20
	DefaultCPUs            = 1
	DefaultPids            = 64
	DefaultTimeout         = 30 * time.Second
	DefaultWorkspaceBytes  = 64 << 20
	DefaultWorkspaceInodes = 16384
	DefaultTmpBytes        = 32 << 20
	DefaultTmpInodes       = 8192
	DefaultShmBytes        = 16 << 20
	DefaultShmInodes       = 1024
	DefaultOutputBytes     = 1 << 20
	DefaultOpenFiles       = 256 // times pids, it bounds what sockets take outside of the memory limit
	DefaultFileBytes       = 64 << 20
	DefaultUID             = 1000
	DefaultHostname        = "sandbox"
	DefaultCwd             = rootfs.Workspace
)

// The bounds that [Policy.Validate] holds policies to.
const (
	// MinMemory is what the set-up itself needs, with room for a small program.
	MinMemory = 8 << 20
	// MaxPids is the kernel's PID_MAX_DEFAULT.
	MaxPids = 32768
	// MaxTimeout is a week: a sandbox is no place for a service.
	MaxTimeout = 7 * 24 * time.Hour
	// MaxArgBytes bounds arguments plus environment. The kernel takes a quarter
	// of the stack limit, 2 MiB with the usual one (execve(2)).
	MaxArgBytes = 1 << 20
	// MaxArgs and MaxEnv bound their number.
	MaxArgs = 8192
	MaxEnv  = 1024
	// MaxStringBytes is the kernel's bound on one string (MAX_ARG_STRLEN).
	MaxStringBytes = 128<<10 - 1
	// MaxFiles and MaxFileBytes bound the input files.
	MaxFiles     = 128
	MaxFileBytes = 1 << 30
	// MaxOutputs bounds the files fetched.
	MaxOutputs = 128
	// MaxBinds bounds the read-only binds: each is a mount per sandbox.
	MaxBinds = 64
	// MaxInodes bounds each tmpfs: an inode costs the kernel about a kilobyte.
	MaxInodes = 1 << 20
	// MinOpenFiles is what an interpreter opens at start.
	MinOpenFiles = 16
	// maxCPUs is more than any machine has.
	maxCPUs   = 4096
	minInodes = 16   // of a tmpfs: its root and a few files
	minCPUs   = 0.01 // the kernel's smallest quota: 1 ms in 100 ms
)

// NewPolicy returns a policy with all defaults for the program.
func NewPolicy(args ...string) Policy {
	return Policy{
		Args: args, Env: map[string]string{}, Cwd: DefaultCwd,
		UID: DefaultUID, GID: DefaultUID, Hostname: DefaultHostname,
		Network: NetworkNone,
		Limits: Limits{
			Memory: DefaultMemory, CPUs: DefaultCPUs, Pids: DefaultPids, Timeout: DefaultTimeout,
			WorkspaceBytes: DefaultWorkspaceBytes, WorkspaceInodes: DefaultWorkspaceInodes,
			TmpBytes: DefaultTmpBytes, TmpInodes: DefaultTmpInodes,
			ShmBytes: DefaultShmBytes, ShmInodes: DefaultShmInodes,
			OutputBytes: DefaultOutputBytes, OutputOverflow: OverflowDiscard,
			OpenFiles: DefaultOpenFiles, FileBytes: DefaultFileBytes,
		},
		Bridge: Bridge{MaxCalls: bridge.DefaultMaxCalls, Concurrency: bridge.DefaultConcurrency,
			ToolTimeout: bridge.DefaultToolTimeout},
	}
}

// SetMemory sets the memory limit and scales the default sizes of the tmpfs
// mounts down with it, so that a small sandbox needs one number.
func (l *Limits) SetMemory(bytes int64) {
	l.Memory = bytes
	scale := func(v *int64, def, share int64) {
		if *v == def {
			*v = min(def, bytes/share&^(pageSize-1))
		}
	}
	scale(&l.WorkspaceBytes, DefaultWorkspaceBytes, 4)
	scale(&l.TmpBytes, DefaultTmpBytes, 8)
	scale(&l.ShmBytes, DefaultShmBytes, 16)
	inodes := func(v *int64, def, share int64) {
		if *v == def {
			*v = max(minInodes, min(def, bytes/share))
		}
	}
	inodes(&l.WorkspaceInodes, DefaultWorkspaceInodes, 16<<10)
	inodes(&l.TmpInodes, DefaultTmpInodes, 32<<10)
	inodes(&l.ShmInodes, DefaultShmInodes, 256<<10)
}

// pageSize is what the kernel rounds tmpfs sizes to on both architectures here.
const pageSize = 4096
