/* SPDX-License-Identifier: MIT */
#pragma once

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
#include "libprobe/registry/format.h"
#include "libprobe/registry/ring.h"

/* ---- Code ------------------------------------------------------------------------------------ */

/* Code memory in the target. The registry says which parts of the arenas are in use. */

/*
 * Finds free space in an arena, from and to which jumps reach all of [reach_start, reach_end).
 * Returns 0 if no space is found. In use are the registry's arrays, its current image, and `taken`,
 * the extents that were handed out but are in no array yet; the new extent is appended to it.
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

/*
 * Returns true if an address is in an arena from which code is allocated. A pun's page is not such
 * an arena.
 */
bool code_arena(const struct registry *registry, uint64_t address);

/* Takes `size` bytes at `start`. Returns false if some are in use. */
bool code_take(
	const struct registry *registry, struct code_taken *taken, uint64_t start, size_t size);

/* Keeps an extent in use that no array lists any more. Returns false if memory is short. */
bool code_keep(struct code_taken *taken, struct code_extent extent);
/* Remove the last extent, or all, because they are not needed or the registry now lists them. */
void code_release(struct code_taken *taken);
void code_release_all(struct code_taken *taken);

/* Can stubs anywhere in [start, end) jump to all of [reach_start, reach_end), and back? */
bool code_reaches(uint64_t start, uint64_t end, uint64_t reach_start, uint64_t reach_end);

/* ---- Lasting --------------------------------------------------------------------------------- */

/*
 * A file for the target to create. `path` is as the target sees it; NULL means a memfd, which ends
 * with the process. `layout` describes the data that stubs write.
 */
struct lasting_file {
	const char *path;
	const struct reg_session *layout; /* layout with offsets: data_place() is not called yet */
	uint64_t address;		  /* of the path, in the target's memory */
	int folder;			  /* descriptor of the file's folder */
};

/* Errors: PROBE_ERROR_USAGE (the path is not absolute, or does not end in SHARED_SUFFIX). */
PROBE_MUST_CHECK struct probe_error *lasting_check(const char *path);

/*
 * Gets the number of bytes that the process may still use on the file system of `path`. Errors:
 * PROBE_ERROR_SYSTEM, PROBE_ERROR_USAGE (hits could wait or fail on this file system).
 */
PROBE_MUST_CHECK struct probe_error *lasting_room(pid_t pid, const char *path, uint64_t *ret);

/* Removes the name of a file that thread `tid` has just created as `fd` and not mapped. */
void lasting_remove_open(pid_t pid, pid_t tid, int64_t fd);

/* Returns a process's pid in its own namespace, which its forked children lack; or 0. */
uint32_t lasting_maker(pid_t pid);

/* The lasting files that retired sessions have mapped. Initialise with {0}. */
struct lasting_names {
	struct mapping *items; /* each path is owned by the list */
	size_t count;
};
/* Adds the mapping at an address if its file is lasting. Returns false if memory is short. */
bool lasting_note(struct lasting_names *names, const struct maps *maps, uint64_t address);
/* Removes the name of each listed file, if it still leads to this file. */
void lasting_remove(const struct lasting_names *names, pid_t pid);
void lasting_deinit(struct lasting_names *names);

/* ---- Lock ------------------------------------------------------------------------------------ */

/* The lock of a target, by which controllers take turns. Both are descriptors, or -1. */
struct target_lock {
	int ours, theirs;
};

/*
 * Takes the lock; waits as probe_target_on_wait() and probe_target_set_patience() say. Errors:
 * PROBE_ERROR_BUSY (held for too long), PROBE_ERROR_NOT_FOUND (no such process),
 * PROBE_ERROR_PERMISSION, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *lock_target(
	struct probe_target *target, struct target_lock *ret);
void lock_release(struct target_lock *lock);

/*
 * Returns how long a change waits for unstoppable threads, in ns. `may_fail` means that nothing is
 * written yet.
 */
