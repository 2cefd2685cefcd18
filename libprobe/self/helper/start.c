/* SPDX-License-Identifier: MIT */
/*
 * A process cannot ptrace(2) itself, so a controller that runs the same code as probectl changes
 * it. Its code allocates memory (so do libelf and capstone) while threads of this process are
 * stopped, and one of these may hold a lock of malloc(3): so it needs memory of its own, which only
 * execve(2) and fork(2) give. execve(2) takes as long for a large process as for a small one.
 *
 *	caller          clone(2) --> forker   clone(2), execve() ---> controller
 *	  |  waits                     | waits                  | stops all threads of the
 *	  |                            |                        | process, patches, resumes
 *	  |  <------------------------------- socket: requests  |  calls for it: proxy.c
 *	  |  <------------------------------- socket: the reply |
 *	  |                            | <---------------- ends |
 *	  |  <------------------- ends |
 *
 * The end of a program that was executed, or of a copy, sends SIGCHLD and shows up in wait(2), both
 * of which belong to the program: execve(2) sets the signal whatever clone(2) said. So it is the
 * child of another child, the forker, which wait(2) without __WCLONE does not report and which
 * ends without a signal. The forker shares this process's memory, like a child of vfork(2), and
 * uses the caller's thread pointer and a stack of its own. Until it reports the controller's pid,
 * the caller waits with all signals blocked, and touches nothing that belongs to its thread (not
 * even errno). After that the forker calls nothing in libc. It has to be waited for, or it would
 * remain as a zombie; and it keeps the memory of this process, even if that executes another
 * program. So no controller lives longer than the call that has started it. If the caller's thread
 * ends, the kernel kills the forker, and if that ends, the controller (PR_SET_PDEATHSIG): the end
 * of the socket need not show, as a child of the program may have our end of it open.
 *
 * If somebody stops the controller (SIGSTOP), the forker makes it go on at once, because threads
 * may wait for it; and the caller does so with the forker, for which it has to wait. A process that
 * is not a child of one's own is signalled by a descriptor (pidfd), as its pid may be another's.
 *
 * The forker shares with this process only what it needs: its memory, because of which nothing is
 * copied; and its descriptors (CLONE_FILES), until the controller runs: the one of the controller
 * is for the caller, and it takes no time to copy them. If it shared the current folder (CLONE_FS),
 * no thread could execute a set-user-ID program with its rights meanwhile (LSM_UNSAFE_SHARE).
 *
 * Where nothing can be executed, the controller is a copy of this process instead (fork(2)), which
 * takes the longer the more memory is in use. Only libc's own fork() yields a copy whose libc locks
 * are free, as well as those of pthread_atfork(3) users; the forker's call is as good as the
 * caller's. The copy loads no libraries: the loader's locks are not among those that fork()
 * releases. Whatever it may need is loaded before.
 *
 * Restartable sequences (rseq(2)) are the one thing that does not come with the thread pointer:
 * the kernel knows only the caller's registration. It is removed meanwhile, so that a stub that
 * the forker passes in libc sees a thread without a CPU of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/arch.h"
#include "arch/start.h"
#include "libprobe/base/page.h"
#include "libprobe/self/callers.h"
#include "libprobe/self/helper/controller.h"
#include "libprobe/self/helper/helper.h"
#include "libprobe/self/helper/image.h"
#include "libprobe/self/helper/start.h"

__thread bool helper_is_quiet __attribute__((tls_model("initial-exec")));

enum {
	STACK_BYTES = 8 << 20, /* of the forker, and so of a copy; only used pages count */
	RSEQ_BYTES_MIN = 32,
	LOOK_NS = 50000000, /* interval for checking that the forker is alive */
	RSEQ_UNREGISTER = 1,
	NOT_EXECUTED = 127
};

/* Where glibc (2.35 and later) has the area that it registers for each thread. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* Ends this process when its parent ends, or has ended. */
static void end_with(pid_t parent)
{
	raw_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (raw_call(SYS_getppid, 0, 0, 0, 0, 0) != parent)
		raw_call(SYS_exit_group, 0, 0, 0, 0, 0);
}

/* Signals the controller; false: there is no descriptor of it. */
static bool send_controller(struct start *s, int signal)
{
	int controller = atomic_load(&s->controller);

	return controller >= 0 &&
	       raw_call(SYS_pidfd_send_signal, controller, signal, 0, 0, 0) != -EBADF;
}

/* ---- The forker --------------------------------------------------------------------------- */

