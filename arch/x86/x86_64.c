/* SPDX-License-Identifier: MIT */
/* The operations of x86-64: patches, the scan of code, and moving instructions. */
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/spec.h"
#include "arch/x86/decode/insn.h"
#include "arch/x86/emit.h"

/* ==== Patch =================================================================================== */

/*
 * Patches that must keep some of a site's bytes.
 *
 * A pun writes one byte, the opcode of a jump, before bytes that stay:
 *
 *	site:	90 8d 87 01 00 ..	lea 1(%rdi),%eax after the nop
 *		e9 8d 87 01 00 ..	jmp site + 5 + 0x1878d
 *
 * A jump may overwrite a whole long nop. But another tool, for example a kernel uprobe, may have a
 * breakpoint there. That tool restores one byte when it leaves, and the restored byte must form a
 * nop with the bytes after it. In the usual 5-byte nop, the last two bytes can have any value:
 *
 *	0f 1f 44 00 00		nopl 0(%rax,%rax,1)
 *	e9 1f 44 xx yy		jmp, to one of 65,536 places, 64 KiB apart
 *	0f 1f 44 xx yy		nopl yy(...)
 *
 * If only the first bytes of a jump have room, its last bytes are those of the code behind it:
 *
 *	site:	90 48 89 c7 83 c0 01
 *	+ 1:	   e9 xx yy 83 c0 01	jmp, to one of 65,536 places in a row
 *
 * If a thread may enter right after the nop, a second jump is written there, one byte after the
 * first. The second jump runs no stub: it leads where a thread continues after the stubs of the
 * first jump. A thread that continues after a breakpoint at the nop also takes the second jump.
 *
 * In long nops of other forms only the first byte is changed. One kind of nop can hold any jump,
 * because no other tool uses it: it follows the site's own nop and has a length that the kernel
 * does not use.
 */

enum {
	X86_64_BREAKPOINT = 0xcc,
	X86_64_PUN_LENGTH = 1,
	X86_64_TWIN_LENGTH = 6,
	X86_64_TWIN_CHOICES = 256 * 16,
	/* length of the kernel's nops, one or two (arch_uprobe_optimize()) */
	KERNEL_NOP = 5,
	DISTANCE = X86_64_JUMP_LENGTH - X86_64_PUN_LENGTH
};

static size_t toggle_enter(uint8_t *out)
{
	static const uint8_t drop[] = {0x48, 0x8d, 0x64, 0x24, 0x08}; /* lea 8(%rsp),%rsp */

	memcpy(out, drop, sizeof(drop));
	return sizeof(drop);
}

/* Writes the 32-bit distance from `next` to `to`. Returns false if it is too far. */
static bool put_distance(uint8_t *out, uint64_t next, uint64_t to)
{
	int64_t distance = (int64_t)(to - next);
	int32_t value = (int32_t)distance;

	memcpy(out, &value, sizeof(value));
	return value == distance;
}

static size_t toggle_leave(uint64_t at, uint64_t count, uint64_t to, uint64_t back, uint8_t *out)
{
	static const uint8_t code[] = {
		0x66, 0x83, 0x3d, 0, 0, 0, 0, 0,    /*  0: cmpw $0,count(%rip) */
		0x74, 0x12,			    /*  8: je 28 */
		0x68, 0, 0, 0, 0,		    /* 10: push $low half of back */
		0xc7, 0x44, 0x24, 0x04, 0, 0, 0, 0, /* 15: movl $high half,4(%rsp) */
		0xe9, 0, 0, 0, 0,		    /* 23: jmp to */
		0xe9, 0, 0, 0, 0		    /* 28: jmp back */
	};
	uint32_t low = (uint32_t)back, high = (uint32_t)(back >> 32);

	memcpy(out, code, sizeof(code));
	memcpy(out + 11, &low, sizeof(low));
	memcpy(out + 19, &high, sizeof(high));
	return put_distance(out + 3, at + 8, count) && put_distance(out + 24, at + 28, to) &&
			       put_distance(out + 29, at + 33, back)
		       ? sizeof(code)
		       : 0;
}

