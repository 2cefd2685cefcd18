#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
#
# A program maps memory of its own over probectl's, or unmaps, moves or protects probectl's. It
# keeps what it has mapped, its sites are restored, and every command reports it.
. tests/integration/lib.sh
need_attach
need jq

# taken WHICH HOW: the program takes memory
taken()
{
	ask "$1 $2"
	[[ $answer = taken* ]] || fail "$1 $2: the program says $answer"
	what="$1 $2"
}

# unharmed AFTER: the memory that the program mapped is still there, its text is as before, and it
# runs
unharmed()
{
	ask check
	same "$what, then $1: the program's memory" "$answer" kept
	ask 100
	same "$what, then $1: the program" "$answer" "passed 100"
	same_state "$target_pid"
	end_target
}

begin()
{
	start "$TARGETS/overmap"
	save_state "$target_pid"
	ask 10
}

# ---- Probes that stay on ------------------------------------------------------------

# kept_on WHICH HOW...: a kept session, then `status` and `repair`
kept_on()
{
	local which=$1 how
	shift
	for how; do
		begin
		ctl enable -q -t hist,arg0 -p "$target_pid" overmap:hit
		ask 10
		taken "$which" "$how"
		"$PROBECTL" status -p "$target_pid" >"$SCRATCH/out" 2>"$SCRATCH/status.err"
		# The last page of the code is not in use.
		[ "$which $how" = "code last" ] ||
			says status "mapped memory over that of probectl, or unmapped it"
		ctl repair -p "$target_pid"
		[ "$which $how" != "code last" ] || ctl disable --force -p "$target_pid" overmap:hit
		same "$what: mappings that remain" "$(ours)" 0
		unharmed repair
	done
}
kept_on code full first last exec unmap file memfd move none write
kept_on guard full unmap none
kept_on data full last unmap memfd move none
kept_on all unmap full

# The next command, whichever it is, reports it.
next_command() # next_command HOW ARGS...
{
	local how=$1
	shift
	begin
	ctl enable -q -t ring -p "$target_pid" overmap:hit
	taken code "$how"
	"$PROBECTL" "$@" -p "$target_pid" overmap:hit >"$SCRATCH/out" 2>"$SCRATCH/next.err"
	says next "mapped memory over that of probectl, or unmapped it"
	"$PROBECTL" disable -q --force -p "$target_pid" overmap:hit
	same "$what, then $1: mappings that remain" "$(ours)" 0
	unharmed "$1"
}
for how in full unmap; do
	next_command $how disable
	next_command $how enable
	next_command $how trace -c -d 0.01
done

# ---- Probes of a trace ---------------------------------------------------------------

# wait_said: waits until one of the traces reports it
wait_said()
{
	until cat "$SCRATCH"/{one,other}.err | grep -q "mapped memory over that of"; do
		pause
	done
}

# traced WHICH HOW: two traces, which notice it by themselves
traced()
{
	local one
	begin
	trace_start one -c -p "$target_pid" overmap:hit
	wait_tracing one
	one=$tracer_pid
	trace_start other -o /dev/null -p "$target_pid" overmap:hit
	wait_tracing other
	ask 10
	taken "$1" "$2"
	wait_said
	kill -INT "$one" "$tracer_pid"
	wait "$one"
	wait "$tracer_pid"
	same "$what: mappings that remain" "$(ours)" 0
	unharmed trace
}
traced data full
traced code full
traced guard unmap

# ---- Text that is copied to huge pages ---------------------------------------------------

# Nothing that is mapped from the file has code then: the memory beside it tells which file it was.
start "$TARGETS/overmap"
taken text huge
save_state "$target_pid"
same "$what: listed" "$("$PROBECTL" list --json -p "$target_pid" | jq -r .name)" hit
trace_start huge --json -p "$target_pid" overmap:hit
wait_tracing huge
ask 10
trace_stop huge
same "$what: hits" "$(grep -c '"name":"hit"' "$SCRATCH/huge.out")" 10
unharmed trace

# The copy has our jumps.
begin
bytes=$("$PROBECTL" list -vv -p "$target_pid" overmap:hit | grep 0x)
ctl enable -q -p "$target_pid" overmap:hit
taken text huge
ask 10
same "$what: counted" "$("$PROBECTL" status --json -p "$target_pid" | jq -c '[.enabled, .hits]')" \
	'[true,10]'
ctl disable -q -p "$target_pid" overmap:hit
same "$what: mappings that remain" "$(ours)" 0
same "$what: the text" "$("$PROBECTL" list -vv -p "$target_pid" overmap:hit | grep 0x)" "$bytes"
ask 100
same "$what: the program" "$answer" "passed 100"
end_target

# ---- Text that is copied to a file in memory, or to shared memory --------------------------

