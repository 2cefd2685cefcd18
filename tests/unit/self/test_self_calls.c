/* SPDX-License-Identifier: MIT */
/* Functions connected to one's own probes. */
/* Not under ThreadSanitizer: it knows neither stacks nor code that we make. */
/* Not under AddressSanitizer: its terabytes of memory are searched at each of many changes. */
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#define SDT_USE_VARIADIC
#include <sys/sdt.h>

#include "tests/unit/room.h"
#include "tests/unit/self/self_hits.h"
#include "tests/unit/wait.h"

enum { THREADS = 4, HITS = 1000, FRAMES = 64, FUNCTIONS = 9 };

/* ---- Probes ------------------------------------------------------------------------------ */

/* These two have sections of their own, so the linker provides their bounds. */
extern const char __start_of_hit[], __stop_of_hit[], __start_of_caller[], __stop_of_caller[];

__attribute__((noinline)) static void all_kinds(
	int i, unsigned char c, double d, const char *text, const char *none)
{
	STAP_PROBE5(testcalls, kinds, i, c, d, text, none);
	ROOM();
}

/* As gcc names a value of 16 bytes in two registers. */
__attribute__((noinline)) static void wide(long i)
{
	/* clang-format off */
#ifdef __aarch64__
	register long first __asm__("x0") = i;

	__asm__ volatile(STAP_PROBE_ASM(testcalls, wide, 16@x0) : : "r"(first));
#else
	__asm__ volatile(STAP_PROBE_ASM(testcalls, wide, 16@%%rdi) : : "D"(i));
#endif
	/* clang-format on */
	ROOM();
}

__attribute__((noinline)) static void pong(long i)
{
	__asm__ volatile("" : : "r"(i));
	STAP_PROBE1(testcalls, pong, i);
	ROOM();
}

/* At least as many values across the site as there are registers. */
__attribute__((noinline)) static long live(const long *from, const double *numbers, double *sum)
{
	long a = from[0], b = from[1], c = from[2], d = from[3], e = from[4], f = from[5];
	long g = from[6], h = from[7], i = from[8], j = from[9], k = from[10], l = from[11];
	long m = from[12], n = from[13], o = from[14], p = from[15], q = from[16], r = from[17];
	double v = numbers[0], w = numbers[1], x = numbers[2], y = numbers[3], z = numbers[4];

	STAP_PROBE12(testcalls, live, a, b, c, d, e, f, g, h, i, j, k, l);
	ROOM();
	STAP_PROBE6(testcalls, live_more, m, n, o, p, q, r);
	ROOM();
	*sum = v + 2 * w + 3 * x + 4 * y + 5 * z;
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k +
	       12 * l + 13 * m + 14 * n + 15 * o + 16 * p + 17 * q + 18 * r;
}

/* ---- Calls ------------------------------------------------------------------------------- */

struct kept {
	long calls;
	int i;
	unsigned int c;
	double d;
	char text[16];
	bool cut, is_null;
	char name[64];
	uint64_t pc;
	unsigned int depth;
};

static void keep(const struct probe_self_hit *hit, void *data)
{
	struct kept *kept = data;

	kept->calls++;
	assert_int_equal(hit->arg_count, 5);
	assert_int_equal(hit->args[0].kind, PROBE_VALUE_SIGNED);
	assert_int_equal(hit->args[1].kind, PROBE_VALUE_UNSIGNED);
	kept->i = (int)hit->args[0].i;
	kept->c = (unsigned int)hit->args[1].u;
	memcpy(&kept->d, &hit->args[2].u, sizeof(kept->d));
	if (hit->args[2].kind == PROBE_VALUE_FLOAT)
		kept->d = hit->args[2].f;
	assert_int_equal(hit->args[3].kind, PROBE_VALUE_STRING);
	memcpy(kept->text, hit->args[3].bytes, hit->args[3].length);
	kept->cut = hit->args[3].truncated;
	kept->is_null = hit->args[4].kind == PROBE_VALUE_NULL;
	snprintf(kept->name, sizeof(kept->name), "%s:%s", hit->provider, hit->name);
	kept->pc = hit->pc;
	kept->depth = hit->depth;
	errno = ENOTBLK;
}

