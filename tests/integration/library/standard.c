/* SPDX-License-Identifier: MIT */
/*
 * A program written for <trace.h> of the standard, which knows nothing of this project. It traces a
 * child, and itself. It prints what it finds, and "failed: " if something is not as the standard
 * says.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <trace.h>
#include <unistd.h>

static int failures;

static void check(int line, const char *text, int got, int wanted)
{
	if (got == wanted)
		return;
	printf("failed: line %d: %s is %d (%s), not %d\n", line, text, got, strerror(got), wanted);
	failures++;
}
#define IS(call, wanted) check(__LINE__, #call, call, wanted)
#define OK(call) IS(call, 0)

/* ---- The child ------------------------------------------------------------------------------- */

static int orders[2], answers[2];
static pid_t child;

static void run_child(void)
{
	trace_event_id_t alpha, beta, later;
	char order;

	close(orders[1]);
	OK(posix_trace_eventid_open("alpha", &alpha));
	OK(posix_trace_eventid_open("beta", &beta));
	while (read(orders[0], &order, 1) == 1) {
		if (order == 'a')
			posix_trace_event(alpha, "a\0b", 3);
		if (order == 'b')
			posix_trace_event(beta, "0123456789", 10);
		if (order == 'u')
			posix_trace_event(POSIX_TRACE_UNNAMED_USEREVENT, "u", 1);
		if (order == 'l') {
			OK(posix_trace_eventid_open("db:later(1)", &later));
			posix_trace_event(later, "l", 1);
		}
		if (order == 'f' && fork() == 0) {
			posix_trace_event(alpha, "forked", 6);
			_exit(0);
		}
		if (order == 'f')
			wait(NULL);
		if (write(answers[1], &order, 1) != 1)
			break;
	}
	_exit(0);
}

static void start_child(void)
{
	if (pipe(orders) || pipe(answers))
		exit(2);
	fflush(stdout);
	child = fork();
	if (child == 0)
		run_child();
}

/* Orders, and waits until they are done. */
static void tell(const char *letters)
{
	char answer;

	for (; *letters; letters++)
		if (write(orders[1], letters, 1) != 1 || read(answers[0], &answer, 1) != 1)
			exit(3);
}

