#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# probectl top: its figures are what the program did; its keys do what its help says, in
# a terminal of any size; and however it ends, terminal and program are as they were.
. tests/integration/lib.sh
need_attach
need tmux jq

# total FILE NAME: of the last table
total()
{
	awk -v name="pairs:$2" '/^#/ { n = "" } $1 == name { n = $3 } END { print n }' "$1"
}

# ---- Lines ------------------------------------------------------------------------------

threads=4 requests=3000
start "$TARGETS/pairs" "$threads" "$requests"
save_state "$target_pid"
"$PROBECTL" top -p "$target_pid" -i 0.2 >"$SCRATCH/lines" 2>"$SCRATCH/err" &
top_pid=$!
on_exit "kill $top_pid 2>/dev/null"
wait_on "$target_pid" pairs:step__done
ask go
said=$answer
hear
sleep 0.5
kill -TERM "$top_pid"
wait "$top_pid"
same "the exit status" "$?" 0
[ ! -s "$SCRATCH/err" ] || fail "top complained: $(head -3 "$SCRATCH/err")"
same "steps" "$(total "$SCRATCH/lines" step__done)" "$(jq .steps <<<"$said")"
same "requests done" "$(total "$SCRATCH/lines" request__done)" "$(($(jq .done <<<"$said") + threads))"
same "requests failed" "$(total "$SCRATCH/lines" request__fail)" "$(jq .failed <<<"$said")"
same "requests begun" "$(total "$SCRATCH/lines" request__start)" "$((threads * requests + threads))"
grep -q '^ pairs:step__done .*[nu]s ' "$SCRATCH/lines" || fail "no latency: $(grep step__done "$SCRATCH/lines" | tail -1)"
# Every thread has begun a request that has no end.
same "in flight" "$(awk '/^#/ { n = "" } $1 == "pairs:request__done" { n = $NF } END { print n }' "$SCRATCH/lines")" "$threads"
grep -q ', all of ' "$SCRATCH/lines" || fail "no last table: $(grep '^#' "$SCRATCH/lines")"
same_state "$target_pid"

# Nobody reads, nothing takes it, nobody is there.
"$PROBECTL" top -p "$target_pid" -i 0.05 'pairs:*' 2>"$SCRATCH/err" | head -1 >/dev/null
same "a closed pipe" "${PIPESTATUS[0]}" 0
[ ! -s "$SCRATCH/err" ] || fail "a closed pipe: $(cat "$SCRATCH/err")"
timeout 20 "$PROBECTL" top -p "$target_pid" -i 0.05 'pairs:*' >/dev/full 2>"$SCRATCH/err"
same "a full disk" "$?" 1
grep -q 'cannot write the output' "$SCRATCH/err" || fail "a full disk: $(cat "$SCRATCH/err")"
same "two tables" "$("$PROBECTL" top -p "$target_pid" -i 0.2 -d 0.3 | grep -c '^#')" 2
same_state "$target_pid"
tell bye
end_target 0

# The last of the processes ends it.
cp "$TARGETS/pairs" "$SCRATCH/pairs-$$"
start "$SCRATCH/pairs-$$" 1 10
"$PROBECTL" top --name "pairs-$$" -i 30 >"$SCRATCH/lines" 2>"$SCRATCH/err" &
top_pid=$!
on_exit "kill $top_pid 2>/dev/null"
wait_on "$target_pid" pairs:step__done
ask go
hear
tell bye
end_target 0
wait "$top_pid"
same "the status when the process has ended" "$?" 0
grep -q "process $target_pid has ended" "$SCRATCH/err" || fail "the end is not told: $(cat "$SCRATCH/err")"
same "what it did until then" "$(total "$SCRATCH/lines" request__start)" 11

# usage MESSAGE ARGS…
usage()
{
	local message=$1
	shift
	"$PROBECTL" top "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "top $*" "$?" 2
	grep -q -- "$message" "$SCRATCH/err" || fail "top $*: $(cat "$SCRATCH/err")"
}
usage 'which process' 'pairs:*'
usage 'there are rate' -p $$ --sort size
usage 'at least 10 ms' -p $$ -i 1ms
usage 'starts no program' -- true
"$PROBECTL" top -p $$ >"$SCRATCH/out" 2>"$SCRATCH/err"
same "a process without probes" "$?" 1
grep -q "no probe" "$SCRATCH/err" || fail "a process without probes: $(cat "$SCRATCH/err")"

