/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -pthread */
/*
 * Starts many short programs, several at once, and reports how they ended.
 *
 *	brood WAY THREADS ROUNDS PROGRAM ARGS…
 *
 * Each thread starts PROGRAM ROUNDS times, one after another. WAY is
 *	fork, vfork, spawn	how to start it; each must end with status 0
 *	mixed			all three in turn
 *	kill			spawn, and SIGKILL within 20 ms
 *	open			each thread opens and closes a library (PROGRAM), while
 *				one more thread vforks ARGS…
 * Prints "N ended, N wrong". If a child's end is not reported within a minute, that child counts as
 * wrong, and no others are waited for.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

#include "../target.h"

enum { PATIENCE_S = 60, KILL_US = 20000, THREADS_MAX = 64 };

extern char **environ;
static char **program;
static const char *way;
static int rounds;
static atomic_int ended, wrong;

static pid_t start(int number)
{
	static const char *const ways[] = {"fork", "vfork", "spawn"};
	const char *how = strcmp(way, "mixed") == 0 ? ways[number % 3] : way;
	pid_t pid;

	if (strcmp(how, "spawn") == 0 || strcmp(how, "kill") == 0)
		return posix_spawn(&pid, program[0], NULL, NULL, program, environ) == 0 ? pid : -1;
	pid = strcmp(how, "fork") == 0 ? fork() : vfork();
	if (pid == 0) {
		execv(program[0], program);
		_exit(127);
	}
	return pid;
}

/* Waits for one child, which must have this status. */
static void wait_for(pid_t pid, int wanted)
{
	uint64_t end = target_now_ns() + PATIENCE_S * UINT64_C(1000000000);
	int status = -1;
	pid_t got;

	do {
		got = waitpid(pid, &status, WNOHANG);
		if (got == 0)
			usleep(200);
	} while (got == 0 && target_now_ns() < end);
	if (got == 0) {
		printf("the end of %d is not told\n", (int)pid);
		fflush(stdout);
		_exit(1);
	}
	ended += got == pid;
	wrong += got != pid || (wanted >= 0 && status != wanted);
}

static void *start_many(void *data)
{
	unsigned int seed = (unsigned int)(intptr_t)data + 1;

	for (int i = 0; i < rounds; i++) {
		pid_t pid = start(i);

		if (pid < 0) {
			wrong++;
			continue;
		}
		if (strcmp(way, "kill") == 0) {
			usleep((unsigned int)rand_r(&seed) % KILL_US);
			kill(pid, SIGKILL);
		}
		/* A child that was faster than the signal counts, too. */
		wait_for(pid, strcmp(way, "kill") == 0 ? -1 : 0);
	}
	return NULL;
}

static void *open_many(void *data)
{
	(void)data;
	for (int i = 0; i < rounds; i++) {
		void *library = dlopen(program[0], RTLD_NOW);

		if (!library) {
			wrong++;
			continue;
		}
		dlclose(library);
		ended++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];
	int count;

	if (argc < 5)
		return 2;
	way = argv[1];
	count = atoi(argv[2]);
	rounds = atoi(argv[3]);
	program = argv + 4;
	if (count < 1 || count > THREADS_MAX)
		return 2;
	target_allow_tracing();
	if (strcmp(way, "open") == 0) {
		for (int i = 0; i < count; i++)
			pthread_create(&threads[i], NULL, open_many, NULL);
		for (int i = 0; i < rounds; i++) {
			pid_t pid = vfork();

			if (pid == 0) {
				execv(argv[5], argv + 5);
				_exit(127);
			}
			wait_for(pid, 0);
		}
	} else {
		for (int i = 0; i < count; i++)
			pthread_create(&threads[i], NULL, start_many, (void *)(intptr_t)i);
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("%d ended, %d wrong\n", ended, wrong);
	return wrong != 0;
}
