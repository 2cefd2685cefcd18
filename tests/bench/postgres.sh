#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The throughput that remains for a PostgreSQL backend (pgbench -S) while all its probes are
# counted. One client runs all the time; windows with and without probes alternate, so that
# other load affects both alike. The figure is the median ratio of neighbouring windows.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh

rounds=9
seconds=2
[ "$quick" = 0 ] || rounds=3 seconds=1

heading "pgbench -S, all probes of the backend counted" "tps without" "tps with" "% kept"
[ -x "$pg_bin/postgres" ] || {
	missing "PostgreSQL" "$pg_bin/postgres is not installed"
	exit 0
}
pg_start
pg_bench_init 5

# It reports every second on standard error, until it is killed.
coproc PGBENCH { exec "$pg_bin/pgbench" -n -S -M prepared -c 1 -P 1 -T 3600 2>&1; }
on_exit "end_process $PGBENCH_PID"

# tps: the mean of a window that begins after the current second
tps()
{
	local i line sum=0
	# Skip what it reported earlier.
	while read -r -t 0.05 -u "${PGBENCH[0]}" line; do :; done
	for ((i = 0; i <= seconds; i++)); do
		while read -r -t 20 -u "${PGBENCH[0]}" line; do
			case $line in progress:*) break ;; esac
		done
		[ "$i" = 0 ] || sum=$(awk -v s="$sum" -v l="$line" 'BEGIN { split(l, f, /[ ,]+/); print s + f[4] }')
	done
	awk -v s="$sum" -v n="$seconds" 'BEGIN { printf "%.0f\n", s / n }'
}
tps >/dev/null
backend=$(pg_backends | head -1)

probectl_start()
{
	env --default-signal=INT "$PROBECTL" trace --count -p "$backend" 'postgresql:*' >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
	tracer=$!
	"$python" tests/integration/state.py wait "$backend" postgresql:query__start 10
}
bpftrace_start()
{
	env --default-signal=INT bpftrace -e "usdt:$pg_bin/postgres:postgresql:* { @[probe] = count(); }" -p "$backend" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
	tracer=$!
	"$python" tests/integration/state.py wait "$backend" postgresql:query__start 60 && sleep 2
}
tracer_stop()
{
	kill -INT "$tracer"
	wait "$tracer"
}

# ratio NAME START ROUNDS
ratio()
{
	local i without with
	: >"$SCRATCH/ratios"
	: >"$SCRATCH/without"
	: >"$SCRATCH/with"
	for ((i = 0; i < $3; i++)); do
		without=$(tps)
		"$2" || {
			missing "$1" "$(head -1 "$SCRATCH/err")"
			kill -INT "$tracer" 2>/dev/null
			return
		}
		with=$(tps)
		tracer_stop >/dev/null 2>&1
		echo "$without" >>"$SCRATCH/without"
		echo "$with" >>"$SCRATCH/with"
		awk -v a="$with" -v b="$without" 'BEGIN { printf "%.1f\n", 100 * a / b }' >>"$SCRATCH/ratios"
	done
	row "$1" "$(median <"$SCRATCH/without")" "$(median <"$SCRATCH/with")" "$(median <"$SCRATCH/ratios")"
}

nothing_start()
{
	env --default-signal=INT sleep 1000 &
	tracer=$!
}
ratio "nothing (what two neighbours differ by)" nothing_start 3
if [ -x "$PROBECTL" ]; then
	ratio "probectl trace --count" probectl_start "$rounds"
else
	missing "probectl trace --count" "$PROBECTL is not built"
fi
if is_root && command -v bpftrace >/dev/null; then
	ratio "bpftrace, count()" bpftrace_start 3
else
	missing "bpftrace, count()" "it is not installed, or we are not root"
fi
exit 0
