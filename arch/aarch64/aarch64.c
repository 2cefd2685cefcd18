/* SPDX-License-Identifier: MIT */
/*
 * aarch64: probes are listed and their arguments parsed; sites are not
 * patched yet, so the patching operations are NULL.
 */
#include <elf.h>

#include "arch/aarch64/args.h"

const struct arch arch_aarch64 = {
	.name = "aarch64",
	.elf_machine = EM_AARCH64,
	.parse_args = aarch64_parse_args,
};
