/* SPDX-License-Identifier: MIT */
/*
 * Records have a thread's id as the target knows it. So each stream says whose id that is, and what
 * the thread is called, before its first hit there, and again when that has changed: no stream
 * needs another one.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/clock.h"
#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

enum {
	SLOTS_FIRST = 16,
	SLOTS_MAX = 1 << 14, /* a target may make up any number of threads */
	COMM_MAX_AGE_NS = 100000000
};

void ctf_threads_deinit(struct ctf_threads *threads)
{
	free(threads->slots);
	*threads = (struct ctf_threads){0};
}

static struct ctf_thread *slot_of(struct ctf_thread *slots, size_t room, uint32_t word)
{
	size_t at = (word * UINT32_C(0x9e3779b1) >> 12) & (room - 1);

	while (slots[at].is_used && slots[at].word != word)
		at = (at + 1) & (room - 1);
	return &slots[at];
}

/* At most half of the slots are taken. False without memory. */
static bool make_room(struct ctf_threads *threads)
{
	size_t room = threads->room ? 2 * threads->room : SLOTS_FIRST;
	struct ctf_thread *slots;

	if (2 * (threads->count + 1) <= threads->room)
		return true;
	if (room > SLOTS_MAX) {
		/* They are all named again. */
		memset(threads->slots, 0, threads->room * sizeof(*slots));
		threads->count = 0;
		return true;
	}
	slots = calloc(room, sizeof(*slots));
	if (!slots)
		return false;
	for (size_t i = 0; i < threads->room; i++)
		if (threads->slots[i].is_used)
			*slot_of(slots, room, threads->slots[i].word) = threads->slots[i];
	free(threads->slots);
	threads->slots = slots;
	threads->room = room;
	return true;
}

struct ctf_thread *ctf_threads_find(struct ctf_threads *threads, uint32_t word)
{
	struct ctf_thread *thread;

	if (!make_room(threads))
		return NULL;
	thread = slot_of(threads->slots, threads->room, word);
	if (!thread->is_used) {
		*thread = (struct ctf_thread){.is_used = true, .word = word};
		threads->count++;
	}
	return thread;
}

uint8_t *ctf_name_thread(struct probe_session *session, const struct probe_ctf_names *names,
	struct ctf_thread *thread, uint64_t time, uint8_t *at)
{
	uint64_t now = clock_monotonic_ns();
	const uint32_t id = CTF_THREAD_ID;
	struct ctf_thread is = *thread;
	const char *comm = NULL, *name;
	pid_t pid, tid;

	if (thread->is_named && now - thread->asked_ns < COMM_MAX_AGE_NS)
		return at;
	writers_find(&session->processes, thread->word, &pid, &tid);
	if (names && names->comm)
		comm = names->comm(names->data, pid, tid, clock_now_ns());
	is.asked_ns = now;
	is.pid = pid;
	is.tid = tid;
	/* A thread that has ended keeps its last name. */
	if (comm) {
		memset(is.comm, 0, sizeof(is.comm));
		memcpy(is.comm, comm, strnlen(comm, sizeof(is.comm) - 1));
	}
	is.is_named = true;
	if (thread->is_named && is.pid == thread->pid && is.tid == thread->tid &&
		memcmp(is.comm, thread->comm, sizeof(is.comm)) == 0) {
		thread->asked_ns = now;
		return at;
	}
	*thread = is;
	at = ctf_put(at, &time, sizeof(time));
	at = ctf_put(at, &id, sizeof(id));
	at = ctf_put(at, &thread->word, sizeof(thread->word));
	at = ctf_put(at, &is.pid, sizeof(is.pid));
	at = ctf_put(at, &is.tid, sizeof(is.tid));
	name = is.comm[0] ? is.comm : CTF_UNKNOWN;
	return ctf_put(at, name, strlen(name) + 1);
}
