# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Shared by the tests that run in the emulator, on top of tests/integration/lib.sh, whose start() sets
# target_pid.
# shellcheck disable=SC2154
need_attach
need jq
chmod 755 "$SCRATCH"

# The prefix of a command that runs with the target's rights
as=(env)

# hits PROBE: of the target, from status
hits()
{
	"${as[@]}" "$PROBECTL" status --json -p "$target_pid" "$1" 2>"$SCRATCH/err" | jq -s 'map(.hits) | add'
}

# toggle enable|disable PROBE…
toggle()
{
	local command=$1
	shift
	"${as[@]}" "$PROBECTL" "$command" -p "$target_pid" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "$command $*: status $?: $(cat "$SCRATCH/err")"
}
