/* SPDX-License-Identifier: MIT */
/*
 * An ELF file: its segments, symbols, functions and build id.
 *
 * Only headers and the sections asked for are read. Addresses are the file's
 * own (link-time) unless said otherwise. Everything read is untrusted: sizes
 * and offsets are checked against the file, and a malformed file gives an
 * error that names the offset.
 */
#ifndef ELF_OBJECT_H
#define ELF_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/error.h"

struct object;

/* A loadable segment (PT_LOAD). */
struct object_segment {
	uint64_t address;   /* p_vaddr */
	uint64_t offset;    /* p_offset, in bytes */
	uint64_t file_size; /* bytes in the file */
	uint64_t size;	    /* bytes in memory */
	bool readable, writable, executable;
};

/* A half-open range of link-time addresses, or of offsets in the file. */
struct object_range {
	uint64_t start, end;
};

/*
 * The address of an exception table that there is, or may be, but that cannot
 * be found; object_landing_pads() then returns false.
 */
#define OBJECT_LSDA_UNKNOWN UINT64_MAX

/* A function, or one part of it (a compiler's cold part is a part of its own). */
struct object_function {
	struct object_range range;
	uint64_t lsda; /* address of its language-specific data (.gcc_except_table), 0 if none,
			* OBJECT_LSDA_UNKNOWN */
	bool from_cfi; /* bounds from .eh_frame; else from a symbol */
};

/*
 * Opens the ELF file behind a file descriptor. The descriptor stays the
 * caller's, and must stay open as long as the object. `path` is for messages
 * and is copied.
 *
 * Errors: PROBE_ERROR_FORMAT (no ELF file, or a malformed one),
 * PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *object_open_fd(int fd, const char *path, struct object **ret);
/* The same for a path; the object owns the descriptor. */
PROBE_MUST_CHECK struct probe_error *object_open(const char *path, struct object **ret);
void object_close(struct object *object);

const char *object_path(const struct object *object);
uint16_t object_machine(const struct object *object); /* EM_* */
uint16_t object_type(const struct object *object);    /* ET_* */
bool object_is_64bit(const struct object *object);

/* The segments, in the file's order; owned by the object. */
const struct object_segment *object_segments(const struct object *object, size_t *count_ret);

/* Where the table of program headers is, in bytes of the file. */
struct object_range object_program_headers(const struct object *object);

/* The segment that maps an address from the file, or NULL. */
const struct object_segment *object_segment_of(const struct object *object, uint64_t address);

/* File offset of a link-time address; false where the file has no byte of it. */
bool object_offset_of(const struct object *object, uint64_t address, uint64_t *ret);

/* Reads bytes at a link-time address from the file; returns how many there were (<= size). */
size_t object_read(const struct object *object, uint64_t address, void *buffer, size_t size);

/*
 * The file's bytes of all segments, each at its offset in the file (zeros between
 * them), read at the first use into memory that the object owns: what happens to the
 * file from then on changes nothing. `*size_ret` is the size of the file.
 *
 * Errors: PROBE_ERROR_FORMAT (cut short meanwhile, or too large), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *object_load(
	struct object *object, const uint8_t **ret, size_t *size_ret);

/* The GNU build id in hexadecimal; "" where there is none. Owned by the object. */
const char *object_build_id(struct object *object);

/* The value and size of a defined symbol (.dynsym, then .symtab); false where there is none. */
bool object_symbol(struct object *object, const char *name, size_t name_length, uint64_t *value_ret,
	uint64_t *size_ret);

/* The name of the function symbol that covers an address, or NULL; owned by the object. */
const char *object_symbol_at(struct object *object, uint64_t address, uint64_t *start_ret);

/*
 * The function (part) that holds an address: from .eh_frame by its binary
 * search table (.eh_frame_hdr; PT_GNU_EH_FRAME, so stripped files work), else
 * from a symbol with a size. False where neither knows.
 */
bool object_function_at(struct object *object, uint64_t address, struct object_function *ret);

/*
 * Calls `visit` with the address of every landing pad that a function's
 * exception table names ("Itanium C++ ABI: Exception Handling", LSDA call-site
 * table). Returns false where the table cannot be read in full: then nothing
 * may be concluded from it.
 */
bool object_landing_pads(struct object *object, const struct object_function *function,
	void (*visit)(uint64_t address, void *data), void *data);

#endif
