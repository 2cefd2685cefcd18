/* SPDX-License-Identifier: MIT */
/* The ELF file of probes that a program names at run time. */
#ifndef LIBPROBE_RUNTIME_EVENTS_IMAGE_H
#define LIBPROBE_RUNTIME_EVENTS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "arch/runtime.h"

enum { IMAGE_PROVIDER_MAX = 16, IMAGE_NAME_MAX = 64, IMAGE_EVENTS_MAX = 4096 };

/* Offsets in a file for `capacity` probes, in bytes: multiples of a segment's size. */
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
 * Fills in a file of layout->length zeros at `file`. The file has no probes yet. `id` becomes the
 * build id, so it must be different in every file.
 */
void image_make(const struct arch_event *machine, const struct image_layout *layout, uint64_t id,
	uint8_t *file);

/*
 * Adds the probe `index`, after the probes 0 to index - 1. `shared` is the file from layout->shared
 * on; other processes may read it at the same time. `provider` and `name` must not exceed the
 * limits above.
 */
void image_add(const struct arch_event *machine, const struct image_layout *layout, uint32_t index,
	const char *provider, const char *name, uint8_t *shared);

/* Return the offsets of a probe's function and of its semaphore, a u16. */
size_t image_site(const struct image_layout *layout, uint32_t index);
size_t image_semaphore(const struct image_layout *layout, uint32_t index);

#endif
