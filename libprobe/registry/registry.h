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
#include "libprobe/registry/format.h"
#include "libprobe/registry/ring.h"

/* ---- Code ------------------------------------------------------------------------------------ */

/*
 * Allocates memory for code in the target. The registry says which parts of the arenas are in use.
 */

/*
 * Finds `size` bytes of free space in an arena. Jumps from this space must reach all of
 * [reach_start, reach_end), and jumps from there must reach the space. Returns 0 if no arena has
 * such space. The arrays of the registry, its current image and `taken` are in use. `taken` lists
 * extents that were handed out but are not yet in an array; the new extent is appended.
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
 * Returns true if an address is in an arena in which code can be allocated. The single page of a
 * pun is no such arena.
 */
bool code_arena(const struct registry *registry, uint64_t address);

/* Takes `size` bytes at `start`. Returns false if some of these bytes are in use. */
bool code_take(
	const struct registry *registry, struct code_taken *taken, uint64_t start, size_t size);

/* Keeps an extent in use although no array lists it any more. Returns false if memory is short. */
bool code_keep(struct code_taken *taken, struct code_extent extent);
/*
 * Removes from `taken` the last extent, or all of them: the caller does not need them, or the
 * registry lists them now.
 */
void code_release(struct code_taken *taken);
void code_release_all(struct code_taken *taken);

/*
 * Returns true if a stub anywhere in [start, end) could jump to every address in [reach_start,
 * reach_end), and be reached by jumps from there.
 */
bool code_reaches(uint64_t start, uint64_t end, uint64_t reach_start, uint64_t reach_end);

/* ---- Lasting --------------------------------------------------------------------------------- */

/* Files that hold a session's memory and outlive the process that has mapped them. */

/*
 * A file for the target to create. `path` is the file's path as the target sees it; NULL stands for
 * a file in memory, which ends with the process. `layout` describes the data that stubs write.
 */
struct lasting_file {
	const char *path;
	const struct reg_session *layout; /* layout with offsets: data_place() is not called yet */
	uint64_t address;		  /* of the path, in the target's memory */
	int folder;			  /* descriptor of the file's folder */
};

/*
 * Checks the path of a file that will outlive the process. Errors: PROBE_ERROR_USAGE (the path is
 * not absolute, or does not end in SHARED_SUFFIX).
 */
PROBE_MUST_CHECK struct probe_error *lasting_check(const char *path);

/*
 * Gets the number of bytes that the process may still use on the file system of `path`. Errors:
 * PROBE_ERROR_SYSTEM; PROBE_ERROR_USAGE (on this kind of file system, hits could wait forever or
 * fail).
 */
PROBE_MUST_CHECK struct probe_error *lasting_room(pid_t pid, const char *path, uint64_t *ret);

/*
 * Removes the name of a file that thread `tid` has just created, has open as `fd`, and has not
 * mapped.
 */
void lasting_remove_open(pid_t pid, pid_t tid, int64_t fd);

/*
 * Returns the pid of a process in its own pid namespace, or 0 if it is unknown. Forked children
 * have the same file mapped; the number tells which process made the file.
 */
uint32_t lasting_maker(pid_t pid);

/* The files that retired sessions have mapped. Initialise it with {0}. */
struct lasting_names {
	struct mapping *items; /* each path is owned by the list */
	size_t count;
};
/*
 * Adds the mapping at an address if it maps a file that outlives the process. Returns false if
 * memory is short.
 */
bool lasting_note(struct lasting_names *names, const struct maps *maps, uint64_t address);
/* Removes the name of each listed file, if the name still refers to the file. Frees the list. */
void lasting_remove(struct lasting_names *names, pid_t pid);
void lasting_deinit(struct lasting_names *names);

/* ---- Lock ------------------------------------------------------------------------------------ */

/* Controllers that change the same process take turns. */

/* The files that make up the lock, as descriptors; -1 for a file that is not open. */
struct target_lock {
	int ours, theirs;
};

