/* SPDX-License-Identifier: MIT */
/* `probectl list`: lists the probes of files, of processes, or of the system. */
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/list/listing.h"
#include "cli/options.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "libprobe/base/nearest.h"
#include "libprobe/base/array.h"
#include "libprobe/base/map.h"
#include "libprobe/base/procfs.h"
#include "probe/target.h"

/* ==== Scanning the system ===================================================================== */

/*
 * First we collect file names: the regular files of each directory, then the targets of symbolic
 * links, each inode once. Then a few threads read the files, a handful at a time, into lists of
 * their own.
 *
 * Folders below the library directories hold some hundred thousand files that are not ELF files (a
 * JDK, modules of Perl), so we only search those of programs that are known for their probes.
 */

/* Lists of sites, one for each reading thread. All sites of a file are in the same list. */
struct scan {
	struct probe_list **lists;
	size_t count;
};

/* clang-format off */
static const char *const patterns[] = {
	"/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/libexec",
	"/usr/local/bin", "/usr/local/sbin", "/usr/local/lib",
	"/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/usr/lib32",
	/* Multiarch triplets. The third part is gnu, gnueabihf, gnux32, musl ... */
	"/lib/*-linux-*", "/usr/lib/*-linux-*", "/usr/local/lib/*-linux-*",
	/* Programs that are known for their probes. */
	"/usr/lib/jvm/*/lib/server", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
};
/* clang-format on */

enum {
	/* With more threads, the threads only wait for the kernel's locks of directories. */
	THREADS_MAX = 4,
	FILES_AT_ONCE = 8
};

/* ---- Names --------------------------------------------------------------------- */

struct names {
	char **paths;
	size_t count;
	/* the devices and inodes of the files that were found and the directories that were read */
	struct map seen;
	bool no_memory;
};

/* Returns false if the set already has the inode, or if out of memory. */
static bool add_inode(struct names *names, dev_t device, ino_t inode)
{
	const size_t before = names->seen.count;

	if (!map_add(&names->seen, 0, MAP_KEY(MAP_OBJECT(device), MAP_OBJECT(inode))))
		names->no_memory = true;
	return names->seen.count > before;
}

static void add_file(
	struct names *names, dev_t device, ino_t inode, const char *directory, const char *file)
{
	if (!add_inode(names, device, inode))
		return;
	if (ARRAY_ROOM(names->paths, names->count) &&
		asprintf(&names->paths[names->count], "%s/%s", directory, file) >= 0)
		names->count++;
	else
		names->no_memory = true;
}

static void add_entry(struct names *names, const char *directory, int fd, dev_t device,
	const struct dirent *entry, bool links)
{
	struct stat st;

	if (entry->d_type == DT_REG && !links) {
		add_file(names, device, entry->d_ino, directory, entry->d_name);
		return;
	}
	/* Ask stat(2), because some file systems do not report the type of a file. */
	if (links ? entry->d_type != DT_LNK : entry->d_type != DT_UNKNOWN)
		return;
	if (fstatat(fd, entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
		add_file(names, st.st_dev, st.st_ino, directory, entry->d_name);
}

/* Adds the regular files of a directory, or with `links`, the targets of its symbolic links. */
static void add_directory(struct names *names, const char *path, bool links)
{
	AUTO_DIR DIR *directory = opendir(path);
	const struct dirent *entry;
	struct stat st;

	if (!directory)
		return;
	/*
	 * Read each directory only once: /bin is often the same as /usr/bin. In the second round,
	 * for links, the set already has it.
	 */
	if (fstat(dirfd(directory), &st) == 0 &&
		(links || add_inode(names, st.st_dev, st.st_ino))) {
		while ((entry = readdir(directory)))
			add_entry(names, path, dirfd(directory), st.st_dev, entry, links);
	}
}

/* Collects all file names. /lib and /usr/lib may be the same directory, so links are resolved. */
static void find_names(struct names *names)
{
	AUTO(globfree) glob_t found = {0};

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		(void)glob(patterns[i], GLOB_ONLYDIR | (i > 0 ? GLOB_APPEND : 0), NULL, &found);
	for (int links = 0; links < 2; links++) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			char *path = realpath(found.gl_pathv[i], NULL);

			if (path)
				add_directory(names, path, links);
			free(path);
		}
	}
}

/* ---- Reading them ------------------------------------------------------------------- */

