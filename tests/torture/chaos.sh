#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Many programs at once, with controllers that start, end, stall and are killed at random:
# PostgreSQL with clients that come and go, a JVM, Python, Ruby, and programs that check their
# results. As root, kernel uprobes come and go on the same probes.
#
# usage: tests/torture/chaos.sh [-s SECONDS] [-w WORKERS] [-S SEED] [PROGRAM...]
# PROGRAMs are those of run.sh except exec, and the modes of victim.c; default: all of them.
# The environment is that of an integration test: BUILD, PROBECTL.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/torture/lib.sh

seconds=60
workers=3
seed=$RANDOM
while getopts s:w:S: option; do
	case $option in
	s) seconds=$OPTARG ;;
	w) workers=$OPTARG ;;
	S) seed=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- compute signals altstack churn fork spawn coroutine sleep python ruby java \
	postgres
need_attach
mkdir -p "$SCRATCH/chaos"

names=()
pids=()
inputs=()
targets=()
backgrounds=()

# member NAME OPTS WANTED PROGRAM ARGS...: starts it, with lines to and from it
member()
{
	local name=$1 opts=$2 wanted=$3 input try
	shift 3
	mkfifo "$SCRATCH/chaos/$name.in"
	exec {input}<>"$SCRATCH/chaos/$name.in"
	"${nicely[@]}" "$@" <"$SCRATCH/chaos/$name.in" >"$SCRATCH/chaos/$name.out" \
		2>"$SCRATCH/chaos/$name.err" &
	names+=("$name")
	pids+=($!)
	inputs+=("$input")
	targets+=("$name=$!=$opts=$wanted")
	on_exit "end_process $!"
	for ((try = 0; try < 600; try++)); do
		[ -s "$SCRATCH/chaos/$name.out" ] && break
		sleep 0.1
	done
	[ -s "$SCRATCH/chaos/$name.out" ] || die "$name does not start"
}

# A server, clients that stay, and clients that come for one transaction each.
member_postgres()
{
	torture_postgres
	backgrounds+=("$pgbench_pid")
	pg_as_user env PGHOST="$PGHOST" PGUSER="$PGUSER" PGDATABASE="$PGDATABASE" "${nicely[@]}" \
		"$pg_bin/pgbench" -n -C -c 2 -T 100000 -f "$pg_dir/check.sql" \
		>"$SCRATCH/pgbench-C.out" 2>&1 &
	backgrounds+=($!)
	on_exit "end_process $!"
	targets+=("backend=$target_pid=--keep-going=postgresql:*")
	targets+=("postmaster+=$pg_pid=--keep-going=postgresql:*")
}

for name; do
	case $name in
	python) member python --keep-going 'python:*' /usr/bin/python3 "$torture/busy.py" ;;
	ruby) member ruby --keep-going 'ruby:*' ruby --disable-all -rio/wait "$torture/busy.rb" ;;
	java)
		java_class
		member java --keep-going 'hotspot*:*' java -XX:+ExtendedDTraceProbes \
			-XX:ActiveProcessorCount=2 -Xmx256m -cp "$SCRATCH" Busy stay
		;;
	postgres) member_postgres ;;
	compute) member compute --keep-going 'victim:*' "$bin/victim" compute 4 ;;
	sleep) member sleep --keep-going 'victim:*' "$bin/victim" sleep 8 ;;
	*) member "$name" --keep-going 'victim:*' "$bin/victim" "$name" ;;
	esac
done

for pid in "${pids[@]}" ${target_pid:+"$target_pid" "$pg_pid"}; do
	save_state "$pid"
done
echo "seed $seed, $seconds s, ${#targets[@]} targets: $*"
"$python" "$torture/chaos.py" "$PROBECTL" "$seconds" "$seed" "$workers" "$SCRATCH/chaos" \
	"${targets[@]}" || fail "seed $seed"
for pid in "${pids[@]}" ${target_pid:+"$target_pid" "$pg_pid"}; do
	same_state "$pid"
done

# Each ends by itself, with status 0 if all that it computed was right.
for i in "${!names[@]}"; do
	echo quit >&"${inputs[i]}"
	wait "${pids[i]}"
	same "${names[i]}: exit status" "$?" 0
	[ ! -s "$SCRATCH/chaos/${names[i]}.err" ] ||
		fail "${names[i]}: $(head -3 "$SCRATCH/chaos/${names[i]}.err")"
	echo "${names[i]}: $(tail -1 "$SCRATCH/chaos/${names[i]}.out")"
done
for pid in "${backgrounds[@]}"; do
	kill "$pid" 2>/dev/null || fail "pgbench ended: $(tail -3 "$SCRATCH"/pgbench*.out)"
	wait "$pid" 2>/dev/null
done
! grep -ihE 'error|aborted' "$SCRATCH"/pgbench*.out 2>/dev/null || fail "pgbench had errors"
finish
