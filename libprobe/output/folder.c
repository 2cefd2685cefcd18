/* SPDX-License-Identifier: MIT */
/*
 * Files of memory-mapped values, made with libpcp_mmv.
 *
 * pmcd's agent pmdammv(1) reads every file in PCP_TMP_DIR/mmv whose name does not begin with a
 * dot. All our files ask for the same cluster (a part of a metric's number) and for metric
 * names without the file's name, so the agent merges them into one set of metrics with the
 * instances of all files. Numbers and names are therefore the same on every host and in every
 * archive.
 *
 *	.probectl.PID.START.TIME	being made, or being removed
 *	probectl.PID.START.TIME		read by pmdammv
 *	.probectl.lock			locked by an exporter while it looks for free numbers
 *
 * PID and START identify the owner. MMV_FLAG_PROCESS makes the agent ignore files whose process
 * is gone; the next exporter removes them.
 *
 * A file's layout cannot change, so a new file replaces it, which is complete before it becomes
 * visible. The agent rescans the folder when its time stamp changes, in whole seconds, or when
 * the generation in a mapped file does.
 *
 * libpcp_mmv and libpcp take longer to load than listing probes takes, so they are loaded when
 * metrics are exported; at build time only their headers are needed.
 */
#include "libprobe/base/array.h"
#include "libprobe/output/mmv.h"

#ifdef PCP_BUILT
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/library.h"
#include "libprobe/base/procfs.h"

enum {
	LOCK_TRIES = 100,
	LOCK_PAUSE_NS = 10 * 1000 * 1000,
	ENTRIES_MAX = 2 * PCP_COUNT_MAX, /* tables, domains and instances of a file */
	FILE_BYTES_MAX = 64 << 20	 /* a file with PCP_COUNT_MAX of everything has 9 MB */
};

/* ---- The library ------------------------------------------------------------------ */

static struct probe_error *libpcp_load(struct libpcp *libpcp)
{
	static const struct library_function functions[] = {
		{"mmv_stats_registry", offsetof(struct libpcp, registry)},
		{"mmv_stats_add_indom", offsetof(struct libpcp, add_indom)},
		{"mmv_stats_add_metric", offsetof(struct libpcp, add_metric)},
		{"mmv_stats_add_instance", offsetof(struct libpcp, add_instance)},
		{"mmv_stats_add_registry_label", offsetof(struct libpcp, add_registry_label)},
		{"mmv_stats_add_instance_label", offsetof(struct libpcp, add_instance_label)},
		{"mmv_stats_start", offsetof(struct libpcp, start)},
		{"mmv_stats_free", offsetof(struct libpcp, free)},
		/* From libpcp, its dependency. */
		{"pmGetOptionalConfig", offsetof(struct libpcp, config)},
	};
	static const char soname[] = "libpcp_mmv.so.1";
	const char *missing =
		library_load(soname, functions, sizeof(functions) / sizeof(functions[0]), libpcp);

	if (missing == soname)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"metrics need Performance Co-Pilot's libpcp_mmv (Debian: libpcp-mmv1), "
			"which cannot be loaded: %s",
			dlerror());
	if (missing)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"metrics need a newer libpcp_mmv (Performance Co-Pilot 5), with %s()",
			missing);
	return NULL;
}

/* ---- The folder ------------------------------------------------------------------- */

struct probe_error *pcp_no_access(const struct pcp_folder *folder, int err)
{
	struct stat st;
	const struct group *group =
		folder->fd >= 0 && !fstat(folder->fd, &st) && st.st_mode & S_IWGRP
			? getgrgid(st.st_gid)
			: NULL;

	if (err == ENOENT || err == ENOTDIR)
		return probe_error_system(err,
			"cannot open %s, where pmcd looks for metrics (install pcp, or set "
			"PCP_TMP_DIR for both)",
			folder->path);
	if (group)
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"cannot write metrics into %s: %s; the members of group '%s' and root may "
			"(usermod -a -G %s USER)",
			folder->path, strerror(err), group->gr_name, group->gr_name);
	return probe_error_new(PROBE_ERROR_PERMISSION,
		"cannot write metrics into %s, where pmcd looks for them: %s", folder->path,
		strerror(err));
}

/* The owner of a file. False for files that are not ours. */
static bool parse_name(const char *name, pid_t *pid_ret, uint64_t *start_ret)
{
	const char *at = name + (*name == '.');
	char *end;
	long pid;

	if (strncmp(at, PCP_PREFIX, strlen(PCP_PREFIX)))
		return false;
	pid = strtol(at + strlen(PCP_PREFIX), &end, 10);
	if (pid <= 0 || pid > INT32_MAX || *end != '.')
		return false;
	*pid_ret = (pid_t)pid;
	*start_ret = strtoull(end + 1, &end, 10);
	return *end == '.';
}

