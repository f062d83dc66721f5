package runtime

import (
	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/cgroups"
)

// fail records the first thing that went wrong after the start.
func (r *Result) fail(err error) {
	if err != nil && r.Error == nil {
		r.Error = NewErrorRecord(err)
	}
}

func (r *Result) setUsage(st cgroups.Stats) {
	r.Usage.CPU = st.CPU
	if st.HasMemoryPeak {
		v := st.MemoryPeak
		r.Usage.MemoryPeak = &v
	}
	if st.HasPidsPeak {
		v := max(0, st.PidsPeak-1) // without PID 1
		r.Usage.PidsPeak = &v
	}
	r.OOMKills, r.PidsDenied = uint64(st.OOMKills), uint64(st.PidsDenied)
}

func (r *Result) setToolCalls(st bridge.Stats) {
	r.ToolCalls = ToolCalls{Total: st.Dispatched, Refused: st.Refused,
		ByTool: map[string]int{}, ByCode: map[string]int{}}
	for tool, codes := range st.Calls {
		for code, n := range codes {
			if tool != "" {
				r.ToolCalls.ByTool[tool] += n
			}
			r.ToolCalls.ByCode[string(code)] += n
		}
	}
}

// setOutcome settles exit code, signal and reason. A limit that was exceeded is
// named before the way the program ended: a shell that exits 0 after its child
// was killed for memory has not simply exited.
func (r *Result) setOutcome(exit exitInfo, why Reason) {
	switch {
	case exit.ok && exit.status.Exited():
		code := exit.status.ExitStatus()
		r.ExitCode, r.Reason = &code, ReasonExited
	case exit.ok && exit.status.Signaled():
		sig := int(exit.status.Signal())
		r.Signal, r.Reason = &sig, ReasonSignaled
	default: // PID 1 was killed: by us, or by the kernel for memory
		const sigkill = 9
		sig := sigkill
		r.Signal, r.Reason = &sig, ReasonKilled
	}
	switch {
	case why != "":
		r.Reason = why
	case r.OOMKills > 0:
		r.Reason = ReasonOOM
	case r.PidsDenied > 0:
		r.Reason = ReasonPidsLimit
	}
}
