// Package probe is what `sbxrun selftest` runs inside a sandbox: it tries to get
// out, to see and to change what it must not, and reports what the kernel
// answered. It judges nothing; the host does, because only the host can be
// trusted about what came out.
//
// The package makes its system calls itself instead of through internal/sys: it
// stands for a hostile program, which has no wrappers either.
package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command is the hidden first argument that makes sbxrun the probe.
const Command = "__probe"

// The parts of the probe; a part that runs into a limit needs a sandbox of its
// own.
const (
	PartEscape = "escape" // everything that must be denied, and the tool call
	PartFork   = "fork"   // fork until the limit
	PartMemory = "memory" // use memory until the limit
	PartSleep  = "sleep"  // outlive the time limit
	PartOutput = "output" // write past the output limit
)

// Config is what the probe has to know of the host. It is passed as a file: in
// the arguments or the environment the probe would find it again where it looks
// for leaks of the host.
type Config struct {
	TCP4, TCP6, UDP4 int               // ports of the canaries on the host's loopback, 0 without
	Abstract         string            // name of the canary's abstract Unix socket
	Path             string            // path of its path socket
	File             string            // path of a readable file on the host
	HostAddrs        []string          // addresses of the host's interfaces, IPv4
	Namespaces       map[string]string // the host's, by their name in /proc/self/ns
	EnvMarker        string            // name of a variable of the host's environment
	WorkspaceBytes   int64
	OpenFiles        int
	Pids             int
	MemoryBytes      int64
	OutputBytes      int
	Tool             string // the tool to call with {"text": Nonce}
	Nonce            string
}

// Finding is what one probe found.
type Finding struct {
	Name string `json:"name"`
	Got  string `json:"got"`
}

// Answers that are no errno.
const (
	OK      = "ok"      // the attempt succeeded
	None    = "none"    // nothing of the kind was found
	Masked  = "masked"  // the file is the null device or empty
	Ignored = "ignored" // the call succeeded and had no effect
	Skipped = "skipped: the sandbox shares the host's namespace"
)

// attempt is one thing that the probe tries.
type attempt struct {
	name string
	try  func(*Config) string
}

// Main runs the probe and returns its exit status.
func Main(args []string, out io.Writer) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "sbxrun: this mode is for sbxrun selftest")
		return 2
	}
	var c Config
	text, err := os.ReadFile(args[1])
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbxrun: probe:", err)
		return 2
	}
	switch args[0] {
	case PartEscape:
		return try(&c, out, escapes())
	case PartFork:
		return try(&c, out, []attempt{{"fork-limit", forkUntilDenied}})
	case PartMemory:
		return try(&c, out, []attempt{{"memory-limit", useMemory}})
	case PartSleep:
		return try(&c, out, []attempt{{"time-limit", outlive}})
	case PartOutput:
		writeOutput(&c, out)
		return 0
	}
	return 2
}

// try makes the attempts one after another and writes one finding a line, each
// at once: a probe that dies must not take the earlier findings with it.
func try(c *Config, out io.Writer, attempts []attempt) int {
	for _, a := range attempts {
		line, err := json.Marshal(Finding{a.name, a.try(c)})
		if err != nil {
			return 2
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return 2
		}
	}
	return 0
}

// escapes returns the attempts of [PartEscape].
func escapes() []attempt {
	var all []attempt
	// Descriptors first: later attempts open some.
	all = append(all, attempt{"descriptors", inheritedDescriptors})
	all = append(all, identityAttempts()...)
	all = append(all, networkAttempts()...)
	all = append(all, kernelAttempts()...)
	all = append(all, processAttempts()...)
	all = append(all, fileAttempts()...)
	all = append(all, bridgeAttempts()...)
	all = append(all, attempt{"open-files-limit", openFilesUntilDenied}, attempt{"workspace-limit", fillWorkspace})
	return all
}

// answer returns the error as the name of its errno, OK without one.
func answer(err error) string {
	if err == nil {
		return OK
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	return err.Error()
}

// raw makes a system call without pointers and returns its answer. A descriptor that it gave is
// closed where fd says so.
func raw(fd bool, nr uintptr, args ...uintptr) string {
	var a [6]uintptr
	copy(a[:], args)
	r, _, errno := syscall.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return answer(errno)
	}
	if fd {
		syscall.Close(int(r))
	}
	return OK
}

// Names returns the names of the attempts of [PartEscape].
func Names() []string {
	var names []string
	for _, a := range escapes() {
		names = append(names, a.name)
	}
	return names
}
