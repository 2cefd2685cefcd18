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
 * Attempts to probe a target. Some facts about its threads are known only once all of them are
 * stopped, when everything has been built for threads as they usually are. If that was wrong, the
 * attempt fails and is undone, and the next one knows better.
 */

struct attempt {
	const struct probe_target *target;
	struct probe_report *report;
	unsigned int lessons; /* of the target, when the attempt began */
	size_t refusals;      /* in the report before the first attempt */
	bool is_made;
	struct probe_error *error; /* of the last attempt; set by the caller, who owns it */
};

/* The target and the report are the caller's, and outlive it. */
struct attempt attempt_begin(const struct probe_target *target, struct probe_report *report);
/*
 * Must an attempt be made: the first one, or another because the last one failed on a fact that it
 * has revealed? The error and the report of the last one are then forgotten.
 *
 *	while (attempt_next(&attempt))
 *		attempt.error = enable_once(target, request, report);
 *	return attempt.error;
 */
bool attempt_next(struct attempt *attempt);

/* ---- Claims ---------------------------------------------------------------------------------- */

/*
 * The bytes that patches take. Sites may stand closer together than a jump is long. The bytes that
 * a patch writes, those that a pun only reads (the displacement is made of them), and those that
 * are moved (nothing runs there any more) must not meet the bytes that another patch writes.
 */

/*
 * [start, end) belongs to a patch; what is written in it begins at start. If both are the same,
 * there is no patch any more, but a thread will return there from the code that the patch led to.
 */
struct claim {
	uint64_t start, end;
	uint64_t written_end;
};

/* Sorted by start. Zeros are an empty list. */
struct claims {
	struct claim *items;
	size_t count;
	/* Of the last site that shares its jump with its neighbours. */
	uint64_t shared, shared_hop;
	const struct plan_ops *shared_plan;
};

/* The bytes that a plan would write at a site. A patch of one byte relies on those after it. */
struct claim claim_of_plan(const struct select_site *site, const struct plan_ops *ops);
/* The place to which a short jump leads. No thread continues there. */
struct claim claim_of_hop(const struct arch *arch, uint64_t hop);

/* Does a claim conflict with one of these? */
bool claims_meet(const struct claims *claims, struct claim claim);
/* Is a plan's jump that of a neighbour before it? Sites are planned by ascending address. */
bool claims_have_jump(
	const struct claims *claims, const struct select_site *site, const struct plan_ops *ops);
/*
 * Takes the bytes of the plan that was chosen for a site, and those that its short jump leads to
 * (0: it has none); false without memory.
 */
bool claims_take(const struct arch *arch, struct claims *claims, const struct select_site *site,
	uint64_t hop);

/* Why a plan is not possible beside the others. */
extern const char claims_overlap[], claims_no_spare[];

void claims_deinit(struct claims *claims);

/* ---- Semaphores ------------------------------------------------------------------------------ */

/*
 * Semaphores: the 16-bit counters in a target's data that its probes test
 * before they compute their arguments.
 */

/*
 * The offset, from the note's address, of the count of users of OCaml's handlers
 * (SDT_OCAML). 0 for other kinds, which have one count for all.
 */
uint64_t semaphore_offset(enum sdt_kind kind);

/* The distinct semaphores of a probe that tracers raise, sorted; room for site_count is enough. */
size_t semaphores_of(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses);
/*
 * The same, and in the same way those of the probes of its provider and module that match `with`
 * (struct probe_meaning; NULL: none). The caller frees the array; NULL without memory.
 */
uint64_t *semaphores_raised(const struct selection *selection, const struct select_probe *probe,
	const char *with, size_t *count_ret);
/* Those that count the users of its own handlers; only OCaml's probes have any. */
size_t semaphores_of_handlers(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses);

/* Changes to be made at once. Initialise with {0}. */
struct semaphores {
	struct semaphore_change {
		uint64_t address;
		int32_t by;
		bool is_set; /* to value, whatever it is */
		uint16_t value;
		uint16_t least; /* what it is at the least afterwards, see semaphores_keep() */
	} * items;
	size_t count;
	struct edits edits;
};

