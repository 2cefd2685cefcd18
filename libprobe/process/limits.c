/* SPDX-License-Identifier: MIT */
/*
 * Finds out how much memory a process may still get.
 *
 * A page of a memfd is committed when it is first touched, not when the file gets its size. With
 * vm.overcommit_memory=2, the kernel refuses to commit a page beyond the commit limit, and sends
 * SIGBUS to the process that touched the page. Stubs touch pages in the target, so the target would
 * get the signal. With the other settings the kernel does not refuse a page, except before Linux
 * 5.2 if it cannot free one. If memory runs out, it kills a process instead.
 *
 * fallocate(2) commits pages before they are touched, and reports an error instead. The pages are
 * charged to the control group of the process that calls fallocate(2).
 *
 * Sources: Documentation/mm/overcommit-accounting.rst of Linux; shmem_inode_acct_blocks() in
 * mm/shmem.c, __vm_enough_memory() in mm/util.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "libprobe/process/process.h"

/* ==== Overcommit ============================================================================== */

enum {
	NEVER = 2, /* OVERCOMMIT_NEVER of Linux */
	TEXT_MAX = 4096,
	PATH_BYTES = 256,
	AT_ONCE = 16 << 20 /* bytes per call: a signal undoes only the current fallocate(2) */
};

static bool is_strict_in(const char *folder)
{
	char path[PATH_BYTES], text[16];

	snprintf(path, sizeof(path), "%s/sys/vm/overcommit_memory", folder);
	return file_read(path, text, sizeof(text)) && strtol(text, NULL, 10) == NEVER;
}

/* Returns a value of /proc/meminfo in bytes; 0 if it is missing. */
static uint64_t figure(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) << 10 : 0;
}

uint64_t overcommit_room_in(const char *folder)
{
	char path[PATH_BYTES], text[TEXT_MAX];
	uint64_t limit, used;

	if (!is_strict_in(folder))
		return UINT64_MAX;
	snprintf(path, sizeof(path), "%s/meminfo", folder);
	file_read_whole(path, text, sizeof(text));
	limit = figure(text, "\nCommitLimit:");
	used = figure(text, "\nCommitted_AS:");
	return used < limit ? limit - used : 0;
}

bool overcommit_is_strict(void)
{
	return is_strict_in("/proc");
}

uint64_t overcommit_room(void)
{
	return overcommit_room_in("/proc");
}

int overcommit_fill(int fd, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end;) {
		uint64_t bytes = end - at < AT_ONCE ? end - at : AT_ONCE;

		if (fallocate(fd, 0, (off_t)at, (off_t)bytes) == 0)
			at += bytes;
		else if (errno != EINTR)
			return errno;
	}
	return 0;
}

/* ==== Cgroup ================================================================================== */

/*
 * Memory is charged to the control group of the process that touches it first. The target is first
 * to touch the pages that stubs write. In a frozen group (`docker pause`, `systemctl freeze`), no
 * thread runs an instruction of its program, and a system call that a thread has begun for us ends
 * only when the group is thawed. With version 1 of the freezer, a thread does not even stop for
 * ptrace(2).
 *
 * /proc/PID/cgroup names a process's groups, one line per hierarchy:
 *
 * 	4:memory:/docker/5f3c     version 1, of this controller
 * 	0::/system.slice/x        version 2
 *
 * The paths start at the root of the reader's cgroup namespace. /proc/self/mountinfo says where
 * each hierarchy is mounted, and which of its folders is mounted there, as in a container:
 *
 * 	34 31 0:32 /docker/5f3c /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
 *
 * Each folder up to the mount point may have a limit. Usage includes file caches, which the kernel
 * drops before it kills; only inactive caches are counted as free here.
 *
 * Sources: cgroups(7), cgroup_namespaces(7), proc_pid_mountinfo(5);
 * Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and cgroup-v1/freezer-subsystem.rst
 * of Linux.
 */

enum { CGROUP_TEXT_MAX = 1 << 16, NUMBER_MAX = 64, STAT_MAX = 8192, FOLDERS_MAX = 128 };
#define UNLIMITED (UINT64_C(1) << 60) /* version 1 shows about 2^63 if there is no limit */

/* The names of the files of one cgroup version. */
struct version {
	const char *type; /* type of the file system */
	const char *limits[2], *used, *cache, *events;
};

static const struct version versions[] = {
	{"cgroup", {"memory.limit_in_bytes", NULL}, "memory.usage_in_bytes", "total_inactive_file ",
		"memory.oom_control"},
	/* Above `high`, a process is throttled rather than killed. */
	{"cgroup2", {"memory.max", "memory.high"}, "memory.current", "inactive_file ",
		"memory.events"},
};

