/* SPDX-License-Identifier: MIT */
/*
 * A change holds the lock of its target, has read the target's modules, mappings and registry, and
 * runs system calls in the target (run.c).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/base/permission.h"
#include "libprobe/base/procfs.h"
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
	AUTO_FD int root =
		open(procfs_path("/proc/%d/root", living).text, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char type[PROCFS_MOUNT_TYPE];
	struct file_id id;
	int proc = -1;

	if (root < 0)
		return -1;
	/* RESOLVE_CACHED also fails when another thread holds a kernel lock, so try again. */
	for (int i = 0; i < OPEN_TRIES && proc < 0; i++)
		proc = cached_open(root, "proc", RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
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

	while (start && count--) {
		AUTO_FD int stat = open_within(procfs, pids[count], "stat");

		if (stat >= 0 &&
			procfs_start_time_of(procfs_path("/proc/self/fd/%d", stat).text) == start)
			return pids[count];
	}
	return 0;
}

static int open_theirs(pid_t pid)
{
	pid_t living = procfs_living(pid);
	AUTO_FD int procfs = -1;
	long its_pid;

	/* If the process sees the same procfs on /proc as we do, there is only one file. */
	if (procfs_is_same_link(living, "ns/mnt") && procfs_is_same_link(living, "root"))
		return -1;
	procfs = open_their_proc(living);
	if (procfs < 0)
		return -1;
	its_pid = pid_within(procfs, pid);
	return its_pid ? open_within(procfs, its_pid, "fdinfo") : -1;
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
	cleanup_fd(&lock->ours);
	cleanup_fd(&lock->theirs);
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
	AUTO_FILE FILE *locks = fopen("/proc/locks", "re");
	char line[256], found[PATH_BYTES];
	int pid;

	while (locks && fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*s FLOCK %*s %*s %d %63s", &pid, found) == 2 &&
			strcmp(found, file) == 0)
			return pid;
	return 0;
}

/*
 * Returns true if the process holds the lock, or if that is unknown. After the locker has forked a
 * child, which keeps the lock, the locker's pid may be reused.
 */
static bool has_lock(pid_t pid, const char *file)
{
	AUTO_DIR DIR *dir = opendir(procfs_path("/proc/%d/fdinfo", pid).text);
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

struct probe_error *lock_target(struct probe_target *target, struct target_lock *ret)
{
	struct probe_patience *patience = target->patience;
	uint64_t begun_ns = clock_monotonic_ns(), waited_ns;
	unsigned int told = 0;
	int taken;

	if (!open_files(target->pid, ret))
		return errno == EACCES || errno == EPERM ? permission_trace_error(target->pid)
		       : errno == ENOENT || errno == ESRCH
			       ? procfs_no_process(target->pid)
			       : probe_error_system(errno, "/proc/%d/fdinfo", target->pid);
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

/* ==== Change ================================================================================== */

enum {
	MOMENT_NS = 100000,
	EXEC_TRIES = 10,
	/* descriptors that a change needs besides the modules' files, and some to spare */
	CHANGE_DESCRIPTORS = 12
};

/* ---- Emulators ------------------------------------------------------------------------------- */

/*
 * Recognises two emulators. Valgrind is a static program with the path
 * VALGRIND_LIB/TOOL-ARCH-linux. It maps the emulated program and, if that program has a loader,
 * preloads vgpreload_*.so into it. The program of qemu's user mode is called qemu-ARCH or
 * qemu-ARCH-static. It maps the emulated program as data.
 *
 * Sources: valgrind, coregrind/launcher-linux.c; qemu, scripts/qemu-binfmt-conf.sh.
 */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Returns the emulator that executes the process ("valgrind", "qemu-aarch64"), maybe in `buffer`;
 * else NULL. Under an emulator, the processor runs a translation, never the code in memory.
 */
static const char *emulator_of(pid_t pid, const struct modules *modules, char buffer[64])
{
	char path[PATH_MAX];
	const char *name;
	ssize_t length;

	for (size_t i = 0; i < modules->count; i++)
		if (strncmp(base_name(modules->items[i].path), "vgpreload_", 10) == 0)
			return "valgrind";
	length = readlink(procfs_path("/proc/%d/exe", pid).text, path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = '\0';
	name = base_name(path);
	length = (ssize_t)strlen(name);
	if (strstr(path, "/valgrind/") && length >= 6 && strcmp(name + length - 6, "-linux") == 0)
		return "valgrind";
	if (strncmp(name, "qemu-", 5) != 0 || strncmp(name, "qemu-system-", 12) == 0)
		return NULL;
	snprintf(buffer, 64, "%.63s", name);
	return buffer;
}

/* ---- Begin and end -------------------------------------------------------------- */

static const struct module *first_program(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->items[i].object)
			return &modules->items[i];
	return NULL;
}

/* In the middle of execve(2), a process has only a stack mapped: wait a moment and try again. */
static struct probe_error *read_modules(struct change *c)
{
	struct probe_error *error = NULL;

	for (int i = 0; i < EXEC_TRIES && !error && !first_program(&c->modules); i++) {
		if (i)
			nanosleep(&(struct timespec){.tv_nsec = MOMENT_NS}, NULL);
		modules_deinit(&c->modules);
		maps_deinit(&c->maps);
		error = maps_read(c->pid, &c->maps);
		if (!error)
			error = modules_read_mapped(
				c->pid, &c->maps, c->target->files, &c->modules);
	}
	return error;
}

/* Checks that the code is for this machine: a program file, or else a registry, proves it. */
static struct probe_error *check_machine(struct change *c)
{
	const struct module *program = first_program(&c->modules);
	bool wide = program && object_is_64bit(program->object);

	c->arch = program ? arch_of_machine(object_machine(program->object)) : NULL;
	if (!program && c->registry.home)
		c->arch = arch_host();
	else if (!program)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d: none of its program files can be read", c->pid);
	else if (!c->arch || !c->arch->stubs || !wide)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d runs code of a machine type whose probes can be listed, "
			"not enabled (%s)",
			c->pid,
			!wide	  ? "32-bit"
			: c->arch ? c->arch->name
				  : "unknown");
	return NULL;
}

/* Checks that we can patch the code of this process. */
static struct probe_error *check_target(struct change *c)
{
	long parent = c->target->alone ? 0 : procfs_status_number(c->pid, "PPid:");
	struct probe_error *error;
	char buffer[64];
	const char *emulator = emulator_of(c->pid, &c->modules, buffer), *shadow_stack;

	/*
	 * After vfork(2), the child runs in its parent's memory: stopping it does not stop the
	 * parent's threads, and parent and child have different locks.
	 */
	if (parent > 0 && children_share(c->pid, (pid_t)parent))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d runs in the memory of process %ld until it starts a program "
			"(vfork): change the probes of that one",
			c->pid, parent);
	if (emulator)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d is executed by %s, which runs translated copies of its code: "
			"probes in it would never be hit",
			c->pid, emulator);
	error = check_machine(c);
	if (error)
		return error;
	shadow_stack = c->arch->process->shadow_stack_line;
	if (shadow_stack &&
		procfs_status_has(c->pid, shadow_stack, c->arch->process->shadow_stack_word))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d has a shadow stack: moved calls would fault", c->pid);
	return NULL;
}

