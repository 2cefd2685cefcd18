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

/* ---- Before ---------------------------------------------------------------------------------- */

/*
 * Sets `before` of OCaml's sites among `count` plans, whose other parts are set already, and of
 * those for which no other plan of `order` is possible; see plan_sites(). Errors: those of prove().
 */
PROBE_MUST_CHECK struct probe_error *before_plan(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const enum probe_plan *order, size_t order_count,
	struct plan *plans, size_t count);

/* ---- Pages ----------------------------------------------------------------------------------- */

/* Which pages a process has in memory, or swapped out. */

/* As the kernel hands it over (struct page_region). */
struct pages_run {
	uint64_t start, end;
	uint64_t categories;
};

struct pages {
	int pagemap; /* borrowed: /proc/PID/pagemap */
	bool by_entries;
	uint64_t *entries;
	struct pages_run *runs; /* of the last look */
};

/* False without memory. Only pages_close() is due afterwards, whatever it returns. */
bool pages_open(int pagemap, struct pages *ret);
void pages_close(struct pages *pages);

/*
 * Looks at a page, and at some of those behind it, up to `end`. `runs` are then where pages are
 * there, in order; one may go on in the next. Returns how many; *next_ret is the first page that
 * was not looked at. SIZE_MAX: nothing can be said.
 */
size_t pages_look(struct pages *pages, uint64_t at, uint64_t end, uint64_t *next_ret);

/* ---- Places ---------------------------------------------------------------------------------- */

/* Addresses that a thread may return to, and words of memory that say so. */

enum { PLACES_FILTER_BITS = 16 };

struct place {
	uint64_t start, end;
};

/* Initialise with {0}; call places_prepare() before places_have(). */
struct places {
	struct place *items; /* sorted, without overlaps */
	size_t count;
	/*
	 * They are pieces of our code: only program counters of images are reported. Other words
	 * may be data: registries that a process has read, samples of a profiler.
	 * Set by the caller.
	 */
	bool are_code;
	/*
	 * Not 0: words are also taken as setjmp(3) of glibc stores pointers, with this guard.
	 * Set by the caller.
	 */
	uint64_t guard;
	uint8_t guard_shift;
	uint64_t low, span; /* all of them lie in [low, low + span) */
	/* One bit per 64 bytes, modulo 2^16: clear where no place is. */
	uint64_t filter[(1 << PLACES_FILTER_BITS) / 64];
};

/* Adds [start, end), unless it is empty; false without memory. */
bool places_add(struct places *places, uint64_t start, uint64_t end);
void places_prepare(struct places *places);
bool places_have(const struct places *places, uint64_t address);
void places_deinit(struct places *places);

/*
 * What the kernel saves for a signal handler (struct rt_sigframe), as far as it was read;
 * `at` is where that begins. Copies that programs make of its context look the same.
 */
struct place_image {
	uint64_t at;
	uint64_t sp, pc;	   /* of the interrupted context */
	uint64_t stack, stack_end; /* the alternate stack of the thread; 0: it had none */
	uint64_t state;		   /* the floating-point state's address */
	bool is_remote;		   /* one that this library made: see control_run() */
};

enum { PLACE_IMAGE_MAX = 640 }; /* bytes, on any instruction set: arch_frame_layout.bytes */

/* Functions that get what is found; false ends the scan. */
struct place_visitor {
	void *data;
	/* A word that is a place. `is_context`: as the program counter of an image. */
	bool (*word)(void *data, uint64_t at, uint64_t word, bool is_context);
	bool (*image)(void *data, const struct place_image *image);
	bool only_images;	 /* report no words except their program counters */
	const struct maps *maps; /* of the process, which tell where its code is. NULL: unknown */
};

/*
 * Scans `size` bytes that were read at an address; both are multiples of 8. Reports words and
 * images that begin among the first `step` bytes. An image needs PLACE_IMAGE_MAX more bytes, and is
 * recognised only if they are there. A word of an image is reported before the image.
 */
