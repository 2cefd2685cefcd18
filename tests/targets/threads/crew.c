/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -pthread */
/*
 * Threads and processes in unusual arrangements. All of them hit crew:work(A, B), and compare
 * the result with what it should be.
 *
 *	crew array BYTES	on a coroutine's stack, an array in main's frame
 *	crew pool BYTES	on one in memory of mmap(2)
 *	crew alt BYTES	in a handler on an alternate stack, an array in main's frame
 *	crew child|sibling	also in another process that shares the memory
 *	crew leader		in a thread; the main one ends at "release"; there is a child
 *	crew vfork		in two threads; a third is in vfork(2) until "release"
 *	crew later		the same, but it goes there at "fork"
 *	crew spawn THREADS	in one; others start programs all the time
 *	crew shared LIBRARY text|data	in one; a library, writable, is mapped shared
 *
 * It answers "progress" with the number of hits so far, and "quit" with "wrong 0", or with what
 * is wrong.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "../target.h"

enum { BELOW = 65536, PATTERN = 0x5a, STACK = 1 << 18, AT_ONCE = 200 };

extern char **environ;

static _Atomic uint64_t progress, wrong;
static _Atomic bool over, released, forks, forked;
static ucontext_t main_context, coroutine;

__attribute__((noinline)) static uint64_t work(uint64_t a, uint64_t b)
{
	uint64_t x = a * 3 + b;

	STAP_PROBE2(crew, work, a, b);
	x ^= b * 0x9e3779b97f4a7c15;
	return x + (a << 7);
}

static void some_work(void)
{
	for (uint64_t i = 0; i < AT_ONCE; i++) {
		uint64_t n = atomic_fetch_add(&progress, 1);

		if (work(n, i) != ((n * 3 + i) ^ (i * 0x9e3779b97f4a7c15)) + (n << 7))
			atomic_fetch_add(&wrong, 1);
	}
}

static void say_ready(void)
{
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
}

/* Works until it is told to end. */
static void serve(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[64];

	while (!atomic_load(&over)) {
		some_work();
		if (poll(&input, 1, 0) != 1)
			continue;
		if (!target_read_line(line, sizeof(line)) || strcmp(line, "quit") == 0)
			atomic_store(&over, true);
		else if (strcmp(line, "release") == 0)
			atomic_store(&released, true);
		else if (strcmp(line, "fork") == 0)
			atomic_store(&forks, true);
		if (!atomic_load(&over)) {
			printf("progress %llu\n", (unsigned long long)atomic_load(&progress));
			fflush(stdout);
		}
	}
}

static void *work_on(void *data)
{
	while (!atomic_load(&over))
		some_work();
	return data;
}

static void run_on(char *stack, size_t size)
{
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = stack;
	coroutine.uc_stack.ss_size = size;
	coroutine.uc_link = &main_context;
	makecontext(&coroutine, serve, 0);
	swapcontext(&main_context, &coroutine);
}

static void check_below(const char *below)
{
	for (size_t i = 0; i < BELOW; i++)
		if (below[i] != PATTERN)
			atomic_fetch_add(&wrong, 1);
}

static void on_stack(size_t size, bool is_array)
{
	char *memory = is_array ? __builtin_alloca(BELOW + size)
				: mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(memory, PATTERN, BELOW);
	run_on(memory + BELOW, size);
	check_below(memory);
}

static void on_signal(int number)
{
	(void)number;
	serve();
}

static void on_alternate(size_t size)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	char *memory = __builtin_alloca(BELOW + size);
	stack_t stack = {.ss_sp = memory + BELOW, .ss_size = size};

	memset(memory, PATTERN, BELOW);
	if (sigaltstack(&stack, NULL) != 0)
		exit(2);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	check_below(memory);
}

static int other_process(void *data)
{
	(void)data;
	while (!atomic_load(&over))
		some_work();
	_exit(0);
}

static void beside(int flags)
{
	char *stack = malloc(STACK);
	pid_t pid = clone(other_process, stack + STACK, CLONE_VM | flags, NULL);

	if (pid < 0)
		exit(2);
	serve();
	if (!(flags & CLONE_PARENT))
		waitpid(pid, NULL, 0);
}

