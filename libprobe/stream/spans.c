/* SPDX-License-Identifier: MIT */
/*
 * Begins wait in the list of their owner: the thread, or the value that begins and
 * ends are matched by. An end takes the newest begin of its owner that it belongs to.
 *
 *	spans -> probes, by name: how the name can be divided
 *	      -> pairs, by provider and stem
 *	      -> owners, by thread or value -> begins, newest first
 *	      -> all begins, oldest first: who gives way
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "libprobe/names/pairs.h"
#include "libprobe/base/event.h"
#include "probe/spans.h"

struct pair {
	struct probe_span_pair public; /* provider and name: behind this struct */
};

/* How a probe's name can be divided; its pair for each way. */
struct span_probe {
	const char *provider, *name; /* behind this struct */
	size_t count;
	struct {
		struct pair *pair;
		uint32_t begins, ends;
	} ways[PAIR_WORDS_MAX];
};

struct open_span {
	struct probe_span public; /* the event, packed: behind this struct */
	struct pair *pair;
	uint32_t begins;
	struct owner *owner;
	struct open_span *older, *newer; /* of the same owner */
	TAILQ_ENTRY(open_span) all;
};

struct owner {
	uint64_t key;
	struct open_span *newest, *oldest;
	size_t count;
};

TAILQ_HEAD(all_spans, open_span);

struct probe_spans {
	struct probe_spans_options options;
	void *probes, *pairs, *owners; /* tsearch(3) */
	struct all_spans all;	       /* oldest first */
	size_t count;
	struct open_span *ended; /* the last, that the caller may still look at */
};

static int compare_names(const char *a, const char *b, const char *c, const char *d)
{
	int order = strcmp(a, c);

	return order ? order : strcmp(b, d);
}

static int compare_probes(const void *a, const void *b)
{
	const struct span_probe *x = a, *y = b;

	return compare_names(x->provider, x->name, y->provider, y->name);
}

static int compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return compare_names(
		x->public.provider, x->public.name, y->public.provider, y->public.name);
}

