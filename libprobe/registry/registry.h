/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_REGISTRY_REGISTRY_H
#define LIBPROBE_REGISTRY_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/stub.h"
#include "libprobe/base/error.h"
#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"
#include "probe/pattern.h"
#include "probe/target.h"

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
	 * neighbours: its entry; of PROBE_PLAN_BEFORE and PROBE_PLAN_CALL: what runs
	 * before the first stub; else 0.
	 */
	uint64_t pun;
	uint64_t count;	   /* of PROBE_PLAN_CALL: of who wants the handler; else 0 */
	uint32_t pun_size; /* bytes of that */
	uint32_t tail_size;
	uint8_t plan;	/* enum probe_plan */
	uint8_t length; /* of the changed bytes */
	uint8_t covers; /* bytes from `patch` on that the patch replaces or relies on */
	uint8_t original[8], patched[8];
	uint8_t relies; /* of PROBE_PLAN_PART: how far it relies on bytes, if that is more; else 0
			 */
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

/* What a session added to a semaphore. */
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
/* Of a persistent session: all clocks at one instant near its start. Zero: not known. */
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

/* Does the target have nothing of ours left, except memory that the program has sealed? */
bool registry_is_sealed(const struct registry *registry);

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

/* ---- Code ------------------------------------------------------------------------------------ */

/* Which parts of our arenas are in use, according to the registry. */

/*
 * Finds aligned room for `size` bytes in an arena within reach of a jump of all of [reach_start,
 * reach_end); 0: there is none. What is in use is what the arrays name, the current image and
 * `taken` (extents handed out but not yet in an array; the new one is appended).
 */
struct code_extent {
	uint64_t start, size;
};
struct code_taken {
	struct code_extent *items;
	size_t count;
};
uint64_t code_alloc(const struct registry *registry, struct code_taken *taken, size_t size,
	size_t alignment, uint64_t reach_start, uint64_t reach_end);

/* Does an address lie in an arena that code is allocated in? A single page is a pun's. */
bool code_arena(const struct registry *registry, uint64_t address);

/* Takes `size` bytes there, unless they are in use. */
bool code_take(
	const struct registry *registry, struct code_taken *taken, uint64_t start, size_t size);

/* Keeps in use what was so until now; false without memory. */
bool code_keep(struct code_taken *taken, struct code_extent extent);
/*
 * Forgets what was handed out last, because it is not needed or is in the registry by now; or all
 * of it.
 */
void code_release(struct code_taken *taken);
void code_release_all(struct code_taken *taken);

/* Could a stub at any place of [start, end) jump to and from [reach_start, reach_end)? */
bool code_reaches(uint64_t start, uint64_t end, uint64_t reach_start, uint64_t reach_end);

/* ---- Lasting --------------------------------------------------------------------------------- */

/* Files that hold a session's memory and outlive the process that has it mapped. */

/*
 * A file to create: its path in the target's view (NULL: a file in memory, which does not last),
 * and the layout of the data that stubs write.
 */
struct lasting_file {
	const char *path;
	const struct reg_session *layout; /* before data_place() */
	int folder;			  /* the file's folder: lasting_find() */
};

/* Errors: PROBE_ERROR_USAGE (no absolute path, or none that ends in SHARED_SUFFIX). */
PROBE_MUST_CHECK struct probe_error *lasting_check(const char *path);

/*
 * How many bytes are free for the target's user where a process would create the file. Errors:
 * PROBE_ERROR_SYSTEM; PROBE_ERROR_USAGE (a file system on which hits could wait for ever, or fail).
 */
PROBE_MUST_CHECK struct probe_error *lasting_room(pid_t pid, const char *path, uint64_t *ret);

/*
 * Opens the folder in which the process will create a file. Links of users other than the process's
 * and root are not followed. Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION.
 */
PROBE_MUST_CHECK struct probe_error *lasting_find(pid_t pid, const char *path, int *ret);

/*
 * Opens the empty file that is descriptor `fd` of a thread of the target. Sets its size, allocates
 * its room, and sets a mode in which nobody truncates it by mistake. After an error its name is
 * removed. Errors: PROBE_ERROR_STATE, PROBE_ERROR_USAGE, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *lasting_open(
	pid_t pid, pid_t tid, int64_t fd, const struct lasting_file *file, int *fd_ret);

/* Removes the name of an open file that this thread has created and not mapped yet. */
void lasting_remove_open(pid_t pid, pid_t tid, int64_t fd);

/*
 * The pid of a process in its own pid namespace; 0: unknown. It tells a process from its forked
 * children, which have the same file mapped.
 */
uint32_t lasting_maker(pid_t pid);

/* The files that retired sessions have mapped. Initialise it with {0}. */
struct lasting_names {
	struct mapping *items; /* with paths of their own */
	size_t count;
};
/* Remembers the mapping at an address if it maps such a file. False without memory. */
bool lasting_note(struct lasting_names *names, const struct maps *maps, uint64_t address);
/* Removes each file whose name still refers to it, and frees the list. */
void lasting_remove(struct lasting_names *names, pid_t pid);
void lasting_deinit(struct lasting_names *names);

/* ---- Lock ------------------------------------------------------------------------------------ */

/* Controllers that change the same process take turns. */

/* The open files that the lock consists of; -1 for a file that is not open. */
struct target_lock {
	int ours, theirs;
};

