/* SPDX-License-Identifier: MIT */
/* Frames of call stacks as text. */
#ifndef LIBPROBE_BASE_FRAME_TEXT_H
#define LIBPROBE_BASE_FRAME_TEXT_H

#include "libprobe/base/buffer.h"
#include "probe/target.h"

/* Of a frame without a symbol: where its function begins, or if that is not known, where it is. */
uint64_t frame_text_place(const struct probe_frame *frame);

/* Text without what ends a frame or a line, and in UTF-8: symbols may have any bytes. */
void frame_text_put(struct buffer *out, const char *text);

/* A frame's name: its function, else module+0xSTART, else the address. No ';', no control bytes. */
void frame_text(struct buffer *out, const struct probe_frame *frame);

/* What the outermost line says of a stack that is not whole: "[truncated]" or "[unknown]". */
const char *frame_text_end(enum probe_stack_end end);

/* A line for each frame, the innermost first; the last one says how the stack ends, if not whole.
 */
void frame_text_stack(struct buffer *out, const struct probe_stack *stack);

#endif