static int compare_owners(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

struct probe_error *probe_spans_create(
	const struct probe_spans_options *options, struct probe_spans **ret)
{
	struct probe_spans *spans = calloc(1, sizeof(*spans));

	if (!spans)
		return probe_error_no_memory();
	spans->options = options ? *options : (struct probe_spans_options){-1, -1, NULL, NULL};
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
	tdestroy(spans->probes, free);
	tdestroy(spans->pairs, free);
	tdestroy(spans->owners, free);
	free(spans);
}

/* ---- Names ------------------------------------------------------------------------------ */

/* The pair of a provider and a stem; made where it is new. */
static struct pair *find_pair(
	struct probe_spans *spans, const char *provider, const char *name, size_t stem)
{
	size_t provider_size = strlen(provider) + 1;
	struct pair *pair = calloc(1, sizeof(*pair) + provider_size + stem + 1);
	void **place;
	char *text;

	if (!pair)
		return NULL;
	text = (char *)(pair + 1);
	memcpy(text, provider, provider_size);
	pair->public.provider = text;
	pair->public.name = memcpy(text + provider_size, name, stem);
	while (stem && pair->public.name[stem - 1] == '_')
		text[provider_size + --stem] = '\0';
	place = tsearch(pair, &spans->pairs, compare_pairs);
	if (!place || *place != pair)
		free(pair);
	return place ? *place : NULL;
}

/* False without memory. */
static bool divide(struct probe_spans *spans, struct span_probe *probe)
{
	char *plain = pair_plain_name(probe->name);
	struct pair_word words[PAIR_WORDS_MAX];
	bool complete = true;

	if (!plain)
		return false;
	probe->count = pair_words(plain, words);
	for (size_t i = 0; i < probe->count && complete; i++) {
		probe->ways[i].pair = find_pair(spans, probe->provider, plain, words[i].stem);
		probe->ways[i].begins = words[i].begins;
		probe->ways[i].ends = words[i].ends;
		complete = probe->ways[i].pair != NULL;
	}
	free(plain);
	return complete;
}

/* NULL without memory. */
static const struct span_probe *find_probe(
	struct probe_spans *spans, const char *provider, const char *name)
{
	struct span_probe wanted = {.provider = provider, .name = name}, *probe;
	void **place = tfind(&wanted, &spans->probes, compare_probes);
	size_t provider_size = strlen(provider) + 1, name_size = strlen(name) + 1;
	char *text;

	if (place)
		return *place;
	probe = calloc(1, sizeof(*probe) + provider_size + name_size);
	if (!probe)
		return NULL;
	text = (char *)(probe + 1);
	probe->provider = memcpy(text, provider, provider_size);
	probe->name = memcpy(text + provider_size, name, name_size);
	if (!divide(spans, probe) || !tsearch(probe, &spans->probes, compare_probes)) {
		free(probe);
		return NULL;
	}
	return probe;
}

/* ---- Begins ----------------------------------------------------------------------------- */

/* Takes a begin out of its lists; it stays allocated. */
static void span_remove(struct probe_spans *spans, struct open_span *span)
{
	struct owner *owner = span->owner;

	for (struct open_span *newer = span->newer; newer; newer = newer->newer) {
		if (newer->public.parent == &span->public)
			newer->public.parent = span->public.parent;
	}
	*(span->newer ? &span->newer->older : &owner->newest) = span->older;
	*(span->older ? &span->older->newer : &owner->oldest) = span->newer;
	TAILQ_REMOVE(&spans->all, span, all);
	spans->count--;
	if (--owner->count == 0) {
		tdelete(owner, &spans->owners, compare_owners);
		free(owner);
	}
}

static void give_up(struct probe_spans *spans, struct open_span *span)
{
	/* What ran within it ran within what is around it, too. */
	if (span->public.parent)
		span->public.parent->inner_ns += span->public.inner_ns;
	span_remove(spans, span);
	span->public.parent = NULL;
	if (spans->options.unended)
		spans->options.unended(spans->options.data, &span->public);
	free(span);
}

void probe_spans_finish(struct probe_spans *spans)
{
	struct open_span *span;

	while ((span = TAILQ_FIRST(&spans->all)))
		give_up(spans, span);
}

/* A copy of an event, and of all that it points to. */
static struct open_span *span_create(const struct probe_event *event)
{
	size_t size = event_packed_size(event);
	struct open_span *span = calloc(1, sizeof(*span) + size);

	if (!span)
		return NULL;
	event_pack(event, span + 1);
	span->public.begin = *event_unpack(span + 1, size);
	return span;
}

/* The newest that is not crossed. */
static struct probe_span *innermost(const struct owner *owner)
{
	struct open_span *span = owner ? owner->newest : NULL;

	while (span && span->public.crossed)
		span = span->older;
	return span ? &span->public : NULL;
}

static struct owner *find_owner(struct probe_spans *spans, uint64_t key, bool make)
{
	struct owner wanted = {.key = key}, *owner;
	void **place = tfind(&wanted, &spans->owners, compare_owners);

	if (place || !make)
		return place ? *place : NULL;
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	owner->key = key;
	if (!tsearch(owner, &spans->owners, compare_owners)) {
		free(owner);
		return NULL;
	}
	return owner;
}

/* False without memory. */
static bool span_open(struct probe_spans *spans, const struct probe_event *event, uint64_t key,
	struct pair *pair, uint32_t begins, struct probe_span **ret)
{
	struct owner *owner = find_owner(spans, key, true);
	struct open_span *span = owner ? span_create(event) : NULL;

	if (!span) {
		if (owner && !owner->count) {
			tdelete(owner, &spans->owners, compare_owners);
			free(owner);
		}
		return false;
	}
	span->pair = pair;
	span->public.pair = &pair->public;
	span->begins = begins;
	span->owner = owner;
	span->public.parent = innermost(owner);
	span->older = owner->newest;
	if (owner->newest)
		owner->newest->newer = span;
	else
		owner->oldest = span;
	owner->newest = span;
	owner->count++;
	TAILQ_INSERT_TAIL(&spans->all, span, all);
	spans->count++;
	if (owner->count > PROBE_SPANS_OWNER_MAX)
		give_up(spans, owner->oldest);
	if (spans->count > PROBE_SPANS_MAX)
		give_up(spans, TAILQ_FIRST(&spans->all));
	*ret = &span->public;
	return true;
}

/* ---- Ends -------------------------------------------------------------------------------- */

/*
 * The begins above this one go on, though it has ended. Of one that is crossed itself
 * they are not within anyway.
 */
static void cross(struct open_span *span)
{
	for (struct open_span *newer = span->newer; newer; newer = newer->newer) {
		newer->public.crossed |= !span->public.crossed;
		/* Of one that is no begin at all, this was within the one that ends. */
		if (!newer->pair->public.ended)
			span->public.inner_ns += newer->public.inner_ns;
	}
}

static struct open_span *find_begin(const struct owner *owner, const struct span_probe *probe)
{
	struct open_span *span = owner ? owner->newest : NULL;

	for (; span; span = span->older) {
		for (size_t i = 0; i < probe->count; i++) {
			if (probe->ways[i].pair == span->pair &&
				(probe->ways[i].ends & span->begins))
				return span;
		}
	}
	return NULL;
}

static void span_end(
	struct probe_spans *spans, struct open_span *span, const struct probe_event *event)
{
	uint64_t begin_ns = span->public.begin.time_ns;
	uint64_t took_ns = event->time_ns > begin_ns ? event->time_ns - begin_ns : 0;

	span->pair->public.ended = true;
	cross(span);
	if (span->public.parent)
		span->public.parent->inner_ns += took_ns;
	span_remove(spans, span);
	spans->ended = span;
}

/* By what an event is matched; false where it has no such argument. */
static bool key_of(const struct probe_event *event, int arg, uint64_t *ret)
{
	*ret = (uint64_t)event->tid;
	if (arg < 0)
		return true;
	if ((size_t)arg >= event->arg_count)
		return false;
	*ret = event->args[arg].u;
	return event->args[arg].kind == PROBE_VALUE_SIGNED ||
	       event->args[arg].kind == PROBE_VALUE_UNSIGNED ||
	       event->args[arg].kind == PROBE_VALUE_TEXT;
}

struct probe_error *probe_spans_add(struct probe_spans *spans, const struct probe_event *event,
	enum probe_span_kind *ret, struct probe_span **span_ret)
{
	const struct probe_spans_options *options = &spans->options;
	const struct span_probe *probe;
	struct open_span *begin;
	bool ends = false;
	uint64_t key;

	free(spans->ended);
	spans->ended = NULL;
	*ret = PROBE_SPAN_POINT;
	*span_ret = NULL;
	if (event->kind != PROBE_EVENT_HIT)
		return NULL;
	probe = find_probe(spans, event->provider, event->name);
	if (!probe)
		return probe_error_no_memory();
	if (options->match < 0 && key_of(event, -1, &key))
		*span_ret = innermost(find_owner(spans, key, false));
	for (size_t i = 0; i < probe->count; i++) {
		ends |= probe->ways[i].ends != 0;
		if (!probe->ways[i].begins || !key_of(event, options->match, &key))
			continue;
		*ret = PROBE_SPAN_BEGIN;
		return span_open(spans, event, key, probe->ways[i].pair, probe->ways[i].begins,
			       span_ret)
			       ? NULL
			       : probe_error_no_memory();
	}
	if (!ends)
		return NULL;
	*ret = PROBE_SPAN_UNMATCHED;
	if (!key_of(event, options->match < 0 ? -1 : options->match_end, &key))
		return NULL;
	begin = find_begin(find_owner(spans, key, false), probe);
	if (!begin)
		return NULL;
	*ret = PROBE_SPAN_END;
	span_end(spans, begin, event);
	*span_ret = &begin->public;
	return NULL;
}
