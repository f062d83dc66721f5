package probe

import (
	"bytes"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// initPid is the sandbox's own init. Every attempt against it is made only
// where the PID namespace is not the host's: there it would be the machine's.
const initPid = 1

func processAttempts() []attempt {
	against := func(name string, try func() string) attempt {
		return attempt{name, func(c *Config) string {
			if namespace("pid")(c) != own {
				return Skipped
			}
			return try()
		}}
	}
	var all []attempt
	for _, name := range Namespaces {
		all = append(all, attempt{name + "-namespace", namespace(name)})
	}
	return append(all, []attempt{
		{"other-processes", func(*Config) string { return otherProcesses() }},
		against("ptrace-init", func() string { return raw(false, unix.SYS_PTRACE, unix.PTRACE_SEIZE, initPid, 0, 0) }),
		against("read-init-memory", readInitMemory),
		against("kill-init", func() string {
			if err := unix.Kill(initPid, unix.SIGKILL); err != nil {
				return answer(err)
			}
			// The kernel drops signals to the init of one's own namespace that it has
			// no handler for. Whether that held shows in the findings that follow.
			return Ignored
		}),
		{"init-environ", func(*Config) string { return readable("/proc/1/environ") }},
		{"init-exe", func(*Config) string { return openable("/proc/1/exe") }},
		{"init-root", func(*Config) string { return openable("/proc/1/root/") }},
		{"host-environment", leakedEnvironment},
		{"control-own-environ", func(*Config) string { return openable("/proc/self/environ") }},
	}...)
}

// Namespaces are the kinds of namespaces that a sandbox has of its own, by
// their names in /proc/self/ns.
var Namespaces = [...]string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}

const own = "own"

// namespace says whether the sandbox has a namespace of the kind to itself.
func namespace(name string) func(*Config) string {
	return func(c *Config) string {
		got, err := os.Readlink("/proc/self/ns/" + name)
		switch {
		case err != nil:
			return answer(err)
		case c.Namespaces[name] == "":
			return "the host's is not known"
		case got == c.Namespaces[name]:
			return "the host's"
		}
		return own
	}
}

// otherProcesses lists the processes in /proc that are neither this one nor the
// sandbox's init.
func otherProcesses() string {
	dir, err := os.ReadDir("/proc")
	if err != nil {
		return answer(err)
	}
	var found []string
	self := false
	for _, e := range dir {
		pid, err := strconv.Atoi(e.Name())
		switch {
		case err != nil || pid == initPid:
		case pid == os.Getpid():
			self = true
		default:
			found = append(found, e.Name())
		}
	}
	if !self {
		return "not even itself"
	}
	if len(found) > 8 {
		found = append(found[:8], "...")
	}
	return list(found)
}

func readInitMemory() string {
	var to [8]byte
	local := unix.Iovec{Base: &to[0], Len: uint64(len(to))}
	remote := unix.RemoteIovec{Base: uintptr(unsafe.Pointer(&to)), Len: len(to)}
	_, err := unix.ProcessVMReadv(initPid, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
	return answer(err)
}

// readable opens and reads a file: the errno, "empty", or how much there is.
func readable(path string) string {
	text, err := os.ReadFile(path)
	switch {
	case err != nil:
		return answer(err)
	case len(text) == 0:
		return "empty"
	}
	return strconv.Itoa(len(text)) + " bytes"
}

// openable opens a file and closes it again.
func openable(path string) string {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err == nil {
		unix.Close(fd)
	}
	return answer(err)
}

// leakedEnvironment looks in all of /proc for a variable that only the host's
// environment has.
func leakedEnvironment(c *Config) string {
	dir, err := os.ReadDir("/proc")
	if err != nil {
		return answer(err)
	}
	var found []string
	for _, e := range dir {
		for _, file := range []string{"environ", "cmdline"} {
			path := "/proc/" + e.Name() + "/" + file
			text, err := os.ReadFile(path)
			if err == nil && bytes.Contains(text, []byte(c.EnvMarker)) {
				found = append(found, path)
			}
		}
	}
	return list(found)
}
