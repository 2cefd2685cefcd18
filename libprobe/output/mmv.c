/* SPDX-License-Identifier: MIT */
/*
 * Files of memory-mapped values, made with libpcp_mmv.
 *
 * pmcd's agent pmdammv(1) reads every file in PCP_TMP_DIR/mmv whose name does not begin with a dot.
 * All our files ask for the same cluster (a part of a metric's number), and for metric names that
 * do not contain the file's name. So the agent merges our files into one set of metrics, with the
 * instances of all files. Numbers and names are therefore the same on every host and in every
 * archive.
 *
 *	.probectl.PID.START.TIME	being made, or being removed
 *	probectl.PID.START.TIME		read by pmdammv
 *	.probectl.lock			locked by an exporter while it searches for free numbers
 *
 * PID and START identify the owner. MMV_FLAG_PROCESS makes the agent ignore files whose process is
 * gone; the next exporter removes them.
 *
 * The layout of a file cannot change, so a new file replaces it; the new file is complete before it
 * becomes visible. The agent rescans the folder when the folder's time stamp (in whole seconds)
 * changes, or when the generation in a mapped file changes.
 *
 * Loading libpcp_mmv and libpcp takes longer than listing probes, so they are loaded only when
 * metrics are exported. At build time only their headers are needed.
 */

#include "libprobe/base/array.h"
#include "libprobe/output/mmv.h"

#ifdef PCP_BUILT

/* ==== File ==================================================================================== */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"

enum {
	/* 1 to 2047: cluster and domain numbers together must fit into 22 bits. */
	CLUSTER = 1786,
	REMIND_NS = 1100 * 1000 * 1000
};

struct pcp_file {
	struct pcp_folder *folder;
	char *path; /* the hidden name, with a dot; the only name that libpcp_mmv knows */
	const char *hidden, *visible;
	mmv_registry_t *registry;
	mmv_disk_header_t *header; /* the mapped file */
	mmv_disk_value_t *values;
	size_t value_count;
	bool is_shown, is_reminded;
	uint64_t shown_ns;
};

/* ---- A file ----------------------------------------------------------------------- */

static struct probe_error *pcp_no_access(const struct pcp_folder *folder, int err);

static bool add_instance(const struct pcp_file *file, const struct pcp_instance *instance)
{
	const struct libpcp *libpcp = &file->folder->libpcp;

	/*
	 * Up to version 6 this always fails with EINVAL, because its loop does not stop at the
	 * instance's domain. find_values() checks that all instances exist.
	 */
	(void)libpcp->add_instance(file->registry, instance->domain, instance->id, instance->name);
	for (size_t i = 0; i < instance->label_count; i++) {
		const struct pcp_label *label = &instance->labels[i];

		if (libpcp->add_instance_label(file->registry, instance->domain, instance->id,
			    label->name, label->value,
			    label->is_number ? MMV_NUMBER_TYPE : MMV_STRING_TYPE, 0) < 0)
			return false;
	}
	return true;
}

/* Finds the values in the library's file, in the order that pcp_file_create() promises. */
static bool find_values(struct pcp_file *file, const struct pcp_metric *metrics,
	size_t metric_count, const struct pcp_instance *const *instances, size_t instance_count)
{
	const char *base = (const char *)file->header;
	const mmv_disk_toc_t *toc = (const mmv_disk_toc_t *)(file->header + 1);
	size_t at = 0;

	for (int i = 0; i < file->header->tocs; i++) {
		if (toc[i].type != MMV_TOC_VALUES)
			continue;
		file->values = (mmv_disk_value_t *)((char *)file->header + toc[i].offset);
		file->value_count = (size_t)toc[i].count;
	}
	for (size_t i = 0; i < metric_count; i++) {
		for (size_t k = 0; k < instance_count; k++) {
			const mmv_disk_value_t *value = &file->values[at];

			if (instances[k]->domain != metrics[i].domain)
				continue;
			if (at++ >= file->value_count ||
				((const mmv_disk_metric2_t *)(base + value->metric))->item !=
					(uint32_t)metrics[i].item ||
				((const mmv_disk_instance2_t *)(base + value->instance))
						->internal != instances[k]->id)
				return false;
		}
	}
	return at == file->value_count;
}