struct work {
	const struct names *names;
	/* Index of the next file in names; each thread takes a few indices from here. */
	atomic_size_t next;
};

struct worker {
	pthread_t thread;
	struct work *work;
	struct probe_list *list; /* the sites that this thread has found */
	struct probe_error *error;
	/* The progress line, for one of the workers; NULL for the others. */
	struct progress *progress;
};

static void *work_through(void *data)
{
	struct worker *worker = data;
	struct work *work = worker->work;
	const struct names *names = work->names;

	for (;;) {
		/* Relaxed: each index is handed out once, and the names are complete. */
		size_t at =
			atomic_fetch_add_explicit(&work->next, FILES_AT_ONCE, memory_order_relaxed);
		size_t end = at + FILES_AT_ONCE;

		if (at >= names->count)
			return NULL;
		for (; at < end && at < names->count; at++) {
			worker->error = probe_list_add_file(worker->list, names->paths[at]);
			if (worker->error && worker->error->code == PROBE_ERROR_MEMORY)
				return NULL;
			/* Most files are not ELF files, or are unreadable: that is no error. */
			probe_error_free(worker->error);
			worker->error = NULL;
		}
		if (worker->progress && progress_due(worker->progress))
			progress_show(worker->progress, "%zu of %zu files read", at, names->count);
	}
}

/* Reads all files. The calling thread is the first worker, and the only one if need be. */
static struct probe_error *read_files(const struct names *names, struct scan *scan)
{
	struct work work = {.names = names};
	struct worker workers[THREADS_MAX] = {0};
	struct progress progress = progress_every(PROGRESS_NS);
	struct probe_error *error = NULL;
	size_t started = 0;

	workers[0].progress = &progress;
	for (size_t i = 0; i < scan->count; i++) {
		workers[i].work = &work;
		workers[i].list = scan->lists[i];
	}
	while (started + 1 < scan->count && pthread_create(&workers[started + 1].thread, NULL,
						    work_through, &workers[started + 1]) == 0)
		started++;
	work_through(&workers[0]);
	for (size_t i = 0; i <= started; i++) {
		if (i > 0)
			pthread_join(workers[i].thread, NULL);
		error = probe_error_first(error, workers[i].error);
	}
	progress_end(&progress);
	return error;
}

static void scan_deinit(struct scan *scan)
{
	for (size_t i = 0; i < scan->count; i++)
		probe_list_free(scan->lists[i]);
	free(scan->lists);
	*scan = (struct scan){0};
}

/*
 * Reads every ELF file in the standard directories once, except unreadable ones. Shows progress on
 * a terminal. Initialise *ret with {0}. Errors: PROBE_ERROR_MEMORY.
 */
static struct probe_error *scan_system(struct scan *ret)
{
	struct names names = {0};
	struct probe_error *error = NULL;
	size_t threads = 1;
	cpu_set_t cpus;

	/*
	 * A seccomp filter might kill us at the end of a thread, when glibc calls madvise(2), so we
	 * then start no threads.
	 */
	if (procfs_status_number(getpid(), "Seccomp:") <= 0 &&
		sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		threads = (size_t)CPU_COUNT(&cpus);
	threads = threads < THREADS_MAX ? threads : THREADS_MAX;
	*ret = (struct scan){.lists = calloc(threads, sizeof(struct probe_list *))};
	if (!ret->lists)
		return probe_error_no_memory();
	for (; ret->count < threads && !error; ret->count += !error)
		error = probe_list_create(&ret->lists[ret->count]);
	if (!error) {
		find_names(&names);
		error = names.no_memory ? probe_error_no_memory() : read_files(&names, ret);
	}
	for (size_t i = 0; i < names.count; i++)
		free(names.paths[i]);
	free(names.paths);
	map_clear(&names.seen);
	if (error)
		scan_deinit(ret);
	return error;
}

/* ==== Program ================================================================================= */

/* Is it an ELF file for this machine? Source: elf(5). */
static bool is_native(const char *path)
{
	Elf64_Ehdr ours = {0}, its = {0};
	AUTO_FD int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool ret = self >= 0 && fd >= 0 && read(self, &ours, sizeof(ours)) == sizeof(ours) &&
		   read(fd, &its, sizeof(its)) == sizeof(its) &&
		   memcmp(ours.e_ident, its.e_ident, EI_DATA + 1) == 0 &&
		   ours.e_machine == its.e_machine;

	return ret;
}

/* Returns the path of a program, or of a library such as libssl.so.3; or NULL. */
static char *file_find(const char *name)
{
	char *found = file_in_path(name);

	if (!*name || strpbrk(name, "/*?[\\"))
		return NULL;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]) && !found; i++) {
		glob_t paths = {0};
		char *pattern;

		if (asprintf(&pattern, "%s/%s", patterns[i], name) < 0)
			return NULL;
		(void)glob(pattern, 0, NULL, &paths);
		for (size_t k = 0; k < paths.gl_pathc && !found; k++)
			if (is_native(paths.gl_pathv[k]))
				found = strdup(paths.gl_pathv[k]);
		globfree(&paths);
		free(pattern);
	}
	return found;
}

