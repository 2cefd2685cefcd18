/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libprobe/record/record.h"
#include "libprobe/process/process.h"

enum { HUGE_PAGE_BYTES = 2 << 20 };

/* Writes everything; false if not all of it could be written. */
static bool write_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		size -= (size_t)n;
	}
	return true;
}

/* Does the next job. It is called with the lock, and without it nobody touches the job. */
static void do_next(struct ctf_writer *writer)
{
	struct ctf_job *job = &writer->jobs[writer->finished % CTF_JOBS];
	bool done = false;

	if (!writer->failed) {
		pthread_mutex_unlock(&writer->lock);
		done = write_all(job->fd, job->bytes, job->size);
		pthread_mutex_lock(&writer->lock);
	}
	job->done = done;
	writer->failed |= !done;
	writer->finished++;
	pthread_cond_broadcast(&writer->changed);
}

static void *do_jobs(void *data)
{
	struct ctf_writer *writer = data;

	pthread_mutex_lock(&writer->lock);
	while (writer->finished != writer->given || !writer->over) {
		if (writer->finished != writer->given)
			do_next(writer);
		else
			pthread_cond_wait(&writer->changed, &writer->lock);
	}
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

struct ctf_writer *ctf_writer_create(void)
{
	struct ctf_writer *writer = calloc(1, sizeof(*writer));
	size_t size = CTF_JOBS * (size_t)CTF_JOB_BYTES;
	uint8_t *memory = writer ? aligned_alloc(HUGE_PAGE_BYTES, size) : NULL;

	if (!memory) {
		free(writer);
		return NULL;
	}
	/* The kernel looks at each page of what it writes. */
	if (seccomp_may_call(SECCOMP_OWN_REMOVE))
		madvise(memory, size, MADV_HUGEPAGE);
	for (size_t i = 0; i < CTF_JOBS; i++)
		writer->jobs[i].memory = memory + i * CTF_JOB_BYTES;
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->changed, NULL);
	writer->has_thread = worker_start(&writer->worker, do_jobs, writer) == 0;
	return writer;
}

void ctf_writer_free(struct ctf_writer *writer)
{
	if (!writer)
		return;
	pthread_mutex_lock(&writer->lock);
	writer->over = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	if (writer->has_thread)
		worker_join(&writer->worker);
	pthread_cond_destroy(&writer->changed);
	pthread_mutex_destroy(&writer->lock);
	free(writer->jobs[0].memory);
	free(writer);
}

struct ctf_job *ctf_writer_next(struct ctf_writer *writer)
{
	bool is_full = writer->given - writer->settled == CTF_JOBS;

	return is_full ? NULL : &writer->jobs[writer->given % CTF_JOBS];
}

struct ctf_job *ctf_writer_waiting(struct ctf_writer *writer, size_t i)
{
	bool is_there = i < writer->given - writer->settled;

	return is_there ? &writer->jobs[(writer->settled + i) % CTF_JOBS] : NULL;
}

void ctf_writer_give(struct ctf_writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	writer->given++;
	if (!writer->has_thread)
		do_next(writer);
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
}

size_t ctf_writer_finished(struct ctf_writer *writer, bool wait)
{
	size_t count;

	pthread_mutex_lock(&writer->lock);
	while (wait && writer->finished != writer->given)
		pthread_cond_wait(&writer->changed, &writer->lock);
	count = writer->finished - writer->settled;
	pthread_mutex_unlock(&writer->lock);
	return count;
}

void ctf_writer_settle(struct ctf_writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	if (++writer->settled == writer->given)
		writer->failed = false;
	pthread_mutex_unlock(&writer->lock);
}
