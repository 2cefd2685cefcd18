/* SPDX-License-Identifier: MIT */
/* What the instruction sets say of processes (arch/process.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/user.h>

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

static int traps;

static void pass(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	traps++;
	if (arch_process()->pass_trap)
		arch_process()->pass_trap(context);
}

static void a_trap_is_passed(void **state)
{
	struct sigaction action = {.sa_sigaction = pass, .sa_flags = SA_SIGINFO}, before;

	(void)state;
	assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
	arch_process()->trap();
	arch_process()->trap();
	assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
	assert_int_equal(traps, 2);
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
	assert_int_equal(found.sigreturn, AT + 3);
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
	assert_int_equal(found.sigreturn, AT);
	find(code + 12, x86_64_process.sigreturn_bytes, &found);
	assert_int_equal(found.sigreturn, AT);
	/* What is known stays. */
	x86_64_process.find_gadgets(code, sizeof(code), 0x1000, &found);
	assert_int_equal(found.sigreturn, AT);
	assert_int_equal(found.call, AT + 5);
}

/* ---- Registers and calls ------------------------------------------------------------------ */

static void registers_are_where_the_kernel_has_them(void **state)
{
	static const uint8_t x86_64[ARCH_REGISTERS] = {
		16, 19, 4, 21, 15, 10, 10, 14, 13, 12, 7, 9, 8};
	static const int8_t aarch64[ARCH_REGISTERS] = {32, 31, 29, 34, 35, 8, 0, 0, 1, 2, 3, 4, 5};
	struct arch_registers registers = {{0}};

	(void)state;
	for (int i = 0; i < ARCH_REGISTERS; i++) {
		assert_int_equal(x86_64_process.registers[i], x86_64[i]);
		assert_int_equal(aarch64_process.registers[i], aarch64[i]);
	}
	assert_int_equal(x86_64_process.register_bytes, 27 * 8);
	assert_int_equal(aarch64_process.register_bytes, 34 * 8);
	/* All but the stack pointer, the program counter and what is no address. */
	assert_int_equal(x86_64_process.general_count, 15);
	assert_int_equal(aarch64_process.general_count, 31);
	assert_true(sizeof(struct user_regs_struct) <= sizeof(registers));
	assert_int_equal(sizeof(struct user_regs_struct), arch_process()->register_bytes);
	arch_set(&registers, ARCH_SP, 0x1234);
	arch_set(&registers, ARCH_ARG2, 77);
	assert_int_equal(arch_get(&registers, ARCH_SP), 0x1234);
	assert_int_equal(arch_get(&registers, ARCH_ARG2), 77);
	assert_int_equal(arch_get(&registers, ARCH_PC), 0);
}

static bool has(const uint16_t *numbers, size_t count, long number)
{
	for (size_t i = 0; i < count; i++)
		if (numbers[i] == number)
			return true;
	return false;
}

static void calls_have_this_machines_numbers(void **state)
{
	static const long waits[] = {SYS_epoll_pwait, SYS_semop, SYS_semtimedop, SYS_msgrcv,
		SYS_msgsnd, SYS_rt_sigtimedwait, SYS_io_getevents, SYS_read, SYS_readv, SYS_preadv2,
		SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_accept, SYS_accept4, SYS_connect,
		SYS_write, SYS_writev, SYS_pwritev2, SYS_sendto, SYS_sendmsg, SYS_sendmmsg,
		SYS_sendfile, SYS_splice, 441, 426, SYS_io_pgetevents};
	static const long blocks[] = {SYS_nanosleep, SYS_clock_nanosleep, SYS_restart_syscall};
	const struct arch_process *arch = arch_process();

	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		assert_true(has(arch->waits, arch->wait_count, waits[i]));
	for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++)
		assert_true(has(arch->blocks, arch->block_count, blocks[i]));
	assert_true(has(arch->limited_waits, arch->limited_wait_count, SYS_epoll_pwait));
	assert_false(has(arch->waits, arch->wait_count, SYS_close));
	for (size_t i = 0; i < arch->limited_wait_count; i++)
		assert_true(has(arch->waits, arch->wait_count, arch->limited_waits[i]));
}

/* ---- Frames of x86-64 ---------------------------------------------------------------------- */

enum { R15 = 0, RBP = 4, RAX = 10, RDI = 14, ORIG_RAX = 15, RIP = 16, CS = 17, RSP = 19 };

