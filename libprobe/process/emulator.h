/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PROCESS_EMULATOR_H
#define LIBPROBE_PROCESS_EMULATOR_H

#include "libprobe/process/modules.h"

/*
 * What executes the process's program in the processor's place ("valgrind",
 * "qemu-aarch64"): the code in memory is translated, and never runs itself. Written
 * into `buffer`; NULL where there is nothing of that kind.
 */
const char *emulator_of(pid_t pid, const struct modules *modules, char buffer[64]);

#endif