/*
 * Takes the lock, and waits while another process holds it: see probe_target_on_wait() and
 * probe_target_set_patience(). Errors: PROBE_ERROR_BUSY (another process has held the lock for too
 * long), PROBE_ERROR_NOT_FOUND (no such process), PROBE_ERROR_PERMISSION, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *lock_target(
	struct probe_target *target, struct target_lock *ret);
void lock_release(struct target_lock *lock);

/*
 * How long a change waits for threads that cannot stop, in nanoseconds. `may_fail`: the change has
 * written nothing in the target, so it can be repeated.
 */
uint64_t patience_for_threads(const struct probe_target *target, bool may_fail);
/*
 * Adapts the error of a wait for threads that cannot stop. PROBE_ERROR_BUSY remains only if the
 * change will be repeated; otherwise it becomes PROBE_ERROR_STATE. `begun_ns`: when the wait began.
 */
PROBE_MUST_CHECK struct probe_error *patience_after(const struct probe_target *target,
	bool may_fail, uint64_t begun_ns, struct probe_error *error);

/* Is a controller changing the process? Returns false if the caller may not take the lock. */
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
	/*
	 * Called when the sites of ending probes are restored, while all threads are stopped; may
	 * be NULL.
	 */
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
	 * The program has mapped memory over ours or unmapped ours (own.c), and the sessions that
	 * needed this memory are retired. `lost_ends` makes uninstall_find_dead() report work until
	 * these sessions are ended.
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

enum { CHANGE_FILE_CALLS = 8 };	  /* most mmap(2) calls for one file, in one stop of a thread */
enum { ARENA_BYTES = 256 << 10 }; /* the size of an arena, or a divisor of it */

/*
 * Locks the target against other controllers and reads its state. After an error, change_end() need
 * not be called. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION, PROBE_ERROR_UNSUPPORTED,
 * PROBE_ERROR_BUSY (another process has the lock), PROBE_ERROR_SYSTEM (EMFILE: too few descriptors
 * are left).
 */
PROBE_MUST_CHECK struct probe_error *change_begin(struct probe_target *target, struct change *ret);
/*
 * Like change_begin(), but keeps the sites of libraries that were closed, or closed and opened
 * again: see site_forget_closed().
 */
PROBE_MUST_CHECK struct probe_error *change_begin_as_it_is(
	struct probe_target *target, struct change *ret);
/*
 * Reads the state of a target that will not be changed: takes no lock, and prepares neither stops
 * nor system calls. Errors: those of change_begin().
 */
PROBE_MUST_CHECK struct probe_error *change_look(struct probe_target *target, struct change *ret);
void change_end(struct change *change);

/*
 * Ends the change when the variable goes out of scope. Call change_begin() right after the
 * declaration, because change_end() needs an initialised variable.
 */
#define AUTO_CHANGE __attribute__((cleanup(change_end)))

/*
 * Checks that this process can open `count` more descriptors, at most 32. Without them a change can
 * be neither made nor undone. Errors: PROBE_ERROR_SYSTEM (EMFILE, ENFILE).
 */
PROBE_MUST_CHECK struct probe_error *change_need_descriptors(
	const struct change *change, size_t count);

/*
 * Checks that the process still runs the program that it ran when the target was first read: the
 * bytes about to be written suit only this program. Errors: PROBE_ERROR_NOT_FOUND (the process has
 * ended, or execve(2) has replaced the program).
 */
PROBE_MUST_CHECK struct probe_error *change_check_program(const struct change *change);

/* Reads the maps, or the maps and the registry, from the target again. */
PROBE_MUST_CHECK struct probe_error *change_reread_maps(struct change *change);
PROBE_MUST_CHECK struct probe_error *change_reread(struct change *change);

/* Stops all threads, and resumes them. The threads of a held target are stopped already. */
PROBE_MUST_CHECK struct probe_error *change_stop(struct change *change);
void change_resume(struct change *change);

/*
 * Finds out which system calls the target's threads may make (change->seccomp), if they have
 * filters. May stop the target for this. Errors: those of stopping and of seccomp_judge().
 */
PROBE_MUST_CHECK struct probe_error *change_judge(struct change *change);

/*
 * Runs system calls in a thread of the target. Borrows the thread unless it is stopped. Ends at the
 * first call that fails: PROBE_ERROR_SYSTEM, with `what` in the message.
 */
PROBE_MUST_CHECK struct probe_error *change_run(
	struct change *change, const char *what, struct control_call *calls, size_t count);

