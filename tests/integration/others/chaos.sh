#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
# Controllers start, end and are killed at random on several programs at once; as root also next
# to kernel uprobes on the same probes. CHAOS_SECONDS sets the duration; CHAOS_SEED repeats a
# run.
exec bash tests/torture/chaos.sh -s "${CHAOS_SECONDS:-10}" ${CHAOS_SEED:+-S "$CHAOS_SEED"} \
	compute signals altstack churn fork sleep python postgres
