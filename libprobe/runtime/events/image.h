/* SPDX-License-Identifier: MIT */
/* The ELF file of one probe, which a program creates at run time. */
#ifndef LIBPROBE_RUNTIME_EVENTS_IMAGE_H
#define LIBPROBE_RUNTIME_EVENTS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "arch/runtime.h"

enum { IMAGE_PROVIDER_MAX = 16, IMAGE_NAME_MAX = 64 };

/* Offsets in the mapped file. */
struct image_layout {
	size_t site;	  /* the function and its site */
	size_t semaphore; /* u16, in the second segment */
	size_t length;	  /* of the whole file */
};

enum { IMAGE_HEAD_BYTES = 2048 };

/*
 * Makes the first IMAGE_HEAD_BYTES of the file; the rest is 0. `provider` and `name` must not
 * exceed the limits above.
 */
void image_make(const struct arch_event *machine, const char *provider, const char *name,
	uint8_t ret[IMAGE_HEAD_BYTES], struct image_layout *layout_ret);

#endif
