/* SPDX-License-Identifier: MIT */
/*
 * Finds out which threads have the same filters as we do, and what those filters allow.
 *
 * A process inherits the filters of its parent and can only add more. So a process with as many
 * filters as one of its ancestors has exactly that ancestor's. If the target and we both have
 * as many as our nearest common ancestor, all three have the same:
 *
 *                sandbox: 1 filter
 *                /              \
 *      shell: 1 filter        target: 1 filter
 *            |
 *      probectl: 1 filter
 *
 * A process that joins a container later (docker exec) has no ancestor inside. It still has the
 * container's profile if it has the container's namespaces, its control group and the same
 * missing capabilities: a runtime applies one profile to everything it starts in a container
 * (config.json of the OCI runtime specification, linux.seccomp).
 *
 * A child of ours has our filters, and if one kills it, nothing else is lost. So the calls that
 * we make ourselves are tried there, too: without ptrace(2) nothing works, and the other calls
 * are optional.
 *
 * Sources: seccomp(2); proc_pid_status(5); pid_namespaces(7) (a parent outside is 0).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "arch/process.h"
#include "libprobe/base/file.h"
#include "libprobe/base/worker.h"
#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"

enum {
	LINEAGE_MAX = 64,
	SPARE_BYTES = 128 << 10, /* two pages of the largest size, which calls change */
	TRIAL_TIMEOUT_MS = 2000, /* another process may decide (SECCOMP_RET_USER_NOTIF) */
	TEXT_MAX = 8192		 /* a long name for each hierarchy of cgroups(7) */
};

/* ---- Where filters come from --------------------------------------------------------------- */

/*
 * When this process began to run our code, in clock ticks since boot: children from before may
 * come from an earlier program of this process, which had other filters. Set once.
 */
static uint64_t loaded_at;

