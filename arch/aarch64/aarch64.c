/* SPDX-License-Identifier: MIT */
/*
 * The operations of aarch64: it can list probes, parse their arguments, patch their sites, and
 * generate all stubs, including those that call functions.
 */
#include <elf.h>

#include "arch/aarch64/args.h"
#include "arch/aarch64/decode.h"
#include "arch/aarch64/emit.h"
#include "arch/aarch64/encoding.h"
#include "arch/aarch64/general.h"
#include "arch/aarch64/move.h"
#include "arch/aarch64/patch.h"
#include "arch/aarch64/scan.h"
#include "arch/aarch64/stub/stub.h"

/*
 * The registers from which unwinding starts, with their DWARF numbers. Source: "DWARF for the Arm
 * 64-bit Architecture", section 4.1.
 */
static const struct arch_unwind_register unwind_registers[] = {
	{A64_SP, 31},
	{29, 29},
	{30, 30},
	{19, 19},
	{20, 20},
	{21, 21},
	{22, 22},
	{23, 23},
	{24, 24},
	{25, 25},
	{26, 26},
	{27, 27},
	{28, 28},
};

const struct arch arch_aarch64 = {
	.name = "aarch64",
	.unwind_registers = unwind_registers,
	.unwind_count = sizeof(unwind_registers) / sizeof(unwind_registers[0]),
	.unwind_return = 2,
	.elf_machine = EM_AARCH64,
	.process = &aarch64_process,
	.parse_args = aarch64_parse_args,
	.jump_length = AARCH64_INSN_LENGTH,
	.jump_reach = UINT64_C(1) << 27,
	.site_nop = AARCH64_INSN_LENGTH,
	.breakpoint = {0x00, 0x00, 0x20, 0xd4}, /* brk #0 */
	.breakpoint_length = AARCH64_INSN_LENGTH,
	.is_breakpoint = aarch64_is_breakpoint,
	.decode = aarch64_decode,
	.is_general = aarch64_is_general,
	.insn_align = AARCH64_INSN_LENGTH,
	.scan = aarch64_scan,
	.scan_function = aarch64_scan_function,
	.nop_length = aarch64_nop_length,
	.move = aarch64_move,
	.jump = aarch64_jump,
	.jump_target = aarch64_jump_target,
	.is_function_call = aarch64_is_function_call,
	.capturable = aarch64_capturable,
	.capture_checked = aarch64_capture_checked,
	.stub = aarch64_stub,
	.call_unwind = aarch64_call_unwind,
};
