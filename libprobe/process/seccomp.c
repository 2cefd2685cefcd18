/* SPDX-License-Identifier: MIT */
/*
 * A filter may kill the process for an unexpected call, so nothing is tried out in a target.
 * There are two ways to know beforehand:
 *
 *   read    PTRACE_SECCOMP_GET_FILTER shows a stopped thread's filters to a tracer
 *           that has CAP_SYS_ADMIN and has no filter itself. They are small
 *           programs, which are run here (seccomp_run.c).
 *   try     Filters are inherited and never removed, and /proc shows how many
 *           there are. If the target has the same filters as we do, as in a
 *           container, a child of ours makes the calls (seccomp_own.c).
 *
 * Each thread may have its own filters: a thread is borrowed for system calls only if its
 * filters allow them, and stubs, which run in all threads, make only calls that all threads may
 * make.
 *
 * Sources: seccomp(2), ptrace(2), proc_pid_status(5) (Seccomp, Seccomp_filters);
 * Documentation/userspace-api/seccomp_filter.rst of Linux.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "arch/process.h"
#include "libprobe/base/array.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

enum { CAPABILITY_SYS_ADMIN = 21 };

/* ---- What is needed ----------------------------------------------------------------------- */

/* In an order in which they can be made one after another. */
const struct seccomp_call seccomp_calls[] = {
	/* clang-format off */
	{"memfd_create", SECCOMP_MAP, SYS_memfd_create, {SECCOMP_ADDRESS, SHARED_MEMFD_FLAGS}, 0},
	{"mmap", SECCOMP_MAP, SYS_mmap,
		{0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, SECCOMP_FILE}, 0},
	{"munmap", SECCOMP_MAP | SECCOMP_UNMAP, SYS_munmap, {SECCOMP_ADDRESS, 8192}, 0},
	{"mmap", SECCOMP_MAP, SYS_mmap,
		{SECCOMP_ADDRESS, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE,
			SECCOMP_FILE}, 0},
	{"mmap", SECCOMP_MAP, SYS_mmap,
		{SECCOMP_ADDRESS, 4096, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, UINT64_MAX}, 0},
	{"madvise", SECCOMP_MAP, SYS_madvise, {SECCOMP_ADDRESS, 4096, MADV_WIPEONFORK}, 0},
	{"close", SECCOMP_MAP | SECCOMP_UNMAP, SYS_close, {SECCOMP_FILE}, 0},
	{"rt_sigreturn", SECCOMP_MAP | SECCOMP_UNMAP, SYS_rt_sigreturn, {0}, 0},
	{"rt_sigprocmask", SECCOMP_ASK, SYS_rt_sigprocmask,
		{UINT32_MAX, SECCOMP_ADDRESS, 0, 8}, -EINVAL},
	{"rt_sigprocmask", SECCOMP_ASK, SYS_rt_sigprocmask, {UINT32_MAX, 8, 0, 8}, -EFAULT},
	{"gettid", SECCOMP_ASK, SYS_gettid, {0}, 0},
	{"getpid", SECCOMP_ASK, SYS_getpid, {0}, 0},
	{"mincore", SECCOMP_STACK, SYS_mincore, {8, 1, SECCOMP_ADDRESS}, -EINVAL},
	{"futex", SECCOMP_WAIT, SYS_futex, {SECCOMP_ADDRESS, 1 /* FUTEX_WAKE */, INT32_MAX}, 0},
	{"futex", SECCOMP_WAIT, SYS_futex,
		{SECCOMP_ADDRESS, 0 /* FUTEX_WAIT */, INT32_MAX, SECCOMP_ADDRESS}, -EAGAIN},
	{"prctl", SECCOMP_TIME, SYS_prctl, {PR_GET_TSC, SECCOMP_ADDRESS}, 0},
	{"prctl", SECCOMP_NAME, SYS_prctl, {PR_GET_NAME, SECCOMP_ADDRESS}, 0},
	{"getcpu", SECCOMP_CPU, SYS_getcpu, {SECCOMP_ADDRESS, 0, 0}, 0},
	{"clock_gettime", SECCOMP_TIME, SYS_clock_gettime, {CLOCK_MONOTONIC, SECCOMP_ADDRESS}, 0},
	/* Our own. No process has pid 0, and nothing is mapped at address 8. */
	{"ptrace", SECCOMP_OWN_TRACE, SYS_ptrace, {PTRACE_CONT}, -ESRCH},
	{"process_vm_readv", SECCOMP_OWN_MEMORY, SYS_process_vm_readv, {0, 8, 1, 8, 1}, -EFAULT},
	{"process_vm_writev", SECCOMP_OWN_MEMORY, SYS_process_vm_writev, {0, 8, 1, 8, 1}, -EFAULT},
	{"kcmp", SECCOMP_OWN_KCMP, SYS_kcmp, {0, 0, KCMP_VM}, -ESRCH},
	{"sched_getattr", SECCOMP_OWN_URGENT, SYS_sched_getattr, {0, 8, 48}, -EFAULT},
	{"sched_setattr", SECCOMP_OWN_URGENT, SYS_sched_setattr, {0, 8}, -EFAULT},
	{"sched_getaffinity", SECCOMP_OWN_MOVE, SYS_sched_getaffinity,
		{0, sizeof(cpu_set_t), 8}, -EFAULT},
	{"sched_setaffinity", SECCOMP_OWN_MOVE, SYS_sched_setaffinity,
		{0, sizeof(cpu_set_t), 8}, -EFAULT},
	{"sched_yield", SECCOMP_OWN_MOVE, SYS_sched_yield, {0}, 0},
	{"madvise", SECCOMP_OWN_REMOVE, SYS_madvise, {0, 0, MADV_REMOVE}, 0},
	{"pidfd_open", SECCOMP_OWN_TAKE, SYS_pidfd_open, {0}, -EINVAL},
	{"pidfd_getfd", SECCOMP_OWN_TAKE, SYS_pidfd_getfd, {UINT32_MAX}, -EBADF},
	{"timer_create", SECCOMP_OWN_ALARM, SYS_timer_create, {CLOCK_MONOTONIC}, -EFAULT},
	{"timer_settime", SECCOMP_OWN_ALARM, SYS_timer_settime, {0}, -EINVAL},
	{"timer_delete", SECCOMP_OWN_ALARM, SYS_timer_delete, {UINT32_MAX}, -EINVAL},
	{"statx", SECCOMP_OWN_DIRECT, SYS_statx,
		{UINT32_MAX, SECCOMP_ADDRESS, AT_EMPTY_PATH, STATX_INO, SECCOMP_ADDRESS}, -EBADF},
	{"statx", SECCOMP_OWN_CACHED, SYS_statx,
		{UINT32_MAX, SECCOMP_ADDRESS, AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO,
			SECCOMP_ADDRESS}, -EBADF},
	{"openat2", SECCOMP_OWN_CACHED, SYS_openat2, {UINT32_MAX, SECCOMP_ADDRESS}, -EINVAL},
	{"ioctl", SECCOMP_OWN_PAGES, SYS_ioctl,
		{UINT32_MAX, SECCOMP_PAGEMAP_SCAN, SECCOMP_ADDRESS}, -EBADF},
	/* clang-format on */
};
const size_t seccomp_call_count = sizeof(seccomp_calls) / sizeof(*seccomp_calls);

