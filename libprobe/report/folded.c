/* SPDX-License-Identifier: MIT */
/*
 * Folded stacks, for flamegraph.pl, inferno, speedscope and similar tools. Each line has a stack,
 * whose frames are separated by semicolons, and its weight. Also flame graphs.
 *
 *	COMM;PROVIDER:PAIR;PROVIDER:PAIR KEY 1234
 *
 * Frames are open pairs of the same thread. The weight is the time in nanoseconds that a pair took
 * without the pairs inside it. With --count, the weight is a number of hits. In this mode, start
 * events and the probes that belong to no pair are also frames. Such a frame is inside the pairs
 * around it, or inside its call stack if that was recorded.
 *
 * While events arrive, stacks form a tree of nodes. Only at the end is it known that a start event
 * has no end event. Its frame is then left out, and stacks that become equal are added up.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/utf8.h"
#include "libprobe/output/output.h"
#include "libprobe/record/record.h"
#include "libprobe/report/report.h"

/* ==== Folded stacks =========================================================================== */

/* A frame's text; equal labels exist once. */
struct label {
	/* NULL for a thread's name or a point event */
	const struct probe_span_pair *pair;
	const char *text; /* text of the frame, in the map's key */
};

struct node {
	struct node *parent;
	const struct label *label;
	uint64_t self_ns, hits;
};

struct folded_export {
	struct export_settings settings;
	struct buffer *out, text, key;
	struct probe_spans *spans;
	struct map labels;	  /* struct label by pair and text */
	struct map nodes;	  /* struct node by parent and label */
	struct map stacks;	  /* struct flame_stack by text */
	struct flame_stack *sums; /* stacks that folded_sums() has returned */
	uint64_t ended, lost;
	bool failed; /* making stacks failed for lack of memory */
};

static int compare_stacks(const void *a, const void *b)
{
	const struct flame_stack *x = a, *y = b;

	return strcmp(x->text, y->text);
}

/* ---- Frames ------------------------------------------------------------------------------- */

/* Finds or adds the label of folded->text, which becomes empty. NULL if out of memory. */
static const struct label *find_label(
	struct folded_export *folded, const struct probe_span_pair *pair)
{
	struct label *label;
	char *text;

	buffer_char(&folded->text, '\0');
	if (folded->text.no_memory)
		return NULL;
	text = folded->text.data;
	for (size_t i = 0; i + 1 < folded->text.length; i++) {
		size_t step = utf8_character(text + i, folded->text.length - 1 - i);

		if (step && buffer_is_control(text + i, step))
			memset(text + i, ' ', step);
		else if (text[i] == ';')
			text[i] = ':';
	}
	label = map_add(&folded->labels, sizeof(*label), MAP_KEY(MAP_OBJECT(pair), map_text(text)));
	folded->text.length = 0;
	if (!label)
		return NULL;
	label->pair = pair;
	label->text = (const char *)map_key(label) + sizeof(pair);
	return label;
}

/* Returns NULL if out of memory. */
static struct node *find_node(
	struct folded_export *folded, struct node *parent, const struct label *label)
{
	struct node *node = label ? map_add(&folded->nodes, sizeof(*node),
					    MAP_KEY(MAP_OBJECT(parent), MAP_OBJECT(label)))
				  : NULL;

	if (node) {
		node->parent = parent;
		node->label = label;
	}
	return node;
}

void export_frame_text(struct buffer *out, struct buffer *key, const struct probe_event *event,
	const struct probe_span_pair *pair, const struct export_settings *settings)
{
	static const char *const calls[] = {"function", "method", "cmethod", "sub", "bif", "nif"};
	bool is_call = false, blank;

	export_key_text(key, event, settings);
	/* An interpreter's pair stands for calls, whose function's name is an argument. */
	for (size_t i = 0; pair && i < sizeof(calls) / sizeof(calls[0]); i++)
		is_call |= !strcmp(pair->name, calls[i]);
	blank = key->length && is_call; /* skip the blank before the key */
	if (!blank) {
		buffer_string(out, event->provider);
		buffer_char(out, ':');
		buffer_string(out, pair && pair->name[0] ? pair->name : event->name);
	}
	if (key->length)
		buffer_bytes(out, key->data + blank, key->length - blank);
	out->no_memory |= key->no_memory;
	key->length = 0;
}

