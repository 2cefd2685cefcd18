/* SPDX-License-Identifier: MIT */
/*
 * Which ELF files a process has mapped, where, and how to open them.
 *
 * The path in /proc/PID/maps is only a hint: the process may use another mount namespace or
 * root, and the file may have been deleted or replaced (an upgraded library). So the file is
 * opened, in this order, through
 *
 *   /proc/PID/map_files/START-END  the very file; needs CAP_CHECKPOINT_RESTORE
 *                                  (proc_pid_map_files(5)) in the first namespace
 *   /proc/PID/exe                  the main program, deleted or not
 *   /proc/PID/root/PATH            the process's own view of the path
 *   PATH                           if the process was only chroot(2)ed: the
 *                                  kernel prints paths as the reader sees them
 *   /proc/PID/fd/N                 memory files (memfd_create(2)), which have no
 *                                  path: probes made at run time (user events,
 *                                  libstapsdt) keep theirs open for that
 *
 * The last three count only if device and inode are the mapping's, and no symbolic link is
 * followed (libprobe/process/beneath.h). btrfs and overlayfs print another device in maps than
 * stat(2) returns; there the inode and the first bytes in memory must agree.
 *
 * One mapping determines the bias: the PT_LOAD segment that contains the mapping's file offset
 * gives its link-time address.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/process/beneath.h"
#include "libprobe/process/distant.h"
#include "libprobe/process/maps.h"
#include "libprobe/process/memfds.h"
#include "libprobe/process/modules.h"
#include "libprobe/process/procfs.h"
#include "libprobe/process/shared.h"

/*
 * Enough for the ELF header, the program headers and, in the usual file layout, the build id;
 * too little to reach code, which may have been patched.
 */
enum { COMPARED_BYTES = 1024 };

/* O_NONBLOCK: the path may be a FIFO by now. */
enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK };

/* State shared by all mappings of one look-up. */
struct lookup {
	pid_t pid;
	const struct maps *maps;
	uint64_t page_mask;
	bool no_map_files;   /* access to map_files was denied */
	struct files *files; /* may be NULL */
	int exe;	     /* /proc/PID/exe once opened, or -1 */
	struct stat exe_st;
	/* The last device examined; one that does not answer is asked only once. */
	uint32_t dev_major, dev_minor;
	bool known, distant, silent;
	struct memfds memfds;
	struct modules modules; /* also rejected ones, which have neither object nor reason */
};

/* ---- Opening -------------------------------------------------------------- */

static bool same_inode(const struct stat *st, const struct mapping *mapping)
{
	return st->st_ino == mapping->inode;
}

static bool same_device(const struct stat *st, const struct mapping *mapping)
{
	return major(st->st_dev) == mapping->dev_major && minor(st->st_dev) == mapping->dev_minor;
}

/* The mapping of the file's first byte, or NULL. */
static const struct mapping *mapping_of_header(
	const struct lookup *lookup, const struct mapping *mapping)
{
	for (size_t i = 0; i < lookup->maps->count; i++) {
		const struct mapping *other = &lookup->maps->items[i];

		if (other->inode == mapping->inode && other->offset == 0 &&
			other->dev_major == mapping->dev_major &&
			other->dev_minor == mapping->dev_minor)
			return other;
	}
	return NULL;
}

/*
 * Whether the file's first bytes equal those in memory. If they cannot be compared (reading
 * memory takes more rights than reading maps), the inode must do: patching compares the bytes
 * of every site again.
 */
static bool same_header(const struct lookup *lookup, const struct mapping *mapping, int fd)
{
	const struct mapping *header = mapping_of_header(lookup, mapping);
	unsigned char in_file[COMPARED_BYTES], in_memory[COMPARED_BYTES];
	struct iovec local = {in_memory, sizeof(in_memory)}, remote;
	ssize_t got, have;

	if (!header)
		return true;
	remote.iov_base = (void *)(uintptr_t)header->start;
	remote.iov_len = sizeof(in_memory);
	got = process_vm_readv(lookup->pid, &local, 1, &remote, 1, 0);
	if (got < 0)
		return true;
	have = pread(fd, in_file, sizeof(in_file), 0);
	return have >= 0 && have <= got && memcmp(in_file, in_memory, (size_t)have) == 0;
}

