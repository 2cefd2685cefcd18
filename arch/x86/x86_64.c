/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <elf.h>

#include "arch/arch.h"
#include "arch/x86/args.h"
#include "arch/x86/decode/argument.h"
#include "arch/x86/emit.h"
#include "arch/x86/decode/flags.h"
#include "arch/x86/decode/general.h"
#include "arch/x86/decode/insn.h"
#include "arch/x86/patch.h"
#include "arch/x86/decode/scan.h"
#include "arch/x86/stub/stub.h"

/* Operations of struct arch that check whether %rsp points to a stack (decode/registers.c). */

bool x86_64_loses_stack(const uint8_t *bytes, size_t length);
bool x86_64_may_lose_stack(const uint8_t *bytes, size_t length);

/* The numbers are from "System V ABI, AMD64 Architecture Processor Supplement", figure 3.36. */
static const struct arch_unwind_register unwind_registers[] = {
	{RSP, 7},
	{RBP, 6},
	{RBX, 3},
	{R12, 12},
	{R13, 13},
	{R14, 14},
	{R15, 15},
};

static size_t prefix_length(const uint8_t *bytes, size_t length)
{
	return x86_64_prefixes(bytes, length).length;
}

const struct arch arch_x86_64 = {
	.name = "x86-64",
	.unwind_registers = unwind_registers,
	.unwind_count = sizeof(unwind_registers) / sizeof(unwind_registers[0]),
	.frame_record_end = 16,
	.elf_machine = EM_X86_64,
	.process = &x86_64_process,
	/* notes of i386 use the names of the 32-bit registers of x86-64 */
	.elf_machine_args = EM_386,
	.parse_args = x86_64_parse_args,
	.jump_length = X86_64_JUMP_LENGTH,
	.jump_reach = UINT64_C(1) << 31,
	.far_jump_length = X86_64_FAR_JUMP_LENGTH,
	.short_jump_length = X86_64_SHORT_JUMP_LENGTH,
	.site_nop = 1,
	.breakpoint = {X86_64_BREAKPOINT},
	.breakpoint_length = 1,
	.is_breakpoint = x86_64_is_breakpoint,
	.toggle = &x86_64_toggle,
	.pun_length = X86_64_PUN_LENGTH,
	.pun = x86_64_pun,
	.part = x86_64_part,
	.twin_length = X86_64_TWIN_LENGTH,
	.twin_choices = X86_64_TWIN_CHOICES,
	.twin = x86_64_twin,
	.nop_fixed = x86_64_nop_fixed,
	.can_decode = x86_64_can_decode,
	.decode = x86_64_decode,
	.is_general = x86_64_is_general,
	.overwrites_flags = x86_64_overwrites_flags,
	.insn_align = 1,
	.scan = x86_64_scan,
	.short_reach = X86_64_SHORT_REACH,
	.short_branch = x86_64_short_branch,
	.prefix_length = prefix_length,
	.nop_length = x86_64_nop_length,
	.loses_stack = x86_64_loses_stack,
	.may_lose_stack = x86_64_may_lose_stack,
	.argument_dies = x86_64_argument_dies,
	.move = x86_64_move,
	.jump = x86_64_jump,
	.short_jump = x86_64_short_jump,
	.far_jump = x86_64_far_jump,
	.jump_target = x86_64_jump_target,
	.capturable = x86_64_capturable,
	.capture_checked = x86_64_capture_checked,
	.stub = x86_64_stub,
	.call_unwind = x86_64_call_unwind,
};
