/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PROCESS_PROCESS_H
#define LIBPROBE_PROCESS_PROCESS_H

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

/* ---- Auxv ------------------------------------------------------------------------------------ */

/* The auxiliary vector, which execve(2) gives to a program and fork(2) copies. */

enum { AUXV_MAX = 64 };

struct auxv {
	ssize_t bytes;
	uint64_t items[AUXV_MAX][2]; /* a type (AT_...) and its value */
};

/*
 * Reads the auxiliary vector of a process without waiting for its memory. Returns the number of
 * bytes read, ret->bytes. Returns 0 if the process has no vector; -1, with errno set, if its file
 * may not be opened.
 */
ssize_t auxv_read(pid_t pid, struct auxv *ret);
/*
 * Reads AT_RANDOM of a process, even if the main thread of the process has ended. *ret becomes 0 in
 * the middle of execve(2). Returns false if the value is unknown.
 */
bool auxv_read_image(pid_t pid, uint64_t *ret);
/*
 * Returns the value of this type, or 0 if the vector has no such value. AT_RANDOM is an address at
 * a random place in the stack, so two programs rarely have the same AT_RANDOM.
 */
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
 * Reads the mappings of a process, given the id of any of its threads. Does not stop the process:
 * if it maps or unmaps memory meanwhile, the result may mix both states.
 *
 * Errors: PROBE_ERROR_NOT_FOUND (no such process), PROBE_ERROR_STATE (no memory: a zombie or a
 * kernel thread), PROBE_ERROR_PERMISSION (the message names the cause), PROBE_ERROR_FORMAT,
 * PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *maps_read(pid_t pid, struct maps *ret);

/* A part of a process's address space. */
struct maps_part {
	uint64_t start, size;
};

/*
 * Reads only the mappings that overlap these parts. The ioctl PROCMAP_QUERY (Linux 6.11) finds them
 * one by one, which is fast enough for a stop. On older kernels all mappings are read. Errors:
 * those of maps_read().
 */
PROBE_MUST_CHECK struct probe_error *maps_read_parts(
	pid_t pid, const struct maps_part *parts, size_t count, struct maps *ret);

/*
 * Does the mapping that begins at `start` have this flag (for example "wf") in its VmFlags line of
 * /proc/PID/smaps (proc_pid_smaps(5))? *ret is also false if the file may not be read. The kernel
 * walks the pages of all mappings before this one, so this is for rare cases. Errors:
 * PROBE_ERROR_SYSTEM (no descriptor, or no memory).
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

/*
 * Returns the first mapping that ends above an address, or NULL. The mapping contains the address
 * or follows it.
 */
const struct mapping *maps_find_from(const struct maps *maps, uint64_t address);

/* ---- Memfds ---------------------------------------------------------------------------------- */

/* Files from memfd_create(2) that a process has open. No path leads to them. */

/* The memfds that a process has open. Initialise it with {0}. */
struct memfds {
	struct memfd *items;
	size_t count;
	bool is_read;
};

/*
 * Opens the file of a mapping for reading, through one of the process's descriptors. Returns -1 if
 * no descriptor refers to the file, or if it cannot be opened; procfs_no_room() tells from *err_ret
 * whether we have too few descriptors. The first call reads all descriptors.
 */
int memfds_open(struct memfds *memfds, pid_t pid, const struct mapping *mapping, int *err_ret);
void memfds_deinit(struct memfds *memfds);

/* ---- Backing --------------------------------------------------------------------------------- */

/* Files of shared mappings, which tell which pages of a mapping have contents. */

/* Facts about a process's files. Initialise it with the pid; call backing_deinit(). */
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

/* Opens the file of a shared mapping for reading. Returns -1 if this is impossible. */
int backing_open(struct backing *backing, const struct mapping *mapping);

/*
 * Finds the next range with data in [offset, end) of a file. Returns false if there is no such
 * range. All bytes outside such ranges read as zeros, and reading them allocates nothing.
 */
bool backing_next(int fd, uint64_t offset, uint64_t end, uint64_t *start_ret, uint64_t *end_ret);

/* The amount of data in [offset, end), in bytes. */
uint64_t backing_data(int fd, uint64_t offset, uint64_t end);
void backing_deinit(struct backing *backing);

/* ---- Beneath --------------------------------------------------------------------------------- */

