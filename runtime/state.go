package runtime

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

// The state directory holds, per supervisor, one file under two names:
//
//	<supervisor id>.json   the intent record, written before any side effect
//	ids-<n>                the claim on the n-th block of host ids
//
// The supervisor keeps the file locked (flock(2)) while it lives, and the lock
// alone says whether it does: a truncated or scribbled record neither hides a
// live supervisor nor revives a dead one.

const (
	// Host ids from idBase up belong to sandboxes, idBlock of them to each
	// supervisor: above what distributions, systemd's dynamic users and usual
	// subuid ranges give out, below the ids that are negative as int32.
	idBase   = 0x70000000
	idBlock  = 1 << 16
	idBlocks = (0x7fff0000 - idBase) / idBlock
	// idsPerSandbox: one for the program, one for its PID 1.
	idsPerSandbox = 2
	// claimTries bounds the search for a free block: with half of all taken,
	// this many random misses in a row do not happen.
	claimTries = 128
	// reapAtOpen bounds the dead supervisors' records that a start cleans up on
	// the way, so that a crash loop cannot pile them up and a start stays quick.
	reapAtOpen = 4
)

// record is the content of the state file, for people and for later versions.
type record struct {
	Version    int    `json:"version"`
	Supervisor string `json:"supervisor"`
	PID        int    `json:"pid"`
	FirstID    uint32 `json:"first_id"`
}

// supervisor is this process's claim.
type supervisor struct {
	id      string
	firstID uint32
	lock    *os.File
	names   []string
}

// stateDir returns the directory for opts, made if it must be.
func stateDir(opts Options) (string, error) {
	dir := opts.StateDir
	if dir == "" {
		dir = "/run/sbxrun"
		if os.Geteuid() != 0 {
			base := os.Getenv("XDG_RUNTIME_DIR")
			if base == "" {
				return "", &errdef.Error{Code: errdef.Unsupported, Op: "state", Path: "state-dir",
					Msg: "no state directory: XDG_RUNTIME_DIR is not set", Hint: "set it, or name a directory of your own with --state-dir"}
			}
			dir = filepath.Join(base, "sbxrun")
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", stateError(dir, err)
	}
	// Whoever can write there can make a claim look taken or free.
	if err := sys.CheckPrivateDir(dir, os.Geteuid()); err != nil {
		return "", &errdef.Error{Code: errdef.Permission, Op: "state", Path: dir, Err: err,
			Hint: "the state directory must belong to the caller, with mode 0700"}
	}
	return dir, nil
}

func stateError(path string, err error) error {
	return &errdef.Error{Code: errdef.Setup, Op: "state", Path: path, Msg: "cannot keep the supervisor's record", Err: err}
}

// claim writes the record and takes a block of ids.
func claim(dir string) (*supervisor, error) {
	s := &supervisor{id: newID()}
	tmp := filepath.Join(dir, ".new-"+s.id)
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, stateError(dir, err)
	}
	s.lock = f
	defer os.Remove(tmp)
	if ok, err := sys.TryLock(f); err != nil || !ok {
		f.Close()
		return nil, stateError(tmp, errors.Join(err, fmt.Errorf("cannot lock")))
	}
	if err := s.claimBlock(dir, tmp); err != nil {
		f.Close()
		return nil, err
	}
	// No fsync: what the record stands for (cgroups, processes, the lock) does not
	// survive what only an fsync would protect it from, a power loss, and on a
	// disk it costs more than the whole sandbox.
	data, err := json.Marshal(record{1, s.id, os.Getpid(), s.firstID})
	if err == nil {
		_, err = f.Write(append(data, '\n'))
	}
	if err == nil {
		err = s.link(tmp, filepath.Join(dir, s.id+".json"))
	}
	if err != nil {
		s.release()
		return nil, stateError(dir, err)
	}
	return s, nil
}

func (s *supervisor) link(tmp, name string) error {
	if err := os.Link(tmp, name); err != nil {
		return err
	}
	s.names = append(s.names, name)
	return nil
}

func (s *supervisor) claimBlock(dir, tmp string) error {
	for range claimTries {
		n := int(randomUint32() % idBlocks)
		err := s.link(tmp, filepath.Join(dir, fmt.Sprintf("ids-%d", n)))
		if err == nil {
			s.firstID = idBase + uint32(n)*idBlock
			return nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return stateError(dir, err)
		}
	}
	return &errdef.Error{Code: errdef.Resource, Op: "state", Path: dir, Msg: "no block of host ids is free",
		Hint: "run `sbxrun reap`"}
}

// release removes the record; the lock goes with the descriptor.
func (s *supervisor) release() error {
	var errs []error
	for _, n := range s.names {
		if err := os.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, s.lock.Close())
	return errors.Join(errs...)
}

// Reaped is what [Reap] removed of one dead supervisor.
type Reaped struct {
	Supervisor string `json:"supervisor"`
}

// Reap removes what killed supervisors left: their cgroups and their records.
// Their sandboxes died with them.
func Reap(opts Options) ([]Reaped, error) {
	dir, err := stateDir(opts)
	if err != nil {
		return nil, err
	}
	layout, err := cgroups.Detect()
	if err != nil {
		return nil, err
	}
	return reap(dir, layout, -1)
}

// reap handles at most limit dead records, all for -1.
func reap(dir string, layout *cgroups.Layout, limit int) ([]Reaped, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, stateError(dir, err)
	}
	var done []Reaped
	var errs []error
	for _, e := range entries {
		if limit >= 0 && len(done) >= limit {
			break
		}
		id, isRecord := strings.CutSuffix(e.Name(), ".json")
		if !isRecord && !strings.HasPrefix(e.Name(), "ids-") && !strings.HasPrefix(e.Name(), ".new-") {
			continue
		}
		dead, err := reapFile(dir, e.Name(), id, isRecord, layout)
		if err != nil {
			errs = append(errs, err)
		} else if dead && isRecord {
			done = append(done, Reaped{id})
		}
	}
	return done, errors.Join(errs...)
}

// reapFile removes one name whose owner is dead. The lock is held meanwhile, so
// that two reapers do not work on one.
func reapFile(dir, name, id string, isRecord bool, layout *cgroups.Layout) (dead bool, err error) {
	path := filepath.Join(dir, name)
	f, err := sys.OpenNoFollow(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, stateError(path, err)
	}
	defer f.Close()
	free, err := sys.TryLock(f)
	if err != nil || !free {
		return false, err
	}
	if isRecord {
		if err := cgroups.Reap(layout, id); err != nil {
			return false, err
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, stateError(path, err)
	}
	return true, nil
}

// newID returns 128 random bits in hexadecimal.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

func randomUint32() uint32 {
	var b [4]byte
	rand.Read(b[:])
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}
