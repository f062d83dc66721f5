// Package eval answers what a filter does with a call, without the kernel. It
// serves tests and `sbxrun explain`; nothing at run time needs it.
package eval

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/net/bpf"

	"github.com/sbxrun/sbxrun/seccomp"
)

// Action is a filter's answer: SECCOMP_RET_* with data in the low 16 bits
// (seccomp(2)).
type Action uint32

// The answers that the policy gives.
const (
	KillProcess Action = 0x80000000
	Allow       Action = 0x7fff0000
	errnoAction Action = 0x00050000
)

// Errno returns the answer "fail with this error number".
func Errno(e syscall.Errno) Action { return errnoAction | Action(e&0xffff) }

// String names the answer.
func (a Action) String() string {
	switch {
	case a == KillProcess:
		return "kill-process"
	case a == Allow:
		return "allow"
	case a&^0xffff == errnoAction:
		switch e := syscall.Errno(a & 0xffff); e {
		case syscall.EPERM:
			return "errno EPERM"
		case syscall.ENOSYS:
			return "errno ENOSYS"
		default:
			return fmt.Sprintf("errno %d", int(e))
		}
	}
	return fmt.Sprintf("action %#x", uint32(a))
}

// Evaluator is a filter that is ready to run.
type Evaluator struct{ vm *bpf.VM }

// New prepares a raw filter.
func New(prog []byte) (*Evaluator, error) {
	raw, err := seccomp.Decode(prog)
	if err != nil {
		return nil, err
	}
	insns, ok := bpf.Disassemble(raw)
	if !ok {
		return nil, errors.New("filter: an instruction that is not classic BPF")
	}
	vm, err := bpf.NewVM(insns)
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	return &Evaluator{vm}, nil
}

// Run returns the filter's answer to a call.
func (e *Evaluator) Run(arch, nr uint32, args [6]uint64) (Action, error) {
	// struct seccomp_data is in host order, little-endian here; the VM loads
	// 32-bit words in network order. So every word is turned, its place kept.
	var data [64]byte
	word := func(off int, v uint32) { binary.BigEndian.PutUint32(data[off:], v) }
	word(0, nr)
	word(4, arch)
	for i, a := range args {
		word(16+8*i, uint32(a))
		word(20+8*i, uint32(a>>32))
	}
	ret, err := e.vm.Run(data[:])
	return Action(uint32(ret)), err
}

// Evaluate returns the answer of a raw filter to a call.
func Evaluate(prog []byte, arch, nr uint32, args [6]uint64) (Action, error) {
	e, err := New(prog)
	if err != nil {
		return 0, err
	}
	return e.Run(arch, nr, args)
}

// Strictest returns the answer that the kernel takes of several filters: the
// least action as a signed number (kernel/seccomp.c, seccomp_run_filters).
func Strictest(actions ...Action) Action {
	best := Allow
	for _, a := range actions {
		if int32(a&0xffff0000) < int32(best&0xffff0000) {
			best = a
		}
	}
	return best
}
