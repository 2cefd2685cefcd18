/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PATCH_PATCH_H
#define LIBPROBE_PATCH_PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "elf/lines.h"
#include "elf/object.h"
#include "elf/sdt.h"
#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"
#include "libprobe/query/query.h"
#include "libprobe/registry/registry.h"
#include "probe/list.h"
#include "probe/target.h"
#include "libprobe/patch/plan.h"
#include "libprobe/patch/busy.h"

/* ---- Attempt --------------------------------------------------------------------------------- */

/*
 * Attempts to probe a target. Code is generated for threads as they usually are, but some facts are
 * known only once all threads are stopped. If the code does not suit these facts, the attempt is
 * undone, and the next one takes them into account.
 */

struct attempt {
	const struct probe_target *target;
	struct probe_report *report;
	unsigned int lessons; /* value of target->lessons at the start of the attempt */
	size_t refusals;      /* number of refusals in the report before the first attempt */
	bool is_made;
	struct probe_error *error; /* error of the last attempt; set and owned by the caller */
};

/* The target and the report outlive the attempts. */
struct attempt attempt_begin(const struct probe_target *target, struct probe_report *report);
/*
 * Returns true if an attempt must be made: the first attempt, or another one after the last attempt
 * has failed and found out a new fact about the target. Before another attempt, frees the error of
 * the last attempt, and removes its refusals from the report.
 *
 *	while (attempt_next(&attempt))
 *		attempt.error = enable_once(target, request, report);
 *	return attempt.error;
 */
bool attempt_next(struct attempt *attempt);

/* ---- Claims ---------------------------------------------------------------------------------- */

/*
 * The bytes that belong to each patch: those it writes, those that a pun's displacement relies on,
 * and moved instructions. No other patch may write them. (Sites may be closer to each other than
 * the length of a jump.)
 */

/*
 * A patch relies on [start, end), and writes [start, written_end). start == end means a removed
 * patch; our code may return to its start.
 */
struct claim {
	uint64_t start, end;
	uint64_t written_end;
	const char *reason; /* why nothing else may write there; NULL: it is another site's */
};

/* Sorted by start. Initialise with {0}. */
struct claims {
	struct claim *items;
	size_t count;
	/* patch, hop and plan of the last site whose jump serves several sites */
	uint64_t shared, shared_hop;
	const struct plan_ops *shared_plan;
};

/* Returns the bytes that a plan would write or rely on at a site. */
struct claim claim_of_plan(const struct select_site *site, const struct plan_ops *ops);
/*
 * Returns the claim of a hop, the full jump behind a short one, with the `made` bytes of code that
 * make room for it, if any.
 */
struct claim claim_of_hop(const struct arch *arch, uint64_t hop, uint8_t made);

/*
 * Adds the claims of a site and its hop, even if the site is restored, because its code may lead
 * back to it. Returns false if out of memory.
 */
bool claims_add_site(struct claims *claims, const struct arch *arch, const struct reg_site *site);
/* Adds a module's guards. Returns false if out of memory. */
bool claims_add_guards(struct claims *claims, const struct arch *arch, const struct module *module);
/* Adds the code by which the target makes calls for us. Returns false if out of memory. */
bool claims_add_gadgets(struct claims *claims, const struct arch_gadgets *gadgets);
/* Returns why a claim conflicts with one of `claims`, or NULL. */
const char *claims_meet(const struct claims *claims, struct claim claim);
/* Would a plan use the jump of an earlier site? Plan sites in ascending order. */
bool claims_have_jump(
	const struct claims *claims, const struct select_site *site, const struct plan_ops *ops);
/* Adds the claim of a site's plan and, if not 0, of its hop. Returns false if out of memory. */
bool claims_take(const struct arch *arch, struct claims *claims, const struct select_site *site,
	uint64_t hop);

/* Reasons why a plan conflicts with those of other sites. */
extern const char claims_overlap[], claims_no_spare[];

void claims_deinit(struct claims *claims);

