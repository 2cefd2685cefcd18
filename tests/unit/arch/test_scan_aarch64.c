/* SPDX-License-Identifier: MIT */
/* The search for what leads into windows, in code of aarch64: what is found, and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arch/aarch64/encoding.h"
#include "arch/arch.h"

/* The code begins at ADDRESS; the site is SITE, and what follows its nop is TARGET. */
#define ADDRESS UINT64_C(0x410000)
#define SITE UINT64_C(0x418640)
#define TARGET (SITE + 4)
enum { WORDS = 64, FOUND_MAX = 32, WINDOW = 8 };

#define NOP UINT32_C(0xd503201f)
#define ADRP(reg, distance) (0x90000000 | (uint32_t)((distance) / 4) << 5 | (reg))
#define ADD(to, from, low) (0x91000000 | (uint32_t)(low) << 10 | (from) << 5 | (to))

struct found {
	size_t references, labels, constants;
	uint64_t constant[FOUND_MAX], label;
};

static void on_reference(void *data, size_t site, uint64_t target)
{
	struct found *found = data;

	assert_int_equal(site, 0);
	assert_int_equal(target, TARGET);
	found->references++;
}

static void on_constant(void *data, uint64_t at, uint64_t address)
{
	struct found *found = data;

	assert_true(found->constants < FOUND_MAX);
	assert_int_equal(at % 4, 0);
	found->constant[found->constants++] = address;
}

static void on_label(void *data, uint64_t at)
{
	struct found *found = data;

	found->labels++;
	found->label = at;
}

typedef void (*scan_function)(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan);

static struct found scan_with(scan_function function, const uint32_t *code, size_t count,
	uint64_t address, bool position_dependent)
{
	static const uint64_t sites[] = {SITE};
	static struct arch_windows windows;
	struct found found = {0};
	struct arch_scan scan = {
		&windows, position_dependent, &found, on_reference, on_constant, on_label};
	uint8_t *bytes = malloc(count * AARCH64_INSN_LENGTH + 1);

	assert_non_null(bytes);
	for (size_t i = 0; i < count; i++)
		aarch64_store(bytes + i * AARCH64_INSN_LENGTH, code[i]);
	arch_windows_init(&windows, sites, 1, WINDOW);
	function(bytes, count * AARCH64_INSN_LENGTH, address, &scan);
	free(bytes);
	return found;
}

static struct found scan(const uint32_t *code, size_t count)
{
	return scan_with(arch_aarch64.scan, code, count, ADDRESS, false);
}

/* An instruction whose distance is the `bits` bits from `low` on, to an address. */
static uint32_t leading(
	uint32_t insn, unsigned int low, unsigned int bits, uint64_t from, uint64_t to)
{
	assert_true(aarch64_set_distance(&insn, low, bits, (int64_t)(to - from)));
	return insn;
}

static void branches(void **state)
{
	static const struct {
		uint32_t insn;
		unsigned int low, bits;
	} kinds[] = {
		{0x14000000, 0, 26}, /* b */
		{0x94000000, 0, 26}, /* bl */
		{0x54000001, 5, 19}, /* b.ne */
		{0x54000011, 5, 19}, /* bc.ne */
		{0x34000003, 5, 19}, /* cbz w3 */
		{0xb5000003, 5, 19}, /* cbnz x3 */
		{0x36180003, 5, 14}, /* tbz w3, 3 */
		{0xb7180003, 5, 14}, /* tbnz x3, 35 */
	};
	uint64_t address = SITE - (uint64_t)WORDS * 2; /* before the site, and behind it */

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
		for (size_t i = 0; i < WORDS; i++)
			for (int step = -4; step <= 12; step += 4) {
				uint32_t code[WORDS];
				struct found found;

				for (size_t j = 0; j < WORDS; j++)
					code[j] = NOP;
				code[i] = leading(kinds[k].insn, kinds[k].low, kinds[k].bits,
					address + i * 4, SITE + (uint64_t)(int64_t)step);
				found = scan_with(arch_aarch64.scan, code, WORDS, address, false);
				assert_int_equal(found.references, step == 4);
				assert_int_equal(found.constants + found.labels, 0);
			}
}

static void addresses_near_by(void **state)
{
	uint32_t adr = 0x10000003, code[2] = {NOP};
	struct found found;

	(void)state;
	assert_true(aarch64_set_page_field(&adr, (int64_t)(TARGET - ADDRESS - 4)));
	code[1] = adr;
	found = scan(code, 2);
	assert_int_equal(found.references, 1);
	assert_int_equal(found.labels, 1);
	assert_int_equal(found.label, ADDRESS + 4);
	/* Of any other address, it is a label and a constant. */
	assert_true(aarch64_set_page_field(&adr, -9));
	code[1] = adr;
	found = scan(code, 2);
	assert_int_equal(found.references, 0);
	assert_int_equal(found.labels, 1);
	assert_int_equal(found.constants, 1);
	assert_int_equal(found.constant[0], ADDRESS + 4 - 9);
}