/* ==== The command ============================================================================= */

struct list_command {
	struct common_options options;
	unsigned int verbose;
	bool json;
	bool functions;	    /* operands name functions, and functions are listed */
	const char **files; /* operands that are files; owned by argv or equal to `program` */
	size_t file_count;
	char *program;	   /* path of the first operand if it is a program in $PATH; owned */
	struct scan lists; /* the lists of probes that were read */
	struct listing listing;
	struct progress progress;
	bool failed; /* a file or a process was unreadable, and this has been reported */
};

/* ---- Files and processes ----------------------------------------------------------- */

/*
 * Returns true if an operand is a FILE: it exists as a file, or it has a slash and is neither
 * path:provider:name nor a regular expression between slashes.
 */
static bool is_file(const char *operand)
{
	size_t length = strlen(operand);

	if (access(operand, F_OK) == 0)
		return true;
	if (!strchr(operand, '/') || strchr(operand, ':'))
		return false;
	return !(length > 2 && operand[0] == '/' && operand[length - 1] == '/');
}

/* Adds an operand that names functions; `SSL_*` is fn:SSL_* here. */
static struct probe_error *add_function(struct common_options *options, const char *text)
{
	static const char *const prefixes[] = {"fn:", "uprobe:", "uretprobe:"};
	AUTO_FREE char *named = NULL;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
			return options_add_operand(options, text);
	if (asprintf(&named, "fn:%s", text) < 0)
		return probe_error_no_memory();
	return options_add_operand(options, named);
}

static struct probe_error *sort_operands(struct list_command *command)
{
	struct common_options *options = &command->options;
	struct probe_error *error = processes_find(options);

	if (error)
		return error;
	command->files = calloc(options->operand_count + 1, sizeof(*command->files));
	if (!command->files)
		return probe_error_no_memory();
	for (size_t i = 0; i < options->operand_count && !error; i++) {
		const char *text = options->operands[i], *file = NULL;

		/* If processes are given, operands are PROBEs of these processes, not files. */
		if (!options->pids.count && is_file(text))
			file = text;
		/* In `list ruby raise`, `ruby` is a program in $PATH, and `raise` a PROBE. */
		else if (!options->pids.count && i == 0)
			file = command->program =
				command->functions ? file_find(text) : file_in_path(text);
		if (file)
			command->files[command->file_count++] = file;
		else if (command->functions)
			error = add_function(options, options->operands[i]);
		else
			error = options_add_operand(options, text);
	}
	if (!error && command->functions && !command->file_count && !options->pids.count)
		error = usage_error(
			"--functions: %s%s%sname a FILE or a process (-p), as in `probectl list "
			"--functions libssl.so.3 'SSL_*'`",
			options->operand_count ? "there is no file, program or library '" : "",
			options->operand_count ? options->operands[0] : "",
			options->operand_count ? "'; " : "");
	if (!error && command->functions && !options->patterns.count)
		error = add_function(options, "*");
	for (size_t i = 0; i < options->patterns.count && command->functions; i++)
		probe_pattern_pair(options->patterns.items[i]);
	return error;
}

/* Reports an unreadable file or process. Returns only a lack of memory as an error. */
static struct probe_error *note_failure(struct list_command *command, struct probe_error *error)
{
	if (!error || error->code == PROBE_ERROR_MEMORY)
		return error;
	command->failed = true;
	progress_end(&command->progress);
	report_error(error);
	return NULL;
}

/* Shows how many files or processes have been read, if reading takes long. */
static void show_progress(struct list_command *command, const char *what, size_t done, size_t count)
{
	if (progress_due(&command->progress))
		progress_show(&command->progress, "%zu of %zu %s read", done, count, what);
}

