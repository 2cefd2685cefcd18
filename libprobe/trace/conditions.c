/* SPDX-License-Identifier: MIT */
/*
 * Conditions on processes, checked in /proc: proc_pid_exe(5), proc_pid_cgroup(5),
 * proc_pid_status(5), namespaces(7). No call may wait for a file system that another program
 * serves, so files are examined with AT_STATX_DONT_SYNC.
 *
 * For a program in a container, /proc shows the path inside the container. So --exe PATH also
 * matches a program that has this path inside its container.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/trace/trace.h"

/* ==== Container =============================================================================== */

/*
 * The kernel knows no containers. A container manager puts each container into a control group
 * with the container's name:
 *
 *   /system.slice/docker-ID.scope, /docker/ID                 Docker
 *   /machine.slice/libpod-ID.scope, .../libpod-ID.scope/...   Podman
 *   /kubepods.slice/.../cri-containerd-ID.scope, crio-ID      Kubernetes
 *   /lxc.payload.NAME, /lxc/NAME                              LXC, Incus
 *   /machine.slice/systemd-nspawn@NAME.service, machine-NAME  systemd-nspawn
 *
 * An id has 64 hexadecimal digits; users type the first ones. Docker and Podman store the names
 * of containers in files of their own:
 *
 *   /var/lib/docker/containers/ID/config.v2.json           {...,"Name":"/web",...}
 *   .../containers/storage/overlay-containers/containers.json
 *                                                          [{"id":"5f3c...","names":["web"],...
 *
 * These files are only searched for the texts above. A text inside a JSON string cannot match:
 * its quotes are written \".
 */

enum {
	ID_DIGITS = 64,
	TYPED_DIGITS = 4, /* minimum number of digits of an id that the user types */
	STATE_BYTES = 1 << 20
};

static const char digits[] = "0123456789abcdef";
static const char docker_folder[] = "/var/lib/docker/containers";

/* ---- Names ------------------------------------------------------------------------- */

char *container_named_in_docker(const char *folder, const char *name)
{
	AUTO_FREE char *text = malloc(STATE_BYTES);
	char path[512], wanted[300], *found = NULL;
	AUTO_DIR DIR *dir = text ? opendir(folder) : NULL;
	struct dirent *entry;

	snprintf(wanted, sizeof(wanted), "\"Name\":\"/%s\"", name);
	while (dir && !found && (entry = readdir(dir))) {
		if (strspn(entry->d_name, digits) != ID_DIGITS)
			continue;
		snprintf(path, sizeof(path), "%s/%s/config.v2.json", folder, entry->d_name);
		if (file_read_whole(path, text, STATE_BYTES) && strstr(text, wanted))
			found = strdup(entry->d_name);
	}
	return found;
}

/* Returns true if the wanted name is in the list of names that follows a container's id. */
static bool is_named(const char *object, const char *end, const char *wanted)
{
	static const char field[] = "\"names\":[";
	const char *names = strstr(object, field), *found, *close;

	if (!names || names >= end)
		return false;
	close = strchr(names + strlen(field), ']');
	found = strstr(names + strlen(field) - 1, wanted);
	return close && found && found < close;
}

char *container_named_in_storage(const char *path, const char *name)
{
	static const char field[] = "\"id\":\"";
	AUTO_FREE char *text = malloc(STATE_BYTES);
	char wanted[300], *found = NULL;
	const char *at = NULL;

	snprintf(wanted, sizeof(wanted), "\"%s\"", name);
	if (text && file_read_whole(path, text, STATE_BYTES))
		at = strstr(text, field);
	while (at && !found) {
		const char *id = at + strlen(field), *next = strstr(id, field);
		const char *end = next ? next : text + strlen(text);

		if (strspn(id, digits) == ID_DIGITS && is_named(id, end, wanted))
			found = strndup(id, ID_DIGITS);
		at = next;
	}
	return found;
}

/*
 * Sets *ret to the text by which container_has() finds a container: its id if Docker or Podman has
 * a container with the name `text`, else `text`. Errors: PROBE_ERROR_USAGE (an empty name).
 */
