#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Several controllers with different tracers on one probe start and stop at random: all totals
# are exact for the time they were enabled, and the code is as before. TOGETHER_SECONDS sets the
# duration.
. tests/integration/lib.sh
need_attach

seed=${TOGETHER_SEED:-$RANDOM}
"$python" tests/integration/others/together.py "$PROBECTL" "$TARGETS/hits" \
	"${TOGETHER_SECONDS:-8}" "$seed" ||
	fail "seed $seed"
finish
