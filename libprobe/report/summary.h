/* SPDX-License-Identifier: MIT */
/*
 * What the parts of a summary share: time (bins.c), keys (keys.c), pairs
 * (flights.c; one by one: instances.c), threads (threads.c), the whole (summary.c), and what writes
 * it (text.c, json.c, html*.c).
 *
 * Everything has a limit, since a record may hold anything: the sums stay exact
 * beyond it, what no longer fits is counted together.
 */
#ifndef LIBPROBE_REPORT_SUMMARY_H
#define LIBPROBE_REPORT_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/value.h"
#include "libprobe/query/pairing.h"
#include "libprobe/report/begins.h"
#include "libprobe/report/identity.h"
#include "libprobe/report/key.h"
#include "probe/stacks.h"
#include "probe/summary.h"

enum {
	SUMMARY_BINS = 128,			      /* of time */
	SUMMARY_HEAT_ROWS = 128,		      /* of latency: two for each power of two */
	SUMMARY_PROBES_MAX = 2048,		      /* with counts of their own */
	SUMMARY_PROBE_TABLE = 2 * SUMMARY_PROBES_MAX, /* a power of two */
	SUMMARY_PAIRS_MAX = 256,
	SUMMARY_THREADS_MAX = 16384,
	SUMMARY_FLIGHTS_MAX = 65536,  /* threads, or values, that have begun something */
	SUMMARY_BEGINS_MAX = 1 << 20, /* in all of them */
	SUMMARY_COMPARED_MAX = 1024,  /* begins that an end looks at; stubs do the same */
	SUMMARY_AUTO_ARGS = 8,	      /* arguments that may be keys */
	SUMMARY_AUTO_KEYS_MAX = 256,  /* tables of them */
	SUMMARY_AUTO_SLOTS = 512,     /* values in each */
	SUMMARY_AUTO_NUMBERS = 128,   /* ... more numbers are of no interest */
	SUMMARY_GUESSED_TABLES = 6,   /* shown as text, where no key was asked for */
	SUMMARY_SLOTS = 1024,	      /* values of a key that was asked for */
	SUMMARY_KEY_BYTES_MAX = 256,  /* of a string */
	SUMMARY_KEYS_MAX = 8,	      /* that can be asked for */
	SUMMARY_VALUES_MAX = 4096,    /* of pairs, by all keys */
	SUMMARY_CALLERS_MAX = 4096,   /* call stacks of all probes */
	SUMMARY_SLOWEST = 20,	      /* of each pair */
	SUMMARY_COMM_BYTES = 32,
	SUMMARY_RECENT = 64,	/* a power of two: places of names, by hash */
	SUMMARY_RECENT_WAYS = 2 /* that have the same hash */
};

/* ---- Keys (keys.c) --------------------------------------------------------------- */

/*
 * The most frequent values, by space-saving (Metwally, Agrawal, El Abbadi 2005):
 * a new value takes the place of the least frequent one, and its count, as an
 * error. What came more than total / slot_count times is surely there.
 */
struct top_slot {
	struct probe_value value; /* its bytes are the slot's */
	uint64_t hash;
	uint64_t count; /* at least the truth */
	uint64_t error; /* at most so much more than it */
};

struct top {
	struct top_slot *slots;
	size_t slot_count, used;
	uint32_t last;	 /* the slot that was counted last: most likely the next one, too */
	uint32_t *table; /* by hash: the slot's number + 1, or 0 */
	size_t table_mask;
	size_t cursor;	  /* where the search for the least one continues */
	uint64_t least;	  /* no slot has less */
	uint64_t total;	  /* of all values */
	bool approximate; /* something was replaced */
};

struct top *top_create(size_t slot_count);
void top_free(struct top *top);
/* False without memory. */
bool top_add(struct top *top, const struct probe_value *value);

/* Adds a number, if it is the one that was added last. */
static inline bool top_again(struct top *top, const struct probe_value *value)
{
	struct top_slot *last = &top->slots[top->last];

	if (last->value.kind != value->kind || last->value.u != value->u || value_has_bytes(value))
		return false;
	top->total++;
	last->count++;
	return true;
}
/* The slots, most frequent first: an array to be freed. NULL without memory. */
const struct top_slot **top_sorted(const struct top *top);
/*
 * How many of the sorted slots are worth showing, because most of their count is their own; at most
 * `limit` (0: all). *rest_ret is the number of hits of the others; none of them has more than
 * *most_ret.
 */
