"""The bridge's directories under attack; then a call works all the same."""
import errno, os, subprocess, sys, threading, time
B = "/workspace/.bridge"
def tell(name, f):
    try: print(name, f() or "ok")
    except OSError as e: print(name, errno.errorcode[e.errno])
for d in ("", "/req", "/resp", "/sdk"):
    n = "root" if not d else d[1:]
    tell(f"{n}-rename", lambda: os.rename(B + d, "/workspace/moved"))
    tell(f"{n}-rename-tmp", lambda: os.rename(B + d, "/tmp/moved"))
    tell(f"{n}-rmdir", lambda: os.rmdir(B + d))
    tell(f"{n}-chmod", lambda: os.chmod(B + d, 0o777))
    tell(f"{n}-chown", lambda: os.chown(B + d, os.getuid(), os.getgid()))
tell("replace", lambda: (os.mkdir("/workspace/mine"), os.rename("/workspace/mine", B))[0])
tell("list-req", lambda: os.listdir(B + "/req"))
tell("list-resp", lambda: os.listdir(B + "/resp"))
tell("forge", lambda: open(B + "/resp/resp_1.json", "w"))
tell("unlink-bell", lambda: os.unlink(B + "/resp/bell"))
tell("bell-write", lambda: os.close(os.open(B + "/resp/bell", os.O_WRONLY | os.O_NONBLOCK)))
tell("exec-req", lambda: (open(B + "/req/x", "w").write("#!/bin/sh\n"), os.chmod(B + "/req/x", 0o755), subprocess.run([B + "/req/x"]))[0])
tell("tools", lambda: open(B + "/tools.json", "w"))
tell("link-in", lambda: os.link("/workspace/attack.py", B + "/req/l"))
tell("watch-resp", lambda: None)
# A thousand requests that never become any, and links from everywhere.
for i in range(900):
    try: os.symlink("/proc/self/mem", f"{B}/req/req_s{i}.json.tmp")
    except OSError: break
stop = False
def churn():
    i = 0
    while not stop:
        try:
            os.rename(f"{B}/req/req_s{i % 900}.json.tmp", f"{B}/req/req_s{i % 900}.x"); os.rename(f"{B}/req/req_s{i % 900}.x", f"{B}/req/req_s{i % 900}.json.tmp")
        except OSError: pass
        i += 1
ts = [threading.Thread(target=churn) for _ in range(3)]
[x.start() for x in ts]
sys.path.insert(0, B + "/sdk")
from sbx_tools import echo
print("call", "right" if [echo(v=i) for i in range(20)] == list(range(20)) else "wrong")
stop = True
[x.join() for x in ts]
