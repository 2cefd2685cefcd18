#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# N hits give N counts, and N records plus losses give N; with every plan, with one thread and
# with sixteen, attached and started.
. tests/integration/lib.sh
need_attach

# hits_of FILE PROBE: the sum of a table of counts in JSON
hits_of()
{
	"$python" - "$1" "$2" <<'PYTHON'
import json, sys
total = 0
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    if "hits" in item and f"{item['provider']}:{item['name']}" == sys.argv[2]:
        total += item["hits"]
print(total)
PYTHON
}

# start_patchable SITE HITS THREADS OPTIONS…: starts `loop`. Whether its site can be punned
# depends on its load address: retries as often as necessary.
start_patchable()
{
	local site=$1 hits=$2 threads=$3 try
	shift 3
	for ((try = 0; try < 20; try++)); do
		start "$TARGETS/loop" -s "$site" -n "$hits" -t "$threads" -b -a
		"$PROBECTL" enable "$@" -p "$target_pid" "loop:$site" >/dev/null 2>&1 &&
			"$PROBECTL" disable -p "$target_pid" "loop:$site" >/dev/null && return
		end_process "$target_pid"
	done
	die "$site cannot be patched, $*"
}

# attached SITE HITS THREADS OPTIONS…
attached()
{
	local site=$1 hits=$2 threads=$3
	shift 3
	start_patchable "$site" "$hits" "$threads" "$@"
	save_state "$target_pid"
	trace_start count --count --json "$@" -p "$target_pid" "loop:$site"
	wait_on "$target_pid" "loop:$site"
	ask go
	same "$site: the program's own count" "${answer%% *}" "$((hits * threads))"
	trace_stop count
	same "$site × $threads, $*" "$(hits_of "$SCRATCH/count.out" "loop:$site")" "$((hits * threads))"
	hear
	same_state "$target_pid"
	tell bye
	end_target
}

many=300000
attached nop "$many" 1
attached nop "$many" 1 --plan behind
attached nop "$many" 16
# A nop that is as long as a jump has only one other plan.
others=()
if [ "$(uname -m)" = x86_64 ]; then
	others=(pun nop10)
	attached nop10 "$many" 1
	attached nop5 "$many" 1
	attached pun "$many" 1
	attached nop "$many" 1 --plan pun
	attached nop5 "$many" 1 --plan nop
	attached nop10 "$many" 1 --plan nop
	attached pun "$many" 16
else
	attached nop "$many" 1 --plan nop
fi

# Started: counted from the first hit to the last.
for site in nop "${others[@]}"; do
	"$PROBECTL" trace --count --json -o "$SCRATCH/started.out" "loop:$site" -- \
		"$TARGETS/loop" -s "$site" -n "$((many / 10))" -t 4 >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
		fail "trace -c -- loop -s $site: status $?: $(head -3 "$SCRATCH/err")"
	same "started, $site" "$(hits_of "$SCRATCH/started.out" "loop:$site")" "$((many / 10 * 4))"
done

# Records: each hit is recorded, or counted as lost.
for threads in 1 4; do
	"$PROBECTL" trace --json -o "$SCRATCH/records.out" loop:nop -- \
		"$TARGETS/loop" -s nop -n 100000 -t "$threads" >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
		fail "trace -- loop: status $?: $(head -3 "$SCRATCH/err")"
	read -r kept lost disordered < <(records_of "$SCRATCH/records.out")
	same "records and losses, $threads threads" "$((kept + lost))" "$((100000 * threads))"
	[ "$kept" -gt 0 ] || fail "no record was kept"
	same "hits of a thread out of order" "$disordered" 0
done

# A ring that is far too small loses nearly all hits, and reports it.
"$PROBECTL" trace --json -b 4k -o "$SCRATCH/small.out" loop:nop -- \
	"$TARGETS/loop" -s nop -n 100000 >"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "a small ring: status $?"
read -r kept lost _ < <(records_of "$SCRATCH/small.out")
same "records and losses in a small ring" "$((kept + lost))" 100000

