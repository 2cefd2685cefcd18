/* SPDX-License-Identifier: MIT */
/*
 * A process cannot ptrace(2) itself, so another process, the controller, changes it, with the same
 * code as probectl. While threads of this process are stopped, the controller's code allocates
 * memory, and so do libelf and capstone. But a stopped thread may hold a lock of malloc(3). So the
 * controller needs memory of its own, which only execve(2) and fork(2) give. We prefer execve(2),
 * because it does not take longer if the process is large.
 *
 *	caller          clone(2) --> forker   clone(2), execve() ---> controller
 *	  |  waits                     | waits                  | stops all threads of the
 *	  |                            |                        | process, patches, resumes
 *	  |  <------------------------------- socket: requests  |  calls for it
 *	  |  <------------------------------- socket: the reply |
 *	  |                            | <---------------- ends |
 *	  |  <------------------- ends |
 *
 * When an executed program or a copy ends, its parent gets SIGCHLD, and the parent's wait(2)
 * reports the end. (execve(2) sets this signal, whatever clone(2) was told.) But SIGCHLD and
 * wait(2) are the program's, which must not notice. So the controller is not our child but the
 * child of another child, the forker. wait(2) without __WCLONE does not report the forker, and the
 * forker's end sends no signal. The forker shares this process's memory, like a child of vfork(2),
 * and uses the caller's thread pointer and a stack of its own. Until the forker reports the
 * controller's pid, the caller waits with all signals blocked, and touches nothing that belongs to
 * its thread (not even errno). After that the forker calls no function of libc.
 *
 * The caller must wait for the forker's end. If it did not, the forker would stay a zombie, and
 * would keep the memory of this process even after the process has executed another program. So no
 * controller lives longer than the call of the library that has started it. If the caller's thread
 * ends, the kernel kills the forker; if the forker ends, the kernel kills the controller
 * (PR_SET_PDEATHSIG). Closing our end of the socket would not be enough, because a child of the
 * program may have that end open, too.
 *
 * If somebody stops the controller (SIGSTOP), the forker continues it at once, because threads may
 * wait for it. The caller continues the forker in the same way. The controller is not the caller's
 * child, so its pid may already belong to another process. Therefore the caller signals it through
 * a descriptor (pidfd).
 *
 * The forker shares with this process only what it needs. It shares the memory, so that nothing is
 * copied. Until the controller runs, it also shares the descriptors (CLONE_FILES), because the
 * caller needs the controller's pidfd, and copying descriptors takes time. If it shared the current
 * folder (CLONE_FS), in the meantime no thread could execute a set-user-ID program with its rights
 * (LSM_UNSAFE_SHARE).
 *
 * If execve(2) is not possible, the controller is a copy of this process (fork(2)). Making it takes
 * longer the more memory is in use. It must be libc's own fork(): only then are the locks of libc,
 * and of users of pthread_atfork(3), free in the copy. The forker may call fork() as well as the
 * caller. In the copy, the loader's locks may not be free, so the copy loads no libraries. All
 * libraries that it may need are loaded before the fork.
 *
 * The forker uses the caller's thread pointer, but the kernel has registered the area for
 * restartable sequences (rseq(2)) only for the caller. So the caller unregisters the area as long
 * as the forker exists. If the forker executes a stub in libc, the stub then sees a thread without
 * a registered area.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
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
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"
#include "libprobe/base/page.h"
#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"
#include "libprobe/self/self.h"
#include "libprobe/self/helper/helper.h"

/* A started controller. Initialise with START_NONE. */
struct start {
	/* The ends of the socket: ours, and the controller's, which we close after its start. */
	int ends[2];
	pid_t caller; /* this process, the forker's parent */
	/* Ids of the controller's parent and of the controller; 0 if not started. */
	pid_t forker, pid;
	_Atomic int controller; /* descriptor of the controller (pidfd), or -1 */
	char *stack;		/* the forker's stack */
	/* Futex on the forker's stack: first 0, then the controller's pid or -errno. */
	_Atomic uint32_t *word;
	int image; /* descriptor of the program to execute, borrowed; or -1 */
	/* Runs a copy that stays after the forker's end, and never returns; else NULL. */
	void (*stay)(int socket, void *data);
	void *data;
	char socket[12]; /* descriptor number of the controller's end of the socket, as text */
};
#define START_NONE                                                                                 \
	((struct start){.ends = {-1, -1}, .controller = -1, .stack = MAP_FAILED, .image = -1})

