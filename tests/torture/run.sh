#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Kills controllers at random moments, and switches probes without pause, on programs that check
# their own results. Prints a row for each.
#
# usage: tests/torture/run.sh [-k KILLS] [-c CYCLES] [-l CYCLES] [-n STRIDE] [-f ROUNDS] [-s SEED]
#        [PROGRAM...]
#
# KILLS and CYCLES are per program (default 100; 0: none). -c counts commands of two controllers
# at once, -l calls of the library (default 1000). With a STRIDE the commands are also killed at
# every STRIDEth of their steps (see steps.c; 0: never). -f switches all functions of a program,
# instead of its probes, on and off so many times (default 0). PROGRAMs are
#   compute four signals altstack churn threads fork spawn exec coroutine sleep
#   python ruby java postgres		(default: all of them)
#   php node bash nginx redis qemu	(only for -f, the other kinds set to 0)
# The environment is that of an integration test: BUILD, PROBECTL.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/torture/lib.sh

kills=100
cycles=100
calls=1000
stride=0
function_rounds=0
seed=1
while getopts k:c:l:n:f:s: option; do
	case $option in
	k) kills=$OPTARG ;;
	c) cycles=$OPTARG ;;
	l) calls=$OPTARG ;;
	n) stride=$OPTARG ;;
	f) function_rounds=$OPTARG ;;
	s) seed=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- compute four signals altstack churn threads fork spawn exec coroutine sleep \
	python ruby java postgres
need_attach

# In a shell of its own: a program that is not installed is skipped.
apart()
{
	own_scratch=
	at_exit=()
	trap clean_up EXIT
}

for name; do
	[ "$kills" = 0 ] || (apart; torture_kill "$name" "$kills" "$seed"; finish) ||
		[ $? = 77 ] || failures=$((failures + 1))
	[ "$function_rounds" = 0 ] || (apart; torture_functions "$name" "$function_rounds"; finish) ||
		[ $? = 77 ] || failures=$((failures + 1))
	[ "$stride" = 0 ] || (apart; torture_steps "$name" "$stride"; finish) ||
		[ $? = 77 ] || failures=$((failures + 1))
	[ "$calls" = 0 ] || (apart; torture_library "$name" "$calls"; finish) ||
		[ $? = 77 ] || failures=$((failures + 1))
	[ "$cycles" = 0 ] || (apart; torture_cycle "$name" "$cycles"; finish) ||
		[ $? = 77 ] || failures=$((failures + 1))
done
finish