__attribute__((constructor)) static void note_begin(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	loaded_at = (uint64_t)now.tv_sec * (uint64_t)sysconf(_SC_CLK_TCK) +
		    (uint64_t)now.tv_nsec / (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* What threads with the same filters have in common. */
struct confinement {
	long filters, no_new_privileges;
};

static struct confinement confinement_of(pid_t tid)
{
	return (struct confinement){procfs_status_number(tid, "Seccomp_filters:"),
		procfs_status_number(tid, "NoNewPrivs:")};
}

static bool is_confined_so(pid_t tid, const struct confinement *wanted)
{
	struct confinement c = confinement_of(tid);

	return c.filters == wanted->filters && c.no_new_privileges == wanted->no_new_privileges;
}

/* A process and its ancestors, as long as they have the same confinement. */
struct lineage {
	pid_t pids[LINEAGE_MAX];
	size_t count;
	bool whole; /* it reaches the top of the pid namespace */
};

static void trace_lineage(pid_t pid, const struct confinement *wanted, struct lineage *ret)
{
	ret->count = 0;
	while (pid > 0 && ret->count < LINEAGE_MAX && is_confined_so(pid, wanted)) {
		ret->pids[ret->count++] = pid;
		pid = (pid_t)procfs_status_number(pid, "PPid:");
	}
	ret->whole = pid == 0;
}

/* Whether they have a common ancestor. A process counts as its own ancestor. */
static bool has_common_ancestor(const struct lineage *ours, const struct lineage *theirs)
{
	for (size_t i = 0; i < theirs->count; i++)
		for (size_t k = 0; k < ours->count; k++) {
			if (theirs->pids[i] != ours->pids[k])
				continue;
			return k > 0 || i == 0 ||
			       procfs_start_time(theirs->pids[i - 1]) >= loaded_at;
		}
	return false;
}

/* ---- Containers ----------------------------------------------------------------------------- */

/* Whether a file or link has the same contents in both processes. */
static bool same_text(pid_t pid, const char *file, bool is_link)
{
	char path[64], ours[TEXT_MAX] = "", theirs[TEXT_MAX] = "";

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	if (is_link && readlink(path, theirs, sizeof(theirs) - 1) <= 0)
		return false;
	if (!is_link && file_read(path, theirs, sizeof(theirs)) >= sizeof(theirs) - 1)
		return false;
	snprintf(path, sizeof(path), "/proc/self/%s", file);
	if (is_link && readlink(path, ours, sizeof(ours) - 1) <= 0)
		return false;
	if (!is_link)
		file_read(path, ours, sizeof(ours));
	return ours[0] && strcmp(ours, theirs) == 0;
}

/*
 * Whether both are confined as a runtime confines a container. A process that may still get
 * CAP_SYS_ADMIN (in the lower half of the bounding set) may have added filters in other ways.
 */
static bool same_container(pid_t pid)
{
	static const char *const namespaces[] = {
		"ns/pid", "ns/mnt", "ns/user", "ns/cgroup", "ns/ipc", "ns/net"};
	char ours[TEXT_MAX], theirs[TEXT_MAX];

	for (size_t i = 0; i < sizeof(namespaces) / sizeof(*namespaces); i++)
		if (!same_text(pid, namespaces[i], true))
			return false;
	if (!same_text(pid, "cgroup", false) ||
		!procfs_status_text(getpid(), "CapBnd:", ours, sizeof(ours)) ||
		!procfs_status_text(pid, "CapBnd:", theirs, sizeof(theirs)) ||
		strcmp(ours, theirs) != 0)
		return false;
	return !(strtoull(ours, NULL, 16) >> 21 & 1);
}

bool seccomp_is_same(pid_t pid, long filters)
{
	struct confinement own = confinement_of(gettid());
	struct lineage ours, theirs;

	if (filters <= 0 || own.filters != filters)
		return false;
	trace_lineage(getpid(), &own, &ours);
	trace_lineage(pid, &own, &theirs);
	return has_common_ancestor(&ours, &theirs) ||
	       (ours.whole && theirs.whole && same_container(pid));
}

/* ---- In the child ----------------------------------------------------------------------- */

/* Its answer for each call. */
struct answer {
	uint32_t call;
	int32_t err;
};

static void ignore_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	if (arch_process()->pass_trap)
		arch_process()->pass_trap(context);
}

/* Returning from a handler calls rt_sigreturn(2); if that fails, the child ends here. */
static long return_from_handler(void)
{
	struct sigaction action = {.sa_sigaction = ignore_trap, .sa_flags = SA_SIGINFO};

	if (sigaction(SIGTRAP, &action, NULL) < 0)
		return -errno;
	if (!arch_process()->trap)
		return -ENOSYS;
	arch_process()->trap();
	return 0;
}

/* Makes a call whose effects stay in this child. Returns its errno, or 0. */
static int make_call(const struct seccomp_call *call, uint64_t *address, uint64_t *file)
{
	uint64_t args[6];
	long result;

	if (call->number == SYS_rt_sigreturn)
		return (int)-return_from_handler();
	for (size_t i = 0; i < 6; i++)
		args[i] = call->args[i] == SECCOMP_ADDRESS ? *address
			  : call->args[i] == SECCOMP_FILE  ? *file
							   : call->args[i];
	result = syscall(call->number, args[0], args[1], args[2], args[3], args[4], args[5]);
	if (result == -1)
		result = -errno;
	if (call->number == SYS_memfd_create)
		*file = (uint64_t)result;
	else if (call->number == SYS_mmap && result > 0)
		*address = (uint64_t)result;
	if (call->wanted)
		return result == call->wanted ? 0 : result < 0 ? (int)-result : EINVAL;
	return result < 0 ? (int)-result : 0;
}

/* The child: does not return. */
static void try_calls(unsigned int kind, int spare_file, int answers)
{
	static char spare_pages[SPARE_BYTES] __attribute__((aligned(SPARE_BYTES / 2)));
	uint64_t words[2] = {0}, address = (uint64_t)words, file = (uint64_t)spare_file;
	struct sigaction action = {.sa_handler = SIG_DFL};

	/* No core dump, and no handler for SIGSYS that could invent a result. */
	prctl(PR_SET_DUMPABLE, 0);
	sigaction(SIGSYS, &action, NULL);
	if (kind == SECCOMP_UNMAP)
		address = (uint64_t)spare_pages;
	for (size_t i = 0; i < seccomp_call_count; i++) {
		struct answer answer = {.call = (uint32_t)i};

		if (!(seccomp_calls[i].kinds & kind))
			continue;
		answer.err = make_call(&seccomp_calls[i], &address, &file);
		if (write(answers, &answer, sizeof(answer)) != sizeof(answer) || answer.err)
			break;
	}
	syscall(SYS_exit_group, 0);
}

/* Reads the child's answers until it ends, or time is up. */
static void read_answers(int answers, unsigned int kind, struct seccomp_trial *ret)
{
	struct pollfd input = {.fd = answers, .events = POLLIN};
	struct answer answer;
	size_t next = 0;
	int polled;

	*ret = (struct seccomp_trial){0};
	while ((polled = poll(&input, 1, TRIAL_TIMEOUT_MS)) == 1 &&
		read(answers, &answer, sizeof(answer)) == sizeof(answer) &&
		answer.call < seccomp_call_count) {
		ret->err = answer.err;
		next = answer.err ? answer.call : answer.call + 1;
	}
	if (polled == 0)
		ret->err = ETIMEDOUT;
	while (next < seccomp_call_count && !(seccomp_calls[next].kinds & kind))
		next++;
	ret->allowed = next == seccomp_call_count;
	ret->name = ret->allowed ? NULL : seccomp_calls[next].name;
}

struct probe_error *seccomp_try(unsigned int kind, struct seccomp_trial *ret)
{
	sigset_t all, old;
	int answers[2], err;
	pid_t child;

	*ret = (struct seccomp_trial){0};
	if (pipe2(answers, O_CLOEXEC) < 0)
		return probe_error_system(errno, "cannot make a pipe");
	/* Block our process's handlers in the child; these two signals it handles itself. */
	sigfillset(&all);
	sigdelset(&all, SIGTRAP);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* Without an exit signal, so other code that waits for any child does not see it. */
	child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
	err = errno;
	if (child == 0)
		try_calls(kind, answers[0], answers[1]);
	close(answers[1]);
	if (child > 0) {
		read_answers(answers[0], kind, ret);
		worker_end_child(child, 0, &(int){0});
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(answers[0]);
	return child > 0 ? NULL : probe_error_system(err, "cannot start a process");
}

/* ---- Our own calls -------------------------------------------------------------------------- */

/* This process's own filters: how many there were at the trial, and what they forbid. */
static _Atomic long tried_filters;
static _Atomic unsigned int forbidden;

static struct probe_error *forbid(unsigned int kind, const struct seccomp_trial *trial)
{
	forbidden |= kind;
	if (kind != SECCOMP_OWN_TRACE)
		return NULL;
	return probe_error_new(PROBE_ERROR_PERMISSION,
		"a seccomp filter %s %s: a container must be started with --cap-add SYS_PTRACE, "
		"or with --security-opt seccomp=unconfined",
		trial->err ? "keeps probectl from calling" : "would kill probectl for calling",
		trial->name);
}

struct probe_error *seccomp_check_own(void)
{
	struct probe_error *error = NULL;
	long filters;

	if (procfs_status_number(gettid(), "Seccomp:") <= 0)
		return NULL;
	filters = procfs_status_number(gettid(), "Seccomp_filters:");
	if (filters > 0 && filters == tried_filters)
		return NULL;
	forbidden = 0;
	for (unsigned int kind = SECCOMP_OWN_TRACE; kind < SECCOMP_OWN_END && !error; kind <<= 1) {
		struct seccomp_trial trial;

		error = seccomp_try(kind, &trial);
		if (!error && !trial.allowed)
			error = forbid(kind, &trial);
	}
	if (!error)
		memory_may_call(seccomp_may_call(SECCOMP_OWN_MEMORY));
	tried_filters = error ? 0 : filters;
	return error;
}

bool seccomp_may_call(enum seccomp_own kind)
{
	return !(forbidden & kind);
}