/* ---- Semaphores ------------------------------------------------------------------------------ */

/*
 * Semaphores are 16-bit counters. While a probe's semaphore is 0, the program does not compute its
 * arguments.
 */

/*
 * Returns the offset of the counter of handlers' users (SDT_OCAML) from the note's address; 0 for
 * other kinds, which have one counter.
 */
uint64_t semaphore_offset(enum sdt_kind kind);

/*
 * Finds the semaphores that tracers raise for a probe or, with `handlers`, the counters of its
 * handlers' users, sorted. `addresses` has room for probe->site_count. Returns their number.
 */
size_t semaphores_of(const struct selection *selection, const struct select_probe *probe,
	bool handlers, uint64_t *addresses);

struct change;

/* Returns why the guard `i` of a module cannot be switched in the target, or NULL. */
const char *guard_reason(const struct change *change, const struct module *module, size_t i);

/* Semaphores that change together. Initialise with {0}. */
struct semaphores {
	struct semaphore_change {
		uint64_t address;
		uint64_t label; /* where a guard jumps; 0 for a semaphore */
		int32_t by;
		bool is_set; /* the change sets the semaphore to `value` */
		uint16_t value;
		uint16_t least; /* the new value must be at least this; set before the stop */
	} * items;
	size_t count;
	struct edits edits;
};

/*
 * Adds `by` to a semaphore, or sets it to 0 if `by` is 0. A guard, with a `label`, has no count: it
 * is on as long as a session's probe in the registry has it. Returns false if out of memory.
 */
bool semaphores_add(struct semaphores *semaphores, uint64_t address, uint64_t label, int by);

/* Sorts the changes and allocates memory; call it last before the stop. */
PROBE_MUST_CHECK struct probe_error *semaphores_prepare(struct semaphores *semaphores);

/* Returns how many semaphores are lower than the sessions require, or guards off; 0 if unknown. */
size_t semaphores_short(const struct registry *registry, pid_t pid);

void semaphores_deinit(struct semaphores *semaphores);

/*
 * Reads the semaphores and computes their new values. Another tool may have lowered a semaphore, so
 * each new value is raised to 0, and to the least value that was set before. If a
 * semaphore to be lowered is not mapped any more, it is skipped, and a guard whose bytes are not
 * its own is not written. Errors: PROBE_ERROR_STATE (overflow), PROBE_ERROR_FORMAT (a semaphore to
 * be raised is unreadable, or a guard has other bytes), those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *semaphores_read(struct semaphores *semaphores, pid_t pid);

/* Finds the value that semaphores_read() has computed. False if the semaphore is not mapped. */
bool semaphores_coming(const struct semaphores *semaphores, uint64_t address, uint16_t *ret);

/* ---- Toggles --------------------------------------------------------------------------------- */

/*
 * Toggles: the switches at OCaml's probes. Their whole state is in the target, and OCaml's own
 * tools change it, too: a counter of the handler's users, and a byte at each site (struct
 * arch_toggle).
 */

struct transaction;

/* Toggles that are switched together. Initialise with {0}. */
struct toggles {
	struct toggle {
		uint64_t semaphore; /* address of the counter of the handler's users, or 0 */
		bool on;	    /* whether to switch the handler on if there is no counter */
	} * items;
	size_t count;
	struct edits edits; /* the byte of each site, in the order of `items` */
};

/*
 * Moves probes with toggles from a selection to a transaction, which will switch their handlers
 * `on` or off. Probes whose handlers are off stay in the selection unless `on` or request->force.
 * Errors: PROBE_ERROR_REFUSED (a site is neither on nor off; only reported if request->keep_going),
 * PROBE_ERROR_STATE (a counter would overflow), as plan_sites() and edits_read().
 */
PROBE_MUST_CHECK struct probe_error *toggles_take(struct transaction *transaction,
	struct selection *selection, const struct probe_request *request, bool on,
	struct probe_report *report);