uint64_t patience_for_threads(const struct probe_target *target, bool may_fail);
/*
 * Adapts the error of a wait for unstoppable threads that began at `begun_ns`: PROBE_ERROR_BUSY if
 * the change will be repeated, else PROBE_ERROR_STATE.
 */
PROBE_MUST_CHECK struct probe_error *patience_after(const struct probe_target *target,
	bool may_fail, uint64_t begun_ns, struct probe_error *error);

/* Returns true if a controller is changing the process; false if we may not take the lock. */
bool lock_is_taken(pid_t pid);

/* ---- Change ---------------------------------------------------------------------------------- */

/*
 * One change of a target. The controller reads the target's state, prepares the change, commits it
 * with all threads stopped, and unmaps memory that is no longer needed.
 *
 *   change_begin()    takes the lock; reads maps, modules, registry
 *   change_map_*()    maps memory in the target, with one thread borrowed
 *   change_stop()     stops all threads
 *   change_resume()
 *   change_end()
 */

struct change {
	struct probe_target *target;
	void *urgent; /* this process's former scheduling, if the target is held; owned */
	/* Called with all threads stopped, when ending probes' sites are restored; may be NULL. */
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
	struct arch_thread thread; /* how stubs identify threads, except in the loader */
	struct arch_gadgets gadgets;
	struct rooms rooms;
	bool rooms_known;
	struct prepared *prepared; /* prepared remote calls; NULL before the first call */
	struct control control;	   /* the threads that are stopped or borrowed */
	bool stopped;
	/*
	 * The program has unmapped or replaced memory of ours (own.c), and the sessions that needed
	 * it are retired. `lost_ends`: uninstall_find_dead() reports work until these sessions have
	 * ended.
	 */
	bool lost, lost_ends;
	uint64_t sealed_bytes; /* bytes that stay mapped because the program has sealed them */
	bool gone;	       /* a site was not mapped */
	bool differs;	       /* a site's bytes differed from those of its file */
	bool borrowed; /* one thread is stopped for several runs of calls: change_borrow() */
	struct seccomp seccomp; /* what the target's threads may call; see change_judge() */
	bool begun;		/* something in the target may have been changed */
	bool waited;		/* a wait for threads that cannot stop has timed out */
	uint64_t wait_ns;    /* when the latest wait for threads began, in ns (CLOCK_MONOTONIC) */
	uint64_t resumed_ns; /* when the target was last resumed, in ns (CLOCK_MONOTONIC), or 0 */
	uint64_t stop_ns;    /* the longest stop of the target so far, in ns */
};

/* maximum number of mmap(2) calls for one file, in one stop of a thread */
enum { CHANGE_FILE_CALLS = 8 };
enum { ARENA_BYTES = 256 << 10 }; /* the size of an arena, or a divisor of it */

/*
 * Locks the target and reads its state. After an error, do not call change_end(). Errors:
 * PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION, PROBE_ERROR_UNSUPPORTED, PROBE_ERROR_BUSY
 * (locked), PROBE_ERROR_SYSTEM (EMFILE: too few descriptors).
 */
PROBE_MUST_CHECK struct probe_error *change_begin(struct probe_target *target, struct change *ret);
/* Like change_begin(), but keeps the sites of closed libraries: see site_forget_closed(). */
PROBE_MUST_CHECK struct probe_error *change_begin_as_it_is(
	struct probe_target *target, struct change *ret);
/* Reads the state without a lock, for a target that will not change. Errors: as change_begin(). */
PROBE_MUST_CHECK struct probe_error *change_look(struct probe_target *target, struct change *ret);
/* Also for AUTO(change_end): then call change_begin() right after the declaration. */
void change_end(struct change *change);

/*
 * Checks that we can open `count` (at most 32) more descriptors, which making or undoing a change
 * needs. Errors: PROBE_ERROR_SYSTEM (EMFILE, ENFILE).
 */
PROBE_MUST_CHECK struct probe_error *change_need_descriptors(
	const struct change *change, size_t count);