/* After a one-byte nop, cmp $imm32,%eax or call rel32. */
static const struct arch_toggle x86_64_toggle = {.offset = 1,
	.off = 0x3d,
	.on = 0xe8,
	.covers = X86_64_JUMP_LENGTH,
	.enter = toggle_enter,
	.leave = toggle_leave};

static bool x86_64_is_breakpoint(const uint8_t *bytes)
{
	return bytes[0] == X86_64_BREAKPOINT;
}

static struct arch_pun x86_64_pun(const uint8_t *bytes, uint64_t at, unsigned int fixed)
{
	uint64_t step = fixed < DISTANCE ? UINT64_C(1) << 8 * fixed : 0;
	int32_t distance;

	memcpy(&distance, bytes + X86_64_PUN_LENGTH, sizeof(distance));
	if (step)
		distance &= (int32_t)(step - 1);
	return (struct arch_pun){at + X86_64_JUMP_LENGTH + (uint64_t)(int64_t)distance, step};
}

static struct arch_extent x86_64_part(const uint8_t *bytes, uint64_t at, unsigned int length)
{
	uint32_t size = UINT32_C(1) << 8 * (length - X86_64_PUN_LENGTH);
	int32_t distance;

	memcpy(&distance, bytes + X86_64_PUN_LENGTH, sizeof(distance));
	distance &= (int32_t)-size;
	return (struct arch_extent){at + X86_64_JUMP_LENGTH + (uint64_t)(int64_t)distance, size};
}

/*
 * Returns a twin, two overlapping jumps:
 *
 *	site:	e9 e9 dd hh hh hh	jmp site + 5 + 0xhhhhdde9
 *	+ 1:	   e9 dd hh hh hh	jmp site + 6 + 0xhhhhhhdd
 *
 * If dd and hh differ only in their low four bits, the distances differ only in their low 12 bits.
 */
static struct arch_twin x86_64_twin(uint64_t at, unsigned int choice)
{
	/* `high`, signed, is in turn 0, 1, -1, 2, -2 ... -128 */
	unsigned int turn = choice / 16;
	uint8_t high = (uint8_t)(turn & 1 ? turn / 2 + 1 : 256 - turn / 2);
	uint8_t low = (uint8_t)((high & 0xf0) | choice % 16);
	struct arch_twin twin = {.bytes = {0xe9, 0xe9, low, high, high, high}};

	for (unsigned int i = 0; i < 2; i++) {
		int32_t distance;

		memcpy(&distance, twin.bytes + i + 1, sizeof(distance));
		*(i ? &twin.second : &twin.first) =
			at + i + X86_64_JUMP_LENGTH + (uint64_t)(int64_t)distance;
	}
	return twin;
}

static uint8_t x86_64_nop_fixed(const uint8_t *nop, size_t length, bool is_site)
{
	static const uint8_t usual[] = {0x0f, 0x1f, 0x44};

	if (!is_site && length != KERNEL_NOP && length != 2 * KERNEL_NOP)
		return 0;
	return length == X86_64_JUMP_LENGTH && memcmp(nop, usual, sizeof(usual)) == 0
		       ? sizeof(usual) - X86_64_PUN_LENGTH
		       : DISTANCE;
}

/* ---- Jumps --------------------------------------------------------------------------- */

static size_t x86_64_jump(uint64_t at, uint64_t to, uint8_t *out)
{
	int64_t distance = (int64_t)(to - (at + X86_64_JUMP_LENGTH));
	int32_t displacement = (int32_t)distance;

	if (displacement != distance)
		return 0;
	out[0] = 0xe9;
	memcpy(out + 1, &displacement, sizeof(displacement));
	return X86_64_JUMP_LENGTH;
}

static size_t x86_64_short_jump(uint64_t at, uint64_t to, uint8_t *out)
{
	int64_t distance = (int64_t)(to - (at + X86_64_SHORT_JUMP_LENGTH));

	if (distance != (int8_t)distance)
		return 0;
	out[0] = 0xeb;
	out[1] = (uint8_t)distance;
	return X86_64_SHORT_JUMP_LENGTH;
}

