/* SPDX-License-Identifier: MIT */
/*
 * An ELF file: its segments, symbols, functions and build id.
 *
 * Only headers and requested sections are read. Addresses are the file's own (link-time) unless
 * stated otherwise. All input is untrusted: sizes and offsets are checked against the file, and for
 * a malformed file the error message names the offset.
 */
#ifndef ELF_OBJECT_H
#define ELF_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/error.h"

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
 * Value of object_function.lsda if the function has, or may have, an exception table whose place is
 * unknown. object_landing_pads() then returns false.
 */
#define OBJECT_LSDA_UNKNOWN UINT64_MAX

/* A function, or a part of one that the compiler split off (.cold). */
struct object_function {
	struct object_range range;
	/*
	 * Address of the function's LSDA (.gcc_except_table), 0 if the function has no LSDA, or
	 * OBJECT_LSDA_UNKNOWN.
	 */
	uint64_t lsda;
	bool from_cfi; /* bounds are from .eh_frame; otherwise from a symbol */
};

/*
 * Opens the ELF file behind a file descriptor. The caller owns the descriptor and must leave it
 * open as long as the object exists. `path` is for messages and is copied.
 *
 * Errors: PROBE_ERROR_FORMAT (not an ELF file, or malformed), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *object_open_fd(int fd, const char *path, struct object **ret);
/* Opens an ELF file by path. The object owns the descriptor. */
PROBE_MUST_CHECK struct probe_error *object_open(const char *path, struct object **ret);
void object_close(struct object *object);

const char *object_path(const struct object *object);
uint16_t object_machine(const struct object *object); /* EM_* */
uint16_t object_type(const struct object *object);    /* ET_* */
bool object_is_64bit(const struct object *object);

/* Returns the segments in the file's order; owned by the object. */
const struct object_segment *object_segments(const struct object *object, size_t *count_ret);

/* Returns the file offsets of the program header table. */
struct object_range object_program_headers(const struct object *object);

/*
 * Returns the addresses of the table of functions (.eh_frame_hdr); an empty range if the file has
 * no such table.
 */
struct object_range object_function_table(const struct object *object);

/* Returns the segment that maps an address from the file, or NULL. */
const struct object_segment *object_segment_of(const struct object *object, uint64_t address);

/*
 * Computes the file offset of a link-time address. Returns false if the file does not contain the
 * address.
 */
bool object_offset_of(const struct object *object, uint64_t address, uint64_t *ret);

/* Reads bytes at a link-time address from the file. Returns how many were read (<= size). */
size_t object_read(const struct object *object, uint64_t address, void *buffer, size_t size);

/*
 * Returns the contents of all segments, each at its file offset, with zeros between segments. The
 * first call reads them into memory that the object owns, so later changes to the file have no
 * effect. `*size_ret` is the size of the file.
 *
 * Errors: PROBE_ERROR_FORMAT (the file was truncated, or is too large), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *object_load(
	struct object *object, const uint8_t **ret, size_t *size_ret);

/* Returns the GNU build id in hexadecimal, or "". Owned by the object. */
const char *object_build_id(struct object *object);

/*
 * Finds a defined symbol by name in .dynsym, then in .symtab, and returns its value and size.
 * Returns false if neither table has the symbol.
 */
bool object_symbol(struct object *object, const char *name, size_t name_length, uint64_t *value_ret,
	uint64_t *size_ret);

/*
 * Whether all symbols with this name have the same value. The values may differ, for example those
 * of static variables in two source files. Returns true if the file has no .symtab, because only
 * .symtab contains such symbols.
 */
bool object_symbol_is_only(struct object *object, const char *name, size_t name_length);

/*
 * Returns true if `match` returns false for the name of each symbol that the file imports
 * (undefined in .dynsym). Returns false if .dynsym cannot be read completely.
 */
bool object_imports_none(
	struct object *object, bool (*match)(const char *name, void *data), void *data);

/* Calls `take` for the name of each library that the file needs, until `take` returns false. */
void object_needed(struct object *object, bool (*take)(const char *name, void *data), void *data);

/*
 * Returns the name by which other files need this file (DT_SONAME), or NULL if it has no such name,
 * like a program. Owned by the object.
 */
const char *object_soname(struct object *object);

/* Returns the name and start of the function symbol at an address, or NULL. Owned by the object. */
const char *object_symbol_at(struct object *object, uint64_t address, uint64_t *start_ret);

/*
 * Returns the name of the data symbol that has a size and contains an address, or NULL. Owned by
 * the object.
 */
const char *object_data_at(struct object *object, uint64_t address);

/*
 * Finds the function, or the part of a function, that contains an address. Looks first in
 * .eh_frame, by its binary search table (.eh_frame_hdr), which stripped files keep; then among the
 * symbols that have a size. Returns false if neither covers the address.
 */
bool object_function_at(struct object *object, uint64_t address, struct object_function *ret);

/*
 * Calls `visit` with the address of every landing pad in a function's exception table ("Itanium C++
 * ABI: Exception Handling", LSDA call-site table). Returns false if the table cannot be read
 * completely: nothing may then be concluded from it.
 */
bool object_landing_pads(struct object *object, const struct object_function *function,
	void (*visit)(uint64_t address, void *data), void *data);

#endif
