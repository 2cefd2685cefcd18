/* SPDX-License-Identifier: MIT */
/*
 * Entries of functions: what has to stay there, and where the arguments are behind it.
 *
 * gdb breaks at the first instruction, or behind `push %rbp; mov %rsp,%rbp`, also where `push %rbp`
 * stands alone (amd64_analyze_prologue() in gdb/amd64-tdep.c). A uprobe is at the first
 * instruction. With Intel's control-flow enforcement an indirect call must meet endbr64. So all
 * these stay, and more if a breakpoint by the line table would be inside our jump. GCC aligns the
 * stack of some functions before that:
 *
 *	lea 8(%rsp),%r10; and $-32,%rsp; push -8(%r10); push %rbp; mov %rsp,%rbp
 *
 * Source: "System V ABI, AMD64 Architecture Processor Supplement", 3.2.3; Intel SDM vol. 2.
 */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/x86/decode/insn.h"

enum { PUSH_RBP = 0x55, RET = 0xc3, JUMP_OPCODE = 0xe9, SHORT_JUMP_OPCODE = 0xeb };
enum { UNKNOWN = -1, JUMP = 5, SHORT_JUMP = 2, KEEP_MAX = 40 };

static size_t endbr_length(const uint8_t *bytes, size_t length)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

	return length >= 4 && memcmp(bytes, endbr64, 4) == 0 ? 4 : 0;
}

/* Returns the length of `push %rbp; mov %rsp,%rbp`, or 0. Assemblers encode the mov in two ways. */
static size_t frame_length(const uint8_t *bytes, size_t length)
{
	static const uint8_t moves[][4] = {
		{PUSH_RBP, 0x48, 0x89, 0xe5}, {PUSH_RBP, 0x48, 0x8b, 0xec}};

	for (size_t i = 0; i < 2 && length >= 4; i++)
		if (memcmp(bytes, moves[i], 4) == 0)
			return 4;
	return 0;
}

/* Returns true for `lea 8(%rsp),%reg`, with which the stack's alignment begins. */
static bool is_alignment(const uint8_t *bytes, size_t length)
{
	return length >= 5 && (bytes[0] & 0xfb) == 0x48 && bytes[1] == 0x8d &&
	       (bytes[2] & 0xc7) == 0x44 && bytes[3] == 0x24 && bytes[4] == 8;
}

/* Would a jump of this length have a breakpoint behind its first byte? */
static bool has_break(uint64_t breaks, size_t at, unsigned int length)
{
	return breaks >> at >> 1 & ((1u << (length - 1)) - 1);
}

/*
 * Skips one instruction: adds the arguments' registers that it may write to *lost, and what it
 * pushes to *pushed (UNKNOWN for other changes of the stack pointer). Returns its length; 0 if it
 * does not lead to the next one.
 */
static size_t skip(
	const uint8_t *bytes, size_t length, uint64_t address, uint32_t *lost, int *pushed)
{
	struct arch_insn insn;
	uint32_t writes;
	struct x86_64_prefixes prefixes;

	if (!x86_64_decode(bytes, length, address, &insn) || insn.flow != ARCH_FLOW_NONE)
		return 0;
	writes = disasm_writes(bytes, length);
	prefixes = x86_64_prefixes(bytes, length);
	*lost |= writes;
	if (!(writes & DISASM_WRITES_SP) || *pushed == UNKNOWN)
		return insn.length;
	if ((bytes[prefixes.length] & 0xf8) == 0x50 && !prefixes.operand_size)
		*pushed += 8;
	else if (insn.length == 4 && memcmp(bytes, "\x48\x83\xec", 3) == 0 && bytes[3] < 0x80)
		*pushed += bytes[3];
	else if (insn.length == 7 && memcmp(bytes, "\x48\x81\xec", 3) == 0 && bytes[6] < 0x40)
		*pushed += bytes[3] | bytes[4] << 8 | bytes[5] << 16 | bytes[6] << 24;
	else
		*pushed = UNKNOWN;
	return insn.length;
}

/* Returns how many bytes the frame's set-up takes, with an alignment before it; or 0. */
static size_t setup_length(const uint8_t *bytes, size_t length)
{
	size_t at = 0, frame;

	if (!is_alignment(bytes, length))
		return frame_length(bytes, length);
	for (int i = 0; i < 3; i++) {
		size_t next = disasm_length(bytes + at, length - at);

		if (!next)
			return 0;
		at += next;
	}
	frame = frame_length(bytes + at, length - at);
	return frame ? at + frame : 0;
}

/*
 * Writes the operand of the return address. An alignment of the stack keeps its place in a
 * register; with an unknown distance of the stack pointer, a frame has been set up.
 */
