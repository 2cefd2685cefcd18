/* SPDX-License-Identifier: MIT */
/*
 * Spans: start events matched with end events. A start event waits in the stack of its owner, which
 * is the thread, or the value that start and end events are matched by. An end event takes the
 * newest start event of its owner whose probe forms a pair with its own probe. If the owner is a
 * thread, the identities must match, too.
 *
 *	spans -> probes, by name: index in the pairing, which knows the pairs of probes
 *	      -> pairs, by provider and stem
 *	      -> open start events, in stacks by thread or value
 *	      -> all open start events, oldest first: the oldest one is dropped first
 */
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "libprobe/base/event.h"
#include "libprobe/query/query.h"
#include "libprobe/report/report.h"
#include "probe/spans.h"

struct span_probe {
	const char *provider, *name; /* in the map's key */
	size_t index;		     /* index of the probe in the pairing */
	/* NULL if the name cannot be that of a start event */
	struct probe_span_pair *pair;
};

struct open_span {
	/* the packed event is in the memory behind this struct */
	struct probe_span public;
	struct probe_span_pair *pair;
	size_t probe; /* index of the start event's probe in the pairing */
	uint64_t identity, frame;
	bool is_left; /* it seems that the program has left it by a jump */
	struct begins_key key;
	TAILQ_ENTRY(open_span) all;
};

TAILQ_HEAD(all_spans, open_span);

enum { RECENT_PROBES = 256 };

struct probe_spans {
	struct probe_spans_options options;
	struct map probes, pairs; /* struct span_probe, probe_span_pair by provider and name */
	/* Probes that were found lately, by the address of their name. */
	struct span_probe *recent[RECENT_PROBES];
	struct pairing pairing;
	struct identities identities;
	struct begins begins;	 /* stacks of open spans (struct open_span *) */
	struct all_spans all;	 /* all open spans, oldest first */
	bool has_several_stacks; /* a call ended that seemed to be left */
	struct open_span *ended; /* the last ended span, which the caller may still use */
};

struct probe_error *probe_spans_create(
	const struct probe_spans_options *options, struct probe_spans **ret)
{
	struct probe_spans *spans = calloc(1, sizeof(*spans));

	if (!spans)
		return probe_error_no_memory();
	spans->options =
		options ? *options : (struct probe_spans_options){.match = -1, .match_end = -1};
	spans->identities.catalogue = spans->options.catalogue;
	spans->identities.is_off = spans->options.match >= 0;
	spans->begins.item_bytes = sizeof(struct open_span *);
	TAILQ_INIT(&spans->all);
	*ret = spans;
	return NULL;
}

void probe_spans_free(struct probe_spans *spans)
{
	struct open_span *span;

	if (!spans)
		return;
	while ((span = TAILQ_FIRST(&spans->all))) {
		TAILQ_REMOVE(&spans->all, span, all);
		free(span);
	}
	free(spans->ended);
	pairing_deinit(&spans->pairing);
	identities_deinit(&spans->identities);
	map_clear(&spans->probes);
	map_clear(&spans->pairs);
	begins_deinit(&spans->begins);
	free(spans);
}

/* ---- Names ------------------------------------------------------------------------------ */

/* Finds or adds a pair by provider and stem. */
static struct probe_span_pair *find_pair(
	struct probe_spans *spans, const char *provider, const char *name, size_t stem)
{
	struct probe_span_pair *pair;

	while (stem && name[stem - 1] == '_')
		stem--;
	pair = map_add(&spans->pairs, sizeof(*pair),
		MAP_KEY(map_text(provider), {name, stem}, map_text("")));
	if (!pair)
		return NULL;
	pair->provider = map_key(pair);
	pair->name = pair->provider + strlen(provider) + 1;
	return pair;
}

static struct probe_error *find_probe(
	struct probe_spans *spans, const char *provider, const char *name, struct span_probe **ret)
{
	const struct map_part key[] = {map_text(provider), map_text(name)};
	struct span_probe **recent = &spans->recent[((uintptr_t)name >> 4) % RECENT_PROBES];
	struct probe_error *error;

	*ret = *recent;
	if (*ret && !strcmp((*ret)->name, name) && !strcmp((*ret)->provider, provider))
		return NULL;
	*ret = *recent = map_find(&spans->probes, key, 2);
	if (*ret)
		return NULL;
	*ret = map_add(&spans->probes, sizeof(**ret), key, 2);
	if (!*ret)
		return probe_error_no_memory();
	(*ret)->provider = map_key(*ret);
	(*ret)->name = (*ret)->provider + strlen(provider) + 1;
	(*ret)->index = spans->pairing.count;
	error = pairing_add(&spans->pairing, (*ret)->provider, name);
	if (error)
		map_remove(&spans->probes, *ret);
	return error;
}

/* ---- Begins ----------------------------------------------------------------------------- */

static struct open_span *span_at(const struct begins_stack *stack, size_t index)
{
	return ((struct open_span *const *)stack->items)[index];
}

