/* SPDX-License-Identifier: MIT */
/*
 * Targets: opened, changed, closed. Some stay stopped between two calls: started ones
 * (libprobe/follow/launch.c), and those that several steps change.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/base/permission.h"
#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"

/* ==== Lock ==================================================================================== */

/*
 * The lock is flock(2) on the folder /proc/PID/fdinfo: the kernel drops it when its holder dies.
 * Only those who may read the process's memory can open that folder (ptrace(2), PTRACE_MODE_READ;
 * before Linux 5.14 it has mode 0500), so no other user can hold the lock. Other files do not
 * serve: every user can open `status`; once the main thread has ended, nobody can open `mem`, and
 * only root can open files of mode 0400.
 *
 * Each pid namespace has its own inodes in /proc; since Linux 5.8, so has each mount of procfs.
 * Controllers in different namespaces therefore lock two files:
 *
 * 	/proc/PID/fdinfo		in the /proc of the controller
 * 	/proc/PID/root/proc/N/fdinfo	in the /proc of the target, where its pid is N
 *
 * A target can mount anything on its /proc, even a file system that never answers (FUSE). So the
 * second path is followed only while the kernel has it cached, and only within procfs. If that
 * fails, only the first file is locked. A target that arranges this harms only itself.
 *
 * A change takes milliseconds, or seconds on a busy machine or with thousands of sites. The limit
 * of the wait is far above that, because the holder may itself be stopped. If the holder's user may
 * trace the target, but not everything that we may trace, the limit is much lower: otherwise that
 * user could delay root by locking their own processes.
 *
 * Sources: fs/proc/fd.c, fs/proc/base.c and fs/proc/root.c of Linux, flock(2), proc_locks(5).
 */

#define SECOND_NS UINT64_C(1000000000)
#define PATIENCE_NS (20 * SECOND_NS)
/* limit of the wait while a thread of the target waits for us */
#define PATIENCE_LENT_NS (5 * SECOND_NS)
#define PATIENCE_STRANGER_NS (SECOND_NS / 2)
#define PATIENCE_HURRY_NS (SECOND_NS / 10)
#define PAUSE_NS 10000000

enum { OPEN_TRIES = 3, FIND_TRIES = 10, PATH_BYTES = 64 };

/* ---- The files ------------------------------------------------------------------------ */

