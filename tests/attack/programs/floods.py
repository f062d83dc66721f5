"""Kernel objects by the thousand: each kind ends in an errno, soon."""
import ctypes, errno, mmap, os, socket, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.mq_open.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
def call(name, *a):
    r = getattr(libc, name)(*a)
    if r < 0: raise OSError(ctypes.get_errno(), name)
    return r

def flood(name, step, most=200_000, seconds=15):
    n, end = 0, time.monotonic() + seconds
    why = "bounded-by-time"
    try:
        while n < most:
            step(n); n += 1
            if time.monotonic() > end: break
        else: why = "endless"
    except OSError as e: why = errno.errorcode[e.errno]
    except (MemoryError, RuntimeError) as e: why = type(e).__name__
    print(name, why)
    print(name, n, file=sys.stderr)
    return n

kind = sys.argv[1]
keep = []
if kind == "ptys":
    flood("ptys", lambda i: keep.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)))
elif kind == "shm":
    flood("shm", lambda i: keep.append(call("shmget", 0, 4096, 0o1600)))
elif kind == "sem":
    flood("sem", lambda i: keep.append(call("semget", 0, 200, 0o1600)))
elif kind == "msg":
    def step(i):
        q = call("msgget", 0, 0o1600)
        buf = ctypes.create_string_buffer(8 + 8000); buf[0] = 1
        call("msgsnd", q, buf, 8000, 0o4000)
    flood("msg", step)
elif kind == "mq":
    librt = libc
    flood("mq", lambda i: call("mq_open", b"/q%d" % i, os.O_CREAT | os.O_RDWR, 0o600, None))
elif kind == "sockets":
    flood("sockets", lambda i: keep.append(socket.socket()))
elif kind == "sockbuf":
    def step(i):
        a, b = socket.socketpair(); a.setblocking(False); keep.extend((a, b))
        try:
            while True: a.send(bytes(65536))
        except BlockingIOError: pass
    flood("sockbuf", step)
elif kind == "pipes":
    def step(i):
        r, w = os.pipe(); os.set_blocking(w, False)
        try:
            import fcntl
            fcntl.fcntl(w, 1031, 1 << 20)
        except OSError: pass
        try:
            while True: os.write(w, bytes(65536))
        except BlockingIOError: pass
    flood("pipes", step)
elif kind == "timers":
    t = ctypes.c_void_p()
    flood("timers", lambda i: call("timer_create", 1, None, ctypes.byref(t)))
elif kind == "sigqueue":
    import signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    flood("sigqueue", lambda i: call("sigqueue", os.getpid(), signal.SIGRTMIN, 0))
elif kind == "mlock":
    def step(i):
        keep.append(ctypes.create_string_buffer(1 << 20)); call("mlock", keep[-1], 1 << 20)
    flood("mlock", step)
elif kind == "maps":
    def step(i):
        keep.append(mmap.mmap(-1, 4096, prot=mmap.PROT_READ if i % 2 else mmap.PROT_READ | mmap.PROT_WRITE))
    flood("maps", step)
elif kind == "threads":
    ev = threading.Event()
    def step(i):
        t = threading.Thread(target=ev.wait, daemon=True); t.start()
    flood("threads", step)
    ev.set()
elif kind == "watches":
    fd = call("inotify_init1", 0)
    def step(i):
        os.mkdir(f"/workspace/w{i}"); call("inotify_add_watch", fd, b"/workspace/w%d" % i, 0xfff)
    flood("watches", step)
elif kind == "epoll":
    flood("epoll", lambda i: keep.append(__import__("select").epoll()))
elif kind == "locks":
    import fcntl, struct
    f = open("/workspace/locks", "w+b"); f.truncate(1 << 24)
    flood("locks", lambda i: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * i), most=100_000_000, seconds=5)
elif kind == "dentries":
    # Names that do not exist still cost the kernel a little each.
    def step(i):
        try: os.stat("/workspace/" + "n" * 200 + str(i))
        except FileNotFoundError: pass
    flood("dentries", step, most=100_000_000, seconds=5)
elif kind == "deep":
    def step(i): os.mkdir("d" * 200); os.chdir("d" * 200)
    flood("deep", step)
elif kind == "keys":
    flood("keys", lambda i: call("syscall", 248, b"user", b"k%d" % i, b"x" * 1000, 1000, -4))
elif kind == "xattrs":
    def step(i):
        p = f"/tmp/x{i // 50}"; open(p, "a").close()
        os.setxattr(p, f"user.a{i % 50}", bytes(60000))
    flood("xattrs", step)
elif kind == "requests":
    def step(i): open(f"/workspace/.bridge/req/t{i}", "wb").write(bytes(1 << 16))
    flood("requests", step)
elif kind == "request-names":
    flood("request-names", lambda i: open(f"/workspace/.bridge/req/t{i}", "wb").close())
print("end here")
