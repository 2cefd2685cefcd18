/* SPDX-License-Identifier: MIT */
/* Processes of x86-64 on Linux: see arch/process.h. */
#include <linux/audit.h>
#include <string.h>

#include "arch/process.h"
#include "arch/x86/process.h"

/* ---- Code that every process has --------------------------------------------------------- */

/*
 * `syscall; ret` and the call of rt_sigreturn(2), where signal handlers return to, are in libc;
 * `leave; ret` may lie within other instructions.
 */
static const uint8_t leave_ret[] = {0xc9, 0xc3};
static const uint8_t mov64[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0}; /* mov $15,%rax */
static const uint8_t mov32[] = {0xb8, 0x0f, 0, 0, 0};		  /* mov $15,%eax */
enum { RET = 0xc3, SYSCALL_FIRST = 0x0f, SYSCALL_SECOND = 0x05, SYSCALL_BYTES = 2 };

/* `syscall` at `at`, between `start` and `end`: what it is good for. */
static void judge_syscall(struct arch_gadgets *gadgets, const uint8_t *start, const uint8_t *at,
	const uint8_t *end, uint64_t address)
{
	size_t length = 0;

	if (end - at > SYSCALL_BYTES && at[SYSCALL_BYTES] == RET && !gadgets->call)
		gadgets->call = address;
	if (at - start >= (ptrdiff_t)sizeof(mov64) &&
		memcmp(at - sizeof(mov64), mov64, sizeof(mov64)) == 0)
		length = sizeof(mov64);
	else if (at - start >= (ptrdiff_t)sizeof(mov32) &&
		 memcmp(at - sizeof(mov32), mov32, sizeof(mov32)) == 0)
		length = sizeof(mov32);
	if (length && gadgets->sigreturn_count < ARCH_SIGRETURNS_MAX)
		gadgets->sigreturns[gadgets->sigreturn_count++] = address - length;
}

static void find_gadgets(
	const uint8_t *code, size_t size, uint64_t address, struct arch_gadgets *gadgets)
{
	const uint8_t *end = code + size, *at;

	if (size < SYSCALL_BYTES)
		return;
	/* 05 is the rarer one of the two bytes of `syscall`. */
	for (at = code + 1; (at = memchr(at, SYSCALL_SECOND, (size_t)(end - at))); at++)
		if (at[-1] == SYSCALL_FIRST)
			judge_syscall(
				gadgets, code, at - 1, end, (uint64_t)(at - 1 - code) + address);
	at = memmem(code, size, leave_ret, sizeof(leave_ret));
	if (at && !gadgets->leave)
		gadgets->leave = (uint64_t)(at - code) + address;
}

/* ---- The table ------------------------------------------------------------------------------ */

const struct arch_process x86_64_process = {
	.audit = AUDIT_ARCH_X86_64,
	.rseq_signature = 0x53053053,
	.address_end = UINT64_C(0x7fffffff0000),
	.shadow_stack_line = "x86_Thread_features:",
	.shadow_stack_word = "shstk",
	.find_gadgets = find_gadgets,
	.call_bytes = SYSCALL_BYTES + 1,
	.leave_bytes = sizeof(leave_ret),
	.sigreturn_bytes = sizeof(mov64) + SYSCALL_BYTES,
	.counter = X86_64_ON_HOST(x86_64_counter),
	.trap = X86_64_ON_HOST(x86_64_trap),
};
