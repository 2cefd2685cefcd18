#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
# Controllers come, go and are killed at random on several programs at once; as root beside
# kernel uprobes on the same probes. CHAOS_SECONDS is for how long, CHAOS_SEED repeats.
exec bash tests/torture/chaos.sh -s "${CHAOS_SECONDS:-10}" ${CHAOS_SEED:+-S "$CHAOS_SEED"} \
	compute signals altstack churn fork sleep python postgres