/* Adds a change; 0 `by` sets the semaphore to 0. False without memory. */
bool semaphores_add(struct semaphores *semaphores, uint64_t address, int by);
/* The same, to a value. */
bool semaphores_set(struct semaphores *semaphores, uint64_t address, uint16_t value);

/* The last step before threads are stopped: sorts, makes room. */
PROBE_MUST_CHECK struct probe_error *semaphores_prepare(struct semaphores *semaphores);

/* How many semaphores are less than what the registry says; 0 where that cannot be known. */
size_t semaphores_short(const struct registry *registry, pid_t pid);

void semaphores_deinit(struct semaphores *semaphores);

/*
 * Reads them and computes their new values. None becomes less than 0, as others may have lowered
 * it, or than semaphores_keep() says; one that is to be lowered, but no longer exists, is left out.
 * Errors: PROBE_ERROR_STATE (one would overflow), PROBE_ERROR_FORMAT (one to be raised cannot be
 * read), those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *semaphores_read(struct semaphores *semaphores, pid_t pid);

/* The value that a semaphore, which has been read, will have. Returns false if it is not mapped. */
bool semaphores_coming(const struct semaphores *semaphores, uint64_t address, uint16_t *ret);

/* Writes them: all or none. */
PROBE_MUST_CHECK struct probe_error *semaphores_write(struct semaphores *semaphores, int mem);

/* ---- Toggles --------------------------------------------------------------------------------- */

/*
 * Toggles: OCaml's own switches. Their state is in the target alone, where OCaml's tools have it,
 * too: a count of the handler's users, and one byte at each site (struct arch_toggle).
 */

struct change;
struct transaction;

/* Sites that are switched as a whole. Initialise with {0}. */
struct toggles {
	struct toggle {
		uint64_t semaphore; /* its count; 0: there is none */
		bool on;	    /* what is wanted where there is no count */
	} * items;
	size_t count;
	struct edits edits; /* in the same order: the byte */
};

void toggles_deinit(struct toggles *toggles);

/* Are the probe's sites toggles, as far as its provider's name and the request tell? */
bool toggles_asked(const struct select_probe *probe, const struct probe_request *request);

/*
 * Takes the probes that are switched by toggles out of a selection, and adds what is to be changed
 * for them to a transaction: the handlers are called from then on (`on`), or not. With `on` false,
 * probes whose handlers are off stay in the selection, unless request->force. Errors:
 * PROBE_ERROR_REFUSED (a site holds neither of both states; with request->keep_going it is
 * reported), PROBE_ERROR_STATE (a count would overflow), those of plan_sites() and edits_read().
 */
PROBE_MUST_CHECK struct probe_error *toggles_take(struct transaction *transaction,
	struct selection *selection, const struct probe_request *request, bool on,
	struct probe_report *report);

/*
 * Returns whether a probe is switched by toggles, and how many users its handlers have. Errors:
 * those of plan_sites().
 */
PROBE_MUST_CHECK struct probe_error *toggles_count(const struct change *change,
	struct selection *selection, const struct select_probe *probe,
	const struct probe_request *request, bool *ret, uint16_t *count_ret);

/* The last step before the stop. */
PROBE_MUST_CHECK struct probe_error *toggles_prepare(struct toggles *toggles);

/*
 * Reads the bytes, and sets those that `semaphores`, just read, make necessary. Errors:
 * PROBE_ERROR_REFUSED, those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *toggles_read(
	struct toggles *toggles, const struct semaphores *semaphores, pid_t pid);

/* ---- Transaction ----------------------------------------------------------------------------- */

/*
 * One change of a target's registry, and of what it describes: sites and semaphores. It is made
 * as a whole, or not at all.
 *
 *   (the caller changes the registry in this process: what is about to happen)
 *   change_store()          announces it: the next controller can finish it
 *   (the caller changes it to the result, and adds edits and semaphores)
 *   transaction_prepare()   memory and buffers; the registry to come is written
 *   change_stop()           unless only counts change
 *   transaction_read()      what is there; the caller looks at it
 *   transaction_write()     sites, registry and semaphores
 *   change_resume()
 *   transaction_end()
 */

enum transaction_kind {
	TRANSACTION_ADDS, /* semaphores are raised */
	TRANSACTION_ENDS, /* semaphores are lowered */
	TRANSACTION_MENDS /* sites alone are written: the registry stays */
};