/*
 * Opens a regular file for reading by a path from a target's maps, below `root` (a directory, "/"
 * or /proc/PID/root). Follows no symbolic links: the kernel reports paths without links, so a link
 * in the path was made later; and a link in the target's root would be resolved in our root. Does
 * not open a file that is not regular, or that `wanted` rejects, because opening a device or pipe
 * has effects.
 *
 * Returns the descriptor; or -1, with *err_ret set to errno, or to 0 if another file is at the
 * path.
 */
int beneath_open(const char *root, const char *path,
	bool (*wanted)(const struct stat *st, const void *data), const void *data, int *err_ret);

/* ---- Cgroup ---------------------------------------------------------------------------------- */

/* How much memory the control groups of a process leave to it, and whether they let it run. */

/* The control group with the least memory left. */
struct cgroup_memory {
	uint64_t limit; /* the group's memory limit in bytes; UINT64_MAX if there is no limit */
	uint64_t room;	/* bytes left below the limit; file caches do not count as used */
};

/* Examines the group of a process and all visible ancestors of the group. */
void cgroup_memory(pid_t pid, struct cgroup_memory *ret);

/*
 * Returns the path of the file that counts how often the kernel has killed a process of this
 * process's group because memory ran out. cgroup_kills() can read the file after the process has
 * ended. The caller frees the path. NULL if there is no such file.
 */
char *cgroup_events(pid_t pid);
/* Returns the count in the file `events`; 0 if `events` is NULL or cannot be read. */
uint64_t cgroup_kills(const char *events);

enum { CGROUP_PATH_BYTES = PATH_MAX };
/*
 * Is a process in a control group that is frozen, or is being frozen? If so, *ret becomes the path
 * of the group to thaw, among the groups that we can see.
 */
bool cgroup_frozen(pid_t pid, char ret[CGROUP_PATH_BYTES]);

/*
 * For tests: use given contents of /proc/PID/cgroup (`groups`) and /proc/self/mountinfo (`mounts`),
 * and put `folder` before each path in `mounts`.
 */
void cgroup_memory_in(
	const char *folder, const char *groups, const char *mounts, struct cgroup_memory *ret);
bool cgroup_frozen_in(
	const char *folder, const char *groups, const char *mounts, char ret[CGROUP_PATH_BYTES]);

/* ---- Distant --------------------------------------------------------------------------------- */

/* Files on file systems that may not answer: see distant.c. */

/*
 * Returns true if a program or another machine serves the files of a device that is mounted in a
 * process's namespace, or if this is unknown. Accesses no file system.
 */
bool distant_is(pid_t pid, uint32_t dev_major, uint32_t dev_minor);

/*
 * Runs `open` (returns -1 and sets *err_ret on failure) in a helper process. Returns a copy of the
 * opened file in memory, which the caller closes. On failure returns -1; *err_ret is the errno, 0
 * if `open` sets it to 0, or ETIMEDOUT if the helper does not answer in time.
 */
int distant_copy(int (*open)(void *data, int *err_ret), void *data, int *err_ret);

/* The identity of a file, from the kernel's caches: the file system is not asked. */
struct file_id {
	dev_t device;
	ino_t inode;
};

bool file_id_same(const struct file_id *a, const struct file_id *b);

/*
 * Opens a path relative to a folder, with O_PATH and RESOLVE_* flags of openat2(2). Returns -1 if
 * the kernel has not cached the path, is older than Linux 5.12, or a seccomp filter forbids us the
 * call.
 */
int cached_open(int folder, const char *name, uint64_t resolve);
/* Identifies an open file. Returns false on failure. */
bool cached_identify(int fd, struct file_id *ret);
/* Does a program or another machine serve the file, as far as our mounts tell? */
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
	uint8_t bytes[EDIT_BYTES];
	uint32_t span; /* index of the place's span, set by edits_prepare() */
};

/* Places that are read in one piece. */
struct edit_span {
	uint64_t address;
	size_t length, offset; /* bytes of the span, and its offset in the buffers */
	bool readable;
};

