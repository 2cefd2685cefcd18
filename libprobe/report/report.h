/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "libprobe/base/map.h"
#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/query/query.h"
#include "probe/catalogue.h"
#include "probe/event.h"
#include "probe/export.h"
#include "probe/spans.h"
#include "probe/stacks.h"
#include "probe/summary.h"

/* ---- Open start events (begins.c) ------------------------------------------------------------ */

/*
 * Start events that wait for end events, in a stack for each thread or matched value. Spans store
 * the event in the stack, summaries store the time.
 */

/* A stack's owner: a thread or a matched value. */
struct begins_key {
	uint64_t word; /* the thread id, or the matched value or its hash */
	/* values of two processes may be equal, and forked children share pointers */
	uint32_t process;
	uint16_t kind;	/* kind of the matched value */
	uint16_t probe; /* index of the start event's probe; 0 if all probes share a stack */
};
_Static_assert(sizeof(struct begins_key) == 2 * sizeof(uint64_t), "a map's key has no padding");

struct begins_stack {
	void *items; /* `depth` items, oldest first */
	size_t depth, room;
	uint64_t excess; /* number of newer start events that are counted but not kept */
};

enum { BEGINS_RECENT = 64 };

/* Initialise with item_bytes and zeros. */
struct begins {
	size_t item_bytes;
	struct map stacks; /* struct begins_stack by struct begins_key */
	size_t depth;	   /* items in all stacks */
	void *spare;	   /* memory of a dropped stack's items, for the next stack; or NULL */
	/* Stacks that were found lately: most hits find the same few. */
	struct begins_stack *recent[BEGINS_RECENT];
};

void begins_deinit(struct begins *begins);

/* Returns the stack of a key, or NULL. */
struct begins_stack *begins_find(struct begins *begins, const struct begins_key *key);
/* Returns a key's stack, which may be new; NULL if out of memory. */
struct begins_stack *begins_make(struct begins *begins, const struct begins_key *key);
void begins_drop(struct begins *begins, struct begins_stack *stack);

/* Copies `item` to a stack's top. Returns false if out of memory. */
bool begins_push(struct begins *begins, struct begins_stack *stack, const void *item);
/* Removes an item. The stack stays, even if empty. */
void begins_remove(struct begins *begins, struct begins_stack *stack, size_t index);

/* ---- Keys (key.c) ---------------------------------------------------------------------------- */

/*
 * A key names a value of an event. KEY_SYMBOL is sym(argN) as recorded, KEY_NAME an argument's name
 * in the catalogue.
 */
enum key_kind {
	KEY_ARG,
	KEY_STRING,
	KEY_NORM,
	KEY_SYMBOL,
	KEY_TID,
	KEY_PID,
	KEY_CPU,
	KEY_COMM,
	KEY_PROBE,
	KEY_NAME
};

struct key_name;
struct key {
	enum key_kind kind;
	/* argument; for KEY_NAME the key's index in its list */
	uint8_t arg;
	struct key_name *name; /* for KEY_NAME: owned, but copies of the key borrow it; else NULL */
	const char *label;     /* borrowed: a member's name in the record; NULL for others */
};

/*
 * Parses argN, str(argN), norm(str(argN)), sym(argN), tid, pid, cpu, comm or probe; with a
 * catalogue (borrowed) also arguments' names. `index` is the key's in the caller's list. Free it
 * with key_deinit(). Errors: PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *key_parse(const char *text, size_t length,
	const struct probe_catalogue *catalogue, uint8_t index, struct key *ret);
void key_deinit(struct key *key);
/*
 * Copies a key. If it is a name, the copy has the argument of the event's probe. Returns false if
 * the probe lacks it.
 */
bool key_resolve(const struct key *key, const struct probe_event *event, struct key *ret);
/*
 * Gets a key's value, with bytes borrowed from the event. Returns false if the event has no value.
 */
