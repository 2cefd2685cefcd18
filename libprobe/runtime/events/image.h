/* SPDX-License-Identifier: MIT */
/* The ELF file of probes that a program names at run time. */
#ifndef LIBPROBE_RUNTIME_EVENTS_IMAGE_H
#define LIBPROBE_RUNTIME_EVENTS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "arch/runtime.h"

enum { IMAGE_PROVIDER_MAX = 16, IMAGE_NAME_MAX = 64, IMAGE_EVENTS_MAX = 4096 };

/*
 * The offsets of the parts of a file with room for `capacity` probes, in bytes. They are multiples
 * of the alignment that segments need.
 */
struct image_layout {
	uint32_t capacity;
	size_t code;   /* the functions, each with its site */
	size_t data;   /* the semaphores */
	size_t shared; /* the part that image_add() changes */
	size_t length; /* length of the file */
};

/* Computes the layout. `capacity` is from 1 to IMAGE_EVENTS_MAX. */
void image_layout(
	const struct arch_event *machine, uint32_t capacity, struct image_layout *layout_ret);

/*
 * Fills in a file of layout->length bytes at `file`, which are all 0 before. The file has no probes
 * yet. `id` becomes the build id, so it must be different in every file.
 */
void image_make(const struct arch_event *machine, const struct image_layout *layout, uint64_t id,
	uint8_t *file);

/*
 * Adds the probe `index`. The probes 0 to index - 1 must have been added before. `shared` is the
 * address of the part at layout->shared, which other processes may read at the same time.
 * `provider` and `name` must not be longer than IMAGE_PROVIDER_MAX and IMAGE_NAME_MAX.
 */
void image_add(const struct arch_event *machine, const struct image_layout *layout, uint32_t index,
	const char *provider, const char *name, uint8_t *shared);

/*
 * image_site() returns the offset of a probe's function, image_semaphore() that of its semaphore (a
 * uint16_t).
 */
size_t image_site(const struct image_layout *layout, uint32_t index);
size_t image_semaphore(const struct image_layout *layout, uint32_t index);

#endif