static struct probe_error *list_process(const struct list_command *command, pid_t pid)
{
	struct probe_target *target = NULL;
	struct probe_error *error = NULL;

	if (command->options.meant)
		error = processes_open(&command->options, pid, &target);
	probe_target_close(target);
	return error ?: probe_list_add_process(command->lists.lists[0], pid);
}

static struct probe_error *read_lists(struct list_command *command)
{
	const struct pid_list *pids = &command->options.pids;
	struct mistake mistake = {0};
	struct probe_error *error, *alike;

	if (command->file_count == 0 && pids->count == 0)
		return scan_system(&command->lists);
	command->lists.lists = calloc(1, sizeof(struct probe_list *));
	if (!command->lists.lists)
		return probe_error_no_memory();
	error = probe_list_create(&command->lists.lists[0]);
	if (error)
		return error;
	command->lists.count = 1;
	/* Arguments are shown in details only. */
	if (command->functions && (command->verbose || command->json))
		error = options_catalogue(&command->options.patterns);
	if (error)
		return error;
	probe_list_functions(command->lists.lists[0],
		(const struct probe_pattern *const *)command->options.patterns.items,
		command->options.patterns.count, command->options.patterns.catalogue);
	command->progress = progress_every(PROGRESS_NS);
	for (size_t i = 0; i < command->file_count && !error; i++) {
		show_progress(command, "files", i, command->file_count);
		error = note_failure(
			command, probe_list_add_file(command->lists.lists[0], command->files[i]));
	}
	for (size_t i = 0; i < pids->count && !error; i++) {
		show_progress(command, "processes", i, pids->count);
		error = processes_unless_ended(
			&command->options, i, list_process(command, pids->items[i]));
		if (error && mistake_take(&mistake, pids->items[i], error))
			error = NULL;
		error = note_failure(command, error);
	}
	progress_end(&command->progress);
	alike = mistake_end(&mistake, &command->options, 0);
	if (error)
		probe_error_free(alike);
	return error ?: note_failure(command, alike);
}

static void report_defects(const struct list_command *command)
{
	for (size_t i = 0; i < command->lists.count; i++) {
		size_t count;
		const struct probe_defect *defects =
			probe_list_defects(command->lists.lists[i], &count);

		for (size_t k = 0; k < count; k++) {
			if (defects[k].offset > 0)
				report_warning("%s: offset 0x%" PRIx64 ": %s", defects[k].path,
					defects[k].offset, defects[k].what);
			else
				report_warning("%s: %s", defects[k].path, defects[k].what);
		}
	}
}

/* ---- Choosing sites ----------------------------------------------------------------- */

/*
 * Returns true if any pattern matches the site. Sets the flag of each matching pattern, because a
 * pattern that matches no site is an error.
 */
static bool is_wanted(
	const struct pattern_list *patterns, const struct probe_site *site, bool *matched)
{
	bool wanted = patterns->count == 0;

	for (size_t i = 0; i < patterns->count; i++) {
		if (probe_pattern_matches(
			    patterns->items[i], site->path, site->provider, site->name)) {
			matched[i] = true;
			wanted = true;
		}
	}
	return wanted;
}

static int compare_paths(const void *left, const void *right)
{
	const struct listed_site *a = left, *b = right;

	return strcmp(a->site->path, b->site->path) ?: ORDER(a->order, b->order);
}

static struct probe_error *select_sites(struct list_command *command, bool *matched)
{
	struct listing *listing = &command->listing;
	size_t total = 0, count;

	for (size_t i = 0; i < command->lists.count; i++) {
		probe_list_sites(command->lists.lists[i], &count);
		total += count;
	}
	listing->items = calloc(total + 1, sizeof(*listing->items));
	if (!listing->items)
		return probe_error_no_memory();
	for (size_t i = 0; i < command->lists.count; i++) {
		struct probe_list *list = command->lists.lists[i];
		const struct probe_site *sites = probe_list_sites(list, &count);

		for (size_t k = 0; k < count; k++) {
			if (!is_wanted(&command->options.patterns, &sites[k], matched))
				continue;
			listing->items[listing->count] = (struct listed_site){
				.list = list, .site = &sites[k], .order = listing->count};
			listing->count++;
		}
	}
	/* Sort, because the order of the lists depends on the timing of the threads. */
	if (command->lists.count > 1)
		qsort(listing->items, listing->count, sizeof(*listing->items), compare_paths);
	/* Number the modules. All sites of a module share the same pointer to the module's path. */
	for (size_t i = 1; i < listing->count; i++) {
		struct listed_site *items = listing->items;

		items[i].module =
			items[i - 1].module + (items[i].site->path != items[i - 1].site->path);
	}
	return NULL;
}

