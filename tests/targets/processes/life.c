/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE */
/*
 * A process that takes one command per line, and answers with one line:
 *
 *	hit N	passes life:hit(I, PID) N times		"hits N"
 *	crash	passes it three times, and crashes	(nothing)
 *	block	blocks all signals			"blocked"
 *	fork	a child takes the following commands	"child PID"
 *	back	the child ends; the parent continues	"status STATUS"
 *	daemon	a child of a child that has ended does	"daemon PID"; after back "alone"
 *	leave	a child does, and the process ends	"child PID"
 *	open LIB	opens a library and calls it	"opened"
 *	close	closes it, and fills its place		"closed BYTES"
 *	check	checks what is there now		"intact", or "altered"
 */
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/wait.h>

#include "../target.h"

enum { FILL = 0x90 };

static void *library;
static uint8_t *place;
static size_t place_size;

__attribute__((noinline)) static void hit(int hits)
{
	for (int i = 0; i < hits; i++)
		STAP_PROBE2(life, hit, i, getpid());
}

static void open_library(const char *path)
{
	int (*call)(int) = NULL;

	library = dlopen(path, RTLD_NOW);
	if (library)
		*(void **)&call = dlsym(library, "ctor_plugin_call");
	puts(call && call(6) == 7 ? "opened" : "not opened");
}

/* The lowest and highest mapping of a file. */
static void find_place(const char *name)
{
	unsigned long start, end, low = 0, high = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, name) || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		low = low ? low : start;
		high = end;
	}
	if (maps)
		fclose(maps);
	place = (uint8_t *)low;
	place_size = high - low;
}

static void close_library(void)
{
	find_place("libctor_plugin");
	dlclose(library);
	if (place_size && mmap(place, place_size, PROT_READ | PROT_WRITE | PROT_EXEC,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place)
		memset(place, FILL, place_size);
	else
		place_size = 0;
	printf("closed %zu\n", place_size);
}

static void check_place(void)
{
	for (size_t i = 0; i < place_size; i++) {
		if (place[i] == FILL)
			continue;
		puts("altered");
		return;
	}
	puts("intact");
}

static void block(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	puts("blocked");
}

/* The parent waits for its child, which takes the lines meanwhile. */
static void split(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		printf("child %d\n", (int)getpid());
		return;
	}
	waitpid(pid, &status, 0);
	printf("status %d\n", status);
}

/* Waits until its parent has ended. */
static void stay_alone(pid_t parent)
{
	while (getppid() == parent)
		usleep(1000);
}

/* The process waits for the end of a child's child, whose parent ends at once. */
static void become_daemon(void)
{
	int alive[2];
	pid_t pid;
	char byte;

	if (pipe(alive) != 0)
		exit(1);
	pid = fork();
	if (pid == 0) {
		pid = getpid();
		if (fork() != 0)
			_exit(0);
		stay_alone(pid);
		printf("daemon %d\n", (int)getpid());
		return;
	}
	waitpid(pid, NULL, 0);
	close(alive[1]);
	if (read(alive[0], &byte, 1) == 0)
		puts("alone");
	close(alive[0]);
}

static void leave(void)
{
	pid_t parent = getpid();

	if (fork() != 0)
		_exit(0);
	stay_alone(parent);
	printf("child %d\n", (int)getpid());
}

int main(void)
{
	char line[512], path[500];
	int hits;

	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		if (sscanf(line, "hit %d", &hits) == 1) {
			hit(hits);
			printf("hits %d\n", hits);
		} else if (strcmp(line, "crash") == 0) {
			hit(3);
			*(volatile int *)8 = 1;
		} else if (strcmp(line, "block") == 0) {
			block();
		} else if (strcmp(line, "fork") == 0) {
			split();
		} else if (strcmp(line, "daemon") == 0) {
			become_daemon();
		} else if (strcmp(line, "leave") == 0) {
			leave();
		} else if (strcmp(line, "back") == 0) {
			return 0;
		} else if (sscanf(line, "open %499[^\n]", path) == 1) {
			open_library(path);
		} else if (strcmp(line, "close") == 0) {
			close_library();
		} else if (strcmp(line, "check") == 0) {
			check_place();
		}
		fflush(stdout);
	}
	return 0;
}
