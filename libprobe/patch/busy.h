/* SPDX-License-Identifier: MIT */
/* Finds the threads that may still be in code that is about to change. */
#ifndef LIBPROBE_PATCH_BUSY_H
#define LIBPROBE_PATCH_BUSY_H

#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"

/* ---- Pages ----------------------------------------------------------------------------------- */

/* Finds the pages that a process has in memory, or swapped out. */

/* A run of pages, as the kernel reports it (struct page_region). */
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

/* Returns false if out of memory. The caller must call pages_close() in any case. */
bool pages_open(int pagemap, struct pages *ret);
void pages_close(struct pages *pages);

/*
 * Examines the page at `at` and some of the following pages, at most up to `end`. Stores the ranges
 * of present pages in pages->runs, in ascending order; two ranges may be adjacent. Returns the
 * number of ranges, or SIZE_MAX on failure. *next_ret is the first page that was not examined.
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
	 * reported: other words may be mere data, such as a copy of the registry or the samples of
	 * a profiler. Set by the caller.
	 */
	bool are_code;
	/*
	 * Pointer guard of glibc, or 0; set by the caller. If it is not 0, a word is also compared
	 * in the form in which setjmp(3) stores pointers.
	 */
	uint64_t guard;
	uint8_t guard_shift;
	uint64_t low, span; /* all places lie in [low, low + span) */
	/*
	 * A filter with one bit for each 64 bytes of address, modulo 2^16 bits. The bit is 0 if
	 * these 64 bytes contain no place.
	 */
	uint64_t filter[(1 << PLACES_FILTER_BITS) / 64];
};

/* Adds the places [start, end); an empty range is ignored. Returns false if out of memory. */
bool places_add(struct places *places, uint64_t start, uint64_t end);
void places_prepare(struct places *places);
bool places_have(const struct places *places, uint64_t address);
void places_deinit(struct places *places);

/*
 * An image: the part that was read of a context that the kernel has saved for a signal handler
 * (struct rt_sigframe). A copy that a program has made of such a context looks the same. `at` is
 * the address of the image.
 */
struct place_image {
	uint64_t at;
	uint64_t sp, pc;	   /* registers of the interrupted thread */
	uint64_t stack, stack_end; /* extent of the thread's alternate stack, or 0 */
	uint64_t state;		   /* address of the saved floating-point state */
	/* control_run() of this library made the image, not the kernel */
	bool is_remote;
};

/* most bytes of an image, on any instruction set (arch_frame_layout.bytes) */
enum { PLACE_IMAGE_MAX = 640 };

/* Functions that receive the results of a scan. If one of them returns false, the scan ends. */
struct place_visitor {
	void *data;
	/*
	 * Receives a word that is a place. `is_context` is true if the word is the program counter
	 * of an image.
	 */
	bool (*word)(void *data, uint64_t at, uint64_t word, bool is_context);
	bool (*image)(void *data, const struct place_image *image);
	bool only_images; /* call `word` only for the program counters of images */
	/* mappings of the process, to tell code from data; NULL if unknown */
	const struct maps *maps;
};

/*
 * Scans `size` bytes that were read at `address`; both numbers are multiples of 8. Reports the
 * words and images that begin in the first `step` bytes. An image is recognised only if the
 * PLACE_IMAGE_MAX bytes after its start were read, too. The words of an image are reported before
 * the image.
 */
bool places_scan(const struct places *places, uint64_t address, const uint8_t *bytes, size_t size,
	size_t step, const struct place_visitor *visitor);

/* ---- Search ---------------------------------------------------------------------------------- */

/* Searches the memory of a process for words that are places: contexts that a thread may resume. */

/* A saved context whose program counter is a place. */
struct search_find {
	uint64_t at, word;
	/* this library saved the context, in order to run a system call in the thread */
	bool is_remote;
	/*
	 * Address of the floating-point state; 0 if the context is not where the kernel saved it.
	 */
	uint64_t state;
	/*
	 * The extent of the frame in which the kernel saved the context; 0 if that is unknown. The
	 * extent reaches up to the interrupted stack if this stack follows the frame.
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
	/* descriptor of a file that is read instead of the memory of the process, or -1 */
	int file;
	uint64_t file_bias; /* address + file_bias is the offset in `file` */
	/* Receives the results. If this is NULL, they are stored in `finds`. */
	const struct place_visitor *visitor;

	/* The results of the search. */
	struct search_find *finds;
	size_t find_count;
	struct search_part *parts;
	size_t part_count;
	const char *unknown; /* why the search is incomplete; NULL if it is complete */
	uint64_t bytes;	     /* number of bytes that were searched */
	bool no_memory;
};

