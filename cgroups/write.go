package cgroups

import "strconv"

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
			write{controller: controller, file: "memory.memsw.limit_in_bytes", value: v, swap: true})
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
