/* SPDX-License-Identifier: MIT */
/* Exports events: the formats, the options, and the formats CSV and JSON. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/utf8.h"
#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/query/query.h"
#include "libprobe/report/report.h"

/* ==== Export ================================================================================== */

struct probe_export {
	const struct export_format *format;
	struct probe_export_options options;
	struct export_settings settings;
	struct probe_sink *sink;
	int fd;
	void *state;
	/* whether a hit occurred, with a value of each key, and of the match */
	bool any, key_seen[PROBE_EXPORT_KEYS_MAX], match_seen;
};

/* indexed by enum probe_export_format */
static const struct export_format *const formats[] = {
	[PROBE_EXPORT_JSON] = &export_json,
	[PROBE_EXPORT_CSV] = &export_csv,
	[PROBE_EXPORT_FOLDED] = &export_folded,
	[PROBE_EXPORT_TRACE_EVENT] = &export_trace_event,
	[PROBE_EXPORT_FLAMEGRAPH] = &export_flamegraph,
};

enum { FORMAT_COUNT = sizeof(formats) / sizeof(formats[0]) };

bool probe_export_format(const char *name, enum probe_export_format *ret)
{
	for (size_t i = 0; i < FORMAT_COUNT; i++) {
		for (const char *const *its = formats[i]->names; *its; its++) {
			if (strcmp(*its, name) != 0)
				continue;
			*ret = (enum probe_export_format)i;
			return true;
		}
	}
	return false;
}

/* ---- Options ------------------------------------------------------------------------ */

static struct probe_error *parse_match(const char *text, int *begin_ret, int *end_ret)
{
	uint8_t begin = 0, end = 0;
	const char *at = argument_parse(text, &begin);

	end = begin;
	if (at && *at == ':')
		at = argument_parse(at + 1, &end);
	*begin_ret = begin;
	*end_ret = end;
	if (at && !*at)
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"what is matched: '%s' is neither argN nor argN:argN (of begin and end)", text);
}

static struct probe_error *settings_init(
	struct export_settings *settings, const struct probe_export_options *options)
{
	struct probe_error *error = NULL;

	*settings = (struct export_settings){.options = options, .match = -1, .match_end = -1};
	if (options->key_count > PROBE_EXPORT_KEYS_MAX)
		return probe_error_new(
			PROBE_ERROR_USAGE, "at most %d keys can be given", PROBE_EXPORT_KEYS_MAX);
	for (size_t i = 0; i < options->key_count && !error; i++)
		error = key_parse(options->keys[i], strlen(options->keys[i]), options->catalogue,
			(uint8_t)i, &settings->keys[i]);
	settings->key_count = options->key_count;
	if (!error && options->match)
		error = parse_match(options->match, &settings->match, &settings->match_end);
	return error;
}

/* ---- Writing -------------------------------------------------------------------------- */

static struct probe_error *export_flush(struct probe_export *exporter)
{
	struct pollfd output = {.fd = exporter->fd, .events = POLLOUT};
	struct probe_error *error = probe_sink_flush(exporter->sink);

	while (!error && probe_sink_pending(exporter->sink)) {
		poll(&output, 1, -1);
		error = probe_sink_flush(exporter->sink);
	}
	return error;
}

struct probe_error *probe_export_create(enum probe_export_format format,
	const struct probe_export_options *options, int fd, const char *name,
	struct probe_export **ret)
{
	struct probe_export *exporter;
	struct probe_error *error;

	if ((size_t)format >= FORMAT_COUNT)
		return probe_error_new(
			PROBE_ERROR_USAGE, "there is no export format %d", (int)format);
	exporter = calloc(1, sizeof(*exporter));
	if (!exporter)
		return probe_error_no_memory();
	exporter->format = formats[format];
	exporter->fd = fd;
	if (options)
		exporter->options = *options;
	error = settings_init(&exporter->settings, &exporter->options)
			?: sink_create(&format_silent, fd, name, &exporter->sink);
	if (!error)
		error = exporter->format->create(
			&exporter->settings, sink_context(exporter->sink), &exporter->state);
	if (error)
		probe_export_free(exporter);
	else
		*ret = exporter;
	return error;
}