# A private mapping of such a file is as good as anonymous memory.
begin
taken text private
save_state "$target_pid"
same "$what: listed" "$("$PROBECTL" list --json -p "$target_pid" | jq -r .name)" hit
ctl enable -q -p "$target_pid" overmap:hit
ask 10
same "$what: counted" "$("$PROBECTL" status --json -p "$target_pid" | jq -c '[.enabled, .hits]')" \
	'[true,10]'
ctl disable -q -p "$target_pid" overmap:hit
same "$what: mappings that remain" "$(ours)" 0
unharmed disable

# A patch of shared memory would reach others, such as a child that runs the same copy.
copied="the program has copied this code to shared memory: a patch would change it in every process"
for how in shared anonymous; do
	begin
	taken text "$how"
	save_state "$target_pid"
	same "$what: listed" "$("$PROBECTL" list --json -p "$target_pid" | jq -r .name)" hit
	"$PROBECTL" list -vv -p "$target_pid" overmap:hit >"$SCRATCH/list.err"
	says list "refused: $copied that has it mapped "
	for command in "trace -c -d 0.01" enable; do
		! "$PROBECTL" $command -p "$target_pid" overmap:hit >"$SCRATCH/out" 2>"$SCRATCH/shared.err" ||
			fail "$what: $command works"
		says shared "$copied that has it mapped\$"
	done
	same "$what: mappings that remain" "$(ours)" 0
	unharmed "$command"
done

# The copy has our jumps, and cannot be written: what they lead to stays.
begin
ctl enable -q -p "$target_pid" overmap:hit
taken text shared
ask 10
same "$what: counted" "$("$PROBECTL" status --json -p "$target_pid" | jq -c '[.enabled, .hits]')" \
	'[true,10]'
! "$PROBECTL" trace -c -d 0.01 -p "$target_pid" overmap:hit >"$SCRATCH/out" 2>"$SCRATCH/shared.err" ||
	fail "$what: a trace begins beside"
says shared "$copied"
! "$PROBECTL" disable -p "$target_pid" overmap:hit >"$SCRATCH/out" 2>"$SCRATCH/shared.err" ||
	fail "$what: disabled"
says shared "it is shared with other processes"
ask 100
same "$what: the program" "$answer" "passed 100"
end_target

# The copy has what the file has, and could be written.
begin
ctl enable -q -p "$target_pid" overmap:hit
taken text restored
save_state "$target_pid"
"$PROBECTL" repair -p "$target_pid" >"$SCRATCH/out" 2>&1
same_state "$target_pid"
"$PROBECTL" disable -q --force -p "$target_pid" overmap:hit >"$SCRATCH/out" 2>&1
same "$what: mappings that remain" "$(ours)" 0
ask 100
same "$what: the program" "$answer" "passed 100"
end_target

# ---- Between a comparison and a write ----------------------------------------------------

# in_stops ARGS…: whatever probectl writes into its own memory, the program stands still
in_stops()
{
	strace -e trace=ptrace,pwrite64 -o "$SCRATCH/strace" "$PROBECTL" "$@" -p "$target_pid" overmap:hit \
		>"$SCRATCH/out" 2>&1 || fail "$*: $(<"$SCRATCH/out")"
	[ "$1" = disable ] || grep -A1 'memfd:probectl' "/proc/$target_pid/maps" >"$SCRATCH/ours"
	"$python" - "$SCRATCH/ours" "$SCRATCH/strace" <<-'END' || fail "$*: probectl writes while the program runs"
		import re, sys
		ours = [[int(end, 16) for end in line.split()[0].split("-")]
		        for line in open(sys.argv[1]) if line[0] != "-" and " r-xp " in line or " rw-p " in line]
		stopped = bad = inside = 0
		for line in open(sys.argv[2]):
		    if re.match(r"ptrace\(PTRACE_(INTERRUPT|DETACH)", line):
		        stopped = "INTERRUPT" in line
		    write = re.match(r"pwrite64\(.*, (\d+)\)\s+=", line)
		    if write and any(start <= int(write[1]) < end for start, end in ours):
		        inside += 1
		        bad += not stopped
		sys.exit(bad > 0 or inside == 0)
	END
}
if command -v strace >/dev/null; then
	begin
	in_stops enable -q
	in_stops enable -q -t hist,arg0
	in_stops disable -q --force
	same "mappings that remain" "$(ours)" 0
	what="nothing" && unharmed "probectl under strace"
else
	echo "writes while the program runs: not looked for, strace is not installed"
fi

# ---- Children --------------------------------------------------------------------------

begin
ctl enable -q -p "$target_pid" overmap:hit
ask fork
child=${answer#child }
ask "code full"
ctl repair -p "$child"
ask check
same "in a child: the program's memory" "$answer" kept
ask 10
same "the child" "$answer" "passed 10"
ctl disable -p "$target_pid" overmap:hit
same_state "$target_pid"
end_target
finish
