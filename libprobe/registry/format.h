/* SPDX-License-Identifier: MIT */
/* The format of the registry, which controllers leave in a target for each other. */
#ifndef LIBPROBE_REGISTRY_FORMAT_H
#define LIBPROBE_REGISTRY_FORMAT_H

#include "libprobe/process/process.h"

/* ---- Registry -------------------------------------------------------------------------------- */

/*
 * What controllers keep in a target: which session has patched what.
 *
 * The registry is an image of plain arrays in memory of the target that is
 * readable and executable but not writable there (it shares an arena with the
 * stubs); controllers write it through /proc/PID/mem. It is private memory, so
 * a forked child has a registry that is right for the child.
 *
 * A new image is written beside the old one, and then one 8-byte word, in the
 * home page, is changed to point to it. Whatever a controller does between,
 * and whenever it is killed, one whole image is current. An image is written
 * before what it announces is done, and after what it no longer has is undone:
 * the registry always holds at least what is there.
 */

/* Code memory that controllers mapped: the first one is home, single pages are puns'. */
struct reg_arena {
	uint64_t start, size;
	uint64_t inode;	 /* of its file; a mapping of another file is not ours (own.h) */
	uint64_t sealed; /* 1: the program has sealed it (mseal(2)), so it cannot be unmapped */
};

/* How far before a jump the first of the sites is that share it. */
enum { REG_SHARED_MAX = 4136 };

enum reg_session_flags {
	REG_SESSION_PERSISTENT = 1, /* has no owner: stays until disabled */
	REG_SESSION_RETIRED = 2,    /* switched off; a thread may still be in its stubs */
	REG_SESSION_RECORDS = 4,    /* its stubs write records */
	REG_SESSION_OVERWRITES = 8, /* ... over the oldest ones */
	REG_SESSION_BUCKETS = 16,   /* its cells have buckets */
	/*
	 * Its stubs call functions of the process itself, to which it belongs: it has no
	 * owner, and lasts until the process ends it. A forked child has both as well, and
	 * so its data is private.
	 */
	REG_SESSION_CALLS = 32,
	REG_SESSION_KERNEL_TIME = 64, /* time stamps are CLOCK_MONOTONIC's */
	REG_SESSION_OTHERS = 128      /* its table has a cell for each slot behind the entries */
};

/* Counters, cells and rings of one enabling, in a mapping of its own: see data.h. */
struct reg_session {
	uint32_t id;
	uint32_t flags;
	int32_t owner; /* pid of the controller, as it sees itself; 0 if persistent */
	uint32_t cpus;
	/* Its start time, in clock ticks since boot; without an owner: which function is called. */
	uint64_t owner_start;
	uint64_t stamp; /* unique among all sessions, also those of other programs */
	uint64_t data, data_size, inode;
	uint64_t slots; /* addresses in the target, within data */
	uint64_t rings;
	uint32_t slot_count, slot_capacity;
	uint8_t slots_shift, rings_shift;
	uint8_t flight_identities; /* 1: each begin has room for an identity, too; or 0 */
	uint8_t pad[1];
	uint32_t ring_bytes;
	uint32_t cells;	     /* offset in a set: of a cell per slot, or of a table of cells */
	uint32_t cell_bytes; /* of each, or of an entry; 0: there are none */
	uint32_t entries;    /* of the table; 0: there is none */
	uint32_t entry_cell; /* offset of the cell in an entry */
	uint64_t flights;    /* struct probe_flight; 0: there are none */
	uint32_t flight_entries, flight_depth;
	uint32_t flight_keep; /* bytes that are kept of each begin (arch_flights); 0: none */
	uint32_t flight_text; /* bytes of a key that is a text (arch_flights); 0: it is a number */
	/* Where forked children use them as well: a word in the guard's page (arch_flights). */
	uint64_t process;
};

/* A probe of a session. */
struct reg_probe {
	uint64_t key; /* see select_key() */
	uint32_t session;
	uint32_t refcount;
	uint32_t slot;
	uint32_t part; /* of a persistent session: what it is to its pair (session_part_word()) */
};

