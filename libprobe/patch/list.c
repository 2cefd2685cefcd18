/* SPDX-License-Identifier: MIT */
/*
 * Lists of probes: reads the notes of files and of a process's modules into one array of sites.
 *
 * A file without probes, like nearly every file, costs opening it and reading four bytes and
 * its headers; nothing of it is kept. The strings of the sites belong to the notes, so a list
 * takes about as much memory as the notes.
 *
 * state.c reads the state of a process's probes, detail.c the details of single sites.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"
#include "libprobe/registry/registry.h"
#include "libprobe/base/procfs.h"

/* ---- Life ------------------------------------------------------------------- */

struct probe_error *probe_list_create(struct probe_list **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? NULL : probe_error_no_memory();
}

static void file_deinit(struct list_file *file)
{
	if (file->lines)
		lines_close(file->lines);
	if (file->object)
		object_close(file->object);
	if (file->fd >= 0)
		close(file->fd);
	sdt_notes_deinit(&file->notes);
	forecast_deinit(&file->forecast);
	free(file->build_id);
	free(file->path);
}

void probe_list_free(struct probe_list *list)
{
	if (!list)
		return;
	for (size_t i = 0; i < list->site_count; i++)
		free(list->more[i].args);
	for (size_t i = 0; i < list->file_count; i++)
		file_deinit(&list->files[i]);
	for (size_t i = 0; i < list->defect_count; i++) {
		free((char *)list->defects[i].path);
		free((char *)list->defects[i].what);
	}
	for (size_t i = 0; i < list->process_count; i++)
		forecast_deinit(&list->processes[i].forecast);
	free(list->processes);
	free(list->files);
	free(list->sites);
	free(list->more);
	free(list->defects);
	free(list);
}

const struct probe_site *probe_list_sites(const struct probe_list *list, size_t *count_ret)
{
	*count_ret = list->site_count;
	return list->sites;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct probe_error *probe_list_names(const struct probe_list *list, char ***ret, size_t *count_ret)
{
	size_t bytes = (list->site_count + 1) * sizeof(**ret), count = 0;
	char **names, *text;

	for (size_t i = 0; i < list->site_count; i++)
		bytes += strlen(list->sites[i].provider) + strlen(list->sites[i].name) + 2;
	names = malloc(bytes);
	if (!names)
		return probe_error_no_memory();
	text = (char *)(names + list->site_count + 1);
	for (size_t i = 0; i < list->site_count; i++) {
		names[i] = text;
		text += sprintf(text, "%s:%s", list->sites[i].provider, list->sites[i].name) + 1;
	}
	qsort(names, list->site_count, sizeof(*names), compare_names);
	for (size_t i = 0; i < list->site_count; i++)
		if (!count || strcmp(names[count - 1], names[i]) != 0)
			names[count++] = names[i];
	*ret = names;
	*count_ret = count;
	return NULL;
}

const struct probe_defect *probe_list_defects(const struct probe_list *list, size_t *count_ret)
{
	*count_ret = list->defect_count;
	return list->defects;
}

/* ---- Adding ----------------------------------------------------------------- */

static struct probe_error *add_defect(
	struct probe_list *list, const char *path, uint64_t offset, const char *what)
{
	struct probe_defect defect = {.offset = offset};

	if (!ARRAY_ROOM(list->defects, list->defect_count))
		return probe_error_no_memory();
	defect.path = strdup(path);
	defect.what = strdup(what);
	if (!defect.path || !defect.what) {
		free((char *)defect.path);
		free((char *)defect.what);
		return probe_error_no_memory();
	}
	list->defects[list->defect_count++] = defect;
	return NULL;
}

/* Makes room for `count` more sites in both arrays. */
static bool reserve_sites(struct probe_list *list, size_t count)
{
	size_t wanted = list->site_count + count;
	struct probe_site *sites;
	struct list_site *more;

	if (wanted <= list->site_room)
		return true;
	if (wanted < list->site_room * 2)
		wanted = list->site_room * 2;
	sites = reallocarray(list->sites, wanted, sizeof(*sites));
	if (!sites)
		return false;
	list->sites = sites;
	more = reallocarray(list->more, wanted, sizeof(*more));
	if (!more)
		return false;
	list->more = more;
	list->site_room = wanted;
	return true;
}

static void add_sites(struct probe_list *list, size_t file_index, int pid)
{
	struct list_file *file = &list->files[file_index];

	file->first_site = file->lines_next = list->site_count;
	for (size_t i = 0; i < file->notes.count; i++) {
		const struct sdt_note *note = &file->notes.notes[i];

		list->more[list->site_count] = (struct list_site){.file = file_index};
		list->sites[list->site_count++] = (struct probe_site){
			.provider = note->provider,
			.name = note->name,
			.path = file->path,
			.build_id = file->build_id,
			.args_spec = note->args,
			.pc = note->pc,
			.base = note->base,
			.semaphore = note->semaphore,
			.pid = pid,
			.bias = file->bias,
		};
	}
}

/*
 * Adds what was read from a file. Always takes ownership of the notes, and of the object and fd
 * of `file` if it succeeds and there are notes.
 */
static struct probe_error *add_file(
	struct probe_list *list, struct object *object, struct list_file *file, int pid)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < file->notes.defect_count && !error; i++) {
		const struct sdt_defect *defect = &file->notes.defects[i];

		error = add_defect(list, object_path(object), defect->offset, defect->what);
	}
	if (error || file->notes.count == 0) {
		sdt_notes_deinit(&file->notes);
		return error;
	}
	file->machine = object_machine(object);
	file->path = strdup(object_path(object));
	file->build_id = strdup(object_build_id(object));
	if (!file->path || !file->build_id || !ARRAY_ROOM(list->files, list->file_count) ||
		!reserve_sites(list, file->notes.count)) {
		sdt_notes_deinit(&file->notes);
		free(file->path);
		free(file->build_id);
		return probe_error_no_memory();
	}
	list->files[list->file_count] = *file;
	add_sites(list, list->file_count++, pid);
	return NULL;
}

