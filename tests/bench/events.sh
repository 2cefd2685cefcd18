#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The cost of user events and pmtrace for a dynamically linked program, untraced and while hits
# are counted, compared with a plain probe of sys/sdt.h with a semaphore.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh

program=$tools/events
export LD_LIBRARY_PATH=$BUILD
rounds=9
[ "$quick" = 0 ] || rounds=3

# off KIND CALLS, on KIND CALLS PROBE: nanoseconds of a call
off()
{
	"$program" "$1" "$2" "$rounds"
}
on()
{
	"$PROBECTL" trace -q -c -o /dev/null "$3" -- "$program" "$1" "$2" "$rounds" 2>"$SCRATCH/why"
}

heading "ns a call, above the bare loop" "off" "counted"
if [ ! -x "$program" ]; then
	missing "user events, pmtrace" "not built with libprobe_events and libprobe_pmtrace"
	exit 0
fi
bare=$(off bare 20000000)
# call NAME KIND PROBE
call()
{
	row "$1" "$(above "$(off "$2" 10000000)" "$bare")" "$(above "$(on "$2" 10000000 "$3")" "$bare")"
}
call "STAP_PROBE2 of sys/sdt.h, behind its semaphore" guarded bench:guarded
call "posix_trace_event" event posix_trace:bench
call "pmtracepoint" point pmtrace:point
call "pmtraceobs" obs pmtrace:obs
call "pmtracebegin and pmtraceend" pair 'pmtrace:*'
# names NAME KIND
names()
{
	row "$1" "$(off "$2" 0)" "$(on "$2" 0 'posix_trace:*')"
}
names "posix_trace_eventid_open, of a new name" open
names "a new name, of 100 that are opened, then used" group
names "a new name that is opened and used at once" use