static void test_arguments(void **state)
{
	static const char pattern[] = "testcalls:kinds(arg0,arg1,arg2,str(arg3),str(arg4))";
	struct kept kept = {.d = -1};

	(void)state;
	self_ok(probe_self_register(pattern, keep, &kept));
	assert_true(self_status("testcalls", "kinds").enabled);
	errno = ENOTTY;
	all_kinds(-7, 200, 1.5, "some text", NULL);
	assert_int_equal(errno, ENOTTY);
	self_ok(probe_self_unregister(pattern, keep, &kept));
	all_kinds(1, 2, 3, "no more", NULL);
	assert_int_equal(kept.calls, 1);
	assert_int_equal(kept.i, -7);
	assert_int_equal(kept.c, 200);
	assert_true(kept.d == 1.5);
	assert_string_equal(kept.text, "some text");
	assert_false(kept.cut);
	assert_true(kept.is_null);
	assert_string_equal(kept.name, "testcalls:kinds");
	assert_int_equal(kept.depth, 0);
	assert_true(kept.pc - (uintptr_t)all_kinds < 256);
	self_text_same();
	self_nothing_left();
}

static void keep_half(const struct probe_self_hit *hit, void *data)
{
	assert_int_equal(hit->arg_count, 1);
	assert_int_equal(hit->args[0].kind, PROBE_VALUE_BYTES);
	assert_int_equal(hit->args[0].length, sizeof(long));
	assert_true(hit->args[0].truncated);
	memcpy(data, hit->args[0].bytes, sizeof(long));
}

static void test_half(void **state)
{
	long half = 0;

	(void)state;
	self_ok(probe_self_register("testcalls:wide(arg0)", keep_half, &half));
	wide(-77);
	self_ok(probe_self_unregister("testcalls:wide(arg0)", keep_half, &half));
	assert_int_equal(half, -77);
	self_nothing_left();
}

/* Many functions at one probe, by one pattern and by others, each with its own data. */
static void test_many_functions(void **state)
{
	atomic_long counts[FUNCTIONS] = {0}, by_glob = 0;

	(void)state;
	for (int i = 0; i < FUNCTIONS; i++)
		self_ok(probe_self_register("testcalls:hit", self_count, &counts[i]));
	self_ok(probe_self_register("testcalls:h?t", self_count, &by_glob));
	self_enable("testcalls:hit");
	for (int i = 0; i < HITS; i++)
		hit(i);
	for (int i = 0; i < FUNCTIONS; i++)
		assert_int_equal(counts[i], HITS);
	assert_int_equal(by_glob, HITS);
	assert_int_equal(self_status("testcalls", "hit").hits, HITS);
	assert_int_equal(self_status("testcalls", "hit").refcount, 3);
	self_ok(probe_self_unregister("testcalls:hit", self_count, &counts[3]));
	self_disable("testcalls:hit");
	hit(0);
	assert_int_equal(counts[3], HITS);
	assert_int_equal(counts[4], HITS + 1);
	self_ok(probe_self_register("testcalls:hit", self_count, &counts[3]));
	hit(0);
	assert_int_equal(counts[3], HITS + 1);
	for (int i = 0; i < FUNCTIONS; i++)
		self_ok(probe_self_unregister("testcalls:hit", self_count, &counts[i]));
	assert_int_equal(self_status("testcalls", "hit").refcount, 1);
	self_ok(probe_self_unregister("testcalls:h?t", self_count, &by_glob));
	self_text_same();
	self_nothing_left();
}

