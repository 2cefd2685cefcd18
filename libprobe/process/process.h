/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "arch/process.h"
#include "elf/object.h"
#include "elf/sdt.h"
#include "libprobe/base/error.h"
#include "libprobe/base/map.h"
#include "libprobe/base/procfs.h"

/* ---- Auxv ------------------------------------------------------------------------------------ */

/* The auxiliary vector, which execve(2) gives to a program and fork(2) copies. */

enum { AUXV_MAX = 64 };

struct auxv {
	ssize_t bytes;
	uint64_t items[AUXV_MAX][2]; /* a type (AT_...) and its value */
};

/*
 * Returns the bytes read (ret->bytes), 0 if the process has no vector, or -1 and errno if the file
 * cannot be opened. Does not wait for the process's memory.
 */
ssize_t auxv_read(pid_t pid, struct auxv *ret);
/* Reads AT_RANDOM, even if the main thread has ended. The value is 0 in the middle of execve(2). */
bool auxv_read_image(pid_t pid, uint64_t *ret);
/* Returns a value, or 0. AT_RANDOM, a random address in the stack, tells programs apart. */
uint64_t auxv_value(const struct auxv *auxv, uint64_t type);

/* ---- Maps ------------------------------------------------------------------------------------ */

/* The mappings of a process: /proc/PID/maps (proc_pid_maps(5)). */

/* One line of the file. The range [start, end) is in the target. */
struct mapping {
	uint64_t start, end;
	uint64_t offset; /* offset of the mapping in its file, in bytes */
	uint64_t inode;	 /* inode of the file; 0 if there is no file */
	uint32_t dev_major, dev_minor;
	bool readable, writable, executable;
	bool is_shared;	  /* mapped with MAP_SHARED */
	bool deleted;	  /* the path ended in " (deleted)", which is removed */
	const char *path; /* "" for anonymous memory, "[stack]" ...; owned by struct maps */
};

/* All mappings, sorted by address. Initialise it with {0}. */
struct maps {
	struct mapping *items;
	size_t count;
	char *storage; /* the text of the file; paths point into it */
};

/*
 * Reads the mappings of a process, given the id of any thread, without stopping it: the result may
 * mix two states.
 *
 * Errors: PROBE_ERROR_NOT_FOUND (no such process), PROBE_ERROR_STATE (a zombie or kernel thread),
 * PROBE_ERROR_PERMISSION (the message says why), PROBE_ERROR_FORMAT, PROBE_ERROR_MEMORY,
 * PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *maps_read(pid_t pid, struct maps *ret);

/* A part of a process's address space. */
struct maps_part {
	uint64_t start, size;
};

/*
 * Reads only the mappings that overlap these parts, one by one (PROCMAP_QUERY, Linux 6.11), which
 * is fast enough for a stop; on older kernels all mappings. Errors: as maps_read().
 */
PROBE_MUST_CHECK struct probe_error *maps_read_parts(
	pid_t pid, const struct maps_part *parts, size_t count, struct maps *ret);

/*
 * Finds out whether the mapping at `start` has this flag ("wf") in its VmFlags line of
 * /proc/PID/smaps. Slow: the kernel walks the pages of all mappings before it. *ret is false if the
 * file is unreadable. Errors: PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *maps_has_flag(
	pid_t pid, uint64_t start, const char *flag, bool *ret);

/* For tests: parses `length` bytes of text. */
PROBE_MUST_CHECK struct probe_error *maps_parse(const char *text, size_t length, struct maps *ret);

void maps_deinit(struct maps *maps);

/* Returns the mapping that contains an address, or NULL. */
const struct mapping *maps_find(const struct maps *maps, uint64_t address);
/* Is an address in a MAP_SHARED mapping, whose changes reach its file and other processes? */
bool maps_is_shared(const struct maps *maps, uint64_t address);

/* Returns the first mapping that ends above an address, or NULL. */
const struct mapping *maps_find_from(const struct maps *maps, uint64_t address);

/* ---- Memfds ---------------------------------------------------------------------------------- */

/* The memfds that a process has open, to which no path leads. Initialise with {0}. */
struct memfds {
	struct memfd *items;
	size_t count;
	bool is_read;
};

/*
 * Opens a mapping's file through one of the process's descriptors. Returns -1 if no descriptor
 * refers to it, or on failure. procfs_no_room(*err_ret) is true if we have too few descriptors.
 */
