/* SPDX-License-Identifier: MIT */
/*
 * Lists of probes: one array of sites, from the notes of files and of processes' modules.
 *
 * Most files have no probes: only their first four bytes and headers are read, and nothing is kept.
 * Sites' strings belong to the notes, so a list takes about as much memory.
 *
 * forecast.c has the details of single sites.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/patch/patch.h"

/* ==== State =================================================================================== */

/*
 * The state of a process's probes, for a list.
 *
 * A probe with a semaphore is enabled while that is above 0, whoever raised it.
 * process_vm_readv(2) needs no stop, and never sees half an aligned 16-bit word.
 *
 * For a probe without a semaphore, only the registry tells whether controllers have enabled it.
 */

enum { SEMAPHORE_BYTES = 2 };

static uint64_t semaphore_address(const struct probe_list *list, size_t i)
{
	const struct probe_site *site = &list->sites[i];

	return site->bias + site->semaphore + semaphore_offset(list->more[i].kind);
}

static bool has_semaphore(const struct probe_list *list, size_t i)
{
	const struct list_file *file = &list->files[list->more[i].file];
	uint64_t address = semaphore_address(list, i);

	/* The note is not trusted: the semaphore must lie in the module. */
	return list->sites[i].semaphore != 0 && address >= file->start && address < file->end &&
	       file->end - address >= SEMAPHORE_BYTES;
}

static void set_refcount(struct probe_site *site, uint32_t value)
{
	site->refcount = value;
	site->enabled = value > 0;
}

/* Reads the semaphores of the sites from `first` on. Errors: PROBE_ERROR_MEMORY. */
static struct probe_error *read_semaphores(struct probe_list *list, int pid, size_t first)
{
	AUTO(edits_deinit) struct edits edits = {0};
	struct probe_error *error = NULL, *unread = NULL;
	size_t at = 0;

	for (size_t i = first; i < list->site_count && !error; i++)
		if (has_semaphore(list, i) &&
			!edits_add(&edits, semaphore_address(list, i), SEMAPHORE_BYTES))
			error = probe_error_no_memory();
	error = error ?: edits_prepare(&edits);
	if (!error)
		unread = edits_read(&edits, pid);
	for (size_t i = first; i < list->site_count && !error; i++) {
		bool has = has_semaphore(list, i);
		const uint8_t *found = has && !unread ? edits_found(&edits, at++) : NULL;
		uint16_t value;

		list->sites[i].state_known = !has || found;
		if (!found)
			continue;
		memcpy(&value, found, sizeof(value));
		set_refcount(&list->sites[i], value);
	}
	probe_error_free(unread);
	return error;
}

/* ---- The registry ----------------------------------------------------------------- */

/*
 * Adds an OCaml handler's state to a site. site->refcount is the number of its users, `count` that
 * of sessions. `has_jump`: our jump replaces the call. Without it, the site is inconsistent if a
 * handler that has users is not called, or one without users is called (probe_target_status()).
 */
static void add_handlers(
	struct probe_site *site, struct served *known, uint32_t count, bool has_jump)
{
	const struct arch_toggle *toggle = arch_host()->toggle;
	bool wanted = site->refcount > 0;
	uint8_t byte;

	if (count)
		set_refcount(site, site->refcount + count);
	if (has_jump || !site->pc || !toggle ||
		memory_read_known(known, site->pc + site->bias + toggle->offset, &byte, 1) != 1)
		return;
	if (wanted != (byte == toggle->on)) {
		site->inconsistent = true;
		site->enabled = false;
	} else if (wanted) {
		site->plan = plan_toggle.id;
	}
}