struct install;

struct transaction {
	struct change *change; /* borrowed; one transaction at a time */
	enum transaction_kind kind;
	bool atomic;		  /* all threads are stopped also where only counts change */
	struct install *installs; /* what it adds: see install_add(); borrowed */
	struct edits text;
	struct semaphores semaphores;
	struct toggles toggles; /* written with the text */
	struct windows windows; /* of edits that take the place of instructions */
	struct transaction_count {
		uint64_t key;
		int by;
	} * counts;
	size_t count_count, counted;	 /* the first `counted` are in the registry */
	struct code_extent before, next; /* images of the registry: kept to go back to, to come */
	bool written;			 /* there is no way back */
};

/* An empty one; transaction_end() is due. */
struct transaction transaction_of(struct change *change, enum transaction_kind kind);
void transaction_end(struct transaction *transaction);

/*
 * Counts a probe that is on already, of a persistent session, up or down with the rest,
 * `by` not 0; false without memory.
 */
bool transaction_count(struct transaction *transaction, uint64_t key, int by);

/* They are not changed after all: undoing announces them as they were. */
void transaction_uncount(struct transaction *transaction);

/*
 * Keeps the registry that is current to go back to; to be called before anything is
 * announced. Going back is one word. Nothing may have been written.
 */
PROBE_MUST_CHECK struct probe_error *transaction_keep_way_back(struct transaction *transaction);
void transaction_go_back(struct transaction *transaction);

/* The last step before the stop; neither edits nor semaphores are added any more. */
PROBE_MUST_CHECK struct probe_error *transaction_prepare(struct transaction *transaction);

/* Errors: those of edits_read() and semaphores_read(). */
PROBE_MUST_CHECK struct probe_error *transaction_read(struct transaction *transaction);

/* Everything has been looked at. An error leaves all as it was. */
PROBE_MUST_CHECK struct probe_error *transaction_write(struct transaction *transaction);

/*
 * Makes the whole change if only counts, semaphores and toggles change; does nothing if none does.
 */
PROBE_MUST_CHECK struct probe_error *transaction_commit_counts(struct transaction *transaction);

/*
 * Stops the target and writes, when `look` has read what is there and has nothing against it.
 * If that sets *again_ret, a thread is in the way: it is tried again, up to 20 times. `what`
 * is the error then (PROBE_ERROR_STATE).
 */
PROBE_MUST_CHECK struct probe_error *transaction_commit(struct transaction *transaction,
	struct probe_error *(*look)(void *data, bool *again_ret), void *data, const char *what);

/* ---- Install --------------------------------------------------------------------------------- */

/*
 * Adding sessions to a target, and removing what nothing uses any more.
 *
 *   install_add()        for each selection of probes:
 *     install_plan()     how each site will be patched, or why it is refused
 *     install_build()    memory, stubs and tails, written but not yet reachable
 *     install.take()     the controller maps and allocates what it needs
 *   install_commit()     all threads stopped, once for all that was added: bytes verified,
 *                        sites patched, semaphores raised
 */

/* One site that is being installed. */
struct install_site {
	bool wanted; /* it gets a stub */
	bool is_new; /* it is not patched yet: `reg` describes how it will be */
	/*
	 * Notes may name the same address: index of the first of its sites, which
	 * alone is planned and patched. The others' stubs are linked before its own.
	 */
	size_t first;
	struct reg_site reg;
	uint64_t hop;			 /* that a short jump leads to; 0: none */
	uint64_t write_start, write_end; /* the bytes that its plan may write */
	uint64_t entry; /* where the jump leads: a pun's page, code of ours; 0: to the first stub */
	struct arch_twin twin; /* of two jumps; `first` is entry; else 0 */
	uint64_t stub;
	uint64_t head;	/* of a `first`: the stub that its jump leads to */
	uint64_t link;	/* of a `first`: where another stub's jump to head is; 0: head is entered */
	uint32_t below; /* of a `first`: the order of the stub that was there before, under them */
	uint32_t order; /* of the stub; see reg_stub. Of a `first`: of head */
	bool joins;	/* it is new, and patched with a neighbour that is (neighbours.c) */
	struct arch_stub_code code;
	struct arch_moved moved;
	uint64_t moved_to; /* address of its copies; several sites may stand before them */
};

