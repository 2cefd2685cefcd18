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
 * Attempts to probe a target. Everything is built for threads as they usually are, but some facts
 * about threads are known only once all of them are stopped. If the code does not suit these facts,
 * the attempt fails and is undone, and the next attempt knows the facts.
 */

struct attempt {
	const struct probe_target *target;
	struct probe_report *report;
	unsigned int lessons; /* target->lessons at the start of the attempt */
	size_t refusals;      /* number of refusals in the report before the first attempt */
	bool is_made;
	struct probe_error *error; /* error of the last attempt; set and owned by the caller */
};

/* The caller owns the target and the report, which outlive the attempts. */
struct attempt attempt_begin(const struct probe_target *target, struct probe_report *report);
/*
 * Must an attempt be made? True for the first attempt, and if the last attempt failed and revealed
 * a new fact. Then frees the error of the last attempt, and removes its refusals from the report.
 *
 *	while (attempt_next(&attempt))
 *		attempt.error = enable_once(target, request, report);
 *	return attempt.error;
 */
bool attempt_next(struct attempt *attempt);

/* ---- Claims ---------------------------------------------------------------------------------- */

/*
 * Claims: the bytes of each patch. Sites may be closer to each other than the length of a jump. A
 * patch writes bytes, a pun also reads the bytes of its displacement, and moved instructions no
 * longer run in place. No other patch may write any of these bytes.
 */

/*
 * The bytes of one patch. It relies on [start, end), and writes [start, written_end). If start
 * equals end, the patch was removed, but the code that it led to still returns to start.
 */
struct claim {
	uint64_t start, end;
	uint64_t written_end;
};

/* Claims, sorted by start. Initialise with {0}. */
struct claims {
	struct claim *items;
	size_t count;
	/* Patch, hop and plan of the last site that shares its jump with neighbours. */
	uint64_t shared, shared_hop;
	const struct plan_ops *shared_plan;
};

/* Returns the bytes that a plan would write or rely on at a site. */
struct claim claim_of_plan(const struct select_site *site, const struct plan_ops *ops);
/* Returns the claim of a hop, the target of a short jump. No thread continues there. */
struct claim claim_of_hop(const struct arch *arch, uint64_t hop);

/* Does a claim conflict with one of `claims`? */
bool claims_meet(const struct claims *claims, struct claim claim);
/* Would a plan use the jump of an earlier site? Sites are planned by ascending address. */
bool claims_have_jump(
	const struct claims *claims, const struct select_site *site, const struct plan_ops *ops);
/* Adds the claims of a site's chosen plan and of its hop (or 0). False if out of memory. */
bool claims_take(const struct arch *arch, struct claims *claims, const struct select_site *site,
	uint64_t hop);

/* Reasons why a plan conflicts with the plans of other sites. */
extern const char claims_overlap[], claims_no_spare[];

void claims_deinit(struct claims *claims);

/* ---- Semaphores ------------------------------------------------------------------------------ */

/* Semaphores: 16-bit counters in a target's data. At 0, a probe computes no arguments. */

/*
 * Returns the offset, from the note's address, of the counter of users of OCaml's handlers
 * (SDT_OCAML). 0 for other kinds, which have one counter for all users.
 */
uint64_t semaphore_offset(enum sdt_kind kind);

/*
 * Finds the distinct semaphores of a probe that tracers raise, sorted. `addresses` has room for
 * probe->site_count.
 */
size_t semaphores_of(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses);
/*
 * Like semaphores_of(), and adds the semaphores of probes of the same provider and module that
 * match `with` (probe_meaning.with, or NULL). The caller frees the array. NULL if out of memory.
 */
uint64_t *semaphores_raised(const struct selection *selection, const struct select_probe *probe,
	const char *with, size_t *count_ret);
/* Like semaphores_of(), for the counters of users of OCaml's own handlers. */
size_t semaphores_of_handlers(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses);

/* Changes of semaphores that are made at once. Initialise with {0}. */
struct semaphores {
	struct semaphore_change {
		uint64_t address;
		int32_t by;
		bool is_set; /* sets the semaphore to `value` */
		uint16_t value;
		uint16_t least; /* lowest allowed new value, see semaphores_keep() */
	} * items;
	size_t count;
	struct edits edits;
};

