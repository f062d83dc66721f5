"""Set-id bits, devices, links and executables of the writable places."""
import errno, os, shutil, stat, subprocess

def tell(name, f):
    try: print(name, f() or "ok")
    except OSError as e: print(name, errno.errorcode[e.errno])

# Every set-id program of the host's /usr is there to see, and gives nothing.
found, gained = 0, []
for dir, _, names in os.walk("/usr"):
    for n in names:
        p = os.path.join(dir, n)
        try: st = os.lstat(p)
        except OSError: continue
        if stat.S_ISREG(st.st_mode) and st.st_mode & 0o6000 and st.st_mode & 0o111:
            found += 1
for prog in (["su", "-c", "id -u"], ["mount", "-t", "tmpfs", "none", "/tmp"], ["newgrp"], ["passwd", "-d", "root"], ["ping", "-c1", "127.0.0.1"]):
    path = shutil.which(prog[0])
    if path:
        r = subprocess.run(prog, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
        if r.stdout.strip() == "0": gained.append(prog[0])
print("setuid-there", "yes" if found else "no")
print("setuid-gained", gained or "none")

# An own set-id file on a nosuid mount, run by a child: still the same user.
for d in ("/workspace", "/tmp"):
    p = d + "/suid"
    shutil.copy("/usr/bin/id", p); os.chmod(p, 0o6755)
    tell("own-suid" + d.replace("/", "-"), lambda: subprocess.run([p, "-u"], capture_output=True, text=True).stdout.strip())
tell("shm-exec", lambda: (shutil.copy("/usr/bin/true", "/dev/shm/true"), os.chmod("/dev/shm/true", 0o755), subprocess.run(["/dev/shm/true"]))[0])
fd = os.memfd_create("x")
os.write(fd, open("/usr/bin/true", "rb").read())
tell("memfd-exec", lambda: subprocess.run([f"/proc/self/fd/{fd}"], pass_fds=[fd]).returncode or "ok")
tell("hardlink-usr", lambda: os.link("/usr/bin/su", "/workspace/su"))
tell("hardlink-across", lambda: os.link("/workspace/suid", "/tmp/other"))
os.symlink("/etc/shadow", "/workspace/s")
tell("symlink", lambda: open("/workspace/s").read())
tell("dotdot", lambda: open("/workspace/../../../../etc/shadow").read())
tell("proc-root", lambda: open("/proc/self/root/etc/shadow").read())
tell("host-home", lambda: os.listdir("/root"))
tell("cgroup", lambda: os.listdir("/sys/fs/cgroup"))
tell("dev-mem", lambda: os.open("/dev/mem", os.O_RDONLY))
tell("dev-vda", lambda: os.open("/dev/vda", os.O_RDONLY))
tell("dev-kvm", lambda: os.open("/dev/kvm", os.O_RDWR))
tell("dev-fuse", lambda: os.open("/dev/fuse", os.O_RDWR))
tell("dev-tty", lambda: os.open("/dev/tty", os.O_RDWR))
tell("docker-sock", lambda: os.stat("/var/run/docker.sock") and None)
tell("rename-root", lambda: os.rename("/workspace", "/x"))
tell("rmdir-workspace", lambda: os.rmdir("/workspace"))
tell("setxattr-trusted", lambda: os.setxattr("/workspace/s2" if open("/workspace/s2", "w").close() is None else "", "trusted.x", b"1"))
tell("setxattr-caps", lambda: os.setxattr("/workspace/s2", "security.capability", bytes.fromhex("0100000200200000000000000000000000000000")))
tell("control-setxattr", lambda: os.setxattr("/workspace/s2", "user.x", b"1"))
tell("control-read", lambda: open("/etc/hosts").read() and None)
