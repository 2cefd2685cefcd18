/* SPDX-License-Identifier: MIT */
/* norm(): texts that differ only in their literals, or in the numbers of a path, become one. */
#ifndef LIBPROBE_EXPR_NORM_H
#define LIBPROBE_EXPR_NORM_H

#include <stddef.h>
#include <stdint.h>

/* Writes the normal form of a text, which is not longer; returns its length. */
size_t norm_text(const uint8_t *text, size_t length, uint8_t *out);

#endif
