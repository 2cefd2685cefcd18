/* SPDX-License-Identifier: MIT */
/* What a list holds; for libprobe/list*.c only. */
#ifndef LIBPROBE_LIST_LIST_H
#define LIBPROBE_LIST_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/lines.h"
#include "elf/object.h"
#include "elf/sdt.h"
#include "libprobe/patch/forecast.h"
#include "libprobe/plan/plan.h"
#include "libprobe/process/modules.h"
#include "probe/list.h"

/* A file, or a module of a process, that has probes. */
struct list_file {
	char *path;
	char *build_id;
	uint16_t machine;
	struct sdt_notes notes; /* owns the strings of its sites */
	uint64_t bias;
	uint64_t start, end; /* where a process has mapped it */
	/* For details: kept for modules, which may have no path; else opened when needed. */
	struct object *object;
	int fd; /* behind a module's object, or -1 */
	bool object_tried;
	struct lines *lines;
	bool lines_tried;
	size_t first_site;  /* index of the site of its first note */
	struct plan *plans; /* of the notes with an address, in their order; made when needed */
	bool plans_tried;
};

/* What belongs to one site; beside probe_list.sites, at the same index. */
struct list_site {
	size_t file;		/* index */
	struct probe_arg *args; /* one allocation, with the text of the specs; NULL: not parsed */
	size_t arg_count;
};

/* A process, once details of its sites were asked for. */
struct list_process {
	pid_t pid;
	struct forecast forecast;
};

struct probe_list {
	struct list_process *processes;
	size_t process_count;
	struct list_file *files;
	size_t file_count;
	struct probe_site *sites;
	struct list_site *more;
	size_t site_count, site_room;
	struct probe_defect *defects; /* their paths and texts are owned */
	size_t defect_count;
};

/*
 * Fills the state of the sites of one process, all those from `first` on:
 * enabled, refcount, plan, state_known. Stops nothing.
 */
PROBE_MUST_CHECK struct probe_error *list_read_state(
	struct probe_list *list, int pid, size_t first);

#endif