static uint64_t word_at(const uint8_t *bytes, size_t at)
{
	uint64_t word;

	memcpy(&word, bytes + at, sizeof(word));
	return word;
}

/* A thread that stands in a call (-1: in none), with the result that it has so far. */
static struct arch_registers thread_in(long call, long result)
{
	struct arch_registers r;

	for (size_t i = 0; i < ARCH_REGISTER_WORDS; i++)
		r.words[i] = 0x1000 + i;
	r.words[ORIG_RAX] = (uint64_t)call;
	r.words[RAX] = (uint64_t)result;
	r.words[CS] = 0x33;
	r.words[20] = 0x2b; /* ss */
	r.words[25] = r.words[26] = 0;
	return r;
}

static const struct arch_frame_layout *make(
	const struct arch_registers *registers, uint8_t bytes[512])
{
	struct arch_frame frame = {.registers = registers,
		.mask = 0x77,
		.state = 0x555000,
		.sigreturn = 0x666000,
		.mark = "0123456789abcde",
		.text = "a name"};

	memset(bytes, 0xee, 512);
	x86_64_process.make_frame(&frame, bytes);
	return x86_64_process.layout;
}

/* Ours has a word before what the kernel's begins with. */
static void a_frame_is_as_the_kernels(void **state)
{
	struct arch_registers r = thread_in(-1, 5);
	uint8_t bytes[512], *kernels = bytes + 8;
	const struct arch_frame_layout *layout = make(&r, bytes);

	(void)state;
	assert_int_equal(word_at(kernels, 0), 0x666000);
	assert_int_equal(word_at(kernels, layout->sp), r.words[RSP]);
	assert_int_equal(word_at(kernels, layout->pc), r.words[RIP]);
	assert_true(word_at(kernels, layout->mark) == layout->mark_word);
	assert_int_equal(word_at(kernels, layout->state), 0x555000);
	assert_int_equal((uint32_t)word_at(kernels, layout->stack_flags), ARCH_FRAME_STACK);
	assert_int_equal(word_at(kernels, 304), 0x77); /* uc_sigmask */
	assert_int_equal(word_at(kernels, 48), r.words[9]);
	assert_int_equal(word_at(kernels, 104), r.words[R15]);
	assert_int_equal(word_at(kernels, 112), r.words[RDI]);
	assert_int_equal(word_at(kernels, 128), r.words[RBP]);
	assert_int_equal(word_at(kernels, 152), 5);
	assert_string_equal((char *)bytes + x86_64_process.frame_mark, "0123456789abcde");
	assert_string_equal((char *)bytes + x86_64_process.frame_text, "a name");
	assert_int_equal(bytes[x86_64_process.frame_bytes], 0xee);
}

static void a_frame_begins_a_call_again(void **state)
{
	static const long again[] = {-512, -513, -514};
	uint8_t bytes[512], *kernels = bytes + 8;
	struct arch_registers r;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		r = thread_in(7, again[i]);
		make(&r, bytes);
		assert_int_equal(word_at(kernels, 152), 7);
		assert_int_equal(word_at(kernels, 176), r.words[RIP] - 2);
	}
	/* rt_sigreturn(2) drops a restart block; other results stay. */
	r = thread_in(7, -516);
	make(&r, bytes);
	assert_int_equal((int64_t)word_at(kernels, 152), -EINTR);
	assert_int_equal(word_at(kernels, 176), r.words[RIP]);
	r = thread_in(7, -EAGAIN);
	make(&r, bytes);
	assert_int_equal((int64_t)word_at(kernels, 152), -EAGAIN);
	r = thread_in(-1, -512);
	make(&r, bytes);
	assert_int_equal((int64_t)word_at(kernels, 152), -512);
}

static void a_thread_is_led_to_its_gadgets(void **state)
{
	static const struct arch_gadgets gadgets = {.call = 0xaaa000, .leave = 0xbbb000};
	struct arch_registers r = thread_in(7, -512), before = r;

	(void)state;
	assert_true(x86_64_process.is_native(&r));
	x86_64_process.set_call(&r, &gadgets, 0x9000, 12);
	assert_int_equal(r.words[RIP], 0xaaa000);
	assert_int_equal(r.words[RSP], 0x9008);
	assert_int_equal(r.words[RAX], 12);
	assert_true(r.words[ORIG_RAX] == UINT64_MAX);
	r = before;
	x86_64_process.set_leave(&r, &gadgets, 0x9000);
	assert_int_equal(r.words[RIP], 0xbbb000);
	assert_int_equal(r.words[RBP], 0x9000);
	assert_int_equal(r.words[RSP], before.words[RSP]);
	assert_true(r.words[ORIG_RAX] == UINT64_MAX);
	r.words[CS] = 0x23;
	assert_false(x86_64_process.is_native(&r));
}