/*
 * Finds out if a probe has toggles, and how many users its handlers have. Errors: as plan_sites().
 */
PROBE_MUST_CHECK struct probe_error *toggles_count(const struct change *change,
	struct selection *selection, const struct select_probe *probe,
	const struct probe_request *request, bool *ret, uint16_t *count_ret);

/* ---- Transaction ----------------------------------------------------------------------------- */

/*
 * One change of a target's registry, and of the sites and semaphores that the registry describes.
 * The change is made as a whole, or not at all.
 *
 *   (the caller changes its copy of the registry to announce the change)
 *   change_store()          announces it, so that the next controller can finish it
 *   (the caller puts the result into its copy, and adds edits and semaphores)
 *   transaction_prepare()   allocates memory, and writes the next registry
 *   change_stop()           unless only counters change
 *   transaction_read()      reads the memory to be changed; the caller checks it
 *   transaction_write()     writes sites, registry and semaphores
 *   change_resume()
 *   transaction_end()
 */

enum transaction_kind {
	TRANSACTION_ADDS, /* semaphores are raised */
	TRANSACTION_ENDS, /* semaphores are lowered */
	TRANSACTION_MENDS /* only sites are written; the registry does not change */
};

struct install;

struct transaction {
	struct change *change; /* borrowed; a change has one transaction at a time */
	enum transaction_kind kind;
	bool atomic;		  /* stop all threads even if only counts change */
	struct install *installs; /* list of the installs to add, see install_add(); borrowed */
	struct edits text;
	size_t turns; /* number of stops in which `text` is written; 0 or 1: one */
	struct semaphores semaphores;
	struct toggles toggles; /* edits of toggles, written together with `text` */
	/* no thread may return into the replaced instructions */
	struct windows windows;
	struct transaction_count {
		uint64_t key;
		int by;
	} * counts;
	size_t count_count, counted; /* the first `counted` counts are already in the registry */
	/* The present image of the registry, for going back to it, and the next image. */
	struct code_extent before, next;
	bool written; /* the change is written, or sites are restored: it cannot be undone */
	bool raced;   /* nothing is written, because another tool came in between: stop first */
};

/* Number of sites that are written in one stop, so that it lasts some milliseconds at most. */
enum { TRANSACTION_SITES = 1000 };

/* Writes the last turn of a transaction; its semaphores and the next registry belong to it. */
bool transaction_is_last(const struct transaction *transaction);

/* Returns an empty transaction, for transaction_end(). */
struct transaction transaction_of(struct change *change, enum transaction_kind kind);
void transaction_end(struct transaction *transaction);

/*
 * Changes, by `by` (not 0), the count of a probe that is on in a persistent session. Returns false
 * if out of memory.
 */
bool transaction_count(struct transaction *transaction, uint64_t key, int by);

/* Reverts the changes of counts: the registry announces the old counts while undoing. */
void transaction_uncount(struct transaction *transaction);

/*
 * Keeps the present image before anything is announced, so that transaction_go_back() writes only
 * one word. That function may be called until sites or semaphores are written.
 */
PROBE_MUST_CHECK struct probe_error *transaction_keep_way_back(struct transaction *transaction);
void transaction_go_back(struct transaction *transaction);

/* Prepares the stop; call it last before the stop, after all edits and semaphores were added. */
PROBE_MUST_CHECK struct probe_error *transaction_prepare(struct transaction *transaction);

/* Reads the memory to change. Errors: as edits_read() and
 * semaphores_read(), PROBE_ERROR_REFUSED (another tool has changed a toggle). */
PROBE_MUST_CHECK struct probe_error *transaction_read(struct transaction *transaction);

/* Writes the change, after all checks. After an error, everything is as it was. */
PROBE_MUST_CHECK struct probe_error *transaction_write(struct transaction *transaction);

/* Makes a change, maybe empty, of counts, semaphores and toggles only. */
PROBE_MUST_CHECK struct probe_error *transaction_commit_counts(struct transaction *transaction);

