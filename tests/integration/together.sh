#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Several controllers with different tracers on one probe, each starting and stopping
# at random: all totals are exact for the time they were on, and the code is as it was.
# TOGETHER_SECONDS is for how long.
. tests/integration/lib.sh
need_attach

seed=${TOGETHER_SEED:-$RANDOM}
"$python" tests/integration/together.py "$PROBECTL" "$TARGETS/hits" "${TOGETHER_SECONDS:-8}" "$seed" ||
	fail "seed $seed"
finish
