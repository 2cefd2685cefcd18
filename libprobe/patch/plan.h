/* SPDX-License-Identifier: MIT */
/* How a site can be patched, as far as its file proves. */
#ifndef LIBPROBE_PATCH_PLAN_H
#define LIBPROBE_PATCH_PLAN_H

#include "elf/object.h"
#include "elf/sdt.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/format.h"
#include "probe/list.h"

/* ---- Plan ------------------------------------------------------------------------------------ */

/*
 * How a site can be patched: what the file alone proves. The rest (is the
 * address of a pun free? does the memory hold what the file holds?) is known
 * only for a process.
 */

enum { PLAN_BYTES = 64, PLAN_NOPS_MAX = 40, PLAN_BEFORE_BYTES = 24, PLAN_SPARES = 4 };
/* How long a row is at most (struct plan). */
enum { PLAN_ROW_MAX = REG_SHARED_MAX - PLAN_NOPS_MAX };

/* One way to patch a site. */
struct plan_way {
	int16_t offset; /* of the patch from pc: the bytes before it stay; less than 0: it begins
			 * before the site */
	uint8_t jump;	/* bytes that are written */
	uint8_t length; /* bytes of instructions that move to the tail; 0: none do */
	uint8_t relies; /* bytes from the patch on that have to be the file's, if that is more */
	const char *cannot; /* why it is impossible; NULL: nothing speaks against it */
	/*
	 * Sites whose nops follow each other share the jump after the last of them: all sites in
	 * [pc - lead, pc + offset). Nothing enters after the first of them.
	 */
	uint16_t lead;
};

/* The ways in which one site can be patched. Addresses are link-time. */
struct plan {
	uint64_t pc;
	/*
	 * Short nops from pc on that are sites, before that of the last site of their row: what is
	 * known of the code is known of that one (rows.h). Such a site has no jump of its own.
	 */
	uint16_t row;
	uint8_t bytes[PLAN_BYTES]; /* the file's, from pc + row on */
	size_t byte_count;
	bool ocaml;	  /* a toggle at pc + 1 */
	bool short_nop;	  /* at pc, with no room for a jump */
	bool is_followed; /* by the nop of another site: see plan_way.lead */
	/*
	 * How many bytes of the distance of a jump in the nop are the nop's own, so that it is a
	 * nop again if another tool restores what it had overwritten (struct arch, nop_fixed).
	 */
	uint8_t nop_fixed;
	/* Where the jump to which a short one leads can be written: unused bytes, nearest first. */
	uint8_t spare_count;
	uint64_t spares[PLAN_SPARES];
	struct plan_way toggle, behind, hop, pun, nop, before, twin, part, call;
	uint8_t before_bytes[PLAN_BEFORE_BYTES]; /* the file's, from pc - before.length on */
};

struct claims;
struct install;
struct install_site;
struct piece;
struct planning;
struct rows;
struct select_site;

/*
 * A plan: what is peculiar to one way of patching. Each is one file of libprobe/patch/plans, which
 * tells what it writes, and why that is right. To add one, add its number to probe/list.h, its way
 * to struct plan, and itself to plan_table.
 */
struct plan_ops {
	enum probe_plan id;
	const char *name;
	size_t way;	   /* where struct plan has it */
	bool is_switch;	   /* the program's own switch is set: neither a stub nor a claim */
	bool follows_nops; /* its jump comes after the nops, and serves all sites before it */
	bool is_double;	   /* a second jump begins after the nop; threads may be at it */
	bool is_last;	   /* proved only for sites for which no other plan is possible */
	/* What the bytes of a site tell, without a search; NULL: nothing. */
	void (*look)(const struct planning *p, struct plan *plan);
	/*
	 * Searches the file for what may enter, and sets the ways of p->plans; NULL: the bytes are
	 * enough. Errors: those of prove().
	 */
	struct probe_error *(*examine)(struct planning *p);
	/* May these bytes of a process be there, see plan_holds()? NULL: if they are the file's. */
	bool (*holds)(const struct arch *arch, const struct plan *plan, const uint8_t *found);
	/*
	 * Takes what the patch needs in a process, such as the page that its jump leads to. Returns
	 * why that is impossible, or NULL. NULL: it needs nothing.
	 */
	const char *(*take)(
		struct install *a, const struct claims *claims, const struct select_site *site);
	/*
	 * Builds what lies between the jump of new site `i` and its first stub, and after its last
	 * one, and describes the patch in its reg, of which pc, plan, entry, length and covers are
	 * set: see build_patch(). Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_REFUSED (out of reach).
	 */
	struct probe_error *(*build)(struct install *a, size_t i, struct piece *p);
	/* Changes the bytes of the patch, which are a jump; NULL: they remain one. */
	void (*amend)(const struct install_site *as, const struct arch *arch, uint8_t *patched);
};

