/* SPDX-License-Identifier: MIT */
/*
 * Command lines, described by a table. The same rows serve to parse and check the command line
 * and to print the help.
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
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"
#include "probe/catalogue.h"
#include "probe/pattern.h"

/* The form of an option's value, and the type of its target. */
enum option_kind {
	OPTION_FLAG,	/* the target is a bool, set to true */
	OPTION_COUNTER, /* the target is an unsigned int, incremented each time */
	OPTION_STRING,	/* the target is a const char *, owned by argv */
	OPTION_STRINGS, /* the target is a struct string_list; may be repeated */
	/* The target is a const char *; only as --option=VALUE; "" without a value. */
	OPTION_OPTIONAL,
	OPTION_NUMBER,	 /* the target is a uint64_t; a decimal number */
	OPTION_DURATION, /* the target is a uint64_t, in nanoseconds; "2", "1.5s", "500ms", "3m" */
	OPTION_SIZE,	 /* the target is a uint64_t, in bytes; "4096", "64k", "1M", "2G" */
	OPTION_PIDS,	 /* the target is a struct pid_list; "1" or "1,2"; may be repeated */
	OPTION_PATTERN	 /* the target is a struct pattern_list; a PROBE; may be repeated */
};

struct string_list {
	const char **items; /* strings owned by argv; the array is owned by the owner of the list */
	size_t count;
};

struct pid_list {
	pid_t *items; /* process ids without duplicates, in command-line order */
	size_t count;
};

struct pattern_list {
	struct probe_pattern **items;
	size_t count;
	/* Lists of arguments may contain names from the catalogue. */
	bool named;
	/* Replace these names at once, because other processes read the lists. */
	bool plain;
	/* Catalogue for these names, opened with the first list; owned. */
	struct probe_catalogue *catalogue;
};

struct option_row {
	char letter;	  /* letter of the option; 0 if it has no letter */
	const char *name; /* name of the option without dashes; NULL if it has no name */
	enum option_kind kind;
	const char *value; /* the value's name in the help; NULL for the default of the kind */
	void *target;
	const char *help; /* what the option does, without a full stop */
};

/* The kinds of conditions on processes (cli/conditions.h). */
enum condition_kind {
	CONDITION_EXE,
	CONDITION_NAME,
	CONDITION_CGROUP,
	CONDITION_CONTAINER,
	CONDITION_USER,
	CONDITION_KINDS
};

/* The options that nearly all commands take. Initialise with {0}. */
struct common_options {
	const char *command; /* the command's name, for messages */
	struct pid_list pids;
	size_t pids_given;	 /* how many of `pids` come from -p (cli/processes.h) */
	struct pid_list parents; /* processes of --children and --tree */
	struct pid_list trees;	 /* processes of --tree */
	/* The values of --exe, --name and so on, and the conditions made from them. */
	struct string_list conditions[CONDITION_KINDS];
	struct conditions *meant;
	bool follow, no_follow; /* values of --follow and --no-follow */
	struct pattern_list patterns;
	char **operands; /* into argv: arguments before `--` that are neither option nor value */
	size_t operand_count;
	char **program; /* arguments after `--`, NULL-terminated; NULL if there is no `--` */
	bool helped;	/* the help was printed; the command must do nothing else */
};

/* A row of a table of options. `its_value` may be NULL. */
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
		"use this PROBE; the same as an operand")
#define OPTIONS_JSON(flag)                                                                         \
	OPTION(0, "json", FLAG, NULL, (flag), "print one JSON object per line")
#define OPTIONS_OUTPUT(file)                                                                       \
	OPTION('o', "output", STRING, "FILE", (file), "write to FILE instead of standard output")
#define OPTIONS_TOP(number)                                                                        \
	OPTION(0, "top", NUMBER, "N", (number),                                                    \
		"limit tables to N rows (default: 20; 0: no limit)")
#define OPTIONS_ALL(flag)                                                                          \
	OPTION('a', "all", FLAG, NULL, (flag),                                                     \
		"name every probe without hits, however many there are")
/* clang-format on */

struct command_line {
	/* The command's synopsis without "probectl ", such as "list [-v] FILE...". */
	const char *synopsis;
	const char *help; /* a few lines on the command; ends with a newline */
	const struct option_row *rows;
	size_t row_count;
	bool starts_program; /* a PROGRAM may follow `--` */
	/* NULL, or why the command has no --follow and what to use instead. */
	const char *no_follow;

	/* For options_run(): `run` is the command; it is called after `common` has been parsed. */
	struct common_options *common;
	struct probe_error *(*run)(void *data, int *status_ret);
	void *data;
};

#define OPTION_ROWS(table) .rows = (table), .row_count = sizeof(table) / sizeof((table)[0])

/*
 * Parses argv, where argv[0] is the command's name. Reorders argv: operands come first, after
 * argv[0]. `--help` and `-h` print the help and set common->helped; the caller must then
 * return.
 *
 * Operands are not interpreted: options_add_operands() parses them as PROBEs. Errors:
 * PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *options_parse(
	const struct command_line *line, int argc, char **argv, struct common_options *common);

/*
 * Executes a command: parses argv, calls line->run() unless the help was requested, and frees
 * line->common. For *status_ret and errors see cli/cli.h.
 */
PROBE_MUST_CHECK struct probe_error *options_run(
	const struct command_line *line, int argc, char **argv, int *status_ret);

/* Appends a process id unless the list already has it. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *options_add_pid(struct pid_list *pids, pid_t pid);

/* Opens the catalogue of the patterns unless it is open. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *options_catalogue(struct pattern_list *patterns);

/* Parses a text as a PROBE and appends it. */
PROBE_MUST_CHECK struct probe_error *options_add_pattern(
	struct pattern_list *patterns, const char *text);

/*
 * Parses an operand as a PROBE and appends it. Refuses a process id, which was meant as a
 * further value of -p.
 */
PROBE_MUST_CHECK struct probe_error *options_add_operand(
	struct common_options *common, const char *text);

/* Parses the operands from number `first` on as PROBEs and appends them to those of -e. */
PROBE_MUST_CHECK struct probe_error *options_add_operands(
	struct common_options *common, size_t first);

void options_free_patterns(struct pattern_list *patterns);
void options_deinit(struct common_options *common);

/* Parsers of single values. Their errors say what was expected, but do not name the option. */
PROBE_MUST_CHECK struct probe_error *parse_duration(const char *text, uint64_t *ns_ret);
PROBE_MUST_CHECK struct probe_error *parse_size(const char *text, uint64_t *bytes_ret);
PROBE_MUST_CHECK struct probe_error *parse_number(const char *text, uint64_t *ret);

#endif