static void a_state_says_how_long_it_is(void **state)
{
	uint8_t head[512] = {0};
	uint32_t magic = 0x46505853, size = 2696;

	(void)state;
	assert_in_range(x86_64_process.layout->state_head, 484, sizeof(head));
	assert_int_equal(x86_64_process.state_size(head), 0);
	memcpy(head + 464, &magic, sizeof(magic));
	assert_int_equal(x86_64_process.state_size(head), 0);
	memcpy(head + 480, &size, sizeof(size));
	assert_int_equal(x86_64_process.state_size(head), 2696);
	size = ARCH_STATE_MAX + 1;
	memcpy(head + 480, &size, sizeof(size));
	assert_int_equal(x86_64_process.state_size(head), 0);
}

/* ---- Frames of aarch64 --------------------------------------------------------------------- */

/* struct rt_sigframe of arch/arm64/kernel/signal.c, as far as the first record. */
struct aarch64_frame {
	uint8_t siginfo[128];
	uint64_t flags, link;
	struct {
		uint64_t address;
		uint32_t flags, unused;
		uint64_t size;
	} stack;
	uint8_t mask[128];
	_Alignas(16) uint64_t fault_address;
	uint64_t regs[31], sp, pc, pstate;
	_Alignas(16) uint32_t magic;
	uint32_t size;
};

static void aarch64s_frame_is_as_the_kernel_lays_it_out(void **state)
{
	const struct arch_frame_layout *layout = aarch64_process.layout;
	struct aarch64_frame frame = {.magic = 0x46508001, .size = 528};

	(void)state;
	assert_int_equal(layout->stack, offsetof(struct aarch64_frame, stack.address));
	assert_int_equal(layout->stack_flags, offsetof(struct aarch64_frame, stack.flags));
	assert_int_equal(layout->stack_size, offsetof(struct aarch64_frame, stack.size));
	assert_int_equal(layout->sp, offsetof(struct aarch64_frame, sp));
	assert_int_equal(layout->pc, offsetof(struct aarch64_frame, pc));
	assert_int_equal(layout->mark, offsetof(struct aarch64_frame, magic));
	assert_true(word_at((uint8_t *)&frame, layout->mark) == layout->mark_word);
	assert_int_equal(layout->bytes, layout->mark + 8);
}

/* Registers that tell which they are. */
static struct arch_registers aarch64_thread(void)
{
	struct arch_registers r;

	for (size_t i = 0; i < ARCH_REGISTER_WORDS; i++)
		r.words[i] = 0x1000 + i;
	r.words[33] = 0x80000c00; /* N; after an indirect branch */
	return r;
}

static void aarch64s_own_frame_is_the_kernels(void **state)
{
	enum { AT_KERNEL = 128, STATE = 1088 };
	struct arch_registers r = aarch64_thread();
	struct arch_frame frame = {.registers = &r,
		.mask = 0x77,
		.state = 0x555000,
		.state_bytes = STATE,
		.sigreturn = 0x666000,
		.mark = "0123456789abcde",
		.text = "a name"};
	uint8_t bytes[1024];
	struct aarch64_frame kernels;

	(void)state;
	memset(bytes, 0xee, sizeof(bytes));
	aarch64_process.make_frame(&frame, bytes);
	assert_int_equal(bytes[aarch64_process.frame_bytes], 0xee);
	assert_int_equal(aarch64_process.frame_bytes % 64, 0); /* the state follows */
	for (size_t i = 0; i < AT_KERNEL; i += 8)
		assert_int_equal(word_at(bytes, i), 0x666000);
	memcpy(&kernels, bytes + AT_KERNEL, sizeof(kernels));
	assert_int_equal(kernels.stack.flags, ARCH_FRAME_STACK);
	assert_int_equal(word_at(kernels.mask, 0), 0x77);
	assert_memory_equal(kernels.regs, r.words, 34 * 8);
	assert_int_equal(kernels.magic, 0x45585401); /* EXTRA_MAGIC */
	assert_int_equal(kernels.size, 32);
	assert_int_equal(word_at(bytes, AT_KERNEL + 600), 0x555000);
	assert_int_equal(word_at(bytes, AT_KERNEL + 608), STATE);
	assert_int_equal(word_at(bytes, AT_KERNEL + 624), 0);
	assert_string_equal((char *)bytes + aarch64_process.frame_mark, "0123456789abcde");
	assert_string_equal((char *)bytes + aarch64_process.frame_text, "a name");
}