static void test_errors(void **state)
{
	struct probe_report report = {0};
	atomic_long calls = 0;

	(void)state;
	self_fails(probe_self_register("testcalls:hut", self_count, &calls), PROBE_ERROR_NOT_FOUND,
		"testcalls:hit");
	self_fails(
		probe_self_register("testcalls:hit(", self_count, &calls), PROBE_ERROR_USAGE, "");
	self_fails(probe_self_unregister("testcalls:hit", self_count, &calls),
		PROBE_ERROR_NOT_FOUND,
		"testcalls:hit: the function is not connected with this data");
	/* For example, if dlsym(3) has not found it. */
	self_fails(probe_self_register("testcalls:hit", NULL, NULL), PROBE_ERROR_USAGE,
		"testcalls:hit: there is no function to be connected");
	self_fails(probe_self_register("testcalls:hit(arg0,arg1)", self_count, &calls),
		PROBE_ERROR_USAGE,
		"testcalls:hit: there is no arg1, the probe has 1 argument: -8@");
	self_fails(probe_self_register("testcalls:hit(sym(arg0))", self_count, &calls),
		PROBE_ERROR_USAGE,
		"'testcalls:hit(sym(arg0))': a function gets addresses, not their names: argN");
	self_fails(probe_self_register("testcalls:kinds(str(arg3,arg9))", self_count, &calls),
		PROBE_ERROR_USAGE, "there is no arg9, the probe has 5 arguments: -4@");
	self_nothing_left();
	self_ok(probe_self_register("testcalls:hit", self_count, &calls));
	self_fails(probe_self_unregister("testcalls:hit", NULL, NULL), PROBE_ERROR_NOT_FOUND,
		"testcalls:hit: the function is not connected with this data");
	self_fails(probe_self_register("testcalls:hit", self_count, &calls), PROBE_ERROR_STATE,
		"testcalls:hit: the function is connected already, with the same data");
	/* It has no references that are counted one by one. */
	self_fails(probe_self_disable(self_request("testcalls:hit"), &report), PROBE_ERROR_STATE,
		"testcalls:hit is not enabled");
	hit(1);
	assert_int_equal(calls, 1);
	self_ok(probe_self_unregister("testcalls:hit", self_count, &calls));
	self_fails(probe_self_unregister("testcalls:hit", self_count, &calls),
		PROBE_ERROR_NOT_FOUND, "not connected");
	self_text_same();
	self_nothing_left();
}

/* ---- Live values ------------------------------------------------------------------------- */

static void check_live(const struct probe_self_hit *hit, void *data)
{
	const long *from = data;
	bool is_more = !strcmp(hit->name, "live_more");
	volatile double numbers[32];

	assert_int_equal(hit->arg_count, is_more ? 6 : 12);
	for (size_t i = 0; i < hit->arg_count; i++)
		assert_int_equal(hit->args[i].i, from[i + (is_more ? 12 : 0)]);
	/* Vector registers are used, as in any function. */
	for (int i = 0; i < 32; i++)
		numbers[i] = i * 1.25 + (double)hit->args[0].i;
	assert_true(numbers[31] > 0);
}

/* Compiled to one instruction: its state need not be saved. */
static void count_live(const struct probe_self_hit *hit, void *data)
{
	(void)hit;
	++*(long *)data;
}

static void test_live_values(void **state)
{
	long before = 0, after = 0;
	long from[18], sum = 0;
	double numbers[5] = {1.25, 2.5, 3.75, 5, 6.125}, total = 0, got = 0;

	(void)state;
	for (int i = 0; i < 18; i++) {
		from[i] = 1000003L * (i + 1);
		sum += from[i] * (i + 1);
	}
	for (int i = 0; i < 5; i++)
		total += numbers[i] * (i + 1);
	/* Alone, and with one that changes vector registers between two that do not. */
	self_ok(probe_self_register("testcalls:live*", count_live, &before));
	for (int i = 0; i < 2 * HITS; i++) {
		if (i == HITS) {
			self_ok(probe_self_register("testcalls:live*", check_live, from));
			self_ok(probe_self_register("testcalls:live*", count_live, &after));
		}
		assert_int_equal(live(from, numbers, &got), sum);
		assert_true(got == total);
	}
	self_ok(probe_self_unregister("testcalls:live*", check_live, from));
	assert_int_equal(live(from, numbers, &got), sum);
	assert_true(got == total);
	self_ok(probe_self_unregister("testcalls:live*", count_live, &before));
	self_ok(probe_self_unregister("testcalls:live*", count_live, &after));
	assert_int_equal(before, 2 * (2 * HITS + 1));
	assert_int_equal(after, 2 * (HITS + 1));
	self_text_same();
}

/* ---- Allocation and backtraces ------------------------------------------------------------- */

static atomic_long found_by_backtrace, found_by_unwinder;

