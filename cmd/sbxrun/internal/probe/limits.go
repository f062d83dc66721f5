package probe

import (
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// excess is how far past a limit the probe goes before it says that there is
// none: far enough to be sure, near enough to do the host no harm.
const excess = 2

// fillWorkspace writes until the disk is full.
func fillWorkspace(c *Config) string {
	const path = "/workspace/sbxrun-probe-fill"
	f, err := os.Create(path)
	if err != nil {
		return answer(err)
	}
	defer os.Remove(path)
	defer f.Close()
	block := make([]byte, 1<<20)
	for n := int64(0); n < excess*c.WorkspaceBytes; n += int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			return answer(err)
		}
	}
	return "no limit"
}

// openFilesUntilDenied opens descriptors until there are too many.
func openFilesUntilDenied(c *Config) string {
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for range excess * c.OpenFiles {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return answer(err)
		}
		fds = append(fds, fd)
	}
	return "no limit"
}

// forkUntilDenied forks until the kernel refuses.
func forkUntilDenied(c *Config) string {
	var pids []int
	defer func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, pid := range pids {
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
	}()
	for range excess * c.Pids {
		pid, errno := forkPaused(0)
		if errno != 0 {
			return answer(errno)
		}
		pids = append(pids, int(pid))
	}
	return "no limit"
}

// useMemory touches more memory than there may be. It comes back only where
// there is no limit.
func useMemory(c *Config) string {
	const page = 4096
	mem, err := unix.Mmap(-1, 0, int(excess*c.MemoryBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return answer(err)
	}
	for i := 0; i < len(mem); i += page {
		mem[i] = 1
	}
	return strconv.Itoa(len(mem)) + " bytes used"
}

// outliveTime is far past the time limit that the self-test sets.
const outliveTime = 5 * time.Second

func outlive(*Config) string {
	time.Sleep(outliveTime)
	return "still running"
}

// writeOutput writes more than may come out.
func writeOutput(c *Config, out io.Writer) {
	block := make([]byte, excess*c.OutputBytes)
	for i := range block {
		block[i] = 'x'
	}
	_, _ = out.Write(block) // the host counts what came
}
