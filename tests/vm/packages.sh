#!/bin/sh
# packages.sh EVENTS FOLDER...: runs the tests of the packages in these folders as
# root in user-mode Linux, whose kernel is not the host's, and appends what
# `go test -json` would have said to the file EVENTS. The same tests, without
# the race detector. There are as many guests as processors; each takes the next
# package that none has taken, so the longest ones come first in the arguments.
# Needs Go, root and the packages user-mode-linux and busybox-static.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
events=$1
shift
in=$(mktemp -d)
trap 'rm -rf "$in"' EXIT
cd "$top"
export CGO_ENABLED=0
mkdir "$in/taken"
for folder in "$@"; do
	name=$(echo "$folder" | tr / _)
	(
		cd "$folder"
		go list . >"$in/$name.package"
		# Tests that compare with a C library are built where there is cgo only.
		! grep -qs '^//go:build.*\<cgo\>' ./*_test.go || export CGO_ENABLED=1
		go test -c -o "$in/$name.test" .
	)
	echo "$name $top/$folder" >>"$in/order"
done
# The weakened commands are then only linked in the guest.
go build -tags sbxrun_weaken -buildvcs=false -o "$in/sbxrun" ./cmd/sbxrun
go build -buildvcs=false -o "$in/sbxrun" ./cmd/sbxrun
cache=$(go env GOCACHE)
cat >"$in/run.sh" <<RUN
export CI='${CI:-}' PATH='$PATH' HOME=/root TMPDIR=/tmp CGO_ENABLED=0
export SBXRUN_TEST_BINARY=/tmp/bin/sbxrun
export GOCACHE='$cache' GOMODCACHE='$(go env GOMODCACHE)' GOFLAGS=-buildvcs=false GOPROXY=off GOTOOLCHAIN=local
mkdir -p "\$GOCACHE"
mount -t hostfs -o "\$GOCACHE" none "\$GOCACHE"
mkdir /tmp/bin
cp sbxrun /tmp/bin
RUN
cat >>"$in/run.sh" <<'RUN'
while read -r name folder; do
	mkdir "taken/$name" 2>/dev/null || continue
	cp "$name.test" "/tmp/$name.test"
	(cd "$folder" && "/tmp/$name.test" -test.v=test2json -test.paniconexit0 -test.timeout=20m) >"$name.out" 2>&1 </dev/null
	echo $? >"$name.rc"
	rm -f "/tmp/$name.test"
done <order
RUN
guests=$(nproc)
[ "$guests" -le 4 ] || guests=4
for _ in $(seq "$guests"); do
	UML_MEM=2G UML_TIMEOUT=1800 SBXRUN_TOP=$top "$top/tests/vm/uml.sh" "$in" &
done
wait

while read -r name _; do
	package=$(cat "$in/$name.package")
	rc=$(cat "$in/$name.rc" 2>/dev/null || echo none)
	{
		cat "$in/$name.out" 2>/dev/null || :
		case $rc in
		0) printf 'ok  \t%s\t[user-mode Linux]\n' "$package" ;;
		none) printf '\nFAIL\t%s\t[the guest ended before it]\n' "$package" ;;
		*) printf '\nFAIL\t%s\t[user-mode Linux, exit status %s]\n' "$package" "$rc" ;;
		esac
	} | go tool test2json -t -p "$package" >>"$events"
done <"$in/order"
