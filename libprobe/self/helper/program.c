/* SPDX-License-Identifier: MIT */
/*
 * Makes libprobe.so a program, too: with an entry point (the linker's -e), and the C library's
 * loader, which initialises the library first. libc.so.6 does the same. This file is not in
 * libprobe.a.
 */
#include <stdlib.h>

#include "arch/start.h"
#include "libprobe/self/helper/helper.h"

const char image_interpreter[] __attribute__((section(".interp"), used)) = PROBE_INTERPRETER;

extern int __libc_start_main(int (*main)(int argc, char **argv, char **environment), int argc,
	char **argv, void (*init)(void), void (*fini)(void), void (*loader_fini)(void),
	void *stack);

static int image_main(int argc, char **argv, char **environment)
{
	(void)environment;
	if (argc == 2)
		controller_main(atoi(argv[1]));
	return EXIT_FAILURE;
}

/* `stack` is the kernel's initial stack: the number of arguments, then the arguments. */
__attribute__((used, noreturn)) static void image_begin(long *stack, void (*loader_fini)(void))
{
	__libc_start_main(
		image_main, (int)stack[0], (char **)(stack + 1), NULL, NULL, loader_fini, stack);
	__builtin_unreachable();
}

ARCH_ENTRY(image_entry, image_begin);