/* ==== Proxy =================================================================================== */

/*
 * When probectl needs a system call made in a process, it stops a thread of the process and makes
 * the thread do the call. When a process changes its own probes, the thread that asked for the
 * change (the caller) waits for it anyway. So the controller asks the caller to make the call. No
 * thread is stopped for the call, and nothing is written into the process.
 *
 *	controller                      caller
 *	call     ---- socket ---->      makes the call
 *	         <--- the result -      waits for the next one, or the reply
 *
 * After it has answered, the caller waits for the next message, like a thread that is stopped after
 * a call. The caller also calls the program's functions that select probes.
 */

struct request {
	int64_t number;
	uint64_t args[6];
	bool has_text; /* if set, a text is sent, whose address is the first argument */
};

/* ---- In the controller -------------------------------------------------------------------- */

static bool ask(int socket, enum message_kind kind, struct buffer *question, int64_t *ret)
{
	AUTO(message_deinit) struct message answer = {0};
	bool ok = message_send(socket, kind, question) &&
		  message_receive(socket, -1, 0, &answer) == MESSAGE_GOT &&
		  answer.kind == MESSAGE_ANSWER;

	if (ok)
		message_read(&answer, ret, sizeof(*ret));
	buffer_deinit(question);
	return ok && !answer.is_bad;
}

/* Asks the caller to make a call (target_proxy.call). `socket` points to our descriptor. */
static bool proxy_ask(void *socket, struct control_call *call)
{
	struct request request = {.number = call->number, .has_text = call->text != NULL};
	struct buffer question = {0};

	memcpy(request.args, call->args, sizeof(request.args));
	buffer_bytes(&question, &request, sizeof(request));
	if (call->text)
		message_add_text(&question, call->text);
	return ask(*(const int *)socket, MESSAGE_CALL, &question, &call->result);
}

bool proxy_matches(const char *path, const char *provider, const char *name, void *predicate)
{
	const struct proxy_predicate *p = predicate;
	struct buffer question = {0};
	int64_t matches;

	buffer_bytes(&question, &p->function, sizeof(p->function));
	buffer_bytes(&question, &p->data, sizeof(p->data));
	message_add_text(&question, path);
	message_add_text(&question, provider);
	message_add_text(&question, name);
	return ask(p->socket, MESSAGE_MATCH, &question, &matches) && matches;
}

/* ---- In the caller ------------------------------------------------------------------------ */

static int64_t make_call(struct message *message)
{
	const char *text = "";
	struct request r;
	int64_t result;

	message_read(message, &r, sizeof(r));
	if (r.has_text)
		text = message_text(message);
	if (message->is_bad)
		return -EINVAL;
	result = syscall(r.number, r.has_text ? (uint64_t)(uintptr_t)text : r.args[0], r.args[1],
		r.args[2], r.args[3], r.args[4], r.args[5]);
	return result == -1 ? -errno : result;
}

static int64_t match(struct message *message)
{
	bool (*function)(const char *path, const char *provider, const char *name, void *data);
	const char *path, *provider, *name;
	uint64_t address, data;

	message_read(message, &address, sizeof(address));
	message_read(message, &data, sizeof(data));
	path = message_text(message);
	provider = message_text(message);
	name = message_text(message);
	function = (__typeof__(function))(uintptr_t)address;
	return !message->is_bad && function(path, provider, name, (void *)(uintptr_t)data);
}