/* ---- Paths --------------------------------------------------------------------------------- */

static bool has_word(const char *list, const char *word, size_t end)
{
	size_t length = strlen(word);

	for (const char *at = list; at < list + end;) {
		size_t part = strcspn(at, ",:\n");

		if (part == length && strncmp(at, word, length) == 0)
			return true;
		at += part + 1;
	}
	return false;
}

/* Finds the path of a process's group in a hierarchy. Returns false if there is no such group. */
static bool find_group(const char *groups, size_t version, const char *controller, char *path)
{
	for (const char *line = groups; line && *line; line = strchr(line, '\n')) {
		const char *list, *at;

		line += *line == '\n';
		list = strchr(line, ':');
		at = list ? strchr(list + 1, ':') : NULL;
		if (!at || strcspn(at + 1, "\n") >= PATH_MAX)
			continue;
		if (version ? list + 1 != at || strncmp(line, "0:", 2) != 0
			    : !has_word(list + 1, controller, (size_t)(at - list - 1)))
			continue;
		snprintf(path, PATH_MAX, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
		return true;
	}
	return false;
}

/* Decodes the octal numbers by which mountinfo shows blanks and similar characters. */
static void unescape(char *text)
{
	char *out = text;

	for (; *text; text++) {
		unsigned int code;

		if (*text == '\\' && sscanf(text, "\\%3o", &code) == 1) {
			*out++ = (char)code;
			text += 3;
		} else {
			*out++ = *text;
		}
	}
	*out = '\0';
}

/* Finds where a hierarchy is mounted (`point`), and which of its folders is there (`root`). */
static bool find_mount(
	const char *mounts, size_t version, const char *controller, char *root, char *point)
{
	for (const char *line = mounts; line && *line; line = strchr(line, '\n')) {
		const char *end;
		char type[32], options[256];

		line += *line == '\n';
		end = strstr(line, " - ");
		if (!end || end > line + strcspn(line, "\n") ||
			sscanf(line, "%*d %*d %*s %4095s %4095s", root, point) != 2 ||
			sscanf(end, " - %31s %*s %255s", type, options) != 2 ||
			strcmp(type, versions[version].type) != 0 ||
			(!version && !has_word(options, controller, strlen(options))))
			continue;
		unescape(root);
		unescape(point);
		return true;
	}
	return false;
}

/* Finds a group's folder. *mount_ret becomes the length of the mount point in the path. */
static bool find_folder(const char *folder, const char *groups, const char *mounts, size_t version,
	const char *controller, char *ret, size_t *mount_ret)
{
	char group[PATH_MAX], root[PATH_MAX], point[PATH_MAX];
	const char *inside = group;
	size_t length;
	int mount;

	if (!find_group(groups, version, controller, group) ||
		!find_mount(mounts, version, controller, root, point))
		return false;
	length = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(group, root, length) != 0 || (group[length] && group[length] != '/'))
		return false; /* the group is elsewhere, or above everything visible */
	inside += length;
	if (strncmp(inside, "/..", 3) == 0)
		return false;
	mount = snprintf(ret, PATH_MAX, "%s%s", folder, point);
	if (mount < 0 || mount >= PATH_MAX)
		return false;
	*mount_ret = (size_t)mount;
	length = strlen(inside);
	if (length && inside[length - 1] == '/')
		length--;
	return snprintf(ret + mount, PATH_MAX - (size_t)mount, "%.*s", (int)length, inside) <
	       PATH_MAX - mount;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Reads a file of a folder. Returns false if there is no such file. */
static bool read_file(const char *folder, const char *name, char *text, size_t size)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", folder, name);

	return length > 0 && length < PATH_MAX && file_read(path, text, size) > 0;
}

static uint64_t number_in(const char *folder, const char *name, uint64_t missing)
{
	char text[NUMBER_MAX];

	if (!name || !read_file(folder, name, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return missing; /* the file has no number, but for example "max" */
	return strtoull(text, NULL, 10);
}

/* Returns the number after a key, in a file with one key per line; 0 if the key is missing. */
static uint64_t number_behind(const char *text, const char *key)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, strlen(key)) == 0)
			return strtoull(line + strlen(key), NULL, 10);
	}
	return 0;
}

