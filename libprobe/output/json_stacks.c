/* SPDX-License-Identifier: MIT */
/*
 * Stacks as JSON, one object each; the innermost frame comes first:
 *
 *	{"provider":"...","name":"...","count":N,"comm":"...","end":"whole",
 *	 "frames":[{"ip":"0x...","module":"...","symbol":"...","offset":"0x..."},...],
 *	 "tracer":"stack","ts":N,"interval":N}
 *
 * Of a heap, "total_bytes", "total_count", "live_bytes" and "live_count" stand for "count".
 * "end" is "truncated" where the copy of the stack ended before the stack did, and
 * "unknown" if the caller of the outermost frame is not known. "offset" is that of
 * "ip" in the symbol, or, where "symbol" is null, in the module.
 */
#include "libprobe/output/output.h"

static void text_or_null(struct buffer *out, const char *key, const char *text)
{
	if (text) {
		json_string_field(out, key, text);
		return;
	}
	buffer_string(out, key);
	buffer_string(out, "null");
}

static void hex_field(struct buffer *out, const char *key, uint64_t value)
{
	buffer_string(out, key);
	buffer_char(out, '"');
	buffer_hex(out, value);
	buffer_char(out, '"');
}

static void json_frame(struct buffer *out, const struct probe_frame *frame)
{
	hex_field(out, "{\"ip\":", frame->ip);
	text_or_null(out, ",\"module\":", frame->module);
	text_or_null(out, ",\"symbol\":", frame->symbol);
	if (frame->module || frame->symbol)
		hex_field(out, ",\"offset\":", frame->offset);
	else
		buffer_string(out, ",\"offset\":null");
	if (frame->file) {
		json_string_field(out, ",\"file\":", frame->file);
		json_unsigned_field(out, ",\"line\":", (uint64_t)frame->line);
	}
	buffer_char(out, '}');
}

void json_stack_fields(struct buffer *out, const char *key, const struct probe_stack *stack)
{
	static const char *const ends[] = {
		[PROBE_STACK_WHOLE] = "whole",
		[PROBE_STACK_TRUNCATED] = "truncated",
		[PROBE_STACK_LOST] = "unknown",
	};

	json_string_field(out, key, ends[stack->end]);
	buffer_string(out, ",\"frames\":[");
	for (size_t i = 0; i < stack->count; i++) {
		if (i)
			buffer_char(out, ',');
		json_frame(out, stack->frames[i]);
	}
	buffer_char(out, ']');
}

static void json_row(
	struct buffer *out, const struct probe_stacks_row *row, const struct probe_view *view)
{
	json_string_field(out, "{\"provider\":", row->provider);
	json_string_field(out, ",\"name\":", row->name);
	if (row->is_heap) {
		json_unsigned_field(out, ",\"total_bytes\":", row->total_bytes);
		json_unsigned_field(out, ",\"total_count\":", row->total_count);
		json_unsigned_field(out, ",\"live_bytes\":", row->live_bytes);
		json_unsigned_field(out, ",\"live_count\":", row->live_count);
	} else {
		json_unsigned_field(out, ",\"count\":", row->count);
	}
	text_or_null(out, ",\"comm\":", row->comm);
	json_stack_fields(out, ",\"end\":", &row->stack);
	if (view->title)
		json_string_field(out, ",\"tracer\":", view->title);
	if (view->is_interval) {
		json_unsigned_field(out, ",\"ts\":", view->time_ns);
		json_unsigned_field(out, ",\"interval\":", view->elapsed_ns);
	}
	buffer_json_end(out);
}

void json_stacks(struct format_context *context, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view)
{
	for (size_t i = 0; i < count; i++)
		json_row(&context->out, &rows[i], view);
}