struct install {
	struct change *change; /* that of the transaction */
	struct transaction *transaction;
	struct install *next; /* of those that were added to it */
	struct probe_report *report;
	struct selection *selection;
	const struct probe_request *request;
	struct install_site *sites; /* as many as the selection has */
	size_t *order;		    /* indices of those with an address, by address */
	size_t order_count;
	/*
	 * Says what the stub of a site does; NULL: it counts. `slot` is its probe's,
	 * `number` what its records call the site.
	 */
	void (*describe)(const void *data, const struct reg_session *session, uint32_t slot,
		uint32_t number, struct arch_stub *stub);
	const void *describe_data;
	/*
	 * Tells, from describe_data, whether a site's stubs of another session are entered before
	 * those of this one. NULL: no others are.
	 */
	bool (*comes_before)(const void *data, uint32_t session);
	/*
	 * Takes all that the controller needs of the session, once its stubs exist and before any
	 * site leads to them: an error undoes everything. NULL: nothing.
	 */
	struct probe_error *(*take)(void *data, struct install *install);
	void *take_data;
	uint32_t first_site; /* the number of selection->sites[0], the others follow; but: */
	/* Of probes that the session has had before: the numbers of their sites, their counters. */
	const uint32_t *numbers, *slots;
	uint32_t session;     /* 0 until it is created; else one that is there already */
	const char *file;     /* where the session's memory outlives the target; or NULL */
	bool created;	      /* it was */
	bool asks;	      /* set: some stub makes system calls, or would if it were allowed */
	bool waits;	      /* its hits wait for room, and make system calls for that */
	bool asks_name;	      /* set: some stub asks for the name of its thread */
	bool asks_cpu;	      /* set: ... for the number of its CPU */
	bool asks_stack;      /* set: ... for pages of its stack, or would if it were allowed */
	bool takes_time;      /* the stubs read the time stamp counter */
	uint64_t gate_offset; /* of that struct in the session's data */
	uint64_t gate_unless;
	bool persistent;
	/* Not 0: the stubs call functions of the target (REG_SESSION_CALLS); of whom. */
	uint64_t caller;
	struct data_needs needs; /* of a new session, beside counters */
	size_t spare_probes;	 /* room for probes of libraries to come */
	bool follow_children;	 /* forked children count as well */
	struct arch_safe safe;	 /* of the module whose stubs are being built */
	int fd;			 /* of the session's data, or -1 */
	uint64_t data_size;
	uint64_t *pun_pages;   /* of new sites, sorted */
	size_t pun_page_count; /* the first puns_mapped of them are mapped */
	size_t puns_mapped;
	struct reg_site *neighbours; /* new, of sites that share a jump, selected or not */
	size_t neighbour_count;
	bool served;  /* the same request switches others, or more may come: all may be refused */
	bool alone;   /* each site is planned as if there were no other; nothing is attached */
	bool no_puns; /* the target maps memory faster than it can be taken */
};

/* An install that will add this selection, and only counts; install_deinit() is due. */
struct install install_of(struct transaction *transaction, struct selection *selection,
	const struct probe_request *request);

/* The module of a site, by index; and where, in order[], the next module's sites begin. */
struct module *install_module(const struct install *install, size_t site);
size_t install_module_end(const struct install *install, size_t from);

/* Do its stubs wait for the controller (struct probe_gate)? Its only site is a gate then. */
bool install_is_gate(const struct install *install);

/* Gives each site of a selection room for its plan, which is empty until it is planned. */
PROBE_MUST_CHECK struct probe_error *install_make_plans(struct selection *selection);

/* plan_sites() for sites of one module, whose proofs may be known. */
PROBE_MUST_CHECK struct probe_error *install_plan_notes(struct module *module,
	const struct sdt_note *const *notes, size_t count, const struct plan_order *order,
	struct plan *ret);

/* Plans every site of the selection; again, if it has been done. */
PROBE_MUST_CHECK struct probe_error *install_plan(struct install *install);