bool places_scan(const struct places *places, uint64_t address, const uint8_t *bytes, size_t size,
	size_t step, const struct place_visitor *visitor);

/* ---- Search ---------------------------------------------------------------------------------- */

/*
 * The memory of a process is searched for words that are places: contexts that a thread
 * may come back with.
 */

/* A saved context whose program counter is a place. */
struct search_find {
	uint64_t at, word;
	bool is_remote; /* of what this library saved, to run a system call */
	uint64_t state; /* of a frame that is where the kernel made it: the rest of it; or 0 */
	/* Where such a frame lies: up to the stack it has interrupted, if that is there; or 0. */
	uint64_t frame, frame_end;
	bool is_over; /* for the caller: no thread resumes it */
};

/* Memory in which contexts were found: an alternate stack, or a mapping. */
struct search_part {
	uint64_t start, end;
	uint64_t last; /* the highest context */
};

struct search_source; /* how a mapping is read */

struct search {
	pid_t pid;
	int mem;
	const struct places *places;
	uint64_t skipped; /* a page that is not searched */
	int pagemap;
	uint8_t *buffer;
	struct pages pages;
	struct maps maps;	       /* of the last search of everything */
	struct search_source *sources; /* beside its items */
	struct backing backing;
	int file;			     /* that is read instead of the process; -1: none */
	uint64_t file_bias;		     /* from an address to the offset in it */
	const struct place_visitor *visitor; /* NULL: what is found is kept here */

	/* What was found. */
	struct search_find *finds;
	size_t find_count;
	struct search_part *parts;
	size_t part_count;
	const char *unknown; /* why not everything was searched; NULL: it was */
	uint64_t bytes;	     /* searched */
	bool no_memory;
};

/*
 * Prepares a search, also for a time when the process is stopped. `places` and `mem`
 * (memory_open()) are borrowed; `skipped` is the address of our own guard, or 0. Errors:
 * PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. Only search_close() is due after one.
 */
PROBE_MUST_CHECK struct probe_error *search_open(
	pid_t pid, int mem, const struct places *places, uint64_t skipped, struct search *ret);
void search_close(struct search *search);

/*
 * Searches everything that can hold a context. The process may run: a context that is there all the
 * time is found. What was found before is forgotten. Errors: those of maps_read().
 */
PROBE_MUST_CHECK struct probe_error *search_all(struct search *search);

/*
 * search_forget() forgets what was found, except parts. search_range() searches [start, end), and
 * adds to what was found since then. Neither disturbs a stopped process.
 */
void search_forget(struct search *search);
PROBE_MUST_CHECK struct probe_error *search_range(
	struct search *search, uint64_t start, uint64_t end);

/*
 * Searches the same memory as search_all(), for other places and another visitor. What was found
 * stays; `unknown` says why not everything was searched. Errors: those of search_all().
 */
PROBE_MUST_CHECK struct probe_error *search_words(
	struct search *search, const struct places *places, const struct place_visitor *visitor);

/* How much of [start, end) must be read, in bytes; UINT64_MAX if that is unknown. */
uint64_t search_measure(struct search *search, uint64_t start, uint64_t end);

/*
 * Is a found context certainly a leftover? A frame that the kernel has made for a handler is whole
 * until the handler returns, up to the end of the floating-point state; what is left of one on a
 * stack that has been used since seldom is.
 */
bool search_is_stale(const struct search *search, const struct search_find *find);

/* ---- Frames ---------------------------------------------------------------------------------- */

/* Where the stopped threads of a target are, and where they will return to from signal handlers. */

/* The used part of a stack, which was searched: from `low` to its end. */
struct frames_stack {
	uint64_t low, end;
	bool is_threads; /* made by libc or the kernel for the thread that runs on it */
};

struct served;

/*
 * Program counters; the first control->count are the threads' own, until they
 * are sorted. Everything else is prepared before the stop by frames_open().
 */
