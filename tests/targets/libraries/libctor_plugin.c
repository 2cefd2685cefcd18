/* SPDX-License-Identifier: MIT */
/* The library that ctor opens at run time: see ctor.c. */
#include "ctor.h"

CTOR_DEFINE(3)

int ctor_plugin_call(int value);

int ctor_plugin_call(int value)
{
	STAP_PROBE1(ctor, plugin, value);
	return value + 1;
}
