/* SPDX-License-Identifier: MIT */
/* The ELF file of probes that a program names at run time, and the names of events. */
#ifndef LIBPROBE_RUNTIME_EVENTS_IMAGE_H
#define LIBPROBE_RUNTIME_EVENTS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "arch/runtime.h"

enum { IMAGE_PROVIDER_MAX = 16, IMAGE_NAME_MAX = 64, IMAGE_EVENTS_MAX = 4096 };

/* Offsets in a file with room for `capacity` probes, in bytes, aligned as segments must be. */
struct image_layout {
	uint32_t capacity;
	size_t code;   /* the functions, each with its site */
	size_t data;   /* the semaphores */
	size_t shared; /* the part that image_add() changes */
	size_t length; /* length of the file */
};

/* `capacity` is from 1 to IMAGE_EVENTS_MAX. */
void image_layout(
	const struct arch_event *machine, uint32_t capacity, struct image_layout *layout_ret);

/*
 * Fills in a zeroed file of layout->length bytes, without probes. `id` becomes the build id, so it
 * must differ in every file.
 */
void image_make(const struct arch_event *machine, const struct image_layout *layout, uint64_t id,
	uint8_t *file);

/*
 * Adds the probe `index`, after all below it. `shared` is the address of the part at
 * layout->shared, which other processes may be reading. Names have at most IMAGE_PROVIDER_MAX and
 * IMAGE_NAME_MAX bytes.
 */
void image_add(const struct arch_event *machine, const struct image_layout *layout, uint32_t index,
	const char *provider, const char *name, uint8_t *shared);

/* Return the offsets of a probe's function, and of its semaphore (a uint16_t). */
size_t image_site(const struct image_layout *layout, uint32_t index);
size_t image_semaphore(const struct image_layout *layout, uint32_t index);

/*
 * Returns the name of an event that posix_trace_eventid_open() has opened in this process, or NULL.
 * The table owns it, and never changes it.
 */
const char *event_name(unsigned int event_id) __attribute__((visibility("hidden")));

#endif