/* A patched site. */
struct reg_site {
	uint64_t pc;	/* of the note, run-time */
	uint64_t patch; /* address of the changed bytes; neighbours share them */
	/* Code that continues after the site, or the entry of its neighbour, or the site itself. */
	uint64_t tail;
	uint64_t entry; /* address of the jump that leads to the first stub */
	/*
	 * Of a pun: its page, or its entry in an arena; of a site that shares its jump with
	 * neighbours: its entry; of the plans before and call: what runs before
	 * the first stub; else 0.
	 */
	uint64_t pun;
	uint64_t count;	   /* of a call of OCaml's: of who wants the handler; else 0 */
	uint32_t pun_size; /* bytes of that */
	uint32_t tail_size;
	uint8_t plan;	/* enum probe_plan */
	uint8_t length; /* of the changed bytes */
	uint8_t covers; /* bytes from `patch` on that the patch replaces or relies on */
	uint8_t original[8], patched[8];
	uint8_t relies; /* bytes from `patch` on that it relies on, if they are more; else 0 */
	uint8_t pad[4];
	/*
	 * Of a short jump: the address of the jump that it leads to, the bytes there before, and
	 * the jump.
	 */
	uint64_t hop;
	uint8_t hop_original[8], hop_patched[8];
};

/* A stub of a session at a site. Those of one site are linked, newest first. */
struct reg_stub {
	uint64_t pc;  /* of the site */
	uint64_t key; /* of its probe */
	uint64_t start;
	uint32_t size;
	uint32_t next_jump; /* offset of the jump to the next stub or to the tail */
	uint32_t session;
	uint32_t order; /* among those of the site: the highest is entered first */
	uint32_t site;	/* what its records call it */
	uint32_t pad;
};

/*
 * A part of the text that the controller of a persistent session leaves. Session 0 does not exist:
 * its text holds the names of the probes (registry_names()).
 */
struct reg_text {
	uint32_t session;
	uint32_t index; /* of the part */
	char bytes[56]; /* the last part ends with zeros */
};

