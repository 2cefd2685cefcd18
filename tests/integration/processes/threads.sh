#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Threads that come and go, signal handlers, deep stacks and exceptions, while probes are
# enabled and disabled.
. tests/integration/lib.sh
need_attach

hits_in()
{
	"$python" -c '
import json, sys
total = {}
for line in open(sys.argv[1]):
    item = json.loads(line)
    if "hits" in item:
        total[item["name"]] = total.get(item["name"], 0) + item["hits"]
print(" ".join(str(total.get(name, 0)) for name in sys.argv[2:]))' "$@"
}

# 3,000 short threads, counted from the first to the last.
"$PROBECTL" trace --count --json -o "$SCRATCH/threads.out" threads:hit -- \
	"$TARGETS/threads" -c 3000 -n 100 >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
	fail "trace -- threads: status $?: $(head -3 "$SCRATCH/err")"
same "the program" "$(grep threads "$SCRATCH/stdout")" "threads 3000 hits 300000"
same "hits of threads that exit" "$(hits_in "$SCRATCH/threads.out" hit)" 300000

# Enabled and disabled 60 times, while threads are created all the time.
start "$TARGETS/threads" -l 12 -n 50
save_state "$target_pid"
for ((i = 0; i < 30; i++)); do
	"$PROBECTL" enable -p "$target_pid" threads:hit >/dev/null 2>"$SCRATCH/err" ||
		fail "enable $i: $(cat "$SCRATCH/err")"
	"$PROBECTL" disable -p "$target_pid" threads:hit >/dev/null 2>"$SCRATCH/err" ||
		fail "disable $i: $(cat "$SCRATCH/err")"
done
for ((i = 0; i < 10; i++)); do
	"$PROBECTL" trace --count -d 0.02 -p "$target_pid" threads:hit >"$SCRATCH/out" \
		2>"$SCRATCH/err" || fail "trace $i: $(head -3 "$SCRATCH/err")"
done
same_state "$target_pid"
ask stop
case $answer in
threads*) ;;
*) fail "threads: got '$answer'" ;;
esac
hear
tell bye
end_target

# Probes in a signal handler that interrupts stubs.
start "$TARGETS/signals" storm 2
save_state "$target_pid"
trace_start storm --count --json -p "$target_pid" 'signals:*'
wait_on "$target_pid" signals:handler
ask go
trace_stop storm
read -r _ main _ handler <<<"$answer"
same "hits under signals" "$(hits_in "$SCRATCH/storm.out" main handler)" "$main $handler"
hear
same_state "$target_pid"
tell bye
end_target

# … and enabled and disabled meanwhile.
start "$TARGETS/signals" storm 3
save_state "$target_pid"
tell go
for ((i = 0; i < 20; i++)); do
	"$PROBECTL" trace --json -d 0.03 -o "$SCRATCH/storm.out" -p "$target_pid" 'signals:*' \
		2>"$SCRATCH/err" || fail "trace $i in a storm: $(head -3 "$SCRATCH/err")"
done
same_state "$target_pid"
hear
hear
tell bye
end_target

# Interrupted system calls continue as usual.
start "$TARGETS/signals" sleep 3
save_state "$target_pid"
tell go
for ((i = 0; i < 25; i++)); do
	"$PROBECTL" trace --count -d 0.03 -p "$target_pid" signals:main >/dev/null \
		2>"$SCRATCH/err" || fail "trace $i of sleepers: $(head -3 "$SCRATCH/err")"
done
hear
same "calls with a wrong result" "${answer##* }" 0
hear
same_state "$target_pid"
tell bye
end_target

# Recursion, small stacks, an alternate stack.
"$PROBECTL" trace --count --json -o "$SCRATCH/deep.out" 'recursive:*' -- \
	"$TARGETS/recursive" 20000 </dev/null >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
	fail "trace -- recursive: status $?: $(head -3 "$SCRATCH/err")"
deep=$(sed -n 's/^hits //p' "$SCRATCH/stdout")
same "hits in recursion" "$(hits_in "$SCRATCH/deep.out" down up)" "$deep $deep"

# C++ exceptions through moved calls, counted and recorded, with every plan.
for plan in behind pun behind,pun; do
	"$PROBECTL" trace --json -o "$SCRATCH/throw.out" --plan "$plan" --keep-going 'cxx:*' -- \
		"$TARGETS/throw" 3000 </dev/null >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
		fail "exceptions, $plan: status $?: $(head -3 "$SCRATCH/err")"
	same "exceptions, $plan" "$(grep caught "$SCRATCH/stdout")" "caught 2000 cleaned 3000"
done
finish
