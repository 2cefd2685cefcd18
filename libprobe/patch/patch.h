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
 * Attempts to probe a target. Code is generated for threads as they usually are. Some facts about
 * the threads are known only once all of them are stopped. If the code does not suit these facts,
 * the attempt fails and is undone, and the next attempt takes the facts into account.
 */

struct attempt {
	const struct probe_target *target;
	struct probe_report *report;
	unsigned int lessons; /* value of target->lessons at the start of the attempt */
	size_t refusals;      /* number of refusals in the report before the first attempt */
	bool is_made;
	struct probe_error *error; /* error of the last attempt; set and owned by the caller */
};

/* The caller owns the target and the report, which outlive the attempts. */
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
 * Claims: the bytes that belong to each patch, because sites may be closer to each other than the
 * length of a jump. A patch owns the bytes that it writes. A pun also relies on the bytes of its
 * displacement. Moved instructions no longer run in place. No other patch may write any of these
 * bytes.
 */

/*
 * The claim of one patch. The patch relies on [start, end), and writes [start, written_end). If
 * start equals end, the patch was removed, but code of ours may still return to start.
 */
struct claim {
	uint64_t start, end;
	uint64_t written_end;
};

/* Claims, sorted by start. Initialise with {0}. */
struct claims {
	struct claim *items;
	size_t count;
	/* address of the patch, hop and plan of the last site whose jump serves several sites */
	uint64_t shared, shared_hop;
	const struct plan_ops *shared_plan;
};

/* Returns the claim of a plan: the bytes that the plan would write or rely on at a site. */
struct claim claim_of_plan(const struct select_site *site, const struct plan_ops *ops);
/* Returns the claim of a hop, the full jump to which a short jump leads. */
struct claim claim_of_hop(const struct arch *arch, uint64_t hop);

/* Returns true if a claim conflicts with one of `claims`. */
bool claims_meet(const struct claims *claims, struct claim claim);
/*
 * Returns true if a plan would use the jump of an earlier site. Sites must be planned in ascending
 * order.
 */
bool claims_have_jump(
	const struct claims *claims, const struct select_site *site, const struct plan_ops *ops);
/*
 * Adds the claim of a site's chosen plan and, if `hop` is not 0, of its hop. Returns false if out
 * of memory.
 */
bool claims_take(const struct arch *arch, struct claims *claims, const struct select_site *site,
	uint64_t hop);

/* Reasons why a plan conflicts with the plans of other sites. */
extern const char claims_overlap[], claims_no_spare[];

void claims_deinit(struct claims *claims);

/* ---- Semaphores ------------------------------------------------------------------------------ */

/*
 * Semaphores: 16-bit counters in a target's data. While the semaphore is 0, the program skips
 * computing the arguments of the probe.
 */

/*
 * Returns the offset, from the address in the note, of the counter that counts the users of OCaml's
 * handlers (SDT_OCAML). Returns 0 for other kinds of probes, which have one counter for all users.
 */
uint64_t semaphore_offset(enum sdt_kind kind);

/*
 * Finds the distinct semaphores that tracers raise for a probe, sorted. `addresses` must have room
 * for probe->site_count elements. Returns the number of semaphores.
 */
size_t semaphores_of(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses);
/*
 * Like semaphores_of(), but also finds the semaphores of probes in the same provider and module
 * that match `with` (probe_meaning.with, or NULL). The caller frees the array. Returns NULL if out
 * of memory.
 */
uint64_t *semaphores_raised(const struct selection *selection, const struct select_probe *probe,
	const char *with, size_t *count_ret);
/* Like semaphores_of(), but finds the counters of the users of OCaml's own handlers. */
size_t semaphores_of_handlers(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses);

/* Changes of semaphores that are made at once. Initialise with {0}. */
struct semaphores {
	struct semaphore_change {
		uint64_t address;
		int32_t by;
		bool is_set; /* the change sets the semaphore to `value` */
		uint16_t value;
		uint16_t least; /* the new value must be at least this; see semaphores_keep() */
	} * items;
	size_t count;
	struct edits edits;
};

