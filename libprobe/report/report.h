/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_REPORT_REPORT_H
#define LIBPROBE_REPORT_REPORT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/query/query.h"
#include "probe/catalogue.h"
#include "probe/event.h"
#include "probe/export.h"
#include "probe/spans.h"
#include "probe/stacks.h"
#include "probe/summary.h"

/* ---- Begins ---------------------------------------------------------------------------------- */

/*
 * Begins that wait for their ends: a stack for each thread, or for each value that begins and ends
 * are matched by. The user decides what is kept of a begin: spans keep the event, a summary the
 * time.
 */

/* Whose stack it is. */
struct begins_key {
	uint64_t process; /* processes have the same values, forked ones also the same pointers */
	uint64_t word;	  /* the thread; the value, or its hash */
	uint64_t kind;	  /* tells different kinds of values apart */
	uint64_t probe;	  /* that begins; 0 if all share a stack */
};

struct begins_stack {
	struct begins_key key;
	void *items; /* oldest first */
	size_t depth, room;
	uint64_t excess; /* newer begins, which are only counted */
	bool used;
};

/* Initialise with the size of an item; all else is 0. */
struct begins {
	size_t item_bytes;
	struct begins_stack *stacks; /* a hash table: those that are `used` */
	size_t room, count;
	size_t depth; /* items in all stacks */
	void *spare;  /* the items of a stack that was dropped, for the next one; or NULL */
};

void begins_deinit(struct begins *begins);

/* The stack of a key, or NULL. It may move when another one is made or dropped. */
struct begins_stack *begins_find(const struct begins *begins, const struct begins_key *key);
/* The same, created if there is none. NULL without memory. */
struct begins_stack *begins_make(struct begins *begins, const struct begins_key *key);
/* Removes a stack and its items. */
void begins_drop(struct begins *begins, struct begins_stack *stack);

/* Adds the newest item. False without memory. */
bool begins_push(struct begins *begins, struct begins_stack *stack, const void *item);
/* Removes an item; the stack stays, even if it is empty. */
void begins_remove(struct begins *begins, struct begins_stack *stack, size_t index);

/* ---- Key ------------------------------------------------------------------------------------- */

/* Keys: values that are taken from events. */

/* KEY_SYMBOL: an argument that was recorded as sym(argN). */
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
	uint8_t arg;	       /* of KEY_NAME: which of its owner's keys it is */
	struct key_name *name; /* of KEY_NAME (key_name.h); copies of the key borrow it */
};

/*
 * Parses argN, str(argN), norm(str(argN)), sym(argN), tid, pid, cpu, comm or probe; with a
 * catalogue, which is borrowed, also names of arguments in the place of argN and str(argN). `index`
 * is the number of the key among the owner's. To be freed with key_deinit(). Errors:
 * PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *key_parse(const char *text, size_t length,
	const struct probe_catalogue *catalogue, uint8_t index, struct key *ret);
void key_deinit(struct key *key);
/* The key by number that a name is for an event's probe; false if that has no such argument. */
bool key_resolve(const struct key *key, const struct probe_event *event, struct key *ret);
/* False where the event has no such value; bytes are the event's. */
bool key_value(const struct key *key, const struct probe_event *event, struct probe_value *ret);
/*
 * What is known of the argument that a key names, of this probe: a number may have a word; or NULL.
 */
const struct probe_arg_meaning *key_meaning(
	const struct key *key, const char *provider, const char *name);
/*
 * Completes a value that is made from the event's, in `room`: brings that of norm(str(argN)), which
 * is the whole string so far, into its normal form, and puts the provider before the name of the
 * probe. Other keys' values stay. False without memory.
 */
PROBE_MUST_CHECK bool key_complete(const struct key *key, const struct probe_event *event,
	struct probe_value *value, struct buffer *room);
bool key_is_norm(const struct key *key);
bool key_same(const struct key *a, const struct key *b);
void key_print(struct buffer *out, const struct key *key);
/* That a name is no argument of any probe that was looked at; NULL: it is one, or no name. */
PROBE_MUST_CHECK struct probe_error *key_unknown(const struct key *key);
/* That no hit has a value for it: a mistake of whoever named it. */
PROBE_MUST_CHECK struct probe_error *key_not_found(const struct key *key);

/* ---- Identity -------------------------------------------------------------------------------- */

/*
 * Which begin of its thread an end belongs to, in records and streams: the catalogue may know
 * arguments that both have with the same values (probe_meaning.same). Stubs do the same
 * (arch_flights.compares).
 */

struct identities {
	const struct probe_catalogue *catalogue; /* borrowed; NULL: nothing is known */
	struct identity_begin *begins;		 /* by the index of the probe */
	size_t count;
};

void identities_deinit(struct identities *identities);

/*
 * Sets the identity of an event that begins something, or ends what probe number `index`, of these
 * names, begins: a hash of what is compared. It is 0 if that is not known, as it is if a record
 * lacks one of the arguments. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *identity_of(struct identities *identities, size_t index,
	const char *provider, const char *name, const struct probe_event *event, uint64_t *ret);

/* Whether an end may belong to a begin. */
static inline bool identity_matches(uint64_t begin, uint64_t end)
{
	return begin == end || !begin || !end;
}

