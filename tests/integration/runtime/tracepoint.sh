#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# <probe/tracepoint.h>: the example of docs/instrumenting.md; tracepoints in several files, in inline
# functions and unrolled loops, in a library and in a static program, by each compiler and language;
# and what the compiler must refuse.
. tests/integration/lib.sh
need cc jq readelf
include=-Ilibprobe/include
link=("-L$BUILD" "-Wl,-rpath,$BUILD" -lprobe)
example=docs/examples/instrument/orders.c

# ---- The example ------------------------------------------------------------------------------

! cc $include -M $example | grep -q 'sys/sdt' || fail "the header needs SystemTap's"
cc -O2 -Wall -Wextra -Werror $include -o "$SCRATCH/orders" $example "${link[@]}" || die "it does not build"
same "the example" "$("$SCRATCH/orders" 2>&1)" "order 1 of customer 1
order 2 of customer 0
order 3 of customer 1
3 orders of 9.75; all: 16.00"
"$PROBECTL" trace --json -o "$SCRATCH/hits" 'orders:taken(arg0,str(arg1))' orders:done orders:closing -- \
	"$SCRATCH/orders" quiet >"$SCRATCH/out" || fail "trace of the example: status $?"
same "the example, traced" "$(jq -c 'select(.args) | [.name, .args]' "$SCRATCH/hits" | paste -sd' ')" \
	'["taken",[1,"customer 1"]] ["done",[1,1.75]] ["taken",[2,"customer 0"]] ["done",[2,3.25]] ["taken",[3,"customer 1"]] ["done",[3,4.75]] ["taken",[4,"customer 0"]] ["done",[4,6.25]] ["closing",[]]'

# ---- Files, copies and types --------------------------------------------------------------------

cat >"$SCRATCH/tp.h" <<'END'
#include <stdbool.h>
#include <probe/tracepoint.h>
enum color { RED = -1, GREEN = 5 };
PROBE_DECLARE_TRACE(tp, none);
PROBE_DECLARE_TRACE(tp, both, int, where, const char *, text);
PROBE_DECLARE_TRACE(tp, copied, long, number);
PROBE_DECLARE_TRACE(tp, types, signed char, a, unsigned char, b, short, c, unsigned short, d, int, e,
	unsigned int, f, long, g, unsigned long, h, double, i, float, j, enum color, k, bool, l);
static inline __attribute__((always_inline)) void in_header(long number)
{
	trace_tp_copied(number);
}
#ifdef __cplusplus
extern "C"
#endif
	void elsewhere(int n);
extern volatile int work;
END
cat >"$SCRATCH/second.c" <<'END'
#include "tp.h"
#ifdef LIBRARY
PROBE_DEFINE_TRACE(tp, both);
PROBE_DEFINE_TRACE(tp, copied);
#endif
void elsewhere(int n)
{
	work += n;
	work *= 3;
	trace_tp_both(2, "second");
	work += n;
	work *= 5;
	in_header(100 * n);
	work += n;
	work *= 7;
}
END
cat >"$SCRATCH/first.c" <<'END'
#include "tp.h"
#include <stdio.h>
PROBE_DEFINE_TRACE(tp, none);
PROBE_DEFINE_TRACE(tp, both);
PROBE_DEFINE_TRACE(tp, copied);
PROBE_DEFINE_TRACE(tp, types);
volatile int work;
volatile double half = 2.5;
static __attribute__((noinline)) void pass(int n)
{
	trace_tp_none();
	work += n;
	work *= 3;
	trace_tp_both(1, "first");
	work += n;
	work *= 5;
	trace_tp_types((signed char)-n, (unsigned char)(n + 200), (short)(-n * 100), (unsigned short)(n + 65000), -n,
		(unsigned)n, -10L * n, 10UL * (unsigned)n, half * n, 0.25f, n > 0 ? RED : GREEN, n > 0);
	work += n;
	work *= 7;
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		in_header(i);
		work += i;
		work *= 11;
	}
	elsewhere(n);
}
#ifdef REGISTER
static void on_none(void *data)
{
	printf("%s none\n", (char *)data);
}
static void on_both(void *data, int where, const char *text)
{
	printf("%s both %d %s %d\n", (char *)data, where, text, trace_tp_both_enabled());
}
static void on_copied(void *data, long number)
{
	printf("%s copied %ld\n", (char *)data, number);
}
static void on_types(void *data, signed char a, unsigned char b, short c, unsigned short d, int e, unsigned int f,
	long g, unsigned long h, double i, float j, enum color k, bool l)
{
	printf("%s types %d %d %d %d %d %u %ld %lu %g %g %d %d\n", (char *)data, a, b, c, d, e, f, g, h, i, j, k, l);
}
#define DO(call)                                                                                                       \
	do {                                                                                                           \
		struct probe_error *error = call;                                                                      \
		if (error)                                                                                             \
			printf("%s\n", error->message);                                                                \
		probe_error_free(error);                                                                               \
	} while (0)