/*
 * Adds a change of a semaphore by `by`; if `by` is 0, the semaphore is set to 0. Returns false if
 * out of memory.
 */
bool semaphores_add(struct semaphores *semaphores, uint64_t address, int by);
/* Adds a change that sets a semaphore to `value`. Returns false if out of memory. */
bool semaphores_set(struct semaphores *semaphores, uint64_t address, uint16_t value);

/* The last step before threads are stopped: sorts the changes and allocates memory. */
PROBE_MUST_CHECK struct probe_error *semaphores_prepare(struct semaphores *semaphores);

/* Returns how many semaphores are lower than the sessions of the registry require; 0 if unknown. */
size_t semaphores_short(const struct registry *registry, pid_t pid);

void semaphores_deinit(struct semaphores *semaphores);

/*
 * Reads the semaphores and computes their new values. Another tool may have lowered a semaphore, so
 * each new value is raised to 0, and to the least value that semaphores_keep() has set. If a
 * semaphore to be lowered is not mapped any more, it is skipped. Errors: PROBE_ERROR_STATE
 * (overflow), PROBE_ERROR_FORMAT (a semaphore to be raised is unreadable), those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *semaphores_read(struct semaphores *semaphores, pid_t pid);

/*
 * Finds the new value that semaphores_read() has computed. Returns false if the semaphore is not
 * mapped.
 */
bool semaphores_coming(const struct semaphores *semaphores, uint64_t address, uint16_t *ret);

/* Writes all semaphores, or none. */
PROBE_MUST_CHECK struct probe_error *semaphores_write(struct semaphores *semaphores, int mem);

/* ---- Toggles --------------------------------------------------------------------------------- */

/*
 * Toggles: the switches that OCaml's compiler leaves at its probes. Their whole state is in the
 * target, where OCaml's own tools read and change it, too: a counter of the handler's users, and
 * one byte at each site (struct arch_toggle).
 */

struct change;
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

void toggles_deinit(struct toggles *toggles);

/*
 * Returns true if a probe's sites may be toggles, judging by the probe's kind and the request
 * alone.
 */
bool toggles_asked(const struct select_probe *probe, const struct probe_request *request);

/*
 * Takes the probes that are switched by toggles out of a selection, and adds their changes to a
 * transaction. With `on`, the handlers of these probes will be called, otherwise they will not. If
 * `on` is false, probes whose handlers are off stay in the selection, unless request->force.
 * Errors: PROBE_ERROR_REFUSED (the bytes of a site are neither on nor off; with request->keep_going
 * the site is only reported), PROBE_ERROR_STATE (a counter would overflow), those of plan_sites()
 * and edits_read().
 */
PROBE_MUST_CHECK struct probe_error *toggles_take(struct transaction *transaction,
	struct selection *selection, const struct probe_request *request, bool on,
	struct probe_report *report);

/*
 * Sets *ret to whether a probe is switched by toggles, and *count_ret to the number of users of the
 * probe's handlers. Errors: those of plan_sites().
 */
PROBE_MUST_CHECK struct probe_error *toggles_count(const struct change *change,
	struct selection *selection, const struct select_probe *probe,
	const struct probe_request *request, bool *ret, uint16_t *count_ret);

/* The last step before threads are stopped: allocates memory. */
PROBE_MUST_CHECK struct probe_error *toggles_prepare(struct toggles *toggles);

/*
 * Reads the toggles, and decides their new bytes. The new counts of users come from `semaphores`,
 * which must have been read just before. Errors: PROBE_ERROR_REFUSED, those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *toggles_read(
	struct toggles *toggles, const struct semaphores *semaphores, pid_t pid);

/* ---- Transaction ----------------------------------------------------------------------------- */

/*
 * One change of a target's registry, and of the sites and semaphores that the registry describes.
 * The change is made as a whole, or not at all.
 *
 *   (the caller changes its copy of the registry to announce the change)
 *   change_store()          announces it, so that the next controller can finish it
 *   (the caller puts the result into its copy, and adds edits and semaphores)
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
	TRANSACTION_MENDS /* only sites are written; the registry does not change */
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
	/* checks that no thread may return into the instructions that the edits replace */
	struct windows windows;
	struct transaction_count {
		uint64_t key;
		int by;
	} * counts;
	size_t count_count, counted; /* the first `counted` counts are already in the registry */
	/* Images of the registry in the target: the one to go back to, and the next one. */
	struct code_extent before, next;
	bool written; /* the change is written completely, and cannot be undone */
};