/* Describes the contents to the library. Fails only if memory is short. */
static bool fill(struct pcp_file *file, const struct pcp_metric *metrics, size_t metric_count,
	const struct pcp_instance *const *instances, size_t instance_count)
{
	const struct libpcp *libpcp = &file->folder->libpcp;
	char host[256] = "", value[sizeof(host) + 2];

	file->registry = libpcp->registry(
		file->path, CLUSTER, MMV_FLAG_NOPREFIX | MMV_FLAG_PROCESS | MMV_FLAG_SENTINEL);
	if (!file->registry)
		return false;
	for (size_t i = 0; i < metric_count; i++) {
		size_t k = 0;

		while (metrics[k].domain != metrics[i].domain)
			k++;
		if (k == i && libpcp->add_indom(file->registry, metrics[i].domain, NULL, NULL))
			return false;
	}
	for (size_t i = 0; i < instance_count; i++)
		if (!add_instance(file, instances[i]))
			return false;
	/* All metrics have the host as a label; pmcd's "hostname" is pmcd's own. */
	gethostname(host, sizeof(host) - 1);
	for (char *at = host; *at; at++)
		if (*at < ' ' || *at == '"' || *at == '\\' || *at > '~')
			*at = '_';
	host[PCP_LABEL_BYTES] = '\0';
	snprintf(value, sizeof(value), "\"%s\"", host);
	if (libpcp->add_registry_label(file->registry, "host", value, MMV_STRING_TYPE, 0) < 0)
		return false;
	for (size_t i = 0; i < metric_count; i++) {
		const struct pcp_metric *metric = &metrics[i];
		pmUnits units = {0};

		if (metric->is_count) {
			units.dimCount = metric->is_each ? -1 : 1;
			units.scaleCount = PM_COUNT_ONE;
		}
		if (metric->is_time) {
			units.dimTime = metric->is_rate ? -1 : 1;
			units.scaleTime = metric->is_double ? PM_TIME_SEC : PM_TIME_NSEC;
		}
		if (libpcp->add_metric(file->registry, metric->name, metric->item,
			    metric->is_double ? MMV_TYPE_DOUBLE : MMV_TYPE_U64,
			    metric->is_counter ? MMV_SEM_COUNTER : MMV_SEM_INSTANT, units,
			    metric->domain, metric->help, NULL))
			return false;
	}
	return true;
}

static struct probe_error *file_start(struct pcp_file *file, const struct pcp_metric *metrics,
	size_t metric_count, const struct pcp_instance *const *instances, size_t instance_count)
{
	pid_t pid = getpid();

	if (asprintf(&file->path, "%s/." PCP_PREFIX "%d.%" PRIu64 ".%" PRIu64, file->folder->path,
		    (int)pid, procfs_start_time(pid), clock_monotonic_ns()) < 0) {
		file->path = NULL;
		return probe_error_no_memory();
	}
	file->hidden = strrchr(file->path, '/') + 1;
	file->visible = file->hidden + 1;
	errno = 0;
	if (!fill(file, metrics, metric_count, instances, instance_count))
		return probe_error_system(errno, "cannot make metrics");
	file->header = file->folder->libpcp.start(file->registry);
	if (!file->header && (errno == EACCES || errno == EPERM || errno == EROFS))
		return pcp_no_access(file->folder, errno);
	if (!file->header)
		return probe_error_system(
			errno, "cannot write metrics into %s", file->folder->path);
	if (!find_values(file, metrics, metric_count, instances, instance_count))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"this version of libpcp_mmv orders metrics in another way");
	return NULL;
}

struct probe_error *pcp_file_create(struct pcp_folder *folder, const struct pcp_metric *metrics,
	size_t metric_count, const struct pcp_instance *const *instances, size_t instance_count,
	struct pcp_file **ret)
{
	struct probe_error *error;
	struct pcp_file *file;
	struct statvfs fs;
	size_t labels = 1;
	uint64_t bytes;

	for (size_t i = 0; i < instance_count; i++)
		labels += instances[i]->label_count;
	bytes = 65536 + 512 * instance_count + sizeof(mmv_disk_label_t) * labels +
		sizeof(mmv_disk_value_t) * metric_count * instance_count;
	if (fstatvfs(folder->fd, &fs))
		return probe_error_system(errno, "cannot write metrics into %s", folder->path);
	/*
	 * The library writes through a mapping, where a full disk causes SIGBUS. Some file systems
	 * report no sizes.
	 */
	if (fs.f_blocks && (uint64_t)fs.f_bavail * fs.f_frsize < bytes)
		return probe_error_system(ENOSPC, "cannot write metrics into %s", folder->path);
	file = calloc(1, sizeof(*file));
	if (!file)
		return probe_error_no_memory();
	file->folder = folder;
	error = file_start(file, metrics, metric_count, instances, instance_count);
	if (error)
		pcp_file_retire(file);
	else
		*ret = file;
	return error;
}