/*
 * Stops the target, calls `look` to read and check memory, and writes the change. If `look` sets
 * *again_ret because a thread is in the way, tries again up to 20 times, and then returns
 * PROBE_ERROR_STATE with the text `what`.
 */
PROBE_MUST_CHECK struct probe_error *transaction_commit(struct transaction *transaction,
	struct probe_error *(*look)(void *data, bool *again_ret), void *data, const char *what);

/* ---- Install --------------------------------------------------------------------------------- */

/*
 * Adding sessions to a target, and removing sites and stubs that are no longer used.
 *
 *   install_add()        for each selection of probes:
 *     install_plan()     how each site will be patched, or why it is refused
 *     install_build()    memory, stubs and tails; written, but nothing leads there
 *     install.take()     the controller maps and allocates its own memory
 *   install_commit()     with all threads stopped, once for all selections: bytes verified,
 *                        sites patched, semaphores raised
 */

struct install_site {
	bool wanted; /* the site gets a stub */
	bool is_new; /* the site is not patched yet; `reg` describes the coming patch */
	/*
	 * Index of the first site with this address, the only one that is planned and patched.
	 * Stubs of the others are linked before its stub.
	 */
	size_t first;
	struct reg_site reg;
	/* address of the short jump's hop, or 0 */
	uint64_t hop;
	/* the bytes of code that move to make room for the hop, as the file has them, or 0 */
	uint8_t made;
	uint8_t made_bytes[PLAN_BEFORE_BYTES];
	uint64_t write_start, write_end; /* range of bytes that the site's plan may write */
	/* Target of the site's jump: a pun's page, or code of ours; 0 means the newest stub. */
	uint64_t entry;
	/* a twin's two jumps (twin.first is `entry`), otherwise zeros */
	struct arch_twin twin;
	uint64_t stub;
	uint64_t head; /* for a first site: address of the stub that the site's jump leads to */
	/* For a first site: the jump in an older stub that will lead to `head`, or 0. */
	uint64_t link;
	/* for a first site: order of the older stub behind the new ones; 0 for the tail */
	uint32_t below;
	uint32_t order;	     /* order of the site's stub (reg_stub.order) */
	uint32_t head_order; /* for a first site: order of the stub at `head` */
	/* the site is new, and shares the patch of another new site (neighbours.c) */
	bool joins;
	struct arch_stub_code code;
	struct arch_moved moved;
	uint64_t moved_to; /* address of the moved instructions; several sites may share them */
};

/* The stubs of an install: how they are described, and what the build finds out about them. */
struct install_stubs {
	/*
	 * Sets up a site's stub for the probe's slot and the site's number in records. NULL if
	 * stubs only count hits.
	 */
	void (*describe)(const void *data, const struct reg_session *session, uint32_t slot,
		uint32_t number, struct arch_stub *stub);
	/*
	 * Returns true if another session's stubs must be entered before this one's. NULL if never.
	 */
	bool (*comes_before)(const void *data, uint32_t session);
	const void *data;
	/* If `numbers` is NULL, the first site's number in records; the other sites follow it. */
	uint32_t first_site;
	/* Numbers of sites, and slots of probes, that the session had before. */
	const uint32_t *numbers, *slots;
	uint64_t gate_offset; /* offset in the session's data of the struct probe_gate */
	uint64_t gate_unless;
	bool follow_children; /* forked children count hits, too */
	bool takes_time;      /* the stubs read the time stamp counter */
	bool waits;	      /* hits wait for room in the ring, which takes system calls */
	/* Set by the build: a stub makes system calls, or would if allowed; for which purpose. */
	bool asks, asks_name, asks_cpu, asks_stack;
	/* Memory that the module's stubs may read without a check. */
	struct arch_safe safe;
};

