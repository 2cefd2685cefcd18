/* SPDX-License-Identifier: MIT */
/*
 * Tracers: they process hits.
 *
 * The first half of this header is for authors of tracers. A tracer is a shared object that defines
 * `probe_tracer` (docs/tracers.md, docs/examples/tracer). It needs only this header of libprobe.
 * The second half is for programs that use tracers, built-in ones or shared objects.
 */
#ifndef PROBE_TRACER_H
#define PROBE_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "sink.h"
#include "table.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Writing a tracer ---------------------------------------------------------- */

/* The version of this interface. Tracers built for another version are not loaded. */
#define PROBE_TRACER_ABI 3

/* The return value of an operation. */
enum probe_tracer_verdict {
	PROBE_TRACER_TRACE,   /* `enabled`: call `trace` for this hit; `trace`: continue */
	PROBE_TRACER_DISCARD, /* ignore this hit */
	/*
	 * Remove this tracer from the tracee: the tracer gets no more hits of this thread. For
	 * PROBE_TAG_STATUS: remove the tracer from all probes of that process, whose sites are
	 * restored if no other session has switched them on; if there is no process, remove it from
	 * everything, which ends the tracer.
	 */
	PROBE_TRACER_REMOVE,
	/*
	 * Remove this tracer from the probe, in the process that hit the probe: the tracer gets no
	 * more of these hits, of any thread, and the sites are restored if no other session has
	 * switched them on. For PROBE_TAG_STATUS: as PROBE_TRACER_REMOVE.
	 */
	PROBE_TRACER_REMOVE_PROBE
};

/* Tags: the kinds of hits. */
enum probe_tracer_tag {
	PROBE_TAG_POINT, /* a hit without another tag */
	PROBE_TAG_BEGIN, /* the start event of a pair (--pairs) */
	PROBE_TAG_END,
	PROBE_TAG_OBSERVE, /* the user says that the first argument is a value (tag=observe) */
	/* The user says that the first argument is a counter that only grows (tag=count). */
	PROBE_TAG_COUNT,
	PROBE_TAG_NAMED, /* the user has given the hit a name (tag=NAME): probe_tracer_term.tag */
	/*
	 * Not a hit: asks whether the tracer wants to continue. `enabled` is called when the tracer
	 * starts, and for each process before its probes are switched on; for a forked child, whose
	 * probes are its parent's, before its first hit is passed on. At each interval (-i) and at
	 * the end, `enabled` and, if it returns PROBE_TRACER_TRACE, `trace` are called without a
	 * process; then `enabled` is called for each process.
	 */
	PROBE_TAG_STATUS
};

/*
 * The thread that hit the probe. With PROBE_TAG_STATUS: pid is a process and tid is 0, or both are
 * 0, which means all processes.
 */
struct probe_tracee {
	pid_t pid, tid;
};

/*
 * The probe and its arguments; `enabled` gets no arguments. With PROBE_TAG_STATUS: empty strings,
 * no arguments.
 */
struct probe_tracer_term {
	const char *provider, *name;
	const char *tag; /* the tag's name: "point", "begin" ..., "status", or the user's own */
	uint64_t pc;
	const struct probe_value *args;
	size_t arg_count;
};

/* Further data of a hit. Pointers may be NULL. */
struct probe_tracer_options {
	uint64_t time_ns; /* CLOCK_REALTIME */
	int cpu;
	const char *comm; /* the name of the thread */
	/*
	 * The value that belongs to the tag. PROBE_TAG_END: the time since the start event of the
	 * same pair in the same thread, in nanoseconds; NULL if no start event was seen.
	 * PROBE_TAG_OBSERVE and PROBE_TAG_COUNT: the first argument that is a number. NULL for
	 * other tags.
	 */
	const struct probe_value *extra;
	/*
	 * The value of the user's filter (-f). It is never 0: `arg0 & 7` is 1 to 7. NULL if there
	 * is none, or if the filter uses the CPU and the kernel did not tell the stub which CPU it
	 * is.
	 */
	const struct probe_value *filter_result;
	/*
	 * All hits of a request, message or job have the same label, in all threads and processes:
	 * the value of the argument that the user names (label=argN); without this option, the
	 * trace id of an argument that is a W3C traceparent, 32 hexadecimal digits or a UUID, as a
	 * string of 32 digits. NULL if the probe has no such argument.
	 */
	const struct probe_value *label;
};