/* ---- Looking ------------------------------------------------------------------------------ */

/* Fills in what /proc says about a thread; *there_ret is false if it has no filters, or is gone. */
static struct probe_error *look_at(pid_t tid, struct seccomp_thread *ret, bool *there_ret)
{
	/* Every thread has a status file under its own number, too. */
	long mode = procfs_status_number(tid, "Seccomp:");

	*there_ret = mode > SECCOMP_MODE_DISABLED;
	if (mode < 0 && procfs_no_room(errno))
		return probe_error_system(errno, "/proc/%d/status", tid);
	*ret = (struct seccomp_thread){.tid = tid,
		.filters = *there_ret ? procfs_status_number(tid, "Seccomp_filters:") : 0,
		.strict = mode == SECCOMP_MODE_STRICT};
	return NULL;
}

static struct probe_error *add_thread(struct seccomp *seccomp, pid_t tid)
{
	struct seccomp_thread thread;
	bool there;
	struct probe_error *error = look_at(tid, &thread, &there);

	if (error || !there)
		return error;
	if (!ARRAY_ROOM(seccomp->threads, seccomp->count))
		return probe_error_no_memory();
	seccomp->strict |= thread.strict;
	seccomp->threads[seccomp->count++] = thread;
	return NULL;
}

struct probe_error *seccomp_look(pid_t pid, struct seccomp *ret)
{
	DIR *threads = procfs_threads(pid);
	struct probe_error *error = NULL;
	pid_t tid;

