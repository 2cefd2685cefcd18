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

/* The layout of a session's data: see docs/ring.md. */

/* The memory that a session needs in addition to its counters. All zero: none. */
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

/* Does a session have an entry of the table of cells for each key? Else a cell per slot. */
static inline bool data_has_table(const struct reg_session *session)
{
	return session->entries != 0;
}

/* ---- Orphans --------------------------------------------------------------------------------- */

/* Memory and descriptors of controllers that were killed before the registry listed these. */
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

/* ---- Site ------------------------------------------------------------------------------------ */

/* The state of the sites that the registry lists as patched. */

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

/* Finds the fault of a mapped site. Returns false if it has none, or is not mapped. */
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

/* How a held program's loader set up its threads, as its system calls showed. */
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
/* Frees a target that is not held; see probe_target_close(). */
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

#endif
