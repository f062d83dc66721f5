#!/bin/sh
# Runs agent.py in a sandbox and checks what came of it: run.sh [SBXRUN].
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
sbxrun=${1:-sbxrun}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

status=0
# shellcheck disable=SC1010
"$sbxrun" do --tools "$here/tools.json" --file "$here/agent.py" \
  --memory 128M --timeout 20s --result "$tmp/result.json" \
  -- python3 agent.py || status=$?

echo
/usr/bin/python3 "$here/verify.py" "$tmp/result.json" "$status"
