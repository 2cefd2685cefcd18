/* SPDX-License-Identifier: MIT */
/* flags: -static */
/* Prints its effective user; for a copy that runs as somebody else. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	printf("%d\n", (int)geteuid());
	return 0;
}
