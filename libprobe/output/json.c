/* SPDX-License-Identifier: MIT */
/*
 * JSON, one object a line (RFC 8259; DESIGN's names are a contract).
 *
 *	{"ts":N,"pid":N,"tid":N,"cpu":N,"comm":"...","provider":"...","name":"...",
 *	 "pc":"0x...","args":[...]}
 *	the texts of strings that the catalogue knows: "named":{"query":"..."},"named_args":[0]
 *	a span: the same of its end, with "duration":NS,"begin":{"ts":N,"pid":N,"tid":N,
 *	 "provider":"...","name":"...","pc":"0x...","args":[...]}
 *	with its stack: either of them, with "stack":"whole","frames":[...] (json_stacks.c)
 *	{"lost":N,"provider":"...","name":"..."}
 *	{"waited":N,"waited_ns":N}
 *	{"inconsistent":true,"pid":N,"provider":"...","name":"...","path":"...","pc":"0x...",
 *	 "good_ts":N,"bad_ts":N,"ts":N,"bytes":"...","left":false}
 *	rows of tables: json_table.c
 *
 * Arguments are numbers; strings where a string was asked for, and for
 * aggregates the hexadecimal digits of their bytes; null where one could not be
 * read, or is a float that JSON cannot say (NaN, infinities). Where strings
 * or aggregates were cut, "truncated" lists the arguments by number. An argument that the
 * catalogue knows to be a string is the pointer that it is; its text is in "named", under the
 * argument's name, or argN if the reader of a record has another catalogue. "named_args" says
 * which arguments these are, in the same order. Of events that
 * are read from a record (probectl-export(1)), "pc" and, of losses, provider and name
 * are left out where it does not tell them.
 *
 * Written by hand: with a JSON library, building a tree for each hit and dumping
 * it took 2.7 us where this takes 0.24, and a target may hit millions of times a
 * second. The layout is fixed; the only piece that needs care is the escaping of
 * strings (buffer_json_escaped()). The tests read it with Python's parser.
 */
#include <math.h>
#include <string.h>

#include "libprobe/base/value.h"
#include "libprobe/output/output.h"

void json_string(struct buffer *out, const char *text, size_t length)
{
	buffer_char(out, '"');
	buffer_json_escaped(out, text, length);
	buffer_char(out, '"');
}

/* `key` with all its punctuation, e.g. ",\"name\":". */
void json_string_field(struct buffer *out, const char *key, const char *text)
{
	buffer_string(out, key);
	json_string(out, text, strlen(text));
}

void json_unsigned_field(struct buffer *out, const char *key, uint64_t value)
{
	buffer_string(out, key);
	buffer_unsigned(out, value);
}

void json_signed_field(struct buffer *out, const char *key, int64_t value)
{
	buffer_string(out, key);
	buffer_signed(out, value);
}

/* An array of its functions. */
static void json_stack(struct buffer *out, const struct probe_value *stack)
{
	buffer_char(out, '[');
	for (size_t at = 0, length; at < stack->length; at += length + 1) {
		length = value_stack_line(stack, at);
		buffer_string(out, at ? "," : "");
		json_string(out, stack->bytes + at, length);
	}
	buffer_char(out, ']');
}

void json_value(struct buffer *out, const struct probe_value *value)
{
	bool is_nothing = value->kind == PROBE_VALUE_NULL ||
			  (value->kind == PROBE_VALUE_FLOAT && !isfinite(value->f));

	if (is_nothing) {
		buffer_string(out, "null");
	} else if (value->kind == PROBE_VALUE_BYTES) {
		buffer_char(out, '"');
		buffer_hex_bytes(out, value->bytes, value->length);
		buffer_char(out, '"');
	} else if (value->kind == PROBE_VALUE_STACK) {
		json_stack(out, value);
	} else if (value_has_known_text(value)) {
		buffer_unsigned(out, value->u);
	} else if (!value_add_number(out, value)) {
		json_string(out, value->bytes, value->length);
	}
}

static void json_truncated(struct buffer *out, const struct probe_hit *hit)
{
	bool any = false;

	for (size_t i = 0; i < hit->arg_count; i++) {
		if (!hit->args[i].truncated)
			continue;
		json_unsigned_field(out, any ? "," : ",\"truncated\":[", i);
		any = true;
	}
	if (any)
		buffer_char(out, ']');
}

static void json_name(struct buffer *out, const struct probe_session_probe *probe,
	const struct probe_value *value, size_t index)
{
	const struct probe_meaning *meaning = probe->meaning;

	buffer_char(out, '"');
	if (meaning && index < PROBE_ARGS_MAX && probe->args[index] < meaning->arg_count) {
		const char *name = meaning->args[probe->args[index]].name;

		buffer_json_escaped(out, name, strlen(name));
	} else {
		buffer_string(out, "arg");
		buffer_unsigned(out, value->number ? value->number - 1U : index);
	}
	buffer_char(out, '"');
}

static void json_named(
	struct buffer *out, const struct probe_hit *hit, const struct probe_session_probe *probe)
{
	bool any = false;

