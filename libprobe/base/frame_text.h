/* SPDX-License-Identifier: MIT */
#pragma once

#include "libprobe/base/buffer.h"
#include "probe/target.h"

/*
 * For a frame without a symbol, returns its function's start or, if that is unknown, its own
 * address.
 */
uint64_t frame_text_place(const struct probe_frame *frame);

/*
 * Writes a symbol, which may have any bytes, in UTF-8. Leaves out bytes that separate frames or
 * lines.
 */
void frame_text_put(struct buffer *out, const char *text);

/* Writes the function or module+0xSTART or the address, without ';' and control bytes. */
void frame_text(struct buffer *out, const struct probe_frame *frame);

/* Returns the line after an incomplete stack's outermost frame: "[truncated]" or "[unknown]". */
const char *frame_text_end(enum probe_stack_end end);

/* Writes a line for each frame, innermost first, and one for the end of an incomplete stack. */
void frame_text_stack(struct buffer *out, const struct probe_stack *stack);