struct frames {
	uint64_t *pcs;
	size_t count, room;
	struct frames_stack *stacks; /* of the threads, and those that they will return to */
	size_t stack_count;
	pid_t pid;
	const struct maps *maps;
	struct maps fresh; /* read again in the stop, where `maps` are too old */
	const struct places *places;
	uint64_t reach;	     /* how much of a stack is searched that libc did not make */
	int status;	     /* of /proc/PID/status */
	bool has_handlers;   /* a signal handler was installed when it was opened or read */
	const char *unknown; /* why not all frames were found; NULL: all were */
	uint8_t *buffer;
	int pagemap;	      /* of the process; below 0: not known which of its pages are there */
	struct served *known; /* during frames_read() */
};

/* A stack of this size, or more, is only searched so far; the rest is `unknown`. */
#define FRAMES_REACH (UINT64_C(16) << 20)

/*
 * `maps` and `places` are borrowed; what is not one of the places is not collected from
 * stacks. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_open(pid_t pid, const struct maps *maps,
	const struct places *places, uint64_t reach, struct frames *ret);

/*
 * Collects the program counter of every stopped thread, and the places that their registers
 * and their stacks name: those that signal handlers interrupted are there. What was
 * collected before is forgotten. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_read(
	struct frames *frames, const struct control *control);
void frames_close(struct frames *frames);

/* Has a process installed a signal handler? True if that is unknown. */
bool frames_has_handlers(pid_t pid);

/* Adds a place that a thread will come to; false without memory. */
bool frames_add(struct frames *frames, uint64_t pc);

/*
 * Is an address in memory that no thread uses as its stack now: in the mapping of a thread's own
 * stack, below the part in use?
 */
bool frames_is_below(const struct frames *frames, uint64_t address);

/*
 * Does a thread use the middle of a frame in [start, end) as its stack, from there on up? Then
 * the handler has returned, or was left: the interrupted context is overwritten, or continues
 * there.
 */
bool frames_overlap(const struct frames *frames, uint64_t start, uint64_t end);

/* The stack of a thread that runs on its own stack, in [start, end); NULL: there is none. */
const struct frames_stack *frames_own_stack(
	const struct frames *frames, uint64_t start, uint64_t end);

/* Sorts what was collected, for frames_within(). */
void frames_sort(struct frames *frames);

/* Is any of them, sorted, in [start, end)? */
bool frames_within(const struct frames *frames, uint64_t start, uint64_t end);

/* ---- Busy ------------------------------------------------------------------------------------ */

/* Parallel to the registry's arrays: where a thread is, or will come. */
struct busy {
	bool *sites; /* their tail or pun */
	bool *stubs;
	bool *calling; /* sessions: functions that their stubs called have not returned */
	bool any;
};

/* False without memory. */
bool busy_init(struct busy *busy, const struct registry *registry);
void busy_deinit(struct busy *busy);

/*
 * The code of the ending sites and stubs, without the addresses that functions of the program
 * return to: busy_look_at_calls() finds these threads. False without memory.
 */
bool busy_places(
	struct places *places, const struct change *change, const bool *sites, const bool *stubs);

/* Treats all of them as busy: it is unknown which threads are in them. */
void busy_all(
	struct busy *busy, const struct registry *registry, const bool *sites, const bool *stubs);

/*
 * While all threads are stopped: finds the stubs whose functions have been called and have not
 * returned. Such a thread may be anywhere, and will return to the stub.
 */
void busy_look_at_calls(struct busy *busy, const struct change *change);

/*
 * Finds which of the ending sites and stubs a thread is in, or will come to from
 * one that it is in: a stub leads to an older one or to the tail. `frames` were
 * read, and are sorted. As no thread comes to what has been undone, this stays true
 * of what is not busy.
 */
void busy_find(struct busy *busy, const struct change *change, const struct frames *frames,
	const bool *sites, const bool *stubs);

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
	enum probe_plan shared_plan;
};

