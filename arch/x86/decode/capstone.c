/* SPDX-License-Identifier: MIT */
/*
 * The disassembler library: capstone. No other file includes its headers.
 *
 * Linking it would cost every command 1.5 ms in the dynamic linker (its tables need 77,000
 * relocations), and most commands never decode anything: a site that is a long nop is
 * recognised by its bytes. So dlopen(3) loads it at the first use. Structures differ between
 * major versions; the name that is loaded belongs to the version whose headers were compiled
 * in.
 *
 * A handle is not safe to share between threads, and opening one costs microseconds and a table
 * that fills up while decoding. So each thread keeps one in thread-specific data, whose
 * destructor frees it when the thread ends. The main thread's lives as long as the process, or
 * until the library that holds this code is unloaded (disasm_unload()).
 *
 * capstone does not check what malloc() returns: without memory, cs_open() and the first
 * instruction of a handle crash. So CS_OPT_MEM makes it use functions of ours, which fall back
 * on a reserve, and no handle is opened unless one fits into the reserve. These functions serve
 * every user of capstone in this process; unloading restores malloc()'s.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <capstone/capstone.h>

#include "arch/x86/decode/disasm.h"

#define STRING_OF(x) #x
#define EXPANDED_STRING_OF(x) STRING_OF(x)
#define CAPSTONE_SONAME "libcapstone.so." EXPANDED_STRING_OF(CS_API_MAJOR)

/* Written once, by library_load() under `once`. */
static struct library {
	pthread_once_t once;
	void *handle;	   /* from dlopen(3); NULL if the library cannot be used */
	pthread_key_t key; /* a thread's struct disasm */
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
	cs_insn *insn; /* with room for details */
};

/* ---- Memory for capstone ------------------------------------------------------ */

enum {
	HANDLE_BYTES = 64 << 10, /* a handle of capstone 4.0.2 takes 37 KiB */
	RESERVE_BYTES = 3 * HANDLE_BYTES,
	RESERVE_ALIGN = 16
};

/* Used once and never taken back: a process that needs it twice has no memory at all. */
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

/* Whether the reserve has room for a handle. */
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
	/* The first instruction allocates memory, too. */
	if (!disasm->insn || !decode(disasm, true, nop, sizeof(nop))) {
		disasm_free(disasm);
		return NULL;
	}
	return disasm;
}

/*
 * capstone 4 sorts a table of registers at the first instruction, without a lock
 * (X86_insn_reg_intel()). Decoding one instruction here, before any other thread can, prevents
 * concurrent sorting. The handle remains that of this thread.
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

bool disasm_available(void)
{
	pthread_once(&library.once, library_load);
	return library.handle;
}

/* The calling thread's handle, or NULL. */
static struct disasm *disasm_get(void)
{
	struct disasm *disasm;

	if (!disasm_available())
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
