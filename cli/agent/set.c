/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/agent/set.h"
#include "cli/agent/words.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"

struct parser {
	const char *path;
	unsigned int line; /* the first of those that a backslash has joined */
	struct agent_set *set;
};

static struct probe_error *mistake(const struct parser *p, const char *format, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull, warn_unused_result));

static struct probe_error *mistake(const struct parser *p, const char *format, ...)
{
	AUTO_FREE char *why = NULL;
	va_list ap;
	int length;

	va_start(ap, format);
	length = vasprintf(&why, format, ap);
	va_end(ap);
	if (length < 0) {
		why = NULL;
		return probe_error_no_memory();
	}
	return probe_error_new(PROBE_ERROR_FORMAT, "%s:%u: %s", p->path, p->line, why);
}

/* ---- Lines ------------------------------------------------------------------ */

static struct set_entry *last_entry(const struct agent_set *set)
{
	return set->count ? &set->items[set->count - 1] : NULL;
}

/* What has been read of the last session, once all of it has. */
static struct probe_error *check_last(const struct parser *p)
{
	const struct set_entry *entry = last_entry(p->set);

	if (entry && !entry->words)
		return mistake(p, "[%s] above has no line 'command = ...'", entry->name);
	return NULL;
}

/* [NAME] */
static struct probe_error *take_section(struct parser *p, char *line)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t length = strspn(line + 1, allowed);
	struct probe_error *error = check_last(p);

	if (error)
		return error;
	if (!length || length >= SET_NAME_BYTES || strcmp(line + 1 + length, "]") != 0)
		return mistake(p,
			"expected [NAME], of letters, digits, '-', '_' and '.', up to %d bytes",
			SET_NAME_BYTES - 1);
	line[1 + length] = '\0';
	for (size_t i = 0; i < p->set->count; i++)
		if (strcmp(p->set->items[i].name, line + 1) == 0)
			return mistake(p, "there are two sessions [%s]", line + 1);
	if (p->set->count == SET_SESSIONS)
		return mistake(p, "there are more than %d sessions", SET_SESSIONS);
	if (!ARRAY_ROOM(p->set->items, p->set->count))
		return probe_error_no_memory();
	p->set->items[p->set->count++] = (struct set_entry){.name = strdup(line + 1)};
	return last_entry(p->set)->name ? NULL : probe_error_no_memory();
}

static struct probe_error *take_command(
	struct parser *p, struct set_entry *entry, const char *value)
{
	const char *wrong;

	if (entry->words)
		return mistake(p, "[%s] has two commands", entry->name);
	wrong = words_split(value, &entry->words, &entry->word_count);
	if (wrong)
		return mistake(p, "%s", wrong);
	/* Others end at once, or need a terminal. */
	if (!entry->word_count ||
		(strcmp(entry->words[0], "trace") != 0 && strcmp(entry->words[0], "record") != 0))
		return mistake(p, "a command begins with 'trace' or 'record', without 'probectl'");
	if (!ARRAY_ROOM(entry->words, entry->word_count))
		return probe_error_no_memory();
	entry->words[entry->word_count] = NULL;
	return NULL;
}

static struct probe_error *take_output(struct parser *p, struct set_entry *entry, const char *value)
{
	char **words = NULL;
	size_t count = 0;
	const char *wrong = words_split(value, &words, &count);
	struct probe_error *error = NULL;

	if (wrong)
		error = mistake(p, "%s", wrong);
	else if (entry->output)
		error = mistake(p, "[%s] has two outputs", entry->name);
	else if (count != 1 || words[0][0] != '/')
		error = mistake(p, "an output is one file, named from the root: output = /FILE");
	else if (!(entry->output = strdup(words[0])))
		error = probe_error_no_memory();
	words_free(words, count);
	return error;
}

/* KEY = VALUE; blanks around the line are gone. */
static struct probe_error *take_key(struct parser *p, const char *line)
{
	size_t length = strcspn(line, " \t=");
	const char *value = line + length + strspn(line + length, " \t");
	struct set_entry *entry = last_entry(p->set);

	if (*value != '=')
		return mistake(p, "expected [NAME], or KEY = VALUE");
	value++;
	if (!entry)
		return mistake(p, "a [NAME] is missing above this line");
	if (length == strlen("command") && !strncmp(line, "command", length))
		return take_command(p, entry, value);
	if (length == strlen("output") && !strncmp(line, "output", length))
		return take_output(p, entry, value);
	return mistake(p, "there is no key '%.*s', only 'command' and 'output'", (int)length, line);
}

