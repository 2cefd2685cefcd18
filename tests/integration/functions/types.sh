#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The arguments of functions by debug information: names, sizes, members of structures, words of
# enumerations, results; in the file itself, in a separate one, and split; and what is not described.
. tests/integration/lib.sh

cd "$SCRATCH" || die "no folder"
cat >shop.c <<'C'
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum state { OPEN = 1, PAID = 7, LOST = -2 };
struct customer { int pad; char name[16]; const char *mail; };
typedef struct order {
	long pad;
	int id;
	enum state state;
	struct customer *customer;
	struct { short x, y; } place;
	unsigned int flag : 3;
	union { int one; float two; };
} order_t;
struct pair { long a, b; };
struct large { long a, b, c; };
struct point { double x, y; };

#define FUNCTION __attribute__((noinline, noclone))
static volatile int none;

FUNCTION static int charge(const order_t *order, double amount, unsigned char kind, bool is_last,
	const char *note)
{
	int result = none + none * 3;

	return result - (int)amount - kind + is_last + (note != NULL) + order->id * none;
}
FUNCTION static enum state state_of(order_t *order, enum state before)
{
	int result = none + none * 3;

	return (enum state)((int)order->state + result + (int)before * none);
}
FUNCTION static int by_value(int first, struct pair pair, int last)
{
	int result = none + none * 3;

	return result + first + (int)pair.a + last;
}
FUNCTION static struct large returned(int first)
{
	struct large large = {first + none, none * 3, none};

	return large;
}
FUNCTION static struct point middle(int x)
{
	struct point point = {x + none, x * none};

	return point;
}
FUNCTION static long double precise(int x)
{
	int result = none + none * 3;

	return x + result + 0.5L;
}
FUNCTION static float half(float value)
{
	int result = none + none * 3;

	return (value + (float)result) / 2 + (float)none;
}

struct customer customer = {0, "Ada", "ada@example.org"};
order_t order = {
	.id = -5, .state = PAID, .customer = &customer, .place = {3, -4}, .flag = 2, .one = 11};

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1000000;
	volatile long sum = 0;

	puts("ready");
	fflush(stdout);
	while (rounds-- > 0) {
		sum += charge(&order, 2.5, 200, true, "hello") + state_of(&order, LOST);
		sum += by_value(1, (struct pair){2, 3}, 4) + returned(9).a + (long)half(3.0f);
		sum += (long)middle(1).x + (long)precise(2);
		usleep(1000);
	}
}
C
cc -g -O2 -fno-ipa-sra -rdynamic -Wl,--build-id -o shop shop.c || die "cannot build the program"

run()
{
	: >out
	"$1" >out &
	pid=$!
	on_exit "end_process $pid"
	while ! grep -q ready out; do pause; done
}

# hit WHAT WANTED ARGS...: what is printed of a hit
hit()
{
	local what=$1 wanted=$2

	shift 2
	same "$what" "$("$PROBECTL" trace -n 1 -d 20 -p $pid "$@" 2>err | sed -E 's/^.* (fn:[^ ]+) +//; s/order=0x[0-9a-f]+/order=P/; s/retval=0x[0-9a-f]+/retval=A/')" "$wanted"
}

run ./shop
file=shop
if ! "$PROBECTL" list -v --functions ./shop charge | grep -q 'arguments: order'; then
	ldconfig -p | grep -q libdw.so.1 || skip "libdw is not installed"
fi
hit "all arguments" 'order=P kind=200 is_last=true note="hello" amount=2.5' fn:shop:charge
hit "a list with members" 'order->id=-5 order->state=PAID order->customer->name="Ada" order->customer->mail="ada@example.org" order->place.y=-4 order->one=11 amount=2.5' \
	'fn:shop:charge(order->id, order->state, order->customer->name, order->customer->mail, order->place.y, order->one, amount)'
hit "a filter of a member" 'kind=200' -f 'order->id < 0 && order->state == PAID && str(note) == "hello"' 'fn:shop:charge(kind)'
hit "a filter that does not pass" '' -d 0.3 -f 'order->id == 5' fn:shop:charge
hit "a result" 'retval=-200' -f 'retval < 0' fn:shop:charge:return
hit "a result that is an enumeration" 'retval=PAID' -f 'retval == PAID' fn:shop:state_of:return
hit "a signed enumeration" 'before=LOST' 'fn:shop:state_of(before)'
hit "before a structure by value" 'first=1' fn:shop:by_value
hit "behind the address of a result" 'first=9' 'fn:shop:returned(first)'
hit "float" 'value=3' fn:shop:half
hit "a float result" 'fretval=1.5' fn:shop:half:return
[ "$(uname -m)" != x86_64 ] || hit "the address of a result" 'retval=A' fn:shop:returned:return
for function in middle precise; do
	"$PROBECTL" trace -n 1 -d 20 -p $pid fn:shop:$function:return >out 2>err
	grep -q "fn:shop:$function:return$" out || fail "a result in other registers: $(cat out err)"
	"$PROBECTL" list -v --functions ./shop $function | grep -q "Without its result" || fail "no reason for $function"