/* The memory of a session, which the install that creates the session maps. */
struct install_data {
	/* memory that a new session needs in addition to its counters */
	struct data_needs needs;
	struct data_part *const *parts; /* further parts of that memory; laid out by the install */
	size_t part_count;
	/* counters for probes of libraries that are opened later */
	size_t spare_probes;
	/* Path of a file that keeps the session's memory, or NULL. */
	const char *file;
	bool created; /* this install has created the session */
	int fd;	      /* or -1 */
	uint64_t size;
};

/* The pages to which punned sites jump. */
struct install_puns {
	uint64_t *pages; /* addresses of the new pages, sorted */
	size_t page_count;
	size_t mapped; /* number of mapped pages, from the first one on */
	/* The target keeps mapping memory where pages should be: make no puns. */
	bool none;
};

struct install {
	struct transaction *transaction;
	struct change *change; /* the transaction's change */
	struct install *next;  /* next install in the transaction's list */
	struct probe_report *report;
	struct selection *selection;
	const struct probe_request *request;
	struct install_site *sites; /* sites, parallel to selection->sites */
	/* sites that have an address, sorted by it */
	size_t *order;
	size_t order_count;
	/* Patches that make room for hops; `first` is the index of the site that has the hop. */
	struct install_site *made;
	size_t made_count;
	struct install_stubs stubs;
	struct install_data data;
	struct install_puns puns;
	struct claims claims; /* the bytes that patches need; only while sites are planned */
	/* All sites that share a jump with a new site, selected or not. */
	struct reg_site *neighbours;
	size_t neighbour_count;
	/*
	 * Takes the controller's resources, when the stubs exist but no site leads to them. After
	 * an error, everything is undone. May be NULL.
	 */
	struct probe_error *(*take)(void *data, struct install *install);
	void *take_data;
	uint32_t session; /* id of the session; 0 until a new session is created */
	bool is_copy;	  /* the process is a forked child, and has a copy of the session */
	bool persistent;
	/* Identifies the copy of this library whose functions stubs call, or 0. */
	uint64_t caller;
	/* All sites may be refused: the request switches other probes, or will add more. */
	bool served;
	bool alone; /* plan each site as if no other site were enabled, and install nothing */
};

/* Returns an install with stubs that only count, for install_deinit(). */
struct install install_of(struct transaction *transaction, struct selection *selection,
	const struct probe_request *request);

/*
 * install_module() returns a site's module; the other returns the index in order[] where the next
 * module begins.
 */
struct module *install_module(const struct install *install, size_t site);
size_t install_module_end(const struct install *install, size_t from);

/* Returns true if the only site is a gate, whose stub waits for the controller. */
bool install_is_gate(const struct install *install);

/* Gives each site an empty plan, for install_plan(). */
PROBE_MUST_CHECK struct probe_error *install_make_plans(struct selection *selection);

/* Plans a module's sites like plan_sites(), or takes the plans that its file has kept. */
PROBE_MUST_CHECK struct probe_error *install_plan_notes(struct module *module,
	const struct sdt_note *const *notes, size_t count, const struct plan_order *order,
	struct plan *ret);

/* Plans all sites; may be called again. */
PROBE_MUST_CHECK struct probe_error *install_plan(struct install *install);

/*
 * Reports refused sites. Returns PROBE_ERROR_REFUSED if a pattern names such a probe, or all are
 * refused, unless request->keep_going.
 */
PROBE_MUST_CHECK struct probe_error *install_refusals(
	const struct install *install, struct probe_report *report);

PROBE_MUST_CHECK struct probe_error *install_build(struct install *install);
void install_deinit(struct install *install);

/*
 * Plans an install, creates a new session, and builds the code. The install and its selection stay
 * valid until the transaction's end. After an error, the install is undone.
 */
PROBE_MUST_CHECK struct probe_error *install_add(
	struct install *install, struct probe_report *report);
/*
 * Patches all sites and changes the counts of a transaction in one stop. Fills in the reports.
 * After an error, everything is undone.
 */
