//go:build sbxrun_weaken

package runtime

import (
	"slices"
	"strings"

	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/runtime/plan"
)

// weakness names the control that this build lacks; the linker sets it
// (-X github.com/sbxrun/sbxrun/runtime.weakness=network). Such a build is for
// one purpose: selftest must fail in it.
var weakness string

func weakenPlan(p *plan.Plan) {
	const cloneNewNet = 0x40000000
	drop := func(unwanted func(o *plan.Operation) bool) {
		p.Ops = slices.DeleteFunc(p.Ops, func(o plan.Operation) bool { return unwanted(&o) })
	}
	switch weakness {
	case "network":
		for i := range p.Ops {
			if p.Ops[i].Op == plan.OpUnshare {
				p.Ops[i].Args[0] &^= cloneNewNet
			}
		}
	case "seccomp":
		drop(func(o *plan.Operation) bool { return o.Op == plan.OpSeccomp })
	case "capabilities":
		drop(func(o *plan.Operation) bool { return o.Op == plan.OpDropCaps || o.Op == plan.OpIdentity })
	case "no-new-privs": // the filters need it or CAP_SYS_ADMIN
		drop(func(o *plan.Operation) bool { return o.Op == plan.OpNoNewPrivs || o.Op == plan.OpSeccomp })
	case "masks":
		drop(func(o *plan.Operation) bool { return o.Op == plan.OpMask })
	case "user-namespaces":
		drop(func(o *plan.Operation) bool { return o.Op == plan.OpUserSysctl || o.Op == plan.OpSeccomp })
	case "replies":
		drop(func(o *plan.Operation) bool {
			return o.Op == plan.OpMount && strings.HasSuffix(o.Strings[1], "/resp") && o.Strings[2] == ""
		})
		for i := range p.Ops {
			if p.Ops[i].Op == plan.OpMount && strings.HasSuffix(p.Ops[i].Strings[1], "/resp") {
				p.Ops[i].Strings[3] = strings.Replace(p.Ops[i].Strings[3], "mode=0711", "mode=0777", 1)
			}
		}
	case "tmpfs":
		for i := range p.Ops {
			if o := &p.Ops[i]; o.Op == plan.OpMount && o.Strings[1] == "/workspace" {
				o.Strings[3] = strings.ReplaceAll(o.Strings[3], "size=", "size=1")
			}
		}
	}
}

func weakenTemplate(p *plan.Plan) {
	if weakness == "read-only" {
		p.Ops = slices.DeleteFunc(p.Ops, func(o plan.Operation) bool { return o.Op == plan.OpAttr })
		for i := range p.Ops {
			switch o := &p.Ops[i]; o.Op {
			case plan.OpBind:
				o.Args[0] &^= plan.AttrRdonly
			case plan.OpDir:
				o.Args[0] = 0o777
			}
		}
	}
}

func weakenLimits(l cgroups.Limits) cgroups.Limits {
	switch weakness {
	case "memory":
		l.Memory = 1 << 40
	case "pids":
		l.Pids = 1 << 20
	}
	return l
}
