/* SPDX-License-Identifier: MIT */
/*
 * The disassembler library: capstone. No other file includes its headers.
 *
 * Linking it would cost every command 1.5 ms of the dynamic linker's time (its
 * tables need 77,000 relocations), and most commands never decode anything:
 * a site that is a long nop is recognised by its bytes. So it is loaded by
 * dlopen(3) at the first use. Structures differ between major versions; the
 * name that is loaded is of the version whose headers were compiled in.
 *
 * A handle is not safe to share between threads, and opening one costs some
 * microseconds and a table that fills as instructions are met. So each thread
 * keeps one, in thread-specific data whose destructor frees it when the thread
 * ends. The main thread's lives as long as the process, or until the library
 * that holds this code is unloaded (disasm_unload()).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include <capstone/capstone.h>

#include "arch/x86/disasm.h"

#define STRING_OF(x) #x
#define EXPANDED_STRING_OF(x) STRING_OF(x)
#define CAPSTONE_SONAME "libcapstone.so." EXPANDED_STRING_OF(CS_API_MAJOR)

/* Written once, by library_load() under `once`. */
static struct library {
	pthread_once_t once;
	void *handle;	   /* of dlopen(3); NULL when the library cannot be used */
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
	struct disasm *disasm = calloc(1, sizeof(*disasm));

	if (!disasm)
		return NULL;
	if (library.open(CS_ARCH_X86, CS_MODE_64, &disasm->handle) != CS_ERR_OK) {
		free(disasm);
		return NULL;
	}
	/* cs_malloc() allocates the details only while they are switched on. */
	library.option(disasm->handle, CS_OPT_DETAIL, CS_OPT_ON);
	disasm->insn = library.malloc(disasm->handle);
	if (!disasm->insn) {
		disasm_free(disasm);
		return NULL;
	}
	return disasm;
}

static bool decode(struct disasm *disasm, bool detail, const uint8_t *bytes, size_t length)
{
	uint64_t address = 0;

	library.option(disasm->handle, CS_OPT_DETAIL, detail ? CS_OPT_ON : CS_OPT_OFF);
	return library.iter(disasm->handle, &bytes, &length, &address, disasm->insn);
}

/*
 * capstone 4 sorts a table of registers at the first instruction, without a
 * lock (X86_insn_reg_intel()). One instruction decoded here, while nobody else
 * can, keeps threads from sorting it under each other.
 */
static bool library_settle(void)
{
	static const uint8_t nop[] = {0x90};
	struct disasm *disasm = disasm_create();
	bool works;

	if (!disasm)
		return false;
	works = decode(disasm, true, nop, sizeof(nop));
	disasm_free(disasm);
	return works;
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
	       !support(CS_SUPPORT_DIET) && library_settle();
}

static void library_load(void)
{
	void *handle = dlopen(CAPSTONE_SONAME, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return;
	if (!library_bind(handle) || pthread_key_create(&library.key, disasm_free)) {
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