/* Adds a change by `by`; 0 sets the semaphore to 0. False if out of memory. */
bool semaphores_add(struct semaphores *semaphores, uint64_t address, int by);
/* Adds a change to `value`. False if out of memory. */
bool semaphores_set(struct semaphores *semaphores, uint64_t address, uint16_t value);

/* The last step before threads are stopped: sorts the changes and allocates memory. */
PROBE_MUST_CHECK struct probe_error *semaphores_prepare(struct semaphores *semaphores);

/* Returns how many semaphores are lower than the registry says, or 0 if that is unknown. */
size_t semaphores_short(const struct registry *registry, pid_t pid);

void semaphores_deinit(struct semaphores *semaphores);

/*
 * Reads the semaphores and computes their new values. Another tool may have lowered a semaphore, so
 * no value becomes less than 0, or than semaphores_keep() allows. A semaphore to be lowered that no
 * longer exists is skipped. Errors: PROBE_ERROR_STATE (overflow), PROBE_ERROR_FORMAT (a semaphore
 * to be raised is unreadable), those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *semaphores_read(struct semaphores *semaphores, pid_t pid);

/* Finds the new value of a semaphore after semaphores_read(). Returns false if it is not mapped. */
bool semaphores_coming(const struct semaphores *semaphores, uint64_t address, uint16_t *ret);

/* Writes all semaphores, or none. */
PROBE_MUST_CHECK struct probe_error *semaphores_write(struct semaphores *semaphores, int mem);

/* ---- Toggles --------------------------------------------------------------------------------- */

/*
 * Toggles: OCaml's own switches. Their state is only in the target, where OCaml's tools find it,
 * too: a counter of the handler's users, and one byte at each site (struct arch_toggle).
 */

struct change;
struct transaction;

/* Sites that are switched together. Initialise with {0}. */
struct toggles {
	struct toggle {
		uint64_t semaphore; /* address of the counter of the handler's users, or 0 */
		bool on;	    /* state to set if there is no counter */
	} * items;
	size_t count;
	struct edits edits; /* the byte of each site, in the order of `items` */
};

void toggles_deinit(struct toggles *toggles);

/* May a probe's sites be toggles, as far as its kind and the request tell? */
bool toggles_asked(const struct select_probe *probe, const struct probe_request *request);

/*
 * Takes the probes that are switched by toggles out of a selection, and adds their changes to a
 * transaction: their handlers are called from then on (`on`), or not. If `on` is false, probes
 * whose handlers are off stay in the selection, unless request->force. Errors: PROBE_ERROR_REFUSED
 * (the bytes of a site are neither on nor off; with request->keep_going the site is only reported),
 * PROBE_ERROR_STATE (a counter would overflow), those of plan_sites() and edits_read().
 */
PROBE_MUST_CHECK struct probe_error *toggles_take(struct transaction *transaction,
	struct selection *selection, const struct probe_request *request, bool on,
	struct probe_report *report);

/*
 * Returns in *ret whether a probe is switched by toggles, and in *count_ret how many users its
 * handlers have. Errors: those of plan_sites().
 */
PROBE_MUST_CHECK struct probe_error *toggles_count(const struct change *change,
	struct selection *selection, const struct select_probe *probe,
	const struct probe_request *request, bool *ret, uint16_t *count_ret);

/* The last step before the stop. */
PROBE_MUST_CHECK struct probe_error *toggles_prepare(struct toggles *toggles);

/*
 * Reads the toggles, and decides their new bytes from `semaphores`, which were just read. Errors:
 * PROBE_ERROR_REFUSED, those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *toggles_read(
	struct toggles *toggles, const struct semaphores *semaphores, pid_t pid);

/* ---- Transaction ----------------------------------------------------------------------------- */

/*
 * One change of a target's registry, and of the sites and semaphores that it describes. It is made
 * as a whole, or not at all.
 *
 *   (the caller changes its copy of the registry to announce the change)
 *   change_store()          announces it, so that the next controller can finish it
 *   (the caller changes its copy to the result, and adds edits and semaphores)
 *   transaction_prepare()   allocates memory, and writes the next registry
 *   change_stop()           unless only counts change
 *   transaction_read()      reads the memory to be changed; the caller checks it
 *   transaction_write()     writes sites, registry and semaphores
 *   change_resume()
 *   transaction_end()
 */