/* Adds the registry's counts and plans to the sites from `first` on. */
static void add_references(struct probe_list *list, struct served *known,
	const struct registry *registry, const enum site_state *states, size_t first)
{
	for (size_t i = first; i < list->site_count; i++) {
		const struct list_file *file = &list->files[list->more[i].file];
		struct probe_site *site = &list->sites[i];
		bool is_ocaml = sdt_is_ocaml(list->more[i].kind);
		const struct reg_site *patched =
			site->pc ? registry_site(registry, site->pc + site->bias) : NULL;
		uint64_t key;
		uint32_t count;

		if (patched && site_is_bare(registry, patched))
			patched = NULL;
		if (!registry->home && !is_ocaml)
			continue;
		key = select_key(&file->notes, site->bias, site->provider, site->name);
		count = registry_refcount(registry, key, false);
		if (is_ocaml)
			add_handlers(site, known, count, patched && patched->count);
		else if (count > site->refcount)
			set_refcount(site, count);
		if (patched)
			site->plan = patched->plan;
		if (patched && states && states[patched - registry->sites] != SITE_PATCHED &&
			site_is_wanted(registry, patched)) {
			site->inconsistent = true;
			site->enabled = false;
		}
	}
}

/* Without a readable registry, the state of probes without a semaphore is unknown. */
static struct probe_error *read_registry(
	struct probe_list *list, int pid, size_t first, struct registry *ret)
{
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error = maps_read(pid, &maps) ?: registry_load(pid, &maps, ret);

	if (!error || (error->code != PROBE_ERROR_FORMAT && error->code != PROBE_ERROR_PERMISSION))
		return error;
	probe_error_free(error);
	for (size_t i = first; i < list->site_count; i++)
		if (list->sites[i].semaphore == 0)
			list->sites[i].state_known = false;
	return NULL;
}

/* Fills in enabled, refcount, plan and state_known of sites from `first` on, without a stop. */
static struct probe_error *list_read_state(struct probe_list *list, int pid, size_t first)
{
	AUTO_FREE enum site_state *states = NULL;
	AUTO(registry_deinit) struct registry registry = {0};
	AUTO(edits_deinit) struct edits edits = {0};
	AUTO(served_end) struct served known = served_of(pid);
	struct probe_error *error;
	bool busy;

	if (first == list->site_count)
		return NULL;
	error = read_semaphores(list, pid, first) ?: read_registry(list, pid, first, &registry);
	busy = registry.site_count && lock_is_taken(pid);
	if (!error && registry.site_count)
		error = site_read_all(&registry, pid, &edits, &states);
	/* While a controller changes the process, use only the registry. */
	if (!error && states && (busy || lock_is_taken(pid) || registry_is_stale(&registry, pid))) {
		free(states);
		states = NULL;
	}
	add_references(list, &known, &registry, states, first);
	return error;
}

/* ==== List ==================================================================================== */

/* ---- Basics ----------------------------------------------------------------- */

struct probe_error *probe_list_create(struct probe_list **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? NULL : probe_error_no_memory();
}

void probe_list_functions(struct probe_list *list, const struct probe_pattern *const *patterns,
	size_t count, const struct probe_catalogue *catalogue)
{
	list->patterns = patterns;
	list->pattern_count = count;
	list->catalogue = catalogue;
}

static void forecast_deinit(struct forecast *forecast)
{
	for (size_t i = 0; i < forecast->count; i++) {
		free(forecast->sites[i].reason);
		free(forecast->sites[i].instead);
		free(forecast->sites[i].together_reason);
	}
	free(forecast->sites);
	free(forecast->reason);
	*forecast = (struct forecast){0};
}

