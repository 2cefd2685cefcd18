/* SPDX-License-Identifier: MIT */
/*
 * The command line, described by a table: parsed, checked and printed as help
 * from the same rows.
 *
 *	struct list_options { struct common_options common; bool json, verbose; };
 *	struct list_options o = {0};
 *	const struct option_row rows[] = {
 *		OPTIONS_PID(&o.common),
 *		OPTIONS_PROBE(&o.common),
 *		OPTIONS_JSON(&o.json),
 *		OPTION('v', "verbose", FLAG, NULL, &o.verbose, "show each site"),
 *	};
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
	OPTION_FLAG,	 /* bool: set to true */
	OPTION_COUNTER,	 /* unsigned int: one more each time */
	OPTION_STRING,	 /* const char *: as it is; owned by argv */
	OPTION_STRINGS,	 /* struct string_list: as they are; may be repeated */
	OPTION_OPTIONAL, /* const char *: only with = in the same argument; else "" */
	OPTION_NUMBER,	 /* uint64_t: decimal */
	OPTION_DURATION, /* uint64_t: nanoseconds; "2", "1.5s", "500ms", "3m" */
	OPTION_SIZE,	 /* uint64_t: bytes; "4096", "64k", "1M", "2G" */
	OPTION_PIDS,	 /* struct pid_list: "1" or "1,2"; may be repeated */
	OPTION_PATTERN	 /* struct pattern_list: a PROBE; may be repeated */
};

struct string_list {
	const char **items; /* each owned by argv; the array by the owner of the list */
	size_t count;
};

struct pid_list {
	pid_t *items; /* each once, in the order given */
	size_t count;
};

struct pattern_list {
	struct probe_pattern **items;
	size_t count;
	bool named;			   /* lists of arguments may have names of the catalogue */
	bool plain;			   /* ... which are replaced at once: others read them */
	struct probe_catalogue *catalogue; /* with `named`, once there was a list; owned */
};

struct option_row {
	char letter;	  /* or 0 */
	const char *name; /* without dashes, or NULL */
	enum option_kind kind;
	const char *value; /* the value's name in the help; NULL: that of its kind */
	void *target;
	const char *help; /* what it does, without a full stop */
};

/* What processes may have to be (cli/conditions.h). */
enum condition_kind {
	CONDITION_EXE,
	CONDITION_NAME,
	CONDITION_CGROUP,
	CONDITION_CONTAINER,
	CONDITION_USER,
	CONDITION_KINDS
};

/* What nearly every command takes. Initialise with {0}. */
struct common_options {
	const char *command; /* its name, for messages */
	struct pid_list pids;
	size_t pids_given;	 /* how many of them are from -p: see cli/processes.h */
	struct pid_list parents; /* --children and --tree */
	struct pid_list trees;	 /* --tree */
	/* --exe, --name and so on: one of each kind that has any; and what was made of them. */
	struct string_list conditions[CONDITION_KINDS];
	struct conditions *meant;
	bool follow, no_follow; /* likewise */
	struct pattern_list patterns;
	char **operands; /* into argv: what is neither option nor value, up to `--` */
	size_t operand_count;
	char **program; /* what follows `--`, ends with NULL; NULL if there was no `--` */
	bool helped;	/* the help was requested and printed: nothing else is to be done */
};

/* A row of a table; `value` may be NULL. */
#define OPTION(its_letter, its_name, its_kind, its_value, its_target, its_help)                    \
	{                                                                                          \
		.letter = (its_letter), .name = (its_name), .kind = OPTION_##its_kind,             \
		.value = (its_value), .target = (its_target), .help = (its_help)                   \
	}

/* clang-format off */
/* Of several commands. */
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
	const char *synopsis; /* without "probectl ", e.g. "list [-v] FILE..." */
	const char *help;     /* some lines on what the command does; ends with a newline */
	const struct option_row *rows;
	size_t row_count;
	bool starts_program;   /* PROGRAM may follow `--` */
	const char *no_follow; /* why there is no --follow, and what to use; or NULL */

	/* For options_run(): runs the command, once `common` has been parsed. */
	struct common_options *common;
	struct probe_error *(*run)(void *data, int *status_ret);
	void *data;
};

#define OPTION_ROWS(table) .rows = (table), .row_count = sizeof(table) / sizeof((table)[0])

/*
 * Parses argv (argv[0] is the command's name), which is reordered: operands
 * come to its front, after argv[0]. `--help` and `-h` print the help and set
 * common->helped; the caller is then to return.
 *
 * Operands stay as they are: options_add_operands() makes PROBEs of them.
 * Errors: PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *options_parse(
	const struct command_line *line, int argc, char **argv, struct common_options *common);

/*
 * A command from its line to its end: parses, runs it unless help was asked for, and gives back
 * line->common. For *status_ret and errors see cli/cli.h.
 */
PROBE_MUST_CHECK struct probe_error *options_run(
	const struct command_line *line, int argc, char **argv, int *status_ret);

/* Appends a process, once. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *options_add_pid(struct pid_list *pids, pid_t pid);

/* Opens the catalogue of the patterns, once. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *options_catalogue(struct pattern_list *patterns);

/* Parses one operand as a PROBE. */
PROBE_MUST_CHECK struct probe_error *options_add_pattern(
	struct pattern_list *patterns, const char *text);

/* The same for an operand; a further process id is refused, as it was meant for -p. */
PROBE_MUST_CHECK struct probe_error *options_add_operand(
	struct common_options *common, const char *text);

/* Parses the operands from number `first` on as PROBEs, after those of -e. */
PROBE_MUST_CHECK struct probe_error *options_add_operands(
	struct common_options *common, size_t first);

void options_free_patterns(struct pattern_list *patterns);
void options_deinit(struct common_options *common);

/* The parsers of single values. The errors say what was expected, but do not name the option. */
PROBE_MUST_CHECK struct probe_error *parse_duration(const char *text, uint64_t *ns_ret);
PROBE_MUST_CHECK struct probe_error *parse_size(const char *text, uint64_t *bytes_ret);
PROBE_MUST_CHECK struct probe_error *parse_number(const char *text, uint64_t *ret);

#endif
