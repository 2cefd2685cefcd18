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

#endif