/* A limit of the program's may be too small for the controller; image_open() has seen the other. */
static void raise_stack_limit(void)
{
	struct rlimit limit = {0};

	if (raw_call(SYS_prlimit64, 0, RLIMIT_STACK, 0, (long)&limit, 0) != 0 ||
		limit.rlim_cur >= IMAGE_STACK_BYTES)
		return;
	limit.rlim_cur = IMAGE_STACK_BYTES;
	raw_call(SYS_prlimit64, 0, RLIMIT_STACK, (long)&limit, 0, 0);
}

/*
 * In a child that shares the memory until then, and has the program's descriptors. The loader must
 * not write to those of standard files; the controller closes the others, and keeps its end of the
 * socket.
 */
static int execute(void *data)
{
	const struct start *s = data;
	char name[] = "libprobe", *arguments[] = {name, (char *)s->socket, NULL};
	char *environment[] = {NULL};
	long nothing = raw_call(SYS_openat, AT_FDCWD, (long)"/", O_PATH | O_CLOEXEC, 0, 0);

	end_with(s->forker);
	raise_stack_limit();
	for (int fd = STDIN_FILENO; nothing >= 0 && fd <= STDERR_FILENO; fd++)
		if (fd != s->ends[1] && fd != s->image && fd != nothing)
			raw_call(SYS_dup3, nothing, fd, 0, 0, 0);
	raw_call(SYS_fcntl, s->ends[1], F_SETFD, 0, 0, 0);
	raw_call(SYS_execveat, s->image, (long)"", (long)arguments, (long)environment,
		AT_EMPTY_PATH);
	raw_call(SYS_exit_group, NOT_EXECUTED, 0, 0, 0, 0);
	return 0;
}

/*
 * The first half of the stack is enough for the forker, which waits meanwhile, as after vfork(2).
 * The caller can signal the controller even then.
 */
static pid_t fork_executed(struct start *s)
{
	pid_t pid = clone(execute, s->stack + STACK_BYTES / 2,
		CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, s, (void *)&s->controller);

	/* The kernel may have set it before it failed. */
	if (pid < 0)
		atomic_store(&s->controller, -1);
	return pid;
}

static pid_t fork_copy(struct start *s)
{
	pid_t pid = fork();

	if (pid == 0) {
		end_with(s->forker);
		controller_main(s->ends[1]);
	}
	if (pid > 0)
		atomic_store(&s->controller, (int)raw_call(SYS_pidfd_open, pid, 0, 0, 0, 0));
	return pid;
}

static int forker_main(void *data)
{
	/* Zeros: SIG_DFL. If SIGCHLD is ignored, a child's pid may be another's before the wait. */
	static const uint64_t usual[4];
	struct start *s = data;
	_Atomic uint32_t *word = s->word;
	int status = 0;
	pid_t pid;

	end_with(s->caller);
	raw_call(SYS_rt_sigaction, SIGCHLD, (long)usual, 0, sizeof(*usual), 0);
	pid = s->image >= 0 ? fork_executed(s) : fork_copy(s);
	atomic_store(word, pid > 0 ? (uint32_t)pid : (uint32_t)-errno);
	raw_call(SYS_futex, (long)word, FUTEX_WAKE, INT_MAX, 0, 0);
	/*
	 * From here on, `s` and the thread belong to the caller. If the process ends or executes
	 * another program, its end of the socket is to be closed: so this one gives up its share.
	 */
	raw_call(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE, 0, 0);
	while (pid > 0 &&
		raw_call(SYS_wait4, pid, (long)&status, __WALL | WUNTRACED, 0, 0) == pid &&
		WIFSTOPPED(status))
		raw_call(SYS_kill, pid, SIGCONT, 0, 0, 0);
	raw_call(SYS_exit, 0, 0, 0, 0, 0);
	return 0;
}

/* ---- The caller --------------------------------------------------------------------------- */

/* Unregisters the caller's rseq area; returns its address if that succeeded, else 0. */
static long rseq_take_back(long bytes)
{
	long area;

	if (!&__rseq_offset || !&__rseq_size || !__rseq_size)
		return 0;
	area = (long)((char *)__builtin_thread_pointer() + __rseq_offset);
	return raw_call(SYS_rseq, area, bytes, RSEQ_UNREGISTER, arch_process()->rseq_signature,
		       0) == 0
		       ? area
		       : 0;
}

