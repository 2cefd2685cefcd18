/* SPDX-License-Identifier: MIT */
/* The lock of this process's changes; and looking at its probes, which changes nothing. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/procfs.h"
#include "libprobe/self/self.h"
#include "libprobe/self/unwind.h"
#include "probe/self.h"

/* ---- The lock --------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread bool is_owner __attribute__((tls_model("initial-exec")));
static __thread bool is_taken_to_fork __attribute__((tls_model("initial-exec")));

enum { SOON_SECONDS = 2 };

/*
 * The thread with the lock forks for what it does: it creates a copy, or a child that opens files
 * of other machines.
 */
static void before_fork(void)
{
	if (is_owner)
		return;
	pthread_mutex_lock(&lock);
	is_owner = is_taken_to_fork = true;
}

static void after_fork(void)
{
	if (!is_taken_to_fork)
		return;
	is_owner = is_taken_to_fork = false;
	pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
	if (is_taken_to_fork)
		self_after_fork();
	after_fork();
}

static void set_up(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

int self_lock(void)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_once(&once, set_up);
	helper_prepare();
	unwind_prepare();
	pthread_mutex_lock(&lock);
	is_owner = true;
	return cancel;
}

bool self_lock_soon(int *cancel_ret)
{
	struct timespec end;

	if (is_owner)
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel_ret);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += SOON_SECONDS;
	is_owner = pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &end) == 0;
	if (!is_owner)
		pthread_setcancelstate(*cancel_ret, NULL);
	return is_owner;
}

void self_unlock(int cancel)
{
	/*
	 * A thread that did not get the lock in time has set the flag before it is checked again.
	 */
	do {
		struct followed followed = {0};

		is_owner = true;
		self_catch_up(&followed);
		helper_end();
		is_owner = false;
		pthread_mutex_unlock(&lock);
		self_tell(&followed);
	} while (self_is_behind() && pthread_mutex_trylock(&lock) == 0);
	pthread_setcancelstate(cancel, NULL);
}

/* ---- Looking ---------------------------------------------------------------------------- */

struct probe_error *probe_self_list(struct probe_list *list)
{
	struct probe_error *error = procfs_check();

	return error ? error : probe_list_add_process(list, getpid());
}

/* Copies a string to *at, and advances it. */
static const char *copy_string(char **at, const char *text)
{
	char *copy = *at;

	*at = stpcpy(copy, text) + 1;
	return copy;
}

/* Packs the states and their strings into one block. */
static struct probe_status *pack(const struct probe_status *states, size_t count)
{
	size_t bytes = (count + 1) * sizeof(*states);
	struct probe_status *ret;
	char *at;

	for (size_t i = 0; i < count; i++)
		bytes += strlen(states[i].provider) + strlen(states[i].name) +
			 strlen(states[i].path) + 3;
	ret = malloc(bytes);
	if (!ret)
		return NULL;
	at = (char *)(ret + count + 1);
	for (size_t i = 0; i < count; i++) {
		ret[i] = states[i];
		ret[i].provider = copy_string(&at, states[i].provider);
		ret[i].name = copy_string(&at, states[i].name);
		ret[i].path = copy_string(&at, states[i].path);
	}
	return ret;
}

struct probe_error *probe_self_status(struct probe_status **ret, size_t *count_ret)
{
	struct probe_target *self;
	struct probe_status *states = NULL;
	struct probe_error *error = probe_target_open(getpid(), NULL, &self);

	if (error)
		return error;
	error = probe_target_status(self, &states, count_ret);
	if (!error) {
		*ret = pack(states, *count_ret);
		free(states);
		if (!*ret)
			error = probe_error_no_memory();
	}
	probe_target_close(self);
	return error;
}
