/* SPDX-License-Identifier: MIT */
/* Hits of several targets come out in the order of time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/trace/trace.h"

enum { MANY = 10000, UNIT_NS = 1000000 };

/* The hits that a merge has handed over. */
struct seen {
	size_t count, limit;
	uint64_t last_ns;
	char text[256];
};

static bool see(size_t target, const struct probe_hit *hit, const char *comm, void *data)
{
	struct seen *seen = data;
	size_t length = strlen(seen->text);

	assert_true(hit->time_ns >= seen->last_ns);
	seen->last_ns = hit->time_ns;
	if (hit->arg_count)
		snprintf(seen->text + length, sizeof(seen->text) - length, "%zu@%d:%.*s ", target,
			(int)(hit->time_ns / UNIT_NS), (int)hit->args[1].length,
			hit->args[1].bytes);
	assert_true(!comm || !strcmp(comm, "thread"));
	return ++seen->count != seen->limit;
}

/* The string's memory is used again at once, as a session does. */
static void add(struct merge *merge, size_t target, uint64_t time_ns, const char *text)
{
	char copy[32];
	struct probe_value args[2] = {
		{.kind = PROBE_VALUE_SIGNED, .i = -1},
		{.kind = PROBE_VALUE_STRING, .bytes = copy, .length = strlen(text)},
	};
	struct probe_hit hit = {.time_ns = time_ns * UNIT_NS, .args = args, .arg_count = 2};

	memcpy(copy, text, strlen(text));
	assert_true(merge_add(merge, target, &hit, "thread"));
	memset(copy, 'X', sizeof(copy));
}

static void hits_come_out_by_time(void **state)
{
	struct merge *merge = merge_create();
	struct seen seen = {0};

	(void)state;
	assert_non_null(merge);
	add(merge, 0, 3, "c");
	add(merge, 0, 7, "");
	add(merge, 1, 1, "a");
	add(merge, 1, 3, "d");
	add(merge, 1, 2, "b");
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_string_equal(seen.text, "1@1:a 1@2:b 0@3:c 1@3:d 0@7: ");
	seen = (struct seen){0};
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_int_equal(seen.count, 0);
	merge_free(merge);
}

static void a_visitor_may_stop(void **state)
{
	struct merge *merge = merge_create();
	struct seen seen = {.limit = 2};

	(void)state;
	add(merge, 0, 3, "c");
	add(merge, 0, 2, "b");
	add(merge, 0, 1, "a");
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_string_equal(seen.text, "0@1:a 0@2:b ");
	merge_free(merge);
}

static void many_hits_keep_their_arguments(void **state)
{
	struct probe_value args[2] = {
		{.kind = PROBE_VALUE_NULL},
		{.kind = PROBE_VALUE_BYTES, .bytes = "0123456789", .length = 10},
	};
	struct merge *merge = merge_create();
	struct seen seen = {.limit = 3};

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		struct probe_hit hit = {
			.time_ns = (MANY - i) * UNIT_NS, .args = args, .arg_count = 2};

		args[1].length = 1 + i % 10;
		assert_true(merge_add(merge, 0, &hit, NULL));
	}
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_string_equal(seen.text, "0@1:0123456789 0@2:012345678 0@3:01234567 ");
	merge_free(merge);
}

/* Hits may be printed more than once, and the newest of them kept. */
static void hits_are_copied_and_the_oldest_forgotten(void **state)
{
	struct merge *kept = merge_create();
	struct seen seen = {0};

	(void)state;
	add(kept, 0, 3, "c");
	add(kept, 0, 1, "a");
	add(kept, 0, 2, "b");
	assert_int_equal(merge_trim(kept, merge_bytes(kept)), 0);
	assert_int_equal(merge_trim(kept, merge_bytes(kept) - 1), 1);
	add(kept, 0, 4, "d");
	for (int i = 0; i < 2; i++) {
		struct merge *merge = merge_create();

		seen = (struct seen){0};
		add(merge, 1, 3, "other");
		assert_true(merge_add_all(merge, 7, kept));
		merge_drain(merge, UINT64_MAX, see, &seen);
		assert_string_equal(seen.text, "7@2:b 1@3:other 7@3:c 7@4:d ");
		merge_free(merge);
	}
	assert_int_equal(merge_trim(kept, 0), 3);
	assert_true(merge_is_empty(kept) && !merge_bytes(kept));
	merge_free(kept);
}

static void a_merge_says_when_it_is_full(void **state)
{
	struct probe_hit hit = {0};
	struct merge *merge = merge_create();
	struct seen seen = {0};
	size_t added = 0;

	(void)state;
	while (!merge_full(merge, 0)) {
		assert_true(merge_add(merge, 0, &hit, NULL));
		added++;
	}
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_int_equal(seen.count, added);
	assert_false(merge_full(merge, 0));
	merge_free(merge);
}

static void later_hits_wait(void **state)
{
	struct merge *merge = merge_create();
	struct seen seen = {0};

	(void)state;
	add(merge, 0, 9, "late");
	add(merge, 0, 3, "a");
	add(merge, 2, 5, "c");
	add(merge, 2, 9, "later");
	merge_drain(merge, 5 * UNIT_NS, see, &seen);
	assert_string_equal(seen.text, "0@3:a 2@5:c ");
	assert_true(merge_holds(merge, 0) && !merge_holds(merge, 1) && merge_holds(merge, 2));
	/* The one that has none is dropped. What comes now is older than what waits. */
	merge_remove(merge, 1);
	assert_true(merge_holds(merge, 1) && !merge_holds(merge, 2));
	add(merge, 2, 8, "d");
	merge_drain(merge, 8 * UNIT_NS, see, &seen);
	assert_string_equal(seen.text, "0@3:a 2@5:c 2@8:d ");
	assert_false(merge_is_empty(merge));
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_string_equal(seen.text, "0@3:a 2@5:c 2@8:d 0@9:late 1@9:later ");
	assert_true(merge_is_empty(merge));
	merge_free(merge);
}

static void nothing_overtakes_what_a_full_target_has_left(void **state)
{
	struct merge *merge = merge_create();
	struct probe_hit hit = {0};
	struct seen seen = {0};
	uint64_t last_ns;

	(void)state;
	assert_true(merge_known_ns(merge) == UINT64_MAX);
	add(merge, 1, MANY, "newest");
	while (!merge_full(merge, 0)) {
		hit.time_ns++;
		assert_true(merge_add(merge, 0, &hit, NULL));
	}
	last_ns = hit.time_ns;
	assert_false(merge_full(merge, 1));
	assert_true(merge_known_ns(merge) == last_ns);
	merge_drain(merge, merge_known_ns(merge), see, &seen);
	assert_int_equal(seen.count, last_ns);
	assert_true(merge_known_ns(merge) == UINT64_MAX && !merge_holds(merge, 0));
	assert_true(last_ns < UNIT_NS);
	/* It was read first; the other goes on where it was left. */
	add(merge, 0, 1, "next");
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_int_equal(seen.count, last_ns + 2);
	merge_free(merge);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hits_come_out_by_time),
		cmocka_unit_test(a_visitor_may_stop),
		cmocka_unit_test(many_hits_keep_their_arguments),
		cmocka_unit_test(hits_are_copied_and_the_oldest_forgotten),
		cmocka_unit_test(a_merge_says_when_it_is_full),
		cmocka_unit_test(later_hits_wait),
		cmocka_unit_test(nothing_overtakes_what_a_full_target_has_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
