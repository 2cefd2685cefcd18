/* SPDX-License-Identifier: MIT */
/*
 * Calls of functions: self time, total time, callers and callees.
 *
 *	calls -> spans: the calls that have not ended, in a stack for each thread
 *	      -> functions, by pair and name
 *	      -> edges, by caller and callee
 *
 * When a call ends, its time is added to the function and to the edge from its caller. A recursive
 * function's total time is that of its outermost calls; an edge's is that of its outermost calls.
 *
 * Sums of the current round wait in `recent` until it is known that no hits were lost.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/record/record.h"
#include "libprobe/report/report.h"
#include "probe/calls.h"

enum { CALLED_MAX = 1 << 16, EDGES_MAX = 1 << 18, LOSS_ROUNDS = 2, RECENT_FUNCTIONS = 256 };

/* The sums of a function or of an edge. */
struct item {
	struct probe_calls_sum sum, marked, recent;
	uint64_t open;	   /* calls that have not ended, in all threads */
	struct item *next; /* the next item of calls->recent */
	bool is_recent, is_function;
};

struct call_function {
	struct item its;
	const struct probe_span_pair *pair;
	const char *text; /* in the map's key */
	/*
	 * While rows are made: the index of its row, or SIZE_MAX, and the row's sum; and its side
	 * with what calls it and is not traced, or NULL.
	 */
	size_t row;
	struct side *untraced;
	struct probe_calls_sum shown;
};

/* A caller and its callee: the data of an open span. */
struct call_edge {
	struct item its;
	struct call_function *caller, *callee; /* the caller may be NULL */
};

struct probe_calls {
	struct export_settings settings; /* only its keys are used */
	bool has_keys;			 /* the keys are the user's */
	struct probe_spans *spans;
	struct map functions, edges;
	/* Functions whose pair is all of their name, found lately, by the address of the pair. */
	struct call_function *recent_functions[RECENT_FUNCTIONS];
	struct item *recent;
	struct buffer text, key;
	struct probe_calls_doubts doubts;
	unsigned int loss_rounds; /* rounds that may have calls around a loss */
};

/* Notes that the call of an edge has ended, or was left. */
static void close_call(struct call_edge *edge)
{
	edge->its.open--;
	edge->callee->its.open--;
}

static void unended(void *data, struct probe_span *span)
{
	struct probe_calls *calls = data;

	calls->doubts.open += !span->is_cut;
	if (span->data)
		close_call(span->data);
}

static struct probe_error *parse_keys(
	struct probe_calls *calls, const struct probe_calls_options *options)
{
	static const char *const names[] = {"class", "method", "function"};
	bool by_name = !options->key_count && options->catalogue;
	const char *const *keys = by_name ? names : options->keys;
	size_t count = by_name ? sizeof(names) / sizeof(names[0]) : options->key_count;
	struct export_settings *settings = &calls->settings;
	struct probe_error *error = NULL;

	calls->has_keys = options->key_count > 0;
	if (count > PROBE_EXPORT_KEYS_MAX)
		return probe_error_new(
			PROBE_ERROR_USAGE, "at most %d keys can be given", PROBE_EXPORT_KEYS_MAX);
	for (size_t i = 0; i < count && !error; i++) {
		error = key_parse(keys[i], strlen(keys[i]), options->catalogue, (uint8_t)i,
			&settings->keys[i]);
		settings->key_count += !error;
	}
	return error;
}

struct probe_error *probe_calls_create(
	const struct probe_calls_options *options, struct probe_calls **ret)
{
	struct probe_calls *calls = calloc(1, sizeof(*calls));
	const struct probe_spans_options spans = {.match = -1,
		.match_end = -1,
		.nested = true,
		.unended = unended,
		.data = calls,
		.catalogue = options->catalogue};
	struct probe_error *error;

	if (!calls)
		return probe_error_no_memory();
	error = parse_keys(calls, options) ?: probe_spans_create(&spans, &calls->spans);
	if (error)
		probe_calls_free(calls);
	else
		*ret = calls;
	return error;
}

