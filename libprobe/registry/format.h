/* SPDX-License-Identifier: MIT */
/* The format of the registry, which controllers leave in a target for later controllers. */
#ifndef LIBPROBE_REGISTRY_FORMAT_H
#define LIBPROBE_REGISTRY_FORMAT_H

#include "libprobe/process/process.h"

/* ---- Registry -------------------------------------------------------------------------------- */

/*
 * The registry is the controllers' record in a target: it lists which session has patched which
 * site.
 *
 * The registry is an image of plain arrays in memory of the target. There, the memory is readable
 * and executable but not writable, because the image shares an arena with the stubs. Controllers
 * write it through /proc/PID/mem. The memory is private, so a forked child has a registry that is
 * right for the child.
 *
 * A controller writes a new image beside the old one, and then changes one 8-byte word in the home
 * page to point to the new image. Whenever a controller is killed, one whole image is current. An
 * image that announces something is written before the controller does it; an image that no longer
 * lists something is written after the controller has undone it. So the registry always lists at
 * least everything that exists.
 */

/*
 * Code memory that controllers have mapped. The first arena contains the home page. An arena of one
 * page belongs to a pun.
 */
struct reg_arena {
	uint64_t start, size;
	uint64_t inode; /* inode of its file; a mapping of another file is not ours (own.c) */
	/* 1 if the program has sealed the arena (mseal(2)), so that it cannot be unmapped */
	uint64_t sealed;
};

/* How far before a jump the first of the sites that share the jump can be, in bytes. */
enum { REG_SHARED_MAX = 4136 };

enum reg_session_flags {
	REG_SESSION_PERSISTENT = 1, /* the session has no owner, and stays until it is disabled */
	REG_SESSION_RETIRED = 2,    /* switched off; a thread may still be in the session's stubs */
	REG_SESSION_RECORDS = 4,    /* the session's stubs write records */
	REG_SESSION_OVERWRITES = 8, /* new records of the session overwrite the oldest ones */
	REG_SESSION_BUCKETS = 16,   /* the session's cells have buckets */
	/*
	 * The session's stubs call functions of the target itself. The session belongs to the
	 * target: it has no owner, and lasts until the target ends it. A forked child has the
	 * functions and the session as well, so the session's data is private.
	 */
	REG_SESSION_CALLS = 32,
	REG_SESSION_KERNEL_TIME = 64, /* the session's time stamps are those of CLOCK_MONOTONIC */
	REG_SESSION_OTHERS = 128      /* after the entries, the table has a cell for each slot */
};

/* Counters, cells and rings of one session, in a mapping of their own: see data.c. */
struct reg_session {
	uint32_t id;
	uint32_t flags;
	int32_t owner; /* pid of the controller in its own pid namespace; 0 if persistent */
	uint32_t cpus;
	/*
	 * The owner's start time, in clock ticks since boot. If the session has no owner: the
	 * address of the function that its stubs call.
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
	 * If forked children use the table as well: the address of the process's number, in the
	 * page of the guard (arch_flights). Otherwise 0.
	 */
	uint64_t process;
};

/* A probe of a session. */
struct reg_probe {
	uint64_t key; /* hash that identifies the probe: see select_key() */
	uint32_t session;
	uint32_t refcount;
	uint32_t slot;
	uint32_t part; /* role of the probe in a pair, if persistent (session_part_word()) */
};

/* A patched site. */
struct reg_site {
	uint64_t pc;	/* run-time address of the site, from its note */
	uint64_t patch; /* address of the changed bytes; neighbours share them */
	/*
	 * Address of the code that continues after the site, of the neighbour's entry, or of the
	 * site itself.
	 */
	uint64_t tail;
	uint64_t entry; /* address of the jump that leads to the first stub */
	/*
	 * An address that depends on the plan. Pun: the pun's page, or its entry in an arena. Site
	 * that shares its jump with neighbours: its entry. Plans before and call: the code that
	 * runs before the first stub. Otherwise 0.
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
	 * Short jump only: the address of the jump that the short jump leads to, the bytes that
	 * were at this address, and the jump.
	 */
	uint64_t hop;
	uint8_t hop_original[8], hop_patched[8];
};

/* A session's stub at a site. The stubs of one site are linked, the newest first. */
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
 * A part of the text that the controller of a persistent session leaves. The number 0 belongs to no
 * session: the text of session 0 holds the names of the probes (registry_names()).
 */
struct reg_text {
	uint32_t session;
	uint32_t index; /* index of this part of the text */
	char bytes[56]; /* bytes of this part; the last part ends with zeros */
};