/*
 * The operations of a tracer, modelled on Erlang's erl_tracer. They run in a process of their own,
 * one at a time: a tracer that crashes or blocks affects neither the traced program nor the
 * controller. The user sees what the tracer prints.
 *
 * `enabled` and `trace` are required. If the operation for a tag is NULL, the general operation is
 * called. Pointers that an operation gets are valid only during the call.
 */
struct probe_tracer_ops {
	uint32_t abi;	  /* PROBE_TRACER_ABI */
	uint32_t size;	  /* sizeof(struct probe_tracer_ops) */
	const char *name; /* for messages; NULL for the name of the file */

	/*
	 * Called first. `options` is the text after the first comma of the user's -t, or "".
	 * *state_ret is passed to all other operations. Returns NULL, or a static text that says
	 * why the tracer cannot run. `create` may be NULL. The state is then NULL.
	 */
	const char *(*create)(const char *options, void **state_ret);
	/* Called last. May be NULL. */
	void (*destroy)(void *state);

	/*
	 * Called after `create` for the tags point, begin and end, and for each tag of the user's
	 * (tag=), whose name is `name`. Returns an expression as for -f, such as "arg0 > 5 && tid
	 * != 1", or NULL. It decides in the traced program, as part of -f: a hit for which it is 0
	 * is not recorded, costs what a filter costs, and never gets to `enabled`. The text is read
	 * before the next call. Arguments are those of each probe with the tag; an expression that
	 * one of them cannot have is an error before anything is switched on. A start or an end
	 * event is filtered by itself, so `duration` and the arguments of the other one are not
	 * allowed, and an end event whose start event was left out has no `extra`. PROBE_TAG_STATUS
	 * is no hit, and only `enabled` decides. May be NULL.
	 */
	const char *(*filter)(enum probe_tracer_tag tag, const char *name, void *state);

	/* Called first for each hit, without the arguments. Says whether the hit is of interest. */
	enum probe_tracer_verdict (*enabled)(enum probe_tracer_tag tag, void *state,
		const struct probe_tracee *tracee, const struct probe_tracer_term *term);
	/* Called for each hit of interest. */
	enum probe_tracer_verdict (*trace)(enum probe_tracer_tag tag, void *state,
		const struct probe_tracee *tracee, const struct probe_tracer_term *term,
		const struct probe_tracer_options *options);

	/* `enabled` and `trace` for one tag, indexed by enum probe_tracer_tag. Each may be NULL. */
	enum probe_tracer_verdict (*enabled_tag[PROBE_TAG_STATUS + 1])(enum probe_tracer_tag tag,
		void *state, const struct probe_tracee *tracee,
		const struct probe_tracer_term *term);
	enum probe_tracer_verdict (*trace_tag[PROBE_TAG_STATUS + 1])(enum probe_tracer_tag tag,
		void *state, const struct probe_tracee *tracee,
		const struct probe_tracer_term *term, const struct probe_tracer_options *options);
};

/* The variable that a tracer's shared object must define. */
extern const struct probe_tracer_ops probe_tracer;

/* ---- Tracers by name -------------------------------------------------------------- */

struct probe_tracer_spec;

/* The output of a tracer. */
enum probe_tracer_output {
	PROBE_TRACER_ROWS,	/* rows (probe/table.h) */
	PROBE_TRACER_HITS,	/* each hit, or span, as text */
	PROBE_TRACER_HITS_JSON, /* each hit, as JSON */
	PROBE_TRACER_FLIGHT,	/* the last hits, on request: probe_session_snapshot() */
	PROBE_TRACER_PCP,	/* rows, as metrics (probe/pcp.h) */
	PROBE_TRACER_STACKS,	/* counts by call stack (probe/stacks.h) */
	PROBE_TRACER_LOADED,	/* output of a shared object: probe_tracer_host_start() */
	PROBE_TRACER_METRICS,	/* rows, as metrics (probe/metrics.h) */
	PROBE_TRACER_HEAP,	/* allocated bytes by call stack (probe/heap.h) */
	PROBE_TRACER_CALLS	/* self time of functions (probe/calls.h) */
};

