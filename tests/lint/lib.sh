# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Shared by the scripts of this folder. They run in the root of the sources, print what they
# find as file:line, and fail if they found anything.
set -eu
BUILD=${BUILD:-build}
SCRATCH=${SCRATCH:-$(mktemp -d)}

# need PROGRAM...: skips the test if one is missing
need()
{
	local program

	for program in "$@"; do
		if ! command -v "$program" >/dev/null; then
			echo "$program is not installed"
			exit 77
		fi
	done
}

# sources PATTERN...: source files of the project, as `find` prints them. Files of the tree, not
# of git, so files that are not committed yet count, too.
sources()
{
	local pattern
	local -a names=()

	for pattern in "$@"; do
		names+=(-o -name "$pattern")
	done
	find . \( -name .git -o -path ./build \) -prune -o -type f \( "${names[@]:1}" \) -print |
		sed 's,^\./,,' | sort
}

# What the Makefile defines for some files.
# shellcheck disable=SC2034 # for the scripts that compile
macros=(-D_GNU_SOURCE '-DPROBE_VERSION=""' '-DPROBE_IDENTITY=""' '-DPROBE_IMAGE=""'
	'-DPROBE_INTERPRETER=""')
