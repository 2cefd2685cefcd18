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

enum { PLAN_BYTES = 64, PLAN_NOPS_MAX = 40, PLAN_BEFORE_BYTES = 24, PLAN_SPARES = 4 };
/* maximum of plan.row */
enum { PLAN_ROW_MAX = REG_SHARED_MAX - PLAN_NOPS_MAX };

struct plan_way {
	/* Bytes from pc to the patch, which stay; negative if the patch is before the site. */
	int16_t offset;
	uint8_t jump;	/* number of bytes that are written at the patch */
	uint8_t length; /* number of bytes of the instructions that move to the tail, or 0 */
	/* if more than `length`: bytes of the patch that must be as in the file */
	uint8_t relies;
	const char *cannot; /* why the way is impossible, or NULL if no reason was found */
	/*
	 * All sites in [pc - lead, pc] lead to the jump after the last nop. Nothing enters right
	 * after their nops.
	 */
	uint16_t lead;
	bool has_exit;	 /* the function's entry and exit share the patch */
	uint8_t exit_at; /* bytes from the patch to the exit */
};

/* Addresses are link-time. */
struct plan {
	uint64_t pc;
	/*
	 * Bytes from pc to the last site of a row of short nops, in which only the last site has a
	 * jump of its own. All knowledge about code is about the last site (plan.c, "Rows"). For an
	 * exit that shares the jump of the function's entry, about the entry, which is before it.
	 */
	int16_t row;
	uint8_t bytes[PLAN_BYTES]; /* the file's bytes from pc + row on */
	size_t byte_count;
	bool ocaml;    /* a toggle of OCaml's follows the nop */
	bool refused;  /* there is a reason against all plans: behind.cannot */
	bool is_entry; /* a function's entry */
	bool is_exit;  /* the instruction at pc leaves a function, and moves with those before it */
	/* a function's start, and where breakpoints may be: bit i is for start + i */
	uint64_t start, breaks;
	uint64_t entry_end; /* address behind the jump at the function's entry */
	bool short_nop;	    /* the nop at pc has no room for a jump */
	/* another site's nop follows, and the jump is after both */
	bool is_followed;
	/*
	 * Number of bytes of the jump's displacement that must equal the nop's, so that the jump
	 * becomes a nop again when another tool restores the other bytes (arch.nop_fixed).
	 */
	uint8_t nop_fixed;
	/* Unused bytes, nearest first, to which a short jump (plan_is_short()) can lead. */
	uint8_t spare_count;
	uint64_t spares[PLAN_SPARES];
	/*
	 * For a spare that code makes room for (hop.c): the bytes of that code, which moves. It
	 * begins one jump before the spare. 0 for unused bytes.
	 */
	uint8_t made[PLAN_SPARES];
#define X(constant, number, name) struct plan_way name;
	PROBE_PLANS(X, )
#undef X
	uint8_t before_bytes[PLAN_BEFORE_BYTES]; /* the file's bytes from pc + before.offset on */
};

struct install;
struct install_site;
struct piece;
struct planning;
struct rows;
struct select_site;

/*
 * A plan, one way of patching. Its file in libprobe/patch/plans says what it writes, and why that
 * is right, and defines plan_NAME. PROBE_PLANS (probe/list.h) has a row for each plan. All other
 * lists of plans, and the plan_way NAME in struct plan, are made from the rows.
 */
struct plan_ops {
	enum probe_plan id;
	size_t way; /* offset of the plan's plan_way in struct plan, or 0 */
	/* switches the program's own handler, without stub and claim */
	bool is_switch;
	/* the jump comes after the nops, and serves all sites before it */
	bool follows_nops;
	/* there are two jumps; the second begins after the nop, and a thread may be at it */
	bool is_double;
	/* tried only for sites where all other plans are impossible */
	bool is_last;
	/* the jump may be a short one, which leads to one of plan->spares */
	bool takes_spares;
	/* Sets the plan_way by the bytes at a site, without a search. May be NULL. */
	void (*look)(const struct planning *p, struct plan *plan);
	/*
	 * Searches the file for what enters the patches, and sets the plan_ways of p->plans. NULL
	 * if `look` needs none. Errors: as prove().
	 */
	struct probe_error *(*examine)(struct planning *p);
	/*
	 * Returns true if the bytes `found` allow the patch. NULL if they must be as in the file.
	 */
	bool (*holds)(const struct arch *arch, const struct plan *plan, const uint8_t *found);
	/*
	 * Takes what a patch needs, such as its jump's page. Returns NULL, or the reason why it
	 * cannot. NULL if the plan needs nothing.
	 */
	const char *(*take)(struct install *a, size_t i);
	/*
	 * Builds the code before a new site's first stub and after its last, and describes the
	 * patch in its `reg`, where describe_patch() (build.c) has set pc, plan, entry, length and
	 * covers. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_REFUSED (out of reach).
	 */
	struct probe_error *(*build)(struct install *a, size_t i, struct piece *p);
	/* Turns the patch's jump into another instruction. NULL if it stays a jump. */
	void (*amend)(const struct install_site *as, const struct arch *arch, uint8_t *patched);
};