/*
 * jmp *padding(%rip), then the address, aligned: an unaligned read raises SIGBUS if the program has
 * set EFLAGS.AC (arch/x86/stub/frame.c).
 */
static const uint8_t far_jump[] = {0xff, 0x25};

enum { FAR_JUMP_INSN = 6, FAR_PADDING_MAX = 7 };

static size_t x86_64_far_jump(uint64_t at, uint64_t to, uint8_t *out)
{
	uint32_t padding = -(uint32_t)(at + FAR_JUMP_INSN) & FAR_PADDING_MAX;
	uint8_t *address = out + FAR_JUMP_INSN + padding;

	memcpy(out, far_jump, sizeof(far_jump));
	memcpy(out + sizeof(far_jump), &padding, sizeof(padding));
	memset(out + FAR_JUMP_INSN, 0xcc, padding);
	memcpy(address, &to, sizeof(to));
	return (size_t)(address - out) + sizeof(to);
}

static uint64_t x86_64_jump_target(uint64_t at, const uint8_t *bytes)
{
	int32_t displacement;
	uint64_t to;

	if (bytes[0] == 0xe9) {
		memcpy(&displacement, bytes + 1, sizeof(displacement));
		return at + X86_64_JUMP_LENGTH + (int64_t)displacement;
	}
	if (memcmp(bytes, far_jump, sizeof(far_jump)) != 0)
		return 0;
	memcpy(&displacement, bytes + sizeof(far_jump), sizeof(displacement));
	if (displacement < 0 || displacement > FAR_PADDING_MAX)
		return 0;
	memcpy(&to, bytes + FAR_JUMP_INSN + displacement, sizeof(to));
	return to;
}

/* ==== Scan ==================================================================================== */

/*
 * Finds all code of a module that could lead into a window (struct arch_windows).
 *
 * Nothing is decoded. Every byte may begin a 32-bit displacement behind a branch's opcode (e8, e9,
 * 0f 80-8f, and xbegin's c7 f8) or the ModRM byte of `lea disp32(%rip)`. That includes all direct
 * branches, and all address constants in position-independent code, however it is laid out: cold
 * parts, assembly, data. In a position-dependent program an address may also be any 32-bit
 * constant. A chance match makes a site unmovable; none is missed.
 *
 * A large program has 13 MB of code, and one byte in twenty looks like such an opcode. The search
 * takes sixteen bytes at a time with the compiler's vectors, which every supported ISA has.
 */

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

/* May a displacement follow these two bytes? `before` is 0 at the code's start. */
static bool leads(uint8_t before, uint8_t byte)
{
	return (byte & 0xfe) == 0xe8 || (before == 0x0f && (byte & 0xf0) == 0x80) ||
	       is_lea(before, byte) || (before == 0xc7 && byte == 0xf8);
}

/* Packs eight bytes, each 0 or 0xff, into bits; the first byte's bit is the lowest. */
static uint64_t bit_per_byte(uint64_t bytes)
{
	/* Bit 0 of byte k is bit 8 * k. The factor's bit 56 - 7 * k moves it to bit 56 + k. */
	return (bytes & UINT64_C(0x0101010101010101)) * UINT64_C(0x0102040810204080) >> 56;
}

/* leads() for each of 16 bytes and the byte before: one bit per byte. */
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

	arch_scan_target(scan, target);
	if (scan->constant && i > 0 && is_lea(bytes[i - 1], bytes[i]))
		scan->constant(scan->data, address + i, target);
}

static void scan_relative(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan)
{
	size_t i = 0;

	for (; i + 1 + DISPLACEMENT <= length; i++) {
		if (leads(i > 0 ? bytes[i - 1] : 0, bytes[i]))
			check_target(bytes, i, address, scan);
		while (i + 1 + STRIDE + DISPLACEMENT <= length) {
			uint64_t bits = 0;

			for (int k = 0; k < STRIDE; k += (int)sizeof(block))
				bits |= leads_block(bytes + i + 1 + k) << k;
			for (; bits; bits &= bits - 1)
				check_target(bytes, i + 1 + __builtin_ctzll(bits), address, scan);
			i += STRIDE;
		}
	}
}

