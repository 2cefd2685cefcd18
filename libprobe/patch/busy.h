/* SPDX-License-Identifier: MIT */
/* Which threads may still be in code that changes. */
#ifndef LIBPROBE_PATCH_BUSY_H
#define LIBPROBE_PATCH_BUSY_H

#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"

/* ---- Pages ----------------------------------------------------------------------------------- */

/* Finds the pages that a process has in memory, or swapped out. */

/* A run of pages, as the kernel returns it (struct page_region). */
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

/* Returns false if out of memory. In both cases the caller must call pages_close(). */
bool pages_open(int pagemap, struct pages *ret);
void pages_close(struct pages *pages);

/*
 * Examines the page at `at` and some pages after it, up to `end`. Stores the ranges of present
 * pages in pages->runs, in ascending order; two runs may be adjacent. Returns the number of runs,
 * or SIZE_MAX on failure. *next_ret is the first page that was not examined.
 */
size_t pages_look(struct pages *pages, uint64_t at, uint64_t end, uint64_t *next_ret);

/* ---- Places ---------------------------------------------------------------------------------- */

/* Places: addresses to which a thread may return. A search finds memory words that hold a place. */

enum { PLACES_FILTER_BITS = 16 };

struct place {
	uint64_t start, end;
};

/* A set of places. Initialise with {0}; call places_prepare() before places_have(). */
struct places {
	struct place *items; /* sorted, without overlaps */
	size_t count;
	/*
	 * The places are in code of ours. Then only program counters of saved contexts are
	 * reported, because other words may be data, such as a copy of the registry or a profiler's
	 * samples. Set by the caller.
	 */
	bool are_code;
	/*
	 * Pointer guard of glibc, set by the caller. If not 0, words also count in the form in
	 * which setjmp(3) stores pointers.
	 */
	uint64_t guard;
	uint8_t guard_shift;
	uint64_t low, span; /* all places lie in [low, low + span) */
	/* One bit per 64 bytes of address, modulo 2^16 bits: 0 if these bytes have no place. */
	uint64_t filter[(1 << PLACES_FILTER_BITS) / 64];
};

/* Adds the places [start, end), unless that is empty. False if out of memory. */
bool places_add(struct places *places, uint64_t start, uint64_t end);
void places_prepare(struct places *places);
bool places_have(const struct places *places, uint64_t address);
void places_deinit(struct places *places);

/*
 * An image: the context that the kernel saves for a signal handler (struct rt_sigframe), as far as
 * it was read. A program's copy of such a context looks the same. `at` is the address of the image.
 */
struct place_image {
	uint64_t at;
	uint64_t sp, pc;	   /* registers of the interrupted thread */
	uint64_t stack, stack_end; /* extent of the thread's alternate stack, or 0 */
	uint64_t state;		   /* address of the saved floating-point state */
	bool is_remote;		   /* control_run() of this library made the image */
};

/* most bytes of an image, on any instruction set (arch_frame_layout.bytes) */
enum { PLACE_IMAGE_MAX = 640 };

/* Functions that receive the results. If one returns false, the scan ends. */
struct place_visitor {
	void *data;
	/* Receives a word that is a place. `is_context`: it is the program counter of an image. */
	bool (*word)(void *data, uint64_t at, uint64_t word, bool is_context);
	bool (*image)(void *data, const struct place_image *image);
	bool only_images; /* report no words except program counters of images */
	/* mappings of the process, to tell code from data; NULL if unknown */
	const struct maps *maps;
};

/*
 * Scans `size` bytes that were read at an address; both numbers are multiples of 8. Reports words
 * and images that begin in the first `step` bytes. An image needs PLACE_IMAGE_MAX more bytes, and
 * is recognised only if they were read. A word of an image is reported before the image.
 */
bool places_scan(const struct places *places, uint64_t address, const uint8_t *bytes, size_t size,
	size_t step, const struct place_visitor *visitor);

/* ---- Search ---------------------------------------------------------------------------------- */

/* Searches the memory of a process for words that are places: contexts that a thread may resume. */

/* A saved context whose program counter is a place. */
struct search_find {
	uint64_t at, word;
	bool is_remote; /* this library saved the context, to run a system call */
	/* Address of the floating-point state, if the frame is where the kernel made it; or 0. */
	uint64_t state;
	/* The extent of that frame, up to the interrupted stack if the stack follows; or 0. */
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
	struct maps maps;	       /* mappings at the last search of everything */
	struct search_source *sources; /* how each mapping is read, parallel to maps.items */
	struct backing backing;
	int file;	    /* descriptor of a file that is read instead of the process, or -1 */
	uint64_t file_bias; /* added to an address, it gives the offset in `file` */
	/* Receives the results; if NULL, they are kept in `finds`. */
	const struct place_visitor *visitor;