/*
 * Takes the lock, and waits for a process that holds it; see probe_target_on_wait() and
 * probe_target_set_patience(). Errors: PROBE_ERROR_BUSY (another process has held it for too long),
 * PROBE_ERROR_NOT_FOUND (no such process), PROBE_ERROR_PERMISSION, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *lock_target(
	struct probe_target *target, struct target_lock *ret);
void lock_release(struct target_lock *lock);

/*
 * Notes that the target is one of those that share its patience. Among processes of several users,
 * those of users other than ours are waited for only a moment: they delay the others.
 */
void patience_join(const struct probe_target *target);
/*
 * How long a change waits for threads that cannot stop. `may_fail`: nothing in the target is
 * written yet, and the change can be repeated.
 */
uint64_t patience_for_threads(const struct probe_target *target, bool may_fail);
/* After such a wait: the error, which remains PROBE_ERROR_BUSY if the change is to be repeated. */
PROBE_MUST_CHECK struct probe_error *patience_after(const struct probe_target *target,
	bool may_fail, uint64_t begun_ns, struct probe_error *error);

/* Is a controller changing the process? Returns false if the caller may not take the lock. */
bool lock_is_taken(pid_t pid);

/* ---- Change ---------------------------------------------------------------------------------- */

/*
 * One change of a target: its state is read, something is prepared, committed
 * with all threads stopped, and what is no longer needed is given back.
 *
 *   change_begin()    lock; maps, modules, registry
 *   change_map_*()    memory in the target, one thread borrowed
 *   change_stop()     all threads are stopped
 *   change_resume()
 *   change_end()
 */

struct change {
	struct probe_target *target;
	void *urgent; /* how this process was scheduled before, if the target is held; owned */
	/* Called once sites that end are restored, while all threads are stopped; or NULL. */
	void (*restored)(void *data);
	void *restored_data;
	pid_t pid;
	struct target_lock lock;
	int mem;
	struct maps maps;
	struct modules modules;
	struct registry registry;
	struct code_taken taken; /* code memory handed out by this change */
	const struct arch *arch;
	struct arch_thread thread; /* how stubs identify threads; not in the loader */
	struct arch_gadgets gadgets;
	struct rooms rooms;
	bool rooms_known;
	struct prepared *prepared; /* for remote calls; NULL before the first */
	struct control control;	   /* while stopped or borrowed */
	bool stopped;
	/*
	 * The program has mapped memory over ours or unmapped it (own.h). The sessions that needed
	 * it are retired. `lost_ends` makes uninstall_find_dead() report work until they are ended.
	 */
	bool lost, lost_ends;
	uint64_t sealed_bytes; /* not unmapped, because the program has sealed them */
	bool gone;	       /* a site's memory was not there */
	bool differs;	       /* a site's memory was not as its file has it */
	bool borrowed; /* one thread is stopped for several runs of calls: change_borrow() */
	struct seccomp seccomp; /* what its threads may call; see change_judge() */
	bool begun;		/* something in the target may be changed */
	bool waited;		/* in vain, for threads that cannot stop */
	uint64_t wait_ns;	/* when the last such wait began */
	uint64_t resumed_ns;	/* when it was resumed last (CLOCK_MONOTONIC), or 0 */
	uint64_t stop_ns;	/* the longest stop so far */
};

enum { CHANGE_FILE_CALLS = 8 };	  /* mmap(2) calls for one file: a thread is stopped meanwhile */
enum { ARENA_BYTES = 256 << 10 }; /* arenas are this large, or a multiple of it */

/*
 * Locks the target against other controllers and reads its state. Errors leave
 * nothing to end: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION,
 * PROBE_ERROR_UNSUPPORTED, PROBE_ERROR_BUSY (another process has the lock),
 * PROBE_ERROR_SYSTEM (EMFILE: too few descriptors are left).
 */
PROBE_MUST_CHECK struct probe_error *change_begin(struct probe_target *target, struct change *ret);
/* The same, with what was in libraries that are closed, or opened again: see site.h. */
PROBE_MUST_CHECK struct probe_error *change_begin_as_it_is(
	struct probe_target *target, struct change *ret);
/*
 * Reads the state of a target without changing it: without the lock, and without what a stop
 * or a system call in it would need. Errors as above.
 */
PROBE_MUST_CHECK struct probe_error *change_look(struct probe_target *target, struct change *ret);
void change_end(struct change *change);

/* For a variable that change_begin() is called with at once: ends the change with its scope. */
#define AUTO_CHANGE __attribute__((cleanup(change_end)))

/*
 * Checks that this many descriptors, at most 32, can still be opened. PROBE_ERROR_SYSTEM (EMFILE,
 * ENFILE) if not: without descriptors a change can neither be made nor undone.
 */
PROBE_MUST_CHECK struct probe_error *change_need_descriptors(
	const struct change *change, size_t count);

/*
 * Is the process still the program that was looked at first? What was read of it, and is about to
 * be written, is right only for that one. PROBE_ERROR_NOT_FOUND: it has ended, or execve(2) has
 * replaced the program.
 */
PROBE_MUST_CHECK struct probe_error *change_check_program(const struct change *change);

/* Reads maps, or maps and registry, again, as they are in the target. */
PROBE_MUST_CHECK struct probe_error *change_reread_maps(struct change *change);
PROBE_MUST_CHECK struct probe_error *change_reread(struct change *change);

/* Stops all threads (those of a held target are stopped already), and resumes them. */
PROBE_MUST_CHECK struct probe_error *change_stop(struct change *change);
void change_resume(struct change *change);

/*
 * Finds out what the target's threads may call (change->seccomp), if they are under
 * filters; may stop it for that. Errors: those of stopping and of seccomp_judge().
 */
PROBE_MUST_CHECK struct probe_error *change_judge(struct change *change);

