/* SPDX-License-Identifier: MIT */
/* A library that a program opens after connecting its functions. */
#include <sys/sdt.h>

void poke(void);

void poke(void)
{
	STAP_PROBE(selfswitch, poked);
}
