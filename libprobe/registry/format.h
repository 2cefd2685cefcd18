/* SPDX-License-Identifier: MIT */
#pragma once

#include "libprobe/process/process.h"

/* ---- Registry -------------------------------------------------------------------------------- */

/*
 * The format of the registry, in which controllers record in a target which session has patched
 * which site.
 *
 * It is an image of plain arrays in the target's memory, readable and executable because it shares
 * an arena with the stubs, and written through /proc/PID/mem. The memory is private, so a forked
 * child has a registry that is right for the child.
 *
 * A controller writes a new image beside the old one, and then changes one 8-byte word in the home
 * page to point to it: whenever it is killed, one whole image is current. An image announces
 * something before it is done, and drops something after it is undone, so it always lists at least
 * everything that exists.
 */

/*
 * Code memory mapped by controllers. The first arena has the home page; a pun's arena is one page.
 */
struct reg_arena {
	uint64_t start, size;
	/* inode of its file; if another file is mapped there, the mapping is not ours (own.c) */
	uint64_t inode;
	/* 1 if the program has sealed the arena (mseal(2)), so that it cannot be unmapped */
	uint64_t sealed;
};

/* The maximum distance from the first site that shares a jump to the jump. */
enum { REG_SHARED_MAX = 4136 };

enum reg_session_flags {
	REG_SESSION_PERSISTENT = 1, /* the session has no owner, and stays until it is disabled */
	REG_SESSION_RETIRED = 2,    /* switched off; a thread may still be in the session's stubs */
	REG_SESSION_RECORDS = 4,    /* the session's stubs write records */
	REG_SESSION_OVERWRITES = 8, /* new records of the session overwrite the oldest ones */
	REG_SESSION_BUCKETS = 16,   /* the session's cells have buckets */
	/*
	 * The stubs call functions of the target, which owns the session and ends it without a
	 * controller. A forked child has its own functions and session, so the data is private.
	 */
	REG_SESSION_CALLS = 32,
	REG_SESSION_KERNEL_TIME = 64, /* the session's time stamps are those of CLOCK_MONOTONIC */
	REG_SESSION_OTHERS = 128      /* after the entries, the table has a cell for each slot */
};

/* The counters, cells and rings of a session, in a mapping of their own: see data.c. */
struct reg_session {
	uint32_t id;
	uint32_t flags;
	int32_t owner; /* pid of the controller in its own pid namespace; 0 if persistent */
	uint32_t cpus;
	/*
	 * The owner's start time, in clock ticks since boot. If the session has no owner, the
	 * address of the function that the stubs call.
	 */
	uint64_t owner_start;
	uint64_t stamp; /* number unique among all sessions, also those in other programs */
	uint64_t data, data_size, inode;
	uint64_t slots; /* like `rings`, an address in the target, within the data */
	uint64_t rings;
	uint32_t slot_count, slot_capacity;
	uint8_t slots_shift, rings_shift;
	uint8_t flight_identities; /* 1 if each start event has room for an identity, else 0 */
	uint8_t pad[1];
	uint32_t ring_bytes;
	uint32_t cells;	     /* offset in a set where its cells, or its table of cells, begin */
	uint32_t cell_bytes; /* bytes of each cell or table entry; 0 if there are no cells */
	uint32_t entries;    /* number of entries in the table; 0 if there is no table */
	uint32_t entry_cell; /* offset of the cell in a table entry */
	uint64_t flights;    /* address of the struct probe_flight table, or 0 */
	uint32_t flight_entries, flight_depth;
	uint32_t flight_keep; /* bytes kept of each start event (arch_flights), or 0 */
	uint32_t flight_text; /* bytes of a text key (arch_flights); 0 if keys are numbers */
	/*
	 * The address of the process's number in the guard's page (arch_flights), if forked
	 * children share the table; else 0.
	 */
	uint64_t process;
};

struct reg_probe {
	uint64_t key; /* hash that identifies the probe: see select_key() */
	uint32_t session;
	uint32_t refcount;
	uint32_t slot;
	uint32_t part; /* role of the probe in a pair, if persistent (session_part_word()) */
};

struct reg_site {
	uint64_t pc;	/* run-time address of the site, from its note */
	uint64_t patch; /* address of the changed bytes; neighbours share them */
	/* Address of the code after the site, of the neighbour's entry, or of the site itself. */
	uint64_t tail;
	uint64_t entry; /* address of the jump that leads to the first stub */
	/*
	 * Depends on the plan. Pun: its page, or its entry in an arena. Shared jump: the site's
	 * entry, with what is moved from before the site. Plans before and call: the code before
	 * the first stub. Otherwise 0.
	 */
	uint64_t pun;
	uint64_t count;	   /* OCaml calls: address of the count of users of the handler; else 0 */
	uint32_t pun_size; /* bytes of the code at `pun` */
	uint32_t tail_size;
	uint8_t plan;	/* how the site is patched: enum probe_plan */
	uint8_t length; /* number of changed bytes */
	uint8_t covers; /* bytes from `patch` on that the patch replaces or relies on */
	uint8_t original[8], patched[8];
	/* bytes from `patch` on that the patch relies on, if more than `covers`; else 0 */
	uint8_t relies;
	uint8_t pad[4];
	/*
	 * For a short jump only: the address of the jump that it leads to, the original bytes at
	 * that address, and the jump.
	 */
	uint64_t hop;
	uint8_t hop_original[8], hop_patched[8];
};

