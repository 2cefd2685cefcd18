/* SPDX-License-Identifier: MIT */
/* Which threads may still be in code that changes. */
#ifndef LIBPROBE_PATCH_BUSY_H
#define LIBPROBE_PATCH_BUSY_H

#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"

/* ---- Pages ----------------------------------------------------------------------------------- */

/* Which pages a process has in memory, or swapped out. */

/* A run of pages, as the kernel returns it (struct page_region). */
struct pages_run {
	uint64_t start, end;
	uint64_t categories;
};

struct pages {
	int pagemap; /* borrowed: /proc/PID/pagemap */
	bool by_entries;
	uint64_t *entries;
	struct pages_run *runs; /* result of the last pages_look() */
};

/* Returns false if out of memory. In both cases the caller must call pages_close(). */
bool pages_open(int pagemap, struct pages *ret);
void pages_close(struct pages *pages);

/*
 * Examines the page at `at` and some pages after it, up to `end`. Afterwards `runs` are the ranges
 * of present pages, in order; two runs may be adjacent. Returns the number of runs, or SIZE_MAX on
 * failure. *next_ret is the first page that was not examined.
 */
size_t pages_look(struct pages *pages, uint64_t at, uint64_t end, uint64_t *next_ret);

/* ---- Places ---------------------------------------------------------------------------------- */

/* Addresses to which a thread may return, and words of memory that hold such an address. */

enum { PLACES_FILTER_BITS = 16 };

struct place {
	uint64_t start, end;
};

/* Initialise with {0}; call places_prepare() before places_have(). */
struct places {
	struct place *items; /* sorted, without overlaps */
	size_t count;
	/*
	 * The places are code of ours: only program counters of images are reported. Other words
	 * may be data: registries that a process has read, samples of a profiler. Set by the
	 * caller.
	 */
	bool are_code;
	/*
	 * If not 0, words count also in the form in which setjmp(3) of glibc stores pointers, with
	 * this guard. Set by the caller.
	 */
	uint64_t guard;
	uint8_t guard_shift;
	uint64_t low, span; /* all places lie in [low, low + span) */
	/* One bit per 64 bytes, modulo 2^16: clear if no place is in these bytes. */
	uint64_t filter[(1 << PLACES_FILTER_BITS) / 64];
};

/* Adds [start, end), unless it is empty. Returns false if out of memory. */
bool places_add(struct places *places, uint64_t start, uint64_t end);
void places_prepare(struct places *places);
bool places_have(const struct places *places, uint64_t address);
void places_deinit(struct places *places);

/*
 * An image: what the kernel saves for a signal handler (struct rt_sigframe), as far as it was read.
 * Copies that programs make of the saved context look the same. `at` is the address of the image.
 */
struct place_image {
	uint64_t at;
	uint64_t sp, pc;	   /* of the interrupted context */
	uint64_t stack, stack_end; /* the thread's alternate stack, or 0 */
	uint64_t state;		   /* address of the floating-point state */
	bool is_remote;		   /* made by this library: see control_run() */
};

enum { PLACE_IMAGE_MAX = 640 }; /* bytes, on any instruction set: arch_frame_layout.bytes */

/* Functions that receive the results. A function that returns false ends the scan. */
struct place_visitor {
	void *data;
	/*
	 * Reports a word that is a place. `is_context`: the word is the program counter of an
	 * image.
	 */
	bool (*word)(void *data, uint64_t at, uint64_t word, bool is_context);
	bool (*image)(void *data, const struct place_image *image);
	bool only_images;	 /* report no words except program counters of images */
	const struct maps *maps; /* of the process, to find its code; NULL if unknown */
};

/*
 * Scans `size` bytes that were read at an address; both are multiples of 8. Reports words and
 * images that begin in the first `step` bytes. An image needs PLACE_IMAGE_MAX more bytes, and is
 * recognised only if they are there. A word of an image is reported before the image.
 */
bool places_scan(const struct places *places, uint64_t address, const uint8_t *bytes, size_t size,
	size_t step, const struct place_visitor *visitor);

/* ---- Search ---------------------------------------------------------------------------------- */

/* Searches the memory of a process for words that are places: contexts that a thread may resume. */

/* A saved context whose program counter is a place. */
struct search_find {
	uint64_t at, word;
	bool is_remote; /* saved by this library, to run a system call */
	/* Address of the floating-point state, if the frame is where the kernel made it; or 0. */
	uint64_t state;
	/* The extent of such a frame, up to the interrupted stack if that follows it; or 0. */
	uint64_t frame, frame_end;
	bool is_over; /* for the caller: no thread resumes it */
};

/* Memory in which contexts were found: an alternate stack, or a mapping. */
struct search_part {
	uint64_t start, end;
	uint64_t last; /* address of the highest context */
};