/* Returns an empty transaction. The caller must call transaction_end(). */
struct transaction transaction_of(struct change *change, enum transaction_kind kind);
void transaction_end(struct transaction *transaction);

/*
 * Changes the count of a probe that is already on in a persistent session, together with the rest
 * of the transaction. `by` must not be 0. Returns false if out of memory.
 */
bool transaction_count(struct transaction *transaction, uint64_t key, int by);

/*
 * Takes back the changes of counts, so that the registry announces the old counts during the
 * undoing.
 */
void transaction_uncount(struct transaction *transaction);

/*
 * Keeps the present image of the registry, so that transaction_go_back() needs to write only one
 * word. Must be called before anything is announced. transaction_go_back() may be called until
 * something is written to sites or semaphores.
 */
PROBE_MUST_CHECK struct probe_error *transaction_keep_way_back(struct transaction *transaction);
void transaction_go_back(struct transaction *transaction);

/* The last step before threads are stopped. No edits or semaphores may be added afterwards. */
PROBE_MUST_CHECK struct probe_error *transaction_prepare(struct transaction *transaction);

/*
 * Reads all memory to be changed. Errors: those of edits_read(), semaphores_read() and
 * toggles_read().
 */
PROBE_MUST_CHECK struct probe_error *transaction_read(struct transaction *transaction);

/* Writes the change; all checks must have been made. After an error, everything is as it was. */
PROBE_MUST_CHECK struct probe_error *transaction_write(struct transaction *transaction);

/*
 * Makes the whole change, if it consists only of counts, semaphores and toggles. The change may be
 * empty.
 */
PROBE_MUST_CHECK struct probe_error *transaction_commit_counts(struct transaction *transaction);

