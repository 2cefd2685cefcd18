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
 *		{.letter = 'v', .name = "verbose", .kind = OPTION_FLAG, .target = &o.verbose,
 *		 .help = "show each site"},
 *	};
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"
#include "probe/pattern.h"

/* What an option's value is, and of which type its target. */
enum option_kind {
	OPTION_FLAG,	 /* bool: set to true */
	OPTION_COUNTER,	 /* unsigned int: one more each time */
	OPTION_STRING,	 /* const char *: as it is; owned by argv */
	OPTION_STRINGS,	 /* struct string_list: as they are; may be repeated */
	OPTION_NUMBER,	 /* uint64_t: decimal */
	OPTION_DURATION, /* uint64_t: nanoseconds; "2", "1.5s", "500ms", "3m" */
	OPTION_SIZE,	 /* uint64_t: bytes; "4096", "64k", "1M", "2G" */
	OPTION_PIDS,	 /* struct pid_list: "1" or "1,2"; may be repeated */
	OPTION_PATTERN	 /* struct pattern_list: a PROBE; may be repeated */
};

struct string_list {
	const char **items; /* each owned by argv; the array is freed by whoever has the list */
	size_t count;
};

struct pid_list {
	pid_t *items; /* each once, in the order given */
	size_t count;
};

struct pattern_list {
	struct probe_pattern **items;
	size_t count;
};

struct option_row {
	char letter;	  /* or 0 */
	const char *name; /* without dashes, or NULL */
	enum option_kind kind;
	const char *value; /* the value's name in the help; NULL: that of its kind */
	void *target;
	const char *help; /* what it does, without a full stop */
};

/* What nearly every command takes. Initialise with {0}. */
struct common_options {
	struct pid_list pids;
	size_t pids_given;	  /* how many of them are from -p: see cli/processes.h */
	struct string_list names; /* --name and --children, where a command has them */
	struct pid_list parents;
	bool follow, no_follow; /* likewise */
	struct pattern_list patterns;
	char **operands; /* into argv: what is neither option nor value, up to `--` */
	size_t operand_count;
	char **program; /* what follows `--`, ends with NULL; NULL if there was no `--` */
	bool helped;	/* the help was asked for, and printed: nothing else is to be done */
};

#define OPTIONS_PID(common)                                                                        \
	{                                                                                          \
		.letter = 'p', .name = "pid", .kind = OPTION_PIDS, .target = &(common)->pids,      \
		.help = "use these processes: -p 1,2 or -p 1 -p 2"                                 \
	}
#define OPTIONS_PROBE(common)                                                                      \
	{                                                                                          \
		.letter = 'e', .name = "probe", .kind = OPTION_PATTERN,                            \
		.target = &(common)->patterns, .help = "use this PROBE; the same as an operand"    \
	}
#define OPTIONS_JSON(flag)                                                                         \
	{                                                                                          \
		.name = "json", .kind = OPTION_FLAG, .target = (flag),                             \
		.help = "print one JSON object per line"                                           \
	}

struct command_line {
	const char *synopsis; /* without "probectl ", e.g. "list [-v] FILE..." */
	const char *help;     /* some lines on what the command does; ends with a newline */
	const struct option_row *rows;
	size_t row_count;
};

/*
 * Parses argv (argv[0] is the command's name), which is reordered: operands
 * come to its front, behind argv[0]. `--help` and `-h` print the help and set
 * common->helped; the caller is then to return.
 *
 * Operands stay as they are: options_add_operands() makes PROBEs of them.
 * Errors: PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *options_parse(
	const struct command_line *line, int argc, char **argv, struct common_options *common);

/* Appends a process, once. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *options_add_pid(struct pid_list *pids, pid_t pid);

/* Parses one operand as a PROBE. */
PROBE_MUST_CHECK struct probe_error *options_add_pattern(
	struct pattern_list *patterns, const char *text);

/* Parses the operands from number `first` on as PROBEs, behind those of -e. */
PROBE_MUST_CHECK struct probe_error *options_add_operands(
	struct common_options *common, size_t first);

void options_deinit(struct common_options *common);

/* The parsers of single values; the errors say what was expected, not of which option. */
PROBE_MUST_CHECK struct probe_error *parse_duration(const char *text, uint64_t *ns_ret);
PROBE_MUST_CHECK struct probe_error *parse_size(const char *text, uint64_t *bytes_ret);
PROBE_MUST_CHECK struct probe_error *parse_number(const char *text, uint64_t *ret);

#endif
