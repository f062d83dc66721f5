#!/bin/sh
# Prints the path of a Go command that is at least as new as go.mod asks for.
# It looks beyond PATH, because sudo resets it.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
need=$(sed -n 's/^go //p' "$root/go.mod")
dest=${SBXRUN_GO_DIR:-/usr/local/lib/sbxrun-go}

for go in "$(command -v go || :)" "${GOROOT:-/nonexistent}/bin/go" /usr/local/go/bin/go "$dest/go$need/bin/go"; do
  [ -x "$go" ] || continue
  # Outside of the module, so that an old Go answers instead of refusing go.mod.
  have=$(cd / && GOTOOLCHAIN=local "$go" env GOVERSION 2>/dev/null) || continue
  have=${have#go} have=${have%%[!0-9.]*}
  if [ "$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -n 1)" = "$need" ]; then
    echo "$go"
    exit 0
  fi
done
echo "no Go $need or newer found; \"sudo make deps\" installs one" >&2
exit 1
