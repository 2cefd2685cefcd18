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
 * The plans of a site as far as its file alone proves them. Other conditions depend on the process:
 * is the address of a pun free? does the memory hold the file's bytes?
 */

enum { PLAN_BYTES = 64, PLAN_NOPS_MAX = 40, PLAN_BEFORE_BYTES = 24, PLAN_SPARES = 4 };
/* The most bytes of a row of short nops (struct plan). */
enum { PLAN_ROW_MAX = REG_SHARED_MAX - PLAN_NOPS_MAX };

/* One way to patch a site. */
struct plan_way {
	/* Bytes from pc to the patch, which stay. Negative if the patch begins before the site. */
	int16_t offset;
	uint8_t jump;	/* number of bytes that are written */
	uint8_t length; /* bytes of instructions that move to the tail, or 0 */
	uint8_t relies; /* bytes from the patch on that must be the file's, if more than `length` */
	const char *cannot; /* why the way is impossible, or NULL if nothing speaks against it */
	/*
	 * Sites whose nops follow each other share one jump after the last nop: all sites from pc -
	 * lead to the jump. Nothing enters after the first of these nops.
	 */
	uint16_t lead;
};

/* The ways in which one site can be patched. Addresses are link-time. */
struct plan {
	uint64_t pc;
	/*
	 * Bytes of the short nops from pc to the last site of its row. Each of these nops is a
	 * site, and none has a jump of its own. All facts about the code are those of the last site
	 * (plan.c, "Rows").
	 */
	uint16_t row;
	uint8_t bytes[PLAN_BYTES]; /* the file's bytes from pc + row on */
	size_t byte_count;
	bool ocaml;	  /* a toggle of OCaml's follows the nop */
	bool short_nop;	  /* the nop at pc has no room for a jump */
	bool is_followed; /* the nop of another site follows: see plan_way.lead */
	/*
	 * Number of bytes of the jump's displacement that stay the nop's own. With them, the bytes
	 * are a nop again if another tool restores the bytes that it had overwritten
	 * (arch.nop_fixed).
	 */
	uint8_t nop_fixed;
	/* Addresses of unused bytes for the full jump that a short jump leads to, nearest first. */
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
 * One plan: the functions of one way of patching. Each plan is in one file of libprobe/patch/plans,
 * which says what the plan writes, and why that is right. To add a plan, add its number to
 * probe/list.h, its way to struct plan, and its struct to plan_table.
 */
struct plan_ops {
	enum probe_plan id;
	const char *name;
	size_t way; /* offset of its way in struct plan, or 0 */
	/* the plan sets the program's own switch, and needs neither a stub nor a claim */
	bool is_switch;
	/* the plan's jump comes after the nops, and serves all sites before it */
	bool follows_nops;
	bool is_double; /* the plan's second jump begins after the nop; threads may be at it */
	/* the plan is proved only for sites for which no other plan is possible */
	bool is_last;
	/* Sets the plan's way from the bytes of a site, without a search. May be NULL. */
	void (*look)(const struct planning *p, struct plan *plan);
	/*
	 * Searches the file for entries into the patches, and sets the ways of p->plans. NULL if
	 * the bytes tell enough. Errors: those of prove().
	 */
	struct probe_error *(*examine)(struct planning *p);
	/* Are the bytes `found` in a process right for the plan? NULL for only the file's bytes. */
	bool (*holds)(const struct arch *arch, const struct plan *plan, const uint8_t *found);
	/*
	 * Takes the resources of a patch in a process, such as the page that its jump leads to.
	 * Returns NULL, or why that is impossible. NULL if the plan needs no resources.
	 */
	const char *(*take)(
		struct install *a, const struct claims *claims, const struct select_site *site);
	/*
	 * Builds the code between the jump of new site `i` and its first stub, and the code after
	 * its last stub. Describes the patch in the site's reg, in which pc, plan, entry, length
	 * and covers are set: see describe_patch() in build.c. Errors: PROBE_ERROR_MEMORY,
	 * PROBE_ERROR_REFUSED (out of reach).
	 */
	struct probe_error *(*build)(struct install *a, size_t i, struct piece *p);
	/* Changes the bytes of the patch, which are a jump, to other code. May be NULL. */
	void (*amend)(const struct install_site *as, const struct arch *arch, uint8_t *patched);
};

/* All plans, in the default order. */
extern const struct plan_ops plan_toggle, plan_behind, plan_hop, plan_pun, plan_nop, plan_before,
	plan_twin, plan_part, plan_call;
enum { PLAN_COUNT = 9 };
extern const struct plan_ops *const plan_table[PLAN_COUNT];

/* Returns the plan with a number, which may come from a target, or NULL for an unknown number. */
const struct plan_ops *plan_of(unsigned int id);
/* Returns the number of a plan; for NULL, the number of a refused site. */
enum probe_plan plan_id(const struct plan_ops *ops);

/* Plans in the order in which they are tried, each once. */
struct plan_order {
	const struct plan_ops *plans[PLAN_COUNT];
	size_t count;
};

extern const struct plan_order plan_defaults;
/* Returns the order of a request; the default for NULL. Skips unknown and repeated numbers. */
struct plan_order plan_order_of(const enum probe_plan *plans, size_t count);
bool plan_is_asked(const struct plan_order *order, const struct plan_ops *ops);

/*
 * Plans the sites of one object. `notes` are `count` notes of the object with a pc; `all` are all
 * its notes. `ret` is an array of `count` plans in the same order as `notes`. The proofs that the
 * plans of `order` need search the code of the whole object.
 *
 * Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (the ISA is only parsed).
 */
PROBE_MUST_CHECK struct probe_error *plan_sites(struct object *object, const struct sdt_notes *all,
	const struct sdt_note *const *notes, size_t count, const struct plan_order *order,
	struct plan *ret);

/* Returns the way of a plan at a site. */
const struct plan_way *plan_way(const struct plan *plan, const struct plan_ops *ops);

/* May a plan work, whatever a process has mapped? plan_reason() returns why not, or NULL. */
bool plan_is_possible(const struct plan *plan, const struct plan_ops *ops);
const char *plan_reason(const struct plan *plan, const struct plan_ops *ops);

/* Returns the first plan of `order` that may work, or NULL and sets *reason_ret. */
const struct plan_ops *plan_choose(
	const struct plan *plan, const struct plan_order *order, const char **reason_ret);

/* Returns the reason for a refusal if there is no better one. */
const char *plan_impossible(const struct plan *plan);

extern const char plan_crosses[];     /* the jump would cross a page's end */
extern const char plan_in_distance[]; /* a pun's displacement would contain another site's nop */
extern const char plan_no_decoder[];  /* the error text if code cannot be decoded */
extern const char plan_code_ends[];   /* the code ends after the nop */

/*
 * Can one of these targets of a jump be on a page of ours? A page of ours cannot be where the file
 * itself is mapped. In a file with fixed addresses, it cannot be below the lowest address of
 * memory.
 */
bool plan_can_lead(const struct object *object, struct arch_extent to);
extern const char plan_leads_nowhere[];

/* Returns how many bytes before pc a plan changes or relies on. */
size_t plan_starts_before(const struct plan *plan, const struct plan_ops *ops);

/* Finds the file's bytes from an offset on, which must not be in the row. Returns their number. */
size_t plan_code(const struct plan *plan, int offset, const uint8_t **ret);

/* Does a plan's jump also serve another site? */
bool plan_is_shared(const struct plan *plan, const struct plan_ops *ops);

/*
 * plan_needs() returns how many bytes a plan needs to know, from plan_starts_before() on.
 * plan_holds() tells whether the bytes found in memory are right: the file's, or what other tools
 * may make of a nop that stays (plan.c).
 */
size_t plan_needs(const struct plan *plan, const struct plan_ops *ops);
bool plan_holds(const struct arch *arch, const struct plan *plan, const struct plan_ops *ops,
	const uint8_t *found);

/* Are bytes found before a jump, which stay, the file's or what other tools make of them? */
bool plan_stays(
	const struct arch *arch, const struct plan *plan, size_t offset, const uint8_t *found);

/* Do these bytes hold the toggle that the file has, on or off? */
bool plan_holds_toggle(
	const struct arch_toggle *toggle, const struct plan *plan, const uint8_t *found);

/* ---- Planning -------------------------------------------------------------------------------- */

/* The questions that plans ask about a file, for all of its sites together. */

/* A site that may share the jump of a later site, if that is proved. */
struct neighbour {
	struct plan plan;
	size_t of; /* index of the later site's plan */
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

/* Asks whether the instructions of a way can move. */
void plan_ask(struct planning *p, const struct plan *plan, struct plan_way *way);
/* Answers all questions. Errors: those of prove(), PROBE_ERROR_UNSUPPORTED (no decoder). */
PROBE_MUST_CHECK struct probe_error *plan_prove(struct planning *p);

/* Can a way's instructions move, and is its jump within one page, wherever the file is mapped? */
bool plan_fits(const struct plan *plan, const struct plan_way *way);

/* Does a site with a short nop have no possible plan yet? */
bool plan_is_wanting(const struct planning *p, const struct plan *plan);

/* ---- Prove ----------------------------------------------------------------------------------- */

/* Proves whether instructions may be moved, from the whole file. */

/* A question: can `move` be done at the site of `plan`? */
struct proof {
	const struct plan *plan;
	struct plan_way *move; /* the answer: its length, or its reason */
	uint8_t window;	       /* length of the window: nothing may enter [pc + 1, pc + window) */
	/* Least number of bytes to move; 0 if only entries matter, as for spares and rows. */
	uint8_t need;
	uint64_t inside; /* bit set from prove(): offsets from pc that are inside an instruction */
	/* number of bytes before the moved bytes that must not be another site's */
	uint8_t margin;
};

/*
 * Answers `count` questions, and changes their order. `notes` are all notes of the object, because
 * sites of other probes must not be moved either. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *prove(struct object *object, const struct arch *arch,
	const struct sdt_notes *notes, struct proof *proofs, size_t count);

/* ---- Rows ------------------------------------------------------------------------------------ */

/*
 * Rows of short nops, each of which is a site. All sites of a row share the jump after the last
 * nop. So sites other than the last need only a proof that nothing enters right after their own
 * nop.
 */

struct row_site {
	uint64_t pc;
	const struct sdt_note *note; /* the site's note; borrowed */
	bool is_plain;		     /* the site is neither a function's entry nor OCaml's */
	/* index of the last site of its row; usually the site's own index */
	size_t last;
	size_t planned;	    /* for a last site: its index in rows.notes, or SIZE_MAX */
	const char *cannot; /* why the site cannot use the last site's jump, or NULL */
	/* Bytes from the first site of the row that can share the jump to this site. */
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
	struct row_site *sites; /* the sites of all notes, one for each address, sorted */
	size_t count;
	/* The notes to plan: requested notes, but for each row only the note of its last site. */
	const struct sdt_note **notes;
	size_t note_count;
	size_t *planned; /* for each requested note, an index in `notes` */
};

/*
 * Finds the rows among `all`, and the notes to plan for `count` requested notes. The caller must
 * call rows_deinit(), also after an error. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *rows_init(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const struct sdt_note *const *notes, size_t count,
	struct rows *ret);

/* Does a site begin in the `length` bytes from an address on? */
bool rows_have_site(const struct rows *rows, uint64_t start, size_t length);

#endif