int memfds_open(struct memfds *memfds, pid_t pid, const struct mapping *mapping, int *err_ret);
void memfds_deinit(struct memfds *memfds);

/* ---- Backing --------------------------------------------------------------------------------- */

/* Files of shared mappings, which tell which pages of a mapping have contents. */

/* Initialise with the pid; call backing_deinit(). */
struct backing {
	pid_t pid;
	bool no_map_files; /* we may not use /proc/PID/map_files */
	struct memfds memfds;
};

enum backing_kind {
	BACKING_NONE,	/* not examined: a device, or on a file system that may not answer */
	BACKING_MEMORY, /* the file is in memory, whatever its name */
	BACKING_DISK
};

enum backing_kind backing_kind(const struct backing *backing, const struct mapping *mapping);

/* Opens the file of a shared mapping for reading, or returns -1. */
int backing_open(struct backing *backing, const struct mapping *mapping);

/* Finds the next range with data in [offset, end) of a file. Other bytes read as zeros. */
bool backing_next(int fd, uint64_t offset, uint64_t end, uint64_t *start_ret, uint64_t *end_ret);

/* Returns the bytes of data in [offset, end). */
uint64_t backing_data(int fd, uint64_t offset, uint64_t end);
void backing_deinit(struct backing *backing);

/*
 * Opens the file of a mapping through /proc/PID/map_files, which needs CAP_CHECKPOINT_RESTORE; or
 * returns -1. *denied becomes true if it is missing, and then nothing is tried.
 */
int map_file_open(pid_t pid, const struct mapping *mapping, bool *denied);
struct procfs_path map_file_path(pid_t pid, const struct mapping *mapping);

/* Returns true if a file has a mapping's inode. For beneath_open(). */
bool mapped_is_inode(const struct stat *st, const void *mapping);

/* ---- Beneath --------------------------------------------------------------------------------- */

/*
 * Opens a regular file by a path from a target's maps, below `root` ("/" or /proc/PID/root).
 * Follows no symbolic links: the kernel reports paths without links, so a link was made later, and
 * would be resolved in our root. Opens nothing that is not regular or that `wanted` rejects,
 * because opening a device or pipe has effects.
 *
 * Returns the descriptor; or -1, with *err_ret an errno, or 0 if another file is at the path.
 */
int beneath_open(const char *root, const char *path,
	bool (*wanted)(const struct stat *st, const void *data), const void *data, int *err_ret);

/* ---- Cgroup ---------------------------------------------------------------------------------- */

/* How much memory a process's control groups leave to it, and whether they let the process run. */

/* The control group with the least memory left. */
struct cgroup_memory {
	uint64_t limit; /* the group's memory limit in bytes; UINT64_MAX if there is no limit */
	uint64_t room;	/* bytes left below the limit; file caches do not count as used */
};

/* Examines the group of a process and its visible ancestors. */
void cgroup_memory(pid_t pid, struct cgroup_memory *ret);

/*
 * Returns the path of the file that counts OOM kills in a process's group, readable after the
 * process's end; NULL if there is no such file. The caller frees it.
 */
char *cgroup_events(pid_t pid);
/* Returns the count in the file `events`; 0 if `events` is NULL or unreadable. */
uint64_t cgroup_kills(const char *events);

enum { CGROUP_PATH_BYTES = PATH_MAX };
/* Is a process's control group frozen or freezing? *ret becomes the visible group to thaw. */
bool cgroup_frozen(pid_t pid, char ret[CGROUP_PATH_BYTES]);

/* For tests: `groups` and `mounts` replace /proc/PID/cgroup and mountinfo, below `folder`. */
void cgroup_memory_in(
	const char *folder, const char *groups, const char *mounts, struct cgroup_memory *ret);
bool cgroup_frozen_in(
	const char *folder, const char *groups, const char *mounts, char ret[CGROUP_PATH_BYTES]);

/* ---- Distant --------------------------------------------------------------------------------- */

/* Files on file systems that may not answer: see distant.c. */

/*
 * Returns true if a program or another machine serves the files of a device, or if that is unknown.
 * Accesses no file.
 */
bool distant_is(pid_t pid, uint32_t dev_major, uint32_t dev_minor);

/*
 * Runs `open` (-1 and *err_ret on failure) in a helper, and returns a copy of the file in memory,
 * which the caller closes. On failure returns -1 and `open`'s *err_ret, or ETIMEDOUT.
 */
