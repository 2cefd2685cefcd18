# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Shared by the integration tests, which source it. tests/run.sh sets BUILD, PROBECTL, TARGETS,
# SCRATCH and RUN_AS_USER; a test may also be run by hand.

set -u
export LC_ALL=C.UTF-8
# Unlike C, C.UTF-8 does not turn off translated messages.
unset LANGUAGE
BUILD=${BUILD:-$PWD/build}
PROBECTL=${PROBECTL:-$BUILD/probectl}
TARGETS=${TARGETS:-$BUILD/tests/targets}
RUN_AS_USER=${RUN_AS_USER-}
if [ -z "${SCRATCH-}" ]; then
	SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/probectl-test.XXXXXX")
	export SCRATCH
	own_scratch=$SCRATCH
fi
integration=$(dirname "${BASH_SOURCE[0]}")
python=/usr/bin/python3
failures=0
# The limit of whatever a test waits for, and nearly that of the test.
TEST_SECONDS=${TEST_SECONDS:-300}

# ---- Results -----------------------------------------------------------------

# skip REASON: ends a test that cannot run
skip()
{
	echo "$1"
	exit 77
}

# fail MESSAGE: records a failure and continues
fail()
{
	echo "FAIL: $1"
	failures=$((failures + 1))
}

# die MESSAGE: fails and ends the test
die()
{
	echo "FAIL: $1"
	exit 1
}

# pause: for a loop that waits for an event. Ends the test when its time is over.
pause()
{
	((SECONDS < TEST_SECONDS)) || {
		head -vn 5 "$SCRATCH"/*.err 2>/dev/null
		die "${BASH_SOURCE[1]##*/}: line ${BASH_LINENO[0]}: what is waited for does not come"
	}
	sleep 0.05
}

# same WHAT GOT WANTED
same()
{
	[ "$2" = "$3" ] || fail "$1: got '$2', wanted '$3'"
}

# The last line of every test.
finish()
{
	[ "$failures" = 0 ] || exit 1
	exit 0
}

# in_all: is this `make check-all`? What follows `in_all || finish` is about the same promises as
# what is before it, with more of everything.
in_all()
{
	[ -n "${TEST_ALL-}" ]
}

# need PROGRAM…: skips the test if one is missing
need()
{
	local program
	for program; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}

# has_probes FILE: a program that is built with probes, which its packager may have left out
has_probes()
{
	[ -e "$1" ] && readelf -SW "$1" | grep -qF .note.stapsdt
}

# Yama may deny access to users who are neither root nor ancestors of the target.
need_attach()
{
	local scope
	scope=$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)
	[ "$scope" = 0 ] || [ "$(id -u)" = 0 ] ||
		skip "kernel.yama.ptrace_scope is $scope: attaching to other programs needs root"
}

# tells_ends: does the kernel tell how a process ended that its parent has waited for? Before that,
# Linux 6.15, it is only known if probectl comes first.
tells_ends()
{
	printf '%s\n' 6.15 "$(uname -r)" | sort -CV
}

# same_end WHAT GOT WANTED: same(), of a result that depends on that
same_end()
{
	! tells_ends || same "$@"
}

# has_short_nops: is the nop of a site shorter than a jump, which then replaces several instructions?
has_short_nops()
{
	[ "$(uname -m)" = x86_64 ]
}

# need_short_nops: skips what is about such sites
need_short_nops()
{
	has_short_nops ||
		skip "the nop of a site is as long as a jump here: no jump needs the bytes around it"
}

# What a debugger writes over an instruction.
breakpoint=cc
[ "$(uname -m)" = x86_64 ] || breakpoint=000020d4

at_exit=()
# on_exit COMMAND: commands run in reverse order
on_exit()
{
	at_exit=("$1" "${at_exit[@]}")
}

# is_ours PID: is it this shell's child, or does it know this test's folder? The number of a process
# that has ended may be that of another test's by now.
is_ours()
{
	grep -qE "^PPid:\s+($$|$BASHPID)$" "/proc/$1/status" ||
		grep -qzFx "SCRATCH=$SCRATCH" "/proc/$1/environ"
} 2>/dev/null

# end_process PID: kills it without a message of the shell
end_process()
{
	! is_ours "$1" || kill -KILL "$1"
	wait "$1"
} 2>/dev/null

# stop_process PID…: asks them to end
stop_process()
{
	local pid
	for pid; do
		! is_ours "$pid" || kill "$pid"
	done
} 2>/dev/null

