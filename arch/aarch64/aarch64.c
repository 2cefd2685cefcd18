/* SPDX-License-Identifier: MIT */
/* The operations of aarch64. */
#include <elf.h>

#include "arch/aarch64/emit.h"
#include "arch/aarch64/encoding.h"
#include "arch/spec.h"
#include "libprobe/base/array.h"

/* ==== Decode ================================================================================== */

/*
 * Decodes aarch64. In the Arm ARM (DDI 0487), C4.1 "A64 instruction set encoding", bits 25 to 28
 * tell the group of an instruction. In most groups no instruction depends on its own address. The
 * table lists the instructions that do, and all branches. A branch that is not in the table is
 * AARCH64_UNKNOWN; so are instructions that later architectures may add.
 *
 * FIXED are:
 *	svc		the kernel restarts a system call at the address of its svc, and shows
 *			this address to seccomp filters
 *	bti, paciasp	landing pads: an indirect branch may go to them
 *	hints from 32	some change the next instruction (pacm)
 *	cpym, sete ...	parts of a copy that must stay together: the kernel may go back to the
 *			first part
 *	stxr ...	fails if more than a few instructions ran since the ldxr
 *	tstart		if the transaction fails, execution continues at the tstart
 */

enum aarch64_kind {
	AARCH64_UNKNOWN, /* not an instruction, or one that may depend on its address in some way */
	AARCH64_PLAIN,	 /* does not depend on its address, and the next instruction follows */
	AARCH64_FIXED,	 /* must not be moved; the next instruction follows */
	AARCH64_ADR,	 /* adr */
	AARCH64_ADRP,	 /* adrp */
	AARCH64_LITERAL, /* ldr, ldrsw, prfm with a pc-relative address */
	AARCH64_B,	 /* b */
	AARCH64_BL,	 /* bl */
	AARCH64_B_COND,	 /* b.cond, bc.cond */
	AARCH64_CB,	 /* cbz, cbnz */
	AARCH64_TB,	 /* tbz, tbnz */
	AARCH64_BR,	 /* br, braa ... */
	AARCH64_BLR,	 /* blr, blraa ... */
	AARCH64_RET,	 /* ret, retaa ... */
	AARCH64_TRAP	 /* brk, hlt, udf ...: execution never continues */
};

struct pattern {
	uint32_t mask, bits;
	enum aarch64_kind kind;
};

/* The first pattern that matches an instruction gives its kind. */
static const struct pattern patterns[] = {
	/* -- instructions that depend on their own address -- */
	{0x9f000000, 0x10000000, AARCH64_ADR}, {0x9f000000, 0x90000000, AARCH64_ADRP},
	{0xff000000, 0xdc000000, AARCH64_UNKNOWN}, /* a literal of unknown size */
	{0x3b000000, 0x18000000, AARCH64_LITERAL}, {0xfc000000, 0x14000000, AARCH64_B},
	{0xfc000000, 0x94000000, AARCH64_BL}, {0xff000000, 0x54000000, AARCH64_B_COND},
	{0x7e000000, 0x34000000, AARCH64_CB}, {0x7e000000, 0x36000000, AARCH64_TB},
	/* -- branches to registers: plain; authenticated with modifier 0; with a register -- */
	{0xfffffc1f, 0xd61f0000, AARCH64_BR}, {0xfffff81f, 0xd61f081f, AARCH64_BR},
	{0xfffff800, 0xd71f0800, AARCH64_BR}, {0xfffffc1f, 0xd63f0000, AARCH64_BLR},
	{0xfffff81f, 0xd63f081f, AARCH64_BLR}, {0xfffff800, 0xd73f0800, AARCH64_BLR},
	{0xfffffc1f, 0xd65f0000, AARCH64_RET}, {0xfffffbff, 0xd65f0bff, AARCH64_RET},
	/* -- instructions that raise exceptions -- */
	{0xffe0001f, 0xd4000001, AARCH64_FIXED},					/* svc */
	{0xff000000, 0xd4000000, AARCH64_TRAP}, {0xffff0000, 0x00000000, AARCH64_TRAP}, /* udf */
	/* -- hints, whose numbers are bits 5 to 11; other system instructions -- */
	{0xffffffbf, 0xd503233f, AARCH64_FIXED}, /* paciasp, pacibsp */
	{0xfffffc1f, 0xd503201f, AARCH64_PLAIN}, {0xfffff01f, 0xd503201f, AARCH64_FIXED},
	{0xffffffe0, 0xd5233060, AARCH64_FIXED}, /* tstart */
	{0xffc00000, 0xd5000000, AARCH64_PLAIN},
	{0x1c000000, 0x14000000, AARCH64_UNKNOWN}, /* other branches and system instructions */
	/* -- instructions that differ from the rest of their groups, which follow -- */
	{0x3b200c00, 0x19000400, AARCH64_FIXED},   /* copies and fills of memory */
	{0x3fc00000, 0x08000000, AARCH64_FIXED},   /* exclusive stores */
	{0x7f800000, 0x13800000, AARCH64_PLAIN},   /* extr */
	{0x1f800000, 0x13800000, AARCH64_UNKNOWN}, /* autiasppc and autibsppc are in this space */
	{0x7fff8000, 0x5ac18000, AARCH64_UNKNOWN}, /* paciasppc and similar instructions */
	/* -- whole groups -- */
	{0x1e000000, 0x04000000, AARCH64_PLAIN}, /* SVE */
	{0x1c000000, 0x10000000, AARCH64_PLAIN}, /* constants */
	{0x0a000000, 0x08000000, AARCH64_PLAIN}, /* memory */
	{0x0e000000, 0x0a000000, AARCH64_PLAIN}, /* registers */
	{0x0e000000, 0x0e000000, AARCH64_PLAIN}, /* vectors, floating point */
};

