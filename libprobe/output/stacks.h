/* SPDX-License-Identifier: MIT */
/* What the writers of call stacks share. */
#ifndef LIBPROBE_OUTPUT_STACKS_H
#define LIBPROBE_OUTPUT_STACKS_H

#include "libprobe/output/format.h"

/* How many frames a stack is shown with: a stack that is not whole has one more, the outermost. */
size_t stacks_depth(const struct probe_stacks_row *row);

/*
 * Below, equal or above 0: do two rows show the same function there? Where one
 * stack ends, it is the lesser.
 */
int stacks_compare_at(
	const struct probe_stacks_row *a, const struct probe_stacks_row *b, size_t depth);
/* The order of whole stacks, the outermost frame first. */
int stacks_compare(const struct probe_stacks_row *a, const struct probe_stacks_row *b);

/* A frame's name: its function, else module+0xSTART, else the address. No ';', no control bytes.
 */
void stacks_label(struct buffer *out, const struct probe_stacks_row *row, size_t depth);
/* The same of any frame; NULL: of what is not known of a stack that ends like this. */
void stacks_frame_label(
	struct buffer *out, const struct probe_frame *frame, enum probe_stack_end end);
/* The stack of one hit: a line for each frame, indented, the innermost first. */
void text_hit_stack(struct buffer *out, const struct probe_stack *stack);
/* The same as fields of an object: how it ends, by this key with all its punctuation, and frames.
 */
void json_stack_fields(struct buffer *out, const char *key, const struct probe_stack *stack);

/* Rows as trees, one for each probe, with its `top` most frequent stacks; 0: with all. */
void text_stack_trees(
	struct buffer *out, const struct probe_stacks_row *rows, size_t count, size_t top);
void text_stacks(struct format_context *context, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view);
void folded_stacks(struct buffer *out, const struct probe_stacks_row *rows, size_t count);
/* The same lines, drawn. */
void flamegraph_stacks(struct buffer *out, const struct probe_stacks_row *rows, size_t count);
/* A profile in the format of pprof. */
void pprof_stacks(struct buffer *out, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view);
void json_stacks(struct format_context *context, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view);

#endif