clean_up()
{
	local command
	for command in "${at_exit[@]}"; do
		eval "$command"
	done
	[ -z "${own_scratch-}" ] || rm -rf "$own_scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# ---- A target that is driven by lines ------------------------------------------

# start PROGRAM ARGS…: starts it and waits for its first line. Sets target_pid.
start()
{
	[ -x "$1" ] || [ -n "$(command -v "$1")" ] || skip "$1 is not built"
	coproc TARGET { exec "$@" 2>"$SCRATCH/target.err"; }
	target_pid=$TARGET_PID
	exec {target_out}<&"${TARGET[0]}" {target_in}>&"${TARGET[1]}"
	on_exit "end_process $target_pid"
	hear
}

# hold_lock PID [COMMAND…]: takes a shared lock of each file in /proc/PID that can be opened.
# COMMAND runs the program that does so, for example as another user. Sets $holder_pid; the locks
# end with that process.
hold_lock()
{
	local pid=$1 said=$SCRATCH/held.$1
	shift
	rm -f "$said"
	"$@" "$python" - "$pid" >"$said" <<-'END' &
		import fcntl, glob, os, sys, time
		held = []
		folder = "/proc/" + sys.argv[1]
		for path in [folder] + glob.glob(folder + "/*"):
		    try:
		        held.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
		        fcntl.flock(held[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
		    except OSError:
		        pass
		print("held", flush=True)
		time.sleep(300)
	END
	holder_pid=$!
	on_exit "end_process $holder_pid"
	until grep -qs held "$said"; do
		kill -0 "$holder_pid" || die "no lock can be taken"
		sleep 0.05
	done
}

# hear: reads the target's next line into $answer
hear()
{
	answer=
	IFS= read -r -t "$TEST_SECONDS" -u "$target_out" answer ||
		die "the target said nothing: $(cat "$SCRATCH/target.err")"
}

# tell LINE, ask LINE: send a line; ask also waits for the answer
tell()
{
	echo "$1" >&"$target_in" || fail "the target takes no more lines"
}
ask()
{
	tell "$1"
	hear
}

# pass N: a target of tests/targets/sites/passes.h passes everything N times
pass()
{
	ask "$1"
	same "the program" "$answer" "passed $1 wrong 0"
}

# ctl ARGS…: probectl must succeed
ctl()
{
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "probectl $*: status $?: $(cat "$SCRATCH/err")"
}

# says NAME MESSAGE: a line of $SCRATCH/NAME.err has it
says()
{
	grep -q -e "$2" "$SCRATCH/$1.err" || fail "no '$2': $(head -3 "$SCRATCH/$1.err")"
}

# free_port: a port without a listener
free_port()
{
	"$python" -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# ours: how many mappings of the target have our name
ours()
{
	grep -c 'memfd:probectl' "/proc/$target_pid/maps"
}

# enabled_of PROVIDER: NAME HITS PATCHED/SITES of each of its probes that are on in the target
enabled_of()
{
	"$PROBECTL" status --json -p "$target_pid" "$1:*" |
		jq -r 'select(.refcount > 0) | "\(.name) \(.hits) \(.patched)/\(.sites)"' | sort
}

# all_enabled HITS PROBE...: what that is when these are on
all_enabled()
{
	printf '%s\n' "${@:2}" | sed "s|^[^:]*:||; s|\$| $1 1/1|"
}

# switch_singly PROBE...: these are on: each is disabled and enabled again
switch_singly()
{
	local name
	for name in "$@"; do
		ctl disable -p "$target_pid" "$name"
		pass 1
		same "$name is off" "$(enabled_of "${name%%:*}" | grep -c "^${name#*:} ")" 0
		ctl enable -p "$target_pid" "$name"
		pass 1
		same "$name is on again" \
			"$(enabled_of "${name%%:*}" | grep "^${name#*:} " | cut -d' ' -f2)" 1
	done
}

# serve_words: lines to the target, which is traced as "serve" and returns them reversed
serve_words()
{
	for word in abc def ghi; do
		ask $word
		same "the server's answer" "$answer" "$(rev <<<$word)"
	done
	sleep 0.2
	trace_stop serve
}

# end_target [STATUS]: closes its input, and expects this exit status
end_target()
{
	local status
	exec {target_in}>&-
	# The target keeps waiting while the shell holds its own ends of the pipes. It may still print.
	# (The reader is not killed: before it becomes cat, it would run our trap.)
	cat <&"$target_out" >/dev/null &
	# Without the pid, it would be another job of the test if this one has ended already.
	disown "$!" 2>/dev/null
	exec {target_out}<&-
	eval "exec ${TARGET[1]-9}>&- ${TARGET[0]-9}<&-" 2>/dev/null
	wait "$target_pid"
	status=$?
	same "the target's exit status" "$status" "${1:-0}"
	[ ! -s "$SCRATCH/target.err" ] || fail "the target complained: $(head -5 "$SCRATCH/target.err")"
}

# ---- As it was -----------------------------------------------------------------

# save_state PID, same_state PID: text and semaphores, byte for byte
save_state()
{
	"$python" "$integration/state.py" save "$1" "$SCRATCH/state.$1" ||
		die "cannot read the memory of $1"
}
same_state()
{
	local differences
	check_alive "$1"
	differences=$("$python" "$integration/state.py" compare "$1" "$SCRATCH/state.$1" 2>&1) ||
		fail "process $1 is not as it was: $differences"
}

# text_hash PID: one sum over all executable mappings of files
text_hash()
{
	"$python" "$integration/state.py" hash "$1"
}

check_alive()
{
	local state tracer
	# A resumed thread still appears as stopped until it gets a processor.
	while :; do
		state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)
		tracer=$(sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
		case $state in
		'' | Z | X)
			fail "process $1 is dead (${state:-gone})"
			return
			;;
		esac
		[[ $state == [Tt] || $tracer != 0 ]] || return 0
		pause
	done
}

# ---- probectl in the background ---------------------------------------------------

# anew NAME: clears old output, so that it is not taken for new output
anew()
{
	: >"$SCRATCH/$1.out"
	: >"$SCRATCH/$1.err"
}

# wait_file FILE: until it is there
wait_file()
{
	while [ ! -e "$1" ]; do
		pause
	done
}

# trace_start NAME ARGS…: `probectl trace ARGS`, its output in $SCRATCH/NAME.out
trace_start()
{
	local name=$1
	shift
	anew "$name"
	# A non-interactive shell makes its background jobs ignore SIGINT.
	env --default-signal=INT "$PROBECTL" trace "$@" >"$SCRATCH/$name.out" 2>"$SCRATCH/$name.err" </dev/null &
	tracer_pid=$!
	on_exit "end_process $tracer_pid"
}

# record_start NAME ARGS…: `probectl record -o $SCRATCH/NAME ARGS` in the background
record_start()
{
	local name=$1
	shift
	anew "$name"
	env --default-signal=INT "$PROBECTL" record -o "$SCRATCH/$name" "$@" \
		>"$SCRATCH/$name.out" 2>"$SCRATCH/$name.err" </dev/null &
	recorder=$!
	on_exit "end_process $recorder"
}

# record_stop NAME: Ctrl-C; the exit status must be 0
record_stop()
{
	kill -INT "$recorder" 2>/dev/null
	wait "$recorder" || fail "record: $(head -5 "$SCRATCH/$1.err")"
}

# wait_on PID PROBE: until a site is patched
wait_on()
{
	"$python" "$integration/state.py" wait "$1" "$2" "$TEST_SECONDS" ||
		fail "no site of $2 is patched in $1: $(cat "$SCRATCH"/*.err 2>/dev/null | head -5)"
}

# wait_tracing NAME [PID]: waits until everything that `trace`, or this pid, traces is enabled,
# including the detection of later libraries and programs. wait_on may return earlier.
wait_tracing()
{
	while :; do
		grep -qs 'Ctrl-C ends' "$SCRATCH/$1.err" && return
		kill -0 "${2-$tracer_pid}" 2>/dev/null || break
		pause
	done
	# Another one of the test may be what failed.
	die "the trace does not begin: $(head -vn 3 "$SCRATCH"/*.err)"
}

# trace_stop NAME: Ctrl-C; the exit status must be 0
trace_stop()
{
	local status
	kill -INT "$tracer_pid" 2>/dev/null
	wait "$tracer_pid"
	status=$?
	[ "$status" = 0 ] ||
		fail "trace ended with status $status: $(head -5 "$SCRATCH/$1.err")"
}

# refusals FILE: each must give a reason
refusals()
{
	local line
	while read -r line; do
		case $line in
		*refused*:*) echo "note: $line" ;;
		esac
	done <"$1"
	if grep -q refused "$1" && ! grep -q 'refused.* in .*: .' "$1"; then
		fail "refused without a reason: $(grep refused "$1" | head -3)"
	fi
}

# hits_of FILE: the sum of a `trace --count --json`
hits_of()
{
	jq -s 'map(select(.hits).hits) | add // 0' "$1"
}

# records_of FILE: "HITS LOST DISORDERED" of JSON records; the second argument counts up in
# each thread
records_of()
{
	"$python" - "$1" <<'PYTHON'
import json, sys
kept = lost = disordered = 0
last = {}
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    if "lost" in item:
        lost += item["lost"]
    elif "args" in item:
        kept += 1
        done = item["args"][1]
        disordered += done <= last.get(item["tid"], -1)
        last[item["tid"]] = done
print(kept, lost, disordered)
PYTHON
}

# ---- PostgreSQL -------------------------------------------------------------------

pg_bin=/usr/lib/postgresql/15/bin

# A private server: only a socket in its own folder, no TCP. Sets pg_dir, pg_pid
# and PGHOST, PGUSER, PGDATABASE. As root it runs under RUN_AS_USER. If PG_COPY is set, the program
# is a copy, which no other test runs; pg_program is its path.
pg_start()
{
	local log options

	[ -x "$pg_bin/postgres" ] || skip "$pg_bin/postgres is not installed"
	[ "$(id -u)" != 0 ] || [ -n "$RUN_AS_USER" ] || RUN_AS_USER="setpriv --reuid=nobody
		--regid=nogroup --clear-groups --inh-caps=-all"
	# A socket's path is limited to 107 bytes, which a deep scratch folder exceeds.
	pg_dir=$(mktemp -d /tmp/probectl-pg.XXXXXX)
	on_exit "rm -rf '$pg_dir'"
	on_exit pg_stop
	[ -z "$RUN_AS_USER" ] || chown nobody:nogroup "$pg_dir"
	log=$pg_dir/log
	pg_as_user "$pg_bin/initdb" -D "$pg_dir/data" -U probe --auth=trust -N >"$log.initdb" 2>&1 ||
		die "initdb: $(tail -3 "$log.initdb")"
	pg_program=$pg_bin/postgres
	if [ -n "${PG_COPY-}" ]; then
		pg_program=$pg_dir/postgres
		cp "$pg_bin/postgres" "$pg_program" || die "no copy of PostgreSQL"
	fi
	# pg_ctl gives them to a shell: a line feed would end them, and the name of the log.
	options="-k $pg_dir -h '' -c fsync=off -c shared_buffers=64MB -c max_connections=30"
	options+=" -c autovacuum=off ${PG_OPTIONS-}"
	pg_as_user "$pg_bin/pg_ctl" -D "$pg_dir/data" -p "$pg_program" -w -t 60 -l "$log" \
		-o "$options" start >/dev/null 2>&1 ||
		die "PostgreSQL does not start: $(tail -3 "$log")"
	pg_pid=$(head -1 "$pg_dir/data/postmaster.pid")
	export PGHOST=$pg_dir PGUSER=probe PGDATABASE=postgres
}

pg_as_user()
{
	# shellcheck disable=SC2086 # a command prefix of several words
	(cd / && HOME=$pg_dir exec $RUN_AS_USER "$@")
}

pg_stop()
{
	[ -z "${pg_pid-}" ] || pg_as_user "$pg_bin/pg_ctl" -D "$pg_dir/data" -m immediate -w stop \
		>/dev/null 2>&1
	pg_pid=
}

# keep_answer: what a command of a document printed, for tests/freeze.sh
keep_answer()
{
	[ -z "${PROBE_TEST_KEEP-}" ] || cat "$SCRATCH/answer" "$SCRATCH/answer.err" >>"$PROBE_TEST_KEEP"
}

# pg_backends: the pids of the server's client backends
pg_backends()
{
	"$pg_bin/psql" -XAtc "select pid from pg_stat_activity
		where backend_type = 'client backend' and pid <> pg_backend_pid()"
}

pg_bench_init()
{
	pg_as_user env PGHOST="$PGHOST" PGUSER="$PGUSER" PGDATABASE="$PGDATABASE" \
		"$pg_bin/pgbench" -q -i -s "${1:-1}" >/dev/null 2>&1 || die "pgbench -i failed"
}

# ---- Programs of other languages ---------------------------------------------------

# java_class: compiles Busy.java into $SCRATCH
java_class()
{
	need java javac
	javac -d "$SCRATCH" tests/targets/loops/Busy.java || die "javac failed"
}
