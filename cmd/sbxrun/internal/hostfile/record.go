package hostfile

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sbxrun/sbxrun/internal/sys"
)

// recordMode are the permission bits of a record before the umask, like those
// of any output file.
const recordMode = 0o644

// Record is the place of one record that is written once, at the end. What
// would keep it from being written is found out when it is opened, before
// anything runs.
type Record struct {
	fd   *os.File // an inherited descriptor, or
	path string   // a file, replaced by rename
	// unnamed is a file without a name in path's folder: it proves early that the
	// folder takes files, and leaves nothing when sbxrun is killed. nil where the
	// file system has no such files.
	unnamed *os.File
}

// OpenRecord prepares the record that text names: a descriptor number or a path.
func OpenRecord(text, path string) (*Record, error) {
	if fd, ok := FD(text); ok {
		f, err := inherited(fd)
		if err != nil {
			return nil, err
		}
		return &Record{fd: f}, nil
	}
	if err := CheckDest(path); err != nil {
		return nil, err
	}
	unnamed, err := sys.OpenUnnamed(filepath.Dir(path), recordMode)
	if err != nil {
		return nil, pathError(path, "cannot be written", err)
	}
	return &Record{path: path, unnamed: unnamed}, nil
}

// Path returns the file's path, "" for a descriptor.
func (r *Record) Path() string { return r.path }

// Write writes the record: a reader of the file sees all of it or what was
// there before.
func (r *Record) Write(data []byte) error {
	if r.fd != nil {
		if err := WriteBounded(r.fd, data); err != nil {
			r.fd.Close()
			return err
		}
		return r.fd.Close()
	}
	temp, err := r.stage(data)
	if err != nil {
		return pathError(r.path, "cannot be written", err)
	}
	if err := os.Rename(temp, r.path); err != nil {
		_ = os.Remove(temp)
		return pathError(r.path, "cannot be written", err)
	}
	return nil
}

// stage puts the data into a whole file with a temporary name and returns it.
func (r *Record) stage(data []byte) (string, error) {
	dir, base := filepath.Split(r.path)
	if r.unnamed != nil {
		defer r.unnamed.Close()
		if _, err := r.unnamed.Write(data); err != nil {
			return "", err
		}
		temp := filepath.Join(dir, "."+base+"."+strconv.Itoa(os.Getpid())+".tmp")
		if err := sys.NameUnnamed(r.unnamed, temp); err == nil {
			return temp, nil
		}
		// No /proc, or a name left from a process of the same number: write it anew.
	}
	f, err := os.CreateTemp(dir, "."+base+".*.tmp")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(recordMode), f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// Discard releases a record that will not be written.
func (r *Record) Discard() {
	if r.unnamed != nil {
		r.unnamed.Close()
	}
}
