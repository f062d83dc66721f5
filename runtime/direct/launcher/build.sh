#!/bin/sh
# Builds the launcher for both architectures with the system's C compiler.
# `build.sh OUTDIR`; the binaries are embedded by package direct, and CI checks
# that they are what this script makes of the source.
set -eu
cd "$(dirname "$0")"
out=${1:-../embedded}
mkdir -p "$out"
flags="-Os -std=gnu11 -Wall -Wextra -Werror -ffreestanding -fno-builtin-memset -fno-stack-protector
 -fno-asynchronous-unwind-tables -fno-ident -fno-pic -fno-pie -fomit-frame-pointer
 -static -nostdlib -no-pie -Wl,--build-id=none -Wl,-z,noexecstack -Wl,-z,norelro -Wl,-z,max-page-size=4096 -s"
build() { # compiler, GOARCH, further flags
  cc=$1 arch=$2
  shift 2
  # shellcheck disable=SC2086
  "$cc" $flags ${SBX_CFLAGS:-} "$@" -o "$out/launcher-$arch" main.c init.c ops.c identity.c plan.c
}
build "${CC_AMD64:-x86_64-linux-gnu-gcc}" amd64
build "${CC_ARM64:-aarch64-linux-gnu-gcc}" arm64 -mno-outline-atomics