/* Is one of the constants that begin in a block, one at each byte, in [low, low + span)? */
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

/* Reports the constants that begin in `count` bytes and are in a window. */
static void check_constants(const uint8_t *bytes, size_t count, const struct arch_scan *scan)
{
	for (size_t i = 0; i < count; i++)
		arch_scan_target(scan, (uint32_t)displacement(bytes + i));
}

/*
 * Reports 32-bit constants in a window. Most are far from all windows, so a block is checked first.
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

static void x86_64_scan(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan)
{
	scan_relative(bytes, length, address, scan);
	if (scan->position_dependent)
		scan_absolute(bytes, length, scan);
}

/* jcc rel8, loop, jrcxz and jmp rel8. */
static bool x86_64_short_branch(const uint8_t *bytes, uint64_t address, uint64_t *target_ret)
{
	if ((bytes[0] & 0xf0) != 0x70 && (bytes[0] & 0xfc) != 0xe0 && bytes[0] != 0xeb)
		return false;
	*target_ret = address + 2 + (int64_t)(int8_t)bytes[1];
	return true;
}

/* ==== Move ==================================================================================== */

/*
 * Moves x86-64 instructions to another address.
 *
 * A 5-byte jump over a 1-byte nop also overwrites the instructions after the nop. Copies of these
 * run in the stub, and must have the same effect there on registers, flags, memory and the stack:
 *
 *	from:	nop			to:	nop
 *		mov  x(%rip),%rax		mov  x(%rip),%rax	new displacement
 *		call f				push $ret; movl $ret>>32,4(%rsp)
 *	ret:	...				jmp  f
 *
 * - An operand relative to %rip gets a displacement to the same address. The disassembler library
 *   says where the displacement is, and the ModRM byte must agree.
 * - A direct branch becomes its rel32 form with the same target.
 * - A call pushes the original return address, because unwinders, exceptions and conservative stack
 *   scanners look it up. A call instruction in the stub cannot do that, so other instructions push
 *   the address without changing a register or flag, and a jump follows. The callee returns to the
 *   original code, so only the last moved instruction may be a call. This has two costs. The CPU's
 *   return predictor misses once. With a shadow stack (CET) the return would fault, so a target
 *   that uses one must not be patched. The copy of an indirect call reads its operand after the
 *   push, the original before: an operand based on %rsp is corrected by 8, and an operand that
 *   overlaps the slot below %rsp is refused.
 * - `syscall` is refused: a thread that waits in one has the address behind it, and the kernel sets
 *   it back to the `syscall`, into our patch, when the call is restarted after a stop.
 * - Instructions that use their own address in other ways are refused: an interrupt reports it to a
 *   handler, xbegin rolls back to it. (An x87 instruction leaves its
 *   address in the FPU's state; only handlers of unmasked x87 exceptions look at that.)
 * - loop, jrcxz and similar instructions have no rel32 form. They are rare and are refused.
 * - A jump or return may end the code before the patch ends, if only padding follows that no code
 *   enters (arch_moved.padding).
 * - No branch may lead into the moved bytes, because the patch overwrites them. An instruction that
 *   branches into them is refused. It may branch to the first byte, where the patch begins.
 */

/* The longest copy is that of a call: push (5 bytes), movl (8), and a jump (at most 15 + 4). */
enum { COPY_MAX = 5 + 8 + ARCH_INSN_MAX + 4 };

struct move {
	const uint8_t *bytes; /* bytes of the original */
	uint64_t from;	      /* address of the original */
	struct arch_insn insn;
	struct x86_64_prefixes prefixes;
	uint64_t to; /* address of the copy */
	uint8_t code[COPY_MAX];
	size_t code_length;
	bool has_target; /* `target` is set: a branch target or a %rip-relative operand */
	uint64_t target;
};