/* Writes the places that were searched into `room`, for an error message. */
static const char *describe_where(const struct list_command *command, char *room, size_t size)
{
	const struct common_options *options = &command->options;
	const char *part;
	size_t defects = 0;

	for (size_t i = 0; i < command->lists.count && !defects; i++)
		probe_list_defects(command->lists.lists[i], &defects);
	part = defects ? READ_OF : "";

	if (options->pids.count == 1)
		snprintf(room, size, "%sprocess %d", part, (int)options->pids.items[0]);
	else if (options->pids.count > 1)
		snprintf(room, size, "these processes");
	else if (command->file_count == 1)
		snprintf(room, size, "%s%s", part, command->files[0]);
	else
		snprintf(room, size, "%s",
			command->file_count > 1 ? "these files" : "the standard directories");
	return room;
}

static struct probe_error *add_functions(
	const struct list_command *command, struct probe_names *names)
{
	struct probe_pattern *any = NULL;
	struct probe_list *list = NULL;
	struct probe_error *error = probe_pattern_parse("fn:*", &any);
	const struct probe_site *sites;
	size_t count = 0;

	error = error ?: probe_list_create(&list);
	if (!error)
		probe_list_functions(list, (const struct probe_pattern *const *)&any, 1,
			command->options.patterns.catalogue);
	for (size_t i = 0; i < command->file_count && !error; i++)
		error = probe_list_add_file(list, command->files[i]);
	for (size_t i = 0; i < command->options.pids.count && !error; i++)
		error = probe_list_add_process(list, command->options.pids.items[i]);
	sites = error ? NULL : probe_list_sites(list, &count);
	for (size_t i = 0; i < count; i++)
		if (strncmp(sites[i].provider, "fn:", 3) == 0)
			probe_names_add(names, sites[i].provider, sites[i].name);
	probe_list_free(list);
	probe_pattern_free(any);
	return error;
}

/* If a pattern has no match, returns the error for the first such pattern. */
static struct probe_error *no_match(const struct list_command *command, const bool *matched)
{
	const struct pattern_list *patterns = &command->options.patterns;
	struct probe_error *error;
	const struct scan *lists = &command->lists;
	AUTO(probe_names_deinit) struct probe_names names = {0};
	char where[512], list[64];
	size_t first = 0, count;

	while (first < patterns->count && matched[first])
		first++;
	if (first == patterns->count)
		return NULL;
	error = command->functions ? add_functions(command, &names) : NULL;
	for (size_t i = 0; i < lists->count && !command->functions; i++) {
		const struct probe_site *sites = probe_list_sites(lists->lists[i], &count);

		for (size_t k = 0; k < count; k++)
			probe_names_add(&names, sites[k].provider, sites[k].name);
	}
	snprintf(list, sizeof(list), "probectl list%s", command->functions ? " --functions" : "");
	if (command->options.pids.count == 1)
		snprintf(list, sizeof(list), "probectl list%s -p %d",
			command->functions ? " --functions" : "",
			(int)command->options.pids.items[0]);
	if (!error)
		error = probe_pattern_no_match(patterns->items[first],
			describe_where(command, where, sizeof(where)), list,
			(const char *const *)names.items, names.count);
	return error;
}

/* ---- The command ----------------------------------------------------------------------- */

static struct probe_error *show(struct list_command *command)
{
	struct pattern_list *patterns = &command->options.patterns;
	AUTO_FREE bool *matched = calloc(patterns->count + 1, sizeof(bool));
	struct listing *listing = &command->listing;
	struct probe_error *error = NULL;

	if (!matched)
		return probe_error_no_memory();
	listing->details = command->verbose;
	listing->is_process = command->options.pids.count > 0;
	listing->show_pid = command->options.pids.count > 1;
	listing->functions = command->functions;
	/* It is an error if no probe of a pattern has the arguments that the pattern names. */
	for (size_t i = 0; i < patterns->count; i++)
		for (size_t k = 0; k < command->lists.count && !error; k++)
			error = probe_list_check(command->lists.lists[k], patterns->items[i]);
	if (!error && command->verbose)
		error = options_catalogue(patterns);
	listing->catalogue = patterns->catalogue;
	error = error ?: select_sites(command, matched);
	if (!error)
		error = command->json ? listing_print_json(listing) : listing_print_text(listing);
	/* If nothing was readable, this has already been reported. */
	if (!error && !(command->failed && listing->count == 0))
		error = no_match(command, matched);
	return error;
}