void cgroup_memory_in(
	const char *folder, const char *groups, const char *mounts, struct cgroup_memory *ret)
{
	*ret = (struct cgroup_memory){UINT64_MAX, UINT64_MAX};
	for (size_t v = 0; v < sizeof(versions) / sizeof(*versions); v++) {
		char path[PATH_MAX];
		size_t mount;

		if (!find_folder(folder, groups, mounts, v, "memory", path, &mount))
			continue;
		for (int i = 0; i < FOLDERS_MAX; i++) {
			uint64_t limit = number_in(path, versions[v].limits[0], UINT64_MAX);
			uint64_t high = number_in(path, versions[v].limits[1], UINT64_MAX);
			uint64_t used = number_in(path, versions[v].used, 0), cache = 0;
			char stat[STAT_MAX];

			limit = high < limit ? high : limit;
			if (limit < UNLIMITED) {
				if (read_file(path, "memory.stat", stat, sizeof(stat)))
					cache = number_behind(stat, versions[v].cache);
				used -= cache < used ? cache : used;
				if ((used < limit ? limit - used : 0) < ret->room)
					*ret = (struct cgroup_memory){
						limit, used < limit ? limit - used : 0};
			}
			if (strlen(path) <= mount)
				break;
			*strrchr(path, '/') = '\0';
		}
	}
}

/* ---- Frozen ---------------------------------------------------------------------------------- */

/*
 * Returns true if the group's file says "frozen". This includes frozen ancestors (in version 2 once
 * they are frozen).
 */
static bool says_frozen(const char *path, size_t version)
{
	char text[STAT_MAX];

	if (!version)
		return read_file(path, "freezer.state", text, sizeof(text)) && text[0] == 'F';
	return number_in(path, "cgroup.freeze", 0) == 1 ||
	       (read_file(path, "cgroup.events", text, sizeof(text)) &&
		       number_behind(text, "frozen ") == 1);
}

bool cgroup_frozen_in(
	const char *folder, const char *groups, const char *mounts, char ret[CGROUP_PATH_BYTES])
{
	for (size_t v = 0; v < sizeof(versions) / sizeof(*versions); v++) {
		char path[PATH_MAX];
		size_t mount;
		bool found = false;

		if (!find_folder(folder, groups, mounts, v, "freezer", path, &mount))
			continue;
		/* The highest frozen group is the one to thaw. */
		for (int i = 0; i < FOLDERS_MAX; i++) {
			if (says_frozen(path, v)) {
				snprintf(ret, CGROUP_PATH_BYTES, "%s", path);
				found = true;
			}
			if (strlen(path) <= mount)
				break;
			*strrchr(path, '/') = '\0';
		}
		if (found)
			return true;
	}
	return false;
}

/* ---- Groups of a process --------------------------------------------------------------------- */

/* Reads both files into one allocation. Returns NULL if memory is short. */
static char *read_both(pid_t pid, const char **mounts_ret)
{
	char *text = malloc(2 * CGROUP_TEXT_MAX);

	if (!text)
		return NULL;
	file_read(procfs_path("/proc/%d/cgroup", pid).text, text, CGROUP_TEXT_MAX);
	file_read_whole("/proc/self/mountinfo", text + CGROUP_TEXT_MAX, CGROUP_TEXT_MAX);
	*mounts_ret = text + CGROUP_TEXT_MAX;
	return text;
}

void cgroup_memory(pid_t pid, struct cgroup_memory *ret)
{
	const char *mounts;
	AUTO_FREE char *groups = read_both(pid, &mounts);

	*ret = (struct cgroup_memory){UINT64_MAX, UINT64_MAX};
	if (groups)
		cgroup_memory_in("", groups, mounts, ret);
}

bool cgroup_frozen(pid_t pid, char ret[CGROUP_PATH_BYTES])
{
	const char *mounts;
	AUTO_FREE char *groups = read_both(pid, &mounts);

	return groups && cgroup_frozen_in("", groups, mounts, ret);
}

char *cgroup_events(pid_t pid)
{
	const char *mounts;
	AUTO_FREE char *groups = read_both(pid, &mounts);
	char *ret = NULL;

	for (size_t v = 0; groups && !ret && v < sizeof(versions) / sizeof(*versions); v++) {
		char path[PATH_MAX], text[STAT_MAX];
		size_t mount;

		if (find_folder("", groups, mounts, v, "memory", path, &mount) &&
			read_file(path, versions[v].events, text, sizeof(text)) &&
			asprintf(&ret, "%s/%s", path, versions[v].events) < 0)
			ret = NULL;
	}
	return ret;
}

uint64_t cgroup_kills(const char *events)
{
	char text[STAT_MAX];

	return events && file_read(events, text, sizeof(text)) ? number_behind(text, "oom_kill ")
							       : 0;
}
