/* SPDX-License-Identifier: MIT */
/*
 * The unwinder is libgcc's: C++ programs are linked with it, and backtrace(3) loads it. It
 * looks for rules in registered sections, and then in the modules. A program that is linked
 * with libgcc's archive (-static-libgcc) may have a second unwinder for its exceptions; both
 * are informed.
 *
 * Source: libgcc, unwind-dw2-fde.c.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "libprobe/self/unwind.h"

typedef void frame_function(void *section);

extern void __register_frame(void *section) __attribute__((weak));
extern void __deregister_frame(void *section) __attribute__((weak));

enum { UNWINDERS = 2 };

struct unwinder {
	frame_function *add, *remove;
};
static struct unwinder unwinders[UNWINDERS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

struct unwind {
	size_t length;
	uint8_t section[];
};

/* The library stays loaded: registered sections stay known. */
static void find_unwinders(void)
{
	void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (&__register_frame && &__deregister_frame)
		unwinders[0] = (struct unwinder){__register_frame, __deregister_frame};
	if (!library)
		return;
	unwinders[1].add = (frame_function *)(uintptr_t)dlsym(library, "__register_frame");
	unwinders[1].remove = (frame_function *)(uintptr_t)dlsym(library, "__deregister_frame");
	if (!unwinders[1].remove || unwinders[1].add == unwinders[0].add)
		unwinders[1].add = NULL;
}

void unwind_prepare(void)
{
	pthread_once(&once, find_unwinders);
}

struct unwind *unwind_add(const struct arch *arch, const struct arch_extent *stubs, size_t count)
{
	size_t size = arch->call_unwind(stubs, count, NULL, 0);
	struct unwind *unwind = malloc(sizeof(*unwind) + size);

	if (!unwind)
		return NULL;
	unwind_prepare();
	unwind->length = arch->call_unwind(stubs, count, unwind->section, size);
	for (int i = 0; i < UNWINDERS; i++)
		if (unwinders[i].add)
			unwinders[i].add(unwind->section);
	return unwind;
}

void unwind_remove(struct unwind *unwind)
{
	for (int i = 0; unwind && i < UNWINDERS; i++)
		if (unwinders[i].add)
			unwinders[i].remove(unwind->section);
	free(unwind);
}