static void *lead(void *data)
{
	serve();
	printf("wrong %llu\n", (unsigned long long)atomic_load(&wrong));
	fflush(stdout);
	_exit(data != NULL);
}

/* It was there before all that is done to its parent, and hits nothing. */
static void start_child(void)
{
	pid_t parent = getpid();

	if (fork() == 0) {
		while (getppid() == parent)
			usleep(1000);
		_exit(0);
	}
}

static void end_leader(void)
{
	pthread_t thread;

	start_child();
	pthread_create(&thread, NULL, lead, NULL);
	while (!atomic_load(&released))
		usleep(1000);
	pthread_exit(NULL);
}

static void *fork_away(void *data)
{
	pid_t pid = vfork();

	/* In our memory, while the thread waits for its end. */
	if (pid == 0) {
		atomic_store(&forked, true);
		while (!atomic_load(&released) && !atomic_load(&over))
			usleep(1000);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return data;
}

static void *fork_later(void *data)
{
	while (!atomic_load(&forks) && !atomic_load(&over))
		usleep(1000);
	return atomic_load(&forks) ? fork_away(data) : data;
}

static void *spawn_on(void *data)
{
	char *const argv[] = {"true", NULL};
	int status;
	pid_t pid;

	while (!atomic_load(&over))
		if (posix_spawnp(&pid, "true", NULL, NULL, argv, environ) != 0 ||
			waitpid(pid, &status, 0) != pid || status != 0)
			atomic_fetch_add(&wrong, 1);
	return data;
}

static void with_threads(void *(*first)(void *), int count)
{
	pthread_t threads[16], worker;

	for (int i = 0; i < count && i < 16; i++)
		pthread_create(&threads[i], NULL, first, NULL);
	pthread_create(&worker, NULL, work_on, NULL);
	if (first == fork_away) {
		while (!atomic_load(&forked))
			usleep(1000);
		say_ready();
	}
	serve();
	for (int i = 0; i < count && i < 16; i++)
		pthread_join(threads[i], NULL);
	pthread_join(worker, NULL);
}

/* Maps the code or the data of a library again, so that writes change the file. */
static void map_shared(const char *library, bool is_text)
{
	int fd = open(library, O_RDWR);
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	if (!dlopen(library, RTLD_NOW) || fd < 0 || !maps)
		exit(2);
	rewind(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long start, end, offset;
		char rights[8];

		if (!strstr(line, library) ||
			sscanf(line, "%lx-%lx %7s %lx", &start, &end, rights, &offset) != 4 ||
			rights[is_text ? 2 : 1] == '-')
			continue;
		if (mmap((void *)start, end - start, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_SHARED | MAP_FIXED, fd, (off_t)offset) == MAP_FAILED)
			exit(2);
	}
	fclose(maps);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int number = argc > 2 ? atoi(argv[2]) : 1;

	target_allow_tracing();
	if (strcmp(mode, "shared") == 0)
		map_shared(argv[2], argv[3][0] == 't');
	if (strcmp(mode, "vfork") != 0)
		say_ready();
	if (strcmp(mode, "array") == 0 || strcmp(mode, "pool") == 0)
		on_stack((size_t)number, mode[0] == 'a');
	else if (strcmp(mode, "alt") == 0)
		on_alternate((size_t)number);
	else if (strcmp(mode, "child") == 0)
		beside(SIGCHLD);
	else if (strcmp(mode, "sibling") == 0)
		beside(CLONE_PARENT);
	else if (strcmp(mode, "leader") == 0)
		end_leader();
	else if (strcmp(mode, "vfork") == 0)
		with_threads(fork_away, 1);
	else if (strcmp(mode, "later") == 0)
		with_threads(fork_later, 1);
	else if (strcmp(mode, "spawn") == 0)
		with_threads(spawn_on, number);
	else if (strcmp(mode, "shared") == 0)
		serve();
	else
		return 2;
	printf("wrong %llu\n", (unsigned long long)atomic_load(&wrong));
	fflush(stdout);
	return atomic_load(&wrong) != 0;
}
