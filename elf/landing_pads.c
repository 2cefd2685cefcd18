/* SPDX-License-Identifier: MIT */
/*
 * Landing pads: where exceptions may enter a function.
 *
 * The language-specific data of a function (.gcc_except_table):
 *
 *	encoding of LPStart (a byte), LPStart	base of the landing pads; the
 *						function's start if omitted
 *	encoding of the type table, its distance (ULEB128)
 *	encoding of the call sites, size of their table in bytes (ULEB128)
 *	call sites: start, length, landing pad (0: none), action (ULEB128)
 *	...
 *
 * C++, Rust, Objective-C, Ada, D, Swift and C with -fexceptions share this format ("Itanium C++
 * ABI: Exception Handling", 2.5; LLVM, "Exception Handling"; libgcc, unwind-c.c). Each part of
 * a split function has its own FDE and its own table; for basic-block sections clang states
 * LPStart.
 */
#include "elf/internal.h"
#include "elf/pointers.h"
#include "libprobe/base/cleanup.h"

enum { LSDA_HEADER_BYTES_MAX = 64 };

struct lsda {
	uint64_t pads_from;
	uint8_t encoding; /* of the call sites */
	uint64_t table, table_size;
};

static bool read_header(
	const struct object *object, const struct object_function *function, struct lsda *ret)
{
	const struct eh_bases bases = {.has_function = true, .function = function->range.start};
	uint8_t buffer[LSDA_HEADER_BYTES_MAX], encoding;
	struct bytes bytes = object_bytes(object, buffer,
		object_read(object, function->lsda, buffer, sizeof(buffer)), function->lsda);

	ret->pads_from = function->range.start;
	encoding = bytes_u8(&bytes);
	if (encoding != EH_OMIT) {
		uint64_t raw;

		ret->pads_from = eh_pointer(&bytes, encoding, &bases, &raw);
		/* An absolute 0 in a shared object may have a relocation. */
		if (encoding & EH_INDIRECT ||
			(!raw && object->type == ET_DYN && !(encoding & EH_BASE)))
			return false;
	}
	encoding = bytes_u8(&bytes);
	if (encoding != EH_OMIT)
		bytes_uleb(&bytes);
	ret->encoding = bytes_u8(&bytes);
	ret->table_size = bytes_uleb(&bytes);
	ret->table = bytes_here(&bytes);
	/* Call sites are offsets without a base. */
	return !bytes.failed && !(ret->encoding & ~EH_FORMAT);
}

bool object_landing_pads(struct object *object, const struct object_function *function,
	void (*visit)(uint64_t address, void *data), void *data)
{
	const struct eh_bases none = {0};
	AUTO_FREE uint8_t *buffer = NULL;
	struct bytes bytes;
	struct lsda lsda;

	if (!function->lsda)
		return true;
	if (function->lsda == OBJECT_LSDA_UNKNOWN || !read_header(object, function, &lsda) ||
		lsda.table_size > object->file_size)
		return false;
	buffer = malloc((size_t)lsda.table_size + 1);
	if (!buffer ||
		object_read(object, lsda.table, buffer, (size_t)lsda.table_size) != lsda.table_size)
		return false;
	bytes = object_bytes(object, buffer, (size_t)lsda.table_size, lsda.table);
	while (bytes_left(&bytes)) {
		uint64_t pad;

		eh_pointer(&bytes, lsda.encoding, &none, NULL); /* start */
		eh_pointer(&bytes, lsda.encoding, &none, NULL); /* length */
		pad = eh_pointer(&bytes, lsda.encoding, &none, NULL);
		bytes_uleb(&bytes); /* action */
		if (bytes.failed)
			return false;
		if (pad)
			visit(lsda.pads_from + pad, data);
	}
	return true;
}
