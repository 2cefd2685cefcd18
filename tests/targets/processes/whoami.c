/* SPDX-License-Identifier: MIT */
/* flags: -static */
/* Prints its effective user; for a copy with the set-user-ID bit. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	printf("%d\n", (int)geteuid());
	return 0;
}
