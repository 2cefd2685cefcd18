#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The OCaml protocol: one byte at site + 1, and two counts in the semaphore.
. tests/integration/lib.sh
need_attach

start "$TARGETS/ocaml"
save_state "$target_pid"

# state WHAT HITS SEMAPHORES: the handlers' counts and the ten semaphores
state()
{
	ask print
	same "$1" "$answer" "hits $2 semaphores $3"
}

switch()
{
	"$PROBECTL" "$1" -p "$target_pid" "${@:2}" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "$*: status $?: $(cat "$SCRATCH/err")"
}

state "at first" "0 0 0 0" "0 0 0 0 0 0 0 0 0 0"
ask hit
state "off" "0 0 0 0" "0 0 0 0 0 0 0 0 0 0"

# The provider `ocaml` counts at +0, the others at +2.
switch enable ocaml:plain
state "plain is on" "0 0 0 0" "1 0 0 0 0 0 0 0 0 0"
ask hit
state "plain was hit" "10 0 0 0" "1 0 0 0 0 0 0 0 0 0"
switch enable ocaml.1:dotted ocaml_1:first ocaml_2:second
state "all are on" "10 0 0 0" "1 0 0 1 0 1 0 1 0 0"
ask hit
state "all were hit" "20 10 20 10" "1 0 0 1 0 1 0 1 0 0"

# A note without a site: it has only a semaphore.
switch enable ocaml_2:only
state "the semaphore alone" "20 10 20 10" "1 0 0 1 0 1 0 1 0 1"

# Enabled twice, disabled once: still enabled.
switch enable ocaml_1:first
state "first is on twice" "20 10 20 10" "1 0 0 1 0 2 0 1 0 1"
switch disable ocaml_1:first
ask hit
state "first is on once" "30 20 40 20" "1 0 0 1 0 1 0 1 0 1"

switch disable 'ocaml*:*'
state "off again" "30 20 40 20" "0 0 0 0 0 0 0 0 0 0"
ask hit
state "nothing is hit" "30 20 40 20" "0 0 0 0 0 0 0 0 0 0"
same_state "$target_pid"

"$PROBECTL" disable -p "$target_pid" ocaml:plain >/dev/null 2>"$SCRATCH/err" &&
	fail "a probe that is off could be disabled"
same_state "$target_pid"
tell quit
end_target
finish