/*
 * Checks that the process still runs the program that was first read, because the bytes to write
 * suit only that program. Errors: PROBE_ERROR_NOT_FOUND (it has ended, or execve(2) has replaced
 * it).
 */
PROBE_MUST_CHECK struct probe_error *change_check_program(const struct change *change);

/* Reads the maps, or the maps and the registry, again. */
PROBE_MUST_CHECK struct probe_error *change_reread_maps(struct change *change);
PROBE_MUST_CHECK struct probe_error *change_reread(struct change *change);

/* Stop and resume all threads. The threads of a held target are already stopped. */
PROBE_MUST_CHECK struct probe_error *change_stop(struct change *change);
void change_resume(struct change *change);

/*
 * Finds out which system calls filters allow (change->seccomp), maybe in a stop. Errors: those of
 * stopping and of seccomp_judge().
 */
PROBE_MUST_CHECK struct probe_error *change_judge(struct change *change);

/*
 * Finds the code by which threads make calls, unless it is known; no thread need be stopped.
 * Errors: as gadgets_find().
 */
PROBE_MUST_CHECK struct probe_error *change_find_gadgets(struct change *change);

/*
 * Runs system calls until one fails, in a thread that is borrowed unless it is already stopped.
 * Errors: PROBE_ERROR_SYSTEM, with `what` in the message.
 */
PROBE_MUST_CHECK struct probe_error *change_run(
	struct change *change, const char *what, struct control_call *calls, size_t count);

/*
 * Stops one thread for several runs of calls, unless one is already stopped; resumes it. Errors: as
 * change_run().
 */
PROBE_MUST_CHECK struct probe_error *change_borrow(struct change *change);
void change_give_back(struct change *change);

/* Like change_run(), in the stopped thread with index `thread` in change->control. */
PROBE_MUST_CHECK struct probe_error *change_run_in(struct change *change, size_t thread,
	const char *what, struct control_call *calls, size_t count);

/*
 * Allocates code memory that reaches (code_alloc()) all of an extent, the first of `reaches` for
 * which that is possible. Maps a new arena if none has space.
 */
PROBE_MUST_CHECK struct probe_error *change_alloc_code(struct change *change, size_t size,
	const struct code_extent *reaches, size_t count, uint64_t *ret);

/*
 * Makes the target create a file, map it by `calls` (up to CHANGE_FILE_CALLS of mmap(2); their
 * descriptor is set here) and close it, with one thread stopped. If `data` is NULL, stubs may write
 * to the whole file. The calls' results are set even after an error: 0 if not made, or undone.
 * *fd_ret (may be NULL) is our descriptor, or -1 after an error.
 */
PROBE_MUST_CHECK struct probe_error *change_map_file(struct change *change, size_t size,
	const struct lasting_file *data, struct control_call *calls, size_t count, int *fd_ret);

/* Removes and counts the stack frames of killed controllers. Errors: those of stopping. */
PROBE_MUST_CHECK struct probe_error *change_remove_frames(struct change *change, size_t *count_ret);

/*
 * Returns the system call that maps code at a free address. The call counts as failed if the kernel
 * maps the code at another address.
 */
struct control_call change_call_map_code(uint64_t address, uint64_t size);

/*
 * Maps data shared with the target, which begins with a struct data_header. *fd_ret is our
 * descriptor. If is_private, our writes to a page are seen only until the target touches the page.
 */
PROBE_MUST_CHECK struct probe_error *change_map_data(struct change *change, size_t size,
	const struct lasting_file *data, bool is_private, uint64_t *address_ret, int *fd_ret);

/*
 * Store our registry: find a place for an image; write the image there and make it current; or make
 * an existing, maybe older image current by writing one word. The last two need
 * change_begin_write() and change_end_write() around them.
 */
PROBE_MUST_CHECK struct probe_error *change_place_image(
	struct change *change, struct code_extent *ret);
PROBE_MUST_CHECK struct probe_error *change_write_image(
	struct change *change, struct code_extent image);