/*
 * Runs system calls in the target, borrowing one thread unless it is stopped.
 * A call that fails ends it: PROBE_ERROR_SYSTEM, named by `what`.
 */
PROBE_MUST_CHECK struct probe_error *change_run(
	struct change *change, const char *what, struct control_call *calls, size_t count);

/*
 * Stops one thread for several runs of calls, unless it is stopped already, and resumes it. Errors:
 * those of change_run().
 */
PROBE_MUST_CHECK struct probe_error *change_borrow(struct change *change);
void change_give_back(struct change *change);

/* The same in one of the stopped threads, by its index in change->control. */
PROBE_MUST_CHECK struct probe_error *change_run_in(struct change *change, size_t thread,
	const char *what, struct control_call *calls, size_t count);

/*
 * Where in code memory `size` bytes may go that reach all of an extent with jumps (see
 * code_alloc()); maps an arena if need be. Of several extents the first for which there is room.
 */
PROBE_MUST_CHECK struct probe_error *change_alloc_code(struct change *change, size_t size,
	const struct code_extent *reaches, size_t count, uint64_t *ret);

/*
 * Has the target create a file of `size` bytes, map it by these calls of mmap(2), and close it. One
 * thread is stopped during all of that. There may be CHANGE_FILE_CALLS calls at most; their
 * descriptor is set here. Without `data`, all of the file may be written. The results of the calls
 * are set, also after an error; 0: it was not made, or is undone. *fd_ret (may be NULL) is this
 * process's descriptor, or -1 after an error.
 */
PROBE_MUST_CHECK struct probe_error *change_map_file(struct change *change, size_t size,
	const struct lasting_file *data, struct control_call *calls, size_t count, int *fd_ret);

/* Removes the frames that killed controllers left; says how many. Errors: those of stopping. */
PROBE_MUST_CHECK struct probe_error *change_remove_frames(struct change *change, size_t *count_ret);

/* Calls: map code where nothing is (any other place is no success); close; unmap. */
struct control_call change_call_map_code(uint64_t address, uint64_t size);
struct control_call change_call_close(int64_t fd);
struct control_call change_call_unmap(uint64_t start, uint64_t size);

/*
 * Maps `size` bytes shared between the target and this process; the first page
 * begins with a struct data_header. *fd_ret is this process's descriptor. Private
 * ones are what was written to the descriptor before the target first touches them.
 */
PROBE_MUST_CHECK struct probe_error *change_map_data(struct change *change, size_t size,
	const struct lasting_file *data, bool is_private, uint64_t *address_ret, int *fd_ret);

/*
 * Finds a place for an image of the registry, as it now is in this process; writes the image there,
 * and makes it the current one: one word is written. Another image that is still there can be made
 * the current one again. Writing is for between change_begin_write() and change_end_write().
 */
PROBE_MUST_CHECK struct probe_error *change_place_image(
	struct change *change, struct code_extent *ret);
PROBE_MUST_CHECK struct probe_error *change_write_image(
	struct change *change, struct code_extent image);
PROBE_MUST_CHECK struct probe_error *change_publish(
	struct change *change, struct code_extent image);
/*
 * All of it. This announces what is about to be done, so that the next controller can finish it.
 * Without `may_stop`, threads that run go on: for changes of counts, which stop nothing.
 */
PROBE_MUST_CHECK struct probe_error *change_store(struct change *change, bool may_stop);

/*
 * Loads the registry from the mappings that were read, and compares it with them (own.h). Errors:
 * those of registry_load(), own_check(), lost_find() and change_check_program().
 */
PROBE_MUST_CHECK struct probe_error *change_load(struct change *change);

/*
 * Is all memory that the registry lists still ours? Called right before some of it is written;
 * short enough for a stop. Errors: PROBE_ERROR_STATE (it is not), those of own_holds() and
 * change_check_program().
 */
PROBE_MUST_CHECK struct probe_error *change_confirm(const struct change *change);

/*
 * Stops all threads, unless they are stopped, and confirms the same: until change_end_write(), what
 * is written is ours. While the program runs, it may map memory of its own between a comparison and
 * a write. Errors: those of stopping and of change_confirm(); then there is nothing to end.
 */
PROBE_MUST_CHECK struct probe_error *change_begin_write(struct change *change, bool *stops_ret);
void change_end_write(struct change *change, bool stops);
/* The same for one piece of memory that the registry lists. */
PROBE_MUST_CHECK struct probe_error *change_write(
	struct change *change, uint64_t address, const void *bytes, size_t size);

/*
 * Unmaps arenas that the registry does not list. Arenas that the program has sealed return to
 * the registry. Errors: those of change_run().
 */
PROBE_MUST_CHECK struct probe_error *change_unmap_arenas(
	struct change *change, const struct reg_arena *arenas, size_t count);

/* Unmaps what no session uses any more; at the end, everything. */
PROBE_MUST_CHECK struct probe_error *change_collect(struct change *change);

/* ---- Data ------------------------------------------------------------------------------------ */

/* What a session's data holds, and where: see docs/ring.md. */

/* What a session needs memory for in addition to its counters. All zero: nothing. */
struct data_needs {
	size_t ring_bytes; /* 0: no rings; rounded up to a power of two */
	bool overwrite;	   /* the rings are flight recorders */
	bool cells;
	bool buckets;	      /* in the cells */
	uint8_t key_count;    /* above 0: a table of cells */
	uint8_t string_count; /* of the keys */
	size_t string_bytes;  /* of each of them, without its end */
	size_t keys_max;      /* on one CPU */
	size_t pairs;	      /* whose begins are noted */
	bool by_key;	   /* they are distinguished by a key of the program, not by the thread */
	size_t keep_bytes; /* kept of each begin (struct probe_begun); a multiple of 8; or 0 */
	size_t text_bytes; /* of the key, if it is a text; else 0 */
	size_t threads;	   /* that the target has now */
	/*
	 * If forked children use the table as well, at least its entries, all of which they may
	 * touch in time; 0: only the threads of the target do.
	 */
	size_t flights_min;
	size_t notes_bytes; /* room that the session needs for its own notes */
};

