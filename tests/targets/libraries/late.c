/* SPDX-License-Identifier: MIT */
/*
 * Opens a library and passes its four sites 100 times: late:whole has one with room for a jump,
 * late:part one with such room and one without, late:none one without. That is in the nop
 * (`--plan nop`) or, where each nop has room, behind it (`--plan behind`): only sites with room
 * can be patched so.
 *
 *	late LIBRARY [exec|child|fork|both]	prints "done". By default it opens the library
 *		itself; else the program it executes does (exec), or one that its child
 *		executes, or two forked children, one after another (fork), or these and
 *		then itself (both)
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../target.h"

enum { PASSES = 100 };

static int pass(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*late_pass)(void) = NULL;

	if (library)
		*(void **)&late_pass = dlsym(library, "late_pass");
	if (!late_pass) {
		fprintf(stderr, "late: %s\n", dlerror());
		return 1;
	}
	for (int i = 0; i < PASSES; i++)
		late_pass();
	puts("done");
	return 0;
}

static int become(char **argv)
{
	char *again[] = {argv[0], argv[1], NULL};

	execv(argv[0], again);
	perror("late");
	return 1;
}

int main(int argc, char **argv)
{
	int status;

	if (argc < 2)
		return 2;
	if (argc < 3)
		return pass(argv[1]);
	if (!strcmp(argv[2], "exec"))
		return become(argv);
	for (int i = 0; i < 2 && strcmp(argv[2], "child") != 0; i++) {
		if (fork() == 0)
			_exit(pass(argv[1]));
		if (wait(&status) < 0 || status)
			return 1;
	}
	if (!strcmp(argv[2], "fork"))
		return 0;
	if (!strcmp(argv[2], "both"))
		return pass(argv[1]);
	if (fork() == 0)
		return become(argv);
	return wait(&status) < 0 || status ? 1 : 0;
}