PROBE_MUST_CHECK struct probe_error *install_commit(struct transaction *transaction);
/* install_add() and install_commit() for one install. */
PROBE_MUST_CHECK struct probe_error *install_all(
	struct install *install, struct probe_report *report);

/*
 * Ends everything with a reference count of 0: restores sites without stubs, makes other jumps skip
 * ended stubs, lowers semaphores, and frees memory that no thread can be in.
 */
PROBE_MUST_CHECK struct probe_error *uninstall_unreferenced(struct change *change);
/* Like uninstall_unreferenced(), with other changes of a transaction (TRANSACTION_ENDS). */
PROBE_MUST_CHECK struct probe_error *uninstall(struct transaction *transaction);

/* Ends dead controllers' sessions like uninstall_unreferenced(). */
PROBE_MUST_CHECK struct probe_error *install_heal(struct change *change);

/* Returns true if the target has code that no jump leads to, but in which a thread may be. */
bool uninstall_has_leftovers(const struct registry *registry);

/*
 * Sets the counts of dead controllers' sessions to 0, and returns the number of their stubs and of
 * ended stubs. If it is not 0, call uninstall_unreferenced() before adding a site: patches in the
 * registry may be unwritten or already restored.
 */
size_t uninstall_find_dead(struct change *change);
/* Like uninstall_find_dead(), for all other unfinished work. */
size_t uninstall_find_stale(struct change *change);

/* ---- Forecast -------------------------------------------------------------------------------- */

/* Forecasts the plan that enabling a site would choose, in a process or as far as a file tells. */

struct forecast_site {
	uint64_t pc;		     /* run-time address; for a file, a link-time address */
	const struct plan_ops *plan; /* plan of the site, or NULL if the site would be refused */
	bool is_shared;		     /* the jump of the site also serves its neighbours */
	char *reason;		     /* why the site would be refused, or NULL; owned */
	/* why preferred plans are not possible, or NULL; owned */
	char *instead;
	/* The plan if all sites of the file or process are enabled. */
	const struct plan_ops *together;
	/* why `together` differs, or NULL; owned */
	char *together_reason;
};

/* Initialise with {0}. */
struct forecast {
	struct forecast_site *sites; /* forecasts of sites, sorted by pc */
	size_t count;
	char *reason; /* why no site of the process or file can be patched, or NULL; owned */
};

/* ---- Inherited ------------------------------------------------------------------------------- */

/* Removes copies of sessions from forked processes whose parents are no targets now. */

/* Notes that a session goes on, before it changes its target `pid`; sets *goes_on_ret. */
void inherited_begin(pid_t pid, bool *goes_on_ret);
/*
 * Returns a number that a process shares with its forked children until they call execve(2), or 0.
 */
uint64_t inherited_image(pid_t pid);
/* Returns the processes with an image, ended by 0, for free(); NULL if memory is short. */
pid_t *inherited_heirs(uint64_t image);
/* Sets each ret[i] to the number of living processes with images[i]. */
void inherited_count(const uint64_t *images, size_t count, size_t *ret);
/*
 * Notes the end of a session; `failed` is the target if it could not be ended there, else 0. After
 * the last session, removes all copies, and notes in `report` the processes that keep some. Errors:
 * PROBE_ERROR_MEMORY (for a note).
 */
PROBE_MUST_CHECK struct probe_error *inherited_end(
	bool *goes_on, pid_t failed, struct probe_report *report);
/*
 * Like inherited_end() but removes nothing, for a session that did not begin, stays in its target,
 * or is freed without an end.
 */
void inherited_forget(bool *goes_on);

/*
 * Removes copies of sessions from a forked process that has only copies. Errors: those of a change.
 */
PROBE_MUST_CHECK struct probe_error *inherited_remove(struct probe_target *target);

/* ---- Later ----------------------------------------------------------------------------------- */

/* If request->later, drops modules in which probes were enabled before. */
void later_drop(const struct probe_target *target, const struct probe_request *request,
	struct selection *selection);