enum {
	DATA_RING_DEFAULT = 4 << 20,
	DATA_RING_MIN = 1 << 17,
	DATA_RING_MAX = 1 << 30,
	DATA_KEY_STRING_DEFAULT = 256,
	DATA_DEPTH_THREAD = 1024, /* a deeper recursion loses its outermost begins */
	DATA_DEPTH_KEY = 8,
	DATA_DEPTH_SPANS = 128,	   /* of a thread, where begins are kept */
	DATA_KEEP_DEFAULT = 1024,  /* for begins in libraries that are opened later */
	DATA_FLIGHTS_MIN = 1024,   /* entries of the table of begins */
	DATA_FLIGHTS_FORKS = 4096, /* fewer if memory is scarce, but at least: */
	DATA_FLIGHTS_FEW = 64
};

/* Bytes of a cell, with its buckets; and of an entry of the table of begins. */
size_t data_cell_bytes(bool buckets);
size_t data_flight_bytes(const struct reg_session *session);

/*
 * Lays out the data of a session with counters for `probes`: sets all places in *session, as
 * offsets in the data. `cpus` is set already. Errors: PROBE_ERROR_USAGE (it would take absurdly
 * much).
 */
PROBE_MUST_CHECK struct probe_error *data_lay_out(
	struct reg_session *session, size_t probes, const struct data_needs *needs);

struct data_extent {
	uint64_t start, end;
};

/*
 * A part that stubs and controllers write, numbered from 0; false after the last one. Usable before
 * data_place().
 */
bool data_extent(const struct reg_session *session, uint32_t index, struct data_extent *ret);

/* The sum of the sizes of these parts. */
uint64_t data_bytes(const struct reg_session *session);

/* Turns the offsets into addresses in the target, for data that is mapped at session->data. */
void data_place(struct reg_session *session);

/*
 * Does the layout of a session's memory serve these needs? Sizes may differ, except those of cells.
 */
bool data_fits(const struct reg_session *session, const struct data_needs *needs);

/* Where the notes of a session that records are; 0: it has no room for any. */
uint64_t data_notes_offset(const struct reg_session *session);

/* Are the places of the rings, and of their data, possible? */
bool data_rings_make_sense(const struct reg_session *session);

/* Are all places possible? (Registries are read from memory of the target.) */
bool data_makes_sense(const struct reg_session *session);

/* How many cells, or entries of a table, each set has. */
uint32_t data_cell_count(const struct reg_session *session);

/* Does a session have an entry of the table of cells for each key? Else a cell per slot. */
static inline bool data_has_table(const struct reg_session *session)
{
	return session->entries != 0;
}

/* ---- Orphans --------------------------------------------------------------------------------- */

/* What controllers left if they were killed before the registry listed it. */
struct orphans {
	size_t mappings, descriptors;
};

/*
 * Counts the orphans of a process whose registry and maps these are. While a
 * change of it is under way, its memory may look like one: see lock_is_taken().
 */
void orphans_count(
	pid_t pid, const struct maps *maps, const struct registry *registry, struct orphans *ret);

/*
 * Unmaps and closes them; *ret is set. To be called before a change has mapped or
 * unmapped anything, or with maps that were read again. Errors: those of
 * change_run().
 */
PROBE_MUST_CHECK struct probe_error *orphans_remove(struct change *change, struct orphans *ret);

/*
 * Unmaps them only, and counts them. To be called before the home goes as well: data is recognised
 * by leading there.
 */
PROBE_MUST_CHECK struct probe_error *orphans_unmap(struct change *change, size_t *count_ret);

/* ---- Own ------------------------------------------------------------------------------------- */

/* Tells which memory that controllers have mapped in a target is still ours. */

/*
 * Memory to unmap. `inode` says how to recognise it: by the inode of its file, by our name
 * (OWN_NAMED), or as a guard's page (OWN_GUARD). OWN_NEW_GUARD also accepts an unmarked page: its
 * controller may have been killed before it wrote the mark.
 */
#define OWN_NAMED UINT64_MAX
#define OWN_GUARD (UINT64_MAX - 1)
#define OWN_NEW_GUARD (UINT64_MAX - 2)
struct own_extent {
	uint64_t start, size, inode;
	bool follows;	/* it is unmapped with the extent before it, or stays with it */
	bool is_sealed; /* set: the program has sealed some of it, or of what follows, which stays
			 */
};

/*
 * Unmaps the parts of these extents that are ours. All threads stay stopped from the reading of the
 * mappings until the parts are unmapped, so the program cannot map memory of its own there
 * meanwhile. Errors: those of stopping and of change_run().
 */
PROBE_MUST_CHECK struct probe_error *own_unmap(
	struct change *change, struct own_extent *extents, size_t count);

/*
 * Compares the registry (in this process) with the mappings. Code memory that is no longer ours is
 * removed from the arenas. Sessions that need lost memory are retired, because their sites jump
 * there. *lost_ret: something was lost. `mem` may be -1. After an error, the registry may be
 * incomplete. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM; PROBE_ERROR_NOT_FOUND and
 * PROBE_ERROR_STATE: the process has ended or become another program since `maps` was read.
 */