static void write_slot(const uint8_t *aligned, int pushed, char text[ARCH_ENTRY_SLOT])
{
	static const char *const registers[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi",
		"rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};

	if (aligned)
		snprintf(text, ARCH_ENTRY_SLOT, "8@-8(%%%s)",
			registers[(aligned[0] & 4) * 2 + (aligned[2] >> 3 & 7)]);
	else if (pushed == UNKNOWN)
		snprintf(text, ARCH_ENTRY_SLOT, "8@8(%%rbp)");
	else
		snprintf(text, ARCH_ENTRY_SLOT, "8@%d(%%rsp)", pushed);
}

static void write_args(uint32_t lost, int pushed, char text[ARCH_FUNCTION_TEXT])
{
	static const char *const registers[] = {"rdi", "rsi", "rdx", "rcx", "r8", "r9"};
	int at = 0;

	for (unsigned int i = 0; i < DISASM_INTEGERS; i++)
		at += snprintf(text + at, ARCH_FUNCTION_TEXT - (size_t)at,
			lost >> i & 1 ? "%s8@?" : "%s-8@%%%s", i ? " " : "", registers[i]);
	for (int i = 0; i < 4; i++)
		at += pushed == UNKNOWN
			      ? snprintf(text + at, ARCH_FUNCTION_TEXT - (size_t)at, " 8@?")
			      : snprintf(text + at, ARCH_FUNCTION_TEXT - (size_t)at,
					" -8@%d(%%rsp)", 8 + pushed + 8 * i);
	for (unsigned int i = 0; i < DISASM_FLOATS; i++)
		at += snprintf(text + at, ARCH_FUNCTION_TEXT - (size_t)at,
			lost >> (8 + i) & 1 ? " 8@?" : " 8f@%%xmm%u", i);
}

/*
 * When a uprobe is removed, the kernel writes back the first byte of the function. So a jump may
 * only be there if that byte makes the same of it: of a jump ours again, of `ret` a return.
 */
static bool is_first(const uint8_t *bytes, size_t length, struct arch_entry *ret)
{
	uint8_t first = length ? bytes[0] : 0;

	if ((first != JUMP_OPCODE && first != SHORT_JUMP_OPCODE && first != RET) ||
		disasm_length(bytes, length) == 0)
		return false;
	ret->keep = first == SHORT_JUMP_OPCODE ? ARCH_NO_JUMP : 0;
	ret->keep_short = first == JUMP_OPCODE ? ARCH_NO_JUMP : 0;
	return true;
}

static const char *find_entry(
	const uint8_t *bytes, size_t length, uint64_t address, struct arch_entry *ret)
{
	size_t at = endbr_length(bytes, length), frame = setup_length(bytes + at, length - at),
	       end = at + frame, next;
	const uint8_t *aligned = frame && is_alignment(bytes + at, length - at) ? bytes + at : NULL;
	uint32_t lost = 0;
	int pushed = 0, pushed_short = 0;

	ret->frame = (uint8_t)(frame ? end : 0);
	if (is_first(bytes, length, ret)) {
		write_args(0, 0, ret->args);
		write_slot(NULL, 0, ret->slot);
		return NULL;
	}
	if (end == at && (!at || (at < length && bytes[at] == PUSH_RBP)))
		end++; /* at least one instruction stays */
	ret->keep = ret->keep_short = ARCH_NO_JUMP;
	for (at = 0; ret->keep == ARCH_NO_JUMP; at += next) {
		if (at >= end && ret->keep_short == ARCH_NO_JUMP &&
			!has_break(ret->breaks, at, SHORT_JUMP)) {
			ret->keep_short = (uint8_t)at;
			pushed_short = pushed;
		}
		if (at >= end && !has_break(ret->breaks, at, JUMP))
			ret->keep = (uint8_t)at;
		next = at < KEEP_MAX && ret->keep == ARCH_NO_JUMP
			       ? skip(bytes + at, length - at, address + at, &lost, &pushed)
			       : 0;
		if (!next)
			break;
	}
	if (ret->keep_short == ARCH_NO_JUMP)
		return at < end ? "its first instructions may lead elsewhere"
				: "a debugger's breakpoint would be inside the jump";
	if (ret->keep == ARCH_NO_JUMP)
		pushed = pushed_short;
	/* The place of the return address must not depend on the jump. */
	if (pushed != pushed_short && !frame) {
		ret->keep_short = ret->keep;
		pushed_short = pushed;
	}
	if (pushed != pushed_short)
		pushed = UNKNOWN;
	if (aligned ? ret->keep != end || ret->keep_short != end : pushed == UNKNOWN && !frame)
		return ARCH_ENTRY_NO_FRAME;
	write_args(lost, pushed, ret->args);
	write_slot(aligned, pushed, ret->slot);
	return NULL;
}

/* Returns a register's number: its low bits, and the bit of the REX prefix for the fourth. */
static int number(uint8_t low, uint8_t rex, uint8_t bit)
{
	return (low & 7) + (rex & bit ? 8 : 0);
}

/* Is it `movslq (%a,%index,4),%b`, also as `movslq 0(%a,%index,4),%b`? */
static bool is_load(const uint8_t *load, size_t length, int a, int b)
{
	bool has_zero = length == 5 && load[4] == 0;
	int base = number(load[3], load[0], 1), to = number(load[2] >> 3, load[0], 4);

	return (load[0] & 0xf8) == 0x48 && load[1] == 0x63 &&
	       (load[2] & 0xc7) == (has_zero ? 0x44 : 0x04) && load[3] >> 6 == 2 &&
	       (has_zero || (load[3] & 7) != 5) &&
	       ((base == a && to == b) || (base == b && to == a));
}

static int64_t signed_at(const uint8_t *bytes)
{
	int32_t number;

	memcpy(&number, bytes, sizeof(number));
	return number;
}

/* Do the bytes end with an operand `table(,%index,8)`? */
static bool is_indexed(const uint8_t *end, uint8_t opcode, uint64_t *table_ret)
{
	if (end[-7] != opcode || (end[-6] & 0xc7) != 0x04 || (end[-5] & 0xc7) != 0xc5)
		return false;
	*table_ret = (uint64_t)signed_at(end - 4);
	return *table_ret != 0;
}

/* Do the bytes before a jump load an address of a table into its register? */
static bool is_loaded(const uint8_t *end, size_t length, int to, uint64_t *table_ret)
{
	if (length >= 8 && (end[-8] & 0xf8) == 0x48 && number(end[-6] >> 3, end[-8], 4) == to &&
		is_indexed(end, 0x8b, table_ret))
		return true;
	if (to || length < 13 || memcmp(end - 13, "\x48\xc1\xe0\x03\x48\x05", 6) != 0 ||
		memcmp(end - 3, "\x48\x8b\0", 3) != 0)
		return false;
	*table_ret = (uint64_t)signed_at(end - 7);
	return *table_ret != 0;
}

/* Does it add %rax and %rdx: a distance, and the table that it is from? */
static bool is_distance(const uint8_t *add, size_t length)
{
	static const struct {
		const char *bytes; /* behind the load, up to the table's second distance */
		size_t load;	   /* how far it is from the load to the addition */
	} forms[] = {
		{"\x48\x98\x48\x8d\x15", 12},	  /* cltq; lea table(%rip),%rdx */
		{"\x48\x63\xd0\x48\x8d\x05", 13}, /* movslq %eax,%rdx; lea table(%rip),%rax */
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		const uint8_t *load = add - forms[i].load;

		if (length >= forms[i].load + 7 && load[-7] == 0x48 && load[-6] == 0x8d &&
			(load[-5] | 0x10) == 0x15 && load[0] == 0x8b && load[1] == 0x04 &&
			(load[2] == 0x02 || load[2] == 0x10) &&
			memcmp(load + 3, forms[i].bytes, forms[i].load - 7) == 0 &&
			signed_at(load - 4) == signed_at(add - 4) + (int64_t)forms[i].load)
			return true;
	}
	return false;
}

/*
 * Compilers index a table of addresses in the jump itself or before it, or add a distance from a
 * table to its address; with control-flow enforcement, `notrack` is before the jump. On the right
 * is what gcc makes without optimisation:
 *
 *	jmp *table(,%rax,8)		mov table(,%rax,8),%rax; jmp *%rax
 *					shl $3,%rax; add $table,%rax; mov (%rax),%rax; jmp *%rax
 *	movslq (%rdx,%rax,4),%rax	lea table(%rip),%rax; mov (%rdx,%rax),%eax; cltq
 *	add %rdx,%rax; jmp *%rax	lea table(%rip),%rdx; add %rdx,%rax; jmp *%rax
 */
static bool is_switch(const uint8_t *bytes, size_t length, uint64_t *table_ret)
{
	const uint8_t *add;
	int to, left, right;

	*table_ret = 0;
	if (length >= 7 && bytes[length - 6] == 0x24 && is_indexed(bytes + length, 0xff, table_ret))
		return true;
	if (length < 2 || bytes[length - 2] != 0xff || (bytes[length - 1] & 0xf8) != 0xe0)
		return false;
	to = bytes[length - 1] & 7;
	length -= 2;
	if (length && bytes[length - 1] == 0x41) {
		to += 8;
		length--;
	}
	length -= length && bytes[length - 1] == 0x3e;
	if (is_loaded(bytes + length, length, to, table_ret))
		return true;
	if (length < 7)
		return false;
	length -= 3;
	add = bytes + length;
	left = number(add[2] >> 3, add[0], 4);
	right = number(add[2], add[0], 1);
	return (add[0] & 0xfa) == 0x48 && add[2] >> 6 == 3 &&
	       ((add[1] == 0x01 && right == to) || (add[1] == 0x03 && left == to)) &&
	       (is_load(add - 4, 4, left, right) ||
		       (length >= 5 && is_load(add - 5, 5, left, right)) ||
		       (left + right == 2 && left != right && is_distance(add, length)));
}

const struct arch_functions x86_64_functions = {
	.entry = find_entry,
	.is_switch = is_switch,
	.irelative = R_X86_64_IRELATIVE,
	.jump_slot = R_X86_64_JUMP_SLOT,
	.glob_dat = R_X86_64_GLOB_DAT,
	.return_args = "-8@%rax 8f@%xmm0",
	.return_frame = "8@(%rsp)",
	.result_is_argument = true,
};
