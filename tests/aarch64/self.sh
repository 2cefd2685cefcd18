#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Functions of a program at its own probes, from files of this machine. Those of the sources are
# another's here, and each change copies what it reads of them. Not library/self.sh: in the emulator
# one of its changes waits for another longer than a change waits.
. tests/integration/lib.sh

for test in calls callers forks; do
	cp "$BUILD/tests/unit/self/test_self_$test" "$SCRATCH/test"
	"$SCRATCH/test" >"$SCRATCH/log" 2>&1 || fail "test_self_$test: status $?: $(cat "$SCRATCH/log")"
done
finish
