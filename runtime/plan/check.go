package plan

import (
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sbxrun/sbxrun/errdef"
)

// Namespaces returns the namespaces that every sandbox has, all fresh.
func Namespaces() []specs.LinuxNamespaceType {
	return []specs.LinuxNamespaceType{specs.PIDNamespace, specs.NetworkNamespace, specs.MountNamespace,
		specs.IPCNamespace, specs.UTSNamespace, specs.UserNamespace, specs.CgroupNamespace}
}

// checkSpec refuses a spec that the direct engine would have to weaken or
// ignore in part: it enforces one strict form and nothing else.
func checkSpec(s *specs.Spec) error {
	refuse := func(field, what string) error {
		return &errdef.Error{Code: errdef.Unsupported, Op: "plan", Path: field, Msg: what}
	}
	switch {
	case s == nil || s.Process == nil || s.Linux == nil || s.Root == nil:
		return refuse("spec", "process, root and linux are required")
	case len(s.Process.Args) == 0:
		return refuse("process.args", "empty")
	case !s.Root.Readonly:
		return refuse("root.readonly", "the direct engine's root is always read-only")
	case !s.Process.NoNewPrivileges:
		return refuse("process.noNewPrivileges", "must be true")
	case s.Process.User.UID == 0 || s.Process.User.GID == 0:
		return refuse("process.user", "the program never runs as uid or gid 0")
	case len(s.Process.User.AdditionalGids) != 0:
		return refuse("process.user.additionalGids", "supplementary groups are not given")
	case s.Process.Terminal:
		return refuse("process.terminal", "the direct engine gives no terminal")
	case s.Process.Capabilities == nil || hasCaps(s.Process.Capabilities):
		return refuse("process.capabilities", "all five sets must be empty")
	case s.Hooks != nil:
		return refuse("hooks", "the direct engine runs none")
	case s.Linux.Seccomp == nil:
		return refuse("linux.seccomp", "a filter is required")
	case len(s.Linux.Devices) != 0:
		return refuse("linux.devices", "the devices are fixed")
	case len(s.Linux.Sysctl) != 0:
		return refuse("linux.sysctl", "none can be set")
	}
	have := make([]specs.LinuxNamespaceType, 0, len(s.Linux.Namespaces))
	for _, ns := range s.Linux.Namespaces {
		if ns.Path != "" {
			return refuse("linux.namespaces", "existing namespaces are not joined")
		}
		have = append(have, ns.Type)
	}
	want := Namespaces()
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		return refuse("linux.namespaces", "every sandbox has a fresh pid, network, mount, ipc, uts, user and cgroup namespace")
	}
	return nil
}

func hasCaps(c *specs.LinuxCapabilities) bool {
	return len(c.Bounding)+len(c.Effective)+len(c.Inheritable)+len(c.Permitted)+len(c.Ambient) != 0
}
