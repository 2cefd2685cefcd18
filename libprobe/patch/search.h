/* SPDX-License-Identifier: MIT */
/*
 * The memory of a process is searched for words that are places: contexts that a thread
 * may come back with.
 */
#ifndef LIBPROBE_PATCH_SEARCH_H
#define LIBPROBE_PATCH_SEARCH_H

#include "libprobe/patch/pages.h"
#include "libprobe/patch/places.h"
#include "libprobe/process/backing.h"
#include "libprobe/process/maps.h"

/* A saved context whose program counter is a place. */
struct search_find {
	uint64_t at, word;
	bool is_remote; /* of what this library saved, to run a system call */
	uint64_t state; /* of a frame that is where the kernel made it: the rest of it; or 0 */
	/* Where such a frame lies: up to the stack it has interrupted, if that is there; or 0. */
	uint64_t frame, frame_end;
	bool is_over; /* for the caller: no thread resumes it */
};

/* Memory in which contexts were found: an alternate stack, or a mapping. */
struct search_part {
	uint64_t start, end;
	uint64_t last; /* the highest context */
};

struct search_source; /* how a mapping is read */

struct search {
	pid_t pid;
	int mem;
	const struct places *places;
	uint64_t skipped; /* a page that is not searched */
	int pagemap;
	uint8_t *buffer;
	struct pages pages;
	struct maps maps;	       /* of the last search of everything */
	struct search_source *sources; /* beside its items */
	struct backing backing;
	int file;			     /* that is read instead of the process; -1: none */
	uint64_t file_bias;		     /* from an address to the offset in it */
	const struct place_visitor *visitor; /* NULL: what is found is kept here */

	/* What was found. */
	struct search_find *finds;
	size_t find_count;
	struct search_part *parts;
	size_t part_count;
	const char *unknown; /* why not everything was searched; NULL: it was */
	uint64_t bytes;	     /* searched */
	bool no_memory;
};

/*
 * Prepares a search, also for a time when the process is stopped. `places` and `mem`
 * (memory_open()) are borrowed; `skipped` is the address of our own guard, or 0. Errors:
 * PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. Only search_close() is due after one.
 */
PROBE_MUST_CHECK struct probe_error *search_open(
	pid_t pid, int mem, const struct places *places, uint64_t skipped, struct search *ret);
void search_close(struct search *search);

/*
 * Searches everything that can hold a context. The process may run: a context that is there all the
 * time is found. What was found before is forgotten. Errors: those of maps_read().
 */
PROBE_MUST_CHECK struct probe_error *search_all(struct search *search);

/*
 * search_forget() forgets what was found, except parts. search_range() searches [start, end), and
 * adds to what was found since then. Neither disturbs a stopped process.
 */
void search_forget(struct search *search);
PROBE_MUST_CHECK struct probe_error *search_range(
	struct search *search, uint64_t start, uint64_t end);

/*
 * Searches the same memory as search_all(), for other places and another visitor. What was found
 * stays; `unknown` says why not everything was searched. Errors: those of search_all().
 */
PROBE_MUST_CHECK struct probe_error *search_words(
	struct search *search, const struct places *places, const struct place_visitor *visitor);

/* How much of [start, end) must be read, in bytes; UINT64_MAX if that is unknown. */
uint64_t search_measure(struct search *search, uint64_t start, uint64_t end);

/*
 * Is a found context certainly a leftover? A frame that the kernel has made for a handler is whole
 * until the handler returns, up to the end of the floating-point state; what is left of one on a
 * stack that has been used since seldom is.
 */
bool search_is_stale(const struct search *search, const struct search_find *find);

#endif