/* Writes the file names of a list: "libc.so.6, libstdc++.so.6". */
static void put_files(FILE *out, const struct probe_list *list)
{
	size_t count;
	const struct probe_site *sites = probe_list_sites(list, &count);
	const char *before = "";

	for (size_t i = 0; i < count; i++) {
		const char *slash = strrchr(sites[i].path, '/');

		if (i && sites[i].path == sites[i - 1].path)
			continue;
		fputs(before, out);
		print_printable(out, slash ? slash + 1 : sites[i].path);
		before = ", ";
	}
}

/* Reports which libraries of a file without probes have probes. Sets *any_ret if any has. */
static struct probe_error *report_needed(const char *file, bool *any_ret)
{
	struct probe_list *list;
	struct probe_error *error = probe_list_create(&list);
	size_t count = 0;

	error = error ?: probe_list_add_needed(list, file);
	if (!error)
		probe_list_sites(list, &count);
	*any_ret = count > 0;
	if (count) {
		fputs("; libraries that it needs have some (", stderr);
		put_files(stderr, list);
		fputs("): `probectl list -p PID` shows those of a process", stderr);
	}
	probe_list_free(list);
	return error;
}

static struct probe_error *report_none(const struct list_command *command)
{
	struct probe_error *error = NULL;
	char where[512];
	bool any = false;

	fprintf(stderr, "probectl: there are no probes in %s",
		describe_where(command, where, sizeof(where)));
	if (command->file_count == 1)
		error = report_needed(command->files[0], &any);
	if (!any && command->program && command->file_count == 1)
		fputs(" (`probectl list -p PID` also shows those of the libraries that it has "
		      "opened)",
			stderr);
	putc('\n', stderr);
	return error;
}

static struct probe_error *list(void *data, int *status_ret)
{
	struct list_command *command = data;
	struct probe_error *error = sort_operands(command) ?: read_lists(command);

	if (error)
		return error;
	report_defects(command);
	error = show(command);
	if (command->failed)
		*status_ret = STATUS_FAILED;
	if (!error && command->listing.count == 0 && !command->failed && !command->json)
		error = report_none(command);
	return error;
}

static const char help_text[] =
	"Shows the static probes (stapsdt notes) of ELF files, or of all files that a\n"
	"process has mapped; by default, of all programs and libraries in the standard\n"
	"directories. With PROBEs, shows only those. The first FILE may be a program in\n"
	"$PATH. With --functions, shows functions instead, and whether their entries and\n"
	"exits can be traced; the first FILE may be a library such as libssl.so.3.\n"
	"\n"
	"  probectl list /usr/lib/jvm/*/lib/server/libjvm.so 'hotspot:gc__*'\n"
	"  probectl list -v -p 1234\n"
	"  probectl list --functions libssl.so.3 'SSL_*'\n";

struct probe_error *cmd_list(int argc, char **argv, int *status_ret)
{
	struct list_command command = {.options = {.patterns = {.named = true}}};
	const struct option_row rows[] = {
		OPTIONS_PID(&command.options),
		OPTIONS_PROCESSES(&command.options),
		OPTIONS_PROBE(&command.options),
		OPTION('v', "verbose", COUNTER, NULL, &command.verbose,
			"also show what probes mean, and each site: address, function, line; -vv: "
			"bytes, plan"),
		OPTION(0, "functions", FLAG, NULL, &command.functions,
			"list functions instead of probes; PROBEs are names of functions"),
		OPTION(0, "json", FLAG, NULL, &command.json, "print one JSON object for each site"),
	};
	const struct command_line line = {
		.synopsis = "list [-v | -vv] [--functions] [--json] [FILE... | " SYNOPSIS_RUNNING
			    "] [PROBE...]",
		.help = help_text,
		OPTION_ROWS(rows),
		.common = &command.options,
		.run = list,
		.data = &command,
	};
	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	free(command.listing.items);
	free(command.files);
	free(command.program);
	scan_deinit(&command.lists);
	return error;
}