/*
 * Prepares a search, which may also run while the process is stopped. `places` and `mem`
 * (memory_open()) are borrowed. `skipped` is the address of our own guard page, or 0. Errors:
 * PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. After an error, call only search_close().
 */
PROBE_MUST_CHECK struct probe_error *search_open(
	pid_t pid, int mem, const struct places *places, uint64_t skipped, struct search *ret);
void search_close(struct search *search);

/*
 * Forgets earlier results, and searches all memory that can hold a context. The process may run
 * meanwhile: a context that exists during the whole search is found. Errors: those of maps_read().
 */
PROBE_MUST_CHECK struct probe_error *search_all(struct search *search);

/*
 * Searches the same memory as search_all(), but for other places and with another visitor. Earlier
 * results stay. If the search is incomplete, search->unknown says why. Errors: those of
 * search_all().
 */
PROBE_MUST_CHECK struct probe_error *search_words(
	struct search *search, const struct places *places, const struct place_visitor *visitor);

/*
 * Returns true if a found context is certainly a leftover, which no thread resumes. The kernel's
 * frame of a handler is whole, up to the end of the floating-point state, until the handler
 * returns. A leftover frame is rarely whole if its stack was used again.
 */
bool search_is_stale(const struct search *search, const struct search_find *find);

/* ---- Frames ---------------------------------------------------------------------------------- */

/*
 * Finds the addresses at which the stopped threads of a target are, and to which their signal
 * handlers will return.
 */

/* A stack that was searched: its used part is from `low` to `end`. */
struct frames_stack {
	uint64_t low, end;
	/* libc or the kernel has made the stack for the thread that runs on it now */
	bool is_threads;
};

struct served;

/*
 * Program counters of the stopped threads, and places to which these threads will return. The
 * program counters come first, control->count of them, until frames_sort() sorts everything.
 * frames_open() sets the other members before the stop.
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
	uint64_t reach;	     /* how many bytes are searched of a stack that libc did not make */
	int status;	     /* descriptor of /proc/PID/status */
	bool has_handlers;   /* frames_open() or frames_read() found an installed signal handler */
	const char *unknown; /* why some of the addresses may be missing, or NULL */
	uint8_t *buffer;
	int pagemap;	      /* descriptor of the process's pagemap; negative if unavailable */
	struct served *known; /* only set during frames_read() */
};

/* At most this many bytes of a stack are searched. If a stack is larger, frames.unknown is set. */
#define FRAMES_REACH (UINT64_C(16) << 20)

/*
 * Prepares frames_read(). `maps` and `places` are borrowed. Only words that are in `places` are
 * collected from stacks. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_open(pid_t pid, const struct maps *maps,
	const struct places *places, uint64_t reach, struct frames *ret);

/*
 * Collects the program counter of each stopped thread, and the places in its registers and on its
 * stacks. These include stacks that signal handlers have interrupted. Forgets earlier results.
 * Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_read(
	struct frames *frames, const struct control *control);
void frames_close(struct frames *frames);

/* Returns true if a process has installed a signal handler, or if that is unknown. */
bool frames_has_handlers(pid_t pid);

/* Adds an address to which a thread will come. Returns false if out of memory. */
bool frames_add(struct frames *frames, uint64_t pc);

/* Returns a stack in [start, end) that was made for the thread that runs on it, or NULL. */
const struct frames_stack *frames_own_stack(
	const struct frames *frames, uint64_t start, uint64_t end);

/* Sorts the collected addresses, for frames_within(). */
void frames_sort(struct frames *frames);

/* Returns true if one of the collected and sorted addresses is in [start, end). */
bool frames_within(const struct frames *frames, uint64_t start, uint64_t end);

/* ---- Busy ------------------------------------------------------------------------------------ */

/*
 * The registry entries whose code a thread is in, or will come to. Parallel to the registry's
 * arrays.
 */
struct busy {
	bool *sites; /* for each site: a thread is in the site's hop, pun or tail */
	bool *stubs;
	/* for each session: its stubs have called functions that have not returned yet */
	bool *calling;
	bool any;
};

/* Allocates the arrays of `busy`. Returns false if out of memory. */
bool busy_init(struct busy *busy, const struct registry *registry);
void busy_deinit(struct busy *busy);

/* ---- Doubts ---------------------------------------------------------------------------------- */

/*
 * Doubts: saved contexts below a thread's stack pointer. Some will be resumed, others are
 * leftovers.
 */

/* One context that is in doubt. */
struct doubt {
	uint64_t at, word, frame, frame_end; /* copied from the struct search_find */
	/* `is_held`: some memory refers to the context, so a thread may resume it */
	bool settled, is_held;
};

