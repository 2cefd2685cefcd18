/* SPDX-License-Identifier: MIT */
/* The order in which functions connected to one probe are called. */
/* Not under ThreadSanitizer: it knows neither stacks nor code that we make. */
/* Not under AddressSanitizer: its terabytes of memory are searched at each of many changes. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/self/self_hits.h"
#include "tests/unit/wait.h"

enum { CALLS_MAX = 32, QUEUE = 3, TURNS = 8, THREADS = 2, CHANGES = 10 };

/* A function for a probe notes its data, a letter. */
static _Thread_local char called[CALLS_MAX + 1];
static _Thread_local size_t call_count;

static void note(const struct probe_self_hit *hit, void *data)
{
	(void)hit;
	if (call_count < CALLS_MAX)
		called[call_count++] = *(const char *)data;
}

static char letters[] = "abcdefghijklmnopqrstuvwxyz";

static void *letter(char c)
{
	return &letters[c - 'a'];
}

static void add(const char *pattern, int priority, char c)
{
	self_ok(probe_self_register_prio(pattern, priority, note, letter(c)));
}

static void drop(const char *pattern, char c)
{
	self_ok(probe_self_unregister(pattern, note, letter(c)));
}

/* What one hit calls. */
static const char *order_of(void (*pass)(long i))
{
	call_count = 0;
	memset(called, 0, sizeof(called));
	pass(0);
	return called;
}

static void ping_once(long i)
{
	ping(i);
}

/* ---- Registration, and priority ---------------------------------------------------------- */

static void test_registration(void **state)
{
	(void)state;
	self_ok(probe_self_register("testcalls:hit", note, letter('a')));
	self_ok(probe_self_register("testcalls:h*", note, letter('b')));
	self_ok(probe_self_register("testcalls:hit", note, letter('c')));
	self_ok(probe_self_register("/^testcalls:(hit|ping)$/", note, letter('d')));
	self_ok(probe_self_register("testcalls:hit(arg0)", note, letter('e')));
	self_ok(probe_self_register("testcalls:hit(arg0)", note, letter('f')));
	assert_string_equal(order_of(hit), "abcdef");
	assert_string_equal(order_of(ping_once), "d");
	drop("testcalls:h*", 'b');
	drop("testcalls:hit(arg0)", 'e');
	assert_string_equal(order_of(hit), "acdf");
	/* What comes again comes last. */
	self_ok(probe_self_register("testcalls:h*", note, letter('b')));
	self_ok(probe_self_register("testcalls:hit(arg0)", note, letter('e')));
	assert_string_equal(order_of(hit), "acdfbe");
	drop("testcalls:hit", 'a');
	drop("testcalls:hit(arg0)", 'e');
	drop("testcalls:h*", 'b');
	drop("testcalls:hit(arg0)", 'f');
	drop("testcalls:hit", 'c');
	assert_string_equal(order_of(hit), "d");
	drop("/^testcalls:(hit|ping)$/", 'd');
	self_text_same();
	self_nothing_left();
}

static void test_priority(void **state)
{
	(void)state;
	add("testcalls:hit", PROBE_SELF_PRIORITY, 'd');
	add("testcalls:h?t", -5, 'h');
	add("testcalls:[gh]it", 99, 'a');
	add("testcalls:hit", PROBE_SELF_PRIORITY, 'e');
	add("testcalls:hit", 50, 'c');
	add("testcalls:hit", -5, 'i');
	add("testcalls:h*", PROBE_SELF_PRIORITY, 'f');
	add("testcalls:hit", 99, 'b');
	add("testcalls:hit", PROBE_SELF_PRIORITY, 'g');
	assert_string_equal(order_of(hit), "abcdefghi");
	/* A count beside them, from outside or inside, changes nothing. */
	self_enable("testcalls:hit");
	add("testcalls:h*", 50, 'z');
	assert_string_equal(order_of(hit), "abczdefghi");
	drop("testcalls:h*", 'z');
	self_disable("testcalls:hit");
	assert_string_equal(order_of(hit), "abcdefghi");
	self_fails(probe_self_register_prio("testcalls:hit", 7, note, letter('d')),
		PROBE_ERROR_STATE, "the function is connected already, with the same data");
	drop("testcalls:hit", 'd');
	drop("testcalls:h?t", 'h');
	assert_string_equal(order_of(hit), "abcefgi");
	drop("testcalls:[gh]it", 'a');
	drop("testcalls:hit", 'b');
	drop("testcalls:hit", 'c');
	drop("testcalls:hit", 'i');
	drop("testcalls:hit", 'g');
	drop("testcalls:hit", 'e');
	drop("testcalls:h*", 'f');
	self_text_same();
	self_nothing_left();
}

/* The oldest goes and a new one comes, again and again: the places of the old are reused. */
static void test_queue(void **state)
{
	char expected[QUEUE + 1] = {0};

	(void)state;
	for (int i = 0; i < QUEUE; i++)
		add("testcalls:hit", 0, letters[i]);
	for (int i = 0; i < TURNS; i++) {
		memcpy(expected, letters + i, QUEUE);
		assert_string_equal(order_of(hit), expected);
		drop("testcalls:hit", letters[i]);
		add("testcalls:hit", 0, letters[i + QUEUE]);
	}
	for (int i = 0; i < QUEUE; i++)
		drop("testcalls:hit", letters[TURNS + i]);
	self_text_same();
	self_nothing_left();
}

/* ---- While hits go on -------------------------------------------------------------------- */

static atomic_bool done;
static atomic_long passed, misordered, missed;

/* `b` and `y` are connected all the time, the others come and go. */
static void *watch(void *data)
{
	(void)data;
	while (!done) {
		const char *order = order_of(hit);

		for (size_t i = 1; order[i]; i++)
			misordered += order[i - 1] >= order[i];
		missed += !strchr(order, 'b') || !strchr(order, 'y');
		passed++;
	}
	return NULL;
}

/* Returns when every thread has passed the site some more times. */
static void let_them_pass(void)
{
	long before = passed;

	wait_until(passed >= before + 10L * THREADS);
}

static void test_changes(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	add("testcalls:hit", 20, 'b');
	add("testcalls:hi*", 10, 'y');
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, watch, NULL), 0);
	for (int i = 0; i < CHANGES; i++) {
		add("testcalls:h?t", 15, 'm');
		add("testcalls:hi?", 30, 'a');
		self_enable("testcalls:hit");
		let_them_pass();
		add("testcalls:[h]it", 5, 'z');
		let_them_pass();
		drop("testcalls:h?t", 'm');
		self_disable("testcalls:hit");
		drop("testcalls:[h]it", 'z');
		drop("testcalls:hi?", 'a');
	}
	done = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(misordered, 0);
	assert_int_equal(missed, 0);
	drop("testcalls:hi*", 'y');
	drop("testcalls:hit", 'b');
	self_text_same();
	self_nothing_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registration),
		cmocka_unit_test(test_priority),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_changes),
	};

	self_text_save();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
