/* SPDX-License-Identifier: MIT */
/*
 * A process cannot ptrace(2) itself, so a copy of this process becomes its controller and runs
 * the same code as probectl:
 *
 *	caller          clone(2) --> forker       fork() ---> copy
 *	  |  waits                     | waits                  | stops all threads of the
 *	  |                            |                        | process, patches, resumes
 *	  |  <------------------------------- socket: requests  |  system calls for it: proxy.c
 *	  |  <------------------------------- socket: the reply |
 *	  |                            | <---------------- ends |
 *	  |  <------------------- ends |
 *
 * The copy calls malloc and the rest of libc, in a process that may have other threads, and one
 * of them may hold a lock at that moment. Only libc's own fork() yields a copy whose libc locks
 * are free, as well as those of pthread_atfork(3) users. But then the end of the copy would
 * send SIGCHLD and show up in wait(2), both of which belong to the program. So the copy is the
 * child of another child, the forker, which wait(2) without __WCLONE does not report and which
 * ends without a signal. The forker shares this process's memory, like a child of vfork(2), and
 * uses the caller's thread pointer and a stack of its own, so its call of fork() is as good as
 * the caller's. Until that call returns the caller waits with all signals blocked, and touches
 * nothing that belongs to its thread (not even errno). After that the forker calls nothing in
 * libc.
 *
 * Restartable sequences (rseq(2)) are the one thing that does not come with the thread pointer:
 * the kernel knows only the caller's registration. It is removed meanwhile, so that a stub that
 * the forker passes in libc sees a thread without a CPU of its own.
 *
 * The copy loads no libraries: the loader's locks are not among those that fork() releases.
 * Whatever it may need is loaded before.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/arch.h"
#include "libprobe/base/clock.h"
#include "libprobe/modules/gadgets.h"
#include "libprobe/modules/modules.h"
#include "libprobe/process/procfs.h"
#include "libprobe/self/callers.h"
#include "libprobe/self/helper.h"
#include "libprobe/self/proxy.h"
#include "libprobe/self/reply.h"
#include "libprobe/target/target.h"
#include "libprobe/target/threads.h"

__thread bool helper_is_quiet __attribute__((tls_model("initial-exec")));

#if defined(__x86_64__)

enum {
	COPY_SECONDS = 20, /* until the copy ends itself, and the caller gives up on it */
	TRIES = 2,
	STACK_BYTES = 8 << 20, /* of the forker, and so of the copy; only used pages count */
	GUARD_BYTES = 4096,
	RSEQ_BYTES_MIN = 32,
	LOOK_NS = 50000000, /* interval for checking that the forker is alive */
	RSEQ_UNREGISTER = 1,
	YAMA_DESCENDANTS = 1 /* a value of ptrace_scope */
};

/* Where glibc (2.35 and later) has the area that it registers for each thread. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* Shared by all three, including the copy. */
struct channel {
	_Atomic uint32_t forked;  /* futex: the copy's pid, or -errno; 0: not yet */
	_Atomic uint32_t allowed; /* futex: 1 when the copy may begin */
};

struct helper {
	const struct helper_work *work;
	struct probe_target *target;
	struct channel *channel;
	int ends[2]; /* of a socket: the caller's, and the copy's */
	struct target_proxy proxy;
	pid_t forker, copy;
	char *stack;
};