/* Returns PROBE_ERROR_USAGE if these are more functions, or more sites, than the request allows. */
PROBE_MUST_CHECK struct probe_error *many_check(
	pid_t pid, const struct probe_request *request, const struct selection *selection);

/* ---- List ------------------------------------------------------------------------------------ */

/* For list.c and forecast.c only. */

/* A file, or a process's module, with probes. */
struct list_file {
	char *path;
	char *build_id;
	uint16_t machine;
	/* Notes and functions of the file; they own the strings of its sites. */
	struct sdt_notes notes;
	struct sdt_functions functions;
	uint64_t bias;
	uint64_t start, end; /* range of run-time addresses in a process */
	/* The file's object, for details. Modules keep it open, because they may have no path. */
	struct object *object;
	int fd; /* descriptor of a module's object, or -1 */
	bool object_tried;
	struct lines *lines;
	bool lines_tried;
	size_t lines_asked; /* how often a source line was looked up */
	/* index of the site at which the search for unknown lines goes on */
	size_t lines_next;
	size_t first_site;	  /* index of the first site of the file */
	struct forecast forecast; /* forecasts of the file's sites; made on demand */
	bool plans_tried;
};

/* Additional data of the site with this index in probe_list.sites. */
struct list_site {
	size_t file; /* index in probe_list.files */
	enum sdt_kind kind;
	const char *refused; /* why a function's site cannot be patched, static; or NULL */
	struct line line;
	bool line_known;
	/* Arguments and their specs, in one allocation; NULL if not parsed yet. */
	struct probe_arg *args;
	size_t arg_count;
};

/* A process for which details were requested. */
struct list_process {
	pid_t pid;
	struct forecast forecast;
};

struct probe_list {
	/* See probe_list_functions(); borrowed. */
	const struct probe_pattern *const *patterns;
	size_t pattern_count;
	const struct probe_catalogue *catalogue;
	struct list_process *processes;
	size_t process_count;
	struct list_file *files;
	size_t file_count;
	struct probe_site *sites;
	struct list_site *more;
	size_t site_count, site_room;
	struct probe_defect *defects; /* paths and texts are owned by the list */
	size_t defect_count;
};

/* ---- Neighbours ------------------------------------------------------------------------------ */

/* Memory with the code of a module's sites. */
struct piece {
	uint64_t start; /* address in the target */
	uint8_t *bytes;
	size_t size, used;
};

/* Fills at least `length` bytes, up to the next address where a stub may begin. */
void build_skip(const struct arch *arch, struct piece *p, size_t length);

/*
 * Builds the copy of instructions at a patch, of at least `need` of the bytes, and the way back.
 * Errors: as build_tail().
 */
PROBE_MUST_CHECK struct probe_error *build_copy(const struct arch *arch, struct install_site *as,
	const uint8_t *bytes, size_t size, size_t need, struct piece *p);

/*
 * Builds site `i`'s moved instructions, and the jump back. Errors: PROBE_ERROR_REFUSED (they cannot
 * be moved so far).
 */
PROBE_MUST_CHECK struct probe_error *build_tail(
	struct install *a, size_t i, const struct plan_way *move, struct piece *p);

/* Describes a site's jump to code of ours, and the hop, if any. Errors: PROBE_ERROR_REFUSED. */
PROBE_MUST_CHECK struct probe_error *build_jump(const struct install *a,
	const struct install_site *as, uint64_t entry, struct reg_site *reg);

/*
 * Builds a copy of the instruction at `pc` that leaves a function, of at least `need` of the bytes,
 * to run after the last stub there. A thread that is stopped at this instruction continues at the
 * first stub, behind as->moved. Errors: PROBE_ERROR_REFUSED.
 */
PROBE_MUST_CHECK struct probe_error *build_leave(struct install *a, struct install_site *as,
	uint64_t pc, const uint8_t *bytes, size_t size, size_t need, struct piece *p);

