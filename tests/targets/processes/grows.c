/* SPDX-License-Identifier: MIT */
/*
 * A program that uses some memory, and passes grows:hit.
 *
 *	grows MIB	touches MIB MiB and prints "ready PID"; then, for each line,
 *			"hits N" passes the probe N times, "more N" touches N MiB more; it
 *			answers "done". The end of the input ends it
 */
#include <string.h>
#include <sys/sdt.h>

#include "../target.h"

static void touch(size_t mib)
{
	char *memory = malloc(mib << 20);

	if (memory)
		memset(memory, 1, mib << 20);
	__asm__ volatile("" : : "r"(memory) : "memory");
}

int main(int argc, char **argv)
{
	char line[64];
	size_t n;

	target_allow_tracing();
	touch(argc > 1 ? strtoul(argv[1], NULL, 10) : 1);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line))) {
		if (sscanf(line, "more %zu", &n) == 1)
			touch(n);
		else if (sscanf(line, "hits %zu", &n) == 1)
			for (size_t i = 0; i < n; i++)
				STAP_PROBE2(grows, hit, i, i);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
