/* SPDX-License-Identifier: MIT */
/*
 * A program that does what programs do, and checks every result.
 *
 *	victim MODE [THREADS]
 *
 * compute	mixes numbers, with a probe at every turn (all modes do)
 * signals	a timer's handler passes probes; often it leaves by siglongjmp()
 * altstack	the same, with the handler on an alternate stack
 * churn	threads are created and exit
 * fork		children compute and exit
 * spawn	vfork() with execve(), and posix_spawn(), of itself
 * exec		executes itself again after every 20 rounds, with the same pid
 * coroutine	two contexts on stacks of malloc() take turns
 * sleep	nanosleep, poll, futex and read must end with their own results, in time;
 *		EINTR without a handler is counted, but not an error
 *
 * Prints "ready PID"; answers every line with "rounds N wrong M interrupted I late L". A line
 * "quit", or the end of input, ends it; status 1 if anything was wrong.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "tests/targets/target.h"
#include "tests/torture/victim.h"

enum {
	THREADS_MAX = 1100,
	TURNS = 40,
	SLEEP_MS = 20,
	LATE_MS = 500,
	ROUNDS_TO_EXEC = 20,
	ROUNDS_TO_REST = 50,
	REST_US = 20000,
	STACK_BYTES = 256 << 10
};

extern char **environ;

static unsigned long rounds, wrong, interrupted, late;
static volatile bool stopping;
static char **arguments;

static void note_wrong(const char *what)
{
	__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	fprintf(stderr, "victim: %s: wrong\n", what);
}

/* Are the results with and without probes the same? */
static void compute(const char *what)
{
	uint64_t seed = __atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	struct mixed probed = mix_probed(seed, TURNS), plain = mix_plain(seed, TURNS);

	if (memcmp(&probed, &plain, sizeof(probed)) != 0)
		note_wrong(what);
}

static void compute_on(void)
{
	compute("compute");
}

/* ---- Signals ---------------------------------------------------------------- */

static sigjmp_buf out;
static volatile sig_atomic_t may_jump, signals_seen;

static void on_signal(int number)
{
	victim_handler(number);
	signals_seen++;
	if (may_jump && signals_seen % 4 == 0)
		siglongjmp(out, 1);
	victim_handler(-number);
}

static void signals_on(void)
{
	/* The jump leaves a computation half done; it then starts again. */
	if (sigsetjmp(out, 1) == 0) {
		may_jump = 1;
		compute("signals");
	}
	may_jump = 0;
	compute("behind a signal");
}

static void prepare_signals(int flags)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | flags};
	struct itimerval interval = {{0, 150}, {0, 150}};

	if (flags & SA_ONSTACK) {
		stack_t stack = {.ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES};

		sigaltstack(&stack, NULL);
	}
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &interval, NULL);
}

/* ---- Threads and children ------------------------------------------------------ */

static void *short_thread(void *data)
{
	victim_thread((uintptr_t)data);
	compute("a new thread");
	return NULL;
}

static void churn_on(void)
{
	pthread_t threads[4];
	int count = 0;

	for (; count < 4; count++)
		if (pthread_create(&threads[count], NULL, short_thread, NULL) != 0)
			break;
	compute("churn");
	while (count)
		pthread_join(threads[--count], NULL);
}

static void expect_good(pid_t pid, const char *what)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR) {
			note_wrong("waitpid");
			return;
		}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "victim: a child ended with %#x\n", status);
		note_wrong(what);
	}
}

static void fork_on(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		unsigned long before = wrong;

		for (int i = 0; i < 20; i++)
			compute("a child");
		_exit(wrong != before);
	}
	compute("fork");
	expect_good(pid, "fork");
}

static void spawn_on(void)
{
	char self[] = "/proc/self/exe", mode[] = "once";
	char *argv[] = {self, mode, NULL};
	pid_t pid = vfork();

	if (pid == 0) {
		execv(self, argv);
		_exit(127);
	}
	compute("vfork");
	expect_good(pid, "vfork");
	if (posix_spawn(&pid, self, NULL, NULL, argv, environ) != 0)
		note_wrong("posix_spawn");
	else
		expect_good(pid, "posix_spawn");
}

static void exec_on(void)
{
	char text[3][24];

	compute("exec");
	if (rounds % ROUNDS_TO_EXEC || stopping)
		return;
	/* The environment carries the counts over. */
	snprintf(text[0], sizeof(text[0]), "%lu", rounds);
	snprintf(text[1], sizeof(text[1]), "%lu", wrong);
	setenv("VICTIM_ROUNDS", text[0], 1);
	setenv("VICTIM_WRONG", text[1], 1);
	execv("/proc/self/exe", arguments);
	note_wrong("exec");
}

/* ---- Coroutines ------------------------------------------------------------------ */

static ucontext_t main_context, contexts[2];

