/* SPDX-License-Identifier: MIT */
/*
 * Decodes x86-64 code: where an instruction ends, and where execution continues.
 *
 * The disassembler library gives the length. The control flow is read from the opcode after the
 * prefixes (Intel SDM vol. 2, appendix A; AMD APM vol. 3), because the library's details take too
 * long. For a direct branch both must agree: the displacement ends where the instruction ends.
 *
 * They disagree where CPUs do. With a 66 prefix, `e8`, `e9`, `0f 8x` and xbegin have a displacement
 * of two bytes on AMD and of four on Intel. No compiler emits that, and it is refused. 66 with
 * REX.W is harmless, and is in every thread-local access of a shared library (`66 66 48 e8`).
 *
 * VEX (c4, c5), EVEX (62) and XOP (8f) have no branches.
 */
#include <capstone/capstone.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/x86/decode/insn.h"

/* ==== Capstone ================================================================================ */

/*
 * The disassembler library is capstone; no other file includes its headers.
 *
 * Linking it would cost every command 1.5 ms in the dynamic linker (77,000 relocations of its
 * tables), and most commands decode nothing: a long nop is recognised by its bytes. So dlopen(3)
 * loads it at its first use. Its structures differ between major versions, so the file name has the
 * version of our headers.
 *
 * Threads must not share a handle. Opening one takes microseconds, and decoding fills a table in
 * it, so each thread keeps one in thread-specific data, until it ends. The main thread keeps its
 * handle until the library with this code is unloaded (disasm_unload()).
 *
 * capstone does not check malloc(): without memory, cs_open() and a handle's first instruction
 * crash. So CS_OPT_MEM makes it use our functions, which have a reserve, and a handle is opened
 * only if it fits into the reserve. These functions serve all users of capstone in this process,
 * until this code is unloaded.
 */

#define STRING_OF(x) #x
#define EXPANDED_STRING_OF(x) STRING_OF(x)
#define CAPSTONE_SONAME "libcapstone.so." EXPANDED_STRING_OF(CS_API_MAJOR)

/* Written once, by library_load() under `once`. */
static struct library {
	pthread_once_t once;
	void *handle;	   /* from dlopen(3); NULL if the library cannot be used */
	pthread_key_t key; /* key of each thread's struct disasm */
	__typeof__(cs_open) *open;
	__typeof__(cs_close) *close;
	__typeof__(cs_option) *option;
	__typeof__(cs_malloc) *malloc;
	__typeof__(cs_free) *free;
	__typeof__(cs_disasm_iter) *iter;
} library = {.once = PTHREAD_ONCE_INIT};

/* One thread's handle. */
struct disasm {
	csh handle;
	cs_insn *insn; /* has room for details */
};

/* ---- Memory for capstone ------------------------------------------------------ */

enum {
	HANDLE_BYTES = 64 << 10, /* a handle of capstone 4.0.2 takes 37 KiB */
	RESERVE_BYTES = 3 * HANDLE_BYTES,
	RESERVE_ALIGN = 16
};

/*
 * The reserve is used once and never refilled, because a process that needs it twice has no memory
 * at all.
 */
static struct {
	_Alignas(RESERVE_ALIGN) char bytes[RESERVE_BYTES];
	atomic_size_t taken;
} reserve;

static bool is_reserve(const void *pointer)
{
	return (uintptr_t)pointer - (uintptr_t)reserve.bytes < RESERVE_BYTES;
}

static void *memory_malloc(size_t size)
{
	void *memory = malloc(size);
	size_t at;

	if (memory || size > RESERVE_BYTES)
		return memory;
	size = (size + RESERVE_ALIGN - 1) / RESERVE_ALIGN * RESERVE_ALIGN;
	at = atomic_fetch_add(&reserve.taken, size);
	return at <= RESERVE_BYTES - size ? reserve.bytes + at : NULL;
}