static void aarch64s_thread_is_led_to_its_gadgets(void **state)
{
	static const struct arch_gadgets gadgets = {
		.call = 0xaaa000, .leave = 0xbbb000, .sigreturn = 0xccc000, .leave_above = 48};
	struct arch_registers r = aarch64_thread(), before = r;

	(void)state;
	assert_true(aarch64_process.is_native(&r));
	aarch64_process.set_call(&r, &gadgets, 0x9000, 12);
	assert_int_equal(r.words[32], 0xaaa004);
	assert_int_equal(r.words[31], 0x9080);
	assert_int_equal(r.words[8], 12);
	assert_int_equal(r.words[30], 0xccc000);
	assert_int_equal(r.words[7], before.words[7]);
	assert_int_equal(r.words[33], 0x80000000);
	assert_true(r.words[35] == UINT64_MAX);
	r = before;
	aarch64_process.set_leave(&r, &gadgets, 0x9000);
	assert_int_equal(r.words[32], 0xbbb000);
	assert_int_equal(r.words[29], 0x9080 - 48);
	assert_int_equal(r.words[31], before.words[31]);
	assert_int_equal(r.words[33], 0x80000000);
	assert_true(r.words[35] == UINT64_MAX);
	r.words[33] |= 0x10;
	assert_false(aarch64_process.is_native(&r));
}

static void aarch64_finds_its_gadgets(void **state)
{
	static const uint32_t code[] = {0xd4000001,
		0xd65f03c0,			    /* svc #0; ret: all calls of a libc */
		0xd2801168, 0xd4000001,		    /* 2: mov x8, #139; svc #0 */
		0x910003bf, 0xa8c27bfd, 0xd50323bf, /* 4: mov sp, x29; ldp ..., #32; autiasp */
		0xd65f03c0, 0xd2801588, 0xd4000001, /* 8: mov x8, #172; svc #0; ret */
		0xd65f03c0, 0x910003bf, 0x2a1303e0, /* 11: mov sp, x29; mov w0, w19 */
		0xa94153f3, 0xf94013f5,
		0xa8c37bfd,	      /* ldp x19, x20, [sp, #16]; ldr x21, [sp, #32] */
		0xd65f03c0, 0, 0, 0}; /* ldp x29, x30, [sp], #48; ret */
	struct arch_gadgets found = {0}, none = {0};

	(void)state;
	aarch64_process.find_gadgets((const uint8_t *)code, sizeof(code), AT, &found);
	assert_int_equal(found.call, AT + 8 * 4);
	assert_int_equal(found.sigreturn, AT + 2 * 4);
	assert_int_equal(found.leave, AT + 11 * 4);
	assert_int_equal(found.leave_above, 48);
	/* Code lies at multiples of 4; what is cut off is none. */
	aarch64_process.find_gadgets((const uint8_t *)code + 2, sizeof(code) - 2, AT + 2, &none);
	assert_int_equal(none.leave, AT + 11 * 4);
	none = (struct arch_gadgets){0};
	aarch64_process.find_gadgets(
		(const uint8_t *)&code[11], aarch64_process.leave_bytes - 1u, AT, &none);
	assert_int_equal(none.leave, 0);
	aarch64_process.find_gadgets(
		(const uint8_t *)&code[11], aarch64_process.leave_bytes, AT, &none);
	assert_int_equal(none.leave, AT);
	aarch64_process.find_gadgets(
		(const uint8_t *)&code[8], aarch64_process.call_bytes - 1u, AT, &none);
	assert_int_equal(none.call, 0);
	aarch64_process.find_gadgets(
		(const uint8_t *)&code[8], aarch64_process.call_bytes, AT, &none);
	assert_int_equal(none.call, AT);
}

