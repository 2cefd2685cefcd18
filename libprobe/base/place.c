/* SPDX-License-Identifier: MIT */
/*
 * Opens files and folders for output.
 *
 * In a folder where others may create files, such as /tmp, another user can prepare the path of our
 * output: with a link that makes root overwrite one of root's files, or with a file or a pipe of
 * their own. Linux has settings against that (fs.protected_symlinks, _regular, _fifos, _hardlinks;
 * proc_sys_fs(5)), but they may be 0, and they cover only sticky folders. So each component of a
 * path is checked here.
 *
 * A folder is closed if only the user and root can create files in it. In all other folders,
 *
 *	a link is followed if it belongs to the user or root, and has only one name
 *	a file is written, and a folder is used, if it belongs to the user, root or the owner of the
 *	folder that contains it. A file with two names is not written, because another user may have
 *	made either name (link(2)).
 *	a pipe, or any other file, is opened if it belongs to the user or root, because opening
 *	a pipe waits for its reader
 *
 * In a closed folder, the owner of the root folder counts as root, because in a user namespace root
 * has another number.
 *
 * The kernel follows the links of /proc, because their targets have no path (/dev/stdout,
 * /dev/fd/N).
 *
 * Output holds strings of programs, such as queries, so only the user may read new files.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "probe/sink.h"

enum { LINKS_MAX = 40 /* the kernel's limit */ };

struct walk {
	const char *path; /* the file or folder to create, for messages */
	uid_t user;	  /* the user who is to get the output */
	const char *root; /* path of the root folder */
	bool makes;	  /* missing folders are created */
	struct stat root_status;
	int at; /* descriptor of the folder reached so far, or -1 */
	char rest[PATH_MAX];
	unsigned int links;
};

static struct probe_error *failed(const struct walk *w)
{
	return probe_error_system(errno, "cannot create %s", w->path);
}

/* Returns the error for a file or folder that may belong to another user. */
static struct probe_error *not_ours(const struct walk *w, const char *name, const char *what)
{
	return probe_error_new(PROBE_ERROR_PERMISSION,
		"cannot create %s: '%s' is %s, in a folder where others may put one: name another "
		"place",
		w->path, name, what);
}

static bool is_users(const struct walk *w, const struct stat *st)
{
	return st->st_uid == w->user || st->st_uid == 0;
}

/*
 * Returns true if only the user and root can write to a folder. The group's rights include those of
 * an ACL (acl(5)).
 */
static bool is_closed(const struct walk *w, const struct stat *folder)
{
	return !(folder->st_mode & (S_IWGRP | S_IWOTH)) &&
	       (is_users(w, folder) || folder->st_uid == w->root_status.st_uid);
}

static struct probe_error *check_there(
	const struct walk *w, const char *name, const struct stat *st)
{
	struct stat folder;

	if (fstat(w->at, &folder))
		return failed(w);
	if (is_closed(w, &folder))
		return NULL;
	if (!is_users(w, st) &&
		!(st->st_uid == folder.st_uid && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))))
		return not_ours(w, name, "another user's");
	if (S_ISREG(st->st_mode) && st->st_nlink > 1)
		return not_ours(w, name, "a file with another name, too");
	return NULL;
}

static void move_to(struct walk *w, int fd)
{
	cleanup_fd(&w->at);
	w->at = fd;
}

