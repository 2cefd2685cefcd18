/* SPDX-License-Identifier: MIT */
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
#ifndef LIBPROBE_REGISTRY_CHANGE_H
#define LIBPROBE_REGISTRY_CHANGE_H

#include "arch/arch.h"
#include "libprobe/process/modules.h"
#include "libprobe/process/maps.h"
#include "libprobe/ptrace/control.h"
#include "libprobe/registry/code.h"
#include "libprobe/registry/lasting.h"
#include "libprobe/registry/lock.h"
#include "libprobe/registry/registry.h"
#include "probe/target.h"

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

#endif