static bool is_memfd(const struct mapping *mapping)
{
	return strncmp(mapping->path, "/memfd:", 7) == 0;
}

static bool is_mapped_inode(const struct stat *st, const void *mapping)
{
	return same_inode(st, mapping);
}

/* Opens a path if it is the mapped file; else returns -1, and *err_ret is 0 for another file. */
static int open_verified(
	const struct lookup *lookup, const struct mapping *mapping, const char *root, int *err_ret)
{
	int fd = beneath_open(root, mapping->path, is_mapped_inode, mapping, err_ret);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && (same_device(&st, mapping) || same_header(lookup, mapping, fd)))
		return fd;
	close(fd);
	return -1;
}

static void map_file_path(const struct lookup *lookup, const struct mapping *mapping, char path[96])
{
	snprintf(path, 96, "/proc/%d/map_files/%llx-%llx", (int)lookup->pid,
		(unsigned long long)mapping->start, (unsigned long long)mapping->end);
}

static int open_map_file(struct lookup *lookup, const struct mapping *mapping)
{
	char path[96];
	struct stat st;
	int fd;

	if (lookup->no_map_files)
		return -1;
	map_file_path(lookup, mapping, path);
	fd = open(path, OPEN_FLAGS);
	if (fd < 0) {
		lookup->no_map_files = errno == EPERM || errno == EACCES;
		return -1;
	}
	/* The mapping may have been replaced since maps was read. */
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && same_inode(&st, mapping))
		return fd;
	close(fd);
	return -1;
}

static char *open_failure(const struct mapping *mapping, int err)
{
	const char *why = "it was replaced on disk by another file";
	char *reason;

	if (err == ETIMEDOUT)
		return strdup("its file system does not answer: the mapped file cannot be read");
	if (mapping->deleted)
		why = "it was deleted";
	else if (err)
		why = strerror(err);
	if (asprintf(&reason,
		    "cannot open the mapped file: %s (opening what is mapped takes "
		    "CAP_CHECKPOINT_RESTORE)",
		    why) < 0)
		return NULL;
	return reason;
}

/* Opens the program's file only if it is what is mapped: otherwise its device may not answer. */
static void open_exe(struct lookup *lookup, const struct mapping *mapping)
{
	char path[48], link[4096];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)lookup->pid);
	length = readlink(path, link, sizeof(link));
	if (lookup->exe >= 0 || length < (ssize_t)strlen(mapping->path) ||
		memcmp(link, mapping->path, strlen(mapping->path)) != 0)
		return;
	lookup->exe = open(path, OPEN_FLAGS);
	if (lookup->exe >= 0 && fstat(lookup->exe, &lookup->exe_st) != 0) {
		close(lookup->exe);
		lookup->exe = -1;
	}
}

/* The mapped file, or -1; *err_ret is 0 if no descriptor or path refers to it. */
static int open_here(struct lookup *lookup, const struct mapping *mapping, int *err_ret)
{
	char root[48];
	int fd;

	fd = open_map_file(lookup, mapping);
	if (fd >= 0)
		return fd;
	open_exe(lookup, mapping);
	if (lookup->exe >= 0 && same_inode(&lookup->exe_st, mapping) &&
		(same_device(&lookup->exe_st, mapping) ||
			same_header(lookup, mapping, lookup->exe))) {
		fd = fcntl(lookup->exe, F_DUPFD_CLOEXEC, 0);
		if (fd >= 0)
			return fd;
	}
	if (is_memfd(mapping))
		return memfds_open(&lookup->memfds, lookup->pid, mapping, err_ret);
	snprintf(root, sizeof(root), "/proc/%d/root", (int)lookup->pid);
	fd = open_verified(lookup, mapping, root, err_ret);
	if (fd < 0) {
		int err_here;

		fd = open_verified(lookup, mapping, "/", &err_here);
	}
	return fd;
}

/* The file that distant_copy() opens. */
struct wanted {
	struct lookup *lookup;
	const struct mapping *mapping;
};