static void end_child(void)
{
	close(orders[1]);
	waitpid(child, NULL, 0);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Prints the events that are there, on one line. `all`: until no more will come. */
static void show(trace_id_t trid, pid_t pid, int all)
{
	struct posix_trace_event_info info;
	char data[2000], name[TRACE_EVENT_NAME_MAX + 1];
	struct timespec last = {0, 0};
	size_t length;
	int none, flushes = 0;

	for (;;) {
		if (all)
			OK(posix_trace_getnext_event(
				trid, &info, data, sizeof(data), &length, &none));
		else
			OK(posix_trace_trygetnext_event(
				trid, &info, data, sizeof(data), &length, &none));
		if (none)
			break;
		/* A stream is also flushed by itself. */
		flushes += info.posix_event_id == POSIX_TRACE_FLUSH_STOP;
		if (info.posix_event_id == POSIX_TRACE_FLUSH_START ||
			info.posix_event_id == POSIX_TRACE_FLUSH_STOP)
			continue;
		OK(posix_trace_eventid_get_name(trid, info.posix_event_id, name));
		printf(" %s[%d]", name, (int)length);
		if (info.posix_event_id > POSIX_TRACE_FLUSH_STOP) {
			IS(info.posix_pid == pid || memcmp(data, "forked", 6) == 0, 1);
			IS(info.posix_prog_address != NULL, !all);
			IS(info.posix_thread_id != 0, 1);
		}
		if (info.posix_event_id == POSIX_TRACE_STOP) {
			IS((int)length, (int)sizeof(int));
			IS(*(int *)(void *)data, 0);
		}
		IS(info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
		IS(last.tv_sec < info.posix_timestamp.tv_sec ||
				(last.tv_sec == info.posix_timestamp.tv_sec &&
					last.tv_nsec <= info.posix_timestamp.tv_nsec),
			1);
		last = info.posix_timestamp;
	}
	IS(flushes > 0, all);
	printf("\n");
}

static int status_of(trace_id_t trid)
{
	struct posix_trace_status_info status;

	OK(posix_trace_get_status(trid, &status));
	IS(status.posix_stream_full_status, POSIX_TRACE_NOT_FULL);
	IS(status.posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
	IS(status.posix_stream_flush_status, POSIX_TRACE_NOT_FLUSHING);
	IS(status.posix_stream_flush_error, 0);
	IS(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
	IS(status.posix_log_full_status, POSIX_TRACE_NOT_FULL);
	return status.posix_stream_status;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void attributes(void)
{
	char text[TRACE_NAME_MAX + 1], longer[TRACE_NAME_MAX + 2];
	trace_attr_t attr;
	struct timespec time;
	size_t size;
	int value;

	OK(posix_trace_attr_init(&attr));
	OK(posix_trace_attr_getstreamfullpolicy(&attr, &value));
	IS(value, POSIX_TRACE_LOOP);
	OK(posix_trace_attr_getlogfullpolicy(&attr, &value));
	IS(value, POSIX_TRACE_LOOP);
	OK(posix_trace_attr_getinherited(&attr, &value));
	IS(value, POSIX_TRACE_CLOSE_FOR_CHILD);
	OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
	OK(posix_trace_attr_getinherited(&attr, &value));
	IS(value, POSIX_TRACE_INHERITED);
	IS(posix_trace_attr_setinherited(&attr, 7), EINVAL);
	OK(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_UNTIL_FULL));
	IS(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_APPEND), EINVAL);
	OK(posix_trace_attr_getstreamfullpolicy(&attr, &value));
	IS(value, POSIX_TRACE_UNTIL_FULL);
	OK(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND));
	IS(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_FLUSH), EINVAL);
	OK(posix_trace_attr_setlogsize(&attr, 1 << 22));
	OK(posix_trace_attr_getlogsize(&attr, &size));
	IS(size == 1 << 22, 1);
	OK(posix_trace_attr_setmaxdatasize(&attr, 100));
	OK(posix_trace_attr_getmaxdatasize(&attr, &size));
	IS(size == 100, 1);
	OK(posix_trace_attr_setstreamsize(&attr, 1 << 17));
	OK(posix_trace_attr_getstreamsize(&attr, &size));
	IS(size == 1 << 17, 1);
	OK(posix_trace_attr_getmaxusereventsize(&attr, 10, &size));
	IS(size >= 10, 1);
	OK(posix_trace_attr_getmaxsystemeventsize(&attr, &size));
	OK(posix_trace_attr_getclockres(&attr, &time));
	OK(posix_trace_attr_getgenversion(&attr, text));
	OK(posix_trace_attr_setname(&attr, "a name"));
	OK(posix_trace_attr_getname(&attr, text));
	IS(strcmp(text, "a name"), 0);
	memset(longer, 'n', sizeof(longer));
	longer[TRACE_NAME_MAX + 1] = '\0';
	IS(posix_trace_attr_setname(&attr, longer), ENAMETOOLONG);
	OK(posix_trace_attr_destroy(&attr));
	IS(posix_trace_attr_getname(&attr, text), EINVAL);
	IS(posix_trace_attr_setlogsize(&attr, 1), EINVAL);
	IS(posix_trace_attr_destroy(&attr), EINVAL);
}

static void nothing(int signal)
{
	(void)signal;
}

static void *interrupt(void *data)
{
	struct timespec moment = {0, 100000000};

	/* Again and again: the first may come before the wait. */
	for (;;) {
		nanosleep(&moment, NULL);
		pthread_kill(*(pthread_t *)data, SIGUSR1);
	}
	return NULL;
}

static void of_child(void)
{
	struct posix_trace_event_info info;
	struct timespec until;
	struct sigaction action;
	trace_event_id_t alpha, beta, id, again;
	trace_event_set_t set, filter;
	trace_id_t trid = 0, other;
	trace_attr_t attr;
	pthread_t self = pthread_self(), thread;
	size_t length;
	int none, member, types = 0;
	char data[4], name[TRACE_EVENT_NAME_MAX + 1];

	start_child();
	tell("a"); /* the names are open now */
	OK(posix_trace_attr_init(&attr));
	OK(posix_trace_attr_setmaxdatasize(&attr, 8));
	OK(posix_trace_attr_setname(&attr, "first"));
	OK(posix_trace_create(child, &attr, &trid));
	OK(posix_trace_get_attr(trid, &attr));
	OK(posix_trace_attr_getname(&attr, name));
	IS(strcmp(name, "first"), 0);
	OK(posix_trace_attr_getcreatetime(&attr, &until));
	IS(until.tv_sec != 0, 1);
	OK(posix_trace_attr_getstreamsize(&attr, &length));
	IS(length > 0, 1);

	IS(status_of(trid), POSIX_TRACE_SUSPENDED);
	tell("ab");
	OK(posix_trace_start(trid));
	IS(status_of(trid), POSIX_TRACE_RUNNING);
	tell("aaul");
	OK(posix_trace_stop(trid));
	tell("a");
	printf("child:");
	show(trid, child, 0);

	/* Types: one name, one identifier. */
	OK(posix_trace_trid_eventid_open(trid, "alpha", &alpha));
	OK(posix_trace_trid_eventid_open(trid, "alpha", &again));
	OK(posix_trace_trid_eventid_open(trid, "beta", &beta));
	IS(posix_trace_eventid_equal(trid, alpha, again) != 0, 1);
	IS(posix_trace_eventid_equal(trid, alpha, beta), 0);
	OK(posix_trace_trid_eventid_open(trid, "posix_trace_start", &id));
	IS(id == POSIX_TRACE_START, 1);
	IS(posix_trace_trid_eventid_open(trid,
		   "a name of more than sixty-four bytes, which is too long for an event", &id),
		ENAMETOOLONG);
	IS(posix_trace_eventid_get_name(trid, 4000, name), EINVAL);
	OK(posix_trace_eventtypelist_rewind(trid));
	for (;;) {
		OK(posix_trace_eventtypelist_getnext_id(trid, &id, &none));
		if (none)
			break;
		OK(posix_trace_eventid_get_name(trid, id, name));
		types++;
	}
	printf("types: %d\n", types);

	/* Sets and filters. */
	OK(posix_trace_eventset_empty(&set));
	OK(posix_trace_eventset_add(beta, &set));
	OK(posix_trace_eventset_ismember(beta, &set, &member));
	IS(member != 0, 1);
	OK(posix_trace_eventset_ismember(alpha, &set, &member));
	IS(member, 0);
	IS(posix_trace_eventset_add(99999, &set), EINVAL);
	IS(posix_trace_eventset_fill(&filter, 9), EINVAL);
	OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
	IS(posix_trace_set_filter(trid, &set, 9), EINVAL);
	OK(posix_trace_get_filter(trid, &filter));
	IS(memcmp(&set, &filter, sizeof(set)), 0);
	OK(posix_trace_start(trid));
	tell("ab");
	OK(posix_trace_eventset_fill(&set, POSIX_TRACE_ALL_EVENTS));
	OK(posix_trace_eventset_del(alpha, &set));
	OK(posix_trace_eventset_del(POSIX_TRACE_STOP, &set));
	OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_ADD_EVENTSET));
	tell("abu");
	OK(posix_trace_eventset_empty(&set));
	OK(posix_trace_eventset_add(beta, &set));
	OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SUB_EVENTSET));
	OK(posix_trace_get_filter(trid, &filter));
	OK(posix_trace_eventset_ismember(POSIX_TRACE_UNNAMED_USEREVENT, &filter, &member));
	IS(member != 0, 1);
	OK(posix_trace_stop(trid));
	printf("filtered:");
	show(trid, child, 0);

	/* Truncated: when recorded, and when read. */
	OK(posix_trace_eventset_fill(&set, POSIX_TRACE_SYSTEM_EVENTS));
	OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
	OK(posix_trace_start(trid));
	tell("bab");
	OK(posix_trace_getnext_event(trid, &info, name, sizeof(name), &length, &none));
	IS((int)length, 8);
	IS(memcmp(name, "01234567", 8), 0);
	IS(info.posix_event_id == beta, 1);
	IS(info.posix_truncation_status, POSIX_TRACE_TRUNCATED_RECORD);
	OK(posix_trace_getnext_event(trid, &info, data, 2, &length, &none));
	IS(memcmp(data, "a\0", 2), 0);
	IS((int)length, 2);
	IS(info.posix_truncation_status, POSIX_TRACE_TRUNCATED_READ);
	OK(posix_trace_clear(trid));
	OK(posix_trace_trygetnext_event(trid, &info, data, 2, &length, &none));
	IS(none != 0, 1);

	/* Waiting: until a time, and interrupted. */
	clock_gettime(CLOCK_REALTIME, &until);
	IS(posix_trace_timedgetnext_event(trid, &info, data, 4, &length, &none, &until), ETIMEDOUT);
	until.tv_nsec = -1;
	IS(posix_trace_timedgetnext_event(trid, &info, data, 4, &length, &none, &until), EINVAL);
	tell("a");
	OK(posix_trace_timedgetnext_event(trid, &info, data, 4, &length, &none, &until));
	IS(info.posix_event_id == alpha && !none, 1);
	memset(&action, 0, sizeof(action));
	action.sa_handler = nothing;
	sigaction(SIGUSR1, &action, NULL);
	pthread_create(&thread, NULL, interrupt, &self);
	IS(posix_trace_getnext_event(trid, &info, data, 4, &length, &none), EINTR);
	pthread_cancel(thread);
	pthread_join(thread, NULL);

	/* Functions for other streams; the child has another stream, too. */
	IS(posix_trace_flush(trid), EINVAL);
	IS(posix_trace_rewind(trid), EINVAL);
	IS(posix_trace_close(trid), EINVAL);
	OK(posix_trace_attr_init(&attr));
	OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
	OK(posix_trace_create(child, &attr, &other));
	OK(posix_trace_start(other));
	tell("f");
	OK(posix_trace_shutdown(trid));
	IS(posix_trace_shutdown(trid), EINVAL);
	IS(posix_trace_start(trid), EINVAL);
	printf("inherited:");
	show(other, child, 0);

	/* The process ends: no event will come. */
	tell("a");
	end_child();
	OK(posix_trace_getnext_event(other, &info, data, 4, &length, &none));
	IS(none, 0);
	OK(posix_trace_getnext_event(other, &info, data, 4, &length, &none));
	IS(none != 0, 1);
	OK(posix_trace_shutdown(other));
}