static DIR *read_folder(const struct pcp_folder *folder)
{
	int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

/* Stale files that we may not remove stay; pmdammv ignores them. */
static void remove_stale(const struct pcp_folder *folder)
{
	DIR *dir = read_folder(folder);
	const struct dirent *entry;
	uint64_t start;
	pid_t pid;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (parse_name(entry->d_name, &pid, &start) && procfs_start_time(pid) != start)
			unlinkat(folder->fd, entry->d_name, 0);
	closedir(dir);
}

static struct probe_error *folder_find(struct pcp_folder *folder)
{
	const char *config = getenv("PCP_CONF"), *parent;

	/* Without a configuration, libpcp prints a message of its own. */
	if (!config)
		config = "/etc/pcp.conf";
	parent = access(config, R_OK) ? NULL : folder->libpcp.config("PCP_TMP_DIR");
	if (!parent || !*parent)
		return probe_error_new(PROBE_ERROR_STATE,
			"%s does not say where metrics go (PCP_TMP_DIR): install Performance "
			"Co-Pilot (Debian: pcp)",
			config);
	if (asprintf(&folder->path, "%s/mmv", parent) < 0) {
		folder->path = NULL;
		return probe_error_no_memory();
	}
	folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder->fd < 0 || faccessat(folder->fd, ".", W_OK | X_OK, AT_EACCESS))
		return pcp_no_access(folder, errno);
	return NULL;
}

struct probe_error *pcp_folder_open(struct pcp_folder **ret)
{
	struct pcp_folder *folder = calloc(1, sizeof(*folder));
	struct probe_error *error;

	if (!folder)
		return probe_error_no_memory();
	folder->fd = folder->lock = -1;
	error = libpcp_load(&folder->libpcp);
	if (!error)
		error = folder_find(folder);
	if (error) {
		pcp_folder_close(folder);
		return error;
	}
	remove_stale(folder);
	*ret = folder;
	return NULL;
}

void pcp_folder_close(struct pcp_folder *folder)
{
	if (!folder)
		return;
	if (folder->lock >= 0)
		close(folder->lock);
	if (folder->fd >= 0)
		close(folder->fd);
	free(folder->path);
	free(folder);
}

static const char lock_name[] = ".probectl.lock";

/*
 * Opens the lock file, and creates it if it is missing. Only users who may write to the folder may
 * open it; the folder itself can be opened, and so locked, by every user.
 */