void probe_export_free(struct probe_export *exporter)
{
	if (!exporter)
		return;
	exporter->format->free(exporter->state);
	for (size_t i = 0; i < PROBE_EXPORT_KEYS_MAX; i++)
		key_deinit(&exporter->settings.keys[i]);
	probe_sink_free(exporter->sink);
	free(exporter);
}

/* Notes which keys have values, and whether the match has one. */
static void look_for_named(struct probe_export *exporter, const struct probe_event *event)
{
	const struct export_settings *settings = &exporter->settings;
	struct probe_value value;

	exporter->any = true;
	for (size_t i = 0; i < settings->key_count; i++)
		exporter->key_seen[i] |= key_value(&settings->keys[i], event, &value);
	exporter->match_seen |= settings->match >= 0 &&
				probe_event_arg(event, (unsigned int)settings->match, false);
}

struct probe_error *probe_export_event(
	struct probe_export *exporter, const struct probe_event *event)
{
	struct probe_error *error = exporter->format->event(exporter->state, event);

	if (event->begin)
		look_for_named(exporter, event->begin);
	if (event->kind == PROBE_EVENT_HIT)
		look_for_named(exporter, event);
	return error || !probe_sink_full(exporter->sink) ? error : export_flush(exporter);
}

struct probe_error *probe_export_finish(struct probe_export *exporter)
{
	struct probe_error *error = NULL;
	bool done = false;

	while (!error && !done)
		error = exporter->format->finish(exporter->state, &done) ?: export_flush(exporter);
	if (error || !exporter->any)
		return error;
	for (size_t i = 0; i < exporter->settings.key_count; i++)
		if (!exporter->key_seen[i])
			return key_not_found(&exporter->settings.keys[i]);
	if (exporter->settings.match >= 0 && !exporter->match_seen)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "no hit has a value to match by '%s'",
			exporter->options.match);
	return NULL;
}

/* ---- Shared by formats ------------------------------------------------------------------- */

/* Writes a readable value, or nothing for null. */
static void export_value_text(struct buffer *out, const struct probe_value *value)
{
	if (value_add_number(out, value) || value->kind == PROBE_VALUE_NULL)
		return;
	if (value->kind == PROBE_VALUE_BYTES)
		buffer_hex_bytes(out, value->bytes, value->length);
	else
		buffer_bytes(out, value->bytes, value->length);
}

void export_key_text(
	struct buffer *out, const struct probe_event *event, const struct export_settings *settings)
{
	AUTO(buffer_deinit) struct buffer normal = {0};
	struct probe_value value;

	for (size_t i = 0; i < settings->key_count; i++) {
		size_t start = out->length;

		const struct key *key = &settings->keys[i];
		const struct probe_arg_meaning *meaning;
		struct key its;

		if (!key_resolve(key, event, &its) || !key_value(&its, event, &value))
			continue;
		/* The text, if a number was also recorded as one. */
		if (its.kind == KEY_ARG)
			value = *probe_event_arg(event, its.arg, false);
		if (!key_complete(key, event, &value, &normal)) {
			out->no_memory = true;
			break;
		}
		buffer_char(out, ' ');
		meaning = key_meaning(key, event->provider, event->name);
		if (meaning && value.kind != PROBE_VALUE_STRING && value.kind != PROBE_VALUE_TEXT)
			text_meant(out, meaning, &value);
		else
			export_value_text(out, &value);
		if (out->length == start + 1) /* the value is an empty string: remove the blank */
			out->length = start;
	}
}

/* ==== CSV ===================================================================================== */