void pcp_file_set(struct pcp_file *file, size_t index, struct pcp_value value)
{
	/*
	 * Store the whole value at once: pmdammv may read at any time. Values do not depend on each
	 * other.
	 */
	__atomic_store_n(&file->values[index].value.ull, value.u, __ATOMIC_RELAXED);
}

struct probe_error *pcp_file_show(struct pcp_file *file)
{
	if (renameat(file->folder->fd, file->hidden, file->folder->fd, file->visible))
		return probe_error_system(
			errno, "cannot write metrics into %s", file->folder->path);
	file->is_shown = true;
	file->shown_ns = clock_monotonic_ns();
	return NULL;
}

void pcp_file_remind(struct pcp_file *file)
{
	if (file->is_reminded || clock_monotonic_ns() - file->shown_ns < REMIND_NS)
		return;
	file->is_reminded = true;
	futimens(file->folder->fd, NULL);
}

const char *pcp_file_name(const struct pcp_file *file)
{
	return file->visible;
}

bool pcp_file_is_there(const struct pcp_file *file)
{
	return !faccessat(file->folder->fd, file->visible, F_OK, AT_SYMLINK_NOFOLLOW);
}

void pcp_file_retire(struct pcp_file *file)
{
	if (!file)
		return;
	/* Make processes that have mapped the file look at the folder again. */
	if (file->header)
		__atomic_store_n(&file->header->g1, 0, __ATOMIC_RELAXED);
	/* libpcp_mmv removes the file under its hidden name. */
	if (file->is_shown)
		renameat(file->folder->fd, file->visible, file->folder->fd, file->hidden);
	if (file->registry)
		file->folder->libpcp.free(file->registry);
	free(file->path);
	free(file);
}

/* ==== Folder ================================================================================== */

enum {
	LOCK_TRIES = 100,
	LOCK_PAUSE_NS = 10 * 1000 * 1000,
	ENTRIES_MAX = 2 * PCP_COUNT_MAX, /* limit for the tables, domains and instances of a file */
	FILE_BYTES_MAX = 64 << 20	 /* a file with PCP_COUNT_MAX of all items has 9 MB */
};

/* ---- The folder ------------------------------------------------------------------- */

/* Returns the error for a read-only folder, with what to do. */
static struct probe_error *pcp_no_access(const struct pcp_folder *folder, int err)
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

/* Finds the owner of a file from its name. Returns false if no exporter has written it. */
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

static struct probe_error *folder_find(struct pcp_folder *folder)
{
	const char *config = getenv("PCP_CONF"), *parent;

	/* Without its configuration, libpcp prints a message of its own. */
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
	static const struct library libpcp = {"libpcp_mmv.so.1",
		"metrics need Performance Co-Pilot's libpcp_mmv (Debian: libpcp-mmv1)",
		"metrics need a newer libpcp_mmv (Performance Co-Pilot 5)"};
	static const char *const names[] = {LIBPCP(LIBRARY_NAME) NULL};
	struct pcp_folder *folder = calloc(1, sizeof(*folder));
	const struct dirent *entry;
	struct probe_error *error;
	uint64_t start;
	pid_t pid;
	AUTO_DIR DIR *dir = NULL;

	if (!folder)
		return probe_error_no_memory();
	folder->fd = folder->lock = -1;
	error = library_load(&libpcp, names, &folder->libpcp) ?: folder_find(folder);
	if (error) {
		pcp_folder_close(folder);
		return error;
	}
	/* Remove stale files, as far as we have the right to; pmdammv ignores them anyway. */
	dir = read_folder(folder);
	while (dir && (entry = readdir(dir)))
		if (parse_name(entry->d_name, &pid, &start) && procfs_start_time(pid) != start)
			unlinkat(folder->fd, entry->d_name, 0);
	*ret = folder;
	return NULL;
}

void pcp_folder_close(struct pcp_folder *folder)
{
	if (!folder)
		return;
	cleanup_fd(&folder->lock);
	cleanup_fd(&folder->fd);
	free(folder->path);
	free(folder);
}