PROBE_MUST_CHECK struct probe_error *change_publish(
	struct change *change, struct code_extent image);
/*
 * Writes and publishes an image that announces the next steps, so that the next controller can
 * finish the change. If only counts have changed, `may_stop` may be false.
 */
PROBE_MUST_CHECK struct probe_error *change_store(struct change *change, bool may_stop);

/*
 * Checks, right before a write, that all listed memory is still ours; fast enough for a stop.
 * Errors: PROBE_ERROR_STATE (it is not), as own_holds() and change_check_program().
 */
PROBE_MUST_CHECK struct probe_error *change_confirm(const struct change *change);

/*
 * Stops all threads, if they run, and calls change_confirm(). Until change_end_write(), the program
 * cannot replace our memory. After an error, do not call change_end_write(). Errors: those of
 * stopping and of change_confirm().
 */
PROBE_MUST_CHECK struct probe_error *change_begin_write(struct change *change, bool *stops_ret);
void change_end_write(struct change *change, bool stops);
/*
 * Writes one piece of listed memory, between its own change_begin_write() and change_end_write().
 */
PROBE_MUST_CHECK struct probe_error *change_write(
	struct change *change, uint64_t address, const void *bytes, size_t size);
/*
 * Writes memory that nothing uses yet, CHANGE_PIECE_BYTES in each stop; zeros, if `bytes` is NULL.
 * The kernel takes longer to provide new pages than to copy them, so larger memory is written
 * before the stop that counts.
 */
enum { CHANGE_PIECE_BYTES = 256 << 10 };
PROBE_MUST_CHECK struct probe_error *change_fill(
	struct change *change, uint64_t address, const void *bytes, size_t size);

/*
 * Unmaps arenas that the registry does not list. Arenas that the program has sealed are listed
 * again. Errors: as change_run().
 */
PROBE_MUST_CHECK struct probe_error *change_unmap_arenas(
	struct change *change, const struct reg_arena *arenas, size_t count);

/* Unmaps memory that no session uses, and everything after the last session. */
PROBE_MUST_CHECK struct probe_error *change_collect(struct change *change);

/* ---- Data ------------------------------------------------------------------------------------ */

/* The memory of a session beside its counters; may be all zero. See docs/ring.md. */
struct data_needs {
	size_t ring_bytes; /* bytes of a ring, rounded up to a power of two; 0 without rings */
	bool overwrite;	   /* the rings are flight recorders */
	bool cells;
	bool buckets;	      /* each cell has buckets */
	uint8_t key_count;    /* parts of a key; above 0, the cells are in a table */
	uint8_t string_count; /* parts of a key that are strings */
	size_t string_bytes;  /* maximum length of each string of a key, without its end */
	size_t keys_max;      /* maximum number of keys that a CPU stores */
	size_t pairs;	      /* pairs whose start events are noted */
	bool by_key;	      /* pairs match by a key of the program, not by the thread */
	/* bytes kept of each start event (struct probe_begun); a multiple of 8; may be 0 */
	size_t keep_bytes;
	size_t text_bytes; /* bytes of a key that is a text; 0 if keys are numbers */
	size_t threads;	   /* threads that the target has now */
	/*
	 * The table's minimum number of entries, all of which may be touched in time, if forked
	 * children share the table; else 0.
	 */
	size_t flights_min;
	size_t notes_bytes; /* bytes for the session's own notes */
};

enum {
	DATA_RING_DEFAULT = 4 << 20,
	DATA_RING_MIN = 1 << 17,
	DATA_RING_MAX = 1 << 30,
	DATA_KEY_STRING_DEFAULT = 256,
	/* maximum number of start events per thread; then the newest replaces the outermost */
	DATA_DEPTH_THREAD = 1024,
	DATA_DEPTH_KEY = 8,
	DATA_DEPTH_SPANS = 128,	   /* the same, if bytes are kept of each start event */
	DATA_KEEP_DEFAULT = 1024,  /* bytes kept for start events in libraries opened later */
	DATA_FLIGHTS_MIN = 1024,   /* minimum number of entries in the table of start events */
	DATA_FLIGHTS_FORKS = 4096, /* minimum number of entries if forked children use the table */
	/* minimum number of entries if forked children use the table and memory is short */
	DATA_FLIGHTS_FEW = 64
};