/*
 * CSV (RFC 4180): a header, and one line for each hit and each loss.
 *
 *	ts,pid,tid,cpu,comm,provider,name,pc,lost,truncated,arg0,arg1 ...
 *
 * All lines have as many columns as the hit with the most arguments. If this number is unknown,
 * lines are spooled to an unnamed file in $TMPDIR or /tmp, each with its length and its number of
 * arguments. At the end, they are written with the missing columns.
 *
 * Unknown fields are empty. `lost` is set only in losses. `truncated` names truncated arguments.
 * Text is UTF-8. Invalid bytes become U+FFFD, and so do control characters except tabs and newlines
 * (RFC 4180 allows none), because the file may be shown in a terminal. Spreadsheets compute a cell
 * that starts with =, +, -, @ or a tab as a formula, so a program's text that starts with one of
 * these gets a ' in front.
 */

enum { OUT_BYTES = 256 << 10 };

struct csv_export {
	struct buffer *out;
	size_t columns; /* number of columns for arguments */
	struct buffer line;
	FILE *spool; /* temporary file of lines; NULL if the number of columns is known */
	bool has_header, rewound;
};

/* A line's length in bytes, and number of arguments, in the temporary file. */
struct spooled {
	uint32_t length, args;
};

/* ---- Lines ------------------------------------------------------------------------------ */

static void add_text(struct buffer *out, const char *text, size_t length)
{
	static const char replacement[] = "\xef\xbf\xbd";
	bool quotes = length && (memchr(text, '"', length) || memchr(text, ',', length) ||
					memchr(text, '\n', length) || memchr(text, '\r', length) ||
					text[0] == ' ' || text[length - 1] == ' ');

	if (quotes)
		buffer_char(out, '"');
	if (length && text[0] && strchr("=+-@\t\r", text[0]))
		buffer_char(out, '\'');
	for (size_t i = 0; i < length;) {
		size_t plain = 0, n;

		while (i + plain < length && text[i + plain] >= ' ' && text[i + plain] < 0x7f &&
			text[i + plain] != '"')
			plain++;
		if (plain) {
			buffer_bytes(out, text + i, plain);
			i += plain;
			continue;
		}
		n = utf8_character(text + i, length - i);
		if (n == 0 || (buffer_is_control(text + i, n) && !strchr("\t\r\n", text[i])) ||
			!text[i]) {
			buffer_string(out, replacement);
			i += n ? n : 1;
			continue;
		}
		if (text[i] == '"')
			buffer_char(out, '"');
		buffer_bytes(out, text + i, n);
		i += n;
	}
	if (quotes)
		buffer_char(out, '"');
}

static void add_field(struct buffer *out, const char *text)
{
	buffer_char(out, ',');
	if (text)
		add_text(out, text, strlen(text));
}

/* Writes an event's columns, without a newline. */
static void add_line(struct buffer *out, const struct probe_event *event)
{
	bool is_hit = event->kind == PROBE_EVENT_HIT, any = false;

	if (event->time_ns)
		buffer_unsigned(out, event->time_ns);
	buffer_char(out, ',');
	if (is_hit)
		buffer_signed(out, event->pid);
	buffer_char(out, ',');
	if (is_hit)
		buffer_signed(out, event->tid);
	buffer_char(out, ',');
	if (is_hit && event->cpu >= 0)
		buffer_signed(out, event->cpu);
	add_field(out, event->comm);
	add_field(out, event->provider);
	add_field(out, event->name);
	buffer_char(out, ',');
	if (event->pc)
		buffer_hex(out, event->pc);
	buffer_char(out, ',');
	if (!is_hit)
		buffer_unsigned(out, event->lost);
	buffer_char(out, ',');
	for (size_t i = 0; i < event->arg_count; i++) {
		if (!event->args[i].truncated)
			continue;
		buffer_string(out, any ? " arg" : "arg");
		buffer_unsigned(out, i);
		any = true;
	}
	for (size_t i = 0; i < event->arg_count; i++) {
		const struct probe_value *value = &event->args[i];

		buffer_char(out, ',');
		if (value->kind == PROBE_VALUE_STRING || value->kind == PROBE_VALUE_TEXT)
			add_text(out, value->bytes, value->length);
		else
			export_value_text(out, value);
	}
}

static void add_end(struct csv_export *csv, size_t args)
{
	for (; args < csv->columns; args++)
		buffer_char(csv->out, ',');
	buffer_string(csv->out, "\r\n");
}

