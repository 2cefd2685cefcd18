/* SPDX-License-Identifier: MIT */
/* Runs a stub of aarch64 with a pattern in every register, and reports what it left. */
#ifndef TESTS_UNIT_STUB_AARCH64_PATTERNS_H
#define TESTS_UNIT_STUB_AARCH64_PATTERNS_H

#include <stdint.h>

#include "tests/unit/stub/stub_host.h"

/* What a hit must leave alone. The stack that `sp` points into is the caller's. */
struct patterns {
	uint64_t x[31], sp, nzcv, fpsr;
	uint8_t v[32][16];
	uint64_t streaming; /* not 0: in the streaming mode (FEAT_SME), which `fpsr` suits */
};

/* Where stubs must continue, so that patterns_run() returns. */
extern const char patterns_next[];

/*
 * Loads `in`, goes to `entry` as a site does, by a direct branch, and stores into `out` what there
 * is when the code arrives at patterns_next. Takes a little of the host's code.
 */
void patterns_run(
	struct stub_host *host, const struct patterns *in, struct patterns *out, const void *entry);

#endif
