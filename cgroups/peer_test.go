package cgroups

import (
	"testing"
	"time"

	oci "github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs"
	"github.com/opencontainers/cgroups/fs2"
)

// peer reads or sets a group by github.com/opencontainers/cgroups, the
// reference for what the files mean.
type peer struct{ g *Group }

func (p peer) path(i int) string { return p.g.parent.trees[i].dir.Path() + "/" + p.g.id }

func (p peer) stats(t testing.TB) *oci.Stats {
	t.Helper()
	s := oci.NewStats()
	for _, i := range p.g.made {
		tr := &p.g.parent.trees[i]
		if tr.version == 2 {
			m, err := fs2.NewManager(&oci.Cgroup{Resources: &oci.Resources{}}, p.path(i))
			if err != nil {
				t.Fatal(err)
			}
			if s, err = m.GetStats(); err != nil {
				t.Logf("peer: %v", err) // it also reads controllers that we do not enable
			}
			continue
		}
		for _, c := range tr.controllers {
			var err error
			switch c {
			case memoryController:
				err = (&fs.MemoryGroup{}).GetStats(p.path(i), s)
			case pidsController:
				err = (&fs.PidsGroup{}).GetStats(p.path(i), s)
			case usageController:
				err = (&fs.CpuacctGroup{}).GetStats(p.path(i), s)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// setV1 writes the limits of testLimits.
func (p peer) setV1(t testing.TB) {
	t.Helper()
	lim := testLimits()
	pids := lim.Pids
	r := &oci.Resources{
		Memory: lim.Memory, MemorySwap: lim.Memory, PidsLimit: &pids,
		CpuQuota: lim.CPUQuota.Microseconds(), CpuPeriod: uint64(DefaultCPUPeriod.Microseconds()),
	}
	for _, i := range p.g.made {
		for _, c := range p.g.parent.trees[i].controllers {
			var err error
			switch c {
			case memoryController:
				err = (&fs.MemoryGroup{}).Set(p.path(i), r)
			case cpuController:
				err = (&fs.CpuGroup{}).Set(p.path(i), r)
			case pidsController:
				err = (&fs.PidsGroup{}).Set(p.path(i), r)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestStatsAgreeWithPeer(t *testing.T) {
	g := newGroup(t, openParent(t), testLimits())
	script := "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; dd if=/dev/zero of=/dev/null bs=16M count=1 2>/dev/null"
	if out, err := inside(g, nil, "/bin/sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	ours, theirs := stats(t, g), peer{g}.stats(t)
	near := func(what string, a, b, slack int64) {
		if a < b-slack || a > b+slack {
			t.Errorf("%s: ours %d, the peer's %d", what, a, b)
		}
	}
	near("cpu", int64(ours.CPU), int64(theirs.CpuStats.CpuUsage.TotalUsage), int64(time.Millisecond))
	near("memory", ours.MemoryCurrent, int64(theirs.MemoryStats.Usage.Usage), 1<<20)
	if theirs.MemoryStats.Usage.MaxUsage > 0 {
		near("memory peak", ours.MemoryPeak, int64(theirs.MemoryStats.Usage.MaxUsage), 0)
	}
}

func BenchmarkPeerSetStats(b *testing.B) {
	g := newGroup(b, openParent(b), testLimits())
	if _, v2 := g.CloneFD(); v2 {
		b.Skip("measures v1")
	}
	for b.Loop() {
		peer{g}.setV1(b)
		peer{g}.stats(b)
	}
}

// BenchmarkSetStats is our side of BenchmarkPeerSetStats.
func BenchmarkSetStats(b *testing.B) {
	g := newGroup(b, openParent(b), testLimits())
	for b.Loop() {
		for _, i := range g.made {
			if err := g.parent.trees[i].limit(g.parent.env, g.id, testLimits()); err != nil {
				b.Fatal(err)
			}
		}
		stats(b, g)
	}
}