struct search_source; /* how a mapping is read */

struct search {
	pid_t pid;
	int mem;
	const struct places *places;
	uint64_t skipped; /* address of a page that is not searched */
	int pagemap;
	uint8_t *buffer;
	struct pages pages;
	struct maps maps;	       /* as of the last search of everything */
	struct search_source *sources; /* parallel to maps.items */
	struct backing backing;
	int file;	    /* file that is read instead of the process, or -1 */
	uint64_t file_bias; /* file offset minus address */
	/* receives the results; NULL to keep them in `finds` */
	const struct place_visitor *visitor;

	/* The results. */
	struct search_find *finds;
	size_t find_count;
	struct search_part *parts;
	size_t part_count;
	const char *unknown; /* why the search is incomplete, or NULL */
	uint64_t bytes;	     /* bytes that were searched */
	bool no_memory;
};

/*
 * Prepares a search, which may also run while the process is stopped. `places` and `mem`
 * (memory_open()) are borrowed; `skipped` is the address of our own guard, or 0. Errors:
 * PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. After an error, call only search_close().
 */
PROBE_MUST_CHECK struct probe_error *search_open(
	pid_t pid, int mem, const struct places *places, uint64_t skipped, struct search *ret);
void search_close(struct search *search);

/*
 * Searches everything that can hold a context, and forgets earlier results. The process may run: a
 * context that exists during the whole search is found. Errors: those of maps_read().
 */
PROBE_MUST_CHECK struct probe_error *search_all(struct search *search);

/*
 * Searches the same memory as search_all(), for other places and another visitor. Earlier results
 * stay; `unknown` says why the search is incomplete. Errors: those of search_all().
 */
PROBE_MUST_CHECK struct probe_error *search_words(
	struct search *search, const struct places *places, const struct place_visitor *visitor);

/*
 * Is a found context certainly a leftover? A frame that the kernel has made for a handler is whole,
 * up to the end of the floating-point state, until the handler returns. The rest of a frame on a
 * stack that was used again is rarely whole.
 */
bool search_is_stale(const struct search *search, const struct search_find *find);

/* ---- Frames ---------------------------------------------------------------------------------- */

/* Where the stopped threads of a target are, and where they will return to from signal handlers. */

/* The used part of a stack that was searched: from `low` to its end. */
struct frames_stack {
	uint64_t low, end;
	bool is_threads; /* made by libc or the kernel for the thread that runs on it */
};

struct served;

/*
 * The program counters of stopped threads, and the places that they will return to. Until
 * frames_sort(), the first control->count are the threads' own. frames_open() prepares all memory
 * before the stop.
 */
struct frames {
	uint64_t *pcs;
	size_t count, room;
	struct frames_stack *stacks; /* stacks of threads, and interrupted stacks */
	size_t stack_count;
	pid_t pid;
	const struct maps *maps;
	struct maps fresh; /* read during the stop, if `maps` are too old */
	const struct places *places;
	uint64_t reach;	     /* bytes searched of a stack that libc did not make */
	int status;	     /* descriptor of /proc/PID/status */
	bool has_handlers;   /* a signal handler was installed at frames_open() or frames_read() */
	const char *unknown; /* why frames may be missing, or NULL */
	uint8_t *buffer;
	int pagemap;	      /* of the process; negative if unavailable */
	struct served *known; /* set during frames_read() */
};

/* Only this many bytes of a stack are searched; if it is larger, `unknown` is set. */
#define FRAMES_REACH (UINT64_C(16) << 20)

/*
 * `maps` and `places` are borrowed. Of the words on stacks, only places are collected. Errors:
 * PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_open(pid_t pid, const struct maps *maps,
	const struct places *places, uint64_t reach, struct frames *ret);

/*
 * Collects the program counter of each stopped thread, and the places in the registers and on the
 * stacks of threads, where the contexts are that signal handlers interrupted. Forgets what was
 * collected before. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_read(
	struct frames *frames, const struct control *control);
void frames_close(struct frames *frames);

/* Has a process installed a signal handler? True if that is unknown. */
bool frames_has_handlers(pid_t pid);

/* Adds a place to which a thread will come. Returns false if out of memory. */
bool frames_add(struct frames *frames, uint64_t pc);

/* Returns the stack in [start, end) of a thread that runs on its own stack, or NULL. */
const struct frames_stack *frames_own_stack(
	const struct frames *frames, uint64_t start, uint64_t end);

/* Sorts the addresses, for frames_within(). */
void frames_sort(struct frames *frames);

/* Is one of the sorted addresses in [start, end)? */
bool frames_within(const struct frames *frames, uint64_t start, uint64_t end);

/* ---- Busy ------------------------------------------------------------------------------------ */

/*
 * The registry's entries that a thread is in, or will come to. The arrays are parallel to the
 * registry's.
 */