static int open_lock(const struct pcp_folder *folder)
{
	int fd = openat(folder->fd, lock_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	mode_t mode;

	if (fd >= 0 || errno != ENOENT || fstat(folder->fd, &st) < 0)
		return fd;
	mode = S_IRUSR | S_IWUSR | (st.st_mode & S_IWGRP ? S_IRGRP | S_IWGRP : 0) |
	       (st.st_mode & S_IWOTH ? S_IROTH | S_IWOTH : 0);
	fd = openat(folder->fd, lock_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	/*
	 * Only root can change the owner to the folder's. For other creators its group is enough.
	 */
	if (fchown(fd, st.st_uid, st.st_gid) == 0 || fchown(fd, (uid_t)-1, st.st_gid) == 0)
		fchmod(fd, mode);
	return fd;
}

/* The process that had the lock before removes the file: then another file has the name. */
static bool lock_has_name(const struct pcp_folder *folder)
{
	struct stat locked, named;

	return !fstat(folder->lock, &locked) &&
	       !fstatat(folder->fd, lock_name, &named, AT_SYMLINK_NOFOLLOW) &&
	       locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

/* False, and errno (EAGAIN: try again), if the lock is not taken. */
static bool take_lock(struct pcp_folder *folder)
{
	int err;

	folder->lock = open_lock(folder);
	if (folder->lock < 0)
		return false;
	errno = EAGAIN;
	if (!flock(folder->lock, LOCK_EX | LOCK_NB) && lock_has_name(folder))
		return true;
	err = errno;
	close(folder->lock);
	folder->lock = -1;
	errno = err;
	return false;
}

struct probe_error *pcp_folder_lock(struct pcp_folder *folder)
{
	/*
	 * The lock is usually held for milliseconds, so give up if it is held longer. Another
	 * controller may be creating the file.
	 */
	for (int try = 0; try < LOCK_TRIES; try++) {
		if (take_lock(folder))
			return NULL;
		if (errno != EAGAIN && errno != EINTR && errno != EEXIST && errno != EACCES &&
			errno != ENOENT)
			return probe_error_system(
				errno, "cannot lock %s/%s", folder->path, lock_name);
		nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
	}
	return probe_error_new(PROBE_ERROR_STATE,
		"cannot lock %s/%s: it is another user's, or locked by another process",
		folder->path, lock_name);
}

void pcp_folder_unlock(struct pcp_folder *folder)
{
	unlinkat(folder->fd, lock_name, 0);
	close(folder->lock);
	folder->lock = -1;
}

/* ---- The files of others ---------------------------------------------------------- */

struct taken_list {
	struct pcp_taken *items;
	size_t count;
	uint64_t left; /* entries of the file that may still be examined */
};

/* Whether `entries` more may be examined. */
static bool spend(struct taken_list *list, uint64_t entries)
{
	bool may = list->left >= entries;

	list->left = may ? list->left - entries : 0;
	return may;
}

static bool taken_add(struct taken_list *list, int domain, int32_t id)
{
	if (!ARRAY_ROOM(list->items, list->count))
		return false;
	list->items[list->count++] = (struct pcp_taken){domain, id};
	return true;
}

/* Whether `count` items of `each` bytes at `offset` are inside a file. */
static bool is_within(size_t size, uint64_t offset, uint64_t count, size_t each)
{
	return offset <= size && count <= (size - offset) / each;
}

/* The instances of one domain; ours use the second form, because they have labels. */
static bool take_instances(
	struct taken_list *list, const char *file, size_t size, const mmv_disk_indom_t *domain)
{
	mmv_disk_instance2_t instance;

	if (!is_within(size, domain->offset, domain->count, sizeof(instance)) ||
		!spend(list, domain->count))
		return true;
	for (uint32_t i = 0; i < domain->count; i++) {
		memcpy(&instance, file + domain->offset + i * sizeof(instance), sizeof(instance));
		if (!taken_add(list, (int)domain->serial, instance.internal))
			return false;
	}
	return true;
}

/* Another process's file may contain anything. False without memory. */
static bool take_file(struct taken_list *list, const char *file, size_t size)
{
	mmv_disk_header_t header;
	mmv_disk_indom_t domain;
	mmv_disk_toc_t toc;
	size_t before = list->count;
	bool done = true;

	list->left = ENTRIES_MAX;
	if (size < sizeof(header))
		return true;
	memcpy(&header, file, sizeof(header));
	if (memcmp(header.magic, "MMV", 4) || header.version != MMV_VERSION3 || header.tocs < 0 ||
		!is_within(size, sizeof(header), (uint64_t)header.tocs, sizeof(toc)))
		return true;
	for (int i = 0; i < header.tocs && spend(list, 1); i++) {
		memcpy(&toc, file + sizeof(header) + (size_t)i * sizeof(toc), sizeof(toc));
		if (toc.type != MMV_TOC_INDOMS || toc.count < 0 ||
			!is_within(size, toc.offset, (uint64_t)toc.count, sizeof(domain)))
			continue;
		for (int k = 0; k < toc.count && done && spend(list, 1); k++) {
			memcpy(&domain, file + toc.offset + (size_t)k * sizeof(domain),
				sizeof(domain));
			done = take_instances(list, file, size, &domain);
		}
	}
	/* It may contain more, but pmdammv reads no such file. */
	if (!list->left)
		list->count = before;
	return done;
}

static bool take_named(struct taken_list *list, const struct pcp_folder *folder, const char *name)
{
	int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	bool done = true;
	char *file;

	if (fd < 0)
		return true;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= FILE_BYTES_MAX) {
		/* Read, because a mapped file could be truncated under us. */
		file = malloc((size_t)st.st_size + 1);
		done = file && true;
		if (file && read(fd, file, (size_t)st.st_size) == st.st_size)
			done = take_file(list, file, (size_t)st.st_size);
		free(file);
	}
	close(fd);
	return done;
}

struct probe_error *pcp_folder_taken(
	struct pcp_folder *folder, const char *own, struct pcp_taken **ret, size_t *count_ret)
{
	struct taken_list list = {0};
	DIR *dir = read_folder(folder);
	const struct dirent *entry;
	bool done = true;
	uint64_t start;
	pid_t pid;

	while (dir && done && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && parse_name(entry->d_name, &pid, &start) &&
			!(own && !strcmp(entry->d_name, own)))
			done = take_named(&list, folder, entry->d_name);
	if (dir)
		closedir(dir);
	if (!done) {
		free(list.items);
		return probe_error_no_memory();
	}
	*ret = list.items;
	*count_ret = list.count;
	return NULL;
}
#endif