__attribute__((noinline, section("of_caller"))) static void caller(long i)
{
	hit(i);
	__asm__ volatile("");
}

static bool in_hit(const void *ip)
{
	return (const char *)ip >= __start_of_hit && (const char *)ip < __stop_of_hit;
}

static bool in_caller(const void *ip)
{
	return (const char *)ip >= __start_of_caller && (const char *)ip < __stop_of_caller;
}

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *data)
{
	long *found = data;
	const void *ip = (void *)_Unwind_GetIP(context);

	*found += in_hit(ip);
	*found += 2 * in_caller(ip);
	return _URC_NO_REASON;
}

static void look_back(const struct probe_self_hit *h, void *data)
{
	void *frames[FRAMES], *block = malloc(10000);
	int count = backtrace(frames, FRAMES);
	long seen = 0;

	(void)h;
	(void)data;
	assert_non_null(block);
	for (int i = 0; i + 1 < count; i++)
		found_by_backtrace += in_hit(frames[i]) && in_caller(frames[i + 1]);
	_Unwind_Backtrace(on_frame, &seen);
	found_by_unwinder += seen == 3;
	free(block);
}

static void test_backtrace(void **state)
{
	(void)state;
	self_ok(probe_self_register("testcalls:hit", look_back, NULL));
	for (int i = 0; i < HITS; i++)
		caller(i);
	self_ok(probe_self_unregister("testcalls:hit", look_back, NULL));
	assert_int_equal(found_by_backtrace, HITS);
	assert_int_equal(found_by_unwinder, HITS);
	self_text_same();
	self_nothing_left();
}

/* ---- Nesting -------------------------------------------------------------------------------- */

static long nested[2 * DEPTH];

/* Each hits the other's probe, and its own. */
static void on_ping(const struct probe_self_hit *hit, void *data)
{
	(void)data;
	nested[hit->depth]++;
	assert_int_equal(hit->args[0].i + hit->depth, DEPTH);
	if (hit->args[0].i)
		pong(hit->args[0].i - 1);
}

static void on_pong(const struct probe_self_hit *hit, void *data)
{
	(void)data;
	nested[hit->depth]++;
	assert_int_equal(hit->args[0].i + hit->depth, DEPTH);
	if (!hit->args[0].i)
		return;
	ping(hit->args[0].i - 1);
	pong(hit->args[0].i - 1);
}

static void test_nested(void **state)
{
	/* ping: one pong; pong: one ping and one pong */
	static const long wanted[DEPTH + 1] = {1, 1, 2, 3, 5, 8};

	(void)state;
	self_ok(probe_self_register("testcalls:ping", on_ping, NULL));
	self_ok(probe_self_register("testcalls:pong", on_pong, NULL));
	ping(DEPTH);
	for (int i = 0; i <= DEPTH; i++)
		assert_int_equal(nested[i], wanted[i]);
	self_ok(probe_self_unregister("testcalls:ping", on_ping, NULL));
	self_ok(probe_self_unregister("testcalls:pong", on_pong, NULL));
	self_text_same();
	self_nothing_left();
}

/* ---- Disconnecting --------------------------------------------------------------------------- */

static void *let_go(void *data)
{
	usleep(100000);
	((struct slow *)data)->go = true;
	return NULL;
}

/* A thread that was in a stub at the last change keeps it until the next one. */
static void remove_stubs(void)
{
	self_enable("testcalls:hit");
	self_disable("testcalls:hit");
}

/* A thread stays in the function: disconnecting waits for it, and only for it. */
static void test_unregister_waits(void **state)
{
	struct slow *slow = calloc(1, sizeof(*slow));
	atomic_long calls = 0;
	pthread_t hitter, helper;

	(void)state;
	self_ok(probe_self_register("testcalls:hit", wait_to_go, slow));
	self_ok(probe_self_register("testcalls:ping", self_count, &calls));
	assert_int_equal(pthread_create(&hitter, NULL, hit_once, NULL), 0);
	wait_until(slow->entered);
	/* Others can be changed meanwhile. */
	ping(1);
	self_ok(probe_self_unregister("testcalls:ping", self_count, &calls));
	assert_int_equal(calls, 1);
	self_enable("testcalls:hit");
	self_disable("testcalls:hit");
	assert_int_equal(slow->left, 0);
	assert_int_equal(pthread_create(&helper, NULL, let_go, slow), 0);
	self_ok(probe_self_unregister("testcalls:hit", wait_to_go, slow));
	assert_int_equal(slow->left, 1);
	pthread_join(helper, NULL);
	free(slow);
	pthread_join(hitter, NULL);
	remove_stubs();
	self_text_same();
	self_nothing_left();
}