void probe_calls_free(struct probe_calls *calls)
{
	if (!calls)
		return;
	probe_spans_free(calls->spans);
	map_clear(&calls->functions);
	map_clear(&calls->edges);
	for (size_t i = 0; i < calls->settings.key_count; i++)
		key_deinit(&calls->settings.keys[i]);
	buffer_deinit(&calls->text);
	buffer_deinit(&calls->key);
	free(calls);
}

/* ---- Adding ------------------------------------------------------------------------------- */

static void sum_add(struct probe_calls_sum *to, const struct probe_calls_sum *sum)
{
	to->count += sum->count;
	to->self_ns += sum->self_ns;
	to->total_ns += sum->total_ns;
}

/* Adds a call; without its total time if it `is_inner`, inside one of the same item. */
static void item_add(struct probe_calls *calls, struct item *item,
	const struct probe_calls_sum *sum, bool is_inner)
{
	struct probe_calls_sum its = *sum;

	if (is_inner)
		its.total_ns = 0;
	if (!item->is_recent) {
		item->is_recent = true;
		item->next = calls->recent;
		calls->recent = item;
	}
	sum_add(&item->recent, &its);
}

/* Finds or adds a function. Returns NULL if out of memory. */
static struct call_function *add_function(
	struct probe_calls *calls, const struct probe_span_pair *pair, const char *text)
{
	struct call_function *function = map_add(
		&calls->functions, sizeof(*function), MAP_KEY(MAP_OBJECT(pair), map_text(text)));

	if (function) {
		function->its.is_function = true;
		function->pair = pair;
		function->text = (const char *)map_key(function) + sizeof(pair);
	}
	return function;
}

/* Returns the function that stands for all that find no room in a table. */
static struct call_function *other_function(struct probe_calls *calls)
{
	return add_function(calls, NULL, "(other)");
}

/* Finds or adds the function of a start event. Returns NULL if out of memory. */
static struct call_function *find_function(struct probe_calls *calls,
	const struct probe_event *event, const struct probe_span_pair *pair)
{
	struct call_function **recent =
		&calls->recent_functions[((uintptr_t)pair >> 4) % RECENT_FUNCTIONS];
	struct call_function *function = *recent;

	if (function && function->pair == pair)
		return function;
	calls->text.length = 0;
	export_frame_text(&calls->text, &calls->key, event, pair, &calls->settings);
	buffer_char(&calls->text, '\0');
	if (calls->text.no_memory)
		return NULL;
	if (calls->functions.count < CALLED_MAX) {
		function = add_function(calls, pair, calls->text.data);
		/* Without the user's keys, arguments are no part of the names of functions. */
		if (!calls->has_keys && event_is_of_function(event->provider))
			*recent = function;
		return function;
	}
	function =
		map_find(&calls->functions, MAP_KEY(MAP_OBJECT(pair), map_text(calls->text.data)));
	return function ? function : other_function(calls);
}

/* Finds or adds an edge. Returns NULL if out of memory. */
static struct call_edge *find_edge(
	struct probe_calls *calls, struct call_function *caller, struct call_function *callee)
{
	struct call_function *both[] = {caller, callee};
	struct call_edge *edge = map_find(&calls->edges, MAP_KEY(MAP_OBJECT(both)));

	if (edge)
		return edge;
	if (calls->edges.count >= EDGES_MAX) {
		both[0] = other_function(calls);
		if (!both[0])
			return NULL;
	}
	edge = map_add(&calls->edges, sizeof(*edge), MAP_KEY(MAP_OBJECT(both)));
	if (edge) {
		edge->caller = both[0];
		edge->callee = callee;
	}
	return edge;
}

/* Sets span->data. */
static struct probe_error *begin_call(
	struct probe_calls *calls, const struct probe_event *event, struct probe_span *span)
{
	const struct call_edge *outer = span->parent ? span->parent->data : NULL;
	struct call_function *function = find_function(calls, event, span->pair);
	struct call_edge *edge =
		function ? find_edge(calls, outer ? outer->callee : NULL, function) : NULL;