int distant_copy(int (*open)(void *data, int *err_ret), void *data, int *err_ret);

/* The identity of a file, from the kernel's caches: the file system is not asked. */
struct file_id {
	dev_t device;
	ino_t inode;
};

bool file_id_same(const struct file_id *a, const struct file_id *b);

/*
 * openat2(2) with O_PATH and `resolve`, from the kernel's caches only. Returns -1 if the path is
 * not cached, the kernel is older than Linux 5.12, or a filter forbids us the call.
 */
int cached_open(int folder, const char *name, uint64_t resolve);
bool cached_identify(int fd, struct file_id *ret);
/* Returns true if a program or another machine serves the file, as far as our mounts tell. */
bool file_is_distant(const struct file_id *file);

/* ---- Edits ----------------------------------------------------------------------------------- */

/*
 * Changes many places of a target's memory at once while the target is stopped.
 *
 *   edits_add()      adds a place, and its new contents
 *   edits_prepare()  allocates and sorts: the last step before the stop
 *   edits_read()     reads the current contents
 *   (the caller examines them, and may withdraw single edits)
 *   edits_write()    writes all of them, or none
 */

struct memory_piece;

enum { EDIT_BYTES = 32 };

/* One place. If is_write, `bytes` are written to the place; otherwise it is only read. */
struct edit {
	uint64_t address;
	uint16_t length; /* bytes of the place; at most EDIT_BYTES if it is written */
	bool is_write;
	bool is_private; /* the process has its own copy of the page: see edits_pretouch() */
	uint16_t turn;
	uint8_t bytes[EDIT_BYTES];
	uint32_t span; /* index of the place's span, set by edits_prepare() */
};

/* Places that are read in one piece. */
struct edit_span {
	uint64_t address;
	size_t length, offset; /* bytes of the span, and its offset in the buffers */
	bool readable, is_due; /* is_due: a place of the present turn is in it */
};

/* All turns, instead of one. */
enum { EDITS_ALL = UINT16_MAX };

/*
 * Places to read and to write. Initialise it with {0}. If they are too many for one stop, each has
 * a turn, and only those with the present turn are read and written.
 */
struct edits {
	uint16_t turn; /* the present turn, or EDITS_ALL */

	struct edit *items; /* the places, in the order of edits_add() */
	size_t count;
	uint32_t *order; /* indices of the places, by address; set by edits_prepare() */
	struct edit_span *spans;
	size_t span_count;
	size_t size;		     /* bytes of each buffer */
	uint8_t *before, *after;     /* contents of all spans, before and after the edits */
	struct memory_piece *pieces; /* the spans, in the form for memory_read_pieces() */
	uint8_t *noted;		     /* contents that edits_note() has noted, or NULL */
};

/* Adds a place. Returns NULL if memory is short. The pointer is valid until the next call. */
struct edit *edits_add(struct edits *edits, uint64_t address, size_t length);

/* Call after the last edits_add(). Written places must not overlap. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *edits_prepare(struct edits *edits);
void edits_deinit(struct edits *edits);

/*
 * Reads all places; some may be unreadable. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION,
 * PROBE_ERROR_STATE (userfaultfd(2) protects a page to be written).
 */
PROBE_MUST_CHECK struct probe_error *edits_read(struct edits *edits, pid_t pid);

/* Is the place `i` read and written in the present turn? */
bool edits_is_due(const struct edits *edits, size_t i);

/* Returns the bytes found at place `i`; NULL if it is not mapped. */
const uint8_t *edits_found(const struct edits *edits, size_t i);

/*
 * edits_note() remembers the contents that were read; edits_are_as_noted() tells if the latest
 * edits_read() found the same, so that they need not be examined again. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *edits_note(struct edits *edits);
bool edits_are_as_noted(const struct edits *edits);

/* Writes the present bytes of the pages, to make the kernel copy the pages before the stop. */
PROBE_MUST_CHECK struct probe_error *edits_pretouch(const struct edits *edits, int mem);

/* Writes through `mem` (memory_open()), page by page. After an error, all places are as before. */
PROBE_MUST_CHECK struct probe_error *edits_write(struct edits *edits, int mem);

/* Writes back the contents from edits_read(). */
void edits_revert(const struct edits *edits, int mem);

