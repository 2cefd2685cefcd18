/* SPDX-License-Identifier: MIT */
/*
 * Parses command lines by table. getopt_long(3) does not tell where `--` is, and the program to run
 * comes after it.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/records.h"
#include "cli/options.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/nearest.h"

/* ---- Values ----------------------------------------------------------------- */

/* Parses digits. Returns false if there are no digits, or if the number overflows. */
static bool take_digits(const char **at, uint64_t *ret)
{
	uint64_t value = 0;

	if (!isdigit((unsigned char)**at))
		return false;
	for (; isdigit((unsigned char)**at); ++*at) {
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, (uint64_t)(**at - '0'), &value))
			return false;
	}
	*ret = value;
	return true;
}

struct probe_error *parse_number(const char *text, uint64_t *ret)
{
	const char *at = text;

	if (!take_digits(&at, ret) || *at)
		return usage_error("'%s' is not a number (expected e.g. 100)", text);
	return NULL;
}

struct unit {
	const char *name;
	uint64_t factor;
};

/*
 * Parses the fraction of a number with a unit: ".5" seconds are 500,000,000. At most nine digits.
 */
static bool take_fraction(const char **at, uint64_t factor, uint64_t *ret)
{
	uint64_t value = 0, scale = 1;
	int digits = 0;

	++*at;
	for (; isdigit((unsigned char)**at); ++*at) {
		if (++digits > 9)
			return false;
		value = value * 10 + (uint64_t)(**at - '0');
		scale *= 10;
	}
	/* The product may need 72 bits: 10^9 times the 3.6 * 10^12 ns of an hour. */
	*ret = (uint64_t)((unsigned __int128)value * factor / scale);
	return digits > 0;
}

/* Parses a number with a unit; the number may have a fraction. Returns false for any other text. */
static bool take_quantity(const char *text, const struct unit *units, size_t count, uint64_t *ret)
{
	uint64_t whole = 0, fraction = 0, factor = 0;
	const char *at = text, *unit;

	if (!take_digits(&at, &whole))
		return false;
	unit = at;
	if (*unit == '.')
		unit += 1 + strspn(unit + 1, "0123456789");
	for (size_t i = 0; i < count; i++)
		if (strcmp(units[i].name, unit) == 0)
			factor = units[i].factor;
	if (factor == 0 || (*at == '.' && !take_fraction(&at, factor, &fraction)))
		return false;
	return !__builtin_mul_overflow(whole, factor, ret) &&
	       !__builtin_add_overflow(*ret, fraction, ret);
}

struct probe_error *parse_duration(const char *text, uint64_t *ns_ret)
{
	static const struct unit units[] = {
		{"", 1000000000},
		{"ns", 1},
		{"us", 1000},
		{"ms", 1000000},
		{"s", 1000000000},
		{"m", 60 * UINT64_C(1000000000)},
		{"h", 3600 * UINT64_C(1000000000)},
	};

	/* With this limit, adding the duration to the time of any clock does not overflow. */
	if (!take_quantity(text, units, sizeof(units) / sizeof(units[0]), ns_ret) ||
		*ns_ret > INT64_MAX)
		return usage_error(
			"'%s' is not a duration (expected e.g. 2, 1.5s, 500ms, 3m)", text);
	return NULL;
}

struct probe_error *parse_size(const char *text, uint64_t *bytes_ret)
{
	static const struct unit units[] = {
		{"", 1},
		{"k", 1 << 10},
		{"K", 1 << 10},
		{"m", 1 << 20},
		{"M", 1 << 20},
		{"g", 1 << 30},
		{"G", 1 << 30},
	};

	if (!take_quantity(text, units, sizeof(units) / sizeof(units[0]), bytes_ret))
		return usage_error(
			"'%s' is not a size (expected bytes, or e.g. 64k, 1M, 2G)", text);
	return NULL;
}

struct probe_error *options_add_pid(struct pid_list *pids, pid_t pid)
{
	for (size_t i = 0; i < pids->count; i++) {
		if (pids->items[i] == pid)
			return NULL;
	}
	if (!ARRAY_ROOM(pids->items, pids->count))
		return probe_error_no_memory();
	pids->items[pids->count++] = pid;
	return NULL;
}