/* Removes a span from its stack and from the list. The caller frees it. */
static void span_remove(struct probe_spans *spans, struct open_span *span)
{
	struct begins_stack *stack = begins_find(&spans->begins, &span->key);
	size_t i = stack->depth - 1;

	for (; span_at(stack, i) != span; i--) {
		struct probe_span *newer = &span_at(stack, i)->public;

		if (newer->parent == &span->public)
			newer->parent = span->public.parent;
	}
	begins_remove(&spans->begins, stack, i);
	if (!stack->depth)
		begins_drop(&spans->begins, stack);
	TAILQ_REMOVE(&spans->all, span, all);
}

static void give_up(struct probe_spans *spans, struct open_span *span)
{
	/* Its inner spans were also inside the span around it. */
	if (span->public.parent)
		span->public.parent->inner_ns += span->public.inner_ns;
	span_remove(spans, span);
	span->public.parent = NULL;
	if (spans->options.unended)
		spans->options.unended(spans->options.data, &span->public);
	free(span);
}

void spans_forget(struct probe_spans *spans, pid_t pid)
{
	struct open_span *span, *next;

	for (span = TAILQ_FIRST(&spans->all); span; span = next) {
		next = TAILQ_NEXT(span, all);
		if (span->public.begin.pid == pid)
			give_up(spans, span);
	}
}

void probe_spans_finish(struct probe_spans *spans)
{
	struct open_span *span;

	while ((span = TAILQ_FIRST(&spans->all)))
		give_up(spans, span);
}

/*
 * Gives up all open spans, because hits were lost: an end event that is missing would leave its
 * span to a later end event.
 */
static void forget(struct probe_spans *spans)
{
	struct open_span *span;

	TAILQ_FOREACH(span, &spans->all, all)
	span->public.is_cut = true;
	probe_spans_finish(spans);
}

/*
 * Returns a stack's newest span that is not crossed (see cross()) and was not left, or NULL. If a
 * function is called in `frame`, calls in deeper frames, which have lower addresses, were left by a
 * jump, as by longjmp(3). So was a call in the same frame, unless it was the newest: that makes a
 * tail call. An end shows that a call was not left: then the thread has several stacks.
 */
static struct probe_span *innermost(
	const struct probe_spans *spans, const struct begins_stack *stack, uint64_t frame)
{
	bool any_left = false;

	for (size_t i = stack ? stack->depth : 0; i; i--) {
		struct open_span *span = span_at(stack, i - 1);

		if (span->frame && (span->frame < frame || (any_left && span->frame == frame)))
			any_left = span->is_left = true;
		if (!span->public.crossed && (!span->is_left || spans->has_several_stacks))
			return &span->public;
	}
	return NULL;
}

/* Returns false if out of memory. */
static bool span_open(struct probe_spans *spans, const struct probe_event *event,
	const struct begins_key *key, const struct span_probe *probe, uint64_t identity,
	struct probe_span **ret)
{
	struct begins_stack *found = begins_find(&spans->begins, key);
	struct begins_stack *stack = found ? found : begins_make(&spans->begins, key);
	size_t size = spans->options.nested ? 0 : event_packed_size(event);
	struct open_span *span = stack ? calloc(1, sizeof(*span) + size) : NULL;

	if (span && size) {
		/* The copy of the event and all that it points to is behind the span. */
		event_pack(event, span + 1);
		span->public.begin = *event_unpack(span + 1, size);
	} else if (span) {
		span->public.begin = (struct probe_event){
			.time_ns = event->time_ns, .pid = event->pid, .tid = event->tid, .cpu = -1};
	}
	if (span) {
		span->pair = probe->pair;
		span->public.pair = probe->pair;
		span->probe = spans->pairing.probes[probe->index].same;
		span->key = *key;
		span->identity = identity;
		span->frame = event->frame;
		span->public.parent = innermost(spans, stack, event->frame);
	}
	if (!span || !begins_push(&spans->begins, stack, &span)) {
		free(span);
		if (stack && !stack->depth)
			begins_drop(&spans->begins, stack);
		return false;
	}
	TAILQ_INSERT_TAIL(&spans->all, span, all);
	if (stack->depth > PROBE_SPANS_OWNER_MAX)
		give_up(spans, span_at(stack, 0));
	if (spans->begins.depth > PROBE_SPANS_MAX)
		give_up(spans, TAILQ_FIRST(&spans->all));
	*ret = &span->public;
	return true;
}

/*
 * Before a function's start event in `frame`: if the function has an open call in the same frame,
 * the program has left it by a jump. Gives it up, and the deeper calls that it made.
 */
static void give_up_left(
	struct probe_spans *spans, const struct begins_key *key, size_t probe, uint64_t frame)
{
	const struct begins_stack *stack = begins_find(&spans->begins, key);
	size_t depth = stack ? stack->depth : 0, at = depth;

