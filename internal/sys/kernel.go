package sys

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// KernelVersion returns the running kernel's release (uname(2)) and its first
// two numbers, 0 where they cannot be told.
func KernelVersion() (release string, major, minor int) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", 0, 0
	}
	release = unix.ByteSliceToString(u.Release[:])
	parts := strings.SplitN(release, ".", 3)
	if len(parts) >= 2 {
		major, _ = strconv.Atoi(parts[0])
		minor, _ = strconv.Atoi(strings.TrimRight(parts[1], "-+abcdefghijklmnopqrstuvwxyz"))
	}
	return release, major, minor
}