/*
 * Puts refused sites into the report. Unless request->keep_going they are an error
 * (PROBE_ERROR_REFUSED) if one is of a probe that was named, or all are refused.
 */
PROBE_MUST_CHECK struct probe_error *install_refusals(
	const struct install *install, struct probe_report *report);

PROBE_MUST_CHECK struct probe_error *install_build(struct install *install);
void install_deinit(struct install *install);

/*
 * Plans, creates the session unless there is one, and builds. The install and its selection
 * have to stay until the transaction has ended. An error undoes all of this one.
 */
PROBE_MUST_CHECK struct probe_error *install_add(
	struct install *install, struct probe_report *report);
/*
 * Patches what was added, and changes what is counted, in one stop; and reports. If that fails, all
 * of it is undone.
 */
PROBE_MUST_CHECK struct probe_error *install_commit(struct transaction *transaction);
/* Both for one alone. */
PROBE_MUST_CHECK struct probe_error *install_all(
	struct install *install, struct probe_report *report);

/*
 * Ends everything that has a reference count of 0: sites without a stub get
 * their bytes back, others are linked again, semaphores are lowered, memory is
 * freed as soon as no thread can be in it.
 */
PROBE_MUST_CHECK struct probe_error *uninstall_unreferenced(struct change *change);
/* The same, with the other changes of the transaction (TRANSACTION_ENDS). */
PROBE_MUST_CHECK struct probe_error *uninstall(struct transaction *transaction);

/* Ends what dead controllers left, as uninstall_unreferenced() does. */
PROBE_MUST_CHECK struct probe_error *install_heal(struct change *change);

/* How many sites could not be restored, because another tool's bytes are there. */
size_t uninstall_count_left(const struct registry *registry);

/* Is there code in the target that nothing leads to any more, and that a thread was in? */
bool uninstall_has_leftovers(const struct registry *registry);

/*
 * PROBE_ERROR_STATE if so much is left that no more may be added: if it is unknown whether a
 * thread of a process returns to code, each session leaves its own.
 */
PROBE_MUST_CHECK struct probe_error *uninstall_check_leftovers(const struct change *change);

/*
 * Sets the reference counts of sessions whose controllers are dead to 0, and looks for stubs that
 * have ended; above 0: uninstall_unreferenced() is due, before a site is added: the registry may
 * have sites whose patches were never written, or were restored already.
 */
size_t uninstall_find_dead(struct change *change);
/* The same, and any other work that was not finished. */
size_t uninstall_find_stale(struct change *change);

/* ---- Closed ---------------------------------------------------------------------------------- */

/* Libraries that the target closes while their sites are being patched. */

/* ---- Enable ---------------------------------------------------------------------------------- */

/* Switching selected probes within one change, as probe_target_enable() and the others do. */

struct transaction;

/* ---- Forecast -------------------------------------------------------------------------------- */

/* The plan that enabling a site would choose: in a process, or as far as a file proves. */

struct forecast_site {
	uint64_t pc;		     /* run-time; of a file, link-time */
	const struct plan_ops *plan; /* NULL: it would be refused */
	bool is_shared;		     /* its jump is that of its neighbours, too */
	char *reason;		     /* where it would be refused, else NULL; owned */
	char *instead; /* why no plan is possible that is preferred to this one, or NULL; owned */
	/* What it gets if all sites of the file, or of the process, are enabled, and why. */
	const struct plan_ops *together;
	char *together_reason; /* NULL if that is the same plan; owned */
};

/* The forecast for one process. Initialise with {0}. */
struct forecast {
	struct forecast_site *sites; /* sorted by pc */
	size_t count;
	char *reason; /* why nothing can be patched there; NULL: see the sites */
};

/*
 * The same of the sites of a file: without regard to what a process has mapped. Errors:
 * PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (it can only be listed).
 */
void forecast_deinit(struct forecast *forecast);

/* ---- Gathered -------------------------------------------------------------------------------- */

/* ---- Inherited ------------------------------------------------------------------------------- */

/* Copies of sessions in processes that were forked, and to which no parent leads any more. */

/*
 * A session of this process goes on from here, and *goes_on_ret says so. To be called before it
 * changes its target, which is `pid`. Thread-safe, as all of these.
 */
