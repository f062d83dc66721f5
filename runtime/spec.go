package runtime

import (
	"fmt"
	"math"
	goruntime "runtime"
	"sort"
	"strconv"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/rootfs"
	"github.com/sbxrun/sbxrun/runtime/plan"
	"github.com/sbxrun/sbxrun/seccomp/ocispec"
)

const bridgeDir = rootfs.Workspace + "/.bridge"

func timeDuration(n int64) time.Duration { return time.Duration(n) }

// maskedPaths are the parts of /proc that show the host: the list that the
// container runtimes share, and beyond it what tells of the host's hardware,
// kernel command line, keys, locks and disks. Each is a mount of every sandbox,
// so what shows nothing of value is not listed.
func maskedPaths() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/bootconfig", "/proc/buddyinfo", "/proc/bus", "/proc/cmdline", "/proc/config.gz",
		"/proc/devices", "/proc/diskstats", "/proc/driver",
		"/proc/fs", "/proc/interrupts", "/proc/iomem", "/proc/ioports", "/proc/irq", "/proc/kallsyms", "/proc/kcore",
		"/proc/key-users", "/proc/keys", "/proc/kmsg", "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags",
		"/proc/latency_stats", "/proc/locks", "/proc/mdstat", "/proc/modules", "/proc/mtrr", "/proc/partitions",
		"/proc/pressure", "/proc/sched_debug", "/proc/schedstat", "/proc/scsi", "/proc/slabinfo", "/proc/softirqs", "/proc/swaps",
		"/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo",
		"/proc/vmstat", "/proc/zoneinfo",
	}
}

// requestBytes is the size of the bridge's request directory: it is the
// program's memory like the other tmpfs mounts.
func (p *Policy) requestBytes() int64 {
	if p.Bridge.Tools == nil {
		return 0
	}
	return min(plan.MaxRequestBytes, p.Limits.Memory/16&^(pageSize-1))
}

func (p *Policy) requestInodes() int64 {
	if p.Bridge.Tools == nil {
		return 0
	}
	return plan.RequestInodes
}

