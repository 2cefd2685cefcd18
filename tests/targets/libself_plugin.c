/* SPDX-License-Identifier: MIT */
/* A library that a program opens when its functions are connected already. */
#include <sys/sdt.h>

void poke(void);

void poke(void)
{
	STAP_PROBE(selfswitch, poked);
}