PROBE_MUST_CHECK struct probe_error *own_check(
	pid_t pid, int mem, const struct maps *maps, struct registry *registry, bool *lost_ret);

/* Is all of a session's data mapped, readable and writable? */
bool own_has_data(const struct maps *maps, const struct reg_session *session);

/*
 * Is all memory that a registry lists still ours, except that of retired sessions? Short enough for
 * a stop. `mem` may be -1. Errors: those of maps_read(), PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_NOT_FOUND: the process has ended or become another program.
 */
PROBE_MUST_CHECK struct probe_error *own_holds(
	pid_t pid, int mem, const struct registry *registry, bool *ret);

/* Returns how many bytes of ours the program has sealed: arenas, and data without a session. */
uint64_t own_sealed(pid_t pid, const struct maps *maps, const struct registry *registry);

/*
 * Called if there is no registry; the program may have mapped memory of its own over it. Compares
 * modules with their files to find the sites that jump to memory that is or was ours. If there are
 * such sites, or data of ours that leads to no registry, *ret becomes a registry by which all of
 * that can be ended: retired sessions, leftover code, and these sites. Otherwise *ret does not
 * change. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *lost_find(pid_t pid, const struct maps *maps,
	const struct modules *modules, struct registry *ret, bool *lost_ret);

/* ---- Recall ---------------------------------------------------------------------------------- */

/* Probes that are on in files that have changed or can no longer be read: see recall.c. */

/*
 * Discards the file of each module that contradicts the registry. A module without a file gets
 * notes of its probes in the registry, if their names are known; names that the patterns spell out
 * are tried, too. The probes of such a module can only be shown and switched off: their notes have
 * no arguments. Modules may be added, so pointers to them become invalid. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *recall_probes(struct modules *modules, pid_t pid,
	const struct maps *maps, const struct registry *registry,
	const struct probe_pattern *const *patterns, size_t count);

/* ---- Snapshot -------------------------------------------------------------------------------- */

/*
 * Reading a session's data while the target writes it: everything is copied
 * once, and only the copy is examined. Pages that were never touched are not
 * touched for reading either: that would give them memory.
 */

struct served;

struct snapshot {
	const uint8_t *base;   /* this process's mapping of the data; NULL: see pid */
	int fd;		       /* of the data, or -1 */
	pid_t pid;	       /* whose memory is read where there is no mapping; 0: see file */
	struct served *served; /* where pid's memory is read; owned by whoever made the view */
	int file; /* a descriptor with the data from file_start on; owned by its session */
	uint64_t file_start;
	struct reg_session layout;
	uint64_t known_start, known_end; /* offsets between which there are contents */
	uint64_t hole_start; /* from there to known_start there were none, in this round */
};

/*
 * Copies `size` bytes of the data at an offset, in words of 64 bits, none of
 * which is torn; both are multiples of 8. False where they are outside or gone.
 */
bool snapshot_read(const struct snapshot *view, uint64_t offset, void *to, size_t size);

/* The sum of one field of a probe's slot over all sets. */
uint64_t snapshot_sum_slots(const struct snapshot *view, uint32_t slot, size_t field);

/*
 * Is everything in [offset, offset + size) still as it was made, zero? Where that
 * was found in this round, it is not searched again.
 */
/* What is known of the process's pages is learned again, too. */
void snapshot_begin_round(struct snapshot *view);
bool snapshot_is_empty(struct snapshot *view, uint64_t offset, size_t size);

/* ---- What is gathered ------------------------------------------------------------------ */

/* One cell, as it was copied. */
struct view_cell {
	uint32_t slot; /* of its probe */
	/*
	 * Words of the key and bytes of its strings; NULL: there is no table, or this is what all
	 * keys have gathered that found no room in it.
	 */
	const uint8_t *key;
	const struct probe_cell *cell;
};

/*
 * Hands over every cell of every set in which something was gathered. `parts` has whether each part
 * of the keys is a string, of at most string_bytes. Entries that make no sense are left out. False
 * without memory, or when `visit` returned false.
 */
struct view_keys {
	const bool *is_string;
	size_t count;
	size_t string_bytes;
};
bool snapshot_cells(struct snapshot *view, const struct view_keys *keys,
	bool (*visit)(void *data, const struct view_cell *cell), void *data);

/*
 * What the cells of each slot have counted: an array of layout.slot_capacity, which the caller
 * frees. With no keys ({0}), nothing of the keys is checked. NULL without memory.
 */
uint64_t *snapshot_hits(struct snapshot *view, const struct view_keys *keys);

/* Bytes of a key that snapshot_cells() handed over. */
size_t snapshot_key_bytes(const struct view_keys *keys, const uint8_t *key);

/* Hands over each entry with begins, and its offset in the data. */
void snapshot_walk_flights(struct snapshot *view,
	void (*visit)(void *data, uint64_t offset, const struct probe_flight *flight), void *data);
/* How many begins of it wait for their ends. */
uint64_t snapshot_open_begins(
	const struct snapshot *view, uint64_t offset, const struct probe_flight *flight);

/*
 * How many begins of each of `pairs` pairs have no end yet: adds to ret[pairs].
 * `lives` (may be NULL) says whether a thread is still there: what others have
 * begun will not end.
 */
void snapshot_flights(struct snapshot *view, uint64_t *ret, uint32_t pairs,
	bool (*lives)(void *data, uint32_t tid), void *data);

/* ---- Recorder -------------------------------------------------------------------------------- */

/* Reading rings that are overwritten: flight recorders (arch/layout.h). */

/* One record: where its copy is, and which ring it was in. */
struct recorded {
	uint64_t time;
	size_t offset, size; /* in recording.bytes */
	uint32_t ring;
};