static void emit(struct move *move, const void *bytes, size_t length)
{
	memcpy(move->code + move->code_length, bytes, length);
	move->code_length += length;
}

static void emit_byte(struct move *move, uint8_t byte)
{
	emit(move, &byte, 1);
}

/*
 * Writes the displacement to move->target at code + at, `tail` bytes before the instruction's end.
 */
static enum arch_move_status set_displacement(struct move *move, size_t at, size_t tail)
{
	uint64_t next = move->to + at + 4 + tail;
	int64_t distance = (int64_t)(move->target - next);
	int32_t displacement = (int32_t)distance;

	if (displacement != distance)
		return ARCH_MOVE_OUT_OF_REACH;
	memcpy(move->code + at, &displacement, sizeof(displacement));
	return ARCH_MOVE_OK;
}

/* Appends a displacement, the last part of an instruction. */
static enum arch_move_status emit_target(struct move *move, uint64_t target)
{
	size_t at = move->code_length;

	move->has_target = true;
	move->target = target;
	emit(move, &(uint32_t){0}, 4);
	return set_displacement(move, at, 0);
}

/* Pushes the address after the original call. Changes no register and no flag. */
static void emit_push_return(struct move *move)
{
	static const uint8_t store_high[] = {0xc7, 0x44, 0x24, 0x04}; /* movl $imm,4(%rsp) */
	uint64_t address = move->from + move->insn.length;
	uint32_t low = (uint32_t)address, high = (uint32_t)(address >> 32);

	emit_byte(move, 0x68); /* push, sign-extended */
	emit(move, &low, sizeof(low));
	if ((uint64_t)(int64_t)(int32_t)low != address) {
		emit(move, store_high, sizeof(store_high));
		emit(move, &high, sizeof(high));
	}
}

/* Copies an instruction that does not branch, with a new %rip-relative operand. */
static enum arch_move_status move_plain(struct move *move)
{
	uint8_t length = move->insn.length;
	struct disasm_insn insn;
	int32_t displacement;
	bool relative;
	size_t at;

	if (!disasm_insn(move->bytes, length, &insn) || insn.length != length)
		return ARCH_MOVE_UNDECODABLE;
	if (insn.modrm_offset >= length)
		return ARCH_MOVE_UNSUPPORTED;
	/* With mod 0, rm 5 means %rip in legacy, VEX and EVEX encoding. */
	relative = insn.modrm_offset && (move->bytes[insn.modrm_offset] & 0xc7) == 0x05;
	if (insn.reads_pc32 || insn.reads_pc != relative)
		return ARCH_MOVE_UNSUPPORTED;
	emit(move, move->bytes, length);
	if (!relative)
		return ARCH_MOVE_OK;

	at = insn.modrm_offset + 1u;
	if (at + 4 > length)
		return ARCH_MOVE_UNSUPPORTED;
	memcpy(&displacement, move->bytes + at, sizeof(displacement));
	if (displacement != insn.disp)
		return ARCH_MOVE_UNSUPPORTED;
	move->has_target = true;
	move->target = move->from + length + (uint64_t)(int64_t)displacement;
	return set_displacement(move, at, length - at - 4);
}

/* Moves a conditional branch, with bnd and jcc's hints; other prefixes mean nothing here. */
static enum arch_move_status move_branch(struct move *move)
{
	const uint8_t *opcode = move->bytes + move->prefixes.length;
	uint8_t condition = opcode[0] == 0x0f ? opcode[1] : opcode[0];

	/* loop, loope, loopne, jrcxz; xbegin */
	if ((opcode[0] & 0xfc) == 0xe0 || opcode[0] == 0xc7 || move->prefixes.repeat == 0xf3)
		return ARCH_MOVE_UNSUPPORTED;
	if (move->prefixes.repeat)
		emit_byte(move, move->prefixes.repeat);
	if (move->prefixes.segment == 0x2e || move->prefixes.segment == 0x3e)
		emit_byte(move, move->prefixes.segment);
	emit_byte(move, 0x0f);
	emit_byte(move, 0x80 | (condition & 0x0f));
	return emit_target(move, move->insn.target);
}