/*
 * One part of a tracer that consists of several (probe_tracer_part()). Each part has its own probes
 * and pairs, and rows for the values of a key.
 */
struct probe_tracer_part {
	const char *tracer;    /* for probe_tracer_parse() */
	const char *probes[3]; /* for probe_pattern_parse() */
	size_t probe_count;
	const char *key, *match; /* see struct probe_gather; `match` may be NULL */
};

/*
 * Returns part `index` of a tracer that consists of several: `pmtrace`, `pcp,pmtrace` or
 * `metrics,pmtrace`. Returns false if the part does not exist, or if `text` is a single tracer. All
 * strings are static.
 */
bool probe_tracer_part(const char *text, size_t index, struct probe_tracer_part *ret);

/*
 * Parses a tracer as users type it: NAME[,EXPR], pcp[,NAME[,EXPR]], metrics[,NAME[,EXPR]], or
 * PATH.so[,OPTIONS]. The text is copied. Errors: PROBE_ERROR_USAGE (no such tracer: the message
 * names the nearest one; an expression is missing, or is not allowed), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_tracer_parse(
	const char *text, struct probe_tracer_spec **ret);
/* Frees a specification. NULL is allowed. */
void probe_tracer_free(struct probe_tracer_spec *spec);

/*
 * Returns the name of the tracer, or the path of the shared object. For pcp and metrics, it is the
 * name of the tracer whose rows are exported. Owned by the specification.
 */
const char *probe_tracer_name(const struct probe_tracer_spec *spec);
/* Returns the kind of the tracer's output. */
enum probe_tracer_output probe_tracer_output(const struct probe_tracer_spec *spec);
/* Returns true if hits are pairs with both events' arguments (probe_session_options.spans). */
bool probe_tracer_spans(const struct probe_tracer_spec *spec);
/* Tells whether the tracer works on pairs of probes. */
bool probe_tracer_pairs(const struct probe_tracer_spec *spec);

/*
 * Sets the options of a session that the tracer needs: kind, stack, overwrite, and the fields of
 * `gather` that the user has not set (keys, pairing, match). The specification must outlive the
 * session. Errors: PROBE_ERROR_USAGE (options that contradict each other).
 */
PROBE_MUST_CHECK struct probe_error *probe_tracer_configure(const struct probe_tracer_spec *spec,
	size_t pattern_count, struct probe_session_options *options);

/*
 * Sets the options of a session so that each hit has its call stack (struct probe_hit). `how` is
 * the text that the user types: "" or "bytes=N" copies the stack (PROBE_STACK_COPY), "frames"
 * follows the frame pointers. Call it after probe_tracer_configure(). Errors: PROBE_ERROR_USAGE
 * (another text; the tracer passes on no hits, or cannot have stacks).
 */
PROBE_MUST_CHECK struct probe_error *probe_tracer_take_stacks(const struct probe_tracer_spec *spec,
	const char *how, struct probe_session_options *options);

/*
 * Returns how the rows of the tracer are shown. The caller sets key_names, top, all, and the
 * times of the table.
 */
void probe_tracer_view(const struct probe_tracer_spec *spec,
	const struct probe_session_options *options, struct probe_view *ret);

/* A built-in tracer, as help shows it. Static strings. */
struct probe_tracer_info {
	const char *usage; /* "sum,EXPR" */
	const char *help;  /* description of the tracer */
};
/* Describes a built-in tracer by its index, from 0. Returns false after the last tracer. */
bool probe_tracer_info(size_t index, struct probe_tracer_info *ret);

/* ---- Loaded tracers --------------------------------------------------------------- */

