/* SPDX-License-Identifier: MIT */
/*
 * dlopen(3) for the static probectl (`make static`), where the libraries below are linked in, and
 * glibc's dlopen() would load the system's C library, which may be another version. These replace
 * dlopen(3) and dlsym(3), for us and for libdw (which asks for libdebuginfod): they find the
 * functions that probectl looks up, and open no file.
 */
#include <dlfcn.h>
#include <grp.h>
#include <stddef.h>
#include <string.h>

/* clang-format off */
#define CAPSTONE(X) \
	X(cs_close) X(cs_disasm_iter) X(cs_free) X(cs_malloc) X(cs_open) X(cs_option) X(cs_support) \
	X(cs_version)

#define LIBDW(X) \
	X(dwarf_attr) X(dwarf_attr_integrate) X(dwarf_begin) X(dwarf_cfi_addrframe) \
	X(dwarf_cfi_end) X(dwarf_child) X(dwarf_cu_info) \
	X(dwarf_formref_die) X(dwarf_formsdata) X(dwarf_formstring) X(dwarf_formudata) \
	X(dwarf_frame_cfa) X(dwarf_frame_info) X(dwarf_frame_register) X(dwarf_getcfi_elf) \
	X(dwarf_getsrclines) X(dwarf_lineaddr) X(dwarf_lineendsequence) X(dwarf_lineno) \
	X(dwarf_lineprologueend) X(dwarf_linesrc) X(dwarf_nextcu) X(dwarf_offdie) \
	X(dwarf_onesrcline) X(dwarf_ranges) X(dwarf_siblingof) X(dwarf_tag) X(dwarf_whatform) \
	X(dwfl_begin) \
	X(dwfl_build_id_find_debuginfo) X(dwfl_end) X(dwfl_lineinfo) X(dwfl_module_getelf) \
	X(dwfl_module_getsrc) X(dwfl_offline_section_address) X(dwfl_report_end) \
	X(dwfl_report_offline)

#define LIBLZMA(X) X(lzma_stream_buffer_decode)
/* clang-format on */

/* Only addresses are needed, so types do not matter. */
#define DECLARE(name) void name(void);
CAPSTONE(DECLARE)
LIBDW(DECLARE)
LIBLZMA(DECLARE)

struct linked {
	const char *name;
	void (*function)(void);
};

/* Tables of functions end with zeros. */
#define ROW(name) {#name, name},
static const struct linked capstone[] = {CAPSTONE(ROW){0}};
static const struct linked libdw[] = {LIBDW(ROW){0}};
static const struct linked liblzma[] = {LIBLZMA(ROW){0}};

static const struct {
	const char *prefix; /* start of the library's file name, up to the version */
	const struct linked *functions;
} libraries[] = {
	{"libcapstone.so.", capstone},
	{"libdw.so.", libdw},
	{"liblzma.so.", liblzma},
};

void *dlopen(const char *name, int flags)
{
	(void)flags;
	for (size_t i = 0; name && i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (strncmp(name, libraries[i].prefix, strlen(libraries[i].prefix)) == 0)
			return (void *)libraries[i].functions;
	return NULL;
}

/* glibc's name for libraries that it loads into a static program. */
void *__dlopen(const char *name, int flags) __attribute__((nothrow, alias("dlopen")));

void *dlsym(void *library, const char *name)
{
	for (const struct linked *row = library; row && row->name; row++)
		if (strcmp(row->name, name) == 0)
			return (void *)row->function;
	return NULL;
}

char *dlerror(void)
{
	static const char why[] = "this probectl is static, and loads no libraries";

	return (char *)why;
}

int dlclose(void *library)
{
	(void)library;
	return 0;
}

/* glibc loads libraries for groups' names, too (nsswitch.conf(5)). */
struct group *getgrgid(gid_t group)
{
	(void)group;
	return NULL;
}