enum transaction_kind {
	TRANSACTION_ADDS, /* semaphores are raised */
	TRANSACTION_ENDS, /* semaphores are lowered */
	TRANSACTION_MENDS /* only sites are written; the registry stays */
};

struct install;

struct transaction {
	struct change *change; /* borrowed; a change has one transaction at a time */
	enum transaction_kind kind;
	bool atomic;		  /* stop all threads even if only counts change */
	struct install *installs; /* list of the installs to add, see install_add(); borrowed */
	struct edits text;
	struct semaphores semaphores;
	struct toggles toggles; /* edits of toggles, written together with `text` */
	struct windows windows; /* check of the edits that replace instructions */
	struct transaction_count {
		uint64_t key;
		int by;
	} * counts;
	size_t count_count, counted; /* the registry has the first `counted` of the counts */
	/* Images of the registry: one to go back to, and the next one. */
	struct code_extent before, next;
	bool written; /* everything is written, and cannot be undone */
};

/* Returns an empty transaction, to be ended by transaction_end(). */
struct transaction transaction_of(struct change *change, enum transaction_kind kind);
void transaction_end(struct transaction *transaction);

/*
 * Changes the count of a probe that is already on, of a persistent session, with the rest of the
 * transaction. `by` is not 0. False if out of memory.
 */
bool transaction_count(struct transaction *transaction, uint64_t key, int by);

/* Takes back the changes of counts, so that undoing announces the old counts. */
void transaction_uncount(struct transaction *transaction);

/*
 * Keeps the present registry, so that one word makes it current again. Must be called before
 * anything is announced. transaction_go_back() works until something is written.
 */
PROBE_MUST_CHECK struct probe_error *transaction_keep_way_back(struct transaction *transaction);
void transaction_go_back(struct transaction *transaction);

/* The last step before the stop. No edits or semaphores may be added afterwards. */
PROBE_MUST_CHECK struct probe_error *transaction_prepare(struct transaction *transaction);

/* Errors: those of edits_read(), semaphores_read() and toggles_read(). */
PROBE_MUST_CHECK struct probe_error *transaction_read(struct transaction *transaction);

/* Writes the change after all checks. An error leaves everything as it was. */
PROBE_MUST_CHECK struct probe_error *transaction_write(struct transaction *transaction);

/* Makes the whole change if it consists of counts, semaphores and toggles only. It may be empty. */
PROBE_MUST_CHECK struct probe_error *transaction_commit_counts(struct transaction *transaction);

/*
 * Stops the target, calls `look`, and writes the change. `look` reads and checks the memory. If
 * `look` sets *again_ret, a thread is in the way, and the commit is tried again, up to 20 times.
 * Then `what` is the text of the error (PROBE_ERROR_STATE).
 */
PROBE_MUST_CHECK struct probe_error *transaction_commit(struct transaction *transaction,
	struct probe_error *(*look)(void *data, bool *again_ret), void *data, const char *what);

/* ---- Install --------------------------------------------------------------------------------- */

/*
 * Adding sessions to a target, and removing sites and stubs that are no longer used.
 *
 *   install_add()        for each selection of probes:
 *     install_plan()     how each site will be patched, or why it is refused
 *     install_build()    memory, stubs and tails, written but not yet reachable
 *     install.take()     the controller maps and allocates its own memory
 *   install_commit()     all threads stopped, once for all that was added: bytes verified,
 *                        sites patched, semaphores raised
 */