/* A session's stub at a site; the stubs of a site are linked, newest first. */
struct reg_stub {
	uint64_t pc;  /* address of the site */
	uint64_t key; /* key of the probe */
	uint64_t start;
	uint32_t size;
	uint32_t next_jump; /* offset of the jump to the next stub or to the tail */
	uint32_t session;
	uint32_t order; /* the stub with the highest order at a site is entered first */
	uint32_t site;	/* number of the site in the stub's records */
	uint32_t pad;
};

/*
 * A part of a persistent session's text. Session 0 does not exist: its text is the names of the
 * probes (registry_names()).
 */
struct reg_text {
	uint32_t session;
	uint32_t index; /* index of this part of the text */
	char bytes[56]; /* bytes of this part; the last part ends with zeros */
};

/* A semaphore, or a guard of <probe/tracepoint.h>, which goes with a semaphore. */
struct reg_semaphore {
	uint64_t key; /* key of the probe */
	uint64_t address;
	uint64_t label; /* where a guard jumps; 0 for a semaphore */
	uint32_t session;
	uint32_t added;
};

#define REGISTRY_ARRAYS(X)                                                                         \
	X(arena, arenas)                                                                           \
	X(session, sessions)                                                                       \
	X(probe, probes)                                                                           \
	X(site, sites)                                                                             \
	X(stub, stubs)                                                                             \
	X(semaphore, semaphores)                                                                   \
	X(text, texts)

/*
 * A controller's copy. Sites are sorted by pc; probes and semaphores by key and session; stubs by
 * pc and order, so a site's are adjacent, the newest last.
 */
struct registry {
	uint64_t home;	/* address of the home page; 0 if the target has no home */
	uint64_t image; /* address of the current image */
	uint64_t image_size;
	uint64_t guard; /* address of a word in a page that a forked child finds zero */
	uint64_t generation;
	uint32_t next_session;
#define X(type, name)                                                                              \
	struct reg_##type *name;                                                                   \
	size_t type##_count;
	REGISTRY_ARRAYS(X)
#undef X
};

/* The first bytes of a session's data. They lead from the data's mapping to the registry. */
struct data_header {
	uint64_t magic;
	uint64_t home;
	uint32_t session;
	uint32_t guard;	    /* always 1: the guard word of stubs that forked children run, too */
	uint64_t answer;    /* where the kernel writes its answer to a remote call */
	uint32_t processes; /* the last process number given out: see arch_flights */
	uint32_t maker;	    /* lasting_maker() of the process that made the data */
};
/*
 * Value of `home` in data of an ended session that the program has sealed (mseal(2)): the data
 * stays, but without an owner.
 */
#define DATA_SEALED_HOME UINT64_MAX

enum {
	/* Bytes used of the home page and the guard's page, whose size is a multiple of this. */
	REGISTRY_PAGE = 4096,
	/* The guard's page begins with guards of 8 bytes, then a u32 for each session. */
	GUARD_PROCESSES_OFFSET = 2048,
	GUARD_MARK_OFFSET = REGISTRY_PAGE - 16, /* struct guard_mark */
	/* Offsets in the first page of the data */
	DATA_RATE_OFFSET = 128,	     /* u64: see arch_stub.rate_word */
	DATA_CLOCK_OFFSET = 256,     /* struct data_clock */
	DATA_SWITCH_OFFSET = 320,    /* two u32: see arch_stub.on, and .on_until_full */
	DATA_NOTES_OFFSET = 384,     /* struct data_notes */
	DATA_GATE_OFFSET = 512,	     /* struct probe_gate: where libraries are opened */
	DATA_EXEC_GATE_OFFSET = 768, /* struct probe_gate: at execve() */
	DATA_ROOM_OFFSET = 1024,     /* struct probe_room */
	DATA_ARENAS_OFFSET = 2048    /* struct data_arenas */
};
/*
 * The addresses of our code when the session began, as many as fit. If the registry is lost, they
 * tell which jumps at sites are ours (lost.c).
 */
enum { DATA_ARENAS_MAX = 120 };
struct data_arenas {
	uint64_t count;
	struct {
		uint64_t start, size;
	} items[DATA_ARENAS_MAX];
};
/* All clocks at one instant near the start of a persistent session. All zero if unknown. */
struct data_clock {
	uint64_t stamp, realtime_ns;
	uint64_t steady_stamp, steady_ns;
};
/* Where a kept flight recorder's data describes its records; all zero if it does not. */
struct data_notes {
	uint64_t offset, bytes; /* offset in the data, and length in bytes */
};
/* Identifies the guard's page. In a forked child it is zero; the kernel's flag tells (own.c). */
struct guard_mark {
	uint64_t magic, page; /* GUARD_MAGIC, and the address of the page */
};
#define GUARD_MAGIC UINT64_C(0x3164726175677270) /* "prguard1" */
#define DATA_MAGIC UINT64_C(0x31617461646f7270)	 /* "prodata1" */