void probe_list_free(struct probe_list *list)
{
	if (!list)
		return;
	for (size_t i = 0; i < list->site_count; i++)
		free(list->more[i].args);
	for (size_t i = 0; i < list->file_count; i++) {
		struct list_file *file = &list->files[i];

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

/* The notes of a file, and then its functions. */
static size_t notes_of(const struct list_file *file)
{
	return file->notes.count + file->functions.count;
}

static const struct sdt_note *note_of(const struct list_file *file, size_t i)
{
	return i < file->notes.count ? &file->notes.notes[i]
				     : file->functions.items[i - file->notes.count];
}

/*
 * Adds a file's notes, which it takes over in any case. If it succeeds and the file has notes, it
 * also takes over the object and the descriptor in `file`.
 */
static struct probe_error *add_file(struct probe_list *list, struct object *object,
	struct list_file *file, const struct modules *modules, int pid)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < file->notes.defect_count && !error; i++) {
		const struct sdt_defect *defect = &file->notes.defects[i];

		error = add_defect(list, object_path(object), defect->offset, defect->what);
	}
	if (!error && list->patterns)
		error = select_functions(object, object_path(object), list->patterns,
			list->pattern_count, modules, list->catalogue, &file->functions);
	if (error || notes_of(file) == 0) {
		sdt_notes_deinit(&file->notes);
		sdt_functions_deinit(&file->functions);
		return error;
	}
	file->machine = object_machine(object);
	file->path = strdup(object_path(object));
	file->build_id = strdup(object_build_id(object));
	if (!file->path || !file->build_id || !ARRAY_ROOM(list->files, list->file_count) ||
		!reserve_sites(list, notes_of(file))) {
		sdt_notes_deinit(&file->notes);
		sdt_functions_deinit(&file->functions);
		free(file->path);
		free(file->build_id);
		return probe_error_no_memory();
	}
	file->first_site = file->lines_next = list->site_count;
	for (size_t i = 0; i < notes_of(file); i++) {
		const struct sdt_note *note = note_of(file, i);

		list->more[list->site_count] = (struct list_site){
			.file = list->file_count, .kind = note->kind, .refused = note->refused};
		list->sites[list->site_count++] = (struct probe_site){
			.provider = note->provider,
			.name = note->name,
			.path = file->path,
			.build_id = file->build_id,
			.args_spec = note->args,
			.pc = note->pc,
			.base = note->base,
			.semaphore = note->semaphore,
			.size = note->size,
			.aliases = note->aliases ? note->aliases : "",
			.pid = pid,
			.bias = file->bias,
		};
	}
	list->files[list->file_count++] = *file;
	return NULL;
}

/* ---- Files ------------------------------------------------------------------- */

/* Most files are not ELF: find that out without libelf. */
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
	/* O_NONBLOCK: do not wait at a FIFO. */
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "%s: there is no such file", path);
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return probe_error_new(
			PROBE_ERROR_PERMISSION, "%s: not allowed to read this file", path);
	if (fd < 0)
		return probe_error_system(errno, "cannot open %s", path);
	error = check_elf(fd, path)
		?: object_open_fd(fd, path, &object)
		?: sdt_read(object, &file.notes)
		?: add_file(list, object, &file, NULL, 0);
	if (object)
		object_close(object);
	return error;
}

/* ---- Processes ----------------------------------------------------------------- */

/* Adds a module's probes. The list takes over its object, for details. */
static struct probe_error *add_module(
	struct probe_list *list, const struct modules *modules, struct module *module, int pid)
{
	struct list_file file = {.fd = -1};
	struct probe_error *error;
	size_t files = list->file_count;

	error = module_read_notes(module);
	if (error)
		return error;
	/* An unusable file is a defect, so that other files are listed. */
	if (!module->object)
		return add_defect(list, module->path, 0, module->reason);
	file = (struct list_file){
		.notes = module->notes,
		.functions = module->functions,
		.bias = module->bias,
		.start = module->start,
		.end = module->end,
		.object = module->object,
		.fd = module->fd,
	};
	module->notes_read = false;
	module->functions = (struct sdt_functions){0};
	error = add_file(list, module->object, &file, modules, pid);
	if (list->file_count > files) {
		module->object = NULL;
		module->fd = -1;
	}
	return error;
}

struct probe_error *probe_list_add_process(struct probe_list *list, int pid)
{
	size_t first = list->site_count;
	AUTO(registry_deinit) struct registry registry = {0};
	AUTO(modules_deinit) struct modules modules = {0};
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error;