struct busy {
	bool *sites; /* a thread is in the site's hop, pun or tail */
	bool *stubs;
	bool *calling; /* sessions whose stubs have called functions that have not returned */
	bool any;
};

/* Returns false if out of memory. */
bool busy_init(struct busy *busy, const struct registry *registry);
void busy_deinit(struct busy *busy);

/* ---- Doubts ---------------------------------------------------------------------------------- */

/* Contexts below a thread's stack pointer, which a thread may or may not resume. */

/* One context in doubt. */
struct doubt {
	uint64_t at, word, frame, frame_end; /* as in struct search_find */
	bool settled, is_held;		     /* `is_held`: something refers to the context */
};

/* Initialise with {0}. */
struct doubts {
	struct doubt *items;
	size_t count;
	bool any;	/* some doubts are not settled */
	uint64_t guard; /* of the process's pointers: see places.guard */
	size_t searches;
};

/* Must be called before doubts_are_live(), with all threads stopped. */
void doubts_begin(struct doubts *doubts, const struct control *control);

/*
 * Will a thread resume a context? All threads must be stopped, and `frames` read. True if that is
 * unknown. If it can be settled later, the doubt is recorded.
 */
bool doubts_are_live(struct doubts *doubts, const struct frames *frames,
	const struct search *search, const struct search_find *find);

/*
 * Settles the recorded doubts; the process may run. `search` must have run. *settled_ret is false
 * if nothing was left to settle, or there were too many searches. Errors: those of search_words().
 */
PROBE_MUST_CHECK struct probe_error *doubts_settle(
	struct doubts *doubts, struct search *search, bool *settled_ret);
void doubts_deinit(struct doubts *doubts);

/* ---- Windows --------------------------------------------------------------------------------- */

/* May a patch replace several instructions, although a thread may return between them? */

/* Initialise with {0}. */
struct windows {
	struct places places; /* addresses of instructions that the jumps will cover */
	struct frames frames;
	struct search search; /* its parts are the memory in which contexts were found */
	struct doubts doubts;
	bool looked;
	const char *reason;
};

/*
 * Returns why no patch of this process may replace more than one instruction (a thread may return
 * between them), or NULL. The first call searches the process for memory that holds contexts. The
 * text lives as long as the target.
 */
const char *windows_reason(struct windows *windows, const struct change *change);

/*
 * Adds instructions that begin in [start, end) and will be overwritten. Returns false if out of
 * memory.
 */
bool windows_add(struct windows *windows, uint64_t start, uint64_t end);

/* The last step before the stop. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *windows_prepare(
	struct windows *windows, const struct change *change);

/*
 * Fills windows->frames with the program counters of all threads, which must be stopped, and after
 * them the places to which threads will return. Errors: PROBE_ERROR_REFUSED (the places are
 * unknown), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *windows_read(
	struct windows *windows, const struct change *change);

/*
 * After a thread was in the way: settles doubts about that, or waits a moment with all threads
 * running. Errors: those of search_all().
 */
PROBE_MUST_CHECK struct probe_error *windows_wait(struct windows *windows);
void windows_close(struct windows *windows);

/* ---- Quiet ----------------------------------------------------------------------------------- */

/* Waiting until no thread is in stubs that have ended, or will return to them. */

struct quiet {
	const bool *sites, *stubs; /* what has ended, parallel to the registry's arrays; borrowed */
	struct places places;	   /* the code of these sites and stubs */
	struct frames frames;
	struct search search;
	struct doubts doubts;
	bool searched; /* a search was made */
	bool moved;    /* some of the contexts found are gone */
};

/* Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. After an error, call only quiet_close(). */
PROBE_MUST_CHECK struct probe_error *quiet_open(
	const struct change *change, const bool *sites, const bool *stubs, struct quiet *ret);
void quiet_close(struct quiet *quiet);

/* Collects where the threads are, which must be stopped, and judges the contexts found before. */
PROBE_MUST_CHECK struct probe_error *quiet_look(
	struct quiet *quiet, const struct change *change, struct busy *busy);

/*
 * Looks until no thread is in the code, repeatedly for a while if `wait`, and fills in *busy.
 * `look` stops the target, calls quiet_look(), and resumes the target; `first` is true for the
 * first call only.
 */
PROBE_MUST_CHECK struct probe_error *quiet_wait(struct quiet *quiet, struct change *change,
	struct busy *busy, bool wait,
	struct probe_error *(*look)(void *data, struct change *change, bool first), void *data);

/* ---- Sequences ------------------------------------------------------------------------------- */

/* A program's own restartable sequences (rseq(2)). */

struct sequence {
	uint64_t start, end; /* addresses of the target */
};

/* The sequences of one module. Initialise with {0}. */
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
