#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Ten thousand sites, a thousand threads: no time grows with their square. The limit is far
# above what is needed, because machines are busy; how long the target was stopped is only
# printed.
. tests/integration/lib.sh
need_attach

limit=$TEST_SECONDS # seconds for one command

# on COMMAND ARGS…: within the limits; its output goes to $SCRATCH/out
on()
{
	local stopped
	timeout "$limit" "$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "$*: status $?: $(head -3 "$SCRATCH/err")"
	stopped=$(sed -n 's/.*stopped for \([0-9]*\).*us.*/\1/p' "$SCRATCH/out" "$SCRATCH/err")
	[ -z "$stopped" ] || echo "note: $1 with $what: stood still for $stopped us"
}

# states COMMAND ARGS…: how many of `many`'s objects have which count
states()
{
	timeout "$limit" "$PROBECTL" "$@" --json -p "$target_pid" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "$*: status $?: $(head -3 "$SCRATCH/err")"
	"$python" -c '
import collections, json, sys
count = collections.Counter(
    (item["enabled"], item["refcount"]) for item in map(json.loads, sys.stdin) if item["provider"] == "many")
print(*sorted(f"{number}:{on}:{refs}" for (on, refs), number in count.items()))' <"$SCRATCH/out"
}

# ---- Sites --------------------------------------------------------------------------

what="10000 sites"
start "$TARGETS/many" 3
save_state "$target_pid"
on enable -v -p "$target_pid" 'many:*'
same "status" "$(states status)" "10000:True:1"
same "list" "$(states list)" "10000:True:1"
on enable -v -p "$target_pid" 'many:*'
same "status, on twice" "$(states status)" "10000:True:2"
# Another session's stubs are linked before the first one's, and removed again.
trace_start many --count --json -p "$target_pid" 'many:*'
until [ "$(states status)" = 10000:True:3 ]; do
	pause
done
ask go
same "the program" "$answer" "passed 30000"
trace_stop many
same "counts" "$("$python" -c '
import json, sys
hits = [item["hits"] for item in map(json.loads, sys.stdin) if "hits" in item]
print(len(hits), min(hits), max(hits))' <"$SCRATCH/many.out")" "10000 3 3"
on disable -v -p "$target_pid" 'many:*'
same "status, on once" "$(states status)" "10000:True:1"
on disable -v -p "$target_pid" 'many:*'
same "list, off" "$(states list)" "10000:False:0"
hear
same_state "$target_pid"
tell bye
end_target

# ---- Threads --------------------------------------------------------------------------

what="1000 threads"
python311=/usr/bin/python3.11
[ -x "$python311" ] || {
	echo "note: $python311 is not installed: no thousand threads"
	finish
}
start "$python311" -c '
import threading, sys, time
threading.stack_size(131072)
for i in range(1000):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
def called():
    pass
print("ready", flush=True)
for line in sys.stdin:
    called()
    print("called", flush=True)
    if line == "bye\n":
        break
'
same "threads" "$(sed -n 's/^Threads:[[:space:]]*//p' "/proc/$target_pid/status")" 1001
save_state "$target_pid"
for ((i = 0; i < 3; i++)); do
	on enable -v -p "$target_pid" python:function__entry
	ask go
	on disable -v -p "$target_pid" python:function__entry
	same_state "$target_pid"
done
ask bye
end_target
finish