/* Places to read and to write. Initialise it with {0}. */
struct edits {
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

/*
 * Prepares the edits, after the last edits_add(). Places that are written must not overlap. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *edits_prepare(struct edits *edits);
void edits_deinit(struct edits *edits);

/*
 * Reads all places. Single places may be unreadable. Errors: PROBE_ERROR_NOT_FOUND,
 * PROBE_ERROR_PERMISSION; PROBE_ERROR_STATE (userfaultfd(2) protects a page that would be written).
 */
PROBE_MUST_CHECK struct probe_error *edits_read(struct edits *edits, pid_t pid);

/* Returns the bytes that edits_read() found at place `i`; NULL if the place is not mapped. */
const uint8_t *edits_found(const struct edits *edits, size_t i);

/*
 * edits_note() remembers the contents from edits_read(). edits_are_as_noted() tells whether the
 * latest edits_read() has found the same contents. If so, the caller need not examine them again.
 * Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *edits_note(struct edits *edits);
bool edits_are_as_noted(const struct edits *edits);

/*
 * Makes the kernel copy the pages that edits_write() will write, by writing the bytes that are
 * there now. Copying a page takes longer than writing to it.
 */
PROBE_MUST_CHECK struct probe_error *edits_pretouch(const struct edits *edits, int mem);

/*
 * Writes through `mem` (memory_open()), one page at a time, so a place within one page is written
 * completely or not at all. After an error, all places are as before.
 */
PROBE_MUST_CHECK struct probe_error *edits_write(struct edits *edits, int mem);

/* Writes back the contents from edits_read(). */
void edits_revert(const struct edits *edits, int mem);

/* ---- Memory ---------------------------------------------------------------------------------- */

/*
 * Reads and writes a target's memory. Addresses are the target's.
 *
 * Reading never waits for a program that serves page faults: pages that the program has not
 * provided yet count as unreadable (memory.c).
 */

struct served;

/*
 * Tells whether our seccomp filters allow process_vm_readv(2) and process_vm_writev(2). If not,
 * memory is read and written through /proc/PID/mem. If we have filters, this is also done until
 * this function is called.
 */
void memory_may_call(bool may);

/* Reads memory (process_vm_readv(2)). Returns the number of bytes read. */
size_t memory_read(pid_t pid, uint64_t address, void *buffer, size_t size);
/* Like memory_read(), for one of many reads of a process: see served_begin(). */
size_t memory_read_known(struct served *known, uint64_t address, void *buffer, size_t size);
/*
 * Like memory_read(), but reads through `mem` (memory_open()) if the process itself may not read
 * the memory.
 */
size_t memory_read_forced(pid_t pid, int mem, uint64_t address, void *buffer, size_t size);
/* Like memory_read(), but fails unless all bytes can be read. */
PROBE_MUST_CHECK struct probe_error *memory_read_all(
	pid_t pid, uint64_t address, void *buffer, size_t size);

/* One of many places to read at once, with as few system calls as possible. */
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
 * Reads memory through /proc/PID/mem. This is the memory of the program for which `fd` was opened,
 * even if the process runs another program now (PROBE_ERROR_NOT_FOUND if the memory is gone).
 */
PROBE_MUST_CHECK struct probe_error *memory_read_code(
	int fd, uint64_t address, void *buffer, size_t size);

/*
 * Writes any memory, including code, through /proc/PID/mem. A private page becomes the target's own
 * copy; the file never changes. `fd` is from memory_open(). A write within one page happens
 * completely or not at all.
 */
PROBE_MUST_CHECK struct probe_error *memory_write_code(
	int fd, uint64_t address, const void *buffer, size_t size);
PROBE_MUST_CHECK struct probe_error *memory_open(pid_t pid, int *fd_ret);

/*
 * Does the memory that a descriptor refers to still belong to a process? It does not after
 * execve(2), or when the process has ended.
 */
bool memory_is_there(int fd);

/* Bits of a page's entry in /proc/PID/pagemap: present, or swapped. */
#define PAGE_THERE (UINT64_C(3) << 62)

/* Opens /proc/PID/pagemap. Returns -1 and sets errno on failure. */
int memory_open_pagemap(pid_t pid);

/*
 * Finds a run of bytes that begins at `address`, and whose pages are either all in memory
 * (*there_ret is true) or all not in memory. Returns the length of the run, from 1 to `size`.
 * Reading a page that is not in memory would allocate a page of zeros. `pagemap` is a descriptor
 * from memory_open_pagemap(). Pages without an entry count as in memory.
 */
size_t memory_run(int pagemap, uint64_t address, size_t size, bool *there_ret);

/* ---- Gadgets --------------------------------------------------------------------------------- */

/* Machine code of the target itself that remote system calls use. */

struct maps;
struct modules;

/*
 * Finds the gadgets in the target's modules or its vDSO. PROBE_ERROR_UNSUPPORTED: one is missing.
 */
PROBE_MUST_CHECK struct probe_error *gadgets_find(pid_t pid, const struct maps *maps,
	const struct modules *modules, struct arch_gadgets *ret);

/*
 * Are the gadgets still in memory? execve(2) may have removed them. If the size of `more` is not 0,
 * `more` is read in the same system call, to save time while threads are stopped. If it cannot be
 * read, its buffer is filled with zeros.
 */
bool gadgets_are_there(
	pid_t pid, const struct arch_gadgets *gadgets, const struct memory_piece *more);

/* ---- Files ----------------------------------------------------------------------------------- */

/*
 * Keeps files that many processes have mapped. So each file is opened, read and planned only once.
 * For example, a build starts thousands of programs that all map the same C library.
 */

/* A cache of files, shared by the processes of one watch; used by one thread. */
struct files;

/*
 * The role of a file in programs that neither start nor load anything (libprobe/follow/follow.h).
 */
enum file_role { FILE_UNKNOWN, FILE_OF_LEAF, FILE_OTHER };
enum file_leaf { LEAF_UNKNOWN, LEAF_YES, LEAF_NO };

struct file_plan;

/* One file, as it was when it was opened. */
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
	struct file_plan *plans; /* made by libprobe/patch/patch.h; freed with free() */
	size_t plan_count;
	bool passed_over;    /* nothing in the file is wanted: probe_watch_pass_over() */
	bool glibc_loads;    /* the file is a program, loaded by glibc's loader */
	enum file_role role; /* role of the file as code that a program maps */
	enum file_leaf leaf; /* role of the file as a program */
};

