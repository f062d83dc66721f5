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

go_tests() {
  # Built first and with both processors; run one package at a time, because the
  # tests measure times and count what is left on the host.
  go build -race ./... || return 1
  bin=$(mktemp -d) || return 1
  go build -buildvcs=false -o "$bin/gotest" ./scripts/gotest &&
    "$bin/gotest" scripts/allowed-skips.txt -race -count=1 -p=1 -timeout=20m ./...
  status=$?
  rm -rf "$bin"
  return $status
}

# A program of another module that imports the library, as a user's does.
embed_tests() {
  (cd tests/embed && CGO_ENABLED=0 go vet ./... && CGO_ENABLED=0 go test -count=1 -timeout=5m ./...)
}

part check scripts/check.sh
part generated scripts/generated.sh
part go-tests go_tests
[ ! -f tests/embed/go.mod ] || part embed embed_tests
part cgroup-v2 tests/vm/run.sh
part example examples/invoices/run.sh bin/sbxrun

if [ -n "$failed" ]; then
  echo "make test: FAILED:$failed"
  exit 1
fi
echo "make test: ok"
