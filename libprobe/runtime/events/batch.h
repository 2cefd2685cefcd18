/* SPDX-License-Identifier: MIT */
/* Probes that are made in this process at run time, in files of many. */
#ifndef LIBPROBE_RUNTIME_EVENTS_BATCH_H
#define LIBPROBE_RUNTIME_EVENTS_BATCH_H

#include <stdbool.h>

#include "libprobe/runtime/events/image.h"

/* A file, mapped into this process; {0} is one without room. */
struct batch {
	struct image_layout layout;
	uint8_t *base, *shared; /* see image.h */
	uint32_t count;
};

struct batch_probe {
	const volatile uint16_t *semaphore; /* nonzero while traced */
	void (*site)(const void *data, size_t length);
};

/*
 * Creates a file with room for this many probes. Its descriptor stays open, because controllers
 * have no other way to open the file. Returns 0, or an error of memfd_create(2), fcntl(2),
 * fallocate(2) or mmap(2).
 */
int batch_open(const struct arch_event *machine, uint32_t capacity, const char *provider,
	struct batch *ret);

bool batch_has_room(const struct batch *batch);

/* Adds a probe; there must be room. See image_add() for the names. */
struct batch_probe batch_add(const struct arch_event *machine, struct batch *batch,
	const char *provider, const char *name);

#endif
