/* SPDX-License-Identifier: MIT */
/*
 * heirs self|other [LOG]: traces itself or a child with <trace.h>, whose forked children open names
 * by themselves. Each event's data has the process and the name. Prints each name with the number
 * of its events, and "wrong" if an event has another process or another name than its data.
 */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <trace.h>
#include <unistd.h>

enum { FORKS = 60, NAMES_MAX = 20 };

struct data {
	pid_t pid;
	char name[28];
};

static void must(int err, const char *what)
{
	if (!err)
		return;
	printf("failed: %s: %s\n", what, strerror(err));
	exit(1);
}
#define OK(call) must(call, #call)

/* ---- What is traced -------------------------------------------------------------------------- */

static void hit(const char *name)
{
	struct data data = {.pid = getpid()};
	trace_event_id_t id;

	strncpy(data.name, name, sizeof(data.name) - 1);
	OK(posix_trace_eventid_open(name, &id));
	posix_trace_event(id, &data, sizeof(data));
}

static void ends_at_once(void)
{
	hit("at once");
}

static void is_killed(void)
{
	hit("killed");
	raise(SIGKILL);
}

static void grandchild(void)
{
	hit("grandchild");
	hit("of both");
}

static void in_child(void (*run)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		run();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* Two children have one name at one place, and others with one number. */
static void first(void)
{
	hit("first");
	hit("of both");
	hit("filtered");
}

static void second(void)
{
	hit("second");
	hit("of both");
	in_child(grandchild);
	hit("after the grandchild");
}

static int orphaned[2];

/* Its parent has ended when it opens a name. */
static void orphan(void)
{
	pid_t parent = getpid();

	if (fork() != 0)
		return;
	while (getppid() == parent)
		sched_yield();
	hit("orphan");
	_exit(write(orphaned[1], "", 1) != 1);
}

static void all(void)
{
	pid_t pids[2];
	char byte;

	hit("parent");
	in_child(first);
	in_child(second);
	in_child(ends_at_once);
	in_child(is_killed);
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			hit(i ? "beside 1" : "beside 0");
			_exit(0);
		}
	}
	for (int i = 0; i < 2; i++)
		waitpid(pids[i], NULL, 0);
	for (int i = 0; i < FORKS; i++)
		in_child(ends_at_once);
	if (pipe(orphaned))
		exit(1);
	in_child(orphan);
	if (read(orphaned[0], &byte, 1) != 1)
		exit(1);
	hit("of both");
	hit("parent, later");
}

/* ---- Reading --------------------------------------------------------------------------------- */

static struct {
	char name[TRACE_EVENT_NAME_MAX + 1];
	int count;
} seen[NAMES_MAX];

static void note(const char *name)
{
	int i = 0;

	while (seen[i].count && strcmp(seen[i].name, name))
		i++;
	strcpy(seen[i].name, name);
	seen[i].count++;
}

static void show(trace_id_t trid, int is_log)
{
	struct posix_trace_event_info info;
	char name[TRACE_EVENT_NAME_MAX + 1];
	struct data data;
	size_t length;
	int none;

	for (;;) {
		if (is_log)
			OK(posix_trace_getnext_event(
				trid, &info, &data, sizeof(data), &length, &none));
		else
			OK(posix_trace_trygetnext_event(
				trid, &info, &data, sizeof(data), &length, &none));
		if (none)
			break;
		OK(posix_trace_eventid_get_name(trid, info.posix_event_id, name));
		if (info.posix_event_id <= POSIX_TRACE_FLUSH_STOP)
			continue;
		if (length != sizeof(data) || data.pid != info.posix_pid || strcmp(data.name, name))
			printf("wrong: %s of %d: %s of %d\n", name, (int)info.posix_pid, data.name,
				(int)data.pid);
		note(name);
	}
	for (int i = 0; i < NAMES_MAX && seen[i].count; i++)
		printf("%s %d\n", seen[i].name, seen[i].count);
}

/* ---- All of it ------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
	int is_self = argc > 1 && !strcmp(argv[1], "self"), orders[2], answers[2];
	int log = -1, end = 0;
	struct posix_trace_status_info status;
	trace_event_set_t without;
	trace_event_id_t id;
	trace_attr_t attr;
	trace_id_t trid;
	pid_t child = 0;
	char byte = 0;

	if (argc < 2 || pipe(orders) || pipe(answers))
		return 2;
	child = is_self ? 0 : fork();
	if (!is_self && child == 0) {
		close(orders[1]);
		if (read(orders[0], &byte, 1) != 1)
			return 1;
		all();
		/* It goes on until the stream has ended. */
		return write(answers[1], &byte, 1) != 1 || read(orders[0], &byte, 1) != 0;
	}
	OK(posix_trace_attr_init(&attr));
	OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
	if (argc > 2) {
		log = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
		OK(posix_trace_create_withlog(child, &attr, log, &trid));
	} else {
		OK(posix_trace_create(child, &attr, &trid));
	}
	OK(posix_trace_trid_eventid_open(trid, "filtered", &id));
	OK(posix_trace_eventset_empty(&without));
	OK(posix_trace_eventset_add(id, &without));
	OK(posix_trace_set_filter(trid, &without, POSIX_TRACE_SET_EVENTSET));
	OK(posix_trace_start(trid));
	if (is_self)
		all();
	else if (write(orders[1], &byte, 1) != 1 || read(answers[0], &byte, 1) != 1)
		return 1;
	OK(posix_trace_stop(trid));
	OK(posix_trace_get_status(trid, &status));
	if (status.posix_stream_overrun_status != POSIX_TRACE_NO_OVERRUN)
		printf("overrun\n");
	if (log < 0)
		show(trid, 0);
	OK(posix_trace_shutdown(trid));
	if (log >= 0) {
		OK(posix_trace_open(log, &trid));
		show(trid, 1);
		OK(posix_trace_close(trid));
	}
	close(orders[1]);
	return !is_self && (waitpid(child, &end, 0) != child || end);
}