static int open_wanted(void *data, int *err_ret)
{
	struct wanted *wanted = data;

	return open_here(wanted->lookup, wanted->mapping, err_ret);
}

/* Sets lookup->distant for the device of a mapping. */
static void look_at_device(struct lookup *lookup, const struct mapping *mapping)
{
	if (lookup->known && lookup->dev_major == mapping->dev_major &&
		lookup->dev_minor == mapping->dev_minor)
		return;
	lookup->known = true;
	lookup->dev_major = mapping->dev_major;
	lookup->dev_minor = mapping->dev_minor;
	lookup->silent = false;
	lookup->distant = !is_memfd(mapping) &&
			  distant_is(lookup->pid, mapping->dev_major, mapping->dev_minor);
}

/* The mapped file, or a copy if its file system might not answer. */
static int open_mapping(struct lookup *lookup, const struct mapping *mapping, int *err_ret)
{
	struct wanted wanted = {lookup, mapping};
	int fd;

	look_at_device(lookup, mapping);
	if (!lookup->distant)
		return open_here(lookup, mapping, err_ret);
	*err_ret = ETIMEDOUT;
	if (lookup->silent)
		return -1;
	fd = distant_copy(open_wanted, &wanted, err_ret);
	lookup->silent = fd < 0 && *err_ret == ETIMEDOUT;
	return fd;
}

/* ---- Where a file is mapped ------------------------------------------------ */

/* The bias of a mapping if it belongs to this segment; false if it does not. */
static bool bias_by_segment(const struct lookup *lookup, const struct mapping *mapping,
	const struct object_segment *segment, uint64_t *ret)
{
	uint64_t first = segment->offset & lookup->page_mask;

	/* Bytes past the segment's file part do not belong to it: no mapping starts there. */
	if (segment->file_size == 0 || mapping->offset < first ||
		mapping->offset - first >= segment->offset - first + segment->file_size)
		return false;
	/* Modulo 2^64: a bias may be negative. */
	*ret = mapping->start - (segment->address + (mapping->offset - segment->offset));
	return true;
}

/*
 * The bias according to a mapping. A page of the file may belong to two segments; prefer one
 * that begins there, and one with the same permissions.
 */
static bool bias_of(const struct lookup *lookup, const struct object *object,
	const struct mapping *mapping, uint64_t *ret)
{
	size_t count;
	const struct object_segment *segments = object_segments(object, &count);
	int best = -1;

	for (size_t i = 0; i < count; i++) {
		uint64_t bias;
		int rank;

		if (!bias_by_segment(lookup, mapping, &segments[i], &bias))
			continue;
		rank = (segments[i].executable == mapping->executable ? 2 : 0) +
		       ((segments[i].offset & lookup->page_mask) == mapping->offset ? 1 : 0);
		if (rank <= best)
			continue;
		best = rank;
		*ret = bias;
	}
	return best >= 0;
}

static bool fits_bias(const struct lookup *lookup, const struct object *object,
	const struct mapping *mapping, uint64_t bias)
{
	size_t count;
	const struct object_segment *segments = object_segments(object, &count);

	for (size_t i = 0; i < count; i++) {
		uint64_t other;

		if (bias_by_segment(lookup, mapping, &segments[i], &other) && other == bias)
			return true;
	}
	return false;
}

static bool same_file(const struct module *module, const struct mapping *mapping)
{
	return module->inode == mapping->inode && module->dev_major == mapping->dev_major &&
	       module->dev_minor == mapping->dev_minor;
}

/* Whether a mapping belongs to a module that is already known (or was rejected). */
static bool is_known(const struct lookup *lookup, const struct mapping *mapping)
{
	for (size_t i = lookup->modules.count; i-- > 0;) {
		const struct module *module = &lookup->modules.items[i];

		if (same_file(module, mapping) &&
			(!module->object ||
				fits_bias(lookup, module->object, mapping, module->bias)))
			return true;
	}
	return false;
}