bool key_value(const struct key *key, const struct probe_event *event, struct probe_value *ret);
/* The meaning of a key's argument, such as words for numbers; or NULL. */
const struct probe_arg_meaning *key_meaning(
	const struct key *key, const char *provider, const char *name);
/*
 * Completes a value of key_value(): normalizes it for norm(str(argN)), and puts the provider before
 * `probe`. New bytes are in `room`. Returns false if out of memory.
 */
PROBE_MUST_CHECK bool key_complete(const struct key *key, const struct probe_event *event,
	struct probe_value *value, struct buffer *room);
bool key_is_norm(const struct key *key);
bool key_same(const struct key *a, const struct key *b);
void key_print(struct buffer *out, const struct key *key);
/* Returns an error if the key is a name that no probe so far has; or NULL. */
PROBE_MUST_CHECK struct probe_error *key_unknown(const struct key *key);
/* Returns the error that no hit has a value for the key. */
PROBE_MUST_CHECK struct probe_error *key_not_found(const struct key *key);

/* ---- Identity of start events (begins.c) ----------------------------------------------------- */

/*
 * The identity of an event is the address of the function's frame, or a hash of the arguments that
 * have the same value in both events of a pair (probe_meaning.same). It decides which start event
 * of a thread an end event belongs to. Stubs compare these, too (arch_flights.compares).
 */

struct identities {
	const struct probe_catalogue *catalogue; /* catalogue of probes, borrowed; may be NULL */
	struct identity_begin *begins; /* compared arguments, indexed by the start event's probe */
	size_t count;
	bool is_off; /* all identities are unknown, because events are matched by a value */
};

void identities_deinit(struct identities *identities);

/*
 * Computes the identity of a start event of probe `index`, or of its end event; `provider` and
 * `name` are the start event's. *ret is 0 if unknown, as when a record lacks an argument. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *identity_of(struct identities *identities, size_t index,
	const char *provider, const char *name, const struct probe_event *event, uint64_t *ret);

/* An unknown identity matches all identities. */
static inline bool identity_matches(uint64_t begin, uint64_t end)
{
	return begin == end || !begin || !end;
}

/* ---- Summary --------------------------------------------------------------------------------- */

/*
 * A summary of events. events.c adds events: keys, threads, stacks; instances.c pairs them;
 * summary.c has the whole, the bins of time, and the rows to show; text.c and json.c write.
 * Tables are limited. Rows that do not fit are counted together, and totals stay exact.
 */

enum {
	SUMMARY_BINS = 128,	   /* number of time bins */
	SUMMARY_HEAT_ROWS = 128,   /* number of latency rows: two per power of two */
	SUMMARY_PROBES_MAX = 2048, /* maximum number of probes with counts of their own */
	SUMMARY_PAIRS_MAX = 256,
	SUMMARY_THREADS_MAX = 16384,
	SUMMARY_FLIGHTS_MAX = 65536,  /* maximum number of stacks of open start events */
	SUMMARY_BEGINS_MAX = 1 << 20, /* maximum number of start events in all stacks */
	/* number of newest start events that an end event is compared with, as in stubs */
	SUMMARY_COMPARED_MAX = 1024,
	/* number of arguments that may become keys if the user names none */
	SUMMARY_AUTO_ARGS = 8,
	/* maximum number of tables for keys that the user did not name */
	SUMMARY_AUTO_KEYS_MAX = 256,
	/* number of values in a table for a key that the user did not name */
	SUMMARY_AUTO_SLOTS = 512,
	/* the table is dropped if it gets more different numbers than this */
	SUMMARY_AUTO_NUMBERS = 128,
	SUMMARY_GUESSED_TABLES = 6, /* number of tables shown as text if the user names no key */
	SUMMARY_SLOTS = 1024,	    /* number of values in the table of a key that the user names */
	SUMMARY_KEY_BYTES_MAX = 256, /* maximum size of a string value; longer strings are cut */
	SUMMARY_KEYS_MAX = 8,	     /* maximum number of keys that the user may name */
	SUMMARY_VALUES_MAX = 4096,   /* maximum number of rows of pairs by value, for all keys */
	SUMMARY_CALLERS_MAX = 4096,  /* maximum number of call stacks, for all probes */
	SUMMARY_SLOWEST = 20,	     /* number of slowest pairs kept for each pair of probes */
	SUMMARY_COMM_BYTES = 32,
	SUMMARY_RECENT = 64,	/* number of slots in the cache of names, a power of two */
	SUMMARY_RECENT_WAYS = 2 /* number of entries in each slot of the cache */
};

