/* SPDX-License-Identifier: MIT */
/* Runs code on the test's thread with every register set, and reports what it left. */
#ifndef TESTS_UNIT_STUB_HARNESS_H
#define TESTS_UNIT_STUB_HARNESS_H

#include <stdint.h>

/* What a hit must leave alone. The stack that gpr[RSP] points into is the caller's. */
struct stub_state {
	uint64_t gpr[16]; /* by number: rax rcx rdx rbx rsp rbp rsi rdi r8 ... r15 */
	uint64_t flags;
	uint8_t xmm[16][16];
};

/*
 * Loads `in`, jumps to `entry`, and stores into `out` what there is when the
 * code arrives at stub_harness_next.
 */
void stub_harness_run(const struct stub_state *in, struct stub_state *out, const void *entry);
extern const char stub_harness_next[];
/* Says why tests that need it are skipped, on a machine that has none; their exit status. */
int stub_harness_lacks(void);

#endif