size_t top_shown(const struct top *top, const struct top_slot *const *sorted, size_t limit,
	uint64_t *rest_ret, uint64_t *most_ret);

/* ---- Probes, pairs, threads --------------------------------------------------------- */

struct summary_probe;
void summary_probe_free(struct summary_probe *probe);

struct summary_probe {
	char *provider, *name;
	uint64_t hash;
	size_t index;	/* in the summary */
	bool may_begin; /* something, by its name alone */
	enum probe_role role;
	size_t pair; /* of an end */
	uint64_t hits;
	uint64_t in_flight;		    /* of a begin */
	uint64_t untimed;		    /* begins that there was no room for */
	uint64_t set_aside;		    /* begins before a loss */
	struct top *tops[SUMMARY_KEYS_MAX]; /* by key; by argument, where none was asked for */
	bool no_top[SUMMARY_KEYS_MAX];	    /* there is none on purpose */
	uint8_t settled;		    /* so many, from the first on, have none */
	uint8_t numbers[SUMMARY_KEYS_MAX];  /* of the arguments, where none was asked for */
	uint64_t bins[SUMMARY_BINS];
};
_Static_assert((int)SUMMARY_AUTO_ARGS <= (int)SUMMARY_KEYS_MAX, "one table for each");

/* Durations, in nanoseconds. */
struct summary_times {
	uint64_t count, least, most;
	long double sum;
	uint64_t buckets[PROBE_BUCKETS];
};

/* One of the pairs that took longest. */
struct summary_slow {
	uint64_t time_ns, duration_ns;	 /* its begin */
	pid_t pid, tid;			 /* of the begin */
	const char *text;		 /* the begin's arguments; owned by the pair */
	const struct probe_stack *stack; /* of its end, where it was recorded; else NULL */
	void *block;			 /* what that is in; owned by the pair */
};

/* An end, with the begin that it ends. */
struct summary_pair {
	size_t begin, end; /* probes */
	bool is_made;	   /* of spans: whatever the names are */
	uint64_t unmatched;
	struct summary_times times;
	uint64_t (*heat)[SUMMARY_BINS]; /* SUMMARY_HEAT_ROWS of them */
	/* If single pairs are looked at: the longest first, and values that have no row. */
	struct summary_slow slow[SUMMARY_SLOWEST];
	size_t slow_count;
	uint64_t other_values;
};

/* The hits of a probe with a call stack. */
struct summary_callers {
	size_t probe;
	uint64_t hash, count;
	const struct probe_stack *stack;
	void *block; /* what that is in; owned */
};

/* The pairs whose key has this value. */
struct summary_value {
	size_t begin, end; /* the pair */
	struct key key;
	struct probe_value value; /* its bytes are its own */
	uint64_t hash;
	struct summary_times times;
};

/* A begin that has no end yet. */
struct begun_words;
struct summary_begun {
	uint64_t time_ns;
	uint64_t identity;
	struct begun_words *words; /* owned; or NULL */
};

struct summary_thread {
	pid_t pid, tid;
	uint64_t hits;
	char comm[SUMMARY_COMM_BYTES]; /* the last one; "" is not known */
	const char *comm_at;	       /* where the event had it: not to be followed */
	uint64_t texts;		       /* of that event */
};

/* Where a former event had the names of a probe. Unless `texts` says so, others may be there now.
 */
struct summary_recent {
	const char *provider, *name; /* not to be followed */
	uint64_t texts;
	struct summary_probe *probe;
	struct summary_thread *thread; /* that hit it; or NULL */
};

struct probe_summary {
	struct key keys[SUMMARY_KEYS_MAX];
	size_t key_count;
	struct buffer normals[SUMMARY_KEYS_MAX]; /* by key: its last one, of norm() */
	bool matches;
	struct key match, match_end;
	struct identities identities; /* of begins and ends in a thread; none if it matches */

	uint64_t begin_ns, end_ns; /* of the events; both 0 where there are none */
	uint64_t events;	   /* hits and losses, from the first on that has a time */
	uint64_t hits, lost;
	bool overrun, full; /* of a stream: its oldest, its newest hits are missing */

