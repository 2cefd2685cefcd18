/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE */
/*
 * A program without probes that imports no function which starts or loads anything. It does so all
 * the same, by system calls of its own.
 *
 *	leaf exit STATUS	ends
 *	leaf kill SIGNAL	sends itself a signal
 *	leaf calls		prints how often it stood still during a hundred system calls
 *	leaf tracer MS		prints who traces it: at its start, and so many ms later
 *	leaf map FILE MS	maps the code of a file, and ends so many ms later
 *	leaf exec PROGRAM ARGS…	becomes it
 *	leaf fork PROGRAM ARGS…	starts it, waits for it, and has its status
 *	leaf thread		starts a thread, which ends with the process; prints "thread"
 *	leaf handlers MS	handles a timer's signals so long: 0, or 1 if there were none
 *	leaf waits		1 if a wait has ended before its time limit
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "waits.h"

enum { PAGE = 4096, CALLS = 100 };

/* CODE: where every library that is built here has code. */
#ifdef __x86_64__
enum { CODE = PAGE };

static long call(long number, long a, long b, long c)
{
	register long d __asm__("r10") = 0, e __asm__("r8") = 0;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(d), "r"(e)
			 : "rcx", "r11", "memory");
	return result;
}
#else
enum { CODE = 0 };

static long call(long number, long a, long b, long c)
{
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c, x3 __asm__("x3") = 0, x4 __asm__("x4") = 0;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory");
	return x0;
}
#endif

static int print_tracer(void)
{
	char line[128];
	FILE *status = fopen("/proc/self/status", "r");
	int pid = -1;

	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "TracerPid: %d", &pid);
	if (status)
		fclose(status);
	return printf("%d ", pid) > 0;
}

static int print_stops(void)
{
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < CALLS; i++)
		getppid();
	getrusage(RUSAGE_SELF, &after);
	return printf("%ld\n", after.ru_nvcsw - before.ru_nvcsw) < 0;
}

static int map(const char *path, int ms)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, CODE);

	usleep((useconds_t)ms * 1000);
	return at == MAP_FAILED;
}

static int start(char **argv)
{
	long pid = call(SYS_clone, SIGCHLD, 0, 0);
	int status = -1;

	if (pid == 0) {
		call(SYS_execve, (long)argv[0], (long)argv, (long)environ);
		_exit(127);
	}
	return waitpid((pid_t)pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									   : 1;
}

/* The thread has no stack of its own to return on: it only ends. */
static int start_thread(void)
{
	static char stack[PAGE] __attribute__((aligned(16)));
	long flags =
		CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
#ifdef __x86_64__
	register long d __asm__("r10") = 0, e __asm__("r8") = 0;
	long result;

	__asm__ volatile("syscall\n"
			 "test %%rax,%%rax\n"
			 "jnz 1f\n"
			 "mov %[exit],%%eax\n"
			 "syscall\n"
			 "1:\n"
			 : "=a"(result)
			 : "a"(SYS_clone), "D"(flags), "S"(stack + sizeof(stack)), "d"(0), "r"(d),
			 "r"(e), [exit] "i"(SYS_exit)
			 : "rcx", "r11", "memory");
#else
	register long x8 __asm__("x8") = SYS_clone, result __asm__("x0") = flags;
	register char *x1 __asm__("x1") = stack + sizeof(stack);
	register long x2 __asm__("x2") = 0, x3 __asm__("x3") = 0, x4 __asm__("x4") = 0;

	__asm__ volatile("svc #0\n"
			 "cbnz x0, 1f\n"
			 "mov x8, %[exit]\n"
			 "svc #0\n"
			 "1:\n"
			 : "+r"(result), "+r"(x8)
			 : "r"(x1), "r"(x2), "r"(x3), "r"(x4), [exit] "i"(SYS_exit)
			 : "memory");
#endif
	return result < 0 || puts("thread") < 0;
}

static volatile sig_atomic_t handled;

static void handle(int signal)
{
	(void)signal;
	handled++;
}

static int handlers(int ms)
{
	struct itimerval often = {{.tv_usec = 300}, {.tv_usec = 300}};
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < ms * 3; i++)
		usleep(300);
	return handled == 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int number = argc > 2 ? atoi(argv[argc - 1]) : 0;

	if (strcmp(mode, "kill") == 0)
		return kill(getpid(), number);
	if (strcmp(mode, "calls") == 0)
		return print_stops();
	if (strcmp(mode, "map") == 0)
		return map(argv[2], number);
	if (strcmp(mode, "exec") == 0)
		return (int)call(SYS_execve, (long)argv[2], (long)&argv[2], (long)environ);
	if (strcmp(mode, "fork") == 0)
		return start(&argv[2]);
	if (strcmp(mode, "thread") == 0)
		return start_thread();
	if (strcmp(mode, "handlers") == 0)
		return handlers(number);
	if (strcmp(mode, "waits") == 0)
		return !waits();
	if (strcmp(mode, "tracer") == 0) {
		print_tracer();
		usleep((useconds_t)number * 1000);
		return !print_tracer() || puts("") < 0;
	}
	return number;
}
