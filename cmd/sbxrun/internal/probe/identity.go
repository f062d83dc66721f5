package probe

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func identityAttempts() []attempt {
	return []attempt{
		{"uid", func(*Config) string { return zeroIn(statusLine("Uid:")) }},
		{"gid", func(*Config) string { return zeroIn(statusLine("Gid:")) }},
		{"supplementary-groups", func(*Config) string { return otherGroups() }},
		{"capabilities", func(*Config) string { return capabilitySets() }},
		{"no-new-privs", func(*Config) string { return statusLine("NoNewPrivs:") }},
		{"seccomp-mode", func(*Config) string { return statusLine("Seccomp:") }},
		{"setuid-root", func(*Config) string { return raw(false, unix.SYS_SETUID, 0) }},
		{"setgid-root", func(*Config) string { return raw(false, unix.SYS_SETGID, 0) }},
		{"setgroups", func(*Config) string { return raw(false, unix.SYS_SETGROUPS, 0, 0) }},
		{"core-limit", func(*Config) string { return coreLimit() }},
		// Control: the same call with the id that the program has anyway.
		{"control-setuid", func(*Config) string { return raw(false, unix.SYS_SETUID, uintptr(os.Getuid())) }},
	}
}

// statusLine returns the value of one line of /proc/self/status.
func statusLine(name string) string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return answer(err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.Join(strings.Fields(rest), " ")
		}
	}
	return "no such line"
}

// zeroIn returns "nonzero" where none of the ids is 0, else the ids.
func zeroIn(ids string) string {
	fields := strings.Fields(ids)
	for _, id := range fields {
		if n, err := strconv.ParseUint(id, 10, 32); err != nil || n == 0 {
			return ids
		}
	}
	if len(fields) != 4 {
		return ids
	}
	return "nonzero"
}

// otherGroups returns the supplementary groups.
func otherGroups() string {
	groups, err := syscall.Getgroups()
	if err != nil {
		return answer(err)
	}
	if len(groups) == 0 {
		return None
	}
	return fmt.Sprint(groups)
}

// capabilitySets names the sets that are not empty.
func capabilitySets() string {
	var full []string
	for _, set := range []string{"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"} {
		if bits := statusLine(set); strings.Trim(bits, "0") != "" {
			full = append(full, set+bits)
		}
	}
	return list(full)
}

func coreLimit() string {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &l); err != nil {
		return answer(err)
	}
	return strconv.FormatUint(l.Max, 10)
}

// list joins offenders, None without one.
func list(found []string) string {
	if len(found) == 0 {
		return None
	}
	return strings.Join(found, " ")
}