/* ---- Summary --------------------------------------------------------------------------------- */

/*
 * What the parts of a summary share: time (bins.c), keys (keys.c), pairs
 * (flights.c; one by one: instances.c), threads (threads.c), the whole (summary.c), and what writes
 * it (text.c, json.c, html*.c).
 *
 * Everything has a limit, since a record may hold anything: the sums stay exact
 * beyond it, what no longer fits is counted together.
 */

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

/* Durations as a row of a table; borrows from them. */
void summary_times_row(const struct summary_times *times, struct probe_row *ret);

/* ---- Single pairs (instances.c): do nothing unless summary->instances --------------------- */

/* Frees what is kept of all begins. */
void instances_deinit(struct probe_summary *summary);
/* The rows of a pair, by key, and then most time first: an array to be freed, or NULL. */
const struct summary_value **instances_values(
	const struct probe_summary *summary, const struct summary_pair *pair, size_t *count_ret);

/* ---- Threads (threads.c) -------------------------------------------------------------- */

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

/* Gives the text of a buffer to the caller, and ends the buffer, also if something did not fit. */
PROBE_MUST_CHECK struct probe_error *summary_take(
	struct buffer *out, char **ret, size_t *length_ret);

void summary_text(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view);
/* What was read: how much, and how much is missing. */
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

/* ---- Compare --------------------------------------------------------------------------------- */

/* Two summaries, matched (compare.c), and what writes them (compare_text.c, compare_json.c). */

enum side { SIDE_BEFORE, SIDE_AFTER, SIDE_COUNT };

struct comparison {
	const struct probe_summary *summaries[SIDE_COUNT];
	const struct probe_summary_view *views[SIDE_COUNT];
};

/* A row of both summaries, or of one; the row of the other is NULL then. */
struct compared {
	const void *items[SIDE_COUNT];
};

/* One of them that is there. */
static inline const void *compared_any(const struct compared *compared)
{
	return compared->items[SIDE_BEFORE] ? compared->items[SIDE_BEFORE]
					    : compared->items[SIDE_AFTER];
}

/*
 * The probes (summary_probe), the pairs (summary_pair), and the values (top_slot) of two tables of
 * keys; what changed most, in absolute numbers a second, comes first: hits, of pairs their total
 * time. Arrays to be freed; NULL without memory.
 */
struct compared *compare_probes(const struct comparison *comparison, size_t *count_ret);
struct compared *compare_values(const struct comparison *comparison,
	const struct summary_top *const tops[SIDE_COUNT], size_t *count_ret);

/* The tables of keys (summary_top) that both have. */
struct compared_top {
	struct summary_top tops[SIDE_COUNT];
};

void compare_text(struct buffer *out, const struct comparison *comparison);

/* ---- Export ---------------------------------------------------------------------------------- */

/* The operations of a format of `export`; each format has one such table. */

/* The options, parsed. */
struct export_settings {
	const struct probe_export_options *options;
	struct key keys[PROBE_EXPORT_KEYS_MAX];
	size_t key_count;
	int match, match_end; /* numbers of arguments, or -1 */
};

struct export_format {
	const char *names[4]; /* the first is the one that is documented first */
	/* `out` is where all of them append; it lives as long as the state. */
	struct probe_error *(*create)(
		const struct export_settings *settings, struct buffer *out, void **ret);
	void (*free)(void *state); /* NULL is allowed */
	struct probe_error *(*event)(void *state, const struct probe_event *event);
	/*
	 * Called again and again until it says that it is done: what was added is
	 * written in between.
	 */
	struct probe_error *(*finish)(void *state, bool *done_ret);
};

extern const struct export_format export_json;
extern const struct export_format export_csv;
extern const struct export_format export_folded;
extern const struct export_format export_trace_event;
extern const struct export_format export_flamegraph;

/*
 * The values of the keys that the event has, as a person reads them, each after a blank.
 */
void export_key_text(struct buffer *out, const struct probe_event *event,
	const struct export_settings *settings);

/* ---- Folded ---------------------------------------------------------------------------------- */

/* Stacks of pairs, which are written as lines (folded.c) and drawn (flamegraph.c). */

/* ---- Html ------------------------------------------------------------------------------------ */

/*
 * What the writers of the page share: the page as a whole (html.c), its tables
 * (html_tables.c), its charts (html_charts.c) and their axes (html_axes.c), its style
 * (html_style.c).
 *
 * Names and values come out of traced programs. All of them are first made
 * printable as for a terminal, and then escaped; nothing else puts text of a
 * record into the page.
 */

struct page {
	struct buffer *out;
	struct buffer text; /* what page_text() is to escape */
	const struct probe_summary *summary;
	const struct probe_summary_view *view;
	unsigned int ids; /* given so far */
	bool is_plain;	  /* words only, no HTML in names */
};

extern const char html_style[];