PROBE_MUST_CHECK struct probe_error *files_create(struct files **ret);
/* Takes a reference (NULL is allowed). Release each reference with files_release(). */
struct files *files_hold(struct files *files);
void files_release(struct files *files);

/*
 * Returns the file of a descriptor; the caller still closes the descriptor. `path` is for messages.
 * Release the result with file_release(). Errors: those of object_open_fd(), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *files_open(
	struct files *files, int fd, const char *path, struct file **ret);
void file_release(struct file *file);

/*
 * Returns the file with this status and path, or NULL if it is unknown. The caller calls
 * file_release().
 */
struct file *files_find(struct files *files, const struct stat *st, const char *path);

/* Returns the file with this status, borrowed; NULL if it is unknown. */
struct file *files_known(const struct files *files, const struct stat *st);

/*
 * Returns the unchanged file with this device and inode from /proc/PID/maps, borrowed. NULL if the
 * file is unknown, or if its file system shows other numbers in maps.
 */
struct file *files_mapped(const struct files *files, dev_t dev, ino_t inode);

/* Reads the notes of a file, once. Errors: those of sdt_read(). */
PROBE_MUST_CHECK struct probe_error *file_read_notes(struct file *file);

/* ---- Modules --------------------------------------------------------------------------------- */

/* The modules of a process: the ELF files that it has mapped executable. */

/*
 * One file at one bias: a library that dlmopen(3) loaded twice is two modules. Addresses are the
 * target's.
 */
struct module {
	char *path; /* as in /proc/PID/maps, without " (deleted)"; owned */
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	bool deleted;
	uint64_t start, end;   /* lowest and highest mapped address of the file (at this bias) */
	uint64_t bias;	       /* run-time minus link-time address; modulo 2^64 */
	int fd;		       /* descriptor of the mapped file; -1 if it cannot be opened */
	struct object *object; /* the ELF file; NULL if it cannot be read: see reason */
	char *reason;	       /* why object is NULL, else NULL; owned */
	int successor;	/* if `fd` is -1: descriptor of the file that is now at the path, or -1 */
	size_t unnamed; /* number of enabled probes without a name: see recall_probes() */
	struct file *file;	/* if not NULL, it owns object and notes */
	struct sdt_notes notes; /* valid if notes_read: see module_read_notes() */
	bool notes_read;
};

/* The modules of a process, sorted by start. Initialise it with {0}. */
struct modules {
	struct module *items;
	size_t count;
};