/*
 * Describes the patch of the new site `i`. For the first of several neighbours, builds the entries
 * of all of them; the others copy the description. Errors: as build_tail(), PROBE_ERROR_MEMORY,
 * PROBE_ERROR_REFUSED.
 */
PROBE_MUST_CHECK struct probe_error *neighbours_describe(
	struct install *a, size_t i, struct piece *p);
/* Returns the room for the entries of site `i` in bytes; 0 if those at *patch_inout have it. */
size_t neighbours_bytes(const struct install *a, size_t i, uint64_t *patch_inout);
/* Writes the jump at a site's entry. Errors: PROBE_ERROR_REFUSED. */
PROBE_MUST_CHECK struct probe_error *neighbours_lead(
	const struct install *a, const struct reg_site *reg, uint64_t to, struct piece *p);
/* The error of a site whose stub is out of reach. */
PROBE_MUST_CHECK struct probe_error *build_too_far(const struct reg_site *reg);

/* ---- Puns ------------------------------------------------------------------------------------ */

/*
 * Targets of sites' jumps: a page of a pun, an arena, or unused bytes of the program (plans/hop.c).
 */

/*
 * Takes a place, preferably near, for a pun to lead to. Returns NULL, or a static text that says
 * why it cannot.
 */
const char *puns_take(struct install *install, struct arch_pun pun, uint64_t *entry_ret);
extern const char puns_taken[]; /* the reason why there is no such place */

/*
 * Maps the pages that were taken, before this change maps anything else at their addresses.
 * *again_ret means that the process has begun to use one of them: then none is mapped, and the maps
 * are read again.
 */
PROBE_MUST_CHECK struct probe_error *puns_map(struct install *install, bool *again_ret);

/* Drops pages that are not in the registry yet, and unmaps them. */
void puns_drop(struct install *install);

/* Takes a spare in reach that is free and still holds the file's bytes. NULL, or why it cannot. */
const char *hops_take(struct install *install, size_t i);

/* Reads the file's bytes at a site's hop, or at what makes room for it. Returns their number. */
size_t hops_original(const struct install *install, const struct install_site *as, uint64_t at,
	size_t size, uint8_t *bytes);

/* ---- Report ---------------------------------------------------------------------------------- */

/* Adds a refused site, with copies of its strings. `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_refusal(struct probe_report *report,
	const struct select_probe *probe, const struct select_site *site);

/* Returns the error that nothing is changed because of refused sites, of which it names a probe. */
PROBE_MUST_CHECK struct probe_error *report_refusal_error(
	pid_t pid, size_t refused, size_t sites, const struct select_probe *probe);

/*
 * Marks a probe as unwanted because of an error; reports and frees the error. The caller drops
 * unwanted probes.
 */
PROBE_MUST_CHECK struct probe_error *report_drop(struct selection *selection,
	struct select_probe *probe, struct probe_error *why, struct probe_report *report);

/* Drops probes that lack arguments, and reports each once. */
PROBE_MUST_CHECK struct probe_error *report_drop_lacking(
	struct selection *selection, struct probe_report *report);

/*
 * Drops probes of unreadable modules, whose sites cannot be proved, and reports the sites as
 * refused. Returns PROBE_ERROR_REFUSED, unless the request keeps going, if a pattern names such a
 * probe exactly, or if no other probe is selected and `served` is false.
 */
PROBE_MUST_CHECK struct probe_error *report_drop_unread(struct selection *selection,
	const struct probe_request *request, bool served, pid_t pid, struct probe_report *report);

/* `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_note(
	struct probe_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Notes if the program has unmapped or replaced memory of ours, and if it has sealed memory that we
 * must free.
 */
PROBE_MUST_CHECK struct probe_error *report_memory(
	struct probe_report *report, const struct change *change);
#define REPORT_LOST                                                                                \
	"process %d has mapped memory over that of probectl, or unmapped it: the probes that "     \
	"needed it are off"
#define REPORT_SEALED                                                                              \
	"process %d has sealed %ju KiB of probectl's memory: it stays until the program ends"

#endif
