#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How the sites of real programs are patched, by plan, in processes that are attached to, and in
# programs that are started with their probes on: each is a process of its own, with a memory map
# of its own. A table in Markdown, which docs/architecture.md holds. sites.sh asks the files.
# usage: tests/bench/attach_sites.sh [RUNS [PROGRAM…]]   default: 60 of each program
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
need jq
need_attach

runs=${1:-60}
[ $# = 0 ] || shift
asked=" $* "
plans=(behind hop pun nop before twin part)
as_user= # what a program is launched by
export USE_ZEND_DTRACE=1

# Programs that wait for a line wait for it here.
mkfifo "$SCRATCH/line" || die "mkfifo failed"
exec 7<>"$SCRATCH/line"

# plans_of PID PROVIDERS: the plan of each site of these providers, one a line
plans_of()
{
	"$PROBECTL" status -a --json -p "$1" 2>/dev/null | jq -r --arg providers "$2" '
		select(.provider | test("^(" + $providers + ")$")) |
		(.plan // {} | to_entries[] | .key as $plan | range(.value) | $plan),
		(range(.sites - .patched) | "refused")'
}

# until_it COMMAND…: false where it does not succeed within 20 seconds
until_it()
{
	local i
	for ((i = 0; i < 200; i++)); do
		"$@" && return
		sleep 0.1
	done
	return 1
}
# Does the process have all of its libraries, and wait?
is_ready()
{
	"$PROBECTL" list --json -p "$1" 2>/dev/null | jq -r .provider | grep -qxE "$2" &&
		grep -q '^State:.S' "/proc/$1/status" && sleep 0.2
}
is_enabled() { grep -q 'sites\? enabled in' "$SCRATCH/run.err"; }

# attach PROVIDERS PROGRAM…: the plans of its sites once it is there
attach()
{
	local providers=$1 pid
	shift
	"$@" <"$SCRATCH/line" >/dev/null 2>&1 &
	pid=$!
	until_it is_ready "$pid" "$providers" || echo failed
	"$PROBECTL" enable -q -p "$pid" "/^($providers):/" >/dev/null 2>>"$SCRATCH/messages" || echo failed
	plans_of "$pid" "$providers"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
}
# attach_backend: the same of a backend of PostgreSQL, a process for each, while pgbench uses it
attach_backend()
{
	local client pid
	"$pg_bin/pgbench" -n -S -c 1 -T 60 >/dev/null 2>&1 &
	client=$!
	until_it has_backend || echo failed
	pid=$(pg_backends | head -n 1)
	"$PROBECTL" enable -q -p "$pid" 'postgresql:*' >/dev/null 2>>"$SCRATCH/messages" ||
		echo failed
	plans_of "$pid" postgresql
	kill -KILL "$client"
	wait "$client" 2>/dev/null
	until_it has_no_backend || echo failed
}
has_backend() { [ -n "$(pg_backends)" ]; }
has_no_backend() { ! has_backend; }
# launch PROVIDERS PROGRAM…: the same of one that `probectl run` starts
launch()
{
	local providers=$1 runner pid
	shift
	: >"$SCRATCH/run.err"
	$as_user "$PROBECTL" run -v "/^($providers):/" -- "$@" <"$SCRATCH/line" >/dev/null \
		2>"$SCRATCH/run.err" &
	runner=$!
	until_it is_enabled || echo failed
	pid=$(sed -n 's/.*enabled in //p' "$SCRATCH/run.err" | tail -n 1)
	# Libraries that it opens after that are probed as well.
	[ -z "$pid" ] || until_it is_ready "$pid" "$providers" || echo failed
	[ -z "$pid" ] || plans_of "$pid" "$providers"
	kill -KILL "${pid:-$runner}"
	wait "$runner" 2>/dev/null
}

# row NAME HOW: the plans on standard input, one a line, as a row of the table
row()
{
	awk -v name="$1" -v how="$2" -v runs="$runs" -v plans="${plans[*]}" '
		{ count[$1]++ }
		END {
			printf "| %s | %d %s | %d |", name, runs, how, NR - count["failed"]
			for (i = 1; i <= split(plans, plan, " "); i++)
				printf " %d |", count[plan[i]]
			printf " %d |", count["refused"]
			print count["failed"] ? sprintf(" %d failed |", count["failed"]) : ""
		}'
}

is_asked() { [ "$asked" = "  " ] || [[ $asked == *" $1 "* ]]; }

# measure NAME PROVIDERS PROGRAM…
measure()
{
	local name=$1 i
	shift
	is_asked "$name" || return
	have "$2" || {
		echo "note: $name is not measured: there is no $2" >&2
		return
	}
	for ((i = 0; i < runs; i++)); do attach "$@"; done >"$SCRATCH/attached"
	row "$name" attaches <"$SCRATCH/attached"
	for ((i = 0; i < runs; i++)); do launch "$@"; done >"$SCRATCH/launched"
	row "$name" launches <"$SCRATCH/launched"
}

# A server's backends, and a server for one user, which waits for a line.
measure_postgres()
{
	local i
	is_asked postgres || return
	[ -x "$pg_bin/postgres" ] || {
		echo "note: postgres is not measured: there is no $pg_bin/postgres" >&2
		return
	}
	pg_start
	pg_bench_init
	for ((i = 0; i < runs; i++)); do attach_backend; done >"$SCRATCH/attached"
	row postgres attaches <"$SCRATCH/attached"
	pg_stop
	as_user=pg_as_user
	for ((i = 0; i < runs; i++)); do
		launch postgresql "$pg_bin/postgres" --single -D "$pg_dir/data" postgres
	done >"$SCRATCH/launched"
	as_user=
	row postgres launches <"$SCRATCH/launched"
}

have() { command -v "$1" >/dev/null; }

header="| program | runs | sites |" line="|---|---|---|"
for plan in "${plans[@]}" refused; do
	header+=" \`$plan\` |" line+="---|"
done
printf '%s\n%s\n' "$header" "$line"

measure_postgres
measure python3.11 python /usr/bin/python3.11 -c 'input()'
measure php8.2 php php8.2 -n -r 'fgets(STDIN);'
measure ruby3.1 ruby ruby --disable-all -e 'STDIN.gets'
measure libstdc++ libstdcxx gdb -q -nx
measure node 'node|libstdcxx' node -e 'process.stdin.resume()'
if ! have javac; then
	echo "note: no JVM is measured: there is no javac" >&2
else
	cat >"$SCRATCH/Stay.java" <<-'JAVA'
		class Stay { public static void main(String[] a) throws Exception { System.in.read(); } }
	JAVA
	javac -d "$SCRATCH" "$SCRATCH/Stay.java" || die "javac failed"
	for jvm in /usr/lib/jvm/java-17-openjdk-amd64 /usr/lib/jvm/temurin-25-jdk-amd64; do
		measure "${jvm##*/}" 'hotspot|hotspot_jni|libstdcxx' \
			"$jvm/bin/java" -Xshare:auto -cp "$SCRATCH" Stay
	done
fi
finish