static struct probe_error *container_find(const char *text, char **ret)
{
	const char *home = getenv("HOME");
	char path[512];

	if (!text[0] || strchr(text, '"') || strlen(text) >= 256)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--container '%s': give the id or the name of a container", text);
	*ret = container_named_in_docker(docker_folder, text);
	if (!*ret)
		*ret = container_named_in_storage(
			"/var/lib/containers/storage/overlay-containers/containers.json", text);
	if (!*ret && home) {
		snprintf(path, sizeof(path),
			"%s/.local/share/containers/storage/overlay-containers/containers.json",
			home);
		*ret = container_named_in_storage(path, text);
	}
	if (!*ret)
		*ret = strdup(text);
	return *ret ? NULL : probe_error_no_memory();
}

/* ---- Groups ------------------------------------------------------------------------- */

/*
 * Returns true if a folder, such as "docker-5f3c....scope", belongs to the container with this id.
 */
static bool has_id(const char *folder, size_t length, const char *id)
{
	const char *at = folder + length;
	size_t typed = strlen(id);

	if (typed < TYPED_DIGITS || strspn(id, digits) != typed)
		return false;
	while (at > folder && at[-1] != '-')
		at--;
	return strspn(at, digits) == ID_DIGITS && strncmp(at, id, typed) == 0;
}

static bool has_name(const char *folder, size_t length, const char *name, bool below_lxc)
{
	static const char *const forms[][2] = {{"lxc.payload.", ""}, {"machine-", ".scope"},
		{"systemd-nspawn@", ".service"}, {"libpod-", ".scope"}, {"docker-", ".scope"}};
	char whole[400];

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		int got = snprintf(whole, sizeof(whole), "%s%s%s", forms[i][0], name, forms[i][1]);

		if ((size_t)got == length && memcmp(whole, folder, length) == 0)
			return true;
	}
	return below_lxc && strlen(name) == length && memcmp(name, folder, length) == 0;
}

bool container_has(const char *container, const char *groups)
{
	const char *at = groups;
	bool below_lxc = false;

	while (*at) {
		size_t length = strcspn(at, "/\n");

		if (has_id(at, length, container) || has_name(at, length, container, below_lxc))
			return true;
		below_lxc = length == 3 && strncmp(at, "lxc", 3) == 0;
		at += length;
		at += *at != '\0';
	}
	return false;
}

/* ==== Conditions ============================================================================== */

enum {
	COMM_LENGTH = 15, /* maximum length of a command name: TASK_COMM_LEN without the NUL */
	LOOK_NS = 100 * 1000 * 1000,
	TEXT_BYTES = 1 << 14
};

static const char groups_mount[] = "/sys/fs/cgroup";

struct file_id {
	uint64_t device, inode;
};

/* One value of an option such as --exe or --user. */
struct value {
	const char *text; /* the value as the user typed it; argv owns it */
	char *found;	  /* path of a program found in PATH; owned */
	char *path;	  /* absolute path of a file or control group; owned */
	uid_t user;
	char *container; /* id or name of a container; owned */
	/* The file, and the files that it has replaced since the start. Owned. */
	struct file_id *files;
	size_t file_count;
	/* Time of the last check whether the file was replaced, CLOCK_MONOTONIC. */
	uint64_t looked_ns;
};

struct conditions {
	struct {
		struct value *values;
		size_t count;
	} kinds[PROBE_CONDITION_COUNT];
	struct file_id mounts; /* the id of our mount namespace */
	/* A seccomp(2) filter forbids statx(2), or kills processes that call it. */
	bool no_statx;
};

/* ---- Programs --------------------------------------------------------------------- */

