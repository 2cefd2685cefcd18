/* SPDX-License-Identifier: MIT */
/* The plans by which a site can be patched, as far as its file proves them. */
#ifndef LIBPROBE_PATCH_PLAN_H
#define LIBPROBE_PATCH_PLAN_H

#include "elf/object.h"
#include "elf/sdt.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/format.h"
#include "probe/list.h"

/* ---- Plan ------------------------------------------------------------------------------------ */

/*
 * The plans of a site, as far as the file alone proves them. The process adds conditions: the
 * address of a pun must be free, and the memory must hold the file's bytes.
 */

enum { PLAN_BYTES = 64, PLAN_NOPS_MAX = 40, PLAN_BEFORE_BYTES = 24, PLAN_SPARES = 4 };
/* the most bytes of a row of short nops; see plan.row */
enum { PLAN_ROW_MAX = REG_SHARED_MAX - PLAN_NOPS_MAX };

/* One way to patch a site. */
struct plan_way {
	/*
	 * Distance from pc to the patch. The bytes between them stay. Negative if the patch is
	 * before the site.
	 */
	int16_t offset;
	uint8_t jump;	/* number of bytes that are written at the patch */
	uint8_t length; /* number of bytes of the instructions that move to the tail, or 0 */
	/* if more than `length`: bytes from the start of the patch that must be the file's */
	uint8_t relies;
	const char *cannot; /* why the way is impossible, or NULL if no reason was found */
	/*
	 * Sites whose nops follow each other share one jump after the last nop. All sites in [pc -
	 * lead, pc] lead to this jump. Nothing enters right after any of their nops.
	 */
	uint16_t lead;
};

/* The ways in which one site can be patched. Addresses are link-time. */
struct plan {
	uint64_t pc;
	/*
	 * Number of bytes from pc to the last site of its row of short nops. Each of these nops is
	 * a site without a jump of its own. All facts about the code are those of the last site
	 * (plan.c, "Rows").
	 */
	uint16_t row;
	uint8_t bytes[PLAN_BYTES]; /* the file's bytes from pc + row on */
	size_t byte_count;
	bool ocaml;	/* a toggle of OCaml's follows the nop */
	bool short_nop; /* the nop at pc has no room for a jump */
	/* the nop of another site follows the nop at pc, and the jump is after both */
	bool is_followed;
	/*
	 * How many bytes of the jump's displacement must stay the nop's own bytes. If another tool
	 * restores the bytes that it had overwritten, these bytes make the whole a nop again
	 * (arch.nop_fixed).
	 */
	uint8_t nop_fixed;
	/*
	 * Addresses of unused bytes, the nearest first. A short jump can lead there, to a full
	 * jump.
	 */
	uint8_t spare_count;
	uint64_t spares[PLAN_SPARES];
	struct plan_way toggle, behind, hop, pun, nop, before, twin, part, call;
	uint8_t before_bytes[PLAN_BEFORE_BYTES]; /* the file's bytes from pc - before.length on */
};

struct claims;
struct install;
struct install_site;
struct piece;
struct planning;
struct rows;
struct select_site;

/*
 * The functions of one plan, which is one way of patching. Each plan has a file in
 * libprobe/patch/plans, which says what the plan writes, and why that is right. To add a plan, add
 * its number to probe/list.h, its plan_way to struct plan, and its struct plan_ops to plan_table.
 */
struct plan_ops {
	enum probe_plan id;
	const char *name;
	size_t way; /* offset of the plan's plan_way in struct plan, or 0 */
	/* the plan switches the program's own handler, and needs neither a stub nor a claim */
	bool is_switch;
	/* the plan's jump comes after the nops, and serves all sites before it */
	bool follows_nops;
	/*
	 * the plan writes two jumps; the second jump begins after the nop, and a thread may be at
	 * it
	 */
	bool is_double;
	/* the plan is proved only for sites for which all other plans are impossible */
	bool is_last;
	/*
	 * Sets the plan_way of the plan as far as the bytes at a site tell, without a search. May
	 * be NULL.
	 */
	void (*look)(const struct planning *p, struct plan *plan);
	/*
	 * Searches the file for anything that enters the patches, and sets the plan_ways of
	 * p->plans. NULL if `look` needs no search. Errors: those of prove().
	 */
	struct probe_error *(*examine)(struct planning *p);
	/*
	 * Returns true if the bytes `found` in a process are right for the plan. NULL if they must
	 * be the file's bytes.
	 */
	bool (*holds)(const struct arch *arch, const struct plan *plan, const uint8_t *found);
	/*
	 * Takes what a patch needs in the process, such as the page to which its jump leads.
	 * Returns NULL, or why that is impossible. NULL if the plan needs nothing.
	 */
	const char *(*take)(
		struct install *a, const struct claims *claims, const struct select_site *site);
	/*
	 * Builds the code between the jump of new site `i` and the site's first stub, and the code
	 * after the site's last stub. Describes the patch in the site's `reg`, whose members pc,
	 * plan, entry, length and covers are already set: see describe_patch() in build.c. Errors:
	 * PROBE_ERROR_MEMORY, PROBE_ERROR_REFUSED (out of reach).
	 */
	struct probe_error *(*build)(struct install *a, size_t i, struct piece *p);
	/* Changes the bytes of the patch after they were made a jump. NULL if they stay a jump. */
	void (*amend)(const struct install_site *as, const struct arch *arch, uint8_t *patched);
};

