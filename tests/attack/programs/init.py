"""PID 1, the runtime's image and the program's own memory."""
import ctypes, errno, os, resource, signal

libc = ctypes.CDLL(None, use_errno=True)

def tell(name, f):
    try:
        f()
        print(name, "ok")
    except OSError as e:
        print(name, errno.errorcode[e.errno])
    except ValueError:  # resource.setrlimit's EPERM
        print(name, "EPERM")

def write(path, data=b"x"):
    fd = os.open(path, os.O_RDWR)
    try: os.write(fd, data)
    finally: os.close(fd)

tell("init-mem", lambda: write("/proc/1/mem"))
tell("init-exe", lambda: os.open("/proc/1/exe", os.O_RDONLY))
tell("init-exe-write", lambda: os.open("/proc/1/exe", os.O_WRONLY))
tell("init-fd", lambda: os.listdir("/proc/1/fd"))
tell("init-root", lambda: os.listdir("/proc/1/root/"))
tell("init-cwd", lambda: os.chdir("/proc/1/cwd"))
tell("init-environ", lambda: open("/proc/1/environ").read())
tell("init-maps", lambda: open("/proc/1/maps").read())
tell("init-task", lambda: os.listdir("/proc/1/task"))
tell("init-oom", lambda: write("/proc/1/oom_score_adj", b"1000"))
tell("init-comm", lambda: write("/proc/1/comm", b"hello"))
tell("init-uid-map", lambda: write("/proc/1/uid_map", b"0 0 1"))
tell("init-kill", lambda: os.kill(1, 9))
tell("init-stop", lambda: os.kill(1, signal.SIGSTOP))
tell("init-prio", lambda: os.setpriority(os.PRIO_PROCESS, 1, 5))
tell("init-prlimit", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (1, 1)))
tell("init-affinity", lambda: os.sched_setaffinity(1, {0}))
tell("init-pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(1), 9))

tell("self-uid-map", lambda: write("/proc/self/uid_map", b"0 0 1"))
tell("self-gid-map", lambda: write("/proc/self/gid_map", b"0 0 1"))
tell("self-setgroups", lambda: write("/proc/self/setgroups", b"allow"))
tell("self-mem", lambda: open("/proc/self/mem", "rb").close())
tell("self-exe-write", lambda: os.open("/proc/self/exe", os.O_WRONLY))
tell("self-oom-up", lambda: write("/proc/self/oom_score_adj", b"500"))
tell("self-oom-down", lambda: write("/proc/self/oom_score_adj", b"-1000"))
tell("self-attr", lambda: write("/proc/self/attr/exec", b"unconfined"))
tell("self-loginuid", lambda: write("/proc/self/loginuid", b"0"))
tell("self-coredump-filter", lambda: write("/proc/self/coredump_filter", b"0x7f"))
tell("self-clear-refs", lambda: os.close(os.open("/proc/self/clear_refs", os.O_WRONLY)))
tell("self-ns", lambda: os.close(os.open("/proc/self/ns/user", os.O_RDONLY)))
tell("self-core", lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)))

def sysctl(name): return lambda: write("/proc/sys/" + name, b"1")
for name in ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "kernel/ns_last_pid", "vm/drop_caches", "fs/binfmt_misc/register",
             "net/ipv4/ip_forward", "user/max_user_namespaces", "user/max_inotify_instances", "kernel/shmmax", "fs/mqueue/msg_max"):
    tell("sysctl-" + name.replace("/", "-"), sysctl(name))
tell("sysrq", lambda: write("/proc/sysrq-trigger", b"h") if os.stat("/proc/sysrq-trigger").st_rdev != 0x103 else os.open("/nonexistent", 0))

# A core dump of this process leaves nothing anywhere.
if os.fork() == 0:
    os.abort()
_, status = os.wait()
print("core-dumped", os.WCOREDUMP(status), [f for f in os.listdir(".") if "core" in f])
print("pid", "own" if os.getpid() == 2 else os.getpid())
