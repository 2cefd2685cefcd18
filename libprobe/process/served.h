/* SPDX-License-Identifier: MIT */
/* Pages that a program provides when somebody touches them (userfaultfd(2)). */
#ifndef LIBPROBE_PROCESS_SERVED_H
#define LIBPROBE_PROCESS_SERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/process/maps.h"

enum { SERVED_ENTRIES = 64 };

/* A range of addresses that is registered with userfaultfd. */
struct served_range {
	uint64_t start, end;
	bool reads; /* reading a missing page waits; otherwise only writing does */
};

/*
 * Our knowledge of a process's pages. Share it between reads that follow each other: to learn which
 * ranges are registered, the flags of all mappings are read.
 */
struct served {
	pid_t pid;
	int pagemap;
	bool looks_ahead; /* read more entries at once: they will be needed */
	uint64_t first;	  /* the page that entries[0] describes */
	size_t count;
	uint64_t entries[SERVED_ENTRIES];
	/* Read when the first missing page is found. */
	bool has_maps, has_ranges, is_unknown;
	struct maps maps;
	struct served_range *ranges; /* owned; sorted */
	size_t range_count;
};

/* Never fails: if the kernel shows no pagemap, no page counts as served. */
void served_begin(pid_t pid, struct served *ret);
void served_end(struct served *served);

/* Ends when it goes out of scope. */
#define AUTO_SERVED __attribute__((cleanup(served_end)))

/*
 * Returns how many of `size` bytes, from the first on, can be read without waiting for a program.
 * `is_forced`: the read goes through /proc/PID/mem, which ignores the protection of pages.
 */
size_t served_readable(struct served *served, uint64_t address, size_t size, bool is_forced);

/* Can the page of an address be written without waiting for a program? */
bool served_writable(struct served *served, uint64_t address);

#endif
