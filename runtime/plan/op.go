package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// Op is the kind of one set-up operation. The numbers are the wire format's and
// the same as in the launcher's plan.h.
type Op uint16

// The operations, in the order of the phases that may hold them.
const (
	// Template: executed once for a root configuration.
	OpRoot    Op = 1 // args: bytes, inodes. A tmpfs to become the root.
	OpDir     Op = 2 // path; mode, uid, gid
	OpSymlink Op = 3 // target, path
	OpWrite   Op = 4 // path, data; mode, uid, gid
	OpBind    Op = 5 // host source, path; mount attributes, kind, device, flags
	OpPivot   Op = 6 // leave the host's root
	OpAttr    Op = 7 // path; mount attributes, recursive

	// Init: executed by PID 1 of the sandbox, with the host's privilege.
	OpJoin       Op = 20 // descriptor of a cgroup.procs (v1)
	OpEnter      Op = 21 // the template's mount namespace
	OpUnshare    Op = 22 // namespace flags
	OpMount      Op = 23 // source, path, type, data; flags
	OpUmount     Op = 24 // path
	OpMask       Op = 25 // path, null device, empty directory
	OpLoopback   Op = 26
	OpHostname   Op = 27 // name
	OpExport     Op = 29 // path; slot, flags
	OpCopy       Op = 30 // path; descriptor, mode, size, uid<<32|gid
	OpRlimit     Op = 31 // resource, soft, hard
	OpStdio      Op = 32 // three descriptors
	OpAwait      Op = 33
	OpSupervisor Op = 34 // uid, gid of PID 1
	OpProgram    Op = 35 // filter of PID 1; inside and outside uid, gid
	OpHold       Op = 36 // path
	OpChown      Op = 37 // path; uid, gid

	// Program: executed by the process that becomes the program.
	OpUserSysctl Op = 50 // name, value
	OpIdentity   Op = 51 // uid, gid, keep supplementary groups
	OpDropCaps   Op = 52
	OpNoNewPrivs Op = 53
	OpChdir      Op = 54 // path
	OpSeccomp    Op = 55 // filter
	OpExec       Op = 56 // candidates, argc, envc; strings
)

// Steps that a launcher reports besides those of a plan.
const (
	OpDecode Op = 0xfff0
	OpClone  Op = 0xfff1
	OpBoot   Op = 0xfff2
)

// opInfo is what is fixed for a kind of operation.
type opInfo struct {
	name    string
	strings int // -1: any number
}

func (o Op) info() opInfo {
	switch o {
	case OpRoot:
		return opInfo{"root", 0}
	case OpDir:
		return opInfo{"dir", 1}
	case OpSymlink:
		return opInfo{"symlink", 2}
	case OpWrite:
		return opInfo{"write", 2}
	case OpBind:
		return opInfo{"bind", 2}
	case OpPivot:
		return opInfo{"pivot-root", 0}
	case OpAttr:
		return opInfo{"mount-attr", 1}
	case OpJoin:
		return opInfo{"join-cgroup", 0}
	case OpEnter:
		return opInfo{"enter-template", 0}
	case OpUnshare:
		return opInfo{"unshare", 0}
	case OpMount:
		return opInfo{"mount", 4}
	case OpUmount:
		return opInfo{"umount", 1}
	case OpMask:
		return opInfo{"mask", 3}
	case OpLoopback:
		return opInfo{"loopback", 0}
	case OpHostname:
		return opInfo{"hostname", 1}
	case OpExport:
		return opInfo{"export", 1}
	case OpCopy:
		return opInfo{"copy-file", 1}
	case OpRlimit:
		return opInfo{"rlimit", 0}
	case OpStdio:
		return opInfo{"stdio", 0}
	case OpSupervisor:
		return opInfo{"supervisor-identity", 0}
	case OpProgram:
		return opInfo{"fork-program", 1}
	case OpHold:
		return opInfo{"hold", 1}
	case OpAwait:
		return opInfo{"await-run", 0}
	case OpChown:
		return opInfo{"chown", 1}
	case OpUserSysctl:
		return opInfo{"user-sysctl", 2}
	case OpIdentity:
		return opInfo{"identity", 0}
	case OpDropCaps:
		return opInfo{"drop-capabilities", 0}
	case OpNoNewPrivs:
		return opInfo{"no-new-privs", 0}
	case OpChdir:
		return opInfo{"chdir", 1}
	case OpSeccomp:
		return opInfo{"seccomp", 1}
	case OpExec:
		return opInfo{"exec", -1}
	case OpDecode:
		return opInfo{"decode-plan", 0}
	case OpClone:
		return opInfo{"clone", 0}
	case OpBoot:
		return opInfo{"boot-launcher", 0}
	}
	return opInfo{"op-" + strconv.Itoa(int(o)), -2}
}

// String returns the operation's name as reports and `explain` show it.
func (o Op) String() string { return o.info().name }

// Operation is one typed step.
type Operation struct {
	Op      Op
	Args    [4]uint64
	Strings []string
}

// Detail describes the operation's operands for people.
func (o Operation) Detail() string {
	s, a := o.Strings, o.Args
	switch o.Op {
	case OpRoot:
		return fmt.Sprintf("tmpfs, %d bytes, %d inodes", a[0], a[1])
	case OpDir:
		return fmt.Sprintf("/%s mode %04o owner %d:%d", trimSlash(s[0]), a[0], a[1], a[2])
	case OpSymlink:
		return "/" + trimSlash(s[1]) + " -> " + s[0]
	case OpWrite:
		return fmt.Sprintf("/%s %d bytes, mode %04o", trimSlash(s[0]), len(s[1]), a[0])
	case OpBind:
		return fmt.Sprintf("%s on /%s (%s)", s[0], trimSlash(s[1]), attrNames(a[0]))
	case OpAttr:
		return s[0] + " " + attrNames(a[0])
	case OpUnshare:
		return namespaceNames(a[0])
	case OpMount:
		return strings.Join(strings.Fields(fmt.Sprintf("%s on %s (%s) %s", firstOf(s[2], "bind "+s[0]), s[1], mountFlagNames(a[0]), s[3])), " ")
	case OpHostname, OpUmount, OpHold, OpChdir:
		return s[0]
	case OpMask, OpExport, OpCopy:
		return s[0]
	case OpUserSysctl:
		return s[0] + "=" + s[1]
	case OpRlimit:
		return fmt.Sprintf("%s soft %d hard %d", rlimitName(a[0]), a[1], a[2])
	case OpChown:
		return fmt.Sprintf("%s owner %d:%d", s[0], a[0], a[1])
	case OpSupervisor:
		return fmt.Sprintf("PID 1 becomes host uid %d gid %d", a[0], a[1])
	case OpProgram:
		return fmt.Sprintf("user namespace: uid %d -> %d, gid %d -> %d", a[0], a[1], a[2], a[3])
	case OpIdentity:
		return fmt.Sprintf("uid %d gid %d", a[0], a[1])
	case OpSeccomp:
		return fmt.Sprintf("%d instructions", len(s[0])/8)
	case OpExec:
		return strings.Join(s[a[0]:a[0]+a[1]], " ")
	}
	return ""
}

func firstOf(s ...string) string {
	for _, v := range s {
		if v != "" {
			return v
		}
	}
	return ""
}

func trimSlash(p string) string { return strings.TrimPrefix(p, "/") }