/* ---- Memory ---------------------------------------------------------------------------------- */

/*
 * Reads and writes a target's memory. Reads never wait for a program that serves page faults: pages
 * that it has not provided are unreadable.
 */

struct served;

/*
 * Sets whether our seccomp filters allow process_vm_readv(2) and process_vm_writev(2). Before this
 * call, if we have filters, /proc/PID/mem is used.
 */
void memory_may_call(bool may);

/* Reads a target's memory. Returns the number of bytes read. */
size_t memory_read(pid_t pid, uint64_t address, void *buffer, size_t size);
/* Like memory_read(), for one of many reads of a process: see served_of(). */
size_t memory_read_known(struct served *known, uint64_t address, void *buffer, size_t size);
/* Like memory_read_known(), through `mem` if the process itself may not read the memory. */
size_t memory_read_forced(pid_t pid, int mem, uint64_t address, void *buffer, size_t size);
/* Like memory_read(), but fails unless all bytes can be read. */
PROBE_MUST_CHECK struct probe_error *memory_read_all(
	pid_t pid, uint64_t address, void *buffer, size_t size);

/* One of many places to read with few system calls. */
struct memory_piece {
	uint64_t address;
	void *buffer;
	size_t size;
};
PROBE_MUST_CHECK struct probe_error *memory_read_pieces(
	pid_t pid, const struct memory_piece *pieces, size_t count);

/* Writes memory that the target itself can write (process_vm_writev(2)). */
PROBE_MUST_CHECK struct probe_error *memory_write_data(
	pid_t pid, uint64_t address, const void *buffer, size_t size);

/*
 * Reads through /proc/PID/mem the memory of the program for which `fd` was opened. Errors:
 * PROBE_ERROR_NOT_FOUND (that memory is gone: execve(2), or the process ended).
 */
PROBE_MUST_CHECK struct probe_error *memory_read_code(
	int fd, uint64_t address, void *buffer, size_t size);

/*
 * Writes any memory, including code, through `fd` (memory_open()). A private page becomes the
 * target's own copy; the file never changes. A write within one page is atomic.
 */
PROBE_MUST_CHECK struct probe_error *memory_write_code(
	int fd, uint64_t address, const void *buffer, size_t size);
PROBE_MUST_CHECK struct probe_error *memory_open(pid_t pid, int *fd_ret);

/*
 * Returns true if the memory is still a process's; false after execve(2) or the end of the process.
 */
bool memory_is_there(int fd);

/* Bits of a page's entry in /proc/PID/pagemap: present, or swapped. */
#define PAGE_THERE (UINT64_C(3) << 62)

/* Returns -1 and sets errno on failure. */
int memory_open_pagemap(pid_t pid);

/*
 * Returns true if a page of a file's private mapping is the process's own copy: it is present or
 * swapped, and is not a page of the file. Returns `unknown` if the pagemap cannot be read.
 */
bool memory_is_own_copy(int pagemap, uint64_t address, bool unknown);

/*
 * Returns the length of a run of bytes whose pages are all in memory (*there_ret), or all not in
 * memory: reading those would allocate pages of zeros. Pages without an entry count as in memory.
 */
size_t memory_run(int pagemap, uint64_t address, size_t size, bool *there_ret);

/* ---- Gadgets --------------------------------------------------------------------------------- */

/* Machine code of the target that remote system calls use. */

struct maps;
struct modules;

/* Searches the modules and the vDSO. Errors: PROBE_ERROR_UNSUPPORTED (a gadget is missing). */
PROBE_MUST_CHECK struct probe_error *gadgets_find(pid_t pid, const struct maps *maps,
	const struct modules *modules, struct arch_gadgets *ret);

/*
 * Returns true if the gadgets are still mapped, false if execve(2) has removed them. In the same
 * call reads `more`, if its size is not 0; zeros if it is unreadable.
 */
bool gadgets_are_there(
	pid_t pid, const struct arch_gadgets *gadgets, const struct memory_piece *more);

/* ---- Files ----------------------------------------------------------------------------------- */

/* A cache of files for the processes of one watch. Used by one thread. */
struct files;

/* The role of a file in programs that start and load nothing (follow/follow.h). */
enum file_role { FILE_UNKNOWN, FILE_OF_LEAF, FILE_OTHER };
enum file_leaf { LEAF_UNKNOWN, LEAF_YES, LEAF_NO };