/* ---- Files ------------------------------------------------------------------- */

static struct probe_error *open_error(const char *path, int err)
{
	switch (err) {
	case ENOENT:
	case ENOTDIR:
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "%s: there is no such file", path);
	case EACCES:
	case EPERM:
		return probe_error_new(
			PROBE_ERROR_PERMISSION, "%s: not allowed to read this file", path);
	default:
		return probe_error_system(err, "cannot open %s", path);
	}
}

/*
 * Says why a file is not ELF; NULL if it is. Checked before libelf sees it, because most files
 * of a system are not.
 */
static struct probe_error *check_elf(int fd, const char *path)
{
	struct stat st;
	char magic[4];
	ssize_t got = pread(fd, magic, sizeof(magic), 0);

	if (got == 4 && memcmp(magic, "\177ELF", 4) == 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		return probe_error_new(
			PROBE_ERROR_FORMAT, "%s: is a directory, not an ELF file", path);
	if (got < 0 && errno != ESPIPE && errno != EAGAIN && errno != EINVAL)
		return probe_error_system(errno, "cannot read %s", path);
	return probe_error_new(PROBE_ERROR_FORMAT, "%s: not an ELF file", path);
}

struct probe_error *probe_list_add_file(struct probe_list *list, const char *path)
{
	struct list_file file = {.fd = -1};
	struct object *object = NULL;
	struct probe_error *error;
	int fd;

	/* O_NONBLOCK: a FIFO must not block us. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return open_error(path, errno);
	error = check_elf(fd, path);
	if (!error)
		error = object_open_fd(fd, path, &object);
	if (!error)
		error = sdt_read(object, &file.notes);
	if (!error)
		error = add_file(list, object, &file, 0);
	if (object)
		object_close(object);
	close(fd);
	return error;
}

/* ---- Processes ----------------------------------------------------------------- */

/* Moves what details need from the module to the list. */
static struct probe_error *add_module(struct probe_list *list, struct module *module, int pid)
{
	struct list_file file = {.fd = -1};
	struct probe_error *error;
	size_t files = list->file_count;

	error = module_read_notes(module);
	if (error)
		return error;
	/* An unusable file does not hide the probes of the other files. */
	if (!module->object)
		return add_defect(list, module->path, 0, module->reason);
	file = (struct list_file){
		.notes = module->notes,
		.bias = module->bias,
		.start = module->start,
		.end = module->end,
		.object = module->object,
		.fd = module->fd,
	};
	module->notes_read = false;
	error = add_file(list, module->object, &file, pid);
	if (list->file_count > files) {
		module->object = NULL;
		module->fd = -1;
	}
	return error;
}

struct probe_error *probe_list_add_process(struct probe_list *list, int pid)
{
	size_t first = list->site_count;
	struct registry registry = {0};
	struct modules modules = {0};
	struct maps maps = {0};
	struct probe_error *error = maps_read(pid, &maps);

	if (!error)
		error = modules_read_mapped(procfs_living(pid), &maps, NULL, &modules);
	/*
	 * If the registry cannot be loaded, believe all files; the probes' state tells what is
	 * wrong.
	 */
	if (!error)
		probe_error_free(registry_load(pid, &maps, &registry));
	if (!error)
		error = recall_probes(&modules, pid, &maps, &registry, NULL, 0);
	for (size_t i = 0; i < modules.count && !error; i++)
		error = add_module(list, &modules.items[i], pid);
	registry_deinit(&registry);
	modules_deinit(&modules);
	maps_deinit(&maps);
	return error ? error : list_read_state(list, pid, first);
}
