/* SPDX-License-Identifier: MIT */
/*
 * An event type is a small ELF file in memory (image.c), mapped into this process. Controllers
 * find it like any library in /proc/PID/maps, and read it through /proc/PID/fd, so its
 * descriptor stays open. The loader does not know it, so this works in static programs, too.
 * Debuggers and controllers that wait for new libraries are notified as the loader would do it:
 * by a call of the empty function that `struct r_debug` names.
 *
 * One probe for all events, with the name as an argument, would need no file. But every hit of
 * any event would then be a hit of all, and tracers would have to compare strings.
 *
 * An identifier is an index. Entries are filled in once, before the count includes them, and
 * never change: only posix_trace_eventid_open() takes a lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "libprobe/runtime/events/image.h"
#include "probe/posix_trace.h"

_Static_assert(TRACE_EVENT_NAME_MAX <= IMAGE_NAME_MAX, "names fit into a note");

static const char provider[] = "posix_trace", unnamed[] = "posix_trace_unnamed_userevent";

enum { FIRST_EVENT = 64 }; /* lower identifiers are the standard's own events */

/* NULL on other instruction sets: no probe can be made there. */
static const struct arch_event *const machine = ARCH_EVENT;

struct event {
	const volatile uint16_t *semaphore; /* nonzero while traced */
	void (*site)(const void *data, size_t length);
	char name[TRACE_EVENT_NAME_MAX + 1];
};

static struct event events[TRACE_USER_EVENT_MAX];
static atomic_uint event_count;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

__extension__ unsigned short posix_trace_posix_trace_unnamed_userevent_semaphore
	__attribute__((section(".probes"), visibility("hidden")));

/* Missing in static programs, and with other C libraries. */
#pragma weak _r_debug

/* ---- Making a probe ----------------------------------------------------------------- */

/* A sealed file with the image; or -1 with errno. Never uses descriptors 0 to 2. */
static int make_file(const uint8_t *head, size_t length)
{
	int low = memfd_create(provider, MFD_CLOEXEC | MFD_ALLOW_SEALING), fd, err;

	if (low < 0)
		return -1;
	fd = fcntl(low, F_DUPFD_CLOEXEC, 3);
	err = errno;
	close(low);
	errno = err;
	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)length) == 0 &&
		pwrite(fd, head, IMAGE_HEAD_BYTES, 0) == IMAGE_HEAD_BYTES &&
		fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) ==
			0)
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/* Maps both segments; NULL with errno. */
static uint8_t *map_file(int fd, size_t length)
{
	uint8_t *base = mmap(NULL, length, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	int err;

	if (base == MAP_FAILED)
		return NULL;
	if (mmap(base + machine->segment_bytes, length - machine->segment_bytes,
		    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
		    machine->segment_bytes) != MAP_FAILED)
		return base;
	err = errno;
	munmap(base, length);
	errno = err;
	return NULL;
}

static int make_event(struct event *event, const char *name)
{
	struct image_layout layout;
	uint8_t head[IMAGE_HEAD_BYTES], *base;
	uintptr_t site;
	int fd, err;

	if (!machine)
		return ENOTSUP;
	image_make(machine, provider, name, head, &layout);
	fd = make_file(head, layout.length);
	if (fd < 0)
		return errno;
	base = map_file(fd, layout.length);
	if (!base) {
		err = errno;
		close(fd);
		return err;
	}
	site = (uintptr_t)base + layout.site;
	memcpy(&event->site, &site, sizeof(site));
	event->semaphore = (const uint16_t *)(const void *)(base + layout.semaphore);
	strcpy(event->name, name);
	return 0;
}

/* A controller that follows libraries holds this thread here until it has looked. */
static void announce(void)
{
	void (*tell)(void);

	if (!&_r_debug || !_r_debug.r_brk)
		return;
	memcpy(&tell, &_r_debug.r_brk, sizeof(tell));
	tell();
}

/* A forked child can open events, whatever other threads were doing. */
static void lock(void)
{
	pthread_mutex_lock(&opening);
}

static void unlock(void)
{
	pthread_mutex_unlock(&opening);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(lock, unlock, unlock);
}

/* ---- The interface ------------------------------------------------------------------ */

static int find_or_make(const char *name, trace_event_id_t *ret)
{
	unsigned int count = atomic_load_explicit(&event_count, memory_order_relaxed);
	int err;

	for (unsigned int i = 0; i < count; i++) {
		if (strcmp(events[i].name, name) == 0) {
			*ret = FIRST_EVENT + i;
			return 0;
		}
	}
	if (count == TRACE_USER_EVENT_MAX) {
		*ret = POSIX_TRACE_UNNAMED_USEREVENT;
		return 0;
	}
	err = make_event(&events[count], name);
	if (err)
		return err;
	/* Pairs with the load in posix_trace_event(). */
	atomic_store_explicit(&event_count, count + 1, memory_order_release);
	announce();
	*ret = FIRST_EVENT + count;
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

void posix_trace_event(trace_event_id_t event_id, const void *restrict data_ptr, size_t data_len)
{
	unsigned int index = event_id - FIRST_EVENT;

	if (index < atomic_load_explicit(&event_count, memory_order_acquire)) {
		const struct event *event = &events[index];

		if (__builtin_expect(*event->semaphore != 0, 0))
			event->site(data_ptr, data_len);
	} else if (event_id == POSIX_TRACE_UNNAMED_USEREVENT &&
		   __builtin_expect(posix_trace_posix_trace_unnamed_userevent_semaphore, 0)) {
		STAP_PROBE2(posix_trace, posix_trace_unnamed_userevent, data_ptr, data_len);
	}
}