	for (size_t i = 0; i < hit->arg_count; i++) {
		const struct probe_value *value = &hit->args[i];

		if (!value_has_known_text(value))
			continue;
		buffer_string(out, any ? "," : ",\"named\":{");
		json_name(out, probe, value, i);
		buffer_char(out, ':');
		json_string(out, value->bytes, value->length);
		any = true;
	}
	if (!any)
		return;
	any = false;
	for (size_t i = 0; i < hit->arg_count; i++) {
		if (!value_has_known_text(&hit->args[i]))
			continue;
		json_unsigned_field(out, any ? "," : "},\"named_args\":[", i);
		any = true;
	}
	buffer_char(out, ']');
}

/* An object, but for its last brace. The CPU of a span's begin is not known. */
static void json_open_hit(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm, bool is_begin)
{
	json_unsigned_field(out, "{\"ts\":", hit->time_ns);
	json_signed_field(out, ",\"pid\":", hit->pid);
	json_signed_field(out, ",\"tid\":", hit->tid);
	if (!is_begin)
		json_signed_field(out, ",\"cpu\":", hit->cpu);
	if (comm)
		json_string_field(out, ",\"comm\":", comm);
	json_string_field(out, ",\"provider\":", probe->provider);
	json_string_field(out, ",\"name\":", probe->name);
	if (hit->pc) {
		buffer_string(out, ",\"pc\":\"");
		buffer_hex(out, hit->pc);
		buffer_char(out, '"');
	}
	buffer_string(out, ",\"args\":[");
	for (size_t i = 0; i < hit->arg_count; i++) {
		if (i)
			buffer_char(out, ',');
		json_value(out, &hit->args[i]);
	}
	buffer_char(out, ']');
	json_named(out, hit, probe);
	json_truncated(out, hit);
}

void json_hit(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm)
{
	json_open_hit(out, hit, probe, comm, false);
	if (hit->stack)
		json_stack_fields(out, ",\"stack\":", hit->stack);
	buffer_json_end(out);
}

void json_span(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm)
{
	json_open_hit(out, hit, end, comm, false);
	json_unsigned_field(out, ",\"duration\":", hit->duration_ns);
	buffer_string(out, ",\"begin\":");
	json_open_hit(out, hit->begin, begin, NULL, true);
	buffer_char(out, '}');
	if (hit->stack)
		json_stack_fields(out, ",\"stack\":", hit->stack);
	buffer_json_end(out);
}

void json_lost(struct buffer *out, const struct probe_session_probe *probe, uint64_t lost)
{
	json_unsigned_field(out, "{\"lost\":", lost);
	if (probe->provider)
		json_string_field(out, ",\"provider\":", probe->provider);
	if (probe->name)
		json_string_field(out, ",\"name\":", probe->name);
	buffer_json_end(out);
}

static void format_hit(struct format_context *context, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm)
{
	json_hit(&context->out, hit, probe, comm);
}

static void format_span(struct format_context *context, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm)
{
	json_span(&context->out, hit, begin, end, comm);
}

static void format_lost(
	struct format_context *context, const struct probe_session_probe *probe, uint64_t lost)
{
	json_lost(&context->out, probe, lost);
}

static void json_waited(struct format_context *context, uint64_t hits, uint64_t ns)
{
	json_unsigned_field(&context->out, "{\"waited\":", hits);
	json_unsigned_field(&context->out, ",\"waited_ns\":", ns);
	buffer_json_end(&context->out);
}

/* A site of no probe serves to follow what is opened or started. */
static void json_site(struct format_context *context, pid_t pid, const struct probe_site_news *news)
{
	struct buffer *out = &context->out;

	buffer_string(out, news->event == PROBE_SITE_BACK ? "{\"inconsistent\":false,\"pid\":"
							  : "{\"inconsistent\":true,\"pid\":");
	buffer_signed(out, pid);
	if (news->site.name) {
		json_string_field(out, ",\"provider\":", news->site.provider);
		json_string_field(out, ",\"name\":", news->site.name);
		json_string_field(out, ",\"path\":", news->site.path);
	}
	buffer_string(out, ",\"pc\":\"");
	buffer_hex(out, news->site.pc);
	buffer_string(out, "\",\"good_ts\":");
	if (news->good_ns)
		buffer_unsigned(out, news->good_ns);
	else
		buffer_string(out, "null");
	json_unsigned_field(out, ",\"bad_ts\":", news->bad_ns);
	json_unsigned_field(out, ",\"ts\":", news->now_ns);
	buffer_string(out, ",\"bytes\":\"");
	buffer_hex_bytes(out, (const char *)news->site.bytes, news->site.length);
	buffer_string(out, news->site.left ? "\",\"left\":true" : "\",\"left\":false");
	buffer_json_end(out);
}

const struct format format_json = {
	.hit = format_hit,
	.span = format_span,
	.lost = format_lost,
	.waited = json_waited,
	.site = json_site,
	.table = json_table,
	.stacks = json_stacks,
};