/* Returns the bytes of an entry in the table of start events. */
size_t data_flight_bytes(const struct reg_session *session);

/*
 * Sets all places in *session (with `cpus` set) as offsets, with counters for `probes` probes.
 * Errors: PROBE_ERROR_USAGE (too large).
 */
PROBE_MUST_CHECK struct probe_error *data_lay_out(
	struct reg_session *session, size_t probes, const struct data_needs *needs);

/*
 * A part of a session's memory with slots, cells and flights of its own, for another session whose
 * hits the stubs of this one serve. The registry does not list it.
 */
struct data_part {
	struct data_needs needs;
	struct reg_session layout;
};

/* Appends a part to the layout of a session. Errors: PROBE_ERROR_USAGE (too large). */
PROBE_MUST_CHECK struct probe_error *data_lay_out_part(
	struct reg_session *session, size_t probes, struct data_part *part);

struct data_extent {
	uint64_t start, end;
};

/* Gets the part of the data with this index; false after the last. Needs no data_place(). */
bool data_extent(const struct reg_session *session, uint32_t index, struct data_extent *ret);

uint64_t data_bytes(const struct reg_session *session);

/* Turns offsets into addresses, for data mapped at session->data. */
void data_place(struct reg_session *session);
/* Does the same for a part of a session that has its final id, data and process. */
void data_place_part(const struct reg_session *session, struct data_part *part);

/* Does a session's layout meet these needs? Sizes may differ, except those of cells. */
bool data_fits(const struct reg_session *session, const struct data_needs *needs);

/* Returns the offset of a recording's notes; 0 without room for them. */
uint64_t data_notes_offset(const struct reg_session *session);

/* Returns true if the addresses and sizes of the rings and of the data are possible. */
bool data_rings_make_sense(const struct reg_session *session);

/* Reads the header of a mapping. Returns false if the mapping is not a session's data. */
bool data_read_header(struct served *known, const struct mapping *m, struct data_header *ret);

/* Returns true if all addresses and sizes are possible. (The target can change the registry.) */
bool data_makes_sense(const struct reg_session *session);

/* Returns true if a session has a table with a cell for each key, not a cell for each slot. */
static inline bool data_has_table(const struct reg_session *session)
{
	return session->entries != 0;
}

/* ---- Orphans --------------------------------------------------------------------------------- */

/* Mappings and descriptors of controllers killed before the registry listed them. */
struct orphans {
	size_t mappings, descriptors;
};

/* Counts the orphans. The memory of an unfinished change may look like one: see lock_is_taken(). */
void orphans_count(
	pid_t pid, const struct maps *maps, const struct registry *registry, struct orphans *ret);

/*
 * Unmaps, closes and counts the orphans. Call it before the change maps or unmaps anything, or
 * after change_reread_maps(). Errors: as change_run().
 */
PROBE_MUST_CHECK struct probe_error *orphans_remove(struct change *change, struct orphans *ret);

/* Unmaps and counts orphans. Call it before the home is unmapped: data leads to the home. */
PROBE_MUST_CHECK struct probe_error *orphans_unmap(struct change *change, size_t *count_ret);

/* ---- Own ------------------------------------------------------------------------------------- */

/*
 * Memory to unmap. `inode` tells that it is ours: the inode of its file, our name (OWN_NAMED), or
 * the mark of a guard's page (OWN_GUARD). OWN_NEW_GUARD needs no mark, because a killed controller
 * may not have written it.
 */