struct recording {
	struct recorded *records; /* the oldest first */
	size_t count;
	uint8_t *bytes;
	/*
	 * How many records that had not been read were written over; before this time (of the
	 * processor's counter) others may be missing.
	 */
	uint64_t overwritten;
	uint64_t whole_from;
};

/* Up to where a ring has been read: bytes ever written, and records. All zero at first. */
struct ring_since {
	uint64_t place, count;
};

/*
 * Copies the records that are in the rings now, while the target may be writing.
 * `record_max` is the length of the longest that it writes. What they hold is
 * for the caller to check.
 *
 * `since` may be NULL; else it has one for each ring, and each record is copied once.
 *
 * Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *recording_read(
	struct snapshot *view, size_t record_max, struct ring_since *since, struct recording *ret);
/* How many records have ever been written to the rings. */
uint64_t recording_total(struct snapshot *view);
void recording_deinit(struct recording *recording);

/* ---- Ring ------------------------------------------------------------------------------------ */

/* The consumer's side of a session's data: counters and rings (arch/layout.h). */

/* One ring as it is being read. */
struct ring {
	struct ring_header *header; /* shared with the target, which may write anything */
	const uint8_t *data;
	uint64_t tail;		 /* next to be read; written to the target now and then */
	uint64_t told;		 /* what header->tail is */
	uint64_t head;		 /* as of this round */
	uint64_t newest;	 /* the greatest time stamp that was read */
	uint64_t damaged;	 /* how often its contents made no sense and were discarded */
	struct probe_room *room; /* where hits wait for room; NULL: they do not */
};

struct rings {
	uint8_t *base; /* of the session's data in this process */
	size_t size;
	struct reg_session layout; /* as the registry has it: trusted */
	struct ring *rings;
	size_t count;
	uint64_t damaged; /* of rings whose memory was given back */
	uint8_t *record;  /* a private copy of the record at hand */
};

/* Maps the data of a descriptor (which may be closed then). */
PROBE_MUST_CHECK struct probe_error *rings_open(
	int fd, const struct reg_session *session, struct rings *ret);
void rings_close(struct rings *rings);

/* From now on, wakes who waits for room there, in the memory that was mapped. */
void rings_tell(struct rings *rings, struct probe_room *room);

/*
 * Gives back the memory of the rings, not that of the counters: nothing writes records
 * there any more, and all have been read.
 */
void rings_discharge(struct rings *rings);

/*
 * How often a ring's contents made no sense and were dropped: it is unknown how
 * many hits that were. The target wrote there, or two threads at once (docs/ring.md).
 */
uint64_t rings_damaged(const struct rings *rings);

/* Where the target is in a ring now. */
uint64_t rings_head(const struct ring *ring);
/* Where the first record is that has not been consumed: in the ring, so the target may change it.
 */
const uint8_t *rings_first(const struct rings *rings, const struct ring *ring);

/* Begins a round: what is published now will be read in it. */
void rings_begin(struct rings *rings);

/*
 * The oldest record that is stamped before `until`: a private copy of its
 * first bytes, `most` of them at most (up to RING_RECORD_MAX). *size_ret is how
 * many there are. NULL: there is none. rings_consume() continues after it.
 */
const struct ring_record *rings_next(
	struct rings *rings, size_t most, uint64_t until, struct ring **ring_ret, size_t *size_ret);

/* Removes `length` bytes from a ring; 0: they make no sense, and all that is there is discarded. */
void rings_consume(struct ring *ring, size_t length);

/*
 * Discards what is left, once no stub runs any more and there is nothing to read: it is no whole
 * record, or was never stamped.
 */
void rings_discard(struct rings *rings);

/* Discards what is there; by itself, not in a round. */
void rings_clear(struct rings *rings);

/* Ends a round: tells the target what is free. */
void rings_end(struct rings *rings);

/* ---- Room ------------------------------------------------------------------------------------ */

/* The controller's side of hits that wait for room (struct probe_room). */

/* Wakes all who wait, after `tail` was stored. Without a waiter, this costs two locked
 * instructions.
 */
void room_tell(struct probe_room *room);

/* ---- Site ------------------------------------------------------------------------------------ */

/* What is at the sites that the registry says are patched. */

enum site_state {
	SITE_PATCHED,  /* by a controller: a jump of ours */
	SITE_COVERED,  /* the same, except for a breakpoint on its first byte */
	SITE_ORIGINAL, /* the file's bytes: never patched, restored, or its library opened again */
	SITE_FOREIGN,  /* something else */
	SITE_GONE      /* there is no memory, or another file's */
};

/*
 * `bytes` are the site->length bytes found there; NULL: there is no memory. Does not check the
 * file.
 */
enum site_state site_state(
	const struct registry *registry, const struct reg_site *site, const uint8_t *bytes);

/*
 * Is each byte either the file's or ours? When a kernel uprobe that was written over a jump is
 * removed, it puts back only the first byte. Such a mixture makes no sense as code; it is restored,
 * or patched, as a whole.
 */
bool site_is_mixed(const struct reg_site *site, const uint8_t *bytes);

/* As far as can be known, is the file in which the site was patched still mapped there? */
bool site_is_in_file(const struct modules *modules, const struct reg_site *site);

/*
 * Reads all sites of a registry: *ret is an array to be freed, beside registry->sites; `edits` has
 * what is there, in the same order. Errors: PROBE_ERROR_MEMORY, edits_read()'s.
 */
PROBE_MUST_CHECK struct probe_error *site_read_all(
	const struct registry *registry, pid_t pid, struct edits *edits, enum site_state **ret);

