#!/bin/sh
# with-go.sh COMMAND...: runs it with a Go toolchain first in PATH, and with what
# the go and git commands need that sudo may have taken away.
set -eu
dir=$(dirname -- "$0")
go=$("$dir/find-go.sh")
PATH=$(dirname -- "$go"):$PATH
export PATH
export HOME="${HOME:-/root}" GOTOOLCHAIN=local
# Under sudo the checkout may belong to somebody else, which git takes for a trap
# unless it is told otherwise.
top=$(CDPATH='' cd -- "$dir/.." && pwd)
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0="$top"
exec "$@"
