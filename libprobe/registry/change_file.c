/* SPDX-License-Identifier: MIT */
/*
 * Makes a target create, map and close a file.
 *
 * Programs rely on descriptor numbers: the next file gets the lowest free number (`close(0);
 * open(…)`), and a program may close any number that it knows. So one thread creates the file, we
 * take it, and the thread maps and closes it, without doing anything else in between. A program
 * with one thread does not notice. In the meantime, other threads may close our descriptor and open
 * files of their own. So the number is closed only if it still belongs to our file.
 *
 * If the process has only one thread, and this thread runs in user space, it makes the last two
 * calls without a stop:
 *
 *	several threads    stop | create   take   map   same?   close | go on
 *	one                stop | create   take | map close go on ...  stop | go on
 *
 * In this case no other thread can have replaced the file. The mappings tell the result of mmap().
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/registry/registry.h"

/* ==== Lasting ================================================================================= */

/*
 * The target itself creates the file, with its own rights and in its own view of the file system.
 * The call fails if the file exists (O_EXCL), so no file is overwritten. But the kernel follows any
 * link on the way to the file's folder. So we find the folder first, following only links of the
 * target's user and of root (base/place.c), and check that the new file is in it.
 *
 * A hit writes into the file's pages, and that must never fail: the kernel sends SIGBUS if the file
 * system has no space for a page when it is first touched, or if the file was truncated. So all
 * space is allocated beforehand (fallocate(2)), only on file systems that keep it, and the file's
 * mode lets nobody open it for writing, not even its owner. Network file systems and FUSE are
 * refused, because a hit must not wait for a server or another process.
 */

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

enum { PATH_BYTES_MAX = 4096 };

struct probe_error *lasting_check(const char *path)
{
	const char *name = strrchr(path, '/');

	if (*path != '/' || strlen(path) >= PATH_BYTES_MAX)
		return probe_error_new(PROBE_ERROR_USAGE,
			"%s: the process itself makes the file; give an absolute path, as it sees "
			"it",
			path);
	if (!shared_is_lasting_name(path) || strlen(name + 1) == strlen(SHARED_SUFFIX))
		return probe_error_new(PROBE_ERROR_USAGE,
			"%s: the name has to end in %s, by which the memory of a flight recorder "
			"is "
			"known (%s%s)",
			path, SHARED_SUFFIX, path, SHARED_SUFFIX);
	return NULL;
}

/* ---- Room ------------------------------------------------------------------------------- */

static bool keeps_room(const struct statfs *fs)
{
	return fs->f_type == TMPFS_MAGIC || fs->f_type == EXT4_SUPER_MAGIC ||
	       fs->f_type == XFS_SUPER_MAGIC;
}

static struct probe_error *keeps_none(const char *path)
{
	return probe_error_new(PROBE_ERROR_USAGE,
		"%s is on a file system on which a hit could wait or fail; a flight recorder's "
		"file "
		"can be on tmpfs (/dev/shm, /run), ext4 or XFS",
		path);
}

struct probe_error *lasting_room(pid_t pid, const char *path, uint64_t *ret)
{
	int length = (int)(strrchr(path, '/') - path);
	AUTO_FREE char *folder = NULL;
	struct probe_error *error = NULL;
	struct statfs fs;

	if (asprintf(&folder, "/proc/%d/root/%.*s", procfs_living(pid), length, path) < 0)
		return probe_error_no_memory();
	if (statfs(folder, &fs) < 0)
		error = probe_error_system(
			errno, "%.*s, as process %d sees it", length + !length, path, pid);
	else if (!keeps_room(&fs))
		error = keeps_none(path);
	else
		*ret = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	/* Pages on tmpfs are memory, which the kernel may refuse to commit. */
	if (!error && fs.f_type == TMPFS_MAGIC && overcommit_room() < *ret)
		*ret = overcommit_room();
	return error;
}

/* Writes the header first: if we die before the file is registered, the header names its owner. */
static struct probe_error *take_room(pid_t pid, int fd, const struct lasting_file *file)
{
	const struct data_header header = {.magic = DATA_MAGIC, .maker = lasting_maker(pid)};
	const struct reg_session *l = file->layout;
	struct data_extent extent;

