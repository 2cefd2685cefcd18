/* SPDX-License-Identifier: MIT */
/*
 * A thread that writes large packets, so that nobody waits for the disk, and the next packet is
 * made meanwhile. Jobs are done in the order in which they are handed over; once one has failed,
 * the others are left for the caller to see.
 */
#ifndef LIBPROBE_RECORD_CTF_WRITER_H
#define LIBPROBE_RECORD_CTF_WRITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/worker.h"
#include "libprobe/record/ctf.h"

enum {
	CTF_JOBS = 3,
	CTF_JOB_BYTES = 8 << 20 /* of memory: whole huge pages */
};

struct ctf_job {
	uint8_t *memory; /* CTF_JOB_BYTES, which begin a page */
	/* What to write: to a file that was opened for appending. */
	uint8_t *bytes;
	size_t size;
	int fd;
	bool done; /* everything was written */
	/* Whose it is (ctf_direct.c). */
	struct ctf_part *part;
	size_t stream; /* of the part */
	struct probe_session *session;
	size_t names;		  /* bytes of packets that name threads, before the large one */
	struct ctf_packet packet; /* the large one */
	off_t last_at;		  /* where that one begins in the file */
	uint64_t sequence;	  /* of the first of them */
	uint64_t *hits;		  /* of each site */
	size_t hit_count;	  /* of sites */
	uint64_t paged;		  /* hits that went into packets of a page instead */
};

struct ctf_writer {
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	struct ctf_job jobs[CTF_JOBS];	 /* job number N is in place N modulo that number */
	size_t given, finished, settled; /* how many jobs, ever */
	bool failed, over;
	bool has_thread;
	struct worker worker;
};

/* NULL without memory. */
struct ctf_writer *ctf_writer_create(void);
/* Waits for all jobs. */
void ctf_writer_free(struct ctf_writer *writer);

/* The next job, for the caller to fill in; NULL: all wait to be settled. */
struct ctf_job *ctf_writer_next(struct ctf_writer *writer);
/* A job that waits, from 0, the oldest; NULL: there are no more. */
struct ctf_job *ctf_writer_waiting(struct ctf_writer *writer, size_t i);
/* Hands it over. */
void ctf_writer_give(struct ctf_writer *writer);

/* How many jobs are finished and not settled; waits for all of them, if it shall. */
size_t ctf_writer_finished(struct ctf_writer *writer, bool wait);
/* The oldest job that is not settled is; after one that has failed, settle all at once. */
void ctf_writer_settle(struct ctf_writer *writer);

#endif