/* Opens a file in procfs. Follows no link, and does not leave procfs. */
static int open_within(int procfs, long pid, const char *name)
{
	const struct open_how how = {.flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
	return (int)syscall(
		SYS_openat2, procfs, procfs_path("%ld/%s", pid, name).text, &how, sizeof(how));
}

/* Opens a process's /proc if it is a procfs. Accesses no other file system. */
static int open_their_proc(pid_t living)
{
	int root =
		open(procfs_path("/proc/%d/root", living).text, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char type[PROCFS_MOUNT_TYPE];
	struct file_id id;
	int proc = -1;

	if (root < 0)
		return -1;
	/* RESOLVE_CACHED also fails when another thread holds a kernel lock, so try again. */
	for (int i = 0; i < OPEN_TRIES && proc < 0; i++)
		proc = cached_open(root, "proc", RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	close(root);
	if (proc < 0)
		return -1;
	if (cached_identify(proc, &id) &&
		procfs_mount_type(living, major(id.device), minor(id.device), type) &&
		strcmp(type, "proc") == 0)
		return proc;
	close(proc);
	return -1;
}

/* Returns a process's pid in a procfs of its pid namespace or of one above it; or 0. */
static long pid_within(int procfs, pid_t pid)
{
	uint64_t start = procfs_start_time(pid);
	long pids[PROCFS_NUMBERS_MAX];
	size_t count = procfs_status_numbers(pid, "NSpid:", pids);

	while (count--) {
		int stat = open_within(procfs, pids[count], "stat");
		uint64_t its_start;

		if (stat < 0)
			continue;
		its_start = procfs_start_time_of(procfs_path("/proc/self/fd/%d", stat).text);
		close(stat);
		if (start && its_start == start)
			return pids[count];
	}
	return 0;
}

static int open_theirs(pid_t pid)
{
	pid_t living = procfs_living(pid);
	int procfs, fd = -1;
	long its_pid;

	/* If the process sees the same procfs on /proc as we do, there is only one file. */
	if (procfs_is_same_link(living, "ns/mnt") && procfs_is_same_link(living, "root"))
		return -1;
	procfs = open_their_proc(living);
	if (procfs < 0)
		return -1;
	its_pid = pid_within(procfs, pid);
	if (its_pid)
		fd = open_within(procfs, its_pid, "fdinfo");
	close(procfs);
	return fd;
}

/* Returns false and sets errno if our /proc/PID/fdinfo cannot be opened. */
static bool open_files(pid_t pid, struct target_lock *ret)
{
	struct stat ours, theirs;

	*ret = (struct target_lock){-1, -1};
	ret->ours = open(procfs_path("/proc/%d/fdinfo", pid).text, O_RDONLY | O_CLOEXEC);
	if (ret->ours < 0)
		return false;
	ret->theirs = open_theirs(pid);
	/* With two descriptors of one file, our second lock would wait for our first. */
	if (ret->theirs >= 0 && fstat(ret->ours, &ours) == 0 && fstat(ret->theirs, &theirs) == 0 &&
		ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino) {
		close(ret->theirs);
		ret->theirs = -1;
	}
	return true;
}

void lock_release(struct target_lock *lock)
{
	if (lock->ours >= 0)
		close(lock->ours);
	if (lock->theirs >= 0)
		close(lock->theirs);
	*lock = (struct target_lock){-1, -1};
}

/* Locks both files or neither. *taken_ret becomes the file that another process has locked. */
static bool take(const struct target_lock *lock, int how, int *taken_ret)
{
	*taken_ret = lock->ours;
	if (flock(lock->ours, how | LOCK_NB) < 0)
		return false;
	*taken_ret = lock->theirs;
	if (lock->theirs < 0 || flock(lock->theirs, how | LOCK_NB) == 0)
		return true;
	flock(lock->ours, LOCK_UN);
	return false;
}

/* ---- The holder ----------------------------------------------------------------------- */

/*
 * Returns the holder's pid from /proc/locks ("1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0
 * EOF"); 0 if it is not in our pid namespace.
 */
static pid_t find_holder(const char *file)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[256], found[PATH_BYTES];
	int pid = 0, its_pid;

	while (locks && !pid && fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*s FLOCK %*s %*s %d %63s", &its_pid, found) == 2 &&
			strcmp(found, file) == 0)
			pid = its_pid;
	if (locks)
		fclose(locks);
	return pid;
}

/*
 * Returns true if the process holds the lock, or if that is unknown. After the locker has forked a
 * child, which keeps the lock, the locker's pid may be reused.
 */
static bool has_lock(pid_t pid, const char *file)
{
	DIR *dir = opendir(procfs_path("/proc/%d/fdinfo", pid).text);
	char text[4096];
	const struct dirent *entry;
	bool found = false;

	if (!dir)
		return errno != ENOENT;
	while (!found && (entry = readdir(dir))) {
		const char *lock;

		lock = file_read(procfs_path("/proc/%d/fdinfo/%s", pid, entry->d_name).text, text,
			       sizeof(text))
			       ? strstr(text, "FLOCK")
			       : NULL;
		found = lock && strstr(lock, file);
	}
	closedir(dir);
	return found;
}

/* Returns true if the holder's user may trace less than we may, or is unknown. */
static bool is_stranger(pid_t target, pid_t holder)
{
	long users[PROCFS_NUMBERS_MAX];
	size_t count = procfs_status_numbers(holder ? holder : target, "Uid:", users);

	for (size_t i = 0; i < count; i++)
		if ((uid_t)users[i] != geteuid() && !(holder && users[i] == 0))
			return true;
	return count == 0;
}

static void name_holder(struct lock_holder *holder, pid_t pid, bool is_there)
{
	char comm[32];

	procfs_comm(pid, comm, sizeof(comm));
	if (!pid)
		snprintf(holder->name, sizeof(holder->name), "a process of another container");
	else if (!is_there)
		snprintf(holder->name, sizeof(holder->name), "a process forked by %d (ended)", pid);
	else if (!holder->is_stranger)
		snprintf(holder->name, sizeof(holder->name), "process %d (%s)", pid, comm);
	else
		snprintf(holder->name, sizeof(holder->name), "process %d (%s) of user %ld", pid,
			comm, procfs_status_number(pid, "Uid:"));
}

/*
 * Looks for the lock's holder, only once a second because the list of locks may be long. Returns
 * false if the lock should be tried again, because it may have been released before the list was
 * read. A holder that is never in the list is in another container.
 */
static bool look_for_holder(struct probe_target *target, int taken)
{
	struct lock_holder *holder = &target->holder;
	uint64_t now = clock_monotonic_ns();
	char file[PATH_BYTES];
	struct stat st = {0};
	bool is_there;
	pid_t pid;

	if (holder->looked_ns && now - holder->looked_ns < SECOND_NS)
		return true;
	/* The file's name as it appears in proc_locks(5). */
	fstat(taken, &st);
	snprintf(file, sizeof(file), "%02x:%02x:%ju", major(st.st_dev), minor(st.st_dev),
		(uintmax_t)st.st_ino);
	pid = find_holder(file);
	is_there = pid && has_lock(pid, file);
	if (!is_there && ++holder->misses < FIND_TRIES)
		return false;
	holder->misses = 0;
	holder->looked_ns = now;
	holder->is_stranger = is_stranger(target->pid, is_there ? pid : 0);
	name_holder(holder, pid, is_there);
	return true;
}

/* ---- Waiting -------------------------------------------------------------------------- */

static uint64_t patience_ns(const struct probe_target *target)
{
	if (target->holder.is_stranger)
		return target->hurry || target->late ? PAUSE_NS : PATIENCE_STRANGER_NS;
	if (target->hurry)
		return PATIENCE_HURRY_NS;
	return target->lender ? PATIENCE_LENT_NS : PATIENCE_NS;
}

static bool tell(const struct probe_target *target, unsigned int seconds)
{
	return !target->on_wait ||
	       target->on_wait(target->pid, seconds, target->holder.name, target->on_wait_data);
}

static void pause_a_moment(void)
{
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

bool probe_patience_wait(struct probe_patience *patience)
{
	uint64_t now = clock_monotonic_ns();
	uint64_t most = patience->is_longer ? PATIENCE_NS
			: patience->is_long ? CONTROL_PATIENCE_NS
					    : PATIENCE_STRANGER_NS;

	if (!patience->since_ns)
		patience->since_ns = now;
	if (!patience->signal_ns && patience_is_interrupted())
		patience->signal_ns = now;
	if (patience->is_over || now - patience->since_ns >= most ||
		(patience->signal_ns && now - patience->signal_ns >= SECOND_NS))
		return false;
	patience->is_long = patience->is_longer = false;
	patience->tell = 0;
	if ((now - patience->since_ns) / SECOND_NS > patience->told)
		patience->tell = ++patience->told;
	pause_a_moment();
	return true;
}

/* ---- Threads that cannot stop --------------------------------------------------------- */

static uid_t user_of(const struct probe_target *target)
{
	long user = procfs_status_number(target->pid, "Uid:");

	return user < 0 ? (uid_t)-1 : (uid_t)user;
}

/* Returns true if another user owns the target: waiting for it would delay other targets. */
static bool is_strangers(const struct probe_target *target)
{
	const struct probe_patience *patience = target->patience;

	return (patience ? __atomic_load_n(&patience->is_mixed, __ATOMIC_RELAXED) : target->late) &&
	       user_of(target) != geteuid();
}

uint64_t patience_for_threads(const struct probe_target *target, bool may_fail)
{
	uint64_t lent;

	if (target->hurry)
		return PATIENCE_HURRY_NS;
	if (target->patience && may_fail)
		return PAUSE_NS;
	if (!is_strangers(target))
		return target->late && !target->patience ? SECOND_NS : CONTROL_PATIENCE_NS;
	if (!target->patience)
		return PAUSE_NS;
	lent = __atomic_load_n(&target->patience->lent_ns, __ATOMIC_RELAXED);
	return lent + PAUSE_NS < PATIENCE_STRANGER_NS ? PATIENCE_STRANGER_NS - lent : PAUSE_NS;
}

struct probe_error *patience_after(const struct probe_target *target, bool may_fail,
	uint64_t begun_ns, struct probe_error *error)
{
	struct probe_patience *patience = target->patience;

	if (!error || error->code != PROBE_ERROR_BUSY)
		return error;
	if (!patience || !may_fail)
		error->code = PROBE_ERROR_STATE;
	if (!patience)
		return error;
	if (is_strangers(target))
		__atomic_fetch_add(
			&patience->lent_ns, clock_monotonic_ns() - begun_ns, __ATOMIC_RELAXED);
	else if (may_fail)
		__atomic_store_n(&patience->is_long, true, __ATOMIC_RELAXED);
	return error;
}

/* ---- The lock ------------------------------------------------------------------------- */

static struct probe_error *not_opened(pid_t pid, int err)
{
	if (err == EACCES || err == EPERM)
		return permission_trace_error(pid);
	return err == ENOENT || err == ESRCH ? procfs_no_process(pid)
					     : probe_error_system(err, "/proc/%d/fdinfo", pid);
}

struct probe_error *lock_target(struct probe_target *target, struct target_lock *ret)
{
	struct probe_patience *patience = target->patience;
	uint64_t begun_ns = clock_monotonic_ns(), waited_ns;
	unsigned int told = 0;
	int taken;

	if (!open_files(target->pid, ret))
		return not_opened(target->pid, errno);
	while (!take(ret, LOCK_EX, &taken)) {
		if (!look_for_holder(target, taken))
			continue;
		/* Tell the caller that the lock is busy. Several threads may share a patience. */
		if (patience && !target->holder.is_stranger)
			__atomic_store_n(&patience->is_longer, true, __ATOMIC_RELAXED);
		if (patience && patience->tell && !tell(target, patience->tell))
			__atomic_store_n(&patience->is_over, true, __ATOMIC_RELAXED);
		/* Without a patience, wait here, and report each second to the listener. */
		waited_ns = clock_monotonic_ns() - begun_ns;
		if (patience || waited_ns >= patience_ns(target) ||
			(waited_ns / SECOND_NS > told && !tell(target, ++told))) {
			lock_release(ret);
			return probe_error_new(PROBE_ERROR_BUSY,
				"%s has locked the probes of process %d: try again when it has "
				"ended",
				target->holder.name, target->pid);
		}
		pause_a_moment();
	}
	return NULL;
}

bool lock_is_taken(pid_t pid)
{
	struct target_lock lock;
	int taken;
	bool is_taken = open_files(pid, &lock) && !take(&lock, LOCK_SH, &taken);

	lock_release(&lock);
	return is_taken;
}

/* ==== Target ================================================================================== */

/* ---- Processes --------------------------------------------------------------------- */

struct probe_target *target_create(pid_t pid, uint64_t start_time)
{
	struct probe_target *target = malloc(sizeof(*target));

	if (target)
		*target = (struct probe_target){.pid = pid, .start_time = start_time, .mem = -1};
	return target;
}

/* Checks that the process runs this program. */
static struct probe_error *check_exe(pid_t pid, const char *exe)
{
	struct procfs_path path = procfs_path("/proc/%d/exe", procfs_living(pid));
	struct stat wanted, running;
	char link[4096];
	ssize_t length;

	if (stat(exe, &wanted) < 0)
		return probe_error_system(errno, "%s", exe);
	if (stat(path.text, &running) < 0)
		return errno == ENOENT ? procfs_no_process(pid)
				       : probe_error_system(errno, "%s", path.text);
	if (wanted.st_dev == running.st_dev && wanted.st_ino == running.st_ino)
		return NULL;
	length = readlink(path.text, link, sizeof(link) - 1);
	link[length < 0 ? 0 : length] = '\0';
	return probe_error_new(
		PROBE_ERROR_STATE, "process %d does not run %s but %s", pid, exe, link);
}

struct probe_error *probe_target_open(pid_t pid, const char *exe, struct probe_target **ret)
{
	struct probe_error *error = procfs_check();
	uint64_t start;

	if (error)
		return error;
	start = procfs_start_time(pid);
	if (!start)
		return procfs_no_room(errno) ? probe_error_system(errno, "/proc/%d/stat", pid)
					     : procfs_no_process(pid);
	if (procfs_is_zombie(pid))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has ended, and its parent has not waited for it yet", pid);
	if (procfs_is_kernel_thread(pid))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d is a kernel thread, which has no probes", pid);
	error = exe ? check_exe(pid, exe) : NULL;
	if (error)
		return error;
	*ret = target_create(pid, start);
	return *ret ? NULL : probe_error_no_memory();
}

struct probe_error *probe_target_executable(const struct probe_target *target, char **ret)
{
	struct procfs_path path = procfs_path("/proc/%d/exe", procfs_living(target->pid));
	char link[4096];
	ssize_t length = readlink(path.text, link, sizeof(link) - 1);

	/* The pid may belong to another process by now. */
	if (!probe_target_alive(target) || (length < 0 && errno == ENOENT))
		return procfs_no_process(target->pid);
	if (length < 0)
		return probe_error_system(errno, "%s", path.text);
	link[length] = '\0';
	*ret = strdup(link);
	return *ret ? NULL : probe_error_no_memory();
}

void probe_target_on_wait(struct probe_target *target,
	bool (*on_wait)(pid_t pid, unsigned int seconds, const char *holder, void *data),
	void *data)
{
	target->on_wait = on_wait;
	target->on_wait_data = data;
}

void probe_target_set_patience(struct probe_target *target, struct probe_patience *patience)
{
	unsigned int user, none = 0;

	target->patience = patience;
	if (!patience)
		return;
	/* If processes of several users share it, those of other users get only a moment. */
	user = user_of(target) + 1;
	if (!__atomic_compare_exchange_n(
		    &patience->user, &none, user, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
		none != user)
		__atomic_store_n(&patience->is_mixed, true, __ATOMIC_RELAXED);
}

pid_t probe_target_pid(const struct probe_target *target)
{
	return target->pid;
}

bool probe_target_alive(const struct probe_target *target)
{
	pid_t pid = target->pid;

	if (procfs_start_time(pid) != target->start_time)
		return false;
	/* Look for memory first: an exiting process frees it before it becomes a zombie. */
	if (procfs_status_number(pid, "VmSize:") >= 0)
		return true;
	/* The main thread may end before the other threads do. */
	return procfs_thread_state(pid, pid) == 'Z' && procfs_status_number(pid, "Threads:") > 1;
}

bool target_is_there(const struct probe_target *target)
{
	uint64_t image;

	if (target->mem < 0)
		return probe_target_alive(target);
	if (!memory_is_there(target->mem))
		return false;
	/*
	 * After execve(2), `mem` stays readable while a reader of /proc/PID/maps holds the old
	 * memory, so the image is compared, too.
	 */
	return !target->image || !auxv_read_image(target->pid, &image) || image == target->image;
}

bool probe_target_frozen(const struct probe_target *target)
{
	char group[CGROUP_PATH_BYTES];

	return cgroup_frozen(target->pid, group);
}

const char *target_string(struct probe_target *target, const char *text)
{
	size_t size = strlen(text) + 1;
	struct target_text *copy = malloc(sizeof(*copy) + size);

	if (!copy)
		return NULL;
	memcpy(copy->text, text, size);
	copy->next = target->texts;
	target->texts = copy;
	return copy->text;
}

/* ---- Release ------------------------------------------------------------------------- */

bool target_let_go(struct probe_target *target)
{
	bool collect = target->attached && target->dropped;

	target->held = target->alone = target->hurry = target->attached = target->dropped = false;
	control_resume(&target->control);
	return collect && probe_target_alive(target);
}

void target_free(struct probe_target *target)
{
	if (target->mem >= 0)
		close(target->mem);
	while (target->texts) {
		struct target_text *text = target->texts;

		target->texts = text->next;
		free(text);
	}
	files_release(target->files);
	free(target->served);
	free(target->events);
	free(target);
}

/* ==== Fate ==================================================================================== */

/*
 * Finds out how a process that is not our child has ended: from /proc/PID/stat until its parent has
 * waited for it; after that, only from a pidfd opened earlier (PIDFD_GET_INFO, since Linux 6.15).
 *
 * Sources: proc_pid_stat(5), exit_code; include/uapi/linux/pidfd.h of Linux.
 */

enum { INFO_EXIT = 1 << 3 };

/* The first version of the kernel's struct pidfd_info. */
struct info {
	uint64_t mask, cgroup;
	uint32_t pid, thread_group, parent, ids[8];
	int32_t exit_code;
};
_Static_assert(sizeof(struct info) == 64, "PIDFD_INFO_SIZE_VER0");

void fate_begin(struct probe_target *target)
{
	if (target->events)
		return;
	target->events = cgroup_events(target->pid);
	target->kills = cgroup_kills(target->events);
}

void probe_target_fate(const struct probe_target *target, int pidfd, struct probe_fate *ret)
{
	bool killed = cgroup_kills(target->events) > target->kills;
	struct info info = {.mask = INFO_EXIT};
	int status = 0;

	*ret = (struct probe_fate){0};
	if (!procfs_exit_status(target->pid, target->start_time, &status) && pidfd >= 0 &&
		ioctl(pidfd, _IOWR(0xff, 11, struct info), &info) >= 0 && info.mask & INFO_EXIT)
		status = info.exit_code;
	if (WIFSIGNALED(status))
		ret->signal = WTERMSIG(status);
	ret->out_of_memory = killed && ret->signal == SIGKILL;
}