	if (pwrite(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return probe_error_system(errno, "cannot write %s", file->path);
	if (ftruncate(fd, (off_t)l->data_size) < 0)
		return probe_error_system(errno, "cannot make %s", file->path);
	for (uint32_t i = 0; data_extent(l, i, &extent); i++)
		if (fallocate(fd, 0, (off_t)extent.start, (off_t)(extent.end - extent.start)) < 0)
			return probe_error_system(errno,
				"there is no room for %s, which takes %ju MiB (-b makes it "
				"smaller)",
				file->path, (uintmax_t)(data_bytes(l) >> 20) + 1);
	/* If the owner truncated the file, the process would be killed. */
	if (fchmod(fd, 0400) < 0)
		return probe_error_system(errno, "cannot protect %s", file->path);
	return NULL;
}

/*
 * Opens the folder of a future file, following only links of the process's user and of root.
 * Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION.
 */
static struct probe_error *lasting_find(pid_t pid, const char *path, int *ret)
{
	/* The last number is the file system UID, which decides about access to files. */
	long user = procfs_status_last_number(pid, "Uid:");

	*ret = -1;
	if (user < 0)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", pid);
	return file_parent(
		procfs_path("/proc/%d/root", procfs_living(pid)).text, (uid_t)user, path, ret);
}

/* Returns true if the file's name in the folder leads to the open file. */
static bool is_in_place(int fd, const struct lasting_file *file)
{
	const char *name = strrchr(file->path, '/') + 1;
	struct stat st, named;

	return fstat(fd, &st) == 0 &&
	       fstatat(file->folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_dev == named.st_dev && st.st_ino == named.st_ino;
}

static bool is_new(int fd, struct statfs *fs)
{
	struct stat st;

	return fstat(fd, &st) == 0 && fstatfs(fd, fs) == 0 && S_ISREG(st.st_mode) &&
	       st.st_size == 0 && st.st_nlink == 1;
}

/*
 * Opens the target's empty file `fd`, and sets its size, space and a mode against truncation. After
 * an error, the file's name is removed. Errors: PROBE_ERROR_STATE, PROBE_ERROR_USAGE,
 * PROBE_ERROR_SYSTEM.
 */
static struct probe_error *lasting_open(
	pid_t pid, pid_t tid, int64_t fd, const struct lasting_file *file, int *fd_ret)
{
	struct procfs_path path = descriptor_path(pid, tid, fd);
	struct probe_error *error;
	struct statfs fs;
	AUTO_FD int path_fd = -1;

	*fd_ret = -1;
	path_fd = open(path.text, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return errno == ENOENT ? shared_replaced(pid)
				       : probe_error_system(errno, "%s", path.text);
	if (!is_new(path_fd, &fs)) {
		error = shared_replaced(pid);
	} else if (!keeps_room(&fs)) {
		error = keeps_none(file->path);
	} else if (!is_in_place(path_fd, file)) {
		error = probe_error_new(PROBE_ERROR_STATE,
			"cannot create %s: its folder was replaced just then", file->path);
	} else {
		*fd_ret = procfs_open_regular(path_fd, O_RDWR);
		error = *fd_ret < 0 ? probe_error_system(errno, "cannot open %s", file->path)
				    : take_room(pid, *fd_ret, file);
	}
	if (!error)
		return NULL;
	cleanup_fd(fd_ret);
	lasting_remove_open(pid, tid, fd);
	return error;
}

/* ---- Removing --------------------------------------------------------------------------- */

/*
 * Opens a folder. The kernel reports paths without links, so a link on the way is newer and is not
 * followed.
 */
static int open_folder(const char *root, const char *path, size_t length)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	AUTO_FD int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FREE char *folder = strndup(path, length);

	return top < 0 || !folder ? -1
	       : length		  ? (int)syscall(SYS_openat2, top, folder, &how, sizeof(how))
				  : dup(top);
}

static bool remove_below(const char *root, const struct mapping *m)
{
	const char *name = strrchr(m->path, '/') + 1;
	size_t length = (size_t)(name - m->path);
	AUTO_FD int folder = open_folder(root, m->path + 1, length > 1 ? length - 2 : 0);
	struct stat st;

	if (folder < 0)
		return false;
	return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       st.st_ino == m->inode && major(st.st_dev) == m->dev_major &&
	       minor(st.st_dev) == m->dev_minor && unlinkat(folder, name, 0) == 0;
}

static void remove_name(pid_t pid, const struct mapping *m)
{
	if (!remove_below("/", m))
		remove_below(procfs_path("/proc/%d/root", procfs_living(pid)).text, m);
}

void lasting_remove_open(pid_t pid, pid_t tid, int64_t fd)
{
	struct procfs_path path = descriptor_path(pid, tid, fd);
	char name[PATH_BYTES_MAX];
	struct mapping m = {.path = name};
	struct stat st;
	ssize_t length = readlink(path.text, name, sizeof(name) - 1);

	if (length <= 0)
		return;
	name[length] = '\0';
	if (*name != '/' || !shared_is_lasting_name(name) || stat(path.text, &st) < 0)
		return;
	m.inode = st.st_ino;
	m.dev_major = major(st.st_dev);
	m.dev_minor = minor(st.st_dev);
	remove_name(pid, &m);
}

uint32_t lasting_maker(pid_t pid)
{
	long own = procfs_status_last_number(pid, "NSpid:");

	return own > 0 ? (uint32_t)own : 0;
}

bool lasting_note(struct lasting_names *names, const struct maps *maps, uint64_t address)
{
	const struct mapping *m = maps_find(maps, address);
	struct mapping copy;

	if (!m || m->deleted || !shared_is_lasting(m))
		return true;
	copy = *m;
	if (!ARRAY_ROOM(names->items, names->count) || !(copy.path = strdup(m->path)))
		return false;
	names->items[names->count++] = copy;
	return true;
}

void lasting_remove(const struct lasting_names *names, pid_t pid)
{
	for (size_t i = 0; i < names->count; i++)
		remove_name(pid, &names->items[i]);
}

void lasting_deinit(struct lasting_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free((char *)names->items[i].path);
	free(names->items);
	*names = (struct lasting_names){0};
}

/* ==== Change file ============================================================================= */

enum { MAP_TRIES = 4, FILE_ARGUMENT = 4 /* fd of mmap(2) */, NOT_MADE = 1, MAPPINGS_LEFT = 256 };

/* Leaves the program some mappings, because the kernel limits a process's number of them. */
static struct probe_error *need_mappings(const struct change *change, size_t count)
{
	char text[32];
	size_t limit;

	if (!file_read("/proc/sys/vm/max_map_count", text, sizeof(text)) ||
		sscanf(text, "%zu", &limit) != 1 ||
		change->maps.count + count + MAPPINGS_LEFT <= limit)
		return NULL;
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d has %zu mappings and may have %zu (sysctl vm.max_map_count): probectl "
		"leaves it the last %d",
		change->pid, change->maps.count, limit, MAPPINGS_LEFT);
}

struct memory_file {
	pid_t pid;
	pid_t tid; /* the thread that has the descriptor: threads may have their own (unshare(2)) */
	size_t size;
	const struct lasting_file *lasting; /* the file, if it outlives the process; else NULL */
	int64_t fd;			    /* the target's descriptor, or -1 */
	int pidfd;			    /* pidfd of the target, or -1 */
	int threads; /* the target's /proc/PID/task; -1 if another process may share its memory */
	int ours;
	bool is_replaced;
	struct probe_error *error;
	struct control_call calls[CHANGE_FILE_CALLS + 2]; /* memfd_create(), mmap() …, close() */
	size_t count;
};

/* Opens the file that the target has created, and sets its descriptor in the later calls. */
static bool open_file(void *data, pid_t tid)
{
	struct memory_file *file = data;
	struct stat status;

	file->tid = tid;
	file->fd = file->calls[0].result;
	for (size_t i = 1; i < file->count - 1; i++)
		file->calls[i].args[FILE_ARGUMENT] = (uint64_t)file->fd;
	file->calls[file->count - 1].args[0] = (uint64_t)file->fd;
	file->error = file->lasting
			      ? lasting_open(file->pid, tid, file->fd, file->lasting, &file->ours)
			      : shared_open(file->pid, tid, file->pidfd, file->fd, &file->ours);
	/*
	 * No other thread uses the descriptors: /proc/PID/task has two links more than it has
	 * threads.
	 */
	file->calls[file->count - 2].lets_go = !file->lasting && file->threads >= 0 &&
					       fstat(file->threads, &status) == 0 &&
					       status.st_nlink == 3;
	return !file->error;
}

/* Returns true if the descriptor may be closed, because it is still that of our file. */
static bool is_same(void *data, pid_t tid)
{
	struct memory_file *file = data;

	file->is_replaced = !shared_is_same(file->pid, tid, file->fd, file->ours,
		file->pidfd >= 0 && seccomp_may_call(SECCOMP_OWN_KCMP));
	return !file->is_replaced;
}

static void prepare_file(struct memory_file *file, uint64_t path, const struct control_call *maps)
{
	size_t count = file->count - 2;

	file->fd = file->ours = -1;
	file->is_replaced = false;
	if (file->lasting)
		file->calls[0] = (struct control_call){.number = SYS_openat,
			.args = {(uint64_t)AT_FDCWD, path,
				O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600}};
	else
		file->calls[0] = (struct control_call){.number = SYS_memfd_create,
			.args = {0, SHARED_MEMFD_FLAGS},
			.text = SHARED_NAME};
	file->calls[0].then = open_file;
	file->calls[0].data = file;
	for (size_t i = 0; i < count; i++)
		file->calls[i + 1] = maps[i];
	file->calls[count].then = is_same;
	file->calls[count].data = file;
	file->calls[count + 1] = (struct control_call){.number = SYS_close, .result = NOT_MADE};
}

static void unmap_file(struct change *change, struct memory_file *file)
{
	for (size_t i = 1; i < file->count - 1; i++) {
		struct control_call *map = &file->calls[i];
		struct own_extent undo = {
			(uint64_t)map->result, map->args[1], OWN_NAMED, false, false};

		if (map->result > 0)
			probe_error_free(own_unmap(change, &undo, 1));
		map->result = 0;
	}
}

/* Makes one try. After an error no descriptor is open, but mappings may remain. */
static struct probe_error *map_file(struct change *change, struct memory_file *file)
{
	struct control_call *last = &file->calls[file->count - 1];
	struct probe_error *error = change_run(change, "map memory", file->calls, file->count);

	if (error && file->lasting && file->calls[0].result < 0) {
		probe_error_free(error);
		return probe_error_system((int)-file->calls[0].result,
			"process %d cannot make %s, which must not be there yet", change->pid,
			file->lasting->path);
	}
	if (error && file->calls[0].result == -EACCES) {
		probe_error_free(error);
		file->calls[0].args[1] |= SHARED_MEMFD_NOEXEC_SEAL;
		error = change_run(change, "map memory", file->calls, file->count);
	}
	if (!error) {
		error = file->error;
		file->error = NULL;
	}
	if (file->lasting && file->ours >= 0 && (error || file->is_replaced))
		lasting_remove_open(getpid(), getpid(), file->ours);
	/* Close the target's descriptor if the calls ended before close(). */
	if (file->fd >= 0 && last->result == NOT_MADE && memory_is_there(change->mem) &&
		is_same(file, file->tid))
		probe_error_free(change_run(change, "close a file", last, 1));
	if (file->is_replaced) {
		unmap_file(change, file);
		probe_error_free(error);
		error = shared_replaced(change->pid);
	}
	return error;
}

/* Creates, maps and closes the file in a borrowed thread. */
static struct probe_error *run_file(struct change *change, struct memory_file *file, uint64_t path,
	const struct control_call *calls)
{
	AUTO_FREE pid_t *guests = children_sharing(file->pid);
	struct probe_error *error;

	/* Find out as much as possible before a thread is stopped. */
	if (seccomp_may_call(SECCOMP_OWN_TAKE))
		file->pidfd = (int)syscall(SYS_pidfd_open, file->pid, 0);
	if (!guests)
		file->threads = procfs_open_threads(file->pid);
	error = change_borrow(change);
	if (error)
		return error;
	file->is_replaced = true;
	for (int i = 0; i < MAP_TRIES && file->is_replaced && !error; i++) {
		cleanup_fd(&file->ours);
		prepare_file(file, path, calls);
		error = map_file(change, file);
		if (file->is_replaced && i < MAP_TRIES - 1) {
			probe_error_free(error);
			error = NULL;
		}
	}
	change_give_back(change);
	return error;
}

/* Finds the last mmap()'s result, which we did not see, in the mappings (none after the end). */
static struct probe_error *settle(struct memory_file *file)
{
	struct control_call *map = &file->calls[file->count - 2];
	struct probe_error *error = NULL;
	AUTO(maps_deinit) struct maps maps = {0};
	struct stat st = {0};

	if (!map->is_unseen)
		return NULL;
	error = maps_read(file->pid, &maps);
	if (!error && !maps.count)
		error = probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", file->pid);
	fstat(file->ours, &st);
	map->result = map->wanted && maps_find(&maps, map->wanted) ? -EEXIST : -ENOMEM;
	for (size_t i = 0; i < maps.count; i++) {
		const struct mapping *m = &maps.items[i];

		if (m->inode == st.st_ino && m->offset == 0 &&
			(!map->wanted || m->start == map->wanted) &&
			(shared_is_code(m) || shared_is_data(m)))
			map->result = (int64_t)m->start;
	}
	if (error || map->result > 0)
		return error;
	return probe_error_system((int)-map->result, "process %d: cannot map memory", file->pid);
}

/*
 * Allocates all pages that may be written: with vm.overcommit_memory=2, stores to pages that are
 * not allocated may fail. This includes code, because switching probes off must work without
 * memory.
 */
static struct probe_error *fill_file(
	const struct memory_file *file, const struct lasting_file *data)
{
	struct data_extent extent = {0, file->size};
	uint64_t bytes = data ? data_bytes(data->layout) : file->size;
	int err = 0;

	if (!overcommit_is_strict())
		return NULL;
	if (!data)
		err = overcommit_fill(file->ours, extent.start, extent.end);
	for (uint32_t i = 0; data && !err && data_extent(data->layout, i, &extent); i++)
		err = overcommit_fill(file->ours, extent.start, extent.end);
	if (err != ENOSPC)
		return err ? probe_error_system(err, "process %d: %ju bytes of shared memory",
				     file->pid, (uintmax_t)bytes)
			   : NULL;
	return probe_error_new(PROBE_ERROR_SYSTEM,
		"process %d: no memory for %ju KiB that hits may write: with "
		"vm.overcommit_memory=2, the machine has %ju KiB left",
		file->pid, (uintmax_t)bytes >> 10, (uintmax_t)overcommit_room() >> 10);
}

struct probe_error *change_map_file(struct change *change, size_t size,
	const struct lasting_file *data, struct control_call *calls, size_t count, int *fd_ret)
{
	const struct lasting_file *lasting = data && data->path ? data : NULL;
	struct memory_file file = {.pid = change->pid,
		.size = size,
		.lasting = lasting,
		.fd = -1,
		.pidfd = -1,
		.threads = -1,
		.ours = -1,
		.count = count + 2};
	struct probe_error *error = need_mappings(change, count);
	struct lasting_file found = {.folder = -1};

	if (lasting) {
		found.path = lasting->path;
		found.layout = lasting->layout;
		file.lasting = &found;
	}
	if (!error && lasting)
		error = lasting_find(change->pid, found.path, &found.folder);
	error = error
		?: run_file(change, &file, lasting ? lasting->address : 0, calls)
		?: settle(&file);
	if (!error && !lasting) {
		error = shared_set_size(file.pid, file.ours, size) ?: fill_file(&file, data);
		if (error)
			unmap_file(change, &file);
	}
	for (size_t i = 0; i < count; i++)
		calls[i].result = file.calls[i + 1].result;
	if (error || !fd_ret)
		cleanup_fd(&file.ours);
	if (fd_ret)
		*fd_ret = file.ours;
	cleanup_fd(&found.folder);
	cleanup_fd(&file.pidfd);
	cleanup_fd(&file.threads);
	return error;
}
