//go:build cgo && linux && amd64

package main

import (
	"fmt"

	lib "github.com/seccomp/libseccomp-golang"

	"github.com/sbxrun/sbxrun/seccomp"
)

// builder adds rules to a filter and keeps the first error.
type builder struct {
	f      *lib.ScmpFilter
	goarch string
	err    error
}

func (b *builder) check(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *builder) add(name string, action lib.ScmpAction, conds ...lib.ScmpCondition) {
	nr, ok := seccomp.Number(b.goarch, name)
	if !ok {
		b.check(fmt.Errorf("%s: unknown call", name))
		return
	}
	var err error
	if len(conds) == 0 {
		err = b.f.AddRuleExact(lib.ScmpSyscall(nr), action)
	} else {
		err = b.f.AddRuleConditionalExact(lib.ScmpSyscall(nr), action, conds)
	}
	if err != nil {
		b.check(fmt.Errorf("%s: %w", name, err))
	}
}

func (b *builder) cond(arg uint, op lib.ScmpCompareOp, values ...uint64) lib.ScmpCondition {
	c, err := lib.MakeCondition(arg, op, values...)
	b.check(err)
	return c
}

// match adds a rule that compares low 32 bits.
func (b *builder) match(r seccomp.Rule, action lib.ScmpAction) {
	var conds []lib.ScmpCondition
	for _, m := range r.Match {
		conds = append(conds, b.cond(m.Arg, lib.CompareMaskedEqual, uint64(m.Mask), uint64(m.Value)))
	}
	b.add(r.Syscall, action, conds...)
}

func allow(b *builder) {
	permit := map[string]bool{}
	for _, s := range seccomp.Permits(b.goarch) {
		for _, r := range s.Rules {
			b.match(r, lib.ActAllow)
			permit[r.Syscall] = true
		}
	}
	for _, g := range seccomp.Groups(b.goarch) {
		for _, name := range g.Syscalls {
			if !permit[name] {
				b.add(name, lib.ActAllow)
				continue
			}
			// Otherwise EPERM, not the default: a condition that always holds.
			// libseccomp orders the comparisons of one argument so that this
			// one comes last; were it first, the call would be refused.
			b.add(name, eperm, b.cond(0, lib.CompareGreaterEqual, 0))
		}
	}
	for _, g := range seccomp.Forbidden(b.goarch) {
		for _, name := range g.Syscalls {
			b.add(name, eperm)
		}
	}
}

func deny(b *builder) {
	for _, s := range seccomp.Denies(b.goarch) {
		for _, r := range s.Rules {
			b.match(r, eperm)
		}
	}
}

func initial(b *builder) {
	for _, name := range seccomp.Init(b.goarch).Syscalls {
		b.add(name, lib.ActAllow)
	}
}
