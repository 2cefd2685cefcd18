#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Functions of a program at its own probes, from files of this machine. Those of the sources are
# another's here, and each change copies what it reads of them. Not library/self.sh: in the emulator
# one of its changes waits for another longer than a change waits.
. tests/integration/lib.sh

cp "$BUILD/tests/unit/self/test_self_calls" "$SCRATCH"
"$SCRATCH/test_self_calls" >"$SCRATCH/log" 2>&1 || fail "status $?: $(cat "$SCRATCH/log")"
finish
