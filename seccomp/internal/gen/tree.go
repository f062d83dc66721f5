package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/net/bpf"

	"github.com/sbxrun/sbxrun/seccomp"
	"github.com/sbxrun/sbxrun/seccomp/eval"
)

// span is the numbers from first to the next span's first.
type span struct {
	first uint32
	to    place
}

// assemble compiles the policy into the architecture check, a search tree over
// the ranges of numbers with one answer, and at its leaves returns and argument
// rules.
func (p policy) assemble() ([]byte, error) {
	arch := seccomp.AuditArch(p.goarch)
	if arch == 0 {
		return nil, fmt.Errorf("no policy for %q", p.goarch)
	}
	a := newAssembler()
	kill := a.ret(eval.KillProcess)
	spans, err := p.spans(a)
	if err != nil {
		return nil, err
	}
	start := a.do(opLoad, offNumber, a.search(spans))
	start = a.branch(opIfEqual, arch, start, kill)
	insns, err := a.program(a.do(opLoad, offArch, start))
	if err != nil {
		return nil, err
	}
	return encode(insns), nil
}

// spans emits the answers and returns the ranges of numbers that share one. The
// last range ends at 2^32: x32 and negative numbers are unknown ones.
func (p policy) spans(a *assembler) ([]span, error) {
	var spans []span
	put := func(first uint32, to place) {
		if len(spans) == 0 || spans[len(spans)-1].to != to {
			spans = append(spans, span{first, to})
		}
	}
	otherwise := a.ret(p.otherwise)
	next := uint32(0)
	for _, nr := range slices.Sorted(maps.Keys(p.calls)) {
		to, err := a.answer(p.calls[nr])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", seccomp.Name(p.goarch, nr), err)
		}
		if nr > next {
			put(next, otherwise)
		}
		put(nr, to)
		next = nr + 1
	}
	put(next, otherwise)
	return spans, nil
}

// search emits the tree over spans: a node for each but the first.
func (a *assembler) search(spans []span) place {
	if len(spans) == 1 {
		return spans[0].to
	}
	// One number between two ranges of one answer takes one comparison.
	if len(spans) == 3 && spans[0].to == spans[2].to && spans[2].first-spans[1].first == 1 {
		return a.branch(opIfEqual, spans[1].first, spans[1].to, spans[0].to)
	}
	mid := len(spans) / 2
	high := a.search(spans[mid:])
	low := a.search(spans[:mid])
	return a.branch(opIfAtLeast, spans[mid].first, high, low)
}

func (a *assembler) answer(v verdict) (place, error) {
	if len(v.rules) == 0 {
		return a.ret(v.miss), nil
	}
	return a.decide(v.rules, a.ret(v.hit), a.ret(v.miss))
}

// decide emits a test of arguments: hit if all matches of any rule hold. The
// rules must compare the same field first, those that share its value the same
// field next, and so on; then each value leads to what is left of its rules.
func (a *assembler) decide(rules [][]seccomp.Match, hit, miss place) (place, error) {
	if slices.ContainsFunc(rules, func(r []seccomp.Match) bool { return len(r) == 0 }) {
		return hit, nil
	}
	field := rules[0][0]
	var values []uint32
	left := map[uint32][][]seccomp.Match{}
	for _, r := range rules {
		m := r[0]
		if m.Arg != field.Arg || m.Mask != field.Mask {
			return 0, errors.New("rules that compare different fields first")
		}
		if m.Arg > 5 || m.Value&^m.Mask != 0 {
			return 0, fmt.Errorf("a match that never holds: %+v", m)
		}
		if left[m.Value] == nil {
			values = append(values, m.Value)
		}
		left[m.Value] = append(left[m.Value], r[1:])
	}
	targets := make([]place, len(values))
	for i, v := range slices.Backward(values) {
		var err error
		if targets[i], err = a.decide(left[v], hit, miss); err != nil {
			return 0, err
		}
	}
	next := miss
	for i, v := range slices.Backward(values) {
		next = a.branch(opIfEqual, v, targets[i], next)
	}
	if field.Mask != ^uint32(0) {
		next = a.do(opAnd, field.Mask, next)
	}
	return a.do(opLoad, offArgLow(field.Arg), next), nil
}

// encode returns the program as an array of struct sock_filter.
func encode(insns []bpf.RawInstruction) []byte {
	var out []byte
	for _, i := range insns {
		out = binary.LittleEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.LittleEndian.AppendUint32(out, i.K)
	}
	return out
}