static void add_header(struct csv_export *csv)
{
	if (csv->has_header)
		return;
	csv->has_header = true;
	buffer_string(csv->out, "ts,pid,tid,cpu,comm,provider,name,pc,lost,truncated");
	for (size_t i = 0; i < csv->columns; i++) {
		buffer_string(csv->out, ",arg");
		buffer_unsigned(csv->out, i);
	}
	buffer_string(csv->out, "\r\n");
}

/* ---- The spool ---------------------------------------------------------------------------- */

static struct probe_error *spool_error(const char *what)
{
	return probe_error_system(
		errno, "%s a temporary file ($TMPDIR says in which folder)", what);
}

static struct probe_error *spool_open(FILE **ret)
{
	const char *folder = getenv("TMPDIR");
	AUTO_FREE char *path = NULL;
	int fd;

	if (asprintf(&path, "%s/probectl.XXXXXX", folder && *folder ? folder : "/tmp") < 0)
		return probe_error_no_memory();
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	*ret = fd < 0 ? NULL : fdopen(fd, "w+");
	if (*ret)
		return NULL;
	cleanup_fd(&fd);
	return spool_error("cannot create");
}

static struct probe_error *spool_add(struct csv_export *csv, const struct probe_event *event)
{
	struct spooled head;

	csv->line.start = csv->line.length = 0;
	add_line(&csv->line, event);
	if (csv->line.no_memory)
		return probe_error_no_memory();
	head = (struct spooled){(uint32_t)csv->line.length, (uint32_t)event->arg_count};
	if (event->arg_count > csv->columns)
		csv->columns = event->arg_count;
	if (fwrite(&head, sizeof(head), 1, csv->spool) != 1 ||
		fwrite(csv->line.data, csv->line.length, 1, csv->spool) != 1)
		return spool_error("cannot write");
	return NULL;
}

/* Moves lines from the spool to the output. *done_ret is true if no line is left. */
static struct probe_error *spool_take(struct csv_export *csv, bool *done_ret)
{
	struct spooled head;
	char *to;

	if (!csv->rewound && (fflush(csv->spool) != 0 || fseek(csv->spool, 0, SEEK_SET) != 0))
		return spool_error("cannot write");
	csv->rewound = true;
	for (size_t taken = 0; taken < OUT_BYTES; taken += head.length) {
		if (fread(&head, sizeof(head), 1, csv->spool) != 1) {
			*done_ret = true;
			return ferror(csv->spool) ? spool_error("cannot read") : NULL;
		}
		to = buffer_reserve(csv->out, head.length);
		if (!to)
			return probe_error_no_memory();
		if (fread(to, head.length, 1, csv->spool) != 1)
			return spool_error("cannot read");
		csv->out->length += head.length;
		add_end(csv, head.args);
	}
	return NULL;
}

/* ---- The format --------------------------------------------------------------------------- */

static void csv_free(void *state)
{
	struct csv_export *csv = state;

	if (!csv)
		return;
	if (csv->spool)
		fclose(csv->spool);
	buffer_deinit(&csv->line);
	free(csv);
}

static struct probe_error *csv_create(
	const struct export_settings *settings, struct format_context *context, void **ret)
{
	struct csv_export *csv = calloc(1, sizeof(*csv));
	struct probe_error *error = NULL;

	if (!csv)
		return probe_error_no_memory();
	csv->out = &context->out;
	csv->columns = settings->options->columns;
	if (!csv->columns)
		error = spool_open(&csv->spool);
	if (error)
		csv_free(csv);
	else
		*ret = csv;
	return error;
}

static struct probe_error *csv_event(void *state, const struct probe_event *event)
{
	struct csv_export *csv = state;
	struct probe_error *error = event->begin ? csv_event(state, event->begin) : NULL;

