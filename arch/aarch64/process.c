/* SPDX-License-Identifier: MIT */
/*
 * Processes of aarch64 on Linux: see arch/process.h. Nothing is run in them yet, so there are no
 * gadgets.
 */
#include <linux/audit.h>

#include "arch/process.h"

#if defined(__aarch64__)
static uint64_t counter(void)
{
	uint64_t stamp;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(stamp));
	return stamp;
}
#define ON_HOST(function) (function)
#else
#define ON_HOST(function) NULL
#endif

const struct arch_process aarch64_process = {
	.audit = AUDIT_ARCH_AARCH64,
	.rseq_signature = 0xd428bc00,
	/* With addresses of 48 bits; a kernel with fewer refuses to map what is above its own. */
	.address_end = UINT64_C(0xffffffff0000),
	.counter = ON_HOST(counter),
};