/* ---- Keys (events.c) ------------------------------------------------------------- */

/*
 * The most frequent values, by the space-saving algorithm (Metwally, Agrawal, El Abbadi 2005): a
 * new value replaces the least frequent one, whose count becomes the new value's count and error. A
 * value with more than total / slot_count hits is always there.
 */
struct top_slot {
	struct probe_value value; /* a value; its bytes are in the map's key */
	uint64_t count;		  /* upper bound of the value's number of hits */
	uint64_t error;		  /* `count` is at most this much too high */
};

struct top {
	struct map by_value;	 /* struct top_slot */
	struct top_slot **slots; /* owned by the map */
	size_t slot_count, used;
	struct top_slot *last; /* slot of the last value, which the next value often equals */
	size_t cursor;	       /* where the search for the smallest count continues */
	uint64_t least;	       /* lower bound of all counts */
	uint64_t total;	       /* number of hits with any value */
	bool approximate;      /* some values were replaced, so counts are approximate */
};

struct top *top_create(size_t slot_count);
void top_free(struct top *top);
/* Counts a value. Returns false if out of memory. */
bool top_add(struct top *top, const struct probe_value *value);

/* Fast path: if a number equals the last value, counts it; if not, returns false. */
static inline bool top_again(struct top *top, const struct probe_value *value)
{
	struct top_slot *last = top->last;

	if (!last || last->value.kind != value->kind || last->value.u != value->u ||
		value_has_bytes(value))
		return false;
	top->total++;
	last->count++;
	return true;
}
/* Returns the slots, most frequent first; the caller frees the array. NULL if out of memory. */
const struct top_slot **top_sorted(const struct top *top);
/*
 * Returns how many sorted slots to show: those with an error of at most half the count, at most
 * `limit` (0: no limit). *rest_ret is the number of hits of all other values, each of which has at
 * most *most_ret.
 */
size_t top_shown(const struct top *top, const struct top_slot *const *sorted, size_t limit,
	uint64_t *rest_ret, uint64_t *most_ret);

/* ---- Probes, pairs and threads ------------------------------------------------------ */

struct summary_probe {
	const char *provider, *name; /* in the map's key */
	size_t index;		     /* index of the probe in summary->probes */
	bool may_begin;		     /* the probe's name may be that of a start event */
	enum probe_role role;
	size_t pair; /* index of the pair if the role is an end event */
	uint64_t hits;
	uint64_t in_flight; /* number of start events without an end event so far */
	uint64_t
		/* start events beyond a limit, or without a value to match by */
		untimed;
	uint64_t set_aside; /* number of start events that were dropped because of a loss */
	/* values of each key; if the user names no key, of each argument */
	struct top *tops[SUMMARY_KEYS_MAX];
	/* the key or argument has no table */
	bool no_top[SUMMARY_KEYS_MAX];
	uint8_t settled; /* number of leading elements of no_top[] that are true */
	/* if the user names no key: arguments of tops[], and names of members among them (owned) */
	uint8_t numbers[SUMMARY_KEYS_MAX];
	char *labels[SUMMARY_KEYS_MAX];
	uint64_t bins[SUMMARY_BINS];
};
_Static_assert((int)SUMMARY_AUTO_ARGS <= (int)SUMMARY_KEYS_MAX, "one table for each");

struct summary_times {
	uint64_t count, least, most;
	long double sum;
	uint64_t buckets[PROBE_BUCKETS];
};

