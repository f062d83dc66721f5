package cgroups

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"strconv"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

// Stats is what a group used and was denied since New.
type Stats struct {
	// CPU is the time of all processes that ever were inside, killed ones
	// included. HasCPU is false on a v1 host without a usable cpuacct.
	CPU    time.Duration
	HasCPU bool
	// MemoryCurrent and MemoryPeak are bytes. HasMemoryPeak is false on v2
	// before Linux 5.19.
	MemoryCurrent, MemoryPeak int64
	HasMemoryPeak             bool
	// OOMKills counts the processes that the kernel killed for the memory limit.
	OOMKills int64
	// PidsPeak is the most processes and threads at once. HasPidsPeak is false
	// before Linux 6.1.
	PidsPeak    int64
	HasPidsPeak bool
	// PidsDenied counts the forks and clones that the pids limit refused.
	PidsDenied int64
}

// Stats reads the counters: about one file per field. It works while the
// sandbox runs and until Remove.
func (g *Group) Stats() (Stats, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var s Stats
	if err := g.usable(); err != nil {
		return s, err
	}
	for _, i := range g.made {
		t := &g.parent.trees[i]
		var err error
		if t.version == 2 {
			err = g.statsV2(t, &s)
		} else {
			err = g.statsV1(t, &s)
		}
		if err != nil {
			return s, failure("cgroup-stats", err)
		}
	}
	var err error
	s.PidsDenied, err = g.pidsDenied()
	return s, err
}

func (g *Group) statsV2(t *parentTree, s *Stats) error {
	r := reader{g: g, t: t}
	s.CPU = time.Duration(r.key("cpu.stat", "usage_usec")) * time.Microsecond
	s.HasCPU = true
	if t.has(memoryController) {
		s.MemoryCurrent = r.number("memory.current")
		s.OOMKills = r.key("memory.events", "oom_kill")
		s.MemoryPeak, s.HasMemoryPeak = r.optional("memory.peak")
	}
	if t.has(pidsController) {
		s.PidsPeak, s.HasPidsPeak = r.optional("pids.peak")
	}
	return r.err
}

func (g *Group) statsV1(t *parentTree, s *Stats) error {
	r := reader{g: g, t: t}
	if t.has(usageController) {
		s.CPU, s.HasCPU = time.Duration(r.number("cpuacct.usage")), true // nanoseconds
	}
	if t.has(memoryController) {
		s.MemoryCurrent = r.number("memory.usage_in_bytes")
		s.OOMKills = r.key("memory.oom_control", "oom_kill") // Linux 4.13
		s.MemoryPeak, s.HasMemoryPeak = r.optional("memory.max_usage_in_bytes")
	}
	if t.has(pidsController) {
		s.PidsPeak, s.HasPidsPeak = r.optional("pids.peak")
	}
	return r.err
}

// PidsDenied returns how many forks the pids limit refused, by one read of a
// kept descriptor: cheap enough to poll.
func (g *Group) PidsDenied() (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(); err != nil {
		return 0, err
	}
	return g.pidsDenied()
}

func (g *Group) pidsDenied() (int64, error) {
	if g.denials < 0 {
		return 0, &errdef.Error{Code: errdef.Unsupported, Op: "cgroup-stats", Msg: "this kernel does not count denied forks (pids.events)"}
	}
	n, err := sys.CgroupReadAt(g.denials, "pids.events", g.buf[:])
	if err != nil {
		return 0, failure("cgroup-stats", err)
	}
	v, err := parseKey(g.buf[:n], "max")
	if err != nil {
		return 0, failure("cgroup-stats", err)
	}
	return v, nil
}

// reader reads files of a group in one hierarchy and keeps the first error.
type reader struct {
	g   *Group
	t   *parentTree
	err error
}

func (r *reader) read(file string) []byte {
	n, err := r.t.dir.Read(r.g.id+"/"+file, r.g.buf[:])
	if err != nil && r.err == nil {
		r.err = err
	}
	return r.g.buf[:n]
}

func (r *reader) number(file string) int64 {
	if r.err != nil {
		return 0
	}
	return r.parsed(parseNumber(r.read(file)))
}

func (r *reader) key(file, key string) int64 {
	if r.err != nil {
		return 0
	}
	return r.parsed(parseKey(r.read(file), key))
}

// optional reads a file that older kernels do not have.
func (r *reader) optional(file string) (int64, bool) {
	if r.err != nil {
		return 0, false
	}
	v := r.number(file)
	if errors.Is(r.err, fs.ErrNotExist) {
		r.err = nil
		return 0, false
	}
	return v, r.err == nil
}

func (r *reader) parsed(v int64, err error) int64 {
	if err != nil && r.err == nil {
		r.err = err
	}
	return v
}

// parseNumber reads a file that holds one number. What does not fit is the
// largest: the kernel prints unsigned 64-bit counters.
func parseNumber(text []byte) (int64, error) {
	v, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return int64(min(v, math.MaxInt64)), err
}

// parseKey reads the value of a line "KEY VALUE" in a flat keyed file.
func parseKey(text []byte, key string) (int64, error) {
	for line := range bytes.Lines(text) {
		name, value, ok := bytes.Cut(line, []byte(" "))
		if ok && string(name) == key {
			return parseNumber(value)
		}
	}
	return 0, errors.New("no counter " + strconv.Quote(key))
}