static enum aarch64_kind kind_of(uint32_t insn)
{
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
		if ((insn & patterns[i].mask) == patterns[i].bits)
			return patterns[i].kind;
	return AARCH64_UNKNOWN;
}

/* Returns the signed field of `bits` bits from bit `low` on. */
static int64_t signed_field(uint32_t insn, unsigned int low, unsigned int bits)
{
	return (int32_t)(insn << (32 - bits - low)) >> (32 - bits);
}

/* Returns the distance in bytes of a branch or literal load; the field holds words. */
static int64_t distance_of(uint32_t insn, unsigned int low, unsigned int bits)
{
	return signed_field(insn, low, bits) * AARCH64_INSN_LENGTH;
}

/* Returns the field of adr and adrp, whose lowest two of 21 bits are apart. */
static int64_t page_field(uint32_t insn)
{
	return signed_field(insn, 5, 19) * 4 + (insn >> 29 & 3);
}

/*
 * Returns the address that an instruction jumps to, computes or reads; 0 if instructions of its
 * kind have no such address.
 */
static uint64_t target_of(uint32_t insn, enum aarch64_kind kind, uint64_t address)
{
	switch (kind) {
	case AARCH64_ADR:
		return address + (uint64_t)page_field(insn);
	case AARCH64_ADRP:
		return (address & ~UINT64_C(0xfff)) + (uint64_t)page_field(insn) * 0x1000;
	case AARCH64_B:
	case AARCH64_BL:
		return address + (uint64_t)distance_of(insn, 0, 26);
	case AARCH64_LITERAL:
	case AARCH64_B_COND:
	case AARCH64_CB:
		return address + (uint64_t)distance_of(insn, 5, 19);
	case AARCH64_TB:
		return address + (uint64_t)distance_of(insn, 5, 14);
	default:
		return 0;
	}
}

static enum arch_flow flow_of(enum aarch64_kind kind)
{
	switch (kind) {
	case AARCH64_B:
		return ARCH_FLOW_JUMP;
	case AARCH64_BL:
		return ARCH_FLOW_CALL;
	case AARCH64_B_COND:
	case AARCH64_CB:
	case AARCH64_TB:
		return ARCH_FLOW_BRANCH;
	case AARCH64_BR:
		return ARCH_FLOW_INDIRECT_JUMP;
	case AARCH64_BLR:
		return ARCH_FLOW_INDIRECT_CALL;
	case AARCH64_RET:
		return ARCH_FLOW_RETURN;
	case AARCH64_TRAP:
		return ARCH_FLOW_STOP;
	default:
		return ARCH_FLOW_NONE;
	}
}

