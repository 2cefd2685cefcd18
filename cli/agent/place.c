/* SPDX-License-Identifier: MIT */
/*
 * The folder is locked, not the socket: the kernel drops the lock with the agent, however it ends,
 * while a socket's name stays. Whoever has the lock may remove that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cli/agent/place.h"

enum { PATH_BYTES = 4096, BACKLOG = 16, LOCK_TRIES = 50, LOCK_PAUSE_NS = 10000000 };

static const char socket_name[] = "agent.sock";

static struct probe_error *folder_path(char path[PATH_BYTES])
{
	const char *runtime = getenv("RUNTIME_DIRECTORY"), *user = getenv("XDG_RUNTIME_DIR");
	int length;

	if (runtime && *runtime == '/')
		length = snprintf(path, PATH_BYTES, "%s", runtime);
	else if (geteuid() == 0)
		length = snprintf(path, PATH_BYTES, "/run/probectl");
	else if (user && *user == '/')
		length = snprintf(path, PATH_BYTES, "%s/probectl", user);
	else
		return probe_error_new(PROBE_ERROR_USAGE,
			"XDG_RUNTIME_DIR is not set: the agent needs a folder for its socket "
			"(set RUNTIME_DIRECTORY to one)");
	if (length >= PATH_BYTES)
		return probe_error_new(
			PROBE_ERROR_USAGE, "the name of the agent's folder is too long");
	return NULL;
}

/* The address by the folder's descriptor: names of sockets are limited to 107 bytes. */
static struct sockaddr_un address_in(int folder)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", folder,
		socket_name);
	return address;
}

/*
 * 0, or an errno(3). When an agent is killed while it starts a session, its lock is also the new
 * process's until that is executed, or notices.
 */
static int take_lock(int folder)
{
	for (int i = 0; flock(folder, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK || i == LOCK_TRIES)
			return errno;
		nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
	}
	return 0;
}

static struct probe_error *lock_folder(int folder, const char *path)
{
	struct stat st;
	int err;

	if (fstat(folder, &st) < 0)
		return probe_error_system(errno, "cannot look at %s", path);
	if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"%s must belong to user %u, and nobody else may write to it", path,
			(unsigned int)geteuid());
	err = take_lock(folder);
	if (!err)
		return NULL;
	if (err == EWOULDBLOCK)
		return probe_error_new(PROBE_ERROR_STATE,
			"an agent runs already, in %s ('probectl agent --status'); another one "
			"needs another RUNTIME_DIRECTORY",
			path);
	return probe_error_system(err, "cannot lock %s", path);
}

struct probe_error *place_take(int *folder_ret)
{
	char path[PATH_BYTES];
	struct probe_error *error = folder_path(path);

	if (error)
		return error;
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return probe_error_system(errno, "cannot make the folder %s", path);
	*folder_ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*folder_ret < 0)
		return probe_error_system(errno, "cannot open the folder %s", path);
	return lock_folder(*folder_ret, path);
}

struct probe_error *place_listen(int folder, int *fd_ret)
{
	struct sockaddr_un address = address_in(folder);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;
	mode_t mask;

	if (fd < 0)
		return probe_error_system(errno, "cannot make a socket");
	place_remove(folder); /* of an agent that was killed */
	mask = umask(0177);
	err = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
	umask(mask);
	if (!err && listen(fd, BACKLOG) < 0)
		err = errno;
	if (err) {
		close(fd);
		return probe_error_system(
			err, "cannot listen at %s in the agent's folder", socket_name);
	}
	*fd_ret = fd;
	return NULL;
}

void place_remove(int folder)
{
	unlinkat(folder, socket_name, 0);
}

struct probe_error *place_connect(int *fd_ret)
{
	char path[PATH_BYTES];
	struct probe_error *error = folder_path(path);
	struct sockaddr_un address;
	int folder, fd, err;

	if (error)
		return error;
	folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = folder < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	err = fd < 0 ? errno : 0;
	if (!err) {
		address = address_in(folder);
		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
			err = errno;
	}
	if (folder >= 0)
		close(folder);
	if (!err) {
		*fd_ret = fd;
		return NULL;
	}
	if (fd >= 0)
		close(fd);
	if (err == ENOENT || err == ECONNREFUSED)
		return probe_error_new(PROBE_ERROR_NOT_FOUND,
			"no agent runs in %s ('systemctl status probectl-agent')", path);
	return probe_error_system(err, "cannot ask the agent in %s", path);
}