/*
 * Stops one thread for several runs of calls, unless a thread is stopped already. The second
 * function resumes it. Errors: those of change_run().
 */
PROBE_MUST_CHECK struct probe_error *change_borrow(struct change *change);
void change_give_back(struct change *change);

/* Like change_run(), in the stopped thread with index `thread` in change->control. */
PROBE_MUST_CHECK struct probe_error *change_run_in(struct change *change, size_t thread,
	const char *what, struct control_call *calls, size_t count);

/*
 * Allocates `size` bytes of code memory, from which jumps can reach all of an extent (see
 * code_alloc()). Tries the `count` extents in `reaches` in this order, until one works. Maps a new
 * arena if no arena has space.
 */
PROBE_MUST_CHECK struct probe_error *change_alloc_code(struct change *change, size_t size,
	const struct code_extent *reaches, size_t count, uint64_t *ret);

/*
 * Makes the target create a file of `size` bytes, map it by `calls`, and close it. One thread is
 * stopped meanwhile. `calls` are up to CHANGE_FILE_CALLS calls of mmap(2); this function sets their
 * descriptor. If `data` is NULL, stubs may write all of the file. Sets the result of each call,
 * also after an error; 0 if the call was not made or was undone. *fd_ret (may be NULL) is this
 * process's descriptor, or -1 after an error.
 */
PROBE_MUST_CHECK struct probe_error *change_map_file(struct change *change, size_t size,
	const struct lasting_file *data, struct control_call *calls, size_t count, int *fd_ret);

/*
 * Removes the stack frames that killed controllers have left, and counts them. Errors: those of
 * stopping.
 */
PROBE_MUST_CHECK struct probe_error *change_remove_frames(struct change *change, size_t *count_ret);

/*
 * Returns the system call that maps code at a free address. The call counts as failed if the kernel
 * maps the code at another address.
 */
struct control_call change_call_map_code(uint64_t address, uint64_t size);

/*
 * Maps `size` bytes shared between the target and this process; the first page begins with a struct
 * data_header. *fd_ret is this process's descriptor. If is_private, writes through the descriptor
 * appear in a page only until the target first touches this page.
 */
PROBE_MUST_CHECK struct probe_error *change_map_data(struct change *change, size_t size,
	const struct lasting_file *data, bool is_private, uint64_t *address_ret, int *fd_ret);

/*
 * Store the registry, as this process has it. The first function finds a place for an image. The
 * second writes the image there and makes it the current one. The third makes an image that exists
 * the current one, by writing one word; it may be an older image. Call the last two only between
 * change_begin_write() and change_end_write().
 */
PROBE_MUST_CHECK struct probe_error *change_place_image(
	struct change *change, struct code_extent *ret);
PROBE_MUST_CHECK struct probe_error *change_write_image(
	struct change *change, struct code_extent image);
PROBE_MUST_CHECK struct probe_error *change_publish(
	struct change *change, struct code_extent image);
/*
 * Allocates, writes and publishes an image. It announces what the change will do next, so that the
 * next controller can finish the change. If `may_stop` is false, running threads are not stopped;
 * use this only if nothing but counts has changed.
 */
PROBE_MUST_CHECK struct probe_error *change_store(struct change *change, bool may_stop);

/*
 * Loads the registry from the mappings that were read, and compares it with them (own.c). Errors:
 * those of registry_load(), own_check(), lost_find() and change_check_program().
 */
PROBE_MUST_CHECK struct probe_error *change_load(struct change *change);

/*
 * Checks that all memory that the registry lists is still ours. Call this right before writing to
 * this memory. It is fast enough to be called during a stop. Errors: PROBE_ERROR_STATE (some memory
 * is no longer ours), those of own_holds() and change_check_program().
 */
PROBE_MUST_CHECK struct probe_error *change_confirm(const struct change *change);

/*
 * Stops all threads, unless they are stopped, and calls change_confirm(). Until change_end_write(),
 * the program cannot run, so it cannot map memory of its own over ours between the check and a
 * write. After an error, do not call change_end_write(). Errors: those of stopping and of
 * change_confirm().
 */
