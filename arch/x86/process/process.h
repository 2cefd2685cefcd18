/* SPDX-License-Identifier: MIT */
/* Operations of struct arch_process that must run on x86-64 itself, and are NULL elsewhere. */
#ifndef ARCH_X86_PROCESS_PROCESS_H
#define ARCH_X86_PROCESS_PROCESS_H

#include "arch/process.h"

#if defined(__x86_64__)
#define X86_64_ON_HOST(function) (function)
#else
#define X86_64_ON_HOST(function) NULL
#endif

#endif