	if (error)
		return error;
	if (csv->spool)
		return spool_add(csv, event);
	if (event->arg_count > csv->columns)
		return probe_error_new(PROBE_ERROR_FORMAT,
			"%s:%s has more arguments (%zu) than there are columns (%zu)",
			event->provider, event->name, event->arg_count, csv->columns);
	add_header(csv);
	add_line(csv->out, event);
	add_end(csv, event->arg_count);
	return NULL;
}

static struct probe_error *csv_finish(void *state, bool *done_ret)
{
	struct csv_export *csv = state;

	add_header(csv);
	*done_ret = !csv->spool;
	return csv->spool ? spool_take(csv, done_ret) : NULL;
}

const struct export_format export_csv = {
	.names = {"csv"},
	.create = csv_create,
	.free = csv_free,
	.event = csv_event,
	.finish = csv_finish,
};

/* ==== JSON ==================================================================================== */

/* JSON: an object a line, by the code of `probectl trace --json`. */

enum { KNOWN = 64 };

/* The meaning of a probe, for events with the same `texts`. */
struct known_probe {
	uint64_t texts; /* `texts` of the event with the names; 0 if the entry is free */
	const char *provider, *name;
	size_t arg_count;
	const struct probe_meaning *meaning;
};

struct json_export {
	struct format_context *context;
	const struct probe_catalogue *catalogue;
	struct known_probe known[KNOWN];
};

static struct probe_error *json_create(
	const struct export_settings *settings, struct format_context *context, void **ret)
{
	struct json_export *json = calloc(1, sizeof(*json));

	if (!json)
		return probe_error_no_memory();
	json->context = context;
	json->catalogue = settings->options->catalogue;
	*ret = json;
	return NULL;
}

static struct probe_hit hit_of(const struct probe_event *event)
{
	return (struct probe_hit){.time_ns = event->time_ns,
		.pid = event->pid,
		.tid = event->tid,
		.cpu = event->cpu,
		.pc = event->pc,
		.args = event->args,
		.arg_count = event->arg_count,
		.stack = event->stack};
}

/* An event's probe, with its arguments' names if needed. */
static struct probe_session_probe probe_of(
	struct json_export *json, const struct probe_event *event)
{
	struct known_probe *known = &json->known[(uintptr_t)event->name / 8 % KNOWN];
	struct probe_session_probe probe = {.provider = event->provider, .name = event->name};
	bool any = false;

	for (size_t i = 0; i < event->arg_count; i++) {
		const struct probe_value *value = &event->args[i];

		any |= value_has_known_text(value);
		if (i < PROBE_ARGS_MAX)
			probe.args[i] = (unsigned char)(value->number ? value->number - 1U : i);
	}
	if (!any || !json->catalogue)
		return probe;
	if (!known->texts || known->texts != event->texts || known->name != event->name ||
		known->provider != event->provider || known->arg_count != event->arg_count)
		*known = (struct known_probe){event->texts, event->provider, event->name,
			event->arg_count,
			probe_catalogue_find(
				json->catalogue, event->provider, event->name, event->arg_count)};
	probe.meaning = known->meaning;
	return probe;
}

static struct probe_error *json_event(void *state, const struct probe_event *event)
{
	struct json_export *json = state;
	const struct probe_session_probe probe = probe_of(json, event);
	struct probe_session_probe begin_probe;
	struct probe_hit hit = hit_of(event), begin;

	if (event->kind == PROBE_EVENT_LOST) {
		format_json.lost(json->context, &probe, event->lost);
	} else if (!event->begin) {
		format_json.hit(json->context, &hit, &probe, event->comm);
	} else {
		begin = hit_of(event->begin);
		begin_probe = probe_of(json, event->begin);
		hit.begin = &begin;
		hit.duration_ns = event->duration_ns;
		format_json.span(json->context, &hit, &begin_probe, &probe, event->comm);
	}
	return NULL;
}

static struct probe_error *json_finish(void *state, bool *done_ret)
{
	(void)state;
	*done_ret = true;
	return NULL;
}

const struct export_format export_json = {
	.names = {"json", "ndjson"},
	.create = json_create,
	.free = free,
	.event = json_event,
	.finish = json_finish,
};
