package sys

import (
	"os"
	"sort"

	"golang.org/x/sys/unix"
)

// File system magics of the two cgroup versions, linux/magic.h.
const (
	CgroupV1Magic = unix.CGROUP_SUPER_MAGIC
	CgroupV2Magic = unix.CGROUP2_SUPER_MAGIC
)

// cgroupResolve keeps every look-up below the kept descriptor: cgroupfs has no
// symbolic links and no mounts inside, so anything else is somebody's trick
// (openat2(2), Linux 5.6).
const cgroupResolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openat2Retries bounds the retries on EAGAIN, which openat2 gives when a
// rename races with a beneath look-up. Cgroup directories are hardly ever
// renamed, so more than a few in a row is an attack and an error.
const openat2Retries = 32

// CgroupDir is an open cgroup directory. All paths that its methods take are
// relative to it and stay below it. It is a plain descriptor without a
// finalizer: the owner closes it.
type CgroupDir struct {
	fd   int
	path string // for messages only, never opened again
}

// OpenCgroupMount opens the mount point of a cgroup hierarchy by its absolute
// path out of /proc/self/mountinfo. It is the one look-up by absolute path; the
// caller compares [CgroupDir.Device] with the mount's to know what it got.
func OpenCgroupMount(path string) (*CgroupDir, error) {
	fd, err := openRetry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &CgroupDir{fd: fd, path: path}, nil
}

// OpenDir opens the directory rel ("." for d itself) below d.
func (d *CgroupDir) OpenDir(rel string) (*CgroupDir, error) {
	fd, err := d.open(rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return &CgroupDir{fd: fd, path: d.at(rel)}, nil
}

// OpenRead opens the file rel below d for reading. The caller closes the
// descriptor with [CgroupClose].
func (d *CgroupDir) OpenRead(rel string) (int, error) { return d.open(rel, unix.O_RDONLY) }

// OpenWrite opens the file rel below d for writing. The caller closes the
// descriptor with [CgroupClose].
func (d *CgroupDir) OpenWrite(rel string) (int, error) { return d.open(rel, unix.O_WRONLY) }

// Mkdir makes the directory name, which is one path component, in d.
func (d *CgroupDir) Mkdir(name string, mode uint32) error {
	return d.retry("mkdirat", name, func() error { return unix.Mkdirat(d.fd, name, mode) })
}

// Rmdir removes the directory name, which is one path component, from d.
func (d *CgroupDir) Rmdir(name string) error {
	return d.retry("rmdirat", name, func() error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) })
}

// Write writes value to the file rel below d in one write(2), as cgroup files
// demand.
func (d *CgroupDir) Write(rel, value string) error {
	fd, err := d.OpenWrite(rel)
	if err != nil {
		return err
	}
	for {
		_, err = unix.Write(fd, []byte(value))
		if err != unix.EINTR {
			break
		}
	}
	unix.Close(fd)
	if err != nil {
		return &os.PathError{Op: "write", Path: d.at(rel), Err: err}
	}
	return nil
}

// Read reads the file rel below d into buf and returns how much it got. A file
// larger than buf is cut: it serves the small, fixed files of cgroupfs.
func (d *CgroupDir) Read(rel string, buf []byte) (n int, err error) {
	fd, err := d.OpenRead(rel)
	if err != nil {
		return 0, err
	}
	for {
		n, err = unix.Read(fd, buf)
		if err != unix.EINTR {
			break
		}
	}
	unix.Close(fd)
	if err != nil {
		return 0, &os.PathError{Op: "read", Path: d.at(rel), Err: err}
	}
	return n, nil
}

// ReadAll reads the file rel below d to its end, at most limit bytes: for
// cgroup.procs, whose length the processes inside decide.
func (d *CgroupDir) ReadAll(rel string, limit int) ([]byte, error) {
	fd, err := d.OpenRead(rel)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var out []byte
	buf := make([]byte, 4096) // a page: cgroupfs gives no more at once
	for len(out) < limit {
		n := 0
		err := d.retry("read", rel, func() (err error) {
			n, err = unix.Read(fd, buf)
			return err
		})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		out = append(out, buf[:n]...)
	}
	return out[:min(len(out), limit)], nil
}

