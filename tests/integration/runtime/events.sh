#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# User events (probe/posix_trace.h): named probes created at any time; threads, children, closed
# descriptors, other C libraries; other tools see them.
. tests/integration/lib.sh
need_attach
need jq

# names PID: the user events that list shows, on one line
names()
{
	"$PROBECTL" list --json -p "$1" 'posix_trace:*' 2>"$SCRATCH/list.err" |
		jq -r .name | sort | tr '\n' ' '
	[ ! -s "$SCRATCH/list.err" ] || fail "list: $(cat "$SCRATCH/list.err")"
}

# hits NAME PROBE [PID]: how many hits a JSON trace contains
hits()
{
	jq -r "select(.args and .name == \"$2\" and .pid == ${3:-.pid}) | .pid" \
		"$SCRATCH/$1.out" | wc -l
}

# ---- Names -------------------------------------------------------------------------------

unnamed=posix_trace_unnamed_userevent
start "$TARGETS/events"
same "before there are any" "$(names "$target_pid")" "$unnamed "
ask "open request.start"
first=$answer
ask "open request end: 100%"
[ "$answer" != "$first" ] || fail "two names, one identifier: $answer"
ask "open request.start"
same "the identifier of a name" "$answer" "$first"
same "three probes" "$(names "$target_pid")" "$unnamed request end: 100% request.start "
ask "open 0123456789012345678901234567890123456789012345678901234567890123x"
same "a name of 65 bytes" "$answer" "error 36"
save_state "$target_pid"

# Untraced, nothing happens. Traced, every hit comes with its data.
ask "pass 1000 before"
trace_start some --json -p "$target_pid" 'posix_trace:request.start(str(arg0),arg1)'
wait_on "$target_pid" posix_trace:request.start
ask "pass 7 hello"
ask "unnamed 5"
trace_stop some
same "hits of one name" "$(jq -c 'select(.args) | .args' "$SCRATCH/some.out" | sort | uniq -c | xargs)" \
	'7 [hello,5]'
# The data unchanged, up to -s bytes: truncation is marked.
trace_start data --json -s 64 -p "$target_pid" 'posix_trace:request.start(bytes(arg0,arg1),str(arg0,arg1),hex(arg0,4),str(arg0,2))'
wait_on "$target_pid" posix_trace:request.start
ask "pass 1 hello"
for length in 0 1 64 65 300; do
	ask "bytes 1 $length"
done
trace_stop data
hex=$("$python" -c 'print(bytes(range(64)).hex())')
same "the data of events" "$(jq -c 'select(.args) | [.args[0], .args[1], .truncated]' "$SCRATCH/data.out")" \
	"[\"68656c6c6f\",\"hello\",null]