	while (at && span_at(stack, at - 1)->frame <= frame &&
		(span_at(stack, at - 1)->frame != frame || span_at(stack, at - 1)->probe != probe))
		at--;
	if (!at || span_at(stack, at - 1)->frame != frame)
		return;
	/* The last one that is given up takes the stack with it. */
	for (; depth >= at; depth--)
		give_up(spans, span_at(stack, depth - 1));
}

/* ---- Ends -------------------------------------------------------------------------------- */

/*
 * Marks open spans that started inside the ended span as crossed. If the ended span is itself
 * crossed, marks none, because newer spans did not start inside it.
 */
static void cross(const struct begins_stack *stack, struct open_span *span)
{
	for (size_t i = stack->depth; span_at(stack, i - 1) != span; i--) {
		struct open_span *newer = span_at(stack, i - 1);

		newer->public.crossed |= !span->public.crossed;
		/*
		 * If no end event of a pair was seen, its start events are points in time, so their
		 * time was the ended span's.
		 */
		if (!newer->pair->ended)
			span->public.inner_ns += newer->public.inner_ns;
	}
}

/* Returns the newest open span of a probe that an end event may belong to, or NULL. */
static struct open_span *find_begin(
	const struct begins_stack *stack, size_t probe, uint64_t identity)
{
	for (size_t at = stack ? stack->depth : 0; at; at--)
		if (span_at(stack, at - 1)->probe == probe &&
			identity_matches(span_at(stack, at - 1)->identity, identity))
			return span_at(stack, at - 1);
	return NULL;
}

/* Gets the owner of an event's stack. Returns false if the event has no value to match by. */
static bool key_of(const struct probe_event *event, int arg, struct begins_key *ret)
{
	const struct probe_value *value;

	*ret = (struct begins_key){.process = (uint32_t)event->pid, .word = (uint64_t)event->tid};
	if (arg < 0)
		return true;
	value = probe_event_arg(event, (unsigned int)arg, false);
	if (!value)
		return false;
	ret->word = value->u;
	return value->kind == PROBE_VALUE_SIGNED || value->kind == PROBE_VALUE_UNSIGNED ||
	       value->kind == PROBE_VALUE_TEXT;
}

struct probe_error *probe_spans_add(struct probe_spans *spans, const struct probe_event *event,
	enum probe_span_kind *ret, struct probe_span **span_ret)
{
	const struct probe_spans_options *options = &spans->options;
	const struct pairing_probe *paired;
	struct span_probe *probe;
	struct probe_error *error;
	const struct begins_stack *stack;
	struct open_span *begin;
	struct begins_key key;
	uint64_t identity = 0;
	size_t index;

	free(spans->ended);
	spans->ended = NULL;
	*ret = PROBE_SPAN_POINT;
	*span_ret = NULL;
	if (event->kind != PROBE_EVENT_HIT) {
		forget(spans);
		return NULL;
	}
	error = find_probe(spans, event->provider, event->name, &probe);
	if (error)
		return error;
	paired = &spans->pairing.probes[probe->index];
	if (paired->may_be == PAIR_BEGIN || paired->role == PAIR_END) {
		index = paired->may_be == PAIR_BEGIN ? paired->same : paired->begin;
		error = identity_of(&spans->identities, index,
			spans->pairing.probes[index].provider, spans->pairing.probes[index].plain,
			event, &identity);
		if (error)
			return error;
	}
	if (options->match < 0 && key_of(event, -1, &key))
		*span_ret = innermost(spans, begins_find(&spans->begins, &key), 0);
	if (paired->may_be == PAIR_BEGIN && key_of(event, options->match, &key)) {
		*ret = PROBE_SPAN_BEGIN;
		if (!probe->pair)
			probe->pair =
				find_pair(spans, probe->provider, paired->plain, paired->stem);
		if (!probe->pair)
			return probe_error_no_memory();
		if (event->frame && options->match < 0)
			give_up_left(spans, &key, paired->same, event->frame);
		return span_open(spans, event, &key, probe, identity, span_ret)
			       ? NULL
			       : probe_error_no_memory();
	}
	if (paired->may_be != PAIR_END)
		return NULL;
	*ret = PROBE_SPAN_UNMATCHED;
	if (!key_of(event, options->match < 0 ? -1 : options->match_end, &key))
		return NULL;
	stack = begins_find(&spans->begins, &key);
	begin = paired->role == PAIR_END ? find_begin(stack, paired->begin, identity) : NULL;
	if (!begin)
		return NULL;
	begin->pair->ended = true;
	spans->has_several_stacks |= begin->is_left;
	while (spans->options.nested && span_at(stack, stack->depth - 1) != begin)
		give_up(spans, span_at(stack, stack->depth - 1));
	cross(stack, begin);
	if (begin->public.parent && event->time_ns > begin->public.begin.time_ns)
		begin->public.parent->inner_ns += event->time_ns - begin->public.begin.time_ns;
	span_remove(spans, begin);
	spans->ended = begin;
	*ret = PROBE_SPAN_END;
	*span_ret = &begin->public;
	return NULL;
}