void inherited_begin(pid_t pid, bool *goes_on_ret);
/* A number that a process shares with all that it forks, until they execute a program; 0: unknown.
 */
uint64_t inherited_image(pid_t pid);
/* How many processes have each of `count` images, except those that have ended: in ret[count]. */
void inherited_count(const uint64_t *images, size_t count, size_t *ret);
/*
 * It goes on no longer: it has been stopped; or could not be, in `failed` (0: it has been). After
 * the last one, its copies and those of the others are removed; `report` gets a note about each
 * other process that keeps them. Errors: PROBE_ERROR_MEMORY, for a note.
 */
PROBE_MUST_CHECK struct probe_error *inherited_end(
	bool *goes_on, pid_t failed, struct probe_report *report);
/* The same for one that failed, is left to its target, or is freed as it is. Removes nothing. */
void inherited_forget(bool *goes_on);

/*
 * Removes the copies in one process to which nothing has been added since it was forked. Errors:
 * those of a change.
 */
PROBE_MUST_CHECK struct probe_error *inherited_remove(struct probe_target *target);

/* ---- Known ----------------------------------------------------------------------------------- */

/* ---- Later ----------------------------------------------------------------------------------- */

/* Files that a target has mapped since its probes were enabled last: struct probe_request, later.
 */

/* Removes the probes of modules that were noted from a selection, if the request asks for that. */
void later_drop(const struct probe_target *target, const struct probe_request *request,
	struct selection *selection);

/* ---- List ------------------------------------------------------------------------------------ */

/* The contents of a list; private to libprobe/list. */

/* A file, or a module of a process, that has probes. */
struct list_file {
	char *path;
	char *build_id;
	uint16_t machine;
	struct sdt_notes notes; /* owns the strings of its sites */
	uint64_t bias;
	uint64_t start, end; /* where a process has mapped it */
	/* For details: kept for modules, which may have no path; otherwise opened on demand. */
	struct object *object;
	int fd; /* of a module's object, or -1 */
	bool object_tried;
	struct lines *lines;
	bool lines_tried;
	size_t lines_asked; /* how often */
	size_t lines_next;  /* index of the first site that was not asked for beside another */
	size_t first_site;  /* index of the site of its first note */
	struct forecast forecast; /* of its sites; made on demand */
	bool plans_tried;
};

/* Additional data of a site, at the same index as in probe_list.sites. */
struct list_site {
	size_t file; /* index */
	enum sdt_kind kind;
	struct line line;
	bool line_known;
	struct probe_arg *args; /* one allocation, with the text of the specs; NULL: not parsed */
	size_t arg_count;
};

/* A process whose sites' details were requested. */
struct list_process {
	pid_t pid;
	struct forecast forecast;
};

struct probe_list {
	struct list_process *processes;
	size_t process_count;
	struct list_file *files;
	size_t file_count;
	struct probe_site *sites;
	struct list_site *more;
	size_t site_count, site_room;
	struct probe_defect *defects; /* paths and texts are owned */
	size_t defect_count;
};

/* ---- Mend ------------------------------------------------------------------------------------ */

/* ---- Neighbours ------------------------------------------------------------------------------ */

/* Sites that share a jump, or whose jump leads elsewhere first: what is built for them. */

/* The code of one module's sites, in one piece. */
struct piece {
	uint64_t start; /* in the target */
	uint8_t *bytes;
	size_t size, used;
};

/* Skips at least `length` bytes, up to where a stub may begin. */
void build_skip(const struct arch *arch, struct piece *p, size_t length);

/*
 * The moved instructions of site `i`, and the jump back. Errors: PROBE_ERROR_REFUSED (they cannot
 * be moved so far).
 */
PROBE_MUST_CHECK struct probe_error *build_tail(
	struct install *a, size_t i, const struct plan_way *move, struct piece *p);

/*
 * Describes how new site `i` is patched: alone of its neighbours, with entries for all of them,
 * or with those that were described before. Errors: those of build_tail(), PROBE_ERROR_MEMORY,
 * PROBE_ERROR_REFUSED (out of reach).
 */
PROBE_MUST_CHECK struct probe_error *neighbours_describe(
	struct install *a, size_t i, struct piece *p);

