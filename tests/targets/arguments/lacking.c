/* SPDX-License-Identifier: MIT */
/*
 * flags: -O1 -ldl
 *
 * Probes with two arguments, with one, and with two at one of its sites: lacking:two, lacking:one,
 * lacking:mixed. Waits for a line, hits each site once, and says so; then, given a library, opens
 * it and hits its probe three times.
 */
#include <dlfcn.h>
#include <sys/sdt.h>

#include "../target.h"

__attribute__((noinline)) static void hit(long a, long b)
{
	STAP_PROBE2(lacking, two, a, b);
	target_room_behind();
	STAP_PROBE1(lacking, one, a);
	target_room_behind();
	STAP_PROBE2(lacking, mixed, a, b);
	target_room_behind();
	STAP_PROBE1(lacking, mixed, a);
	target_room_behind();
}

int main(int argc, char **argv)
{
	void *library;
	void (*late)(long i);

	target_allow_tracing();
	target_wait();
	hit(1, 2);
	if (argc > 1) {
		library = dlopen(argv[1], RTLD_NOW);
		late = library ? (void (*)(long))(uintptr_t)dlsym(library, "late") : NULL;
		for (long i = 0; late && i < 3; i++)
			late(i);
	}
	puts("hit");
	fflush(stdout);
	target_wait();
	return 0;
}
