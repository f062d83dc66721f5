#!/bin/sh
# Runs every fuzz test of the tree for a while: fuzz.sh [TIME], 30s by default.
set -eu
cd "$(dirname -- "$0")/.."
time=${1:-30s}
for pkg in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
  for fuzz in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || :); do
    echo "== $pkg $fuzz"
    go test -run '^$' -fuzz "^$fuzz\$" -fuzztime "$time" "$pkg"
  done
done