	error = maps_read(pid, &maps)
			?: modules_read_mapped(procfs_living(pid), &maps, NULL, &modules);
	/* Without the registry, trust all files. The probes' state will show the error. */
	if (!error)
		probe_error_free(registry_load(pid, &maps, &registry));
	error = error ?: recall_probes(&modules, pid, &maps, &registry);
	for (size_t i = 0; i < modules.count && !error; i++)
		error = add_module(list, &modules, &modules.items[i], pid);
	return error ?: list_read_state(list, pid, first);
}

/* ==== Needed ================================================================================== */

/*
 * Finds the libraries that a file needs, in the loader's standard folders. Ignores RUNPATH, and the
 * libraries that these libraries need: the list of a process shows them.
 */

enum { NEEDED_MAX = 256 };

struct needed {
	struct probe_list *list;
	uint16_t machine;
	size_t count;
	struct probe_error *error;
};

/* Adds the library `name` for the same machine in a folder, which may have wildcards. */
static struct probe_error *look_in(
	struct needed *needed, const char *folder, const char *name, bool *found_ret)
{
	struct probe_error *error = NULL;
	char pattern[512];
	glob_t found;

	if (snprintf(pattern, sizeof(pattern), "%s/%s", folder, name) >= (int)sizeof(pattern) ||
		glob(pattern, 0, NULL, &found))
		return NULL;
	for (size_t i = 0; i < found.gl_pathc && !error && !*found_ret; i++) {
		struct object *object;

		error = object_open(found.gl_pathv[i], &object);
		if (error && error->code != PROBE_ERROR_MEMORY) {
			probe_error_free(error);
			error = NULL;
			continue;
		}
		if (error)
			break;
		*found_ret = object_machine(object) == needed->machine;
		object_close(object);
		if (*found_ret)
			error = probe_list_add_file(needed->list, found.gl_pathv[i]);
	}
	globfree(&found);
	return error;
}

/* Looks for a library in all folders. Returns false to end the search. */
static bool take_needed(const char *name, void *data)
{
	static const char *const folders[] = {"/lib/*-linux-*", "/usr/lib/*-linux-*", "/lib64",
		"/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"};
	struct needed *needed = data;
	bool found = false;

	/* A file may name any text as a library. */
	if (!strpbrk(name, "/*?[\\"))
		for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
			if (!needed->error && !found)
				needed->error = look_in(needed, folders[i], name, &found);
	return !needed->error && ++needed->count < NEEDED_MAX;
}

struct probe_error *probe_list_add_needed(struct probe_list *list, const char *path)
{
	struct needed needed = {.list = list};
	struct object *object;
	struct probe_error *error = object_open(path, &object);

	if (error)
		return error;
	needed.machine = object_machine(object);
	object_needed(object, take_needed, &needed);
	object_close(object);
	return needed.error;
}

/* ==== Check =================================================================================== */

struct probe_error *probe_list_check(
	const struct probe_list *list, const struct probe_pattern *pattern)
{
	struct probe_error *error = NULL;
	bool any = false;

	for (size_t i = 0; i < list->file_count; i++) {
		const struct list_file *file = &list->files[i];
		size_t total;
		AUTO_FREE const struct sdt_note **notes =
			select_by_name(&file->notes, &file->functions, &total);

		if (!notes)
			return probe_error_first(error, probe_error_no_memory());
		for (size_t k = 0, end; k < total; k = end) {
			struct probe_error *lacking;

			end = select_probe_end(notes, total, k);
			if (!probe_pattern_matches(
				    pattern, file->path, notes[k]->provider, notes[k]->name))
				continue;
			lacking = select_lacking(pattern, file->machine, notes + k, end - k);
			any |= !lacking;
			error = probe_error_first(error, lacking);
		}
	}
	/* A wildcard leaves out the probes that lack an argument. */
	if (!error || !any || pattern_is_exact(pattern) || error->code != PROBE_ERROR_USAGE)
		return error;
	probe_error_free(error);
	return NULL;
}
