#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
# The unit probectl@.service: systemd accepts it. Its command line, with the options of the example,
# makes one record for each start. SIGTERM ends it: the probes are off and nothing is lost.
. tests/integration/lib.sh
need systemd-analyze
need_attach
mkdir -p "$SCRATCH/state" || die "mkdir"
unit=$SCRATCH/probectl@orders.service
sed "s|@BINDIR@|$(dirname "$PROBECTL")|" docs/packaging/systemd/probectl@.service >"$unit"
systemd-analyze verify --man=no "$unit" >"$SCRATCH/verify" 2>&1 || fail "verify: $(cat "$SCRATCH/verify")"
same "what systemd says about the unit" "$(grep -F probectl "$SCRATCH/verify")" ""
sed 's/^KillSignal/KillSignals/' "$unit" >"$SCRATCH/probectl@wrong.service"
systemd-analyze verify --man=no "$SCRATCH/probectl@wrong.service" 2>&1 | grep -q KillSignals ||
	fail "verify reads nothing"
# systemd turns "$$" into "$" (systemd.service(5)).
command=$(sed -n 's/^ExecStart=//p' "$unit" | sed 's/\$\$/$/g')
mask=$(sed -n 's/^UMask=//p' "$unit")
same "how it is ended" "$(grep -E '^(KillSignal|KillMode)=' "$unit")" KillSignal=SIGTERM

# args FILE N: prints the Nth line ARGS= of a file, also one in a comment, as systemd reads it
# (systemd.exec(5), EnvironmentFile): a backslash continues a line, or protects the character behind
# it
args()
{
	local line count=0
	# shellcheck disable=SC2162 # that is what read does with backslashes
	while IFS= read line; do
		[[ $line == ARGS=* ]] && ((++count == $2)) && printf '%s\n' "${line#ARGS=}"
	done < <(sed 's/^#\(ARGS\|\t\)/\1/' "$1") |
		sed "s#/var/l[a-z]*/probectl#$SCRATCH/state#; s#127.0.0.1:9100#127.0.0.1:0#
			s#--follow --\(exe\|name\) [^ ]*#-p $target_pid#; s#'[a-z]*:[a-z_*]*'#tight:call tight:twin#
			s#--pairs auto#--pairs listed#"
}

# session_start ARGS INVOCATION [PROBE]: starts the unit's command, and waits until this probe is
# on; session_end: ends it
session_start()
{
	anew session
	env ARGS="$1" INVOCATION_ID="$2" bash -c "umask $mask; exec $command" >"$SCRATCH/session.out" \
		2>"$SCRATCH/session.err" </dev/null &
	session=$!
	on_exit "end_process $session"
	while :; do
		[ "$("$PROBECTL" status --json -p "$target_pid" "tight:${3:-twin}" | grep -c '"enabled":true')" = 0 ] ||
			return 0
		[ -d "/proc/$session" ] || die "$1: no probe is on: $(cat "$SCRATCH/session.err")"
		pause
	done
}
session_end()
{
	kill -TERM "$session"
	wait "$session"
	same "status of the session" "$?" 0
	same_state "$target_pid"
}

start "$TARGETS/tight"
save_state "$target_pid"
for start in first second; do
	session_start "$(args docs/examples/fleet/orders.conf 1)" "$start"
	pass 10
	session_end
	record=$SCRATCH/state/orders.$start
	same "modes of the record" "$(stat -c %a "$record" "$record"/*/ | sort -u)" 700
	"$PROBECTL" report --json "$record" >"$SCRATCH/report.$start" || fail "report: status $?"
done
same "hits of both" "$(jq -c 'select(.name == "twin" and .hits) | .hits' "$SCRATCH"/report.* | sort -u)" 10
for example in 2 3; do
	session_start "$(args docs/examples/fleet/orders.conf "$example")" "$example"
	pass 10
	session_end
done
same "mode of what the shell writes" "$(stat -c %a "$SCRATCH/state/slow-orders")" 600
end_target

# A killed session leaves its probes on: its next start removes them.
start "$TARGETS/tight"
save_state "$target_pid"
session_start "trace -q -c -p $target_pid tight:twin" killed
end_process "$session"
session_start "trace -q -c -p $target_pid tight:call" again call
pass 3
session_end
end_target
finish
