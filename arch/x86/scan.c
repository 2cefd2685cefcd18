/* SPDX-License-Identifier: MIT */
/*
 * Finding everything in a module's code that could lead into a window.
 *
 * Nothing is decoded: every byte offset is taken as the possible start of a
 * 32-bit displacement behind the opcode of a branch (e8, e9, 0f 80-8f) or
 * behind the ModRM byte of `lea disp32(%rip)`. That is a superset of all
 * direct branches and of all address constants of position-independent code,
 * however the code is laid out: cold parts, hand-written assembly, data in
 * the text. In a position-dependent program an address may also be a 32-bit
 * constant anywhere. What is found by chance costs one site its place among
 * the relocatable ones; nothing is missed.
 */
#include <string.h>

#include "arch/x86/insn.h"
#include "arch/x86/scan.h"

enum { CLASS_JUMP = 1, CLASS_CONDITIONAL = 2, CLASS_PC_RELATIVE = 4 };

static int32_t displacement(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static void classify(uint8_t classes[256])
{
	memset(classes, 0, 256);
	classes[0xe8] = classes[0xe9] = CLASS_JUMP;
	for (int i = 0x80; i < 0x90; i++)
		classes[i] = CLASS_CONDITIONAL;
	for (int reg = 0; reg < 8; reg++)
		classes[reg << 3 | 5] = CLASS_PC_RELATIVE;
}

static void scan_absolute(const uint8_t *bytes, size_t length, const struct arch_scan *scan)
{
	for (size_t i = 0; i + 4 <= length; i++) {
		size_t found = arch_windows_find(scan->windows, (uint32_t)displacement(bytes + i));

		if (found != SIZE_MAX)
			scan->reference(scan->data, found);
	}
}

void x86_64_scan(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan)
{
	uint8_t classes[256];

	classify(classes);
	for (size_t i = 2; i + 4 <= length; i++) {
		uint8_t class = classes[bytes[i - 1]];
		uint64_t target;
		size_t found;

		if (!class)
			continue;
		if (class == CLASS_CONDITIONAL && bytes[i - 2] != 0x0f)
			continue;
		if (class == CLASS_PC_RELATIVE && bytes[i - 2] != 0x8d)
			continue;
		target = address + i + 4 + (int64_t)displacement(bytes + i);
		found = arch_windows_find(scan->windows, target);
		if (found != SIZE_MAX)
			scan->reference(scan->data, found);
		else if (class == CLASS_PC_RELATIVE)
			scan->constant(scan->data, target);
	}
	if (scan->position_dependent)
		scan_absolute(bytes, length, scan);
}

/* jcc rel8, loop, jrcxz, jmp rel8: the only branches shorter than a displacement. */
bool x86_64_short_branch(const uint8_t *bytes, uint64_t address, uint64_t *target_ret)
{
	if ((bytes[0] & 0xf0) != 0x70 && (bytes[0] & 0xfc) != 0xe0 && bytes[0] != 0xeb)
		return false;
	*target_ret = address + 2 + (int64_t)(int8_t)bytes[1];
	return true;
}
