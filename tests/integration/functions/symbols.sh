#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Where the names of functions come from: .symtab, .dynsym, a separate debug file, MiniDebugInfo;
# which function an IFUNC's name stands for; and what is said of a name that is nowhere.
. tests/integration/lib.sh

cd "$SCRATCH" || die "no folder"
cat >program.c <<'C'
#include <stdio.h>
#include <unistd.h>

static volatile int wide;

static int small(int x) { return x + wide + 1; }
static int large(int x) { return x + wide + 2; }
static int (*choose(void))(int) { return small; }
int chosen(int x) __attribute__((ifunc("choose")));

__attribute__((noinline, noclone)) static int hidden(int x)
{
	return x * 3 + wide + (x > 1000000 ? large(x) : 0);
}

__attribute__((noinline, noclone)) int shown(int x) { return hidden(x) + x * 5 + wide; }

int main(void)
{
	int sum = 0;

	puts("ready");
	fflush(stdout);
	for (int i = 0; i < 100000; i++) {
		sum += shown(i) + chosen(i);
		usleep(1000);
	}
	return sum == 1;
}
C
cc -O2 -fPIC -pie -rdynamic -Wl,--build-id -o full program.c || die "cannot build the program"

# listed FILE NAME WANTED: does `list --functions` name the function?
listed()
{
	same "$1 has $2" "$("$PROBECTL" list --functions "./$1" "$2" 2>/dev/null | awk 'NR > 1 {print $1}')" \
		"$3"
}

strip -o stripped full
listed full hidden fn:full:hidden
listed full shown fn:full:shown
listed stripped shown fn:stripped:shown
listed stripped hidden ""

# ---- A separate debug file -----------------------------------------------------------

mkdir .debug
objcopy --only-keep-debug full .debug/linked.debug
cp .debug/linked.debug linked.debug
(cd .debug && objcopy --add-gnu-debuglink=linked.debug ../stripped ../linked)
rm linked.debug
listed linked hidden fn:linked:hidden
# Of another version: the same name, another build id.
cc -O2 -fPIC -pie -rdynamic -Wl,--build-id=0x1234567890 -o other program.c
objcopy --only-keep-debug other .debug/linked.debug
listed linked hidden ""
listed linked shown fn:linked:shown
head -c 700 /dev/urandom >.debug/linked.debug
listed linked hidden ""

# ---- MiniDebugInfo -------------------------------------------------------------------

if command -v xz >/dev/null; then
	objcopy -S --keep-symbol=hidden --keep-symbol=main full mini.symbols
	objcopy --only-keep-debug mini.symbols mini.debug
	xz -k mini.debug
	objcopy --add-section .gnu_debugdata=mini.debug.xz stripped mini
	listed mini hidden fn:mini:hidden
	head -c 200 mini.debug.xz >cut.xz
	objcopy --add-section .gnu_debugdata=cut.xz stripped cut
	listed cut hidden ""
	listed cut shown fn:cut:shown
fi

# ---- In a process --------------------------------------------------------------------

./full >out &
pid=$!
while ! grep -q ready out; do pause; done
"$PROBECTL" trace -c -n 1 -d 5 -p $pid fn:full:hidden >/dev/null 2>err || fail "hidden: $(cat err)"

# The name of an IFUNC is the function that the process has chosen.
"$PROBECTL" trace -n 2 -p $pid 'fn:full:chosen(arg0)' >hits 2>err || fail "chosen: $(cat err)"
same "hits of the chosen function" "$(grep -c 'fn:full:chosen' hits)" 2
listed full chosen fn:full:chosen
"$PROBECTL" list -vv --functions ./full chosen | grep -q "each process chooses" ||
	fail "a file does not say that a process chooses the function"

"$PROBECTL" trace -c -p $pid fn:full:hiden >/dev/null 2>err && fail "a wrong name is no error"
grep -q "the nearest: fn:full:hidden" err || fail "no name like it: $(cat err)"
"$PROBECTL" trace -c -p $pid fn:nofile:hidden >/dev/null 2>err && fail "a wrong file is no error"
grep -q "no file of that name is mapped" err || fail "no file: $(cat err)"
kill -0 $pid || fail "the program has ended"
kill $pid
finish
