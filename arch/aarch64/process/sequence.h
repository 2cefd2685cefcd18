/* SPDX-License-Identifier: MIT */
#ifndef ARCH_AARCH64_PROCESS_SEQUENCE_H
#define ARCH_AARCH64_PROCESS_SEQUENCE_H

#include <stdint.h>

#include "arch/process.h"

#endif
