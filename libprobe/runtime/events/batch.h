/* SPDX-License-Identifier: MIT */
/* Probes that this process creates at run time. Many of them share a file. */
#ifndef LIBPROBE_RUNTIME_EVENTS_BATCH_H
#define LIBPROBE_RUNTIME_EVENTS_BATCH_H

#include <stdbool.h>

#include "libprobe/runtime/events/image.h"

/* A file of probes, mapped into this process. {0} is a file without room. */
struct batch {
	struct image_layout layout;
	uint8_t *base, *shared; /* the private and the shared mapping, see image.h */
	uint32_t count;
};

struct batch_probe {
	const volatile uint16_t *semaphore; /* nonzero while traced */
	void (*site)(const void *data, size_t length);
};

#endif