/* A file as it was when it was opened. */
struct file {
	size_t references;
	dev_t dev;
	ino_t inode;
	off_t size;
	struct timespec modified, changed;
	char *path;
	int fd; /* open descriptor, which keeps the inode from being reused */
	struct object *object;
	struct sdt_notes notes;
	bool notes_read;
	struct arch_gadgets gadgets; /* the file's code for remote calls: see gadgets_find() */
	bool gadgets_known;
	struct map plans;    /* made by libprobe/patch/choose.c */
	bool passed_over;    /* nothing in the file is wanted: probe_watch_pass_over() */
	bool glibc_loads;    /* the file is a program, loaded by glibc's loader */
	enum file_role role; /* role of the file as code that a program maps */
	enum file_leaf leaf; /* role of the file as a program */
};

PROBE_MUST_CHECK struct probe_error *files_create(struct files **ret);
/* Takes a reference (NULL is allowed), for files_release(). */
struct files *files_hold(struct files *files);
void files_release(struct files *files);

/*
 * For tests: returns the file of a descriptor, for file_release(); the caller still closes `fd`.
 * `path` is for messages. Errors: as object_open_fd(), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *files_open(
	struct files *files, int fd, const char *path, struct file **ret);
void file_release(struct file *file);

/* Returns the file with this status, borrowed; NULL if unknown. */
struct file *files_known(const struct files *files, const struct stat *st);

/* Returns the unchanged file with these numbers from /proc/PID/maps, borrowed; NULL if unknown. */
struct file *files_mapped(const struct files *files, dev_t dev, ino_t inode);

/* ---- Modules --------------------------------------------------------------------------------- */

/* The modules of a process: the ELF files that it has mapped executable. */

/* One file at one bias: a library that dlmopen(3) loads twice is two modules. Target addresses. */
struct module {
	char *path; /* as in /proc/PID/maps, without " (deleted)"; owned */
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	bool deleted;
	uint64_t start, end;	/* lowest and highest mapped address of the file (at this bias) */
	uint64_t bias;		/* run-time minus link-time address; modulo 2^64 */
	int fd;			/* descriptor of the mapped file; -1 if it cannot be opened */
	struct object *object;	/* the ELF file; NULL if it cannot be read: see reason */
	char *reason;		/* why object is NULL, else NULL; owned */
	size_t unnamed;		/* number of enabled probes without a name: see recall_probes() */
	struct file *file;	/* if not NULL, it owns object and notes */
	struct sdt_notes notes; /* valid if notes_read: see module_read_notes() */
	bool notes_read;
	struct sdt_functions functions; /* the functions that were asked for */
};

/* Sorted by start. Initialise with {0}. */
struct modules {
	struct module *items;
	size_t count;
	pid_t pid; /* the process, as /proc has it */
	/* Patterns with wildcards name only those functions that are enabled. */
	bool only_enabled;
	/* The sizes of functions' arguments; borrowed, or NULL. */
	const struct probe_catalogue *catalogue;
};

/*
 * Finds and opens the modules of a process, through /proc/PID/map_files if allowed, else its root
 * directory with a check of device and inode. Reads a replaced file's copy if it is the same
 * version. Leaves out files that are not ELF; keeps those that cannot be opened, with a reason.
 * Takes files from the cache `files`, if not NULL, and adds to it. Does not stop the process.
 * Errors: as maps_read().
 */
PROBE_MUST_CHECK struct probe_error *modules_read(
	pid_t pid, struct files *files, struct modules *ret);
/* Like modules_read(), with mappings already read. `pid` is from procfs_living(). */
PROBE_MUST_CHECK struct probe_error *modules_read_mapped(
	pid_t pid, const struct maps *maps, struct files *files, struct modules *ret);
void modules_deinit(struct modules *modules);

/*
 * Reads the notes into module->notes, once. A module without object has none. If the notes are
 * unreadable, the object is replaced by a reason. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *module_read_notes(struct module *module);

/* Forgets a module's object and notes, for this reason. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *module_distrust(struct module *module, const char *reason);

/*
 * Adds the file with code mapped at an address as a module without object. Invalidates pointers to
 * modules. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *modules_add_unread(
	struct modules *modules, const struct maps *maps, uint64_t address, const char *reason);

/* Is the mapping of the module's file and, if the module has an object, at its bias? */
bool module_has_mapping(const struct module *module, const struct mapping *mapping);

