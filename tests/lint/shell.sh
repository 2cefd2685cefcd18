#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Scripts pass shellcheck, and those with a #! line are executable.
. tests/lint/lib.sh
need shellcheck
for script in $(sources '*.sh') .ci/run .ci/deps docs/packaging/debian/tests/{build,demo,documents}; do
	[ -x "$script" ] || ! head -n 1 "$script" | grep -q '^#!' || {
		echo "$script:1: is not executable"
		exit 1
	}
done
# Sourced files are checked separately (SC1091), and set variables for others (SC2034, SC2154), which
# `set -u` finds when they are missing. Following them (-x) takes twice the time.
{
	sources '*.sh' '*.bash'
	ls .ci/run .ci/deps docs/packaging/debian/tests/{build,demo,documents}
} | xargs -r -P 2 -n 50 shellcheck -S warning -e SC1091,SC2034,SC2154