/* Moves a direct jump, or the one that ends a moved call. */
static enum arch_move_status move_jump(struct move *move)
{
	if (move->prefixes.repeat == 0xf3)
		return ARCH_MOVE_UNSUPPORTED;
	if (move->prefixes.repeat)
		emit_byte(move, move->prefixes.repeat);
	emit_byte(move, 0xe9);
	return emit_target(move, move->insn.target);
}

/* Emits disp(%rsp,...): ModRM, SIB, and the displacement plus 8. */
static enum arch_move_status emit_stack_operand(struct move *move, const uint8_t *modrm)
{
	uint8_t mod = modrm[0] >> 6, sib = modrm[1];
	int32_t displacement = 0;

	if (mod == 1)
		displacement = (int8_t)modrm[2];
	else if (mod == 2)
		memcpy(&displacement, modrm + 2, sizeof(displacement));
	/* The operand would overlap the pushed address, or the addition overflow. */
	if ((displacement > -16 && displacement < 0) || displacement > INT32_MAX - 8)
		return ARCH_MOVE_UNSUPPORTED;
	displacement += 8;
	emit_byte(move, 0x80 | 4 << 3 | 4); /* mod 2: disp32; /4: jmp; rm 4: SIB */
	emit_byte(move, sib);
	emit(move, &displacement, sizeof(displacement));
	return ARCH_MOVE_OK;
}

/* Pushes the return address, then jumps by the call's operand. */
static enum arch_move_status move_indirect_call(struct move *move)
{
	const struct x86_64_prefixes *prefixes = &move->prefixes;
	const uint8_t *modrm = move->bytes + prefixes->length + 1;
	uint8_t mod = modrm[0] >> 6, rm = modrm[0] & 7;
	size_t operand = move->insn.length - prefixes->length - 1;
	bool base_is_12 = prefixes->rex & X86_64_REX_B; /* rm 4, or base 4, means %r12 */
	static const uint8_t displacement_size[] = {0, 1, 4, 0};
	int32_t displacement;
	size_t at;

	if ((modrm[0] >> 3 & 7) != 2 || prefixes->operand_size || prefixes->address_size ||
		prefixes->lock || prefixes->repeat == 0xf3)
		return ARCH_MOVE_UNSUPPORTED;
	emit_push_return(move);
	emit(move, move->bytes, prefixes->length);
	emit_byte(move, 0xff);
	if (mod == 3 && (operand != 1 || (rm == 4 && !base_is_12)))
		return ARCH_MOVE_UNSUPPORTED;
	if (mod != 3 && rm == 4 && (modrm[1] & 7) == 4 && !base_is_12) {
		/* The operand's copy takes 6 bytes; prefixes may leave too few. */
		if (operand != 2u + displacement_size[mod] ||
			prefixes->length + 1 + 6 > ARCH_INSN_MAX)
			return ARCH_MOVE_UNSUPPORTED;
		return emit_stack_operand(move, modrm);
	}
	at = move->code_length + 1;
	emit_byte(move, (modrm[0] & 0xc7) | 4 << 3);
	emit(move, modrm + 1, operand - 1);
	if (mod != 0 || rm != 5)
		return ARCH_MOVE_OK;
	if (operand != 5)
		return ARCH_MOVE_UNSUPPORTED;
	memcpy(&displacement, modrm + 1, sizeof(displacement));
	move->has_target = true;
	move->target = move->from + move->insn.length + (uint64_t)(int64_t)displacement;
	return set_displacement(move, at, 0);
}