/* One site that is being installed. */
struct install_site {
	bool wanted; /* the site gets a stub */
	bool is_new; /* the site is not patched yet; `reg` describes the coming patch */
	/*
	 * Several notes may name one address. Index of the first site at the address, which alone
	 * is planned and patched. The stubs of the other sites are linked before its stub.
	 */
	size_t first;
	struct reg_site reg;
	/* address of the hop that the site's short jump leads to, or 0 */
	uint64_t hop;
	uint64_t write_start, write_end; /* range of bytes that the site's plan may write */
	/* Target of the site's jump: a pun's page, or code of ours; 0 for the first stub. */
	uint64_t entry;
	struct arch_twin twin; /* bytes and targets of two jumps (`first` is `entry`), or zeros */
	uint64_t stub;
	uint64_t head; /* for a first site: address of the stub that the site's jump leads to */
	/* For a first site: address of the jump in an older stub that leads to `head`, or 0. */
	uint64_t link;
	uint32_t below; /* for a first site: order of the older stub below the new stubs */
	/* order of the stub (reg_stub); for a first site, order of the stub at `head` */
	uint32_t order;
	bool joins; /* the site is new, and shares the patch of a new neighbour (build.c) */
	struct arch_stub_code code;
	struct arch_moved moved;
	uint64_t moved_to; /* address of the moved instructions; several sites may share them */
};

struct install {
	struct change *change; /* the transaction's change */
	struct transaction *transaction;
	struct install *next; /* next install in the transaction's list */
	struct probe_report *report;
	struct selection *selection;
	const struct probe_request *request;
	struct install_site *sites; /* sites, parallel to selection->sites */
	/* indices of the sites that have an address, sorted by address */
	size_t *order;
	size_t order_count;
	/*
	 * Sets up the stub of a site; NULL for stubs that count. `slot` is the slot of the site's
	 * probe, `number` the number of the site in records.
	 */
	void (*describe)(const void *data, const struct reg_session *session, uint32_t slot,
		uint32_t number, struct arch_stub *stub);
	const void *describe_data;
	/* Are the stubs of another session entered before those of this session? NULL for no. */
	bool (*comes_before)(const void *data, uint32_t session);
	/*
	 * Takes the resources that the controller needs for the session, once its stubs exist and
	 * before any site leads to them. An error undoes everything. May be NULL.
	 */
	struct probe_error *(*take)(void *data, struct install *install);
	void *take_data;
	/* Number of the first site in records, if `numbers` is NULL; the next sites follow. */
	uint32_t first_site;
	/* For probes that the session had before: numbers of the sites, slots of the probes. */
	const uint32_t *numbers, *slots;
	uint32_t session; /* id of the session; 0 until a new session is created */
	/* Path of a file that keeps the session's memory after the target ends, or NULL. */
	const char *file;
	bool created;	/* this install created the session */
	bool asks;	/* result of the build: a stub makes system calls, or would if allowed */
	bool waits;	/* hits wait for room in the ring, and make system calls to wait */
	bool asks_name; /* result of the build: a stub asks for the name of its thread */
	bool asks_cpu;	/* result of the build: a stub asks for the number of its CPU */
	/* Result of the build: a stub asks for pages of its stack, or would if allowed. */
	bool asks_stack;
	bool takes_time;      /* the stubs read the time stamp counter */
	uint64_t gate_offset; /* offset of the struct probe_gate in the session's data */
	uint64_t gate_unless;
	bool persistent;
	/*
	 * Not 0 if stubs call functions of the target (REG_SESSION_CALLS): identifies the copy of
	 * this library that has them.
	 */
	uint64_t caller;
	struct data_needs needs; /* memory that a new session needs in addition to its counters */
	size_t spare_probes;	 /* room for probes of libraries that are opened later */
	bool follow_children;	 /* forked children count hits, too */
	/* Memory that the stubs of the current module may read without a check. */
	struct arch_safe safe;
	int fd; /* descriptor of the session's data, or -1 */
	uint64_t data_size;
	uint64_t *pun_pages;   /* addresses of the pages of new puns, sorted */
	size_t pun_page_count; /* the first puns_mapped of the pages are mapped */
	size_t puns_mapped;
	/* Sites that share a jump with new sites, selected or not. */
	struct reg_site *neighbours;
	size_t neighbour_count;
	/* All sites may be refused: the request switches other probes, or more will come. */
	bool served;
	bool alone;   /* plan each site as if it were the only one, and install nothing */
	bool no_puns; /* make no puns, because the target maps memory faster than it can be taken */
};

/* Returns an install that adds a selection, with stubs that count. install_deinit() frees it. */
struct install install_of(struct transaction *transaction, struct selection *selection,
	const struct probe_request *request);

