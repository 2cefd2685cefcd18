/* SPDX-License-Identifier: MIT */
/*
 * A bounds-checked cursor over bytes of an ELF file. A read past the end returns 0 and sets
 * `failed`, which persists, so a parser can check it once for a whole structure.
 */
#ifndef ELF_BYTES_H
#define ELF_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
	const uint8_t *data; /* borrowed */
	size_t size;
	size_t at;	  /* offset of the next byte to read, at most `size` */
	uint64_t address; /* link-time address of data[0], if needed */
	bool big_endian;
	bool wide; /* addresses have 8 bytes, otherwise 4 */
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

#endif
