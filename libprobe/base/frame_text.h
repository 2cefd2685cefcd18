/* SPDX-License-Identifier: MIT */
/* Frames of call stacks as text. */
#ifndef LIBPROBE_BASE_FRAME_TEXT_H
#define LIBPROBE_BASE_FRAME_TEXT_H

#include "libprobe/base/buffer.h"
#include "probe/target.h"

/*
 * For a frame without a symbol: returns where the frame's function begins, or, if that is unknown,
 * the frame's own address.
 */
uint64_t frame_text_place(const struct probe_frame *frame);

/*
 * Writes text in UTF-8, without the bytes that separate frames or lines. A symbol may hold any
 * byte.
 */
void frame_text_put(struct buffer *out, const char *text);

/*
 * Writes the frame's function; if unknown, module+0xSTART; otherwise the address. Writes no ';' and
 * no control bytes.
 */
void frame_text(struct buffer *out, const struct probe_frame *frame);

/*
 * Returns the line that ends an incomplete stack, after its outermost frame: "[truncated]" or
 * "[unknown]".
 */
const char *frame_text_end(enum probe_stack_end end);

/*
 * Writes a line for each frame, the innermost first. If the stack is incomplete, one more line says
 * how it ends.
 */
void frame_text_stack(struct buffer *out, const struct probe_stack *stack);

#endif
