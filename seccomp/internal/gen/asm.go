package main

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/net/bpf"

	"github.com/sbxrun/sbxrun/seccomp"
	"github.com/sbxrun/sbxrun/seccomp/eval"
)

// Classic BPF opcodes (linux/bpf_common.h), those that seccomp takes.
const (
	opLoad      uint16 = 0x20 // A = data[k:k+4]
	opAnd       uint16 = 0x54 // A &= k
	opJump      uint16 = 0x05 // skip k instructions
	opIfEqual   uint16 = 0x15 // skip jt if A == k, else jf
	opIfAtLeast uint16 = 0x35 // skip jt if A >= k unsigned, else jf
	opReturn    uint16 = 0x06
	maxSkip            = 255
)

// Offsets into struct seccomp_data. Both architectures are little-endian, so
// the low half of an argument comes first.
const (
	offNumber uint32 = 0
	offArch   uint32 = 4
)

func offArgLow(arg uint) uint32 { return 16 + 8*uint32(arg) }

// place is an instruction, by its distance from the end of the program.
type place int

// node is an instruction with targets in place of distances.
type node struct {
	op              uint16
	k               uint32
	onTrue, onFalse place
}

// assembler builds a program from its end to its start: jumps only go forward,
// so every target is there before the jump to it. An instruction that has the
// same effect as an earlier one is not emitted again.
type assembler struct {
	rev   []bpf.RawInstruction // last instruction first
	nodes []node               // what rev was made from
	known map[node]place
	moved map[place]place // a target too far away by now: its stand-in
}

func newAssembler() *assembler {
	return &assembler{known: map[node]place{}, moved: map[place]place{}}
}

// skip is the distance from the next instruction to p: what a jump skips.
func (a *assembler) skip(p place) int { return len(a.rev) - 1 - int(p) }

func (a *assembler) emit(n node, insn bpf.RawInstruction) place {
	a.rev = append(a.rev, insn)
	a.nodes = append(a.nodes, n)
	a.known[n] = place(len(a.rev) - 1)
	return a.known[n]
}

func (a *assembler) ret(action eval.Action) place {
	n := node{op: opReturn, k: uint32(action)}
	if p, ok := a.known[n]; ok {
		return p
	}
	return a.emit(n, bpf.RawInstruction{Op: opReturn, K: n.k})
}

// do emits an instruction that is followed by next.
func (a *assembler) do(op uint16, k uint32, next place) place {
	n := node{op: op, k: k, onTrue: next}
	if p, ok := a.known[n]; ok {
		return p
	}
	if a.skip(next) > 0 {
		next = a.jump(next)
	}
	return a.emit(n, bpf.RawInstruction{Op: op, K: k})
}

func (a *assembler) jump(to place) place {
	return a.emit(node{op: opJump, onTrue: to}, bpf.RawInstruction{Op: opJump, K: uint32(a.skip(to))})
}

// branch emits a comparison. A distance has 8 bits: where a target is farther
// away, a stand-in is put within reach.
func (a *assembler) branch(op uint16, k uint32, onTrue, onFalse place) place {
	if onTrue == onFalse {
		return onTrue
	}
	n := node{op, k, onTrue, onFalse}
	if p, ok := a.known[n]; ok {
		return p
	}
	for {
		t, f := a.near(onTrue), a.near(onFalse)
		switch {
		case a.skip(t) > maxSkip:
			a.standIn(onTrue, t)
		case a.skip(f) > maxSkip:
			a.standIn(onFalse, f)
		default:
			return a.emit(n, bpf.RawInstruction{Op: op, K: k, Jt: uint8(a.skip(t)), Jf: uint8(a.skip(f))})
		}
	}
}

// near returns p, or its nearest stand-in.
func (a *assembler) near(p place) place {
	if m, ok := a.moved[p]; ok {
		return m
	}
	return p
}

// standIn puts a copy of a return, or a jump to anything else, before the next
// instruction. Nothing runs into it: all that precedes ends in jumps.
func (a *assembler) standIn(p, from place) {
	if n := a.nodes[p]; n.op == opReturn {
		a.moved[p] = a.emit(n, bpf.RawInstruction{Op: opReturn, K: n.k})
		return
	}
	a.moved[p] = a.jump(from)
}

// program returns the instructions that start at p, the last one emitted.
func (a *assembler) program(p place) ([]bpf.RawInstruction, error) {
	if a.skip(p) != 0 {
		return nil, errors.New("the program doesn't start with its first instruction")
	}
	if len(a.rev) > seccomp.MaxInstructions {
		return nil, fmt.Errorf("%d instructions, the kernel takes %d", len(a.rev), seccomp.MaxInstructions)
	}
	out := slices.Clone(a.rev)
	slices.Reverse(out)
	return out, nil
}
