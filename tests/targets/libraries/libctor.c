/* SPDX-License-Identifier: MIT */
/* The library that ctor is linked with: see ctor.c. */
#include "ctor.h"

CTOR_DEFINE(2)

int ctor_lib_call(int value);

int ctor_lib_call(int value)
{
	STAP_PROBE1(ctor, call, value);
	return value + 1;
}
