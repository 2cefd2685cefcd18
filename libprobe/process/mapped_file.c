/* SPDX-License-Identifier: MIT */
/*
 * Opening the files that a process has mapped.
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
 * followed (libprobe/process/process.h). btrfs and overlayfs print another device in maps than
 * stat(2) returns; there the inode and the first bytes in memory must agree.
 *
 * If none of them leads to the file, another one may be at its path: after an upgrade of a package.
 * It is used if it is the same version once more, as its build id says.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "libprobe/process/process.h"

/*
 * Enough for the ELF header, the program headers and, in the usual file layout, the build id;
 * too little to reach code, which may have been patched.
 */
enum { COMPARED_BYTES = 1024 };

/* O_NONBLOCK: the path may be a FIFO by now. */
enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK };

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
 * Whether the file's first bytes equal those in memory. If they cannot be compared (reading
 * memory takes more rights than reading maps), the inode must do: patching compares the bytes
 * of every site again.
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

bool mapped_is_memory(const struct mapping *mapping)
{
	return strncmp(mapping->path, "/memfd:", 7) == 0;
}

static bool is_mapped_inode(const struct stat *st, const void *mapping)
{
	return same_inode(st, mapping);
}

/* Opens a path if it is the mapped file; else returns -1, and *err_ret is 0 for another file. */
static int open_verified(const struct mapped_files *files, const struct mapping *mapping,
	const char *root, int *err_ret)
{
	int fd = beneath_open(root, mapping->path, is_mapped_inode, mapping, err_ret);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && (same_device(&st, mapping) || same_header(files, mapping, fd)))
		return fd;
	close(fd);
	return -1;
}

static void map_file_path(
	const struct mapped_files *files, const struct mapping *mapping, char path[96])
{
	snprintf(path, 96, "/proc/%d/map_files/%llx-%llx", (int)files->pid,
		(unsigned long long)mapping->start, (unsigned long long)mapping->end);
}

static int open_map_file(struct mapped_files *files, const struct mapping *mapping)
{
	char path[96];
	struct stat st;
	int fd;

	if (files->no_map_files)
		return -1;
	map_file_path(files, mapping, path);
	fd = open(path, OPEN_FLAGS);
	if (fd < 0) {
		files->no_map_files = errno == EPERM || errno == EACCES;
		return -1;
	}
	/* The mapping may have been replaced since maps was read. */
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && same_inode(&st, mapping))
		return fd;
	close(fd);
	return -1;
}

char *mapped_failure(const struct mapping *mapping, bool replaced, int err)
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

/* Opens the program's file only if it is what is mapped: otherwise its device may not answer. */
static void open_exe(struct mapped_files *files, const struct mapping *mapping)
{
	char path[48], link[4096];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)files->pid);
	length = readlink(path, link, sizeof(link));
	if (files->exe >= 0 || length < (ssize_t)strlen(mapping->path) ||
		memcmp(link, mapping->path, strlen(mapping->path)) != 0)
		return;
	files->exe = open(path, OPEN_FLAGS);
	if (files->exe >= 0 && fstat(files->exe, &files->exe_st) != 0) {
		close(files->exe);
		files->exe = -1;
	}
}

/* The mapped file, or -1; *err_ret is 0 if no descriptor or path refers to it. */
static int open_here(struct mapped_files *files, const struct mapping *mapping, int *err_ret)
{
	char root[48];
	int fd;

	fd = open_map_file(files, mapping);
	if (fd >= 0)
		return fd;
	open_exe(files, mapping);
	if (files->exe >= 0 && same_inode(&files->exe_st, mapping) &&
		(same_device(&files->exe_st, mapping) || same_header(files, mapping, files->exe))) {
		fd = fcntl(files->exe, F_DUPFD_CLOEXEC, 0);
		if (fd >= 0)
			return fd;
	}
	if (mapped_is_memory(mapping))
		return memfds_open(&files->memfds, files->pid, mapping, err_ret);
	snprintf(root, sizeof(root), "/proc/%d/root", (int)files->pid);
	fd = open_verified(files, mapping, root, err_ret);
	if (fd < 0) {
		int err_here;

		fd = open_verified(files, mapping, "/", &err_here);
	}
	return fd;
}

/* The file that distant_copy() opens. */
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

/* ---- What is there instead --------------------------------------------------------- */

static bool is_any(const struct stat *st, const void *data)
{
	(void)st;
	(void)data;
	return true;
}

static int open_any(void *data, int *err_ret)
{
	const struct wanted *wanted = data;
	char root[48];

	snprintf(root, sizeof(root), "/proc/%d/root", (int)wanted->files->pid);
	return beneath_open(root, wanted->mapping->path, is_any, NULL, err_ret);
}

int mapped_successor(struct mapped_files *files, const struct mapping *mapping)
{
	struct wanted wanted = {files, mapping};
	int err;

	look_at_device(files, mapping);
	if (!files->distant)
		return open_any(&wanted, &err);
	return files->silent ? -1 : distant_copy(open_any, &wanted, &err);
}

bool mapped_is_copy(const struct mapped_files *files, const struct mapping *mapping, int fd)
{
	/* A note's type and name (elf(5), Nhdr): NT_GNU_BUILD_ID, "GNU". */
	static const uint32_t build_id[] = {3, 0x554e47};
	unsigned char in_file[COMPARED_BYTES], in_memory[COMPARED_BYTES];
	const struct mapping *header = mapping_of_header(files, mapping);

	return header && pread(fd, in_file, sizeof(in_file), 0) == sizeof(in_file) &&
	       memory_read(files->pid, header->start, in_memory, sizeof(in_memory)) ==
		       sizeof(in_memory) &&
	       memcmp(in_file, in_memory, sizeof(in_file)) == 0 &&
	       memmem(in_file, sizeof(in_file), build_id, sizeof(build_id));
}

bool mapped_stat(struct mapped_files *files, const struct mapping *mapping, struct stat *ret)
{
	char path[96];

	if (files->no_map_files)
		return false;
	look_at_device(files, mapping);
	if (files->distant)
		return false;
	map_file_path(files, mapping, path);
	return stat(path, ret) == 0 && same_inode(ret, mapping);
}

void mapped_files_deinit(struct mapped_files *files)
{
	if (files->exe >= 0)
		close(files->exe);
	memfds_deinit(&files->memfds);
}
