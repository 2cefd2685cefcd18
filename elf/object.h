/* SPDX-License-Identifier: MIT */
/*
 * An ELF file: segments, symbols, functions, build id. Only headers and requested sections are
 * read. Addresses are link-time unless stated otherwise. Input is untrusted: sizes and offsets are
 * checked, and messages name the offset.
 */
#pragma once

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

/* A half-open range of link-time addresses, or of file offsets. */
struct object_range {
	uint64_t start, end;
};

/*
 * object_function.lsda if the function may have an exception table at an unknown place: then
 * object_landing_pads() returns false.
 */
#define OBJECT_LSDA_UNKNOWN UINT64_MAX

/* A function, or a part that the compiler split off (.cold). */
struct object_function {
	struct object_range range;
	/*
	 * The LSDA's address (.gcc_except_table), 0 if the function has none, or
	 * OBJECT_LSDA_UNKNOWN.
	 */
	uint64_t lsda;
	bool from_cfi; /* bounds are from .eh_frame; if false, from a symbol */
};

/*
 * Opens an ELF file by a descriptor, which the caller owns and keeps open as long as the object
 * exists. `path` is for messages, and copied. Errors: PROBE_ERROR_FORMAT (not ELF, or malformed),
 * PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *object_open_fd(int fd, const char *path, struct object **ret);
/* Like object_open_fd(), by path. The object owns the descriptor. */
PROBE_MUST_CHECK struct probe_error *object_open(const char *path, struct object **ret);
void object_close(struct object *object);

const char *object_path(const struct object *object);
uint16_t object_machine(const struct object *object); /* EM_* */
uint16_t object_type(const struct object *object);    /* ET_* */
bool object_is_64bit(const struct object *object);

/* Returns the segments in the file's order; owned by the object. */
const struct object_segment *object_segments(const struct object *object, size_t *count_ret);

/* Returns the program header table's offsets. */
struct object_range object_program_headers(const struct object *object);

/* Returns the addresses of .eh_frame_hdr, the table of functions; empty if the file has none. */
struct object_range object_function_table(const struct object *object);

/* Returns the segment that maps an address from the file, or NULL. */
const struct object_segment *object_segment_of(const struct object *object, uint64_t address);

/* Computes the file offset of an address. Returns false if the file does not contain it. */
bool object_offset_of(const struct object *object, uint64_t address, uint64_t *ret);

/* Reads bytes at an address from the file. Returns the number of bytes read. */
size_t object_read(const struct object *object, uint64_t address, void *buffer, size_t size);

/*
 * Returns all segments' contents, each at its file offset, with zeros between. The first call reads
 * them into the object's memory, so later changes of the file have no effect. *size_ret is the
 * file's size. Errors: PROBE_ERROR_FORMAT (truncated, or too large), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *object_load(
	struct object *object, const uint8_t **ret, size_t *size_ret);

/* Returns the GNU build id in hex, or ""; owned by the object. */
const char *object_build_id(struct object *object);

/* Finds a defined symbol in .dynsym, then .symtab. Returns false if neither has it. */
bool object_symbol(struct object *object, const char *name, size_t name_length, uint64_t *value_ret,
	uint64_t *size_ret);

/*
 * Returns true if all symbols of this name have one value. Static variables of two source files may
 * differ. True without .symtab, because only .symtab has such symbols.
 */
bool object_symbol_is_only(struct object *object, const char *name, size_t name_length);

/*
 * Returns true if `match` is false for all symbols that the file imports (undefined in .dynsym).
 * False if .dynsym is not fully readable.
 */
bool object_imports_none(
	struct object *object, bool (*match)(const char *name, void *data), void *data);

/* Calls `take` for each needed library's name, until it returns false. */
void object_needed(struct object *object, bool (*take)(const char *name, void *data), void *data);

/*
 * Returns the name by which other files need this one (DT_SONAME), or NULL, for example for a
 * program; owned by the object.
 */
const char *object_soname(struct object *object);

/* Returns the function symbol at an address, and its start; or NULL. Owned by the object. */
const char *object_symbol_at(struct object *object, uint64_t address, uint64_t *start_ret);

/* Returns the size of the file, in bytes. */
uint64_t object_size(const struct object *object);

/* A symbol of a function. The name is owned by the object, and may end in a version (`@`). */
struct object_symbol {
	const char *name;
	struct object_range range;
	bool is_ifunc; /* the range is that of the resolver (STT_GNU_IFUNC) */
};

/*
 * Calls `visit` for each symbol of a function, by address, until it returns false. Several symbols
 * may have one address, and .dynsym and .symtab may both have a symbol. Returns false without
 * memory, and for relocatable objects.
 */
bool object_visit_functions(struct object *object,
	bool (*visit)(const struct object_symbol *symbol, void *data), void *data);

/* A relocation of a whole address (Elf64_Rela) that the dynamic linker fills in. */
struct object_relocation {
	uint32_t type;	  /* R_* of the machine */
	uint64_t address; /* of the slot, link-time */
	int64_t addend;
	const char *symbol; /* owned by the object; "" if it has none */
};

/* Calls `visit` for each relocation in a section of the dynamic linker, until it returns false. */
void object_visit_relocations(struct object *object,
	bool (*visit)(const struct object_relocation *relocation, void *data), void *data);

/* Returns the data symbol, with a size, at an address; or NULL. Owned by the object. */
const char *object_data_at(struct object *object, uint64_t address);

/*
 * Finds the function, or part of one, at an address: in .eh_frame, which stripped files keep, by
 * its search table (.eh_frame_hdr), else among symbols with a size. Returns false if unknown.
 */
bool object_function_at(struct object *object, uint64_t address, struct object_function *ret);

/* Finds the first function of .eh_frame that starts at or above an address. */
bool object_next_function(struct object *object, uint64_t address, struct object_function *ret);

/* Returns true if a function, or part of one, starts in a range, by .eh_frame or by a symbol. */
bool object_function_starts(struct object *object, struct object_range range);

/*
 * Calls `visit` for every landing pad in a function's exception table ("Itanium C++ ABI: Exception
 * Handling", LSDA call-site table). Returns false if the table is not fully readable: then there
 * may be more landing pads.
 */
bool object_landing_pads(struct object *object, const struct object_function *function,
	void (*visit)(uint64_t address, void *data), void *data);
