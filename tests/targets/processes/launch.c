/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -pthread */
/*
 * Starts another program in one of many ways, and ends with its exit status. Passes
 * launch:go(ARGC) first.
 *
 *	launch WAY PROGRAM ARGS…
 *
 * WAY is
 *	exec	executes the program itself
 *	wait	the same, but first prints that it is ready, and waits for a line
 *	raw	the same, without libc's execve()
 *	thread	like exec, but from a second thread, while others are working
 *	late	first fails to execute /nonexistent 100 times
 *	other	first fails to execute /nonexistent, then like raw
 *	fork, vfork, spawn	a child executes the program
 *	path	a child searches PATH for it
 */
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <string.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../target.h"

extern char **environ;

static void become(char **argv)
{
	execv(argv[0], argv);
	perror("launch");
	_exit(127);
}

static void *become_in_thread(void *data)
{
	become(data);
	return NULL;
}

static void *compute(void *data)
{
	for (;;)
		__asm__ volatile("" ::"r"(data));
	return NULL;
}

static void threads(char **argv)
{
	pthread_t thread;

	for (int i = 0; i < 2; i++)
		pthread_create(&thread, NULL, compute, NULL);
	pthread_create(&thread, NULL, become_in_thread, argv);
	for (;;)
		pause();
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int start(const char *way, char **argv)
{
	pid_t pid = -1;

	if (strcmp(way, "spawn") == 0) {
		if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0)
			return 127;
		return wait_for(pid);
	}
	if (strcmp(way, "vfork") == 0) {
		pid = vfork();
		if (pid == 0) {
			execv(argv[0], argv);
			_exit(127);
		}
		return wait_for(pid);
	}
	pid = fork();
	if (pid == 0 && strcmp(way, "path") == 0) {
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid == 0)
		become(argv);
	return wait_for(pid);
}

int main(int argc, char **argv)
{
	char *const nothing[] = {"nothing", NULL};

	if (argc < 3)
		return 2;
	target_allow_tracing();
	if (strcmp(argv[1], "wait") == 0 || strcmp(argv[1], "raw") == 0)
		target_wait();
	STAP_PROBE1(launch, go, argc);
	for (int i = 0; i < 100 && strcmp(argv[1], "late") == 0; i++)
		execv("/nonexistent", nothing);
	if (strcmp(argv[1], "other") == 0)
		execv("/nonexistent", nothing);
	if (strcmp(argv[1], "thread") == 0)
		threads(argv + 2);
	if (strcmp(argv[1], "raw") == 0 || strcmp(argv[1], "other") == 0)
		syscall(SYS_execve, argv[2], argv + 2, environ);
	if (strcmp(argv[1], "exec") == 0 || strcmp(argv[1], "wait") == 0 ||
		strcmp(argv[1], "late") == 0)
		become(argv + 2);
	return start(argv[1], argv + 2);
}
