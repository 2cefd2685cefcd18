/* SPDX-License-Identifier: MIT */
/* What stays at the entry of a function of aarch64, and where its arguments are behind it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "arch/aarch64/encoding.h"

#define FLOATS " 8f@d0 8f@d1 8f@d2 8f@d3 8f@d4 8f@d5 8f@d6 8f@d7"
#define REGISTERS "-8@x0 -8@x1 -8@x2 -8@x3 -8@x4 -8@x5 -8@x6 -8@x7"

enum { NOP = 0xd503201f };

static const struct entry_case {
	const char *name;
	uint32_t code[3];
	uint8_t keep;
	const char *args; /* or the reason */
} cases[] = {
	{"stp x29, x30, [sp, #-32]!", {0xa9be7bfd, NOP, NOP}, 4,
		REGISTERS " -8@[sp, 32] -8@[sp, 40]" FLOATS},
	{"stp d8, d9, [sp, #-48]!", {0x6dbd27e8, NOP, NOP}, 4,
		REGISTERS " -8@[sp, 48] -8@[sp, 56]" FLOATS},
	{"str x19, [sp, #-16]!", {0xf81f0ff3, NOP, NOP}, 4,
		REGISTERS " -8@[sp, 16] -8@[sp, 24]" FLOATS},
	{"sub sp, sp, #0x40", {0xd10103ff, NOP, NOP}, 4,
		REGISTERS " -8@[sp, 64] -8@[sp, 72]" FLOATS},
	{"bti c", {0xd503245f, 0xaa0103e0, NOP}, 4, REGISTERS " -8@[sp, 0] -8@[sp, 8]" FLOATS},
	{"paciasp", {0xd503233f, 0xa9be7bfd, NOP}, 4, NULL},
	{"bti c; paciasp", {0xd503245f, 0xd503233f, 0xa9be7bfd}, 8, NULL},
	{"mov x0, x1", {0xaa0103e0, NOP, NOP}, 4,
		"8@? -8@x1 -8@x2 -8@x3 -8@x4 -8@x5 -8@x6 -8@x7 -8@[sp, 0] -8@[sp, 8]" FLOATS},
	{"adrp x3, 0", {0x90000003, NOP, NOP}, 4,
		"-8@x0 -8@x1 -8@x2 8@? -8@x4 -8@x5 -8@x6 -8@x7 -8@[sp, 0] -8@[sp, 8]" FLOATS},
	{"cmp x0, #5", {0xf100141f, NOP, NOP}, 4, REGISTERS " -8@[sp, 0] -8@[sp, 8]" FLOATS},
	{"mov sp, x1", {0x9100003f, NOP, NOP}, 0, "its first instruction sets the stack pointer"},
	{"ldr x1, [x0]", {0xf9400001, NOP, NOP}, 4,
		"-8@x0 8@? -8@x2 -8@x3 -8@x4 -8@x5 -8@x6 -8@x7 -8@[sp, 0] -8@[sp, 8]" FLOATS},
	{"ldp x1, x2, [x0]", {0xa9400801, NOP, NOP}, 4,
		"-8@x0 8@? 8@? -8@x3 -8@x4 -8@x5 -8@x6 -8@x7 -8@[sp, 0] -8@[sp, 8]" FLOATS},
	{"str x1, [x0], #8", {0xf8008401, NOP, NOP}, 4,
		"8@? -8@x1 -8@x2 -8@x3 -8@x4 -8@x5 -8@x6 -8@x7 -8@[sp, 0] -8@[sp, 8]" FLOATS},
	{"str x1, [x0]", {0xf9000001, NOP, NOP}, 4, REGISTERS " -8@[sp, 0] -8@[sp, 8]" FLOATS},
	{"fmov d1, d0", {0x1e604001, NOP, NOP}, 4,
		"-8@x0 8@? -8@x2 -8@x3 -8@x4 -8@x5 -8@x6 -8@x7 -8@[sp, 0] -8@[sp, 8]"
		" 8f@d0 8@? 8f@d2 8f@d3 8f@d4 8f@d5 8f@d6 8f@d7"},
	{"ldadd x0, x1, [x2]", {0xf8200041, NOP, NOP}, 4,
		"8@? 8@? 8@? 8@? 8@? 8@? 8@? 8@? -8@[sp, 0] -8@[sp, 8] 8@? 8@? 8@? 8@? 8@? 8@? 8@? "
		"8@?"},
	{"ret", {0xd65f03c0, NOP, NOP}, 0, NULL},
	{"b", {0x14000010, NOP, NOP}, 0, NULL},
	{"cbz x0", {0xb4000080, NOP, NOP}, 0, REGISTERS " -8@[sp, 0] -8@[sp, 8]" FLOATS},
	{"mov x0, #0; ret", {0xd2800000, 0xd65f03c0, NOP}, 0,
		REGISTERS " -8@[sp, 0] -8@[sp, 8]" FLOATS},
	{"mov x0, #172; svc #0", {0xd2801580, 0xd4000001, NOP}, 0,
		REGISTERS " -8@[sp, 0] -8@[sp, 8]" FLOATS},
	{"bl", {0x94000010, NOP, NOP}, 0, "its first instruction may lead elsewhere"},
};