	if (!edge)
		return probe_error_no_memory();
	span->data = edge;
	edge->its.open++;
	function->its.open++;
	return NULL;
}

static void end_call(
	struct probe_calls *calls, const struct probe_event *event, const struct probe_span *span)
{
	struct call_edge *edge = span->data;
	struct call_function *function;
	uint64_t ns =
		event->time_ns > span->begin.time_ns ? event->time_ns - span->begin.time_ns : 0;
	const struct probe_calls_sum sum = {.count = 1,
		.self_ns = ns > span->inner_ns ? ns - span->inner_ns : 0,
		.total_ns = ns};
	const struct probe_span *outer = span->parent;
	bool in_function = false, in_edge = false;

	if (!edge)
		return; /* memory was short at its begin */
	function = edge->callee;
	close_call(edge);
	/* Looks for a call of the same function, or edge, around this one, if it may be there. */
	for (; outer && function->its.open && !(in_function && (in_edge || !edge->its.open));
		outer = outer->parent) {
		const struct call_edge *its = outer->data;

		in_function |= its && its->callee == function;
		in_edge |= its == edge;
	}
	item_add(calls, &function->its, &sum, in_function);
	item_add(calls, &edge->its, &sum, in_edge);
	calls->doubts.left_out += !function->pair || (edge->caller && !edge->caller->pair);
}

struct probe_error *probe_calls_add(struct probe_calls *calls, const struct probe_event *event)
{
	enum probe_span_kind kind;
	struct probe_span *span;
	struct probe_error *error;

	if (system_event_is(event))
		return NULL;
	if (event->begin)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"self time needs begins and ends in the order of their times, and a span "
			"comes when it ends: use what was traced or recorded without -t span");
	error = probe_spans_add(calls->spans, event, &kind, &span);
	if (error)
		return error;
	if (kind == PROBE_SPAN_BEGIN)
		return begin_call(calls, event, span);
	if (kind == PROBE_SPAN_END)
		end_call(calls, event, span);
	calls->doubts.unmatched += kind == PROBE_SPAN_UNMATCHED;
	return NULL;
}

struct probe_error *probe_calls_round(struct probe_calls *calls, bool lost)
{
	const struct probe_event loss = {.kind = PROBE_EVENT_LOST, .cpu = -1};
	enum probe_span_kind kind;
	struct probe_span *span;
	struct item *item;
	bool drops;

	if (lost)
		calls->loss_rounds = LOSS_ROUNDS;
	drops = calls->loss_rounds > 0;
	calls->loss_rounds -= drops;
	while ((item = calls->recent)) {
		calls->recent = item->next;
		item->is_recent = false;
		if (!drops)
			sum_add(&item->sum, &item->recent);
		else if (item->is_function)
			calls->doubts.untimed += item->recent.count;
		item->recent = (struct probe_calls_sum){0};
	}
	return drops ? probe_spans_add(calls->spans, &loss, &kind, &span) : NULL;
}

void probe_calls_forget(struct probe_calls *calls, pid_t pid)
{
	spans_forget(calls->spans, pid);
}

/* ---- Rows ---------------------------------------------------------------------------------- */

static struct probe_calls_sum sum_of(const struct item *item, bool is_interval)
{
	struct probe_calls_sum sum = item->sum;

	sum_add(&sum, &item->recent);
	if (is_interval) {
		sum.count -= item->marked.count;
		sum.self_ns -= item->marked.self_ns;
		sum.total_ns -= item->marked.total_ns;
	}
	return sum;
}

void probe_calls_mark(struct probe_calls *calls)
{
	struct map *const maps[] = {&calls->functions, &calls->edges};
	struct item *item;

	/* Functions and edges begin with their items. */
	for (size_t m = 0; m < 2; m++)
		for (size_t i = 0; (item = map_next(maps[m], &i));)
			item->marked = sum_of(item, false);
}

static int compare_functions(const void *a, const void *b)
{
	const struct call_function *x = *(struct call_function *const *)a;
	const struct call_function *y = *(struct call_function *const *)b;

	return ORDER(y->shown.self_ns, x->shown.self_ns) ?: strcmp(x->text, y->text);
}

