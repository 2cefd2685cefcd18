#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
# probectl agent: begins sessions, follows its file, begins again what fails, and ends without
# losing what was gathered; the targets are as before, also when it is killed.
. tests/integration/lib.sh
need jq
need_attach
export RUNTIME_DIRECTORY=$SCRATCH/run
file=$SCRATCH/agent.conf

# session NAME WORDS: adds it to the file; its output goes to NAME.table
session()
{
	printf '[%s]\ncommand = %s\noutput = %s\n' "$1" "$2" "$SCRATCH/$1.table" >>"$file"
}

agent_start()
{
	anew agent
	"$PROBECTL" agent "$file" >"$SCRATCH/agent.out" 2>"$SCRATCH/agent.err" </dev/null &
	agent=$!
	on_exit "end_process $agent"
}

# field SESSION FIELD: of the status; nothing, if there is no such session
field()
{
	"$PROBECTL" agent --status --json 2>/dev/null |
		jq -r --arg name "$1" --arg field "$2" 'select(.session == $name) | .[$field]'
}

# until_is WHAT WANTED COMMAND…: what the command prints becomes this
until_is()
{
	local what=$1 wanted=$2 got='' end
	shift 2
	for ((end = SECONDS + 30 * slower; SECONDS < end;)); do
		got=$("$@")
		[ "$got" != "$wanted" ] || return 0
		sleep 0.1
	done
	fail "$what: '$got' instead of '$wanted': $(tail -3 "$SCRATCH/agent.err")"
}

# restarted SESSION N: it has been begun again that often, or more
restarted()
{
	until_is "restarts of [$1]" enough eval "awk '{ if (\$1 >= $2) print \"enough\" }' <<<\"\$(field $1 restarts)\""
}

# said WORDS: how many lines of the agent have them
said()
{
	grep -c -e "$1" "$SCRATCH/agent.err"
}

# tells NAME HITS: a table that a session has appended has this number
tells()
{
	grep -qE "\<$2\>" "$SCRATCH/$1.table" ||
		fail "[$1] does not tell $2 hits: $(cat "$SCRATCH/$1.table")"
}

enabled()
{
	"$PROBECTL" status --json -p "$target_pid" 'tight:*' |
		jq -r 'select(.refcount > 0) | "\(.name) \(.refcount)"' | sort | tr '\n' ' '
}

start "$TARGETS/tight"
save_state "$target_pid"

# ---- A first set -----------------------------------------------------------------
session one "trace -c -p $target_pid 'tight:twin'"
session two "trace -c -p $target_pid tight:call"
session wrong "trace --no-such-option"
session gone "trace -c -p 2147483647 x:y"
ctl agent --check "$file"
same "--check" "$(cat "$SCRATCH/out")" "$file: 4 sessions"
agent_start
until_is "the probes" "call 1 twin 1 " enabled
one=$(field one pid)
same "its state" "$(field one state)" running
until_is "a wrong command" ended field wrong state
until_is "what fails" waiting field gone state
[[ $(field gone message) == *"no process 2147483647"* ]] || fail "its message: $(field gone message)"
restarted gone 2
same "mode of the socket" "$(stat -c %a "$RUNTIME_DIRECTORY/agent.sock")" 600
"$PROBECTL" agent "$file" >"$SCRATCH/second.out" 2>"$SCRATCH/second.err" && fail "a second agent began"
says second "an agent runs already"
pass 10

# ---- A file with a mistake: all goes on --------------------------------------------
cp "$file" "$SCRATCH/good.conf"
echo "[one]" >>"$file"
kill -HUP "$agent"
until_is "the mistake" 1 said 'the sessions stay as they are.*there are two sessions \[one\]'
same "the sessions" "$(enabled)" "call 1 twin 1 "
same "the process of [one]" "$(field one pid)" "$one"

# ---- Another set: one goes on, one is changed, two go, one comes -------------------
: >"$file"
session one "trace -c -p $target_pid tight:twin"
session two "trace -c -p $target_pid tight:part"
session new "trace -c -p $target_pid tight:page"
kill -HUP "$agent"
until_is "the probes of the new set" "page 1 part 1 twin 1 " enabled
same "the process of [one]" "$(field one pid)" "$one"
same "a session that is gone" "$(field gone state)" ""
tells two 10
pass 5

# ---- A session that is killed begins again -----------------------------------------
new=$(field new pid)
kill -KILL "$new"
restarted new 1
until_is "[new] runs again" running field new state
until_is "the probes after that" "page 1 part 1 twin 1 " enabled
[ "$(field new pid)" != "$new" ] || fail "[new] has its old process"
says agent "\[new\] was killed by SIGKILL; it begins again in 1 s"
pass 3