/*
 * Finds the modules of a process and opens their files. Uses /proc/PID/map_files if allowed;
 * otherwise the process's own root directory, and checks device and inode. If a file was replaced
 * by a copy of itself, reads the copy. Reads no notes. Leaves out files that are not ELF files.
 * Keeps ELF files that cannot be opened (deleted or replaced), with a reason. Does not stop the
 * process. Uses files that are in `files` already, and adds the rest. If `files` is NULL, opens
 * each file for these modules only.
 *
 * Errors: those of maps_read().
 */
PROBE_MUST_CHECK struct probe_error *modules_read(
	pid_t pid, struct files *files, struct modules *ret);
/* Like modules_read(), but uses mappings already read. `pid` is from procfs_living(). */
PROBE_MUST_CHECK struct probe_error *modules_read_mapped(
	pid_t pid, const struct maps *maps, struct files *files, struct modules *ret);
void modules_deinit(struct modules *modules);

/*
 * Reads the notes of a module into module->notes, once. A module without an object has no notes. If
 * the notes cannot be read, the module loses its object and gets a reason. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *module_read_notes(struct module *module);

/*
 * Forgets all that was read from a module's file. The module then has this reason instead of an
 * object. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *module_distrust(struct module *module, const char *reason);

/*
 * Adds the file mapped at an address, if it is mapped with code, as a module without an object.
 * Pointers to modules become invalid. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *modules_add_unread(
	struct modules *modules, const struct maps *maps, uint64_t address, const char *reason);

/*
 * Does the mapping belong to the module's file, at the module's bias? Without an object, any bias
 * will do.
 */
bool module_has_mapping(const struct module *module, const struct mapping *mapping);

/* Is the module the C library, a part of it, or its loader? Looks at the file's name. */
bool module_is_libc(const struct module *module);

/* Returns the module that contains an address of the target, or NULL. */
struct module *modules_find(const struct modules *modules, uint64_t address);

/* ---- Emulator -------------------------------------------------------------------------------- */

/*
 * Returns the name of the emulator that executes the process's program ("valgrind",
 * "qemu-aarch64"). Under an emulator, the processor never runs the program's code in memory, but a
 * translation of it. The name may be in `buffer`. Returns NULL if there is no emulator.
 */
const char *emulator_of(pid_t pid, const struct modules *modules, char buffer[64]);

/* ---- Jit map --------------------------------------------------------------------------------- */

/* Names of code that a process generates, from its file /tmp/perf-PID.map. */

struct jit_map;

/* Creates a map without reading the file. Returns NULL if memory is short. */
struct jit_map *jit_map_create(pid_t pid);
void jit_map_free(struct jit_map *map); /* `map` may be NULL */

/* Reads what was added to the file; at most four times a second unless `now`. */
void jit_map_refresh(struct jit_map *map, bool now);

/* Counts the refreshes that read something: if the count has changed, names may have changed. */
unsigned int jit_map_generation(const struct jit_map *map);

/*
 * Returns the name of the code at an address, and where this code starts; NULL if unknown. The name
 * is valid until the next refresh.
 */
const char *jit_map_find(const struct jit_map *map, uint64_t address, uint64_t *start_ret);

/* ---- Mapped file ----------------------------------------------------------------------------- */

/* Opens the files that a process has mapped, even if their paths have changed. */

/* State while the files of one process are opened. Begin with mapped_files_of(). */
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
 * Opens the mapped file, or a copy if its file system might not answer. The caller closes it. On
 * failure returns -1; *err_ret is 0 if no descriptor or path refers to the file.
 */
int mapped_open(struct mapped_files *files, const struct mapping *mapping, int *err_ret);

/* ---- Overcommit ------------------------------------------------------------------------------ */

/* How much memory the kernel will still commit, if it never commits more than it has. */

/*
 * Returns true if a store into a hole of a file in memory can fail even while every process is
 * below its own limits. This is so if the sysctl vm.overcommit_memory is 2.
 */
bool overcommit_is_strict(void);

/* The bytes that processes may still commit; UINT64_MAX unless overcommit_is_strict(). */
uint64_t overcommit_room(void);

/* For tests: like overcommit_room(), with `folder` in place of /proc. */
uint64_t overcommit_room_in(const char *folder);

/*
 * Allocates [start, end) of a file in memory, so that no store into it can fail. The contents of
 * its pages stay. Returns 0, or an error of fallocate(2): ENOSPC if too little memory is left.
 */