PROBE_MUST_CHECK struct probe_error *change_begin_write(struct change *change, bool *stops_ret);
void change_end_write(struct change *change, bool stops);
/*
 * Writes one piece of memory that the registry lists, with its own change_begin_write() and
 * change_end_write().
 */
PROBE_MUST_CHECK struct probe_error *change_write(
	struct change *change, uint64_t address, const void *bytes, size_t size);

/*
 * Unmaps arenas that the registry does not list. Arenas that the program has sealed return to the
 * registry. Errors: those of change_run().
 */
PROBE_MUST_CHECK struct probe_error *change_unmap_arenas(
	struct change *change, const struct reg_arena *arenas, size_t count);

/* Unmaps memory that no session uses any more; all of it if no session is left. */
PROBE_MUST_CHECK struct probe_error *change_collect(struct change *change);

/* ---- Data ------------------------------------------------------------------------------------ */

/* The layout of a session's data: see docs/ring.md. */

/* The memory that a session needs in addition to its counters. All zero: counters suffice. */
struct data_needs {
	size_t ring_bytes; /* bytes of a ring, rounded up to a power of two; 0 without rings */
	bool overwrite;	   /* the rings are flight recorders */
	bool cells;
	bool buckets;	      /* each cell has buckets */
	uint8_t key_count;    /* parts of a key; above 0, the cells are in a table */
	uint8_t string_count; /* parts of a key that are strings */
	size_t string_bytes;  /* most bytes of each string of a key, without its end */
	size_t keys_max;      /* most keys that a CPU stores */
	size_t pairs;	      /* pairs whose start events are noted */
	bool by_key;	      /* pairs match by a key of the program, not by the thread */
	/* bytes kept of each start event (struct probe_begun); a multiple of 8; may be 0 */
	size_t keep_bytes;
	size_t text_bytes; /* bytes of a key that is a text; 0 if keys are numbers */
	size_t threads;	   /* threads that the target has now */
	/*
	 * If forked children use the table as well: the least number of its entries. The children
	 * may touch all entries in time. 0 if only the target uses the table.
	 */
	size_t flights_min;
	size_t notes_bytes; /* bytes for the session's own notes */
};

enum {
	DATA_RING_DEFAULT = 4 << 20,
	DATA_RING_MIN = 1 << 17,
	DATA_RING_MAX = 1 << 30,
	DATA_KEY_STRING_DEFAULT = 256,
	/* start events per thread; then the newest replaces the outermost */
	DATA_DEPTH_THREAD = 1024,
	DATA_DEPTH_KEY = 8,
	DATA_DEPTH_SPANS = 128,	   /* start events per thread, if bytes are kept of each */
	DATA_KEEP_DEFAULT = 1024,  /* bytes kept for start events in libraries opened later */
	DATA_FLIGHTS_MIN = 1024,   /* least entries of the table of start events */
	DATA_FLIGHTS_FORKS = 4096, /* least entries if forked children use the table */
	DATA_FLIGHTS_FEW = 64	   /* the same, if memory is short */
};

/* Bytes of an entry in the table of start events. */
size_t data_flight_bytes(const struct reg_session *session);

/*
 * Lays out the data of a session with counters for `probes` probes: sets all places in *session, as
 * offsets in the data. The caller has set `cpus`. Errors: PROBE_ERROR_USAGE (the data would be too
 * large).
 */
PROBE_MUST_CHECK struct probe_error *data_lay_out(
	struct reg_session *session, size_t probes, const struct data_needs *needs);

struct data_extent {
	uint64_t start, end;
};

/*
 * Gets the part with this index, from 0, of the data that stubs and controllers write. Returns
 * false after the last part. Works before data_place().
 */
bool data_extent(const struct reg_session *session, uint32_t index, struct data_extent *ret);

/* The sum of the sizes of all parts that data_extent() returns. */
uint64_t data_bytes(const struct reg_session *session);

/* Turns the offsets into addresses in the target, for data that is mapped at session->data. */
void data_place(struct reg_session *session);

/*
 * Does the layout of a session's memory serve these needs? Sizes may differ, except those of cells.
 */
bool data_fits(const struct reg_session *session, const struct data_needs *needs);

/* The offset of the notes in a recording session's data; 0 if the data has no room for notes. */
uint64_t data_notes_offset(const struct reg_session *session);