/* All, in the order in which they are tried unless the user says otherwise. */
extern const struct plan_ops plan_toggle, plan_behind, plan_hop, plan_pun, plan_nop, plan_before,
	plan_twin, plan_part, plan_call;
enum { PLAN_COUNT = 9 };
extern const struct plan_ops *const plan_table[PLAN_COUNT];

/* The plan of a number, which may come from a target; NULL: none is patched in that way. */
const struct plan_ops *plan_of(unsigned int id);
/* The number of a plan; of NULL that of a refused site. */
enum probe_plan plan_id(const struct plan_ops *ops);

/* Plans in the order in which they are tried, each once. */
struct plan_order {
	const struct plan_ops *plans[PLAN_COUNT];
	size_t count;
};

extern const struct plan_order plan_defaults;
/* The order of a request; NULL: the usual one. What is no plan, or is named again, is left out. */
struct plan_order plan_order_of(const enum probe_plan *plans, size_t count);
bool plan_is_asked(const struct plan_order *order, const struct plan_ops *ops);

/*
 * Plans the sites of one object. `notes` are `count` notes of it, with a pc; `all` are
 * those that it has. `ret` is an array of `count` plans in the same order. What the plans
 * of `order` ask for is proved, which searches the code of the whole object.
 *
 * Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (the
 * ISA is only parsed).
 */
PROBE_MUST_CHECK struct probe_error *plan_sites(struct object *object, const struct sdt_notes *all,
	const struct sdt_note *const *notes, size_t count, const struct plan_order *order,
	struct plan *ret);

/* The way of a plan at a site. */
const struct plan_way *plan_way(const struct plan *plan, const struct plan_ops *ops);

/* May a plan work, without regard to what a process has mapped? If not, why, or NULL. */
bool plan_is_possible(const struct plan *plan, const struct plan_ops *ops);
const char *plan_reason(const struct plan *plan, const struct plan_ops *ops);

/* The first plan of `order` that may work; NULL sets *reason_ret. */
const struct plan_ops *plan_choose(
	const struct plan *plan, const struct plan_order *order, const char **reason_ret);

/* Where there is no better reason. */
const char *plan_impossible(const struct plan *plan);

extern const char plan_crosses[];     /* a page's end */
extern const char plan_in_distance[]; /* of a pun: the nop of another site */
extern const char plan_no_decoder[];  /* the error where code cannot be decoded */
extern const char plan_code_ends[];   /* after the nop */

/*
 * Can one of these places, to which a jump leads, be on a page of ours? None is where the file
 * itself is mapped, and none below all memory, if the file has fixed addresses.
 */
bool plan_can_lead(const struct object *object, struct arch_extent to);
extern const char plan_leads_nowhere[];

/* How far before pc the bytes begin that a plan changes or relies on. */
size_t plan_starts_before(const struct plan *plan, const struct plan_ops *ops);

/* The file's bytes from an offset on, which is not in the row; returns how many are known. */
size_t plan_code(const struct plan *plan, int offset, const uint8_t **ret);

/* Is its jump also that of another site? */
bool plan_is_shared(const struct plan *plan, const struct plan_ops *ops);

/*
 * Bytes from there on that have to be known for a plan, and whether those found in memory are
 * right for it: the file's, or what others may make of a nop that stays (plan.c).
 */
size_t plan_needs(const struct plan *plan, const struct plan_ops *ops);
bool plan_holds(const struct arch *arch, const struct plan *plan, const struct plan_ops *ops,
	const uint8_t *found);