static bool file_id_of(const struct conditions *c, const char *path, struct file_id *ret)
{
	struct statx st;
	struct stat old;

	/* stat(2) may have to wait for a file system that another program serves. */
	if (c->no_statx && stat(path, &old) < 0)
		return false;
	if (c->no_statx) {
		*ret = (struct file_id){
			(uint64_t)major(old.st_dev) << 32 | minor(old.st_dev), old.st_ino};
		return true;
	}
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &st) < 0)
		return false;
	*ret = (struct file_id){(uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor, st.stx_ino};
	return true;
}

static bool file_id_same(const struct file_id *a, const struct file_id *b)
{
	return a->device == b->device && a->inode == b->inode;
}

static bool has_been(const struct value *value, const struct file_id *id)
{
	for (size_t i = 0; i < value->file_count; i++)
		if (file_id_same(&value->files[i], id))
			return true;
	return false;
}

/* Returns the name under which we find the file now. Later, the name may lead to another file. */
static const char *name_of(const struct value *value)
{
	return value->found ? value->found : value->text;
}

/* Checks whether the file was replaced, as an upgrade does. Returns false on lack of memory. */
static bool look_at_file(const struct conditions *c, struct value *value)
{
	uint64_t now = clock_monotonic_ns();
	struct file_id id;

	if (value->looked_ns && now - value->looked_ns < LOOK_NS)
		return true;
	value->looked_ns = now;
	if (!file_id_of(c, name_of(value), &id) || has_been(value, &id))
		return true;
	if (!ARRAY_ROOM(value->files, value->file_count))
		return false;
	value->files[value->file_count++] = id;
	return true;
}

/* Reads the path of a process's program, without the suffix " (deleted)" that the kernel adds. */
static bool read_exe(pid_t pid, char path[PATH_MAX])
{
	static const char deleted[] = " (deleted)";
	const size_t length = sizeof(deleted) - 1;
	ssize_t got = readlink(procfs_path("/proc/%d/exe", (int)pid).text, path, PATH_MAX - 1);

	if (got <= 0)
		return false;
	path[got] = '\0';
	if ((size_t)got > length && strcmp(path + got - length, deleted) == 0)
		path[(size_t)got - length] = '\0';
	return true;
}

/* Returns true if the program is a dynamic loader, which maps the program in its arguments. */
static bool is_loader(const char *exe)
{
	const char *name = strrchr(exe, '/');

	return name && (strncmp(name, "/ld-linux", 9) == 0 || strncmp(name, "/ld-musl", 8) == 0 ||
			       strncmp(name, "/ld-2.", 6) == 0 || strncmp(name, "/ld.so", 6) == 0);
}

/* Returns true if the process has mapped the file as code. */
static bool has_mapped(const struct value *value, pid_t pid)
{
	AUTO_FILE FILE *maps = fopen(procfs_path("/proc/%d/maps", (int)pid).text, "re");
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (maps && !found && getline(&line, &room, maps) > 0) {
		const char *file = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		found = file && strcmp(file, value->path) == 0 && strstr(line, " r-xp ");
	}
	return found;
}

/* Returns true if the process's program has this path in the mount namespace of the process. */
static bool has_path_there(const struct conditions *c, const struct value *value, pid_t pid,
	const char *exe, const struct file_id *id)
{
	char path[PATH_MAX + 32];
	struct file_id there, mounts;

	if (!file_id_of(c, procfs_path("/proc/%d/ns/mnt", (int)pid).text, &mounts) ||
		file_id_same(&mounts, &c->mounts))
		return false;
	if (strcmp(exe, value->path) == 0)
		return true;
	if (value->text[0] != '/')
		return false;
	/* Look it up in the process's mount namespace: it may be a symbolic link. */
	snprintf(path, sizeof(path), "/proc/%d/root%.*s", (int)pid, PATH_MAX, value->text);
	return file_id_of(c, path, &there) && file_id_same(&there, id);
}

static bool runs(const struct conditions *c, struct value *value, pid_t pid)
{
	char path[PATH_MAX];
	struct file_id id;

	if (!look_at_file(c, value) ||
		!file_id_of(c, procfs_path("/proc/%d/exe", (int)pid).text, &id))
		return false;
	if (has_been(value, &id))
		return true;
	if (!read_exe(pid, path))
		return false;
	return has_path_there(c, value, pid, path, &id) ||
	       (is_loader(path) && has_mapped(value, pid));
}

