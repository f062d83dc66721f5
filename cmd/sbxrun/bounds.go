package main

import (
	"time"

	"github.com/sbxrun/sbxrun/runtime"
)

// The bounds of the limits, for the errors of flags. The runtime package holds
// policies to its own, which are these or follow from several fields together.
const (
	leastMemory = runtime.MinMemory
	// mostMemory is more than any machine has; past it a number is only another
	// way to write "unlimited".
	mostMemory = 1 << 50

	// leastCPUs is the smallest quota that the kernel takes: 1 ms in 100 ms.
	leastCPUs = 0.01
	// mostCPUs is more than any machine has.
	mostCPUs = 4096

	// leastPids is the program alone.
	leastPids = 1
	mostPids  = runtime.MaxPids

	// leastTime is below what starting any program takes.
	leastTime = time.Millisecond
	mostTime  = runtime.MaxTimeout

	// leastDisk is one page, the least that a tmpfs can hold.
	leastDisk = 4 << 10
	// mostDisk is mostMemory: these file systems live in memory.
	mostDisk = mostMemory

	// leastOutput is one byte: a program may have nothing to say.
	leastOutput = 1
	// mostOutput is what a pipe moves in a long run. The output is passed on as it
	// comes, so it costs the host nothing but the reader's disk.
	mostOutput = 1 << 40

	leastOpenFiles = runtime.MinOpenFiles
	// mostOpenFiles is the kernel's default ceiling (fs.nr_open).
	mostOpenFiles = 1 << 20

	mostToolCalls   = runtime.MaxToolCalls
	mostConcurrency = runtime.MaxToolConcurrency
)
