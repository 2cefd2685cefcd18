/* SPDX-License-Identifier: MIT */
/*
 * Measures a command from outside.
 *
 *	stopwatch [-r ROUNDS] [-f] [-t TEXT] -- COMMAND ARGS…
 *
 * prints "FIRST_US TOTAL_US RSS_KIB", the medians of the rounds: the time from just before
 * fork() to the first byte on the command's standard output (with -t: to the first output that
 * contains TEXT), the time to its end, and its largest resident set. With -f the command gets
 * SIGINT right after that output. The command's output is discarded; -1 means that the output
 * never came.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 101, KEPT_BYTES = 1 << 16 };

struct measure {
	double first_us, total_us, rss_kib;
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Reads until the end; notes when `text` (NULL: any output) arrived. */
static void read_output(int fd, const char *text, double begin, pid_t interrupt, double *first_us)
{
	static char kept[KEPT_BYTES + 1];
	size_t used = 0;
	ssize_t got;

	for (;;) {
		if (used == KEPT_BYTES)
			used = 0;
		got = read(fd, kept + used, KEPT_BYTES - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return;
		if (*first_us >= 0)
			continue;
		used += (size_t)got;
		kept[used] = '\0';
		if (text && !strstr(kept, text))
			continue;
		*first_us = now_us() - begin;
		if (interrupt > 0)
			kill(interrupt, SIGINT);
	}
}

static bool measure(char **argv, const char *text, bool finish, struct measure *ret)
{
	struct rusage usage;
	int ends[2], status;
	double begin;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	begin = now_us();
	pid = fork();
	if (pid == 0) {
		/* `text` may arrive on either. */
		dup2(ends[1], STDOUT_FILENO);
		if (text)
			dup2(ends[1], STDERR_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(ends[1]);
	ret->first_us = -1;
	read_output(ends[0], text, begin, finish ? pid : 0, &ret->first_us);
	close(ends[0]);
	if (wait4(pid, &status, 0, &usage) != pid)
		return false;
	ret->total_us = now_us() - begin;
	ret->rss_kib = (double)usage.ru_maxrss;
	return !(WIFEXITED(status) && WEXITSTATUS(status) == 127);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare);
	return values[count / 2];
}

int main(int argc, char **argv)
{
	double first[ROUNDS_MAX], total[ROUNDS_MAX], rss[ROUNDS_MAX];
	const char *text = NULL;
	bool finish = false;
	long rounds = 1;
	int option;

	while ((option = getopt(argc, argv, "+r:ft:")) != -1) {
		if (option == 'r')
			rounds = strtol(optarg, NULL, 10);
		else if (option == 'f')
			finish = true;
		else if (option == 't')
			text = optarg;
		else
			return 2;
	}
	if (optind >= argc || rounds < 1 || rounds > ROUNDS_MAX)
		return 2;
	for (long i = 0; i < rounds; i++) {
		struct measure one;

		if (!measure(argv + optind, text, finish, &one)) {
			fprintf(stderr, "stopwatch: cannot run %s\n", argv[optind]);
			return 1;
		}
		first[i] = one.first_us;
		total[i] = one.total_us;
		rss[i] = one.rss_kib;
	}
	printf("%.0f %.0f %.0f\n", median(first, (size_t)rounds), median(total, (size_t)rounds),
		median(rss, (size_t)rounds));
	return 0;
}
