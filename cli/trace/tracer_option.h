/* SPDX-License-Identifier: MIT */
/* The tracers of `probectl trace`: their options, their making, and the printing of results. */
#pragma once

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
	bool count;		    /* -c was given */
	struct string_list tracers; /* values of -t */
	struct string_list keys;    /* values of -k */
	const char *filter, *pairs, *match;
	const char *stack; /* value of --stack, or NULL */
	uint64_t every, rate, keys_max;
	uint64_t min_ns; /* minimum length of a span: --min */
	/* The two expressions in `match`; tracers_init() sets them. */
	char *match_begin, *match_end;
};

enum { TRACER_TOP = 20 }; /* default number of table rows (--top) */

/* clang-format off */
/* Options that select hits. */
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

/* The rows of ended processes with one label, for metrics. */
struct trace_ended {
	pid_t owner;   /* process whose label the rows have */
	char *program; /* name of the program, or NULL */
	struct probe_table *rows;
	bool is_exported; /* the rows have been exported */
};
void trace_ended_deinit(struct trace_ended *ended);

/* A tracer of the command line. It has one session in each target. */
struct trace_tracer {
	struct probe_tracer_spec *spec;
	enum probe_tracer_output output;
	struct probe_session_options options;
	struct probe_tracer_host *host; /* process of a loaded tracer */
	/* The sink that takes the hits: the sink of the trace, or a loaded tracer's own sink. */
	struct probe_sink *sink;
	bool gone; /* the loaded tracer has crashed, or wants no more hits */

	struct probe_table *last; /* the rows as they were at the last interval */
	struct trace_ended *ended;
	size_t ended_count;
	struct probe_pcp *pcp;	/* PCP metrics that are made from the rows; NULL without -t pcp */
	uint64_t renewed_hits;	/* hits of its sessions when the metrics were last renewed */
	unsigned int unchanged; /* looks since the hits last changed */
	/* For Prometheus metrics: number of the tracer's view in the metrics of the trace. */
	size_t metrics_view;
	bool told;		     /* an error of the tracer's metrics has been reported */
	size_t left_out_told;	     /* number of left-out rows that was last reported */
	struct probe_stacks *stacks; /* call stacks, for a tracer that counts by call stack */
	struct probe_heap *heap;     /* memory blocks, for a tracer that sums memory */
	struct probe_calls *calls;   /* calls of functions, for a tracer of their self time */
	bool has_lost;		     /* hits of these calls were lost since the last round */
	/* The output is for another program, so only lines in its format are printed. */
	bool folded;
	bool flamegraph, pprof; /* the output is one file in this format */
	bool had_interval;
	/* Times of the start and of the last interval, CLOCK_MONOTONIC. */
	uint64_t started_ns, last_ns;
	size_t probes, sites; /* numbers of probes and sites in the first process */
	/* Title of its tables, as typed by the user, or NULL for a single tracer. */
	char *title;

	/* Only for a part (probe_tracer_part()): the part's own probes. */
	struct probe_tracer_part part;
	struct probe_pattern *patterns[3];
	struct probe_request request;
};

/* Returns true if the tracer is a part. Some tracers consist of several parts. */
static inline bool tracer_is_part(const struct trace_tracer *tracer)
{
	return tracer->part.tracer != NULL;
}

/* Returns true if the tracer passes on each hit, and has no tables. */
bool tracer_prints_hits(const struct trace_tracer *tracer);

/* Returns true if the tracer's rows are exported as metrics. */
static inline bool tracer_is_exported(const struct trace_tracer *tracer)
{
	return tracer->output == PROBE_TRACER_PCP || tracer->output == PROBE_TRACER_METRICS;
}

/*
 * Sets the requests of all tracers that are parts: copies of `all` with the part's own probes,
 * which must be among those that the user named. Errors: PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *tracers_set_requests(
	struct trace_tracer *tracers, size_t count, const struct probe_request *all);
/*
 * Makes the tracers of the command line; without -t and -c, one that prints hits. All their
 * sessions share the options of `base`. A tracer of pairs makes `patterns` of functions name pairs.
 * Free *ret with tracers_free(), also after an error. Errors: PROBE_ERROR_USAGE,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *tracers_init(struct tracer_options *options,
	const struct probe_session_options *base, struct pattern_list *patterns, bool has_intervals,
	struct trace_tracer **ret, size_t *count_ret);
void tracers_free(struct trace_tracer *tracers, size_t count);
void tracer_options_deinit(struct tracer_options *options);

/* If -t requests the list of tracers, prints the list and returns true. */
bool tracers_help(const struct tracer_options *options);

/*
 * Splits EXPR[:EXPR] at the first colon outside literals and brackets, if any; otherwise *end_ret
 * is NULL. The caller frees both.
 */
PROBE_MUST_CHECK struct probe_error *match_split(
	const char *text, char **begin_ret, char **end_ret);

/* ---- A cache of the names of threads (/proc/PID/task/TID/comm) ------------------ */

struct comm_cache;

enum { COMM_BYTES = 16 }; /* the kernel's TASK_COMM_LEN, which includes the NUL */

/* Creates an empty cache. Returns NULL on lack of memory. */
struct comm_cache *comm_cache_create(void);
void comm_cache_free(struct comm_cache *cache);

/*
 * Returns the name of a thread that hit a probe at time_ns, or NULL. It is valid until the next
 * call.
 *
 * A name is read again after 0.1 s, because threads rename themselves and thread ids are reused.
 * The last name of an ended thread stays valid for up to 1 s. If the thread ended before its name
 * was read, the name is unknown: those of its process and its parent may differ.
 */
const char *comm_cache_get(struct comm_cache *cache, pid_t pid, pid_t tid, uint64_t time_ns);
/* Returns the cached name of an ended thread, or NULL. Another thread may have its id by now. */
const char *comm_cache_known(struct comm_cache *cache, pid_t pid, pid_t tid);

/* Forgets the names of a process that has executed another program. */
void comm_cache_forget(struct comm_cache *cache, pid_t pid);
