/* SPDX-License-Identifier: MIT */
/* The contents of a list; private to libprobe/list. */
#ifndef LIBPROBE_PATCH_LIST_H
#define LIBPROBE_PATCH_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/lines.h"
#include "elf/object.h"
#include "elf/sdt.h"
#include "libprobe/process/modules.h"
#include "libprobe/patch/forecast.h"
#include "libprobe/patch/plan.h"
#include "probe/list.h"

/* A file, or a module of a process, that has probes. */
struct list_file {
	char *path;
	char *build_id;
	uint16_t machine;
	struct sdt_notes notes; /* owns the strings of its sites */
	uint64_t bias;
	uint64_t start, end; /* where a process has mapped it */
	/* For details: kept for modules, which may have no path; otherwise opened on demand. */
	struct object *object;
	int fd; /* of a module's object, or -1 */
	bool object_tried;
	struct lines *lines;
	bool lines_tried;
	size_t lines_asked; /* how often */
	size_t lines_next;  /* index of the first site that was not asked for beside another */
	size_t first_site;  /* index of the site of its first note */
	struct forecast forecast; /* of its sites; made on demand */
	bool plans_tried;
};

/* Additional data of a site, at the same index as in probe_list.sites. */
struct list_site {
	size_t file; /* index */
	struct line line;
	bool line_known;
	struct probe_arg *args; /* one allocation, with the text of the specs; NULL: not parsed */
	size_t arg_count;
};

/* A process whose sites' details were requested. */
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
	struct probe_defect *defects; /* paths and texts are owned */
	size_t defect_count;
};

/*
 * Fills in the state of the sites of one process, from `first` to the end: enabled, refcount,
 * plan, state_known. Does not stop the process.
 */
PROBE_MUST_CHECK struct probe_error *list_read_state(
	struct probe_list *list, int pid, size_t first);

#endif
