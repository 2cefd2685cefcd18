/* SPDX-License-Identifier: MIT */
/* Arrays that grow by one item at a time. */
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
	int *grown = array_grow(items, *count, sizeof(*items));

	assert_non_null(grown);
	assert_true(malloc_usable_size(grown) >= (*count + 1) * sizeof(*grown));
	grown[*count] = (int)*count;
	(*count)++;
	return grown;
}

/* There is room for what is added, also behind items that went. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_room)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
