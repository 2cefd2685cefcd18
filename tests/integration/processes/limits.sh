#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
# Targets that have no descriptor or memory left, that lock all memory, or that may not be
# dumped: failures are reported, and leave nothing behind.
. tests/integration/lib.sh
need_attach
need prlimit jq

# ours: number of our mappings and open files
ours()
{
	grep -c 'memfd:probectl' "/proc/$target_pid/maps"
	find "/proc/$target_pid/fd" -lname '*memfd:probectl*' 2>/dev/null
}

# refused WHAT MESSAGE COMMAND...: fails, says why in one line, and leaves nothing
refused()
{
	local what=$1 message=$2
	shift 2
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	same "$what: status" "$?" 1
	grep -q "$message" "$SCRATCH/err" || fail "$what: $(cat "$SCRATCH/err")"
	same "$what: lines" "$(wc -l <"$SCRATCH/err")" 1
	same "$what: what is left" "$(ours)" 0
	same_state "$target_pid"
}

# works WHAT: probectl works all the same
works()
{
	"$PROBECTL" enable -p "$target_pid" "$probe" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "$1: enable: $(cat "$SCRATCH/err")"
	"$PROBECTL" disable -p "$target_pid" "$probe" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "$1: disable: $(cat "$SCRATCH/err")"
	same "$1: what is left" "$(ours)" 0
	same_state "$target_pid"
}

# limit RESOURCE VALUE: the soft limit of the target
limit()
{
	prlimit --pid "$target_pid" "--$1=$2:" || fail "prlimit --$1=$2"
}

start "$TARGETS/semaphores"
probe='demo:*'
save_state "$target_pid"
descriptors=0 # the first that is free
while [ -e "/proc/$target_pid/fd/$descriptors" ]; do
	descriptors=$((descriptors + 1))
done
bytes=$(($(awk '{print $1}' "/proc/$target_pid/statm") * 4096))

limit nofile "$descriptors"
refused "no descriptor is left, enable" 'Too many open files' enable -p "$target_pid" "$probe"
refused "no descriptor is left, trace" 'Too many open files' trace -p "$target_pid" "$probe"
limit nofile $((descriptors + 1))
works "one descriptor is left"
limit nofile 256

limit as "$bytes"
refused "no memory is left, enable" 'Cannot allocate memory' enable -p "$target_pid" "$probe"
limit as $((bytes + (300 << 10)))
refused "memory for code alone" 'Cannot allocate memory' trace -b 4M -p "$target_pid" "$probe"
limit as $((bytes + (2 << 20)))
works "memory for counters"
limit as unlimited
works "no limit any more"

# The controller's own memory: its part of the rings is the last thing it maps.
for buffers in 256M 1G; do
	(
		ulimit -v 700000
		refused "no memory for the rings, -b $buffers" 'cannot map.*Cannot allocate memory' \
			trace -b $buffers -d 10ms -p "$target_pid" "$probe"
		exit "$failures"
	) || failures=$((failures + 1))
done
works "after a start that failed"
ask print
same "semaphores" "$answer" "0 0 0 0 0"
tell quit
end_target

# python_with CALLS: a Python that has made these calls, and answers
python_with()
{
	start "$python" -c "import ctypes, sys
libc = ctypes.CDLL(None)
$1
print('ready', flush=True)
def answer(line):
    return line.upper()
for line in sys.stdin:
    print(answer(line.strip()), flush=True)"
	save_state "$target_pid"
}

probe='python:function__*'
python_with "libc.mlockall(3)"
"$PROBECTL" list -p "$target_pid" "$probe" >/dev/null 2>&1 || skip "this Python has no probes"
works "all memory is locked"
ask text
same "it goes on" "$answer" TEXT
end_target

python_with "libc.sigfillset(mask := ctypes.create_string_buffer(128)); libc.sigprocmask(0, mask, None)"
works "all signals are blocked"
blocked=$(sed -n 's/^SigBlk:[[:space:]]*//p' "/proc/$target_pid/status")
same "they still are" "$blocked" fffffffe7ffbfeff
end_target

if [ "$(id -u)" = 0 ]; then
	python_with "libc.prctl(4, 0)"
	works "not dumpable, as root"
	same "it still is not" "$(stat -c %U "/proc/$target_pid/mem")" root
	end_target
else
	start "$python" -c "import ctypes
ctypes.CDLL(None).prctl(4, 0)
print('ready', flush=True)
input()"
	for command in enable disable trace repair; do
		probes=('python:*')
		[ $command != repair ] || probes=()
		"$PROBECTL" $command -p "$target_pid" "${probes[@]}" \
			>"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
		same "$command of a process that is not dumpable" "$?" 1
		grep -q 'dumpable' "$SCRATCH/err" || fail "$command: $(cat "$SCRATCH/err")"
	done
	tell quit
	end_target
fi
finish
