#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
#
# Another user locks every file that can be opened: those in /proc/PID of other users' processes,
# and those of an own process that runs the same program. This neither delays nor misleads root and
# the owner: their processes are traced and switched off as ever.
. tests/integration/lib.sh
need_attach
need setpriv

owner=65534 stranger=65533
# as USER COMMAND…: sets $as, which runs the command as that user
as()
{
	as=(env HOME=/nonexistent setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}")
}

# program USER PROGRAM…: runs the program as that user; sets $started_pid
program()
{
	as "$@"
	"${as[@]}" < <(echo && exec sleep 300) >/dev/null &
	started_pid=$!
	on_exit "end_process $started_pid"
	until "$PROBECTL" list -p "$started_pid" '*:*' >/dev/null 2>&1; do
		pause
	done
}

# in_time WHAT SINCE: took less time than a controller waits for another one, which are 20 seconds
in_time()
{
	[ $((SECONDS - $2)) -lt 20 ] || fail "$1 took $((SECONDS - $2)) seconds"
}

chmod 755 "$SCRATCH"
cp "$TARGETS/world" "$SCRATCH/strangers"
program "$owner" "$SCRATCH/strangers"
owned=$started_pid
save_state "$owned"

# ---- A process of the owner ----------------------------------------------------------

as "$stranger"
hold_lock "$owned" "${as[@]}"
for who in 0 "$owner"; do
	since=$SECONDS
	as "$who" "$PROBECTL"
	"${as[@]}" enable -q -p "$owned" world:hit 2>"$SCRATCH/err" ||
		fail "user $who: enable: $(cat "$SCRATCH/err")"
	"${as[@]}" disable -q -p "$owned" world:hit 2>>"$SCRATCH/err" ||
		fail "user $who: disable: $(cat "$SCRATCH/err")"
	in_time "user $who" "$since"
	same "user $who: locks of a stranger" "$(grep -c lock "$SCRATCH/err")" 0
done
same_state "$owned"
end_process "$holder_pid"

# ---- A process of the stranger's own ------------------------------------------------------

program "$stranger" "$SCRATCH/strangers"
strange=$started_pid
as "$stranger"
hold_lock "$strange" "${as[@]}"
refusal="process $holder_pid ($(<"/proc/$holder_pid/comm")) of user $stranger has locked the probes of process $strange"

since=$SECONDS
trace_start first -c --name strangers world:hit
wait_on "$owned" world:hit
until grep -q tracing "$SCRATCH/first.err"; do
	kill -0 "$tracer_pid" || die "trace: $(cat "$SCRATCH/first.err")"
	pause
done
trace_stop first
in_time "a trace of both" "$since"
same "who is left out" "$(head -1 "$SCRATCH/first.err")" \
	"probectl: warning: $refusal: try again when it has ended"
same_state "$owned"

since=$SECONDS
"$PROBECTL" enable -q --name strangers world:hit 2>"$SCRATCH/err"
same "enable of both: status" "$?" 1
same "enable of both" "$(cat "$SCRATCH/err")" "probectl: $refusal: try again when it has ended"
"$PROBECTL" disable -q --name strangers world:hit 2>/dev/null
in_time "enable and disable of both" "$since"
same_state "$owned"
end_process "$holder_pid"

# Both are traced, and both are stopped: the owner's is switched off at once; the stranger's is
# named and stays on.
trace_start second -c --name strangers world:hit
wait_on "$owned" world:hit
wait_on "$strange" world:hit
until grep -q tracing "$SCRATCH/second.err"; do
	pause
done
as "$stranger"
hold_lock "$strange" "${as[@]}"
kill -STOP "$strange"
since=$SECONDS
kill -INT "$tracer_pid"
wait "$tracer_pid"
same "a trace that cannot be ended: status" "$?" 1
in_time "its end" "$since"
grep -q "process $strange keeps its probes until .probectl repair.: process $holder_pid ($(<"/proc/$holder_pid/comm"))" \
	"$SCRATCH/second.err" || fail "its end: $(cat "$SCRATCH/second.err")"
same_state "$owned"
kill -CONT "$strange"
end_process "$holder_pid"
"$PROBECTL" repair -p "$strange" >/dev/null || fail "repair"
same "after it is repaired" "$(grep -c memfd:probectl "/proc/$strange/maps")" 0

