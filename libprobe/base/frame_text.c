/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "libprobe/base/utf8.h"
#include "libprobe/base/frame_text.h"

uint64_t frame_text_place(const struct probe_frame *frame)
{
	return frame->function ? frame->function : frame->offset;
}

void frame_text_put(struct buffer *out, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		size_t bytes = utf8_character(text, left);

		if (!bytes || buffer_is_control(text, bytes))
			buffer_char(out, '?');
		else if (*text == ';')
			buffer_char(out, ':');
		else
			buffer_bytes(out, text, bytes);
		bytes += !bytes;
		text += bytes;
		left -= bytes;
	}
}

void frame_text(struct buffer *out, const struct probe_frame *frame)
{
	const char *slash;

	if (frame->symbol) {
		frame_text_put(out, frame->symbol);
	} else if (frame->module) {
		slash = strrchr(frame->module, '/');
		frame_text_put(out, slash ? slash + 1 : frame->module);
		buffer_char(out, '+');
		buffer_hex(out, frame_text_place(frame));
	} else {
		buffer_hex(out, frame->ip);
	}
	if (frame->file) {
		slash = strrchr(frame->file, '/');
		buffer_string(out, " (");
		frame_text_put(out, slash ? slash + 1 : frame->file);
		buffer_char(out, ':');
		buffer_unsigned(out, (uint64_t)frame->line);
		buffer_char(out, ')');
	}
}

const char *frame_text_end(enum probe_stack_end end)
{
	return end == PROBE_STACK_TRUNCATED ? "[truncated]"
	       : end == PROBE_STACK_LOST    ? "[unknown]"
					    : "";
}

void frame_text_stack(struct buffer *out, const struct probe_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++) {
		buffer_string(out, i ? "\n" : "");
		frame_text(out, stack->frames[i]);
	}
	if (stack->end != PROBE_STACK_WHOLE) {
		buffer_string(out, stack->count ? "\n" : "");
		buffer_string(out, frame_text_end(stack->end));
	}
}
