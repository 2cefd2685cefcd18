/* SPDX-License-Identifier: MIT */
/*
 * Finds the ELF files that a process has mapped, and their addresses. One mapping determines a
 * file's bias: the PT_LOAD segment with its file offset gives its link-time address.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/process/process.h"

/* ==== Mapped file ============================================================================= */

/*
 * Opens the files that a process has mapped.
 *
 * The path in /proc/PID/maps is only a hint: the process may use another mount namespace or root,
 * and the file may have been deleted or replaced (an upgraded library). So the file is opened, in
 * this order, through
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
 * The last three are used only if device and inode are the mapping's, and no symbolic link is
 * followed (libprobe/process/process.h). btrfs and overlayfs show another device in maps than
 * stat(2) returns; for them, the inode and the first bytes in memory must agree.
 *
 * If none of them leads to the file, another file may be at its path, as after an upgrade of a
 * package. It is used if its build id says that it is the same version.
 */

/*
 * Enough for the headers and usually the build id; too little to reach code, which may be patched.
 */
enum { COMPARED_BYTES = 1024 };

static bool same_device(const struct stat *st, const struct mapping *mapping)
{
	return major(st->st_dev) == mapping->dev_major && minor(st->st_dev) == mapping->dev_minor;
}

/* Returns the mapping of the file's first byte, or NULL. */
static const struct mapping *mapping_of_header(
	const struct mapped_files *files, const struct mapping *mapping)
{
	for (size_t i = 0; i < files->maps->count; i++) {
		const struct mapping *other = &files->maps->items[i];

		if (other->inode == mapping->inode && other->offset == 0 &&
			other->dev_major == mapping->dev_major &&
			other->dev_minor == mapping->dev_minor)
			return other;
	}
	return NULL;
}

/*
 * Returns true if the file's first bytes equal those in memory. If memory cannot be read, the equal
 * inode is enough, because patching compares the bytes of every site again.
 */
static bool same_header(const struct mapped_files *files, const struct mapping *mapping, int fd)
{
	const struct mapping *header = mapping_of_header(files, mapping);
	unsigned char in_file[COMPARED_BYTES], in_memory[COMPARED_BYTES];
	ssize_t have;
	size_t got;

	if (!header)
		return true;
	got = memory_read(files->pid, header->start, in_memory, sizeof(in_memory));
	if (!got)
		return true;
	have = pread(fd, in_file, sizeof(in_file), 0);
	return have >= 0 && (size_t)have <= got && memcmp(in_file, in_memory, (size_t)have) == 0;
}

/* Returns true if the mapped file is from memfd_create(2). */
static bool mapped_is_memory(const struct mapping *mapping)
{
	return strncmp(mapping->path, "/memfd:", 7) == 0;
}

/* Opens a path if it is the mapped file. Returns -1, with *err_ret 0, if it is another file. */
static int open_verified(const struct mapped_files *files, const struct mapping *mapping,
	const char *root, int *err_ret)
{
	int fd = beneath_open(root, mapping->path, mapped_is_inode, mapping, err_ret);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && (same_device(&st, mapping) || same_header(files, mapping, fd)))
		return fd;
	close(fd);
	return -1;
}

/* Explains why mapped_open() failed. The caller frees the text; NULL if memory is short. */
static char *mapped_failure(const struct mapping *mapping, bool replaced, int err)
{
	const char *why = replaced	     ? "it was replaced on disk by another file"
			  : mapping->deleted ? "it was deleted"
			  : err		     ? strerror(err)
					     : "it is not where it was mapped from";
	char *reason;

	if (err == ETIMEDOUT)
		return strdup("its file system does not answer: the mapped file cannot be read");
	if (asprintf(&reason,
		    "cannot open the mapped file: %s; restart the program, or run probectl as root "
		    "(it takes CAP_CHECKPOINT_RESTORE)",
		    why) < 0)
		return NULL;
	return reason;
}

