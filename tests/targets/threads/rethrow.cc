/* SPDX-License-Identifier: MIT */
/*
 * Throws, catches, throws again and catches as often as a line says, and answers "rethrown N":
 * libstdc++ has probes for that.
 */
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <sys/prctl.h>
#include <unistd.h>

static unsigned long rethrow(unsigned long rounds)
{
	unsigned long caught = 0;

	for (unsigned long i = 0; i < rounds; i++) {
		try {
			try {
				throw std::runtime_error("once");
			} catch (const std::exception &) {
				throw;
			}
		} catch (const std::exception &) {
			caught++;
		}
	}
	return caught;
}

int main()
{
	char line[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	printf("ready %d\n", getpid());
	while (fgets(line, sizeof(line), stdin))
		printf("rethrown %lu\n", rethrow(strtoul(line, NULL, 10)));
	return 0;
}