/* The kernel maps the end of .bss anonymously after the file's last mapping. */
static void add_bss(const struct lookup *lookup, struct module *module)
{
	const struct mapping *bss = maps_find(lookup->maps, module->end);
	uint64_t file_end = module->end;
	size_t count;
	const struct object_segment *segments = object_segments(module->object, &count);

	if (!bss || bss->inode != 0 || bss->path[0])
		return;
	for (size_t i = 0; i < count; i++) {
		/* From the file, so untrusted: it counts only within what is mapped. */
		uint64_t end = module->bias + segments[i].address + segments[i].size;

		if (end > file_end && end <= bss->end && end > module->end)
			module->end = end;
	}
}

/* Sets the module's range: all mappings of the file at its bias. */
static void set_range(const struct lookup *lookup, struct module *module)
{
	module->start = UINT64_MAX;
	module->end = 0;
	for (size_t i = 0; i < lookup->maps->count; i++) {
		const struct mapping *mapping = &lookup->maps->items[i];

		if (!same_file(module, mapping) ||
			(module->object &&
				!fits_bias(lookup, module->object, mapping, module->bias)))
			continue;
		if (mapping->start < module->start)
			module->start = mapping->start;
		if (mapping->end > module->end)
			module->end = mapping->end;
	}
	if (module->object)
		add_bss(lookup, module);
}

/* ---- Modules ---------------------------------------------------------------- */

static void module_deinit(struct module *module)
{
	if (!module->file) {
		if (module->notes_read)
			sdt_notes_deinit(&module->notes);
		object_close(module->object);
	}
	if (module->fd >= 0 && !module->file)
		close(module->fd);
	file_release(module->file);
	free(module->reason);
	free(module->path);
}

void modules_deinit(struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		module_deinit(&modules->items[i]);
	free(modules->items);
	*modules = (struct modules){0};
}

/* Excludes executable memory that is not a file: code made at run time, and devices. */
static bool is_candidate(const struct mapping *mapping)
{
	const char *path = mapping->path;

	if (!mapping->executable || mapping->inode == 0 || path[0] != '/')
		return false;
	if (shared_is_code(mapping))
		return false;
	if (strncmp(path, "/dev/", 5) == 0)
		return strncmp(path, "/dev/shm/", 9) == 0;
	return strncmp(path, "/SYSV", 5) != 0 && strncmp(path, "/anon_hugepage", 14) != 0;
}

static bool has_elf_magic(int fd)
{
	char magic[4];

	return pread(fd, magic, 4, 0) == 4 && memcmp(magic, "\177ELF", 4) == 0;
}

/* A file that is known already takes one system call, and no descriptor. */
static struct file *find_known(struct lookup *lookup, const struct mapping *mapping)
{
	char path[96];
	struct stat st;

	if (!lookup->files || lookup->no_map_files)
		return NULL;
	look_at_device(lookup, mapping);
	if (lookup->distant)
		return NULL;
	map_file_path(lookup, mapping, path);
	return stat(path, &st) == 0 && same_inode(&st, mapping)
		       ? files_find(lookup->files, &st, mapping->path)
		       : NULL;
}

static struct probe_error *set_bias(
	const struct lookup *lookup, const struct mapping *mapping, struct module *module)
{
	if (bias_of(lookup, module->object, mapping, &module->bias))
		return NULL;
	/* Mapped as data, for example by a debugger or an editor. */
	if (!module->file)
		object_close(module->object);
	module->object = NULL;
	return NULL;
}

/* Opens the file and finds the bias. A module without an object or reason is rejected. */
static struct probe_error *module_open(
	struct lookup *lookup, const struct mapping *mapping, struct module *module)
{
	struct probe_error *error;
	int err;

	module->file = find_known(lookup, mapping);
	if (module->file) {
		module->fd = module->file->fd;
		module->object = module->file->object;
		return set_bias(lookup, mapping, module);
	}
	module->fd = open_mapping(lookup, mapping, &err);
	if (module->fd < 0 && procfs_no_room(err))
		return probe_error_system(
			err, "cannot open the files that process %d has mapped", (int)lookup->pid);
	/* A memfd usually holds code made at run time, so a closed one is no loss. */
	if (module->fd < 0 && is_memfd(mapping))
		return NULL;
	if (module->fd < 0) {
		module->reason = open_failure(mapping, err);
		return module->reason ? NULL : probe_error_no_memory();
	}
	if (!has_elf_magic(module->fd))
		return NULL;
	if (lookup->files)
		error = files_open(lookup->files, module->fd, module->path, &module->file);
	else
		error = object_open_fd(module->fd, module->path, &module->object);
	if (!error && module->file) {
		close(module->fd);
		module->fd = module->file->fd;
		module->object = module->file->object;
	}
	if (error) {
		module->object = NULL;
		module->reason = strdup(error->message);
		probe_error_free(error);
		return module->reason ? NULL : probe_error_no_memory();
	}
	return set_bias(lookup, mapping, module);
}