/* Finds or adds an event's node, in the span `around` or at the bottom of its thread's stack. */
static struct node *frame_of(struct folded_export *folded, const struct probe_event *event,
	const struct probe_span *around, const struct probe_span_pair *pair)
{
	bool has_callers = event->stack && folded->settings.options->hits;
	struct node *parent = around && !has_callers ? around->data : NULL;

	if (!parent) {
		buffer_string(&folded->text, event->comm ? event->comm : "?");
		parent = find_node(folded, NULL, find_label(folded, NULL));
		if (parent && has_callers && event->stack->end != PROBE_STACK_WHOLE) {
			stacks_frame_label(&folded->text, NULL, event->stack->end);
			parent = find_node(folded, parent, find_label(folded, NULL));
		}
		for (size_t i = has_callers ? event->stack->count : 0; i > 0 && parent; i--) {
			stacks_frame_label(
				&folded->text, event->stack->frames[i - 1], event->stack->end);
			parent = find_node(folded, parent, find_label(folded, NULL));
		}
		if (!parent)
			return NULL;
	}
	export_frame_text(&folded->text, &folded->key, event, pair, &folded->settings);
	return find_node(folded, parent, find_label(folded, pair));
}

/* ---- Events ------------------------------------------------------------------------------- */

static struct probe_error *folded_event(void *state, const struct probe_event *event)
{
	struct folded_export *folded = state;
	enum probe_span_kind kind;
	struct probe_span *span;
	struct probe_error *error;
	struct node *node;
	uint64_t took_ns;

	/* Skip system events of POSIX streams, because they belong to no thread. */
	if (system_event_is(event))
		return NULL;
	/* Refuse spans: the events inside a span came before it, and were not counted as inside. */
	if (event->begin)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"stacks need begins and ends in the order of their times, and a span comes "
			"when it ends: export what was traced or recorded without -t span, or use "
			"--format=trace-event");
	error = probe_spans_add(folded->spans, event, &kind, &span);
	folded->lost += event->lost;
	if (error || event->kind != PROBE_EVENT_HIT)
		return error;
	switch (kind) {
	case PROBE_SPAN_END:
		node = span->data;
		took_ns = event->time_ns - span->begin.time_ns;
		folded->ended++;
		if (event->time_ns > span->begin.time_ns && took_ns > span->inner_ns)
			node->self_ns += took_ns - span->inner_ns;
		return NULL;
	case PROBE_SPAN_BEGIN:
		node = frame_of(folded, event, folded->settings.match < 0 ? span->parent : NULL,
			span->pair);
		span->data = node;
		break;
	default:
		if (!folded->settings.options->hits)
			return NULL;
		node = frame_of(folded, event, span, NULL);
		break;
	}
	if (!node)
		return probe_error_no_memory();
	node->hits++;
	return NULL;
}

/* ---- Writing ------------------------------------------------------------------------------ */

static void add_frames(struct buffer *out, const struct node *node, bool is_leaf)
{
	/* The recursion is as deep as open start events in a thread. */
	if (node->parent)
		add_frames(out, node->parent, false);
	if (!is_leaf && node->label->pair && !node->label->pair->ended)
		return;
	if (out->length)
		buffer_char(out, ';');
	buffer_string(out, node->label->text);
}

static bool add_stack(struct folded_export *folded, uint64_t weight)
{
	struct buffer *text = &folded->text;
	struct flame_stack *stack;

	buffer_char(text, '\0');
	if (text->no_memory)
		return false;
	stack = map_add(&folded->stacks, sizeof(*stack), MAP_KEY(map_text(text->data)));
	text->length = 0;
	if (!stack)
		return false;
	stack->text = map_key(stack);
	stack->weight += weight;
	return true;
}

