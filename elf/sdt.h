/* SPDX-License-Identifier: MIT */
/*
 * Static probes: the notes of type 3 and name "stapsdt" that <sys/sdt.h>, usdt.h, libstapsdt
 * and OCaml put into ELF files.
 *
 * Source: SystemTap, "User Space Probe Implementation"; elf(5), Nhdr.
 */
#ifndef ELF_SDT_H
#define ELF_SDT_H

#include "object.h"

/* What a site is: what is there, and who else changes it. */
enum sdt_kind {
	SDT_NOP, /* a nop */
	/*
	 * A nop and a toggle of OCaml's (struct arch_toggle). Two bytes after the semaphore, which
	 * tracers raise, is the count of those who want the handler called.
	 */
	SDT_OCAML,
	SDT_OCAML_HANDLERS, /* the same, of its first version: the semaphore is that count */
	SDT_ENTRY,	    /* a function's entry: no note names it, and there is no nop */
	SDT_GATE	    /* the same, where threads wait for the controller */
};

/* The kind of a note's site, by its provider. */
enum sdt_kind sdt_kind_of(const char *provider);
bool sdt_is_ocaml(enum sdt_kind kind);
bool sdt_is_entry(enum sdt_kind kind);

/* One note, which is one site of a probe. Addresses are link-time, corrected for prelink. */
struct sdt_note {
	const char *provider; /* these three point into sdt_notes.storage */
	const char *name;
	const char *args; /* the argument string, or "" */
	enum sdt_kind kind;
	uint64_t pc;	    /* may be 0 (OCaml: only a semaphore) */
	uint64_t base;	    /* as in the note: the link-time address of .stapsdt.base, or 0 */
	uint64_t semaphore; /* 0 if there is none */
	uint64_t offset;    /* of the note, from the start of the file */
};

/* A note that could not be read. */
struct sdt_defect {
	uint64_t offset;  /* from the start of the file */
	const char *what; /* static text, e.g. "the probe name is not terminated" */
};

struct sdt_notes {
	struct sdt_note *notes; /* in file order */
	size_t count;
	struct sdt_defect *defects;
	size_t defect_count;
	char *storage; /* the notes' bytes; the strings point here */
	/*
	 * Where not all notes are known (libprobe/query/query.h): the address that the first
	 * one of the file has; 0: see the first one.
	 */
	uint64_t first;
};

/*
 * Reads all stapsdt notes of an object. Malformed notes become defects; reading continues after
 * them if their sizes are plausible. Memory and time are proportional to the note sections.
 *
 * Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY, PROBE_ERROR_FORMAT (the section headers are
 * unusable).
 */
PROBE_MUST_CHECK struct probe_error *sdt_read(struct object *object, struct sdt_notes *ret);
void sdt_notes_deinit(struct sdt_notes *notes);

#endif
