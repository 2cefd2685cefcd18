/* SPDX-License-Identifier: MIT */
/* Finds threads that may still be in code that is about to change. */
#ifndef LIBPROBE_PATCH_BUSY_H
#define LIBPROBE_PATCH_BUSY_H

#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"

/* ---- Pages ----------------------------------------------------------------------------------- */

/* Finds the pages that a process has in memory or swapped out. */

/* A run of pages from the kernel (struct page_region). */
struct pages_run {
	uint64_t start, end;
	uint64_t categories;
};

struct pages {
	int pagemap; /* descriptor of /proc/PID/pagemap; borrowed */
	bool by_entries;
	uint64_t *entries;
	struct pages_run *runs; /* the runs that the last pages_look() found */
};

/* Returns false if out of memory. Call pages_close() in any case. */
bool pages_open(int pagemap, struct pages *ret);
void pages_close(struct pages *pages);

/*
 * Examines the pages from `at` on, up to `end`. Stores the ranges of present pages, in order, in
 * pages->runs, and returns their number, or SIZE_MAX on failure. *next_ret is the first page not
 * examined.
 */
size_t pages_look(struct pages *pages, uint64_t at, uint64_t end, uint64_t *next_ret);

/* ---- Places ---------------------------------------------------------------------------------- */

/* Places are addresses to which a thread may return. A search finds words that hold one. */

enum { PLACES_FILTER_BITS = 16 };

struct place {
	uint64_t start, end;
};

/* Initialise with {0}; call places_prepare() before places_have(). */
struct places {
	struct place *items; /* sorted, without overlaps */
	size_t count;
	/*
	 * The places are in our code. Then only program counters of saved contexts are reported,
	 * because other words may be data, such as a profiler's samples. Set by the caller.
	 */
	bool are_code;
	/* glibc's pointer guard, or 0. Words are also compared in the form of setjmp(3). */
	uint64_t guard;
	uint8_t guard_shift;
	uint64_t low, span; /* all places lie in [low, low + span) */
	/* One bit for each 64 bytes of address, modulo 2^16 bits: 0 if they contain no place. */
	uint64_t filter[(1 << PLACES_FILTER_BITS) / 64];
};

/* Adds [start, end), unless it is empty. Returns false if out of memory. */
bool places_add(struct places *places, uint64_t start, uint64_t end);
void places_prepare(struct places *places);
bool places_have(const struct places *places, uint64_t address);
void places_deinit(struct places *places);

/*
 * A context that the kernel saved for a signal handler (struct rt_sigframe), or a program's copy of
 * it, as far as it was read. `at` is its address.
 */
struct place_image {
	uint64_t at;
	uint64_t sp, pc;	   /* registers of the interrupted thread */
	uint64_t stack, stack_end; /* extent of the thread's alternate stack, or 0 */
	uint64_t state;		   /* address of the saved floating-point state */
	/* made by control_run_and_leave() of this library, not by the kernel */
	bool is_remote;
};

/* maximum size of an image (arch_frame_layout.bytes) */
enum { PLACE_IMAGE_MAX = 640 };

/* Receives the results of a scan. A function that returns false ends the scan. */
struct place_visitor {
	void *data;
	/* Receives a word that is a place. `is_context`: it is an image's program counter. */
	bool (*word)(void *data, uint64_t at, uint64_t word, bool is_context);
	bool (*image)(void *data, const struct place_image *image); /* may be NULL */
	bool only_images; /* call `word` only for the program counters of images */
	/* mappings of the process, to tell code from data; NULL if unknown */
	const struct maps *maps;
};

/*
 * Scans `size` bytes read at `address`, both multiples of 8. Reports words and images that begin in
 * the first `step` bytes. An image is recognised only if PLACE_IMAGE_MAX bytes of it were read; it
 * is reported after its words.
 */
bool places_scan(const struct places *places, uint64_t address, const uint8_t *bytes, size_t size,
	size_t step, const struct place_visitor *visitor);

/* ---- Search ---------------------------------------------------------------------------------- */

/* Searches a process's memory for contexts that a thread may resume, whose words are places. */

/* A saved context whose program counter is a place. */
struct search_find {
	uint64_t at, word;
	/* this library saved the context, to run a system call in the thread */
	bool is_remote;
	/* Address of the floating-point state; 0 if the kernel did not save the context. */
	uint64_t state;
	/*
	 * The frame in which the kernel saved the context. It reaches to the interrupted stack if
	 * that comes next; 0 if unknown.
	 */
	uint64_t frame, frame_end;
	bool is_over; /* set by the caller: no thread resumes the context */
};