static struct probe_error *parse_pids(const char *text, struct pid_list *pids)
{
	const char *at = text;

	for (;;) {
		struct probe_error *error;
		uint64_t pid;

		if (!take_digits(&at, &pid) || pid == 0 || pid > INT32_MAX || (*at && *at != ','))
			return usage_error(
				"'%s' is not a process id (expected e.g. 123 or 123,456)", text);
		error = options_add_pid(pids, (pid_t)pid);
		if (error || !*at)
			return error;
		at++;
	}
}

struct probe_error *options_catalogue(struct pattern_list *patterns)
{
	return patterns->catalogue ? NULL : catalogue_open(NULL, &patterns->catalogue);
}

static struct probe_error *add_pattern(struct pattern_list *patterns, const char *text)
{
	struct probe_pattern *pattern;
	struct probe_error *error = NULL;
	AUTO_FREE char *plain = NULL;

	if (patterns->named && strchr(text, '('))
		error = options_catalogue(patterns);
	error = error ?: probe_pattern_parse_named(text, patterns->catalogue, &pattern);
	/* Replace it by an equivalent pattern without names from the catalogue. */
	if (!error && patterns->plain) {
		error = probe_pattern_plain_text(pattern, &plain);
		probe_pattern_free(pattern);
		error = error ?: probe_pattern_parse_named(plain, patterns->catalogue, &pattern);
	}
	if (error)
		return error;
	if (!ARRAY_ROOM(patterns->items, patterns->count)) {
		probe_pattern_free(pattern);
		return probe_error_no_memory();
	}
	patterns->items[patterns->count++] = pattern;
	return NULL;
}

enum { LINE_BYTES = 8192 /* of a list of PROBEs */ };

/* Adds each line of a file as a PROBE, except empty lines and comments. */
static struct probe_error *add_file(struct pattern_list *patterns, const char *path)
{
	AUTO_FILE FILE *file = fopen(path, "re");
	struct probe_error *error = NULL;
	char line[LINE_BYTES];

	if (!*path)
		return usage_error("'@' needs the name of a file: @FILE");
	for (size_t number = 1; file && !error && fgets(line, sizeof(line), file); number++) {
		const char *start = line + strspn(line, " \t\r\n");
		size_t length = strlen(start);

		if (!strchr(line, '\n') && !feof(file))
			return usage_error(
				"%s:%zu: the line is no PROBE: it has a zero byte, or more than %d "
				"bytes",
				path, number, LINE_BYTES);
		while (length && strchr(" \t\r\n", start[length - 1]))
			length--;
		line[(size_t)(start - line) + length] = '\0';
		if (*start && *start != '#')
			error = probe_error_prefix(
				add_pattern(patterns, start), "%s:%zu", path, number);
	}
	if (!file || ferror(file))
		return probe_error_first(error, probe_error_system(errno, "%s", path));
	return error;
}

struct probe_error *options_add_pattern(struct pattern_list *patterns, const char *text)
{
	return patterns->files && *text == '@' ? add_file(patterns, text + 1)
					       : add_pattern(patterns, text);
}

struct probe_error *options_add_operand(struct common_options *common, const char *text)
{
	if (common->pids.count && *text && !text[strspn(text, "0123456789,")])
		return usage_error(
			"'%s' is no PROBE; several process ids are one value, as in -p %d,%s", text,
			(int)common->pids.items[0], text);
	return options_add_pattern(&common->patterns, text);
}

struct probe_error *options_add_operands(struct common_options *common, size_t first)
{
	struct probe_error *error = NULL;

	for (size_t i = first; i < common->operand_count && !error; i++)
		error = options_add_operand(common, common->operands[i]);
	return error;
}

/* ---- Help ----------------------------------------------------------------------- */

