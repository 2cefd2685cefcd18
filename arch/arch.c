/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "arch/arch.h"
#include "libprobe/base/array.h"

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

void arch_fill(const struct arch *arch, uint8_t *out, size_t length)
{
	for (size_t i = 0; i < length; i++)
		out[i] = arch->breakpoint[i % arch->breakpoint_length];
}

/* ==== Moving and searching code =============================================================== */

enum arch_move_status arch_move_inside(enum arch_flow flow)
{
	if (flow == ARCH_FLOW_NONE || flow == ARCH_FLOW_BRANCH)
		return ARCH_MOVE_OK;
	return flow == ARCH_FLOW_CALL || flow == ARCH_FLOW_INDIRECT_CALL ? ARCH_MOVE_CALL_INSIDE
									 : ARCH_MOVE_FLOW_INSIDE;
}

void arch_windows_init(
	struct arch_windows *windows, const uint64_t *sites, size_t count, uint8_t jump_length)
{
	*windows =
		(struct arch_windows){.sites = sites, .count = count, .jump_length = jump_length};
	for (size_t i = 0; i < count; i++)
		for (uint8_t k = 1; k < jump_length; k++) {
			uint64_t bit = (sites[i] + k) >> 2 & ((1 << WINDOWS_FILTER_BITS) - 1);

			windows->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
		}
}

size_t arch_windows_find(const struct arch_windows *windows, uint64_t address)
{
	uint64_t bit = address >> 2 & ((1 << WINDOWS_FILTER_BITS) - 1);
	size_t above; /* the first site at or above the address */

	if (!(windows->filter[bit / 64] >> (bit % 64) & 1))
		return SIZE_MAX;
	above = array_search(windows->sites, windows->count, sizeof(*windows->sites), 0, address);
	if (above > 0 && address - windows->sites[above - 1] < windows->jump_length)
		return above - 1;
	return SIZE_MAX;
}

bool arch_scan_target(const struct arch_scan *scan, uint64_t target)
{
	const struct arch_windows *w = scan->windows;
	size_t found = arch_windows_find(w, target);

	for (size_t i = found; i != SIZE_MAX && target - w->sites[i] < w->jump_length; i--)
		scan->reference(scan->data, i, target);
	return found != SIZE_MAX;
}
