/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <unistd.h>

#include <sys/sdt.h>

#include "tests/unit/room.h"
#include "tests/unit/self/self_hits.h"
#include "tests/unit/wait.h"

__attribute__((noinline, section("of_hit"))) void hit(long i)
{
	__asm__ volatile("" : : "r"(i));
	STAP_PROBE1(testcalls, hit, i);
	/* Nothing pads the end of the section. */
	ROOM();
	ROOM();
}

__attribute__((noinline)) void ping(long i)
{
	__asm__ volatile("" : : "r"(i));
	STAP_PROBE1(testcalls, ping, i);
	ROOM();
}

void self_count(const struct probe_self_hit *hit, void *data)
{
	(void)hit;
	++*(atomic_long *)data;
}

void wait_to_go(const struct probe_self_hit *hit, void *data)
{
	struct slow *slow = data;

	(void)hit;
	slow->entered++;
	wait_until(slow->go);
	slow->left++;
}

void *hit_once(void *data)
{
	(void)data;
	hit(1);
	return NULL;
}

atomic_bool hitters_done;
atomic_long hitters_passed;

void *keep_hitting(void *data)
{
	unsigned int seed = (unsigned int)(uintptr_t)data;

	while (!hitters_done) {
		void *block = malloc(100 + rand_r(&seed) % 100000);

		hit(1);
		hitters_passed++;
		ping(DEPTH);
		free(block);
	}
	return NULL;
}
