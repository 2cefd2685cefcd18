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
plans=(behind hop pun nop before)
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
# launch PROVIDERS PROGRAM…: the same of one that `probectl run` starts
launch()
{
	local providers=$1 runner pid
	shift
	: >"$SCRATCH/run.err"
	"$PROBECTL" run -v "/^($providers):/" -- "$@" <"$SCRATCH/line" >/dev/null \
		2>"$SCRATCH/run.err" &
	runner=$!
	until_it is_enabled || echo failed
	pid=$(sed -n 's/.*enabled in //p' "$SCRATCH/run.err" | tail -n 1)
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

# measure NAME PROVIDERS PROGRAM…
measure()
{
	local name=$1 i
	shift
	[ "$asked" = "  " ] || [[ $asked == *" $name "* ]] || return
	for ((i = 0; i < runs; i++)); do attach "$@"; done >"$SCRATCH/attached"
	row "$name" attaches <"$SCRATCH/attached"
	for ((i = 0; i < runs; i++)); do launch "$@"; done >"$SCRATCH/launched"
	row "$name" launches <"$SCRATCH/launched"
}

header="| program | runs | sites |" line="|---|---|---|"
for plan in "${plans[@]}" refused; do
	header+=" \`$plan\` |" line+="---|"
done
printf '%s\n%s\n' "$header" "$line"

have() { command -v "$1" >/dev/null; }
! have /usr/bin/python3.11 || measure python3.11 python /usr/bin/python3.11 -c 'input()'
! have php8.2 || measure php8.2 php php8.2 -n -r 'fgets(STDIN);'
! have ruby || measure ruby3.1 ruby ruby --disable-all -e 'STDIN.gets'
! have gdb || measure libstdc++ libstdcxx gdb -q -nx
! have node || measure node 'node|libstdcxx' node -e 'process.stdin.resume()'
if have javac; then
	cat >"$SCRATCH/Stay.java" <<-'JAVA'
		class Stay { public static void main(String[] a) throws Exception { System.in.read(); } }
	JAVA
	javac -d "$SCRATCH" "$SCRATCH/Stay.java" || die "javac failed"
	for jvm in /usr/lib/jvm/java-17-openjdk-amd64 /usr/lib/jvm/temurin-25-jdk-amd64; do
		[ ! -x "$jvm/bin/java" ] || measure "${jvm##*/}" 'hotspot|hotspot_jni|libstdcxx' \
			"$jvm/bin/java" -Xshare:auto -cp "$SCRATCH" Stay
	done
fi
finish
