/* SPDX-License-Identifier: MIT */
/* The variants in which every stub is tested, and what the tests do in all of them. */
#ifndef TESTS_UNIT_STUB_VARIANT_H
#define TESTS_UNIT_STUB_VARIANT_H

#include "tests/unit/stub/stub_harness.h"
#include "tests/unit/stub/stub_host.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

enum { PAGE = 4096, STACK_BYTES = 4 * PAGE, PAGES = 6 };
enum {
	FLAGS_ALWAYS = 0x202,
	FLAGS_ARITHMETIC = 0x8d5,
	FLAG_DIRECTION = 0x400,
	FLAG_TRAP = 0x100,
	FLAG_AC = 0x40000
};

#define TRUNCATED (UINT64_C(1) << RING_STRING_TRUNCATED_BIT)
#define UNREADABLE (UINT64_C(1) << RING_STRING_NULL_BIT)
#define NON_CANONICAL UINT64_C(0x8000000000000000)

/* One of the ways in which a stub is made, and memory to point at. */
struct variant {
	struct stub_host host;
	bool has_rseq;
	uint8_t *stack; /* gpr[RSP] points to its middle */
	uint8_t *pages; /* pages 0 to 2 and 4 can be read; 3 and 5 cannot */
	struct stub_state state;
};

/* Registers with values of their own, flags clear; the stack full of a pattern. */
void variant_set_up_state(struct variant *v);
/* Runs `check` with rseq and without, with the rings near the code and far from it. */
void variant_each(void (*check)(struct variant *v));
/* A stub that returns to the harness. */
struct arch_stub variant_stub(struct variant *v, enum arch_action_kind kind);
/* A hit; checks that it changed nothing that the program can see. */
void variant_hit(struct variant *v, const void *entry);
/* The capture of one argument; bytes are cut at 64. */
struct arch_capture variant_capture(const char *spec);
/* Makes a stub for the captures, hits it and returns its record: stub_host_open_record(). */
const uint64_t *variant_record(
	struct variant *v, const struct arch_capture *captures, size_t count, size_t *bytes_ret);

void variant_init(struct variant *v, bool near, bool has_rseq);
void variant_deinit(struct variant *v);

#endif