static void *take_away_cancelled(void *data)
{
	pthread_cancel(pthread_self());
	self_ok(probe_self_unregister("testcalls:hit", wait_to_go, data));
	pthread_testcancel();
	return NULL;
}

/* The same by a thread that is cancelled: not before it has waited. */
static void test_unregister_cancelled(void **state)
{
	struct slow slow = {0};
	pthread_t hitter, helper, taker;
	void *result;

	(void)state;
	self_ok(probe_self_register("testcalls:hit", wait_to_go, &slow));
	assert_int_equal(pthread_create(&hitter, NULL, hit_once, NULL), 0);
	wait_until(slow.entered);
	assert_int_equal(pthread_create(&helper, NULL, let_go, &slow), 0);
	assert_int_equal(pthread_create(&taker, NULL, take_away_cancelled, &slow), 0);
	assert_int_equal(pthread_join(taker, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(slow.left, 1);
	pthread_join(helper, NULL);
	pthread_join(hitter, NULL);
	remove_stubs();
	self_text_same();
	self_nothing_left();
}

static void once(const struct probe_self_hit *hit, void *data)
{
	(void)hit;
	++*(atomic_long *)data;
	self_ok(probe_self_unregister("testcalls:hit", once, data));
}

/* It is in its own stub when that should go: the next change removes the rest. */
static void test_unregister_itself(void **state)
{
	atomic_long calls = 0, others = 0;

	(void)state;
	self_ok(probe_self_register("testcalls:hit", once, &calls));
	hit(1);
	hit(2);
	assert_int_equal(calls, 1);
	self_text_same();
	self_ok(probe_self_register("testcalls:hit", self_count, &others));
	hit(3);
	assert_int_equal(others, 1);
	self_ok(probe_self_unregister("testcalls:hit", self_count, &others));
	assert_int_equal(calls, 1);
	self_text_same();
	self_nothing_left();
}

/* ---- Storms -----------------------------------------------------------------------------------
 */

struct life {
	atomic_long calls;
	atomic_int alive;
};

static void check_life(const struct probe_self_hit *hit, void *data)
{
	struct life *life = data;

	(void)hit;
	if (life->alive != 1)
		abort();
	life->calls++;
}

/* Functions come and go at probes that are being hit, with the memory they use. */
static void *come_and_go(void *pattern)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct life *life = calloc(1, sizeof(*life));

		life->alive = 1;
		self_ok(probe_self_register(pattern, check_life, life));
		/* A test must not depend on when a thread gets a processor. */
		wait_until(life->calls);
		self_ok(probe_self_unregister(pattern, check_life, life));
		life->alive = 0;
		free(life);
	}
	return NULL;
}

static void test_storm(void **state)
{
	static char patterns[3][32] = {"testcalls:hit", "testcalls:p?ng", "testcalls:[hp]i*"};
	pthread_t threads[THREADS], changers[3];
	atomic_long exact = 0;

	(void)state;
	/* From before the first hit until after the last one. */
	self_ok(probe_self_register("testcalls:hit", self_count, &exact));
	hitters_done = false;
	hitters_passed = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, keep_hitting, (void *)i), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&changers[i], NULL, come_and_go, patterns[i]), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(changers[i], NULL);
	hitters_done = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(exact, hitters_passed);
	self_ok(probe_self_unregister("testcalls:hit", self_count, &exact));
	self_text_same();
	self_nothing_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_half),
		cmocka_unit_test(test_many_functions),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_live_values),
		cmocka_unit_test(test_backtrace),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_unregister_waits),
		cmocka_unit_test(test_unregister_cancelled),
		cmocka_unit_test(test_unregister_itself),
		cmocka_unit_test(test_storm),
	};

	self_text_save();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
