/* SPDX-License-Identifier: MIT */
/*
 * How a site can be patched: what the file alone proves. The rest (is the
 * address of a pun free? does the memory hold what the file holds?) is known
 * only for a process.
 */
#ifndef LIBPROBE_PATCH_PLAN_H
#define LIBPROBE_PATCH_PLAN_H

#include "arch/arch.h"
#include "elf/object.h"
#include "elf/sdt.h"
#include "libprobe/registry/registry.h"
#include "probe/list.h"

enum { PLAN_BYTES = 64, PLAN_NOPS_MAX = 40, PLAN_BEFORE_BYTES = 24, PLAN_SPARES = 4 };
/* How long a row is at most (struct plan). */
enum { PLAN_ROW_MAX = REG_SHARED_MAX - PLAN_NOPS_MAX };

/* A jump over instructions, which run in the tail. */
struct plan_move {
	uint16_t offset;    /* of the jump from pc: the bytes before it stay */
	uint8_t jump;	    /* bytes of the jump */
	uint8_t length;	    /* bytes that it displaces; 0 unless they may move */
	const char *cannot; /* why they must stay; NULL: they may move */
	/*
	 * Sites whose nops follow each other share the jump after the last of them: all sites in
	 * [pc - lead, pc + offset). Nothing enters after the first of them.
	 */
	uint16_t lead;
};

/* What is possible at one site. Addresses are link-time. */
struct plan {
	uint64_t pc;
	/*
	 * Short nops from pc on that are sites, before that of the last site of their row: what is
	 * known of the code is known of that one (rows.h). Such a site has no jump of its own.
	 */
	uint16_t row;
	uint8_t bytes[PLAN_BYTES]; /* the file's, from pc + row on */
	size_t byte_count;
	bool ocaml;	    /* a toggle at pc + 1 */
	uint8_t nop_offset; /* of a nop that holds a jump; nop_length 0: there is none */
	uint8_t nop_length;
	/*
	 * How many bytes of that jump's distance are the nop's own, so that it is a nop again if
	 * another tool restores what it had overwritten (struct arch, nop_fixed).
	 */
	uint8_t nop_fixed;
	bool short_nop;		/* at pc, with no room for a jump: consider a pun */
	const char *pun_cannot; /* why its bytes are no pun; NULL: nothing speaks against it */
	bool is_followed;	/* by the nop of another site: see plan_move.lead */
	struct plan_move behind;
	/*
	 * A short jump, if the jump after the nop is not possible, and where the second jump, to
	 * which it leads, can be written: unused bytes, nearest first.
	 */
	struct plan_move hop;
	uint64_t spares[PLAN_SPARES];
	uint8_t spare_count;
	/*
	 * The instructions before pc, which run before the first stub: before.length bytes that
	 * end at pc. For OCaml's sites, where the bytes after pc belong to its own tools, and for
	 * those that allow no other plan that was asked for.
	 */
	struct plan_move before;
	/* Sites with less room than that: tight.h. */
	struct plan_move twin, part;
	uint8_t before_bytes[PLAN_BEFORE_BYTES]; /* the file's, from pc - before.length on */
};

/*
 * Plans the sites of one object. `notes` are `count` notes of it, with a pc; `all` are
 * those that it has. `ret` is an array of `count` plans in the same order. What the plans
 * of `order` ask for is proved, which searches the code of the whole object.
 *
 * Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (the
 * ISA is only parsed).
 */
PROBE_MUST_CHECK struct probe_error *plan_sites(struct object *object, const struct sdt_notes *all,
	const struct sdt_note *const *notes, size_t count, const enum probe_plan *order,
	size_t order_count, struct plan *ret);

/* Is a plan among those of `order`? */
bool plan_is_asked(const enum probe_plan *order, size_t count, enum probe_plan plan);

/*
 * The first plan of `order` that may work, without regard to what a process has
 * mapped; PROBE_PLAN_REFUSED sets *reason_ret.
 */
enum probe_plan plan_choose(const struct plan *plan, const enum probe_plan *order, size_t count,
	const char **reason_ret);

/* Why instructions that plans of `order` would move must stay; NULL: nothing speaks against it. */
const char *plan_reason(const struct plan *plan, const enum probe_plan *order, size_t count);

/* Where there is no better reason. */
const char *plan_impossible(const struct plan *plan);

extern const char plan_crosses[];     /* a page's end */
extern const char plan_in_distance[]; /* of a pun: the nop of another site */
extern const char plan_no_decoder[];  /* the error where code cannot be decoded */

/*
 * Can one of these places, to which a jump leads, be on a page of ours? None is where the file
 * itself is mapped, and none below all memory, if the file has fixed addresses.
 */
bool plan_can_lead(const struct object *object, struct arch_extent to);
extern const char plan_leads_nowhere[];

/* How far before pc the bytes begin that a plan changes or relies on. */
size_t plan_starts_before(const struct plan *plan, enum probe_plan chosen);

/* How many of the file's bytes a plan knows from an offset on, which is not in the row. */
size_t plan_code(const struct plan *plan, size_t offset, const uint8_t **ret);

/* What a plan moves; NULL: nothing. */
const struct plan_move *plan_move_of(const struct plan *plan, enum probe_plan chosen);
/* Is its jump also that of another site? */
bool plan_is_shared(const struct plan *plan, enum probe_plan chosen);

/*
 * Bytes from there on that have to be known for a plan, and whether those found in memory are
 * right for it: the file's, or what others may make of a nop that stays (plan.c).
 */
size_t plan_needs(const struct arch *arch, const struct plan *plan, enum probe_plan chosen);
bool plan_holds(const struct arch *arch, const struct plan *plan, enum probe_plan chosen,
	const uint8_t *found);

/* Are these bytes the toggle that the file has, on or off? */
bool plan_holds_toggle(
	const struct arch_toggle *toggle, const struct plan *plan, const uint8_t *found);

/* The order in which plans are tried unless the user says otherwise. */
enum { PLAN_DEFAULTS = 9 };
extern const enum probe_plan plan_default_order[PLAN_DEFAULTS];

/*
 * The provider of notes that we make ourselves for the entry of a function, where
 * there is no nop: the first instruction takes its place.
 */
extern const char plan_entry_provider[];

/* OCaml's protocol: its providers' sites have a toggle, and count at semaphore + 2. */
bool plan_is_ocaml(const char *provider);

#endif
