/* SPDX-License-Identifier: MIT */
/*
 * Threads with names, which end at once.
 * flags: -D_GNU_SOURCE -pthread -fno-omit-frame-pointer -fno-optimize-sibling-calls
 *
 * Each line of the input starts one:
 *
 *	NAME HITS WAY [NEW]	hits HITS times, by the function left or right (WAY); after half of
 *				them, its name is NEW
 *
 * and is answered, when it has ended, with "done". `main NAME` names the first thread. Probes:
 * nicknames:begin(i) and nicknames:done(i) around nicknames:hit(i, WAY's first letter).
 */
#include <pthread.h>
#include <string.h>
#include <sys/sdt.h>

#include "../target.h"

#define CALL __attribute__((noinline, noclone)) static

struct order {
	char name[16], way[16], renamed[16];
	unsigned long hits;
};

CALL void leaf(unsigned long i, int way)
{
	STAP_PROBE1(nicknames, begin, i);
	target_room_behind();
	STAP_PROBE2(nicknames, hit, i, way);
	target_room_behind();
	STAP_PROBE1(nicknames, done, i);
	target_room_behind();
}

CALL void left(unsigned long i)
{
	leaf(i, 'l');
	__asm__ volatile("");
}

CALL void right(unsigned long i)
{
	leaf(i, 'r');
	__asm__ volatile("");
}

static void *work(void *data)
{
	const struct order *order = data;

	prctl(PR_SET_NAME, order->name);
	for (unsigned long i = 0; i < order->hits; i++) {
		if (order->renamed[0] && i == order->hits / 2)
			prctl(PR_SET_NAME, order->renamed);
		(strcmp(order->way, "left") == 0 ? left : right)(i);
	}
	return NULL;
}

int main(void)
{
	char line[80];

	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line))) {
		struct order order = {.hits = 0};
		pthread_t thread;

		if (sscanf(line, "main %15s", order.name) == 1) {
			prctl(PR_SET_NAME, order.name);
			puts("done");
			fflush(stdout);
			continue;
		}
		if (sscanf(line, "%15s %lu %15s %15s", order.name, &order.hits, order.way,
			    order.renamed) < 3)
			return 1;
		if (pthread_create(&thread, NULL, work, &order) || pthread_join(thread, NULL))
			return 1;
		puts("done");
		fflush(stdout);
	}
	return 0;
}