/* Are the addresses and sizes of the rings and of the data possible? */
bool data_rings_make_sense(const struct reg_session *session);

/* Are all addresses and sizes possible? (The target can change the memory of the registry.) */
bool data_makes_sense(const struct reg_session *session);

/* Does a session have a table with a cell for each key? Otherwise it has a cell for each slot. */
static inline bool data_has_table(const struct reg_session *session)
{
	return session->entries != 0;
}

/* ---- Orphans --------------------------------------------------------------------------------- */

/* Mappings and descriptors of controllers that were killed before the registry listed them. */
struct orphans {
	size_t mappings, descriptors;
};

/*
 * Counts the orphans of a process that has this registry and these maps. Memory of a change under
 * way may look like an orphan: see lock_is_taken().
 */
void orphans_count(
	pid_t pid, const struct maps *maps, const struct registry *registry, struct orphans *ret);

/*
 * Unmaps and closes the orphans, and counts them in *ret. Call this before the change maps or
 * unmaps anything, or after change_reread_maps(). Errors: those of change_run().
 */
PROBE_MUST_CHECK struct probe_error *orphans_remove(struct change *change, struct orphans *ret);

/*
 * Unmaps the orphans, closes none, and counts them. Call this also before the home is unmapped:
 * data is recognised by its pointer to the home.
 */
PROBE_MUST_CHECK struct probe_error *orphans_unmap(struct change *change, size_t *count_ret);

/* ---- Own ------------------------------------------------------------------------------------- */

/* Tells which memory that controllers have mapped in a target is still ours. */

/*
 * Memory to unmap. `inode` says how the memory is recognised as ours: by the inode of its file, by
 * our name (OWN_NAMED), or as the page of a guard (OWN_GUARD). OWN_NEW_GUARD also accepts a page
 * without a mark: the controller may have been killed before it wrote the mark.
 */
#define OWN_NAMED UINT64_MAX
#define OWN_GUARD (UINT64_MAX - 1)
#define OWN_NEW_GUARD (UINT64_MAX - 2)
struct own_extent {
	uint64_t start, size, inode;
	bool follows; /* unmapped together with the extent before it, or not at all */
	/*
	 * result: the program has sealed part of it, or of the extents that follow it, so all of
	 * them stay
	 */
	bool is_sealed;
};

/*
 * Unmaps the parts of these extents that are ours. Reads the mappings and unmaps in one stop of all
 * threads, so that the program cannot map memory of its own there in between. Errors: those of
 * stopping and of change_run().
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
 * Is all memory that a registry lists still ours, except that of retired sessions? The check is
 * fast enough for a stop. `mem` may be -1. Errors: those of maps_read(), PROBE_ERROR_SYSTEM;
 * PROBE_ERROR_NOT_FOUND: the process has ended or become another program.
 */
PROBE_MUST_CHECK struct probe_error *own_holds(
	pid_t pid, int mem, const struct registry *registry, bool *ret);

/*
 * Returns how many bytes of our memory the program has sealed: arenas, and data of ended sessions.
 */
uint64_t own_sealed(pid_t pid, const struct maps *maps, const struct registry *registry);

/*
 * Call this if a process has no registry: the program may have mapped memory of its own over it.
 * Compares the text of modules with their files to find the sites that jump to memory that is or
 * was ours. If there are such sites, or data of ours that leads to no registry, *ret becomes a
 * registry that lists them: retired sessions, leftover code, and these sites. Then all of them can
 * be ended. Otherwise *ret does not change. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *lost_find(pid_t pid, const struct maps *maps,
	const struct modules *modules, struct registry *ret, bool *lost_ret);

/* ---- Recall ---------------------------------------------------------------------------------- */

/* Names of enabled probes whose files have changed or can no longer be read: see recall.c. */

/*
 * Discards the file of each module that contradicts the registry. A module without a file gets
 * notes that are made from the registry, for each probe whose name is known. A name is also known
 * if a pattern spells it out. The probes of such a module can only be shown and switched off: their
 * notes have no arguments. May add modules, so pointers to modules become invalid. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *recall_probes(struct modules *modules, pid_t pid,
	const struct maps *maps, const struct registry *registry,
	const struct probe_pattern *const *patterns, size_t count);

/* ---- Site ------------------------------------------------------------------------------------ */

