/* SPDX-License-Identifier: MIT */
/* Shared by the files of elf/ only. */
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
	struct object_range program_headers; /* offsets */
	struct object_segment *segments;     /* PT_LOAD */
	size_t segment_count;
	uint64_t eh_frame_hdr;	    /* address of PT_GNU_EH_FRAME */
	uint64_t eh_frame_hdr_size; /* 0 if there is none */

	/* Built at first use. */
	char *build_id;
	struct symbols *symbols;
	struct cfi *cfi;
	uint8_t *loaded;
};

/* Reads bytes at a file offset; returns how many there were. */
size_t object_read_file(const struct object *object, uint64_t offset, void *buffer, size_t size);

/* An empty reader in the object's byte order and class. */
struct bytes object_bytes(
	const struct object *object, const void *data, size_t size, uint64_t address);

/* The section with this name; false if there is none. */
bool object_section(const struct object *object, const char *name, GElf_Shdr *ret);

/* symbols.c, functions.c: free what they keep in the object. NULL is allowed. */
void symbols_free(struct symbols *symbols);
void cfi_free(struct cfi *cfi);

/* symbols.c: the sized function symbol that covers an address. */
bool symbols_function_at(struct object *object, uint64_t address, struct object_range *ret);

/* A function of libdw and where to store its address: POSIX dlsym() returns a void *. */
struct libdw_function {
	const char *name;
	void **address;
};

/*
 * libdw.c: loads libdw permanently and looks functions up. `purpose` begins the error message
 * and is followed by the library's name: "source lines need". Errors: PROBE_ERROR_UNSUPPORTED.
 */
PROBE_MUST_CHECK struct probe_error *libdw_load(
	const char *purpose, const struct libdw_function *functions, size_t count);

#endif
