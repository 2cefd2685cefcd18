/* SPDX-License-Identifier: MIT */
/*
 * An event type is a probe in an ELF file in memory (image.c), mapped into this process.
 * Controllers find it like any library in /proc/PID/maps, and read it through /proc/PID/fd. The
 * loader does not know it, so this works in static programs, too. Controllers that wait for new
 * libraries are notified as the loader would do it: by a call of the empty function that `struct
 * r_debug` names. They hold the caller there until the probes of all names that are open are on,
 * which takes as long for a hundred names as for one. So a name is announced when it is first used,
 * not when it is opened: programs open many names before they use one.
 *
 * A file has room for many events, so neither descriptors nor mappings limit how many there are.
 * After fork(2), parent and child have the same file, which either could change for both: each
 * begins another one with its next name.
 *
 * One probe for all events, with the name as an argument, would need no file. But every hit of
 * any event would then be a hit of all, and tracers would have to compare strings.
 *
 * An identifier is an index. Entries are filled in once, before the count includes them, and
 * never change: only posix_trace_eventid_open() takes a lock.
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "libprobe/runtime/events/table.h"
#include "probe/posix_trace.h"

_Static_assert(TRACE_EVENT_NAME_MAX <= IMAGE_NAME_MAX, "names fit into a note");

static const char provider[] = "posix_trace", unnamed[] = "posix_trace_unnamed_userevent";

enum { FIRST_EVENT = 64 }; /* lower identifiers are the standard's own events */

/* NULL on other instruction sets: no probe can be made there. */
static const struct arch_event *const machine = ARCH_EVENT;

static struct table table;
static struct batch batch; /* the one that has room */
static pid_t batch_owner;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint announced; /* events below it: controllers that wait have looked at them */

__extension__ unsigned short posix_trace_posix_trace_unnamed_userevent_semaphore
	__attribute__((section(".probes"), visibility("hidden")));

/* Missing in static programs, and with other C libraries. */
#pragma weak _r_debug

/* ---- Making a probe ----------------------------------------------------------------- */

/* Files get larger with the number of events, from 64 on. */
static uint32_t capacity_for(uint32_t count)
{
	uint32_t capacity = 64;

	while (capacity < count && capacity < IMAGE_EVENTS_MAX)
		capacity *= 2;
	return capacity;
}

static int make_probe(const char *name, struct batch_probe *ret)
{
	int err;

	if (!machine)
		return ENOTSUP;
	/* Children of clone(2) without fork() are found by their id. */
	if (!batch_has_room(&batch) || batch_owner != getpid()) {
		err = batch_open(
			machine, capacity_for(atomic_load(&table.count)), provider, &batch);
		if (err)
			return err;
		batch_owner = getpid();
	}
	*ret = batch_add(machine, &batch, provider, name);
	return 0;
}

/*
 * A controller that follows libraries holds this thread here until it has looked. The loader's own
 * calls are not held while it changes its list; ARCH_GATE_CALLER tells the gate that this is none.
 * So nothing depends on what other threads do, or what this one was doing when a signal came.
 */
static void call_controllers(void)
{
	void (*tell)(uint64_t caller);

	if (!&_r_debug || !_r_debug.r_brk)
		return;
	memcpy(&tell, &_r_debug.r_brk, sizeof(tell));
	tell(ARCH_GATE_CALLER);
}

/* Announces all names that are open. Takes no lock: a signal handler may be the first user. */
static void announce(void)
{
	uint32_t count = atomic_load_explicit(&table.count, memory_order_acquire);
	uint32_t before = atomic_load_explicit(&announced, memory_order_relaxed);

	if (before >= count)
		return;
	call_controllers();
	/* Pairs with the load in posix_trace_event(). */
	while (before < count && !atomic_compare_exchange_weak_explicit(&announced, &before, count,
					 memory_order_release, memory_order_relaxed))
		;
}

/* A forked child can open events, whatever other threads were doing. */
static void lock(void)
{
	pthread_mutex_lock(&opening);
}

/* Controllers probe names in the parent, and the child inherits them. */
static void before_fork(void)
{
	lock();
	announce();
}

static void unlock(void)
{
	pthread_mutex_unlock(&opening);
}

/* In the parent and in the child. */
static void after_fork(void)
{
	batch.count = batch.layout.capacity;
	unlock();
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

/* ---- The interface ------------------------------------------------------------------ */

static int find_or_make(const char *name, trace_event_id_t *ret)
{
	uint32_t number = table_find(&table, name);
	struct event *event;
	int err;

	if (number == UINT32_MAX) {
		err = table_reserve(&table, name, &event);
		if (!err)
			err = make_probe(name, &event->probe);
		if (err == EOVERFLOW) {
			*ret = POSIX_TRACE_UNNAMED_USEREVENT;
			return 0;
		}
		if (err)
			return err;
		number = table_commit(&table);
	}
	*ret = FIRST_EVENT + number;
	return 0;
}

int posix_trace_eventid_open(const char *restrict event_name, trace_event_id_t *restrict event_id)
{
	size_t length = strnlen(event_name, TRACE_EVENT_NAME_MAX + 1);
	int err, saved = errno;

	if (length > TRACE_EVENT_NAME_MAX)
		return ENAMETOOLONG;
	if (length == 0)
		return EINVAL;
	if (strcmp(event_name, unnamed) == 0) {
		*event_id = POSIX_TRACE_UNNAMED_USEREVENT;
		return 0;
	}
	lock();
	err = find_or_make(event_name, event_id);
	unlock();
	errno = saved;
	return err;
}

static void pass(uint32_t number, const void *data, size_t length)
{
	const struct batch_probe *probe = &table_at(&table, number)->probe;

	if (__builtin_expect(*probe->semaphore != 0, 0))
		probe->site(data, length);
}

void posix_trace_event(trace_event_id_t event_id, const void *restrict data_ptr, size_t data_len)
{
	uint32_t number = event_id - FIRST_EVENT;

	/* These pair with the stores in announce() and table_commit(). */
	if (__builtin_expect(number < atomic_load_explicit(&announced, memory_order_acquire), 1)) {
		pass(number, data_ptr, data_len);
	} else if (number < atomic_load_explicit(&table.count, memory_order_acquire)) {
		announce();
		pass(number, data_ptr, data_len);
	} else if (event_id == POSIX_TRACE_UNNAMED_USEREVENT &&
		   __builtin_expect(posix_trace_posix_trace_unnamed_userevent_semaphore, 0)) {
		STAP_PROBE2(posix_trace, posix_trace_unnamed_userevent, data_ptr, data_len);
	}
}
