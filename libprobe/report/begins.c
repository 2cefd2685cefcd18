/* SPDX-License-Identifier: MIT */
/*
 * A hash table of stacks of start events, with open addressing and linear probing. Also the
 * identity of start events.
 */
#include <stdlib.h>
#include <string.h>

#include "arch/layout.h"
#include "libprobe/base/array.h"
#include "libprobe/base/hash.h"
#include "libprobe/base/value.h"
#include "libprobe/report/report.h"

/* ==== Open start events ======================================================================= */

enum { FIRST_ROOM = 256 };

static bool same_key(const struct begins_key *a, const struct begins_key *b)
{
	return a->process == b->process && a->word == b->word && a->kind == b->kind &&
	       a->probe == b->probe;
}

static size_t home_of(const struct begins *begins, const struct begins_key *key)
{
	/* A process id and the index of a probe are small numbers, so both fit into one word. */
	uint64_t seed = key->process << 32 ^ key->probe << 16 ^ key->kind;

	return hash_word(seed, key->word) & (begins->room - 1);
}

/* The slot of a key, or the free slot where the key belongs. */
static struct begins_stack *place_of(const struct begins *begins, const struct begins_key *key)
{
	size_t at = home_of(begins, key);

	while (begins->stacks[at].used && !same_key(&begins->stacks[at].key, key))
		at = (at + 1) & (begins->room - 1);
	return &begins->stacks[at];
}

static bool grow(struct begins *begins)
{
	struct begins wider = *begins;

	wider.room = begins->room ? 2 * begins->room : FIRST_ROOM;
	wider.stacks = calloc(wider.room, sizeof(*wider.stacks));
	if (!wider.stacks)
		return false;
	for (size_t i = 0; i < begins->room; i++)
		if (begins->stacks[i].used)
			*place_of(&wider, &begins->stacks[i].key) = begins->stacks[i];
	free(begins->stacks);
	*begins = wider;
	return true;
}

void begins_deinit(struct begins *begins)
{
	for (size_t i = 0; i < begins->room; i++)
		free(begins->stacks[i].items);
	free(begins->stacks);
	free(begins->spare);
	*begins = (struct begins){.item_bytes = begins->item_bytes};
}

struct begins_stack *begins_find(const struct begins *begins, const struct begins_key *key)
{
	struct begins_stack *stack = begins->room ? place_of(begins, key) : NULL;

	return stack && stack->used ? stack : NULL;
}

struct begins_stack *begins_make(struct begins *begins, const struct begins_key *key)
{
	struct begins_stack *stack = begins_find(begins, key);

	if (stack)
		return stack;
	if (2 * (begins->count + 1) > begins->room && !grow(begins))
		return NULL;
	stack = place_of(begins, key);
	*stack = (struct begins_stack){.key = *key, .used = true};
	begins->count++;
	return stack;
}

/*
 * Removes a stack from the hash table, and moves back the later stacks that it had displaced from
 * their own slots.
 */
void begins_drop(struct begins *begins, struct begins_stack *stack)
{
	size_t hole = (size_t)(stack - begins->stacks), mask = begins->room - 1;

	if (stack->room == array_room(1) && !begins->spare)
		begins->spare = stack->items;
	else
		free(stack->items);
	begins->depth -= stack->depth;
	begins->count--;
	for (size_t at = (hole + 1) & mask; begins->stacks[at].used; at = (at + 1) & mask) {
		size_t home = home_of(begins, &begins->stacks[at].key);

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		begins->stacks[hole] = begins->stacks[at];
		hole = at;
	}
	begins->stacks[hole] = (struct begins_stack){0};
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
 * Gets from the catalogue the compared arguments of a probe. All versions of the probe have the
 * same ones, whatever their number of arguments.
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
		struct probe_value value;

		if (!key_value(&begin->keys[i], event, &value))
			return 0;
		if (!value_has_bytes(&value))
			hash = hash_word(hash, value.u);
		else
			hash = hash_bytes(hash, value.bytes,
				value.length < FLIGHT_IDENTITY_BYTES ? value.length
								     : FLIGHT_IDENTITY_BYTES);
	}
	return hash | 1;
}

struct probe_error *identity_of(struct identities *identities, size_t index, const char *provider,
	const char *name, const struct probe_event *event, uint64_t *ret)
{
	struct probe_error *error = NULL;
	struct identity_begin *begin;

	*ret = 0;
	if (!identities->catalogue)
		return NULL;
	while (identities->count <= index) {
		if (!ARRAY_ROOM(identities->begins, identities->count))
			return probe_error_no_memory();
		identities->begins[identities->count++] = (struct identity_begin){0};
	}
	begin = &identities->begins[index];
	if (!begin->is_known)
		error = learn(identities->catalogue, provider, name, begin);
	if (!error && begin->count)
		*ret = hash_of(begin, event);
	return error;
}