/* Contexts in doubt. Initialise with {0}. */
struct doubts {
	struct doubt *items;
	size_t count;
	bool any;	/* some contexts are still in doubt */
	uint64_t guard; /* the pointer guard of glibc in the process: see places.guard */
	size_t searches;
};

/* Prepares doubts_are_live(). All threads must be stopped. */
void doubts_begin(struct doubts *doubts, const struct control *control);

/*
 * Returns true if a thread will resume the context `find`, or if that is unknown. All threads must
 * be stopped, and `frames` must be read. Records the context as a doubt if doubts_settle() can find
 * out more.
 */
bool doubts_are_live(struct doubts *doubts, const struct frames *frames,
	const struct search *search, const struct search_find *find);

/*
 * Searches memory for references to the recorded contexts, which settles the doubts. The process
 * need not be stopped. `search` must have run before. Sets *settled_ret to false if there were no
 * doubts, or if doubts were settled too often already. Errors: those of search_words().
 */
PROBE_MUST_CHECK struct probe_error *doubts_settle(
	struct doubts *doubts, struct search *search, bool *settled_ret);
void doubts_deinit(struct doubts *doubts);

/* ---- Windows --------------------------------------------------------------------------------- */

/*
 * Checks that a patch may replace several instructions: no thread may return to an address between
 * them.
 */

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
 * Returns why no patch of this process may replace more than one instruction, or NULL if a patch
 * may. The first call searches the process for memory that holds contexts. The text lives as long
 * as the target.
 */
const char *windows_reason(struct windows *windows, const struct change *change);

/*
 * Adds the instructions in [start, end), which will be overwritten. Returns false if out of memory.
 */
bool windows_add(struct windows *windows, uint64_t start, uint64_t end);

/* The last step before threads are stopped. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *windows_prepare(
	struct windows *windows, const struct change *change);

/*
 * Fills windows->frames with the program counters of all threads, which must be stopped, followed
 * by the places to which threads will return. Errors: PROBE_ERROR_REFUSED (the places are unknown),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *windows_read(
	struct windows *windows, const struct change *change);

/*
 * To be called after a thread was, or seemed to be, in the bytes to be patched. Settles the doubts,
 * if there are any; otherwise waits a moment while all threads run. Errors: those of search_all().
 */
PROBE_MUST_CHECK struct probe_error *windows_wait(struct windows *windows);
void windows_close(struct windows *windows);

/* ---- Quiet ----------------------------------------------------------------------------------- */

/* Waits until no thread is in the code of ended sites and stubs, or will return to it. */

struct quiet {
	/* which sites and stubs have ended, parallel to the registry's arrays; borrowed */
	const bool *sites, *stubs;
	struct places places; /* the code of the ended sites and stubs */
	struct frames frames;
	struct search search;
	struct doubts doubts;
	bool searched; /* a search of all memory was made */
	bool moved;    /* some contexts that the search found are gone */
};

/*
 * Prepares the waiting. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. After an error, call
 * only quiet_close().
 */
PROBE_MUST_CHECK struct probe_error *quiet_open(
	const struct change *change, const bool *sites, const bool *stubs, struct quiet *ret);
void quiet_close(struct quiet *quiet);

/*
 * Collects the addresses of all threads, which must be stopped, and judges the contexts that a
 * search has found.
 */
PROBE_MUST_CHECK struct probe_error *quiet_look(
	struct quiet *quiet, const struct change *change, struct busy *busy);

/*
 * Looks repeatedly until no thread is in ended code; gives up after a while, or after one look if
 * `wait` is false. Fills in *busy. `look` must stop the target, call quiet_look(), and resume the
 * target. Its argument `first` is true in the first call only.
 */
PROBE_MUST_CHECK struct probe_error *quiet_wait(struct quiet *quiet, struct change *change,
	struct busy *busy, bool wait,
	struct probe_error *(*look)(void *data, struct change *change, bool first), void *data);

/* ---- Sequences ------------------------------------------------------------------------------- */

/* The restartable sequences (rseq(2)) of a program. */

struct sequence {
	uint64_t start, end; /* range of addresses in the target */
};

/* The sequences of one module. Initialise with {0}. */
struct sequences {
	struct sequence *items;
	size_t count;
};

/* ---- Unfit ----------------------------------------------------------------------------------- */

/* Finds sites at which no stub may run, whatever plan would patch them. */

struct unfit {
	const struct arch *arch;
	const struct module *module; /* the module of the sites; borrowed */
	struct sequences sequences;
	/*
	 * Link-time range of code, from the start of a function on, in which the stack pointer
	 * always points to a stack.
	 */
	struct object_range harmless;
};

#endif
