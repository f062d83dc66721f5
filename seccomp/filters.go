package seccomp

import (
	_ "embed"
	"encoding/binary"
	"fmt"

	"golang.org/x/net/bpf"

	"github.com/sbxrun/sbxrun/errdef"
)

// Embedded as strings, which cannot be changed: a caller gets copies.
var (
	//go:embed filters/amd64_allow.bpf
	amd64Allow string
	//go:embed filters/amd64_deny.bpf
	amd64Deny string
	//go:embed filters/amd64_init.bpf
	amd64Init string
	//go:embed filters/arm64_allow.bpf
	arm64Allow string
	//go:embed filters/arm64_deny.bpf
	arm64Deny string
	//go:embed filters/arm64_init.bpf
	arm64Init string
)

// Set is the filters of one architecture, each an array of struct sock_filter
// (seccomp(2)), little-endian.
type Set struct {
	Allow []byte // the allow list; for the program
	Deny  []byte // exceptions by argument; for the program, on top of Allow
	Init  []byte // for the sandbox's PID 1, alone
}

// Filters returns the compiled filters of goarch.
//
// Both of a program's filters must be loaded, the deny list first: the allow
// list refuses seccomp(2). A process that lacks CAP_SYS_ADMIN must have set
// no_new_privs.
func Filters(goarch string) (Set, error) {
	switch goarch {
	case "amd64":
		return Set{[]byte(amd64Allow), []byte(amd64Deny), []byte(amd64Init)}, nil
	case "arm64":
		return Set{[]byte(arm64Allow), []byte(arm64Deny), []byte(arm64Init)}, nil
	}
	return Set{}, &errdef.Error{
		Code: errdef.Unsupported, Op: "seccomp", Path: goarch,
		Msg:  "no system call policy for this architecture",
		Hint: "sbxrun runs on amd64 and arm64",
	}
}

const (
	insnSize = 8
	// MaxInstructions is the kernel's limit on one program (BPF_MAXINSNS).
	MaxInstructions = 4096
)

// Decode splits a raw filter into instructions. It refuses what the kernel
// would refuse by length; it doesn't verify the program.
func Decode(prog []byte) ([]bpf.RawInstruction, error) {
	n := len(prog) / insnSize
	if n == 0 || len(prog)%insnSize != 0 || n > MaxInstructions {
		return nil, &errdef.Error{
			Code: errdef.Invalid, Op: "seccomp", Path: "filter",
			Msg: fmt.Sprintf("length is %d bytes (allowed: 1 to %d instructions of %d bytes)", len(prog), MaxInstructions, insnSize),
		}
	}
	out := make([]bpf.RawInstruction, n)
	for i := range out {
		p := prog[i*insnSize:]
		out[i] = bpf.RawInstruction{
			Op: binary.LittleEndian.Uint16(p), Jt: p[2], Jf: p[3], K: binary.LittleEndian.Uint32(p[4:]),
		}
	}
	return out, nil
}