#define X(constant, number, name) extern const struct plan_ops plan_##name;
PROBE_PLANS(X, )
#undef X
enum { PLAN_COUNT = PROBE_PLANS(PROBE_ONE_PLAN, +) };

/* Returns the plan with a number, or NULL. The number may come from a target. */
const struct plan_ops *plan_of(unsigned int id);
/* Returns a plan's number; for NULL, the number that means "refused". */
enum probe_plan plan_id(const struct plan_ops *ops);

/* Plans to try, in order, each once. */
struct plan_order {
	const struct plan_ops *plans[PLAN_COUNT];
	size_t count;
};

/* All plans, in the default order. */
extern const struct plan_order plan_defaults;
/* Returns a request's order, or the default for NULL. Skips unknown and repeated numbers. */
struct plan_order plan_order_of(const enum probe_plan *plans, size_t count);
bool plan_is_asked(const struct plan_order *order, const struct plan_ops *ops);

/*
 * Plans `count` sites of an object, whose `notes` have a pc, into `ret`. `all` are all notes of the
 * object. The proofs for the plans of `order` search all its code. Errors: PROBE_ERROR_MEMORY,
 * PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (probes of this ISA can only be listed).
 */
PROBE_MUST_CHECK struct probe_error *plan_sites(struct object *object, const struct sdt_notes *all,
	const struct sdt_note *const *notes, size_t count, const struct plan_order *order,
	struct plan *ret);

const struct plan_way *plan_way(const struct plan *plan, const struct plan_ops *ops);

/*
 * plan_is_possible() returns true if a plan may work, as far as the file tells; the other returns
 * why not, or NULL.
 */
bool plan_is_possible(const struct plan *plan, const struct plan_ops *ops);
const char *plan_reason(const struct plan *plan, const struct plan_ops *ops);

/*
 * Returns the first plan of `order` that may work. Returns NULL and sets *reason_ret if none does.
 */
const struct plan_ops *plan_choose(
	const struct plan *plan, const struct plan_order *order, const char **reason_ret);

/* Is a plan's jump a short one, which leads to one of plan->spares? */
bool plan_is_short(const struct arch *arch, const struct plan *plan, const struct plan_ops *ops);

/*
 * Would a site get a short jump, whose target takes padding that the jumps of other sites may need?
 * Such sites are planned after the others.
 */
bool plan_takes_spare(
	const struct arch *arch, const struct plan *plan, const struct plan_order *order);

/* Returns a general reason for a refused site. */
const char *plan_impossible(const struct plan *plan);

extern const char plan_crosses[];     /* the jump would cross a page's end */
extern const char plan_in_distance[]; /* a pun's displacement would contain another site's nop */
extern const char plan_no_decoder[];  /* text of the error for code that cannot be decoded */
extern const char plan_code_ends[];   /* the code ends after the nop */

/*
 * Returns true if a jump's targets `to` can be on a page of ours: not where the file is mapped nor,
 * if its address is fixed, below the lowest address that may be mapped.
 */
bool plan_can_lead(const struct object *object, struct arch_extent to);
extern const char plan_leads_nowhere[];

/* Returns how many bytes before pc the plan `before` changes. */
size_t plan_bytes_before(const struct plan *plan);
/* Returns how many bytes before pc a plan changes or relies on. */
size_t plan_starts_before(const struct plan *plan, const struct plan_ops *ops);

/* Finds the file's bytes `offset` bytes behind the site, outside the row. Returns their number. */
size_t plan_code(const struct plan *plan, int offset, const uint8_t **ret);

/* Returns the length of the nop that is `at` bytes after the row of a site; 0 if there is none. */
size_t plan_nop_at(const struct arch *arch, const struct plan *plan, size_t at);

/* Returns true if a plan's jump also serves another site. */
bool plan_is_shared(const struct plan *plan, const struct plan_ops *ops);

/*
 * plan_needs() returns how many bytes a plan must know, beginning plan_starts_before() bytes before
 * the site. plan_holds() checks these bytes in memory: they must be the file's, or what other tools
 * may make of a nop that stays (plan.c).
 */
size_t plan_needs(const struct plan *plan, const struct plan_ops *ops);
bool plan_holds(const struct arch *arch, const struct plan *plan, const struct plan_ops *ops,
	const uint8_t *found);