#define OWN_NAMED UINT64_MAX
#define OWN_GUARD (UINT64_MAX - 1)
#define OWN_NEW_GUARD (UINT64_MAX - 2)
struct own_extent {
	uint64_t start, size, inode;
	bool follows; /* unmapped together with the extent before it, or not at all */
	/*
	 * result: the program has sealed a part of this extent or of those that follow, so all stay
	 */
	bool is_sealed;
};

/*
 * Unmaps the parts that are ours, reading the mappings in the same stop, so that the program cannot
 * map memory there in between. Errors: those of stopping and of change_run().
 */
PROBE_MUST_CHECK struct probe_error *own_unmap(
	struct change *change, struct own_extent *extents, size_t count);

/*
 * Compares our copy of the registry with the mappings: drops code memory that is not ours any more,
 * and retires sessions that need it. *lost_ret is true if something was lost. `mem` may be -1.
 * After an error, the registry may be incomplete. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM;
 * PROBE_ERROR_NOT_FOUND, PROBE_ERROR_STATE (the process has ended, or called execve(2)).
 */
PROBE_MUST_CHECK struct probe_error *own_check(
	pid_t pid, int mem, const struct maps *maps, struct registry *registry, bool *lost_ret);

bool own_has_data(const struct maps *maps, const struct reg_session *session);

/*
 * Checks that all listed memory is still ours, except that of retired sessions. Fast enough for a
 * stop. `mem` may be -1. Errors: as maps_read(), PROBE_ERROR_SYSTEM; PROBE_ERROR_NOT_FOUND (the
 * process has ended, or called execve(2)).
 */
PROBE_MUST_CHECK struct probe_error *own_holds(
	pid_t pid, int mem, const struct registry *registry, bool *ret);

/* Returns the bytes of arenas, and of ended sessions' data, that the program has sealed. */
uint64_t own_sealed(pid_t pid, const struct maps *maps, const struct registry *registry);

/*
 * If a process has no registry, the program may have mapped memory over it. Compares text with the
 * modules' files; if sites jump to memory that is or was ours, or data of ours is left, *ret
 * becomes a registry of retired sessions, leftover code and these sites, so that they can be ended.
 * Otherwise *ret does not change. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *lost_find(pid_t pid, const struct maps *maps,
	const struct modules *modules, struct registry *ret, bool *lost_ret);

/* ---- Recall ---------------------------------------------------------------------------------- */

/*
 * Discards the file of each module that contradicts the registry, and gives it notes from the
 * registry, for probes whose name is known. Such probes can only be shown and switched off: they
 * have no arguments. May add modules, so invalidates pointers to them. Errors: PROBE_ERROR_MEMORY.
 * See recall.c.
 */
PROBE_MUST_CHECK struct probe_error *recall_probes(struct modules *modules, pid_t pid,
	const struct maps *maps, const struct registry *registry);

/* ---- Site ------------------------------------------------------------------------------------ */

/* The state of a patched site. */

enum site_state {
	SITE_PATCHED, /* the site has a jump of ours */
	SITE_COVERED, /* the site has a jump of ours, with a breakpoint over its first bytes */
	/*
	 * the site has the file's bytes: never patched, restored, or its library was opened again
	 */
	SITE_ORIGINAL,
	SITE_FOREIGN, /* the site has other bytes */
	SITE_GONE     /* the site is not mapped, or is part of another file */
};

/*
 * Returns the state that follows from the site->length bytes in `bytes`, which is NULL if the site
 * is unmapped. Does not check the file.
 */
enum site_state site_state(
	const struct registry *registry, const struct reg_site *site, const uint8_t *bytes);

/*
 * Returns true if each byte is the file's or ours. When a uprobe is removed from our jump, the
 * kernel puts back only the first original byte. Such a mixture is no code: the whole site must be
 * restored or patched.
 */
bool site_is_mixed(const struct reg_site *site, const uint8_t *bytes);

/* Returns true if the file of the site's module has the original bytes, or is unreadable. */
bool site_is_in_file(const struct modules *modules, const struct reg_site *site);