/* If a message is MESSAGE_CALL or MESSAGE_MATCH, answers it and returns true. */
static bool proxy_serve(int socket, struct message *message)
{
	AUTO(buffer_deinit) struct buffer answer = {0};
	int64_t result;

	if (message->kind != MESSAGE_CALL && message->kind != MESSAGE_MATCH)
		return false;
	result = message->kind == MESSAGE_CALL ? make_call(message) : match(message);
	buffer_bytes(&answer, &result, sizeof(result));
	/* If the controller is gone, the next read from the socket reports that. */
	(void)message_send(socket, MESSAGE_ANSWER, &answer);
	return true;
}

/* ==== Controller ============================================================================== */

/*
 * The messages of a controller:
 *
 *	hello  ----->       "it runs, and is this build of the library"
 *	       <----- work  a request
 *	calls  <---->       system calls that the caller makes for it
 *	reply  ----->       the result
 *	       <----- work  and so on, until the caller has no more requests
 *
 * One controller serves several requests, so that it reads each file only once. Its parent, the
 * forker, only waits for it.
 */

const char controller_identity[] = PROBE_IDENTITY;

struct probe_error *controller_bad_request(void)
{
	return probe_error_new(PROBE_ERROR_STATE,
		"a process that was to change the probes of this one was asked for something that "
		"it does not know");
}

struct controller {
	int socket;
	struct target_proxy proxy;
	struct probe_target *target; /* NULL before the first request */
};

/* Fails if the process that has sent the request has ended. */
static struct probe_error *open_target(struct controller *c, const struct controller_work *work)
{
	struct probe_error *error = NULL;

	if (!c->target)
		error = probe_target_open(work->pid, NULL, &c->target);
	if (!error && !c->target->files)
		error = files_create(&c->target->files);
	if (error)
		return error;
	if (c->target->pid != work->pid || c->target->start_time != work->start_time)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", work->pid);
	c->proxy = (struct target_proxy){.tid = work->tid, .call = proxy_ask, .data = &c->socket};
	c->target->gadgets = work->gadgets;
	c->target->model = work->model;
	c->target->model_known = true;
	c->target->lender = getppid();
	c->target->proxy = &c->proxy;
	return NULL;
}

static void controller_serve(struct controller *c, struct message *request)
{
	AUTO(probe_report_deinit) struct probe_report report = {0};
	struct controller_work work;
	struct probe_error *error = NULL;
	AUTO_FREE void *result = NULL;

	message_read(request, &work, sizeof(work));
	if (request->is_bad || request->kind != MESSAGE_WORK || work.act >= CONTROLLER_ACTS)
		error = controller_bad_request();
	else
		result = calloc(1, work.result_bytes + 1);
	if (!error)
		error = result ? open_target(c, &work) : probe_error_no_memory();
	if (!error)
		error = self_acts[work.act](c->target, request, &report, result, work.result_bytes);
	reply_send(c->socket, error, &report, result, result ? work.result_bytes : 0);
	probe_error_free(error);
}