/*
 * Stops the target, calls `look`, and writes the change. `look` reads and checks the memory. `look`
 * sets *again_ret if a thread is in the way; the commit is then tried again, up to 20 times. After
 * the last try, the error is PROBE_ERROR_STATE with the text `what`.
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

/* One site that is being installed. */
struct install_site {
	bool wanted; /* the site gets a stub */
	bool is_new; /* the site is not patched yet; `reg` describes the coming patch */
	/*
	 * Index of the first site with the same address. Several notes may name one address; only
	 * the first site there is planned and patched. The stubs of the other sites are linked
	 * before the stub of the first site.
	 */
	size_t first;
	struct reg_site reg;
	/* address of the hop that the site's short jump leads to, or 0 */
	uint64_t hop;
	uint64_t write_start, write_end; /* range of bytes that the site's plan may write */
	/*
	 * Target of the site's jump: a page of a pun, or code of ours. 0 if the jump leads to the
	 * newest stub.
	 */
	uint64_t entry;
	/* bytes and targets of the two jumps of a twin (twin.first is `entry`), otherwise zeros */
	struct arch_twin twin;
	uint64_t stub;
	uint64_t head; /* for a first site: address of the stub that the site's jump leads to */
	/*
	 * For a first site: address of the jump in an older stub that will lead to `head`, or 0 if
	 * no older stub comes before the new stubs.
	 */
	uint64_t link;
	/* for a first site: order of the older stub to which the new stubs lead; 0 for the tail */
	uint32_t below;
	/* order of the stub (reg_stub.order); for a first site, order of the stub at `head` */
	uint32_t order;
	/* the site is new, and shares the patch that was built for another new site (build.c) */
	bool joins;
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
	 * Sets up the stub of a site. NULL if the stubs only count. `slot` is the slot of the
	 * site's probe; `number` is the number of the site in records.
	 */
	void (*describe)(const void *data, const struct reg_session *session, uint32_t slot,
		uint32_t number, struct arch_stub *stub);
	const void *describe_data;
	/*
	 * Returns true if the stubs of another session must be entered before the stubs of this
	 * session. NULL if the stubs of this session are always entered first.
	 */
	bool (*comes_before)(const void *data, uint32_t session);
	/*
	 * Takes the resources that the controller needs for the session. Called when the stubs
	 * exist, before any site leads to them. After an error, everything is undone. May be NULL.
	 */
	struct probe_error *(*take)(void *data, struct install *install);
	void *take_data;
	/*
	 * If `numbers` is NULL: the number that records use for the first site. The following sites
	 * have the following numbers.
	 */
	uint32_t first_site;
	/*
	 * For probes that the session had before: the numbers of the sites, and the slots of the
	 * probes.
	 */
	const uint32_t *numbers, *slots;
	uint32_t session; /* id of the session; 0 until a new session is created */
	/* Path of a file that keeps the session's memory after the target ends, or NULL. */
	const char *file;
	bool created; /* this install has created the session */
	/* set by the build: a stub makes system calls, or would make them if they were allowed */
	bool asks;
	bool waits;	/* hits wait for room in the ring, which takes system calls */
	bool asks_name; /* set by the build: a stub asks the kernel for the name of its thread */
	bool asks_cpu;	/* set by the build: a stub asks the kernel for the number of its CPU */
	/*
	 * Set by the build: a stub asks the kernel which pages of its stack exist, or would if
	 * allowed.
	 */
	bool asks_stack;
	bool takes_time;      /* the stubs read the time stamp counter */
	uint64_t gate_offset; /* offset in the session's data of the struct probe_gate */
	uint64_t gate_unless;
	bool persistent;
	/*
	 * If stubs call functions of the target (REG_SESSION_CALLS): identifies the copy of this
	 * library that has these functions. Otherwise 0.
	 */
	uint64_t caller;
	struct data_needs needs; /* memory that a new session needs in addition to its counters */
	/* additional counters, for probes of libraries that will be opened later */
	size_t spare_probes;
	bool follow_children; /* forked children count hits, too */
	/* Memory that the stubs of the current module may read without a check. */
	struct arch_safe safe;
	int fd; /* descriptor of the session's data, or -1 */
	uint64_t data_size;
	uint64_t *pun_pages;   /* addresses of the pages of new puns, sorted */
	size_t pun_page_count; /* of these pages, the first puns_mapped are mapped */
	size_t puns_mapped;
	/* All sites that share a jump with a new site, whether they are selected or not. */
	struct reg_site *neighbours;
	size_t neighbour_count;
	/*
	 * It is no error if all sites are refused: the request switches other probes, too, or will
	 * add more.
	 */
	bool served;
	bool alone; /* plan each site as if no other site were enabled, and install nothing */
	/*
	 * make no puns, because the target has repeatedly mapped memory where their pages should be
	 */
	bool no_puns;
};

/*
 * Returns an install that adds the probes of a selection, with stubs that only count. The caller
 * frees it with install_deinit().
 */
struct install install_of(struct transaction *transaction, struct selection *selection,
	const struct probe_request *request);

/*
 * install_module() returns the module of a site. install_module_end() returns the index in order[]
 * at which the sites of the next module begin.
 */
struct module *install_module(const struct install *install, size_t site);
size_t install_module_end(const struct install *install, size_t from);

/* Returns true if the only site of an install is a gate, whose stub waits for the controller. */
bool install_is_gate(const struct install *install);

/* Gives each site of a selection an empty plan, which install_plan() fills in. */
PROBE_MUST_CHECK struct probe_error *install_make_plans(struct selection *selection);

/*
 * Plans sites of one module as plan_sites() does, or takes the plans that the module's file has
 * kept.
 */
PROBE_MUST_CHECK struct probe_error *install_plan_notes(struct module *module,
	const struct sdt_note *const *notes, size_t count, const struct plan_order *order,
	struct plan *ret);

/* Plans all sites of the selection. May be called again, to plan them once more. */
PROBE_MUST_CHECK struct probe_error *install_plan(struct install *install);

