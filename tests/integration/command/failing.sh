#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A command's requests for memory, descriptors and processes fail, one at a time or all from one
# on: it says why, or still succeeds, and leaves nothing behind.
#
# FAILING_STRIDE=1 makes each of them fail (default: every 251st, in check-all every 83rd), from
# FAILING_START on.
# FAILING_COMMANDS selects commands (failing.py).
. tests/integration/lib.sh
need_attach

${CC:-cc} -O2 -g -Wall -Wextra -D_GNU_SOURCE -std=gnu11 -shared -fPIC \
	-o "$SCRATCH/failing.so" tests/torture/failing.c -ldl || die "failing.c"
[ "$(basename "$PROBECTL")" = probectl ] || skip "what fails is told by the name probectl"

"$TARGETS/loop" -s pair -p 3000 -n 1000000000 -r 1 >"$SCRATCH/loop.out" 2>&1 &
target_pid=$!
on_exit "end_process $target_pid"
stride=251
! in_all || stride=83
stride=${FAILING_STRIDE:-$stride}
# shellcheck disable=SC2206 # words
commands=(${FAILING_COMMANDS-})

# fail_each KIND STRIDE START
fail_each()
{
	mkdir "$SCRATCH/$1"
	PROBECTL=$PROBECTL TARGETS=$TARGETS "$python" "$integration/command/failing.py" \
		"$SCRATCH/failing.so" "$target_pid" "$SCRATCH/$1" "$@" "${commands[@]}" || failures=$((failures + 1))
}

fail_each memory "$stride" "${FAILING_START:-1}"
fail_each memory- "$((stride * 2))" "${FAILING_START:-20}"
fail_each descriptors "$(((stride + 2) / 3))" "${FAILING_START:-1}"
fail_each descriptors- "$(((stride + 1) / 2))" "${FAILING_START:-10}"
fail_each processes 1 1
finish
