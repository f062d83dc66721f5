package sys

import (
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrnoName returns the symbolic name of an errno (errno(3)), "" for an unknown
// one.
func ErrnoName(e syscall.Errno) string { return unix.ErrnoName(e) }

// retryEINTR repeats a system call that a signal interrupted.
func retryEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// SeqpacketPair returns a connected pair of SEQPACKET sockets (unix(7)). The
// first is non-blocking, for the runtime's poller; the second is a plain
// descriptor for another process. Both are close-on-exec.
func SeqpacketPair(name string) (near *os.File, far int, err error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, os.NewSyscallError("socketpair", err)
	}
	if err := unix.SetNonblock(p[0], true); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return nil, -1, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(p[0]), name), p[1], nil
}

// SendFDs sends one message with descriptors.
func SendFDs(sock *os.File, msg []byte, fds []int) error {
	rc, err := sock.SyscallConn()
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	var sendErr error
	err = rc.Write(func(fd uintptr) bool {
		sendErr = retryEINTR(func() error {
			return unix.Sendmsg(int(fd), msg, rights, nil, unix.MSG_NOSIGNAL)
		})
		return sendErr != unix.EAGAIN
	})
	if err == nil {
		err = os.NewSyscallError("sendmsg", sendErr)
	}
	return err
}

// maxRecvFDs bounds the descriptors that one message from the launcher carries.
const maxRecvFDs = 16

// RecvFDs receives one message and its descriptors, which the caller owns. It
// returns io.EOF when the other end is closed.
func RecvFDs(sock *os.File, buf []byte) (n int, fds []int, err error) {
	rc, err := sock.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	var oob [64 + maxRecvFDs*4]byte
	var oobn, flags int
	var recvErr error
	err = rc.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, recvErr = unix.Recvmsg(int(fd), buf, oob[:], unix.MSG_CMSG_CLOEXEC)
			// A peer that closed with something of ours unread is reported once,
			// before what it had sent; the next read gets that, or the end.
			if recvErr != unix.EINTR && recvErr != unix.ECONNRESET {
				break
			}
		}
		return recvErr != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, nil, err
	case recvErr != nil:
		return 0, nil, os.NewSyscallError("recvmsg", recvErr)
	}
	if oobn > 0 {
		if fds, err = parseRights(oob[:oobn]); err != nil {
			return 0, nil, err
		}
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		CloseAll(fds)
		return 0, nil, os.NewSyscallError("recvmsg", unix.EMSGSIZE)
	}
	if n == 0 {
		CloseAll(fds)
		return 0, nil, io.EOF
	}
	return n, fds, nil
}

func parseRights(oob []byte) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	var all []int
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			CloseAll(all)
			return nil, os.NewSyscallError("recvmsg", err)
		}
		all = append(all, fds...)
	}
	return all, nil
}

