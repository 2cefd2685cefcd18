/* SPDX-License-Identifier: MIT */
/*
 * Finds out which system calls a target may make. A filter may kill the process for an unexpected
 * call, so no call is tried out in a target. Two ways remain:
 *
 *   read    PTRACE_SECCOMP_GET_FILTER shows a stopped thread's filters to a tracer
 *           that has CAP_SYS_ADMIN and has no filter itself. They are small
 *           programs, which are run here (seccomp_run()).
 *   try     Filters are inherited and never removed, and /proc shows the number
 *           of filters. If the target has the same filters as we do, as in a
 *           container, a child of ours makes the calls (seccomp_try()).
 *
 * Each thread may have its own filters: a thread is borrowed for system calls only if its filters
 * allow them, and stubs, which run in all threads, make only calls that all threads may make.
 *
 * Sources: seccomp(2), ptrace(2), proc_pid_status(5) (Seccomp, Seccomp_filters);
 * Documentation/userspace-api/seccomp_filter.rst of Linux.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/array.h"
#include "libprobe/base/worker.h"
#include "libprobe/process/process.h"

/* ==== The calls that we need =============================================================== */

/* Placeholders for arguments that are known only when the call is made. */
#define SECCOMP_ADDRESS UINT64_C(0x10000) /* an address of mapped memory */
#define SECCOMP_FILE UINT64_C(1000)	  /* the descriptor that memfd_create(2) returned */

/* A call, with the arguments that filters examine. */
struct seccomp_call {
	const char *name;
	unsigned int kinds;
	int number;
	uint64_t args[6];
	long wanted; /* the error that is expected (-errno); 0 if the call should succeed */
};

