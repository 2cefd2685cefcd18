/* SPDX-License-Identifier: MIT */
#include "arch/arch.h"

const struct arch *arch_of_machine(uint16_t elf_machine)
{
	static const struct arch *const all[] = {&arch_x86_64, &arch_aarch64};
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i]->elf_machine == elf_machine)
			return all[i];
	}
	return NULL;
}
