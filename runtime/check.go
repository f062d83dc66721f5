package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

// Feature is one line of [Check].
type Feature struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Need   bool   `json:"required"`
	Detail string `json:"detail,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// minKernel is the oldest kernel that the direct engine works on: 5.12 brought
// mount_setattr(2), 5.14 cgroup.kill.
const minKernelMajor, minKernelMinor = 5, 14

// checkTimeout bounds the trial run.
const checkTimeout = 10 * time.Second

// Check reports what this host can enforce, by trying it: the last line is a
// real sandbox.
func Check(opts Options) []Feature {
	release, major, minor := sys.KernelVersion()
	out := []Feature{{Name: "kernel", Need: true, OK: major > minKernelMajor || major == minKernelMajor && minor >= minKernelMinor,
		Detail: release, Hint: fmt.Sprintf("Linux %d.%d or newer", minKernelMajor, minKernelMinor)}}
	layout, err := cgroups.Detect()
	if err != nil {
		out = append(out, failedFeature("cgroups", err))
	} else {
		out = append(out, cgroupFeatures(layout)...)
	}
	w, err := bridge.NewWatcher()
	if err != nil {
		out = append(out, failedFeature("inotify", err))
	} else {
		out = append(out, Feature{Name: "inotify", OK: !w.Polling(), Detail: "tool requests are seen at once",
			Hint: "raise fs.inotify.max_user_instances; meanwhile requests are polled"})
		w.Close()
	}
	out = append(out, Feature{Name: "state-dir", Need: true, OK: true})
	dir, err := stateDir(opts)
	out[len(out)-1].Detail = dir
	if err != nil {
		out[len(out)-1] = failedFeature("state-dir", err)
	}
	out = append(out, tryRun(opts))
	for i := range out {
		if out[i].OK {
			out[i].Hint = ""
		}
	}
	return out
}

func failedFeature(name string, err error) Feature {
	return Feature{Name: name, Need: true, Detail: err.Error(), Hint: errdef.HintOf(err)}
}

func cgroupFeatures(l *cgroups.Layout) []Feature {
	out := []Feature{{Name: "cgroups", Need: true, OK: true, Detail: string(l.Mode())}}
	for _, c := range l.Controllers() {
		out = append(out, Feature{Name: "cgroup " + c.Name, Need: true, OK: true, Detail: fmt.Sprintf("v%d under %s", c.Version, c.Under)})
	}
	for _, m := range l.Missing() {
		out = append(out, failedFeature("cgroup limits", m))
	}
	return out
}

// tryRun runs true(1) with the default policy.
func tryRun(opts Options) Feature {
	h, err := Open(opts)
	if err != nil {
		return failedFeature("sandbox", err)
	}
	defer h.Close()
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	r, err := h.Run(ctx, NewPolicy("true"), RunOptions{})
	if err != nil {
		return failedFeature("sandbox", err)
	}
	if r.ExitStatus() != 0 {
		return Feature{Name: "sandbox", Need: true, Detail: fmt.Sprintf("true(1) ended with %d (%s)", r.ExitStatus(), r.Reason)}
	}
	return Feature{Name: "sandbox", Need: true, OK: true, Detail: "namespaces, limits, filters and identity are in force"}
}
