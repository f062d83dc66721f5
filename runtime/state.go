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

// Per supervisor there are two files:
//
//	<supervisor id>.json   in the state directory: the intent record, made before
//	                       any side effect
//	ids-<n>                in the machine's own directory: the claim on the n-th
//	                       block of host ids, one place whatever the state directory
//
// The supervisor keeps both locked (flock(2)) while it lives, and the lock alone
// says whether it does: a truncated or scribbled record neither hides a live
// supervisor nor revives a dead one. A reaper that finds a file in the moment
// before it is locked removes it, and its maker takes another name.

// machineDir is where the claims of all supervisors of a machine are (root).
const machineDir = "/run/sbxrun"

const (
	// Host ids from idBase up belong to sandboxes, idBlock of them to each
	// supervisor: above what distributions, systemd's dynamic users and usual
	// subuid ranges give out, below the ids that are negative as int32.
	idBase   = 0x70000000
	idBlock  = 1 << 16
	idBlocks = (0x7fff0000 - idBase) / idBlock
	// idsPerSandbox: one for the program, one for its PID 1.
	idsPerSandbox = 2
	// claimTries bounds the search for a free name: with half of all blocks
	// taken, this many random misses in a row do not happen.
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
	files   []*os.File // locked
}

// stateDir returns the directory for opts, made if it must be.
func stateDir(opts Options) (string, error) {
	dir := opts.StateDir
	if dir == "" {
		dir = machineDir
		if os.Geteuid() != 0 {
			base := os.Getenv("XDG_RUNTIME_DIR")
			if base == "" {
				return "", &errdef.Error{Code: errdef.Unsupported, Op: "state", Path: "state-dir",
					Msg: "no state directory: XDG_RUNTIME_DIR is not set", Hint: "set it, or name a directory of your own with --state-dir"}
			}
			dir = filepath.Join(base, "sbxrun")
		}
	}
	return dir, secureDir(dir)
}

// secureDir makes the directory if it must and checks that it is the caller's.
func secureDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return stateError(dir, err)
	}
	// Whoever can write there can make a claim look taken or free.
	if err := sys.CheckPrivateDir(dir, os.Geteuid()); err != nil {
		return &errdef.Error{Code: errdef.Permission, Op: "state", Path: dir, Err: err,
			Hint: "the state directory must belong to the caller, with mode 0700"}
	}
	return nil
}

func stateError(path string, err error) error {
	return &errdef.Error{Code: errdef.Setup, Op: "state", Path: path, Msg: "cannot keep the supervisor's record", Err: err}
}

// claim writes the record and takes a block of ids.
func claim(dir string) (*supervisor, error) {
	s := &supervisor{id: newID()}
	err := s.lock(dir, func() string { s.id = newID(); return s.id + ".json" })
	if err == nil && os.Geteuid() == 0 {
		if err = secureDir(machineDir); err == nil {
			err = s.lock(machineDir, func() string {
				n := randomUint32() % idBlocks
				s.firstID = idBase + n*idBlock
				return fmt.Sprintf("ids-%d", n)
			})
		}
	}
	if err == nil {
		// No fsync: what the record stands for (cgroups, processes, the lock) does
		// not survive what only an fsync would protect it from, a power loss, and on
		// a disk it costs more than the whole sandbox.
		var data []byte
		if data, err = json.Marshal(record{1, s.id, os.Getpid(), s.firstID}); err == nil {
			_, err = s.files[0].Write(append(data, '\n'))
		}
	}
	if err != nil {
		s.release()
		var typed *errdef.Error
		if !errors.As(err, &typed) {
			err = stateError(dir, err)
		}
		return nil, err
	}
	return s, nil
}

// lock makes a locked file under a name that nobody has.
func (s *supervisor) lock(dir string, name func() string) error {
	for range claimTries {
		path := filepath.Join(dir, name())
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		locked, err := sys.TryLock(f)
		if err != nil {
			os.Remove(path)
			f.Close()
			return err
		}
		if locked && sys.Linked(f) {
			s.files = append(s.files, f)
			return nil
		}
		f.Close() // a reaper was faster
	}
	return &errdef.Error{Code: errdef.Resource, Op: "state", Path: dir, Msg: "no name and block of host ids is free",
		Hint: "run `sbxrun reap`"}
}

// release removes the files; the locks go with the descriptors.
func (s *supervisor) release() error {
	var errs []error
	for _, f := range s.files {
		if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		errs = append(errs, f.Close())
	}
	s.files = nil
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
	done, err := reap(dir, layout, -1)
	if os.Geteuid() == 0 && dir != machineDir {
		if _, statErr := os.Stat(machineDir); statErr == nil {
			_, idsErr := reapClaims(layout, -1)
			err = errors.Join(err, idsErr)
		}
	}
	return done, err
}

// reap handles at most limit dead supervisors of a state directory, all for -1.
func reap(dir string, layout *cgroups.Layout, limit int) ([]Reaped, error) {
	names, err := reapDir(dir, layout, limit, func(name string) bool {
		return strings.HasSuffix(name, ".json") || strings.HasPrefix(name, "ids-")
	})
	var done []Reaped
	for _, name := range names {
		if id, isRecord := strings.CutSuffix(name, ".json"); isRecord {
			done = append(done, Reaped{id})
		}
	}
	return done, err
}

// reapClaims gives back the dead supervisors' id blocks, whatever their state
// directory was.
func reapClaims(layout *cgroups.Layout, limit int) ([]string, error) {
	return reapDir(machineDir, layout, limit, func(name string) bool { return strings.HasPrefix(name, "ids-") })
}

func reapDir(dir string, layout *cgroups.Layout, limit int, ours func(string) bool) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, stateError(dir, err)
	}
	var done []string
	var errs []error
	count := map[bool]int{} // records and claims
	for _, e := range entries {
		id, isRecord := strings.CutSuffix(e.Name(), ".json")
		if !ours(e.Name()) || (limit >= 0 && count[isRecord] >= limit) {
			continue
		}
		dead, err := reapFile(dir, e.Name(), id, isRecord, layout)
		if err != nil {
			errs = append(errs, err)
		} else if dead {
			done = append(done, e.Name())
			count[isRecord]++
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
	if err != nil || !free || !sys.Linked(f) {
		// Alive; or another reaper was faster, and the name may be somebody's again.
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
