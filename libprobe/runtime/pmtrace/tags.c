/* SPDX-License-Identifier: MIT */
/*
 * A table of tags that only grows, so look-ups need no lock. One word is the state of a
 * transaction, changed by compare and exchange:
 *
 *     generation << 1 | in progress
 *
 * A generation is a process: a forked child has the next one. A transaction of an older
 * generation was begun by the parent, and counts as never begun.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/runtime/pmtrace/tags.h"
#include "probe/pmtrace.h"

enum { HEADS = 1024 };

struct tag {
	struct tag *next; /* never changes */
	uint64_t number;
	_Atomic uint64_t state;
	char text[];
};

static _Atomic(struct tag *) heads[HEADS];
static _Atomic uint64_t generation = 1;
static uint64_t count;

/* Taken to add a tag, and to fork. */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
	pthread_mutex_lock(&adding);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&adding);
}

static void in_child(void)
{
	atomic_fetch_add(&generation, 1);
	pthread_mutex_unlock(&adding);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

int tags_check(const char *tag)
{
	if (!tag || !*tag)
		return PMTRACE_ERR_TAGNAME;
	return strnlen(tag, PMTRACE_TAG_MAX + 1) > PMTRACE_TAG_MAX ? PMTRACE_ERR_TAGLENGTH : 0;
}

/* FNV-1a */
static _Atomic(struct tag *) *head_of(const char *tag)
{
	uint32_t hash = 2166136261u;

	for (; *tag; tag++)
		hash = (hash ^ (unsigned char)*tag) * 16777619u;
	return &heads[(hash ^ hash >> 16) % HEADS];
}

static struct tag *find(_Atomic(struct tag *) *head, const char *text)
{
	/* Pairs with the store in add(). */
	struct tag *tag = atomic_load_explicit(head, memory_order_acquire);

	while (tag && strcmp(tag->text, text) != 0)
		tag = tag->next;
	return tag;
}

static struct tag *add(_Atomic(struct tag *) *head, const char *text)
{
	size_t size = strlen(text) + 1;
	struct tag *tag;

	pthread_mutex_lock(&adding);
	/* Another thread may have been faster. */
	tag = find(head, text);
	if (!tag && (tag = malloc(sizeof(*tag) + size))) {
		memcpy(tag->text, text, size);
		tag->number = ++count;
		atomic_init(&tag->state, 0);
		tag->next = atomic_load_explicit(head, memory_order_relaxed);
		atomic_store_explicit(head, tag, memory_order_release);
	}
	pthread_mutex_unlock(&adding);
	return tag;
}

int tags_begin(const char *text, uint64_t *number_ret)
{
	_Atomic(struct tag *) *head;
	uint64_t idle, busy;
	struct tag *tag;
	int err = tags_check(text);

	if (err)
		return err;
	head = head_of(text);
	tag = find(head, text);
	if (!tag)
		tag = add(head, text);
	if (!tag)
		return -ENOMEM;
	busy = atomic_load(&generation) << 1 | 1;
	idle = atomic_load(&tag->state);
	if (idle == busy || !atomic_compare_exchange_strong(&tag->state, &idle, busy))
		return PMTRACE_ERR_INPROGRESS;
	*number_ret = tag->number;
	return 0;
}

int tags_end(const char *text, uint64_t *number_ret)
{
	uint64_t now, busy;
	struct tag *tag;
	int err = tags_check(text);

	if (err)
		return err;
	tag = find(head_of(text), text);
	now = atomic_load(&generation);
	if (!tag || atomic_load(&tag->state) >> 1 != now)
		return PMTRACE_ERR_NOSUCHTAG;
	busy = now << 1 | 1;
	if (!atomic_compare_exchange_strong(&tag->state, &busy, now << 1))
		return PMTRACE_ERR_NOPROGRESS;
	*number_ret = tag->number;
	return 0;
}
