#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# The process that changes the probes of a program: libprobe.so, executed, or a copy of the program
# where that is impossible. The unit tests, which are linked with libprobe.a, are changed by copies;
# here they run with libprobe.so.
. tests/integration/lib.sh
need_attach
need cc

so=$SCRATCH/libprobe.so
cp "$BUILD/libprobe.so" "$so" && ln -s libprobe.so "$so.0" || die "libprobe.so is not there"
target=$SCRATCH/controllers
flags=(-O2 -g -std=gnu11 -D_GNU_SOURCE -I. -Ilibprobe/include)
cc "${flags[@]}" -o "$target" \
	tests/integration/library/controllers.c "$so" -Wl,-rpath,"$SCRATCH" -lpthread ||
	die "the target cannot be linked"

# run ARGUMENT…: its output, as one line
run()
{
	timeout "$TEST_SECONDS" "$target" "$@" 2>"$SCRATCH/err" | tr '\n' ';'
}

# gone WHAT PID…
gone()
{
	local left pid
	shift
	while :; do
		left=
		for pid; do
			[ ! -e "/proc/$pid" ] || left+=" $pid"
		done
		[ -n "$left" ] || return
		pause
	done
}

# ---- It is executed, and not seen --------------------------------------------------------------

same "how" "$(run how)" "executed;"
same "wait(2)" "$(run wait)" \
	"executed;-1 No child processes;-1 No child processes;0 signals;"
same "descriptors" "$(run inherit)" "socket ;0 more;"
same "several changes in one call" "$(run several)" "0 copies;3 calls;"
same "with much memory" "$(run grow)" "the same;"

# ---- The program ends, or executes another one, at any instant of a change ---------------------

for later_us in 0 300 1000 2000 4000; do
	output=$(run exit $later_us)
	# shellcheck disable=SC2086
	gone "the program has ended" ${output%%;*}
	output=$(run exec $later_us)
	same "another program" "${output#*;}" "executed;"
	# shellcheck disable=SC2086
	gone "the program is another one" ${output%%;*}
done
# Its child, which has the program's end of the socket open, stays.
read -r child controller forker <<<"$(run leave | tr ';' ' ')"
gone "the program has ended, but not its child" "$controller" "$forker"
[ -e "/proc/$child" ] && kill "$child"

# ---- Somebody stops the controller or its parent -----------------------------------------------

run stop-both >"$SCRATCH/both" &
run stop-filtered >"$SCRATCH/filtered" &
same "stopped" "$(run stop 30)" "none, soon;none, soon;all;"
wait
same "both are stopped" "$(cat "$SCRATCH/both")" "none, late;"
same "both are stopped, and there is no descriptor" "$(cat "$SCRATCH/filtered")" "none, late;"

# ---- Meanwhile the program executes a set-user-ID program --------------------------------------

if [ "$(id -u)" = 0 ]; then
	chmod 755 "$SCRATCH"
	cp "$(command -v id)" "$SCRATCH/id" && chmod 4755 "$SCRATCH/id"
	if [ "$(run set-user-id "$SCRATCH/id")" = "none, soon;0;" ]; then
		same "set-user-ID" "$(run set-user-id "$SCRATCH/id" now)" "0;"
	else
		echo "note: set-user-ID programs have no effect in $SCRATCH"
	fi
fi

# ---- Nothing can be executed ------------------------------------------------------------------

same "under a filter" "$(run filter)" "executed;copied;"
if [ "$(id -u)" = 0 ]; then
	chmod 755 "$SCRATCH"
	same "rights that are lost" "$(run rights)" "executed;copied;"
fi
same "little stack" "$(ulimit -Ss 64 && run how)" "executed;"
same "very little stack" "$(ulimit -s 64 && run how)" "copied;"
chmod -x "$so"
same "not executable" "$(run how)" "copied;"
same "several changes in one call" "$(run several)" "1 copies;3 calls;"
same "a copy is stopped" "$(run stop 30)" "none, soon;none, soon;all;"
chmod +x "$so"
same "executable again" "$(run how)" "executed;"

# ---- A program that is linked with libprobe.a ---------------------------------------------------

# linked_static IMAGE: what the program is changed by, if IMAGE is where libprobe.so was installed
linked_static()
{
	cc "${flags[@]}" -DPROBE_IMAGE="\"$1\"" -o "$SCRATCH/static" \
		tests/integration/library/controllers.c \
		libprobe/self/helper/message.c "$BUILD/libprobe.a" -lelf -liberty -ldl -lpthread ||
		die "the target cannot be linked with libprobe.a"
	timeout "$TEST_SECONDS" "$SCRATCH/static" how 2>"$SCRATCH/err"
}

same "where it is installed" "$(linked_static "$so")" executed
same "where there is nothing" "$(linked_static "$SCRATCH/nothing")" copied
same "where another program is" "$(linked_static "$(command -v true)")" copied
# Another build: it says so, and is not used.
sed "s/$(sed -n 's/.*"\(.*\)"/\1/p' "$BUILD/identity.h")/$(sed -n 's/.*"\(.*\)"/\1/p' \
	"$BUILD/identity.h" | tr 0-9 1-90)/" "$so" >"$SCRATCH/other.so" && chmod +x "$SCRATCH/other.so"
cmp -s "$so" "$SCRATCH/other.so" && die "both builds are the same"
same "where another build is" "$(linked_static "$SCRATCH/other.so")" copied

# ---- The unit tests -----------------------------------------------------------------------------

if cc -E -include stdarg.h -include stddef.h -include stdint.h -include setjmp.h -include cmocka.h \
	-x c /dev/null >/dev/null 2>&1; then
	for test in test_self ${TEST_ALL:+test_self_calls test_self_forks test_self_order}; do
		cc "${flags[@]}" -o "$SCRATCH/$test" \
			"tests/unit/self/$test.c" tests/unit/self/self_text.c \
			tests/unit/self/self_hits.c "$so" -Wl,-rpath,"$SCRATCH" -lcmocka -lpthread ||
			die "$test cannot be linked with libprobe.so"
		timeout "$TEST_SECONDS" "$SCRATCH/$test" >"$SCRATCH/$test.out" 2>&1 ||
			fail "$test: $(grep -v -e OK -e RUN "$SCRATCH/$test.out" | tail -20)"
	done
else
	echo "note: without cmocka's headers the unit tests do not run with libprobe.so"
fi
finish
