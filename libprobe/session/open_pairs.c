/* SPDX-License-Identifier: MIT */
#include "libprobe/session/session.h"

static uint32_t hash(pid_t pid, pid_t tid, uint32_t pair)
{
	return ((uint32_t)pid * 31 + (uint32_t)tid + pair * 2654435761u) % OPEN_PAIRS_PLACES;
}

static bool is_of(const struct open_pair *place, pid_t pid, pid_t tid, uint32_t pair)
{
	return place->depth && place->pid == pid && place->tid == tid && place->pair == pair;
}

static struct open_pair *find(struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair)
{
	uint32_t first = hash(pid, tid, pair);

	for (uint32_t i = 0; i < OPEN_PAIRS_TRIES; i++) {
		struct open_pair *place = &pairs->places[(first + i) % OPEN_PAIRS_PLACES];

		if (is_of(place, pid, tid, pair))
			return place;
	}
	return NULL;
}

/* A free place, or that of the oldest begin: its thread may be gone. */
static struct open_pair *make_room(struct open_pairs *pairs, uint32_t first)
{
	struct open_pair *oldest = &pairs->places[first];

	for (uint32_t i = 0; i < OPEN_PAIRS_TRIES && oldest->depth; i++) {
		struct open_pair *place = &pairs->places[(first + i) % OPEN_PAIRS_PLACES];

		if (!place->depth || place->times_ns[0] < oldest->times_ns[0])
			oldest = place;
	}
	oldest->depth = 0;
	return oldest;
}

void open_pairs_push(
	struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair, uint64_t time_ns)
{
	struct open_pair *place = find(pairs, pid, tid, pair);

	if (!place) {
		place = make_room(pairs, hash(pid, tid, pair));
		place->pid = pid;
		place->tid = tid;
		place->pair = pair;
	}
	if (place->depth < OPEN_PAIRS_DEPTH)
		place->times_ns[place->depth] = time_ns;
	if (place->depth < UINT32_MAX)
		place->depth++;
}

bool open_pairs_pop(
	struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair, uint64_t *time_ns_ret)
{
	struct open_pair *place = find(pairs, pid, tid, pair);

	if (!place || --place->depth >= OPEN_PAIRS_DEPTH)
		return false;
	*time_ns_ret = place->times_ns[place->depth];
	return true;
}