/*
 * install_module() returns the module of a site. install_module_end() returns where the sites of
 * the next module begin in order[].
 */
struct module *install_module(const struct install *install, size_t site);
size_t install_module_end(const struct install *install, size_t from);

/* Do the stubs of an install wait for the controller? Then its only site is a gate. */
bool install_is_gate(const struct install *install);

/* Gives each site of a selection an empty plan, which install_plan() fills in. */
PROBE_MUST_CHECK struct probe_error *install_make_plans(struct selection *selection);

/* Calls plan_sites() for sites of one module, unless its file has kept their plans. */
PROBE_MUST_CHECK struct probe_error *install_plan_notes(struct module *module,
	const struct sdt_note *const *notes, size_t count, const struct plan_order *order,
	struct plan *ret);

/* Plans all sites of the selection. May be called again. */
PROBE_MUST_CHECK struct probe_error *install_plan(struct install *install);

/*
 * Puts refused sites into the report. Unless request->keep_going, they are an error
 * (PROBE_ERROR_REFUSED) if a pattern names the probe of one of them, or if all are refused.
 */
PROBE_MUST_CHECK struct probe_error *install_refusals(
	const struct install *install, struct probe_report *report);

PROBE_MUST_CHECK struct probe_error *install_build(struct install *install);
void install_deinit(struct install *install);

/*
 * Plans, creates the session unless it exists, and builds. The install and its selection must stay
 * until the transaction has ended. An error undoes this install.
 */
PROBE_MUST_CHECK struct probe_error *install_add(
	struct install *install, struct probe_report *report);
/*
 * Patches all sites that were added and changes the counts, in one stop, and fills in the reports.
 * If that fails, everything is undone.
 */
PROBE_MUST_CHECK struct probe_error *install_commit(struct transaction *transaction);
/* install_add() and install_commit() for a single install. */
PROBE_MUST_CHECK struct probe_error *install_all(
	struct install *install, struct probe_report *report);

/*
 * Ends everything that has a reference count of 0. Restores the bytes of sites without a stub,
 * links other sites again, lowers semaphores, and frees memory as soon as no thread can be in it.
 */
PROBE_MUST_CHECK struct probe_error *uninstall_unreferenced(struct change *change);
/* Like uninstall_unreferenced(), with the other changes of a transaction (TRANSACTION_ENDS). */
PROBE_MUST_CHECK struct probe_error *uninstall(struct transaction *transaction);

/* Ends the sessions of dead controllers, as uninstall_unreferenced() does. */
PROBE_MUST_CHECK struct probe_error *install_heal(struct change *change);

/* Returns how many sites were not restored because they hold another tool's bytes. */
size_t uninstall_count_left(const struct registry *registry);

/* Does the target have code to which nothing leads any more, but which a thread may be in? */
bool uninstall_has_leftovers(const struct registry *registry);

/*
 * Returns PROBE_ERROR_STATE if ended sessions have left too much code and data to add more. If it
 * is unknown whether a thread returns to code, each ended session leaves its memory.
 */
PROBE_MUST_CHECK struct probe_error *uninstall_check_leftovers(const struct change *change);

/*
 * Sets the reference counts of sessions whose controllers are dead to 0, and looks for stubs that
 * have ended. If the result is above 0, uninstall_unreferenced() must be called before a site is
 * added: the registry may have sites whose patches were never written, or were already restored.
 */
size_t uninstall_find_dead(struct change *change);
/* Like uninstall_find_dead(), and counts any other unfinished work. */
size_t uninstall_find_stale(struct change *change);

struct transaction;

/* ---- Forecast -------------------------------------------------------------------------------- */

/* The plan that enabling a site would choose: in a process, or as far as a file proves. */

struct forecast_site {
	uint64_t pc;		     /* run-time address; for a file, a link-time address */
	const struct plan_ops *plan; /* plan of the site, or NULL if the site would be refused */
	bool is_shared;		     /* the site's jump also serves its neighbours */
	char *reason;		     /* why the site would be refused, or NULL; owned */
	char *instead;		     /* why the preferred plans are not possible, or NULL; owned */
	/* The plan of the site if all sites of the file or process are enabled. */
	const struct plan_ops *together;
	/* why `together` is not `plan`, or NULL; owned */
	char *together_reason;
};