/*
 * The process in which a loaded tracer runs. Hits go to it through a pipe that never blocks: use
 * probe_sink_full(), probe_sink_pending() and probe_sink_flush() with the host's sink.
 */
struct probe_tracer_host;

/*
 * Starts the process of a tracer, loads the tracer, and asks for its status and its filters. The
 * text that the tracer prints goes to the descriptor `output`. The process inherits the caller's
 * open files, so call this early. Errors: PROBE_ERROR_STATE (the tracer cannot be loaded, lacks an
 * operation, refuses, crashed, or did not answer), PROBE_ERROR_USAGE (its options, or a filter that
 * is no expression), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_tracer_host_start(
	const struct probe_tracer_spec *spec, int output, struct probe_tracer_host **ret);

/* Returns the sink that hits are written to. Owned by the host. */
struct probe_sink *probe_tracer_host_sink(const struct probe_tracer_host *host);
/*
 * Return descriptors for poll(2). probe_tracer_host_input() returns the pipe that the sink writes
 * to. probe_tracer_host_fd() returns a descriptor that is readable when replies have arrived
 * (probe_tracer_host_poll()).
 */
int probe_tracer_host_input(const struct probe_tracer_host *host);
int probe_tracer_host_fd(const struct probe_tracer_host *host);

/*
 * Asks the tracer whether it wants hits of a process (PROBE_TAG_STATUS). Waits for the answer as
 * long as the tracer's timeout allows. Call it before switching on the probes of the process, and
 * send no hits of a process that the tracer does not want. Errors: as probe_tracer_host_poll().
 */
PROBE_MUST_CHECK struct probe_error *probe_tracer_host_ask(
	struct probe_tracer_host *host, pid_t pid, bool *wanted_ret);

/*
 * Sends a hit to the tracer. If `tag` is PROBE_TAG_POINT and the user has set a tag for this probe
 * (tag=), the hit gets that tag. `comm` is the name of the thread, or NULL.
 */
void probe_tracer_host_hit(struct probe_tracer_host *host, enum probe_tracer_tag tag,
	const struct probe_hit *hit, const struct probe_session_probe *probe, const char *comm);
/*
 * Returns the filters that the tracer has declared, for probe_session_options.filters. Owned by the
 * host.
 */
const struct probe_filter_rule *probe_tracer_host_filters(
	const struct probe_tracer_host *host, size_t *count_ret);
/* Returns the PROBE of a tag=TAG@PROBE that has matched no hit, or NULL. Owned by the host. */
const char *probe_tracer_host_idle_tag(const struct probe_tracer_host *host);
/*
 * Asks the tracer for its status (PROBE_TAG_STATUS): for one process, or, with the pid 0, for all.
 * The answer arrives in probe_tracer_host_poll().
 */
void probe_tracer_host_look(struct probe_tracer_host *host, pid_t pid);

/*
 * Reads replies, and checks regularly that the tracer is alive. Never blocks. Calls `removed` for
 * each probe of a process from which the tracer has removed itself; provider and name are NULL if
 * it has removed itself from the whole process. Errors: PROBE_ERROR_STATE, once (the tracer
 * crashed, ended or did not answer, and is gone), PROBE_ERROR_SYSTEM with EPIPE (nothing reads what
 * the tracer prints).
 */
PROBE_MUST_CHECK struct probe_error *probe_tracer_host_poll(struct probe_tracer_host *host,
	void (*removed)(pid_t pid, const char *provider, const char *name, void *data), void *data);
/* Tells whether the tracer removed itself from everything when it was asked at the start. */
bool probe_tracer_host_off(const struct probe_tracer_host *host);

/*
 * Asks the tracer for a last status, and ends its process. Waits for the process as long as the
 * tracer's timeout allows. Errors: as probe_tracer_host_poll().
 */
PROBE_MUST_CHECK struct probe_error *probe_tracer_host_finish(struct probe_tracer_host *host);
/* Frees a host, and kills its process if the process still runs. NULL is allowed. */
void probe_tracer_host_free(struct probe_tracer_host *host);

#ifdef __cplusplus
}
#endif
#endif