/* Returns true if the module is the C library, a part of it, or its loader, judged by its name. */
bool module_is_libc(const struct module *module);

/* Returns the module that contains an address, or NULL. */
struct module *modules_find(const struct modules *modules, uint64_t address);

/* ---- Jit map --------------------------------------------------------------------------------- */

/* Names of code that a process generates, from its file /tmp/perf-PID.map. */

struct jit_map;

/* Reads nothing yet. Returns NULL if memory is short. */
struct jit_map *jit_map_create(pid_t pid);
void jit_map_free(struct jit_map *map); /* `map` may be NULL */

/* Reads lines that were added to the file, at most four times a second unless `now`. */
void jit_map_refresh(struct jit_map *map, bool now);

/* Changes when a refresh has read something, so that names may have changed. */
unsigned int jit_map_generation(const struct jit_map *map);

/* Returns the name of the code at an address, and its start; NULL if unknown. */
const char *jit_map_find(const struct jit_map *map, uint64_t address, uint64_t *start_ret);

/* ---- Mapped file ----------------------------------------------------------------------------- */

/* Opens the files that a process has mapped, even if their paths changed. See mapped_files_of(). */
struct mapped_files {
	pid_t pid;
	const struct maps *maps;
	bool no_map_files; /* access to /proc/PID/map_files was denied */
	int exe;	   /* /proc/PID/exe once opened, or -1 */
	struct stat exe_st;
	/* The last device examined. A device that does not answer is asked only once. */
	uint32_t dev_major, dev_minor;
	bool known, distant, silent;
	struct memfds memfds;
};

static inline struct mapped_files mapped_files_of(pid_t pid, const struct maps *maps)
{
	return (struct mapped_files){.pid = pid, .maps = maps, .exe = -1};
}

void mapped_files_deinit(struct mapped_files *files);
/*
 * Opens the mapped file, or a copy if its file system might not answer; the caller closes it.
 * Returns -1 on failure; then *err_ret is 0 if nothing refers to the file.
 */
int mapped_open(struct mapped_files *files, const struct mapping *mapping, int *err_ret);

/* ---- Overcommit ------------------------------------------------------------------------------ */

/*
 * Returns true if a store into a hole of a memfd can fail although all are below their own limits:
 * the sysctl vm.overcommit_memory is 2.
 */
bool overcommit_is_strict(void);

/* Returns the bytes that may still be committed; UINT64_MAX unless overcommit_is_strict(). */
uint64_t overcommit_room(void);

/* For tests: `folder` replaces /proc. */
uint64_t overcommit_room_in(const char *folder);

/*
 * Allocates [start, end) of a file in memory, so that stores into it cannot fail. Existing pages
 * stay. Returns 0, or an error of fallocate(2): ENOSPC if memory is short.
 */
int overcommit_fill(int fd, uint64_t start, uint64_t end);

/* ---- Safe ------------------------------------------------------------------------------------ */

/*
 * Finds memory that stays mapped while a thread runs in the module, so that stubs there may read it
 * without a check: readable pages of its file, and the mapped part of the main thread's stack.
 */
void safe_memory(const struct module *module, const struct maps *maps, struct arch_safe *ret);

/* ---- Seccomp --------------------------------------------------------------------------------- */

/* The effect of a target's seccomp filters on the system calls that we need. */

/* The system calls that threads of a target make for us, by purpose. */
enum seccomp_kind {
	SECCOMP_MAP = 1,     /* one borrowed thread maps memory */
	SECCOMP_UNMAP = 2,   /* one borrowed thread unmaps memory */
	SECCOMP_ASK = 4,     /* stubs check a pointer, or get the thread's id */
	SECCOMP_WAIT = 8,    /* stubs wait at a gate */
	SECCOMP_TIME = 16,   /* stubs get the time; a thread asks if it may read the counter */
	SECCOMP_NAME = 32,   /* stubs get the name of their thread */
	SECCOMP_CPU = 64,    /* stubs get the number of their processor */
	SECCOMP_STACK = 128, /* stubs ask which pages of a stack are in memory */
	SECCOMP_ALL = 255,
	SECCOMP_KINDS = 8
};

/*
 * The system calls that probectl itself makes, by purpose. Only SECCOMP_OWN_TRACE is necessary; the
 * others are left out if they would kill us.
 */
