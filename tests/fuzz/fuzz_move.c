/* SPDX-License-Identifier: MIT */
/*
 * Moves any bytes. The first two bytes of the input select the distance and the number of bytes
 * needed. The result must decode again: to at least as many instructions (a call becomes
 * several), with the copies of each beginning where reported, and with the same branch targets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/x86/decode/insn.h"

enum { NEED_MAX = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint64_t distances[] = {
	0x1000,
	0x100000,
	0x7fffff00,
	0x80000000,
	(uint64_t)-0x1000,
	(uint64_t)-0x7fffffff,
	0x7f0000000000,
	0,
};

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static bool is_direct(enum arch_flow flow)
{
	return flow == ARCH_FLOW_BRANCH || flow == ARCH_FLOW_JUMP || flow == ARCH_FLOW_CALL;
}

/* Decodes the copy of one instruction, which ends at `end`, and compares. */
static void check_copy(
	const struct arch_moved *moved, size_t index, const struct arch_insn *insn, uint64_t to)
{
	size_t at = moved->to_offset[index];
	size_t end = index + 1u < moved->count ? moved->to_offset[index + 1] : moved->code_length;
	struct arch_insn copy = {0};

	check(at < end && end <= moved->code_length, "offsets are not in order");
	while (at < end) {
		check(x86_64_decode(moved->code + at, end - at, to + at, &copy),
			"a copy is no instruction");
		at += copy.length;
	}
	check(at == end, "a copy goes on into the next one");
	if (insn->flow == ARCH_FLOW_CALL)
		check(copy.flow == ARCH_FLOW_JUMP, "a call did not become a jump");
	else if (insn->flow == ARCH_FLOW_INDIRECT_CALL)
		check(copy.flow == ARCH_FLOW_INDIRECT_JUMP, "a call did not become a jump");
	else
		check(copy.flow == insn->flow, "the flow differs");
	if (is_direct(insn->flow))
		check(copy.target == insn->target, "the target differs");
}

static void check_moved(const struct arch_moved *moved, const uint8_t *data, size_t size,
	size_t need, uint64_t from, uint64_t to)
{
	struct arch_insn insn;
	size_t at = 0;

	check(moved->length >= need && moved->length <= size, "length is out of bounds");
	check(moved->length < need + ARCH_INSN_MAX, "more than needed was moved");
	check(moved->code_length <= ARCH_MOVED_BYTES_MAX, "code is out of bounds");
	check(moved->count <= ARCH_MOVED_INSNS_MAX, "count is out of bounds");
	for (size_t i = 0; i < moved->count; i++) {
		check(moved->from_offset[i] == at, "an original is elsewhere");
		check(x86_64_decode(data + at, size - at, from + at, &insn),
			"an original is no instruction");
		check_copy(moved, i, &insn, to);
		at += insn.length;
	}
	check(at + moved->padding == moved->length, "the originals do not end at length");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t from = 0x7f1234567000, to;
	struct arch_moved moved;
	uint8_t *bytes;
	size_t need, nop;
	enum arch_move_status status;

	if (size < 2)
		return 0;
	to = from + distances[data[0] % (sizeof(distances) / sizeof(distances[0]))];
	need = data[1] % (NEED_MAX + 1);
	data += 2;
	size -= 2;
	/* Exactly as long as the input, so that the sanitizer notices reads beyond it. */
	bytes = malloc(size ? size : 1);
	if (!bytes)
		return 0;
	memcpy(bytes, data, size);

	nop = x86_64_nop_length(bytes, size);
	check(nop <= size && nop <= ARCH_INSN_MAX, "a nop is out of bounds");
	status = arch_x86_64.move(bytes, size, from, to, need, &moved);
	if (status == ARCH_MOVE_FLOW_INSIDE && moved.padding)
		check(!moved.falls_through, "code before padding goes on");
	else if (status == ARCH_MOVE_OK)
		check(!moved.padding, "padding in code that goes on");
	if (status == ARCH_MOVE_OK || (status == ARCH_MOVE_FLOW_INSIDE && moved.padding))
		check_moved(&moved, bytes, size, need, from, to);
	free(bytes);
	return 0;
}
