#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# With vm.overcommit_memory=2, a store to a page that is not allocated yet can raise SIGBUS in the
# target. So all pages that hits may write are allocated beforehand, or the command is refused, with
# the needed and the available size. The test mounts its own files over the kernel's setting and
# over /proc/meminfo.
. tests/integration/lib.sh
need_attach
ways=(unshare -rm)
[ "$(id -u)" != 0 ] || ways=(unshare -m)
if [ -z "${OVERCOMMIT_INSIDE-}" ]; then
	"${ways[@]}" true 2>/dev/null || skip "no mount namespace can be made"
	OVERCOMMIT_INSIDE=1 "${ways[@]}" bash "$0"
	exit
fi
echo 2 >"$SCRATCH/setting"
mount --bind "$SCRATCH/setting" /proc/sys/vm/overcommit_memory 2>"$SCRATCH/err" ||
	skip "no file can be mounted over one of /proc: $(<"$SCRATCH/err")"
# left MIB: sets how much memory the machine may still commit
left()
{
	printf 'MemTotal: 1 kB\nCommitLimit: %d kB\nCommitted_AS: %d kB\n' $((($1 + 100) << 10)) $((100 << 10)) >"$SCRATCH/left"
}
left 100000
mount --bind "$SCRATCH/left" /proc/meminfo || die "mount"

# blocks PID: prints the allocated blocks of the session's memory, which PID has open
blocks()
{
	local fd
	for fd in "/proc/$1/fd/"*; do
		case $(readlink "$fd") in
		/memfd:probectl*) stat -L -c %b "$fd" ;;
		esac
	done
}

# ---- No hit touches a new page ----------------------------------------------------------

start "$TARGETS/grows" 1
save_state "$target_pid"
for how in "-b 1M" "-t count -k arg0 --keys 2000" "-t hist,arg0 -k arg1 --keys 50" "-b 128k -t count -t print"; do
	# shellcheck disable=SC2086 # a list of words
	trace_start there -o "$SCRATCH/there.hits" $how -p "$target_pid" grows:hit
	wait_tracing there
	before=$(blocks "$tracer_pid")
	[ -n "$before" ] || fail "trace $how: the session's memory is not open"
	ask "hits 100000"
	same "trace $how: blocks after the hits" "$(blocks "$tracer_pid")" "$before"
	trace_stop there
	rm -f "$SCRATCH/there.hits"
done
same_state "$target_pid"
end_target
start "$TARGETS/pairs" 2 20
save_state "$target_pid"
trace_start spans -t span -b 128k -p "$target_pid" 'pairs:request__start(arg0,str(arg3))' pairs:request__done
wait_tracing spans
before=$(blocks "$tracer_pid")
ask go
hear
same "spans: blocks after the hits" "$(blocks "$tracer_pid")" "$before"
trace_stop spans
same_state "$target_pid"
tell bye
end_target

# ---- Too little memory is left -------------------------------------------------------------

# refused WHAT MESSAGE ARGS…: `probectl ARGS`
refused()
{
	local what=$1 message=$2
	shift 2
	! "$PROBECTL" "$@" -p "$target_pid" grows:hit >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "$what did not fail"
	grep -qE "$message" "$SCRATCH/err" || fail "$what: no '$message': $(head -3 "$SCRATCH/err")"
	same_state "$target_pid"
	same "$what: mappings that are left" "$(grep -c 'memfd:probectl' "/proc/$target_pid/maps")" 0
}
start "$TARGETS/grows" 1
save_state "$target_pid"
# Each processor has two buffers; the session may take half of the memory that is left.
left $((8 * $(getconf _NPROCESSORS_CONF)))
figures='would take [0-9.]+ MiB, and with vm.overcommit_memory=2, the machine has [0-9.]+ MiB left, of which it may take [0-9.]+ MiB'
refused "trace -b 4M" "$figures" trace -b 4M -d 10ms
refused "enable -b 4M" "$figures" enable -t ring -b 4M
refused "a table" "$figures" trace -t hist,arg0 -k arg1 --keys 2000 -d 10ms
"$PROBECTL" trace -d 10ms -p "$target_pid" grows:hit >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "default buffers: $(<"$SCRATCH/err")"
grep -qE 'the machine has [0-9.]+ MiB left: the buffers have 1 MiB for each CPU instead of 4 MiB' "$SCRATCH/err" ||
	fail "default buffers: not said: $(<"$SCRATCH/err")"
same_state "$target_pid"
end_target

# The table of begins has entries for a thousand threads, or for fewer. One is 40 KiB.
start "$TARGETS/pairs" 2 20
save_state "$target_pid"
left $((64 + 4 * $(getconf _NPROCESSORS_CONF)))
trace_start few -t span -p "$target_pid" 'pairs:request__start(arg0,str(arg3))' pairs:request__done
wait_tracing few
ask go
hear
trace_stop few
grep -q " 36 spans, 0 lost" "$SCRATCH/few.err" || fail "a smaller table of begins: $(<"$SCRATCH/few.err")"
same_state "$target_pid"
tell bye
end_target
start "$TARGETS/grows" 1
save_state "$target_pid"

# Another program takes the memory after the check.
if strace -qq -o /dev/null -e inject=fallocate:error=ENOSPC true 2>/dev/null; then
	left 100000
	for ((call = 1; call < 100; call++)); do
		strace -qq -o /dev/null -e trace=fallocate -e inject=fallocate:error=ENOSPC:when=$call \
			"$PROBECTL" trace -b 128k -d 10ms -p "$target_pid" grows:hit >"$SCRATCH/out" 2>"$SCRATCH/err" && break
		grep -qE 'no memory for [0-9]+ KiB that hits may write: with vm.overcommit_memory=2, the machine has [0-9]+ KiB left' "$SCRATCH/err" ||
			fail "fallocate $call: $(head -3 "$SCRATCH/err")"
		same_state "$target_pid"
		same "fallocate $call: mappings that are left" "$(grep -c 'memfd:probectl' "/proc/$target_pid/maps")" 0
	done
	[ "$call" -gt 2 ] || fail "neither code nor data was allocated"
	{
		strace -qq -o /dev/null -e trace=fallocate -e inject=fallocate:signal=KILL:when=2 \
			"$PROBECTL" trace -b 128k -d 10ms -p "$target_pid" grows:hit
	} >"$SCRATCH/out" 2>&1
	"$PROBECTL" repair -p "$target_pid" >"$SCRATCH/out" 2>&1
	same_state "$target_pid"
	same "killed: mappings that are left" "$(grep -c 'memfd:probectl' "/proc/$target_pid/maps")" 0
else
	echo "memory that another program takes first: not tested, strace cannot do it"
fi
end_target
finish
