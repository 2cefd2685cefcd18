#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Scripts pass shellcheck.
. tests/lint/lib.sh
need shellcheck
# SC1091: sourced files are checked by themselves; SC2034: and set variables for others.
{
	sources '*.sh' '*.bash'
	ls .ci/run .ci/deps
} | xargs -r shellcheck -x -S warning -e SC1091,SC2034
