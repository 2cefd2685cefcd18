#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Dependencies point one way: cli -> libprobe -> {elf, arch}.
#   cli       includes itself and libprobe/include
#   libprobe  includes anything but cli
#   elf, arch include themselves and probe/error.h, never each other
#   libprobe/include includes only itself and the C library
. tests/lint/lib.sh
set +e # grep finding nothing is the good case

# Of every #include "..." the line file:line:name, name from the root.
includes()
{
	local folder=$1 file line name path

	sources '*.c' '*.h' '*.S' | grep "^$folder/" | while read -r file; do
		grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' "$file" |
			sed -E 's/^([0-9]+):[^"<]*["<]([^">]*)[">].*/\1 \2/' |
			while read -r line name; do
				path=$name
				for dir in "$(dirname "$file")" . libprobe/include; do
					[ -e "$dir/$name" ] || continue
					path=$(realpath --relative-to=. "$dir/$name")
					break
				done
				echo "$file:$line: $path"
			done
	done
}

rc=0
# layer FOLDER FORBIDDEN [ALLOWED]: no file of the folder may include a path
# that matches FORBIDDEN, unless it matches ALLOWED
layer()
{
	local found

	found=$(includes "$1" | grep -E ": ($2)" | grep -vE ": (${3:-/})")
	[ -z "$found" ] || {
		echo "$found"
		rc=1
	}
}

layer cli '(libprobe|elf|arch|tests)/' 'libprobe/include/'
layer libprobe '(cli|tests)/'
layer libprobe/include '(libprobe|elf|arch|cli|tests)/' 'libprobe/include/'
layer elf '(cli|arch|tests|libprobe)/' 'libprobe/include/probe/error\.h$'
layer arch '(cli|elf|tests|libprobe)/' 'libprobe/include/probe/error\.h$'
exit $rc