struct summary_slow {
	uint64_t time_ns, duration_ns; /* time of the start event; duration of the pair */
	pid_t pid, tid;		       /* process and thread of the start event */
	const char *text;	       /* arguments of the start event; owned */
	/* stack of the end event; NULL if not recorded */
	const struct probe_stack *stack;
	void *block; /* memory of `stack`; owned */
};

/* A pair of probes. */
struct summary_pair {
	size_t begin, end; /* indexes of the start and end probe */
	bool is_made;	   /* the pair comes from spans, regardless of the probes' names */
	uint64_t unmatched;
	struct summary_times times;
	/* pairs by latency (SUMMARY_HEAT_ROWS rows) and time bin */
	uint64_t (*heat)[SUMMARY_BINS];
	/* If summary->instances: the slowest pairs, longest first, and how many have no row. */
	struct summary_slow slow[SUMMARY_SLOWEST];
	size_t slow_count;
	uint64_t other_values;
};

/* The hits of a probe with one call stack. */
struct summary_callers {
	size_t probe;
	uint64_t count;
	const struct probe_stack *stack;
	void *block; /* memory of `stack`; owned */
};

/* All pairs whose key has this value. */
struct summary_value {
	size_t begin, end; /* indexes of the start and end probe */
	struct key key;
	struct probe_value value; /* value of the key; its bytes are in the map's key */
	struct summary_times times;
};

/* A start event without an end event so far. */
struct begun_words;
struct summary_begun {
	uint64_t time_ns;
	uint64_t identity;
	/* data of the start event; owned, may be NULL */
	struct begun_words *words;
};

struct summary_thread {
	pid_t pid, tid;
	uint64_t hits;
	char comm[SUMMARY_COMM_BYTES]; /* last known name of the thread; "" if unknown */
	const char *comm_at; /* address of the name in the last event; only compared, never read */
	uint64_t texts;	     /* `texts` of the event that comm_at comes from */
};

/*
 * Addresses of a probe's names in an earlier event. Other names may be at these addresses now,
 * unless the event has the same `texts`.
 */
struct summary_recent {
	const char *provider, *name; /* addresses of the names; only compared, never read */
	uint64_t texts;
	struct summary_probe *probe;
	struct summary_thread *thread; /* the thread that hit the probe; may be NULL */
};

struct probe_summary {
	struct key keys[SUMMARY_KEYS_MAX];
	size_t key_count;
	/* by key: normal form of its last value, for norm() */
	struct buffer normals[SUMMARY_KEYS_MAX];
	bool matches;
	struct key match, match_end;
	/* identities of start and end events in a thread; unused with `matches` */
	struct identities identities;

	/* first and last time of events; 0 if none has a time */
	uint64_t begin_ns, end_ns;
	uint64_t events; /* number of hits and losses since the first hit or loss that has a time */
	uint64_t hits, lost;
	/* a stream's oldest hits, or newest hits, are missing */
	bool overrun, full;

	int64_t base_ns; /* start of the first bin in nanoseconds */
	uint64_t width_ns;
	size_t bin_count; /* number of bins in use; 0 if there are no events */
	uint64_t lost_bins[SUMMARY_BINS];
	size_t last_bin; /* bin of the last event, which starts at last_bin_ns */
	uint64_t last_bin_ns;

	struct summary_probe **probes; /* in the order of their arrival; owned by the map */
	size_t probe_count;
	struct map probes_by_name; /* by provider and name */
	struct summary_recent recent[SUMMARY_RECENT][SUMMARY_RECENT_WAYS];
	uint64_t other_hits; /* number of hits of probes beyond the limit */
	uint64_t other_bins[SUMMARY_BINS];

	struct pairing pairing; /* pairing of probes[], with the same indexes */
	struct summary_pair **pairs;
	size_t pair_count;
	bool more_pairs; /* more pairs than SUMMARY_PAIRS_MAX were found */

