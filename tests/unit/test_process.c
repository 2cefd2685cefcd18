/* SPDX-License-Identifier: MIT */
/* What the instruction sets say of processes (arch/process.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"

enum { AT = 0x400000 };

static void the_kernels_numbers(void **state)
{
	(void)state;
	/* <linux/audit.h>: EM_* | __AUDIT_ARCH_64BIT | __AUDIT_ARCH_LE */
	assert_int_equal(x86_64_process.audit, 0xc000003e);
	assert_int_equal(aarch64_process.audit, 0xc00000b7);
	/* The instructions that RSEQ_SIG is made to look like: ud1, brk #0x45e0. */
	assert_int_equal(x86_64_process.rseq_signature, 0x53053053);
	assert_int_equal(aarch64_process.rseq_signature, 0xd428bc00);
	assert_ptr_equal(arch_x86_64.process, &x86_64_process);
	assert_ptr_equal(arch_aarch64.process, &aarch64_process);
}

static void a_process_is_of_this_machine(void **state)
{
	uint64_t before;

	(void)state;
	assert_non_null(arch_host());
	assert_ptr_equal(arch_process(), arch_host()->process);
	before = arch_process()->counter();
	assert_true(before <= arch_process()->counter());
	for (int i = 0; i < 2; i++) {
		const struct arch *arch = i ? &arch_x86_64 : &arch_aarch64;

		if (arch != arch_host())
			assert_null(arch->process->counter);
	}
}

static void find(const void *code, size_t size, struct arch_gadgets *ret)
{
	*ret = (struct arch_gadgets){0};
	x86_64_process.find_gadgets(code, size, AT, ret);
}

static void x86_64_finds_its_gadgets(void **state)
{
	static const uint8_t code[] = {0x90, 0x0f, 0x05, 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f,
		0x05, 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05, 0xc3, 0x0f, 0x05, 0xc3, 0x41, 0xc9, 0xc3};
	struct arch_gadgets found, none;

	(void)state;
	find(code, sizeof(code), &found);
	assert_int_equal(found.call, AT + 17); /* the first that returns */
	assert_int_equal(found.leave, AT + 24);
	assert_int_equal(found.sigreturn_count, 2);
	assert_int_equal(found.sigreturns[0], AT + 3);
	assert_int_equal(found.sigreturns[1], AT + 12);
	/* What is cut off is none; the lengths say how much shows each. */
	for (size_t size = 0; size < 3; size++)
		find(code, size, &none);
	assert_int_equal(none.call, 0);
	find(code + 17, x86_64_process.call_bytes, &found);
	assert_int_equal(found.call, AT);
	find(code + 17, x86_64_process.call_bytes - 1u, &found);
	assert_int_equal(found.call, 0);
	find(code + 24, x86_64_process.leave_bytes, &found);
	assert_int_equal(found.leave, AT);
	find(code + 3, x86_64_process.sigreturn_bytes, &found);
	assert_int_equal(found.sigreturn_count, 1);
	assert_int_equal(found.sigreturns[0], AT);
	find(code + 12, x86_64_process.sigreturn_bytes, &found);
	assert_int_equal(found.sigreturns[0], AT);
	/* What is known stays. */
	x86_64_process.find_gadgets(code, sizeof(code), 0x1000, &found);
	assert_int_equal(found.sigreturn_count, 3);
	assert_int_equal(found.call, AT + 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernels_numbers),
		cmocka_unit_test(a_process_is_of_this_machine),
		cmocka_unit_test(x86_64_finds_its_gadgets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