static void of_itself(void)
{
	trace_event_id_t event;
	trace_event_set_t set;
	trace_id_t trid;
	trace_attr_t attr;

	OK(posix_trace_attr_init(&attr));
	OK(posix_trace_attr_setname(&attr, "mine"));
	OK(posix_trace_create(0, &attr, &trid));
	OK(posix_trace_eventid_open("my first event", &event));
	OK(posix_trace_eventset_empty(&set));
	OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
	OK(posix_trace_start(trid));
	posix_trace_event(event, "data", 4);
	IS(status_of(trid), POSIX_TRACE_RUNNING);
	/* The process's own identifier is that of the stream. */
	OK(posix_trace_eventset_add(event, &set));
	OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
	posix_trace_event(event, "data", 4);
	OK(posix_trace_stop(trid));
	printf("itself:");
	show(trid, getpid(), 0);
	OK(posix_trace_shutdown(trid));
	posix_trace_event(event, "data", 4);
	IS(waitpid(-1, NULL, 0) == -1 && errno == ECHILD, 1);
}

static void with_log(const char *path, int itself)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), value;
	struct posix_trace_event_info info;
	char text[TRACE_NAME_MAX + 1];
	trace_event_id_t event;
	trace_attr_t attr;
	trace_id_t trid;
	size_t length;

	if (!itself)
		start_child();
	OK(posix_trace_eventid_open("logged", &event));
	OK(posix_trace_attr_init(&attr));
	OK(posix_trace_attr_setname(&attr, "with a log"));
	OK(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND));
	OK(posix_trace_create_withlog(itself ? getpid() : child, &attr, fd, &trid));
	OK(posix_trace_start(trid));
	if (itself)
		posix_trace_event(event, "logged", 6);
	else
		tell("a");
	IS(posix_trace_getnext_event(trid, &info, text, sizeof(text), &length, &value), EINVAL);
	OK(posix_trace_flush(trid));
	OK(posix_trace_stop(trid));
	OK(posix_trace_shutdown(trid));
	close(fd);
	if (!itself)
		tell("a");

	fd = open(path, O_RDONLY);
	OK(posix_trace_open(fd, &trid));
	OK(posix_trace_get_attr(trid, &attr));
	OK(posix_trace_attr_getname(&attr, text));
	IS(strcmp(text, "with a log"), 0);
	OK(posix_trace_attr_getstreamfullpolicy(&attr, &value));
	IS(value, POSIX_TRACE_FLUSH);
	OK(posix_trace_attr_getlogfullpolicy(&attr, &value));
	IS(value, POSIX_TRACE_APPEND);
	IS(status_of(trid), POSIX_TRACE_SUSPENDED);
	IS(posix_trace_start(trid), EINVAL);
	IS(posix_trace_shutdown(trid), EINVAL);
	IS(posix_trace_trygetnext_event(trid, &info, text, sizeof(text), &length, &value), EINVAL);
	for (int i = 0; i < 2; i++) {
		printf("log:");
		show(trid, itself ? getpid() : child, 1);
		OK(posix_trace_rewind(trid));
	}
	OK(posix_trace_close(trid));
	IS(posix_trace_close(trid), EINVAL);
	close(fd);
	if (!itself)
		end_child();
}

