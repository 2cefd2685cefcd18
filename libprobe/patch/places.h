/* SPDX-License-Identifier: MIT */
/* Addresses that a thread may return to, and words of memory that say so. */
#ifndef LIBPROBE_PATCH_PLACES_H
#define LIBPROBE_PATCH_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/process/maps.h"

enum { PLACES_FILTER_BITS = 16 };

struct place {
	uint64_t start, end;
};

/* Initialise with {0}; call places_prepare() before places_have(). */
struct places {
	struct place *items; /* sorted, without overlaps */
	size_t count;
	/*
	 * They are pieces of our code: only program counters of images are reported. Other words
	 * may be data: registries that a process has read, samples of a profiler.
	 * Set by the caller.
	 */
	bool are_code;
	/*
	 * Not 0: words are also taken as setjmp(3) of glibc stores pointers, with this guard.
	 * Set by the caller.
	 */
	uint64_t guard;
	uint8_t guard_shift;
	uint64_t low, span; /* all of them lie in [low, low + span) */
	/* One bit per 64 bytes, modulo 2^16: clear where no place is. */
	uint64_t filter[(1 << PLACES_FILTER_BITS) / 64];
};

/* Adds [start, end), unless it is empty; false without memory. */
bool places_add(struct places *places, uint64_t start, uint64_t end);
void places_prepare(struct places *places);
bool places_have(const struct places *places, uint64_t address);
void places_deinit(struct places *places);

/*
 * What the kernel saves for a signal handler (struct rt_sigframe), as far as it was read;
 * `at` is where that begins. Copies that programs make of its context look the same.
 */
struct place_image {
	uint64_t at;
	uint64_t sp, pc;	   /* of the interrupted context */
	uint64_t stack, stack_end; /* the alternate stack of the thread; 0: it had none */
	uint64_t state;		   /* the floating-point state's address */
	bool is_remote;		   /* one that this library made: see control_run() */
};

enum { PLACE_IMAGE_MAX = 640 }; /* bytes, on any instruction set: arch_frame_layout.bytes */

/* Functions that get what is found; false ends the scan. */
struct place_visitor {
	void *data;
	/* A word that is a place. `is_context`: as the program counter of an image. */
	bool (*word)(void *data, uint64_t at, uint64_t word, bool is_context);
	bool (*image)(void *data, const struct place_image *image);
	bool only_images;	 /* report no words except their program counters */
	const struct maps *maps; /* of the process, which tell where its code is. NULL: unknown */
};

/*
 * Scans `size` bytes that were read at an address; both are multiples of 8. Reports words and
 * images that begin among the first `step` bytes. An image needs PLACE_IMAGE_MAX more bytes, and is
 * recognised only if they are there. A word of an image is reported before the image.
 */
bool places_scan(const struct places *places, uint64_t address, const uint8_t *bytes, size_t size,
	size_t step, const struct place_visitor *visitor);

#endif
