#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The example of docs/fleet.md: three pmcd, three traced programs, and a collector that is down
# for a while; in the end its archive matches what the programs did.
. tests/integration/lib.sh
. tests/integration/pcp/lib_pcp.sh
need_attach
need_pcp
need cc

# Its shells and PCP's find Debian's Python. The folder's name does not matter.
mkdir "$SCRATCH/a folder"
PATH=/usr/bin:/bin TMPDIR="$SCRATCH/a folder" PORT=$(free_port) PROBECTL=$PROBECTL \
	docs/examples/fleet/fleet.sh 3 >"$SCRATCH/out" 2>"$SCRATCH/err" ||
	die "fleet.sh ended with $?: $(tail -n 20 "$SCRATCH/out" "$SCRATCH/err")"
mapfile -t closed < <(sed -n 's/^\(web[123]\): \([1-9][0-9]*\) orders; the archive ends with \2$/\1/p' "$SCRATCH/out")
same "hosts whose archive has all orders" "${closed[*]}" "web1 web2 web3"
mapfile -t grown < <(sed -n 's/^\(web[123]\): orders went from \([0-9]*\) to \([0-9]*\)$/\1 \2 \3/p' "$SCRATCH/out" |
	awk '$2 < $3 {print $1}')
same "hosts that went on without a collector" "${grown[*]}" "web1 web2 web3"
# For each host, and for one archive.
same "replays" "$(grep -c '^ *count/s *millisec' "$SCRATCH/out")" 4
same "what is left" "$(find "$SCRATCH" -name 'fleet.*' | wc -l)" 0
finish