	*ret = (struct seccomp){.pid = pid, .allowed = SECCOMP_ALL};
	if (!threads && procfs_no_room(errno))
		error = probe_error_system(errno, "/proc/%d/task", pid);
	while (!error && (tid = procfs_next_thread(pid, threads)))
		error = add_thread(ret, tid);
	if (threads)
		closedir(threads);
	if (error)
		seccomp_deinit(ret);
	return error;
}

struct probe_error *seccomp_look_at_main(pid_t pid, struct seccomp *ret)
{
	*ret = (struct seccomp){.pid = pid, .allowed = SECCOMP_ALL};
	return add_thread(ret, pid);
}

void seccomp_deinit(struct seccomp *seccomp)
{
	free(seccomp->threads);
	*seccomp = (struct seccomp){0};
}

static const struct seccomp_thread *find(const struct seccomp *seccomp, pid_t tid)
{
	for (size_t i = 0; i < seccomp->count; i++)
		if (seccomp->threads[i].tid == tid)
			return &seccomp->threads[i];
	return NULL;
}

bool seccomp_has_grown(struct seccomp *seccomp)
{
	struct seccomp now;
	struct probe_error *error = seccomp_look(seccomp->pid, &now);
	long most = 0;
	bool grown = false;

	if (error) {
		probe_error_free(error);
		return false;
	}
	for (size_t i = 0; i < seccomp->count; i++)
		if (seccomp->threads[i].filters > most)
			most = seccomp->threads[i].filters;
	for (size_t i = 0; i < now.count; i++) {
		const struct seccomp_thread *t = &now.threads[i], *old = find(seccomp, t->tid);

		/* A new thread inherits the filters of its creator. */
		grown |= old ? t->filters > old->filters || t->strict != old->strict
			     : t->strict || t->filters > most || t->filters < 0;
	}
	now.judged = seccomp->judged;
	now.allowed = seccomp->allowed;
	memcpy(now.why, seccomp->why, sizeof(now.why));
	free(seccomp->threads);
	*seccomp = now;
	return grown;
}

/* ---- Judging ------------------------------------------------------------------------------ */

void seccomp_deny(struct seccomp *s, unsigned int kinds, const char *format, ...)
{
	va_list ap;

	s->allowed &= ~kinds;
	for (size_t i = 0; i < SECCOMP_KINDS; i++) {
		if (!(kinds >> i & 1) || s->why[i][0])
			continue;
		va_start(ap, format);
		vsnprintf(s->why[i], sizeof(s->why[i]), format, ap);
		va_end(ap);
	}
}

bool seccomp_can_read(void)
{
	char path[] = "/proc/thread-self/status", buffer[4096];
	const char *mode, *capabilities;

	if (!file_read(path, buffer, sizeof(buffer)))
		return false;
	mode = strstr(buffer, "\nSeccomp:");
	capabilities = strstr(buffer, "\nCapEff:");
	return mode && capabilities && strtol(mode + strlen("\nSeccomp:"), NULL, 10) == 0 &&
	       strtoull(capabilities + strlen("\nCapEff:"), NULL, 16) >> CAPABILITY_SYS_ADMIN & 1;
}

/* The kinds of calls that one filter allows. */
static unsigned int run_filter(struct seccomp *s, const struct sock_filter *program, size_t length)
{
	unsigned int allowed = SECCOMP_ALL;

	for (size_t i = 0; i < seccomp_call_count; i++) {
		const struct seccomp_call *call = &seccomp_calls[i];
		struct seccomp_data data = {.nr = call->number, .arch = arch_process()->audit};
		uint32_t verdict;

		if (!(call->kinds & SECCOMP_ALL))
			continue;
		memcpy(data.args, call->args, sizeof(data.args));
		verdict = seccomp_run(program, length, &data) & SECCOMP_RET_ACTION_FULL;
		if (verdict == SECCOMP_RET_ALLOW || verdict == SECCOMP_RET_LOG)
			continue;
		allowed &= ~call->kinds;
		seccomp_deny(s, call->kinds, "the seccomp filter of process %d %s %s", s->pid,
			verdict == SECCOMP_RET_ERRNO || verdict == SECCOMP_RET_TRACE ||
					verdict == SECCOMP_RET_USER_NOTIF
				? "does not allow"
				: "would kill it for",
			call->name);
	}
	return allowed;
}

enum reading { READ_ALL, READ_DENIED, READ_NO_MEMORY };

/* Runs all filters of a stopped thread. */
static enum reading read_filters(struct seccomp *s, struct seccomp_thread *thread)
{
	unsigned int allowed = SECCOMP_ALL;

