/* SPDX-License-Identifier: MIT */
/* Shared only by the files of elf/. */
#ifndef ELF_INTERNAL_H
#define ELF_INTERNAL_H

#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>

#include "elf/bytes.h"
#include "elf/object.h"

struct symbols;
struct cfi;

struct object {
	int fd;
	bool owns_fd;
	bool wide; /* ELFCLASS64 */
	bool big_endian;
	uint16_t machine, type;
	char *path;
	uint64_t file_size;
	Elf *elf;
	uint64_t section_table;		     /* file offset; 0 if the file has no section headers */
	struct object_range program_headers; /* offsets in the file */
	struct object_segment *segments;     /* the PT_LOAD segments */
	size_t segment_count;
	uint64_t eh_frame_hdr;	    /* address of PT_GNU_EH_FRAME */
	uint64_t eh_frame_hdr_size; /* 0 if the file has no such segment */

	/* Built at their first use: */
	char *build_id;
	struct symbols *symbols;
	struct cfi *cfi;
	uint8_t *loaded;
};

/* Reads bytes at a file offset. Returns how many were read. */
size_t object_read_file(const struct object *object, uint64_t offset, void *buffer, size_t size);

/* Returns a cursor over `data` in the object's byte order and class. */
struct bytes object_bytes(
	const struct object *object, const void *data, size_t size, uint64_t address);

/* Finds a section by name. */
bool object_section(const struct object *object, const char *name, GElf_Shdr *ret);

/* Free parts of an object, or NULL. */
void symbols_free(struct symbols *symbols);
void cfi_free(struct cfi *cfi);

/* Finds the function symbol with a size at an address (symbols.c). */
bool symbols_function_at(struct object *object, uint64_t address, struct object_range *ret);

/* A function of libdw, and where to store its address, which dlsym(3) returns as void *. */
struct libdw_function {
	const char *name;
	void **address;
};

/*
 * Loads libdw for good and looks up functions (lines.c). `purpose` begins an error message: "source
 * lines need". Errors: PROBE_ERROR_UNSUPPORTED.
 */
PROBE_MUST_CHECK struct probe_error *libdw_load(
	const char *purpose, const struct libdw_function *functions, size_t count);

#endif
