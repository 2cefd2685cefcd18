/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/base/map.h"

enum { KEYS = 4096 };

/* A map finds each added value, at the same address, until the value is removed. */
static void test_many(void **state)
{
	struct map map = {0};
	uint64_t *values[KEYS], state64 = 88172645463325252ull;
	bool has[KEYS] = {false};
	const uint64_t *value;
	size_t count = 0;

	(void)state;
	for (uint32_t i = 0; i < 20 * KEYS; i++) {
		uint16_t key;

		state64 ^= state64 << 13;
		state64 ^= state64 >> 7;
		state64 ^= state64 << 17;
		key = (uint16_t)(state64 % KEYS);
		if (has[key]) {
			assert_ptr_equal(map_find(&map, MAP_KEY(MAP_OBJECT(key))), values[key]);
			assert_ptr_equal(map_add(&map, sizeof(uint64_t), MAP_KEY(MAP_OBJECT(key))),
				values[key]);
			assert_int_equal(*values[key], key + 1);
			map_remove(&map, values[key]);
		} else {
			assert_null(map_find(&map, MAP_KEY(MAP_OBJECT(key))));
			values[key] = map_add(&map, sizeof(uint64_t), MAP_KEY(MAP_OBJECT(key)));
			assert_int_equal(*values[key], 0);
			assert_memory_equal(map_key(values[key]), &key, sizeof(key));
			*values[key] = key + 1;
		}
		count += has[key] ? -(size_t)1 : 1;
		has[key] = !has[key];
		assert_int_equal(map.count, count);
	}
	for (size_t i = 0; (value = map_next(&map, &i));) {
		assert_true(has[*value - 1]);
		count--;
	}
	assert_int_equal(count, 0);
	map_clear(&map);
	assert_int_equal(map.count, 0);
}

/* The bounds of parts are part of the key; a text that is NULL is not the empty text. */
static void test_parts(void **state)
{
	struct map map = {0};
	const int number = 1;
	int *values[6];

	(void)state;
	values[0] = map_add(&map, sizeof(int), MAP_KEY(map_text("ab"), map_text("c")));
	values[1] = map_add(&map, sizeof(int), MAP_KEY(map_text("a"), map_text("bc")));
	values[2] = map_add(&map, sizeof(int), MAP_KEY(map_text(NULL)));
	values[3] = map_add(&map, sizeof(int), MAP_KEY(map_text("")));
	values[4] = map_add(&map, sizeof(int), MAP_KEY(MAP_OBJECT(number), {"x", 1}));
	values[5] = map_add(&map, sizeof(int), MAP_KEY(MAP_OBJECT(number), {"xy", 2}));
	for (size_t i = 0; i < 6; i++)
		for (size_t k = 0; k < i; k++)
			assert_ptr_not_equal(values[i], values[k]);
	assert_ptr_equal(map_find(&map, MAP_KEY(MAP_OBJECT(number), {"xy", 2})), values[5]);
	assert_string_equal(map_key(values[1]), "a");
	map_clear(&map);
}

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
		size_t place = hash_bytes(0, &(uint64_t){i << 48}, 8) & 255;

		filled += !used[place];
		used[place] = true;
	}
	/* Random keys would fill 162 slots. */
	assert_true(filled > 130);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