	/* stacks of struct summary_begun, by thread or value, and probe */
	struct begins flights;
	bool instances;		   /* the summary keeps data of single pairs of events */
	struct map values;	   /* struct summary_value by pair, key and value */
	struct buffer text;	   /* text of a start event, while it is made */
	struct begun_words *spare; /* memory for the next start event; may be NULL */

	struct map threads;		    /* struct summary_thread by pid and tid */
	struct summary_thread *last_thread; /* thread of the last hit; may be NULL */
	uint64_t other_thread_hits;

	size_t auto_keys; /* number of tables in all probes for keys that the user did not name */

	struct summary_callers **callers; /* in the order of their arrival; owned by the map */
	size_t callers_count;
	struct map callers_by_stack;
	struct buffer stack;	/* a call stack as a key, while it is made */
	uint64_t other_callers; /* number of hits with call stacks beyond the limit */
};

/* ---- Call stacks (events.c) ----------------------------------------------------------- */

/*
 * Returns callers_count rows, most hits first; the caller frees the array. NULL if out of memory.
 */
struct probe_stacks_row *callers_rows(const struct probe_summary *summary);
void callers_deinit(struct probe_summary *summary);

/* ---- Time (summary.c) --------------------------------------------------------------- */

/* Divides the time into `parts`, and computes the hits per second of each part. */
void summary_fold(
	const struct probe_summary *summary, const uint64_t *bins, double *ret, size_t parts);
double summary_seconds(const struct probe_summary *summary);
/* Returns an amount (hits, or ns of pairs) per second; NAN for a record without length. */
double summary_per_second(const struct probe_summary *summary, long double amount);

/* ---- Pairs (instances.c) ------------------------------------------------------------ */

/* Pairs a new probe, the last in probes[]. */
PROBE_MUST_CHECK struct probe_error *flights_probe(struct probe_summary *summary);
/* Adds a hit of a possible start event or an end event. */
PROBE_MUST_CHECK struct probe_error *flights_hit(
	struct probe_summary *summary, size_t probe, const struct probe_event *event, size_t bin);
/* Adds the end event of a span. */
PROBE_MUST_CHECK struct probe_error *flights_span(struct probe_summary *summary, size_t begin,
	size_t end, const struct probe_event *event, size_t bin);
/* Drops all start events, because after a loss, end events may be missing. */
void flights_forget(struct probe_summary *summary);
void flights_deinit(struct probe_summary *summary);

/* Returns a heat row's lower bound in ns, which is the upper bound of the row below. */
double heat_low(size_t row);

/* Fills a row with a pair, borrowing from it. */
void pair_row(const struct summary_pair *pair, const struct probe_summary *summary,
	struct probe_row *ret);

/* Fills a row with durations, borrowing from them. */
void summary_times_row(const struct summary_times *times, struct probe_row *ret);

/* ---- Single pairs (instances.c): no effect unless summary->instances is set --------------- */

void instances_deinit(struct probe_summary *summary);
/*
 * Returns the rows of a pair, sorted by key, then by time, longest first. The caller frees them.
 * NULL if out of memory.
 */
const struct summary_value **instances_values(
	const struct probe_summary *summary, const struct summary_pair *pair, size_t *count_ret);

/* ---- Threads (events.c) --------------------------------------------------------------- */

struct summary_process {
	pid_t pid;
	uint64_t hits;
	size_t threads;
	const char *comm; /* name of the main thread if that had hits, else of any thread */
};
/* Return arrays, most hits first; the caller frees them. NULL if out of memory. */
struct summary_process *threads_processes(const struct probe_summary *summary, size_t *count_ret);
const struct summary_thread **threads_sorted(const struct probe_summary *summary);

/* ---- Selecting rows (summary.c) --------------------------------------------------------- */

/* Return the probes by hits, or the pairs by time. The caller frees them; NULL if out of memory. */
const struct summary_probe **summary_probes(const struct probe_summary *summary);
const struct summary_pair **summary_pairs(const struct probe_summary *summary);

