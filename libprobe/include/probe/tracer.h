/* SPDX-License-Identifier: MIT */
/*
 * Tracers: what hits are dispatched to.
 *
 * The first half is for whoever writes one of their own: a shared object that
 * defines `probe_tracer` (docs/tracers.md, docs/examples/tracer). It needs
 * nothing of libprobe but this header. The second half is for programs that use
 * tracers, built in or loaded.
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

/* Changes when a tracer that was built for another one must not be loaded. */
#define PROBE_TRACER_ABI 1

/* What an operation says about the hit, or about itself. */
enum probe_tracer_verdict {
	PROBE_TRACER_TRACE,   /* enabled: hand the hit over; trace: go on */
	PROBE_TRACER_DISCARD, /* this hit is of no interest */
	/*
	 * Take this tracer off the probe: no more of its hits are handed over.
	 * For PROBE_TAG_STATUS: off all probes, which ends it.
	 */
	PROBE_TRACER_REMOVE
};

/* The kinds of hits. */
enum probe_tracer_tag {
	PROBE_TAG_POINT, /* nothing more is known of it */
	PROBE_TAG_BEGIN, /* of a pair (--pairs) */
	PROBE_TAG_END,
	PROBE_TAG_OBSERVE, /* the user says that its first argument is a value (tag=observe) */
	PROBE_TAG_COUNT,   /* ... or a counter that only grows (tag=count) */
	/*
	 * No hit: do you want to live? `enabled` is asked before the first hit,
	 * `enabled` and, if it says so, `trace` whenever somebody looks at the
	 * tracer: at each interval (-i), and at the end.
	 */
	PROBE_TAG_STATUS
};

/* Who hit the probe. Of PROBE_TAG_STATUS: 0. */
struct probe_tracee {
	pid_t pid, tid;
};

/* What was hit, with its arguments. Of PROBE_TAG_STATUS: empty strings, no arguments. */
struct probe_tracer_term {
	const char *provider, *name;
	uint64_t pc;
	const struct probe_value *args;
	size_t arg_count;
};

struct probe_tracer_options {
	uint64_t time_ns; /* CLOCK_REALTIME */
	int cpu;
	bool filtered;	   /* there is a filter, and the hit has passed it */
	const char *extra; /* the name of the thread, or NULL */
};

/*
 * The table of operations, after Erlang's erl_tracer. All run in a process of
 * their own, one at a time: a tracer that crashes or blocks hurts neither the
 * traced program nor the controller. What they print goes to the user.
 *
 * `enabled` and `trace` must be there. An operation for one tag may be NULL:
 * then the general one is called. All that is handed over is valid during the
 * call only.
 */
struct probe_tracer_ops {
	uint32_t abi;	  /* PROBE_TRACER_ABI */
	uint32_t size;	  /* sizeof(struct probe_tracer_ops) */
	const char *name; /* for messages; NULL: the file's */

	/*
	 * Before all others; `options` is what stands behind the first comma of
	 * the user's -t, "" where there is none. *state_ret is handed to every
	 * other operation. Returns NULL, or why there can be no tracer: a static
	 * text. May be NULL: the state is then NULL.
	 */
	const char *(*create)(const char *options, void **state_ret);
	/* After all others. May be NULL. */
	void (*destroy)(void *state);

	/* As early as possible, without the arguments: is the hit of interest? */
	enum probe_tracer_verdict (*enabled)(
		enum probe_tracer_tag tag, void *state, const struct probe_tracee *tracee);
	/* Acts. */
	enum probe_tracer_verdict (*trace)(enum probe_tracer_tag tag, void *state,
		const struct probe_tracee *tracee, const struct probe_tracer_term *term,
		const struct probe_tracer_options *options);

	/* By tag, indexed by enum probe_tracer_tag; each may be NULL. */
	enum probe_tracer_verdict (*enabled_tag[PROBE_TAG_STATUS + 1])(
		enum probe_tracer_tag tag, void *state, const struct probe_tracee *tracee);
	enum probe_tracer_verdict (*trace_tag[PROBE_TAG_STATUS + 1])(enum probe_tracer_tag tag,
		void *state, const struct probe_tracee *tracee,
		const struct probe_tracer_term *term, const struct probe_tracer_options *options);
};

/* What a shared object has to define. */
extern const struct probe_tracer_ops probe_tracer;

/* ---- Tracers by name -------------------------------------------------------------- */

struct probe_tracer_spec;

