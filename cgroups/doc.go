// Package cgroups holds the resource limits of sandboxes: memory with swap
// off, CPU bandwidth and number of processes, with the statistics and the
// denial counters that belong to them.
//
//	Detect  ->  Layout    which controllers there are, and where we may make groups
//	Open    ->  Parent    sbxrun-<supervisor>/ in each hierarchy that is needed
//	New     ->  Group     <supervisor's>/<id>/ with its limits written, still empty
//
// [NewSingle] is the last two in one for a supervisor with a single sandbox.
// Everything works on cgroup v2, on v1 and on any mixture of both: every
// controller is used where the host has it. A controller that is missing is an
// error of code unsupported, never a limit left out.
//
// # How a process gets in
//
// The launcher clones with CLONE_INTO_CGROUP when [Group.CloneFD] has a
// descriptor (v2), and its child, still single-threaded, writes "0" to each of
// [Group.JoinFDs] (v1) before it does anything else. On a pure v2 host the
// second list is empty, on a v1 host there is no first; a mixture has both. The
// v1 descriptors are those of the "tasks" file and not of "cgroup.procs":
// moving a whole process takes the kernel's threadgroup lock for writing, which
// waits for an RCU grace period when nobody moved a process shortly before (10
// ms measured on 6.18, against 35 us by "tasks"; both move the same single
// thread).
//
// # Safety
//
// The package makes, kills and removes only below directories named
// sbxrun-<supervisor> that it found or made relative to a kept descriptor
// (openat2 with RESOLVE_BENEATH, NO_SYMLINKS, NO_XDEV). No path comes from a
// configuration; an id is 1 to 64 characters of a-z, 0-9 and "-". There is no
// way to name the root cgroup or the caller's own.
//
// # Why not github.com/opencontainers/cgroups
//
// It was measured and is not imported outside of the tests, where it checks
// our reading of the files. Its writers take path strings and walk them from
// /sys/fs/cgroup each time, which cannot keep the promise above; setting the
// three limits and reading the statistics costs it several times as much
// (BenchmarkPeerSetStats); it logs through a global logger of its own. Package
// initialisation was not the reason: 0.2 ms more start-up than encoding/json
// with net, most of it from the size of the binary (systemd and D-Bus come
// with it). What is left to write ourselves is eight small files per version.
package cgroups
