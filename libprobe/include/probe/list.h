/* SPDX-License-Identifier: MIT */
/* Lists of the probes in files and processes: an entry for each site. They change no process. */
#ifndef PROBE_LIST_H
#define PROBE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "pattern.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The plans, which are ways to patch a site (docs/patching.md, "Plans and their proofs"), in the
 * default order. A row is X(constant, number, name); AND stands between two rows. Targets hold the
 * numbers, so they never change. A new plan gets the next number.
 */
/* clang-format off */
#define PROBE_PLANS(X, AND)									\
	/* OCaml: one byte turns a compare into a call */					\
	X(PROBE_PLAN_TOGGLE, 1, toggle) AND							\
	/* a jump after the nop; the instructions there are moved */				\
	X(PROBE_PLAN_BEHIND, 6, behind) AND							\
	/* a short jump after the nop, to a long jump in unused bytes near it */		\
	X(PROBE_PLAN_HOP, 8, hop) AND								\
	/* one byte turns the nop and the next bytes into a jump */				\
	X(PROBE_PLAN_PUN, 4, pun) AND								\
	/* a jump inside a long nop */								\
	X(PROBE_PLAN_LONG_NOP, 2, nop) AND							\
	/* a jump before the nop; the instructions there are moved */				\
	X(PROBE_PLAN_BEFORE, 7, before) AND							\
	/* A jump at the nop, and one a byte later for code that enters after the nop. */	\
	X(PROBE_PLAN_TWIN, 10, twin) AND							\
	/* a jump after the nop, whose last bytes are unchanged bytes of the code */		\
	X(PROBE_PLAN_PART, 11, part) AND							\
	/* OCaml, traced: the program's call goes to a stub, which calls the handler. */	\
	X(PROBE_PLAN_CALL, 9, call)
/* clang-format on */

/* How a site is patched, or can be. */
enum probe_plan {
	PROBE_PLAN_NONE = 0, /* not chosen yet, or the probe has only a semaphore */
	/* Made only by older versions of libprobe; such patches can be undone. */
	PROBE_PLAN_RESERVED = 3,
	PROBE_PLAN_REFUSED = 5, /* no plan is safe; probe_site_detail.reason says why */
#define PROBE_PLAN_CONSTANT(constant, number, name) constant = number,
	PROBE_PLANS(PROBE_PLAN_CONSTANT, )
#undef PROBE_PLAN_CONSTANT
};
/* The number of constants, whose numbers are below it. */
#define PROBE_ONE_PLAN(constant, number, name) 1
#define PROBE_PLAN_COUNT (3 + PROBE_PLANS(PROBE_ONE_PLAN, +))

/*
 * Returns the name of a plan in PROBE_PLANS, "reserved" or "refused"; otherwise "none". A static
 * string.
 */
const char *probe_plan_name(enum probe_plan plan);

/*
 * Returns the plan with this name, which has `length` bytes. Returns PROBE_PLAN_NONE if no plan has
 * this name, or if a request may not name the plan.
 */
enum probe_plan probe_plan_named(const char *name, size_t length);

/* An argument of a probe, as its note describes it. */
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
	const char *path;     /* path of the module, as the process or the user names it */
	const char *build_id; /* hexadecimal, or "" */
	const char *args_spec;
	uint64_t pc;	    /* link-time address of the site, corrected for prelink */
	uint64_t base;	    /* link-time address of .stapsdt.base, as in the note */
	uint64_t semaphore; /* link-time address; 0 if the probe has no semaphore */
	/* A function has a size in bytes, and perhaps other names, with commas; else 0 and "". */
	uint64_t size;
	const char *aliases;

	/* The following members are for sites of a process only. */
	int pid;	  /* 0 for a file */
	uint64_t bias;	  /* run-time minus link-time address */
	bool state_known; /* false if this caller may not read the process's memory */
	bool enabled;	  /* the reference count is above 0, and the patch is in place */
	/* Patched, but the site holds something else now: its hits are not counted. */
	bool inconsistent;
	uint32_t refcount;
	enum probe_plan plan; /* plan of an enabled site; otherwise PROBE_PLAN_NONE */
};