static bool is_called(const char *name, pid_t pid)
{
	char path[PATH_MAX], comm[64], *base;

	if (file_read(procfs_path("/proc/%d/comm", (int)pid).text, comm, sizeof(comm))) {
		comm[strcspn(comm, "\n")] = '\0';
		if (strncmp(comm, name, COMM_LENGTH) == 0 && strlen(comm) <= COMM_LENGTH)
			return true;
	}
	base = read_exe(pid, path) ? strrchr(path, '/') : NULL;
	return base && strcmp(base + 1, name) == 0;
}

/* ---- Users and groups ---------------------------------------------------------------- */

/*
 * Returns true if `path`, or a group below it, is in a list with lines HIERARCHY:CONTROLLERS:PATH.
 */
static bool is_in_group(const char *groups, const char *path)
{
	size_t length = strlen(path);

	for (const char *line = groups; line && *line; line = strchr(line, '\n')) {
		const char *at;

		line += *line == '\n';
		at = strchr(line, ':');
		at = at ? strchr(at + 1, ':') : NULL;
		if (at && strncmp(at + 1, path, length) == 0 && strchr("/\n", at[1 + length]))
			return true;
	}
	return false;
}

static bool is_in(enum probe_condition kind, const struct value *value, pid_t pid)
{
	char groups[TEXT_BYTES];

	if (!file_read_whole(procfs_path("/proc/%d/cgroup", (int)pid).text, groups, sizeof(groups)))
		return false;
	return kind == PROBE_CONDITION_CGROUP ? is_in_group(groups, value->path)
					      : container_has(value->container, groups);
}

static bool meets(
	const struct conditions *c, enum probe_condition kind, struct value *value, pid_t pid)
{
	switch (kind) {
	case PROBE_CONDITION_EXE:
		return runs(c, value, pid);
	case PROBE_CONDITION_NAME:
		return is_called(value->text, pid);
	case PROBE_CONDITION_USER:
		/* In the "Uid:" line, the first number is the real user id. */
		return procfs_status_number(pid, "Uid:") == (long)value->user;
	default:
		return is_in(kind, value, pid);
	}
}

/* ---- Values ------------------------------------------------------------------------- */

/* Returns true if any process in another mount namespace runs a program with this path there. */
static bool any_runs_there(const struct conditions *c, struct value *value)
{
	AUTO_DIR DIR *list = procfs_processes();
	bool any = false;
	pid_t pid;

	value->path = strdup(value->text);
	while (value->path && !any && (pid = procfs_next_id(list)))
		any = runs(c, value, pid);
	free(value->path);
	value->path = NULL;
	return any;
}

/*
 * Finds the file that --exe names by its path, or by a name in PATH. If `elsewhere` is set, accepts
 * an absolute path that our mount namespace does not have.
 */
static struct probe_error *take_file(
	const struct conditions *c, struct value *value, bool elsewhere)
{
	struct file_id id;
	int err;

	value->path = realpath(value->text, NULL);
	if (!value->path && errno == ENOENT && !strchr(value->text, '/')) {
		value->found = file_in_path(value->text);
		errno = ENOENT;
		if (value->found)
			value->path = realpath(value->found, NULL);
	}
	if (!value->path && errno == ENOMEM)
		return probe_error_no_memory();
	err = errno;
	if (!value->path && value->text[0] == '/' && !elsewhere)
		elsewhere = any_runs_there(c, value);
	errno = err;
	if (!value->path && !(elsewhere && value->text[0] == '/'))
		return probe_error_system(errno, "--exe %s", value->text);
	if (!value->path)
		value->path = strdup(value->text);
	if (!value->path || (file_id_of(c, name_of(value), &id) && !look_at_file(c, value)))
		return probe_error_no_memory();
	return NULL;
}

