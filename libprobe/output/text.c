/* SPDX-License-Identifier: MIT */
/*
 * Text: one line a hit, in columns.
 *
 *	TIME             PID     TID     COMMAND          PROBE  ARGUMENTS
 *	14:03:07.123456  8121    8121    postgres         postgresql:query__start "select 1"
 *
 * A span has its duration after the command, both names, and the arguments of its begin and its
 * end:
 *
 *	... postgres  12.3ms    postgresql:query__start..query__done "select 1" -> "select 1"
 *
 * Either may be followed by its call stack, a line for each frame.
 *
 * Integers are decimal by their sign, but an unsigned one from 2^32 upwards,
 * which an address nearly always is and a number of things hardly ever, is in
 * hexadecimal. Strings are in double quotes with C escapes, followed by "..."
 * where they were cut; what could not be read is `null`; aggregates are
 * the hexadecimal digits of their bytes in braces. Of a probe that the catalogue knows, each
 * argument has its name before it, and numbers that have words are these.
 */
#include <string.h>
#include <time.h>

#include "libprobe/base/value.h"
#include "libprobe/output/output.h"

enum {
	PID_WIDTH = 7,	    /* the kernel's largest pid_max is 4194304 */
	COMMAND_WIDTH = 15, /* TASK_COMM_LEN without its NUL */
	PROBE_WIDTH = 24,   /* the column grows up to NAME_MOST */
	NAME_MOST = 48,
	DURATION_WIDTH = 8,
	NSEC_PER_SEC = 1000000000
};

/* A column that begins at `start`: blanks to its width, and the gap to the next one. */
static void column_end(struct buffer *out, size_t before, size_t width)
{
	buffer_pad(out, out->length - out->start - before, width);
	buffer_string(out, "  ");
}

static size_t column_start(const struct buffer *out)
{
	return out->length - out->start;
}

static void text_column(struct buffer *out, const char *text, size_t width)
{
	size_t before = column_start(out);

	buffer_c_escaped(out, text, strlen(text), 0);
	column_end(out, before, width);
}

static void number_column(struct buffer *out, int64_t number, size_t width)
{
	size_t before = column_start(out);

	buffer_signed(out, number);
	column_end(out, before, width);
}

void text_probe(struct buffer *out, const char *provider, const char *name)
{
	buffer_c_escaped(out, provider, strlen(provider), 0);
	buffer_char(out, ':');
	buffer_c_escaped(out, name, strlen(name), 0);
}

static void head_columns(struct buffer *out)
{
	text_column(out, "TIME", sizeof("HH:MM:SS.uuuuuu") - 1);
	text_column(out, "PID", PID_WIDTH);
	text_column(out, "TID", PID_WIDTH);
	text_column(out, "COMMAND", COMMAND_WIDTH);
}

static void text_begin(struct format_context *context, bool header)
{
	struct buffer *out = &context->out;

	if (!header)
		return;
	head_columns(out);
	text_column(out, "PROBE", PROBE_WIDTH);
	buffer_string(out, "ARGUMENTS\n");
}

static void text_begin_spans(struct format_context *context, bool header)
{
	struct buffer *out = &context->out;

	if (!header)
		return;
	head_columns(out);
	text_column(out, "DURATION", DURATION_WIDTH);
	text_column(out, "PAIR", PROBE_WIDTH);
	buffer_string(out, "ARGUMENTS\n");
}

/* localtime_r() runs once a second at most. */
void text_time(struct format_context *context, uint64_t time_ns)
{
	struct clock_cache *clock = &context->clock;
	time_t second = (time_t)(time_ns / NSEC_PER_SEC);
	uint64_t micro = time_ns % NSEC_PER_SEC / 1000;
	char digits[] = ".000000";
	struct tm tm;

	if (clock->second != second) {
		if (!localtime_r(&second, &tm) ||
			!strftime(clock->text, sizeof(clock->text), "%H:%M:%S", &tm))
			strcpy(clock->text, "??:??:??");
		clock->second = second;
	}
	for (int i = 6; micro; i--, micro /= 10)
		digits[i] = (char)('0' + micro % 10);
	buffer_string(&context->out, clock->text);
	buffer_string(&context->out, digits);
}

static void text_string(struct buffer *out, const struct probe_value *value)
{
	buffer_char(out, '"');
	buffer_c_escaped(out, value->bytes, value->length, '"');
	buffer_char(out, '"');
	if (value->truncated)
		buffer_string(out, "...");
}

void text_value(struct buffer *out, const struct probe_value *value)
{
	if (value->kind == PROBE_VALUE_NULL) {
		buffer_string(out, "null");
	} else if (value->kind == PROBE_VALUE_UNSIGNED && value->u > UINT32_MAX) {
		buffer_hex(out, value->u);
	} else if (value->kind == PROBE_VALUE_BYTES) {
		buffer_char(out, '{');
		buffer_hex_bytes(out, value->bytes, value->length);
		buffer_string(out, value->truncated ? "...}" : "}");
	} else if (value->kind == PROBE_VALUE_STACK) {
		value_add_stack(out, value);
	} else if (value->kind == PROBE_VALUE_OTHER) {
		buffer_bytes(out, value->bytes, value->length);
	} else if (!value_add_number(out, value)) {
		text_string(out, value);
	}
}

