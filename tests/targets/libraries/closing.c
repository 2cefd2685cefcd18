/* SPDX-License-Identifier: MIT */
/*
 * Opens a library, passes its sites, closes it, and begins anew until its input ends.
 *
 *	closing LIBRARY MICROSECONDS	prints "ready"; it pauses so long while the library is
 *					open, and while it is closed
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "../target.h"

int main(int argc, char **argv)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	if (argc < 3)
		return 2;
	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, 0) == 0) {
		void *library = dlopen(argv[1], RTLD_NOW);
		void (*late_pass)(void) = NULL;

		if (library)
			*(void **)&late_pass = dlsym(library, "late_pass");
		if (!late_pass) {
			fprintf(stderr, "closing: %s\n", dlerror());
			return 1;
		}
		late_pass();
		usleep(atoi(argv[2]));
		dlclose(library);
		usleep(atoi(argv[2]));
	}
	return 0;
}
