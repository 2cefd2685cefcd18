/* SPDX-License-Identifier: MIT */
/*
 * Which ELF files a process has mapped, and where. mapped_file.c opens them.
 *
 * One mapping determines the bias: the PT_LOAD segment that contains the mapping's file offset
 * gives its link-time address.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"

/* State shared by all mappings of one look-up. */
struct lookup {
	struct mapped_files mapped;
	struct files *files;	/* may be NULL */
	struct modules modules; /* also rejected ones, which have neither object nor reason */
};

/* ---- Where a file is mapped ------------------------------------------------ */

/* The file offset of a segment's first page. */
static uint64_t first_page(const struct object_segment *segment)
{
	return segment->offset & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

/* The bias of a mapping if it belongs to this segment; false if it does not. */
static bool bias_by_segment(
	const struct mapping *mapping, const struct object_segment *segment, uint64_t *ret)
{
	uint64_t first = first_page(segment);

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

static bool fits_bias(const struct object *object, const struct mapping *mapping, uint64_t bias)
{
	size_t count;
	const struct object_segment *segments = object_segments(object, &count);

	for (size_t i = 0; i < count; i++) {
		uint64_t other;

		if (bias_by_segment(mapping, &segments[i], &other) && other == bias)
			return true;
	}
	return false;
}

bool module_has_mapping(const struct module *module, const struct mapping *mapping)
{
	return module->inode == mapping->inode && module->dev_major == mapping->dev_major &&
	       module->dev_minor == mapping->dev_minor &&
	       (!module->object || fits_bias(module->object, mapping, module->bias));
}

/* Whether a mapping belongs to a module that is already known (or was rejected). */
static bool is_known(const struct lookup *lookup, const struct mapping *mapping)
{
	for (size_t i = lookup->modules.count; i-- > 0;)
		if (module_has_mapping(&lookup->modules.items[i], mapping))
			return true;
	return false;
}

/* The kernel maps the end of .bss anonymously after the file's last mapping. */
static void add_bss(const struct lookup *lookup, struct module *module)
{
	const struct mapping *bss = maps_find(lookup->mapped.maps, module->end);
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

static void module_deinit(struct module *module)
{
	if (!module->file) {
		if (module->notes_read)
			sdt_notes_deinit(&module->notes);
		object_close(module->object);
	}
	if (module->fd >= 0 && !module->file)
		close(module->fd);
	if (module->successor >= 0)
		close(module->successor);
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

/*
 * Where the file may be kept for the next look-up; or NULL: a file in memory may get further
 * probes, which its status does not tell (libprobe/runtime/events).
 */
static struct files *keeper_of(const struct lookup *lookup, const struct mapping *mapping)
{
	return mapped_is_memory(mapping) ? NULL : lookup->files;
}

/* A file that is known already takes one system call, and no descriptor. */
static struct file *find_known(struct lookup *lookup, const struct mapping *mapping)
{
	struct stat st;

	return keeper_of(lookup, mapping) && mapped_stat(&lookup->mapped, mapping, &st)
		       ? files_find(lookup->files, &st, mapping->path)
		       : NULL;
}

static void module_reject(struct module *module)
{
	if (!module->file)
		object_close(module->object);
	module->object = NULL;
}

static struct probe_error *set_bias(const struct mapping *mapping, struct module *module)
{
	/* Mapped as data, for example by a debugger or an editor. */
	if (!bias_of(module->object, mapping, &module->bias))
		module_reject(module);
	return NULL;
}

/*
 * A file that cannot be opened: reads its copy, or says why. Sets either module->fd or
 * module->reason.
 */
static struct probe_error *open_successor(
	struct lookup *lookup, const struct mapping *mapping, int err, struct module *module)
{
	int fd = mapped_successor(&lookup->mapped, mapping);

	if (fd >= 0 && mapped_is_copy(&lookup->mapped, mapping, fd)) {
		module->fd = fd;
		return NULL;
	}
	module->successor = fd;
	module->reason = mapped_failure(mapping, fd >= 0, err);
	return module->reason ? NULL : probe_error_no_memory();
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
		return set_bias(mapping, module);
	}
	module->fd = mapped_open(&lookup->mapped, mapping, &err);
	if (module->fd < 0 && procfs_no_room(err))
		return probe_error_system(err, "cannot open the files that process %d has mapped",
			(int)lookup->mapped.pid);
	/* A memfd usually holds code made at run time, so a closed one is no loss. */
	if (module->fd < 0 && mapped_is_memory(mapping))
		return NULL;
	if (module->fd < 0) {
		error = open_successor(lookup, mapping, err, module);
		if (error || module->fd < 0)
			return error;
	}
	if (!has_elf_magic(module->fd))
		return NULL;
	if (keeper_of(lookup, mapping))
		error = files_open(lookup->files, module->fd, module->path, &module->file);
	else
		error = object_open_fd(module->fd, module->path, &module->object);
	if (!error && module->file) {
		close(module->fd);
		module->fd = module->file->fd;
		module->object = module->file->object;
	}
	if (error) {
		struct probe_error *second = module_distrust(module, error->message);

		probe_error_free(error);
		return second;
	}
	return set_bias(mapping, module);
}

/* A module about which only its place is known so far. */
static struct module module_of(const struct mapping *mapping)
{
	return (struct module){
		.path = strdup(mapping->path),
		.dev_major = mapping->dev_major,
		.dev_minor = mapping->dev_minor,
		.inode = mapping->inode,
		.deleted = mapping->deleted,
		.fd = -1,
		.successor = -1,
	};
}

static struct probe_error *lookup_add(struct lookup *lookup, const struct mapping *mapping)
{
	struct modules *modules = &lookup->modules;
	struct module *module;
	struct probe_error *error;

	if (!ARRAY_ROOM(modules->items, modules->count))
		return probe_error_no_memory();
	module = &modules->items[modules->count];
	*module = module_of(mapping);
	lookup->modules.count++;
	if (!module->path)
		return probe_error_no_memory();
	error = module_open(lookup, mapping, module);
	if (!error && (module->object || module->reason))
		set_range(lookup, module);
	return error;
}

/* ---- Text that a program has moved ------------------------------------------- */

/*
 * Some programs copy their text to memory of their own, for huge pages (hugify, iodlr), and map
 * that where the file was mapped. If this was all of the text, no mapping of the file has code.
 * Then the file is that of the mapping beside it, if the file has code at this address. The bytes
 * may have been changed, as in any process: patching compares those of each site with the file's.
 *
 * The memory is anonymous, or it is a file in memory (memfd_create(2), tmpfs, hugetlbfs), mapped
 * privately or shared. If it is shared, the probes are listed, and patching refuses their sites:
 * processes that we do not know may have it mapped, and later children will.
 */
static bool is_moved_text(const struct lookup *lookup, const struct mapping *m)
{
	if (!m->executable || shared_is_named(m))
		return false;
	if (!m->path[0] || strncmp(m->path, "[anon", 5) == 0)
		return true;
	if (m->path[0] != '/')
		return false;
	/* The file of the text itself, and a program that was copied to memory as a whole. */
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

/* Is it of a file that the program has mapped? */
static bool is_of_file(const struct mapping *mapping)
{
	return mapping->inode && mapping->path[0] == '/' && !shared_is_named(mapping);
}

/*
 * The mapping of an ELF file before or after the text at `i`; NULL: none. In between there may be a
 * gap, since segments for huge pages begin at multiples of 2 MiB, and other memory in the gap.
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
	/* The header may be a part of the text. */
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
	/* A file that cannot be read, and does not touch the text, is perhaps another one. */
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
	struct probe_error *error, *second;

	if (module->notes_read || !module->object)
		return NULL;
	if (module->file) {
		error = file_read_notes(module->file);
		module->notes = module->file->notes;
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

	/* The errors of readers begin with the path. */
	if (strncmp(reason, module->path, path) == 0 && strncmp(reason + path, ": ", 2) == 0)
		reason += path + 2;
	if (!module->file) {
		if (module->notes_read)
			sdt_notes_deinit(&module->notes);
		object_close(module->object);
	}
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
	if (!ARRAY_ROOM(modules->items, modules->count))
		return probe_error_no_memory();
	module = &modules->items[modules->count++];
	*module = module_of(mapping);
	module->reason = strdup(reason);
	if (!module->path || !module->reason)
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
