/* SPDX-License-Identifier: MIT */
/* The modules of a process: the ELF files that it has mapped executable. */
#ifndef LIBPROBE_PROCESS_MODULES_H
#define LIBPROBE_PROCESS_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf/object.h"
#include "elf/sdt.h"
#include "libprobe/base/error.h"
#include "libprobe/process/files.h"
#include "libprobe/process/maps.h"

/*
 * One file at one bias: a library that dlmopen(3) loaded twice is two modules.
 * Addresses are the target's.
 */
struct module {
	char *path; /* as in /proc/PID/maps, without " (deleted)"; owned */
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	bool deleted;
	uint64_t start, end;   /* lowest and highest mapped address of the file (at this bias) */
	uint64_t bias;	       /* run-time minus link-time address; modulo 2^64 */
	int fd;		       /* the very file that is mapped; -1 if it cannot be opened */
	struct object *object; /* NULL if it cannot be read: see reason */
	char *reason;	       /* why object is NULL, else NULL; owned */
	int successor;	       /* of a file that cannot be opened: what is at its path now, or -1 */
	size_t unnamed;	       /* recall_probes(): how many of its probes are on without a name */
	struct file *file;     /* if not NULL, it owns object and notes */
	struct sdt_notes notes; /* valid if notes_read: see module_read_notes() */
	bool notes_read;
};

/* Sorted by start. Initialise with {0}. */
struct modules {
	struct module *items;
	size_t count;
};

/*
 * Finds the modules of a process and opens their files: through /proc/PID/map_files if allowed,
 * else through the process's own root directory, verified by device and inode; a file that was
 * replaced by a copy of itself is read there. Reads no notes. Files that are not ELF files are left
 * out; ELF files that cannot be opened (deleted or replaced) are kept with a reason. Does not stop
 * the process. Files already in `files` are reused, and others are added there; NULL: each is
 * opened for these modules alone.
 *
 * Errors: those of maps_read().
 */
PROBE_MUST_CHECK struct probe_error *modules_read(
	pid_t pid, struct files *files, struct modules *ret);
/* The same, from mappings already read; `pid` is procfs_living(). */
PROBE_MUST_CHECK struct probe_error *modules_read_mapped(
	pid_t pid, const struct maps *maps, struct files *files, struct modules *ret);
void modules_deinit(struct modules *modules);

/*
 * Reads the notes of a module into module->notes, once. A module without an object has none. If the
 * notes cannot be read, the module loses its object and gets a reason. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *module_read_notes(struct module *module);

/*
 * Forgets everything that was read from a module's file: from then on the module has this reason
 * instead of an object. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *module_distrust(struct module *module, const char *reason);

/*
 * Adds the file that is mapped at an address, if it is mapped with code, as a module without an
 * object. Pointers to modules become invalid. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *modules_add_unread(
	struct modules *modules, const struct maps *maps, uint64_t address, const char *reason);

/* Is it a mapping of the module's file at the module's bias? Of one without an object: at any. */
bool module_has_mapping(const struct module *module, const struct mapping *mapping);

/* Whether it is the C library, a part of it, or its loader. Goes by the file's name. */
bool module_is_libc(const struct module *module);

/* The module that contains an address of the target, or NULL. */
struct module *modules_find(const struct modules *modules, uint64_t address);

#endif
