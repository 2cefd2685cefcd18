/* SPDX-License-Identifier: MIT */
/*
 * Opens a library, passes its sites, closes it, and begins anew; it pauses so long while the
 * library is open, and while it is closed. Prints "ready" first.
 *
 *	closing LIBRARY MICROSECONDS	until its input ends
 *	closing LIBRARY MICROSECONDS asked	N times for each line "N", and then prints
 *						"passed N wrong 0"
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "../target.h"

static int pass(const char *path, unsigned int pause)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*late_pass)(void) = NULL;

	if (library)
		*(void **)&late_pass = dlsym(library, "late_pass");
	if (!late_pass) {
		fprintf(stderr, "closing: %s\n", dlerror());
		return 1;
	}
	late_pass();
	usleep(pause);
	dlclose(library);
	usleep(pause);
	return 0;
}

int main(int argc, char **argv)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned int pause;
	int passes, status = 0;

	if (argc < 3)
		return 2;
	pause = (unsigned int)atoi(argv[2]);
	puts("ready");
	fflush(stdout);
	if (argc == 3)
		while (!status && poll(&input, 1, 0) == 0)
			status = pass(argv[1], pause);
	while (argc > 3 && !status && scanf("%d", &passes) == 1) {
		for (int i = 0; i < passes && !status; i++)
			status = pass(argv[1], pause);
		printf("passed %d wrong %d\n", passes, status);
		fflush(stdout);
	}
	return status;
}