int main(void)
{
	static char a[] = "a", b[] = "b";
	pass(1);
	DO(register_trace_tp_none(on_none, a));
	DO(register_trace_tp_both(on_both, a));
	DO(register_trace_tp_both(on_both, b));
	DO(register_trace_tp_both(on_both, a));
	DO(register_trace_tp_both(NULL, a));
	DO(register_trace_tp_copied(on_copied, a));
	DO(register_trace_tp_types(on_types, a));
	pass(7);
	DO(unregister_trace_tp_none(on_none, a));
	DO(unregister_trace_tp_both(on_both, a));
	DO(unregister_trace_tp_copied(on_copied, a));
	DO(unregister_trace_tp_types(on_types, a));
	pass(8);
	DO(unregister_trace_tp_both(on_both, a));
	DO(unregister_trace_tp_both(on_both, b));
	printf("%d\n", trace_tp_both_enabled());
	return 0;
}
#else
int main(void)
{
	pass(7);
	return 0;
}
#endif
END
cat >"$SCRATCH/wanted" <<'END'
tp:both(arg0,arg1): the function is connected already, with the same data
tp:both(arg0,arg1): there is no function to be connected
a none
a both 1 first 1
b both 1 first 1
a types -7 207 -700 65007 -7 7 -70 70 17.5 0.25 -1 1
a copied 0
a copied 1
a copied 2
a copied 3
a both 2 second 1
b both 2 second 1
a copied 700
b both 1 first 1
b both 2 second 1
tp:both(arg0,arg1): the function is not connected with this data
0
END

sources=("$SCRATCH/first.c" "$SCRATCH/second.c")
for compiler in 'gcc -std=c99 -D_GNU_SOURCE -O2' 'gcc -O0' 'gcc -O3 -flto' 'g++ -x c++ -O2' 'clang -std=c99 -O2' \
	'clang++ -x c++ -O1' 'gcc -O2 -DPROBE_TRACEPOINT_GUARD' 'clang++ -x c++ -O0 -DPROBE_TRACEPOINT_GUARD'; do
	read -ra cc <<<"$compiler"
	[ -n "$(command -v "${cc[0]}")" ] || continue
	"${cc[@]}" -Wall -Wextra -Werror -DREGISTER $include -o "$SCRATCH/tp" "${sources[@]}" -x none "${link[@]}" ||
		fail "$compiler: it does not build"
	"$SCRATCH/tp" >"$SCRATCH/out" 2>&1 || fail "$compiler: status $?"
	cmp -s "$SCRATCH/out" "$SCRATCH/wanted" || fail "$compiler: $(diff "$SCRATCH/out" "$SCRATCH/wanted")"
	# A library has tracepoints of its own of the same names; one registration connects both.
	"${cc[@]}" -Wall -Wextra -Werror -fPIC -shared -DLIBRARY $include -o "$SCRATCH/libsecond.so" "${sources[1]}" &&
		"${cc[@]}" -DREGISTER $include -o "$SCRATCH/tp" "${sources[0]}" -x none "$SCRATCH/libsecond.so" \
			"-Wl,-rpath,$SCRATCH" "${link[@]}" || fail "$compiler: the library does not build"
	"$SCRATCH/tp" >"$SCRATCH/out" 2>&1 || fail "$compiler, a library: status $?"
	cmp -s "$SCRATCH/out" "$SCRATCH/wanted" || fail "$compiler, a library: $(diff "$SCRATCH/out" "$SCRATCH/wanted")"
done