/*
 * Adds the refused sites to the report. Returns PROBE_ERROR_REFUSED if a pattern names the probe of
 * a refused site, or if all sites are refused; but not if request->keep_going.
 */
PROBE_MUST_CHECK struct probe_error *install_refusals(
	const struct install *install, struct probe_report *report);

PROBE_MUST_CHECK struct probe_error *install_build(struct install *install);
void install_deinit(struct install *install);

/*
 * Plans an install, creates its session if the session is new, and builds the code. The install and
 * its selection must stay valid until the transaction has ended. After an error, this install is
 * undone.
 */
PROBE_MUST_CHECK struct probe_error *install_add(
	struct install *install, struct probe_report *report);
/*
 * Patches all sites of a transaction's installs and changes the counts, in one stop. Fills in the
 * reports. After an error, everything is undone.
 */
PROBE_MUST_CHECK struct probe_error *install_commit(struct transaction *transaction);
/* install_add() and install_commit() for a single install. */
PROBE_MUST_CHECK struct probe_error *install_all(
	struct install *install, struct probe_report *report);

/*
 * Ends everything that has a reference count of 0. Restores the bytes of sites that have no stub
 * left, makes the jumps of other sites skip the ended stubs, lowers semaphores, and frees memory as
 * soon as no thread can be in it.
 */
PROBE_MUST_CHECK struct probe_error *uninstall_unreferenced(struct change *change);
/*
 * Like uninstall_unreferenced(), and also makes the other changes of a transaction
 * (TRANSACTION_ENDS).
 */
PROBE_MUST_CHECK struct probe_error *uninstall(struct transaction *transaction);

/* Ends the sessions of dead controllers, in the way of uninstall_unreferenced(). */
PROBE_MUST_CHECK struct probe_error *install_heal(struct change *change);

/* Returns how many sites were not restored because they hold another tool's bytes. */
size_t uninstall_count_left(const struct registry *registry);

/*
 * Returns true if the target has code to which nothing leads any more, but which a thread may still
 * be in.
 */
bool uninstall_has_leftovers(const struct registry *registry);

/*
 * Returns PROBE_ERROR_STATE if ended sessions have left so much code and data that nothing may be
 * added. (As long as threads may return to its code, an ended session leaves its memory behind.)
 */
PROBE_MUST_CHECK struct probe_error *uninstall_check_leftovers(const struct change *change);

/*
 * Sets the reference counts of dead controllers' sessions to 0, and looks for stubs that have
 * ended. Returns how many were found. If the result is above 0, uninstall_unreferenced() must be
 * called before a site is added: the registry may have sites whose patches were never written, or
 * were already restored.
 */
size_t uninstall_find_dead(struct change *change);
/* Like uninstall_find_dead(), and also counts any other unfinished work. */
size_t uninstall_find_stale(struct change *change);

struct transaction;

/* ---- Forecast -------------------------------------------------------------------------------- */

/*
 * Forecasts the plan that enabling a site would choose: in a process, or for a file, as far as the
 * file alone tells.
 */

struct forecast_site {
	uint64_t pc;		     /* run-time address; for a file, a link-time address */
	const struct plan_ops *plan; /* plan of the site, or NULL if the site would be refused */
	bool is_shared;		     /* the jump of the site also serves its neighbours */
	char *reason;		     /* why the site would be refused, or NULL; owned */
	/* why plans that are preferred to `plan` are not possible, or NULL; owned */
	char *instead;
	/* Plan that the site gets if all sites of the file or process are enabled. */
	const struct plan_ops *together;
	/* why `together` differs from `plan`, or NULL; owned */
	char *together_reason;
};

/* The forecast for one process or file. Initialise with {0}. */
struct forecast {
	struct forecast_site *sites; /* forecasts of sites, sorted by pc */
	size_t count;
	char *reason; /* why no site of the process or file can be patched, or NULL; owned */
};

/* Frees the sites and texts of a forecast. */
void forecast_deinit(struct forecast *forecast);

/* ---- Inherited ------------------------------------------------------------------------------- */

/* Removes copies of sessions from forked processes whose parents are no longer targets. */