/*
 * Loads the registry of a process. It is empty, with home 0, if the process has none or its memory
 * is no longer ours (lost.c). If the caller does not hold the lock, the result was current at some
 * moment. Errors: PROBE_ERROR_FORMAT (impossible values), PROBE_ERROR_PERMISSION (memory is
 * unreadable, so a registry may exist), PROBE_ERROR_STATE (it changes all the time).
 */
PROBE_MUST_CHECK struct probe_error *registry_load(
	pid_t pid, const struct maps *maps, struct registry *ret);
void registry_deinit(struct registry *registry);

size_t registry_image_size(const struct registry *registry);

/*
 * Writes a new image to free code memory (code_alloc()); registry_publish() makes it current.
 * `mem`: memory_open().
 */
PROBE_MUST_CHECK struct probe_error *registry_write(
	struct registry *registry, int mem, uint64_t image);

/* Makes an image current by writing one word. */
PROBE_MUST_CHECK struct probe_error *registry_publish(
	struct registry *registry, int mem, uint64_t image, uint64_t size);

/*
 * *ret is true if the process was forked with this registry, and nothing was added since. Errors:
 * as memory_read_all().
 */
PROBE_MUST_CHECK struct probe_error *registry_is_inherited(
	const struct registry *registry, pid_t pid, bool *ret);

/* Returns true if another controller has changed the registry since it was loaded. */
bool registry_is_stale(const struct registry *registry, pid_t pid);

/*
 * Appends zeros. Returns NULL if memory is short. Invalidates pointers into the array. Call
 * registry_sort() before the next lookup.
 */
#define X(type, name)                                                                              \
	struct reg_##type *registry_add_##type(struct registry *registry);                         \
	/* Removes the elements whose flag is set. */                                              \
	void registry_drop_##type(struct registry *registry, const bool *flags);
REGISTRY_ARRAYS(X)
#undef X
void registry_sort(struct registry *registry);

/* Replaces the text of a session. Returns false if memory is short. */
bool registry_set_text(struct registry *registry, uint32_t session, const char *bytes, size_t size);
/*
 * Copies a session's text, with a NUL behind it; the caller frees it. NULL if it has none
 * (*size_ret is 0), or memory is short.
 */
char *registry_text(const struct registry *registry, uint32_t session, size_t *size_ret);
void registry_forget_texts(struct registry *registry, uint32_t session);

struct reg_name {
	uint64_t key;
	const char *provider, *name;
};

/* Sorted by key. */
struct registry_names {
	struct reg_name *items;
	size_t count;
	char *text; /* storage of the strings */
};

/*
 * Gets the names of probes, except those that an older probectl enabled. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *registry_names(
	const struct registry *registry, struct registry_names *ret);
void registry_names_deinit(struct registry_names *names);
/* Returns NULL if the name is unknown. */
const struct reg_name *registry_names_find(const struct registry_names *names, uint64_t key);
/*
 * Adds names of the registry's probes (the strings are copied), and drops names of probes that it
 * does not have any more. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *registry_add_names(
	struct registry *registry, const struct reg_name *added, size_t count);

struct reg_session *registry_session(const struct registry *registry, uint32_t id);
/* Returns the arena that contains an address, or NULL. */
const struct reg_arena *registry_arena(const struct registry *registry, uint64_t address);
/* Returns true if the data of a session begins at this address. */
bool registry_has_data(const struct registry *registry, uint64_t address);
struct reg_site *registry_site(const struct registry *registry, uint64_t pc);
/* Returns the first site whose pc is in [start, end), and the number of them. */
struct reg_site *registry_sites(
	const struct registry *registry, uint64_t start, uint64_t end, size_t *count_ret);
struct reg_probe *registry_probe(const struct registry *registry, uint64_t key, uint32_t session);

/* Return the first element for a probe or site, and the number of them, which are adjacent. */
struct reg_probe *registry_probes(const struct registry *registry, uint64_t key, size_t *count_ret);
struct reg_stub *registry_stubs(const struct registry *registry, uint64_t pc, size_t *count_ret);
struct reg_semaphore *registry_semaphores(
	const struct registry *registry, uint64_t key, size_t *count_ret);

/* Retires a session: nothing refers to its probes any more. */
void registry_retire(struct registry *registry, struct reg_session *session);

/* Returns the address of the page that a forked child finds zero. */
static inline uint64_t registry_guard_page(const struct registry *registry)
{
	return registry->guard & ~(uint64_t)(REGISTRY_PAGE - 1);
}

/* Is a session's controller dead? False for persistent sessions, which need none. */
bool registry_is_dead(const struct reg_session *session);

/* Sums a probe's reference counts in the persistent sessions, or in all. */
uint32_t registry_refcount(const struct registry *registry, uint64_t key, bool persistent_only);

/* Returns a probe's entry in a persistent session, preferably one that refers to it, or NULL. */
struct reg_probe *registry_persistent(const struct registry *registry, uint64_t key);
