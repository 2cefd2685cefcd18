/* SPDX-License-Identifier: MIT */
/*
 * Reads the probes of all programs and libraries of the system.
 *
 * First we collect file names: the regular files of each directory, then the targets of symbolic
 * links, each inode once. Then a few threads read the files, a handful at a time, into lists of
 * their own.
 *
 * Folders below the library directories hold some hundred thousand files that are not ELF files (a
 * JDK, modules of Perl), so we only search those of programs that are known for their probes.
 */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/list/listing.h"
#include "cli/print/print.h"
#include "libprobe/base/array.h"
#include "libprobe/base/map.h"
#include "libprobe/base/procfs.h"
#include "probe/symbol.h"

/* ==== Scan ==================================================================================== */

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
	DIR *directory = opendir(path);
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
	closedir(directory);
}

/* Collects all file names. /lib and /usr/lib may be the same directory, so links are resolved. */
static void find_names(struct names *names)
{
	glob_t found = {0};

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
	globfree(&found);
}

/* ---- Reading ------------------------------------------------------------------- */

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

struct probe_error *scan_system(struct scan *ret)
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

void scan_deinit(struct scan *scan)
{
	for (size_t i = 0; i < scan->count; i++)
		probe_list_free(scan->lists[i]);
	free(scan->lists);
	*scan = (struct scan){0};
}

/* ==== Program ================================================================================= */

/* Source: POSIX, "Environment Variables", PATH. An empty part of $PATH is the current directory. */

char *program_find(const char *name)
{
	const char *at = getenv("PATH");
	struct stat st;

	if (!*name || strchr(name, '/'))
		return NULL;
	while (at) {
		size_t length = strcspn(at, ":");
		char *path;

		if (asprintf(&path, "%.*s%s%s", (int)length, at, length ? "/" : "./", name) < 0)
			return NULL;
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
			return path;
		free(path);
		at = at[length] ? at + length + 1 : NULL;
	}
	return NULL;
}

/* ==== Function ================================================================================ */

/* Names of the functions that contain the sites. */

struct probe_error *listing_function(const struct probe_site_detail *detail, char **ret)
{
	struct probe_error *error;

	*ret = NULL;
	if (!detail->function)
		return NULL;
	error = probe_demangle(detail->function, ret);
	if (error || *ret)
		return error;
	*ret = strdup(detail->function);
	return *ret ? NULL : probe_error_no_memory();
}