enum seccomp_own {
	SECCOMP_OWN_TRACE = 256,
	SECCOMP_OWN_KCMP = 512,	     /* finds out which processes share memory */
	SECCOMP_OWN_URGENT = 1024,   /* raises our priority while threads are stopped */
	SECCOMP_OWN_MOVE = 2048,     /* runs on a certain processor, or lets others run */
	SECCOMP_OWN_REMOVE = 4096,   /* frees the memory of rings */
	SECCOMP_OWN_TAKE = 8192,     /* takes files that a target has created */
	SECCOMP_OWN_ALARM = 16384,   /* sets a timer that sends us SIGCONT while we hold threads */
	SECCOMP_OWN_DIRECT = 32768,  /* asks how a file may be written past the page cache */
	SECCOMP_OWN_CACHED = 65536,  /* identifies files without asking their file systems */
	SECCOMP_OWN_PAGES = 131072,  /* finds out which pages a target has */
	SECCOMP_OWN_MEMORY = 262144, /* reads and writes memory without opening /proc/PID/mem */
	SECCOMP_OWN_END = 524288
};

/* The number of the ioctl(2) on a pagemap that tells which pages a process has, since Linux 6.7. */
#define SECCOMP_PAGEMAP_SCAN UINT64_C(0xc0606610)

struct seccomp_thread {
	pid_t tid;
	long filters;	      /* number of filters; -1 if unknown (Linux before 5.9) */
	bool strict;	      /* it may call only read, write, exit and rt_sigreturn */
	unsigned int allowed; /* kinds of calls that the thread may make; 0 until judged */
};

/* The filters of a target. */
struct seccomp {
	pid_t pid;
	struct seccomp_thread *threads;
	size_t count; /* number of restricted threads; may be 0 */
	bool strict;  /* one of these threads is in strict mode */
	bool judged;
	unsigned int allowed;	      /* kinds that every thread may call */
	unsigned int wanted;	      /* kinds for which a thread is borrowed */
	char why[SECCOMP_KINDS][224]; /* for each kind: why some thread may not make the calls */
};

