/* SPDX-License-Identifier: MIT */
/*
 * Begins and ends in forked processes, step by step, and the truth about them.
 *
 *	forked WAY [CHILDREN [JOBS]]
 *
 * In each process job__start(i, address) begins a job and job__done(i, address) ends it; i and
 * the address are the same in all of them.
 *
 *	turns	CHILDREN work on JOBS jobs: each begins its job, then each ends it, and so on
 *	threads	the same, each in a thread that the child has started
 *	raw	the same, in children of clone(2), of which libc does not know
 *	nested	the same, and the parent has a job around all that, as have the children
 *	handed	the parent begins each of JOBS jobs, forks CHILDREN that end it, and ends it
 *	left	CHILDREN, one after the other, begin and end JOBS jobs, and begin one more
 *	slowly	the same, and after each of them nothing happens for a millisecond
 *
 * It ends with a line of JSON: how many jobs were begun and ended by the same process, and their
 * times within the probes (`inner`, of the longest one: `inner_max`) and around them (`outer` …).
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../target.h"

enum { CHILDREN_MAX = 64 };

static struct truth {
	uint64_t count, inner, outer, inner_max, outer_max;
} * truth;	   /* of all processes: one works at a time */
static char place; /* a pointer that all of them have */
static int to_child[CHILDREN_MAX][2], to_parent[2];

struct job {
	uint64_t before, begun;
};

static void fail(const char *what)
{
	perror(what);
	_exit(1);
}

static struct job start(uint64_t i)
{
	struct job job = {.before = target_now_ns()};

	STAP_PROBE2(forked, job__start, i, &place);
	target_room_behind();
	job.begun = target_now_ns();
	return job;
}

static void done(uint64_t i, struct job job)
{
	uint64_t ending = target_now_ns(), inner, outer;

	STAP_PROBE2(forked, job__done, i, &place);
	target_room_behind();
	truth->count++;
	inner = ending - job.begun;
	outer = target_now_ns() - job.before;
	truth->inner += inner;
	truth->outer += outer;
	truth->inner_max = inner > truth->inner_max ? inner : truth->inner_max;
	truth->outer_max = outer > truth->outer_max ? outer : truth->outer_max;
}

/* ---- Taking turns ----------------------------------------------------------------------- */

static struct {
	int number, jobs;
	bool nested;
} child;

static void await_turn(void)
{
	char byte;

	if (read(to_child[child.number][0], &byte, 1) != 1)
		fail("read");
}

static void end_turn(void)
{
	if (write(to_parent[1], "", 1) != 1)
		fail("write");
}

static void *work(void *data)
{
	struct job around = {0};

	for (int i = 0; i < child.jobs; i++) {
		struct job job;

		await_turn();
		if (child.nested && i == 0)
			around = start(child.jobs);
		job = start(i);
		end_turn();
		await_turn();
		done(i, job);
		if (child.nested && i == child.jobs - 1)
			done(child.jobs, around);
		end_turn();
	}
	return data;
}

static void run_child(const char *way)
{
	pthread_t thread;

	if (strcmp(way, "threads") != 0)
		work(NULL);
	else if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
		_exit(1);
	_exit(0);
}

static void take_turns(const char *way, int children, int jobs)
{
	struct job around = {0};
	char byte;

	child.jobs = jobs;
	child.nested = strcmp(way, "nested") == 0;
	if (child.nested)
		around = start(jobs);
	for (int i = 0; i < children; i++) {
		long pid;

		child.number = i;
		if (pipe(to_child[i]))
			fail("pipe");
		pid = strcmp(way, "raw") == 0 ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
		if (pid == 0)
			run_child(way);
	}
	for (int step = 0; step < 2 * jobs; step++)
		for (int i = 0; i < children; i++)
			if (write(to_child[i][1], "", 1) != 1 || read(to_parent[0], &byte, 1) != 1)
				fail("a child");
	if (child.nested)
		done(jobs, around);
}

/* ---- One after the other ---------------------------------------------------------------- */

static void wait_child(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status)
		fail("waitpid");
}

static void hand_over(int children, int jobs)
{
	for (int i = 0; i < jobs; i++) {
		struct job job = start(i);

		for (int k = 0; k < children; k++) {
			pid_t pid = fork();

			if (pid == 0) {
				STAP_PROBE2(forked, job__done, i, &place);
				target_room_behind();
				_exit(0);
			}
			wait_child(pid);
		}
		done(i, job);
	}
}

static void leave_one(int children, int jobs, useconds_t apart_us)
{
	for (int k = 0; k < children; k++) {
		pid_t pid = fork();

		if (pid == 0) {
			for (int i = 0; i < jobs; i++)
				done(i, start(i));
			start(jobs);
			_exit(0);
		}
		wait_child(pid);
		if (apart_us)
			usleep(apart_us);
	}
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "turns";
	int children = argc > 2 ? atoi(argv[2]) : 3;
	int jobs = argc > 3 ? atoi(argv[3]) : 10;

	truth = mmap(
		NULL, sizeof(*truth), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (truth == MAP_FAILED || pipe(to_parent))
		fail("mmap or pipe");
	target_allow_tracing();
	target_wait();
	if (strcmp(way, "handed") == 0)
		hand_over(children, jobs);
	else if (strcmp(way, "left") == 0)
		leave_one(children, jobs, 0);
	else if (strcmp(way, "slowly") == 0)
		leave_one(children, jobs, 1000);
	else if (children <= CHILDREN_MAX)
		take_turns(way, children, jobs);
	while (wait(NULL) > 0)
		;
	printf("{\"jobs\":%ju,\"inner\":%ju,\"outer\":%ju,\"inner_max\":%ju,\"outer_max\":%ju}\n",
		(uintmax_t)truth->count, (uintmax_t)truth->inner, (uintmax_t)truth->outer,
		(uintmax_t)truth->inner_max, (uintmax_t)truth->outer_max);
	fflush(stdout);
	target_wait();
	return 0;
}