/* Does a session want the site to be patched? */
bool site_is_wanted(const struct registry *registry, const struct reg_site *site);

/*
 * Is nothing switched on at a site that is only a link in the chain of its neighbours? Each site
 * that shares their jump is in that chain.
 */
bool site_is_bare(const struct registry *registry, const struct reg_site *site);

/* The index of the first site that is patched by the same jump as this one; may be its own. */
size_t site_leader(const struct registry *registry, size_t site);

/* Is its entry a link of a chain: of neighbours, or after a hop? */
bool site_is_chained(const struct reg_site *site);

/* Does the short jump of a site lead to a jump of ours? */
bool site_has_hop(const struct reg_site *site, pid_t pid);

/*
 * Writes the jump for the entry of a site, to `to`. Returns its length, or 0 if that is out of
 * reach. `out` has room for ARCH_JUMP_MAX bytes.
 */
size_t site_entry_jump(const struct reg_site *site, uint64_t to, uint8_t *out);

/* What is wrong with a site that is mapped; false: nothing, or it is not. */
bool site_fault(enum site_state state, enum probe_site_fault *ret);

/*
 * Compares two processes wherever one's registry says that a jump leads to a probe's stub, or from
 * it to the next one: *ret is true if both have the same bytes. Gates are not compared. Errors:
 * PROBE_ERROR_MEMORY, and those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *site_all_alike(
	const struct registry *registry, pid_t pid, pid_t other, bool *ret);

/* How many sites of the registry are patched. */
size_t site_count_patched(const struct change *change);

/*
 * Removes from the registry (in this process) sites of libraries that were closed, or closed and
 * opened again, and sites that a forked child knows from its parent but that were never patched in
 * it; nothing is written there. Sites that others have overwritten stay: their copy of our jump may
 * come back.
 */
void site_forget_closed(struct change *change);

/* ---- Space ----------------------------------------------------------------------------------- */

/* Free address space of a target. */

/*
 * An address for `size` bytes of code that can reach all of [reach_start, reach_end), and be
 * reached from there; 0: there is none. Keeps away from the heap and the main stack, which grow.
 */
uint64_t space_find(
	const struct maps *maps, uint64_t size, uint64_t reach_start, uint64_t reach_end);

/* Are all pages of [start, end) free, and away from everything that grows? */
bool space_is_free(const struct maps *maps, uint64_t start, uint64_t end);

/* ---- Target ---------------------------------------------------------------------------------- */

/* What the system calls of a held program's loader revealed about its threads. */
struct spawn_facts {
	bool known; /* the loader has set the thread pointer up */
	bool has_rseq;
	int32_t rseq_offset;
	uint32_t rseq_signature;
};

/* A thread of the target that waits for us, and makes system calls when it is asked. */
struct target_proxy {
	pid_t tid;
	/*
	 * Sets the result; false: the thread is gone. After a call it stays where it is until the
	 * next one.
	 */
	bool (*call)(void *data, struct control_call *call);
	void *data;
};

/* The process that held the lock when a change had to wait. */
struct lock_holder {
	bool is_stranger; /* its user is neither root nor ours */
	uint64_t looked_ns;
	unsigned int misses; /* looks in a row that found no holder */
	char name[64];	     /* for messages */
};

/* A copy of some text, in the list of its target. */
struct target_text {
	struct target_text *next;
	char text[];
};

/* A module in which probes have been enabled (libprobe/patch/patch.h). */
struct target_module {
	uint64_t start, inode;
	uint32_t dev_major, dev_minor;
};

struct probe_target {
	pid_t pid;
	uint64_t start_time; /* tells this process from a later one with its pid */
	int mem;	     /* of the program that it was when it was first changed, or -1 */
	uint64_t image;	     /* that program's AT_RANDOM, or 0 */
	bool spawned, held;
	/*
	 * Held since its execve(2): it has one thread, and shares its memory with no process, so
	 * nothing changes there.
	 */
	bool alone;
	bool hurry;    /* others wait for us: fail if the target cannot be changed at once */
	bool late;     /* found while others were traced; must not delay them */
	bool attached; /* it is held, and was running before: probe_target_attach() */
	bool dropped;  /* and probes were switched off since */
	struct control control; /* while held: all its threads, stopped */
	/* Or NULL: see probe_target_on_wait(). */
	bool (*on_wait)(pid_t pid, unsigned int seconds, const char *holder, void *data);
	void *on_wait_data;
	struct probe_patience *patience; /* or NULL: probe_target_set_patience(); borrowed */
	struct lock_holder holder;
	/* Not 0: a process in its memory that waits for us and runs nothing else meanwhile. */
	pid_t lender;
	bool shares_memory;		  /* with another process, as a stop has found */
	const struct target_proxy *proxy; /* owned by libprobe/self, or NULL */
	struct spawn_facts facts;
	struct arch_gadgets gadgets; /* known, and there; `call` 0: they are to be found */
	struct arch_thread model;    /* what threads_model() finds, if model_known */
	bool model_known;
	struct files *files; /* that it shares with other processes, or NULL */
	bool odd_threads;    /* libc's model of threads is not right for all (threads.c) */
	bool no_counter;     /* a thread may not read the processor's time stamp counter */
	bool dispatches;     /* it handles a thread's system calls itself (dispatch.h) */
	/* How often one of these was noticed: an attempt that failed because of it is repeated. */
	unsigned int lessons;
	/* In a row: libraries closed too early (libprobe/patch/patch.h). */
	unsigned int closings;
	/* The file that tells how often its control group ran out of memory, or NULL. */
	char *events;
	uint64_t kills;		   /* as it said when a session began */
	struct target_text *texts; /* what target_string() handed out */
	struct target_module *served;
	size_t served_count;
};

