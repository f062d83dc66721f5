#!/bin/sh
# uml.sh INDIR: runs INDIR/run.sh as root under a kernel with cgroup v2 and
# nothing else (Debian's user-mode-linux, the host's files read-only), prints its
# output and exits with its code; 125 = the guest itself failed. The host's files
# are where they are on the host, except below /tmp, /run and /dev/shm: there it
# sees only the folder SBXRUN_TOP.
set -eu
in=$(readlink -f "$1")
here=$(dirname "$(readlink -f "$0")")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# The guest's memory is a file below TMPDIR.
TMPDIR=/dev/shm timeout -k 5 "${UML_TIMEOUT:-600}" linux.uml "mem=${UML_MEM:-1536M}" \
	root=/dev/root rootfstype=hostfs rootflags=/ ro "init=$here/uml-init" \
	con=null con0=null,fd:1 "sbxin=$in" "sbxout=$out" "sbxtop=${SBXRUN_TOP:-$here}" quiet >"$out/console" 2>&1 </dev/null || true
[ -f "$out/stdout" ] && cat "$out/stdout"
if ! [ -s "$out/rc" ]; then
	echo "uml.sh: the guest left no exit code; its last words:" >&2
	tail -5 "$out/console" >&2
	exit 125
fi
exit "$(cat "$out/rc")"
