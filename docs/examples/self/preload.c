/* SPDX-License-Identifier: MIT */
/*
 * A tracer inside a program that knows nothing of it: LD_PRELOAD brings it in, and its functions
 * run in the thread that hits the probe. It decides (enabled) and acts (trace) there, so nothing is
 * recorded, copied or lost, and the program waits for it.
 *
 *	cc -O2 -fPIC -shared -o preload.so preload.c -lprobe
 *	PRELOAD_PROBE='shop:order(arg0)' LD_PRELOAD=./preload.so ./shop
 *
 * It prints each hit whose first argument is a multiple of PRELOAD_EVERY (default: 1). Programs
 * that the program starts get it, too; those without the probe are left alone.
 */
#define _GNU_SOURCE /* gettid(2) */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <probe/self.h>

static uint64_t every = 1;

/* Is this hit of interest? */
static bool enabled(const struct probe_self_hit *hit)
{
	return hit->arg_count && hit->args[0].u % every == 0;
}

static void trace(const struct probe_self_hit *hit, void *data)
{
	(void)data;
	if (!enabled(hit))
		return;
	fprintf(stderr, "[%d %d] %s:%s %" PRId64 "\n", (int)getpid(), (int)gettid(), hit->provider,
		hit->name, hit->args[0].i);
}

__attribute__((constructor)) static void begin(void)
{
	const char *probe = getenv("PRELOAD_PROBE"), *number = getenv("PRELOAD_EVERY");
	struct probe_error *error;

	if (number && strtoull(number, NULL, 10))
		every = strtoull(number, NULL, 10);
	error = probe ? probe_self_register(probe, trace, NULL) : NULL;
	if (error && error->code != PROBE_ERROR_NOT_FOUND)
		fprintf(stderr, "preload: %s\n", error->message);
	probe_error_free(error);
}
