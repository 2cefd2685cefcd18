#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
# One command traces two hundred processes, by pid, by name and as children of one; if some
# cannot be traced, the others still are.
. tests/integration/lib.sh
need_attach
need flock jq

children=200
hits=500

# herd: starts them; sets kids
herd()
{
	start "$TARGETS/herd" "$children" "$hits"
	mapfile -t kids < <(pgrep -P "$target_pid")
	same "children" "${#kids[@]}" "$children"
	# The parent and a few of the others suffice.
	save_state "$target_pid"
	for kid in "${kids[0]}" "${kids[77]}" "${kids[-1]}"; do
		save_state "$kid"
	done
}

# all_on WHAT: waits until trace reports that it traces, and how many
all_on()
{
	wait_tracing many
	same "$1" "$(sed -n 's/.*sites* in each of \([0-9]*\) processes.*/\1/p' "$SCRATCH/many.err")" "$2"
}

# tally: "HITS PROCESSES DISORDERED", over all lines
tally()
{
	"$python" - "$SCRATCH/many.out" <<'PYTHON'
import collections, json, sys
seen = collections.defaultdict(list)
lost = 0
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    if "lost" in item:
        lost += item["lost"]
    elif "args" in item:
        seen[item["pid"]].append(item["args"])
disordered = sum(
    any(number != hits[0][0] or i < hits[k - 1][1] for k, (number, i) in enumerate(hits) if k)
    for hits in seen.values())
print(sum(map(len, seen.values())) + lost, len(seen), disordered)
PYTHON
}

# traced_kids: those that have memory of ours
traced_kids()
{
	local maps=("${kids[@]/#//proc/}")
	grep -l memfd:probectl "${maps[@]/%//maps}" 2>/dev/null
}

# only_the_first WHAT: soon, no other has memory of ours
only_the_first()
{
	until [ "$(traced_kids)" = "/proc/${kids[0]}/maps" ]; do
		pause
	done
	same "$1" "$(traced_kids)" "/proc/${kids[0]}/maps"
}

# all_off KID…: they are as they were, and no other has memory of ours
all_off()
{
	hear_ready=$answer
	for kid in "$@"; do
		same_state "$kid"
	done
	[ -z "$(traced_kids)" ] || fail "mappings are left in $(traced_kids)"
	tell bye
	end_target 0
	same "what the herd did" "$hear_ready" "hits $((hits * (children - gone)))"
}

# said_once FILE: each process is named once
said_once()
{
	! grep -E 'process ([0-9]+)\b.*process \1\b' "$1" || fail "a process is named twice in a line"
}

# All of them, as children.
gone=0
herd
trace_start many --json --children "$target_pid" herd:hit
all_on "--children" "$children"
ask go
trace_stop many
same "--children: hits, processes, disordered" "$(tally)" "$((children * hits)) $children 0"
all_off "$target_pid" "${kids[0]}" "${kids[77]}" "${kids[-1]}"

# By name; counted in the processes, and added up.
herd
trace_start many --count --json --name "herd-$target_pid" herd:hit
all_on "--name" "$children"
ask go
trace_stop many
same "--name: hits" "$(jq -r '.hits' "$SCRATCH/many.out")" "$((children * hits))"
all_off "${kids[0]}" "${kids[77]}" "${kids[-1]}"

# Processes that have different probes: those are counted once, and sites in all.
start "$TARGETS/pairs" 1 0
pairs_pid=$target_pid
start "$TARGETS/pairs" 1 0
second_pid=$target_pid
trace_start sum --count -p "$pairs_pid,$second_pid" 'pairs:step__*'
wait_tracing sum
trace_stop sum
grep -q 'tracing 2 probes, 2 sites in each of 2 processes;' "$SCRATCH/sum.err" ||
	fail "two alike: $(cat "$SCRATCH/sum.err")"
start "$TARGETS/life"
trace_start sum --count -p "$pairs_pid,$second_pid,$target_pid" '/pairs:step|life:hit/'
wait_tracing sum
trace_stop sum
grep -q 'tracing 3 probes, 5 sites in 3 processes;' "$SCRATCH/sum.err" ||
	fail "two alike, and another: $(cat "$SCRATCH/sum.err")"

# By pid: some have ended, one has no such probe, one does not exist. Each is named, the status
# is 1, and the others are traced.
gone=2
herd
kill -KILL "${kids[3]}" "${kids[100]}"
sleep 1000 &
other=$!
on_exit "end_process $other"
list=$(IFS=, && echo "${kids[*]}")
trace_start many --json -p "$list" -p "$other" herd:hit
all_on "-p" "$((children - gone))"
ask go
kill -INT "$tracer_pid"
wait "$tracer_pid"
same "-p: status" $? 1
same "-p: hits, processes, disordered" "$(tally)" "$(((children - gone) * hits)) $((children - gone)) 0"
for kid in "${kids[3]}" "${kids[100]}" "$other"; do
	grep -q "process ${kid}\b" "$SCRATCH/many.err" || fail "nothing is said of process $kid"
