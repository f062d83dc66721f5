"""Descriptors 0 to 2 used for what they are not meant for."""
import array, errno, os, socket, fcntl, sys

out = os.dup(2)
def tell(name, f):
    try: r = f(); os.write(1, f"{name} {r or 'ok'}\n".encode())
    except OSError as e: os.write(1, f"{name} {errno.errorcode[e.errno]}\n".encode())

tell("reopen-out-read", lambda: os.close(os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)))
tell("reopen-out-write", lambda: os.close(os.open("/dev/stdout", os.O_WRONLY)))
tell("write-stdin", lambda: os.write(0, b"x") and None)
tell("chown-stdin", lambda: os.fchown(0, os.getuid(), os.getgid()))
tell("chmod-stdin", lambda: os.fchmod(0, 0o777))
tell("truncate-out", lambda: os.ftruncate(1, 0))
tell("seek-out", lambda: os.lseek(1, 0, 0))
tell("nonblock-out", lambda: fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK))
tell("pipe-size", lambda: fcntl.fcntl(1, 1031, 1 << 30) and None)
tell("owner-host", lambda: fcntl.fcntl(1, fcntl.F_SETOWN, 1))
tell("sigio", lambda: fcntl.fcntl(1, fcntl.F_SETFL, os.O_ASYNC))
# Descriptors can be passed on within the sandbox, and only there.
a, b = socket.socketpair()
socket.send_fds(a, [b"x"], [0, 1])
got = socket.recv_fds(b, 10, 10)[1]
tell("rights-inside", lambda: str(len(got)))
tell("rights-peer", lambda: "own" if array.array("i", b.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0] == os.getpid() else "?")
for i in range(3): fcntl.fcntl(1, fcntl.F_SETFL, 0)
os.write(1, b"end here\n")
