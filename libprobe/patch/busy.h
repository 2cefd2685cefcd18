/* SPDX-License-Identifier: MIT */
/* Which threads may still be in code that changes. */
#ifndef LIBPROBE_PATCH_BUSY_H
#define LIBPROBE_PATCH_BUSY_H

#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"

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
 * Searches the same memory as search_all(), for other places and another visitor. What was found
 * stays; `unknown` says why not everything was searched. Errors: those of search_all().
 */
PROBE_MUST_CHECK struct probe_error *search_words(
	struct search *search, const struct places *places, const struct place_visitor *visitor);

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

/* ---- Unfit ----------------------------------------------------------------------------------- */

/* Sites at which no stub may run, however they could be patched. */

struct unfit {
	const struct arch *arch;
	const struct module *module; /* borrowed */
	struct sequences sequences;
	/* Code from the start of a function on that does not lose the stack; link-time. */
	struct object_range harmless;
};

#endif