# ---- A terminal ---------------------------------------------------------------------------

# A shell in a terminal of 100 columns; a socket's path may have 107 bytes. What tmux runs
# is run by $SHELL, and without that by the user's own, which may be one that runs nothing.
tmux_dir=$(mktemp -d /tmp/probectl-tmux.XXXXXX)
on_exit "rm -rf '$tmux_dir'"
terminal()
{
	tmux -S "$tmux_dir/socket" "$@"
}
on_exit 'terminal kill-server 2>/dev/null'
env -u TMUX SHELL=/bin/sh tmux -S "$tmux_dir/socket" -f /dev/null new-session -d -x 100 -y 20 \
	"env LC_ALL=C.UTF-8 PS1='\$ ' bash --norc --noprofile" || die "tmux does not start"

keys()
{
	terminal send-keys "$@"
}
screen()
{
	terminal capture-pane -p
}
# sees WHAT: until the screen shows that
sees()
{
	local try
	for ((try = 0; try < 200; try++)); do
		screen >"$SCRATCH/screen"
		! grep -q -- "$1" "$SCRATCH/screen" || return 0
		sleep 0.1
	done
	fail "line ${BASH_LINENO[0]}: the screen does not show '$1':"
	cat "$SCRATCH/screen"
	return 1
}
# line WHAT: the first such line of the screen
line()
{
	screen | grep -m 1 -- "$1"
}
# top_start ARGS…: in the terminal, on the target
top_start()
{
	keys -l "clear; $* '$PROBECTL' top -i 0.2 -p $target_pid; echo the status is \$?"
	keys Enter
	sees 'probectl top  ' || die "no screen"
	top_pid=$("$python" - "$target_pid" <<'PYTHON'
import os, sys
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
    except OSError:
        continue
    if b"top" in words[:2] and sys.argv[1].encode() in words:
        print(pid)
PYTHON
	)
}
# top_ended STATUS: back in the shell, and the terminal is as it was
top_ended()
{
	sees "the status is $1"
	keys -l "stty -g >'$SCRATCH/stty.after'; echo it is \"written\""
	keys Enter
	sees 'it is written'
	cmp "$SCRATCH/stty.before" "$SCRATCH/stty.after" ||
		fail "line ${BASH_LINENO[0]}: the terminal is not as it was: $(diff "$SCRATCH/stty.before" "$SCRATCH/stty.after")"
}

keys -l "stty -g >'$SCRATCH/stty.before'; echo it is \"begun\""
keys Enter
sees 'it is begun'

# Counts, orders, filters, the cursor.
requests=200000
start "$TARGETS/pairs" "$threads" "$requests"
save_state "$target_pid"
top_start
sees 'probes are on; the process stood still for'
sees ' PROBE .*HITS/s\* .*TOTAL .*P50 .*OPEN'
keys '?'
sees 'any key goes back'
keys x
sees ' PROBE .*HITS/s\*'
keys n
sees ' PROBE\*'
keys /
keys -l 'STEP'
sees '^filter: STEP_'
keys Enter
sees 'filter: STEP$'
same "the rows that pass" "$(screen | grep -c '^ pairs:')" 2
keys Down
sees 'in /.*/pairs$'
keys Escape
keys Escape
sees '^ pairs:request__done'

# Off and on again, many times, while all threads work: nothing else is lost.
keys -l '/step__done'
keys Enter
sees 'filter: step__done'
keys Home
tell go
for ((i = 0; i < 8; i++)); do
	keys Space
	sees '^-pairs:step__done' || break
	same "sites of it that are patched" \
		"$("$PROBECTL" status -a --json -p "$target_pid" pairs:step__done | jq .patched)" 0
	keys Space
	sees '^ pairs:step__done' || break
done
same "sites of it that are patched again" \
	"$("$PROBECTL" status -a --json -p "$target_pid" pairs:step__done | jq '.patched > 0')" true
hear
said=$answer
hear
keys Escape
keys Escape
sees "^ pairs:request__start .* $((threads * requests + threads))"
sees "^ pairs:step__start .* $(jq .steps <<<"$said")"
[ "$(line '^ pairs:step__done' | awk '{ print $2 }')" -le "$(jq .steps <<<"$said")" ] ||
	fail "more steps than there were: $(line step__done)"
sees '^ pairs:job__done'