static struct probe_error *take_user(struct value *value)
{
	struct passwd *entry = getpwnam(value->text);
	unsigned long number;
	char *end;

	if (entry) {
		value->user = entry->pw_uid;
		return NULL;
	}
	errno = 0;
	number = strtoul(value->text, &end, 10);
	if (value->text[0] >= '0' && value->text[0] <= '9' && !*end && !errno &&
		number < UINT32_MAX) {
		value->user = (uid_t)number;
		return NULL;
	}
	return probe_error_new(PROBE_ERROR_NOT_FOUND, "--user: there is no user '%s'", value->text);
}

/* Makes a control group's path relative to the root: a slash at the start, none at the end. */
static struct probe_error *take_group(struct value *value)
{
	const char *text = value->text;
	size_t mount = strlen(groups_mount);

	if (strncmp(text, groups_mount, mount) == 0 && strchr("/", text[mount]))
		text += mount;
	text += strspn(text, "/");
	if (asprintf(&value->path, "%s%s", *text ? "/" : "", text) < 0) {
		value->path = NULL;
		return probe_error_no_memory();
	}
	for (size_t end = strlen(value->path); end && value->path[end - 1] == '/';)
		value->path[--end] = '\0';
	return NULL;
}

static struct probe_error *take(const struct conditions *c, const struct probe_selection *selection,
	enum probe_condition kind, struct value *value)
{
	switch (kind) {
	case PROBE_CONDITION_EXE:
		return take_file(c, value, selection->conditions[PROBE_CONDITION_CONTAINER].count);
	case PROBE_CONDITION_USER:
		return take_user(value);
	case PROBE_CONDITION_CGROUP:
		return take_group(value);
	case PROBE_CONDITION_CONTAINER:
		return container_find(value->text, &value->container);
	default:
		return NULL;
	}
}

/* Returns true if we may call statx(2). A child tries it, because a seccomp(2) filter may kill. */
static bool may_statx(void)
{
	pid_t child, ended;
	struct statx st;
	int status = 0;

	if (procfs_status_number(getpid(), "Seccomp:") == 0)
		return true;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_DUMPABLE, 0);
		_exit(statx(-1, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st) < 0 &&
					errno == EBADF
				? 0
				: 1);
	}
	if (child < 0)
		return false;
	do {
		ended = waitpid(child, &status, 0);
	} while (ended < 0 && errno == EINTR);
	return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct probe_error *conditions_create(
	const struct probe_selection *selection, struct conditions **ret)
{
	struct conditions *c = calloc(1, sizeof(*c));
	struct probe_error *error = c ? NULL : probe_error_no_memory();
	size_t all = 0;

	if (c)
		c->no_statx = !may_statx();
	for (int kind = 0; kind < PROBE_CONDITION_COUNT && !error; kind++) {
		size_t count = selection->conditions[kind].count;

		c->kinds[kind].values = calloc(count + 1, sizeof(struct value));
		error = c->kinds[kind].values ? NULL : probe_error_no_memory();
		for (size_t i = 0; i < count && !error; i++, all++) {
			struct value *value = &c->kinds[kind].values[c->kinds[kind].count++];

			value->text = selection->conditions[kind].values[i];
			error = take(c, selection, kind, value);
		}
	}
	if (error || !all) {
		conditions_free(c);
		*ret = NULL;
		return error;
	}
	file_id_of(c, "/proc/self/ns/mnt", &c->mounts);
	*ret = c;
	return NULL;
}

void conditions_free(struct conditions *conditions)
{
	for (int kind = 0; conditions && kind < PROBE_CONDITION_COUNT; kind++) {
		for (size_t i = 0; i < conditions->kinds[kind].count; i++) {
			free(conditions->kinds[kind].values[i].path);
			free(conditions->kinds[kind].values[i].found);
			free(conditions->kinds[kind].values[i].container);
			free(conditions->kinds[kind].values[i].files);
		}
		free(conditions->kinds[kind].values);
	}
	free(conditions);
}

/* ---- All conditions ------------------------------------------------------------------- */