/*
 * Reads all sites: *ret is an array of states, which the caller frees, and `edits` gets the bytes,
 * both in the order of registry->sites. Errors: PROBE_ERROR_MEMORY, as edits_read().
 */
PROBE_MUST_CHECK struct probe_error *site_read_all(
	const struct registry *registry, pid_t pid, struct edits *edits, enum site_state **ret);

/* Returns true if a session wants the site to be patched. */
bool site_is_wanted(const struct registry *registry, const struct reg_site *site);

/*
 * Is a site without probes needed by others: as a link in the chain of sites that share one jump,
 * or because the code that it has moved makes room for a hop?
 */
bool site_is_bare(const struct registry *registry, const struct reg_site *site);

/* Is the site's entry a link in a chain of neighbours, or after a hop (reg_site.hop)? */
bool site_is_chained(const struct reg_site *site);

/* Returns true if the site's short jump leads to a jump of ours. */
bool site_has_hop(const struct reg_site *site, pid_t pid);

/*
 * Encodes a jump from a site's entry to `to` in `out` (ARCH_JUMP_MAX bytes). Returns its length, or
 * 0 if `to` is out of reach.
 */
size_t site_entry_jump(const struct reg_site *site, uint64_t to, uint8_t *out);

/* Converts a state into a fault. Returns false if the site is patched or not mapped. */
bool site_fault(enum site_state state, enum probe_site_fault *ret);

/*
 * Finds out whether two processes have the same bytes wherever the registry of `pid` has a jump to
 * a probe's stub, or between stubs. Ignores gates. Errors: PROBE_ERROR_MEMORY, as edits_read().
 */
PROBE_MUST_CHECK struct probe_error *site_all_alike(
	const struct registry *registry, pid_t pid, pid_t other, bool *ret);

size_t site_count_patched(const struct change *change);

/*
 * Drops from our registry the sites of libraries that were closed (and maybe opened again) and, in
 * a forked child, sites never patched there. Keeps sites that other tools have overwritten, because
 * they may put back our jump. Writes nothing to the target.
 */
void site_forget_closed(struct change *change);

/* ---- Space ----------------------------------------------------------------------------------- */

/*
 * Finds an address for code, from and to which jumps reach all of [reach_start, reach_end); 0 if no
 * address fits. Keeps away from the heap and the main stack, which grow.
 */
uint64_t space_find(
	const struct maps *maps, uint64_t size, uint64_t reach_start, uint64_t reach_end);

/* Returns true if these pages are free, and away from mappings that grow. */
bool space_is_free(const struct maps *maps, uint64_t start, uint64_t end);

/* ---- Target ---------------------------------------------------------------------------------- */

/* How a held program's loader set up its threads, as seen from its system calls. */
struct spawn_facts {
	bool known; /* the loader has set the thread pointer */
	bool has_rseq;
	int32_t rseq_offset;
	uint32_t rseq_signature;
};

/* A thread of the target that waits for us to make system calls. */
struct target_proxy {
	pid_t tid;
	/*
	 * Makes a call, sets its result, and waits for the next one. Returns false if the thread is
	 * gone.
	 */
	bool (*call)(void *data, struct control_call *call);
	void *data;
};

