/* SPDX-License-Identifier: MIT */
/*
 * Encoded pointers of exception frames (DW_EH_PE_*).
 *
 * The encoding is one byte. Its low four bits are the pointer's format, the next three bits say
 * what to add, and the top bit says that the result is the address of the pointer. Source: Linux
 * Standard Base Core 5.0, "DWARF Exception Header Encoding"; libgcc, unwind-pe.h.
 */
#ifndef ELF_POINTERS_H
#define ELF_POINTERS_H

#include "elf/bytes.h"

enum {
	EH_ABSPTR = 0x00, /* formats */
	EH_ULEB128 = 0x01,
	EH_UDATA2 = 0x02,
	EH_UDATA4 = 0x03,
	EH_UDATA8 = 0x04,
	EH_SIGNED = 0x08,
	EH_SLEB128 = 0x09,
	EH_SDATA2 = 0x0a,
	EH_SDATA4 = 0x0b,
	EH_SDATA8 = 0x0c,
	EH_FORMAT = 0x0f,
	EH_PCREL = 0x10, /* what to add */
	EH_TEXTREL = 0x20,
	EH_DATAREL = 0x30,
	EH_FUNCREL = 0x40,
	EH_ALIGNED = 0x50,
	EH_BASE = 0x70,
	EH_INDIRECT = 0x80,
	EH_OMIT = 0xff
};

/* The base addresses of relative pointers. */
struct eh_bases {
	bool has_data, has_function;
	uint64_t data, function;
};

#endif
