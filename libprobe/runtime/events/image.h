/* SPDX-License-Identifier: MIT */
/* The ELF file of probes that a program names at run time. */
#ifndef LIBPROBE_RUNTIME_EVENTS_IMAGE_H
#define LIBPROBE_RUNTIME_EVENTS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "arch/runtime.h"

enum { IMAGE_PROVIDER_MAX = 16, IMAGE_NAME_MAX = 64, IMAGE_EVENTS_MAX = 4096 };

/* The layout of a file for this many probes. All are offsets, and multiples of a segment's size. */
struct image_layout {
	uint32_t capacity;
	size_t code;   /* functions, each with its site */
	size_t data;   /* semaphores */
	size_t shared; /* what image_add() changes */
	size_t length; /* of the whole file */
};

/* `capacity` is from 1 to IMAGE_EVENTS_MAX. */
void image_layout(
	const struct arch_event *machine, uint32_t capacity, struct image_layout *layout_ret);

/*
 * Fills a file of zeros, layout->length bytes at `file`. It has no probes yet. `id` is different
 * in every file: it becomes the build id.
 */
void image_make(const struct arch_event *machine, const struct image_layout *layout, uint64_t id,
	uint8_t *file);

/*
 * Adds the probe `index`, after those from 0 to index - 1. `shared` is the file from
 * layout->shared on; others may read it at the same time. `provider` and `name` must not exceed
 * the limits above.
 */
void image_add(const struct arch_event *machine, const struct image_layout *layout, uint32_t index,
	const char *provider, const char *name, uint8_t *shared);

/* Offsets of a probe's function and of its semaphore, a u16. */
size_t image_site(const struct image_layout *layout, uint32_t index);
size_t image_semaphore(const struct image_layout *layout, uint32_t index);

#endif