/*
 * Records that a session of this process goes on, and sets *goes_on_ret. Must be called before the
 * session changes its target `pid`. All functions of this section are thread-safe.
 */
void inherited_begin(pid_t pid, bool *goes_on_ret);
/*
 * Returns a number that identifies the image of a process: its forked children have the same number
 * until they execute another program. Returns 0 if the number is unknown.
 */
uint64_t inherited_image(pid_t pid);
/* For each i, sets ret[i] to the number of living processes whose image is images[i]. */
void inherited_count(const uint64_t *images, size_t count, size_t *ret);
/*
 * Records that a session no longer goes on. `failed` is the target if the session could not be
 * ended there, otherwise 0. When no session is left, removes the copies of all sessions, and adds a
 * note to `report` for each process that keeps copies. Errors: PROBE_ERROR_MEMORY, for a note.
 */
PROBE_MUST_CHECK struct probe_error *inherited_end(
	bool *goes_on, pid_t failed, struct probe_report *report);
/*
 * Like inherited_end(), but removes nothing. For a session that could not begin, that stays in its
 * target, or that is freed without an end.
 */
void inherited_forget(bool *goes_on);

/*
 * If a process was forked with copies of sessions, and nothing was added since then, removes the
 * copies. Errors: those of a change.
 */
PROBE_MUST_CHECK struct probe_error *inherited_remove(struct probe_target *target);

/* ---- Later ----------------------------------------------------------------------------------- */

/* Files that a target has mapped since its probes were enabled last: see probe_request.later. */

/* If request->later is set, removes the probes of modules whose probes were enabled before. */
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
	/*
	 * To look up details. The modules of a process keep their object open, because they may
	 * have no path.
	 */
	struct object *object;
	int fd; /* descriptor of a module's object, or -1 */
	bool object_tried;
	struct lines *lines;
	bool lines_tried;
	size_t lines_asked; /* how often a source line was looked up */
	/* index of the first site at which the search for unknown lines continues */
	size_t lines_next;
	size_t first_site;	  /* index of the first site of the file */
	struct forecast forecast; /* forecasts of the file's sites; made on demand */
	bool plans_tried;
};

