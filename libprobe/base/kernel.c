/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <sys/utsname.h>

#include "libprobe/base/kernel.h"

bool kernel_is_since(int major, int minor)
{
	struct utsname name;
	int its_major, its_minor;

	return uname(&name) == 0 && sscanf(name.release, "%d.%d", &its_major, &its_minor) == 2 &&
	       (its_major > major || (its_major == major && its_minor >= minor));
}
