/* SPDX-License-Identifier: MIT */
/* A library whose probe, lacking:two, has one argument; that of the program has two. */
#include <sys/sdt.h>

#include "../target.h"

void late(long i);

void late(long i)
{
	STAP_PROBE1(lacking, two, i);
	target_room_behind();
}
