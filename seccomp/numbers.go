package seccomp

import "slices"

// AUDIT_ARCH values that the kernel puts in struct seccomp_data
// (include/uapi/linux/audit.h).
const (
	AuditArchX8664   = 0xc000003e
	AuditArchAarch64 = 0xc00000b7
	// X32Bit marks the numbers of the x32 ABI, which shares x86-64's
	// architecture value (arch/x86/include/uapi/asm/unistd.h).
	X32Bit = 0x40000000
)

// table returns the call names of an architecture by number, nil for one that
// this package has no policy for.
func table(goarch string) []string {
	switch goarch {
	case "amd64":
		return namesAmd64[:]
	case "arm64":
		return namesArm64[:]
	}
	return nil
}

// AuditArch returns the value that the kernel reports for goarch, 0 for an
// unsupported one.
func AuditArch(goarch string) uint32 {
	switch goarch {
	case "amd64":
		return AuditArchX8664
	case "arm64":
		return AuditArchAarch64
	}
	return 0
}

// Number returns the number of a system call on goarch.
func Number(goarch, name string) (nr uint32, ok bool) {
	if name == "" {
		return 0, false
	}
	i := slices.Index(table(goarch), name)
	if i < 0 {
		return 0, false
	}
	return uint32(i), true
}

// Name returns the name of a system call number on goarch, "" for an unknown
// number. Denial reports use it.
func Name(goarch string, nr uint32) string {
	if t := table(goarch); uint64(nr) < uint64(len(t)) {
		return t[nr]
	}
	return ""
}