/* The forecast for one process or file. Initialise with {0}. */
struct forecast {
	struct forecast_site *sites; /* forecasts of sites, sorted by pc */
	size_t count;
	char *reason; /* why no site at all can be patched, or NULL; owned */
};

/* Frees the sites and texts of a forecast. */
void forecast_deinit(struct forecast *forecast);

/* ---- Inherited ------------------------------------------------------------------------------- */

/* Removes copies of sessions from forked processes whose parents are no target any more. */

/*
 * Records that a session of this process goes on, and sets *goes_on_ret. Must be called before the
 * session changes its target `pid`. All functions of this section are thread-safe.
 */
void inherited_begin(pid_t pid, bool *goes_on_ret);
/*
 * Returns a number that a process shares with all its forked children until they execute another
 * program; 0 if unknown.
 */
uint64_t inherited_image(pid_t pid);
/* Counts the living processes that have images[i], and stores the result in ret[i]. */
void inherited_count(const uint64_t *images, size_t count, size_t *ret);
/*
 * Records that a session no longer goes on. `failed` is the target if the session could not be
 * stopped there, or 0. After the last session, removes the copies of all sessions, and adds a note
 * to `report` for each process that keeps copies. Errors: PROBE_ERROR_MEMORY, for a note.
 */
PROBE_MUST_CHECK struct probe_error *inherited_end(
	bool *goes_on, pid_t failed, struct probe_report *report);
/*
 * Like inherited_end() for a session that failed, stays in its target, or is freed. Removes
 * nothing.
 */
void inherited_forget(bool *goes_on);

/* Removes copies in a process if nothing was added since its fork. Errors: those of a change. */
PROBE_MUST_CHECK struct probe_error *inherited_remove(struct probe_target *target);

/* ---- Later ----------------------------------------------------------------------------------- */

/* Files that a target has mapped since its probes were last enabled: see probe_request.later. */

/* If request->later is set, removes the probes of modules that were served before. */
void later_drop(const struct probe_target *target, const struct probe_request *request,
	struct selection *selection);

/* ---- List ------------------------------------------------------------------------------------ */

/* The contents of a list; private to list.c and forecast.c. */

/* A file, or a module of a process, that has probes. */
struct list_file {
	char *path;
	char *build_id;
	uint16_t machine;
	struct sdt_notes notes; /* notes of the file; they own the strings of its sites */
	uint64_t bias;
	uint64_t start, end; /* range of run-time addresses in a process */
	/* For details. Modules keep their object, because they may have no path. */
	struct object *object;
	int fd; /* descriptor of a module's object, or -1 */
	bool object_tried;
	struct lines *lines;
	bool lines_tried;
	size_t lines_asked; /* how often a source line was looked up */
	/* Index of the first site whose line was not looked up along with another site's. */
	size_t lines_next;
	size_t first_site;	  /* index of the first site of the file */
	struct forecast forecast; /* forecasts of the file's sites; made on demand */
	bool plans_tried;
};

/* More data of a site, at the same index as in probe_list.sites. */
struct list_site {
	size_t file; /* index in probe_list.files */
	enum sdt_kind kind;
	struct line line;
	bool line_known;
	/* The arguments and the text of their specs, in one allocation; NULL if not parsed. */
	struct probe_arg *args;
	size_t arg_count;
};

/* A process for which details of sites were requested. */
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
	struct probe_defect *defects; /* paths and texts are owned by the list */
	size_t defect_count;
};

/* ---- Neighbours ------------------------------------------------------------------------------ */

/* The code that is built for sites that share a jump or have a hop. */

/* A piece of memory with the code of one module's sites. */
struct piece {
	uint64_t start; /* address in the target */
	uint8_t *bytes;
	size_t size, used;
};

/* Skips at least `length` bytes, up to an address where a stub may begin. */
void build_skip(const struct arch *arch, struct piece *p, size_t length);

/*
 * Builds the moved instructions of site `i`, and the jump back. Errors: PROBE_ERROR_REFUSED (the
 * instructions cannot be moved so far).
 */