int overcommit_fill(int fd, uint64_t start, uint64_t end);

/* ---- Safe ------------------------------------------------------------------------------------ */

/* Memory of a process that stays mapped while a thread runs in a module. */

/*
 * Finds memory that a stub in the module may read without a check: pages of the module's file that
 * can be read now, and the part of the main thread's stack that is mapped now. `maps` are the
 * mappings in which the module was found.
 */
void safe_memory(const struct module *module, const struct maps *maps, struct arch_safe *ret);

/* ---- Seccomp --------------------------------------------------------------------------------- */

/* The effect of a target's seccomp filters on the system calls that we need. */

/* Purposes of the calls that a target's threads make for us. Each is one bit. */
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
 * Purposes of the calls that probectl makes itself. Each is one bit, different from those above.
 * Without SECCOMP_OWN_TRACE nothing works. The other calls are optional, and are not made if they
 * would kill us.
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

/* Placeholders for arguments that are known only when the call is made. */
#define SECCOMP_ADDRESS UINT64_C(0x10000) /* an address of mapped memory */
#define SECCOMP_FILE UINT64_C(1000)	  /* the descriptor that memfd_create(2) returned */

/* A call with one of these purposes, and the arguments that filters examine. */
struct seccomp_call {
	const char *name;
	unsigned int kinds;
	int number;
	uint64_t args[6];
	long wanted; /* the error that is expected (-errno); 0 if the call should succeed */
};

extern const struct seccomp_call seccomp_calls[];
extern const size_t seccomp_call_count;

/* A thread with filters, or in strict mode. */
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
 * Finds the threads of a process that have filters. Stops nothing, and does not examine what the
 * filters allow. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *seccomp_look(pid_t pid, struct seccomp *ret);
/* Like seccomp_look(), for a process that has only one thread. */
PROBE_MUST_CHECK struct probe_error *seccomp_look_at_main(pid_t pid, struct seccomp *ret);
void seccomp_deinit(struct seccomp *seccomp);

/*
 * Notes that stubs must not make calls of these kinds, and why. The first reason for a kind stays.
 */