/* What a plan would write at a site. A patch of one byte relies on those after it. */
struct claim claim_of_plan(
	const struct arch *arch, const struct select_site *site, enum probe_plan plan);
/* What a short jump leads to. Nothing goes on there. */
struct claim claim_of_hop(const struct arch *arch, uint64_t hop);

/* Does a claim conflict with one of these? */
bool claims_meet(const struct claims *claims, struct claim claim);
/* Both return false without memory. A restored site is one, too, where code of ours leads back. */
bool claims_add(struct claims *claims, struct claim claim);
bool claims_add_site(struct claims *claims, const struct arch *arch, const struct reg_site *site);
/* Is a plan's jump that of a neighbour before it? Sites are planned by ascending address. */
bool claims_have_jump(
	const struct claims *claims, const struct select_site *site, enum probe_plan plan);
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
 * (plan_is_ocaml()). 0 for other providers, which have one count for all.
 */
uint64_t semaphore_offset(const char *provider);

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

/*
 * Of semaphores that are prepared: none will be less than what a registry says its sessions have
 * added. This repairs what is missing if a controller was killed between the registry and the
 * semaphores, in either order.
 */
void semaphores_keep(struct semaphores *semaphores, const struct registry *registry);

/* Adds all semaphores of a registry, to be looked at by semaphores_keep(). */
bool semaphores_add_all(struct semaphores *semaphores, const struct registry *registry);

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

/* What one of them, which have been read, will be; false: it is not there. */
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

/* ---- Doubts ---------------------------------------------------------------------------------- */

/* Contexts that were found below a thread's stack pointer: will a thread resume them? */

/* One of them, and what is known of it. */
struct doubt {
	uint64_t at, word, frame, frame_end; /* as of the find */
	bool settled, is_held;		     /* something refers to it */
};

/* Initialise with {0}. */
struct doubts {
	struct doubt *items;
	size_t count;
	bool any;	/* some are not settled */
	uint64_t guard; /* of the process's pointers, see libprobe/patch/patch.h */
	size_t searches;
};

/* With all threads stopped, before doubts_are_live(). */
void doubts_begin(struct doubts *doubts, const struct control *control);

/*
 * With all threads stopped, and `frames` read: will a thread resume a context? True if that is
 * unknown; if it can be settled later, it is noted.
 */
bool doubts_are_live(struct doubts *doubts, const struct frames *frames,
	const struct search *search, const struct search_find *find);

/*
 * Settles those that were noted; the process may run. `search` has been made. False where that
 * cannot be done, or none was left. Errors: those of search_words().
 */
PROBE_MUST_CHECK struct probe_error *doubts_settle(
	struct doubts *doubts, struct search *search, bool *settled_ret);
void doubts_deinit(struct doubts *doubts);

/* ---- Windows --------------------------------------------------------------------------------- */

/* May a patch replace several instructions, although a thread may return between them? */

/* Initialise with {0}. */
struct windows {
	struct places places; /* where instructions begin within the jumps to come */
	struct frames frames;
	struct search search; /* of its parts: what contexts were found in */
	struct doubts doubts;
	bool looked;
	const char *reason;
};

/*
 * Why no patch of this process may replace more than one instruction: a thread may return between
 * them. NULL: it may. The first call searches the process for memory that holds contexts. The text
 * lives as long as the target.
 */
const char *windows_reason(struct windows *windows, const struct change *change);

/* Instructions that begin in [start, end) will be overwritten; false without memory. */
bool windows_add(struct windows *windows, uint64_t start, uint64_t end);

/* The last step before the stop. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *windows_prepare(
	struct windows *windows, const struct change *change);

/*
 * With all threads stopped: windows->frames has their program counters, and after them the
 * places that threads will return to. Errors: PROBE_ERROR_REFUSED (that is unknown),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *windows_read(
	struct windows *windows, const struct change *change);

/*
 * A thread was in the way: waits a moment with all threads running, or checks whether it really
 * was. Errors: those of search_all().
 */