/* NULL without memory; pid 0: for a process that will be started. */
struct probe_target *target_create(pid_t pid, uint64_t start_time);

/*
 * Is there still the program that was changed first? Not after execve(2), and not when the process
 * has ended.
 */
bool target_is_there(const struct probe_target *target);

/* A copy that lives as long as the target; NULL without memory. */
const char *target_string(struct probe_target *target, const char *text);

/*
 * Continues a target that is held. Returns whether a thread may have been stopped in code that is
 * no longer needed, which a repair collects: probe_target_release().
 */
bool target_let_go(struct probe_target *target);
/* Of a target that is not held: probe_target_close(). */
void target_free(struct probe_target *target);

/* Notes, once, the values that probe_target_fate() compares with (fate.c). */
void fate_begin(struct probe_target *target);

/* ---- Threads --------------------------------------------------------------------------------- */

/* How a stub can identify the threads of a target without a system call. */

/*
 * Finds where libc keeps the thread's id and its rseq area. If one is not found, stubs use locks
 * and ask the kernel instead.
 */
void threads_model(struct probe_target *target, struct modules *modules, struct arch_thread *ret);

/*
 * Do all threads, which are stopped, fit the model? If not, the target notes it, so that the next
 * model is a different one, and the error is PROBE_ERROR_STATE: the stubs must be built again.
 */
PROBE_MUST_CHECK struct probe_error *threads_check(struct probe_target *target,
	const struct control *control, const struct arch_thread *model);

/*
 * May all threads, which are stopped, read the time stamp counter (PR_SET_TSC)? If not, as above.
 * The kernel writes its answers to `answer`, in memory of ours there.
 */
PROBE_MUST_CHECK struct probe_error *threads_check_counter(struct change *change, uint64_t answer);

/*
 * Does the kernel itself make the system calls of all threads, which are stopped? If the program
 * handles those of one (PR_SET_SYSCALL_USER_DISPATCH), as above; stubs must then make none.
 */
PROBE_MUST_CHECK struct probe_error *threads_check_dispatch(struct change *change);

/* Is this module the program's dynamic loader, whose code runs before threads are set up? */
bool threads_is_loader(const struct module *module);

/* ---- Walk ------------------------------------------------------------------------------------ */

/*
 * Records one after the other, in a copy of a ring's bytes: the target may have written anything
 * there, but no longer changes it. Nothing outside the bytes given is touched.
 */

/* What the records of one site look like. It is compared byte by byte, so it has no padding. */
struct ring_form {
	uint16_t fixed; /* bytes before those that vary; 0: there is no such site */
	uint16_t count; /* of the words that say how many vary */
	struct ring_word {
		uint16_t at;   /* in the record */
		uint16_t most; /* bytes, at most */
	} words[ARCH_ARGS_MAX];
};

/* Those of a session's sites, by their numbers. */
struct ring_forms {
	const struct ring_form *forms;
	size_t count;
};

/*
 * The length of a record without its padding; 0 if the bytes make no sense. There are `size` bytes
 * at the record.
 */
size_t ring_record_length(const struct ring_forms *forms, const uint8_t *record, size_t size);

enum ring_walk_end {
	RING_WALK_ALL,	  /* all bytes, or as many as may be looked at */
	RING_WALK_CUT,	  /* the next record is of a later time */
	RING_WALK_TIME,	  /* it is older than the one before, or of the future */
	RING_WALK_FULL,	  /* its thread is one too many */
	RING_WALK_DAMAGED /* it makes no sense */
};

struct ring_walk {
	const struct ring_forms *forms;
	uint64_t *hits;	     /* of each site: added to */
	uint64_t last;	     /* time of the record before the first; then of the last one */
	uint64_t until, now; /* RING_WALK_CUT from there on; RING_WALK_TIME after that */
	/* Called where another thread begins; false: it is one too many. */
	bool (*thread)(void *data, uint32_t word);
	void *data;
	/* Results: */
	uint64_t first; /* time of the first record */
	size_t records;
	size_t content; /* bytes up to the end of the last one, without its padding */
	enum ring_walk_end end;
};

/*
 * Walks the records in `size` bytes, of which none begins at `begins` or later. Returns how many
 * bytes those have that make sense, with the padding.
 */
size_t ring_walk(struct ring_walk *walk, const uint8_t *from, size_t size, size_t begins);

/* ---- Writers --------------------------------------------------------------------------------- */

/* Which thread has written a record: the ids in records, as we know them. */

/*
 * Finds the process and thread of a record, with a small cache. Records hold the thread's id in the
 * target's own pid namespace; this finds its id in ours. If a child's thread is gone, only the id
 * is known, and it counts as a process of its own.
 */
enum { WRITERS = 1024 };
struct writers {
	pid_t root;    /* the target */
	bool children; /* hits may be those of its children, too */
	bool foreign;  /* the target is in another namespace than we are */
	uint64_t next_scan_ns;
	pid_t tids[WRITERS], pids[WRITERS];
	pid_t outer[WRITERS]; /* ids as we know them */
};
void writers_init(struct writers *cache, pid_t root, bool children);
/*
 * Remembers the present threads, for records that are read after they have ended. Limits how often
 * it really looks.
 */
void writers_learn(struct writers *cache);
/* `word` is a record's: an id (0: unknown), and whether it is a child's. */
void writers_find(struct writers *cache, uint32_t word, pid_t *pid_ret, pid_t *tid_ret);

#endif
