/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "arch/arch.h"

static const struct arch *const all[] = {&arch_x86_64, &arch_aarch64};

const struct arch *arch_of_machine(uint16_t elf_machine)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i]->elf_machine == elf_machine)
			return all[i];
	return NULL;
}

const struct arch *arch_of_args(uint16_t elf_machine)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (elf_machine && all[i]->elf_machine_args == elf_machine)
			return all[i];
	return arch_of_machine(elf_machine);
}

const struct arch *arch_host(void)
{
#if defined(__x86_64__)
	return &arch_x86_64;
#elif defined(__aarch64__)
	return &arch_aarch64;
#else
	return NULL;
#endif
}

uint64_t arch_signature(const struct arch *arch)
{
	return arch->process && arch->process->signature ? arch->process->signature() : 0;
}

const struct arch_process *arch_process(void)
{
	const struct arch *arch = arch_host();

	return arch ? arch->process : NULL;
}

uint64_t arch_get(const struct arch_registers *registers, enum arch_register which)
{
	int word = arch_process()->registers[which];

	return word < 0 ? UINT64_MAX : registers->words[word];
}

void arch_set(struct arch_registers *registers, enum arch_register which, uint64_t value)
{
	int word = arch_process()->registers[which];

	if (word >= 0)
		registers->words[word] = value;
}

bool arch_has_breakpoint(
	const struct arch *arch, const uint8_t *found, const uint8_t *bytes, size_t length)
{
	size_t broken = arch->breakpoint_length;

	return length >= broken && arch->is_breakpoint(found) &&
	       memcmp(found + broken, bytes + broken, length - broken) == 0;
}

enum arch_guard arch_guard(const struct arch *arch, uint64_t at, uint64_t label,
	const uint8_t *found, uint8_t out[ARCH_JUMP_MAX])
{
	size_t length = arch->jump_length, first = arch->insn_align;

	if (arch->jump(at, label, out) != length)
		return ARCH_GUARD_NONE;
	if (arch_has_breakpoint(arch, found, out, length))
		return ARCH_GUARD_COVERED;
	if (memcmp(found + first, out + first, length - first) != 0)
		return ARCH_GUARD_NONE;
	return memcmp(found, out, first) == 0		    ? ARCH_GUARD_ON
	       : memcmp(found, arch->guard_off, first) == 0 ? ARCH_GUARD_OFF
							    : ARCH_GUARD_NONE;
}

void arch_fill(const struct arch *arch, uint8_t *out, size_t length)
{
	for (size_t i = 0; i < length; i++)
		out[i] = arch->breakpoint[i % arch->breakpoint_length];
}
