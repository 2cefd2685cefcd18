/* SPDX-License-Identifier: MIT */
/* This function has a file of its own, so that tests can replace it by another page size. */
#include <unistd.h>

#include "libprobe/base/page.h"

uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}
