package cgroups

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
)

const hybridMountinfo = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/mem\040ory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 master:1 - cgroup2 cgroup2 rw
42 31 0:39 / /mnt/x rw - ext4 /dev/sda rw
43 31 0:40 /docker/1 /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`

func TestParseMounts(t *testing.T) {
	// A line longer than a scanner takes must not hide the cgroups behind it.
	long := "50 31 0:50 / /mnt/o rw - overlay overlay lowerdir=" + strings.Repeat("/l:", 50_000) + "\n"
	got, err := parseMounts([]byte(long + hybridMountinfo))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 {
		t.Fatalf("%d mounts: %+v", len(got), got)
	}
	if m := got[0]; m.version != 1 || strings.Join(m.controllers, " ") != "rw cpu cpuacct" || m.minor != 29 {
		t.Errorf("cpu: %+v", m)
	}
	if m := got[1]; m.point != "/sys/fs/cgroup/mem ory" {
		t.Errorf("an escaped mount point: %+v", m)
	}
	if m := got[3]; m.version != 2 || m.root != "/docker/1" || m.minor != 40 {
		t.Errorf("the later mount does not hide the earlier: %+v", m)
	}
	if got := modeOf(got); got != ModeHybrid {
		t.Errorf("mode %s", got)
	}
}

func TestParseSelf(t *testing.T) {
	own := parseSelf([]byte("4:cpu,cpuacct:/a:b\n1:name=systemd:/x\n0::/user.slice/s\nrubbish\n9:pids:relative\n"))
	for name, want := range map[string]string{"cpu": "/a:b", "cpuacct": "/a:b", "": "/user.slice/s", "pids": ""} {
		if own[name] != want {
			t.Errorf("%q: %q, want %q", name, own[name], want)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		root, own, rel string
		ok             bool
	}{
		{"/", "/", ".", true},
		{"/", "/a/b", "a/b", true},
		{"/docker/1", "/docker/1", ".", true},
		{"/docker/1", "/docker/1/x", "x", true},
		{"/docker/1", "/docker/12", "", false},
		{"/docker/1", "/", "", false},
		{"/", "/../x", "", false},
		{"/", "/a/../../x", "", false},
		{"/..", "/", "", false},
		{"/../x", "/", "", false},
		{"/", "", "", false},
	} {
		if rel, ok := below(c.root, c.own); rel != c.rel || ok != c.ok {
			t.Errorf("below(%q, %q) = %q, %v", c.root, c.own, rel, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(hybridMountinfo))
	f.Add([]byte("0::/\n4:cpu,cpuacct:/x\n"))
	f.Add([]byte("1 2 0:3 - cgroup c rw\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		mounts, _ := parseMounts(text)
		own := parseSelf(text)
		for _, m := range mounts {
			for _, path := range own {
				rel, ok := below(m.root, path)
				if ok && (rel == "" || rel[0] == '/' || strings.HasPrefix(rel, "..") || strings.Contains(rel, "/../")) {
					t.Fatalf("below(%q, %q) leads out: %q", m.root, path, rel)
				}
			}
		}
		parseKey(text, "max")
	})
}

func TestParseKey(t *testing.T) {
	text := []byte("oom 7\noom_kill 3\nbig 18446744073709551615\nbad x\n")
	if v, err := parseKey(text, "oom_kill"); v != 3 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	if v, err := parseKey(text, "big"); v != math.MaxInt64 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	for _, key := range []string{"bad", "oo", ""} {
		if _, err := parseKey(text, key); err == nil {
			t.Errorf("%q: no error", key)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Limits{Memory: 64 << 20, CPUQuota: CPUs(0.5), Pids: 16}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Limits){
		"zero memory":       func(l *Limits) { l.Memory = 0 },
		"negative memory":   func(l *Limits) { l.Memory = -1 },
		"half a page":       func(l *Limits) { l.Memory += int64(os.Getpagesize() / 2) },
		"the kernel's max":  func(l *Limits) { l.Memory = math.MaxInt64 / 4096 * 4096 },
		"zero cpu":          func(l *Limits) { l.CPUQuota = 0 },
		"negative cpu":      func(l *Limits) { l.CPUQuota = -1 },
		"cpu NaN":           func(l *Limits) { l.CPUQuota = CPUs(math.NaN()) },
		"cpu infinite":      func(l *Limits) { l.CPUQuota = CPUs(math.Inf(1)) },
		"cpu below a ms":    func(l *Limits) { l.CPUQuota = CPUs(0.005) },
		"cpu nanoseconds":   func(l *Limits) { l.CPUQuota = 2*time.Millisecond + 1 },
		"period too short":  func(l *Limits) { l.CPUPeriod = time.Microsecond },
		"period too long":   func(l *Limits) { l.CPUPeriod = 2 * time.Second },
		"period negative":   func(l *Limits) { l.CPUPeriod = -time.Second },
		"zero pids":         func(l *Limits) { l.Pids = 0 },
		"negative pids":     func(l *Limits) { l.Pids = -5 },
		"pids of the world": func(l *Limits) { l.Pids = 4194304 },
	} {
		l := good
		spoil(&l)
		if err := l.Validate(); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckID(t *testing.T) {
	for _, id := range []string{"a", "0-9", strings.Repeat("x", 64)} {
		if err := checkID("id", id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{"", ".", "..", "/", "a/b", "A", "a\n", "a\x00", "é", "sbx_run", strings.Repeat("x", 65)} {
		if err := checkID("id", id); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
}
