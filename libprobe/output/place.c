/* SPDX-License-Identifier: MIT */
/*
 * Opens files and folders for output.
 *
 * In a folder like /tmp, where everybody may put files, but not remove those of others
 * (the sticky bit), another user can be there first: with a link by which root writes
 * over a file of root's, or with a file or a pipe of his own. Linux has settings against
 * that (fs.protected_symlinks, _regular, _fifos, _hardlinks; proc_sys_fs(5)), which may be
 * 0. So their rules are kept here, for every component of a path: in a sticky folder that
 * others may write to,
 *
 *	a link is followed      if it is ours, or the folder's owner's
 *	what is there is used   likewise; and a file only if it has no other name, since
 *	                        its creator is unknown
 *
 * Links of /proc are followed by the kernel: what they lead to has no path
 * (/dev/stdout, /dev/fd/N).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "libprobe/output/place.h"
#include "probe/sink.h"

enum { LINKS_MAX = 40 /* as the kernel's */ };

struct walk {
	const char *path; /* what is made, for messages */
	int at;		  /* the folder that has been reached */
	char rest[PATH_MAX];
	unsigned int links;
};

static struct probe_error *failed(const struct walk *w)
{
	return probe_error_system(errno, "cannot create %s", w->path);
}

/* Another user may have put it there. */
static struct probe_error *not_ours(const struct walk *w, const char *name, const char *what)
{
	return probe_error_new(PROBE_ERROR_PERMISSION,
		"cannot create %s: '%s' is %s, in a folder where everybody may put one", w->path,
		name, what);
}

static bool is_trusted(const struct stat *folder, const struct stat *st)
{
	bool open = folder->st_mode & S_ISVTX && folder->st_mode & (S_IWOTH | S_IWGRP);

	return !open || st->st_uid == geteuid() || st->st_uid == folder->st_uid;
}

/* May the present file or folder be used? */
static struct probe_error *check_there(
	const struct walk *w, const char *name, const struct stat *st)
{
	struct stat folder;

	if (fstat(w->at, &folder))
		return failed(w);
	if (!is_trusted(&folder, st))
		return not_ours(w, name, "another user's");
	if (S_ISREG(st->st_mode) && st->st_nlink > 1 && folder.st_mode & S_ISVTX &&
		folder.st_mode & S_IWOTH)
		return not_ours(w, name, "a file with another name, too");
	return NULL;
}

static void move_to(struct walk *w, int fd)
{
	close(w->at);
	w->at = fd;
}

static bool of_proc(int at)
{
	struct statfs fs;

	return fstatfs(at, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* Puts what a link says before the rest of the path. */
static struct probe_error *follow(struct walk *w, const char *name, const struct stat *link)
{
	char text[PATH_MAX], rest[PATH_MAX];
	struct stat folder;
	ssize_t length;
	int root;

	if (fstat(w->at, &folder))
		return failed(w);
	if (!is_trusted(&folder, link))
		return not_ours(w, name, "another user's link");
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
	if (text[0] != '/')
		return NULL;
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return failed(w);
	move_to(w, root);
	return NULL;
}

/* Takes the next component off the rest; false where there is none. */
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

/* Opens the file that was checked, and no other one. */
static struct probe_error *open_there(
	const struct walk *w, const char *name, const struct stat *there, int *ret)
{
	struct probe_error *error = check_there(w, name, there);
	struct stat st;

	if (error)
		return error;
	*ret = openat(w->at, name, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
	if (*ret < 0)
		return failed(w);
	if (fstat(*ret, &st) == 0 && st.st_dev == there->st_dev && st.st_ino == there->st_ino &&
		(!S_ISREG(st.st_mode) || ftruncate(*ret, 0) == 0))
		return NULL;
	error = failed(w);
	close(*ret);
	*ret = -1;
	return error;
}

/* The last component of a file's path; *again_ret: another process was faster. */
static struct probe_error *open_last(struct walk *w, const char *name, int *ret, bool *again_ret)
{
	struct stat st;
	int err;

	*ret = openat(w->at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (*ret >= 0)
		return NULL;
	/* In folders that are not for files (/dev, /proc) it is not EEXIST, whatever is there. */
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

/* A folder on the way, or at its end. */
static struct probe_error *enter(struct walk *w, const char *name, bool last)
{
	struct probe_error *error = NULL;
	bool link;
	struct stat st;
	int fd;

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
	move_to(w, fd);
	return NULL;
}

/* What is done with a component; *ret >= 0 ends the walk. */
typedef struct probe_error *step_fn(struct walk *w, const char *name, bool last, int *ret);

/* The caller closes w->at. Messages call the path `shown`. */
static struct probe_error *walk(
	struct walk *w, const char *path, const char *shown, step_fn *step, int *ret)
{
	char name[NAME_MAX + 1];
	struct probe_error *error = NULL;
	bool last = false;

	*w = (struct walk){.path = path, .at = -1};
	*ret = -1;
	if (strlen(path) >= sizeof(w->rest) || !*path) {
		errno = *path ? ENAMETOOLONG : ENOENT;
		return failed(w);
	}
	strcpy(w->rest, path);
	w->at = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->at < 0)
		return failed(w);
	w->path = shown;
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
	struct walk w;
	struct probe_error *error = walk(&w, path, path, file_step, ret);

	if (!error && *ret < 0)
		error = is_folder(&w);
	if (w.at >= 0)
		close(w.at);
	return error;
}

static struct probe_error *folder_step(struct walk *w, const char *name, bool last, int *ret)
{
	(void)ret;
	if (last && mkdirat(w->at, name, 0777) && errno != EEXIST)
		return failed(w);
	return enter(w, name, last);
}

struct probe_error *place_folder(const char *path, int *ret)
{
	struct walk w;
	/* The caller says which. */
	struct probe_error *error = walk(&w, path, "the folder", folder_step, ret);

	if (!error) {
		*ret = openat(w.at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		error = *ret < 0 ? failed(&w) : NULL;
	}
	if (w.at >= 0)
		close(w.at);
	return error;
}