/* What comes out of a tracer. */
enum probe_tracer_output {
	PROBE_TRACER_ROWS,	/* rows (probe/table.h) */
	PROBE_TRACER_HITS,	/* each hit, as text */
	PROBE_TRACER_HITS_JSON, /* each hit, as JSON */
	PROBE_TRACER_FLIGHT,	/* the last hits, when asked for */
	PROBE_TRACER_PCP,	/* rows, as metrics (probe/pcp.h) */
	PROBE_TRACER_STACKS,	/* counts by call stack (probe/stacks.h) */
	PROBE_TRACER_LOADED	/* what a shared object makes of hits: probe_tracer_host_start() */
};

/*
 * Parses what a user types: NAME[,EXPR], pcp[,NAME[,EXPR]], or PATH.so[,OPTIONS]. The
 * text is copied.
 * Errors: PROBE_ERROR_USAGE (no such tracer, and which is the nearest; no value
 * where one is needed, or one where none is).
 */
PROBE_MUST_CHECK struct probe_error *probe_tracer_parse(
	const char *text, struct probe_tracer_spec **ret);
/* Frees a specification. NULL is allowed. */
void probe_tracer_free(struct probe_tracer_spec *spec);

/* The name (of what is exported), or the path of the shared object; owned by the spec. */
const char *probe_tracer_name(const struct probe_tracer_spec *spec);
/* What comes out of it. */
enum probe_tracer_output probe_tracer_output(const struct probe_tracer_spec *spec);
/* Tells whether it is about pairs of probes. */
bool probe_tracer_pairs(const struct probe_tracer_spec *spec);

/*
 * Makes the options of a session what the tracer needs: kind, overwrite, and
 * what of `gather` the user has not set (keys, pairing, match). The spec must
 * outlive the session. Errors: PROBE_ERROR_USAGE, for what does not go together.
 */
PROBE_MUST_CHECK struct probe_error *probe_tracer_configure(const struct probe_tracer_spec *spec,
	size_t pattern_count, struct probe_session_options *options);

/* How its rows are shown; key_names, top, all, and times of the table are the caller's. */
void probe_tracer_view(const struct probe_tracer_spec *spec,
	const struct probe_session_options *options, struct probe_view *ret);

/* The built-in tracers, one after the other: false at the end of the list. */
struct probe_tracer_info {
	const char *usage; /* "sum,EXPR" */
	const char *help;  /* what it does */
};
bool probe_tracer_info(size_t index, struct probe_tracer_info *ret);

/* ---- Loaded tracers --------------------------------------------------------------- */

/*
 * The process in which a loaded tracer runs. Hits are handed over through a pipe
 * that never blocks: what is waiting, and when to stop adding, is said by its
 * sink (probe_sink_full(), _pending(), _flush()).
 */
struct probe_tracer_host;

/*
 * Starts it, loads the tracer, and asks it for its status. What it prints goes
 * to `output`. To be called before there is anything that it must not inherit.
 * Errors: PROBE_ERROR_STATE (it cannot be loaded, lacks an operation, does not
 * want to, crashed, did not answer), PROBE_ERROR_USAGE, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_tracer_host_start(
	const struct probe_tracer_spec *spec, int output, struct probe_tracer_host **ret);

/* Where hits are handed over; owned by the host. */
struct probe_sink *probe_tracer_host_sink(const struct probe_tracer_host *host);
/* The pipe that the sink writes to, and the one that is readable when there are replies. */
int probe_tracer_host_input(const struct probe_tracer_host *host);
int probe_tracer_host_fd(const struct probe_tracer_host *host);

/* Hands a hit over. PROBE_TAG_POINT: what the user says that hits are (tag=), else points. */
void probe_tracer_host_hit(struct probe_tracer_host *host, enum probe_tracer_tag tag,
	const struct probe_hit *hit, const struct probe_session_probe *probe, const char *comm,
	bool filtered);
/* Tells it that somebody looks: PROBE_TAG_STATUS. */
void probe_tracer_host_look(struct probe_tracer_host *host);

/*
 * Takes replies, and asks now and then whether it lives; never blocks. `removed`
 * is told each probe that the tracer was taken off. Errors: PROBE_ERROR_STATE,
 * once (it crashed, ended, did not answer: it is gone then), PROBE_ERROR_SYSTEM
 * with EPIPE (nobody reads what it prints).
 */
PROBE_MUST_CHECK struct probe_error *probe_tracer_host_poll(struct probe_tracer_host *host,
	void (*removed)(const char *provider, const char *name, void *data), void *data);
/* Tells whether it was taken off all probes. */
bool probe_tracer_host_off(const struct probe_tracer_host *host);

/* A last look, and its end; waits for it, but not longer than its timeout. */
PROBE_MUST_CHECK struct probe_error *probe_tracer_host_finish(struct probe_tracer_host *host);
/* Kills it, if it is still there. NULL is allowed. */
void probe_tracer_host_free(struct probe_tracer_host *host);

#ifdef __cplusplus
}
#endif
#endif