/* Waits for the forker (or not: WNOHANG), unless it was stopped: then it goes on. */
static bool forker_is_gone(const struct start *s, int flags)
{
	int status = 0;
	long got =
		raw_call(SYS_wait4, s->forker, (long)&status, __WCLONE | WUNTRACED | flags, 0, 0);

	if (got != s->forker)
		return got == -ECHILD;
	if (!WIFSTOPPED(status))
		return true;
	raw_call(SYS_kill, s->forker, SIGCONT, 0, 0, 0);
	return false;
}

/*
 * What the forker reports: the controller's pid or -errno. The forker may die before it reports
 * anything; and it waits for a controller that was stopped before it is another program.
 */
static int32_t wait_for_fork(struct start *s)
{
	static const struct timespec moment = {.tv_nsec = LOOK_NS};
	int32_t said;

	while (!atomic_load(s->word)) {
		raw_call(SYS_futex, (long)s->word, FUTEX_WAIT, 0, (long)&moment, 0);
		(void)send_controller(s, SIGCONT);
		if (forker_is_gone(s, WNOHANG)) {
			s->forker = 0;
			break;
		}
	}
	said = (int32_t)atomic_load(s->word);
	return said ? said : -ECHILD;
}

static struct probe_error *run_forker(struct start *s)
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
	forked = clone(forker_main, s->stack + STACK_BYTES,
			 CLONE_VM | CLONE_FILES | CLONE_PARENT_SETTID, s, &s->forker) < 0
			 ? -errno
			 : wait_for_fork(s);
	callers_own = own;
	helper_is_quiet = false;
	if (area)
		raw_call(SYS_rseq, area, bytes, 0, arch_process()->rseq_signature, 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	s->pid = forked > 0 ? forked : 0;
	return forked > 0 ? NULL
			  : probe_error_system(-forked, "cannot copy this process, which is how "
							"its probes are changed");
}

/*
 * After unshare(2) or setns(2), a thread's children are in another pid namespace. The forker would
 * be its first process, whose end is the end of the namespace: the program could fork no more. Or
 * ids would be those of other processes there. A namespace without a process cannot be read.
 */
static struct probe_error *check_namespace(void)
{
	static const char children[] = "/proc/thread-self/ns/pid_for_children"; /* Linux 4.12 */
	char own[64] = "", theirs[64] = "";
	struct stat unused;

	if (lstat(children, &unused) < 0 ||
		readlink("/proc/thread-self/ns/pid", own, sizeof(own) - 1) < 0)
		return NULL;
	if (readlink(children, theirs, sizeof(theirs) - 1) > 0 && !strcmp(own, theirs))
		return NULL;
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"the children of this thread are in another pid namespace, from where its probes "
		"cannot be changed: change them in another thread, or before unshare(2) or "
		"setns(2)");
}

static struct probe_error *prepare(struct start *s)
{
	struct probe_error *error = check_namespace();

	if (error)
		return error;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s->ends) < 0)
		return probe_error_system(errno, "cannot make a socket");
	snprintf(s->socket, sizeof(s->socket), "%d", s->ends[1]);
	s->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (s->stack == MAP_FAILED || mprotect(s->stack, page_bytes(), PROT_NONE) < 0)
		return probe_error_system(errno, "cannot map memory for a copy of this process");
	s->word = (_Atomic uint32_t *)(void *)(s->stack + page_bytes());
	return NULL;
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

struct probe_error *start_controller(struct start *s, int image)
{
	struct probe_error *error = prepare(s);

	s->image = image;
	s->caller = getpid();
	if (!error)
		error = run_forker(s);
	close_end(&s->ends[1]);
	return error;
}

void start_end(struct start *s, bool is_late)
{
	int controller = atomic_load(&s->controller);

	/* Without a descriptor, which a filter may forbid, it ends with its parent. */
	if (is_late && !send_controller(s, SIGKILL) && s->forker > 0)
		raw_call(SYS_kill, s->forker, SIGKILL, 0, 0, 0);
	/* A child that another thread has made meanwhile (_Fork(3)) may have our end open, too. */
	if (s->ends[0] >= 0)
		shutdown(s->ends[0], SHUT_RDWR);
	close_end(&s->ends[0]);
	while (s->forker > 0 && !forker_is_gone(s, 0))
		;
	close_end(&s->ends[1]);
	close_end(&controller);
	if (s->stack != MAP_FAILED)
		munmap(s->stack, STACK_BYTES);
	*s = START_NONE;
}

struct probe_error *start_check(void)
{
	const struct arch *arch = arch_host();

	if (arch && arch->call_unwind)
		return NULL;
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"probes of programs for this processor can be listed, not enabled");
}
