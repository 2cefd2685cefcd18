/* SPDX-License-Identifier: MIT */
/* The search for what leads into windows, compared with the simplest implementation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"

enum { BYTES_MAX = 700, SITES_MAX = 12, FOUND_MAX = 4096 };

/* What was reported, in order: a site's index, or ~address of a constant. */
struct found {
	uint64_t what[FOUND_MAX];
	size_t count;
};

static void add(struct found *found, uint64_t what)
{
	assert_true(found->count < FOUND_MAX);
	found->what[found->count++] = what;
}

static void on_reference(void *data, size_t site, uint64_t target)
{
	(void)target;
	add(data, site);
}

static void on_constant(void *data, uint64_t at, uint64_t address)
{
	(void)at;
	add(data, ~address);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void naive_windows(const struct arch_windows *w, uint64_t target, struct found *found)
{
	for (size_t k = 0; k < w->count; k++)
		if (target > w->sites[k] && target < w->sites[k] + w->jump_length)
			add(found, k);
}

static void naive_scan(const uint8_t *bytes, size_t length, uint64_t address,
	const struct arch_windows *w, bool position_dependent, struct found *found)
{
	for (size_t i = 0; i + 4 <= length; i++) {
		uint8_t a = i > 1 ? bytes[i - 2] : 0, b = i > 0 ? bytes[i - 1] : 0;
		bool lea = a == 0x8d && (b >> 6) == 0 && (b & 7) == 5;
		int32_t value;
		uint64_t target;

		memcpy(&value, bytes + i, 4);
		target = address + i + 4 + (int64_t)value;
		if (b == 0xe8 || b == 0xe9 || (a == 0x0f && b >> 4 == 8) || lea ||
			(a == 0xc7 && b == 0xf8))
			naive_windows(w, target, found);
		if (lea)
			add(found, ~target);
		if (position_dependent)
			naive_windows(w, (uint32_t)value, found);
	}
}

/* Bytes, many of which are meaningful. */
static uint8_t random_byte(void)
{
	static const uint8_t opcodes[] = {
		0xe8, 0xe9, 0x0f, 0x80, 0x85, 0x8f, 0x8d, 0x05, 0x3d, 0xc7, 0xf8, 0x00, 0xff};

	return random() % 3 ? random() : opcodes[random() % sizeof(opcodes)];
}

static void check_random(uint64_t address, bool position_dependent)
{
	static struct arch_windows windows;
	static struct found expected, got;
	uint64_t sites[SITES_MAX];
	uint8_t *bytes;
	size_t length = random() % BYTES_MAX, count = 0;
	uint64_t at = address - 50;

	for (; count < (size_t)(random() % SITES_MAX); count++)
		sites[count] = at += 1 + random() % 90;
	bytes = malloc(length + 1);
	assert_non_null(bytes);
	for (size_t i = 0; i < length; i++)
		bytes[i] = random_byte();
	/* displacements and addresses that lead near the sites */
	for (size_t i = 0; count && i + 4 <= length; i += 1 + random() % 12) {
		uint64_t target = sites[random() % count] + random() % 8;
		uint32_t value = random() % 2 ? target - (address + i + 4) : target;

		memcpy(bytes + i, &value, 4);
	}
	arch_windows_init(&windows, sites, count, 5);
	expected.count = got.count = 0;
	naive_scan(bytes, length, address, &windows, position_dependent, &expected);
	arch_x86_64.scan(bytes, length, address,
		&(struct arch_scan){
			&windows, position_dependent, &got, on_reference, on_constant, NULL});
	qsort(expected.what, expected.count, sizeof(expected.what[0]), compare);
	qsort(got.what, got.count, sizeof(got.what[0]), compare);
	assert_int_equal(got.count, expected.count);
	assert_memory_equal(got.what, expected.what, got.count * sizeof(got.what[0]));
	free(bytes);
}

static void random_bytes(void **state)
{
	(void)state;
	srandom(1);
	for (int i = 0; i < 5000; i++) {
		check_random(UINT64_C(0x555555554000) + i, false);
		check_random(0x401000 + i, true);
		check_random(0xfffffe00 + i % 100, true);
	}
}

/* One reference at every distance from both ends of the bytes. */
static void every_place(void **state)
{
	enum { LENGTH = 200, ADDRESS = 0x10000, SITE = 0x20000 };
	static const uint8_t opcodes[][2] = {
		{0x90, 0xe8}, {0x90, 0xe9}, {0x0f, 0x84}, {0x8d, 0x35}, {0xc7, 0xf8}};
	static const uint64_t sites[] = {SITE};
	static struct arch_windows windows;
	static struct found got;

	(void)state;
	arch_windows_init(&windows, sites, 1, 5);
	for (size_t k = 0; k < sizeof(opcodes) / sizeof(opcodes[0]); k++)
		for (size_t i = k < 2 ? 1 : 2; i + 4 <= LENGTH; i++) {
			uint8_t bytes[LENGTH] = {0};
			int32_t value = SITE + 4 - (ADDRESS + (int32_t)i + 4);

			memcpy(bytes + i, &value, 4);
			bytes[i - 1] = opcodes[k][1];
			if (i > 1)
				bytes[i - 2] = opcodes[k][0];
			got.count = 0;
			arch_x86_64.scan(bytes, LENGTH, ADDRESS,
				&(struct arch_scan){
					&windows, false, &got, on_reference, on_constant, NULL});
			/* The address that a lea takes may also be a label's. */
			assert_int_equal(got.count, 1 + (opcodes[k][0] == 0x8d));
			assert_int_equal(got.what[0], 0);
		}
}

static void short_branches(void **state)
{
	uint64_t target = 0;

	(void)state;
	for (int opcode = 0; opcode < 256; opcode++) {
		uint8_t bytes[2] = {opcode, 0x80};
		bool is_branch = (opcode >= 0x70 && opcode <= 0x7f) || opcode == 0xeb ||
				 (opcode >= 0xe0 && opcode <= 0xe3);

		assert_int_equal(arch_x86_64.short_branch(bytes, 0x1000, &target), is_branch);
		if (is_branch)
			assert_int_equal(target, 0x1002 - 128);
	}
}

static void windows_found(void **state)
{
	static const uint64_t sites[] = {0x1000, 0x1003, 0x2000, UINT64_C(0x7fffffffffff)};
	static struct arch_windows windows;

	(void)state;
	arch_windows_init(&windows, sites, 4, 5);
	assert_int_equal(arch_windows_find(&windows, 0x1000), SIZE_MAX);
	assert_int_equal(arch_windows_find(&windows, 0x1001), 0);
	assert_int_equal(arch_windows_find(&windows, 0x1003), 0);
	assert_int_equal(arch_windows_find(&windows, 0x1004), 1); /* the nearest of two */
	assert_int_equal(arch_windows_find(&windows, 0x1007), 1);
	assert_int_equal(arch_windows_find(&windows, 0x1008), SIZE_MAX);
	assert_int_equal(arch_windows_find(&windows, 0x2004), 2);
	assert_int_equal(arch_windows_find(&windows, 0x2005), SIZE_MAX);
	assert_int_equal(arch_windows_find(&windows, UINT64_C(0x800000000000)), 3);
	arch_windows_init(&windows, sites, 0, 5);
	assert_int_equal(arch_windows_find(&windows, 0x1001), SIZE_MAX);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_bytes),
		cmocka_unit_test(every_place),
		cmocka_unit_test(short_branches),
		cmocka_unit_test(windows_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