/* A system call that does not change errno. */
static long raw_call(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

static void wait_until_set(_Atomic uint32_t *word)
{
	while (!atomic_load(word))
		raw_call(SYS_futex, (long)word, FUTEX_WAIT, 0, 0);
}

static void set(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store(word, value);
	raw_call(SYS_futex, (long)word, FUTEX_WAKE, INT_MAX, 0);
}

/* ---- The copy --------------------------------------------------------------------------- */

/*
 * Otherwise the program's descriptors would stay open as long as the copy lives, for example
 * the end of a pipe.
 */
static void close_others(int kept)
{
	if (kept > STDERR_FILENO + 1)
		syscall(SYS_close_range, STDERR_FILENO + 1, kept - 1, 0);
	syscall(SYS_close_range, kept < STDERR_FILENO ? STDERR_FILENO + 1 : kept + 1, ~0U, 0);
}

/* Keeps the program's handlers from running here, and limits the copy's life. */
static void set_signals(void)
{
	sigset_t set;

	signal(SIGCHLD, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(COPY_SECONDS);
}

static void copy_main(struct helper *h)
{
	struct probe_report report = {0};
	struct probe_error *error;

	set_signals();
	close_others(h->ends[1]);
	h->target->lender = getppid();
	h->target->proxy = &h->proxy;
	wait_until_set(&h->channel->allowed);
	error = h->work->act(h->target, h->work->data, &report, h->work->result);
	reply_send(h->ends[1], error, &report, h->work->result, h->work->result_bytes);
	/* Skip the program's exit handlers, and the sanitizers' checks. */
	raw_call(SYS_exit_group, 0, 0, 0, 0);
}

/* ---- The forker --------------------------------------------------------------------------- */

static int forker_main(void *data)
{
	struct helper *h = data;
	struct channel *channel = h->channel;
	pid_t pid = fork();

	if (pid == 0)
		copy_main(h);
	set(&channel->forked, pid > 0 ? (uint32_t)pid : (uint32_t)-errno);
	/* From here on, `h` and the thread belong to the caller. */
	if (pid > 0)
		raw_call(SYS_wait4, pid, 0, __WALL, 0);
	raw_call(SYS_exit, 0, 0, 0, 0);
	return 0;
}

/* Unregisters the caller's rseq area; returns its address if that succeeded, else 0. */
static long rseq_take_back(long bytes)
{
	long area;

	if (!&__rseq_offset || !&__rseq_size || !__rseq_size)
		return 0;
	area = (long)((char *)__builtin_thread_pointer() + __rseq_offset);
	return raw_call(SYS_rseq, area, bytes, RSEQ_UNREGISTER, arch_process()->rseq_signature) == 0
		       ? area
		       : 0;
}

/*
 * What the forker reports: the copy's pid or -errno. The forker may die before it reports
 * anything.
 */
static int32_t wait_for_fork(struct helper *h)
{
	static const struct timespec moment = {.tv_nsec = LOOK_NS};
	_Atomic uint32_t *forked = &h->channel->forked;
	int32_t said;

	while (!atomic_load(forked)) {
		raw_call(SYS_futex, (long)forked, FUTEX_WAIT, 0, (long)&moment);
		if (raw_call(SYS_wait4, h->forker, 0, WNOHANG | __WCLONE, 0) != h->forker)
			continue;
		h->forker = 0;
		break;
	}
	said = (int32_t)atomic_load(forked);
	return said ? said : -ECHILD;
}

static struct probe_error *start_copy(struct helper *h)
{
	long bytes = &__rseq_size && __rseq_size > RSEQ_BYTES_MIN ? __rseq_size : RSEQ_BYTES_MIN;
	struct caller *own = callers_own;
	sigset_t all, old;
	int32_t forked;
	long area;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	area = rseq_take_back(bytes);
	helper_is_quiet = true;
	callers_own = NULL;
	h->forker = clone(forker_main, h->stack + STACK_BYTES,
		CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM, h);
	forked = h->forker < 0 ? -errno : wait_for_fork(h);
	callers_own = own;
	helper_is_quiet = false;
	if (area)
		raw_call(SYS_rseq, area, bytes, 0, arch_process()->rseq_signature);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	h->copy = forked > 0 ? forked : 0;
	return forked > 0 ? NULL
			  : probe_error_system(-forked, "cannot copy this process, which is how "
							"its probes are changed");
}

/* ---- The caller ----------------------------------------------------------------------------- */

/* Yama may allow only ancestors, and processes named by PR_SET_PTRACER, to trace. */
static void allow(const struct helper *h)
{
	bool restricted =
		procfs_file_number("/proc/sys/kernel/yama/ptrace_scope") == YAMA_DESCENDANTS;

	if (restricted)
		prctl(PR_SET_PTRACER, (unsigned long)h->copy, 0, 0, 0);
	set(&h->channel->allowed, 1);
}

/* Reads the copy's requests, and its reply until it ends; *late_ret: it did not end in time. */
static struct probe_error *listen_to(const struct helper *h, struct reply *reply, bool *late_ret)
{
	uint64_t end = clock_monotonic_ns() + COPY_SECONDS * UINT64_C(1000000000);
	struct probe_error *error = NULL;
	bool more = true;

	while (more && !*late_ret) {
		struct pollfd fd = {.fd = h->ends[0], .events = POLLIN};
		uint64_t now = clock_monotonic_ns();
		int ready = now < end ? poll(&fd, 1, (int)((end - now) / 1000000) + 1) : 0;

		*late_ret = now >= end;
		if (ready > 0)
			more = reply_read(reply, h->ends[0], &error);
		if (proxy_serve(h->ends[0], reply->bytes, reply->length))
			reply->length = 0;
	}
	return error;
}

/* After this, the forker is gone, and its stack is free. */
static void end_copy(const struct helper *h, bool late)
{
	/* Its end of the socket is open, so it exists, and its pid cannot have been reused. */
	if (late && h->copy)
		kill(h->copy, SIGKILL);
	while (h->forker > 0 && waitpid(h->forker, NULL, __WCLONE) < 0 && errno == EINTR)
		;
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/*
 * Finds out, once, what a change needs to know of the process and what stays the same: this takes
 * longer than most of a change. If there are no gadgets, the copy reports it.
 */
static struct probe_error *find_facts(struct probe_target *target)
{
	static struct arch_gadgets gadgets; /* these two: protected by the lock */
	static struct arch_thread model;
	static const struct memory_piece nothing_more;
	struct modules modules = {0};
	struct probe_error *error, *missing;

	if (!gadgets.call || !gadgets_are_there(target->pid, &gadgets, &nothing_more)) {
		error = modules_read(target->pid, NULL, &modules);
		if (error)
			return error;
		missing = gadgets_find(&modules, &gadgets);
		if (missing)
			gadgets = (struct arch_gadgets){0};
		probe_error_free(missing);
		threads_model(target, &modules, &model);
		modules_deinit(&modules);
	}
	target->gadgets = gadgets;
	target->model = model;
	target->model_known = true;
	return NULL;
}

static struct probe_error *prepare(struct helper *h)
{
	struct probe_error *error;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, h->ends) < 0)
		return probe_error_system(errno, "cannot make a socket");
	h->proxy = (struct target_proxy){
		.tid = (pid_t)syscall(SYS_gettid), .call = proxy_ask, .data = &h->ends[1]};
	h->channel = mmap(NULL, sizeof(*h->channel), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	h->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (h->channel == MAP_FAILED || h->stack == MAP_FAILED ||
		mprotect(h->stack, GUARD_BYTES, PROT_NONE) < 0)
		return probe_error_system(errno, "cannot map memory for a copy of this process");
	error = probe_target_open(getpid(), NULL, &h->target);
	return error ? error : find_facts(h->target);
}

static void clean_up(struct helper *h)
{
	close_end(&h->ends[0]);
	close_end(&h->ends[1]);
	if (h->channel != MAP_FAILED)
		munmap(h->channel, sizeof(*h->channel));
	if (h->stack != MAP_FAILED)
		munmap(h->stack, STACK_BYTES);
	probe_target_close(h->target);
}

/* One try; *done_ret: the copy has reported its result. */
static struct probe_error *try(const struct helper_work *work, bool *done_ret)
{
	struct helper h = {
		.work = work, .channel = MAP_FAILED, .stack = MAP_FAILED, .ends = {-1, -1}};
	struct probe_error *error = prepare(&h), *answer = NULL;
	struct reply reply = {0};
	bool late = false;

	*done_ret = true;
	if (!error)
		error = start_copy(&h);
	if (!error) {
		close_end(&h.ends[1]);
		allow(&h);
		error = listen_to(&h, &reply, &late);
	}
	end_copy(&h, late || error);
	if (!error) {
		*done_ret =
			reply_take(&reply, &answer, work->report, work->result, work->result_bytes);
		error = answer;
	}
	if (!*done_ret)
		error = probe_error_new(PROBE_ERROR_STATE,
			"the copy of this process that was to change its probes %s: try again",
			late ? "was not done in time" : "has died");
	reply_deinit(&reply);
	clean_up(&h);
	return error;
}

void helper_prepare(void)
{
	/* Loads the disassembler here, not in the copy. */
	if (arch_host()->can_decode)
		arch_host()->can_decode();
}

struct probe_error *helper_run(struct helper_work *work)
{
	struct probe_error *error = NULL;
	bool done = false;

	for (int i = 0; i < TRIES && !done; i++) {
		probe_error_free(error);
		error = try(work, &done);
		work->died = work->died || !done;
	}
	return error;
}

#else

void helper_prepare(void)
{
}

struct probe_error *helper_run(struct helper_work *work)
{
	(void)work;
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"probes of programs for this processor can be listed, not enabled");
}

#endif