static void *memory_calloc(size_t count, size_t size)
{
	size_t bytes;
	void *memory = NULL;

	if (!__builtin_mul_overflow(count, size, &bytes))
		memory = memory_malloc(bytes);
	return memory ? memset(memory, 0, bytes) : NULL;
}

static void *memory_realloc(void *old, size_t size)
{
	size_t there = is_reserve(old) ? (size_t)(reserve.bytes + RESERVE_BYTES - (char *)old) : 0;
	void *memory;

	if (!there)
		return realloc(old, size);
	memory = memory_malloc(size);
	return memory ? memmove(memory, old, size < there ? size : there) : NULL;
}

static void memory_free(void *pointer)
{
	if (!is_reserve(pointer))
		free(pointer);
}

/* Returns true if the reserve has room for a handle. */
static bool has_reserve(void)
{
	return atomic_load(&reserve.taken) <= RESERVE_BYTES - HANDLE_BYTES;
}

static const cs_opt_mem memory_ours = {.malloc = memory_malloc,
	.calloc = memory_calloc,
	.realloc = memory_realloc,
	.free = memory_free,
	.vsnprintf = vsnprintf};
static const cs_opt_mem memory_libc = {.malloc = malloc,
	.calloc = calloc,
	.realloc = realloc,
	.free = free,
	.vsnprintf = vsnprintf};

static void take_memory_from(const cs_opt_mem *functions)
{
	library.option(0, CS_OPT_MEM, (size_t)functions);
}

/* ---- Handles ------------------------------------------------------------------ */

static bool decode(struct disasm *disasm, bool detail, const uint8_t *bytes, size_t length)
{
	uint64_t address = 0;

	library.option(disasm->handle, CS_OPT_DETAIL, detail ? CS_OPT_ON : CS_OPT_OFF);
	return library.iter(disasm->handle, &bytes, &length, &address, disasm->insn);
}

static void disasm_free(void *data)
{
	struct disasm *disasm = data;

	if (!disasm)
		return;
	if (disasm->insn)
		library.free(disasm->insn, 1);
	library.close(&disasm->handle);
	free(disasm);
}

static struct disasm *disasm_create(void)
{
	static const uint8_t nop[] = {0x90};
	struct disasm *disasm = has_reserve() ? calloc(1, sizeof(*disasm)) : NULL;

	if (!disasm)
		return NULL;
	if (library.open(CS_ARCH_X86, CS_MODE_64, &disasm->handle) != CS_ERR_OK) {
		free(disasm);
		return NULL;
	}
	/* cs_malloc() allocates the details only while they are enabled. */
	library.option(disasm->handle, CS_OPT_DETAIL, CS_OPT_ON);
	disasm->insn = library.malloc(disasm->handle);
	/* Decoding the first instruction also allocates. */
	if (!disasm->insn || !decode(disasm, true, nop, sizeof(nop))) {
		disasm_free(disasm);
		return NULL;
	}
	return disasm;
}

/*
 * capstone 4 sorts a table of registers at the first instruction, without a lock
 * (X86_insn_reg_intel()): so decode an instruction before another thread can. The handle stays with
 * this thread.
 */
static bool library_settle(void)
{
	struct disasm *disasm = disasm_create();

	if (!disasm)
		return false;
	if (pthread_key_create(&library.key, disasm_free)) {
		disasm_free(disasm);
		return false;
	}
	if (pthread_setspecific(library.key, disasm))
		disasm_free(disasm);
	return true;
}

static bool library_bind(void *handle)
{
	__typeof__(cs_version) *version = dlsym(handle, "cs_version");
	__typeof__(cs_support) *support = dlsym(handle, "cs_support");

	library.open = dlsym(handle, "cs_open");
	library.close = dlsym(handle, "cs_close");
	library.option = dlsym(handle, "cs_option");
	library.malloc = dlsym(handle, "cs_malloc");
	library.free = dlsym(handle, "cs_free");
	library.iter = dlsym(handle, "cs_disasm_iter");
	if (!version || !support || !library.open || !library.close || !library.option ||
		!library.malloc || !library.free || !library.iter)
		return false;
	/* A "diet" build has no details. */
	return version(NULL, NULL) >> 8 == CS_API_MAJOR && support(CS_ARCH_X86) &&
	       !support(CS_SUPPORT_DIET);
}