/*
 * Returns the first kind of condition that the process does not meet, or PROBE_CONDITION_COUNT if
 * it meets all kinds.
 */
static enum probe_condition first_unmet(struct conditions *c, pid_t pid)
{
	for (int kind = 0; kind < PROBE_CONDITION_COUNT; kind++) {
		size_t count = c->kinds[kind].count, i = 0;

		while (i < count && !meets(c, kind, &c->kinds[kind].values[i], pid))
			i++;
		if (count && i == count)
			return kind;
	}
	return PROBE_CONDITION_COUNT;
}

bool conditions_hold(struct conditions *conditions, pid_t pid)
{
	return !conditions || first_unmet(conditions, pid) == PROBE_CONDITION_COUNT;
}

/* Appends the values of one kind, or `only` one of them: "runs /bin/a or /bin/b". */
static void describe(const struct conditions *c, enum probe_condition kind,
	const struct value *only, struct buffer *out)
{
	static const char *const what[][2] = {
		[PROBE_CONDITION_EXE] = {"runs ", ""},
		[PROBE_CONDITION_NAME] = {"is called '", "'"},
		[PROBE_CONDITION_CGROUP] = {"is in control group ", ""},
		[PROBE_CONDITION_CONTAINER] = {"is in container ", ""},
		[PROBE_CONDITION_USER] = {"belongs to user ", ""},
	};
	bool any = false;

	for (size_t i = 0; i < c->kinds[kind].count; i++) {
		const struct value *value = &c->kinds[kind].values[i];

		if (only && only != value)
			continue;
		buffer_string(out, any ? " or " : what[kind][0]);
		if (any && what[kind][1][0])
			buffer_string(out, what[kind][1]);
		buffer_string(out, value->text);
		buffer_string(out, what[kind][1]);
		any = true;
	}
}

static void describe_all(const struct conditions *c, enum probe_condition narrowed,
	const struct value *only, struct buffer *out)
{
	size_t before = out->length;

	for (int kind = 0; kind < PROBE_CONDITION_COUNT; kind++) {
		if (c->kinds[kind].count && out->length > before)
			buffer_string(out, " and ");
		describe(c, kind, (enum probe_condition)kind == narrowed ? only : NULL, out);
	}
}

void conditions_describe(const struct conditions *conditions, struct buffer *out)
{
	describe_all(conditions, PROBE_CONDITION_COUNT, NULL, out);
}

bool conditions_describe_unmet(
	struct conditions *conditions, const pid_t *pids, size_t count, struct buffer *out)
{
	for (int kind = 0; kind < PROBE_CONDITION_COUNT; kind++) {
		for (size_t i = 0; i < conditions->kinds[kind].count; i++) {
			struct value *value = &conditions->kinds[kind].values[i];
			size_t at = 0;

			while (at < count && !meets(conditions, kind, value, pids[at]))
				at++;
			if (at < count)
				continue;
			describe_all(conditions, kind, value, out);
			return true;
		}
	}
	return false;
}

struct probe_error *conditions_check(struct conditions *conditions, pid_t pid)
{
	enum probe_condition kind =
		conditions ? first_unmet(conditions, pid) : PROBE_CONDITION_COUNT;
	struct probe_error *error;
	char exe[PATH_MAX];
	AUTO(buffer_deinit) struct buffer out = {0};

	if (kind == PROBE_CONDITION_COUNT)
		return NULL;
	describe(conditions, kind, NULL, &out);
	if (out.no_memory)
		error = probe_error_no_memory();
	else if (kind == PROBE_CONDITION_EXE && read_exe(pid, exe))
		error = probe_error_new(PROBE_ERROR_STATE, "process %d does not run %.*s but %s",
			(int)pid, (int)(out.length - strlen("runs ")), out.data + strlen("runs "),
			exe);
	else
		error = probe_error_new(PROBE_ERROR_STATE, "process %d is not one that %.*s",
			(int)pid, (int)out.length, out.data);
	return error;
}
