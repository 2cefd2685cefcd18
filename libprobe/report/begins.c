/* SPDX-License-Identifier: MIT */
/* The stacks of start events, and the identity of start events. */
#include <stdlib.h>
#include <string.h>

#include "arch/layout.h"
#include "libprobe/base/array.h"
#include "libprobe/base/value.h"
#include "libprobe/report/report.h"

/* ==== Open start events ======================================================================= */

void begins_deinit(struct begins *begins)
{
	const struct begins_stack *stack;

	for (size_t i = 0; (stack = map_next(&begins->stacks, &i));)
		free(stack->items);
	map_clear(&begins->stacks);
	free(begins->spare);
	*begins = (struct begins){.item_bytes = begins->item_bytes};
}

static struct begins_stack **recent_of(struct begins *begins, const struct begins_key *key)
{
	return &begins->recent[(key->word ^ key->probe) % BEGINS_RECENT];
}

struct begins_stack *begins_find(struct begins *begins, const struct begins_key *key)
{
	struct begins_stack **recent = recent_of(begins, key);

	if (!*recent || memcmp(map_key(*recent), key, sizeof(*key)) != 0)
		*recent = map_find(&begins->stacks, MAP_KEY(MAP_OBJECT(*key)));
	return *recent;
}

struct begins_stack *begins_make(struct begins *begins, const struct begins_key *key)
{
	return map_add(&begins->stacks, sizeof(struct begins_stack), MAP_KEY(MAP_OBJECT(*key)));
}

void begins_drop(struct begins *begins, struct begins_stack *stack)
{
	if (stack->room == array_room(1) && !begins->spare)
		begins->spare = stack->items;
	else
		free(stack->items);
	begins->depth -= stack->depth;
	*recent_of(begins, map_key(stack)) = NULL;
	map_remove(&begins->stacks, stack);
}

static bool deepen(struct begins *begins, struct begins_stack *stack)
{
	size_t room = array_room(stack->depth + 1);
	void *items = stack->room ? NULL : begins->spare;

	if (items)
		begins->spare = NULL;
	else
		items = reallocarray(stack->items, room, begins->item_bytes);
	if (!items)
		return false;
	stack->items = items;
	stack->room = room;
	return true;
}

bool begins_push(struct begins *begins, struct begins_stack *stack, const void *item)
{
	if (stack->depth == stack->room && !deepen(begins, stack))
		return false;
	memcpy((char *)stack->items + stack->depth * begins->item_bytes, item, begins->item_bytes);
	stack->depth++;
	begins->depth++;
	return true;
}

void begins_remove(struct begins *begins, struct begins_stack *stack, size_t index)
{
	char *at = (char *)stack->items + index * begins->item_bytes;

	if (--stack->depth > index)
		memmove(at, at + begins->item_bytes, (stack->depth - index) * begins->item_bytes);
	begins->depth--;
}

/* ==== Identity of start events ================================================================ */

struct identity_begin {
	bool is_known;
	uint8_t count;
	struct key keys[PROBE_SAME_MAX];
};

static void begin_deinit(struct identity_begin *begin)
{
	for (uint8_t i = 0; i < begin->count; i++)
		key_deinit(&begin->keys[i]);
	*begin = (struct identity_begin){0};
}

void identities_deinit(struct identities *identities)
{
	for (size_t i = 0; i < identities->count; i++)
		begin_deinit(&identities->begins[i]);
	free(identities->begins);
	*identities = (struct identities){0};
}

/*
 * Gets the compared arguments of a probe, which are the same in all its versions in the catalogue.
 */
static struct probe_error *learn(const struct probe_catalogue *catalogue, const char *provider,
	const char *name, struct identity_begin *ret)
{
	const struct probe_meaning *meaning =
		probe_catalogue_find(catalogue, provider, name, SIZE_MAX);
	size_t count = meaning && !meaning->takes ? meaning->same_count : 0;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < count && !error; i++) {
		error = key_parse(meaning->same[i], strlen(meaning->same[i]), catalogue, (uint8_t)i,
			&ret->keys[i]);
		ret->count += !error;
	}
	ret->is_known = !error;
	if (error)
		begin_deinit(ret);
	return error;
}

static uint64_t hash_of(const struct identity_begin *begin, const struct probe_event *event)
{
	uint64_t hash = 1;

	for (uint8_t i = 0; i < begin->count; i++) {
		struct map_part part;
		struct probe_value value;

		if (!key_value(&begin->keys[i], event, &value))
			return 0;
		part = value_part(&value);
		hash = hash_bytes(hash, part.bytes,
			part.length < FLIGHT_IDENTITY_BYTES ? part.length : FLIGHT_IDENTITY_BYTES);
	}
	return hash | 1;
}

struct probe_error *identity_of(struct identities *identities, size_t index, const char *provider,
	const char *name, const struct probe_event *event, uint64_t *ret)
{
	struct probe_error *error = NULL;
	struct identity_begin *begin;

	*ret = identities->is_off ? 0 : event->frame;
	if (*ret || identities->is_off || !identities->catalogue)
		return NULL;
	while (identities->count <= index)
		if (!ARRAY_ADD(identities->begins, identities->count, (struct identity_begin){0}))
			return probe_error_no_memory();
	begin = &identities->begins[index];
	if (!begin->is_known)
		error = learn(identities->catalogue, provider, name, begin);
	if (!error && begin->count)
		*ret = hash_of(begin, event);
	return error;
}