/* More data of a site. Has the same index as the site in probe_list.sites. */
struct list_site {
	size_t file; /* index in probe_list.files */
	enum sdt_kind kind;
	struct line line;
	bool line_known;
	/*
	 * The arguments and the text of their specs, in one allocation; NULL if they were not
	 * parsed yet.
	 */
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

/* Builds the code for sites that share a jump or have a hop. */

/* A piece of memory with the code of one module's sites. */
struct piece {
	uint64_t start; /* address in the target */
	uint8_t *bytes;
	size_t size, used;
};

/* Fills at least `length` bytes of a piece, up to an address where a stub may begin. */
void build_skip(const struct arch *arch, struct piece *p, size_t length);

/*
 * Builds the moved instructions of site `i`, and the jump back to the program. Errors:
 * PROBE_ERROR_REFUSED (the instructions cannot be moved that far).
 */
PROBE_MUST_CHECK struct probe_error *build_tail(
	struct install *a, size_t i, const struct plan_way *move, struct piece *p);

/*
 * Describes how new site `i` is patched. If `i` is the first of its neighbours, builds the entries
 * of all of them; for the others, only copies the description that was made then. Errors: those of
 * build_tail(), PROBE_ERROR_MEMORY, PROBE_ERROR_REFUSED (out of reach).
 */
PROBE_MUST_CHECK struct probe_error *neighbours_describe(
	struct install *a, size_t i, struct piece *p);

/* ---- Puns ------------------------------------------------------------------------------------ */

/*
 * Puns: the targets of the jumps at sites. The jump of a punned site leads to a page of its own, or
 * to an arena of ours. A short jump leads to unused bytes of the program
 * (libprobe/patch/plans/hop.c).
 */

/*
 * Takes a free place to which the jump of a punned site can lead, preferably a near one. Returns
 * NULL, or (static text) why there is no such place.
 */
const char *puns_take(struct install *install, struct arch_pun pun, uint64_t *entry_ret);

/*
 * Like puns_take(), but for a jump that is `offset` bytes after a site, and of which `fixed` bytes
 * of the displacement must stay.
 */
const char *puns_take_at(
	struct install *install, const struct select_site *site, size_t offset, unsigned int fixed);

/* Like puns_take(), but for a jump that can lead to any address of the extent `to`. */
const char *puns_take_part(struct install *install, struct arch_extent to, uint64_t *entry_ret);

/* Takes a page to which the two jumps of a twin at address `at` can lead. */
const char *puns_take_twin(struct install *install, uint64_t at, struct arch_twin *ret);

/*
 * Maps the pages that were taken. Must be called before this change maps anything else, which might
 * get the address of such a page. Sets *again_ret if the process uses a page meanwhile: then no
 * page is mapped, and the maps were read again.
 */
PROBE_MUST_CHECK struct probe_error *puns_map(struct install *install, bool *again_ret);

/* Drops the pages that were taken but are not in the registry yet; unmaps those that are mapped. */
void puns_drop(struct install *install);

/* Finds the extent of the pun at `entry`, as the registry records it. */
void puns_place(
	const struct registry *registry, uint64_t entry, uint64_t *start_ret, uint32_t *size_ret);

/* Adds the pages of the puns to the registry. */
PROBE_MUST_CHECK struct probe_error *puns_announce(struct install *install);

/*
 * Writes the jumps in the pages of puns, which lead to the stubs of new sites. In the pages of
 * twins, also writes the jumps to the tails.
 */
PROBE_MUST_CHECK struct probe_error *puns_write(const struct install *install);

/* Reads the file's bytes at the hop of a site. Returns how many were read. */
size_t hops_original(
	const struct install *install, const struct install_site *as, uint64_t hop, uint8_t *bytes);

/*
 * Writes the full jumps at the hops of new sites. The registry must list the hops already. The
 * target runs meanwhile. Errors: PROBE_ERROR_REFUSED (the memory does not hold the file's bytes).
 */
PROBE_MUST_CHECK struct probe_error *hops_write(const struct install *install);

/*
 * Restores the bytes at the hops of the flagged sites. These sites must be restored already, and no
 * thread may be at their hops. A hop that does not hold our jump is left alone.
 */
PROBE_MUST_CHECK struct probe_error *hops_give_back(const struct change *change, const bool *sites);

/* ---- Report ---------------------------------------------------------------------------------- */

/* Adds a refused site to a report, with copies of the site's strings. `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_refusal(struct probe_report *report,
	const struct select_probe *probe, const struct select_site *site);

/*
 * Marks a probe of a selection as unwanted because of an error, adds the error to the report, and
 * frees it. The caller must then drop the unwanted probes.
 */
PROBE_MUST_CHECK struct probe_error *report_drop(struct selection *selection,
	struct select_probe *probe, struct probe_error *why, struct probe_report *report);

/* Drops the probes that lack arguments. Each of them is reported once. */
PROBE_MUST_CHECK struct probe_error *report_drop_lacking(
	struct selection *selection, struct probe_report *report);

/*
 * Drops the probes of unreadable modules, because nothing can be proved about their sites. Reports
 * each of these sites as refused. Unless the request keeps going, returns PROBE_ERROR_REFUSED if a
 * pattern names such a probe exactly, or if no other probe was selected and `served` is false.
 */
PROBE_MUST_CHECK struct probe_error *report_drop_unread(struct selection *selection,
	const struct probe_request *request, bool served, pid_t pid, struct probe_report *report);

/* Adds a note about a session to a report. `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_note(
	struct probe_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Adds a note if the program has taken memory of ours, and a note if it has sealed memory that
 * should be freed.
 */
PROBE_MUST_CHECK struct probe_error *report_memory(
	struct probe_report *report, const struct change *change);
#define REPORT_LOST                                                                                \
	"process %d has mapped memory over that of probectl, or unmapped it: the probes that "     \
	"needed it are off"
#define REPORT_SEALED                                                                              \
	"process %d has sealed %ju KiB of probectl's memory: it stays until the program ends"

#endif