// Dirs returns the names of the directories in d, sorted.
func (d *CgroupDir) Dirs() ([]string, error) {
	// A second open: the directory offset belongs to the open file description.
	fd, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}

// Writable reports whether the caller's effective identity may write rel below
// d. EROFS, EACCES and ENOENT come back as the error (faccessat2(2)).
func (d *CgroupDir) Writable(rel string) error {
	return d.retry("faccessat", rel, func() error {
		return unix.Faccessat(d.fd, rel, unix.W_OK, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Xattr returns the extended attribute name of d, "" where there is none or
// the caller may not read it.
func (d *CgroupDir) Xattr(name string) string {
	buf := make([]byte, 64) // the attributes in question hold "1"
	n, err := unix.Fgetxattr(d.fd, name, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// Magic returns the file system type of d, see [CgroupV1Magic].
func (d *CgroupDir) Magic() (int64, error) {
	var st unix.Statfs_t
	err := d.retry("fstatfs", ".", func() error { return unix.Fstatfs(d.fd, &st) })
	return int64(st.Type), err
}

// Device returns the device number of d, as mountinfo shows it.
func (d *CgroupDir) Device() (major, minor uint32, err error) {
	var st unix.Stat_t
	if err := d.retry("fstat", ".", func() error { return unix.Fstat(d.fd, &st) }); err != nil {
		return 0, 0, err
	}
	return unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), nil
}

// FD returns the descriptor, which d keeps owning.
func (d *CgroupDir) FD() int { return d.fd }

// Path returns where d was opened, for messages only.
func (d *CgroupDir) Path() string { return d.path }

// Close releases the descriptor. Closing twice or closing nil does nothing.
func (d *CgroupDir) Close() {
	if d != nil && d.fd >= 0 {
		unix.Close(d.fd)
		d.fd = -1
	}
}

// CgroupReadAt reads an open cgroup file from its beginning again; path is for
// the message.
func CgroupReadAt(fd int, path string, buf []byte) (int, error) {
	for {
		n, err := unix.Pread(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, &os.PathError{Op: "pread", Path: path, Err: err}
		}
		return n, nil
	}
}

// CgroupClose closes a descriptor of [CgroupDir.OpenRead] or
// [CgroupDir.OpenWrite]. Linux releases it even when close(2) is interrupted,
// so there is nothing to retry.
func CgroupClose(fd int) { unix.Close(fd) }

// CgroupPidHandle returns a descriptor for the process with that number now
// (pidfd_open(2), Linux 5.3).
func CgroupPidHandle(pid int) (int, error) {
	fd, err := openRetry(func() (int, error) { return unix.PidfdOpen(pid, 0) })
	if err != nil {
		return -1, os.NewSyscallError("pidfd_open", err)
	}
	return fd, nil
}

// CgroupPidKill sends SIGKILL to the process of a [CgroupPidHandle]. A process
// that is gone already is no error.
func CgroupPidKill(pidfd int) error {
	for {
		err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		switch err {
		case nil, unix.ESRCH:
			return nil
		case unix.EINTR:
			continue
		}
		return os.NewSyscallError("pidfd_send_signal", err)
	}
}

func (d *CgroupDir) open(rel string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: cgroupResolve}
	fd, err := openRetry(func() (int, error) { return unix.Openat2(d.fd, rel, &how) })
	if err != nil {
		return -1, &os.PathError{Op: "openat2", Path: d.at(rel), Err: err}
	}
	return fd, nil
}

func (d *CgroupDir) at(rel string) string {
	if rel == "." {
		return d.path
	}
	return d.path + "/" + rel
}

// retry repeats an interrupted call and names its operation and object.
func (d *CgroupDir) retry(op, rel string, call func() error) error {
	for {
		err := call()
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return &os.PathError{Op: op, Path: d.at(rel), Err: err}
		}
	}
}

// openRetry repeats an interrupted open; it returns the bare errno, so that
// the message is built only where something failed.
func openRetry(call func() (int, error)) (int, error) {
	for again := 0; ; {
		fd, err := call()
		switch {
		case err == nil:
			return fd, nil
		case err == unix.EINTR:
		case err == unix.EAGAIN && again < openat2Retries:
			again++
		default:
			return -1, err
		}
	}
}
