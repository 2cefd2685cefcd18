/* SPDX-License-Identifier: MIT */
#ifndef ARCH_AARCH64_PROCESS_SEQUENCE_H
#define ARCH_AARCH64_PROCESS_SEQUENCE_H

#include <stdint.h>

#include "arch/process.h"

/* See `sequence` of struct arch_process. Only on aarch64 itself. */
enum arch_sequence aarch64_sequence(
	void *area, uint32_t *begun, const uint32_t *told, uint64_t rounds);

#endif
