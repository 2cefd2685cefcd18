#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A probe that the program passes only while another probe's semaphore is raised: the catalogue
# says so, and what selects the one raises the other, and gives it back.
. tests/integration/lib.sh
need_attach
need jq
target=$TARGETS/beside
export XDG_CONFIG_HOME=$SCRATCH/config
mkdir -p "$XDG_CONFIG_HOME/probectl/probes.d"
cat >"$XDG_CONFIG_HOME/probectl/probes.d/beside.probes" <<'P'
provider beside
probe call number
with line
probe done number
pair call done
P

# asked LINE ANSWER: what the target says
asked()
{
	ask "$1"
	same "the answer to '$1', $2" "$answer" "$3"
}

start "$target"
save_state "$target_pid"
asked 3 "before" "3 0 0"

# ---- enable: reference counts ------------------------------------------------------

ctl enable -p "$target_pid" beside:call
asked 3 "enabled" "3 3 1"
ctl enable -p "$target_pid" beside:call
asked 3 "enabled twice" "3 3 2"
ctl enable -p "$target_pid" beside:line
asked 3 "and the other" "3 3 3"
ctl disable -p "$target_pid" beside:line
asked 3 "without the other" "3 3 2"
same "hits" "$("$PROBECTL" status --json -p "$target_pid" beside:call | jq -r .hits)" 12
ctl disable -p "$target_pid" beside:call
asked 3 "disabled once" "3 3 1"
ctl disable -p "$target_pid" beside:call
asked 3 "disabled" "3 0 0"
same_state "$target_pid"
# A plus and a minus in one call.
ctl enable -p "$target_pid" beside:call --disable beside:call
asked 3 "enabled and disabled" "3 0 0"
# A list has names, which are replaced at once: readers may have no catalogue.
ctl enable -p "$target_pid" -t ring 'beside:call(number)'
asked 3 "kept" "3 3 1"
same "what is kept" "$(XDG_CONFIG_HOME=$SCRATCH/none "$PROBECTL" read --json -p "$target_pid" |
	jq -c 'select(.args).args')" '[0]
[1]
[2]'
ctl disable -p "$target_pid" 'beside:call(number)'
"$PROBECTL" enable -p "$target_pid" -t ring 'beside:call(nubmer)' 2>"$SCRATCH/err"
same "status of a mistake" $? 2
same "a mistake" "$(cat "$SCRATCH/err")" "probectl: beside:call: the list '(nubmer)': there is no argument 'nubmer', the probe has number; the nearest is 'number'"
asked 3 "disabled again" "3 0 0"
same_state "$target_pid"

# ---- trace: pairs, children, a kill -------------------------------------------------

trace_start pairs --json -t latency --follow -p "$target_pid" beside:call beside:done
wait_tracing pairs
asked 4 "traced" "4 4 1"
asked f5 "in a child" "5 5 1"
trace_stop pairs
same "pairs" "$(jq -s 'map(.count // 0) | max' "$SCRATCH/pairs.out")" 9
same "ends without a begin" "$(jq -s 'map(.unmatched // 0) | max' "$SCRATCH/pairs.out")" 0
asked 3 "after a trace" "3 0 0"
same_state "$target_pid"

trace_start killed -c -p "$target_pid" beside:call
wait_tracing killed
asked 2 "traced" "2 2 1"
kill -KILL "$tracer_pid"
wait "$tracer_pid" 2>/dev/null
ctl repair -p "$target_pid"
asked 3 "after a kill" "3 0 0"
same_state "$target_pid"
end_target

# ---- Programs that are started ------------------------------------------------------

# started COMMAND…: what a program says that is started with the probe
started()
{
	same "$1" "$(echo 6 | "$PROBECTL" "$@" -- "$target" 2>"$SCRATCH/err" | grep '^6 ')" "6 6 1"
}
started run beside:call
started trace -o "$SCRATCH/trace" -c beside:call
started record -q -o "$SCRATCH/record" beside:call
same "without the other's" "$(echo 6 | "$PROBECTL" run beside:done -- "$target" | grep '^6 ')" "6 0 0"
listed()
{
	"$PROBECTL" list "$@" "$target" beside:call
}
listed -v | grep -q '^ *raises the semaphore, too, of: line$' || fail "list -v: $(listed -v)"
same "list --json" "$(listed -v --json | jq -r .with)" line
finish