[\"\",\"\",null]
[\"00\",\"\",null]
[\"$hex\",\"\",null]
[\"$hex\",\"\",[0]]
[\"$hex\",\"\",[0]]"
# Without a list, too, in JSON and in lines.
trace_start plain --json -p "$target_pid" 'posix_trace:request.start'
wait_on "$target_pid" posix_trace:request.start
ask "bytes 1 3"
trace_stop plain
same "the data of an event without a list" "$(jq -c 'select(.args) | .args' "$SCRATCH/plain.out")" '["000102",3]'
# The same of a stream.
env --default-signal=INT "$PROBECTL" record --full=loop -o "$SCRATCH/stream" -p "$target_pid" \
	posix_trace:request.start >"$SCRATCH/stream.err" 2>&1 </dev/null &
tracer_pid=$!
on_exit "end_process $tracer_pid"
wait_on "$target_pid" posix_trace:request.start
ask "bytes 1 3"
trace_stop stream
same "the data of an event in a stream" "$("$PROBECTL" export -F json "$SCRATCH/stream" |
	jq -c 'select(.name == "request.start") | .args')" '["000102",3]'
trace_start line -p "$target_pid" 'posix_trace:request.start'
wait_on "$target_pid" posix_trace:request.start
ask "bytes 1 3"
trace_stop line
same "a line without a list" "$(sed 's/.*request.start *//' "$SCRATCH/line.out")" 'data={000102}'
same "as many bytes as a number says" "$(jq -c 'select(.args) | .args[2:]' "$SCRATCH/data.out" | head -1)" \
	'["68656c6c","he"]'
same_state "$target_pid"
trace_start all --json -p "$target_pid" 'posix_trace:*'
wait_on "$target_pid" posix_trace:$unnamed
ask "pass 7 hello"
ask "unnamed 5"
ask "storm 4 10000"
trace_stop all
same "hits of a name" "$(($(hits all request.start) + $(jq -s 'map(.lost // 0) | add' "$SCRATCH/all.out")))" 40007
same "hits of the unnamed" "$(hits all $unnamed)" 5
same_state "$target_pid"

# Names with colons and parentheses.
ask "open db:open"
ask "open db:done(rows)"
trace_start quoted --json -p "$target_pid" 'posix_trace:"db:open"' 'posix_trace:"db:done(rows)"(str(arg0,arg1))'
wait_tracing quoted
ask "pass 2 rows"
ask "open db:open"
ask "pass 1 rows"
trace_stop quoted
same "hits of quoted names" "$(jq -r 'select(.args) | .name + " " + .args[0]' "$SCRATCH/quoted.out" | xargs)" \
	"db:done(rows) rows db:done(rows) rows db:open 726f7773"
"$PROBECTL" trace -p "$target_pid" posix_trace:db:open >/dev/null 2>"$SCRATCH/nearest.err" && fail "without quotes"
ask "open request.start"
grep -q 'the nearest: posix_trace:"db:open"' "$SCRATCH/nearest.err" || fail "no hint: $(cat "$SCRATCH/nearest.err")"
# Each name is printed as it is typed: given back, it names this probe only.
"$PROBECTL" list -p "$target_pid" 'posix_trace:*' | sed -n '2,$s/  .*//p' | grep db: >"$SCRATCH/names"
same "listed names" "$(paste -sd' ' "$SCRATCH/names")" 'posix_trace:"db:done(rows)" posix_trace:"db:open"'
while read -r name; do
	same "$name, given back" "\"$("$PROBECTL" list --json -p "$target_pid" "$name" | jq -r .name)\"" "${name#*:}"
	"$PROBECTL" enable -p "$target_pid" "$name" >/dev/null || fail "enable $name"
	same "status of $name" "$("$PROBECTL" status -p "$target_pid" | grep -oF "$name")" "$name"
	"$PROBECTL" disable -p "$target_pid" "$name" >/dev/null || fail "disable $name"
done <"$SCRATCH/names"
trace_start counted -c -p "$target_pid" 'posix_trace:*'
wait_tracing counted
ask "open db:open"
ask "pass 1 rows"
trace_stop counted
grep -q '^posix_trace:"db:open" *1$' "$SCRATCH/counted.out" || fail "counts: $(cat "$SCRATCH/counted.out")"
ask "open request.start"
same_state "$target_pid"

# Counted in the target, with threads, every hit counts.
"$PROBECTL" enable -p "$target_pid" posix_trace:request.start >/dev/null || fail "enable"
ask "storm 4 50000"
same "hits of four threads" "$("$PROBECTL" status --json -p "$target_pid" | jq .hits)" 200000
"$PROBECTL" disable -p "$target_pid" posix_trace:request.start >/dev/null || fail "disable"
same_state "$target_pid"

# Recorded, and read by other tools.
if command -v babeltrace2 >/dev/null; then
	env --default-signal=INT "$PROBECTL" record -s 64 -o "$SCRATCH/record" -p "$target_pid" \
		'posix_trace:*(bytes(arg0,arg1),arg1)' >"$SCRATCH/record.err" 2>&1 </dev/null &
	tracer_pid=$!
	on_exit "end_process $tracer_pid"
	wait_on "$target_pid" posix_trace:request.start
	ask "pass 3 hello"
	ask "bytes 1 300"
	trace_stop record
	babeltrace2 "$SCRATCH/record" >"$SCRATCH/read" 2>"$SCRATCH/read.err"
	same "what babeltrace2 says" "$(cat "$SCRATCH/read.err")" ""
	same "events in the record" "$(grep -c 'posix_trace:request.start' "$SCRATCH/read")" 4
	same_state "$target_pid"
fi

# ---- Made while they are traced ------------------------------------------------------------

# The first use is seen, because the first thread that uses a name waits until it is probed.
trace_start late --json --follow -p "$target_pid" 'posix_trace:new.*(str(arg0))'
until grep -q tracing "$SCRATCH/late.err"; do
	pause
done
for ((i = 0; i < 10; i++)); do
	ask "new 3 late$i"
done
same "nobody traces that" "$answer" "passed 3"
trace_stop late
same "hits of names that came later" \
	"$(jq -r 'select(.args) | .name + " " + .args[0]' "$SCRATCH/late.out" | sort | uniq -c | xargs)" \
	"$(for ((i = 0; i < 10; i++)); do echo "3 new.late$i late$i"; done | xargs)"
same_state "$target_pid"

# It waits for all names that are open, so a hundred take as long as one. A signal handler may be
# the first user.
trace_start group --json -c --follow -p "$target_pid" 'posix_trace:many.*' 'posix_trace:handler.*' 'posix_trace:loading.*'
until grep -q tracing "$SCRATCH/group.err"; do
	pause
done
ask "many 100 group"
[ "${answer#waited }" -lt 20 ] || fail "100 names, opened and then used: $answer"
ask "handler 3 late"
same "a name that a signal handler uses first" "$answer" "passed 3"
ask "loading 3 late"
same "a name that is first used while the loader works" "$answer" "passed 3"
trace_stop group
same "hits of a hundred names" \
	"$(jq -s '[.[] | select((.name // "" | startswith("many")) and .hits == 1)] | length' "$SCRATCH/group.out")" 100
same "hits in the handler, and while the loader works" \
	"$(jq 'select(.name == "handler.late" or .name == "loading.late") | .hits' "$SCRATCH/group.out" | xargs)" "3 3"
same_state "$target_pid"

# ---- Children ---------------------------------------------------------------------------------

# A child has its parent's events, and may open further ones.
trace_start family --json --follow -p "$target_pid" 'posix_trace:request.start'
wait_on "$target_pid" posix_trace:request.start
ask "open request.start"
ask fork
child=${answer#child }
ask "pass 4 child"
ask "open of.the.child"
same "the child's events" "$(names "$child" | tr ' ' '\n' | grep -c of.the.child)" 1
same "the parent's events" "$(names "$target_pid" | tr ' ' '\n' | grep -c of.the.child)" 0
trace_stop family
same "hits of the child" "$(hits family request.start "$child")" 4
trace_start child --json -p "$child" posix_trace:of.the.child
wait_on "$child" posix_trace:of.the.child
ask "pass 6 child"
trace_stop child
same "hits of the child's own event" "$(hits child of.the.child "$child")" 6
ask back
same "the child's status" "$answer" "status 0"
same_state "$target_pid"

# The child may be the first user of a name that its parent has opened.
trace_start heirs --json --follow -p "$target_pid" 'posix_trace:heir*'
until grep -q tracing "$SCRATCH/heirs.err"; do
	pause
done
ask "open heirloom"
ask fork
child=${answer#child }
ask "pass 4 child"
ask back
ask "pass 2 parent"
trace_stop heirs
same "hits of a name that the child uses first" "$(hits heirs heirloom "$child")" 4
same "and then the parent" "$(hits heirs heirloom "$target_pid")" 2
same_state "$target_pid"

# ---- Without the descriptors ---------------------------------------------------------------------

# A controller can no longer read their files, unless it may open what is mapped. Nothing else
# changes for the program.
ask shut
ask "pass 3 hello"
same "a program that closed all descriptors" "$answer" "passed 3"
[ -n "$(names "$target_pid")" ] || fail "no list without the descriptors"
check_alive "$target_pid"
tell quit
end_target 0

# ---- From the start, and in other worlds -------------------------------------------------------------

printf '%s\n' "new 5 start" "unnamed 2" |
	"$PROBECTL" trace --json -o "$SCRATCH/run.out" 'posix_trace:*' -- "$TARGETS/events" >/dev/null \
		2>"$SCRATCH/run.err" || fail "trace -- events: $(cat "$SCRATCH/run.err")"
same "hits from the start" "$(hits run new.start) $(hits run $unnamed)" "5 2"

# static: without a loader, controllers are not notified of new events, but can trace existing
# ones.
read -ra flags <tests/targets/runtime/events.flags
cc -O2 -g -static -o "$SCRATCH/static" tests/targets/runtime/events.c "${flags[@]}" ||
	fail "no static program"
start "$SCRATCH/static"
ask "open in.a.static.program"
save_state "$target_pid"
trace_start static --json -p "$target_pid" posix_trace:in.a.static.program
wait_on "$target_pid" posix_trace:in.a.static.program
ask "pass 9 static"
trace_stop static
same "hits in a static program" "$(hits static in.a.static.program)" 9
same_state "$target_pid"
tell quit
end_target 0

# The shared library, for a dynamically linked program.
cc -O2 -g -Ilibprobe/include -D_GNU_SOURCE -I. -o "$SCRATCH/shared" tests/targets/runtime/events.c \
	-L"$BUILD" -lprobe_events -lpthread || fail "not linked with libprobe_events.so"
same "what libprobe_events.so needs" \
	"$(readelf -d "$BUILD/libprobe_events.so" | grep -o 'Shared library: .*' |
		grep -v ld-linux-aarch64 | xargs)" \
	"Shared library: [libc.so.6]"
export LD_LIBRARY_PATH=$BUILD
start "$SCRATCH/shared"
ask "open shared.library"
save_state "$target_pid"
trace_start shared --json -t stack -p "$target_pid" 'posix_trace:*'
wait_on "$target_pid" posix_trace:shared.library
ask "pass 4 x"
trace_stop shared
same "the call stack of an event" \
	"$(jq -r 'select(.frames) | "\(.count) \([.frames[].symbol][:2] | join(","))"' "$SCRATCH/shared.out")" \
	"4 posix_trace_event,main"
same_state "$target_pid"

# The example: a probe for each state.
cc -std=gnu11 -O2 -Wall -Wextra -Werror -Ilibprobe/include docs/examples/events/machine.c \
	-o "$SCRATCH/machine" -L"$BUILD" -lprobe_events || fail "the example does not compile"
printf '%s\n' idle busy "not idle" busy | "$PROBECTL" trace --json -o "$SCRATCH/machine.out" \
	'posix_trace:*(str(arg0,arg1))' -- "$SCRATCH/machine" 2>"$SCRATCH/machine.err" ||
	fail "the example: $(cat "$SCRATCH/machine.err")"
same "the states of the example" \
	"$(jq -r 'select(.args) | "\(.args[0])>\(.name)"' "$SCRATCH/machine.out" | tr '\n' ' ')" \
	"start>idle idle>busy busy>not idle not idle>busy "

# A program that is written for <trace.h> of the standard alone, strictly, in C and in C++.
strict=(-std=c99 -pedantic -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L
	-Ilibprobe/include/probe/standard)
cc "${strict[@]}" -o "$SCRATCH/standard" tests/targets/runtime/trace_h.c -L"$BUILD" -lprobe_events ||
	fail "<trace.h>: a program of the standard does not compile"
echo '#include <trace.h>' | g++ "${strict[@]/-std=c99/-std=c++17}" -fsyntax-only -x c++ - ||
	fail "<trace.h> is no C++"
"$PROBECTL" trace --json -o "$SCRATCH/standard.out" 'posix_trace:a.name.*(str(arg0,arg1))' -- \
	"$SCRATCH/standard" >"$SCRATCH/standard.said" 2>"$SCRATCH/standard.err" ||
	fail "<trace.h>: $(cat "$SCRATCH/standard.err")"
same "what it prints" "$(cat "$SCRATCH/standard.said")" "record event 1 1"
same "its events" "$(jq -r 'select(.args and .args[0] == .name) | .name' "$SCRATCH/standard.out" |
	sort -u | wc -l)" 32

# As many names as wanted, opened while they are counted: each is seen from its first use.
{
	for ((i = 0; i < 300; i++)); do
		echo "new 2 number$i"
	done
} >"$SCRATCH/many"
"$PROBECTL" trace --json -c -o "$SCRATCH/many.out" 'posix_trace:new.*' -- "$TARGETS/events" \
	<"$SCRATCH/many" >/dev/null 2>"$SCRATCH/many.err" || fail "300 names: $(cat "$SCRATCH/many.err")"
same "300 names" "$(jq -s '[.[] | select(.hits == 2)] | length' "$SCRATCH/many.out")" 300
same "what is said of them" "$(grep -c refused "$SCRATCH/many.err")" 0

# What parent and child open after a fork is not seen in the other.
tell quit
end_target 0
start "$TARGETS/events"
ask "open before"
ask fork
child=${answer#child }
ask "open child"
same "names of the child" "$(names "$child")" "before child $unnamed "
ask back
ask "open parent"
same "names of the parent" "$(names "$target_pid")" "before parent $unnamed "
tell quit
end_target 0
start "$SCRATCH/shared"
ask "open shared.library"

# gdb reads the file of an event. Without gdb this part is left out.
if command -v gdb >/dev/null; then
	for link in "/proc/$target_pid/fd"/*; do
		[[ $(readlink "$link") != /memfd:posix_trace* ]] || cat "$link" >"$SCRATCH/event.so"
	done
	gdb -batch -nx -ex 'info probes stap posix_trace' "$SCRATCH/event.so" 2>/dev/null |
		grep -q 'posix_trace *shared.library' || fail "gdb sees no probe in the file of an event"
fi
tell quit
end_target 0
finish
