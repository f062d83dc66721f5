package cgroups

import "strconv"

// socketLimitV1 limits the buffers of TCP and UDP sockets, which v1 does not
// charge to the memory limit and which loopback connections inside a sandbox
// can fill: without it 100 of them held 372 MiB under a limit of 64 MiB. v2
// charges them to memory.max. (cgroup-v1/memory.rst, 2.7; UDP is counted too.)
const socketLimitV1 = "memory.kmem.tcp.limit_in_bytes"

const (
	// socketShareV1 is the part of the memory limit that socket buffers may
	// have on top of it. Senders wait or drop at their limit, nothing is killed.
	socketShareV1 = 8
	// socketLeastV1 keeps a few connections going under the smallest limits.
	socketLeastV1 = 1 << 20
)

func socketMemoryV1(memory int64) int64 {
	return max(memory/socketShareV1, socketLeastV1)
}

// write is one limit file. A swap file may be absent on a host without swap.
type write struct {
	controller, file, value string
	swap                    bool
}

// writes lists the limit files of the controllers in t, in the order in which
// the kernel takes them for a new group.
func (t *parentTree) writes(lim Limits) []write {
	var w []write
	for _, c := range t.controllers {
		switch {
		case t.version == 2:
			w = appendV2(w, c, lim)
		default:
			w = appendV1(w, c, lim)
		}
	}
	return w
}

// appendV2: Documentation/admin-guide/cgroup-v2.rst. memory.high stays unset,
// it slows and never denies; memory.oom.group stays 0, for the kill of one
// child must not end the whole sandbox.
func appendV2(w []write, controller string, lim Limits) []write {
	switch controller {
	case memoryController:
		w = append(w,
			write{controller: controller, file: "memory.max", value: strconv.FormatInt(lim.Memory, 10)},
			write{controller: controller, file: "memory.swap.max", value: "0", swap: true})
	case cpuController:
		w = append(w, write{controller: controller, file: "cpu.max", value: micros(lim.CPUQuota) + " " + micros(lim.period())})
	case pidsController:
		w = append(w, write{controller: controller, file: "pids.max", value: strconv.FormatInt(lim.Pids, 10)})
	}
	return w
}

// appendV1: Documentation/admin-guide/cgroup-v1/memory.rst, sched-bwc.rst.
// memsw is memory plus swap and must never be below the memory limit, so it
// comes second; the period comes before the quota, which is checked against it.
func appendV1(w []write, controller string, lim Limits) []write {
	switch controller {
	case memoryController:
		v := strconv.FormatInt(lim.Memory, 10)
		w = append(w,
			write{controller: controller, file: "memory.limit_in_bytes", value: v},
			write{controller: controller, file: "memory.memsw.limit_in_bytes", value: v, swap: true},
			write{controller: controller, file: socketLimitV1, value: strconv.FormatInt(socketMemoryV1(lim.Memory), 10)})
	case cpuController:
		if lim.period() != DefaultCPUPeriod {
			w = append(w, write{controller: controller, file: "cpu.cfs_period_us", value: micros(lim.period())})
		}
		w = append(w, write{controller: controller, file: "cpu.cfs_quota_us", value: micros(lim.CPUQuota)})
	case pidsController:
		w = append(w, write{controller: controller, file: "pids.max", value: strconv.FormatInt(lim.Pids, 10)})
	}
	return w
}