# ---- What is slow to end holds nothing up, and is not begun twice --------------------
# ticks: the processor time that the agent has taken, in 1/100 s
ticks()
{
	awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$agent/stat"
}
two=$(field two pid)
kill -STOP "$two"
sed -i "s/tight:part/'tight:part'  tight:call/" "$file"
kill -HUP "$agent"
until_is "the old [two]" "ending waiting" eval 'field two state | paste -sd" "'
before=$(ticks)
sleep 1
[ $(($(ticks) - before)) -lt 20 ] || fail "the agent took $(($(ticks) - before))/100 s of a second"
kill -CONT "$two"
until_is "the new [two]" running field two state
until_is "the probes after that" "call 1 page 1 part 1 twin 1 " enabled

# ---- The end: tables are complete ---------------------------------------------------
kill -TERM "$agent"
wait "$agent"
same "the agent's exit status" "$?" 0
tells one 18
same "the folder" "$(ls "$RUNTIME_DIRECTORY")" ""
same_state "$target_pid"
"$PROBECTL" agent --status 2>"$SCRATCH/none.err" && fail "--status without an agent"
says none "no agent runs in $RUNTIME_DIRECTORY"

# ---- The agent is killed: sessions end as if they were asked to ----------------------
: >"$file"
session killed "trace -c -p $target_pid tight:twin"
agent_start
until_is "the probes once more" "twin 1 " enabled
killed=$(field killed pid)
pass 7
end_process "$agent"
until_is "the session's process" gone eval "[ -d /proc/$killed ] && echo there || echo gone"
tells killed 7
same_state "$target_pid"

# ---- A program's status 2 is no wrong usage; its output comes by name -----------------
printf '[prog]\ncommand = trace -c x:y -- "%s" %s\n' /bin/sh "-c 'echo hello; exit 2'" >"$file"
agent_start
restarted prog 1
kill -TERM "$agent"
wait "$agent"
grep -qx 'prog: hello' "$SCRATCH/agent.out" || fail "output of [prog]: $(cat "$SCRATCH/agent.out")"

# ---- Lines that cannot be written are not lost in silence ------------------------------
sed -i 's/exit 2/exit 0/' "$file"
"$PROBECTL" agent "$file" >/dev/full 2>"$SCRATCH/agent.err" </dev/null &
agent=$!
on_exit "end_process $agent"
until_is "the end of [prog]" ended field prog state
kill -TERM "$agent"
wait "$agent"
says agent '\[prog\] lines are lost, as our own output cannot be written: No space left'

# ---- Records: each start has a folder; the dead agent's socket is no obstacle ---------
: >"$file"
# A process that the dead agent was just starting may have its lock for a moment.
flock "$RUNTIME_DIRECTORY" sleep 0.3 &
sleep 0.1
printf '[rec]\ncommand = record -o "%s/rec.{time}" -p %d tight:twin\n' "$SCRATCH" "$target_pid" >"$file"
agent_start
until_is "the probes of the record" "twin 1 " enabled
pass 2
kill -KILL "$(field rec pid)"
restarted rec 1
until_is "the probes of the second record" "twin 1 " enabled
until_is "[rec] runs again" running field rec state
pass 4
kill -TERM "$agent"
wait "$agent"
same "the agent's exit status" "$?" 0
same "records" "$(find "$SCRATCH" -maxdepth 1 -name 'rec.*Z' | wc -l)" 2
same_state "$target_pid"

# ---- The example: each of its commands is in order ---------------------------------------
sed -E "s#/var/(log|lib)/probectl#$SCRATCH#; s#127.0.0.1:9100#127.0.0.1:0#
	s#--exe [^ ]*#--exe $TARGETS/tight#" docs/examples/agent/agent.conf >"$file"
agent_start
for name in queries slow-orders orders; do
	until_is "[$name] of the example" running field "$name" state
done
sleep 1
same "states of the example" "$("$PROBECTL" agent --status --json | jq -r .state | paste -sd' ')" \
	"running running running"
kill -TERM "$agent"
wait "$agent"
same "the agent's exit status" "$?" 0

# ---- systemd is told ------------------------------------------------------------------
"$python" - "$SCRATCH/notify" >"$SCRATCH/states" <<'PYTHON' &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
    state = s.recv(1000).decode()
    print(" ".join(line.split("=")[0] for line in state.split("\n")), flush=True)
    if "STOPPING" in state:
        break
PYTHON
listener=$!
on_exit "end_process $listener"
until_is "the listener" there eval "[ -S '$SCRATCH/notify' ] && echo there"
: >"$file"
export NOTIFY_SOCKET=$SCRATCH/notify
agent_start
until_is "READY" READY cat "$SCRATCH/states"
kill -HUP "$agent"
until_is "a reload" 3 eval "wc -l <'$SCRATCH/states'"
kill -TERM "$agent"
wait "$agent"
wait "$listener"
same "what systemd was told" "$(paste -sd, "$SCRATCH/states")" \
	"READY,RELOADING MONOTONIC_USEC,READY,STOPPING"

end_target
finish