/* Memory in which contexts were found: an alternate stack, or a mapping. */
struct search_part {
	uint64_t start, end;
	uint64_t last; /* address of the highest context found */
};

struct search_source; /* tells how a mapping is read */

struct search {
	pid_t pid;
	int mem;
	const struct places *places;
	uint64_t skipped; /* address of a page that is not searched */
	int pagemap;
	uint8_t *buffer;
	struct pages pages;
	/* mappings of the process at the last search of all memory */
	struct maps maps;
	struct search_source *sources; /* how each mapping is read; same order as maps.items */
	struct backing backing;
	/* descriptor of a file that is read instead of memory, or -1 */
	int file;
	uint64_t file_bias; /* address + file_bias is the offset in `file` */
	/* Receives the results. If NULL, they are stored in `finds`. */
	const struct place_visitor *visitor;

	struct search_find *finds;
	size_t find_count;
	struct search_part *parts;
	size_t part_count;
	const char *unknown; /* why the search is incomplete; NULL if it is complete */
	uint64_t bytes;	     /* number of bytes that were searched */
	bool no_memory;
};

/*
 * Prepares a search, also for use in a stop. `places` and `mem` (memory_open()) are borrowed.
 * `skipped` is the address of our guard page, or 0. Errors: PROBE_ERROR_NOT_FOUND,
 * PROBE_ERROR_MEMORY; then call only search_close().
 */
PROBE_MUST_CHECK struct probe_error *search_open(
	pid_t pid, int mem, const struct places *places, uint64_t skipped, struct search *ret);
void search_close(struct search *search);

/*
 * Searches all memory that can hold a context, and forgets earlier results. Finds all contexts that
 * exist during the whole search, even if the process runs. Errors: as maps_read().
 */
PROBE_MUST_CHECK struct probe_error *search_all(struct search *search);

/*
 * Searches the same memory for other places, with another visitor. Earlier results stay. If the
 * search is incomplete, search->unknown says why. Errors: as search_all().
 */
PROBE_MUST_CHECK struct probe_error *search_words(
	struct search *search, const struct places *places, const struct place_visitor *visitor);

/*
 * Returns true if a context is certainly a leftover that no thread resumes. The kernel's frame is
 * whole, up to the end of the floating-point state, until its handler returns; after its stack was
 * reused, it rarely is.
 */
bool search_is_stale(const struct search *search, const struct search_find *find);

/* Returns the bytes to read for a search, or UINT64_MAX if unknown. */
uint64_t search_measure(struct search *s, uint64_t start, uint64_t end);

/* Adds the results to the finds. For use in a stop, too. */
PROBE_MUST_CHECK struct probe_error *search_range(struct search *s, uint64_t start, uint64_t end);

/* Forgets finds, but keeps parts. For use in a stop, too. */
void search_forget(struct search *s);

/* ---- Frames ---------------------------------------------------------------------------------- */

/* The addresses where stopped threads are, or to which their signal handlers will return. */

/* The used part of a stack that was searched: `low` to `end`. */
struct frames_stack {
	uint64_t low, end;
	/* libc or the kernel made the stack for the thread that uses it */
	bool is_threads;
};

struct served;

/*
 * The program counters of the stopped threads (control->count) and, after them, the places to which
 * the threads will return; frames_sort() mixes both. frames_open() sets the other members.
 */
struct frames {
	uint64_t *pcs;
	size_t count, room;
	struct frames_stack *stacks; /* stacks of threads, and stacks that handlers interrupted */
	size_t stack_count;
	pid_t pid;
	const struct maps *maps;
	struct maps fresh; /* mappings that were read during the stop, if `maps` lacks an address */
	const struct places *places;
	uint64_t reach;	     /* number of bytes searched in a stack that libc did not make */
	int status;	     /* descriptor of /proc/PID/status */
	bool has_handlers;   /* frames_open() or frames_read() found an installed signal handler */
	const char *unknown; /* why some of the addresses may be missing, or NULL */
	uint8_t *buffer;
	int pagemap;	      /* descriptor of the process's pagemap; negative if unavailable */
	struct served *known; /* only set during frames_read() */
};

/* Larger stacks are not searched: frames.unknown is set. */
#define FRAMES_REACH (UINT64_C(16) << 20)

/*
 * Prepares frames_read(), to collect words in `places` from stacks. `maps` and `places` are
 * borrowed. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_open(pid_t pid, const struct maps *maps,
	const struct places *places, uint64_t reach, struct frames *ret);

/*
 * Collects, anew, each stopped thread's program counter, and the places in its registers and on its
 * stacks, including stacks that signal handlers have interrupted. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_read(
	struct frames *frames, const struct control *control);
void frames_close(struct frames *frames);

/* Sorts the addresses, for frames_within(). */
void frames_sort(struct frames *frames);

