#!/bin/sh
# Everything that `make test` runs, as root, with Go in PATH. All parts run also
# where one has failed; the last lines say which.
set -u
cd "$(dirname -- "$0")/.." || exit 1
if [ "$(id -u)" != 0 ]; then
  echo "the tests make sandboxes, cgroups and users: run \"sudo make test\"" >&2
  exit 1
fi
failed=

part() {
  name=$1
  shift
  echo "== $name"
  "$@" || failed="$failed $name"
}

# The folders of the packages whose tests start sandboxes or load filters, the
# longest first: those that import the launcher, those with a test that loads a
# filter itself, and the documents' examples.
sandbox_folders() {
  module=$(go list -m) && go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... >"$tmp/deps" || return 1
  loading=$(grep -rl --include='*_test.go' SECCOMP_SET_MODE_FILTER . | sed 's|^\./||; s|/[^/]*$||' | tr '\n' ' ') || return 1
  awk -v m="$module/" -v loading="$loading" '
    BEGIN { n = split("runtime cmd/sbxrun tests/attack runtime/direct tests/docs " loading, first); for (i = 1; i <= n; i++) add(first[i]) }
    function add(f) { if (!seen[f]++) print f }
    $1 ~ /\.test$/ && index($0, " " m "runtime/direct") { add(substr($1, length(m) + 1, length($1) - length(m) - 5)) }' "$tmp/deps"
}

# Built first and with all processors; run one package at a time, because the
# tests measure times and count what is left on the host.
go_tests() {
  go build -race ./... && go build -buildvcs=false -o "$tmp/gotest" ./scripts/gotest &&
    (cd tests/embed && CGO_ENABLED=0 go vet ./...) || return 1
  if [ -z "$no_filters" ]; then
    # A program of another module that imports the library, as a user's does.
    (cd tests/embed && CGO_ENABLED=0 go test -json -count=1 -timeout=5m ./...) >"$tmp/events" ||
      grep -q '"Action":"fail"' "$tmp/events" || return 1
    "$tmp/gotest" scripts/allowed-skips.txt -events "$tmp/events" -race -count=1 -p=1 -timeout=20m ./...
    return
  fi
  # The same packages, in two places.
  folders=$(sandbox_folders) || return 1
  # shellcheck disable=SC2086
  tests/vm/packages.sh "$tmp/events" $folders tests/embed || return 1
  for f in $folders; do echo "$(go list -m)/$f"; done >"$tmp/in-guest"
  # shellcheck disable=SC2046
  "$tmp/gotest" scripts/allowed-skips.txt -events "$tmp/events" -race -count=1 -p=1 -timeout=20m \
    $(go list ./... | grep -vxF -f "$tmp/in-guest")
  status=$?
  in_guest="$(($(wc -l <"$tmp/in-guest") + 1)) packages and the example"
  return $status
}

example() {
  if [ -z "$no_filters" ]; then
    examples/invoices/run.sh bin/sbxrun
    return
  fi
  mkdir "$tmp/example"
  echo "exec '$PWD/examples/invoices/run.sh' '$PWD/bin/sbxrun'" >"$tmp/example/run.sh"
  SBXRUN_TOP=$PWD tests/vm/uml.sh "$tmp/example"
}

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
in_guest=
if no_filters=$(scripts/kernel-can-filter); then
  no_filters=
else
  no_filters=${no_filters:-scripts/kernel-can-filter failed}
fi
[ -z "$no_filters" ] || echo "== $no_filters"

part check scripts/check.sh
part generated scripts/generated.sh
part go-tests go_tests
part cgroup-v2 tests/vm/run.sh
part example example

if [ -n "$no_filters" ]; then
  echo "== host kernel cannot load seccomp filters: ${in_guest:-nothing} ran in user-mode Linux instead, without the race detector"
fi
if [ -n "$failed" ]; then
  echo "make test: FAILED:$failed"
  exit 1
fi
echo "make test: ok"
