/* SPDX-License-Identifier: MIT */
/* Pages of a process that a program provides when somebody touches them: userfaultfd(2). */
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
	bool reads; /* reading a page that is missing waits; otherwise only writing waits */
};

/* What is known of a process's pages. */
struct served {
	pid_t pid;
	int pagemap;
	bool looks_ahead; /* more pages behind will be asked for */
	uint64_t first;	  /* the page that entries[0] describes */
	size_t count;
	uint64_t entries[SERVED_ENTRIES];
	/* Read when a page is missing. */
	bool has_maps, has_ranges, is_unknown;
	struct maps maps;
	struct served_range *ranges; /* owned */
	size_t range_count;
};

/* Never fails: if the kernel shows no pagemap, no page counts as served. */
void served_begin(pid_t pid, struct served *ret);
void served_end(struct served *served);

/*
 * How many of `size` bytes, from the first on, can be read without waiting for a program.
 * `is_forced`: through /proc/PID/mem, which reads memory that the process itself may not.
 */
size_t served_readable(struct served *served, uint64_t address, size_t size, bool is_forced);

/* Whether the page of an address can be written without waiting for a program. */
bool served_writable(struct served *served, uint64_t address);

#endif