static void hit_columns(
	struct format_context *context, const struct probe_hit *hit, const char *comm)
{
	struct buffer *out = &context->out;

	text_time(context, hit->time_ns);
	buffer_string(out, "  ");
	number_column(out, hit->pid, PID_WIDTH);
	number_column(out, hit->tid, PID_WIDTH);
	text_column(out, comm ? comm : "?", COMMAND_WIDTH);
}

void text_meant(
	struct buffer *out, const struct probe_arg_meaning *arg, const struct probe_value *value)
{
	bool is_number = value->kind == PROBE_VALUE_SIGNED || value->kind == PROBE_VALUE_UNSIGNED;
	const char *word = is_number && arg ? probe_meaning_word(arg, value->i) : NULL;

	if (is_number && arg && arg->kind == PROBE_ARG_BOOLEAN)
		word = value->u ? "true" : "false";
	if (word)
		buffer_c_escaped(out, word, strlen(word), 0);
	else if (is_number && arg && arg->kind == PROBE_ARG_POINTER)
		buffer_hex(out, value->u);
	else
		text_value(out, value);
}

/* Is it only the length of a string whose text is shown? */
static bool is_length(const struct probe_hit *hit, const struct probe_session_probe *probe,
	const struct probe_arg_meaning *arg)
{
	const struct probe_meaning *meaning = probe->meaning;

	for (size_t i = 0; i < hit->arg_count && i < PROBE_ARGS_MAX; i++) {
		const struct probe_arg_meaning *its = &meaning->args[probe->args[i]];

		if (value_has_known_text(&hit->args[i]) && probe->args[i] < meaning->arg_count &&
			its->kind == PROBE_ARG_SIZED_STRING && &meaning->args[its->length] == arg)
			return true;
	}
	return false;
}

static void text_args(
	struct buffer *out, const struct probe_hit *hit, const struct probe_session_probe *probe)
{
	const struct probe_meaning *meaning = probe->meaning;
	bool any = false;

	for (size_t i = 0; i < hit->arg_count; i++) {
		const struct probe_arg_meaning *arg = NULL;

		if (meaning && i < PROBE_ARGS_MAX && probe->args[i] < meaning->arg_count)
			arg = &meaning->args[probe->args[i]];
		if (arg && is_length(hit, probe, arg))
			continue;
		if (any)
			buffer_char(out, ' ');
		any = true;
		if (!arg) {
			text_value(out, &hit->args[i]);
			continue;
		}
		buffer_string(out, arg->name);
		buffer_char(out, '=');
		text_meant(out, arg, &hit->args[i]);
	}
}

static void end_line(struct buffer *out, const struct probe_hit *hit)
{
	buffer_char(out, '\n');
	if (hit->stack)
		text_hit_stack(out, hit->stack);
}

/*
 * Ends the column of names that begins at `before`. It is as wide as the longest name so far,
 * unless that is too long for the lines of all others.
 */
static void name_end(struct format_context *context, size_t before)
{
	size_t width = column_start(&context->out) - before;

	if (context->name_width < PROBE_WIDTH)
		context->name_width = PROBE_WIDTH;
	if (width > context->name_width && width <= NAME_MOST)
		context->name_width = width;
	column_end(&context->out, before, context->name_width);
}

static void text_hit(struct format_context *context, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm)
{
	struct buffer *out = &context->out;
	size_t before;

	hit_columns(context, hit, comm);
	before = column_start(out);
	text_probe(out, probe->provider, probe->name);
	if (hit->arg_count)
		name_end(context, before);
	text_args(out, hit, probe);
	end_line(out, hit);
}

static void text_pair(struct buffer *out, const struct probe_session_probe *begin,
	const struct probe_session_probe *end)
{
	text_probe(out, begin->provider, begin->name);
	buffer_string(out, "..");
	if (strcmp(begin->provider, end->provider) == 0)
		buffer_c_escaped(out, end->name, strlen(end->name), 0);
	else
		text_probe(out, end->provider, end->name);
}

static void text_span(struct format_context *context, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm)
{
	struct buffer *out = &context->out;
	char duration[PROBE_DURATION_BYTES];
	size_t before;

	hit_columns(context, hit, comm);
	probe_duration_text(duration, (double)hit->duration_ns);
	text_column(out, duration, DURATION_WIDTH);
	before = column_start(out);
	text_pair(out, begin, end);
	if (hit->begin->arg_count || hit->arg_count)
		name_end(context, before);
	text_args(out, hit->begin, begin);
	if (hit->arg_count)
		buffer_string(out, hit->begin->arg_count ? " -> " : "-> ");
	text_args(out, hit, end);
	end_line(out, hit);
}

static void text_lost(
	struct format_context *context, const struct probe_session_probe *probe, uint64_t lost)
{
	struct buffer *out = &context->out;

	buffer_string(out, "# lost ");
	buffer_unsigned(out, lost);
	buffer_string(out, lost == 1 ? " hit of " : " hits of ");
	text_probe(out, probe->provider, probe->name);
	buffer_char(out, '\n');
}

const struct format format_text = {
	.begin = text_begin,
	.hit = text_hit,
	.begin_spans = text_begin_spans,
	.span = text_span,
	.lost = text_lost,
	.table = text_table,
	.stacks = text_stacks,
};
