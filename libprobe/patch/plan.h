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

/* The instructions that a plan moves; NULL if it moves none. */
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

/* ---- Before ---------------------------------------------------------------------------------- */

/*
 * Sets `before` of OCaml's sites among `count` plans, whose other parts are set already, and of
 * those for which no other plan of `order` is possible; see plan_sites(). Errors: those of prove().
 */
PROBE_MUST_CHECK struct probe_error *before_plan(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const enum probe_plan *order, size_t order_count,
	struct plan *plans, size_t count);

/* ---- Prove ----------------------------------------------------------------------------------- */

/* Whether instructions may be moved: what the whole file proves of single sites. */

/* A question: may `move` be done at the site of `plan`? move->offset says where the jump begins. */
struct proof {
	const struct plan *plan;
	struct plan_move *move; /* length and reason are the answer */
	uint8_t window;		/* nothing may enter [pc + 1, pc + window) */
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
void rows_deinit(struct rows *rows);

/* The index in rows->all of the first note at `pc` or after it. */
size_t rows_first(const struct rows *rows, uint64_t pc);

/* Is one of `length` bytes from an address on that of a site? */
bool rows_have_site(const struct rows *rows, uint64_t start, size_t length);

/* Does another site of its row follow an address? */
bool rows_have_next(const struct rows *rows, uint64_t pc);

/* Proves what the rows need of which something is planned. Errors: those of prove(). */
PROBE_MUST_CHECK struct probe_error *rows_prove(struct rows *rows, struct object *object,
	const struct arch *arch, const struct sdt_notes *all);

/* Makes the plan of a note that was asked for, number `i`, from the plans of rows->notes. */
struct plan rows_plan(
	const struct rows *rows, const struct plan *planned, const struct sdt_note *note, size_t i);

/* ---- Spares ---------------------------------------------------------------------------------- */

/* Unused bytes in a file's code, near sites that need room for a jump. */

/*
 * Fills in the spares of those of `count` plans whose hop can be moved: link-time addresses where a
 * jump can be written, and which no thread reaches otherwise. `notes` are all notes of the object,
 * `rows` theirs. Errors: those of prove().
 */
PROBE_MUST_CHECK struct probe_error *prove_spares(struct object *object, const struct arch *arch,
	const struct sdt_notes *notes, const struct rows *rows, struct plan *plans, size_t count);

/* ---- Tight ----------------------------------------------------------------------------------- */

/*
 * Sets `twin` and `part`, as far as `order` has them, of those among `count` plans whose other
 * parts allow none of it; see plan_sites(). `rows` are those of `all`. Errors: those of prove().
 */
PROBE_MUST_CHECK struct probe_error *tight_plan(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const struct rows *rows, const enum probe_plan *order,
	size_t order_count, struct plan *plans, size_t count);

#endif