static void errors(void)
{
	int null = open("/dev/null", O_RDWR), file = open("/etc/passwd", O_RDONLY);
	int folder = open("/usr/share", O_RDONLY);
	trace_attr_t attr;
	trace_id_t trid = 77;
	pid_t gone = fork();

	if (gone == 0)
		_exit(0);
	waitpid(gone, NULL, 0);
	OK(posix_trace_attr_init(&attr));
	IS(posix_trace_create(gone, &attr, &trid), ESRCH);
	OK(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_FLUSH));
	IS(posix_trace_create(getpid(), &attr, &trid), EINVAL);
	IS(posix_trace_create_withlog(getpid(), &attr, -1, &trid), EBADF);
	IS(posix_trace_create_withlog(getpid(), &attr, null, &trid), EINVAL);
	IS(posix_trace_create_withlog(getpid(), &attr, file, &trid), EBADF);
	OK(posix_trace_attr_destroy(&attr));
	IS(posix_trace_create(getpid(), &attr, &trid), EINVAL);
	IS(posix_trace_open(-1, &trid), EBADF);
	IS(posix_trace_open(file, &trid), EINVAL);
	IS(posix_trace_open(null, &trid), EINVAL);
	IS(posix_trace_open(folder, &trid), EINVAL);
	IS((int)trid, 77);
	IS(posix_trace_stop(trid), EINVAL);
	IS(posix_trace_eventtypelist_rewind(trid), EINVAL);
}

int main(int argc, char **argv)
{
	if (argc != 2 || chdir(argv[1]))
		return 2;
	attributes();
	errors();
	of_itself();
	with_log("log.itself", 1);
	of_child();
	with_log("log.child", 0);
	return failures != 0;
}