static bool of_proc(int at)
{
	struct statfs fs;

	return fstatfs(at, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static struct probe_error *begin_at(struct walk *w, const char *folder)
{
	int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return failed(w);
	move_to(w, fd);
	return NULL;
}

/*
 * Returns true if this is the process's root folder, above which ".." must not go, as in the
 * kernel.
 */
static bool is_root(const struct walk *w)
{
	struct stat st;

	return fstat(w->at, &st) == 0 && st.st_dev == w->root_status.st_dev &&
	       st.st_ino == w->root_status.st_ino;
}

/* Puts a link's target before the rest of the path. */
static struct probe_error *follow(struct walk *w, const char *name, const struct stat *link)
{
	char text[PATH_MAX], rest[PATH_MAX];
	struct stat folder;
	ssize_t length;

	if (fstat(w->at, &folder))
		return failed(w);
	if (!is_closed(w, &folder) && (!is_users(w, link) || link->st_nlink > 1))
		return not_ours(w, name,
			is_users(w, link) ? "a link with a second name" : "another user's link");
	length = readlinkat(w->at, name, text, sizeof(text) - 1);
	if (length < 0)
		return failed(w);
	text[length] = '\0';
	strcpy(rest, w->rest);
	if (++w->links > LINKS_MAX || (size_t)length + 1 + strlen(rest) >= sizeof(w->rest)) {
		errno = ELOOP;
		return failed(w);
	}
	stpcpy(stpcpy(stpcpy(w->rest, text), *rest ? "/" : ""), rest);
	return text[0] == '/' ? begin_at(w, w->root) : NULL;
}

/* Takes the next component of the path. Returns false at the end of the path. */
static bool next_name(struct walk *w, char name[NAME_MAX + 1], bool *last_ret)
{
	char *start = w->rest + strspn(w->rest, "/");
	size_t length = strcspn(start, "/");

	if (!length || length > NAME_MAX)
		return false;
	memcpy(name, start, length);
	name[length] = '\0';
	start += length;
	*last_ret = start[strspn(start, "/")] == '\0';
	memmove(w->rest, start, strlen(start) + 1);
	return true;
}

/* Returns true if this is the file that was checked, which may have been replaced since. */
static bool is_same(int fd, const struct stat *checked)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == checked->st_dev && st.st_ino == checked->st_ino;
}

/* Opens the file that was checked, and no other. */
static struct probe_error *open_there(
	const struct walk *w, const char *name, const struct stat *there, int *ret)
{
	struct probe_error *error = check_there(w, name, there);

	if (error)
		return error;
	/* O_NONBLOCK: a pipe may have replaced the file. */
	*ret = openat(w->at, name,
		O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW |
			(S_ISREG(there->st_mode) ? O_NONBLOCK : 0));
	if (*ret < 0)
		return failed(w);
	if (!is_same(*ret, there))
		errno = ESTALE;
	else if (!S_ISREG(there->st_mode) || ftruncate(*ret, 0) == 0)
		return NULL;
	error = failed(w);
	close(*ret);
	*ret = -1;
	return error;
}

/*
 * Opens the last component of a path. *again_ret is true if it is a link, or was removed in the
 * meantime.
 */
static struct probe_error *open_last(struct walk *w, const char *name, int *ret, bool *again_ret)
{
	struct stat st;
	int err;

	*ret = openat(w->at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
	if (*ret >= 0)
		return NULL;
	/* In /dev and /proc, errors differ from EEXIST even if the file exists. */
	err = errno;
	if (fstatat(w->at, name, &st, AT_SYMLINK_NOFOLLOW)) {
		*again_ret = err == EEXIST && errno == ENOENT && ++w->links <= LINKS_MAX;
		errno = err == EEXIST ? errno : err;
		return *again_ret ? NULL : failed(w);
	}
	if (!S_ISLNK(st.st_mode))
		return open_there(w, name, &st, ret);
	if (!of_proc(w->at)) {
		*again_ret = true;
		w->rest[0] = '\0';
		return follow(w, name, &st);
	}
	*ret = openat(w->at, name, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
	return *ret < 0 ? failed(w) : NULL;
}

/* Enters a folder on the path, or at its end. */
static struct probe_error *enter(struct walk *w, const char *name, bool last)
{
	struct probe_error *error = NULL;
	bool link;
	struct stat st;
	int fd;

	if (strcmp(name, "..") == 0 && is_root(w))
		return NULL;
	if (fstatat(w->at, name, &st, AT_SYMLINK_NOFOLLOW))
		return failed(w);
	link = S_ISLNK(st.st_mode);
	if (link && !of_proc(w->at))
		return follow(w, name, &st);
	if (last && !link && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
		error = check_there(w, name, &st);
	if (error)
		return error;
	fd = openat(w->at, name,
		(last ? O_RDONLY : O_PATH) | O_DIRECTORY | O_CLOEXEC | (link ? 0 : O_NOFOLLOW));
	if (fd < 0)
		return failed(w);
	if (last && !link && !is_same(fd, &st)) {
		close(fd);
		errno = ESTALE;
		return failed(w);
	}
	move_to(w, fd);
	return NULL;
}

/* Handles a component. *ret >= 0 ends the walk. */
typedef struct probe_error *step_fn(struct walk *w, const char *name, bool last, int *ret);

/* Walks along a path. The caller sets `path`, `user` and `root`, and closes w->at. */
static struct probe_error *walk(struct walk *w, const char *path, step_fn *step, int *ret)
{
	char name[NAME_MAX + 1];
	struct probe_error *error;
	bool last = false;

	w->at = -1;
	*ret = -1;
	if (strlen(path) >= sizeof(w->rest) || !*path) {
		errno = *path ? ENAMETOOLONG : ENOENT;
		return failed(w);
	}
	strcpy(w->rest, path);
	if (stat(w->root, &w->root_status))
		return failed(w);
	error = begin_at(w, *path == '/' ? w->root : ".");
	while (!error && *ret < 0 && next_name(w, name, &last))
		error = step(w, name, last, ret);
	return error;
}

static struct probe_error *is_folder(const struct walk *w)
{
	errno = EISDIR;
	return failed(w);
}

static struct probe_error *file_step(struct walk *w, const char *name, bool last, int *ret)
{
	struct probe_error *error;
	bool again = false;

	if (!last)
		return enter(w, name, false);
	if (w->rest[0] || !strcmp(name, ".") || !strcmp(name, ".."))
		return is_folder(w);
	error = open_last(w, name, ret, &again);
	if (!error && again && !w->rest[0])
		strcpy(w->rest, name);
	return error;
}

struct probe_error *probe_output_open(const char *path, int *ret)
{
	struct walk w = {.path = path, .user = geteuid(), .root = "/"};
	struct probe_error *error;

	if (strcmp(path, "-") == 0) {
		*ret = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
		return *ret < 0 ? failed(&w) : NULL;
	}
	error = walk(&w, path, file_step, ret);
	if (!error && *ret < 0)
		error = is_folder(&w);
	cleanup_fd(&w.at);
	return error;
}

static struct probe_error *folder_step(struct walk *w, const char *name, bool last, int *ret)
{
	(void)ret;
	if (last && w->makes && mkdirat(w->at, name, FOLDER_MODE) && errno != EEXIST)
		return failed(w);
	return enter(w, name, last);
}

struct probe_error *file_folder(const char *path, bool make, int *ret)
{
	/* The caller's message names the folder. */
	struct walk w = {.path = "the folder", .user = geteuid(), .root = "/", .makes = make};
	struct probe_error *error = walk(&w, path, folder_step, ret);

	if (!error) {
		*ret = openat(w.at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		error = *ret < 0 ? failed(&w) : NULL;
	}
	cleanup_fd(&w.at);
	return error;
}

static struct probe_error *parent_step(struct walk *w, const char *name, bool last, int *ret)
{
	if (!last)
		return enter(w, name, false);
	*ret = fcntl(w->at, F_DUPFD_CLOEXEC, 0);
	return *ret < 0 ? failed(w) : NULL;
}

struct probe_error *file_parent(const char *root, uid_t user, const char *path, int *ret)
{
	struct walk w = {.path = path, .user = user, .root = root};
	struct probe_error *error = walk(&w, path, parent_step, ret);

	cleanup_fd(&w.at);
	return error;
}