/* All plans, in the default order. */
extern const struct plan_ops plan_toggle, plan_behind, plan_hop, plan_pun, plan_nop, plan_before,
	plan_twin, plan_part, plan_call;
enum { PLAN_COUNT = 9 };
extern const struct plan_ops *const plan_table[PLAN_COUNT];

/*
 * Returns the plan that has a number, or NULL if the number is unknown. The number may come from a
 * target.
 */
const struct plan_ops *plan_of(unsigned int id);
/* Returns the number of a plan. For NULL, returns the number that stands for a refused site. */
enum probe_plan plan_id(const struct plan_ops *ops);

/* The plans to be tried, in this order. Each plan occurs once. */
struct plan_order {
	const struct plan_ops *plans[PLAN_COUNT];
	size_t count;
};

extern const struct plan_order plan_defaults;
/*
 * Returns the order that a request names, or the default order if `plans` is NULL. Unknown and
 * repeated numbers are skipped.
 */
struct plan_order plan_order_of(const enum probe_plan *plans, size_t count);
bool plan_is_asked(const struct plan_order *order, const struct plan_ops *ops);

/*
 * Plans the sites of one object. `notes` are `count` notes of the object that have a pc; `all` are
 * all notes of the object. `ret` is an array of `count` plans in the same order as `notes`. The
 * proofs that the plans of `order` need search the code of the whole object.
 *
 * Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (the probes of this ISA
 * can only be listed).
 */
PROBE_MUST_CHECK struct probe_error *plan_sites(struct object *object, const struct sdt_notes *all,
	const struct sdt_note *const *notes, size_t count, const struct plan_order *order,
	struct plan *ret);

/* Returns the way of a plan at a site. */
const struct plan_way *plan_way(const struct plan *plan, const struct plan_ops *ops);

/*
 * plan_is_possible() returns true if a plan may work, depending on what a process has mapped.
 * plan_reason() returns why the plan cannot work, or NULL.
 */
bool plan_is_possible(const struct plan *plan, const struct plan_ops *ops);
const char *plan_reason(const struct plan *plan, const struct plan_ops *ops);

/*
 * Returns the first plan of `order` that may work. If no plan may work, returns NULL and sets
 * *reason_ret.
 */
const struct plan_ops *plan_choose(
	const struct plan *plan, const struct plan_order *order, const char **reason_ret);

/* Returns a general reason for refusing a site, for use if no plan has a reason of its own. */
const char *plan_impossible(const struct plan *plan);

extern const char plan_crosses[];     /* the jump would cross a page's end */
extern const char plan_in_distance[]; /* a pun's displacement would contain another site's nop */
extern const char plan_no_decoder[];  /* text of the error for code that cannot be decoded */
extern const char plan_code_ends[];   /* the code ends after the nop */

/*
 * Returns true if one of the targets `to` of a jump can be on a page of ours. Pages of ours cannot
 * be where the file itself is mapped. In a file with fixed addresses, they cannot be below the
 * lowest address that may be mapped.
 */
bool plan_can_lead(const struct object *object, struct arch_extent to);
extern const char plan_leads_nowhere[];

/* Returns how many bytes before pc a plan changes or relies on. */
size_t plan_starts_before(const struct plan *plan, const struct plan_ops *ops);

/*
 * Finds the file's bytes that begin `offset` bytes after the site; these must not be in the row.
 * Returns the number of known bytes.
 */
size_t plan_code(const struct plan *plan, int offset, const uint8_t **ret);

/* Returns true if a plan's jump also serves another site. */
bool plan_is_shared(const struct plan *plan, const struct plan_ops *ops);

/*
 * plan_needs() returns how many bytes must be known for a plan, beginning plan_starts_before()
 * bytes before the site. plan_holds() returns true if the bytes found in memory are right for the
 * plan: each byte is the file's, or is what other tools may make of a nop that stays (plan.c).
 */
size_t plan_needs(const struct plan *plan, const struct plan_ops *ops);
bool plan_holds(const struct arch *arch, const struct plan *plan, const struct plan_ops *ops,
	const uint8_t *found);

