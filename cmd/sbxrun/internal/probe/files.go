package probe

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func fileAttempts() []attempt {
	create := func(name, path string) attempt {
		return attempt{name, func(*Config) string { return createFile(path) }}
	}
	return []attempt{
		create("write-root", "/sbxrun-probe"),
		create("write-usr", "/usr/sbxrun-probe"),
		create("write-etc", "/etc/sbxrun-probe"),
		create("write-dev", "/dev/sbxrun-probe"),
		create("control-write-workspace", "/workspace/sbxrun-probe-file"),
		create("control-write-tmp", "/tmp/sbxrun-probe-file"),
		{"write-proc-sys", func(*Config) string { return openForWrite("/proc/sys/kernel/core_pattern") }},
		{"write-sysrq-trigger", func(*Config) string { return openForWrite("/proc/sysrq-trigger") }},
		{"proc-details", func(*Config) string { return unmasked() }},
		{"sys", func(*Config) string { return openable("/sys/kernel") }},
		{"host-file", func(c *Config) string { return openable(c.File) }},
		{"mknod", func(*Config) string {
			const path = "/workspace/sbxrun-probe-device"
			err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
			_ = os.Remove(path)
			return answer(err)
		}},
		{"writable-mounts", func(*Config) string { return offendingMounts(writableMount) }},
		{"suid-mounts", func(*Config) string { return offendingMounts(suidMount) }},
		{"device-mounts", func(*Config) string { return offendingMounts(deviceMount) }},
		{"shared-mounts", func(*Config) string { return offendingMounts(sharedMount) }},
	}
}

// createFile creates a file and removes it again.
func createFile(path string) string {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return answer(err)
	}
	unix.Close(fd)
	_ = os.Remove(path)
	return OK
}

// openForWrite opens a file of the kernel and writes nothing.
func openForWrite(path string) string {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return answer(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && isNull(&st) {
		return Masked
	}
	return OK
}

// isNull reports whether a file is the null device, which masks are made of.
func isNull(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
}

// unmasked names the files of /proc that tell about the host and can be read.
func unmasked() string {
	var found []string
	for _, name := range []string{"kcore", "kpagecount", "kpageflags", "kpagecgroup", "vmallocinfo", "slabinfo",
		"keys", "key-users", "timer_list", "sched_debug", "kmsg", "latency_stats", "interrupts"} {
		path := "/proc/" + name
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		var one [1]byte
		if unix.Fstat(fd, &st) == nil && !isNull(&st) {
			if n, err := unix.Read(fd, one[:]); n > 0 && err == nil {
				found = append(found, path)
			}
		}
		unix.Close(fd)
	}
	for _, dir := range []string{"/proc/acpi", "/proc/asound", "/proc/scsi", "/proc/pressure"} {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			found = append(found, dir)
		}
	}
	return list(found)
}

// mountLine is one line of mountinfo (proc(5)).
type mountLine struct {
	point             string
	options, optional string
	super             string
}

// offendingMounts names the mount points that the rule finds fault with.
func offendingMounts(bad func(mountLine) bool) string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return answer(err)
	}
	// Of several mounts on one point only the last can be reached.
	top := map[string]mountLine{}
	var points []string
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		fields := strings.Fields(line)
		dash := 6
		for dash < len(fields) && fields[dash] != "-" {
			dash++
		}
		if dash+3 >= len(fields) {
			return "unreadable line"
		}
		m := mountLine{fields[4], fields[5], strings.Join(fields[6:dash], " "), fields[dash+3]}
		if _, covered := top[m.point]; !covered {
			points = append(points, m.point)
		}
		top[m.point] = m
	}
	var found []string
	for _, point := range points {
		if bad(top[point]) {
			found = append(found, point)
		}
	}
	return list(found)
}

func (m mountLine) has(option string) bool {
	for o := range strings.SplitSeq(m.options, ",") {
		if o == option {
			return true
		}
	}
	return false
}

// writableMount finds mounts that are not read-only and not among the few that
// belong to the program. The device nodes are files of their own mount, whose
// read-only flag says nothing about the device.
func writableMount(m mountLine) bool {
	switch m.point {
	case "/workspace", "/workspace/.bridge/req", "/tmp", "/dev/shm", "/dev/mqueue", "/dev/pts", "/proc":
		return false
	}
	if filepath.Dir(m.point) == "/dev" {
		return false
	}
	for o := range strings.SplitSeq(m.super, ",") {
		if o == "ro" {
			return false
		}
	}
	return !m.has("ro")
}

func suidMount(m mountLine) bool { return !m.has("nosuid") }

// deviceMount finds mounts outside of /dev whose device nodes work. The masks
// in /proc are the null device itself.
func deviceMount(m mountLine) bool {
	return !m.has("nodev") && m.point != "/dev" && !strings.HasPrefix(m.point, "/dev/") && !strings.HasPrefix(m.point, "/proc/")
}

func sharedMount(m mountLine) bool { return m.optional != "" }
