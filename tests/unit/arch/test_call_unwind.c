/* SPDX-License-Identifier: MIT */
/* The rules of stubs that call functions, for unwinders: the section as such. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"

static void check_section(const struct arch *arch)
{
	const struct arch_extent stubs[] = {{0x1000, 0x200}, {0x2000, 0x300}};
	uint8_t section[256];
	size_t size = arch_call_unwind(arch, stubs, 2, NULL, 0), at = 0, entries = 0;
	uint32_t length, id;

	assert_true(size <= sizeof(section));
	memset(section, 0xff, sizeof(section));
	assert_int_equal(arch_call_unwind(arch, stubs, 2, section, size - 1), size);
	assert_int_equal(section[0], 0xff);
	assert_int_equal(arch_call_unwind(arch, stubs, 2, section, size), size);
	assert_int_equal(section[size], 0xff);
	for (;; at += 4 + length, entries++) {
		uint64_t range[2];

		memcpy(&length, section + at, 4);
		if (!length)
			break;
		assert_int_equal(length % 4, 0);
		memcpy(&id, section + at + 4, 4);
		if (!entries) {
			assert_int_equal(id, 0);
			continue;
		}
		assert_int_equal(id, at + 4); /* back to the first */
		memcpy(range, section + at + 8, sizeof(range));
		assert_int_equal(range[0], stubs[entries - 1].start);
		assert_int_equal(range[1], stubs[entries - 1].size);
	}
	assert_int_equal(entries, 3);
	assert_int_equal(at + 4, size);
}

static void sections_are_well_formed(void **state)
{
	(void)state;
	check_section(&arch_x86_64);
	check_section(&arch_aarch64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(sections_are_well_formed)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
