/* SPDX-License-Identifier: MIT */
/* The mappings of a process: /proc/PID/maps (proc_pid_maps(5)). */
#ifndef LIBPROBE_PROCESS_MAPS_H
#define LIBPROBE_PROCESS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

/* One line. The range [start, end) is in the target. */
struct mapping {
	uint64_t start, end;
	uint64_t offset; /* in the file, bytes */
	uint64_t inode;	 /* 0 if there is no file */
	uint32_t dev_major, dev_minor;
	bool readable, writable, executable;
	bool is_shared;	  /* MAP_SHARED */
	bool deleted;	  /* the path ended in " (deleted)", which is stripped */
	const char *path; /* "" for anonymous memory, "[stack]" ...; owned by the maps */
};

/* All mappings, sorted by address. Initialise with {0}. */
struct maps {
	struct mapping *items;
	size_t count;
	char *storage; /* the file's text; paths point here */
};

/*
 * Reads the mappings of a process, or of the process of a thread id. Does not stop it: if it
 * maps or unmaps meanwhile, the result may mix both states.
 *
 * Errors: PROBE_ERROR_NOT_FOUND (no such process), PROBE_ERROR_STATE (it has no memory: a
 * zombie or a kernel thread), PROBE_ERROR_PERMISSION (names the cause), PROBE_ERROR_FORMAT,
 * PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *maps_read(pid_t pid, struct maps *ret);

/* A part of a process's address space. */
struct maps_part {
	uint64_t start, size;
};

/*
 * Reads only the mappings that overlap these parts. The ioctl PROCMAP_QUERY (Linux 6.11) finds them
 * one by one, which is fast enough for a stop; on an older kernel all mappings are read. Errors as
 * above.
 */
PROBE_MUST_CHECK struct probe_error *maps_read_parts(
	pid_t pid, const struct maps_part *parts, size_t count, struct maps *ret);

/*
 * Does the mapping that begins at an address have this flag ("wf") in its VmFlags line of
 * /proc/PID/smaps (proc_pid_smaps(5))? *ret is also false if the file may not be read. The kernel
 * walks the pages of all mappings before this one, so this is for rare cases. Errors:
 * PROBE_ERROR_SYSTEM (no descriptor, or no memory).
 */
PROBE_MUST_CHECK struct probe_error *maps_has_flag(
	pid_t pid, uint64_t start, const char *flag, bool *ret);

/* For tests: parses text of `length` bytes. */
PROBE_MUST_CHECK struct probe_error *maps_parse(const char *text, size_t length, struct maps *ret);

void maps_deinit(struct maps *maps);

/* The mapping that contains an address, or NULL. */
const struct mapping *maps_find(const struct maps *maps, uint64_t address);

/* The first mapping that ends above an address (it contains it, or follows it), or NULL. */
const struct mapping *maps_find_from(const struct maps *maps, uint64_t address);

#endif