	/* The results of the search. */
	struct search_find *finds;
	size_t find_count;
	struct search_part *parts;
	size_t part_count;
	const char *unknown; /* why the search is incomplete, or NULL */
	uint64_t bytes;	     /* number of bytes that were searched */
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
 * Is a found context certainly a leftover? A frame that the kernel made for a handler is whole, up
 * to the end of the floating-point state, until the handler returns. A leftover frame is rarely
 * whole if its stack was used again.
 */
bool search_is_stale(const struct search *search, const struct search_find *find);

/* ---- Frames ---------------------------------------------------------------------------------- */

/* Finds where the stopped threads of a target are, and where signal handlers will return to. */

/* A stack that was searched: its used part is from `low` to `end`. */
struct frames_stack {
	uint64_t low, end;
	bool is_threads; /* libc or the kernel made the stack for the thread that runs on it */
};

struct served;

/*
 * Program counters of stopped threads, and the places that they will return to. Until
 * frames_sort(), the first control->count are the threads' own. frames_open() prepares the rest
 * before the stop.
 */
struct frames {
	uint64_t *pcs;
	size_t count, room;
	struct frames_stack *stacks; /* stacks of threads, and stacks that handlers interrupted */
	size_t stack_count;
	pid_t pid;
	const struct maps *maps;
	struct maps fresh; /* mappings that were read during the stop, if `maps` are too old */
	const struct places *places;
	uint64_t reach;	     /* bytes that are searched of a stack that libc did not make */
	int status;	     /* descriptor of /proc/PID/status */
	bool has_handlers;   /* frames_open() or frames_read() found an installed signal handler */
	const char *unknown; /* why frames may be missing, or NULL */
	uint8_t *buffer;
	int pagemap;	      /* descriptor of the process's pagemap; negative if unavailable */
	struct served *known; /* only set during frames_read() */
};

/* At most this many bytes of a stack are searched; if it is larger, frames.unknown is set. */
#define FRAMES_REACH (UINT64_C(16) << 20)

/*
 * Prepares frames_read(). `maps` and `places` are borrowed. Only words that are in `places` are
 * collected from stacks. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_open(pid_t pid, const struct maps *maps,
	const struct places *places, uint64_t reach, struct frames *ret);

/*
 * Collects the program counter of each stopped thread, and the places in its registers and on its
 * stacks, where contexts are that signal handlers interrupted. Forgets earlier results. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_read(
	struct frames *frames, const struct control *control);
void frames_close(struct frames *frames);

/* Has a process installed a signal handler? True if that is unknown. */
bool frames_has_handlers(pid_t pid);

/* Adds an address to which a thread will come. False if out of memory. */
bool frames_add(struct frames *frames, uint64_t pc);

/* Returns the stack in [start, end) of a thread that runs on its own stack, or NULL. */
const struct frames_stack *frames_own_stack(
	const struct frames *frames, uint64_t start, uint64_t end);

/* Sorts the collected addresses, for frames_within(). */
void frames_sort(struct frames *frames);

/* Is one of the collected, sorted addresses in [start, end)? */
bool frames_within(const struct frames *frames, uint64_t start, uint64_t end);

/* ---- Busy ------------------------------------------------------------------------------------ */

/* Registry entries that a thread is in, or will come to. Parallel to the registry's arrays. */
struct busy {
	bool *sites; /* for each site: a thread is in its hop, pun or tail */
	bool *stubs;
	/* for each session: functions that its stubs have called have not returned */
	bool *calling;
	bool any;
};

/* Allocates the arrays of `busy`. False if out of memory. */
bool busy_init(struct busy *busy, const struct registry *registry);
void busy_deinit(struct busy *busy);

/* ---- Doubts ---------------------------------------------------------------------------------- */

/* Contexts below a thread's stack pointer, which a thread may or may not resume. */

/* One context that is in doubt. */
struct doubt {
	uint64_t at, word, frame, frame_end; /* members of the search_find */
	bool settled, is_held;		     /* `is_held`: some memory refers to the context */
};

/* Contexts in doubt. Initialise with {0}. */
struct doubts {
	struct doubt *items;
	size_t count;
	bool any;	/* some contexts are still in doubt */
	uint64_t guard; /* the pointer guard of glibc in the process: see places.guard */
	size_t searches;
};

/* Prepares doubts_are_live(), with all threads stopped. */
void doubts_begin(struct doubts *doubts, const struct control *control);

/*
 * With all threads stopped, and `frames` read: will a thread resume a context? True if unknown. A
 * doubt that doubts_settle() can settle is recorded.
 */
bool doubts_are_live(struct doubts *doubts, const struct frames *frames,
	const struct search *search, const struct search_find *find);

/*
 * Settles the recorded doubts; the process may run. `search` must have run before. *settled_ret is
 * false if there were no doubts, or too many searches. Errors: those of search_words().
 */
PROBE_MUST_CHECK struct probe_error *doubts_settle(
	struct doubts *doubts, struct search *search, bool *settled_ret);
void doubts_deinit(struct doubts *doubts);

/* ---- Windows --------------------------------------------------------------------------------- */

/* Checks that a patch may replace several instructions: no thread may return between them. */

/* State of the check. Initialise with {0}. */
struct windows {
	struct places places; /* addresses of instructions that the jumps will cover */
	struct frames frames;
	struct search search; /* search.parts is the memory in which contexts were found */
	struct doubts doubts;
	bool looked;
	const char *reason;
};

/*
 * Returns why no patch of this process may replace more than one instruction, or NULL. The first
 * call searches the process for memory that holds contexts. The text lives as long as the target.
 */
const char *windows_reason(struct windows *windows, const struct change *change);

/* Adds the instructions in [start, end), which will be overwritten. False if out of memory. */
bool windows_add(struct windows *windows, uint64_t start, uint64_t end);

/* The last step before the stop. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *windows_prepare(
	struct windows *windows, const struct change *change);

/*
 * With all threads stopped: fills windows->frames with their program counters, followed by the
 * places to which threads will return. Errors: PROBE_ERROR_REFUSED (the places are unknown),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *windows_read(
	struct windows *windows, const struct change *change);

/*
 * A thread was in the way, or seemed so: settles doubts about its context, or waits a moment while
 * all threads run. Errors: those of search_all().
 */
PROBE_MUST_CHECK struct probe_error *windows_wait(struct windows *windows);
void windows_close(struct windows *windows);

/* ---- Quiet ----------------------------------------------------------------------------------- */

/* Waits until no thread is in ended stubs, or will return to them. */

struct quiet {
	/* flags of ended sites and stubs, parallel to the registry's arrays; borrowed */
	const bool *sites, *stubs;
	struct places places; /* the code of the ended sites and stubs */
	struct frames frames;
	struct search search;
	struct doubts doubts;
	bool searched; /* a search of all memory was made */
	bool moved;    /* some contexts that the search found are gone */
};

/* Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. After an error, call only quiet_close(). */
PROBE_MUST_CHECK struct probe_error *quiet_open(
	const struct change *change, const bool *sites, const bool *stubs, struct quiet *ret);
void quiet_close(struct quiet *quiet);

/* With all threads stopped: collects where they are, and judges contexts that a search found. */
PROBE_MUST_CHECK struct probe_error *quiet_look(
	struct quiet *quiet, const struct change *change, struct busy *busy);

/*
 * Looks until no thread is in ended code, for a while if `wait`, and fills in *busy. `look` stops
 * the target, calls quiet_look(), and resumes the target; `first` is true for its first call only.
 */
PROBE_MUST_CHECK struct probe_error *quiet_wait(struct quiet *quiet, struct change *change,
	struct busy *busy, bool wait,
	struct probe_error *(*look)(void *data, struct change *change, bool first), void *data);

/* ---- Sequences ------------------------------------------------------------------------------- */

/* A program's own restartable sequences (rseq(2)). */

struct sequence {
	uint64_t start, end; /* range of addresses in the target */
};

/* The sequences of one module. Initialise with {0}. */
struct sequences {
	struct sequence *items;
	size_t count;
};

/* ---- Unfit ----------------------------------------------------------------------------------- */

/* Finds sites at which no stub may run, however they could be patched. */

struct unfit {
	const struct arch *arch;
	const struct module *module; /* the module of the sites; borrowed */
	struct sequences sequences;
	/* Link-time range of code from a function's start on that does not lose the stack. */
	struct object_range harmless;
};

#endif