done
same "keys" "$("$PROBECTL" trace -c -d 1 -k 'order->state' -k 'order->customer->name' -p $pid fn:shop:charge 2>err |
	awk 'NR == 2 {print $3, $4}')" 'PAID "Ada"'
same "a span by its begin" "$("$PROBECTL" trace -t span -n 1 -p $pid -f 'begin.order->id == -5 && end.retval < 0' \
	'fn:shop:charge(order->id)' 2>err | sed -E 's/^.*fn:[^ ]+ +//')" "order->id=-5 -> retval=-200"
# refused WHAT MESSAGE ARGS...
refused()
{
	local what=$1 message=$2

	shift 2
	"$PROBECTL" trace -n 1 -d 20 -p $pid "$@" >out 2>err && fail "$what: no error"
	grep -q "$message" err || fail "$what: $(cat err)"
}
refused "a bit field" "there is no argument 'order->flag'" 'fn:shop:charge(order->flag)'
refused "a bit field in a filter" "no arrays, bit fields or floating ones$" -f 'order->flag == 1' fn:shop:charge
refused "a member of a result" "members are read of arguments, not of results" 'fn:shop:state_of:return(retval->id)'
refused "a wrong member" "there is no argument 'order->nothing'" -f 'order->nothing == 1' fn:shop:charge
refused "behind a structure" "there is no argument 'last'" 'fn:shop:by_value(last)'
"$PROBECTL" list -v --functions ./shop by_value | grep -q "passed by value" || fail "no reason for by_value"
"$PROBECTL" trace -n 1 -f 'order->id < 0' fn:shop:charge -- ./shop 500 >out 2>err || fail "a started program: $(cat err)"

# ---- Sessions that stay, and records -------------------------------------------------

"$PROBECTL" enable -p $pid -t ring 'fn:shop:charge(order->id, note, *(u32*)(arg0+0))' >out 2>err ||
	fail "enable -t ring: $(cat err)"
# read_last: what is printed of the last hit
read_last()
{
	until "$PROBECTL" read -p $pid >hits 2>err && grep -q fn:shop hits; do pause; done
	tail -n 1 hits | sed -E 's/^.* (fn:[^ ]+) +//'
}
same "a session's list" "$(read_last)" 'order->id=-5 note="hello" 0'
"$PROBECTL" read --reset -p $pid >out 2>err || fail "read --reset: $(cat err)"
same "the same when it was started again" "$(read_last)" 'order->id=-5 note="hello" 0'
"$PROBECTL" read -p $pid -o kept >out 2>err || fail "read -o: $(cat err)"
"$PROBECTL" disable -p $pid fn:shop:charge >out 2>err || fail "disable: $(cat err)"
"$PROBECTL" enable -p $pid -t count -k 'order->state' fn:shop:charge >out 2>err ||
	fail "enable -t count: $(cat err)"
same "a word in rows" "$(read_last | awk '{ print $NF }')" PAID
"$PROBECTL" disable -p $pid fn:shop:charge >out 2>err || fail "disable: $(cat err)"
"$PROBECTL" record -o record -n 40 -p $pid fn:shop:charge fn:shop:state_of fn:shop:state_of:return 2>err ||
	fail "record: $(cat err)"
for record in record kept; do
	"$PROBECTL" report -k note $record | grep -q '100.0%  "*hello' || fail "report of $record: $("$PROBECTL" report -k note $record)"
done
"$PROBECTL" record -o parts --rotate 4k -n 100 -p $pid fn:shop:charge 2>err || fail "parts: $(cat err)"
"$PROBECTL" report -k note parts/000001 | grep -q '100.0%  "*hello' || fail "report of a part"
"$PROBECTL" export -F trace-event -k before record | grep -q '"name":"LOST"' || fail "export -k"

# by RECORD KEY: the only value of a key, as a report has it
by()
{
	"$PROBECTL" report -k "$2" "$1" | sed -n '/ by /,$p' | awk '$2 == "100.0%" { print $3; exit }'
}
"$PROBECTL" record -o members -n 20 -p $pid \
	'fn:shop:charge(order->id, order->place.y, order->customer->name, amount)' 2>err || fail "members: $(cat err)"
same "a member of a record of a session that stayed" "$(by kept 'order->id')" -5
same "a member" "$(by members 'order->id')" -5
same "a member of a member" "$(by members 'order->place.y')" -4
same "a text" "$(by members 'order->customer->name')" '"Ada"'
"$PROBECTL" report -k order members >out 2>err && fail "a pointer that was not recorded: $(cat out)"
"$PROBECTL" report members | grep -q "^fn:shop:charge by order__customer__name$" || fail "guessed: $("$PROBECTL" report members)"
"$PROBECTL" export -F trace-event members | grep -q '"order__id":-5' || fail "export of members"
grep -q "order__id_arg0_0;" members/metadata || fail "the name of a field"

# ---- Names that no expression has, and that several arguments share ------------------

cat >packs.cc <<'C'
#include <cstdio>
#include <unistd.h>