PROBE_MUST_CHECK struct probe_error *windows_wait(struct windows *windows);
void windows_close(struct windows *windows);

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

/* What is being done to one site. */
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
	uint64_t entry; /* that the jump of a pun, or into a long nop, leads to; 0: to the stub */
	struct arch_twin twin; /* of PROBE_PLAN_TWIN; `first` is entry */
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
	bool is_gate;	      /* the stubs wait for the controller (struct probe_gate) */
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

/* Gives each site of a selection room for its plan, which is empty until it is planned. */
PROBE_MUST_CHECK struct probe_error *install_make_plans(struct selection *selection);

/* plan_sites() for sites of one module, whose proofs may be known. */
PROBE_MUST_CHECK struct probe_error *install_plan_notes(struct module *module,
	const struct sdt_note *const *notes, size_t count, const enum probe_plan *order,
	size_t order_count, struct plan *ret);

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
/* The part of it in which the target is stopped (commit.c): an error leaves sites as they were. */
PROBE_MUST_CHECK struct probe_error *install_patch(struct transaction *transaction);
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

/*
 * What to return instead of an error, or of NULL where memory was not as the files have it: if a
 * library of these installs (a list, by `next`) is not mapped where it was, or may not have been
 * for a moment, PROBE_ERROR_STATE, and it is a lesson (libprobe/patch/patch.h). Takes the error.
 */
PROBE_MUST_CHECK struct probe_error *closed_error(
	const struct install *installs, struct probe_error *error);

/* ---- Enable ---------------------------------------------------------------------------------- */

/* Switching selected probes within one change, as probe_target_enable() and the others do. */

struct transaction;

/*
 * Selects the probes that a request names; each pattern must match. Errors: those of
 * select_probes() and select_unmatched(), PROBE_ERROR_USAGE (an odd list of pairs).
 */
PROBE_MUST_CHECK struct probe_error *enable_select(
	struct change *change, const struct probe_request *request, struct selection *ret);

/*
 * Sets `refused` of the probes that cannot be patched as the process is now: what enabling them by
 * wildcards leaves out. Errors: those of install_plan().
 */
PROBE_MUST_CHECK struct probe_error *enable_mark_refused(struct transaction *transaction,
	struct selection *selection, const struct probe_request *request);

/* Ends of pairs, whose `pattern` is odd, go first: they are on as long as their starts. */
PROBE_MUST_CHECK struct probe_error *enable_order_pairs(struct selection *selection);

/*
 * Counts the probes of a selection up or down by their `times`, or sets their state
 * (request->force). They are left in the selection or not. An error undoes all of it.
 */
PROBE_MUST_CHECK struct probe_error *enable_selected(struct change *change,
	struct selection *selection, const struct probe_request *request,
	struct probe_report *report);
PROBE_MUST_CHECK struct probe_error *disable_selected(struct change *change,
	struct selection *selection, const struct probe_request *request,
	struct probe_report *report);

/* Removes from a report what was counted since, except refused sites. */
void enable_forget(struct probe_report *report, const struct probe_report *before);

/* ---- Forecast -------------------------------------------------------------------------------- */

/* What enabling a site would come to, without doing it: in a process, or as far as a file says. */

struct forecast_site {
	uint64_t pc; /* run-time; of a file, link-time */
	enum probe_plan plan;
	bool is_shared; /* its jump is that of its neighbours, too */
	char *reason;	/* where it would be refused, else NULL; owned */
	char *instead;	/* why no plan is possible that is preferred to this one, or NULL; owned */
	/* What it gets if all sites of the file, or of the process, are enabled, and why. */
	enum probe_plan together;
	char *together_reason; /* NULL if that is the same plan; owned */
};

/* Of one process. Initialise with {0}. */
struct forecast {
	struct forecast_site *sites; /* sorted by pc */
	size_t count;
	char *reason; /* why nothing can be patched there; NULL: see the sites */
};