void seccomp_deny(struct seccomp *seccomp, unsigned int kinds, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* May this process read the filters of a thread that it has stopped? */
bool seccomp_can_read(void);

/*
 * Finds out which calls each thread may make. Reads the thread's filters, if we may. Otherwise, if
 * we have the same filters, tries the calls in a child of ours. A call that cannot be judged is not
 * allowed. If seccomp_can_read(), the calling thread must have stopped all threads. Errors:
 * PROBE_ERROR_SYSTEM (no child).
 */
PROBE_MUST_CHECK struct probe_error *seccomp_judge(struct seccomp *seccomp);

/*
 * Returns true if this thread may be borrowed for the calls in seccomp->wanted. `seccomp` must have
 * been judged. If it is NULL, any thread may be borrowed.
 */
bool seccomp_may_run(const struct seccomp *seccomp, pid_t tid);

/* Returns why some thread may not make calls of a kind. */
const char *seccomp_why(const struct seccomp *seccomp, enum seccomp_kind kind);

/* Returns the error for a kind of call that is not allowed. */
struct probe_error *seccomp_error(const struct seccomp *seccomp, enum seccomp_kind kind)
	__attribute__((returns_nonnull, warn_unused_result));

/*
 * Returns true if a thread has new filters since `seccomp` was last read. Then reads `seccomp`
 * again, but does not judge the filters.
 */
bool seccomp_has_grown(struct seccomp *seccomp);

/* ---- Our own filters --------------------------------------------------------------------- */

/*
 * If this thread has new filters since the last call, finds out what they allow. Errors:
 * PROBE_ERROR_PERMISSION (the filters prevent all tracing; the message names the system call),
 * PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *seccomp_check_own(void);

/* May we make calls of this kind, according to seccomp_check_own()? Before that call, yes. */
bool seccomp_may_call(enum seccomp_own kind);

/* The outcome of calls of one kind in a child of ours. */
struct seccomp_trial {
	bool allowed;
	const char *name; /* name of the first call that is not allowed */
	int err;	  /* errno of that call; 0 if it killed the child */
};

/*
 * Makes the calls of a kind, from either enum, in a child of this process. Errors:
 * PROBE_ERROR_SYSTEM (no child).
 */
PROBE_MUST_CHECK struct probe_error *seccomp_try(unsigned int kind, struct seccomp_trial *ret);

/*
 * Returns true if a process, each of whose threads has `filters` filters, has the same filters as
 * this thread.
 */
bool seccomp_is_same(pid_t pid, long filters);

/* ---- Running a filter -------------------------------------------------------------------- */

/*
 * Runs one filter as the kernel does (classic BPF on struct seccomp_data). Returns its verdict;
 * SECCOMP_RET_KILL_PROCESS if the program is malformed.
 */
uint32_t seccomp_run(
	const struct sock_filter *program, size_t length, const struct seccomp_data *data);

/* ---- Served ---------------------------------------------------------------------------------- */

/* Pages that a program provides when a thread touches them (userfaultfd(2)). */

enum { SERVED_ENTRIES = 64 };

/* A range of addresses that is registered with userfaultfd. */
struct served_range {
	uint64_t start, end;
	bool reads; /* reading a missing page waits; otherwise only writing does */
};

/*
 * Our knowledge of a process's pages. Use the same one for consecutive reads: it takes long to find
 * out which ranges are registered, because the flags of all mappings are read.
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

/* Begins reads. Never fails: if the kernel shows no pagemap, all pages count as present. */
void served_begin(pid_t pid, struct served *ret);
void served_end(struct served *served);

/* Calls served_end() when the variable goes out of scope. */
#define AUTO_SERVED __attribute__((cleanup(served_end)))

/* Can the page of an address be written without waiting for a program? */
bool served_writable(struct served *served, uint64_t address);

/* ---- Shared ---------------------------------------------------------------------------------- */

/* Files in memory that a target has created for us, as the controller sees them. */

/*
 * The flags of memfd_create(2) for a file that shared_open() accepts, and the flag to add if the
 * kernel refuses the call with EACCES, as some kernels do with the sysctl vm.memfd_noexec.
 */
enum {
	SHARED_MEMFD_FLAGS = 3,	     /* MFD_CLOEXEC | MFD_ALLOW_SEALING */
	SHARED_MEMFD_NOEXEC_SEAL = 8 /* MFD_NOEXEC_SEAL */
};

/*
 * Opens the empty memfd that a thread of the target has as descriptor `fd`. Does not access any
 * other file. Faster with the target's `pidfd`, which may be -1.
 *
 * Errors: PROBE_ERROR_STATE (the target has replaced the file), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *shared_open(
	pid_t pid, pid_t tid, int pidfd, int64_t fd, int *fd_ret);

/*
 * Sets the size of a file that shared_open() has opened; then the size cannot change any more.
 * Errors: those of shared_open(); PROBE_ERROR_STATE also if the target has changed the file.
 */
PROBE_MUST_CHECK struct probe_error *shared_set_size(pid_t pid, int fd, size_t size);

/*
 * Returns true if descriptor `fd` of the thread still refers to the same file as our descriptor
 * `ours`. If `ours` is -1: if `fd` refers to a file with our name. `is_taken` means that `ours` is
 * from a pidfd (see shared_open()) and that we may call kcmp(2), which is faster.
 */
bool shared_is_same(pid_t pid, pid_t tid, int64_t fd, int ours, bool is_taken);

/* Returns the error for a target that has replaced the file. */
struct probe_error *shared_replaced(pid_t pid) __attribute__((returns_nonnull, warn_unused_result));

#define SHARED_NAME "probectl" /* name of our memfds in /proc/PID/maps */

#define SHARED_SUFFIX ".probectl" /* end of the names of files that outlive their process */

/* Is a mapping our code memory, for any use? Our data has the same name, but is not executable. */
bool shared_is_code(const struct mapping *mapping);

/*
 * Returns true if a file with this path holds a session's memory and outlives its process. The
 * second function returns true if the mapping may be one of such a file.
 */
bool shared_is_lasting_name(const char *path);
bool shared_is_lasting(const struct mapping *mapping);

/* May a mapping be a session's data? Only its first bytes tell whether it is. */
bool shared_is_data(const struct mapping *mapping);
/*
 * Does a mapping have one of our names, even if the program has changed its protection
 * (mprotect(2))?
 */
bool shared_is_named(const struct mapping *mapping);
/* Does a process have a mapping of our code or data? */
bool shared_any(const struct maps *maps);

#endif
