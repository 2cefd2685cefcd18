/* SPDX-License-Identifier: MIT */
/* Probes of files and processes, one entry per site, without touching any process. */
#ifndef PROBE_LIST_H
#define PROBE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How hits of a site are, or would be, diverted (docs/architecture.md, "Plans"). */
enum probe_plan {
	PROBE_PLAN_NONE,     /* not decided, or only a semaphore */
	PROBE_PLAN_TOGGLE,   /* OCaml: one byte makes a compare a call */
	PROBE_PLAN_LONG_NOP, /* a jump over a nop that is long enough */
	PROBE_PLAN_RELOCATE, /* a jump; the instructions below it run in the stub */
	PROBE_PLAN_PUN,	     /* one byte makes what follows a jump */
	PROBE_PLAN_REFUSED,  /* none is safe: see reason */
	PROBE_PLAN_BEHIND    /* the nop stays; a jump behind it, as for PROBE_PLAN_RELOCATE */
};
#define PROBE_PLAN_COUNT 7

/*
 * The name of a plan: "toggle", "behind", "nop", "relocate", "pun", "refused"; "none" for
 * PROBE_PLAN_NONE.
 */
const char *probe_plan_name(enum probe_plan plan);

/* An argument of a probe as its note describes it. */
struct probe_arg {
	const char *spec; /* e.g. "-4@%eax" */
	uint32_t size;	  /* bytes */
	bool is_signed;
	bool is_float;
};

/* One site of one probe. Strings are owned by the list. */
struct probe_site {
	const char *provider;
	const char *name;
	const char *path;     /* of the module, as the process or the user names it */
	const char *build_id; /* hexadecimal, or "" */
	const char *args_spec;
	uint64_t pc;	    /* link-time address, corrected for prelink */
	uint64_t base;	    /* of .stapsdt.base, as in the note */
	uint64_t semaphore; /* link-time address, or 0 */

	/* For a process only: */
	int pid;	   /* 0 for a file */
	uint64_t bias;	   /* run-time minus link-time address */
	bool state_known;  /* false where the process's memory may not be read */
	bool enabled;	   /* the reference count is above 0, and its patch is in place */
	bool inconsistent; /* it was patched, and holds something else: its hits do not count */
	uint32_t refcount;
	enum probe_plan plan; /* of an enabled site, else PROBE_PLAN_NONE */
};

/* What was wrong with a file that was listed all the same. */
struct probe_defect {
	const char *path;
	uint64_t offset; /* in the file */
	const char *what;
};

struct probe_list;

/* Makes an empty list. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_list_create(struct probe_list **ret);
/* Frees a list, and all that it has given out. NULL is allowed. */
void probe_list_free(struct probe_list *list);

/*
 * Adds the sites of an ELF file. A file without probes adds nothing.
 * Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION, PROBE_ERROR_FORMAT
 * (no ELF file), PROBE_ERROR_SYSTEM. Malformed notes are defects instead.
 */
PROBE_MUST_CHECK struct probe_error *probe_list_add_file(struct probe_list *list, const char *path);

/*
 * Adds the sites of every module mapped by a process, with their state.
 * Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_list_add_process(struct probe_list *list, int pid);

/*
 * Gives the sites, and what was wrong with files, in the order in which they were
 * added; owned by the list, valid until the next add.
 */
const struct probe_site *probe_list_sites(const struct probe_list *list, size_t *count_ret);
const struct probe_defect *probe_list_defects(const struct probe_list *list, size_t *count_ret);

/*
 * Gives the names of the probes, "provider:name", sorted as strcmp(3) does and without
 * duplicates. *ret is one block, to be freed with free(). Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_list_names(
	const struct probe_list *list, char ***ret, size_t *count_ret);

/* Parses a site's arguments. *ret points into the list, valid until it is freed. */
PROBE_MUST_CHECK struct probe_error *probe_list_args(struct probe_list *list,
	const struct probe_site *site, const struct probe_arg **ret, size_t *count_ret);

/* What -v and -vv of `probectl list` show of a site; all owned by the list. */
struct probe_site_detail {
	const char *function; /* NULL if unknown */
	uint64_t function_offset;
	const char *file; /* NULL without debug information */
	int line;
	uint8_t bytes[16]; /* the file's bytes at the site */
	size_t byte_count;
	/*
	 * What enabling this site alone would choose, in the process if it is one's; and that
	 * of a site that is on. PROBE_PLAN_REFUSED with reason.
	 */
	enum probe_plan plan;
	const char *reason; /* NULL unless refused */
};

/*
 * Looks up what there is to say about a site; `with_plan`: also analyses the code
 * around it. Errors: PROBE_ERROR_MEMORY; what is not known is left empty.
 */
PROBE_MUST_CHECK struct probe_error *probe_list_detail(struct probe_list *list,
	const struct probe_site *site, bool with_plan, struct probe_site_detail *ret);

#ifdef __cplusplus
}
#endif
#endif