static void library_load(void)
{
	void *handle = dlopen(CAPSTONE_SONAME, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return;
	if (!library_bind(handle)) {
		dlclose(handle);
		return;
	}
	take_memory_from(&memory_ours);
	if (!library_settle()) {
		take_memory_from(&memory_libc);
		dlclose(handle);
		return;
	}
	library.handle = handle;
}

__attribute__((destructor)) static void disasm_unload(void)
{
	if (!library.handle)
		return;
	disasm_free(pthread_getspecific(library.key));
	pthread_key_delete(library.key);
	take_memory_from(&memory_libc);
	dlclose(library.handle);
	library.handle = NULL;
}

/*
 * Returns true if instructions can be decoded, false if the library is missing, was built without
 * x86 or details, or is of another version. The functions below then return 0 or false, as for
 * bytes that are not an instruction.
 */
bool x86_64_can_decode(void)
{
	pthread_once(&library.once, library_load);
	return library.handle;
}

/* Returns the thread's handle, or NULL. */
static struct disasm *disasm_get(void)
{
	struct disasm *disasm;

	if (!x86_64_can_decode())
		return NULL;
	disasm = pthread_getspecific(library.key);
	if (disasm)
		return disasm;
	disasm = disasm_create();
	if (disasm && pthread_setspecific(library.key, disasm)) {
		disasm_free(disasm);
		return NULL;
	}
	return disasm;
}

size_t disasm_length(const uint8_t *bytes, size_t length)
{
	struct disasm *disasm = disasm_get();

	return disasm && decode(disasm, false, bytes, length) ? disasm->insn->size : 0;
}

bool disasm_insn(const uint8_t *bytes, size_t length, struct disasm_insn *ret)
{
	struct disasm *disasm = disasm_get();
	const cs_x86 *x86;

	if (!disasm || !decode(disasm, true, bytes, length))
		return false;
	x86 = &disasm->insn->detail->x86;
	*ret = (struct disasm_insn){
		.length = disasm->insn->size,
		.modrm_offset = x86->encoding.modrm_offset,
		.disp_offset = x86->encoding.disp_offset,
		.disp_size = x86->encoding.disp_size,
	};
	for (uint8_t i = 0; i < x86->op_count; i++) {
		const cs_x86_op *op = &x86->operands[i];

		if (op->type != X86_OP_MEM)
			continue;
		if (op->mem.base == X86_REG_RIP || op->mem.base == X86_REG_EIP) {
			ret->reads_pc = op->mem.base == X86_REG_RIP;
			ret->reads_pc32 = op->mem.base == X86_REG_EIP;
			ret->disp = op->mem.disp;
		}
	}
	return true;
}

/* Returns the bit of a register of capstone, of any width, in disasm_writes(). */
static uint32_t bit_of(unsigned int reg)
{
	static const uint16_t integers[DISASM_INTEGERS][5] = {
		{X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL},
		{X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL},
		{X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH},
		{X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH},
		{X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B},
		{X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B},
	};
	static const unsigned int floats[] = {X86_REG_XMM0, X86_REG_YMM0, X86_REG_ZMM0};

	for (unsigned int i = 0; i < DISASM_INTEGERS; i++)
		for (unsigned int k = 0; k < 5; k++)
			if (reg && integers[i][k] == reg)
				return 1u << i;
	for (unsigned int i = 0; i < sizeof(floats) / sizeof(*floats); i++)
		if (reg >= floats[i] && reg < floats[i] + DISASM_FLOATS)
			return 1u << (8 + reg - floats[i]);
	return reg == X86_REG_RSP || reg == X86_REG_ESP || reg == X86_REG_SP ? DISASM_WRITES_SP : 0;
}

uint32_t disasm_writes(const uint8_t *bytes, size_t length)
{
	struct disasm *disasm = disasm_get();
	const cs_detail *detail;
	uint32_t ret = 0;

	if (!disasm || !decode(disasm, true, bytes, length))
		return DISASM_ALL;
	detail = disasm->insn->detail;
	for (uint8_t i = 0; i < detail->x86.op_count; i++)
		if (detail->x86.operands[i].type == X86_OP_REG &&
			detail->x86.operands[i].access != CS_AC_READ)
			ret |= bit_of(detail->x86.operands[i].reg);
	for (uint8_t i = 0; i < detail->regs_write_count; i++)
		ret |= bit_of(detail->regs_write[i]);
	return ret;
}

/* ==== Insn ==================================================================================== */

struct x86_64_prefixes x86_64_prefixes(const uint8_t *bytes, size_t length)
{
	struct x86_64_prefixes ret = {0};

	for (; ret.length < length && ret.length < ARCH_INSN_MAX; ret.length++) {
		uint8_t byte = bytes[ret.length];

		switch (byte) {
		case 0x66:
			ret.operand_size = true;
			break;
		case 0x67:
			ret.address_size = true;
			break;
		case 0xf0:
			ret.lock = true;
			break;
		case 0xf2:
		case 0xf3:
			ret.repeat = byte;
			break;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
			ret.segment = byte;
			break;
		default:
			if ((byte & 0xf0) != 0x40)
				return ret;
			ret.rex = byte;
			continue;
		}
		/* A REX prefix before another prefix is ignored. */
		ret.rex = 0;
	}
	return ret;
}

struct transfer {
	enum arch_flow flow;
	uint8_t opcode_size;
	uint8_t displacement_size; /* bytes; 0 unless the transfer is direct */
};

static struct transfer transfer_0f(uint8_t second)
{
	if (second >= 0x80 && second <= 0x8f)
		return (struct transfer){ARCH_FLOW_BRANCH, 2, 4};
	switch (second) {
	case 0x07: /* sysret */
	case 0x35: /* sysexit */
		return (struct transfer){.flow = ARCH_FLOW_RETURN};
	case 0x0b: /* ud2 */
	case 0xb9: /* ud1 */
	case 0xff: /* ud0 */
		return (struct transfer){.flow = ARCH_FLOW_STOP};
	default:
		return (struct transfer){.flow = ARCH_FLOW_NONE};
	}
}

/* Returns an opcode's transfer of control. `next` is the byte after it, or 0. */
static struct transfer transfer_of(uint8_t opcode, uint8_t next)
{
	if (opcode >= 0x70 && opcode <= 0x7f)
		return (struct transfer){ARCH_FLOW_BRANCH, 1, 1};
	switch (opcode) {
	case 0xe0:
	case 0xe1:
	case 0xe2:
	case 0xe3: /* loopne, loope, loop, jrcxz */
		return (struct transfer){ARCH_FLOW_BRANCH, 1, 1};
	case 0xe8:
		return (struct transfer){ARCH_FLOW_CALL, 1, 4};
	case 0xe9:
		return (struct transfer){ARCH_FLOW_JUMP, 1, 4};
	case 0xeb:
		return (struct transfer){ARCH_FLOW_JUMP, 1, 1};
	case 0xc2:
	case 0xc3:
	case 0xca:
	case 0xcb:
	case 0xcf:
		return (struct transfer){.flow = ARCH_FLOW_RETURN};
	case 0xcc: /* int3: padding, or a debugger's breakpoint */
	case 0xf4: /* hlt */
		return (struct transfer){.flow = ARCH_FLOW_STOP};
	case 0xc7: /* xbegin goes to its target when the transaction fails */
		if (next == 0xf8)
			return (struct transfer){ARCH_FLOW_BRANCH, 2, 4};
		break;
	case 0xff:
		if ((next >> 3 & 7) == 2 || (next >> 3 & 7) == 3)
			return (struct transfer){.flow = ARCH_FLOW_INDIRECT_CALL};
		if ((next >> 3 & 7) == 4 || (next >> 3 & 7) == 5)
			return (struct transfer){.flow = ARCH_FLOW_INDIRECT_JUMP};
		break;
	case 0x0f:
		return transfer_0f(next);
	}
	return (struct transfer){.flow = ARCH_FLOW_NONE};
}

/*
 * Computes a direct transfer's target. Returns false if prefixes, opcode and displacement are not
 * `length` bytes, or if a prefix changes the instruction.
 */
static bool transfer_target(const struct transfer *transfer, const struct x86_64_prefixes *prefixes,
	const uint8_t *bytes, size_t length, uint64_t address, uint64_t *ret)
{
	const uint8_t *at = bytes + length - transfer->displacement_size;
	int32_t displacement = (int8_t)at[0];

	if (prefixes->lock || (prefixes->operand_size && !(prefixes->rex & X86_64_REX_W)))
		return false;
	if (length !=
		(size_t)prefixes->length + transfer->opcode_size + transfer->displacement_size)
		return false;
	if (transfer->displacement_size == 4)
		memcpy(&displacement, at, sizeof(displacement));
	*ret = address + length + (uint64_t)(int64_t)displacement;
	return true;
}

bool x86_64_decode(const uint8_t *bytes, size_t length, uint64_t address, struct arch_insn *ret)
{
	struct x86_64_prefixes prefixes;
	struct transfer transfer;
	uint64_t target = 0;
	size_t size;

	if (length > ARCH_INSN_MAX)
		length = ARCH_INSN_MAX;
	size = disasm_length(bytes, length);
	if (!size)
		return false;
	prefixes = x86_64_prefixes(bytes, size);
	if (prefixes.length >= size)
		return false;
	transfer = transfer_of(bytes[prefixes.length],
		prefixes.length + 1u < size ? bytes[prefixes.length + 1] : 0);
	if (transfer.displacement_size &&
		!transfer_target(&transfer, &prefixes, bytes, size, address, &target))
		return false;
	*ret = (struct arch_insn){.length = size, .flow = transfer.flow, .target = target};
	return true;
}

/*
 * Returns the length of a ModRM byte, SIB byte and displacement (64-bit addressing); 0 if cut off.
 */
static size_t operand_length(const uint8_t *bytes, size_t length)
{
	static const uint8_t displacement[] = {0, 1, 4, 0};
	size_t size;
	uint8_t mod, rm;

	if (length < 1)
		return 0;
	mod = bytes[0] >> 6;
	rm = bytes[0] & 7;
	size = 1 + displacement[mod];
	if (mod != 3 && rm == 4) {
		if (length < 2)
			return 0;
		size += 1;
		if (mod == 0 && (bytes[1] & 7) == 5)
			size += 4;
	} else if (mod == 0 && rm == 5) {
		size += 4;
	}
	return size <= length ? size : 0;
}

/*
 * Nops of assemblers: 66* 90 and (66 | 2e)* 0f 1f /0 (Intel SDM vol. 2, "NOP"; gas pads with more
 * 66). Not `f3 90` (pause), `41 90` (an exchange) and `f3 0f 1e fa` (endbr64).
 */
size_t x86_64_nop_length(const uint8_t *bytes, size_t length)
{
	bool segment = false;
	size_t at = 0, operand, size = 0;

	if (length > ARCH_INSN_MAX)
		length = ARCH_INSN_MAX;
	for (; at < length && (bytes[at] == 0x66 || bytes[at] == 0x2e); at++)
		segment |= bytes[at] == 0x2e;
	if (at < length && bytes[at] == 0x90 && !segment) {
		size = at + 1;
	} else if (length - at > 2 && bytes[at] == 0x0f && bytes[at + 1] == 0x1f &&
		   (bytes[at + 2] & 0x38) == 0) {
		operand = operand_length(bytes + at + 2, length - at - 2);
		size = operand ? at + 2 + operand : 0;
	}
	return size;
}
