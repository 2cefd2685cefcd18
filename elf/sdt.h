/* SPDX-License-Identifier: MIT */
/*
 * Static probes: the notes of type 3 and name "stapsdt" of <sys/sdt.h>, usdt.h, libstapsdt and
 * OCaml.
 *
 * Source: SystemTap, "User Space Probe Implementation"; elf(5), Nhdr.
 */
#pragma once

#include "libprobe/base/event.h"
#include "object.h"

/* The kind of a site: its code, and which bytes of it other tools change. */
enum sdt_kind {
	SDT_NOP, /* a nop */
	/*
	 * A nop and OCaml's switch (struct arch_toggle). Tracers raise the semaphore. The two bytes
	 * behind it count the tools that want the handler called.
	 */
	SDT_OCAML,
	/* OCaml's first version: the semaphore itself counts those tools. */
	SDT_OCAML_HANDLERS,
	SDT_ENTRY, /* a function's entry, which has no note and no nop */
	SDT_EXIT,  /* an instruction by which a function returns to its caller */
	SDT_GATE   /* a function's entry at which threads wait for the controller */
};

/* The name of a function's exits is its own name and this suffix. */
#define SDT_RETURN ":return"
/* Returns the bytes of a name without that suffix, if it has it. */
size_t sdt_function_length(const char *name, size_t length);

/* Returns the kind of a probe's sites, by its provider and name. */
enum sdt_kind sdt_kind_of(const char *provider, const char *name);
bool sdt_is_ocaml(enum sdt_kind kind);

/*
 * The sites of a function's exits. A jump to another function g is no exit: g returns for it. See
 * ARCH_ACTION_TAIL_RETURN in arch/stub.h.
 */
enum sdt_exit {
	SDT_OWN_EXIT,
	SDT_TAIL_CALL,	/* a jump to g */
	SDT_TAIL_ENTRY, /* the entry of g */
	SDT_TAIL_JUMP,	/* a jump of g to another function that returns for it, too */
	SDT_TAIL_RETURN /* an exit of g */
};

/* A site of a probe. Addresses are link-time, corrected for prelink. */
struct sdt_note {
	const char *provider; /* provider, name and args point into sdt_notes.storage */
	const char *name;
	const char *args; /* the argument string, or "" */
	/* For functions: the operand whose address is the frame's (struct arch_entry), or "". */
	const char *frame;
	enum sdt_kind kind;
	enum sdt_exit exit; /* SDT_EXIT */
	uint8_t tails;	    /* SDT_EXIT: number of functions in which the function may end */
	/* SDT_ENTRY: bytes that a jump must leave, and a short jump (struct arch_entry) */
	uint8_t keep, keep_short;
	uint8_t entry_keep; /* SDT_EXIT: what a jump must leave at the function's entry */
	/* SDT_ENTRY, SDT_EXIT: the function's start, and where its breakpoints may be behind it */
	uint64_t start, breaks;
	const char *refused; /* why a function's site cannot be patched, static; or NULL */
	const char *aliases; /* other names of the function, with commas; may be NULL */
	uint64_t size;	     /* bytes of the function; 0 for other probes */
	uint64_t pc;	     /* address of the site; may be 0 (OCaml: only a semaphore) */
	uint64_t base;	     /* link-time address of .stapsdt.base that the note states, or 0 */
	uint64_t semaphore;  /* address of the semaphore; 0 if the probe has no semaphore */
	uint64_t offset;     /* offset of the note from the start of the file */
};

struct sdt_defect {
	uint64_t offset;  /* offset of the note from the start of the file */
	const char *what; /* static text, e.g. "the probe name is not terminated" */
};

struct sdt_notes {
	struct sdt_note *notes; /* in file order */
	size_t count;
	struct sdt_defect *defects;
	size_t defect_count;
	char *storage; /* the bytes of the notes; strings point into this */
	/*
	 * If `notes` are only some of the file's (libprobe/query/query.h): the site of the file's
	 * first note, or its semaphore if it has no site. 0 if notes[0] is the first note.
	 */
	uint64_t first;
};

/* Functions as notes (libprobe/query/functions.c). Initialise with {0}. */
struct sdt_functions {
	struct sdt_note **items; /* each with its texts */
	size_t count;
};

/* Adds a copy of a note and of its texts. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *sdt_functions_add(
	struct sdt_functions *functions, const struct sdt_note *note);
void sdt_functions_deinit(struct sdt_functions *functions);

/*
 * Reads all stapsdt notes. A malformed note becomes a defect; reading goes on behind it if its
 * sizes are plausible. Memory and time are proportional to the sections. Errors:
 * PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY, PROBE_ERROR_FORMAT (unusable section headers).
 */
PROBE_MUST_CHECK struct probe_error *sdt_read(struct object *object, struct sdt_notes *ret);
void sdt_notes_deinit(struct sdt_notes *notes);

/*
 * A guard of <probe/tracepoint.h>: an instruction that does nothing, and that becomes a jump to
 * `label` while somebody listens to the probe with this semaphore. Addresses are link-time,
 * corrected for prelink. They are not trusted.
 */
struct sdt_guard {
	uint64_t pc, label, base, semaphore; /* `base` is as for a site */
};

/* Returns the guards that sdt_read() has found, by pc; owned by the object, which may be NULL. */
const struct sdt_guard *sdt_guards(const struct object *object, size_t *count_ret);