/* May these be the bytes before a jump, which stay: the file's, or what others make of them? */
bool plan_stays(
	const struct arch *arch, const struct plan *plan, size_t offset, const uint8_t *found);

/* Are these bytes the toggle that the file has, on or off? */
bool plan_holds_toggle(
	const struct arch_toggle *toggle, const struct plan *plan, const uint8_t *found);

/* ---- Planning -------------------------------------------------------------------------------- */

/* What plans ask of a file, for all of its sites at once. */

/* A site that may share the jump of another one, after it; to be proved. */
struct neighbour {
	struct plan plan;
	size_t of; /* index of the other's plan */
};

struct planning {
	struct object *object;
	const struct arch *arch;
	const struct sdt_notes *all;
	const struct rows *rows; /* of `all` */
	const struct plan_order *order;
	struct plan *plans;
	size_t count;
	struct neighbour *neighbours;
	size_t neighbour_count;
	struct proof *proofs; /* room for all that are asked together */
	size_t proof_count;
};

/* Asks whether a way is possible: whether its instructions can move. */
void plan_ask(struct planning *p, const struct plan *plan, struct plan_way *way);
/* Proves what was asked. Errors: those of prove(), PROBE_ERROR_UNSUPPORTED (no decoder). */
PROBE_MUST_CHECK struct probe_error *plan_prove(struct planning *p);

/* Can its instructions move, and its jump be written there, wherever the object is mapped? */
bool plan_fits(const struct plan *plan, const struct plan_way *way);

/* Does a site whose nop is short have no way yet, but for those of OCaml's own? */
bool plan_is_wanting(const struct planning *p, const struct plan *plan);

/* ---- Prove ----------------------------------------------------------------------------------- */

/* Whether instructions may be moved: what the whole file proves of single sites. */

/* A question: may `move` be done at the site of `plan`? */
struct proof {
	const struct plan *plan;
	struct plan_way *move; /* length and reason are the answer */
	uint8_t window;	       /* nothing may enter [pc + 1, pc + window) */
	/* At least this many bytes are moved; 0: nothing is (spares.c, rows.c). */
	uint8_t need;
	uint64_t inside; /* set by prove(): offsets from pc that are inside an instruction */
	uint8_t margin;	 /* this many bytes before pc must not belong to another site either */
};

/*
 * Answers `count` questions; their order changes. `notes` are all notes of the object: sites of
 * other probes must not be moved either. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *prove(struct object *object, const struct arch *arch,
	const struct sdt_notes *notes, struct proof *proofs, size_t count);

/* ---- Rows ------------------------------------------------------------------------------------ */

/*
 * Rows of short nops, each of which is a site: they share the jump after the last one, so all but
 * the last need a proof only that nothing enters right after their own nop.
 */

struct row_site {
	uint64_t pc;
	const struct sdt_note *note; /* borrowed */
	bool is_plain;		     /* neither a function's entry nor OCaml's */
	size_t last;		     /* index of the last of its row; most often its own */
	size_t planned;		     /* of a last one: in rows.notes; SIZE_MAX: it is not there */
	const char *cannot;	     /* why it cannot use the jump of the last; NULL: it can */
	uint16_t lead;		     /* how far before it the first begins that can if it can */
};

/* A site by its address. */
struct row_note {
	uint64_t pc;
	const struct sdt_note *note; /* borrowed */
};

struct rows {
	struct row_note *all; /* all notes, sorted; several may have one address */
	size_t all_count;
	struct row_site *sites; /* of all notes, one for each address, sorted */
	size_t count;
	/* What to plan: notes that were asked for; for sites in a row the last of it, once. */
	const struct sdt_note **notes;
	size_t note_count;
	size_t *planned; /* of each note that was asked for: in `notes` */
};

/*
 * Finds the rows among `all`, and what is to be planned for `count` notes. Release it with
 * rows_deinit(), on error, too. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *rows_init(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const struct sdt_note *const *notes, size_t count,
	struct rows *ret);

/* Is one of `length` bytes from an address on that of a site? */
bool rows_have_site(const struct rows *rows, uint64_t start, size_t length);

/* ---- Spares ---------------------------------------------------------------------------------- */

#endif