# A program that connects nothing needs no library of ours, also if it is static.
cc -O2 -static $include -o "$SCRATCH/static" "${sources[@]}" || die "the static program does not build"
same "sites of a static program" "$("$PROBECTL" list --json "$SCRATCH/static" 'tp:*' | jq -r .name | sort | uniq -c |
	awk '{ printf "%s=%s ", $2, $1 }')" "both=2 copied=5 none=1 types=1 "
same "each with its semaphore" "$("$PROBECTL" list --json "$SCRATCH/static" 'tp:*' | jq -r .semaphore | sort -u | wc -l)" 4
"$PROBECTL" trace --json -o "$SCRATCH/hits" 'tp:*' -- "$SCRATCH/static" || fail "trace of a static program: status $?"
same "a static program, traced" "$(jq -c 'select(.name == "types").args' "$SCRATCH/hits")" \
	'[-7,207,-700,65007,-7,7,-70,70,17.5,0.25,-1,1]'

# ---- What the compiler refuses ---------------------------------------------------------------

# refused WHAT CODE: no compiler takes this line in a function
refused()
{
	local compiler cc
	for compiler in gcc clang 'g++ -x c++' 'clang++ -x c++'; do
		read -ra cc <<<"$compiler"
		[ -n "$(command -v "${cc[0]}")" ] || continue
		printf '%s\n' '#include "tp.h"' 'struct counter { long n; };' \
			'void right(void *data, int where, const char *text);' 'void wrong(void *data, long where, const char *text);' \
			'void fewer(void *data, int where);' 'void hit(const struct probe_self_hit *hit, struct counter *counter);' \
			'struct probe_error *test(struct counter *counter, long *other);' \
			'struct probe_error *test(struct counter *counter, long *other)' "{ (void)counter; (void)other; $2; return 0; }" \
			>"$SCRATCH/refused.c"
		! "${cc[@]}" $include -fsyntax-only "$SCRATCH/refused.c" 2>"$SCRATCH/err" || fail "$compiler takes $1"
	done
}
# The right ones compile, so that what is refused is refused for its type.
for code in 'return register_trace_tp_both(right, other)' 'return unregister_trace_tp_both(right, other)' \
	'trace_tp_both(1, "text")' 'return PROBE_SELF_REGISTER("tp:both", hit, counter)' \
	'return PROBE_SELF_UNREGISTER("tp:both", hit, counter)'; do
	printf '%s\n' '#include "tp.h"' 'struct counter { long n; };' 'void right(void *data, int where, const char *text);' \
		'void hit(const struct probe_self_hit *hit, struct counter *counter);' \
		'struct probe_error *test(struct counter *counter, long *other);' \
		'struct probe_error *test(struct counter *counter, long *other)' "{ (void)counter; (void)other; $code; return 0; }" \
		>"$SCRATCH/taken.c"
	for compiler in 'gcc -Wall -Wextra -Werror' 'g++ -Wall -Wextra -Werror -x c++'; do
		read -ra cc <<<"$compiler"
		"${cc[@]}" $include -fsyntax-only "$SCRATCH/taken.c" || fail "$compiler refuses: $code"
	done
done
refused "a function with another type" 'return register_trace_tp_both(wrong, 0)'
refused "a function with fewer arguments" 'return register_trace_tp_both(fewer, 0)'
refused "a function with another type, disconnected" 'return unregister_trace_tp_both(wrong, 0)'
refused "a number in place of a function" 'return register_trace_tp_both(5, 0)'
refused "an argument too few" 'trace_tp_both(1)'
refused "an argument too many" 'trace_tp_none(1)'
refused "a structure in place of a number" 'trace_tp_both(*counter, "text")'
refused "a function of hits for other data" 'return PROBE_SELF_REGISTER("tp:both", hit, other)'
refused "a function that takes no hit" 'return PROBE_SELF_REGISTER("tp:both", fewer, counter)'
refused "a function that takes no hit, cast" 'return PROBE_SELF_REGISTER("tp:both", (void *)fewer, counter)'
refused "a function of hits for other data, disconnected" 'return PROBE_SELF_UNREGISTER("tp:both", hit, other)'
refused "a type without a name" 'PROBE_DECLARE_TRACE(tp, odd, int)'
finish
