/* SPDX-License-Identifier: MIT */
/*
 * Addresses as arguments: of functions, of data, of nothing.
 *
 *	addresses [N]	waits, calls, prints "hits N", waits
 *
 *	addresses:call	N times (default: 10): a function, in turn `first` and `second`; an address
 *			within it; data, `table`; what is no address, 0x1234; the heap; a string
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>

#include "../target.h"

int table[4];

__attribute__((noinline)) int first(int number)
{
	return number + 1;
}

__attribute__((noinline)) int second(int number)
{
	return number * 2;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;
	char *heap = malloc(64);

	target_wait();
	for (int i = 0; i < rounds; i++) {
		int (*function)(int) = i % 2 ? second : first;

		table[0] += function(i);
		STAP_PROBE6(addresses, call, function, (uintptr_t)function + 1, &table[1], 0x1234L,
			heap, "text");
	}
	printf("hits %d\n", rounds);
	target_wait();
	free(heap);
	return 0;
}