/* The value that a session has added to a semaphore. */
struct reg_semaphore {
	uint64_t key; /* key of the probe */
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
 * session; stubs by pc and order, so that the stubs of a site are adjacent, the newest last.
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
 * The value of `home` in data whose session has ended, if the program has sealed the data
 * (mseal(2)). The data stays until the process ends, and belongs to no session.
 */
#define DATA_SEALED_HOME UINT64_MAX

enum {
	/*
	 * The bytes used of the home page and of the guard's page. The size of a page is a multiple
	 * of this number.
	 */
	REGISTRY_PAGE = 4096,
	/* The guard's page begins with guards of 8 bytes; a u32 for each session follows here. */
	GUARD_PROCESSES_OFFSET = 2048,
	GUARD_MARK_OFFSET = REGISTRY_PAGE - 16, /* struct guard_mark */
	/* Offsets in the first page of the data: */
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
 * The addresses of our code when the session began. If the registry is lost, these addresses tell
 * which jumps at sites lead to memory that was ours (lost.c). Arenas that do not fit into the array
 * are then unknown.
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
/*
 * If the session is a flight recorder that is kept, its records are described in the data. This is
 * the place of the description; all zero if there is none.
 */
struct data_notes {
	uint64_t offset, bytes; /* offset in the data, and length in bytes */
};
/*
 * Identifies the page of the guard. In a forked child the page is zero, so the kernel's flag for
 * wiped memory identifies the page (own.c).
 */
struct guard_mark {
	uint64_t magic, page; /* GUARD_MAGIC, and the address of the page */
};
#define GUARD_MAGIC UINT64_C(0x3164726175677270) /* "prguard1" */
#define DATA_MAGIC UINT64_C(0x31617461646f7270)	 /* "prodata1" */

/*
 * Loads the registry of a process. If the process has no registry, or the memory of the registry is
 * no longer ours (lost.c), the result has home 0 and is empty. Reading does not need the lock: the
 * result was the current registry at some moment. Errors: PROBE_ERROR_FORMAT (the registry makes no
 * sense), PROBE_ERROR_PERMISSION (memory may not be read, so a registry may exist),
 * PROBE_ERROR_STATE (the registry changes all the time).
 */
PROBE_MUST_CHECK struct probe_error *registry_load(
	pid_t pid, const struct maps *maps, struct registry *ret);
void registry_deinit(struct registry *registry);

/* Bytes that the image of the registry will take. */
size_t registry_image_size(const struct registry *registry);

/*
 * Writes the registry as a new image to free code memory at `image` (see code_alloc()). The image
 * is not current yet. `mem` is from memory_open().
 */
PROBE_MUST_CHECK struct probe_error *registry_write(
	struct registry *registry, int mem, uint64_t image);

/* Makes an image of `size` bytes the current one by writing one word. */
PROBE_MUST_CHECK struct probe_error *registry_publish(
	struct registry *registry, int mem, uint64_t image, uint64_t size);

/*
 * *ret becomes true if the process was forked with this registry and nothing has been added to the
 * registry since. Errors: those of memory_read_all().
 */
PROBE_MUST_CHECK struct probe_error *registry_is_inherited(
	const struct registry *registry, pid_t pid, bool *ret);

/* Has another controller changed the registry since it was loaded? */
bool registry_is_stale(const struct registry *registry, pid_t pid);

/*
 * Appends an element of zeros; returns NULL if memory is short. Pointers into the array become
 * invalid. Call registry_sort() before the next lookup.
 */
#define X(type, name)                                                                              \
	struct reg_##type *registry_add_##type(struct registry *registry);                         \
	/* Removes the element at an index; the order of the rest stays. */                        \
	void registry_remove_##type(struct registry *registry, size_t index);                      \
	/* Removes the elements whose flag is set. */                                              \
	void registry_drop_##type(struct registry *registry, const bool *flags);
REGISTRY_ARRAYS(X)
#undef X
void registry_sort(struct registry *registry);

/* Stores a text with a session, in place of the previous text. Returns false if memory is short. */
bool registry_set_text(struct registry *registry, uint32_t session, const char *text);
/*
 * Returns a copy of the session's text; the caller frees it. NULL if there is no text, or no
 * memory.
 */
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
	char *text; /* storage of the strings */
};

/*
 * Gets the names of the registry's probes. Probes that an older probectl has switched on have no
 * name. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *registry_names(
	const struct registry *registry, struct registry_names *ret);
void registry_names_deinit(struct registry_names *names);
/* Returns the name of the probe with a key; NULL if the name is unknown. */
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
/* Returns the first site whose pc is in [start, end), and the number of these sites. */
struct reg_site *registry_sites(
	const struct registry *registry, uint64_t start, uint64_t end, size_t *count_ret);
struct reg_probe *registry_probe(const struct registry *registry, uint64_t key, uint32_t session);

/* Return the first element for a probe or site, and the number of elements, which are adjacent. */
struct reg_probe *registry_probes(const struct registry *registry, uint64_t key, size_t *count_ret);
struct reg_stub *registry_stubs(const struct registry *registry, uint64_t pc, size_t *count_ret);
struct reg_semaphore *registry_semaphores(
	const struct registry *registry, uint64_t key, size_t *count_ret);

/* Retires a session in the registry: nothing refers to its probes any more. */
void registry_retire(struct registry *registry, struct reg_session *session);

/* The address of the page that a forked child finds zero. */
static inline uint64_t registry_guard_page(const struct registry *registry)
{
	return registry->guard & ~(uint64_t)(REGISTRY_PAGE - 1);
}

/* Is a session's controller dead? False for a persistent session, which needs no controller. */
bool registry_is_dead(const struct reg_session *session);

/* Returns the sum of a probe's reference counts in the persistent sessions, or in all sessions. */
uint32_t registry_refcount(const struct registry *registry, uint64_t key, bool persistent_only);

/*
 * Returns the entry of a probe in a persistent session, preferably in one that has references to
 * the probe. Returns NULL if the probe is in no persistent session.
 */
struct reg_probe *registry_persistent(const struct registry *registry, uint64_t key);

#endif