/*
 * Returns true if the first `offset` bytes, which stay, are right: as in the file, or as other
 * tools leave them.
 */
bool plan_stays(
	const struct arch *arch, const struct plan *plan, size_t offset, const uint8_t *found);

/* Returns true if these bytes are the file's toggle, on or off. */
bool plan_holds_toggle(
	const struct arch_toggle *toggle, const struct plan *plan, const uint8_t *found);

/* ---- Planning -------------------------------------------------------------------------------- */

/* A site that may share a later site's jump, if that is proved. */
struct neighbour {
	struct plan plan;
	size_t of; /* index of the plan of the later site */
};

/* Can the instructions at the site of `plan` move as `move` says? */
struct proof {
	const struct plan *plan;
	struct plan_way *move; /* receives the answer: move->length if they can, or move->cannot */
	/* the question is whether anything enters [pc + 1, pc + window) */
	uint8_t window;
	/* Minimum number of bytes to move; 0 for spares and rows. */
	uint8_t need;
	uint64_t inside; /* set by prove(): bit i is set if pc + i is inside an instruction */
	/* number of bytes before the site in which no other site may be */
	uint8_t margin;
};

struct planning {
	struct object *object;
	const struct arch *arch;
	const struct sdt_notes *all;
	const struct rows *rows; /* the rows of `all` */
	const struct plan_order *order;
	struct plan *plans;
	/* Plans of entries whose jump covers the exit of the same index; others have pc 0. */
	struct plan *entries;
	size_t count;
	struct neighbour *neighbours;
	size_t neighbour_count;
	struct proof *proofs; /* the questions that are asked and not answered yet */
	size_t proof_count;
	bool no_memory; /* a question could not be asked */
};

/* Asks a question, whose plan and way must exist until plan_prove(). */
void plan_ask(struct planning *p, struct proof question);
/* Asks whether the instructions of a way can move. */
void plan_ask_move(struct planning *p, const struct plan *plan, struct plan_way *way);
/* Answers and forgets all questions. Errors: as prove(), PROBE_ERROR_UNSUPPORTED (no decoder). */
PROBE_MUST_CHECK struct probe_error *plan_prove(struct planning *p);

/*
 * Finds spares for sites whose instructions can make room for the short jump of a plan: link-time
 * addresses where a jump can be written, and that no thread would otherwise execute. Errors: as
 * prove().
 */
PROBE_MUST_CHECK struct probe_error *plan_find_spares(
	struct planning *p, const struct plan_ops *ops);

/*
 * Makes spares out of code near by for entries and exits that have none, and for which no plan is
 * possible. Errors: as prove().
 */
PROBE_MUST_CHECK struct probe_error *plan_make_spares(struct planning *p);

/* Would a jump of this length have a debugger's breakpoint behind its first byte? */
bool plan_has_break(const struct plan *plan, uint64_t at, uint8_t length);
extern const char plan_breakpoint[]; /* a reason: it would */

/* Returns true if a site has a short nop, and no possible plan yet. */
bool plan_is_wanting(const struct planning *p, const struct plan *plan);

/* ---- Prove ----------------------------------------------------------------------------------- */

/* Proves from the whole file whether instructions may be moved. */

/*
 * Answers the questions, and changes their order. `notes` are all notes of the object; their sites
 * must not be moved. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *prove(struct object *object, const struct arch *arch,
	const struct sdt_notes *notes, struct proof *proofs, size_t count);

/* ---- Rows ------------------------------------------------------------------------------------ */

/*
 * A site in a row of short nops, which share the jump after the last site. Only the last site is
 * planned. For the others, we ask if anything enters right after their nops.
 */

struct row_site {
	uint64_t pc;
	const struct sdt_note *note; /* the site's note; borrowed */
	/* neither at a function's entry nor of OCaml's kind */
	bool is_plain;
	/* index of the last site of the row, which may be this one */
	size_t last;
	size_t planned; /* for a last site: its index in rows.notes, or SIZE_MAX */
	/* why it cannot share the last site's jump, or NULL */
	const char *cannot;
	/* Bytes from the first site of the row that can share the jump. */
	uint16_t lead;
};

struct rows {
	struct row_site *sites; /* the sites of all notes, sorted; each address occurs once */
	size_t count;
	/* The notes to plan; instead of a requested site in a row, the row's last site. */
	const struct sdt_note **notes;
	size_t note_count;
	/* for each requested note: index of the note that is planned instead */
	size_t *planned;
};

/* Returns true if a site begins in these bytes. */
bool rows_have_site(const struct rows *rows, uint64_t start, size_t length);

#endif