	int64_t base_ns; /* where the first bin begins */
	uint64_t width_ns;
	size_t bin_count; /* 0: no events */
	uint64_t lost_bins[SUMMARY_BINS];
	size_t last_bin; /* of the last event; it begins at last_bin_ns */
	uint64_t last_bin_ns;

	struct summary_probe **probes;
	size_t probe_count;
	uint16_t *probe_table; /* by hash: the probe's number + 1, or 0 */
	struct summary_recent recent[SUMMARY_RECENT][SUMMARY_RECENT_WAYS];
	uint64_t other_hits; /* of probes beyond the limit */
	uint64_t other_bins[SUMMARY_BINS];

	struct pairing pairing; /* of probes[], with the same indices */
	struct summary_pair **pairs;
	size_t pair_count;
	bool more_pairs; /* than there is room for */

	struct begins flights; /* struct summary_begun, by thread or value, and by probe */
	bool instances;	       /* single pairs are looked at (instances.c) */
	struct summary_value **values;
	size_t value_count;
	uint16_t *value_table;	   /* by hash: the row's number + 1, or 0; or NULL */
	struct buffer text;	   /* of a begin, while it is made */
	struct begun_words *spare; /* for the next begin; or NULL */

	struct summary_thread *threads; /* by hash; tid 0 is free */
	size_t thread_room, thread_count;
	struct summary_thread *last_thread; /* that hit; or NULL */
	uint64_t other_thread_hits;

	size_t auto_keys; /* tables that were made for all probes */

	struct summary_callers *callers;
	size_t callers_count;
	uint16_t *callers_table; /* by hash: the row's number + 1, or 0; or NULL */
	uint64_t other_callers;	 /* hits with stacks beyond the limit */
};

/* ---- Call stacks (callers.c) ---------------------------------------------------------- */

/* Counts a hit of a probe. False without memory. */
bool callers_add(struct probe_summary *summary, size_t probe, const struct probe_stack *stack);
/* callers_count rows, those with most hits first; to be freed. NULL without memory. */
struct probe_stacks_row *callers_rows(const struct probe_summary *summary);
void callers_deinit(struct probe_summary *summary);

/* ---- Time (bins.c) ------------------------------------------------------------------ */

/* The bin of a time up to INT64_MAX, for which there is room then. */
size_t summary_bin(struct probe_summary *summary, uint64_t time_ns);

/* As they are shown: a last bin that is hardly begun belongs to the one before. */
struct summary_span {
	double begin_ns, end_ns; /* since the first event */
	uint64_t count;
};
/* The spans of some bins; how many there are, at most SUMMARY_BINS. */
size_t summary_spans(
	const struct probe_summary *summary, const uint64_t *bins, struct summary_span *ret);
/* Hits per second in each of this many equal parts of the time. */
void summary_fold(
	const struct probe_summary *summary, const uint64_t *bins, double *ret, size_t parts);
double summary_seconds(const struct probe_summary *summary);

/* ---- Pairs (flights.c) -------------------------------------------------------------- */

/* Pairs a new probe, the last one, with those that are known. */
PROBE_MUST_CHECK struct probe_error *flights_probe(struct probe_summary *summary);
/* A hit of a probe that may begin something, or ends it. */
PROBE_MUST_CHECK struct probe_error *flights_hit(
	struct probe_summary *summary, size_t probe, const struct probe_event *event, size_t bin);
/* The event is the end of a span, whose begin is known. */
PROBE_MUST_CHECK struct probe_error *flights_span(struct probe_summary *summary, size_t begin,
	size_t end, const struct probe_event *event, size_t bin);
/* Ends may be missing from now on: nothing that was begun is timed. */
void flights_forget(struct probe_summary *summary);
void flights_deinit(struct probe_summary *summary);

/* The bounds of a row of heat, in nanoseconds: [low, high). */
double heat_low(size_t row);

/* A pair as a row of a table; borrows from the pair. */
void pair_row(const struct summary_pair *pair, const struct probe_summary *summary,
	struct probe_row *ret);

/* Adds a duration. */
void summary_times_add(struct summary_times *times, uint64_t duration_ns);
/* Durations as a row of a table; borrows from them. */
void summary_times_row(const struct summary_times *times, struct probe_row *ret);

