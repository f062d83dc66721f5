package plan

import (
	"strconv"
	"strings"
)

// Mount attributes of mount_setattr(2) (linux/mount.h).
const (
	AttrRdonly = 0x1
	AttrNosuid = 0x2
	AttrNodev  = 0x4
	AttrNoexec = 0x8
)

// Flags of mount(2) that plans use (linux/mount.h).
const (
	msRdonly  = 0x1
	msNosuid  = 0x2
	msNodev   = 0x4
	msNoexec  = 0x8
	msRemount = 0x20
	msBind    = 0x1000
)

// Namespace flags (linux/sched.h).
const (
	cloneNewNS     = 0x20000
	cloneNewCgroup = 0x2000000
	cloneNewUTS    = 0x4000000
	cloneNewIPC    = 0x8000000
	cloneNewNet    = 0x40000000
)

// Resource limits (getrlimit(2); the same numbers on x86-64 and arm64).
const (
	rlimitCore       = 4
	rlimitNofile     = 7
	rlimitMemlock    = 8
	rlimitSigpending = 11
	rlimitMsgqueue   = 12
	rlimitNice       = 13
	rlimitRtprio     = 14
)

type bitName struct {
	bit  uint64
	name string
}

func joinBits(v uint64, names []bitName) string {
	var out []string
	for _, n := range names {
		if v&n.bit != 0 {
			out = append(out, n.name)
			v &^= n.bit
		}
	}
	if v != 0 {
		out = append(out, "0x"+strconv.FormatUint(v, 16))
	}
	return strings.Join(out, ",")
}

func attrNames(v uint64) string {
	return joinBits(v, []bitName{{AttrRdonly, "ro"}, {AttrNosuid, "nosuid"}, {AttrNodev, "nodev"}, {AttrNoexec, "noexec"}})
}

func mountFlagNames(v uint64) string {
	return joinBits(v, []bitName{{msRemount, "remount"}, {msBind, "bind"}, {msRdonly, "ro"},
		{msNosuid, "nosuid"}, {msNodev, "nodev"}, {msNoexec, "noexec"}})
}

func namespaceNames(v uint64) string {
	return joinBits(v, []bitName{{cloneNewNS, "mount"}, {cloneNewNet, "network"}, {cloneNewIPC, "ipc"},
		{cloneNewUTS, "uts"}, {cloneNewCgroup, "cgroup"}})
}

func rlimitName(v uint64) string {
	switch v {
	case rlimitCore:
		return "RLIMIT_CORE"
	case rlimitNofile:
		return "RLIMIT_NOFILE"
	case rlimitMemlock:
		return "RLIMIT_MEMLOCK"
	case rlimitSigpending:
		return "RLIMIT_SIGPENDING"
	case rlimitMsgqueue:
		return "RLIMIT_MSGQUEUE"
	case rlimitNice:
		return "RLIMIT_NICE"
	case rlimitRtprio:
		return "RLIMIT_RTPRIO"
	}
	return strconv.FormatUint(v, 10)
}

// rlimitByName maps the OCI spec's rlimit types.
func rlimitByName(name string) (uint64, bool) {
	for _, r := range []uint64{rlimitCore, rlimitNofile, rlimitMemlock, rlimitSigpending, rlimitMsgqueue, rlimitNice, rlimitRtprio} {
		if rlimitName(r) == name {
			return r, true
		}
	}
	return 0, false
}