# ---- Many processes of the stranger's -------------------------------------------------------

# Users share the time, and a process with many threads comes later: so the second process that is
# changed is the owner's, however many the stranger has.
pids=()
for who in "$stranger" "$stranger" "$stranger" "$owner"; do
	program "$who" "$TARGETS/pairs" $((${#pids[@]} ? 1 : 64)) 1
	pids+=("$started_pid")
done
until [ "$(awk '/^Threads:/ { print $2 }' "/proc/${pids[0]}/status")" -eq 65 ]; do
	pause
done
options=("${pids[@]/#/-p}")
for command in enable disable; do
	order=$("$PROBECTL" "$command" "${options[@]}" pairs:step__start | awk '{ printf "%s ", $NF }')
	same "$command: the order of the processes" "$order" \
		"${pids[1]} ${pids[3]} ${pids[2]} ${pids[0]} "
done

for pid in "$owned" "$strange" "${pids[@]}"; do
	check_alive "$pid"
	end_process "$pid"
done

# ---- Processes of the stranger that cannot stop ------------------------------------------------

# A thread of each waits in vfork(2), from the start on, or once probes are on. Each would be waited
# for 8 seconds.
cp "$TARGETS/crew" "$SCRATCH/crewed"
# crew USER MODE: sets $started_pid, and $line to a descriptor that leads to its standard input
crew()
{
	rm -f "$SCRATCH/fifo" && mkfifo "$SCRATCH/fifo"
	as "$1" "$SCRATCH/crewed" "$2"
	"${as[@]}" <"$SCRATCH/fifo" >"$SCRATCH/crew.out" &
	started_pid=$!
	on_exit "end_process $started_pid"
	exec {line}>"$SCRATCH/fifo"
	until [ -s "$SCRATCH/crew.out" ]; do
		pause
	done
}
# has_child PID: one of its threads has
has_child()
{
	grep -qs '[0-9]' "/proc/$1"/task/*/children
}
crew "$owner" later
owned=$started_pid
save_state "$owned"
stuck=() lines=()
for _ in 1 2 3; do
	crew "$stranger" vfork
	stuck+=("$started_pid") lines+=("$line")
	until has_child "$started_pid"; do
		pause
	done
done
since=$SECONDS
"$PROBECTL" enable -q --name crewed crew:work 2>"$SCRATCH/err"
same "enable of those in vfork: status" "$?" 1
in_time "enable of those in vfork" "$since"
named=$(grep -c 'vfork(2)' "$SCRATCH/err")
[ "$named" = 3 ] || fail "$named of 3 in vfork are named: $(cat "$SCRATCH/err")"
wait_on "$owned" crew:work
"$PROBECTL" disable -q --keep-going --name crewed crew:work 2>"$SCRATCH/err"
same_state "$owned"
for i in 0 1 2; do
	printf 'release\nquit\n' >&"${lines[i]}"
	wait "${stuck[i]}"
done

stuck=() lines=()
for _ in 1 2 3; do
	crew "$stranger" later
	stuck+=("$started_pid") lines+=("$line")
done
trace_start later -c --name crewed crew:work
until grep -q tracing "$SCRATCH/later.err"; do
	pause
done
for i in 0 1 2; do
	echo fork >&"${lines[i]}"
	until has_child "${stuck[i]}"; do
		pause
	done
done
since=$SECONDS
kill -INT "$tracer_pid"
wait "$tracer_pid"
same "the end of a trace of those in vfork: status" "$?" 1
in_time "the end of a trace of those in vfork" "$since"
named=$(grep -c 'keeps its probes until .probectl repair.*vfork(2)' "$SCRATCH/later.err")
[ "$named" = 3 ] || fail "$named of 3 keep their probes: $(cat "$SCRATCH/later.err")"
same_state "$owned"
for i in 0 1 2; do
	echo release >&"${lines[i]}"
	while has_child "${stuck[i]}"; do
		pause
	done
done
"$PROBECTL" repair --name crewed >/dev/null 2>"$SCRATCH/err" || fail "repair: $(cat "$SCRATCH/err")"
for pid in "${stuck[@]}"; do
	same "after it is repaired" "$(grep -c memfd:probectl "/proc/$pid/maps")" 0
	check_alive "$pid"
done
check_alive "$owned"
finish