/*
 * Plans all sites of a process, each as if it were enabled alone; those that are on have the plan
 * that they have. Stops nothing. A process that we may not read, or that has ended, has no sites.
 * Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *forecast_read(pid_t pid, struct forecast *ret);
/*
 * The same of the sites of a file: without regard to what a process has mapped. Errors:
 * PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (it can only be listed).
 */
PROBE_MUST_CHECK struct probe_error *forecast_file(
	struct object *object, const struct sdt_notes *notes, struct forecast *ret);
void forecast_deinit(struct forecast *forecast);

/* The site at an address; NULL: nothing is known of it. */
const struct forecast_site *forecast_find(const struct forecast *forecast, uint64_t pc);

/* ---- Gathered -------------------------------------------------------------------------------- */

/* Does a session count its hits in cells, and not in its slots? */
bool gathered_has_cells(const struct reg_session *session);

/*
 * Adds up what the cells of a session have counted, for each of its slots: an array of
 * session->slot_capacity, which the caller frees. NULL: there are too many cells to be read for a
 * number, or no memory.
 */
uint64_t *gathered_hits(pid_t pid, const struct reg_session *session);

/* ---- Inherited ------------------------------------------------------------------------------- */

/* Copies of sessions in processes that were forked, and to which no parent leads any more. */

/*
 * A session of this process goes on from here, and *goes_on_ret says so. To be called before it
 * changes its target, which is `pid`. Thread-safe, as all of these.
 */
void inherited_begin(pid_t pid, bool *goes_on_ret);
/* What a process has in common with all that it forks, until they execute a program; 0: unknown. */
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

/* plan_sites() for notes of a file whose notes have been read; results are cached in the file. */
PROBE_MUST_CHECK struct probe_error *file_plan_sites(struct file *file,
	const struct sdt_note *const *notes, size_t count, const enum probe_plan *order,
	size_t order_count, struct plan *ret);

/* ---- Later ----------------------------------------------------------------------------------- */

/* What a target has mapped since its probes were enabled last: struct probe_request, later. */

/* Removes the probes of modules that were noted from a selection, if the request asks for that. */
void later_drop(const struct probe_target *target, const struct probe_request *request,
	struct selection *selection);

/* Makes room for later_note(). Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *later_reserve(
	struct probe_target *target, const struct modules *modules);

/* Notes the modules in which probes have been enabled. */
void later_note(struct probe_target *target, const struct modules *modules);

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

/*
 * Fills in the state of the sites of one process, from `first` to the end: enabled, refcount,
 * plan, state_known. Does not stop the process.
 */
PROBE_MUST_CHECK struct probe_error *list_read_state(
	struct probe_list *list, int pid, size_t first);

/* ---- Mend ------------------------------------------------------------------------------------ */

/*
 * Patches the sites again that hold the file's bytes although a session wants them: something
 * has restored them, or their library was opened again. To be called before they are
 * forgotten (change_begin_as_it_is()). *count_ret: how many. Errors: those of change_stop(),
 * PROBE_ERROR_STATE (a thread does not leave the bytes that a patch replaces).
 */
PROBE_MUST_CHECK struct probe_error *mend_sites(struct change *change, size_t *count_ret);

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
	struct install *a, size_t i, const struct plan_move *move, struct piece *p);

/*
 * Bytes that the entries of a site and of its neighbours may take, at most. Ask in the order of the
 * sites: *patch_inout, first 0, is the jump whose entries were asked for last.
 */
size_t neighbours_bytes(const struct select_site *site, uint64_t *patch_inout);

/*
 * Describes how new site `i` is patched: alone of its neighbours, with entries for all of them,
 * or with those that were described before. Errors: those of build_tail(), PROBE_ERROR_MEMORY,
 * PROBE_ERROR_REFUSED (out of reach).
 */
PROBE_MUST_CHECK struct probe_error *neighbours_describe(
	struct install *a, size_t i, struct piece *p);

/*
 * Leads the entry of such a site, in a piece that is not written yet, to an address. Errors:
 * PROBE_ERROR_REFUSED.
 */