# All that are shown.
keys O
sees ' off 7'
same "probes that are on" "$("$PROBECTL" status --json -p "$target_pid" | wc -l)" 0
same_state "$target_pid"
keys A
sees '^ pairs:job__done'
same "probes that are on again" "$("$PROBECTL" status --json -p "$target_pid" | wc -l)" 7

# Time: intervals, a pause.
keys +
sees 'every 0.5s'
keys -
keys -
sees 'every 0.1s'
keys p
sees 'paused'
keys p c
sees 'since the start'
keys c

# Any size.
for size in 1x1 2x2 7x3 20x5 300x60 40x8; do
	terminal resize-window -x "${size%x*}" -y "${size#*x}"
	sleep 0.3
	[ -d "/proc/$top_pid" ] || die "it is gone at $size"
done
sees 'pairs:job__start'
screen | awk 'length > 40 { exit 1 }' || fail "lines are longer than the screen"
terminal resize-window -x 100 -y 20
sees 'OPEN'

# Stopped and continued, as Ctrl-Z and fg do it, and by a signal that nobody can see.
keys C-z
sees Stopped
keys -l "stty -g | cmp - '$SCRATCH/stty.before' && echo it is \"the same\""
keys Enter
sees 'it is the same'
check_alive "$target_pid"
keys -l 'clear; fg'
keys Enter
sees 'probectl top  pairs'
kill -STOP "$top_pid"
sees Stopped
keys -l 'clear; fg; echo the status is $?'
keys Enter
sees 'probectl top  pairs'
keys q
top_ended 0
same_state "$target_pid"

# Other ends: Ctrl-C, a signal, a crash.
top_start
keys C-c
top_ended 0
same_state "$target_pid"
top_start
kill -TERM "$top_pid"
top_ended 0
same_state "$target_pid"
top_start
kill -SEGV "$top_pid"
top_ended 139
"$PROBECTL" repair -p "$target_pid" >/dev/null || fail "repair: status $?"
same_state "$target_pid"

# Nothing on the screen waits for the next look.
keys -l "clear; '$PROBECTL' top -i 1000 -p $target_pid; echo the status is \$?"
keys Enter
sees '^ pairs:request__done'
keys /
keys -l nosuch
sees '(no probe passes the filter)'
keys Escape
sees '^ pairs:request__done'
keys q
top_ended 0

# Without UTF-8, what is cut has dots.
terminal resize-window -x 30 -y 8
top_start LC_ALL=C
sees '^ pairs:..*\.\..*'
! screen | grep -q '[^ -~]' || fail "not ASCII: $(screen | grep '[^ -~]')"
terminal resize-window -x 100 -y 20

# The process ends: the table stays, and it is said.
tell bye
end_target 0
sees "process $target_pid has ended"
sees 'all of'
top_ended 0

# A terminal that takes nothing keeps nobody from ending, and is told the end all the same.
start "$TARGETS/pairs" 1 1
save_state "$target_pid"
env TERM=xterm "$python" - "$PROBECTL" "$target_pid" <<'PYTHON' >"$SCRATCH/out" || fail "a stalled terminal: $(cat "$SCRATCH/out")"
import fcntl, os, pty, select, signal, struct, sys, termios, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], ["probectl", "top", "-i", "0.02", "-p", sys.argv[2]])
time.sleep(1)
deadline = time.monotonic() + 20
# Each size makes it draw all; what was written stays where it is, until there is no more room.
for rows in range(20, 220):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 200, 0, 0))
    time.sleep(0.005)
os.kill(pid, signal.SIGTERM)
while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
    if time.monotonic() > deadline:
        os.kill(pid, signal.SIGKILL)
        sys.exit("it does not end")
    time.sleep(0.05)
if os.waitstatus_to_exitcode(ended[1]):
    sys.exit(f"its status is {ended[1]}")
data = b""
while select.select([fd], [], [], 0.2)[0]:
    try:
        piece = os.read(fd, 65536)
    except OSError:
        break
    if not piece:
        break
    data += piece
if not data.endswith(b"\x1b[?1049l"):
    sys.exit(f"the last that it wrote is {data[-80:]}")
PYTHON
same_state "$target_pid"

# The terminal goes away.
top_start
terminal kill-server
for ((i = 0; i < 100; i++)); do
	[ -d "/proc/$top_pid" ] || break
	sleep 0.1
done
[ ! -d "/proc/$top_pid" ] || fail "top goes on without a terminal"
same_state "$target_pid"
end_process "$target_pid"
finish
