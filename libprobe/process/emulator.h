/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PROCESS_EMULATOR_H
#define LIBPROBE_PROCESS_EMULATOR_H

#include "libprobe/process/modules.h"

/*
 * The name of the emulator that executes the process's program ("valgrind", "qemu-aarch64"): it
 * translates the code in memory, which never runs itself. Written into `buffer`; NULL if there
 * is no emulator.
 */
const char *emulator_of(pid_t pid, const struct modules *modules, char buffer[64]);

#endif