PROBE_MUST_CHECK struct probe_error *neighbours_lead(
	const struct install *a, const struct reg_site *reg, uint64_t to, struct piece *p);

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

/* ---- Puns ------------------------------------------------------------------------------------ */

/*
 * The memory that punned sites jump to: a page each, or a place in an arena of ours. And where
 * short jumps lead to: unused bytes of the program (libprobe/patch/spares.c).
 */

/*
 * Takes a place that a punned site's bytes can jump to, if one is available, preferably a near one.
 * Returns NULL, or why not (static text).
 */
const char *puns_take(struct install *install, struct arch_pun pun, uint64_t *entry_ret);

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

/* What the registry says of a pun's place. */
void puns_place(
	const struct registry *registry, uint64_t entry, uint64_t *start_ret, uint32_t *size_ret);

/* Enters the pages into the registry, which exists now. */
PROBE_MUST_CHECK struct probe_error *puns_announce(struct install *install);

/* Writes the jumps to the stubs of new sites, and those of twins to their tails. */
PROBE_MUST_CHECK struct probe_error *puns_write(const struct install *install);

/* What the file has where a site's short jump may lead to; returns how many bytes it has. */
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

/* ---- Quiet ----------------------------------------------------------------------------------- */

/* Waiting until no thread is in stubs that are no longer used, or returns to them. */

struct quiet {
	const bool *sites, *stubs; /* beside the registry's arrays: what has ended; borrowed */
	struct places places;	   /* their code */
	struct frames frames;
	struct search search;
	struct doubts doubts;
	bool searched; /* and what was found was judged since */
	bool moved;    /* some of what was found is gone */
};

/* Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. After an error call only quiet_close(). */
PROBE_MUST_CHECK struct probe_error *quiet_open(
	const struct change *change, const bool *sites, const bool *stubs, struct quiet *ret);
void quiet_close(struct quiet *quiet);

/* While all threads are stopped: collects where they are, and judges what was found before. */
PROBE_MUST_CHECK struct probe_error *quiet_look(
	struct quiet *quiet, const struct change *change, struct busy *busy);

/*
 * Looks until no thread is there, for a while if `wait`, and finds out what is busy then.
 * `look` stops the target, calls quiet_look(), and lets it go; `first` is true once.
 */
PROBE_MUST_CHECK struct probe_error *quiet_wait(struct quiet *quiet, struct change *change,
	struct busy *busy, bool wait,
	struct probe_error *(*look)(void *data, struct change *change, bool first), void *data);

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

/* Forgets all refusals but the first `count`. */
void report_forget(struct probe_report *report, size_t count);

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

/* ---- Sequences ------------------------------------------------------------------------------- */

/* The restartable sequences (rseq(2)) that a program has of its own. */

struct sequence {
	uint64_t start, end; /* addresses of the target */
};

/* Those of one module. Initialise with {0}. */
struct sequences {
	struct sequence *items;
	size_t count;
};

/*
 * Finds the sequences of a module that its data describes now, in the memory of a
 * process. What cannot be read describes none. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *sequences_read(
	pid_t pid, const struct module *module, struct sequences *ret);
void sequences_deinit(struct sequences *sequences);

/* Is the address in one of them? */
bool sequences_hold(const struct sequences *sequences, uint64_t address);

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

/* ---- Unfit ----------------------------------------------------------------------------------- */

/* Sites at which no stub may run, however they could be patched. */

struct unfit {
	const struct arch *arch;
	const struct module *module; /* borrowed */
	struct sequences sequences;
	/* Code from the start of a function on that does not lose the stack; link-time. */
	struct object_range harmless;
};

/* Looks at a module of a process. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *unfit_open(
	pid_t pid, const struct arch *arch, const struct module *module, struct unfit *ret);
void unfit_close(struct unfit *unfit);

/* Why no stub may run at an address of the process; NULL: it may. */
const char *unfit_reason(struct unfit *unfit, uint64_t pc);

#endif
