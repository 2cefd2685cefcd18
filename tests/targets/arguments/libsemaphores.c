/* SPDX-License-Identifier: MIT */
/* The library that semaphores.c is linked with. */
#include "semaphores.h"

SEMAPHORES_DEFINE(semaphores_lib, 3)