/* The value that a session added to a semaphore. */
struct reg_semaphore {
	uint64_t key; /* of the probe */
	uint64_t address;
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
 * A controller's copy of the registry. Sites are sorted by pc; probes and semaphores by key and
 * session; stubs by pc and order, so that those of a site are adjacent, the newest last.
 */
struct registry {
	uint64_t home;	/* address of the home page; 0: the target has none */
	uint64_t image; /* address of the current image, and its size */
	uint64_t image_size;
	uint64_t guard; /* address of a word, in a page that a forked child finds zero */
	uint64_t generation;
	uint32_t next_session;
#define X(type, name)                                                                              \
	struct reg_##type *name;                                                                   \
	size_t type##_count;
	REGISTRY_ARRAYS(X)
#undef X
};

/* The first bytes of a session's data, by which its mapping leads to the registry. */
struct data_header {
	uint64_t magic;
	uint64_t home;
	uint32_t session;
	uint32_t guard;	    /* 1: the guard of stubs that forked children run as well */
	uint64_t answer;    /* where the kernel writes what a call is made to learn */
	uint32_t processes; /* the number given out last: see arch_flights */
	uint32_t maker;	    /* lasting_maker() of its process */
};
/*
 * The `home` of data whose session has ended, but which the program has sealed (mseal(2)). The data
 * stays until the process ends, and is nobody's.
 */
#define DATA_SEALED_HOME UINT64_MAX

enum {
	/* What is used of the home page and the guard's, and a divisor of what a page has. */
	REGISTRY_PAGE = 4096,
	/* The guard's page has guards, of 8 bytes, and from here on a u32 for each session. */
	GUARD_PROCESSES_OFFSET = 2048,
	GUARD_MARK_OFFSET = REGISTRY_PAGE - 16, /* struct guard_mark */
	/* In the first page of the data: */
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
 * Where our code was when the session began. If the registry is lost, this tells which jumps at
 * sites lead to memory that was ours (lost.c). Arenas beyond the end of the array are then unknown.
 */
enum { DATA_ARENAS_MAX = 120 };
struct data_arenas {
	uint64_t count;
	struct {
		uint64_t start, size;
	} items[DATA_ARENAS_MAX];
};
/* All clocks at one instant near the start of a persistent session. Zero: not known. */
struct data_clock {
	uint64_t stamp, realtime_ns;
	uint64_t steady_stamp, steady_ns;
};
/* Where the description of a kept flight recorder's records is. Zero: there is none. */
struct data_notes {
	uint64_t offset, bytes; /* in the data */
};
/*
 * Identifies the page of the guard. A forked child finds the page zero; it has another proof
 * (own.h).
 */
struct guard_mark {
	uint64_t magic, page; /* GUARD_MAGIC, and the address of the page */
};
#define GUARD_MAGIC UINT64_C(0x3164726175677270) /* "prguard1" */
#define DATA_MAGIC UINT64_C(0x31617461646f7270)	 /* "prodata1" */

/*
 * Loads the registry of a process. If the process has no registry, or the memory that held it is no
 * longer ours (lost.c), the result has home 0 and is empty. Reading does not need the lock: the
 * result was the current registry at some moment. Errors: PROBE_ERROR_FORMAT (there is one, but it
 * makes no sense), PROBE_ERROR_PERMISSION (there may be one, but memory may not be read),
 * PROBE_ERROR_STATE (it changes all the time).
 */
PROBE_MUST_CHECK struct probe_error *registry_load(
	pid_t pid, const struct maps *maps, struct registry *ret);
void registry_deinit(struct registry *registry);

/* Bytes that the image will take. */
size_t registry_image_size(const struct registry *registry);

/*
 * Writes the registry as a new image at an address (of free code memory, see
 * code_alloc()). It is not the current one yet. `mem` is from memory_open().
 */
PROBE_MUST_CHECK struct probe_error *registry_write(
	struct registry *registry, int mem, uint64_t image);

/* Makes an image of `size` bytes the current one: one word is written. */
PROBE_MUST_CHECK struct probe_error *registry_publish(
	struct registry *registry, int mem, uint64_t image, uint64_t size);

/*
 * Was the process forked with this registry, and has nothing been added to it since? *ret says so.
 * Errors: those of memory_read_all().
 */
PROBE_MUST_CHECK struct probe_error *registry_is_inherited(
	const struct registry *registry, pid_t pid, bool *ret);

/* Has another controller changed the registry since it was loaded? */
bool registry_is_stale(const struct registry *registry, pid_t pid);

/*
 * Appends an element, set to zero; NULL without memory. Pointers into the array become invalid;
 * call registry_sort() before the next lookup.
 */
#define X(type, name)                                                                              \
	struct reg_##type *registry_add_##type(struct registry *registry);                         \
	/* Removes the element at an index; the order of the others stays. */                      \
	void registry_remove_##type(struct registry *registry, size_t index);                      \
	/* Removes those whose flag is set. */                                                     \
	void registry_drop_##type(struct registry *registry, const bool *flags);
REGISTRY_ARRAYS(X)
#undef X
void registry_sort(struct registry *registry);

/* Keeps a text with a session, in place of what was kept; false without memory. */
bool registry_set_text(struct registry *registry, uint32_t session, const char *text);
/* A copy of it, to be freed; NULL: there is none, or no memory. */
char *registry_text(const struct registry *registry, uint32_t session);
void registry_forget_texts(struct registry *registry, uint32_t session);

/* The name of the probe that has a key. */
struct reg_name {
	uint64_t key;
	const char *provider, *name;
};

/* The names of a registry's probes, sorted by key. */
struct registry_names {
	struct reg_name *items;
	size_t count;
	char *text; /* holds the strings */
};

/*
 * Finds the names of the registry's probes. Probes that an older probectl has switched on have no
 * name. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *registry_names(
	const struct registry *registry, struct registry_names *ret);
void registry_names_deinit(struct registry_names *names);
/* Returns NULL if the name is unknown. */
const struct reg_name *registry_names_find(const struct registry_names *names, uint64_t key);
/*
 * Adds names of probes that are in the registry, and removes the names of probes that are no longer
 * in it. The strings are copied. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *registry_add_names(
	struct registry *registry, const struct reg_name *added, size_t count);

struct reg_session *registry_session(const struct registry *registry, uint32_t id);
/* Does the data of a session begin at this address? */
bool registry_has_data(const struct registry *registry, uint64_t address);
struct reg_site *registry_site(const struct registry *registry, uint64_t pc);
/* The sites whose pc is in [start, end): the first, and their number. */
struct reg_site *registry_sites(
	const struct registry *registry, uint64_t start, uint64_t end, size_t *count_ret);
struct reg_probe *registry_probe(const struct registry *registry, uint64_t key, uint32_t session);

/* The elements of a probe or a site are adjacent: the first, and their number. */
struct reg_probe *registry_probes(const struct registry *registry, uint64_t key, size_t *count_ret);
struct reg_stub *registry_stubs(const struct registry *registry, uint64_t pc, size_t *count_ret);
struct reg_semaphore *registry_semaphores(
	const struct registry *registry, uint64_t key, size_t *count_ret);

/* Ends a session in the registry: nothing refers to its probes any more. */
void registry_retire(struct registry *registry, struct reg_session *session);

/* The page that a forked child finds zero. */
static inline uint64_t registry_guard_page(const struct registry *registry)
{
	return registry->guard & ~(uint64_t)(REGISTRY_PAGE - 1);
}

/* Is a session's controller dead? A persistent session needs none. */
bool registry_is_dead(const struct reg_session *session);

/* Reference count of a probe: of the persistent sessions, or of all. */
uint32_t registry_refcount(const struct registry *registry, uint64_t key, bool persistent_only);

/* The probe of a persistent session, preferably one that has references; or NULL. */
struct reg_probe *registry_persistent(const struct registry *registry, uint64_t key);

#endif
