#!/bin/sh
# run.sh: builds the tests that concern cgroup v2 and runs them in user-mode
# Linux. Needs root, the packages user-mode-linux and busybox-static, and a
# C-free Go build.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
in=$(mktemp -d)
trap 'rm -rf "$in"' EXIT
cd "$top"
export CGO_ENABLED=0
go build -trimpath -o "$in/sbxrun" ./cmd/sbxrun
go test -c -o "$in/cgroups.test" ./cgroups
cat >"$in/run.sh" <<'RUN'
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/tmp
cp sbxrun cgroups.test /tmp
cd /tmp
[ -f /sys/fs/cgroup/cgroup.controllers ] # else this proves nothing
./sbxrun check
./sbxrun selftest | tail -n 1
./sbxrun do --result 3 --memory 64M -- sh -c 'python3 -c "x = bytearray(200 << 20)"; true' 3>oom.json 2>oom.err || true
grep -q '"reason":"oom"' oom.json
./sbxrun do --pids 8 --result 3 --timeout 10s -- python3 -c '
import os, time
try:
    for i in range(20):
        if os.fork() == 0: time.sleep(5); os._exit(0)
except BlockingIOError: pass
' 3>pids.json
grep -q '"reason":"pids-limit"' pids.json
./sbxrun do --tool 'echo=cat' -- python3 -c '
from sbx_tools import call
assert call("echo", a=1) == {"a": 1}'
[ -z "$(ls /run/sbxrun)" ]
! ls -d /sys/fs/cgroup/sbxrun* 2>/dev/null
echo "PASS: cgroup v2: check, selftest, memory, pids, bridge, nothing left"
./cgroups.test -test.v -test.timeout 5m >cgroups.out 2>&1 || { cat cgroups.out; exit 1; }
grep -E '^(--- |PASS|FAIL|ok)' cgroups.out
RUN
"$top/tests/vm/uml.sh" "$in"
