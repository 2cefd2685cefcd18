/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_BASE_KERNEL_H
#define LIBPROBE_BASE_KERNEL_H

#include <stdbool.h>

/* Is Linux of this version, or a later one, as uname(2) tells? False if it does not tell. */
bool kernel_is_since(int major, int minor);

#endif