	for (unsigned long index = 0;; index++) {
		long length = ptrace(PTRACE_SECCOMP_GET_FILTER, thread->tid, (void *)index, NULL);
		struct sock_filter *program;

		if (length < 0 && errno == ENOENT) { /* no more filters */
			thread->allowed = allowed;
			return READ_ALL;
		}
		if (length < 0)
			return READ_DENIED;
		program = calloc(length + 1, sizeof(*program));
		if (!program)
			return READ_NO_MEMORY;
		if (ptrace(PTRACE_SECCOMP_GET_FILTER, thread->tid, (void *)index, program) ==
			length)
			allowed &= run_filter(s, program, length);
		else
			allowed = 0;
		free(program);
	}
}

/* What a child of ours may call, under filters that we share. */
static struct probe_error *try_all(struct seccomp *s, unsigned int *ret)
{
	struct probe_error *error = NULL;

	*ret = 0;
	for (unsigned int kind = 1; kind <= SECCOMP_ALL && !error; kind <<= 1) {
		struct seccomp_trial trial;

		error = seccomp_try(kind, &trial);
		if (!error && trial.allowed)
			*ret |= kind;
		else if (!error && trial.err)
			seccomp_deny(s, kind,
				"the seccomp filter of process %d does not allow %s (%s)", s->pid,
				trial.name, strerror(trial.err));
		else if (!error)
			seccomp_deny(s, kind,
				"the seccomp filter of process %d would kill it for %s", s->pid,
				trial.name);
	}
	return error;
}

/* What a thread with unreadable filters may call; `*ours` once it is known. */
static struct probe_error *judge_unread(
	struct seccomp *s, struct seccomp_thread *thread, unsigned int *ours, bool *tried)
{
	struct probe_error *error = NULL;

	if (!seccomp_is_same(s->pid, thread->filters)) {
		seccomp_deny(s, SECCOMP_ALL,
			"process %d runs under a seccomp filter that might kill it for calls that "
			"probectl makes in it (memfd_create, mmap, munmap, madvise), and only root "
			"can read the filter",
			s->pid);
		return NULL;
	}
	if (!*tried)
		error = try_all(s, ours);
	*tried = !error;
	thread->allowed = *ours;
	return error;
}

struct probe_error *seccomp_judge(struct seccomp *seccomp)
{
	struct probe_error *error = NULL;
	bool can_read = seccomp->count && seccomp_can_read(), tried = false;
	unsigned int ours = 0;

	for (size_t i = 0; i < seccomp->count && !error; i++) {
		struct seccomp_thread *thread = &seccomp->threads[i];
		enum reading reading = READ_DENIED;

		if (thread->strict) {
			seccomp_deny(seccomp, SECCOMP_ALL,
				"process %d runs under strict seccomp, which would kill it for the "
				"calls that probectl makes in it",
				seccomp->pid);
			continue;
		}
		if (can_read)
			reading = read_filters(seccomp, thread);
		if (reading == READ_NO_MEMORY)
			error = probe_error_no_memory();
		else if (reading == READ_DENIED)
			error = judge_unread(seccomp, thread, &ours, &tried);
	}
	for (size_t i = 0; i < seccomp->count; i++)
		seccomp->allowed &= seccomp->threads[i].allowed;
	seccomp->judged = !error;
	return error;
}

bool seccomp_may_run(const struct seccomp *seccomp, pid_t tid)
{
	const struct seccomp_thread *known = seccomp ? find(seccomp, tid) : NULL;
	struct seccomp_thread thread;
	struct probe_error *error;
	bool filtered;

	if (!seccomp || !seccomp->count)
		return true;
	if (known)
		return (known->allowed & seccomp->wanted) == seccomp->wanted;
	/* A thread created since is used if it has no filters. */
	error = look_at(tid, &thread, &filtered);
	filtered |= error != NULL;
	probe_error_free(error);
	return !filtered;
}

const char *seccomp_why(const struct seccomp *seccomp, enum seccomp_kind kind)
{
	size_t i = 0;

	while (kind >> i > 1)
		i++;
	return seccomp->why[i];
}

struct probe_error *seccomp_error(const struct seccomp *seccomp, enum seccomp_kind kind)
{
	const char *why = seccomp_why(seccomp, kind);

	return probe_error_new(PROBE_ERROR_UNSUPPORTED, "%s%s", why,
		strstr(why, "only root")
			? ": run probectl as root, or in the sandbox that the process is in"
			: ", which probectl would call in it");
}