/* A pattern in vectors of 32 bytes, as ptrace(2) has it, and the records of it. */
static void aarch64s_state_is_all_records(void **state)
{
	enum { VL = 32, HEADER = 16, REGS = 32 * VL + 17 * VL / 8, STATUS = HEADER + 1104 };
	static uint8_t regs[ARCH_STATE_MAX], kept[ARCH_STATE_MAX];
	const uint16_t lengths[4] = {VL, VL, 1, 0}; /* vl, max_vl, flags: all of SVE */
	size_t size;

	(void)state;
	for (size_t i = 0; i < sizeof(regs); i++)
		regs[i] = (uint8_t)(i * 7 + i / 256);
	memcpy(regs + 8, lengths, sizeof(lengths));
	memcpy(kept, regs, sizeof(kept));
	size = aarch64_process.make_state(regs, STATUS + 16, &(struct arch_state){0});
	assert_int_equal(size, 528 + 16 + 1104 + 16);
	assert_true(word_at(regs, 0) == UINT64_C(0x0000021046508001));
	assert_memory_equal(regs + 8, kept + STATUS, 8); /* fpsr, fpcr */
	for (size_t i = 0; i < 32; i++)
		assert_memory_equal(regs + 16 + 16 * i, kept + HEADER + VL * i, 16);
	assert_int_equal((uint32_t)word_at(regs, 528), 0x53564501);
	assert_int_equal(word_at(regs, 528) >> 32, 16 + 1104);
	assert_int_equal(word_at(regs, 536), VL);
	assert_memory_equal(regs + 544, kept + HEADER, REGS);
	assert_int_equal(word_at(regs, size - 16), 0);
	/* What is cut off is none. */
	memcpy(regs, kept, sizeof(kept));
	assert_int_equal(aarch64_process.make_state(regs, STATUS, &(struct arch_state){0}), 0);
	/* The low 128 bits alone: of SVE's regset, and of the other one. */
	memset(regs + 8, 0, 8);
	assert_int_equal(
		aarch64_process.make_state(regs, 16 + 528, &(struct arch_state){0}), 528 + 16);
	assert_memory_equal(regs + 16, kept + 16, 512);
	memcpy(regs, kept, sizeof(kept));
	assert_int_equal(aarch64_process.make_state(regs, 528, &(struct arch_state){0}), 528 + 16);
	assert_memory_equal(regs + 16, kept, 512);
	assert_memory_equal(regs + 8, kept + 512, 8);
	assert_int_equal(aarch64_process.make_state(regs, 527, &(struct arch_state){0}), 0);
}

/* The matrix of SME, and vectors of its streaming mode. */
static void aarch64_cannot_keep_all(void **state)
{
	const struct {
		uint32_t size, max_size;
		uint16_t vl, max_vl, flags, reserved;
	} off = {16, 4112, 64, 64, 0, 0}, on = {4112, 4112, 64, 64, 1, 0};

	(void)state;
	for (size_t i = 0; i < aarch64_process.unkept_count; i++) {
		int regset = aarch64_process.unkept[i];

		assert_false(aarch64_process.is_unkept(regset, (const uint8_t *)&off));
		assert_true(aarch64_process.is_unkept(regset, (const uint8_t *)&on));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernels_numbers),
		cmocka_unit_test(a_process_is_of_this_machine),
		cmocka_unit_test(a_trap_is_passed),
		cmocka_unit_test(x86_64_finds_its_gadgets),
		cmocka_unit_test(registers_are_where_the_kernel_has_them),
		cmocka_unit_test(calls_have_this_machines_numbers),
		cmocka_unit_test(a_frame_is_as_the_kernels),
		cmocka_unit_test(a_frame_begins_a_call_again),
		cmocka_unit_test(a_thread_is_led_to_its_gadgets),
		cmocka_unit_test(a_state_says_how_long_it_is),
		cmocka_unit_test(aarch64s_frame_is_as_the_kernel_lays_it_out),
		cmocka_unit_test(aarch64s_own_frame_is_the_kernels),
		cmocka_unit_test(aarch64s_thread_is_led_to_its_gadgets),
		cmocka_unit_test(aarch64_finds_its_gadgets),
		cmocka_unit_test(aarch64s_state_is_all_records),
		cmocka_unit_test(aarch64_cannot_keep_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
