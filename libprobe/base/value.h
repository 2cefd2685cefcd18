/* SPDX-License-Identifier: MIT */
/* Values of hits and keys, compared and as numbers. */
#ifndef LIBPROBE_BASE_VALUE_H
#define LIBPROBE_BASE_VALUE_H

#include <stdbool.h>

#include "libprobe/base/buffer.h"
#include "probe/target.h"

/* Are there `bytes`? */
bool value_has_bytes(const struct probe_value *value);

/* Appends a number in decimal; false where the value is none. */
bool value_add_number(struct buffer *out, const struct probe_value *value);

/* The value as a number; false, and *ret as it was, where it is none. */
bool value_number(const struct probe_value *value, double *ret);

/*
 * Below, equal or above 0, as for strcmp(3): null, then numbers, then strings.
 * A cut string is another one than the same text whole.
 */
int value_compare(const struct probe_value *a, const struct probe_value *b);

#endif
