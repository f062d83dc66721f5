package cgroups

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxrun/sbxrun/errdef"
)

// fakeHost is a machine of plain files: files maps paths below its root to
// content, a path that ends with a slash is a directory. MNT stands for the
// root in mountinfo.
func fakeHost(t *testing.T, euid int, mountinfo, self string, files map[string]string) *Layout {
	t.Helper()
	root := t.TempDir()
	files["proc/self/mountinfo"] = strings.ReplaceAll(mountinfo, "MNT", root)
	files["proc/self/cgroup"] = self
	for name, content := range files {
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == path {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, err := detect(env{proc: root + "/proc", euid: euid, pid: 42, anyFS: true})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func v1Mounts(names ...string) string {
	var b strings.Builder
	for i, n := range names {
		b.WriteString("1 2 0:")
		b.WriteByte(byte('1' + i))
		b.WriteString(" / MNT/" + n + " rw - cgroup cgroup rw," + n + "\n")
	}
	return b.String()
}

func TestDetectV1(t *testing.T) {
	l := fakeHost(t, 0, v1Mounts("memory", "cpu,cpuacct", "pids"), "1:memory:/own\n", map[string]string{
		"memory/own/": "", "cpu,cpuacct/": "", "pids/": "",
	})
	if len(l.Missing()) != 0 || l.Mode() != ModeV1 || len(l.trees) != 3 {
		t.Fatalf("%v, %v, %+v", l.Mode(), l.Missing(), l.trees)
	}
	if got := l.Controllers(); len(got) != 4 || !strings.HasSuffix(got[0].Under, "/memory") || got[0].Version != 1 {
		t.Errorf("%+v", got)
	}
	if tr := l.trees[1]; !tr.has("cpu") || !tr.has("cpuacct") {
		t.Errorf("the co-mounted hierarchy: %+v", tr.controllers)
	}
}

func TestDetectMissing(t *testing.T) {
	for name, c := range map[string]struct {
		mounts string
		files  map[string]string
		want   string // the controllers that are missing
		mode   Mode
	}{
		"nothing mounted": {"1 2 0:1 / / rw - ext4 x rw\n", map[string]string{}, "memory cpu pids", ModeNone},
		"v1 without memory": {v1Mounts("cpu", "pids"), map[string]string{"cpu/": "", "pids/": ""},
			"memory", ModeV1},
		"hybrid, an empty v2": {v1Mounts("memory", "cpu") + "1 2 0:9 / MNT/v2 rw - cgroup2 c rw\n",
			map[string]string{"memory/": "", "cpu/": "", "v2/cgroup.controllers": "hugetlb"}, "pids", ModeHybrid},
		"a mount point that is gone": {v1Mounts("memory", "cpu", "pids"), map[string]string{"memory/": "", "pids/": ""},
			"cpu", ModeV1},
		"v2 without pids": {"1 2 0:9 / MNT/v2 rw - cgroup2 c rw\n", map[string]string{
			"v2/cgroup.controllers": "memory cpu", "v2/cgroup.subtree_control": "memory cpu", "v2/cgroup.procs": "",
		}, "pids", ModeV2},
	} {
		t.Run(name, func(t *testing.T) {
			l := fakeHost(t, 0, c.mounts, "0::/\n", c.files)
			var got []string
			for _, m := range l.Missing() {
				word, _, _ := strings.Cut(m.Error(), " ")
				got = append(got, word)
				if m.Code != errdef.Unsupported || m.Hint == "" {
					t.Errorf("%+v", m)
				}
			}
			if strings.Join(got, " ") != c.want || l.Mode() != c.mode {
				t.Errorf("%s, missing %q, want %q", l.Mode(), got, c.want)
			}
			_, err := Open(l, "x")
			want := strings.Fields(c.want)[0]
			if !errdef.Is(err, errdef.Unsupported) ||
				err.Error() != want+` limit cannot be enforced: cgroup controller "`+want+`" is not available` {
				t.Errorf("Open: %v", err)
			}
		})
	}
}

// TestPlaceV2 shows where the supervisor's directory goes, by what the own
// cgroup holds.
func TestPlaceV2(t *testing.T) {
	const mount = "1 2 0:9 / MNT/v2 rw - cgroup2 c rw\n"
	const all = "cpu memory pids io"
	node := func(files map[string]string, dir, controllers, on, procs string) {
		files[dir+"/cgroup.controllers"] = controllers
		files[dir+"/cgroup.subtree_control"] = on
		files[dir+"/cgroup.procs"] = procs
		if dir != "v2" {
			files[dir+"/cgroup.type"] = "domain"
		}
	}
	for name, c := range map[string]struct {
		euid                int
		self, on, procs     string // of the own cgroup
		rootOn              string
		base, enable, error string
		move                bool
	}{
		"root, all on":           {0, "/own", "", "42", all, ".", "", "", false},
		"root, enables":          {0, "/own", "", "42", "memory", ".", "cpu pids", "", false},
		"user, alone":            {1000, "/own", "", "42", "", "own", "memory cpu pids", "", true},
		"user, empty":            {1000, "/own", "", "", "", "own", "memory cpu pids", "", false},
		"user, not alone":        {1000, "/own", "", "41\n42", "", "", "", "holds other processes (pid 41, pid 42)", false},
		"user, hidden process":   {1000, "/own", "", "0\n42", "", "", "", "holds other processes", false},
		"user, already on":       {1000, "/own", all, "", "", "own", "", "", false},
		"user, in our leaf":      {1000, "/own/" + hostLeaf, all, "", "", "own", "", "", false},
		"user, unreachable":      {1000, "/../other", "", "", "", "", "", "is not delegated to this process", false},
		"container, its own top": {0, "/", "", "", all, ".", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			node(files, "v2", all, c.rootOn, "1\n2")
			node(files, "v2/own", all, c.on, c.procs)
			node(files, "v2/own/"+hostLeaf, all, "", "42")
			l := fakeHost(t, c.euid, mount, "0::"+c.self+"\n", files)
			if c.error != "" {
				if m := l.Missing(); len(m) != 3 || !strings.Contains(m[0].Error(), c.error) || m[0].Hint == "" {
					t.Fatalf("missing %v, want %q", m, c.error)
				}
				return
			}
			if len(l.trees) != 1 {
				t.Fatalf("missing %v", l.Missing())
			}
			at := l.trees[0].place
			if at.rel != c.base || at.moveSelf != c.move || strings.Join(at.enable, " ") != c.enable {
				t.Errorf("%+v", at)
			}
		})
	}
}

func TestSwap(t *testing.T) {
	dir := t.TempDir()
	e := env{proc: dir}
	if err := e.swapOff(); err != nil {
		t.Errorf("no swaps file: %v", err)
	}
	const heading = "Filename\tType\tSize\tUsed\tPriority\n"
	os.WriteFile(dir+"/swaps", []byte(heading), 0o644)
	if err := e.swapOff(); err != nil {
		t.Errorf("no swap: %v", err)
	}
	os.WriteFile(dir+"/swaps", []byte(heading+"/dev/sda2 partition 1 0 -2\n"), 0o644)
	if err := e.swapOff(); !errdef.Is(err, errdef.Unsupported) || errdef.HintOf(err) == "" {
		t.Errorf("active swap: %v", err)
	}
}