static void coroutine(int own)
{
	for (;;) {
		compute("coroutine");
		swapcontext(&contexts[own], rounds % 5 ? &contexts[!own] : &main_context);
	}
}

static void coroutine_on(void)
{
	static bool made;

	for (int i = 0; i < 2 && !made; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = malloc(STACK_BYTES);
		contexts[i].uc_stack.ss_size = STACK_BYTES;
		makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
	}
	made = true;
	swapcontext(&main_context, &contexts[rounds % 2]);
}

/* ---- System calls ------------------------------------------------------------------ */

static void judge(const char *what, bool good, uint64_t begin)
{
	int error = errno;
	uint64_t ms = (target_now_ns() - begin) / 1000000;

	if (!good && error == EINTR)
		__atomic_add_fetch(&interrupted, 1, __ATOMIC_RELAXED);
	else if (!good || ms < SLEEP_MS)
		note_wrong(what);
	else if (ms >= SLEEP_MS + LATE_MS)
		__atomic_add_fetch(&late, 1, __ATOMIC_RELAXED);
}

static void sleep_on(void)
{
	struct timespec time = {0, SLEEP_MS * 1000000};
	struct pollfd never = {.fd = -1};
	uint32_t word = 0;
	uint64_t begin = target_now_ns();
	int ends[2];
	char byte;

	judge("nanosleep", syscall(SYS_nanosleep, &time, NULL) == 0, begin);
	begin = target_now_ns();
	judge("poll", poll(&never, 1, SLEEP_MS) == 0, begin);
	begin = target_now_ns();
	judge("futex",
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0) == -1 &&
			errno == ETIMEDOUT,
		begin);
	compute("sleep");
	/* A read is restarted even if a controller dies: its result is never EINTR. */
	if (pipe(ends) != 0)
		return;
	begin = target_now_ns();
	if (fork() == 0) {
		usleep(SLEEP_MS * 1000);
		_exit(write(ends[1], "x", 1) != 1);
	}
	if (read(ends[0], &byte, 1) != 1 || byte != 'x')
		note_wrong("read");
	close(ends[0]);
	close(ends[1]);
	while (wait(NULL) < 0 && errno == EINTR)
		;
}

/* ---- The program -------------------------------------------------------------------- */

/* clang-format off */
static const struct mode {
	const char *name;
	void (*on)(void);
	bool signals, altstack;
} modes[] = {
	{"compute", compute_on, false, false},
	{"signals", signals_on, true, false},
	{"altstack", signals_on, true, true},
	{"churn", churn_on, false, false},
	{"fork", fork_on, false, false},
	{"spawn", spawn_on, false, false},
	{"exec", exec_on, false, false},
	{"coroutine", coroutine_on, false, false},
	{"sleep", sleep_on, false, false},
};
/* clang-format on */

/* Rests now and then, so that all victims together leave processors to others. */
static void *thread_on(void *data)
{
	const struct mode *mode = data;

	for (unsigned long i = 1; !stopping; i++) {
		mode->on();
		if (i % ROUNDS_TO_REST == 0)
			usleep(REST_US);
	}
	return NULL;
}

/* Answers a line, if there is one; false at the end. */
static bool answer(int wait_ms)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[64];

	if (poll(&input, 1, wait_ms) <= 0)
		return true;
	if (!target_read_line(line, sizeof(line)) || strcmp(line, "quit") == 0)
		return false;
	printf("rounds %lu wrong %lu interrupted %lu late %lu\n", rounds, wrong, interrupted, late);
	fflush(stdout);
	return true;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "compute";
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	const struct mode *mode = NULL;
	pthread_t ids[THREADS_MAX];

	if (strcmp(name, "once") == 0) {
		for (int i = 0; i < 20; i++)
			compute("a new program");
		return wrong != 0;
	}
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, name) == 0)
			mode = &modes[i];
	if (!mode || threads < 1 || threads > THREADS_MAX)
		return 2;
	arguments = argv;
	target_allow_tracing();
	if (getenv("VICTIM_ROUNDS")) {
		rounds = strtoul(getenv("VICTIM_ROUNDS"), NULL, 10);
		wrong = strtoul(getenv("VICTIM_WRONG"), NULL, 10);
	} else {
		printf("ready %d\n", (int)getpid());
		fflush(stdout);
	}
	if (mode->signals)
		prepare_signals(mode->altstack ? SA_ONSTACK : 0);
	for (int i = 1; i < threads; i++)
		if (pthread_create(&ids[i], NULL, thread_on, (void *)mode) != 0)
			threads = i;
	/* With one thread: it computes between two looks at the input. */
	while (answer(threads > 1 && !mode->signals ? 50 : 0))
		if (threads == 1 || mode->signals)
			for (int i = 0; i < (strcmp(mode->name, "sleep") ? 10 : 1); i++)
				mode->on();
	stopping = true;
	for (int i = 1; i < threads; i++)
		pthread_join(ids[i], NULL);
	return wrong ? 1 : 0;
}