static void test_entries(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct entry_case *c = &cases[i];
		struct arch_entry entry = {0};
		uint8_t bytes[12];
		const char *why;

		for (size_t k = 0; k < 3; k++)
			aarch64_store(bytes + 4 * k, c->code[k]);
		print_message("%s\n", c->name);
		why = aarch64_functions.entry(bytes, sizeof(bytes), 0x1000, &entry);
		assert_int_equal(entry.keep, c->keep);
		if (why)
			assert_string_equal(why, c->args);
		else if (c->args)
			assert_string_equal(entry.args, c->args);
	}
}

/* The address of the operand is the stack pointer's value at the call. */
static void test_frames(void **state)
{
	static const struct {
		uint32_t code;
		const char *expected;
	} frames[] = {
		{0xa9be7bfd, "8@[sp, 32]"}, /* stp x29, x30, [sp, #-32]! */
		{0x6dbd27e8, "8@[sp, 48]"}, /* stp d8, d9, [sp, #-48]! */
		{0xf81f0ff3, "8@[sp, 16]"}, /* str x19, [sp, #-16]! */
		{0xd10103ff, "8@[sp, 64]"}, /* sub sp, sp, #0x40 */
		{0xd503245f, "8@[sp, 0]"},  /* bti c */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
		struct arch_entry entry;
		uint8_t bytes[8];

		aarch64_store(bytes, frames[i].code);
		aarch64_store(bytes + 4, NOP);
		assert_null(aarch64_functions.entry(bytes, sizeof(bytes), 0x1000, &entry));
		assert_string_equal(entry.slot, frames[i].expected);
	}
}

static void test_switches(void **state)
{
	static const struct {
		uint32_t code[2];
		bool expected;
	} jumps[] = {
		{{0x8b21a800, 0xd61f0000}, true},  /* add x0, x0, w1, sxth #2; br x0 */
		{{0x8b090908, 0xd61f0100}, true},  /* add x8, x8, x9, lsl #2; br x8 */
		{{0xf9400021, 0xd61f0020}, false}, /* ldr x1, [x1]; br x1 */
		{{0x91004210, 0xd61f0220}, false}, /* add x16, x16, #16; br x17, of a PLT */
		{{0x8b21a800, 0xd61f0020}, false}, /* of another register */
		{{0x8b21a800, 0xd63f0000}, false}, /* blr */
	};
	uint8_t bytes[8];
	uint64_t table;

	(void)state;
	for (size_t i = 0; i < sizeof(jumps) / sizeof(*jumps); i++) {
		aarch64_store(bytes, jumps[i].code[0]);
		aarch64_store(bytes + 4, jumps[i].code[1]);
		assert_int_equal(aarch64_functions.is_switch(bytes, 8, &table), jumps[i].expected);
		assert_false(aarch64_functions.is_switch(bytes + 4, 4, &table));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_switches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
