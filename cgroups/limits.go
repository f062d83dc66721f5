package cgroups

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
)

const (
	// DefaultCPUPeriod is the kernel's own default period of the bandwidth
	// controller (Documentation/scheduler/sched-bwc.rst). Equal to it, the v1
	// period need not be written.
	DefaultCPUPeriod = 100 * time.Millisecond
	// minCPUPeriod, maxCPUPeriod and minCPUQuota are the kernel's bounds
	// (kernel/sched/core.c: min_cfs_quota_period, max_cfs_quota_period).
	minCPUPeriod = time.Millisecond
	maxCPUPeriod = time.Second
	minCPUQuota  = time.Millisecond
	// maxCPUQuota keeps the quota far below the kernel's own maximum
	// (max_bw_quota_period_us, about 203 days): 8,192 CPUs for a whole second,
	// more than NR_CPUS of any kernel built today.
	maxCPUQuota = 8192 * time.Second
	// maxMemory is below PAGE_COUNTER_MAX, which the kernel takes for "no
	// limit" (include/linux/page_counter.h). 1 EiB is a typing error.
	maxMemory = 1 << 60
	// maxPids is PID_MAX_LIMIT of 64-bit kernels (include/linux/threads.h);
	// from there on the pids controller limits nothing.
	maxPids = 4194304 - 1
)

// Limits are the limits of one sandbox. All are mandatory: there is no value
// that means unlimited. Swap is always 0 and so has no field.
type Limits struct {
	// Memory is the maximum of memory in bytes, a whole number of pages:
	// anonymous memory, page cache, tmpfs and kernel memory on the sandbox's
	// behalf. On v1 the buffers of TCP and UDP sockets have a limit of their own
	// on top, an eighth of this one and at least 1 MiB; v2 has them in it.
	Memory int64
	// CPUQuota is the CPU time that all processes together may use per
	// CPUPeriod: whole microseconds, at least 1 ms. Twice the period is two
	// CPUs. [CPUs] makes it from a number of CPUs.
	CPUQuota time.Duration
	// CPUPeriod is the accounting period, 1 ms to 1 s in whole microseconds;
	// 0 is [DefaultCPUPeriod].
	CPUPeriod time.Duration
	// Pids is the maximum of processes and threads, the sandbox's PID 1
	// included.
	Pids int64
}

// CPUs returns the quota of n CPUs per [DefaultCPUPeriod], rounded down to
// whole microseconds. [Limits.Validate] refuses what is too small.
func CPUs(n float64) time.Duration {
	q := n * float64(DefaultCPUPeriod/time.Microsecond)
	if !(q > 0) || q > float64(maxCPUQuota/time.Microsecond) {
		return -1 // NaN, zero, negative and absurd: refused by Validate
	}
	return time.Duration(q) * time.Microsecond
}

// Validate refuses, with code invalid, a limit that is absent or that the
// kernel would round or ignore.
func (l Limits) Validate() error {
	page := int64(os.Getpagesize())
	switch {
	case l.Memory <= 0 || l.Memory > maxMemory:
		return errdef.Field("memory", fmt.Sprintf("%d bytes is no limit", l.Memory), "1 page to 1 EiB")
	case l.Memory%page != 0:
		return errdef.Field("memory", fmt.Sprintf("%d bytes is not a whole number of pages", l.Memory),
			fmt.Sprintf("multiples of %d, such as %d", page, max(page, l.Memory/page*page)))
	case l.CPUQuota < minCPUQuota || l.CPUQuota > maxCPUQuota:
		return errdef.Field("cpus", fmt.Sprintf("a CPU quota of %v per period cannot be enforced", l.CPUQuota), "1ms to 8192s")
	case l.CPUQuota%time.Microsecond != 0:
		return errdef.Field("cpus", fmt.Sprintf("a CPU quota of %v is not in whole microseconds", l.CPUQuota), "1ms to 8192s in steps of 1us")
	case l.period() < minCPUPeriod || l.period() > maxCPUPeriod || l.period()%time.Microsecond != 0:
		return errdef.Field("cpu-period", fmt.Sprintf("%v cannot be enforced", l.CPUPeriod), "1ms to 1s in steps of 1us")
	case l.Pids <= 0 || l.Pids > maxPids:
		return errdef.Field("pids", fmt.Sprintf("%d is no limit", l.Pids), fmt.Sprintf("1 to %d", maxPids))
	}
	return nil
}

func (l Limits) period() time.Duration {
	if l.CPUPeriod == 0 {
		return DefaultCPUPeriod
	}
	return l.CPUPeriod
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// maxID bounds the ids of supervisors and sandboxes; with the prefix they stay
// far below NAME_MAX (255).
const maxID = 64

// checkID accepts 1 to 64 characters of a-z, 0-9 and "-": no separator, no
// dot, nothing that could name another directory. what names the field.
func checkID(what, id string) error {
	bad := id == "" || len(id) > maxID
	for i := 0; i < len(id) && !bad; i++ {
		c := id[i]
		bad = !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if bad {
		return errdef.Field(what, fmt.Sprintf("%.80q is not an id", id), "1 to 64 of a-z, 0-9, -")
	}
	return nil
}
