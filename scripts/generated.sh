#!/bin/sh
# Builds again what is generated and embedded, beside the tree, and compares: the
# launcher for both architectures and the system call filters. Needs Go in PATH.
set -eu
cd "$(dirname -- "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
status=0

compare() { # made, kept, how to make it again
  for f in "$1"/*; do
    if ! cmp "$f" "$2/$(basename "$f")"; then
      echo "generated: $2/$(basename "$f") is not what its source makes; run \"$3\""
      status=1
    fi
  done
}

mkdir "$tmp/embedded" "$tmp/filters"
runtime/direct/launcher/build.sh "$tmp/embedded"
compare "$tmp/embedded" runtime/direct/embedded "make generate"
go run ./seccomp/internal/gen "$tmp/filters" >/dev/null
compare "$tmp/filters" seccomp/filters "make generate"
[ $status = 0 ] && echo "generated: ok"
exit $status