/* ---- Puns ------------------------------------------------------------------------------------ */

/*
 * The memory that punned sites jump to: a page each, or a place in an arena of ours. And where
 * short jumps lead to: unused bytes of the program (libprobe/patch/plans/hop.c).
 */

/*
 * Takes a place that a punned site's bytes can jump to, if one is available, preferably a near one.
 * Returns NULL, or why not (static text).
 */
const char *puns_take(struct install *install, struct arch_pun pun, uint64_t *entry_ret);

/*
 * The same for the jump at an offset from a site: `fixed` bytes of its distance stay as they are.
 */
const char *puns_take_at(
	struct install *install, const struct select_site *site, size_t offset, unsigned int fixed);

/* The same for a jump that can lead to each address of an extent. */
const char *puns_take_part(struct install *install, struct arch_extent to, uint64_t *entry_ret);

/* Takes a page that two jumps at an address can lead to. */
const char *puns_take_twin(struct install *install, uint64_t at, struct arch_twin *ret);

/*
 * Maps the pages that were taken, before anything else that this change maps could come to lie
 * there. *again_ret: one of them is in use meanwhile. Then none is mapped, and the maps are read
 * again.
 */
PROBE_MUST_CHECK struct probe_error *puns_map(struct install *install, bool *again_ret);

/* Gives back what was taken and mapped, and is not announced. */
void puns_drop(struct install *install);

/* A pun's place, as the registry has it. */
void puns_place(
	const struct registry *registry, uint64_t entry, uint64_t *start_ret, uint32_t *size_ret);

/* Enters the pages into the registry, which exists now. */
PROBE_MUST_CHECK struct probe_error *puns_announce(struct install *install);

/* Writes the jumps to the stubs of new sites, and those of twins to their tails. */
PROBE_MUST_CHECK struct probe_error *puns_write(const struct install *install);

/* The file's bytes where a site's short jump may lead. Returns their number. */
size_t hops_original(
	const struct install *install, const struct install_site *as, uint64_t hop, uint8_t *bytes);

/*
 * Writes the jumps that short jumps of new sites will lead to, once the registry names them. The
 * target runs. PROBE_ERROR_REFUSED where the file's bytes are not there.
 */
PROBE_MUST_CHECK struct probe_error *hops_write(const struct install *install);

/*
 * Writes back what was there, at the flagged sites of the registry: they are restored, and no
 * thread is at their hops. What is not our jump stays.
 */
PROBE_MUST_CHECK struct probe_error *hops_give_back(const struct change *change, const bool *sites);

/* ---- Report ---------------------------------------------------------------------------------- */

/* Adds a refused site, with copies of its strings; `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_refusal(struct probe_report *report,
	const struct select_probe *probe, const struct select_site *site);

/*
 * An error makes a probe of a selection unwanted. The error is freed, and reported once. The caller
 * then drops what is unwanted.
 */
PROBE_MUST_CHECK struct probe_error *report_drop(struct selection *selection,
	struct select_probe *probe, struct probe_error *why, struct probe_report *report);

/* Drops the probes that lack arguments; each is reported once. */
PROBE_MUST_CHECK struct probe_error *report_drop_lacking(
	struct selection *selection, struct probe_report *report);

/*
 * Drops the probes of modules that cannot be read, because nothing can be proved about their sites;
 * the report lists each site as refused. Returns PROBE_ERROR_REFUSED if the request does not keep
 * going and a pattern names such a probe exactly, or if nothing else was selected and `served` is
 * not set.
 */
PROBE_MUST_CHECK struct probe_error *report_drop_unread(struct selection *selection,
	const struct probe_request *request, bool served, pid_t pid, struct probe_report *report);

/* Adds a note about a session; `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_note(
	struct probe_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds notes if the program has taken memory of ours, or has sealed memory that should be freed. */
PROBE_MUST_CHECK struct probe_error *report_memory(
	struct probe_report *report, const struct change *change);
#define REPORT_LOST                                                                                \
	"process %d has mapped memory over that of probectl, or unmapped it: the probes that "     \
	"needed it are off"
#define REPORT_SEALED                                                                              \
	"process %d has sealed %ju KiB of probectl's memory: it stays until the program ends"

#endif