// CloseAll closes descriptors; negative ones are passed over.
func CloseAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// Memfd returns a sealed anonymous file with the data (memfd_create(2)): what
// is sealed can be neither changed nor shortened while another process reads or
// executes it. The name shows up in /proc only.
func Memfd(name string, data []byte, executable bool) (int, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	mode := 0
	if executable {
		mode = unix.MFD_EXEC
	}
	fd, err := unix.MemfdCreate(name, flags|mode)
	if err == unix.EINVAL && mode != 0 { // before Linux 6.3 every memfd was executable
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	for off := 0; off < len(data); {
		n, err := unix.Write(fd, data[off:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			unix.Close(fd)
			return -1, os.NewSyscallError("write", err)
		}
		off += n
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("fcntl", err)
	}
	return fd, nil
}

// PollFile wraps a descriptor that becomes readable once (a pidfd) for the
// runtime's poller.
func PollFile(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// WaitReadable blocks until the file is readable or its read deadline passes
// (os.ErrDeadlineExceeded).
func WaitReadable(f *os.File) error {
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return rc.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		return err == nil && n > 0
	})
}

// PidfdSignal sends a signal to the process of a pidfd
// (pidfd_send_signal(2), Linux 5.1). ESRCH means that it is gone.
func PidfdSignal(pidfd *os.File, sig syscall.Signal) error {
	rc, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var sigErr error
	err = rc.Control(func(fd uintptr) {
		sigErr = retryEINTR(func() error { return unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("pidfd_send_signal", sigErr)
}

// OutputPipe returns a pipe for a program's output: the near end non-blocking,
// the far end owned by the program's user, so that it can reopen it through
// /dev/stdout. (What the caller passed in itself is never chowned.)
func OutputPipe(name string, uid, gid uint32) (near *os.File, far int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, os.NewSyscallError("pipe2", err)
	}
	err = unix.SetNonblock(p[0], true)
	if err == nil {
		err = unix.Fchown(p[1], int(uid), int(gid))
	}
	if err != nil {
		CloseAll(p[:])
		return nil, -1, os.NewSyscallError("pipe", err)
	}
	return os.NewFile(uintptr(p[0]), name), p[1], nil
}

// InputPipe returns a pipe for a program's input: the far end owned by the
// program's user, the near end for writing.
func InputPipe(name string, uid, gid uint32) (far int, near *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, os.NewSyscallError("pipe2", err)
	}
	err = unix.SetNonblock(p[1], true)
	if err == nil {
		err = unix.Fchown(p[0], int(uid), int(gid))
	}
	if err != nil {
		CloseAll(p[:])
		return -1, nil, os.NewSyscallError("pipe", err)
	}
	return p[0], os.NewFile(uintptr(p[1]), name), nil
}

// HardLimit returns the hard limit of a resource (getrlimit(2)); "unlimited" is
// the largest uint64.
func HardLimit(resource uint64) uint64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(int(resource), &r); err != nil {
		return 0
	}
	return r.Max
}

// OpenNull opens /dev/null for reading and writing.
func OpenNull() (int, error) {
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	return fd, nil
}

// OpenInput opens a file that is to be copied into a sandbox: a regular file,
// not a symbolic link, at most limit bytes long. It never blocks on a FIFO or
// device put in its place.
func OpenInput(path string, limit int64) (fd int, size int64, mode uint32, err error) {
	fail := func(err error) (int, int64, uint32, error) {
		return -1, 0, 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	err = retryEINTR(func() error {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		return err
	})
	if err == unix.ELOOP {
		return fail(errors.New("is a symbolic link"))
	}
	if err != nil {
		return fail(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return fail(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return fail(errors.New("is not a regular file"))
	}
	if st.Size > limit {
		unix.Close(fd)
		return fail(unix.EFBIG)
	}
	return fd, st.Size, st.Mode & 0o777, nil
}

// SpawnLauncher starts a helper from an executable descriptor with one socket
// as its descriptor 3, /dev/null as 0 to 2 and an empty environment. It returns
// the helper's pid.
func SpawnLauncher(exe, sock, null int, argv []string) (pid int, err error) {
	// ForkExec moves the descriptors into place before it resolves the path, so
	// the executable must not stand where one of them goes.
	const aboveStdio = 16
	high, err := unix.FcntlInt(uintptr(exe), unix.F_DUPFD_CLOEXEC, aboveStdio)
	if err != nil {
		return 0, os.NewSyscallError("fcntl", err)
	}
	defer unix.Close(high)
	pid, err = syscall.ForkExec("/proc/self/fd/"+strconv.Itoa(high), argv, &syscall.ProcAttr{
		Env:   []string{},
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(null), uintptr(sock)},
	})
	if err != nil {
		return 0, os.NewSyscallError("fork/exec launcher", err)
	}
	return pid, nil
}

// Reap waits for a child by pid.
func Reap(pid int) (syscall.WaitStatus, error) {
	var ws syscall.WaitStatus
	err := retryEINTR(func() error {
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		return err
	})
	return ws, os.NewSyscallError("wait4", err)
}

// FileFD returns a file's descriptor without changing its mode, as File.Fd
// would. The caller keeps the file open while it uses the number.
func FileFD(f *os.File) (int, error) {
	rc, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	err = rc.Control(func(v uintptr) { fd = int(v) })
	return fd, err
}