void controller_main(int socket)
{
	struct controller c = {.socket = socket};
	struct message request = {0};
	struct buffer hello = {0};
	sigset_t set;

	/* No handler of the program runs here. An alarm limits our life. */
	signal(SIGCHLD, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(HELPER_SECONDS);
	/* If an executed program changes its user or group, execve(2) clears PR_SET_PDEATHSIG. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Close the program's descriptors except the standard ones, so that no pipe stays open. */
	if (socket > STDERR_FILENO + 1)
		syscall(SYS_close_range, STDERR_FILENO + 1, socket - 1, 0);
	syscall(SYS_close_range, socket < STDERR_FILENO ? STDERR_FILENO + 1 : socket + 1, ~0U, 0);
	/* Make sleeps exact, because stopped threads may wait. The kernel would round them up. */
	prctl(PR_SET_TIMERSLACK, 1);
	message_add_text(&hello, controller_identity);
	if (message_send(socket, MESSAGE_HELLO, &hello))
		while (message_receive(socket, -1, 0, &request) == MESSAGE_GOT) {
			alarm(HELPER_SECONDS);
			controller_serve(&c, &request);
			alarm(0);
		}
	/* exit(3) would run the program's exit handlers, and the checks of sanitizers. */
	syscall(SYS_exit_group, 0);
	__builtin_unreachable();
}

/* ==== Start =================================================================================== */

__thread bool helper_is_quiet __attribute__((tls_model("initial-exec")));

enum {
	/* Stack of the forker or of a copy; only the pages used take memory. */
	STACK_BYTES = 8 << 20,
	RSEQ_BYTES_MIN = 32,
	LOOK_NS = 50000000, /* interval for checking that the forker is alive */
	RSEQ_UNREGISTER = 1,
	NOT_EXECUTED = 127
};

/* The area that glibc (2.35 and later) registers with rseq(2) for each thread. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* Makes this process end with `parent`, which may have ended already. */
static void end_with(pid_t parent)
{
	raw_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (raw_call(SYS_getppid, 0, 0, 0, 0, 0) != parent)
		raw_call(SYS_exit_group, 0, 0, 0, 0, 0);
}

/* Sends a signal to the controller. Returns false if its pidfd is unknown. */
static bool send_controller(struct start *s, int signal)
{
	int controller = atomic_load(&s->controller);

	return controller >= 0 &&
	       raw_call(SYS_pidfd_send_signal, controller, signal, 0, 0, 0) != -EBADF;
}

/* ---- The forker --------------------------------------------------------------------------- */

/* Raises the soft limit of the stack; image_open() has checked the hard limit. */
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
 * Executes the controller, in a child that shares our memory until then, but not the descriptors.
 * Replaces the standard descriptors, to which the loader must not write. The controller closes the
 * others, except its end of the socket.
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
 * Starts the controller by execve(2). The child has the lower half of the stack. As in vfork(2),
 * the forker waits for execve(2) in the upper half. During that, the caller can signal the
 * controller.
 */
static pid_t fork_executed(struct start *s)
{
	pid_t pid = clone(execute, s->stack + STACK_BYTES / 2,
		CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, s, (void *)&s->controller);

	/* clone(2) may have failed after setting the descriptor. */
	if (pid < 0)
		atomic_store(&s->controller, -1);
	return pid;
}

static pid_t fork_copy(struct start *s)
{
	pid_t pid = fork();

	if (pid == 0 && s->stay)
		s->stay(s->ends[1], s->data);
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
	/*
	 * Zeros mean SIG_DFL. If SIGCHLD were ignored, the child's pid could be reused before we
	 * wait.
	 */
	static const uint64_t usual[4];
	struct start *s = data;
	_Atomic uint32_t *word = s->word;
	bool stays = s->stay != NULL;
	int status = 0;
	pid_t pid;

	end_with(s->caller);
	raw_call(SYS_rt_sigaction, SIGCHLD, (long)usual, 0, sizeof(*usual), 0);
	pid = s->image >= 0 ? fork_executed(s) : fork_copy(s);
	atomic_store(word, pid > 0 ? (uint32_t)pid : (uint32_t)-errno);
	raw_call(SYS_futex, (long)word, FUTEX_WAKE, INT_MAX, 0, 0);
	/*
	 * From here on, `s` and the thread pointer are the caller's. Close our copies of all
	 * descriptors: when the process ends or calls execve(2), its end of the socket must close.
	 */
	raw_call(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE, 0, 0);
	while (pid > 0 && !stays &&
		raw_call(SYS_wait4, pid, (long)&status, __WALL | WUNTRACED, 0, 0) == pid &&
		WIFSTOPPED(status))
		raw_call(SYS_kill, pid, SIGCONT, 0, 0, 0);
	raw_call(SYS_exit, 0, 0, 0, 0, 0);
	return 0;
}

/* ---- The caller --------------------------------------------------------------------------- */

/* Unregisters the caller's rseq area. Returns its address, or 0 on failure. */
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

/*
 * Waits for the forker (`flags` may have WNOHANG), and continues it if it was stopped. Returns true
 * if it is gone.
 */
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
 * Waits for the forker's report: the controller's pid or -errno. Ends if the forker has died.
 * Continues the controller, which may have been stopped before its execve(2).
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
 * Fails if this thread's children go to another pid namespace, after unshare(2) or setns(2). In an
 * empty namespace (unreadable in /proc), the forker would be the first process, and the namespace
 * would end with it: the program could not fork any more. In other namespaces, pids would mean
 * other processes.
 */
static struct probe_error *check_namespace(void)
{
	/* This link exists since Linux 4.12. */
	static const char children[] = "/proc/thread-self/ns/pid_for_children";
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

/*
 * Starts a controller: the program `image`, or a copy of this process if -1. Call
 * start_end() even after an error. Errors: PROBE_ERROR_SYSTEM.
 */
static struct probe_error *start_controller(struct start *s, int image)
{
	struct probe_error *error = prepare(s);

	s->image = image;
	s->caller = getpid();
	error = error ?: run_forker(s);
	cleanup_fd(&s->ends[1]);
	return error;
}

/*
 * Closes the socket, waits for the controller's and the forker's ends, and frees everything.
 * `is_late`: the controller has not replied in time, and is killed.
 */
static void start_end(struct start *s, bool is_late)
{
	int controller = atomic_load(&s->controller);

	/* Without a pidfd (a filter may forbid it), kill the controller's parent, and so it. */
	if (is_late && !send_controller(s, SIGKILL) && s->forker > 0)
		raw_call(SYS_kill, s->forker, SIGKILL, 0, 0, 0);
	/*
	 * Shut the socket down, because a child made by another thread's _Fork(3) may have our end
	 * open, too.
	 */
	if (s->ends[0] >= 0)
		shutdown(s->ends[0], SHUT_RDWR);
	cleanup_fd(&s->ends[0]);
	while (s->forker > 0 && !forker_is_gone(s, 0))
		;
	cleanup_fd(&s->ends[1]);
	cleanup_fd(&controller);
	if (s->stack != MAP_FAILED)
		munmap(s->stack, STACK_BYTES);
	*s = START_NONE;
}

/* ==== Helper ================================================================================== */

/* The caller's part of a change: starts a controller, sends a request, answers questions. */

enum { TRIES = 2, YAMA_DESCENDANTS = 1 /* a value of ptrace_scope */ };

enum outcome {
	OUTCOME_DONE,  /* the controller has replied, or could not be started */
	OUTCOME_UNFIT, /* this controller cannot do the work, and has done nothing */
	OUTCOME_DIED,
	OUTCOME_LATE
};

struct helper {
	struct helper_work *work;
	struct controller_work head; /* the beginning of the request */
	uint64_t end_ns;	     /* the time limit for the reply (CLOCK_MONOTONIC) */
};

/* The running controller, protected by the lock. */
static struct {
	bool is_there, is_executed;
	struct start start;
} running;

/* ---- The request ------------------------------------------------------------------------ */

/*
 * Finds, once, constant facts that a change needs: finding them takes longer than most of a change.
 * Missing gadgets are no error here, because the controller reports them.
 */
static struct probe_error *find_facts(struct probe_target *target, struct controller_work *ret)
{
	static struct arch_gadgets gadgets; /* this and `model` are protected by the lock */
	static struct arch_thread model;
	static const struct memory_piece nothing_more;
	AUTO(modules_deinit) struct modules modules = {0};
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error, *missing;

	if (!gadgets.call || !gadgets_are_there(target->pid, &gadgets, &nothing_more)) {
		error = maps_read(target->pid, &maps)
				?: modules_read_mapped(target->pid, &maps, NULL, &modules);
		if (error)
			return error;
		missing = gadgets_find(target->pid, &maps, &modules, &gadgets);
		if (missing)
			gadgets = (struct arch_gadgets){0};
		probe_error_free(missing);
		threads_model(target, &modules, &model);
	}
	ret->gadgets = gadgets;
	ret->model = model;
	return NULL;
}

/* ---- One try ---------------------------------------------------------------------------- */

/* Receives the controller's next message. Waits until `end_ns` (CLOCK_MONOTONIC). */
static enum message_result hear(uint64_t end_ns, struct message *ret)
{
	int process = atomic_load(&running.start.controller);

	return message_receive(running.start.ends[0], process, end_ns, ret);
}

/* Waits until the controller runs, and checks that it is of this build. */
static enum outcome hear_hello(const struct helper *h)
{
	AUTO(message_deinit) struct message hello = {0};
	enum message_result result = hear(h->end_ns, &hello);
	bool is_same = result == MESSAGE_GOT && hello.kind == MESSAGE_HELLO &&
		       !strcmp(message_text(&hello), controller_identity);

	return is_same			? OUTCOME_DONE
	       : result == MESSAGE_LATE ? OUTCOME_LATE
	       : running.is_executed	? OUTCOME_UNFIT
					: OUTCOME_DIED;
}

void helper_allow(pid_t pid)
{
	if (procfs_file_number("/proc/sys/kernel/yama/ptrace_scope") == YAMA_DESCENDANTS)
		prctl(PR_SET_PTRACER, (unsigned long)pid, 0, 0, 0);
}

static pid_t newest_copy; /* made by helper_copy(), or 0 */

void helper_allow_copy(void)
{
	if (newest_copy)
		helper_allow(newest_copy);
}

/* Makes a controller: a copy of this process if `copy` is set or the library cannot be executed. */
static struct probe_error *begin(const struct helper *h, bool copy, enum outcome *ret)
{
	AUTO_FD int image = copy ? -1 : image_open();
	struct probe_error *error;

	running.start = START_NONE;
	running.is_there = true;
	running.is_executed = image >= 0;
	error = start_controller(&running.start, image);
	if (!error)
		*ret = hear_hello(h);
	if (!error && *ret == OUTCOME_DONE)
		helper_allow(running.start.pid);
	return error;
}

void helper_end(bool is_late)
{
	uint64_t end_ns = clock_monotonic_ns() + HELPER_SECONDS * UINT64_C(1000000000);
	enum message_result result = is_late ? MESSAGE_LATE : MESSAGE_GOT;
	AUTO(message_deinit) struct message unheard = {0};

	if (!running.is_there)
		return;
	if (!is_late)
		shutdown(running.start.ends[0], SHUT_WR);
	while (result == MESSAGE_GOT)
		result = hear(end_ns, &unheard);
	start_end(&running.start, result == MESSAGE_LATE);
	running.is_there = false;
	helper_allow_copy();
}

/* Sends the request, and answers the controller's questions until it replies. */
static enum outcome serve(const struct helper *h, struct probe_error **answer_ret)
{
	const struct helper_work *work = h->work;
	enum outcome outcome = OUTCOME_DONE;
	int socket = running.start.ends[0];
	AUTO(buffer_deinit) struct buffer bytes = {0};
	AUTO(message_deinit) struct message m = {0};

	buffer_bytes(&bytes, &h->head, sizeof(h->head));
	buffer_bytes(&bytes, work->request.data, work->request.length);
	if (!message_send(socket, MESSAGE_WORK, &bytes))
		return OUTCOME_DIED;
	do {
		enum message_result result = hear(h->end_ns, &m);

		if (result != MESSAGE_GOT)
			outcome = result == MESSAGE_LATE ? OUTCOME_LATE : OUTCOME_DIED;
	} while (outcome == OUTCOME_DONE && proxy_serve(socket, &m));
	if (outcome == OUTCOME_DONE &&
		!reply_take(&m, answer_ret, work->report, work->result, work->result_bytes))
		outcome = OUTCOME_DIED;
	return outcome;
}

/*
 * Makes one try. The error is the request's, or says why no controller started. After an error, or
 * any outcome but OUTCOME_DONE, no controller is running.
 */
static struct probe_error *try(struct helper *h, bool copy, enum outcome *ret)
{
	struct probe_error *error = NULL;

	h->end_ns = clock_monotonic_ns() + HELPER_SECONDS * UINT64_C(1000000000);
	*ret = OUTCOME_DONE;
	if (!running.is_there)
		error = begin(h, copy, ret);
	if (!error && *ret == OUTCOME_DONE)
		*ret = serve(h, &error);
	/*
	 * An executed controller does not have the rights that the program was given, so a copy may
	 * be able to trace the process. After this error, nothing was done.
	 */
	if (running.is_executed && error && error->code == PROBE_ERROR_PERMISSION)
		*ret = OUTCOME_UNFIT;
	if (error || *ret != OUTCOME_DONE)
		helper_end(*ret == OUTCOME_LATE);
	return error;
}

/* ---- All tries -------------------------------------------------------------------------- */

static struct probe_error *change(struct helper *h)
{
	struct probe_target *target;
	struct probe_error *error = probe_target_open(getpid(), NULL, &target);
	bool done;

	if (error)
		return error;
	h->head.pid = target->pid;
	h->head.tid = (pid_t)syscall(SYS_gettid);
	h->head.start_time = target->start_time;
	error = find_facts(target, &h->head);
	probe_target_close(target);
	done = error != NULL;
	for (int i = 0; i < TRIES && !done; i++) {
		enum outcome outcome;

		error = try(h, false, &outcome);
		if (outcome == OUTCOME_UNFIT) {
			probe_error_free(error);
			error = try(h, true, &outcome);
		}
		done = outcome == OUTCOME_DONE;
		h->work->died = h->work->died || !done;
		if (!done && i + 1 == TRIES)
			error = probe_error_new(PROBE_ERROR_STATE,
				"the process that was to change the probes of this one %s: try "
				"again",
				outcome == OUTCOME_LATE ? "was not done in time" : "has died");
	}
	return error;
}

struct probe_error *helper_copy(
	void (*stay)(int socket, void *data), void *data, struct helper_copy *ret)
{
	int cancel = self_lock();
	struct start s = START_NONE;
	struct probe_error *error;

	s.stay = stay;
	s.data = data;
	error = start_controller(&s, -1);
	*ret = (struct helper_copy){.socket = -1, .process = -1, .pid = s.pid};
	if (!error) {
		ret->socket = s.ends[0];
		s.ends[0] = -1;
		ret->process = atomic_exchange(&s.controller, -1);
		newest_copy = s.pid;
		helper_allow_copy();
		/* Now it may trace us. If it has ended, its reply is missing. */
		message_send(ret->socket, MESSAGE_WORK, &(struct buffer){0});
	}
	start_end(&s, false);
	self_unlock(cancel);
	return error;
}

void helper_leave_copy(struct helper_copy *copy)
{
	cleanup_fd(&copy->socket);
	cleanup_fd(&copy->process);
	if (copy->pid == newest_copy)
		newest_copy = 0;
}

void helper_prepare(void)
{
	/* Load the disassembler now: a copied controller must not load libraries. */
	if (arch_host()->can_decode)
		arch_host()->can_decode();
}

struct probe_error *helper_run(struct helper_work *work)
{
	struct helper h = {
		.work = work, .head = {.act = work->act, .result_bytes = work->result_bytes}};
	struct probe_error *error = work->request.no_memory ? probe_error_no_memory() : change(&h);

	buffer_deinit(&work->request);
	return error;
}
