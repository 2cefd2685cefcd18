/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/base/hash.h"

/* Each byte counts, and how many there are; where the bytes are does not. */
static void test_bytes(void **state)
{
	(void)state;
	for (size_t length = 0; length < 40; length++) {
		/* As long as the bytes, so that reading too far is noticed. */
		char *bytes = calloc(1, length), *copy = calloc(1, length + 1);
		uint64_t hash = hash_bytes(7, bytes, length);

		assert_int_equal(hash_bytes(7, copy + 1, length), hash);
		assert_int_not_equal(hash_bytes(8, bytes, length), hash);
		assert_int_not_equal(hash_bytes(7, copy, length + 1), hash);
		for (size_t i = 0; i < length; i++) {
			bytes[i] = 1;
			assert_int_not_equal(hash_bytes(7, bytes, length), hash);
			bytes[i] = 0;
		}
		free(bytes);
		free(copy);
	}
}

/* The lower bits, which are a place in a table, depend on the higher ones of a word. */
static void test_words(void **state)
{
	size_t filled = 0;
	bool used[256] = {false};

	(void)state;
	for (uint64_t i = 0; i < 256; i++) {
		size_t place = hash_word(0, i << 48) & 255;

		filled += !used[place];
		used[place] = true;
	}
	/* Of random places, 162 would be filled. */
	assert_true(filled > 130);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
