/* SPDX-License-Identifier: MIT */
/* probectl top: the command line. */
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "cli/top/top.h"

enum { INTERVAL_MIN_MS = 10, TABLE_ROWS = 20 };

/* The names of the orders, as --sort takes them. */
static const char *const orders[TOP_ORDER_COUNT] = {[TOP_ORDER_RATE] = "rate",
	[TOP_ORDER_TOTAL] = "total",
	[TOP_ORDER_P50] = "p50",
	[TOP_ORDER_P99] = "p99",
	[TOP_ORDER_TIME] = "time",
	[TOP_ORDER_NAME] = "name"};

static struct probe_error *check(struct top_options *options)
{
	while (options->order < TOP_ORDER_COUNT && strcmp(orders[options->order], options->sort))
		options->order++;
	if (options->order == TOP_ORDER_COUNT)
		return usage_error(
			"--sort '%s': use rate, total, p50, p99, time or name", options->sort);
	if (options->interval_ns < INTERVAL_MIN_MS * NSEC_PER_MSEC)
		return usage_error("-i: at least %d ms", INTERVAL_MIN_MS);
	if (options->keys.count > PROBE_KEYS_MAX)
		return usage_error("-k: at most %d keys", PROBE_KEYS_MAX);
	if (options->keys_max && !options->keys.count)
		return usage_error("--keys is the number of keys; give -k EXPR, too");
	return processes_check(&options->common);
}

static struct probe_error *run(void *data, int *status_ret)
{
	struct top_options *options = data;
	struct request_options request = {.keep_going = true, .many = options->many};
	struct common_options *common = &options->common;
	struct probe_error *error = check(options);

	if (!error && !common->patterns.count && !common->operand_count)
		error = options_add_pattern(&common->patterns, "*:*");
	error = error ?: request_init(&request, common) ?: processes_find(common);
	if (error)
		return error;
	options->request = request.request;
	/* Set the character set only. The format of numbers must not change. */
	setlocale(LC_CTYPE, "");
	options->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	*status_ret = top_run(options);
	return NULL;
}

static const char help_text[] =
	"Shows live how often probes of processes are hit (default: all probes), and how\nlong "
	"pairs of them take; `?` explains the keys. Afterwards, the code of\nthe processes is as "
	"it was before. Without a terminal, prints a table at each\ninterval. With a PROGRAM, "
	"PROBEs come before the --, the program's output is\nkept until the screen is closed, and "
	"the exit status is that of the program.\n";

struct probe_error *cmd_top(int argc, char **argv, int *status_ret)
{
	struct top_options options = {
		.interval_ns = 1000 * NSEC_PER_MSEC, .sort = "rate", .top = TABLE_ROWS};
	const struct option_row rows[] = {
		OPTIONS_PID(&options.common),
		OPTIONS_MANY(&options),
		OPTIONS_PROCESSES(&options.common),
		OPTIONS_PROBE(&options.common),
		OPTIONS_FOLLOW(&options.common),
		OPTION('f', "filter", STRING, "EXPR", &options.filter,
			"use only hits for which EXPR is true: 'arg0 > 100 && cpu != 3'"),
		OPTION('k', "key", STRINGS, "EXPR", &options.keys,
			"add a row for each value of arg0, str(arg1), comm, ustack ...; up to "
			"four"),
		OPTION(0, "keys", NUMBER, "N", &options.keys_max,
			"keep up to N different keys on each CPU (default: 4096)"),
		OPTION('i', "interval", DURATION, "SECONDS", &options.interval_ns,
			"update at this interval (default: 1)"),
		OPTION('d', "duration", DURATION, "SECONDS", &options.duration_ns,
			"stop after this time"),
		OPTION(0, "sort", STRING, "ORDER", &options.sort,
			"sort by rate, total, p50, p99, time or name at first (default: rate)"),
		OPTION(0, "top", NUMBER, NULL, &options.top,
			"limit tables without a screen to N rows (default: 20; 0: no limit)"),
	};
	const struct command_line line = {
		.synopsis = "top [OPTIONS] [PROBE...] " SYNOPSIS_PROCESSES,
		.help = help_text,
		OPTION_ROWS(rows),
		.starts_program = true,
		.common = &options.common,
		.run = run,
		.data = &options,
	};

	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	free(options.keys.items);
	return error;
}
