/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/stub_aarch64/patterns.h"

#ifdef __aarch64__

/* In between no register belongs to the test; its own are on its stack. */
uint64_t patterns_sp __attribute__((visibility("hidden")));
struct patterns *patterns_out __attribute__((visibility("hidden")));

void patterns_load(const struct patterns *in, struct patterns *out, const void *way);

#define ADDRESS(reg, name)                                                                         \
	"adrp " reg ", " #name "\n"                                                                \
	"add " reg ", " reg ", :lo12:" #name "\n"
/* clang-format off */
#define PAIRS(X) X(0, 1) X(2, 3) X(4, 5) X(6, 7) X(8, 9) X(10, 11) X(12, 13) X(14, 15) \
	X(16, 17) X(18, 19) X(20, 21) X(22, 23) X(24, 25) X(26, 27) X(28, 29)
#define VECTORS(X) PAIRS(X) X(30, 31)
#define LOAD_VECTORS(a, b) "ldp q" #a ", q" #b ", [x30, 272 + 16 * " #a "]\n"
#define STORE_VECTORS(a, b) "stp q" #a ", q" #b ", [x0, 272 + 16 * " #a "]\n"
#define LOAD_PAIR(a, b) "ldp x" #a ", x" #b ", [x30, 8 * " #a "]\n"
#define STORE_PAIR(a, b) "stp x" #a ", x" #b ", [x0, 8 * " #a "]\n"

_Static_assert(offsetof(struct patterns, sp) == 248, "the code below relies on it");
_Static_assert(offsetof(struct patterns, v) == 272, "the code below relies on it");
_Static_assert(offsetof(struct patterns, streaming) == 784, "the code below relies on it");

__asm__(
	".text\n"
	".globl patterns_load\n"
	".type patterns_load, @function\n"
	"patterns_load:\n"
	"sub sp, sp, 192\n"
	"stp x18, x19, [sp]\n" "stp x20, x21, [sp, 16]\n" "stp x22, x23, [sp, 32]\n"
	"stp x24, x25, [sp, 48]\n" "stp x26, x27, [sp, 64]\n" "stp x28, x29, [sp, 80]\n"
	"str x30, [sp, 96]\n"
	"stp d8, d9, [sp, 112]\n" "stp d10, d11, [sp, 128]\n"
	"stp d12, d13, [sp, 144]\n" "stp d14, d15, [sp, 160]\n"
	ADDRESS("x3", patterns_out) "str x1, [x3]\n"
	ADDRESS("x3", patterns_sp) "mov x4, sp\n" "str x4, [x3]\n"
	"mov x30, x0\n"
	"ldr x3, [x30, 784]\n" "cbz x3, 0f\n" ".inst 0xd503437f\n" "0:\n" /* smstart sm */
	VECTORS(LOAD_VECTORS)
	"ldr x3, [x30, 256]\n" "msr nzcv, x3\n"
	"ldr x3, [x30, 264]\n" "msr fpsr, x3\n"
	"ldr x3, [x30, 248]\n"
	"str x2, [x3, -16]!\n" /* the way, which has x30 */
	"mov sp, x3\n"
	PAIRS(LOAD_PAIR)
	"ldr x30, [sp], 16\n"
	"br x30\n"
	".globl patterns_next\n"
	"patterns_next:\n"
	"stp x0, x1, [sp, -16]!\n"
	ADDRESS("x0", patterns_out) "ldr x0, [x0]\n"
	"add x1, sp, 16\n" "str x1, [x0, 248]\n"
	"ldr x1, [sp, 8]\n"
	PAIRS(STORE_PAIR)
	"ldr x1, [sp]\n" "str x1, [x0]\n"
	"str x30, [x0, 240]\n"
	"mrs x1, nzcv\n" "str x1, [x0, 256]\n"
	"mrs x1, fpsr\n" "str x1, [x0, 264]\n"
	VECTORS(STORE_VECTORS)
	"ldr x1, [x0, 784]\n" "cbz x1, 0f\n"
	".inst 0xd53b4241\n" "str x1, [x0, 784]\n" /* mrs x1, svcr */
	".inst 0xd503427f\n" "0:\n" /* smstop sm */
	ADDRESS("x1", patterns_sp) "ldr x1, [x1]\n" "mov sp, x1\n"
	"ldp x18, x19, [sp]\n" "ldp x20, x21, [sp, 16]\n" "ldp x22, x23, [sp, 32]\n"
	"ldp x24, x25, [sp, 48]\n" "ldp x26, x27, [sp, 64]\n" "ldp x28, x29, [sp, 80]\n"
	"ldr x30, [sp, 96]\n"
	"ldp d8, d9, [sp, 112]\n" "ldp d10, d11, [sp, 128]\n"
	"ldp d12, d13, [sp, 144]\n" "ldp d14, d15, [sp, 160]\n"
	"add sp, sp, 192\n"
	"ret\n"
	".size patterns_load, . - patterns_load\n"
);
/* clang-format on */

void patterns_run(
	struct stub_host *host, const struct patterns *in, struct patterns *out, const void *entry)
{
	size_t at = (host->code_used + 15) & ~(size_t)15;
	uint32_t load = 0x58000000 | 2 << 5 | 30; /* ldr x30, 8 bytes on */
	uint8_t *way = host->code_rw + at;

	assert_true(at + 16 <= HOST_CODE_BYTES);
	memcpy(way, &load, sizeof(load));
	assert_int_equal(
		arch_host()->jump((uintptr_t)host->code + at + 4, (uintptr_t)entry, way + 4), 4);
	memcpy(way + 8, &in->x[30], sizeof(in->x[30]));
	host->code_used = at + 16;
	stub_host_written(host, at);
	out->streaming = in->streaming;
	patterns_load(in, out, host->code + at);
}

#else

const char patterns_next[1];

/* Never called: the tests are skipped before. */
void patterns_run(
	struct stub_host *host, const struct patterns *in, struct patterns *out, const void *entry)
{
	(void)host, (void)in, (void)out, (void)entry;
}

#endif
