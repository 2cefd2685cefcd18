/* SPDX-License-Identifier: MIT */
/*
 * Finds everything in a module's code that may lead into a window. A window is the bytes that a
 * patch overwrites. The scan reads each word as an instruction, because it does not know where
 * functions and data begin.
 *
 *	b, bl, b.cond, cbz, tbz		lead to their targets
 *	ldr x, literal			the literal may be an address, even if it is not aligned to
 *8 adr				takes an address. Compilers use it for switches: adr  x1, label
 *the nearest target, or the code after br ldrb w2, [table, x0]		bytes, halves or words,
 *signed or not add  x1, x1, w2, sxtb 2 br   x1 adrp, add			take an address
 *together, so the scan adds both parts
 *
 * The length of a table of bytes is unknown, and nearly any byte in it leads into the function. So
 * `label` reports the adr itself, and the caller treats every address in that function as a target.
 *
 * clang emits adrp and add together, so an add belongs to the last adrp with the same register. The
 * scan pairs adrp and add for tables of 32-bit distances, which only clang makes. gcc may move the
 * adrp and its add apart, with others for the same register in between. The only gcc code that
 * matters here takes the address of a label (&&label), which only the function itself can name. So
 * in a function with a site, the scan looks at each adrp whose page overlaps the function, and
 * combines it with each add of the same register.
 *
 * In a position-dependent program, an address may also be a 32-bit constant, or be made by movz and
 * movk. Of movz and movk, the scan looks only at the one that sets the low 16 bits.
 */
#include "arch/aarch64/decode.h"
#include "arch/aarch64/encoding.h"
#include "arch/aarch64/scan.h"

enum {
	/* register 31 is not in the table: in add it is sp, which adrp cannot write */
	REGISTERS = 31,
	IMMEDIATES = 1 << 16
};

struct state {
	const struct arch_scan *scan;
	const uint8_t *bytes;
	size_t length;
	uint64_t address;
	/*
	 * For each register, the page that the last adrp has put into it; 0 if there was no adrp.
	 */
	uint64_t pages[REGISTERS];
};

/* Reports an address that an instruction takes, or may take. */
static void take(const struct arch_scan *scan, uint64_t address)
{
	if (!arch_scan_target(scan, address))
		scan->constant(scan->data, address);
}

static bool is_add(uint32_t insn)
{
	return (insn & 0xffc00000) == 0x91000000; /* 64 bits, the constant not shifted */
}

static unsigned int source(uint32_t insn)
{
	return insn >> 5 & 31;
}

static unsigned int low_part(uint32_t insn)
{
	return insn >> 10 & 0xfff;
}

/* ---- Single instructions ---------------------------------------------------------------- */

/* If a literal lies in the scanned bytes, reports its value as a target. */
static void check_literal(const struct state *s, uint64_t address)
{
	uint64_t offset = address - s->address;

	if (offset < s->length && s->length - offset >= sizeof(uint64_t))
		arch_scan_target(
			s->scan, aarch64_load(s->bytes + offset) |
					 (uint64_t)aarch64_load(s->bytes + offset + 4) << 32);
}

/* Reports each window that contains an address with these low 16 bits. */
static void check_immediate(const struct state *s, unsigned int low)
{
	const struct arch_windows *w = s->scan->windows;

	for (size_t i = 0; i < w->count; i++) {
		uint64_t at = (w->sites[i] & ~(uint64_t)(IMMEDIATES - 1)) | low;

		if (at <= w->sites[i])
			at += IMMEDIATES;
		if (at - w->sites[i] < w->jump_length)
			s->scan->reference(s->scan->data, i, at);
	}
}

static void check_absolute(const struct state *s, uint32_t insn)
{
	arch_scan_target(s->scan, insn);
	if ((insn & 0x5fe00000) == 0x52800000) /* movz or movk, not shifted */
		check_immediate(s, insn >> 5 & (IMMEDIATES - 1));
}

/*
 * Returns true if the instruction is a branch, adr, adrp, or a 64-bit literal ldr: all these depend
 * on their own address.
 */
static bool is_relative(uint32_t insn)
{
	return (insn & 0x7c000000) == 0x14000000 || (insn & 0x7c000000) == 0x34000000 ||
	       (insn & 0xff000000) == 0x54000000 || (insn & 0x1f000000) == 0x10000000 ||
	       (insn & 0xff000000) == 0x58000000;
}

static void check_relative(struct state *s, uint32_t insn, uint64_t at)
{
	enum aarch64_kind kind = aarch64_kind_of(insn);
	uint64_t target = aarch64_target(insn, kind, at);

	switch (kind) {
	case AARCH64_ADR:
		s->scan->label(s->scan->data, at);
		take(s->scan, target);
		break;
	case AARCH64_ADRP:
		if ((insn & 31) < REGISTERS)
			s->pages[insn & 31] = target;
		break;
	case AARCH64_LITERAL:
		check_literal(s, target);
		break;
	default:
		arch_scan_target(s->scan, target);
		break;
	}
}

void aarch64_scan(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan)
{
	size_t skip = -address % AARCH64_INSN_LENGTH;
	struct state s = {.scan = scan, .bytes = bytes, .length = length, .address = address};

	for (size_t i = skip; i + AARCH64_INSN_LENGTH <= length; i += AARCH64_INSN_LENGTH) {
		uint32_t insn = aarch64_load(bytes + i);

		if (is_relative(insn))
			check_relative(&s, insn, address + i);
		else if (is_add(insn) && source(insn) < REGISTERS && s.pages[source(insn)])
			take(scan, s.pages[source(insn)] + low_part(insn));
		if (scan->position_dependent)
			check_absolute(&s, insn);
	}
}

/*
 * For each register, the constants that any add of the function adds to it: one bit for each
 * constant.
 */
struct lows {
	uint64_t bits[REGISTERS][0x1000 / 64];
};

static void find_lows(const uint8_t *bytes, size_t length, struct lows *ret)
{
	for (size_t i = 0; i + AARCH64_INSN_LENGTH <= length; i += AARCH64_INSN_LENGTH) {
		uint32_t insn = aarch64_load(bytes + i);
		unsigned int low = low_part(insn);

		if (is_add(insn) && source(insn) < REGISTERS)
			ret->bits[source(insn)][low / 64] |= UINT64_C(1) << low % 64;
	}
}

void aarch64_scan_function(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan)
{
	struct lows lows = {0};

	find_lows(bytes, length, &lows);
	for (size_t i = 0; i + AARCH64_INSN_LENGTH <= length; i += AARCH64_INSN_LENGTH) {
		uint32_t insn = aarch64_load(bytes + i);
		uint64_t page = aarch64_target(insn, AARCH64_ADRP, address + i);

		if ((insn & 0x9f000000) != 0x90000000 || (insn & 31) >= REGISTERS)
			continue;
		if (page >= address + length || page + 0xfff < address)
			continue;
		for (unsigned int low = 0; low < 0x1000; low += AARCH64_INSN_LENGTH)
			if (lows.bits[insn & 31][low / 64] >> low % 64 & 1 &&
				page + low - address < length &&
				!arch_scan_target(scan, page + low))
				scan->label(scan->data, address + i);
	}
}
