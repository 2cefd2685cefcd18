/* SPDX-License-Identifier: MIT */
/* Which instructions of aarch64 provably leave vector registers alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "arch/arch.h"

/* clang-format off */
static const uint32_t general[] = {
	0xaa0103e0,	/* mov x0, x1 */
	0xf8408c20,	/* ldr x0, [x1, 8]! */
	0xa8c27bfd,	/* ldp x29, x30, [sp], 32 */
	0xf8e00041,	/* ldaddal x0, x1, [x2] */
	0xc85f7c20,	/* ldxr x0, [x1] */
	0xc800fc41,	/* stlxr w0, x1, [x2] */
	0xc8e0fc41,	/* casal x0, x1, [x2] */
	0x58000003,	/* ldr x3, . */
	0xf9800000,	/* prfm pldl1keep, [x0] */
	0x90000000,	/* adrp x0, . */
	0xd2a00020,	/* movz x0, 1, lsl 16 */
	0x94000000,	/* bl . */
	0x54000001,	/* b.ne . */
	0xb4000000,	/* cbz x0, . */
	0x37180000,	/* tbnz x0, 3, . */
	0xd65f03c0,	/* ret */
	0xd503233f,	/* paciasp */
	0xd50323bf,	/* autiasp */
	0xd503245f,	/* bti c */
	0xd503201f,	/* nop */
	0xd5033bbf,	/* dmb ish */
	0xd5033fdf,	/* isb */
	0xd53bd040,	/* mrs x0, tpidr_el0 */
	0xd53b4400,	/* mrs x0, fpcr */
	0xd51b4200,	/* msr nzcv, x0 */
	0x9a821020,	/* csel x0, x1, x2, ne */
	0x9b027c20,	/* mul x0, x1, x2 */
	0x9ac24c20,	/* crc32x w0, w1, x2 */
	0xd4200020,	/* brk 1 */
	0x00000000,	/* udf 0 */
	0xd9200820,	/* stg x0, [x1] */
};
static const uint32_t others[] = {
	0x3dc00020,	/* ldr q0, [x1] */
	0x6cc127e8,	/* ldp d8, d9, [sp], 16 */
	0x1c000003,	/* ldr s3, . */
	0x4c007000,	/* st1 {v0.16b}, [x0] */
	0x0d40c000,	/* ld1r {v0.8b}, [x0] */
	0x9e660000,	/* fmov x0, d0 */
	0x9e670000,	/* fmov d0, x0 */
	0x6f00e400,	/* movi v0.2d, 0 */
	0x1e622820,	/* fadd d0, d1, d2 */
	0x1e612000,	/* fcmp d0, d1 */
	0x9e620020,	/* scvtf d0, x1 */
	0x0e033c20,	/* umov w0, v1.b[1] */
	0xd51b4400,	/* msr fpcr, x0 */
	0xd51b4420,	/* msr fpsr, x0 */
	0xd51bd040,	/* msr tpidr_el0, x0 */
	0xd503437f,	/* smstart sm */
	0xd503467f,	/* smstop */
	0x04bf5020,	/* rdvl x0, 1 */
	0x2518e3e0,	/* ptrue p0.b */
	0x85804000,	/* ldr z0, [x0] */
	0x04e0e3e0,	/* cntd x0 */
	0xe1000000,	/* ldr za[w12, 0], [x0] */
	0xd4000001,	/* svc 0 */
	0xd63f0000,	/* blr x0 */
	0xd61f0220,	/* br x17 */
	0xd50b7420,	/* dc zva, x0 */
	0xd503419f,	/* msr tco, 1 */
};
/* clang-format on */

static bool is_general(uint32_t insn)
{
	const uint8_t bytes[] = {
		(uint8_t)insn, (uint8_t)(insn >> 8), (uint8_t)(insn >> 16), (uint8_t)(insn >> 24)};

	return arch_aarch64.is_general(bytes, sizeof(bytes));
}

static void listed(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(general) / sizeof(*general); i++)
		if (!is_general(general[i]))
			fail_msg("%#x is not general", general[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (is_general(others[i]))
			fail_msg("%#x is general", others[i]);
	/* Cut off. */
	assert_false(arch_aarch64.is_general((const uint8_t *)"\x1f\x20\x03", 3));
}

/* The groups of vectors (Arm ARM, C4.1), whatever the other bits are. */
static void groups(void **state)
{
	uint32_t other = 1;

	(void)state;
	for (int i = 0; i < 1000000; i++) {
		uint32_t insn, group;

		other = other * 1664525 + 1013904223;
		insn = (other ^ other >> 16) & ~UINT32_C(0x1e000000);
		for (group = 0; group < 16; group++) {
			bool has_vectors = group == 2 || (group & 7) == 7 || (group & 7) == 6;

			if (has_vectors || group == 1 || group == 3)
				assert_false(is_general(insn | group << 25));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(listed),
		cmocka_unit_test(groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