/* Does an instruction other than a branch use its own address? */
static bool knows_its_address(const struct move *move)
{
	const uint8_t *opcode = move->bytes + move->prefixes.length;
	size_t left = move->insn.length - move->prefixes.length;

	switch (opcode[0]) {
	case 0xcc:
	case 0xcd:
	case 0xf1: /* int3, int, int1 */
		return true;
	case 0x0f:
		return left > 1 && (opcode[1] == 0x34 || opcode[1] == 0x05); /* sysenter, syscall */
	default:
		return false;
	}
}

static enum arch_move_status move_by_flow(struct move *move)
{
	switch (move->insn.flow) {
	case ARCH_FLOW_BRANCH:
		return move_branch(move);
	case ARCH_FLOW_JUMP:
		return move_jump(move);
	case ARCH_FLOW_CALL:
		emit_push_return(move);
		return move_jump(move);
	case ARCH_FLOW_INDIRECT_CALL:
		return move_indirect_call(move);
	case ARCH_FLOW_INDIRECT_JUMP:
		/* Opcode extension 5 is a far jump; prefix 66 makes a 16-bit target on AMD. */
		if ((move->bytes[move->prefixes.length + 1] >> 3 & 7) != 4 ||
			move->prefixes.operand_size)
			return ARCH_MOVE_UNSUPPORTED;
		return move_plain(move);
	case ARCH_FLOW_NONE:
	case ARCH_FLOW_RETURN:
	case ARCH_FLOW_STOP:
		break;
	}
	return knows_its_address(move) ? ARCH_MOVE_UNSUPPORTED : move_plain(move);
}

/* Says why an instruction was not decoded: ARCH_MOVE_TRUNCATED if more bytes would help. */
static enum arch_move_status undecodable(const uint8_t *bytes, size_t length)
{
	uint8_t padded[ARCH_INSN_MAX] = {0};

	if (!length)
		return ARCH_MOVE_TRUNCATED;
	if (length >= sizeof(padded))
		return ARCH_MOVE_UNDECODABLE;
	memcpy(padded, bytes, length);
	return disasm_length(padded, sizeof(padded)) > length ? ARCH_MOVE_TRUNCATED
							      : ARCH_MOVE_UNDECODABLE;
}

/*
 * Returns `need`, or 0 if there are fewer bytes of nops and int3 at the start. They follow a
 * function or precede an aligned loop. No thread runs the rest of the last one, where another jump
 * may be.
 */
static size_t padding_length(const uint8_t *bytes, size_t length, size_t need)
{
	size_t at = 0, size;

	if (need > ARCH_INSN_MAX)
		return 0;
	while (at < need) {
		if (at < length && bytes[at] == 0xcc)
			size = 1;
		else
			size = x86_64_nop_length(bytes + at, length - at);
		if (!size)
			return 0;
		at += size;
	}
	return need;
}

/* Moves the instruction at offset ret->length. */
static enum arch_move_status move_next(
	const uint8_t *bytes, size_t length, size_t need, struct move *move, struct arch_moved *ret)
{
	enum arch_move_status status;
	size_t end, padding = 0;

	move->bytes = bytes + ret->length;
	if (!x86_64_decode(move->bytes, length - ret->length, move->from, &move->insn))
		return undecodable(move->bytes, length - ret->length);
	if (ret->count == ARCH_MOVED_INSNS_MAX)
		return ARCH_MOVE_UNSUPPORTED;
	end = (size_t)ret->length + move->insn.length;
	if (end < need) {
		status = arch_move_inside(move->insn.flow);
		if (status == ARCH_MOVE_FLOW_INSIDE)
			padding = padding_length(bytes + end, length - end, need - end);
		if (status != ARCH_MOVE_OK && !padding)
			return status;
	}
	move->prefixes = x86_64_prefixes(move->bytes, move->insn.length);
	status = move_by_flow(move);
	if (status != ARCH_MOVE_OK)
		return status;
	if (move->code_length > sizeof(ret->code) - ret->code_length)
		return ARCH_MOVE_UNSUPPORTED;

	ret->from_offset[ret->count] = ret->length;
	ret->to_offset[ret->count] = (uint8_t)ret->code_length;
	ret->count++;
	ret->falls_through = arch_move_inside(move->insn.flow) == ARCH_MOVE_OK;
	memcpy(ret->code + ret->code_length, move->code, move->code_length);
	ret->code_length += move->code_length;
	ret->length = (uint8_t)(end + padding);
	ret->padding = (uint8_t)padding;
	return ARCH_MOVE_OK;
}