static void addresses_of_two_parts(void **state)
{
	/* adrp x5 of the site's page, then of another one. */
	const uint32_t pair[] = {ADRP(5, 8), NOP, ADD(7, 5, 0x644)};
	const uint32_t last[] = {ADRP(5, 8), ADRP(5, 12), ADD(5, 5, 0x644)};
	const uint32_t other[] = {ADRP(5, 8), ADD(5, 6, 0x644), ADD(5, 31, 0x644)};
	const uint32_t before[] = {ADD(5, 5, 0x644), ADRP(5, 8), ADD(5, 5, 0x640)};
	struct found found = scan(pair, 3);

	(void)state;
	assert_int_equal(found.references, 1);
	assert_int_equal(found.constants, 1);
	/* An add belongs to the last adrp of its register. */
	found = scan(last, 3);
	assert_int_equal(found.references, 0);
	assert_int_equal(found.constants, 1);
	assert_int_equal(found.constant[0], 0x41c644);
	found = scan(other, 3);
	assert_int_equal(found.references + found.constants, 0);
	found = scan(before, 3);
	assert_int_equal(found.references, 0);
	assert_int_equal(found.constants, 1);
	assert_int_equal(found.constant[0], SITE);
}

/* In the function of a site, each add may belong to each adrp, and what matters is its own code. */
static void labels_of_a_function(void **state)
{
	const uint64_t start = SITE & ~UINT64_C(0x3f);
	uint32_t code[WORDS];
	struct found found;

	(void)state;
	for (size_t i = 0; i < WORDS; i++)
		code[i] = NOP;
	code[2] = ADRP(5, 0);
	code[3] = ADRP(5, 4);
	code[4] = ADD(5, 6, 0x644);
	code[5] = ADD(5, 31, 0x644);
	found = scan_with(arch_aarch64.scan_function, code, WORDS, start, false);
	assert_int_equal(found.references + found.labels, 0);
	code[0] = ADD(5, 5, 0x644);
	found = scan_with(arch_aarch64.scan_function, code, WORDS, start, false);
	assert_int_equal(found.references, 1);
	assert_int_equal(found.labels, 1);
	code[0] = ADD(5, 5, 0x650); /* another label */
	found = scan_with(arch_aarch64.scan_function, code, WORDS, start, false);
	assert_int_equal(found.references, 0);
	assert_int_equal(found.labels, 1);
	assert_int_equal(found.label, start + 8);
	code[0] = ADD(5, 5, 0x63c); /* before it, and behind it */
	code[1] = ADD(5, 5, 0x640 + WORDS * 4);
	found = scan_with(arch_aarch64.scan_function, code, WORDS, start, false);
	assert_int_equal(found.references + found.labels + found.constants, 0);
}

static void words(void **state)
{
	/* ldr x3, . + 12; its word is not aligned to 8 */
	const uint32_t literal[] = {0x58000063, NOP, NOP, (uint32_t)TARGET, 0};
	const uint32_t movz[] = {0xd2800000 | (TARGET & 0xffff) << 5, 0xf2a00820};
	const uint32_t movk[] = {0xd2a00820, 0xf2800000 | (TARGET & 0xffff) << 5};
	/* The high half may be far from the low one, but has to be somewhere. */
	const uint32_t apart[] = {movz[0], NOP, NOP, NOP, 0xd2a00823};
	const uint32_t alone[] = {movz[0], 0xf2a00840};
	const uint32_t others[] = {0x92800000 | (TARGET & 0xffff) << 5, /* movn */
		0xd2a00000 | (TARGET & 0xffff) << 5, 0xd2800000 | (SITE & 0xffff) << 5};

	(void)state;
	assert_int_equal(scan(literal, 5).references, 1);
	assert_int_equal(scan(literal, 4).references, 0); /* it is not there */
	assert_int_equal(scan(literal + 1, 4).references, 0);
	/* The word itself, and parts of it, count in a program with fixed addresses. */
	assert_int_equal(scan_with(arch_aarch64.scan, literal + 1, 4, ADDRESS, true).references, 1);
	assert_int_equal(scan_with(arch_aarch64.scan, movz, 2, ADDRESS, true).references, 1);
	assert_int_equal(scan_with(arch_aarch64.scan, movk, 2, ADDRESS, true).references, 1);
	assert_int_equal(scan_with(arch_aarch64.scan, apart, 5, ADDRESS, true).references, 1);
	assert_int_equal(scan_with(arch_aarch64.scan, alone, 2, ADDRESS, true).references, 0);
	assert_int_equal(scan_with(arch_aarch64.scan, others, 3, ADDRESS, true).references, 0);
	assert_int_equal(scan(movz, 2).references, 0);
}

/* Segments that begin and end anywhere. */
static void parts_of_words(void **state)
{
	static const uint64_t sites[] = {SITE};
	static struct arch_windows windows;
	uint8_t bytes[16] = {0};

	(void)state;
	arch_windows_init(&windows, sites, 1, WINDOW);
	for (size_t skip = 0; skip < 4; skip++)
		for (size_t length = 0; length <= 4 + skip; length++) {
			struct found found = {0};
			uint8_t *part;

			aarch64_store(bytes + skip, leading(0x14000000, 0, 26, ADDRESS, TARGET));
			part = malloc(length + 1);
			assert_non_null(part);
			for (size_t i = 0; i < length; i++)
				part[i] = bytes[i];
			arch_aarch64.scan(part, length, ADDRESS - skip,
				&(struct arch_scan){&windows, false, &found, on_reference,
					on_constant, on_label});
			free(part);
			assert_int_equal(found.references, length == 4 + skip);
		}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(branches),
		cmocka_unit_test(addresses_near_by),
		cmocka_unit_test(addresses_of_two_parts),
		cmocka_unit_test(labels_of_a_function),
		cmocka_unit_test(words),
		cmocka_unit_test(parts_of_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
