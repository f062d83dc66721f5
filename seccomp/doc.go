// Package seccomp is the system call policy of a sandbox: an allow list as
// data with a reason per group, compiled ahead of time into BPF.
//
// A program runs under two stacked filters; the kernel takes the strictest
// answer (seccomp(2), "the highest precedence action"):
//
//	allow  the allow list. A known call that is not on it answers EPERM, an
//	       unknown or newer number ENOSYS, so that programs fall back as they
//	       would on an older kernel. clone3 answers ENOSYS too: its flags lie
//	       in memory that a filter can't read, and every C library then uses
//	       clone, whose flags can be checked.
//	deny   exceptions from allowed calls by argument (ioctl, fcntl, ...); apart,
//	       because libseccomp, which checks our compiler, can't put exceptions
//	       on a call it allows.
//
// The sandbox's PID 1, our own reaper, runs under a third filter, init, that
// leaves it the dozen calls it makes and kills it for any other.
//
// Only the native ABI exists. A call of a foreign architecture (int 0x80 on
// x86-64, AArch32) kills the process: there the same numbers mean other calls,
// and no program in a native root file system gets there by accident. An x32
// number carries the native architecture value, so it is just an unknown
// number: ENOSYS, what a kernel without x32 answers. So does -1, which a tracer
// sets to skip a call.
//
// Loading the filters is on the path of every launch, and its cost grows with
// their length: the kernel translates each instruction, and runs the filter once
// for every number to learn which it always allows. So numbers with one answer
// form ranges, and a binary search over the ranges' starts finds the answer or
// the argument rules. The allow filter so has 117 instructions on amd64, where
// libseccomp's binary tree has 604, and loads 2.5 times as fast (medians of 200
// loads in turn, each in a new process: 79 against 196 us on Linux 6.18;
// BenchmarkLoad in internal/gen). Tests there compile the same policy with
// libseccomp and prove that both forms answer alike.
//
// Arguments are compared by their low 32 bits only. The kernel takes them as
// int or unsigned int and ignores the upper half; a filter that compares all
// 64 bits is passed by setting one of those.
//
// Package ocispec says the policy in OCI terms, package eval answers what a
// filter does with a call.
package seccomp

//go:generate go run ./internal/gen filters