static bool aarch64_decode(
	const uint8_t *bytes, size_t length, uint64_t address, struct arch_insn *ret)
{
	enum aarch64_kind kind;
	uint32_t insn;

	if (length < AARCH64_INSN_LENGTH || address % AARCH64_INSN_LENGTH)
		return false;
	insn = aarch64_load(bytes);
	kind = kind_of(insn);
	if (kind == AARCH64_UNKNOWN)
		return false;
	*ret = (struct arch_insn){.length = AARCH64_INSN_LENGTH, .flow = flow_of(kind)};
	if (ret->flow == ARCH_FLOW_JUMP || ret->flow == ARCH_FLOW_CALL ||
		ret->flow == ARCH_FLOW_BRANCH)
		ret->target = target_of(insn, kind, address);
	return true;
}

/* ==== General instructions ==================================================================== */

/*
 * Instructions that change only general registers, flags and memory. Bits 25 to 28 tell vector
 * instructions, one bit loads and stores of vectors. Only listed system instructions count, because
 * the others include smstart and writes to FPCR. System calls do not count, because they clear
 * parts of SVE's vectors.
 *
 * Source: Arm ARM (DDI 0487), C4.1 "A64 instruction set encoding".
 */

static const struct pattern general[] = {
	{.mask = 0xfffff01f, .bits = 0xd503201f}, /* hints */
	{.mask = 0xfffff01f, .bits = 0xd503301f}, /* barriers, clrex */
	{.mask = 0xfff00000, .bits = 0xd5300000}, /* mrs */
	{.mask = 0xffffffe0, .bits = 0xd51b4200}, /* msr nzcv */
	{.mask = 0x1c000000, .bits = 0x10000000}, /* constants */
	{.mask = 0x7c000000, .bits = 0x14000000}, /* b, bl */
	{.mask = 0xfe000000, .bits = 0x54000000}, /* b.cond, bc.cond */
	{.mask = 0x7c000000, .bits = 0x34000000}, /* cbz, cbnz, tbz, tbnz */
	{.mask = 0x0e000000, .bits = 0x0a000000}, /* registers */
	{.mask = 0x0e000000, .bits = 0x08000000}, /* memory, except vectors */
};

static bool aarch64_is_general(const uint8_t *bytes, size_t length)
{
	enum aarch64_kind kind;
	uint32_t insn;

	if (length < AARCH64_INSN_LENGTH)
		return false;
	insn = aarch64_load(bytes);
	kind = kind_of(insn);
	if (kind == AARCH64_RET || kind == AARCH64_TRAP)
		return true;
	for (size_t i = 0; kind != AARCH64_UNKNOWN && i < sizeof(general) / sizeof(*general); i++)
		if ((insn & general[i].mask) == general[i].bits)
			return true;
	return false;
}

/* ==== Patch =================================================================================== */

/*
 * Instructions that a patch reads or writes. A jump is as long as a nop, so no other instruction is
 * moved.
 */

#define NOP UINT32_C(0xd503201f)
#define BRK UINT32_C(0xd4200000) /* brk with any number: gdb uses 0, a uprobe 5 */
#define BRK_MASK UINT32_C(0xffe0001f)
#define B UINT32_C(0x14000000)

static bool aarch64_is_breakpoint(const uint8_t *bytes)
{
	return (aarch64_load(bytes) & BRK_MASK) == BRK;
}

static size_t aarch64_nop_length(const uint8_t *bytes, size_t length)
{
	return length >= AARCH64_INSN_LENGTH && aarch64_load(bytes) == NOP ? AARCH64_INSN_LENGTH
									   : 0;
}

static size_t aarch64_jump(uint64_t at, uint64_t to, uint8_t *out)
{
	uint32_t insn = B;

	if (!aarch64_set_distance(&insn, 0, 26, (int64_t)(to - at)))
		return 0;
	aarch64_store(out, insn);
	return AARCH64_INSN_LENGTH;
}

