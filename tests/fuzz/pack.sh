#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Adds seeds to the archive of a fuzzer, tests/fuzz/corpus/NAME.tar.gz. The same seeds give the same
# archive, byte for byte. Without SEED it only packs the archive again.
# usage: tests/fuzz/pack.sh NAME [SEED...]
set -euo pipefail
name=${1:?usage: tests/fuzz/pack.sh NAME [SEED...]}
shift
archive=$(realpath "$(dirname "$0")")/corpus/$name.tar.gz
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT

[ ! -e "$archive" ] || tar -C "$seeds" -xzf "$archive"
[ $# = 0 ] || cp -t "$seeds" -- "$@"
# Only the bytes and the names of the seeds may make a difference.
chmod 644 "$seeds"/*
(cd "$seeds" && printf '%s\0' *) |
	LC_ALL=C sort -z |
	tar -C "$seeds" -c --null -T - --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner |
	gzip -9n >"$archive"
