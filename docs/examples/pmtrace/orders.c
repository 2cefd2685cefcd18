/* SPDX-License-Identifier: MIT */
/*
 * An order desk, instrumented with pmtrace(3): four clerks take orders, each a
 * transaction; every fifth order is cancelled. Written for Performance Co-Pilot's
 * libpcp_trace; linked with libprobe_pmtrace, probectl traces it:
 *
 *     cc orders.c -o orders -lpcp_trace -lpthread
 *     cc orders.c -o orders -lprobe_pmtrace -lpthread
 *     probectl trace -t transaction -k 'str(arg0)' --match arg1 \
 *         pmtrace:begin pmtrace:end pmtrace:abort -- ./orders 100
 */
#include <pcp/trace.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CLERKS = 4 };

static int orders;

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, pmtraceerrstr(result));
	exit(1);
}

static void work(long us)
{
	struct timespec time = {.tv_nsec = us * 1000};

	nanosleep(&time, NULL);
}

static void *clerk(void *data)
{
	int number = *(int *)data;
	char desk[32];

	snprintf(desk, sizeof(desk), "order, desk %d", number);
	for (int i = 1; i <= orders; i++) {
		check(pmtracebegin(desk), desk);
		work(100 * number);
		check(i % 5 ? pmtraceend(desk) : pmtraceabort(desk), desk);
		check(pmtracepoint("asked"), "asked");
		check(pmtraceobs(desk, i + 0.5), "what the last order is worth");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[CLERKS];
	int numbers[CLERKS];

	orders = argc > 1 ? atoi(argv[1]) : 100;
	check(pmtracebegin("day"), "day");
	for (int i = 0; i < CLERKS; i++) {
		numbers[i] = i + 1;
		if (pthread_create(&threads[i], NULL, clerk, &numbers[i]))
			return 1;
	}
	for (int i = 0; i < CLERKS; i++)
		pthread_join(threads[i], NULL);
	check(pmtracecounter("orders ever", 1e6 + orders * CLERKS), "orders ever");
	check(pmtraceend("day"), "day");
	return 0;
}