struct lock_holder {
	bool is_stranger; /* the holder's user is neither root nor ours */
	uint64_t looked_ns;
	unsigned int misses; /* searches in a row that found no holder of the lock */
	char name[64];	     /* description of the holder, for messages */
};

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
	/* start time of the process; a later process with the same pid has another */
	uint64_t start_time;
	int mem;	/* /proc/PID/mem of the program at the first change, or -1 */
	uint64_t image; /* AT_RANDOM of that program, or 0 */
	bool spawned, held;
	/*
	 * The target is held since its execve(2), with one thread and its own memory, so its state
	 * does not change.
	 */
	bool alone;
	/* other controllers wait for us: fail if the target cannot be changed at once */
	bool hurry;
	/* the target was found while other targets were traced, which must not be delayed */
	bool late;
	bool attached;		/* the target is held, but ran before: probe_target_attach() */
	bool dropped;		/* probes were disabled while the target was attached */
	struct control control; /* all threads of the target, stopped, while it is held */
	uint64_t held_ns;	/* how long the target was last held */
	/* Called repeatedly while a change waits; may be NULL. See probe_target_on_wait(). */
	bool (*on_wait)(pid_t pid, unsigned int seconds, const char *holder, void *data);
	void *on_wait_data;
	struct probe_patience *patience; /* set by probe_target_set_patience(), or NULL; borrowed */
	struct lock_holder holder;
	/* If not 0: a process that shares the target's memory and waits for us. */
	pid_t lender;
	bool shares_memory; /* the target shares its memory with another process; found by a stop */
	const struct target_proxy *proxy; /* makes calls for us; owned by libprobe/self, or NULL */
	struct spawn_facts facts;
	struct arch_gadgets gadgets; /* code for remote calls; `call` is 0 if unknown */
	struct arch_thread model;    /* the result of threads_model(), if model_known */
	bool model_known;
	struct files *files; /* cache of files, shared with other targets, or NULL */
	bool odd_threads;    /* some thread does not fit libc's model of threads (threads.c) */
	bool no_counter;     /* a thread may not read the processor's time stamp counter */
	bool dispatches;     /* the program handles a thread's system calls itself (ptrace.h) */
	/* Increases when another attempt is needed, for example because of odd_threads. */
	unsigned int lessons;
	/* How often in a row a library was closed while its sites were being patched. */
	unsigned int closings;
	/* The file that counts how often the target's control group ran out of memory, or NULL. */
	char *events;
	uint64_t kills;		   /* the count in `events` when a session began */
	struct target_text *texts; /* texts that target_string() has returned */
	struct target_module *served;
	size_t served_count;
};

/* Returns NULL if memory is short. `pid` is 0 for a process that will be started. */
struct probe_target *target_create(pid_t pid, uint64_t start_time);

/* Does the process still run the first change's program? Not after execve(2) or its end. */
bool target_is_there(const struct probe_target *target);

/* Copies a text; the target frees the copy. Returns NULL if memory is short. */
const char *target_string(struct probe_target *target, const char *text);

/*
 * Resumes a held target. Returns true if a repair can free memory, because the stop may have kept a
 * thread in code that is not needed any more: see probe_target_release().
 */
bool target_let_go(struct probe_target *target);
/* For a target that is not held; see probe_target_close(). */
void target_free(struct probe_target *target);

/* Stores, once, the values that probe_target_fate() compares with (fate.c). */
void fate_begin(struct probe_target *target);

/* ---- Threads --------------------------------------------------------------------------------- */

/*
 * Finds where libc keeps the thread's id and rseq area, by which stubs identify threads. Without
 * them, stubs use locks and ask the kernel.
 */
void threads_model(struct probe_target *target, struct modules *modules, struct arch_thread *ret);

/*
 * Checks that all threads, which are stopped, fit the model. If not, marks the target and returns
 * PROBE_ERROR_STATE: the next model will differ, so stubs must be built again.
 */
PROBE_MUST_CHECK struct probe_error *threads_check(struct probe_target *target,
	const struct control *control, const struct arch_thread *model);

/*
 * Checks that no stopped thread is forbidden to read the time stamp counter (PR_SET_TSC). Errors:
 * as threads_check(). The kernel writes its answers to `answer`, an address of ours in the target.
 */
PROBE_MUST_CHECK struct probe_error *threads_check_counter(struct change *change, uint64_t answer);

/*
 * Checks that no stopped thread's system calls go to the program itself
 * (PR_SET_SYSCALL_USER_DISPATCH), because stubs must then make no calls. Errors: as
 * threads_check().
 */
PROBE_MUST_CHECK struct probe_error *threads_check_dispatch(struct change *change);

/* Returns true if this module is the dynamic loader, whose code runs before threads are set up. */
bool threads_is_loader(const struct module *module);
