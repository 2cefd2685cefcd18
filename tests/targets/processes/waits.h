/* SPDX-License-Identifier: MIT */
/* Waits with time limits, none of which may end early. */
#ifndef TESTS_WAITS_H
#define TESTS_WAITS_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 40 };

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A wait that began at `since` has ended: by its limit, and not before? */
static bool is_whole(const char *name, long since, bool ended_by_limit)
{
	int error = errno;
	long ms = now_ms() - since;

	if (ended_by_limit && ms >= WAIT_MS - 1)
		return true;
	fprintf(stderr, "%s: %ld ms, %s\n", name, ms, strerror(error));
	return false;
}

static bool waits(void)
{
	struct timespec limit = {.tv_nsec = WAIT_MS * 1000000};
	struct timeval socket_limit = {.tv_usec = WAIT_MS * 1000};
	struct sembuf down = {.sem_op = -1};
	struct epoll_event event;
	int ends[2], epoll = epoll_create1(0), semaphores = semget(IPC_PRIVATE, 1, 0600);
	sigset_t set;
	char byte;
	long since;
	bool ok;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	since = now_ms();
	ok = is_whole("epoll_wait", since, epoll_wait(epoll, &event, 1, WAIT_MS) == 0);
	since = now_ms();
	ok &= is_whole("nanosleep", since, nanosleep(&limit, NULL) == 0);
	since = now_ms();
	ok &= is_whole(
		"sigtimedwait", since, sigtimedwait(&set, NULL, &limit) < 0 && errno == EAGAIN);
	since = now_ms();
	ok &= is_whole("semtimedop", since,
		semtimedop(semaphores, &down, 1, &limit) < 0 && errno == EAGAIN);
	semctl(semaphores, 0, IPC_RMID);
	ok &= socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 &&
	      setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &socket_limit, sizeof(socket_limit)) ==
		      0;
	since = now_ms();
	ok &= is_whole("recv", since, recv(ends[0], &byte, 1, 0) < 0 && errno == EAGAIN);
	return ok;
}

#endif