static enum arch_move_status x86_64_move(const uint8_t *bytes, size_t length, uint64_t from,
	uint64_t to, size_t need, struct arch_moved *ret)
{
	uint64_t targets[ARCH_MOVED_INSNS_MAX];
	size_t target_count = 0;

	*ret = (struct arch_moved){.falls_through = true};
	while (ret->length < need) {
		struct move move = {.from = from + ret->length, .to = to + ret->code_length};
		enum arch_move_status status = move_next(bytes, length, need, &move, ret);

		if (status != ARCH_MOVE_OK)
			return status;
		if (move.has_target)
			targets[target_count++] = move.target;
	}
	for (size_t i = 0; i < target_count; i++) {
		if (targets[i] - from > 0 && targets[i] - from < ret->length) {
			ret->padding = 0;
			return ARCH_MOVE_UNSUPPORTED;
		}
	}
	return ret->padding ? ARCH_MOVE_FLOW_INSIDE : ARCH_MOVE_OK;
}

/* ==== The table =============================================================================== */

/* The numbers are from "System V ABI, AMD64 Architecture Processor Supplement", figure 3.36. */
static const struct arch_unwind_register unwind_registers[] = {
	{RSP, 7},
	{RBP, 6},
	{RBX, 3},
	{R12, 12},
	{R13, 13},
	{R14, 14},
	{R15, 15},
};

static size_t prefix_length(const uint8_t *bytes, size_t length)
{
	return x86_64_prefixes(bytes, length).length;
}

const struct arch arch_x86_64 = {
	.name = "x86-64",
	.unwind_registers = unwind_registers,
	.unwind_count = sizeof(unwind_registers) / sizeof(unwind_registers[0]),
	.frame_record_end = 16,
	.elf_machine = EM_X86_64,
	.process = &x86_64_process,
	/* notes of i386 use 32-bit registers' names */
	.elf_machine_args = EM_386,
	.parse_args = x86_64_parse_args,
	.functions = &x86_64_functions,
	.jump_length = X86_64_JUMP_LENGTH,
	.jump_reach = UINT64_C(1) << 31,
	.far_jump_length = X86_64_FAR_JUMP_LENGTH,
	.short_jump_length = X86_64_SHORT_JUMP_LENGTH,
	.site_nop = 1,
	.breakpoint = {X86_64_BREAKPOINT},
	.breakpoint_length = 1,
	.is_breakpoint = x86_64_is_breakpoint,
	.toggle = &x86_64_toggle,
	.guard_off = {0xa9}, /* test $imm32,%eax */
	.pun_length = X86_64_PUN_LENGTH,
	.pun = x86_64_pun,
	.part = x86_64_part,
	.twin_length = X86_64_TWIN_LENGTH,
	.twin_choices = X86_64_TWIN_CHOICES,
	.twin = x86_64_twin,
	.nop_fixed = x86_64_nop_fixed,
	.can_decode = x86_64_can_decode,
	.decode = x86_64_decode,
	.is_general = x86_64_is_general,
	.overwrites_flags = x86_64_overwrites_flags,
	.insn_align = 1,
	.scan = x86_64_scan,
	.short_reach = X86_64_SHORT_REACH,
	.short_branch = x86_64_short_branch,
	.prefix_length = prefix_length,
	.nop_length = x86_64_nop_length,
	.loses_stack = x86_64_loses_stack,
	.may_lose_stack = x86_64_may_lose_stack,
	.argument_dies = x86_64_argument_dies,
	.move = x86_64_move,
	.jump = x86_64_jump,
	.short_jump = x86_64_short_jump,
	.far_jump = x86_64_far_jump,
	.jump_target = x86_64_jump_target,
	.stubs = &x86_64_stubs,
};
