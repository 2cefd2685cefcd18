/* SPDX-License-Identifier: MIT */
#include "probe/version.h"

const char *probe_version(void)
{
	return PROBE_VERSION;
}
