/* SPDX-License-Identifier: MIT */
/* Arrays that grow by one item at a time, and are sorted by a number. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdlib.h>

#include "libprobe/base/array.h"

enum { ITEMS = 1000 };

static int *add(int *items, size_t *count)
{
	assert_true(ARRAY_ROOM(items, *count));
	assert_true(malloc_usable_size(items) >= (*count + 1) * sizeof(*items));
	items[*count] = (int)*count;
	(*count)++;
	return items;
}

/* There is room for new items, even after some were removed. */
static void test_room(void **state)
{
	(void)state;
	for (size_t dropped = 0; dropped <= 2 * ITEMS; dropped += dropped / 3 + 1) {
		size_t count = 0;
		int *items = NULL;

		while (count < ITEMS)
			items = add(items, &count);
		count -= dropped < count ? dropped : count;
		while (count < 2 * ITEMS)
			items = add(items, &count);
		for (size_t i = 0; i < count; i++)
			assert_int_equal(items[i], i);
		free(items);
	}
}

struct item {
	int number;
	uint64_t key;
};

/* Items are found by keys of any size, at any number of them, and none that is not there. */
static void test_find(void **state)
{
	struct item items[100];

	(void)state;
	for (size_t count = 0; count <= 100; count++) {
		for (size_t i = 0; i < count; i++)
			items[i] = (struct item){(int)i, UINT64_MAX - (i * 37 % count) * 3};
		ARRAY_SORT(items, count, key);
		for (size_t i = 0; i < count; i++) {
			uint64_t key = UINT64_MAX - (count - 1 - i) * 3;
			const struct item *found = ARRAY_FIND(items, count, key, key);

			assert_true(i == 0 || items[i - 1].key <= items[i].key);
			if (count % 37) { /* else keys repeat */
				assert_ptr_equal(found, &items[i]);
				assert_int_equal(found->number * 37 % count, count - 1 - i);
			}
			assert_null(ARRAY_FIND(items, count, key, key - 1));
			assert_null(ARRAY_FIND(items, count, key, key + 1));
		}
	}
	array_sort(NULL, 0, sizeof(*items), 0);
	assert_null(array_find(NULL, 0, sizeof(*items), 0, 1));
}

/* Without memory an array stays as it is. */
static void test_no_room(void **state)
{
	int *items = NULL, *before;
	size_t count = 0;

	(void)state;
	before = items = add(items, &count);
	assert_false(ARRAY_ROOM(items, SIZE_MAX / 4 + 1));
	assert_ptr_equal(items, before);
	assert_int_equal(items[0], 0);
	free(items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
