#!/bin/sh
# Installs what is missing, and only that:
#
#   deps.sh build    to build bin/sbxrun and to run the example
#   deps.sh test     for all tests besides (the default)
#
# Debian packages come from apt, and a Go toolchain from the Go module proxy
# where the machine has none that is new enough. With everything there it uses
# neither network nor privilege.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
need=$(sed -n 's/^go //p' "$root/go.mod")
dest=${SBXRUN_GO_DIR:-/usr/local/lib/sbxrun-go}

case ${1:-test} in
build) set -- ca-certificates python3 ;;
test)
  # gcc and its arm64 sister rebuild the launcher, libseccomp is the oracle of
  # the filters, user-mode Linux brings cgroup v2 where the host has none, the
  # rest are programs that tests run or compare with.
  set -- ca-certificates python3 gcc g++ libc6-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
    libseccomp-dev pkg-config git make procps util-linux mandoc shellcheck \
    python3-numpy nodejs bubblewrap crun user-mode-linux busybox-static iproute2
  ;;
*)
  echo "usage: deps.sh [build|test]" >&2
  exit 2
  ;;
esac

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

updated=
apt_install() {
  if [ "$(id -u)" != 0 ]; then
    echo "deps.sh: missing: $*; run it as root" >&2
    exit 1
  fi
  echo "deps.sh: installing $*" >&2
  export DEBIAN_FRONTEND=noninteractive
  if [ -z "$updated" ]; then
    apt-get update -qq || echo "deps.sh: package lists not updated" >&2
    updated=1
  fi
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

command -v dpkg-query >/dev/null || {
  echo "deps.sh: not a Debian system; it would install: $*, and Go $need" >&2
  exit 1
}
missing=
for p in "$@"; do
  installed "$p" || missing="$missing $p"
done
# shellcheck disable=SC2086
[ -z "$missing" ] || apt_install $missing

# The toolchain is a module like any other, so the oldest Go can fetch it. Its
# hash is pinned in toolchain.sum, which the go command checks.
bootstrap_go() {
  arch=$(dpkg --print-architecture)
  version=v0.0.1-go$need.linux-$arch
  grep -q "^golang.org/toolchain $version " "$root/scripts/toolchain.sum" || {
    echo "deps.sh: scripts/toolchain.sum has no hash of Go $need for $arch" >&2
    exit 1
  }
  boot=$(command -v go || ls /usr/local/go/bin/go 2>/dev/null || :)
  if [ -z "$boot" ]; then
    apt_install golang-go
    boot=/usr/bin/go
  fi
  echo "deps.sh: fetching Go $need with $("$boot" version | cut -d' ' -f3) into $dest" >&2
  mkdir -p "$dest"
  tmp=$(mktemp -d "$dest/.new-XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  mkdir "$tmp/module"
  printf 'module bootstrap\n\ngo 1.19\n\nrequire golang.org/toolchain %s\n' "$version" >"$tmp/module/go.mod"
  cp "$root/scripts/toolchain.sum" "$tmp/module/go.sum"
  (cd "$tmp/module" && HOME=${HOME:-/root} GOTOOLCHAIN=local GOMODCACHE=$tmp/cache \
    GOFLAGS='-mod=mod -modcacherw' GOWORK=off "$boot" mod download golang.org/toolchain)
  tree=$tmp/cache/golang.org/toolchain@$version
  # What the go command does itself on the first use of a toolchain: a module
  # carries no execute bits and no nested go.mod.
  chmod 755 "$tree"/bin/*
  find "$tree/pkg/tool" -type f -exec chmod 755 {} +
  find "$tree/lib" -name 'go_*_exec' -exec chmod 755 {} +
  find "$tree" -name _go.mod | while read -r f; do cp "$f" "${f%_go.mod}go.mod"; done
  (cd / && GOTOOLCHAIN=local "$tree/bin/go" version) >&2
  if [ ! -e "$dest/go$need" ]; then
    mv "$tree" "$dest/go$need"
  fi
}

"$root/scripts/find-go.sh" >/dev/null 2>&1 || {
  if [ "$(id -u)" != 0 ] && [ -z "${SBXRUN_GO_DIR:-}" ]; then
    echo "deps.sh: missing: Go $need; run it as root, or name a directory of yours in SBXRUN_GO_DIR" >&2
    exit 1
  fi
  bootstrap_go
  "$root/scripts/find-go.sh" >/dev/null
}