# Slow enough that nothing may be lost.
"$PROBECTL" trace --json -o "$SCRATCH/slow.out" loop:nop -- \
	"$TARGETS/loop" -s nop -n 1000 -r 20 -z 10 >"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "slowly: status $?"
read -r kept lost _ < <(records_of "$SCRATCH/slow.out") # each round counts from 0
same "records of a slow program" "$kept $lost" "20000 0"

# -n ends after a number of hits, -d after a time.
start "$TARGETS/loop" -s nop -n 1000000 -r 100 -z 10 -b -a
save_state "$target_pid"
tell go
"$PROBECTL" trace --json -n 25 -p "$target_pid" loop:nop >"$SCRATCH/n.out" 2>"$SCRATCH/err" ||
	fail "trace -n: status $?"
same "-n 25" "$(grep -c '"args"' "$SCRATCH/n.out")" 25
same "the summary of -n 25" "$(grep nop: "$SCRATCH/err")" "probectl: loop:nop: 25 hits, 0 lost"
begin=$(date +%s%3N)
"$PROBECTL" trace --count -d 0.5 -p "$target_pid" loop:nop >"$SCRATCH/d.out" 2>"$SCRATCH/err" ||
	fail "trace -d: status $?"
took=$(($(date +%s%3N) - begin))
[ "$took" -ge 450 ] && [ "$took" -lt 30000 ] || fail "-d 0.5 took $took ms"
same_state "$target_pid"
kill -TERM "$target_pid"

# Several tracers see the same hits.
"$PROBECTL" trace -t print -t json -t stack -o /dev/null loop:nop -- "$TARGETS/loop" -s nop -n 7 \
	>/dev/null 2>"$SCRATCH/err" || fail "three tracers: status $?"
same "three tracers" "$(grep nop: "$SCRATCH/err")" "probectl: loop:nop: 7 hits, 0 lost"

# Ten thousand probes at once.
start "$TARGETS/many" 3
save_state "$target_pid"
trace_start many --count --json -p "$target_pid" 'many:*'
wait_on "$target_pid" many:p9999
ask go
same "ten thousand probes" "$answer" "passed 30000"
trace_stop many
same "hits of ten thousand probes" "$("$python" -c '
import json, sys
hits = [json.loads(line)["hits"] for line in open(sys.argv[1]) if "hits" in line]
print(len(hits), min(hits), max(hits))' "$SCRATCH/many.out")" "10000 3 3"
hear
same_state "$target_pid"
tell bye
end_target

# Sites closer together than the length of a jump: each counts, alone, together, and added one
# by one.
names=$("$python" tests/integration/state.py sites "$TARGETS/adjacent" | cut -d' ' -f1)
adjacent()
{
	local name
	start "$TARGETS/adjacent" 1000
	save_state "$target_pid"
	trace_start adjacent --count --json -v -p "$target_pid" "$@"
	wait_on "$target_pid" adjacent:five_second
	ask go
	same "adjacent, $*" "$answer" "passed 1000 wrong 0"
	trace_stop adjacent
	for name in $names; do
		# A refused site is reported; every other one counts.
		grep -q "refused $name " "$SCRATCH/adjacent.err" && continue
		case $name in *:three_second) continue ;; esac # nothing passes it
		same "adjacent, $*: $name" "$(hits_of "$SCRATCH/adjacent.out" "$name")" 1000
	done
	hear
	same_state "$target_pid"
	tell bye
	end_target
}
adjacent 'adjacent:*'
for name in $names; do
	start "$TARGETS/adjacent" 1000
	save_state "$target_pid"
	trace_start one --count --json --keep-going -p "$target_pid" "$name"
	until grep -q tracing "$SCRATCH/one.err"; do
		pause
	done
	"$PROBECTL" enable --keep-going -p "$target_pid" 'adjacent:*' >/dev/null 2>"$SCRATCH/err"
	ask go
	same "adjacent, $name and the others" "$answer" "passed 1000 wrong 0"
	"$PROBECTL" disable --keep-going -p "$target_pid" 'adjacent:*' >/dev/null 2>"$SCRATCH/err"
	trace_stop one
	hear
	same_state "$target_pid"
	tell bye
	end_target
done
finish