/* Opens the memory of the program that the process ran at the first change. */
static struct probe_error *open_memory(struct change *change)
{
	struct probe_target *target = change->target;
	if (target->mem < 0) {
		struct probe_error *error = memory_open(change->pid, &target->mem);

		if (error)
			return error;
		if (!auxv_read_image(change->pid, &target->image))
			target->image = 0;
	}
	change->mem = fcntl(target->mem, F_DUPFD_CLOEXEC, 0);
	if (change->mem < 0)
		return probe_error_system(
			errno, "cannot open the memory of process %d", change->pid);
	return change_check_program(change);
}

/* Checks that this is still the same process, with a living thread. */
static struct probe_error *check_process(struct change *c)
{
	const struct probe_target *target = c->target;
	struct probe_error *error;
	uint64_t start;

	c->pid = procfs_living(c->pid);
	/* Count our descriptors before the modules are read, and again when all files are open. */
	error = change_need_descriptors(c, CHANGE_DESCRIPTORS);
	if (error)
		return error;
	start = procfs_start_time(target->pid);
	if (start == target->start_time)
		return NULL;
	return !start && procfs_no_room(errno)
		       ? probe_error_system(errno, "/proc/%d/stat", target->pid)
		       : probe_error_new(
				 PROBE_ERROR_NOT_FOUND, "process %d has ended", target->pid);
}

/*
 * Loads the registry and compares it with the mappings that were read (own.c). Errors: as
 * registry_load(), own_check(), lost_find() and change_check_program().
 */
static struct probe_error *change_load(struct change *change)
{
	struct registry *r = &change->registry;
	struct probe_error *error = registry_load(change->pid, &change->maps, r);
	bool lost = false;

	if (!error && r->home)
		error = own_check(change->pid, change->mem, &change->maps, r, &lost);
	else if (!error)
		error = lost_find(change->pid, &change->maps, &change->modules, r, &lost);
	/* If execve(2) has replaced the program, the mappings are those of the new program. */
	if (!error && lost)
		error = change_check_program(change);
	change->lost |= !error && lost;
	change->lost_ends |= !error && lost;
	return error;
}

struct probe_error *change_reread(struct change *change)
{
	struct probe_error *error = change_reread_maps(change);

	registry_deinit(&change->registry);
	code_release_all(&change->taken);
	return error ?: change_load(change);
}