/* ---- Single pairs (instances.c): do nothing unless summary->instances --------------------- */

/* What is kept of a begin; *ret may be NULL. False without memory. */
bool instances_begin(
	struct probe_summary *summary, const struct probe_event *event, struct begun_words **ret);
/* Gives back what was kept of a begin, or NULL. */
void instances_drop(struct probe_summary *summary, struct begun_words *words);
/* A pair has ended. False without memory. */
bool instances_end(struct probe_summary *summary, struct summary_pair *pair,
	const struct summary_begun *begun, const struct probe_event *event, uint64_t duration_ns);
/* Frees what is kept of all begins. */
void instances_forget(const struct probe_summary *summary);
void instances_free_pair(struct summary_pair *pair);
void instances_deinit(struct probe_summary *summary);
/* The rows of a pair, by key, and then most time first: an array to be freed, or NULL. */
const struct summary_value **instances_values(
	const struct probe_summary *summary, const struct summary_pair *pair, size_t *count_ret);

/* ---- Threads (threads.c) -------------------------------------------------------------- */

PROBE_MUST_CHECK struct probe_error *threads_hit(
	struct probe_summary *summary, const struct probe_event *event);

struct summary_process {
	pid_t pid;
	uint64_t hits;
	size_t threads;
	const char *comm; /* of its first thread, if that was hit, else of any */
};
/* Arrays, most hits first, to be freed; NULL without memory. */
struct summary_process *threads_processes(const struct probe_summary *summary, size_t *count_ret);
const struct summary_thread **threads_sorted(const struct probe_summary *summary);

/* ---- What is shown (chosen.c) ----------------------------------------------------------- */

/* Probes, most hits first; pairs, most time first. Arrays to be freed, or NULL. */
const struct summary_probe **summary_probes(const struct probe_summary *summary);
const struct summary_pair **summary_pairs(const struct probe_summary *summary);

/* A table of keys that is worth showing. */
struct summary_top {
	const struct summary_probe *probe;
	struct key key;
	const struct top *top;
};
/* How many hits of the probe have no such value. */
uint64_t summary_top_without(const struct summary_top *top);
/*
 * What the catalogue knows of the argument that the key names: of the probe; of the begin of the
 * pair, or else of its end. NULL: nothing.
 */
const struct probe_arg_meaning *summary_top_meaning(const struct summary_top *top);
const struct probe_arg_meaning *summary_value_meaning(
	const struct probe_summary *summary, const struct summary_value *value);
/* Was this key asked for, by its number, and does no hit have it? */
bool summary_key_missing(const struct probe_summary *summary, size_t key);
/* An array to be freed, the most telling first; NULL without memory. */
struct summary_top *summary_tops(const struct probe_summary *summary, size_t *count_ret);
/* How many values of each are shown; 0: all. */
size_t summary_key_limit(
	const struct probe_summary *summary, const struct probe_summary_view *view);

/* ---- Writing it ----------------------------------------------------------------------- */

/* What a buffer holds, as the caller's text; then, or if something did not fit, ends the buffer. */
PROBE_MUST_CHECK struct probe_error *summary_take(
	struct buffer *out, char **ret, size_t *length_ret);

void summary_text(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view);
/* What was read, and what of it is missing. */
void summary_text_header(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view);
/* "provider:begin -> provider:end". */
void summary_text_pair(
	struct buffer *out, const struct probe_summary *summary, const struct summary_pair *pair);
/* The fields of a value of a key. */
void summary_json_key(struct buffer *out, const struct key *key, const struct probe_value *value);
void summary_json(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view);
void summary_html(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view);

/* Local: "2026-11-22 02:30:11.123 +0100". */
void summary_time(struct buffer *out, uint64_t time_ns);
/* As text_duration(), but "12.5min", "28.1h". */
void summary_duration(struct buffer *out, double ns);
/* So many hits as a rate over the whole time: "12.5", "1234", "<0.01". */
void summary_rate(struct buffer *out, const struct probe_summary *summary, uint64_t hits);
/* Shares of hits: "12.3%". */
void summary_share(struct buffer *out, uint64_t part, uint64_t whole);

#endif
