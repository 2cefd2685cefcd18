/* SPDX-License-Identifier: MIT */
/* Shared only by the files of elf/. */
#pragma once

#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>

#include "elf/object.h"
#include "libprobe/base/library.h"

/* ---- Bytes ----------------------------------------------------------------------------------- */

/*
 * A bounds-checked cursor over bytes of an ELF file. A read past the end returns 0 and sets
 * `failed`, which persists, so a parser can check it once for a whole structure.
 */
struct bytes {
	const uint8_t *data; /* borrowed */
	size_t size;
	size_t at;	  /* offset of the next byte to read, at most `size` */
	uint64_t address; /* link-time address of data[0], if needed */
	bool big_endian;
	bool wide; /* addresses have 8 bytes; if false, 4 */
	bool failed;
};

/* Reads an unsigned integer of 1, 2, 4 or 8 bytes. */
uint64_t bytes_unsigned(struct bytes *bytes, size_t width);
uint64_t bytes_address(struct bytes *bytes);
/* Reads a NUL-terminated string; NULL if the NUL is missing. */
const char *bytes_string(struct bytes *bytes);
void bytes_skip(struct bytes *bytes, uint64_t count);

static inline size_t bytes_left(const struct bytes *bytes)
{
	return bytes->size - bytes->at;
}

/* Returns the link-time address of the next byte. */
static inline uint64_t bytes_here(const struct bytes *bytes)
{
	return bytes->address + bytes->at;
}

/* ---- Objects --------------------------------------------------------------------------------- */

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

	/*
	 * The members below are built at their first use. The functions in this struct free them.
	 */
	char *build_id;
	struct symbols *symbols;
	void (*symbols_free)(struct symbols *symbols);
	struct cfi *cfi;
	void (*cfi_free)(struct cfi *cfi);
	uint8_t *loaded;

	struct sdt_guard *guards; /* sdt_read() sets them */
	size_t guard_count;
};

/* Reads bytes at a file offset. Returns the number of bytes read. */
size_t object_read_file(const struct object *object, uint64_t offset, void *buffer, size_t size);

/* Returns a cursor over `data` in the object's byte order and class. */
struct bytes object_bytes(
	const struct object *object, const void *data, size_t size, uint64_t address);

/* Finds a section by name. */
bool object_section(const struct object *object, const char *name, GElf_Shdr *ret);

/* ---- Symbols, and libdw ---------------------------------------------------------------------- */

/*
 * Opens the file that has the symbols which were stripped from this one (debug.c). Returns NULL if
 * there is none. The caller closes it.
 */
struct object *object_open_debug(struct object *object);
/* Does the file itself have debug information of a kind, such as "line"? */
bool object_has_debug(const struct object *object, const char *kind);
/*
 * Returns the separate debug file of an object without this debug information; the object itself if
 * it has it, or has no such file. The caller closes what is not the object.
 */
struct object *object_of_debug(struct object *object, const char *kind);
/* Finds the function symbol with a size at an address (symbols.c). */
bool symbols_function_at(struct object *object, uint64_t address, struct object_range *ret);
/*
 * Returns true if a function symbol is in a range. Symbols that were stripped from the file count
 * if object_visit_functions() has read them.
 */
bool symbols_function_starts(struct object *object, struct object_range range);

/*
 * Starts a child process that may use libdw: it crashes quietly, and ends with its parent. Both get
 * an end of a socket of this type (SOCK_SEQPACKET). Returns 0 in the child, -1 with errno on
 * failure.
 */
pid_t libdw_fork(int type, int *channel_ret);

/*
 * libdw, for library_load(). `purpose` begins an error message: "source lines need". Loading it and
 * its dependencies (decompressors) takes longer than listing probes, so it is done at the first
 * request. The build needs only its headers.
 */
#define LIBDW(purpose)                                                                             \
	(const struct library)                                                                     \
	{                                                                                          \
		"libdw.so.1", purpose " libdw (elfutils)", purpose " a newer libdw (elfutils)"     \
	}
