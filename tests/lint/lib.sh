# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the scripts of this folder share. They run in the root of the sources,
# print what they find as file:line, and fail where they found something.
set -eu
BUILD=${BUILD:-build}
SCRATCH=${SCRATCH:-$(mktemp -d)}

# need PROGRAM...: skips the test where one is missing
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

# Sources of the project, as `find` prints them: sources PATTERN...
# Files of the tree, not of git: what is about to be committed counts, too.
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