struct summary_top {
	const struct summary_probe *probe;
	struct key key;
	const struct top *top;
};
/*
 * Return the meaning of a key's argument, or NULL: for the table's probe; for the pair's start
 * event, then its end event.
 */
const struct probe_arg_meaning *summary_top_meaning(const struct summary_top *top);
const struct probe_arg_meaning *summary_value_meaning(
	const struct probe_summary *summary, const struct summary_value *value);
/* Returns true if the user has named this key, but no hit has a value for it. */
bool summary_key_missing(const struct probe_summary *summary, size_t key);
/*
 * Returns the tables to show, most useful first; the caller frees the array. NULL if out of memory.
 */
struct summary_top *summary_tops(const struct probe_summary *summary, size_t *count_ret);
/* Returns how many of `count` rows to show; the limit 0 means all. */
size_t summary_shown(size_t count, size_t limit);
/* Returns the number of values to show of each key; 0 means all. */
size_t summary_key_limit(
	const struct probe_summary *summary, const struct probe_summary_view *view);

/* ---- Writing a summary ---------------------------------------------------------------- */

/*
 * Moves a buffer's text to the caller. Errors: PROBE_ERROR_MEMORY if the buffer ran out of memory.
 */
PROBE_MUST_CHECK struct probe_error *summary_take(
	struct buffer *out, char **ret, size_t *length_ret);

void summary_text(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view);
/* Writes title, hits and losses. */
void summary_text_header(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view);
/* Writes "provider:begin -> provider:end". */
void summary_text_pair(
	struct buffer *out, const struct probe_summary *summary, const struct summary_pair *pair);
/* Open a line of this type, and write the names of its probe. */
void summary_json_open(struct buffer *out, const char *type);
void summary_json_open_named(
	struct buffer *out, const char *type, const char *provider, const char *name);
void summary_json_key(struct buffer *out, const struct key *key, const struct probe_value *value);
/*
 * Writes the summary as JSON. With `for_page`, also a first line of type "page" with data that only
 * the page needs.
 */
void summary_json(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view, bool for_page);
extern const char page_template[];
void summary_html(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view);

/* Like text_duration(), but long durations are "12.5min" or "28.1h". */
void summary_duration(struct buffer *out, double ns);
/* Writes hits per second: "12.5", "1234", "<0.01". */
void summary_rate(struct buffer *out, const struct probe_summary *summary, uint64_t hits);

/* ---- Export (export.c) ----------------------------------------------------------------------- */

/* The parsed options of an export. */
struct export_settings {
	const struct probe_export_options *options;
	struct key keys[PROBE_EXPORT_KEYS_MAX];
	size_t key_count;
	/* arguments that match start and end events, or -1 */
	int match, match_end;
};

struct export_format {
	/* names up to NULL; the first is documented */
	const char *names[4];
	/* Operations append to the context, which outlives the state. */
	struct probe_error *(*create)(
		const struct export_settings *settings, struct format_context *context, void **ret);
	void (*free)(void *state); /* frees a state; NULL is allowed */
	struct probe_error *(*event)(void *state, const struct probe_event *event);
	/* Called until *done_ret is true. The caller writes the output after each call. */
	struct probe_error *(*finish)(void *state, bool *done_ret);
};

extern const struct export_format export_json;
extern const struct export_format export_csv;
extern const struct export_format export_folded;
extern const struct export_format export_trace_event;
extern const struct export_format export_flamegraph;

/* Appends an event's readable values for the keys, each after a blank. */
void export_key_text(struct buffer *out, const struct probe_event *event,
	const struct export_settings *settings);
/*
 * Appends the name of a frame: that of the pair, or of the event if `pair` is NULL, and the values
 * of the keys. `key` is room for these, and is empty.
 */
void export_frame_text(struct buffer *out, struct buffer *key, const struct probe_event *event,
	const struct probe_span_pair *pair, const struct export_settings *settings);

/* Gives up the open spans of a process, which has ended or executed another program (spans.c). */
void spans_forget(struct probe_spans *spans, pid_t pid);