static struct probe_error *take_line(struct parser *p, char *line)
{
	size_t length;

	line += strspn(line, " \t");
	length = strlen(line);
	while (length && strchr(" \t\r", line[length - 1]))
		line[--length] = '\0';
	if (!length || line[0] == '#')
		return NULL;
	return line[0] == '[' ? take_section(p, line) : take_key(p, line);
}

/* ---- Files ------------------------------------------------------------------ */

/* Ends the line at its newline, after joining it with those that follow a backslash. */
static char *cut_line(char *line, unsigned int *lines_ret)
{
	char *end = strchr(line, '\n');

	for (*lines_ret = 1; end && end > line && end[-1] == '\\'; ++*lines_ret) {
		end[-1] = end[0] = ' ';
		end = strchr(end, '\n');
	}
	if (!end)
		return line + strlen(line);
	*end = '\0';
	return end + 1;
}

struct probe_error *set_parse(
	const char *path, const char *text, size_t length, struct agent_set *ret)
{
	AUTO_FREE char *copy = malloc(length + 1);
	struct parser p = {.path = path, .line = 1, .set = ret};
	struct probe_error *error = NULL;
	unsigned int lines;

	if (!copy)
		return probe_error_no_memory();
	memcpy(copy, text, length);
	copy[length] = '\0';
	if (strlen(copy) != length)
		return probe_error_new(
			PROBE_ERROR_FORMAT, "%s holds a byte of zero: not text", path);
	for (char *at = copy, *next; !error && *at; at = next, p.line += lines) {
		next = cut_line(at, &lines);
		error = take_line(&p, at);
	}
	return error ? error : check_last(&p);
}

/* Who may write to it decides what we execute. */
static struct probe_error *check_trust(const char *path, const struct stat *st)
{
	bool is_root = geteuid() == 0;

	if (!S_ISREG(st->st_mode))
		return probe_error_new(PROBE_ERROR_FORMAT, "%s is not a file", path);
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"%s belongs to user %u: whoever writes it decides what is executed; "
			"'chown %u' it",
			path, (unsigned int)st->st_uid, (unsigned int)geteuid());
	/* Users often have a group of their own, with which they share nothing. */
	if (st->st_mode & (is_root ? S_IWGRP | S_IWOTH : S_IWOTH))
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"%s can be written by others, who would decide what is executed; "
			"'chmod go-w' it",
			path);
	if (st->st_size > SET_FILE_BYTES)
		return probe_error_new(PROBE_ERROR_FORMAT, "%s is larger than 1 MiB", path);
	return NULL;
}

static struct probe_error *read_bytes(int fd, const char *path, struct agent_set *ret)
{
	AUTO_FREE char *bytes = malloc(SET_FILE_BYTES + 1);
	size_t length = 0;
	ssize_t got;

	if (!bytes)
		return probe_error_no_memory();
	do {
		got = read(fd, bytes + length, SET_FILE_BYTES + 1 - length);
		length += got > 0 ? (size_t)got : 0;
	} while (got > 0);
	if (got < 0)
		return probe_error_system(errno, "cannot read %s", path);
	if (length > SET_FILE_BYTES) /* it grows */
		return probe_error_new(PROBE_ERROR_FORMAT, "%s is larger than 1 MiB", path);
	return set_parse(path, bytes, length, ret);
}

struct probe_error *set_read(const char *path, struct agent_set *ret)
{
	/* A FIFO would keep us from our sessions. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct probe_error *error;
	struct stat st;

	if (fd < 0)
		return probe_error_system(errno, "cannot open %s", path);
	if (fstat(fd, &st) < 0)
		error = probe_error_system(errno, "cannot look at %s", path);
	else
		error = check_trust(path, &st);
	if (!error)
		error = read_bytes(fd, path, ret);
	close(fd);
	return error;
}

/* ---- Entries ---------------------------------------------------------------- */

bool set_entry_same(const struct set_entry *one, const struct set_entry *other)
{
	if (one->word_count != other->word_count || !one->output != !other->output ||
		(one->output && strcmp(one->output, other->output) != 0))
		return false;
	for (size_t i = 0; i < one->word_count; i++)
		if (strcmp(one->words[i], other->words[i]) != 0)
			return false;
	return true;
}

void set_entry_deinit(struct set_entry *entry)
{
	free(entry->name);
	words_free(entry->words, entry->word_count);
	free(entry->output);
}

void set_deinit(struct agent_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		set_entry_deinit(&set->items[i]);
	free(set->items);
}