/* The calls, in an order in which they can be made one after another. */
static const struct seccomp_call seccomp_calls[] = {
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
	/* Our own calls. No process has pid 0, and nothing is mapped at address 8. */
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
enum { CALL_COUNT = sizeof(seccomp_calls) / sizeof(*seccomp_calls) };

/* ==== Seccomp own ============================================================================= */

/*
 * Finds out which threads have the same filters as we do, and what those filters allow.
 *
 * A process inherits the filters of its parent and can only add more. So a process with as many
 * filters as one of its ancestors has exactly that ancestor's filters. If the target and we both
 * have as many as our nearest common ancestor, all three have the same filters:
 *
 *                sandbox: 1 filter
 *                /              \
 *      shell: 1 filter        target: 1 filter
 *            |
 *      probectl: 1 filter
 *
 * A process that joins a container later (docker exec) has no ancestor inside. It still has the
 * container's profile if it has the container's namespaces, its control group and the same missing
 * capabilities: a runtime applies one profile to every process that it starts in a container
 * (config.json of the OCI runtime specification, linux.seccomp).
 *
 * A child of ours has our filters, and if one kills it, nothing else is lost. So the calls that we
 * make ourselves are tried in a child, too: without ptrace(2) nothing works, and the other calls
 * are optional.
 *
 * Sources: seccomp(2); proc_pid_status(5); pid_namespaces(7) (a parent outside is 0).
 */

enum {
	LINEAGE_MAX = 64,
	SPARE_BYTES = 128 << 10, /* two pages of the largest size; the tried calls change them */
	TRIAL_TIMEOUT_MS = 2000	 /* a supervisor may decide (SECCOMP_RET_USER_NOTIF) */
};

/* ---- Where filters come from --------------------------------------------------------------- */

/*
 * When this process began to run our code, in clock ticks since boot. Earlier children may come
 * from an earlier program with other filters.
 */
static uint64_t loaded_at;

__attribute__((constructor)) static void note_begin(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	loaded_at = (uint64_t)now.tv_sec * (uint64_t)sysconf(_SC_CLK_TCK) +
		    (uint64_t)now.tv_nsec / (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* Values that are equal in threads with the same filters. */
struct confinement {
	long filters, no_new_privileges;
};

static struct confinement confinement_of(pid_t tid)
{
	return (struct confinement){procfs_status_number(tid, "Seccomp_filters:"),
		procfs_status_number(tid, "NoNewPrivs:")};
}

/* A process and its ancestors, as long as they have the same confinement. */
struct lineage {
	pid_t pids[LINEAGE_MAX];
	size_t count;
	bool whole; /* the list reaches the top of the pid namespace */
};

static void trace_lineage(pid_t pid, const struct confinement *wanted, struct lineage *ret)
{
	for (ret->count = 0; pid > 0 && ret->count < LINEAGE_MAX;) {
		struct confinement its = confinement_of(pid);

		if (its.filters != wanted->filters ||
			its.no_new_privileges != wanted->no_new_privileges)
			break;
		ret->pids[ret->count++] = pid;
		pid = (pid_t)procfs_status_number(pid, "PPid:");
	}
	ret->whole = pid == 0;
}

/* ---- Containers ----------------------------------------------------------------------------- */

/*
 * Returns true if both processes are confined as container runtimes do it. False if CAP_SYS_ADMIN
 * is in the bounding set, because a process may then have got more filters in other ways.
 */
static bool same_container(pid_t pid)
{
	static const char *const namespaces[] = {
		"ns/pid", "ns/mnt", "ns/user", "ns/cgroup", "ns/ipc", "ns/net"};
	char ours[32], theirs[32];

	for (size_t i = 0; i < sizeof(namespaces) / sizeof(*namespaces); i++)
		if (!procfs_is_same_link(pid, namespaces[i]))
			return false;
	if (!procfs_is_same_text(pid, "cgroup") ||
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
	/* A common ancestor decides. A process counts as its own ancestor. */
	for (size_t i = 0; i < theirs.count; i++)
		for (size_t k = 0; k < ours.count; k++)
			if (theirs.pids[i] == ours.pids[k])
				return k > 0 || i == 0 ||
				       procfs_start_time(theirs.pids[i - 1]) >= loaded_at ||
				       (ours.whole && theirs.whole && same_container(pid));
	return (ours.whole && theirs.whole && same_container(pid));
}

/* ---- In the child ----------------------------------------------------------------------- */

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

/* Calls rt_sigreturn(2). If that fails, the child ends here. */
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

/* Runs in the child, and does not return. */
static void try_calls(unsigned int kind, int spare_file, int answers)
{
	static char spare_pages[SPARE_BYTES] __attribute__((aligned(SPARE_BYTES / 2)));
	uint64_t words[2] = {0}, address = (uint64_t)words, file = (uint64_t)spare_file;
	struct sigaction action = {.sa_handler = SIG_DFL};

	/* Prevent a core dump, and a handler for SIGSYS that could fake a result. */
	prctl(PR_SET_DUMPABLE, 0);
	sigaction(SIGSYS, &action, NULL);
	if (kind == SECCOMP_UNMAP)
		address = (uint64_t)spare_pages;
	for (size_t i = 0; i < CALL_COUNT; i++) {
		struct answer answer = {.call = (uint32_t)i};

		if (!(seccomp_calls[i].kinds & kind))
			continue;
		answer.err = make_call(&seccomp_calls[i], &address, &file);
		if (write(answers, &answer, sizeof(answer)) != sizeof(answer) || answer.err)
			break;
	}
	syscall(SYS_exit_group, 0);
}

/* Reads the child's answers until it ends or time is up. */
static void read_answers(int answers, unsigned int kind, struct seccomp_trial *ret)
{
	struct pollfd input = {.fd = answers, .events = POLLIN};
	struct answer answer;
	size_t next = 0;
	int polled;

	*ret = (struct seccomp_trial){0};
	while ((polled = poll(&input, 1, TRIAL_TIMEOUT_MS)) == 1 &&
		read(answers, &answer, sizeof(answer)) == sizeof(answer) &&
		answer.call < CALL_COUNT) {
		ret->err = answer.err;
		next = answer.err ? answer.call : answer.call + 1;
	}
	if (polled == 0)
		ret->err = ETIMEDOUT;
	while (next < CALL_COUNT && !(seccomp_calls[next].kinds & kind))
		next++;
	ret->allowed = next == CALL_COUNT;
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
	/* Block our signal handlers in the child, which handles SIGTRAP and SIGSYS itself. */
	sigfillset(&all);
	sigdelset(&all, SIGTRAP);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* Without an exit signal, other code that waits for any child does not see it. */
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

/* This process's own filters: how many it had at the trial, and what they forbid. */
static _Atomic long tried_filters;
static _Atomic unsigned int forbidden;

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
		if (error || trial.allowed)
			continue;
		forbidden |= kind;
		if (kind == SECCOMP_OWN_TRACE)
			error = probe_error_new(PROBE_ERROR_PERMISSION,
				"a seccomp filter %s %s: a container must be started with "
				"--cap-add SYS_PTRACE, or with --security-opt seccomp=unconfined",
				trial.err ? "keeps probectl from calling"
					  : "would kill probectl for calling",
				trial.name);
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

/* ==== Seccomp run ============================================================================= */

/* Runs a filter, whose result depends only on the call (Documentation/networking/filter.rst). */

struct machine {
	uint32_t a, x;
	uint32_t memory[BPF_MEMWORDS];
};

static bool alu(struct machine *m, uint16_t code, uint32_t operand)
{
	switch (BPF_OP(code)) {
	case BPF_ADD:
		m->a += operand;
		return true;
	case BPF_SUB:
		m->a -= operand;
		return true;
	case BPF_MUL:
		m->a *= operand;
		return true;
	case BPF_DIV:
		if (!operand)
			return false;
		m->a /= operand;
		return true;
	case BPF_OR:
		m->a |= operand;
		return true;
	case BPF_AND:
		m->a &= operand;
		return true;
	case BPF_XOR:
		m->a ^= operand;
		return true;
	case BPF_LSH:
		m->a = operand < 32 ? m->a << operand : 0;
		return true;
	case BPF_RSH:
		m->a = operand < 32 ? m->a >> operand : 0;
		return true;
	case BPF_NEG:
		m->a = -m->a;
		return true;
	}
	return false;
}

static bool condition(const struct machine *m, uint16_t code, uint32_t operand)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return m->a == operand;
	case BPF_JGT:
		return m->a > operand;
	case BPF_JGE:
		return m->a >= operand;
	default:
		return m->a & operand;
	}
}

/* Loads a value for either register. Returns false if the instruction is malformed. */
static bool load(const struct machine *m, const struct sock_filter *i,
	const struct seccomp_data *data, uint32_t *ret)
{
	switch (BPF_MODE(i->code)) {
	case BPF_IMM:
		*ret = i->k;
		return true;
	case BPF_LEN:
		*ret = sizeof(*data);
		return true;
	case BPF_MEM:
		if (i->k >= BPF_MEMWORDS)
			return false;
		*ret = m->memory[i->k];
		return true;
	case BPF_ABS:
		if (i->k % 4 || i->k > sizeof(*data) - 4)
			return false;
		memcpy(ret, (const uint8_t *)data + i->k, sizeof(*ret));
		return true;
	}
	return false;
}

/* Runs an instruction other than a jump or return. Returns false if it is malformed. */
static bool step(struct machine *m, const struct sock_filter *i, const struct seccomp_data *data)
{
	uint32_t operand = BPF_SRC(i->code) == BPF_X ? m->x : i->k;

	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
		return load(m, i, data, &m->a);
	case BPF_LDX:
		return load(m, i, data, &m->x);
	case BPF_ST:
	case BPF_STX:
		if (i->k >= BPF_MEMWORDS)
			return false;
		m->memory[i->k] = BPF_CLASS(i->code) == BPF_ST ? m->a : m->x;
		return true;
	case BPF_ALU:
		return alu(m, i->code, operand);
	case BPF_MISC:
		if (BPF_MISCOP(i->code) == BPF_TAX)
			m->x = m->a;
		else
			m->a = m->x;
		return true;
	}
	return false;
}

uint32_t seccomp_run(
	const struct sock_filter *program, size_t length, const struct seccomp_data *data)
{
	struct machine m = {0};
	size_t at = 0;

	/* Jumps only go forward, so this loop ends. */
	while (at < length) {
		const struct sock_filter *i = &program[at++];
		uint32_t operand = BPF_SRC(i->code) == BPF_X ? m.x : i->k;

		if (BPF_CLASS(i->code) == BPF_RET)
			return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
		if (BPF_CLASS(i->code) != BPF_JMP) {
			if (!step(&m, i, data))
				break;
		} else if (BPF_OP(i->code) == BPF_JA) {
			at += i->k;
		} else {
			at += condition(&m, i->code, operand) ? i->jt : i->jf;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* ==== Seccomp ================================================================================= */

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

enum { CAPABILITY_SYS_ADMIN = 21 };

/* ---- Finding filters ---------------------------------------------------------------------- */

/* Reads what /proc says about a thread. *there_ret is false if it has no filters, or has ended. */
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
	seccomp->strict |= thread.strict;
	return ARRAY_ADD(seccomp->threads, seccomp->count, thread) ? NULL : probe_error_no_memory();
}

struct probe_error *seccomp_look(pid_t pid, bool alone, struct seccomp *ret)
{
	AUTO_DIR DIR *threads = NULL;
	struct probe_error *error = NULL;
	pid_t tid;

	*ret = (struct seccomp){.pid = pid, .allowed = SECCOMP_ALL};
	if (alone)
		return add_thread(ret, pid);
	threads = procfs_threads(pid);
	if (!threads && procfs_no_room(errno))
		error = probe_error_system(errno, "/proc/%d/task", pid);
	while (!error && (tid = procfs_next_thread(pid, threads)))
		error = add_thread(ret, tid);
	if (error)
		seccomp_deinit(ret);
	return error;
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
	struct probe_error *error = seccomp_look(seccomp->pid, false, &now);
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
	char effective[32];

	return procfs_status_number(gettid(), "Seccomp:") == 0 &&
	       procfs_status_text(gettid(), "CapEff:", effective, sizeof(effective)) &&
	       strtoull(effective, NULL, 16) >> CAPABILITY_SYS_ADMIN & 1;
}

/* Runs a filter for all calls. Returns the kinds that it allows. */
static unsigned int run_filter(struct seccomp *s, const struct sock_filter *program, size_t length)
{
	unsigned int allowed = SECCOMP_ALL;

	for (size_t i = 0; i < CALL_COUNT; i++) {
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

/* Finds the calls that a child of ours may make, under filters that the target has, too. */
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

/* Judges a thread by *ours, the kinds that our own filters allow. The first call sets it. */
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
	/* A thread that was created after the search may be used if it has no filters. */
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
