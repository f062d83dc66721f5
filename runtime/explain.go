package runtime

import (
	goruntime "runtime"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sbxrun/sbxrun/bridge/stubs"
	"github.com/sbxrun/sbxrun/runtime/plan"
	"github.com/sbxrun/sbxrun/seccomp"
)

// Explanation is a policy as it would take effect; nothing is run for it.
type Explanation struct {
	Spec  *specs.Spec // the OCI form
	Steps []Step      // what the launcher would do, in order
}

// Step is one operation of the set-up.
type Step struct {
	Phase  string `json:"phase"` // "template", "init" or "program"
	Op     string `json:"op"`
	Detail string `json:"detail,omitempty"`
}

// Explain validates the policy and returns its effect. Host ids and
// descriptors, which only a run has, are shown as those of a first sandbox on a
// host with cgroup v2.
func Explain(p Policy) (*Explanation, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := p.cgroupLimits().Validate(); err != nil {
		return nil, err
	}
	view, err := buildView(&p)
	if err != nil {
		return nil, err
	}
	filters, err := seccomp.Filters(goruntime.GOARCH)
	if err != nil {
		return nil, err
	}
	e := &Explanation{Spec: p.spec(view, true)}
	in := plan.Input{Spec: e.Spec, View: view, Filters: filters, HardLimit: hardLimit,
		RequestBytes: p.requestBytes(),
		IDs:          plan.IDs{UID: idBase, GID: idBase, SupervisorUID: idBase + 1, SupervisorGID: idBase + 1}}
	for _, f := range p.Files {
		in.Files = append(in.Files, plan.InputFile{Target: workspacePath(f.Target), Mode: f.Mode})
	}
	if p.Bridge.Tools != nil {
		files, err := stubs.Files(p.Bridge.Tools)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			in.Bridge = append(in.Bridge, plan.BridgeFile{Path: f.Path, Mode: f.Mode, Data: f.Data})
		}
	}
	prepare, err := plan.Prepare(in)
	if err != nil {
		return nil, err
	}
	run, err := plan.Run(in)
	if err != nil {
		return nil, err
	}
	e.add("template", plan.Template(view, false).Ops)
	e.add("init", prepare.Ops)
	phase := "init"
	for _, o := range run.Ops {
		e.add(phase, []plan.Operation{o})
		if o.Op == plan.OpProgram {
			phase = "program"
		}
	}
	return e, nil
}

func (e *Explanation) add(phase string, ops []plan.Operation) {
	for _, o := range ops {
		e.Steps = append(e.Steps, Step{phase, o.Op.String(), o.Detail()})
	}
}
