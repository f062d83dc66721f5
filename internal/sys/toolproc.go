package sys

import (
	"golang.org/x/sys/unix"
)

// ProcGroupKill kills every process of a group. The caller must hold the
// group's leader unreaped, so that the number cannot belong to a stranger.
func ProcGroupKill(leader int) {
	if leader > 1 {
		_ = unix.Kill(-leader, unix.SIGKILL)
	}
}

// ProcAwaitExit waits for a child to end and leaves it unreaped.
func ProcAwaitExit(pid int) error {
	return dirRetry("waitid", "child", func() error {
		return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	})
}