/* Returns the name of the option's value in the help, or NULL if the option takes no value. */
static const char *value_name(const struct option_row *row)
{
	static const char *const names[] = {
		[OPTION_FLAG] = NULL,
		[OPTION_COUNTER] = NULL,
		[OPTION_STRING] = "TEXT",
		[OPTION_STRINGS] = "TEXT",
		[OPTION_OPTIONAL] = "TEXT",
		[OPTION_NUMBER] = "N",
		[OPTION_DURATION] = "TIME",
		[OPTION_SIZE] = "SIZE",
		[OPTION_PIDS] = "PID",
		[OPTION_PATTERN] = "PROBE",
	};

	return row->value ? row->value : names[row->kind];
}

static void print_row(const struct option_row *row)
{
	const char *value = value_name(row);
	char left[64];
	int length = 0;

	if (row->letter)
		length = snprintf(left, sizeof(left), "-%c%s", row->letter, row->name ? ", " : "");
	else
		length = snprintf(left, sizeof(left), "    ");
	if (row->name)
		length += snprintf(left + length, sizeof(left) - (size_t)length, "--%s", row->name);
	if (value)
		snprintf(left + length, sizeof(left) - (size_t)length,
			row->kind == OPTION_OPTIONAL ? "[=%s]" : " %s", value);
	printf("  %-24s  %s\n", left, row->help);
}

/* ---- Options ---------------------------------------------------------------------- */

struct parser {
	const struct command_line *line;
	const char *command;
	int argc;
	char **argv;
	int at; /* index in argv of the next argument */
	struct common_options *common;
};

static struct probe_error *wrong_option(
	const struct parser *parser, const char *what, const char *option)
{
	return usage_error("%s '%s' (see 'probectl %s --help')", what, option, parser->command);
}

static struct probe_error *set_option(const struct option_row *row, const char *value)
{
	struct string_list *strings = row->target;

	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)row->target = true;
		return NULL;
	case OPTION_COUNTER:
		++*(unsigned int *)row->target;
		return NULL;
	case OPTION_STRING:
		*(const char **)row->target = value;
		return NULL;
	case OPTION_OPTIONAL:
		*(const char **)row->target = value ? value : "";
		return NULL;
	case OPTION_STRINGS:
		if (!ARRAY_ROOM(strings->items, strings->count))
			return probe_error_no_memory();
		strings->items[strings->count++] = value;
		return NULL;
	case OPTION_NUMBER:
		return parse_number(value, row->target);
	case OPTION_DURATION:
		return parse_duration(value, row->target);
	case OPTION_SIZE:
		return parse_size(value, row->target);
	case OPTION_PIDS:
		return parse_pids(value, row->target);
	case OPTION_PATTERN:
		return options_add_pattern(row->target, value);
	}
	return NULL;
}

/*
 * Applies an option, whose name in messages is `shown`. `attached` is a value in the same argument;
 * if it is NULL, a value that the option needs is the next argument.
 */
static struct probe_error *apply(struct parser *parser, const struct option_row *row,
	const char *shown, const char *attached)
{
	struct probe_error *error;

	if (value_name(row) && !attached && row->kind != OPTION_OPTIONAL) {
		if (parser->at == parser->argc)
			return usage_error(
				"option '%s' needs a value: %s %s (see 'probectl %s --help')",
				shown, shown, value_name(row), parser->command);
		attached = parser->argv[parser->at++];
	}
	error = set_option(row, attached);
	/* The error for a PROBE already names the PROBE, so it gets no prefix. */
	return row->kind == OPTION_PATTERN ? error : probe_error_prefix(error, "%s", shown);
}

/* Returns the error for an unknown option, which is "--" and a name of `length` bytes. */
static struct probe_error *unknown_option(
	const struct parser *parser, const char *argument, size_t length)
{
	struct nearest nearest = {0};
	char name[NEAREST_COMPARED_MAX + 1];

	snprintf(name, sizeof(name), "%.*s", (int)length, argument + 2);
	if (parser->line->no_follow && strcmp(name, "follow") == 0)
		return usage_error("--follow: %s", parser->line->no_follow);
	for (size_t i = 0; i < parser->line->row_count; i++)
		if (parser->line->rows[i].name)
			nearest_consider(&nearest, name, parser->line->rows[i].name);
	if (!nearest.name)
		return wrong_option(parser, "unknown option", argument);
	return usage_error("unknown option '%s'; the nearest is '--%s' (see 'probectl %s --help')",
		argument, nearest.name, parser->command);
}

