#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The command line with functions: what `list --functions` shows, links of a program, several names of
# a function, instructions inside it, demangled names, and what is said of mistakes.
. tests/integration/lib.sh
need_attach
need objdump

cd "$SCRATCH" || die "no folder"
top=$OLDPWD
cat >shop.cc <<'CC'
#include <cstdio>
#include <unistd.h>

static volatile int wide = 1;

extern "C" {
__attribute__((noinline, noclone)) int price(int x) { return x * 3 + wide; }
int __price(int x) __attribute__((alias("price")));
static int (*choose(void))(int) { return price; }
int chosen(int x) __attribute__((ifunc("choose")));
}

namespace shop {
struct order {
	int amount = 3;
	__attribute__((noinline, noclone)) int total(int x) { return x * amount + wide; }
	__attribute__((noinline, noclone)) int operator()(int x) { return x + amount + wide; }
};
template <typename T> __attribute__((noinline, noclone)) T twice(T x) { return x + x + wide; }
__attribute__((noinline, noclone)) int tax(int x) { return x / 5 + wide; }
__attribute__((noinline, noclone)) int tax(double x) { return x / 4 + wide; }
__attribute__((noinline, cold)) int rare(int x) { return x * 7 + wide; }
__attribute__((noinline, noclone)) int duty(int x)
{
	int y = x * 7 + wide;

	if (__builtin_expect(x % 5 == 0, 0)) {
		y += rare(x);
		wide = y;
	}
	return y ^ wide;
}
}

int main()
{
	shop::order order;
	int sum = 0;

	puts("ready");
	fflush(stdout);
	for (;;) {
		sum += price(sum & 7) + chosen(3) + order.total(2) + order(1) + shop::twice(4) +
		       shop::tax(5) + shop::tax(5.0) + shop::duty(4);
		usleep(1000);
	}
}
CC
c++ -O2 -g0 -o shop-1.0 shop.cc || die "cannot build the program"
ln -s shop-1.0 shop
strip -o stripped shop-1.0

# row NAME: the row of a function, without the module
row()
{
	"$PROBECTL" list --functions ./shop "$1" 2>&1 | awk 'NR > 1 { NF--; print }'
}

# ---- Lists ---------------------------------------------------------------------------

size=$(objdump -t shop-1.0 | awk '$NF == "price" { print strtonum("0x" $5) }')
same "a function with two names" "$(row '*price*')" "fn:shop:price $size 1 1"
same "its other name" "$(row __price)" "fn:shop:__price $size 1 1"
"$PROBECTL" list --functions -v ./shop price | grep -qx '    also named: __price' ||
	fail "-v does not show the other name"
same "both names" "$("$PROBECTL" list --functions ./shop price __price | tail -n +2 | wc -l)" 2
same "overloads" "$(row 'shop::tax' | cut -d' ' -f1,3,4)" "fn:shop:shop::tax 2 2"
same "a method" "$(row 'shop::order::total' | cut -d' ' -f1,3,4)" "fn:shop:shop::order::total 1 1"
same "a wildcard" "$(row 'shop::order::*' | cut -d' ' -f1)" \
	"fn:shop:shop::order::operator()
fn:shop:shop::order::total"
same "a part" "$(row 'shop::duty*' | cut -d' ' -f1)" "fn:shop:shop::duty
fn:shop:shop::duty.cold"
same "a template" "$(row '*twice*' | cut -d' ' -f1,2)" "fn:shop:int shop::twice<int>"
same "exits alone" "$(row 'price:return' | cut -d' ' -f1,3,4)" "fn:shop:price - 1"
same "JSON" "$("$PROBECTL" list --functions --json ./shop price | sed -n \
	's/.*"name":"\([^"]*\)".*"size":\([0-9]*\),"aliases":"\([^"]*\)".*/\1 \2 \3/p')" \
	"price $size __price
price:return $size __price"

# ---- Mistakes ------------------------------------------------------------------------

# says WANTED ARGS…: the message of a command that fails
says()
{
	local wanted=$1
	shift
	"$PROBECTL" "$@" >out 2>err && fail "no error: $*"
	grep -qF -- "$wanted" err || fail "$*: $(cat err)"
}
says "the nearest: fn:shop:price" list --functions ./shop pryce
says "there is no file, program or library 'libnone.so.1'" list --functions libnone.so.1 f
says "there are no names of functions in ./stripped, which is stripped" list --functions ./stripped
says "expected the name of a function: fn:FILE:NAME" trace -p $$ fn:
says "expected the name of a function: fn:FILE:NAME" trace -p $$ fn:libc:

# ---- A process -----------------------------------------------------------------------

./shop >ready &
pid=$!
on_exit "end_process $pid"
while ! grep -q ready ready; do pause; done
(cd "$top" && save_state "$pid")
says "fn:shop-1.0:price" trace -p "$pid" fn:shop:pryce
says "it names a file, and no function: fn:shop:NAME" trace -p "$pid" fn:shop
says "--match retval:arg0 fn:libc:malloc:return fn:libc:free" trace -t heap -p "$pid" fn:shop:price

# hits PROBE: traces it, by the name of the link
hits()
{
	"$PROBECTL" trace -n 1 -p "$pid" "$1" >hits 2>err || fail "$1: $(cat err)"
	awk '{ print $5 }' hits
}
same "a link" "$(hits fn:shop:price)" fn:shop-1.0:price
same "its own name" "$(hits fn:shop-1.0:price)" fn:shop-1.0:price
same "a path with a link" "$(hits "uprobe:$PWD/shop:price")" fn:shop-1.0:price
same "overloads" "$(hits 'fn:shop:shop::tax')" fn:shop-1.0:shop::tax
same "an operator" "$(hits 'fn:shop:shop::order::operator()')" 'fn:shop-1.0:shop::order::operator()'
same "the name of an IFUNC" "$(hits fn:shop:chosen)" fn:shop-1.0:chosen
# Once, by the better name.
"$PROBECTL" list --functions -p "$pid" 'fn:shop:*price*' 'fn:shop:chosen' | tail -n +2 |
	awk '{ print $1 }' >names
same "a function with three names" "$(cat names)" "fn:shop-1.0:chosen
fn:shop-1.0:price"
same "all of them" "$("$PROBECTL" list --functions -p "$pid" 'fn:shop:/price|chosen/' | tail -n +2 |
	awk '{ print $1 }')" fn:shop-1.0:price

# ---- Instructions inside -------------------------------------------------------------

# The offsets of the second instruction of price(), and of a byte inside the first one.
start=$(objdump -t shop-1.0 | awk '$NF == "price" { print $1 }')
second=$(objdump -d --start-address=0x$start shop-1.0 |
	awk '$1 ~ /^[0-9a-f]+:$/ && ++n == 2 { print substr($1, 1, length($1) - 1); exit }')
offset=$(printf '0x%x' $((0x$second - 0x$start)))
same "an instruction" "$(hits "fn:shop:price+$offset")" "fn:shop-1.0:price+$offset"
same "the same for bpftrace" "$(hits "uprobe:$PWD/shop:price+$((offset))")" \
	"fn:shop-1.0:price+$offset"
says "no instruction of the function begins at this offset" trace -d 1 -p "$pid" fn:shop:price+1
says "the function ends before this offset" trace -d 1 -p "$pid" "fn:shop:price+$size"
says "there is no arg0, the probe has no arguments" trace -d 1 -p "$pid" \
	"fn:shop:price+$offset(arg0)"
"$PROBECTL" enable -p "$pid" "fn:shop:price+$offset" >out 2>err || fail "enable: $(cat err)"
"$PROBECTL" status -p "$pid" | grep -q "fn:shop-1.0:price+$offset *on" || fail "it is not on"
"$PROBECTL" disable -p "$pid" "fn:shop:price+$offset" >out 2>err || fail "disable: $(cat err)"
# Wildcards disable exits, too.
"$PROBECTL" enable -p "$pid" fn:shop:price fn:shop:price:return >out 2>err || fail "enable: $(cat err)"
"$PROBECTL" disable -p "$pid" 'fn:shop:*' >out 2>err || fail "disable: $(cat err)"
same "disabled" "$(cat out)" "2 probes, 2 sites disabled in $pid"
says "fn:shop:price: the filter 'none > 1': there is no argument 'none'" \
	trace -p "$pid" -f 'none > 1' fn:shop:price
says "fn:shop:price: the key 'begin.none': there is no argument 'none'" \
	trace -t latency -p "$pid" -k begin.none fn:shop:price
cd "$top" && same_state "$pid"
finish
