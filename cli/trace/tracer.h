/* SPDX-License-Identifier: MIT */
/*
 * The tracers of `probectl trace`: the tracers and options that the user has requested, and how
 * their results are printed.
 */
#ifndef CLI_TRACE_TRACER_H
#define CLI_TRACE_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options.h"
#include "probe/heap.h"
#include "probe/pcp.h"
#include "probe/stacks.h"
#include "probe/table.h"
#include "probe/target.h"
#include "probe/tracer.h"

/* Initialise with {0}; free with tracer_options_deinit(). */
struct tracer_options {
	bool count;		    /* -c */
	struct string_list tracers; /* -t */
	struct string_list keys;    /* -k */
	const char *filter, *pairs, *match;
	const char *stack; /* --stack: how; NULL: not given */
	uint64_t every, rate, keys_max;
	uint64_t min_ns;	       /* --min */
	char *match_begin, *match_end; /* the parts of `match`, once tracers_init() has returned */
};

enum { TRACER_TOP = 20 }; /* rows of a table, unless --top says otherwise */

/* clang-format off */
/* Which hits are of interest. */
#define OPTIONS_FILTER(options)                                                                    \
	OPTION('f', "filter", STRING, "EXPR", &(options)->filter,                                  \
		"use only hits for which EXPR is true: 'arg0 > 100 && cpu != 3'"),                 \
	OPTION(0, "every", NUMBER, "N", &(options)->every, "use only one hit in N, on each CPU"),  \
	OPTION(0, "rate", NUMBER, "N", &(options)->rate, "use at most N hits per second, of all probes of a process together")

#define OPTIONS_STACK(options)                                                                     \
	OPTION(0, "stack", OPTIONAL, "frames|bytes=N", &(options)->stack,                          \
		"take the call stack of each hit; of a span, that of its end")

#define OPTIONS_TRACER(options)                                                                    \
	OPTION('t', "tracer", STRINGS, "TRACER[,ARG]", &(options)->tracers,                        \
		"process hits with this tracer; 'help' lists the tracers"),                        \
	OPTION('c', "count", FLAG, NULL, &(options)->count, "the same as -t count"),               \
	OPTION('k', "key", STRINGS, "EXPR", &(options)->keys,                                      \
		"keep a row for each value of arg0, str(arg1), comm, ustack ...; up to four"),              \
	OPTIONS_FILTER(options),                                                                   \
	OPTION(0, "pairs", STRING, "auto|listed", &(options)->pairs,                               \
		"find begins and ends by their names, or in the order given"),                     \
	OPTION(0, "match", STRING, "EXPR[:EXPR]", &(options)->match,                               \
		"match an end to the begin with the same value or text, on any thread of the process"),    \
	OPTION(0, "keys", NUMBER, "N", &(options)->keys_max,                                       \
		"keep up to N different keys on each CPU (default: 4096)")
/* clang-format on */

/* One -t: it has a session in each target. */
/* The rows of processes that have ended. */
struct trace_ended {
	pid_t owner;   /* as whose it counts, if the rows are metrics; else 0 */
	char *program; /* its name, or NULL */
	struct probe_table *rows;
	bool is_exported; /* these rows were */
};
void trace_ended_deinit(struct trace_ended *ended);

struct trace_tracer {
	struct probe_tracer_spec *spec;
	enum probe_tracer_output output;
	struct probe_session_options options;
	struct probe_tracer_host *host; /* of a loaded one */
	struct probe_sink *sink;	/* where its hits go: the trace's, or the host's */
	bool gone;			/* it crashed, or wants no more hits */

	struct probe_table *last; /* at the last interval */
	struct trace_ended *ended;
	size_t ended_count;
	struct probe_pcp *pcp;	     /* of one whose rows are metrics of PCP */
	size_t metrics_view;	     /* ... of Prometheus: its number in the trace's set */
	bool told;		     /* ... why they are not there */
	size_t left_out_told;	     /* how many are not there, as was told */
	struct probe_stacks *stacks; /* of one that counts by call stack */
	struct probe_heap *heap;     /* of one that adds up memory */
	bool folded;		     /* its output is for other programs: only what they know */
	bool flamegraph, pprof;	     /* ... and a whole file */
	bool had_interval;
	uint64_t started_ns, last_ns; /* CLOCK_MONOTONIC */
	size_t probes, sites;	      /* of the first process */
	char *title;		      /* as typed, if there are several; else NULL */

	/* Of a part (probe_tracer_part()): its own probes. */
	struct probe_tracer_part part;
	struct probe_pattern *patterns[3];
	struct probe_request request;
};

/* Whether it is a part of a tracer that consists of several. */
static inline bool tracer_is_part(const struct trace_tracer *tracer)
{
	return tracer->part.tracer != NULL;
}

/* Whether its rows are metrics. */
static inline bool tracer_is_exported(const struct trace_tracer *tracer)
{
	return tracer->output == PROBE_TRACER_PCP || tracer->output == PROBE_TRACER_METRICS;
}

/*
 * Sets what all parts ask for: as `all`, but with their own probes, which must be what the user has
 * named. Errors: PROBE_ERROR_USAGE, _MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *tracers_set_requests(
	struct trace_tracer *tracers, size_t count, const struct probe_request *all);
/* What a tracer's sessions ask for. */
const struct probe_request *tracer_request(
	const struct trace_tracer *tracer, const struct probe_request *all);

/*
 * Makes the tracers that a command line asks for; without any, hits are printed. `base` is what all
 * their sessions have in common. Free *ret with tracers_free(), also after an error. Errors:
 * PROBE_ERROR_USAGE, _MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *tracers_init(struct tracer_options *options,
	const struct probe_session_options *base, size_t pattern_count, bool has_intervals,
	struct trace_tracer **ret, size_t *count_ret);
void tracers_free(struct trace_tracer *tracers, size_t count);
void tracer_options_deinit(struct tracer_options *options);

/* Does -t ask for the list of tracers? Then it is printed. */
bool tracers_help(const struct tracer_options *options);

/*
 * Splits EXPR[:EXPR] at the first colon that is not within a literal or brackets;
 * without one *end_ret is NULL. The caller frees both.
 */
PROBE_MUST_CHECK struct probe_error *match_split(
	const char *text, char **begin_ret, char **end_ret);

#endif
