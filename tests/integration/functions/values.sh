#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The arguments and results of functions: names, sizes and signs, by the catalogue or by a file of the
# user; and registers where nothing describes a function.
. tests/integration/lib.sh

cd "$SCRATCH" || die "no folder"
export XDG_CONFIG_HOME=$SCRATCH/config
mkdir -p config/probectl/probes.d
cat >config/probectl/probes.d/app.probes <<'P'
provider fn:app
words Kind 0=small 7=large
probe described kind:Kind weight:double step:s16 -> s32
probe half value:float -> float
P
cat >app.c <<'C'
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, noclone))
static volatile int none;

FUNCTION int described(int kind, double weight, short step)
{
	int result = none + none * 3;

	return result + (kind ? -(int)weight : step) + none;
}
FUNCTION float half(float value)
{
	int result = none + none * 3;

	return (value + (float)result) / 2 + (float)none;
}
FUNCTION int unknown(int number) { return number - 5 + none + none * 3; }
FUNCTION int other(long number, long step) { return (int)(number - step + none + none * 3); }

int main(void)
{
	volatile double sum = 0;

	puts("ready");
	fflush(stdout);
	for (unsigned int i = 0;; i++) {
		int fd = open(i & 1 ? "/no/such/file" : "/dev/null", O_RDWR);

		if (fd >= 0)
			close(fd);
		/* The upper halves of the registers are not 0. */
		sum += described(i & 1 ? 7 : 0, 2.5, -3) + half(3.0f) + unknown(1) +
		       other(0x700000001, 0x1fffd);
		usleep(1000);
	}
}
C
cc -O2 -rdynamic -o app app.c || die "cannot build the program"
: >out
./app >out &
pid=$!
on_exit "end_process $pid"
while ! grep -q ready out; do pause; done

# hits WHAT WANTED ARGS...: what is printed of different hits
hits()
{
	local what=$1 wanted=$2 got

	shift 2
	got=$("$PROBECTL" trace -n 40 -d 20 -p $pid "$@" 2>err |
		sed -E 's/.*  fn:[^ ]+ +//' | sort -u | tr '\n' ';')
	same "$what" "$got" "$wanted"
}

hits "open" 'file="/dev/null" flags=2;file="/no/such/file" flags=2;' fn:libc:open
hits "results of open below 0" 'retval=-1;' -f 'retval < 0' fn:libc:open:return
hits "a described function" 'kind=large step=-3 weight=2.5;kind=small step=-3 weight=2.5;' fn:app:described
hits "a filter by a word" 'kind=large step=-3 weight=2.5;' -f 'kind == large && step < 0' fn:app:described
hits "a filter of a register" 'kind=large step=-3 weight=2.5;' -f 'arg0 == 7' fn:app:described
hits "a result" 'retval=-2;retval=-3;' -f 'retval < -1' fn:app:described:return
hits "float" 'value=3;' fn:app:half
hits "a float result" 'fretval=1.5;' fn:app:half:return
hits "a cast of a result" 'retval=4294967292;' -f '(s32)retval == -4' fn:app:unknown:return
hits "a cast in a list" 'arg0=1 arg1=-3;' 'fn:app:other((s32)arg0,(s16)arg1)'
hits "a filter with casts" 'arg0=1 arg1=-3;' -f '(s32)arg0 == 1 && (s16)arg1 < -2 && (u8)arg1 == 0xfd' \
	'fn:app:other((s32)arg0,(s16)arg1)'
same "a pair by a cast" "$("$PROBECTL" trace -t span -n 1 -p $pid -f '(s32)end.retval == -4 && (s32)begin.arg0 > 0' \
	fn:app:unknown 2>err | sed -E 's/.*  fn:[^ ]+ +//')" "-> retval=4294967292"
"$PROBECTL" trace -c -d 1 -k '(s32)retval' -p $pid fn:app:unknown:return 2>err | grep -qE ' -4$' || fail "a key: $(cat err)"
"$PROBECTL" trace -n 1 -p $pid -f '(s64)kind > 1' fn:app:described 2>&1 | grep -q "arg0 has only 4 bytes" ||
	fail "a cast to more bits"
same "a pair by its begin and end" "$("$PROBECTL" trace -t span -n 1 -p $pid -f 'begin.kind == large && end.retval == -2' \
	fn:app:described 2>err | sed -E 's/.*  fn:[^ ]+ +//')" "kind=large step=-3 weight=2.5 -> retval=-2"

"$PROBECTL" list --functions -v ./app described >list || fail "list: $?"
grep -q 'arguments: kind: Kind, step: s16, weight: double' list || fail "list: $(cat list)"

check_alive $pid
finish
