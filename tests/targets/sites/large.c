/* SPDX-License-Identifier: MIT */
/*
 * flags: -D_GNU_SOURCE
 *
 * large:hit, in a program that is larger than a jump reaches, most of it variables.
 */
#include <sys/sdt.h>

#include "passes.h"

#ifdef __x86_64__
__asm__(".pushsection .lbss, \"aw\", @nobits\n"
	".zero 0x88000000\n"
	".popsection");
#else
__asm__(".pushsection .bss\n"
	".zero 0x10000000\n"
	".popsection");
#endif

__attribute__((noinline)) static uint64_t hit(uint64_t value)
{
	STAP_PROBE1(large, hit, value);
	target_room_behind();
	return value + 10;
}

int main(void)
{
	static uint64_t (*const functions[])(uint64_t) = {hit};
	struct passes passes = {.functions = functions, .count = 1};

	return passes_run(&passes);
}
