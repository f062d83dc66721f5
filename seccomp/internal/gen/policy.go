package main

import (
	"fmt"
	"syscall"

	"github.com/sbxrun/sbxrun/seccomp"
	"github.com/sbxrun/sbxrun/seccomp/eval"
)

var (
	eperm  = eval.Errno(syscall.EPERM)
	enosys = eval.Errno(syscall.ENOSYS)
)

// verdict is the answer to one call: hit if a rule applies, else miss. Without
// rules it is always miss.
type verdict struct {
	rules     [][]seccomp.Match
	hit, miss eval.Action
}

// policy is what one filter answers, by number.
type policy struct {
	goarch    string
	calls     map[uint32]verdict
	otherwise eval.Action
}

// compile returns the raw filters of goarch by name.
func compile(goarch string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, build := range map[string]func(string) (policy, error){"allow": allow, "deny": deny, "init": initial} {
		p, err := build(goarch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if out[name], err = p.assemble(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

func allow(goarch string) (policy, error) {
	p := policy{goarch, map[uint32]verdict{}, enosys}
	for _, g := range seccomp.Groups(goarch) {
		if err := p.put(g.Syscalls, verdict{miss: eval.Allow}); err != nil {
			return p, err
		}
	}
	for _, g := range seccomp.Forbidden(goarch) {
		if err := p.put(g.Syscalls, verdict{miss: eperm}); err != nil {
			return p, err
		}
	}
	return p, p.putRules(seccomp.Permits(goarch), eval.Allow, eperm)
}

func deny(goarch string) (policy, error) {
	p := policy{goarch, map[uint32]verdict{}, eval.Allow}
	return p, p.putRules(seccomp.Denies(goarch), eperm, eval.Allow)
}

func initial(goarch string) (policy, error) {
	p := policy{goarch, map[uint32]verdict{}, eval.KillProcess}
	return p, p.put(seccomp.Init(goarch).Syscalls, verdict{miss: eval.Allow})
}

func (p policy) put(names []string, v verdict) error {
	for _, n := range names {
		nr, ok := seccomp.Number(p.goarch, n)
		if !ok {
			return fmt.Errorf("%s: unknown call", n)
		}
		p.calls[nr] = v
	}
	return nil
}

// putRules gives the calls of sets their rules in place of a plain answer.
func (p policy) putRules(sets []seccomp.RuleSet, hit, miss eval.Action) error {
	rules := map[string][][]seccomp.Match{}
	for _, s := range sets {
		for _, r := range s.Rules {
			rules[r.Syscall] = append(rules[r.Syscall], r.Match)
			if err := p.put([]string{r.Syscall}, verdict{rules[r.Syscall], hit, miss}); err != nil {
				return err
			}
		}
	}
	return nil
}
