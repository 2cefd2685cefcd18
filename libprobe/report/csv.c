/* SPDX-License-Identifier: MIT */
/*
 * CSV (RFC 4180): a header, and one line for each hit and each loss.
 *
 *	ts,pid,tid,cpu,comm,provider,name,pc,lost,truncated,arg0,arg1 ...
 *
 * All lines have as many columns as the widest hit has arguments. If it is not known
 * how many those are, the lines wait in a file without a name ($TMPDIR, else /tmp),
 * each with its length and how many arguments it has, and are filled up at the end.
 *
 * Fields that are not known are empty. A loss has its number in `lost`, a hit nothing;
 * `truncated` names the arguments that were cut. Text is UTF-8; other bytes become U+FFFD, and
 * so do control characters except tabs and ends of lines (RFC 4180 has none): the file may be
 * shown in a terminal. A spreadsheet takes a cell that begins with =, +, -, @ or a tab for a
 * formula and computes it: a text of the program that begins so gets a ' before it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/report/report.h"
#include "libprobe/base/utf8.h"

enum { OUT_BYTES = 256 << 10 };

struct csv_export {
	struct buffer *out;
	size_t columns; /* for arguments */
	struct buffer line;
	FILE *spool; /* NULL: columns are known */
	bool has_header, rewound;
};

/* Of a line in the spool. */
struct spooled {
	uint32_t length, args;
};

/* ---- Lines ------------------------------------------------------------------------------ */

/* The length of the text's start that is as it is: most texts as a whole. */
static size_t plain_length(const char *text, size_t length)
{
	size_t i = 0;

	while (i < length && text[i] >= ' ' && text[i] < 0x7f && text[i] != '"')
		i++;
	return i;
}

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
		size_t plain = plain_length(text + i, length - i), n;

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

static void add_truncated(struct buffer *out, const struct probe_event *event)
{
	bool any = false;

	buffer_char(out, ',');
	for (size_t i = 0; i < event->arg_count; i++) {
		if (!event->args[i].truncated)
			continue;
		buffer_string(out, any ? " arg" : "arg");
		buffer_unsigned(out, i);
		any = true;
	}
}

static void add_args(struct buffer *out, const struct probe_event *event)
{
	for (size_t i = 0; i < event->arg_count; i++) {
		const struct probe_value *value = &event->args[i];

		buffer_char(out, ',');
		if (value->kind == PROBE_VALUE_STRING || value->kind == PROBE_VALUE_TEXT)
			add_text(out, value->bytes, value->length);
		else
			export_value_text(out, value);
	}
}

/* Without what fills it up, and without its end. */
static void add_line(struct buffer *out, const struct probe_event *event)
{
	bool is_hit = event->kind == PROBE_EVENT_HIT;

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
	add_truncated(out, event);
	add_args(out, event);
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
	char *path = NULL;
	int fd;

	if (asprintf(&path, "%s/probectl.XXXXXX", folder && *folder ? folder : "/tmp") < 0)
		return probe_error_no_memory();
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	free(path);
	*ret = fd < 0 ? NULL : fdopen(fd, "w+");
	if (*ret)
		return NULL;
	if (fd >= 0)
		close(fd);
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

/* Some lines; none is left where *done_ret is true. */
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
	if (csv->line.c_locale)
		buffer_deinit(&csv->line);
	free(csv);
}

static struct probe_error *csv_create(
	const struct export_settings *settings, struct buffer *out, void **ret)
{
	struct csv_export *csv = calloc(1, sizeof(*csv));
	struct probe_error *error = NULL;

	if (!csv)
		return probe_error_no_memory();
	csv->out = out;
	csv->columns = settings->options->columns;
	if (!csv->columns)
		error = buffer_init(&csv->line) ? spool_open(&csv->spool) : probe_error_no_memory();
	if (error) {
		csv_free(csv);
		return error;
	}
	*ret = csv;
	return NULL;
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