done
said_once "$SCRATCH/many.err"
# Some end while they are traced: the trace continues.
all_off "${kids[0]}" "${kids[77]}" "${kids[-1]}"

gone=2
herd
trace_start many --json --children "$target_pid" herd:hit
all_on "--children, of which two end" "$children"
kill -KILL "${kids[5]}" "${kids[150]}"
ask go
trace_stop many
same "hits of those that stayed" "$(tally)" "$(((children - gone) * hits)) $((children - gone)) 0"
all_off "${kids[0]}" "${kids[77]}" "${kids[-1]}"

# Some end while all are switched off, and another probectl has one: that holds up nobody else.
gone=0
herd
trace_start many --json --children "$target_pid" herd:hit
all_on "--children, of which one is locked" "$children"
ask go
exec 9<"/proc/${kids[0]}/fdinfo"
flock 9
kill -INT "$tracer_pid"
for kid in "${kids[@]:100:50}"; do
	kill -KILL "$kid"
	sleep 0.005
done
only_the_first "those that are still on"
exec 9<&-
wait "$tracer_pid"
same "one locked: status" $? 0
same "one locked: hits, processes, disordered" "$(tally)" "$((children * hits)) $children 0"
all_off "${kids[0]}" "${kids[77]}" "${kids[-1]}"

# locked WHAT COMMAND…: the same at the end of another command
locked()
{
	local what=$1 pid
	shift
	herd
	"$PROBECTL" "$@" --children "$target_pid" herd:hit >"$SCRATCH/lines" 2>"$SCRATCH/many.err" &
	pid=$!
	on_exit "stop_process $pid"
	while [ "$(traced_kids | wc -l)" -lt "$children" ]; do
		pause
	done
	wait_on "${kids[-1]}" herd:hit
	ask go
	exec 9<"/proc/${kids[0]}/fdinfo"
	flock 9
	kill -INT "$pid"
	only_the_first "$what: those that are still on"
	exec 9<&-
	wait "$pid"
	same "$what, one locked: status" $? 0
	all_off "${kids[0]}" "${kids[77]}" "${kids[-1]}"
}

locked top top -i 30
same "top: hits" "$(awk '$1 == "herd:hit" { n = $3 } END { print n }' "$SCRATCH/lines")" "$((children * hits))"
locked "full rings" record --full=stop -o "$SCRATCH/stop"
same "full rings: hits" "$("$PROBECTL" report --json "$SCRATCH/stop" |
	jq -c 'select(.type == "record") | [.hits, .lost]')" "[$((children * hits)),0]"

# A selection without processes is an error.
wrong()
{
	local wanted=$1 status
	shift
	"$PROBECTL" trace "$@" >/dev/null 2>"$SCRATCH/err"
	status=$?
	same "trace $*: status" "$status" "$wanted_status"
	grep -qF "$wanted" "$SCRATCH/err" || fail "trace $*: $(cat "$SCRATCH/err")"
}
wanted_status=1
wrong "no process is called 'no-such-name'" --name no-such-name herd:hit
wrong "process $other has no children" --children "$other" herd:hit
wrong "there are no probes in process $other" -p "$other,4194304" herd:hit
wrong "there is no process 4194304" -p "$other,4194304" herd:hit
for command in "top herd:hit" "enable herd:hit" repair; do
	# shellcheck disable=SC2086 # a command and its probe
	"$PROBECTL" $command -p "$other,4194304" >/dev/null 2>"$SCRATCH/err"
	same "$command: status" "$?" 1
	grep -q "process 4194304\b\|process $other\b" "$SCRATCH/err" || fail "$command: $(cat "$SCRATCH/err")"
	said_once "$SCRATCH/err"
done
wanted_status=2
wrong "not both" --name herd herd:hit -- true
wrong "no process given" herd:hit

# A mistake in what was typed is one error, in however many processes it is found.
pids=()
for _ in 1 2 3; do
	"$TARGETS/loop" -s nop -p 100 -n 1000000 >/dev/null &
	pids+=($!)
	on_exit "stop_process $!"
	until [ "$(readlink "/proc/$!/exe")" -ef "$TARGETS/loop" ]; do pause; done
done
all=$(IFS=,; echo "${pids[*]}")
for mistake in "trace -c -f arg9>1" "trace -k arg9 -c" "enable -c -f arg9>1"; do
	# shellcheck disable=SC2086 # a command and its options
	"$PROBECTL" $mistake -p "$all" loop:nop >/dev/null 2>"$SCRATCH/err"
	same "$mistake: status" "$?" 2
	same "$mistake: errors" "$(grep -c 'there is no arg9' "$SCRATCH/err") of $(wc -l <"$SCRATCH/err")" "1 of 1"
	! grep -q 'process [0-9]' "$SCRATCH/err" || fail "$mistake: $(cat "$SCRATCH/err")"
done
finish
