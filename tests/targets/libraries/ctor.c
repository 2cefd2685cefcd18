/* SPDX-License-Identifier: MIT */
/*
 * Probes that are passed before a tracer could attach: ctor:construct in the constructors of a
 * library (2), of the program (1) and, at dlopen(), of a plugin (3); then ctor:main(4),
 * ctor:call(5) in the library, ctor:plugin(6) in the plugin.
 *
 *	ctor [PLUGIN [ROUNDS]]	prints "done N"; opens and closes the plugin ROUNDS times
 */
#include <dlfcn.h>

#include "ctor.h"
#include "../target.h"

CTOR_DEFINE(1)

int ctor_lib_call(int value);

static int plugin_pass(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW);
	int (*call)(int value) = NULL;

	if (!plugin) {
		fprintf(stderr, "ctor: %s\n", dlerror());
		exit(1);
	}
	*(void **)&call = dlsym(plugin, "ctor_plugin_call");
	if (!call || call(6) != 7)
		exit(1);
	return dlclose(plugin);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 1;
	int done = 0;

	STAP_PROBE1(ctor, main, 4);
	done += ctor_lib_call(5) == 6;
	for (int i = 0; argc > 1 && i < rounds; i++)
		done += plugin_pass(argv[1]) == 0;
	printf("done %d\n", done);
	return 0;
}
