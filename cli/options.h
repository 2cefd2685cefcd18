/* SPDX-License-Identifier: MIT */
/*
 * Command lines, described by a table. We use the rows of the table to parse the command line, to
 * check it, and to print the help.
 *
 *     struct list_options { struct common_options common; bool json, verbose; };
 *     struct list_options o = {0};
 *     const struct option_row rows[] = {
 *             OPTIONS_PID(&o.common),
 *             OPTIONS_PROBE(&o.common),
 *             OPTIONS_JSON(&o.json),
 *             OPTION('v', "verbose", FLAG, NULL, &o.verbose, "show each site"),
 *     };
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "probe/catalogue.h"
#include "probe/pattern.h"
#include "probe/processes.h"

/* The form of an option's value, and the type of the target in which the value is stored. */
enum option_kind {
	OPTION_FLAG, /* the target is a bool, set to true */
	/* The target is an unsigned int; each time the option is given, it is incremented. */
	OPTION_COUNTER,
	OPTION_STRING,	/* the target is a const char *, owned by argv */
	OPTION_STRINGS, /* the target is a struct string_list; the option may be repeated */
	/*
	 * The target is a const char *. The value is given as --option=VALUE; "" if only --option
	 * is given.
	 */
	OPTION_OPTIONAL,
	OPTION_NUMBER, /* the target is a uint64_t; the value is a decimal number */
	/* The target is a uint64_t, in nanoseconds. The value is "2", "1.5s", "500ms" or "3m". */
	OPTION_DURATION,
	/* The target is a uint64_t, in bytes. The value is "4096", "64k", "1M" or "2G". */
	OPTION_SIZE,
	/*
	 * The target is a struct pid_list. The value is "1" or "1,2". The option may be repeated.
	 */
	OPTION_PIDS,
	/* The target is a struct pattern_list. The value is a PROBE. The option may be repeated. */
	OPTION_PATTERN
};

struct string_list {
	/* The strings are owned by argv. The array is owned by the owner of the list. */
	const char **items;
	size_t count;
};

struct pid_list {
	pid_t *items; /* process ids without duplicates, in command-line order */
	size_t count;
};

struct pattern_list {
	struct probe_pattern **items;
	size_t count;
	/* The arguments in a PROBE may have names from the catalogue. */
	bool named;
	/* The PROBEs are for processes without a catalogue, so names of arguments are replaced. */
	bool plain;
	bool files; /* @FILE stands for the PROBEs of a file */
	/* Catalogue for names of arguments. It is opened when the first PROBE needs it. Owned. */
	struct probe_catalogue *catalogue;
};

struct option_row {
	char letter;	  /* letter of the option, or 0 */
	const char *name; /* name of the option without dashes, or NULL */
	enum option_kind kind;
	/* Name of the value in the help; NULL for the default name of this kind. */
	const char *value;
	void *target;
	const char *help; /* what the option does; ends without a full stop */
};

/* The options that nearly all commands take. Initialise with {0}. */
struct common_options {
	const char *command; /* the command's name, for messages */
	struct pid_list pids;
	/* Number of elements of `pids` that come from -p (cli/processes.h). */
	size_t pids_given;
	struct pid_list parents; /* processes of --children and --tree */
	struct pid_list trees;	 /* processes of --tree */
	/* The values of --exe, --name and so on, and the conditions made from them. */
	struct string_list conditions[PROBE_CONDITION_COUNT];
	struct probe_processes *meant;
	bool follow, no_follow; /* values of --follow and --no-follow */
	bool only_later;	/* value of --new */
	struct pattern_list patterns;
	/* Arguments before `--` that are not options or their values. Points into argv. */
	char **operands;
	size_t operand_count;
	char **program; /* arguments after `--`, NULL-terminated; NULL if there is no `--` */
	bool helped;	/* the help was printed, so the command must do nothing else */
};

/* Makes a row of a table of options. `its_value` may be NULL. */
#define OPTION(its_letter, its_name, its_kind, its_value, its_target, its_help)                    \
	{                                                                                          \
		.letter = (its_letter), .name = (its_name), .kind = OPTION_##its_kind,             \
		.value = (its_value), .target = (its_target), .help = (its_help)                   \
	}