/* The state of the sites that the registry lists as patched. */

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
 * The state of a site where `bytes`, site->length of them, were found; `bytes` is NULL if the site
 * is not mapped. Does not check the file.
 */
enum site_state site_state(
	const struct registry *registry, const struct reg_site *site, const uint8_t *bytes);

/*
 * Is each byte either the file's or ours? When a kernel uprobe that was written over our jump is
 * removed, the kernel puts back only the first byte of the original code. The resulting mixture
 * makes no sense as code, so the whole site must be restored or patched.
 */
bool site_is_mixed(const struct reg_site *site, const uint8_t *bytes);

/*
 * Returns true if the site is in a module whose file has the site's original bytes there, or cannot
 * be read.
 */
bool site_is_in_file(const struct modules *modules, const struct reg_site *site);

/*
 * Reads all sites of a registry. *ret is an array of states in the order of registry->sites; the
 * caller frees it. `edits` gets the bytes found, in the same order. Errors: PROBE_ERROR_MEMORY, and
 * those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *site_read_all(
	const struct registry *registry, pid_t pid, struct edits *edits, enum site_state **ret);

/* Does a session want the site to be patched? */
bool site_is_wanted(const struct registry *registry, const struct reg_site *site);

/*
 * Returns true if nothing is enabled at a site and it is only a link in a chain of neighbours.
 * Neighbours are sites that share one jump; all of them are in the chain of this jump.
 */
bool site_is_bare(const struct registry *registry, const struct reg_site *site);

/* The index of the first site that is patched by the same jump as `site`; may be `site` itself. */
size_t site_leader(const struct registry *registry, size_t site);

/* Is the site's entry a link in a chain, either of neighbours or after a hop (reg_site.hop)? */
bool site_is_chained(const struct reg_site *site);

/* Does the short jump of a site lead to a jump of ours? */
bool site_has_hop(const struct reg_site *site, pid_t pid);

/*
 * Encodes a jump from the entry of a site to the address `to`. Returns its length, or 0 if `to` is
 * out of reach. `out` has room for ARCH_JUMP_MAX bytes.
 */
size_t site_entry_jump(const struct reg_site *site, uint64_t to, uint8_t *out);

/*
 * Converts the state of a site into a fault. Returns false if the site is patched, and so has no
 * fault, or is not mapped.
 */
bool site_fault(enum site_state state, enum probe_site_fault *ret);

/*
 * Do two processes have the same bytes wherever the registry of `pid` says that a jump leads to a
 * probe's stub, or from one stub to the next? Gates are not compared. Errors: PROBE_ERROR_MEMORY,
 * and those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *site_all_alike(
	const struct registry *registry, pid_t pid, pid_t other, bool *ret);

/* How many sites of the registry are patched. */
size_t site_count_patched(const struct change *change);

/*
 * Removes from the registry (in this process) the sites of libraries that were closed, or closed
 * and opened again. In a forked child, also removes sites of the parent that were never patched in
 * the child. Writes nothing at these sites. Keeps sites that other tools have overwritten, because
 * such a tool may put back our jump.
 */
void site_forget_closed(struct change *change);

/* ---- Space ----------------------------------------------------------------------------------- */

/* Free address space of a target. */

/*
 * Finds an address for `size` bytes of code. Jumps from the code must reach all of [reach_start,
 * reach_end), and jumps from this range must reach the code. Returns 0 if there is no such address.
 * Keeps away from the heap and the main stack, which grow.
 */
uint64_t space_find(
	const struct maps *maps, uint64_t size, uint64_t reach_start, uint64_t reach_end);

/* Are all pages of [start, end) free, and away from mappings that grow? */
bool space_is_free(const struct maps *maps, uint64_t start, uint64_t end);

/* ---- Target ---------------------------------------------------------------------------------- */

/* How the loader of a held program set up its threads, as seen in the loader's system calls. */
struct spawn_facts {
	bool known; /* the loader has set the thread pointer */
	bool has_rseq;
	int32_t rseq_offset;
	uint32_t rseq_signature;
};