static volatile int none;
template <typename... T> __attribute__((noinline)) int sum(T... all) { return none + none * 3 + (0 + ... + all); }
template <typename... T> __attribute__((noinline)) int last(T... all, int behind) { return none + none * 3 + behind + (0 + ... + all); }
__attribute__((noinline)) int letters(int größe, int tid, int plain) { return none + none * 3 + größe + tid + plain; }

int main()
{
	std::puts("ready");
	std::fflush(stdout);
	for (;;) {
		none = none + (sum(1, 2) + last<int>(3, 4) + letters(5, 6, 7)) * none;
		usleep(1000);
	}
}
C
for compiler in g++ clang++; do
	command -v $compiler >/dev/null || continue
	$compiler -std=c++17 -g -O1 -rdynamic -o packs packs.cc || die "$compiler cannot build packs"
	"$PROBECTL" list -v --functions ./packs 'fn:packs:/sum|last|letters/' >listed 2>err
	grep -q 'arguments: unnamed1: s32, tid_: s32, plain: s32' listed || fail "$compiler: letters: $(cat listed err)"
	[ $compiler = g++ ] || grep -q 'arguments: all: s32, unnamed1: s32' listed || fail "$compiler: sum: $(cat listed err)"
done

# ---- Inlined copies, and functions in two parts --------------------------------------

cat >copies.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int none;
__attribute__((cold, noinline)) void give_up(void) { exit(none); }
static inline __attribute__((always_inline)) int only(int x) { return x * none + 7; }
int both(int a) { return none + none * 3 + a + only(a); }
__attribute__((noinline)) int caller(int a) { return none + both(a) + both(a * 3); }
__attribute__((noinline)) int parted(int level)
{
	if (none)
		give_up();
	return none * 3 + level;
}

int main(void)
{
	puts("ready");
	fflush(stdout);
	for (;;) {
		caller(1) && parted(2) && both(none);
		usleep(1000);
	}
}
C
cc -g -O2 -rdynamic -o copies copies.c || die "cannot build copies"
check_alive $pid
run ./copies
"$PROBECTL" trace -n 1 -p $pid fn:copies:caller fn:copies:both >hits 2>err
same "copies" "$(grep -c '^probectl: warning: fn:copies:both: 3 inlined copies are not traced$' err)" 1
"$PROBECTL" list -v --functions ./copies both | grep -qx '    3 inlined copies are not traced' ||
	fail "list does not show the copies"
refused "only copies" 'refused fn:copies:only at 0x.* it exists only as inlined copies' fn:copies:only
"$PROBECTL" list --functions ./copies only | grep -q 'fn:copies:only .* no  *no' ||
	fail "list does not show what is only inlined"
hit "a function in two parts" 'level=2' fn:copies:parted
check_alive $pid
run ./shop

# ---- Where the debug information is --------------------------------------------------

mkdir .debug
objcopy --only-keep-debug shop .debug/linked.debug
(cd .debug && objcopy -S --add-gnu-debuglink=linked.debug ../shop ../linked)
"$PROBECTL" list -v --functions ./linked charge | grep -q 'order: pointer, kind: u8, is_last: bool, note: string, amount: double' ||
	fail "a separate file"
id=$(readelf -n shop | sed -n 's/.*Build ID: //p')
mkdir -p "cache/$id"
mv .debug/linked.debug "cache/$id/debuginfo"
"$PROBECTL" list -v --functions ./linked charge | grep -q 'order: pointer' && fail "no file has the types"
DEBUGINFOD_CACHE_PATH=$PWD/cache "$PROBECTL" list -v --functions ./linked charge >out
grep -q 'order: pointer' out || fail "a downloaded file: $(cat out)"
grep -q 'shop\.c:' out || fail "no lines of a downloaded file: $(cat out)"
if type dwz >err 2>&1; then
	cp shop one && cc -g -O1 -Wl,--build-id -o two shop.c && dwz -m common one two || die "dwz"
	"$PROBECTL" list -v --functions ./one charge | grep -q 'order: pointer, kind: u8' || fail "dwz"
	cc -g -gdwarf-5 -O2 -fno-ipa-sra -Wl,--build-id -o one shop.c && cp one two && dwz -5 -m common one two || die "dwz -5"
	"$PROBECTL" list -v --functions ./one charge >out && grep -q "arguments" out && fail "dwz -5: $(cat out)"
fi
for version in 4 5; do
	cc -g -gdwarf-$version -fdebug-types-section -O2 -fno-ipa-sra -rdynamic -o units shop.c || continue
	"$PROBECTL" trace -n 2 fn:units:state_of 'fn:units:charge(order->id)' -- ./units 500 >out 2>err
	grep -q 'before=LOST$' out || fail "units of types, DWARF $version: $(cat out err)"
	grep -q 'order->id=-5$' out || fail "a member of a unit, DWARF $version: $(cat out err)"
done
head -c 3000 /dev/urandom >.debug/linked.debug
"$PROBECTL" list -v --functions ./linked main >out 2>&1 || fail "a damaged file: $(cat out)"
cc -g -gsplit-dwarf -O2 -c -o split.o shop.c && cc -o split split.o
"$PROBECTL" list -v --functions ./split charge | grep -q 'order: pointer, kind: u8' || fail "split"
check_alive $pid
finish