/*
 * Returns true if the first `offset` bytes at a site, which stay, are the file's or what other
 * tools may make of them.
 */
bool plan_stays(
	const struct arch *arch, const struct plan *plan, size_t offset, const uint8_t *found);

/* Returns true if these bytes hold the toggle that the file has, whether it is on or off. */
bool plan_holds_toggle(
	const struct arch_toggle *toggle, const struct plan *plan, const uint8_t *found);

/* ---- Planning -------------------------------------------------------------------------------- */

/* The questions that plans ask about a file, for all of its sites together. */

/* A site that may share the jump of a later site, if that is proved. */
struct neighbour {
	struct plan plan;
	size_t of; /* index of the plan of the later site */
};

struct planning {
	struct object *object;
	const struct arch *arch;
	const struct sdt_notes *all;
	const struct rows *rows; /* the rows of `all` */
	const struct plan_order *order;
	struct plan *plans;
	size_t count;
	struct neighbour *neighbours;
	size_t neighbour_count;
	struct proof *proofs; /* room for all questions that are asked at once */
	size_t proof_count;
};

/* Adds the question whether the instructions of a way can move. */
void plan_ask(struct planning *p, const struct plan *plan, struct plan_way *way);
/*
 * Answers all questions that were added. Errors: those of prove(), PROBE_ERROR_UNSUPPORTED (no
 * decoder).
 */
PROBE_MUST_CHECK struct probe_error *plan_prove(struct planning *p);

/*
 * Returns true if the instructions of a way can move, and if its jump is within one page, wherever
 * the file is mapped.
 */
bool plan_fits(const struct plan *plan, const struct plan_way *way);

/* Returns true if a site has a short nop and no possible plan yet. */
bool plan_is_wanting(const struct planning *p, const struct plan *plan);

/* ---- Prove ----------------------------------------------------------------------------------- */

/* Proves from the whole file whether instructions may be moved. */

/* A question: can instructions at the site of `plan` be moved, as `move` says? */
struct proof {
	const struct plan *plan;
	struct plan_way *move; /* receives the answer: move->length if they can, or move->cannot */
	/* length of the window; the question is whether anything enters [pc + 1, pc + window) */
	uint8_t window;
	/*
	 * Least number of bytes to be moved. For spares and rows, nothing is moved, and this is 0.
	 */
	uint8_t need;
	uint64_t inside; /* set by prove(): bit i is set if pc + i is inside an instruction */
	/* no other site may be in this many bytes before the moved bytes */
	uint8_t margin;
};

/*
 * Answers `count` questions, and changes their order. `notes` are all notes of the object, also
 * those of other probes, because their sites must not be moved, either. Errors: PROBE_ERROR_MEMORY,
 * PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *prove(struct object *object, const struct arch *arch,
	const struct sdt_notes *notes, struct proof *proofs, size_t count);

/* ---- Rows ------------------------------------------------------------------------------------ */

/*
 * Rows of short nops, each of which is a site. All sites of a row share the jump after the last
 * nop. Only the last site is planned. For each other site, the only question is whether anything
 * enters right after its nop.
 */

struct row_site {
	uint64_t pc;
	const struct sdt_note *note; /* the site's note; borrowed */
	/* the site is neither at a function's entry nor of OCaml's kind */
	bool is_plain;
	/*
	 * index of the last site of its row; the site's own index if the site is in no row, or is
	 * the last
	 */
	size_t last;
	size_t planned; /* for a last site: its index in rows.notes, or SIZE_MAX */
	/* why the site cannot share the jump of the last site, or NULL if it can */
	const char *cannot;
	/*
	 * Number of bytes from the first site of the row that can share the jump up to this site.
	 */
	uint16_t lead;
};

/* A note and its address. */
struct row_note {
	uint64_t pc;
	const struct sdt_note *note; /* the note at pc; borrowed */
};

struct rows {
	struct row_note *all; /* all notes, sorted; several may have one address */
	size_t all_count;
	struct row_site *sites; /* the sites of all notes, sorted; each address occurs once */
	size_t count;
	/*
	 * The notes to plan. Instead of a requested note that is in a row, this has the note of the
	 * last site of the row.
	 */
	const struct sdt_note **notes;
	size_t note_count;
	/* for each requested note: index in `notes` of the note that is planned instead */
	size_t *planned;
};

/*
 * Finds the rows among the notes `all`, and the notes that must be planned for the `count`
 * requested notes. The caller must call rows_deinit(), also after an error. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *rows_init(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const struct sdt_note *const *notes, size_t count,
	struct rows *ret);

/* Returns true if a site begins in the `length` bytes from `start` on. */
bool rows_have_site(const struct rows *rows, uint64_t start, size_t length);

#endif