/* A thread of the target that waits for us and makes system calls on request. */
struct target_proxy {
	pid_t tid;
	/*
	 * Makes a call and sets its result. Returns false if the thread no longer exists. After the
	 * call, the thread waits for the next one.
	 */
	bool (*call)(void *data, struct control_call *call);
	void *data;
};

/* The process that held the lock when a change had to wait. */
struct lock_holder {
	bool is_stranger; /* the holder's user is neither root nor ours */
	uint64_t looked_ns;
	unsigned int misses; /* searches in a row that found no holder of the lock */
	char name[64];	     /* description of the holder, for messages */
};

/* A copy of a text, in a list that the target owns. */
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
	/* start time of the process; differs for a later process with this pid */
	uint64_t start_time;
	int mem;	/* /proc/PID/mem of the program at the first change, or -1 */
	uint64_t image; /* AT_RANDOM of that program, or 0 */
	bool spawned, held;
	/*
	 * The target has been held since its execve(2). It has one thread and shares its memory
	 * with no process, so its state does not change while it is held.
	 */
	bool alone;
	bool hurry;    /* others wait for us: fail if the target cannot be changed at once */
	bool late;     /* found while other targets were traced, which must not be delayed */
	bool attached; /* the target is held, but ran before: probe_target_attach() */
	bool dropped;  /* probes were disabled while the target was attached */
	struct control control; /* all threads of the target, stopped, while it is held */
	/* Called while a change waits, or NULL: see probe_target_on_wait(). */
	bool (*on_wait)(pid_t pid, unsigned int seconds, const char *holder, void *data);
	void *on_wait_data;
	struct probe_patience *patience; /* set by probe_target_set_patience(), or NULL; borrowed */
	struct lock_holder holder;
	/*
	 * If not 0, the pid of a process that shares the target's memory, waits for us, and runs
	 * nothing else meanwhile.
	 */
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
	/*
	 * Increases when the target turns out to need another attempt, for example because of
	 * odd_threads, no_counter or dispatches (struct attempt).
	 */
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

/*
 * Does the process still run the program that it ran at the first change? Not after execve(2), and
 * not after its end.
 */
bool target_is_there(const struct probe_target *target);

/* Copies a text; the target frees the copy. Returns NULL if memory is short. */
const char *target_string(struct probe_target *target, const char *text);

/*
 * Resumes a held target. Returns true if a thread may have been stopped in code that is no longer
 * needed. A repair can free this code: see probe_target_release().
 */
bool target_let_go(struct probe_target *target);
/* Frees a target that is not held; see probe_target_close(). */
void target_free(struct probe_target *target);

/* Stores, once, the values that probe_target_fate() compares with (fate.c). */
void fate_begin(struct probe_target *target);

/* ---- Threads --------------------------------------------------------------------------------- */

/* How a stub can identify the threads of a target without a system call. */

/*
 * Finds where libc keeps the thread's id and its rseq area. If either is not found, stubs use locks
 * and ask the kernel instead.
 */
void threads_model(struct probe_target *target, struct modules *modules, struct arch_thread *ret);

/*
 * Checks that all threads, which are stopped, fit the model. If a thread does not fit, returns
 * PROBE_ERROR_STATE, and marks the target. The next model will differ, so the stubs must be built
 * again.
 */
PROBE_MUST_CHECK struct probe_error *threads_check(struct probe_target *target,
	const struct control *control, const struct arch_thread *model);

/*
 * Checks that all threads, which are stopped, may read the time stamp counter (PR_SET_TSC). If a
 * thread may not, marks the target and returns PROBE_ERROR_STATE, like threads_check(). The kernel
 * writes its answers to `answer`, an address in our memory in the target.
 */
PROBE_MUST_CHECK struct probe_error *threads_check_counter(struct change *change, uint64_t answer);

/*
 * Checks that the kernel itself handles the system calls of all threads, which are stopped. If the
 * program itself handles the calls of a thread (PR_SET_SYSCALL_USER_DISPATCH), marks the target and
 * returns PROBE_ERROR_STATE, like threads_check(). From then on, stubs must make no system calls.
 */
PROBE_MUST_CHECK struct probe_error *threads_check_dispatch(struct change *change);

/* Is this module the program's dynamic loader, whose code runs before threads are set up? */
bool threads_is_loader(const struct module *module);

#endif