static struct probe_error *parse_long(struct parser *parser, char *argument)
{
	const char *name = argument + 2, *equals = strchr(name, '=');
	size_t length = equals ? (size_t)(equals - name) : strlen(name);

	if (strcmp(argument, "--help") == 0) {
		parser->common->helped = true;
		return NULL;
	}
	for (size_t i = 0; i < parser->line->row_count; i++) {
		const struct option_row *row = &parser->line->rows[i];
		char shown[64];

		if (!row->name || strncmp(row->name, name, length) != 0 || row->name[length])
			continue;
		snprintf(shown, sizeof(shown), "--%s", row->name);
		if (equals && !value_name(row))
			return wrong_option(parser, "this option takes no value:", argument);
		return apply(parser, row, shown, equals ? equals + 1 : NULL);
	}
	return unknown_option(parser, argument, length);
}

/* Parses one argument that consists of option letters: `-vv`, `-p1`, `-vp 1`. */
static struct probe_error *parse_letters(struct parser *parser, const char *argument)
{
	for (const char *at = argument + 1; *at; at++) {
		const struct option_row *row = NULL;
		char shown[3] = {'-', *at, '\0'};
		struct probe_error *error;
		bool takes_rest;

		for (size_t i = 0; i < parser->line->row_count && !row; i++)
			if (parser->line->rows[i].letter == *at)
				row = &parser->line->rows[i];
		if (!row && *at == 'h') {
			parser->common->helped = true;
			return NULL;
		}
		if (!row)
			return wrong_option(parser, "unknown option", shown);
		takes_rest = value_name(row) && at[1];
		error = apply(parser, row, shown, takes_rest ? at + 1 : NULL);
		if (error || takes_rest)
			return error;
	}
	return NULL;
}

struct probe_error *options_parse(
	const struct command_line *line, int argc, char **argv, struct common_options *common)
{
	struct parser parser = {line, argv[0], argc, argv, 1, common};

	common->command = argv[0];
	common->operands = argv + 1;
	while (parser.at < argc && !common->helped) {
		char *argument = argv[parser.at++];
		struct probe_error *error = NULL;

		if (strcmp(argument, "--") == 0) {
			common->program = argv + parser.at;
			break;
		}
		if (strncmp(argument, "--", 2) == 0)
			error = parse_long(&parser, argument);
		else if (argument[0] == '-' && argument[1])
			error = parse_letters(&parser, argument);
		else
			common->operands[common->operand_count++] = argument;
		if (error)
			return error;
	}
	if (!common->helped)
		return NULL;
	printf("usage: probectl %s\n\n%s\nOptions:\n", line->synopsis, line->help);
	for (size_t i = 0; i < line->row_count; i++)
		print_row(&line->rows[i]);
	print_row(&(struct option_row){
		.letter = 'h', .name = "help", .kind = OPTION_FLAG, .help = "print this help"});
	return NULL;
}

struct probe_error *options_run(
	const struct command_line *line, int argc, char **argv, int *status_ret)
{
	struct common_options *common = line->common;
	struct probe_error *error;

	common->patterns.files = true;
	error = options_parse(line, argc, argv, common);

	if (!error && common->program && !common->helped && !line->starts_program)
		error = usage_error(
			"%s takes no program; `probectl run` starts one", common->command);
	if (!error && !common->helped)
		error = line->run(line->data, status_ret);
	options_deinit(common);
	return error;
}

void options_free_patterns(struct pattern_list *patterns)
{
	for (size_t i = 0; i < patterns->count; i++)
		probe_pattern_free(patterns->items[i]);
	free(patterns->items);
	probe_catalogue_free(patterns->catalogue);
	*patterns = (struct pattern_list){0};
}

void options_deinit(struct common_options *common)
{
	options_free_patterns(&common->patterns);
	free(common->pids.items);
	free(common->parents.items);
	free(common->trees.items);
	for (int kind = 0; kind < PROBE_CONDITION_COUNT; kind++)
		free(common->conditions[kind].items);
	probe_processes_free(common->meant);
	*common = (struct common_options){0};
}