/* Our own HTML. */
void page_html(struct page *page, const char *html);
/* Writes page->text, escaped. */
void page_text(struct page *page);
void page_string(struct page *page, const char *text);
/* With the places where a line may end. */
void page_probe(struct page *page, const char *provider, const char *name);
void page_pair(struct page *page, const struct summary_pair *pair);
void page_key(struct page *page, const struct summary_top *top);

/* Figures, with their exact value for programs. */
void page_count(struct page *page, uint64_t count);
void page_duration(struct page *page, double ns);
/* The same as plain text. */
void page_time(struct page *page, double ns);
/* Hits a second. */
void page_rate(struct page *page, double rate);
void page_share(struct page *page, uint64_t part, uint64_t whole);

/* ---- Tables (html_tables.c) ------------------------------------------------------- */

void table_probes(struct page *page);
void table_pairs(struct page *page);
void table_keys(struct page *page, const struct summary_top *top);
/* Where there are several. */
void table_processes(struct page *page);
void table_threads(struct page *page);
/* The numbers of charts. */
void table_rates(struct page *page, const struct summary_probe *const *probes, size_t count);
void table_lost(struct page *page);
void table_heat(struct page *page, const struct summary_pair *pair);
void table_histogram(struct page *page, const struct summary_pair *pair);

/* ---- Axes (html_axes.c) ------------------------------------------------------------ */

enum { AXIS_TICKS_MAX = 6 };

/* A place in a chart, or in per cent, with one decimal at most. */
void axis_coordinate(struct buffer *out, double value);
/* The end of an axis for values up to this one, and in how many parts it is divided. */
double axis_end(double value, size_t *parts_ret);
/* "2.5k": thousands, millions ...; of ticks, which have few digits. */
void axis_number(struct buffer *out, double value);
/* "2.5ms", "3min": without zeros at its end. */
void axis_time(struct buffer *out, double ns);
/* Where a latency is among the rows of heat; which of them are labelled; the labels. */
double axis_row(double ns);
size_t axis_latencies(size_t low, size_t high, double ret[AXIS_TICKS_MAX]);

/* ---- Charts (html_charts.c) -------------------------------------------------------- */

/* A sentence each, for screen readers. */
void chart_rate(struct page *page, const char *what, const struct summary_probe *probe,
	const uint64_t *bins, bool is_small);
void chart_spark(struct page *page, const uint64_t *bins);
void chart_heat(struct page *page, const struct summary_pair *pair);
void chart_histogram(struct page *page, const struct summary_pair *pair);

/* The rows of heat with something in them: [*low_ret, *high_ret); false: none. */
bool heat_range(const struct probe_summary *summary, const struct summary_pair *pair,
	size_t *low_ret, size_t *high_ret);
uint64_t heat_count(
	const struct probe_summary *summary, const struct summary_pair *pair, size_t row);
/* The most hits a second in one of the bins. */
double peak_rate(const struct probe_summary *summary, const uint64_t *bins);
/* All hits by time. */
void all_bins(const struct probe_summary *summary, uint64_t ret[SUMMARY_BINS]);

/* ---- Key name -------------------------------------------------------------------------------- */

/* Keys that are names of the catalogue, which are other arguments of each probe. */

struct key_name;

/* ---- Lines ----------------------------------------------------------------------------------- */

/* A table whose cells are written one after the other, line by line. */

struct lines {
	struct grid grid;   /* the next cell is written to grid.text */
	struct buffer *out; /* where the table goes */
	size_t column;
};

/* False without memory, which `out` then says, too. */
bool lines_begin(struct lines *lines, struct buffer *out);
/* Writes the table and frees it. */
void lines_end(struct lines *lines);

/* Ends a cell: of numbers on the right, and the last one of its line. */
void lines_next(struct lines *lines, bool right, bool is_last);
void lines_title(struct lines *lines, const char *text, bool right, bool is_last);

/* ---- Numbers --------------------------------------------------------------------------------- */

/*
 * The arithmetic of scales. Not libm's: loading that would make every start of
 * probectl slower, and nothing here needs more than a few digits.
 */

/* A number that is not negative, to the nearest whole one. */
static inline double rounded(double value)
{
	return value < 0x1p63 ? (double)(uint64_t)(value + 0.5) : value;
}

static inline double larger(double a, double b)
{
	return a > b ? a : b;
}

/* The logarithm to the base 2 of a number above 0, to 7 digits; exact for powers of two. */
static inline double logarithm(double value)
{
	int exponent;
	double part = 2 * frexp(value, &exponent);
	/* ln((1 + z) / (1 - z)) = 2 (z + z^3 / 3 + z^5 / 5 ...), with z up to 1/3. */
	double z = (part - 1) / (part + 1), power = z, sum = 0;

	for (int i = 1; i <= 13; i += 2, power *= z * z)
		sum += power / i;
	return exponent - 1 + 2 * sum / 0.69314718055994531;
}

/* The largest power of ten that is not above. */
static inline double power_of_ten(double value)
{
	double power = 1;

	while (power * 10 <= value * (1 + 1e-9))
		power *= 10;
	while (value > 0 && power > value * (1 + 1e-9))
		power /= 10;
	return power;
}

#endif