/* A mistake in a file. The rest of the file is in the list. */
struct probe_defect {
	const char *path;
	uint64_t offset; /* offset of the mistake in the file */
	const char *what;
};

struct probe_list;

/* Makes an empty list. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_list_create(struct probe_list **ret);
/* Frees a list and everything that it owns. NULL is allowed. */
void probe_list_free(struct probe_list *list);

/*
 * Makes the list add the functions that patterns of functions name, with the files and processes
 * that are added later: a site for an entry, one for each exit. The catalogue has the sizes of
 * arguments; with NULL they are 64-bit registers and words. All is borrowed.
 */
void probe_list_functions(struct probe_list *list, const struct probe_pattern *const *patterns,
	size_t count, const struct probe_catalogue *catalogue);

/*
 * Adds the sites of an ELF file. A file without probes adds nothing. Malformed notes become
 * defects. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION, PROBE_ERROR_FORMAT (not an ELF
 * file), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_list_add_file(struct probe_list *list, const char *path);

/*
 * Adds the sites of the libraries that an ELF file needs. Only libraries in the usual folders of
 * this system are found; the rest are skipped. Errors: as probe_list_add_file().
 */
PROBE_MUST_CHECK struct probe_error *probe_list_add_needed(
	struct probe_list *list, const char *path);

/*
 * Adds the sites of all files that a process has mapped, with their state.
 * Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION, PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_list_add_process(struct probe_list *list, int pid);

/*
 * Return the sites, and the defects of files, in the order in which they were added. The list owns
 * the array, which is valid until something is added.
 */
const struct probe_site *probe_list_sites(const struct probe_list *list, size_t *count_ret);
const struct probe_defect *probe_list_defects(const struct probe_list *list, size_t *count_ret);

/*
 * Returns the names of the probes, "provider:name", each once, in the order of strcmp(3). *ret is
 * one block, strings included; free it with free(). Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_list_names(
	const struct probe_list *list, char ***ret, size_t *count_ret);

/*
 * Parses the arguments of a site of the list. *ret is owned by the list. Errors:
 * PROBE_ERROR_FORMAT (the note is malformed), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_list_args(struct probe_list *list,
	const struct probe_site *site, const struct probe_arg **ret, size_t *count_ret);

/*
 * Checks that the probes of the list have the arguments that a pattern names. Without wildcards,
 * every site of every probe that the pattern matches must have them; with wildcards, the sites of
 * one such probe are enough. Errors: PROBE_ERROR_USAGE, as when the probes are traced;
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_list_check(
	const struct probe_list *list, const struct probe_pattern *pattern);

/* Details of a site, as `probectl list -v` and -vv show them. Owned by the list. */
struct probe_site_detail {
	const char *function; /* NULL if unknown */
	uint64_t function_offset;
	const char *file; /* NULL without debug information */
	int line;
	uint8_t bytes[16]; /* the file's bytes at the site */
	size_t byte_count;
	/*
	 * The plan of an enabled site. For a site that is off: the plan that it gets if it alone is
	 * enabled, in its process if it belongs to one.
	 */
	enum probe_plan plan;
	const char *reason; /* why the site is refused, for PROBE_PLAN_REFUSED; otherwise NULL */
	/* Why the plans before `plan` are impossible; NULL without any, or if unknown. */
	const char *instead;
	bool is_shared; /* sites whose nops follow each other share one jump */
	/*
	 * The site's plan if all sites of the file, or of the process, are enabled. Sites that are
	 * close together may conflict, so this plan may differ from `plan`, or be
	 * PROBE_PLAN_REFUSED.
	 */
	enum probe_plan together;
	const char *together_reason; /* why `together` differs; NULL if it is the same plan */
	/*
	 * The machine of the site's code ("aarch64"), if it is not this machine's: the site cannot
	 * be switched on. Otherwise NULL.
	 */
	const char *other_machine;
};

/*
 * Looks up the details of a site of the list. With `with_plan`, the code around the site is
 * analysed for plan and reason. Unknown details stay NULL or 0. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_list_detail(struct probe_list *list,
	const struct probe_site *site, bool with_plan, struct probe_site_detail *ret);

#ifdef __cplusplus
}
#endif
#endif