/* clang-format off */
/* Rows for options that several commands share. */
#define OPTIONS_PID(common)                                                                        \
	OPTION('p', "pid", PIDS, NULL, &(common)->pids,                                            \
		"use these processes: -p 1,2 or -p 1 -p 2")
#define OPTIONS_PROBE(common)                                                                      \
	OPTION('e', "probe", PATTERN, NULL, &(common)->patterns,                                   \
		"use this PROBE, or with @FILE those of a file; the same as an operand")
#define OPTIONS_JSON(flag)                                                                         \
	OPTION(0, "json", FLAG, NULL, (flag), "print one JSON object per line")
#define OPTIONS_OUTPUT(file)                                                                       \
	OPTION('o', "output", STRING, "FILE", (file), "write to FILE instead of standard output (-)")
#define OPTIONS_TOP(number)                                                                        \
	OPTION(0, "top", NUMBER, "N", (number),                                                    \
		"limit tables to N rows (default: 20; 0: no limit)")
#define OPTIONS_ALL(flag)                                                                          \
	OPTION('a', "all", FLAG, NULL, (flag),                                                     \
		"name every probe without hits, however many there are")
/* clang-format on */

struct command_line {
	/* The command and its arguments, without "probectl ": "list [-v] FILE...". */
	const char *synopsis;
	const char *help; /* describes the command in a few lines; ends with a newline */
	const struct option_row *rows;
	size_t row_count;
	bool starts_program; /* `--` and a PROGRAM may follow the operands */
	/* Why the command has no --follow, and what to use instead. NULL if it has --follow. */
	const char *no_follow;

	/* For options_run(). `run` is the command. It is called after `common` has been parsed. */
	struct common_options *common;
	struct probe_error *(*run)(void *data, int *status_ret);
	void *data;
};

#define OPTION_ROWS(table) .rows = (table), .row_count = sizeof(table) / sizeof((table)[0])

/*
 * Parses argv, whose first element is the command's name, and moves the operands to the elements
 * after it. `--help` and `-h` print the help and set common->helped; the caller must then return.
 *
 * Does not interpret the operands: see options_add_operands(). Errors: PROBE_ERROR_USAGE,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *options_parse(
	const struct command_line *line, int argc, char **argv, struct common_options *common);

/*
 * Executes a command: parses argv, calls line->run() unless help was requested, frees line->common.
 * *status_ret and errors: those of a command (cli/cli.h).
 */
PROBE_MUST_CHECK struct probe_error *options_run(
	const struct command_line *line, int argc, char **argv, int *status_ret);

/* Appends a process id if the list does not have it yet. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *options_add_pid(struct pid_list *pids, pid_t pid);

/* Opens the catalogue of the patterns if it is not open yet. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *options_catalogue(struct pattern_list *patterns);

/* Parses a text as a PROBE, or the lines of @FILE as PROBEs, and appends them. */
PROBE_MUST_CHECK struct probe_error *options_add_pattern(
	struct pattern_list *patterns, const char *text);

/*
 * Parses an operand as a PROBE and appends it. A number is an error: the user probably meant it as
 * another process id for -p.
 */
PROBE_MUST_CHECK struct probe_error *options_add_operand(
	struct common_options *common, const char *text);

/* Parses the operands from number `first` on as PROBEs, and appends them to those of -e. */
PROBE_MUST_CHECK struct probe_error *options_add_operands(
	struct common_options *common, size_t first);

void options_free_patterns(struct pattern_list *patterns);
void options_deinit(struct common_options *common);

/* Parsers of single values. The caller must add the option's name to their errors. */
PROBE_MUST_CHECK struct probe_error *parse_duration(const char *text, uint64_t *ns_ret);
PROBE_MUST_CHECK struct probe_error *parse_size(const char *text, uint64_t *bytes_ret);
PROBE_MUST_CHECK struct probe_error *parse_number(const char *text, uint64_t *ret);
