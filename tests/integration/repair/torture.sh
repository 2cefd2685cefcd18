#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Controllers are killed, at random moments and at certain steps, and probes are switched
# without pause, on a program that checks its results. A short `make torture`, so that it keeps
# working.
. tests/integration/lib.sh
. tests/torture/lib.sh
need_attach

# In a shell of its own, because each program has its own target. SEED changes the kills.
apart()
{
	(
		own_scratch=
		at_exit=()
		trap clean_up EXIT
		"$@"
		finish
	) || failures=$((failures + 1))
}

apart torture_steps compute 41 "${SEED:-3}"
apart torture_kill compute 20 "${SEED:-1}"
apart torture_kill sleep 10 "${SEED:-1}"
apart torture_kill fork 10 "${SEED:-1}"
apart torture_cycle signals 16
apart torture_cycle churn 16
finish