PROBE_MUST_CHECK struct probe_error *build_tail(
	struct install *a, size_t i, const struct plan_way *move, struct piece *p);

/*
 * Describes how new site `i` is patched. For the first site among neighbours, builds entries for
 * all of them; a later site gets the description that was made then. Errors: those of build_tail(),
 * PROBE_ERROR_MEMORY, PROBE_ERROR_REFUSED (out of reach).
 */
PROBE_MUST_CHECK struct probe_error *neighbours_describe(
	struct install *a, size_t i, struct piece *p);

/* ---- Puns ------------------------------------------------------------------------------------ */

/*
 * The targets of the jumps at sites. A punned site jumps to a page of its own, or to an arena of
 * ours. A short jump leads to unused bytes of the program (libprobe/patch/plans/hop.c).
 */

/*
 * Takes a free place that a punned site's bytes can jump to, preferably a near one. Returns NULL,
 * or the reason why there is no such place (static text).
 */
const char *puns_take(struct install *install, struct arch_pun pun, uint64_t *entry_ret);

/* Like puns_take(), for a jump at `offset` from a site; `fixed` bytes of the displacement stay. */
const char *puns_take_at(
	struct install *install, const struct select_site *site, size_t offset, unsigned int fixed);

/* Like puns_take(), for a jump that can lead to each address of an extent. */
const char *puns_take_part(struct install *install, struct arch_extent to, uint64_t *entry_ret);

/* Takes a page to which two jumps at an address can lead. */
const char *puns_take_twin(struct install *install, uint64_t at, struct arch_twin *ret);

/*
 * Maps the pages that were taken, before this change maps anything else that could take their
 * addresses. If *again_ret is set, a page is in use meanwhile: then no page is mapped, and the maps
 * were read again.
 */
PROBE_MUST_CHECK struct probe_error *puns_map(struct install *install, bool *again_ret);

/* Frees the pages that were taken or mapped but not announced. */
void puns_drop(struct install *install);

/* Returns the extent of a pun, as the registry records it. */
void puns_place(
	const struct registry *registry, uint64_t entry, uint64_t *start_ret, uint32_t *size_ret);

/* Enters the pages into the registry, which exists now. */
PROBE_MUST_CHECK struct probe_error *puns_announce(struct install *install);

/* Writes the jumps from puns to the stubs of new sites, and from twins to their tails. */
PROBE_MUST_CHECK struct probe_error *puns_write(const struct install *install);

/* Reads the file's bytes at the hop of a site. Returns how many were read. */
size_t hops_original(
	const struct install *install, const struct install_site *as, uint64_t hop, uint8_t *bytes);

/*
 * Writes the full jumps at the hops of new sites, once the registry lists them. The target runs.
 * Errors: PROBE_ERROR_REFUSED (the memory does not hold the file's bytes).
 */
PROBE_MUST_CHECK struct probe_error *hops_write(const struct install *install);

/*
 * Restores the bytes at the hops of the flagged sites, which are restored, and at whose hops no
 * thread is. A hop without our jump is left alone.
 */
PROBE_MUST_CHECK struct probe_error *hops_give_back(const struct change *change, const bool *sites);

/* ---- Report ---------------------------------------------------------------------------------- */

/* Adds a refused site, with copies of its strings; `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_refusal(struct probe_report *report,
	const struct select_probe *probe, const struct select_site *site);

/*
 * Marks a probe of a selection as unwanted because of an error. Reports the error once, and frees
 * it. The caller then drops unwanted probes.
 */
PROBE_MUST_CHECK struct probe_error *report_drop(struct selection *selection,
	struct select_probe *probe, struct probe_error *why, struct probe_report *report);

/* Drops the probes that lack arguments; each is reported once. */
PROBE_MUST_CHECK struct probe_error *report_drop_lacking(
	struct selection *selection, struct probe_report *report);

/*
 * Drops the probes of unreadable modules, because nothing can be proved about their sites; the
 * report lists each site as refused. Returns PROBE_ERROR_REFUSED if the request does not keep going
 * and a pattern names such a probe exactly, or if nothing else was selected and `served` is not
 * set.
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
