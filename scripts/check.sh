#!/bin/sh
# Static checks: format, vet, shell scripts. Needs Go in PATH (scripts/with-go.sh).
set -eu
cd "$(dirname -- "$0")/.."
status=0

unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
  echo "not gofmt-ed:"
  echo "$unformatted"
  status=1
fi

# -buildvcs=false: a check needs no version stamp.
go vet ./... || status=1
for arch in amd64 arm64; do
  CGO_ENABLED=0 GOARCH=$arch go build -buildvcs=false -o /dev/null ./cmd/sbxrun || status=1
done

scripts=$(find scripts .ci examples runtime tests -type f \( -name '*.sh' -o -path '.ci/run' \))
for s in $scripts; do
  sh -n "$s" || status=1
done
if command -v shellcheck >/dev/null; then
  # shellcheck disable=SC2086
  shellcheck $scripts || status=1
fi
[ $status = 0 ] && echo "check: ok"
exit $status
