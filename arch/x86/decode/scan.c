/* SPDX-License-Identifier: MIT */
/*
 * Finds everything in a module's code that could lead into a window (arch/windows.h).
 *
 * Nothing is decoded. Every byte offset is treated as the possible start of a 32-bit displacement
 * after the opcode of a branch (e8, e9, 0f 80-8f, and xbegin's c7 f8) or after the ModRM byte of
 * `lea disp32(%rip)`. This finds a superset of all direct branches and of all address constants in
 * position-independent code, however the code is laid out: cold parts, hand-written assembly, data
 * in the text. In a position-dependent program an address may also be a 32-bit constant anywhere. A
 * chance match makes one site count as not relocatable; no real match is missed.
 *
 * A large program has 13 MB of code, and one byte in twenty looks like one of these opcodes. The
 * search takes sixteen bytes at a time with the compiler's vectors, which every supported ISA has.
 */
#include <string.h>

#include "arch/x86/decode/scan.h"

typedef uint8_t block __attribute__((vector_size(16)));
typedef uint32_t block_words __attribute__((vector_size(16)));
typedef uint64_t block_halves __attribute__((vector_size(16)));

enum {
	DISPLACEMENT = 4,
	STRIDE = 64 /* bytes per step: the bits of a word */
};

static int32_t displacement(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static bool is_lea(uint8_t before, uint8_t byte)
{
	return before == 0x8d && (byte & 0xc7) == 0x05;
}

/* Whether a displacement may follow these two bytes. `before` is 0 at the start of the code. */
static bool leads(uint8_t before, uint8_t byte)
{
	return (byte & 0xfe) == 0xe8 || (before == 0x0f && (byte & 0xf0) == 0x80) ||
	       is_lea(before, byte) || (before == 0xc7 && byte == 0xf8);
}

/* Packs eight bytes, each 0 or 0xff, into one bit per byte; the first byte's bit is the lowest. */
static uint64_t bit_per_byte(uint64_t bytes)
{
	/*
	 * Bit 0 of byte k is bit 8 * k of the word. The factor's bit 56 - 7 * k moves it to bit 56
	 * + k.
	 */
	return (bytes & UINT64_C(0x0101010101010101)) * UINT64_C(0x0102040810204080) >> 56;
}

/* Calls leads(), in effect, for each of 16 bytes and the byte before. Returns one bit per byte. */
static uint64_t leads_block(const uint8_t *at)
{
	block before, byte;
	block_halves found;

	memcpy(&before, at - 1, sizeof(before));
	memcpy(&byte, at, sizeof(byte));
	found = (block_halves)(((byte & 0xfe) == 0xe8) |
			       ((before == 0x0f) & ((byte & 0xf0) == 0x80)) |
			       ((before == 0x8d) & ((byte & 0xc7) == 0x05)) |
			       ((before == 0xc7) & (byte == 0xf8)));
	return bit_per_byte(found[0]) | bit_per_byte(found[1]) << 8;
}

/* Checks the displacement after bytes[i]. */
static void check_target(
	const uint8_t *bytes, size_t i, uint64_t address, const struct arch_scan *scan)
{
	uint64_t target = address + i + 1 + DISPLACEMENT + (int64_t)displacement(bytes + i + 1);

	if (!arch_scan_target(scan, target) && i > 0 && is_lea(bytes[i - 1], bytes[i]))
		scan->constant(scan->data, target);
}

/* Returns the bits of leads_block() for STRIDE bytes. */
static uint64_t leads_stride(const uint8_t *at)
{
	uint64_t bits = 0;

	for (int k = 0; k < STRIDE; k += (int)sizeof(block))
		bits |= leads_block(at + k) << k;
	return bits;
}

static void scan_relative(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan)
{
	size_t i = 0;

	for (; i + 1 + DISPLACEMENT <= length; i++) {
		if (leads(i > 0 ? bytes[i - 1] : 0, bytes[i]))
			check_target(bytes, i, address, scan);
		while (i + 1 + STRIDE + DISPLACEMENT <= length) {
			uint64_t bits = leads_stride(bytes + i + 1);

			for (; bits; bits &= bits - 1)
				check_target(bytes, i + 1 + __builtin_ctzll(bits), address, scan);
			i += STRIDE;
		}
	}
}

/*
 * Returns true if [low, low + span) contains one of the constants that begin in a block, one at
 * each byte.
 */
static bool any_in_range(const uint8_t *at, uint32_t low, uint32_t span)
{
	block_halves any = {0};

	for (int k = 0; k < DISPLACEMENT; k++) {
		block_words words;

		memcpy(&words, at + k, sizeof(words));
		any |= (block_halves)(words - low < span);
	}
	return any[0] | any[1];
}

/* Reports the constants that begin in the first `count` bytes and are in a window. */
static void check_constants(const uint8_t *bytes, size_t count, const struct arch_scan *scan)
{
	for (size_t i = 0; i < count; i++)
		arch_scan_target(scan, (uint32_t)displacement(bytes + i));
}

/*
 * Reports the 32-bit constants that are in a window. Most constants are far from every window, so a
 * whole block is checked first.
 */
static void scan_absolute(const uint8_t *bytes, size_t length, const struct arch_scan *scan)
{
	const struct arch_windows *w = scan->windows;
	uint64_t low = w->count ? w->sites[0] : 0, span;
	size_t i = 0;

	if (w->count == 0 || low > UINT32_MAX)
		return;
	span = w->sites[w->count - 1] - low + w->jump_length;
	if (span > UINT32_MAX)
		span = UINT32_MAX;
	for (; i + sizeof(block) + DISPLACEMENT <= length; i += sizeof(block))
		if (any_in_range(bytes + i, low, span))
			check_constants(bytes + i, sizeof(block), scan);
	if (i + DISPLACEMENT <= length)
		check_constants(bytes + i, length - i - (DISPLACEMENT - 1), scan);
}

void x86_64_scan(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan)
{
	scan_relative(bytes, length, address, scan);
	if (scan->position_dependent)
		scan_absolute(bytes, length, scan);
}

/* The short branches are jcc rel8, loop, jrcxz and jmp rel8. */
bool x86_64_short_branch(const uint8_t *bytes, uint64_t address, uint64_t *target_ret)
{
	if ((bytes[0] & 0xf0) != 0x70 && (bytes[0] & 0xfc) != 0xe0 && bytes[0] != 0xeb)
		return false;
	*target_ret = address + 2 + (int64_t)(int8_t)bytes[1];
	return true;
}