static const char lock_name[] = ".probectl.lock";

/*
 * Opens the lock file, or creates it, for users who may write to the folder. The folder itself is
 * no lock, because every user could take it.
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
	 * Only root can give the file to the folder's owner. If we are not root, the group's right
	 * is enough.
	 */
	if (fchown(fd, st.st_uid, st.st_gid) == 0 || fchown(fd, (uid_t)-1, st.st_gid) == 0)
		fchmod(fd, mode);
	return fd;
}

/* Takes the lock. Returns false and sets errno on failure; EAGAIN means "try again". */
static bool take_lock(struct pcp_folder *folder)
{
	struct stat locked, named;
	int err;

	folder->lock = open_lock(folder);
	if (folder->lock < 0)
		return false;
	errno = EAGAIN;
	/* The lock's last owner may have removed its name since it was opened. */
	if (!flock(folder->lock, LOCK_EX | LOCK_NB) && !fstat(folder->lock, &locked) &&
		!fstatat(folder->fd, lock_name, &named, AT_SYMLINK_NOFOLLOW) &&
		locked.st_dev == named.st_dev && locked.st_ino == named.st_ino)
		return true;
	err = errno;
	close(folder->lock);
	folder->lock = -1;
	errno = err;
	return false;
}

struct probe_error *pcp_folder_lock(struct pcp_folder *folder)
{
	/* Try again: the lock is held for milliseconds, or another exporter creates the file. */
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

/* ---- Other exporters' files ------------------------------------------------------- */

struct taken_list {
	struct pcp_taken *items;
	size_t count;
	uint64_t left; /* entries of the file that may still be examined */
};

/* Subtracts `entries` from the limit. Returns false if they exceed it. */
static bool spend(struct taken_list *list, uint64_t entries)
{
	bool may = list->left >= entries;

	list->left = may ? list->left - entries : 0;
	return may;
}

/* Returns true if `count` items of `each` bytes at `offset` are inside a file of `size` bytes. */
static bool is_within(size_t size, uint64_t offset, uint64_t count, size_t each)
{
	return offset <= size && count <= (size - offset) / each;
}

/* Reads a domain's instances, in the second version of the struct, which has labels. */
static bool take_instances(
	struct taken_list *list, const char *file, size_t size, const mmv_disk_indom_t *domain)
{
	mmv_disk_instance2_t instance;

	if (!is_within(size, domain->offset, domain->count, sizeof(instance)) ||
		!spend(list, domain->count))
		return true;
	for (uint32_t i = 0; i < domain->count; i++) {
		memcpy(&instance, file + domain->offset + i * sizeof(instance), sizeof(instance));
		if (!ARRAY_ADD(list->items, list->count,
			    (struct pcp_taken){(int)domain->serial, instance.internal}))
			return false;
	}
	return true;
}

/* Reads a file of another process, which may contain anything. Returns false if memory is short. */
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
	/* pmdammv does not read a file of this size either. */
	if (!list->left)
		list->count = before;
	return done;
}

static bool take_named(struct taken_list *list, const struct pcp_folder *folder, const char *name)
{
	AUTO_FD int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	bool done = true;
	char *file;

	if (fd < 0)
		return true;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= FILE_BYTES_MAX) {
		/*
		 * Read the file instead of mapping it, because a mapped file could be truncated in
		 * the meantime.
		 */
		file = malloc((size_t)st.st_size + 1);
		done = file && true;
		if (file && read(fd, file, (size_t)st.st_size) == st.st_size)
			done = take_file(list, file, (size_t)st.st_size);
		free(file);
	}
	return done;
}

struct probe_error *pcp_folder_taken(
	struct pcp_folder *folder, const char *own, struct pcp_taken **ret, size_t *count_ret)
{
	struct taken_list list = {0};
	AUTO_DIR DIR *dir = read_folder(folder);
	const struct dirent *entry;
	bool done = true;
	uint64_t start;
	pid_t pid;

	while (dir && done && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && parse_name(entry->d_name, &pid, &start) &&
			!(own && !strcmp(entry->d_name, own)))
			done = take_named(&list, folder, entry->d_name);
	if (!done) {
		free(list.items);
		return probe_error_no_memory();
	}
	*ret = list.items;
	*count_ret = list.count;
	return NULL;
}
#endif