static const struct change no_change = {.lock = {-1, -1}, .mem = -1};

struct probe_error *change_begin_as_it_is(struct probe_target *target, struct change *ret)
{
	struct probe_error *error;
	char group[CGROUP_PATH_BYTES];

	*ret = no_change;
	ret->target = target;
	ret->pid = target->pid;
	if (ret->pid == getpid())
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d is the caller itself: use the functions of probe/self.h",
			ret->pid);
	error = target->alone ? NULL : seccomp_check_own();
	/* Fail for a frozen process instead of waiting, so that other processes can be traced. */
	if (!error && !target->alone && cgroup_frozen(ret->pid, group))
		error = probe_error_new(PROBE_ERROR_STATE,
			"process %d is frozen (its control group %s): thaw it first", ret->pid,
			group);
	if (target->alone)
		ret->urgent = urgent_begin();
	error = error ?: lock_target(target, &ret->lock);
	if (!error && !target->alone)
		error = check_process(ret);
	error = error
		?: open_memory(ret)
		?: read_modules(ret)
		?: change_need_descriptors(ret, CHANGE_DESCRIPTORS)
		?: change_load(ret)
		?: check_target(ret)
		?: seccomp_look(ret->pid, target->alone, &ret->seccomp);
	if (!error && target->dispatches)
		seccomp_deny(&ret->seccomp,
			SECCOMP_ASK | SECCOMP_WAIT | SECCOMP_TIME | SECCOMP_NAME | SECCOMP_CPU |
				SECCOMP_STACK,
			"process %d itself handles the system calls of a thread "
			"(PR_SET_SYSCALL_USER_DISPATCH), also those",
			ret->pid);
	if (!error)
		threads_model(target, &ret->modules, &ret->thread);
	if (error)
		change_end(ret);
	return error;
}

struct probe_error *change_begin(struct probe_target *target, struct change *ret)
{
	struct probe_error *error = change_begin_as_it_is(target, ret);

	if (!error)
		site_forget_closed(ret);
	return error;
}

struct probe_error *change_look(struct probe_target *target, struct change *ret)
{
	struct probe_error *error;

	*ret = no_change;
	ret->target = target;
	ret->pid = procfs_living(target->pid);
	error = open_memory(ret) ?: read_modules(ret) ?: change_load(ret) ?: check_target(ret);
	if (error)
		change_end(ret);
	return error;
}

void change_end(struct change *change)
{
	change_resume(change);
	registry_deinit(&change->registry);
	modules_deinit(&change->modules);
	maps_deinit(&change->maps);
	seccomp_deinit(&change->seccomp);
	free(change->taken.items);
	free(change->prepared);
	cleanup_fd(&change->mem);
	lock_release(&change->lock);
	urgent_end(change->urgent);
	*change = no_change;
}

/* ---- Held ---------------------------------------------------------------------------------- */

/* Stops a target, after any other controller's change. */
struct probe_error *probe_target_attach(struct probe_target *target)
{
	AUTO(change_end) struct change c = no_change;
	struct probe_error *error;

	if (target->held)
		return probe_error_new(PROBE_ERROR_STATE, "process %d is %s already", target->pid,
			target->attached ? "attached to" : "held");
	error = change_begin(target, &c) ?: change_stop(&c);
	if (error)
		return error;
	target->control = c.control;
	target->held = target->attached = true;
	c.stopped = false;
	/* Give up our raised priority: our caller may keep the target stopped for a long time. */
	control_calm(&target->control);
	return NULL;
}

/* ---- Descriptors ------------------------------------------------------------------------ */

/*
 * Counts the descriptors that we can still open. Call it before a change begins, because a change
 * that runs out of them cannot even be undone.
 */

enum { DESCRIPTORS_MAX = 32 };

struct probe_error *change_need_descriptors(const struct change *change, size_t count)
{
	struct rlimit limit = {0};
	size_t unused = 0;
	rlim_t end;

	getrlimit(RLIMIT_NOFILE, &limit);
	/* Count from the highest number down: the kernel gives out the lowest number first. */
	for (end = limit.rlim_cur < INT_MAX ? limit.rlim_cur : INT_MAX; end && unused < count;) {
		struct pollfd fds[DESCRIPTORS_MAX];
		nfds_t some = end < DESCRIPTORS_MAX ? end : DESCRIPTORS_MAX;

		end -= some;
		for (nfds_t i = 0; i < some; i++)
			fds[i] = (struct pollfd){.fd = (int)(end + i)};
		if (poll(fds, some, 0) < 0)
			continue;
		for (nfds_t i = 0; i < some; i++)
			unused += (fds[i].revents & POLLNVAL) != 0;
	}
	if (unused >= count)
		return NULL;
	return probe_error_system(EMFILE,
		"%zu more descriptors are needed to change the probes of process %d, or to undo "
		"the change (ulimit -n)",
		count, change->pid);
}