static uint64_t aarch64_jump_target(uint64_t at, const uint8_t *bytes)
{
	uint32_t insn = aarch64_load(bytes);
	enum aarch64_kind kind = kind_of(insn);

	return kind == AARCH64_B ? target_of(insn, kind, at) : 0;
}

/* Only a64_call_register() emits blr in a stub; subroutines are called by bl. */
static bool aarch64_is_function_call(const uint8_t *bytes)
{
	return kind_of(aarch64_load(bytes)) == AARCH64_BLR;
}

/* ==== Scan ==================================================================================== */

/*
 * Finds everything in a module's code that may lead into a window, the bytes that a patch
 * overwrites. Each word is read as an instruction, because it is unknown where functions end.
 *
 *	b, bl, b.cond, cbz, tbz		lead to their targets
 *	ldr x, literal			the literal may be an address, not aligned to 8
 *	adr				takes an address. Compilers use it for switches:
 *		adr  x1, label			the nearest target, or the code after br
 *		ldrb w2, [table, x0]		bytes, halves or words, signed or not
 *		add  x1, x1, w2, sxtb 2
 *		br   x1
 *	adrp, add			take an address together, so both parts are added
 *
 * The length of a table of bytes is unknown, and nearly any byte in it leads into the function. So
 * `label` reports the adr itself, and the caller treats every address in that function as a target.
 *
 * clang emits adrp and add together, so an add belongs to the last adrp of its register. These
 * pairs are for tables of 32-bit distances, which only clang makes. gcc may move the two apart,
 * past other adrp and add of the same register. The only gcc code that matters here takes the
 * address of a label (&&label), which only the function itself can name. So in a function with a
 * site, the scan combines each adrp of a page that the function covers with each add of the
 * register.
 *
 * In a position-dependent program, an address may also be a 32-bit constant, or be made by movz and
 * movk. The one with the low 16 bits counts if any has the next 16 bits of the address, because the
 * two may be apart. Many numbers below 65536 are no addresses.
 */

enum {
	/* register 31 is sp in add, which adrp cannot write */
	REGISTERS = 31,
	IMMEDIATES = 1 << 16
};

struct state {
	const struct arch_scan *scan;
	const uint8_t *bytes;
	size_t length;
	uint64_t address;
	/* The page that the last adrp has put into each register, or 0. */
	uint64_t pages[REGISTERS];
	/* A bit for each number that movz or movk puts into bits 16 to 31, and for 0. */
	uint64_t halves[IMMEDIATES / 64];
};

