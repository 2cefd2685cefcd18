/* SPDX-License-Identifier: MIT */
/*
 * A program to be traced: a shop that a line of input opens, and another closes. In
 * between, `shop RATE` takes at most RATE orders a second, one in twenty of which takes
 * ten times as long; then it says how many there were. It ends with its input.
 *
 *	cc -O2 -o shop docs/examples/fleet/shop.c
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/sdt.h>
#include <time.h>
#include <unistd.h>

static void pause_us(long us)
{
	nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

static bool read_line(void)
{
	char byte;

	while (read(0, &byte, 1) == 1)
		if (byte == '\n')
			return true;
	return false;
}

int main(int argc, char **argv)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	long rate = argc > 1 ? atol(argv[1]) : 100, orders = 0;

	if (rate < 1 || rate > 10000)
		return 2;
	/* Where Yama lets only ancestors trace (kernel.yama.ptrace_scope is 1). */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	read_line();
	while (poll(&input, 1, 0) == 0) {
		DTRACE_PROBE1(shop, order__start, orders);
		pause_us(orders % 20 ? 200 : 2000);
		DTRACE_PROBE1(shop, order__done, orders);
		orders++;
		pause_us(1000000 / rate);
	}
	printf("%ld\n", orders);
	fflush(stdout);
	while (read_line())
		;
	return 0;
}