/* Opens the program's file if it is the mapped one. Another file might be on a stuck device. */
static void open_exe(struct mapped_files *files, const struct mapping *mapping)
{
	struct procfs_path path = procfs_path("/proc/%d/exe", files->pid);
	char link[4096];
	ssize_t length = readlink(path.text, link, sizeof(link));

	if (files->exe >= 0 || length < (ssize_t)strlen(mapping->path) ||
		memcmp(link, mapping->path, strlen(mapping->path)) != 0)
		return;
	files->exe = open(path.text, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (files->exe >= 0 && fstat(files->exe, &files->exe_st) != 0)
		cleanup_fd(&files->exe);
}

/* Opens the mapped file, or returns -1; *err_ret is 0 if nothing refers to the file. */
static int open_here(struct mapped_files *files, const struct mapping *mapping, int *err_ret)
{
	int fd = map_file_open(files->pid, mapping, &files->no_map_files);

	if (fd >= 0)
		return fd;
	open_exe(files, mapping);
	if (files->exe >= 0 && mapped_is_inode(&files->exe_st, mapping) &&
		(same_device(&files->exe_st, mapping) || same_header(files, mapping, files->exe))) {
		fd = fcntl(files->exe, F_DUPFD_CLOEXEC, 0);
		if (fd >= 0)
			return fd;
	}
	if (mapped_is_memory(mapping))
		return memfds_open(&files->memfds, files->pid, mapping, err_ret);
	fd = open_verified(files, mapping, procfs_path("/proc/%d/root", files->pid).text, err_ret);
	return fd < 0 ? open_verified(files, mapping, "/", &(int){0}) : fd;
}

/* The mapping whose file distant_copy() opens. */
struct wanted {
	struct mapped_files *files;
	const struct mapping *mapping;
};

static int open_wanted(void *data, int *err_ret)
{
	struct wanted *wanted = data;

	return open_here(wanted->files, wanted->mapping, err_ret);
}

/* Sets files->distant for the device of a mapping. */
static void look_at_device(struct mapped_files *files, const struct mapping *mapping)
{
	if (files->known && files->dev_major == mapping->dev_major &&
		files->dev_minor == mapping->dev_minor)
		return;
	files->known = true;
	files->dev_major = mapping->dev_major;
	files->dev_minor = mapping->dev_minor;
	files->silent = false;
	files->distant = !mapped_is_memory(mapping) &&
			 distant_is(files->pid, mapping->dev_major, mapping->dev_minor);
}

int mapped_open(struct mapped_files *files, const struct mapping *mapping, int *err_ret)
{
	struct wanted wanted = {files, mapping};
	int fd;

	look_at_device(files, mapping);
	if (!files->distant)
		return open_here(files, mapping, err_ret);
	*err_ret = ETIMEDOUT;
	if (files->silent)
		return -1;
	fd = distant_copy(open_wanted, &wanted, err_ret);
	files->silent = fd < 0 && *err_ret == ETIMEDOUT;
	return fd;
}

/* ---- Successors of files ----------------------------------------------------------- */

static bool is_any(const struct stat *st, const void *data)
{
	(void)st;
	(void)data;
	return true;
}

static int open_any(void *data, int *err_ret)
{
	const struct wanted *wanted = data;

	return beneath_open(procfs_path("/proc/%d/root", wanted->files->pid).text,
		wanted->mapping->path, is_any, NULL, err_ret);
}

/*
 * Returns true if a file is a copy of the mapped one (the same version installed again). Compares
 * build ids.
 */
static bool mapped_is_copy(const struct mapped_files *files, const struct mapping *mapping, int fd)
{
	/* The type and name of a build id's note (elf(5), Nhdr): NT_GNU_BUILD_ID, "GNU". */
	static const uint32_t build_id[] = {3, 0x554e47};
	unsigned char in_file[COMPARED_BYTES], in_memory[COMPARED_BYTES];
	const struct mapping *header = mapping_of_header(files, mapping);

	return header && pread(fd, in_file, sizeof(in_file), 0) == sizeof(in_file) &&
	       memory_read(files->pid, header->start, in_memory, sizeof(in_memory)) ==
		       sizeof(in_memory) &&
	       memcmp(in_file, in_memory, sizeof(in_file)) == 0 &&
	       memmem(in_file, sizeof(in_file), build_id, sizeof(build_id));
}

/*
 * Like stat(2) of the mapped file. Returns false if the file would have to be opened, or if that
 * might block.
 */
static bool mapped_stat(struct mapped_files *files, const struct mapping *mapping, struct stat *ret)
{
	if (files->no_map_files)
		return false;
	look_at_device(files, mapping);
	return !files->distant && stat(map_file_path(files->pid, mapping).text, ret) == 0 &&
	       mapped_is_inode(ret, mapping);
}

void mapped_files_deinit(struct mapped_files *files)
{
	cleanup_fd(&files->exe);
	memfds_deinit(&files->memfds);
}

/* ==== Files ================================================================================== */

/*
 * Caches the files that processes have mapped. A file is identified by device and inode, which
 * cannot be reused while we have it open. It has changed if its size or one of its times has
 * changed. Even a wrong match does no harm: the bytes of each site are compared with those in
 * memory before they are written.
 *
 * Searches start with the most recently used file. If there are too many files, the least recently
 * used one is closed.
 */
enum { FILES_MAX = 32 };

struct files {
	size_t references;
	struct file *items[FILES_MAX]; /* most recently used first */
	size_t count;
};

void file_release(struct file *file)
{
	if (!file || --file->references)
		return;
	sdt_notes_deinit(&file->notes);
	object_close(file->object);
	cleanup_fd(&file->fd);
	map_clear(&file->plans);
	free(file->path);
	free(file);
}

struct probe_error *files_create(struct files **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return probe_error_no_memory();
	(*ret)->references = 1;
	return NULL;
}

struct files *files_hold(struct files *files)
{
	if (files)
		files->references++;
	return files;
}

void files_release(struct files *files)
{
	if (!files || --files->references)
		return;
	while (files->count)
		file_release(files->items[--files->count]);
	free(files);
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool is_same(const struct file *file, const struct stat *st)
{
	return file->inode == st->st_ino && file->dev == st->st_dev && file->size == st->st_size &&
	       same_time(file->modified, st->st_mtim) && same_time(file->changed, st->st_ctim);
}

static struct probe_error *open_file(
	int fd, const struct stat *st, const char *path, struct file **ret)
{
	struct file *file = calloc(1, sizeof(*file));
	struct probe_error *error = NULL;

	if (!file)
		return probe_error_no_memory();
	*file = (struct file){.references = 1,
		.dev = st->st_dev,
		.inode = st->st_ino,
		.size = st->st_size,
		.modified = st->st_mtim,
		.changed = st->st_ctim,
		.path = strdup(path),
		.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
	if (!file->path)
		error = probe_error_no_memory();
	else if (file->fd < 0)
		error = probe_error_system(errno, "%s", path);
	else
		error = object_open_fd(file->fd, path, &file->object);
	if (error) {
		file->object = NULL;
		file_release(file);
		return error;
	}
	*ret = file;
	return NULL;
}

/* Inserts a file at the front. If there is no room, drops the last one. */
static void put_first(struct files *files, struct file *file)
{
	if (files->count == FILES_MAX)
		file_release(files->items[--files->count]);
	memmove(files->items + 1, files->items, files->count * sizeof(files->items[0]));
	files->items[0] = file;
	files->count++;
}

/* Returns the file with this status and path, for file_release(); NULL if unknown. */
static struct file *files_find(struct files *files, const struct stat *st, const char *path)
{
	for (size_t i = 0; i < files->count; i++) {
		struct file *file = files->items[i];

		if (!is_same(file, st) || strcmp(file->path, path) != 0)
			continue;
		files->count--;
		memmove(files->items + i, files->items + i + 1,
			(files->count - i) * sizeof(files->items[0]));
		put_first(files, file);
		file->references++;
		return file;
	}
	return NULL;
}

struct probe_error *files_open(struct files *files, int fd, const char *path, struct file **ret)
{
	struct probe_error *error;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return probe_error_system(errno, "%s", path);
	*ret = files_find(files, &st, path);
	if (*ret)
		return NULL;
	error = open_file(fd, &st, path, ret);
	if (error)
		return error;
	put_first(files, *ret);
	(*ret)->references++;
	return NULL;
}

struct file *files_known(const struct files *files, const struct stat *st)
{
	for (size_t i = 0; i < files->count; i++)
		if (is_same(files->items[i], st))
			return files->items[i];
	return NULL;
}

struct file *files_mapped(const struct files *files, dev_t dev, ino_t inode)
{
	for (size_t i = 0; i < files->count; i++) {
		struct file *file = files->items[i];
		struct stat st;

		if (file->inode == inode && file->dev == dev && fstat(file->fd, &st) == 0 &&
			is_same(file, &st))
			return file;
	}
	return NULL;
}

/* ==== Modules ================================================================================= */

struct lookup {
	struct mapped_files mapped;
	struct files *files;	/* cache of files, or NULL */
	struct modules modules; /* modules found; rejected ones have neither object nor reason */
};

/* ---- Addresses of a file --------------------------------------------------- */

static uint64_t first_page(const struct object_segment *segment)
{
	return segment->offset & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

/* Computes the bias from a mapping of this segment. Returns false if it is of another segment. */
static bool bias_by_segment(
	const struct mapping *mapping, const struct object_segment *segment, uint64_t *ret)
{
	uint64_t first = first_page(segment);

	/* Behind the segment's end, the file has other contents. */
	if (segment->file_size == 0 || mapping->offset < first ||
		mapping->offset - first >= segment->offset - first + segment->file_size)
		return false;
	/* Modulo 2^64: a bias may be negative. */
	*ret = mapping->start - (segment->address + (mapping->offset - segment->offset));
	return true;
}

/*
 * Computes the bias from a mapping. If two segments share its page, prefers the one that begins
 * there, and one with the same permissions.
 */
static bool bias_of(const struct object *object, const struct mapping *mapping, uint64_t *ret)
{
	size_t count;
	const struct object_segment *segments = object_segments(object, &count);
	int best = -1;

	for (size_t i = 0; i < count; i++) {
		uint64_t bias;
		int rank;

		if (!bias_by_segment(mapping, &segments[i], &bias))
			continue;
		rank = (segments[i].executable == mapping->executable ? 2 : 0) +
		       (first_page(&segments[i]) == mapping->offset ? 1 : 0);
		if (rank <= best)
			continue;
		best = rank;
		*ret = bias;
	}
	return best >= 0;
}

bool module_has_mapping(const struct module *module, const struct mapping *mapping)
{
	const struct object_segment *segments = NULL;
	size_t count = 0;
	uint64_t bias;

	if (module->inode != mapping->inode || module->dev_major != mapping->dev_major ||
		module->dev_minor != mapping->dev_minor)
		return false;
	if (module->object)
		segments = object_segments(module->object, &count);
	for (size_t i = 0; i < count; i++)
		if (bias_by_segment(mapping, &segments[i], &bias) && bias == module->bias)
			return true;
	return !module->object;
}

/* Returns true if a mapping belongs to a module that is already known, or was rejected. */
static bool is_known(const struct lookup *lookup, const struct mapping *mapping)
{
	for (size_t i = lookup->modules.count; i-- > 0;)
		if (module_has_mapping(&lookup->modules.items[i], mapping))
			return true;
	return false;
}

/* Adds the end of .bss, which the kernel maps anonymously after the file's last mapping. */
static void add_bss(const struct lookup *lookup, struct module *module)
{
	const struct mapping *bss = maps_find(lookup->mapped.maps, module->end);
	uint64_t file_end = module->end;
	size_t count;
	const struct object_segment *segments = object_segments(module->object, &count);

	if (!bss || bss->inode != 0 || bss->path[0])
		return;
	for (size_t i = 0; i < count; i++) {
		/*
		 * The size comes from the file and is not trusted: use it only within the mapping.
		 */
		uint64_t end = module->bias + segments[i].address + segments[i].size;

		if (end > file_end && end <= bss->end && end > module->end)
			module->end = end;
	}
}

/* Sets the module's range to all mappings of the file at this bias. */
static void set_range(const struct lookup *lookup, struct module *module)
{
	module->start = UINT64_MAX;
	module->end = 0;
	for (size_t i = 0; i < lookup->mapped.maps->count; i++) {
		const struct mapping *mapping = &lookup->mapped.maps->items[i];

		if (!module_has_mapping(module, mapping))
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

/* Frees what was read from the file, unless that belongs to the cache. */
static void close_object(struct module *module)
{
	sdt_functions_deinit(&module->functions);
	if (module->file)
		return;
	if (module->notes_read)
		sdt_notes_deinit(&module->notes);
	object_close(module->object);
}

static void module_deinit(struct module *module)
{
	close_object(module);
	if (!module->file)
		cleanup_fd(&module->fd);
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

/* Can a mapping belong to a module? Code made at run time, devices and our code cannot. */
static bool is_candidate(const struct mapping *mapping)
{
	const char *path = mapping->path;

	if (!mapping->executable || mapping->inode == 0 || path[0] != '/' ||
		shared_is_code(mapping))
		return false;
	if (strncmp(path, "/dev/", 5) == 0)
		return strncmp(path, "/dev/shm/", 9) == 0;
	return strncmp(path, "/SYSV", 5) != 0 && strncmp(path, "/anon_hugepage", 14) != 0;
}

static void module_reject(struct module *module)
{
	if (!module->file)
		object_close(module->object);
	module->object = NULL;
}

/* Opens a copy of a file that cannot be opened, or sets module->reason. */
static struct probe_error *open_successor(
	struct lookup *lookup, const struct mapping *mapping, int err, struct module *module)
{
	struct wanted wanted = {&lookup->mapped, mapping};
	int fd = -1, its_err;

	look_at_device(&lookup->mapped, mapping);
	if (!lookup->mapped.distant)
		fd = open_any(&wanted, &its_err);
	else if (!lookup->mapped.silent)
		fd = distant_copy(open_any, &wanted, &its_err);
	if (fd >= 0 && mapped_is_copy(&lookup->mapped, mapping, fd)) {
		module->fd = fd;
		return NULL;
	}
	module->reason = mapped_failure(mapping, fd >= 0, err);
	cleanup_fd(&fd);
	return module->reason ? NULL : probe_error_no_memory();
}

/* Opens the module's file. The module has no object afterwards if that is not an ELF file. */
static struct probe_error *open_object(
	struct lookup *lookup, const struct mapping *mapping, struct module *module)
{
	/* A file in memory may get more probes unnoticed, so it is not kept in the cache. */
	struct files *keeper = mapped_is_memory(mapping) ? NULL : lookup->files;
	struct probe_error *error, *second;
	struct stat st;
	char magic[4];
	int err;

	/* This finds a file in the cache with one system call and no descriptor. */
	if (keeper && mapped_stat(&lookup->mapped, mapping, &st))
		module->file = files_find(keeper, &st, mapping->path);
	if (!module->file) {
		module->fd = mapped_open(&lookup->mapped, mapping, &err);
		if (module->fd < 0 && procfs_no_room(err))
			return probe_error_system(err,
				"cannot open the files that process %d has mapped",
				(int)lookup->mapped.pid);
		/* A memfd usually holds code made at run time, so a closed memfd is no loss. */
		if (module->fd < 0 && mapped_is_memory(mapping))
			return NULL;
		error = module->fd < 0 ? open_successor(lookup, mapping, err, module) : NULL;
		if (error || module->fd < 0)
			return error;
		if (pread(module->fd, magic, 4, 0) != 4 || memcmp(magic, "\177ELF", 4) != 0)
			return NULL;
		error = keeper ? files_open(keeper, module->fd, module->path, &module->file)
			       : object_open_fd(module->fd, module->path, &module->object);
		if (error) {
			second = module_distrust(module, error->message);
			probe_error_free(error);
			return second;
		}
		if (module->file)
			close(module->fd);
	}
	if (module->file) {
		module->fd = module->file->fd;
		module->object = module->file->object;
	}
	return NULL;
}

/* Returns NULL if memory is short. */
static struct module *add_module(struct modules *modules, const struct mapping *mapping)
{
	struct module module = {
		.path = strdup(mapping->path),
		.dev_major = mapping->dev_major,
		.dev_minor = mapping->dev_minor,
		.inode = mapping->inode,
		.deleted = mapping->deleted,
		.fd = -1,
	};

	if (module.path && ARRAY_ADD(modules->items, modules->count, module))
		return &modules->items[modules->count - 1];
	free(module.path);
	return NULL;
}

static struct probe_error *lookup_add(struct lookup *lookup, const struct mapping *mapping)
{
	struct module *module = add_module(&lookup->modules, mapping);
	struct probe_error *error;

	if (!module)
		return probe_error_no_memory();
	/* A module without an object or reason is rejected. */
	error = open_object(lookup, mapping, module);
	/* If the mapping fits no segment, the file is mapped as data, for example by an editor. */
	if (!error && module->object && !bias_of(module->object, mapping, &module->bias))
		module_reject(module);
	if (!error && (module->object || module->reason))
		set_range(lookup, module);
	return error;
}

/* ---- Text that a program has moved ------------------------------------------- */

/*
 * Returns true if the mapping may be text that a program has moved. Some programs copy their text
 * to huge pages of their own (hugify, iodlr), at the address of the file. If no mapping of the file
 * has code any more, we take the file of the mapping beside the text, if the file has code at this
 * address. Patching compares the bytes of each site anyway.
 *
 * The memory is anonymous or a file in memory, private or shared. Probes in shared memory are
 * listed, but not patched: unknown processes may have the memory mapped, and later children will.
 */
static bool is_moved_text(const struct lookup *lookup, const struct mapping *m)
{
	if (!m->executable || shared_is_named(m))
		return false;
	if (!m->path[0] || strncmp(m->path, "[anon", 5) == 0)
		return true;
	if (m->path[0] != '/')
		return false;
	/* Exclude text in its own file, and a program that was copied to memory as a whole. */
	for (size_t i = 0; i < lookup->modules.count; i++) {
		const struct module *module = &lookup->modules.items[i];

		if ((module->object || module->reason) && module_has_mapping(module, m))
			return false;
	}
	return true;
}

static bool has_elf_magic_at(const struct lookup *lookup, uint64_t address)
{
	char magic[4];

	return memory_read(lookup->mapped.pid, address, magic, 4) == 4 &&
	       memcmp(magic, "\177ELF", 4) == 0;
}

/* Returns true if the mapping maps a file that is not ours. */
static bool is_of_file(const struct mapping *mapping)
{
	return mapping->inode && mapping->path[0] == '/' && !shared_is_named(mapping);
}

/*
 * Finds a mapping of an ELF file beside the text at index `i`, or NULL. Segments for huge pages
 * begin at multiples of 2 MiB, so there may be a gap, with other memory in it.
 */
static const struct mapping *mapping_beside(const struct lookup *lookup, size_t i)
{
	const struct maps *maps = lookup->mapped.maps;
	size_t before = i, after = i + 1;

	while (before-- > 0 && !is_of_file(&maps->items[before]))
		;
	if (before < i && maps->items[before].offset == 0 &&
		has_elf_magic_at(lookup, maps->items[before].start))
		return &maps->items[before];
	while (after < maps->count && !is_of_file(&maps->items[after]))
		after++;
	/* The ELF header may be a part of the moved text. */
	return after < maps->count && has_elf_magic_at(lookup, maps->items[i].start)
		       ? &maps->items[after]
		       : NULL;
}

static bool has_code_in(const struct module *module, const struct mapping *mapping)
{
	uint64_t start = mapping->start - module->bias, end = mapping->end - module->bias;
	size_t count;
	const struct object_segment *segments = object_segments(module->object, &count);

	for (size_t i = 0; i < count; i++)
		if (segments[i].executable && segments[i].address < end &&
			start < segments[i].address + segments[i].size)
			return true;
	return false;
}

static struct probe_error *add_moved(struct lookup *lookup, size_t i)
{
	const struct mapping *text = &lookup->mapped.maps->items[i];
	const struct mapping *beside = mapping_beside(lookup, i);
	struct probe_error *error;
	struct module *module;

	if (!beside || is_known(lookup, beside))
		return NULL;
	error = lookup_add(lookup, beside);
	module = &lookup->modules.items[lookup->modules.count - 1];
	/* An unreadable file that does not touch the text may be unrelated: drop the reason. */
	if (!error && !module->object && beside->end != text->start && text->end != beside->start) {
		free(module->reason);
		module->reason = NULL;
	}
	if (error || !module->object)
		return error;
	if (!has_code_in(module, text))
		module_reject(module);
	else if (text->start < module->start)
		module->start = text->start;
	return NULL;
}

static int compare_starts(const void *left, const void *right)
{
	const struct module *a = left, *b = right;

	return ORDER(a->start, b->start);
}

/* Drops rejected modules, which were kept to avoid trying them again, and sorts the rest. */
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
	struct lookup lookup = {.mapped = mapped_files_of(pid, maps), .files = files};
	struct probe_error *error = NULL;

	*ret = (struct modules){0};
	for (size_t i = 0; i < maps->count && !error; i++) {
		const struct mapping *mapping = &maps->items[i];

		if (is_candidate(mapping) && !is_known(&lookup, mapping))
			error = lookup_add(&lookup, mapping);
	}
	for (size_t i = 0; i < maps->count && !error; i++)
		if (is_moved_text(&lookup, &maps->items[i]))
			error = add_moved(&lookup, i);
	mapped_files_deinit(&lookup.mapped);
	if (error) {
		modules_deinit(&lookup.modules);
		return error;
	}
	lookup_tidy(&lookup.modules);
	lookup.modules.pid = pid;
	*ret = lookup.modules;
	return NULL;
}

struct probe_error *modules_read(pid_t pid, struct files *files, struct modules *ret)
{
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error = maps_read(pid, &maps);

	*ret = (struct modules){0};
	return error ?: modules_read_mapped(procfs_living(pid), &maps, files, ret);
}

struct probe_error *module_read_notes(struct module *module)
{
	struct probe_error *error, *second;

	if (module->notes_read || !module->object)
		return NULL;
	if (module->file) {
		struct file *file = module->file;

		error = file->notes_read ? NULL : sdt_read(file->object, &file->notes);
		file->notes_read = !error;
		module->notes = file->notes;
	} else {
		error = sdt_read(module->object, &module->notes);
	}
	module->notes_read = !error;
	if (!error || error->code == PROBE_ERROR_MEMORY)
		return error;
	second = module_distrust(module, error->message);
	probe_error_free(error);
	return second;
}

struct probe_error *module_distrust(struct module *module, const char *reason)
{
	size_t path = strlen(module->path);

	/* Messages of readers begin with the path: remove it. */
	if (strncmp(reason, module->path, path) == 0 && strncmp(reason + path, ": ", 2) == 0)
		reason += path + 2;
	close_object(module);
	module->object = NULL;
	module->notes = (struct sdt_notes){0};
	module->notes_read = false;
	module->bias = 0;
	free(module->reason);
	module->reason = strdup(reason);
	return module->reason ? NULL : probe_error_no_memory();
}

struct probe_error *modules_add_unread(
	struct modules *modules, const struct maps *maps, uint64_t address, const char *reason)
{
	const struct mapping *mapping = maps_find(maps, address);
	struct lookup lookup = {.mapped.maps = maps};
	struct module *module;

	if (!mapping || !is_candidate(mapping))
		return NULL;
	module = add_module(modules, mapping);
	if (!module)
		return probe_error_no_memory();
	module->reason = strdup(reason);
	if (!module->reason)
		return probe_error_no_memory();
	set_range(&lookup, module);
	qsort(modules->items, modules->count, sizeof(*modules->items), compare_starts);
	return NULL;
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