/* Reports an address that the instruction at `at` may take. */
static void take(const struct arch_scan *scan, uint64_t at, uint64_t address)
{
	arch_scan_target(scan, address);
	if (scan->constant)
		scan->constant(scan->data, at, address);
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

static unsigned int immediate(uint32_t insn)
{
	return insn >> 5 & (IMMEDIATES - 1);
}

/* Is it movz or movk with these bits shifted by 0 or 16? */
static bool is_half(uint32_t insn, unsigned int shift)
{
	return (insn & 0x5fe00000) == (0x52800000 | shift / 16 << 21);
}

static void find_halves(struct state *s)
{
	size_t skip = -s->address % AARCH64_INSN_LENGTH;

	s->halves[0] = 1;
	for (size_t i = skip; i + AARCH64_INSN_LENGTH <= s->length; i += AARCH64_INSN_LENGTH) {
		uint32_t insn = aarch64_load(s->bytes + i);
		unsigned int half = immediate(insn);

		if (is_half(insn, 16))
			s->halves[half / 64] |= UINT64_C(1) << half % 64;
	}
}

/* Reports windows that contain an address with these low 16 bits. */
static void check_immediate(const struct state *s, unsigned int low)
{
	const struct arch_windows *w = s->scan->windows;
	uint64_t at;

	/* From window to window: a file may spread them over all addresses. */
	for (size_t i = 0; i < w->count;
		i = array_search_above(w->sites, w->count, sizeof(*w->sites), 0, at)) {
		at = w->sites[i] + ((low - w->sites[i]) & (IMMEDIATES - 1));
		if (at < w->sites[i])
			break;
		if (s->halves[at / IMMEDIATES % IMMEDIATES / 64] >> at / IMMEDIATES % 64 & 1)
			arch_scan_target(s->scan, at);
	}
}

/*
 * Returns true if an instruction depends on its own address: a branch, adr, adrp, or a 64-bit
 * literal ldr.
 */
static bool is_relative(uint32_t insn)
{
	return (insn & 0x7c000000) == 0x14000000 || (insn & 0x7c000000) == 0x34000000 ||
	       (insn & 0xff000000) == 0x54000000 || (insn & 0x1f000000) == 0x10000000 ||
	       (insn & 0xff000000) == 0x58000000;
}

static void check_relative(struct state *s, uint32_t insn, uint64_t at)
{
	enum aarch64_kind kind = kind_of(insn);
	uint64_t target = target_of(insn, kind, at);
	uint64_t offset = target - s->address;

	switch (kind) {
	case AARCH64_ADR:
		if (s->scan->label)
			s->scan->label(s->scan->data, at);
		take(s->scan, at, target);
		break;
	case AARCH64_ADRP:
		if ((insn & 31) < REGISTERS)
			s->pages[insn & 31] = target;
		break;
	case AARCH64_LITERAL:
		if (offset < s->length && s->length - offset >= sizeof(uint64_t))
			arch_scan_target(s->scan,
				aarch64_load(s->bytes + offset) |
					(uint64_t)aarch64_load(s->bytes + offset + 4) << 32);
		break;
	default:
		arch_scan_target(s->scan, target);
		break;
	}
}

static void aarch64_scan(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan)
{
	size_t skip = -address % AARCH64_INSN_LENGTH;
	struct state s = {.scan = scan, .bytes = bytes, .length = length, .address = address};

	if (scan->position_dependent)
		find_halves(&s);
	for (size_t i = skip; i + AARCH64_INSN_LENGTH <= length; i += AARCH64_INSN_LENGTH) {
		uint32_t insn = aarch64_load(bytes + i);

		if (is_relative(insn))
			check_relative(&s, insn, address + i);
		else if (is_add(insn) && source(insn) < REGISTERS && s.pages[source(insn)])
			take(scan, address + i, s.pages[source(insn)] + low_part(insn));
		if (scan->position_dependent) {
			arch_scan_target(scan, insn);
			if (is_half(insn, 0))
				check_immediate(&s, immediate(insn));
		}
	}
}

/* For each register, a bit for each constant that any add of the function adds to it. */
struct lows {
	uint64_t bits[REGISTERS][0x1000 / 64];
};

static void aarch64_scan_function(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan)
{
	struct lows lows = {0};

	for (size_t i = 0; i + AARCH64_INSN_LENGTH <= length; i += AARCH64_INSN_LENGTH) {
		uint32_t insn = aarch64_load(bytes + i);
		unsigned int low = low_part(insn);

		if (is_add(insn) && source(insn) < REGISTERS)
			lows.bits[source(insn)][low / 64] |= UINT64_C(1) << low % 64;
	}
	for (size_t i = 0; i + AARCH64_INSN_LENGTH <= length; i += AARCH64_INSN_LENGTH) {
		uint32_t insn = aarch64_load(bytes + i);
		uint64_t page = target_of(insn, AARCH64_ADRP, address + i);

		if ((insn & 0x9f000000) != 0x90000000 || (insn & 31) >= REGISTERS)
			continue;
		if (page >= address + length || page + 0xfff < address)
			continue;
		for (unsigned int low = 0; low < 0x1000; low += AARCH64_INSN_LENGTH)
			if (lows.bits[insn & 31][low / 64] >> low % 64 & 1 &&
				page + low - address < length) {
				arch_scan_target(scan, page + low);
				if (scan->label)
					scan->label(scan->data, address + i);
			}
	}
}

/* ==== Move ==================================================================================== */

/*
 * Moves aarch64 instructions to another address, as far away as b reaches (128 MiB).
 *
 * Most instructions are copied unchanged. An instruction that depends on its address is replaced by
 * code with the same effect on registers, flags and memory:
 *
 *	adr	adr, or adrp and add, which reach 4 GiB
 *	adrp	adrp, which reaches 4 GiB
 *	ldr	the same ldr with another distance, or
 *			adrp x1, x		with the register that ldr loads
 *			add  x1, x1, :lo12:x
 *			ldr  x1, [x1]
 *		a vector register cannot hold an address, so x16 holds it. x16 is saved on the
 *		stack. The program has no data below sp, because the ABI lets signal handlers use
 *		that memory:
 *			str  x16, [sp, -16]!
 *			adrp, add, ldr with x16
 *			ldr  x16, [sp], 16
 *	prfm	the same prfm with another distance, or a nop, because prfm is only a hint
 *	b.cond, cbz, tbz ...	the same with another distance, or the opposite branch around a b
 *	bl, blr	x30 = the original return address, because unwinders, exceptions and conservative
 *		stack scanners look up that address; then a jump. The callee returns to the original
 *		code, so only the last moved instruction can be a call. With a guarded control stack
 *		(GCS) this return would fault, so a target that uses GCS must not be patched.
 *
 * A moved blr becomes a br. If its target is a `bti c`, blr is allowed to jump there, but br is
 * not, unless the br is in memory without PROT_BTI. Arenas are such memory.
 */

#define ADR UINT32_C(0x10000000)      /* adr x0, . */
#define ADRP UINT32_C(0x90000000)     /* adrp x0, . */
#define ADD UINT32_C(0x91000000)      /* add x0, x0, #0 */
#define PUSH_X16 UINT32_C(0xf81f0ff0) /* str x16, [sp, -16]! */
#define POP_X16 UINT32_C(0xf84107f0)  /* ldr x16, [sp], 16 */
#define CALL_BIT UINT32_C(0x00200000) /* with this bit cleared, blr is br */
/* Conditions 14 and 15 both mean "always", so they have no opposite. */
#define CONDITION_NEVER 14
#define LITERAL_IS_VECTOR UINT32_C(0x04000000)

enum { COPY_MAX = 5, NO_REGISTER = 31, X16 = 16, X30 = 30 };
_Static_assert(COPY_MAX *AARCH64_INSN_LENGTH *ARCH_MOVED_INSNS_MAX <= ARCH_MOVED_BYTES_MAX,
	"the longest copies fit");

struct move {
	uint32_t insn;
	enum aarch64_kind kind;
	uint64_t from, to; /* addresses of the original and of its copy */
	uint64_t target;   /* the address that the instruction jumps to or reads */
	uint32_t code[COPY_MAX];
	size_t count;
};

static uint64_t here(const struct move *move)
{
	return move->to + move->count * AARCH64_INSN_LENGTH;
}

static void emit(struct move *move, uint32_t insn)
{
	move->code[move->count++] = insn;
}

/* Emits the instruction with a new distance; false if the target is too far. */
static bool emit_distance(struct move *move, uint32_t insn, unsigned int low, unsigned int bits)
{
	if (!aarch64_set_distance(&insn, low, bits, (int64_t)(move->target - here(move))))
		return false;
	emit(move, insn);
	return true;
}

static enum arch_move_status emit_jump(struct move *move)
{
	return emit_distance(move, B, 0, 26) ? ARCH_MOVE_OK : ARCH_MOVE_OUT_OF_REACH;
}

static enum arch_move_status emit_page(struct move *move, uint32_t reg, uint64_t target)
{
	uint32_t insn = ADRP | reg;
	int64_t pages = (int64_t)((target & ~UINT64_C(0xfff)) - (here(move) & ~UINT64_C(0xfff)));

	if (!aarch64_set_page_field(&insn, pages / 0x1000))
		return ARCH_MOVE_OUT_OF_REACH;
	emit(move, insn);
	return ARCH_MOVE_OK;
}

static enum arch_move_status emit_address(struct move *move, uint32_t reg, uint64_t target)
{
	uint32_t insn = ADR | reg;
	enum arch_move_status status;

	if (aarch64_set_page_field(&insn, (int64_t)(target - here(move)))) {
		emit(move, insn);
		return ARCH_MOVE_OK;
	}
	status = emit_page(move, reg, target);
	emit(move, ADD | (uint32_t)(target & 0xfff) << 10 | reg << 5 | reg);
	return status;
}

static enum arch_move_status move_address(struct move *move)
{
	uint32_t reg = move->insn & 31;

	/* register 31 is the zero register in adr, but sp in add */
	if (reg == NO_REGISTER) {
		emit(move, NOP);
		return ARCH_MOVE_OK;
	}
	return move->kind == AARCH64_ADRP ? emit_page(move, reg, move->target)
					  : emit_address(move, reg, move->target);
}

/* Returns the ldr or ldrsw from [x0] that does what a literal load does (fields opc and V). */
static uint32_t load_of(uint32_t insn)
{
	static const uint32_t general[] = {0xb9400000, 0xf9400000, 0xb9800000}; /* w, x, sw */
	static const uint32_t vector[] = {0xbd400000, 0xfd400000, 0x3dc00000};	/* s, d, q */

	return (insn & LITERAL_IS_VECTOR ? vector : general)[insn >> 30] | (insn & 31);
}

static enum arch_move_status move_literal(struct move *move)
{
	bool is_vector = move->insn & LITERAL_IS_VECTOR,
	     is_hint = !is_vector && move->insn >> 30 == 3;
	uint32_t base = is_vector ? X16 : move->insn & 31;
	enum arch_move_status status;

	if (emit_distance(move, move->insn, 5, 19))
		return ARCH_MOVE_OK;
	if (is_hint) {
		emit(move, NOP);
		return ARCH_MOVE_OK;
	}
	if (base == NO_REGISTER)
		/* A load into the zero register cannot be moved. */
		return ARCH_MOVE_UNSUPPORTED;
	if (is_vector)
		emit(move, PUSH_X16);
	status = emit_address(move, base, move->target);
	emit(move, load_of(move->insn) | base << 5);
	if (is_vector)
		emit(move, POP_X16);
	return status;
}

static enum arch_move_status move_branch(struct move *move)
{
	bool is_test = move->kind == AARCH64_TB, has_condition = move->kind == AARCH64_B_COND;
	unsigned int bits = is_test ? 14 : 19;
	uint32_t opposite;

	if (emit_distance(move, move->insn, 5, bits))
		return ARCH_MOVE_OK;
	if (has_condition && (move->insn & 15) >= CONDITION_NEVER)
		return emit_jump(move);
	/* Flip the condition's lowest bit, or bit 24 of cbz and tbz. */
	opposite = move->insn ^ (has_condition ? 1 : 1 << 24);
	aarch64_set_distance(&opposite, 5, bits, 2 * AARCH64_INSN_LENGTH);
	emit(move, opposite);
	return emit_jump(move);
}

static enum arch_move_status move_call(struct move *move)
{
	uint64_t back = move->from + AARCH64_INSN_LENGTH;
	bool is_direct = move->kind == AARCH64_BL;
	/* The lowest five bits are blraa's modifier; in other instructions they are 0 or 31. */
	bool uses_x30 = (move->insn >> 5 & 31) == X30 ||
			((move->insn >> 24 & 1) && (move->insn & 31) == X30);
	enum arch_move_status status;

	if (!is_direct && uses_x30)
		return ARCH_MOVE_UNSUPPORTED;
	status = emit_address(move, X30, back);
	if (status != ARCH_MOVE_OK)
		return status;
	if (is_direct)
		return emit_jump(move);
	emit(move, move->insn & ~CALL_BIT);
	return ARCH_MOVE_OK;
}

static enum arch_move_status move_one(struct move *move)
{
	switch (move->kind) {
	case AARCH64_ADR:
	case AARCH64_ADRP:
		return move_address(move);
	case AARCH64_LITERAL:
		return move_literal(move);
	case AARCH64_B:
		return emit_jump(move);
	case AARCH64_B_COND:
	case AARCH64_CB:
	case AARCH64_TB:
		return move_branch(move);
	case AARCH64_BL:
	case AARCH64_BLR:
		return move_call(move);
	case AARCH64_PLAIN:
	case AARCH64_BR:
	case AARCH64_RET:
		emit(move, move->insn);
		return ARCH_MOVE_OK;
	case AARCH64_FIXED:
	case AARCH64_TRAP:
		return ARCH_MOVE_UNSUPPORTED;
	case AARCH64_UNKNOWN:
		break;
	}
	return ARCH_MOVE_UNDECODABLE;
}

/* Moves the instruction at offset ret->length. */
static enum arch_move_status move_next(const uint8_t *bytes, size_t length, size_t need,
	uint64_t from, uint64_t to, struct arch_moved *ret)
{
	struct move move = {.from = from + ret->length, .to = to + ret->code_length};
	enum arch_move_status status;
	struct arch_insn insn;

	if (length - ret->length < AARCH64_INSN_LENGTH)
		return ARCH_MOVE_TRUNCATED;
	if (!aarch64_decode(bytes + ret->length, length - ret->length, move.from, &insn))
		return ARCH_MOVE_UNDECODABLE;
	if (ret->count == ARCH_MOVED_INSNS_MAX)
		return ARCH_MOVE_UNSUPPORTED;
	status = arch_move_inside(insn.flow);
	ret->falls_through = status == ARCH_MOVE_OK;
	if (status != ARCH_MOVE_OK && (size_t)ret->length + AARCH64_INSN_LENGTH < need)
		return status;
	move.insn = aarch64_load(bytes + ret->length);
	move.kind = kind_of(move.insn);
	move.target = target_of(move.insn, move.kind, move.from);
	status = move_one(&move);
	if (status != ARCH_MOVE_OK)
		return status;
	/* A moved instruction may lead to the start of the moved bytes, but not into them. */
	if (move.target - from > 0 && move.target - from < need && move.kind != AARCH64_ADRP)
		return ARCH_MOVE_UNSUPPORTED;
	ret->from_offset[ret->count] = ret->length;
	ret->to_offset[ret->count++] = (uint8_t)ret->code_length;
	for (size_t i = 0; i < move.count; i++, ret->code_length += AARCH64_INSN_LENGTH)
		aarch64_store(ret->code + ret->code_length, move.code[i]);
	ret->length += AARCH64_INSN_LENGTH;
	return ARCH_MOVE_OK;
}

static enum arch_move_status aarch64_move(const uint8_t *bytes, size_t length, uint64_t from,
	uint64_t to, size_t need, struct arch_moved *ret)
{
	enum arch_move_status status = ARCH_MOVE_OK;

	*ret = (struct arch_moved){.falls_through = true};
	while (ret->length < need && status == ARCH_MOVE_OK)
		status = move_next(bytes, length, need, from, to, ret);
	return status;
}

/* ==== The table =============================================================================== */

/*
 * The registers from which unwinding starts, with DWARF numbers ("DWARF for the Arm 64-bit
 * Architecture", 4.1).
 */
static const struct arch_unwind_register unwind_registers[] = {
	{A64_SP, 31},
	{29, 29},
	{30, 30},
	{19, 19},
	{20, 20},
	{21, 21},
	{22, 22},
	{23, 23},
	{24, 24},
	{25, 25},
	{26, 26},
	{27, 27},
	{28, 28},
};

const struct arch arch_aarch64 = {
	.name = "aarch64",
	.unwind_registers = unwind_registers,
	.unwind_count = sizeof(unwind_registers) / sizeof(unwind_registers[0]),
	.unwind_return = 2,
	.elf_machine = EM_AARCH64,
	.process = &aarch64_process,
	.parse_args = aarch64_parse_args,
	.functions = &aarch64_functions,
	.jump_length = AARCH64_INSN_LENGTH,
	.jump_reach = UINT64_C(1) << 27,
	.site_nop = AARCH64_INSN_LENGTH,
	.breakpoint = {0x00, 0x00, 0x20, 0xd4}, /* brk #0 */
	.breakpoint_length = AARCH64_INSN_LENGTH,
	.guard_off = {0x1f, 0x20, 0x03, 0xd5}, /* nop */
	.is_breakpoint = aarch64_is_breakpoint,
	.decode = aarch64_decode,
	.is_general = aarch64_is_general,
	.insn_align = AARCH64_INSN_LENGTH,
	.scan = aarch64_scan,
	.scan_function = aarch64_scan_function,
	.nop_length = aarch64_nop_length,
	.move = aarch64_move,
	.jump = aarch64_jump,
	.jump_target = aarch64_jump_target,
	.is_function_call = aarch64_is_function_call,
	.stubs = &aarch64_stubs,
};