/* An edge, and the row that it belongs to. */
struct side {
	size_t row;
	struct probe_calls_edge edge;
};

static int compare_sides(const void *a, const void *b)
{
	const struct side *x = a, *y = b;
	int order = ORDER(x->row, y->row) ?: ORDER(y->edge.sum.total_ns, x->edge.sum.total_ns);

	if (order)
		return order;
	return !x->edge.function || !y->edge.function ? !y->edge.function - !x->edge.function
						      : strcmp(x->edge.function, y->edge.function);
}

/*
 * Gives rows their callers or callees, in edges[]. A function without any end
 * is no caller: its begins may be all that is traced of it.
 */
static void add_edges(const struct probe_calls *calls, bool is_interval, bool callees,
	struct side *sides, struct probe_calls_row *rows, struct probe_calls_edge *edges)
{
	const struct call_edge *edge;
	size_t count = 0;

	for (size_t i = 0; (edge = map_next(&calls->edges, &i));) {
		const struct call_function *caller = edge->caller;
		const struct probe_calls_sum sum = sum_of(&edge->its, is_interval);

		if (caller && caller->pair && !caller->pair->ended)
			caller = NULL;
		if (!sum.count || (callees && (!caller || caller->row == SIZE_MAX)) ||
			(!callees && edge->callee->row == SIZE_MAX))
			continue;
		if (!callees && !caller && edge->callee->untraced) {
			sum_add(&edge->callee->untraced->edge.sum, &sum);
			continue;
		}
		if (!callees && !caller)
			edge->callee->untraced = &sides[count];
		sides[count++] = (struct side){.row = callees ? caller->row : edge->callee->row,
			.edge = {.function = callees  ? edge->callee->text
					     : caller ? caller->text
						      : NULL,
				.sum = sum}};
	}
	qsort(sides, count, sizeof(*sides), compare_sides);
	for (size_t i = 0; i < count; i++) {
		struct probe_calls_row *row = &rows[sides[i].row];

		edges[i] = sides[i].edge;
		if (callees && !row->callee_count++)
			row->callees = &edges[i];
		if (!callees && !row->caller_count++)
			row->callers = &edges[i];
	}
}

struct probe_error *probe_calls_rows(const struct probe_calls *calls, bool is_interval,
	struct probe_calls_row **ret, size_t *count_ret)
{
	size_t functions = calls->functions.count, edge_count = calls->edges.count, count = 0;
	AUTO_FREE struct side *sides = calloc(edge_count + 1, sizeof(*sides));
	AUTO_FREE struct call_function **shown = calloc(functions + 1, sizeof(*shown));
	struct probe_calls_row *rows =
		calloc(1, functions * sizeof(*rows) + 2 * edge_count * sizeof(*rows->callers) + 1);
	struct probe_calls_edge *edges;
	struct call_function *function;

	if (!sides || !shown || !rows) {
		free(rows);
		return probe_error_no_memory();
	}
	edges = (struct probe_calls_edge *)(rows + functions);
	for (size_t i = 0; (function = map_next(&calls->functions, &i));) {
		function->row = SIZE_MAX;
		function->untraced = NULL;
		function->shown = sum_of(&function->its, is_interval);
		if (function->shown.count)
			shown[count++] = function;
	}
	qsort(shown, count, sizeof(*shown), compare_functions);
	for (size_t i = 0; i < count; i++) {
		const struct probe_span_pair *pair = shown[i]->pair;

		shown[i]->row = i;
		rows[i] = (struct probe_calls_row){.provider = pair ? pair->provider : NULL,
			.pair = pair ? pair->name : NULL,
			.function = shown[i]->text,
			.sum = shown[i]->shown};
	}
	add_edges(calls, is_interval, false, sides, rows, edges);
	add_edges(calls, is_interval, true, sides, rows, edges + edge_count);
	*ret = rows;
	*count_ret = count;
	return NULL;
}

struct probe_calls_doubts probe_calls_finish(struct probe_calls *calls)
{
	probe_spans_finish(calls->spans);
	return calls->doubts;
}
