/* SPDX-License-Identifier: MIT */
/* Who has hit: threads of a stream, by the word that its events have for them. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/record/record.h"

enum { SLOTS_FIRST = 64 };

/* The slot of a word, or the free one where it belongs. */
static struct own_thread *slot_of(struct own_thread *slots, size_t room, uint32_t word)
{
	size_t at = (word * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (room - 1);

	while (slots[at].known && slots[at].word != word)
		at = (at + 1) & (room - 1);
	return &slots[at];
}

/* At most half of the slots are taken. False without memory. */
static bool make_room(struct own_threads *threads)
{
	size_t room = threads->room ? 2 * threads->room : SLOTS_FIRST;
	struct own_thread *slots;

	if (2 * (threads->count + 1) <= threads->room)
		return true;
	slots = calloc(room, sizeof(*slots));
	if (!slots)
		return false;
	for (size_t i = 0; i < threads->room; i++)
		if (threads->slots[i].known)
			*slot_of(slots, room, threads->slots[i].word) = threads->slots[i];
	free(threads->slots);
	threads->slots = slots;
	threads->room = room;
	return true;
}

bool own_threads_name(
	struct own_threads *threads, uint32_t word, pid_t pid, pid_t tid, const char *comm)
{
	struct own_thread *slot;
	char *copy = NULL;

	if (!make_room(threads))
		return false;
	if (comm) {
		copy = strdup(comm);
		if (!copy)
			return false;
	}
	slot = slot_of(threads->slots, threads->room, word);
	threads->count += !slot->known;
	free(slot->comm);
	*slot = (struct own_thread){
		.word = word, .known = true, .pid = pid, .tid = tid, .comm = copy};
	return true;
}

const struct own_thread *own_threads_find(const struct own_threads *threads, uint32_t word)
{
	const struct own_thread *slot;

	if (!threads->room)
		return NULL;
	slot = slot_of(threads->slots, threads->room, word);
	return slot->known ? slot : NULL;
}

void own_threads_deinit(struct own_threads *threads)
{
	for (size_t i = 0; i < threads->room; i++)
		free(threads->slots[i].comm);
	free(threads->slots);
	*threads = (struct own_threads){0};
}
