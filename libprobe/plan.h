/* SPDX-License-Identifier: MIT */
/*
 * How a site can be patched: what the file alone proves. The rest (is the
 * address of a pun free? does the memory hold what the file holds?) is known
 * only for a process.
 */
#ifndef LIBPROBE_PLAN_H
#define LIBPROBE_PLAN_H

#include "arch/arch.h"
#include "elf/object.h"
#include "elf/sdt.h"
#include "probe/list.h"

enum { PLAN_BYTES = 32 };

/* What is possible at one site. Addresses are link-time. */
struct plan {
	uint64_t pc;
	uint8_t bytes[PLAN_BYTES]; /* the file's, from pc on */
	size_t byte_count;
	bool ocaml;	    /* a toggle at pc + 1 */
	uint8_t nop_offset; /* of a nop that holds a jump; nop_length 0: there is none */
	uint8_t nop_length;
	bool one_byte_nop;	 /* at pc: relocation and pun are to be considered */
	uint8_t moved_length;	 /* bytes that relocation displaces; 0 unless they may move */
	const char *cannot_move; /* why the bytes behind it must stay; NULL: they may move */
};

/*
 * Plans the sites of one object. `notes` are `count` notes of it, with a pc.
 * `ret` is an array of `count` plans in the same order. `relocation`: also
 * prove whether the instructions at each site may be moved, which searches the
 * code of the whole object once.
 *
 * Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (the
 * ISA is only parsed).
 */
PROBE_MUST_CHECK struct probe_error *plan_sites(struct object *object,
	const struct sdt_note *const *notes, size_t count, bool relocation, struct plan *ret);

/*
 * The first plan of `order` that may work, without regard to what a process has
 * mapped; PROBE_PLAN_REFUSED sets *reason_ret.
 */
enum probe_plan plan_choose(const struct plan *plan, const enum probe_plan *order, size_t count,
	const char **reason_ret);

/* The order in which plans are tried unless the user says otherwise. */
extern const enum probe_plan plan_default_order[4];

/*
 * The provider of notes that we make ourselves for the entry of a function, where
 * there is no nop: the same proof allows its first instructions to be moved.
 */
extern const char plan_entry_provider[];

/* OCaml's protocol: its providers' sites are toggled, and count at semaphore + 2. */
bool plan_is_ocaml(const char *provider);

#endif