/*
 * Adds up all stacks by text, once, after the last event. The state owns the result. Errors:
 * PROBE_ERROR_NOT_FOUND (no pair has ended), PROBE_ERROR_MEMORY.
 */
static struct probe_error *folded_sums(
	struct folded_export *folded, struct flame_stack **ret, size_t *count_ret)
{
	bool counts = folded->settings.options->hits;
	const struct flame_stack *stack;
	const struct node *node;
	size_t count = 0;

	if (!counts && !folded->ended)
		return probe_error_new(PROBE_ERROR_NOT_FOUND,
			"folded stacks are of pairs (X__start and X__done, X__entry and "
			"X__return ...), and there is no end of one; --count counts hits");
	for (size_t i = 0; (node = map_next(&folded->nodes, &i));) {
		uint64_t weight = counts ? node->hits : node->self_ns;

		if (!weight || folded->failed)
			continue;
		add_frames(&folded->text, node, true);
		folded->failed = !add_stack(folded, weight);
	}
	if (folded->lost && counts && !folded->failed) {
		buffer_string(&folded->text, "[lost]");
		folded->failed = !add_stack(folded, folded->lost);
	}
	folded->sums = calloc(folded->stacks.count + 1, sizeof(*folded->sums));
	if (folded->failed || !folded->sums)
		return probe_error_no_memory();
	for (size_t i = 0; (stack = map_next(&folded->stacks, &i));)
		folded->sums[count++] = *stack;
	qsort(folded->sums, count, sizeof(*folded->sums), compare_stacks);
	*ret = folded->sums;
	*count_ret = count;
	return NULL;
}

static struct probe_error *folded_finish(void *state, bool *done_ret)
{
	struct buffer *out = ((struct folded_export *)state)->out;
	struct flame_stack *sums = NULL;
	size_t count = 0;
	struct probe_error *error = folded_sums(state, &sums, &count);

	*done_ret = true;
	for (size_t i = 0; i < count; i++) {
		buffer_string(out, sums[i].text);
		buffer_char(out, ' ');
		buffer_unsigned(out, sums[i].weight);
		buffer_char(out, '\n');
	}
	return error;
}

static void folded_free(void *state)
{
	struct folded_export *folded = state;

	if (!folded)
		return;
	probe_spans_free(folded->spans);
	free(folded->sums);
	map_clear(&folded->stacks);
	map_clear(&folded->nodes);
	map_clear(&folded->labels);
	buffer_deinit(&folded->text);
	buffer_deinit(&folded->key);
	free(folded);
}

static struct probe_error *folded_create(
	const struct export_settings *settings, struct format_context *context, void **ret)
{
	const struct probe_spans_options options = {.match = settings->match,
		.match_end = settings->match_end,
		.catalogue = settings->options->catalogue};
	struct folded_export *folded = calloc(1, sizeof(*folded));
	struct probe_error *error;

	if (!folded)
		return probe_error_no_memory();
	folded->settings = *settings;
	folded->out = &context->out;
	error = probe_spans_create(&options, &folded->spans);
	if (error)
		folded_free(folded);
	else
		*ret = folded;
	return error;
}

const struct export_format export_folded = {
	.names = {"folded"},
	.create = folded_create,
	.free = folded_free,
	.event = folded_event,
	.finish = folded_finish,
};

/* ==== Flame graph ============================================================================= */

static struct probe_error *flamegraph_finish(void *state, bool *done_ret)
{
	struct folded_export *folded = state;
	struct flame_stack *stacks = NULL;
	size_t count = 0;
	struct probe_error *error = folded_sums(folded, &stacks, &count);

	*done_ret = true;
	if (!error)
		flame_graph(folded->out, stacks, count,
			folded->settings.options->hits ? FLAME_HITS : FLAME_TIME);
	return error;
}

const struct export_format export_flamegraph = {
	.names = {"flamegraph", "svg"},
	.create = folded_create,
	.free = folded_free,
	.event = folded_event,
	.finish = flamegraph_finish,
};