/*
 * Finds the threads that have filters; does not judge the filters. `alone`: there is only one
 * thread. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *seccomp_look(pid_t pid, bool alone, struct seccomp *ret);
void seccomp_deinit(struct seccomp *seccomp);

/* Forbids stubs these kinds of calls. The first reason for a kind stays. */
void seccomp_deny(struct seccomp *seccomp, unsigned int kinds, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Returns true if we may read the filters of a thread that we have stopped. */
bool seccomp_can_read(void);

/*
 * Finds out which calls each thread may make: reads its filters if seccomp_can_read(), for which
 * all threads must be stopped; else, if ours are the same, tries the calls in a child. A call that
 * cannot be judged is forbidden. Errors: PROBE_ERROR_SYSTEM (no child).
 */
PROBE_MUST_CHECK struct probe_error *seccomp_judge(struct seccomp *seccomp);

/*
 * Returns true if this thread may be borrowed for the calls in seccomp->wanted. If `seccomp` is
 * NULL, any thread may.
 */
bool seccomp_may_run(const struct seccomp *seccomp, pid_t tid);

const char *seccomp_why(const struct seccomp *seccomp, enum seccomp_kind kind);

struct probe_error *seccomp_error(const struct seccomp *seccomp, enum seccomp_kind kind)
	__attribute__((returns_nonnull, warn_unused_result));

/* Returns true if a thread has new filters, and then reads `seccomp` again, without judging it. */
bool seccomp_has_grown(struct seccomp *seccomp);

/* ---- Our own filters --------------------------------------------------------------------- */

/*
 * Judges our own filters, if there are new ones. Errors: PROBE_ERROR_PERMISSION (they prevent all
 * tracing; the message names the call), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *seccomp_check_own(void);

/* Do our filters allow these calls, according to seccomp_check_own()? True before that. */
bool seccomp_may_call(enum seccomp_own kind);

/* The outcome of calls of one kind in a child of ours. */
struct seccomp_trial {
	bool allowed;
	const char *name; /* name of the first call that is not allowed */
	int err;	  /* errno of that call; 0 if it killed the child */
};

/*
 * Makes the calls of a kind, from either enum, in a child. Errors: PROBE_ERROR_SYSTEM (no child).
 */
PROBE_MUST_CHECK struct probe_error *seccomp_try(unsigned int kind, struct seccomp_trial *ret);

/* Does a process with `filters` filters per thread have the same filters as this thread? */
bool seccomp_is_same(pid_t pid, long filters);

/* ---- Running a filter -------------------------------------------------------------------- */

/* Runs a filter as the kernel does (classic BPF). SECCOMP_RET_KILL_PROCESS if it is malformed. */
uint32_t seccomp_run(
	const struct sock_filter *program, size_t length, const struct seccomp_data *data);

/* ---- Served ---------------------------------------------------------------------------------- */

/* Pages that a program provides when a thread touches them (userfaultfd(2)). */

enum { SERVED_ENTRIES = 64 };

/* A range of addresses that is registered with userfaultfd. */
struct served_range {
	uint64_t start, end;
	bool reads; /* reading a missing page waits; if false, only writing does */
};

/*
 * Facts about a process's pages. Use one struct for consecutive reads, because finding the
 * registered ranges takes long.
 */
struct served {
	pid_t pid;
	int pagemap;
	bool looks_ahead; /* read many entries at once, because they will be needed */
	uint64_t first;	  /* number of the page that entries[0] describes */
	size_t count;
	uint64_t entries[SERVED_ENTRIES];
	/* The maps and ranges are read when the first missing page is found. */
	bool has_maps, has_ranges, is_unknown;
	struct maps maps;
	struct served_range *ranges; /* sorted by address; owned */
	size_t range_count;
};

/* Never fails: without a pagemap, all pages count as present. */
struct served served_of(pid_t pid);
void served_end(struct served *served);

/* Returns true if this page can be written without waiting for a program. */
bool served_writable(struct served *served, uint64_t address);

/* ---- Shared ---------------------------------------------------------------------------------- */

/* Files in memory that a target has created for us, as the controller sees them. */

/*
 * Flags of memfd_create(2) for shared_open(), and the flag to add after EACCES, which some kernels
 * return with the sysctl vm.memfd_noexec.
 */
enum {
	SHARED_MEMFD_FLAGS = 3,	     /* MFD_CLOEXEC | MFD_ALLOW_SEALING */
	SHARED_MEMFD_NOEXEC_SEAL = 8 /* MFD_NOEXEC_SEAL */
};

/*
 * Opens the empty memfd that a thread of the target has as descriptor `fd`, and no other file.
 * Faster with a `pidfd`, which may be -1. Errors: PROBE_ERROR_STATE (the target has replaced the
 * file), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *shared_open(
	pid_t pid, pid_t tid, int pidfd, int64_t fd, int *fd_ret);

/* Returns the path of a thread's descriptor. */
struct procfs_path descriptor_path(pid_t pid, pid_t tid, int64_t fd);

/*
 * Sets and seals the size of a file from shared_open(). Errors: as shared_open(); PROBE_ERROR_STATE
 * also if the target has changed the file.
 */
PROBE_MUST_CHECK struct probe_error *shared_set_size(pid_t pid, int fd, size_t size);

/*
 * Returns true if the thread's descriptor `fd` still refers to our file `ours` or, if that is -1,
 * to any file with our name. `is_taken`: `ours` is from a pidfd, and we may call kcmp(2), which is
 * faster.
 */
bool shared_is_same(pid_t pid, pid_t tid, int64_t fd, int ours, bool is_taken);

struct probe_error *shared_replaced(pid_t pid) __attribute__((returns_nonnull, warn_unused_result));

#define SHARED_NAME "probectl" /* name of our memfds in /proc/PID/maps */

#define SHARED_SUFFIX ".probectl" /* end of the names of files that outlive their process */

/*
 * Returns true if a mapping is our code memory. Our data has the same name, but is not executable.
 */
bool shared_is_code(const struct mapping *mapping);

/* Return true if a path, or a mapping, belongs to a session's memory that outlives its process. */
bool shared_is_lasting_name(const char *path);
bool shared_is_lasting(const struct mapping *mapping);

/* Returns true if a mapping may be a session's data. Its first bytes tell. */
bool shared_is_data(const struct mapping *mapping);
/* Returns true if a mapping has one of our names. The program may have changed its protection. */
bool shared_is_named(const struct mapping *mapping);
/* Returns true if a process has our code or data mapped. */
bool shared_any(const struct maps *maps);