// spec describes the sandbox as an OCI runtime spec: the one description that
// the plan is compiled from and that `explain --format oci` prints. The filter's
// rules in OCI form are long; where nobody reads them (full is false) only their
// default stands for them.
func (p *Policy) spec(view *rootfs.View, full bool) *specs.Spec {
	l := &p.Limits
	memory, pids, period := l.Memory, l.Pids+1, uint64(cgroups.DefaultCPUPeriod/time.Microsecond)
	quota, swappiness := int64(cgroups.CPUs(l.CPUs)/time.Microsecond), uint64(0)
	s := &specs.Spec{
		Version:  specs.Version,
		Hostname: p.Hostname,
		Root:     &specs.Root{Path: firstNonEmpty(p.Rootfs.Dir, "/"), Readonly: true},
		Process: &specs.Process{
			User:            specs.User{UID: p.UID, GID: p.GID},
			Args:            p.Args,
			Env:             p.environment(),
			Cwd:             p.Cwd,
			Capabilities:    &specs.LinuxCapabilities{},
			NoNewPrivileges: true,
			Rlimits: []specs.POSIXRlimit{
				{Type: "RLIMIT_CORE"},
				{Type: "RLIMIT_NOFILE", Soft: uint64(l.OpenFiles), Hard: uint64(l.OpenFiles)},
			},
		},
		Mounts: p.mounts(view),
		Linux: &specs.Linux{
			MaskedPaths:   maskedPaths(),
			ReadonlyPaths: []string{"/proc/sys"},
			Seccomp:       &specs.LinuxSeccomp{DefaultAction: specs.ActErrno},
			Resources: &specs.LinuxResources{
				Memory: &specs.LinuxMemory{Limit: &memory, Swap: &memory, Swappiness: &swappiness},
				CPU:    &specs.LinuxCPU{Quota: &quota, Period: &period},
				Pids:   &specs.LinuxPids{Limit: &pids},
			},
		},
		Annotations: map[string]string{
			"dev.sbxrun.network":          string(p.Network),
			"dev.sbxrun.timeout":          l.Timeout.String(),
			"dev.sbxrun.output-limit":     strconv.FormatInt(l.OutputBytes, 10),
			"dev.sbxrun.output-overflow":  string(l.OutputOverflow),
			"dev.sbxrun.bridge":           strconv.FormatBool(p.Bridge.Tools != nil),
			"dev.sbxrun.max-tool-calls":   strconv.Itoa(p.Bridge.MaxCalls),
			"dev.sbxrun.tool-timeout":     p.Bridge.ToolTimeout.String(),
			"dev.sbxrun.tool-concurrency": strconv.Itoa(p.Bridge.Concurrency),
		},
	}
	if full {
		s.Linux.Seccomp = ocispec.Profile(goruntime.GOARCH)
	}
	for _, ns := range plan.Namespaces() {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: ns})
	}
	if p.Bridge.Tools != nil {
		for _, t := range p.Bridge.Tools.Tools() {
			s.Annotations["dev.sbxrun.tool."+t.Name] = t.Description
		}
	}
	return s
}

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// mounts lists the sandbox's mounts in order; those of type bind are part of
// the template.
func (p *Policy) mounts(view *rootfs.View) []specs.Mount {
	l := &p.Limits
	var out []specs.Mount
	for _, b := range view.Binds {
		out = append(out, specs.Mount{Destination: b.Target, Type: "bind", Source: b.Source,
			Options: bindOptions(b.Kind)})
	}
	tmpfs := func(dst string, bytes, inodes int64, mode string, more ...string) specs.Mount {
		return specs.Mount{Destination: dst, Type: "tmpfs", Source: "tmpfs", Options: append(append([]string{"nosuid", "nodev"}, more...),
			"mode="+mode, "size="+strconv.FormatInt(bytes, 10), "nr_inodes="+strconv.FormatInt(inodes, 10))}
	}
	return append(out,
		specs.Mount{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "nodev", "noexec", "hidepid=2"}},
		// max bounds the pseudo-terminals, a limit that the kernel counts for the
		// whole host otherwise.
		specs.Mount{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "ptmxmode=0666", "mode=0620", "max=16"}},
		tmpfs("/dev/shm", l.ShmBytes, l.ShmInodes, "1777", "noexec"),
		tmpfs("/tmp", l.TmpBytes, l.TmpInodes, "1777"),
		tmpfs(rootfs.Workspace, l.WorkspaceBytes, l.WorkspaceInodes, "0755"),
	)
}

func bindOptions(k rootfs.Kind) []string {
	switch k {
	case rootfs.KindChar:
		return []string{"bind", "ro", "nosuid", "noexec"}
	case rootfs.KindDir:
		return []string{"rbind", "ro", "nosuid", "nodev"}
	}
	return []string{"bind", "ro", "nosuid", "nodev"}
}

// environment returns the program's variables: a few of our own, then the
// policy's, sorted. Nothing comes from the host.
func (p *Policy) environment() []string {
	threads := strconv.Itoa(max(1, int(math.Ceil(p.Limits.CPUs))))
	env := map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": rootfs.Workspace, "TMPDIR": "/tmp",
		"LANG": "C.UTF-8", "USER": "sandbox", "LOGNAME": "sandbox",
		// Numeric libraries start a thread per processor of the machine unless
		// told otherwise, and fail at the pids limit on a large one.
		"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
		"NUMEXPR_NUM_THREADS": threads, "VECLIB_MAXIMUM_THREADS": threads, "BLIS_NUM_THREADS": threads,
		"RAYON_NUM_THREADS": threads, "GOMAXPROCS": threads,
	}
	if p.Bridge.Tools != nil {
		env["PYTHONPATH"] = bridgeDir + "/sdk"
		env["NODE_PATH"] = bridgeDir + "/sdk"
		env["PATH"] = bridgeDir + "/sdk:" + env["PATH"]
	}
	for k, v := range p.Env {
		env[k] = v
	}
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, fmt.Sprintf("%s=%s", k, v))
	}
	sort.Strings(out)
	return out
}