static struct probe_error *lookup_add(struct lookup *lookup, const struct mapping *mapping)
{
	struct modules *modules = &lookup->modules;
	struct module *module, *items = array_grow(modules->items, modules->count, sizeof(*items));
	struct probe_error *error;

	if (!items)
		return probe_error_no_memory();
	modules->items = items;
	module = &items[modules->count];
	*module = (struct module){
		.path = strdup(mapping->path),
		.dev_major = mapping->dev_major,
		.dev_minor = mapping->dev_minor,
		.inode = mapping->inode,
		.deleted = mapping->deleted,
		.fd = -1,
	};
	lookup->modules.count++;
	if (!module->path)
		return probe_error_no_memory();
	error = module_open(lookup, mapping, module);
	if (!error && (module->object || module->reason))
		set_range(lookup, module);
	return error;
}

static int compare_starts(const void *left, const void *right)
{
	const struct module *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* Drops entries that were kept only to avoid trying them again, and sorts the rest. */
static void lookup_tidy(struct modules *modules)
{
	size_t kept = 0;

	for (size_t i = 0; i < modules->count; i++) {
		struct module *module = &modules->items[i];

		if (module->object || module->reason)
			modules->items[kept++] = *module;
		else
			module_deinit(module);
	}
	modules->count = kept;
	if (kept > 0)
		qsort(modules->items, kept, sizeof(*modules->items), compare_starts);
}

struct probe_error *modules_read_mapped(
	pid_t pid, const struct maps *maps, struct files *files, struct modules *ret)
{
	struct lookup lookup = {.pid = pid, .maps = maps, .files = files, .exe = -1};
	struct probe_error *error = NULL;

	*ret = (struct modules){0};
	lookup.page_mask = ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	for (size_t i = 0; i < maps->count && !error; i++) {
		const struct mapping *mapping = &maps->items[i];

		if (is_candidate(mapping) && !is_known(&lookup, mapping))
			error = lookup_add(&lookup, mapping);
	}
	if (lookup.exe >= 0)
		close(lookup.exe);
	memfds_deinit(&lookup.memfds);
	if (error) {
		modules_deinit(&lookup.modules);
		return error;
	}
	lookup_tidy(&lookup.modules);
	*ret = lookup.modules;
	return NULL;
}

struct probe_error *modules_read(pid_t pid, struct files *files, struct modules *ret)
{
	struct maps maps;
	struct probe_error *error = maps_read(pid, &maps);

	*ret = (struct modules){0};
	if (error)
		return error;
	error = modules_read_mapped(procfs_living(pid), &maps, files, ret);
	maps_deinit(&maps);
	return error;
}

struct probe_error *module_read_notes(struct module *module)
{
	struct probe_error *error;

	if (module->notes_read || !module->object)
		return NULL;
	if (module->file) {
		error = file_read_notes(module->file);
		module->notes = module->file->notes;
	} else {
		error = sdt_read(module->object, &module->notes);
	}
	module->notes_read = !error;
	return error;
}

struct module *modules_find(const struct modules *modules, uint64_t address)
{
	size_t above = ARRAY_SEARCH_ABOVE(modules->items, modules->count, start, address);

	if (above == 0 || address >= modules->items[above - 1].end)
		return NULL;
	return &modules->items[above - 1];
}

bool module_is_libc(const struct module *module)
{
	static const char *const names[] = {"libc.", "libc-", "libpthread", "ld-"};
	const char *slash = strrchr(module->path, '/');

	for (size_t i = 0; slash && i < sizeof(names) / sizeof(*names); i++)
		if (strncmp(slash + 1, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}
