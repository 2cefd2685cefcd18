/* SPDX-License-Identifier: MIT */
#pragma once

#include "arch/runtime.h"

/* Its code is `nop; ret`. */
static const struct arch_event event_aarch64 = {
	.elf_machine = EM_AARCH64,
	.segment_bytes = 65536,
	.args = "8@x0 8@x1",
	.code = {0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6},
	.code_length = 8,
	/* At both instructions x30 has the return address, as right after the call. */
	.cie = ARCH_CIE(30, 4, 31 /* sp */, 0),
};
