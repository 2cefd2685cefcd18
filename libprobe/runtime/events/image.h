/* SPDX-License-Identifier: MIT */
/* The ELF file of one probe, which a program makes of itself when it runs. */
#ifndef LIBPROBE_RUNTIME_EVENTS_IMAGE_H
#define LIBPROBE_RUNTIME_EVENTS_IMAGE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

/* What of the file depends on the instruction set. */
struct image_machine {
	uint16_t elf_machine;	/* EM_* of <elf.h> */
	uint32_t segment_bytes; /* of the code, and of the data behind it: the largest page */
	const char *args;	/* where a function's first two arguments are, as a note says */
	uint8_t code[8];	/* a function: the site, and a return */
	uint8_t code_length;
	uint8_t cie[24]; /* of .eh_frame, without its length; padded with 0, DW_CFA_nop */
};

extern const struct image_machine image_x86_64, image_aarch64;

enum { IMAGE_PROVIDER_MAX = 16, IMAGE_NAME_MAX = 64 };

/* Where things are, from the first byte of the mapped file. */
struct image_layout {
	size_t site;	  /* the function and its site */
	size_t semaphore; /* u16, in the second segment */
	size_t length;	  /* of the whole file */
};

enum { IMAGE_HEAD_BYTES = 2048 };

/*
 * Makes the first IMAGE_HEAD_BYTES of the file; all else in it is 0. `provider` and
 * `name` have at most the bytes above.
 */
void image_make(const struct image_machine *machine, const char *provider, const char *name,
	uint8_t ret[IMAGE_HEAD_BYTES], struct image_layout *layout_ret);

#endif