/* Is one of the sorted addresses in [start, end)? */
bool frames_within(const struct frames *frames, uint64_t start, uint64_t end);

/* ---- Doubts ---------------------------------------------------------------------------------- */

/*
 * A doubt: a saved context below a thread's stack pointer, which may be resumed or be a leftover.
 */

struct doubt {
	uint64_t at, word, frame, frame_end; /* copied from the struct search_find */
	/* `is_held`: some memory refers to the context, so a thread may resume it */
	bool settled, is_held;
};

/* Initialise with {0}. */
struct doubts {
	struct doubt *items;
	size_t count;
	bool any;	/* some contexts are still in doubt */
	uint64_t guard; /* the pointer guard of glibc in the process: see places.guard */
	size_t searches;
};

/*
 * Returns true if a thread may resume the context `find`. All threads must be stopped, and `frames`
 * read. Records a doubt if doubts_settle() can find out more.
 */
bool doubts_are_live(struct doubts *doubts, const struct frames *frames,
	const struct search *search, const struct search_find *find);

/*
 * Searches memory for references to the contexts, in a stop or not, after `search` has run, and so
 * settles the doubts. *settled_ret is false if there were no doubts, or too many searches. Errors:
 * as search_words().
 */
PROBE_MUST_CHECK struct probe_error *doubts_settle(
	struct doubts *doubts, struct search *search, bool *settled_ret);
void doubts_deinit(struct doubts *doubts);

/* ---- Windows --------------------------------------------------------------------------------- */

/* Checks that no thread may return between the instructions that a patch replaces. */

/* Initialise with {0}. */
struct windows {
	/* addresses of instructions that the jumps will cover; added before windows_prepare() */
	struct places places;
	struct frames frames;
	struct search search; /* search.parts is the memory in which contexts were found */
	struct doubts doubts;
	bool looked;
	const char *reason;
};

/*
 * If no patch of this process may replace more than one instruction, returns the reason, else NULL.
 * The first call searches the process's memory for contexts. The text lives as long as the target.
 */
const char *windows_reason(struct windows *windows, const struct change *change);

/*
 * Prepares the check, as the last step before the stop. Errors: PROBE_ERROR_NOT_FOUND,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *windows_prepare(
	struct windows *windows, const struct change *change);

/*
 * Fills windows->frames with the program counters of all threads, which must be stopped, and with
 * the places to which they will return. Errors: PROBE_ERROR_REFUSED (the places are unknown),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *windows_read(
	struct windows *windows, const struct change *change);

/*
 * Call this if a thread was, or seemed to be, in the bytes to patch. Settles doubts, or waits a
 * moment. Errors: as search_all().
 */
PROBE_MUST_CHECK struct probe_error *windows_wait(struct windows *windows);
void windows_close(struct windows *windows);

/* ---- Quiet ----------------------------------------------------------------------------------- */

/* Waits until no thread is in, or will return to, the code of ended sites and stubs. */

/* Registry entries whose code a thread runs or will return to, parallel to its arrays. */
struct busy {
	bool *sites; /* for each site: a thread is in the site's hop, pun or tail */
	bool *stubs;
	/* for each session: its stubs have called functions that have not returned */
	bool *calling;
	bool any;
};

struct quiet {
	/* ended sites and stubs, parallel to the registry's arrays; borrowed */
	const bool *sites, *stubs;
	struct busy busy;     /* those of them that are still in use */
	struct places places; /* the code of the ended sites and stubs */
	struct frames frames;
	struct search search;
	struct doubts doubts;
	bool searched; /* a search of all memory was made */
	bool moved;    /* some contexts that the search found are gone */
};

/* Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY; then call only quiet_close(). */
PROBE_MUST_CHECK struct probe_error *quiet_open(
	const struct change *change, const bool *sites, const bool *stubs, struct quiet *ret);

/*
 * Collects the addresses of all threads, which must be stopped, and decides which found contexts
 * may be resumed. Errors: as frames_read().
 */
PROBE_MUST_CHECK struct probe_error *quiet_look(struct quiet *quiet, const struct change *change);

/*
 * Calls `look` until no thread is in ended code or the time limit is over; only once if `wait` is
 * false. Fills in quiet->busy. `look` must stop the target, call quiet_look(), and resume it;
 * `first` is true in the first call.
 */
PROBE_MUST_CHECK struct probe_error *quiet_wait(struct quiet *quiet, struct change *change,
	bool wait, struct probe_error *(*look)(void *data, struct change *change, bool first),
	void *data);
void quiet_close(struct quiet *quiet);

#endif
