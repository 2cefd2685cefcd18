/* SPDX-License-Identifier: MIT */
/*
 * Moved code must have the same effect as the original: here both run.
 *
 * The cases below are assembled into a block, which is copied to several places of the address
 * space (what a call pushes depends on them):
 *
 *	block	cases, callees		read and execute
 *		case_data		read and write, reset before each run
 *	+1 MiB	the copy in the stub	read and execute
 *	+2 MiB	stack			read and write
 *
 * Each case runs twice from the same registers: unchanged, and with a jump to its moved
 * instructions at its site and int3 in the rest of the displaced bytes. Then all registers, the
 * flags, the data and the stack, including what was left below its top, must be equal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "arch/x86/decode/insn.h"
#include "tests/unit/skip.h"

#if defined(__x86_64__)

enum {
	PAGE = 4096,
	STUB_OFFSET = 1 << 20,
	STACK_OFFSET = 2 << 20,
	ARENA_BYTES = (2 << 20) + PAGE,
	SEEDS = 16
};

/* In the order of register numbers; run_code() and run_exit know the offsets. */
struct cpu {
	uint64_t gpr[16];
	uint64_t flags;
	uint64_t target; /* where to begin */
	uint8_t xmm[4][16];
};

enum { RSP = 4, RBP = 5, RSI = 6, RDI = 7, RBX = 3, RCX = 1 };

struct case_entry {
	uint32_t start; /* offsets from case_block */
	uint32_t site;
	char name[56];
};

extern const uint8_t case_block[], case_data[], case_block_end[];
extern const struct case_entry case_table[], case_table_end[];

void run_code(struct cpu *cpu);
extern char run_exit[];

/* clang-format off */
__asm__(
"	.text\n"
"run_code:\n"
"	push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
"	mov %rsp, run_host_stack(%rip)\n"
"	mov %rdi, run_cpu(%rip)\n"
"	mov %rdi, %rax\n"
"	movups 144(%rax), %xmm0; movups 160(%rax), %xmm1\n"
"	movups 176(%rax), %xmm2; movups 192(%rax), %xmm3\n"
"	push 128(%rax); popf\n"
"	mov 136(%rax), %rcx; mov %rcx, run_target(%rip)\n"
"	mov 8(%rax), %rcx; mov 16(%rax), %rdx; mov 24(%rax), %rbx; mov 32(%rax), %rsp\n"
"	mov 40(%rax), %rbp; mov 48(%rax), %rsi; mov 56(%rax), %rdi; mov 64(%rax), %r8\n"
"	mov 72(%rax), %r9; mov 80(%rax), %r10; mov 88(%rax), %r11; mov 96(%rax), %r12\n"
"	mov 104(%rax), %r13; mov 112(%rax), %r14; mov 120(%rax), %r15; mov (%rax), %rax\n"
"	jmp *run_target(%rip)\n"
"run_exit:\n"
"	mov %rax, run_target(%rip)\n"
"	mov run_cpu(%rip), %rax\n"
"	mov %rcx, 8(%rax); mov %rdx, 16(%rax); mov %rbx, 24(%rax); mov %rsp, 32(%rax)\n"
"	mov %rbp, 40(%rax); mov %rsi, 48(%rax); mov %rdi, 56(%rax); mov %r8, 64(%rax)\n"
"	mov %r9, 72(%rax); mov %r10, 80(%rax); mov %r11, 88(%rax); mov %r12, 96(%rax)\n"
"	mov %r13, 104(%rax); mov %r14, 112(%rax); mov %r15, 120(%rax)\n"
"	movups %xmm0, 144(%rax); movups %xmm1, 160(%rax)\n"
"	movups %xmm2, 176(%rax); movups %xmm3, 192(%rax)\n"
"	mov run_host_stack(%rip), %rsp\n"
"	pushf; pop 128(%rax); cld\n"
"	mov run_target(%rip), %rcx; mov %rcx, (%rax)\n"
"	pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
"	ret\n"
"	.local run_host_stack, run_cpu, run_target\n"
"	.comm run_host_stack, 8, 8\n"
"	.comm run_cpu, 8, 8\n"
"	.comm run_target, 8, 8\n");

/* A case: code that runs before the site, the code at the site and after it. */
#define CASE(name, before, code)                                                   \
	"	.pushsection .case_table, \"a\"\n"                                 \
	"	.long 10f - case_block, 11f - case_block\n"                        \
	"12:	.asciz \"" name "\"\n"                                             \
	"	.org 12b + 56\n"                                                   \
	"	.popsection\n"                                                     \
	"10:	" before "\n"                                                      \
	"11:	" code "\n"                                                        \
	"	jmp *exit_pointer(%rip)\n"

/* %rdi, %rsi and %rbx point to buffers in the data, %rbp and %rsp into the stack. */
__asm__(
"	.pushsection .case_table, \"a\"\n"
"	.balign 8\n"
"case_table:\n"
"	.popsection\n"
"	.pushsection .text.cases, \"ax\"\n"
"	.balign 4096\n"
"case_block:\n"
"callee:\n" /* shows its return address and its stack argument */
"	mov (%rsp), %r10; mov 8(%rsp), %r11; lea 1(%rdi,%r8), %rax; pushf; pop %r9; cmp %rdx, %rsi; ret\n"
"callee_pop:\n"
"	mov (%rsp), %r10; xor %eax, %r8d; ret $8\n"
CASE("nop mov", "", "nop; mov %rdi, %rax; mov %rsi, %rdx")
CASE("register arithmetic", "", "nop; add %rax, %rdx; adc $77, %r8; sbb %r9d, %r10d")
CASE("lea rip", "", "nop; lea numbers(%rip), %rax; mov 8(%rax), %rdx")
CASE("lea rip, own site", "", "11: nop; lea 11b(%rip), %rax")
CASE("mov rip load", "", "nop; mov numbers+8(%rip), %r11; mov numbers(%rip), %r12d")
CASE("mov rip store", "", "nop; mov %r9, scratch+8(%rip); movb %al, scratch(%rip)")
CASE("mov rip store imm32", "", "movq $-559038737, scratch(%rip)")
CASE("mov rip store imm16", "", "movw $0x1234, scratch+2(%rip); movb $5, scratch+1(%rip)")
CASE("cmp rip imm8", "", "nop; cmpl $5, numbers(%rip); setg %al")
CASE("cmp rip imm32", "", "nop; cmpq $0x12345678, numbers(%rip); setb %al")
CASE("cmp rip byte", "", "nop; cmpb $0, numbers+3(%rip); sete %al")
CASE("cmp16 rip imm16", "", "nop; cmpw $0x1122, numbers(%rip); sete %al")
CASE("test rip", "", "nop; test %rdx, numbers(%rip); sets %cl; testl $-2, numbers+4(%rip)")
CASE("add rip flags", "", "nop; addq $-3, scratch(%rip); adc numbers(%rip), %rax")
CASE("lock xadd rip", "", "nop; lock xadd %rax, scratch(%rip)")
CASE("imul rip", "", "nop; imul $1000, numbers(%rip), %rdx")
CASE("cmov rip", "", "nop; cmovb numbers(%rip), %rax; cmovno %rcx, %rdx")
CASE("bt, shld", "", "nop; shld $3, %rax, %rdx; bts $9, %r13; rcr $2, %r14")
CASE("movzx movsx rip", "", "nop; movzbl numbers+1(%rip), %eax; movslq numbers(%rip), %rdx")
CASE("movsd rip", "", "nop; movsd constants(%rip), %xmm0; addsd constants+8(%rip), %xmm0")
CASE("movaps rip", "", "movaps constants(%rip), %xmm1; pshufd $0x1b, constants(%rip), %xmm2")
CASE("ucomisd rip", "", "nop; ucomisd constants(%rip), %xmm3; setp %al; pinsrw $3, numbers(%rip), %xmm0")
CASE("movdqa rip store", "", "nop; movdqa %xmm0, scratch(%rip)")
CASE("jcc short forward", "", "nop; jb 1f; nop; inc %rax; 1: inc %rdx")
CASE("jcc near forward", "", "nop; jo 1f; inc %rax; .skip 200, 0x90; 1: inc %rdx")
CASE("jcc all", "test %rcx, %rcx", "je 1f; js 1f; jp 1f; inc %rax; 1: inc %rdx")
CASE("jcc jcc signed", "cmp %rax, %rdx", "nop; jl 1f; jg 2f; inc %rbx; 1: inc %rbx; 2: inc %rbx")
CASE("jcc hint", "cmp %rax, %rdx", ".byte 0x3e; jae 1f; nop; nop; inc %rbx; 1: dec %rax")
CASE("jcc bnd", "", ".byte 0xf2; jae 1f; nop; nop; inc %rbx; 1: dec %rax")
CASE("loop over own site", "mov $5, %ecx; xor %eax, %eax",
	"11: nop; add %rcx, %rax; dec %ecx; jnz 11b")
CASE("branch back to site among the moved", "mov $5, %ecx", "11: dec %ecx; jnz 11b; nop; nop")
CASE("jmp short last", "", "nop; mov %rcx, %rax; jmp 1f; ud2; 1: inc %rdx")
CASE("jmp near last", "", "jmp 1f; ud2; .skip 300, 0xcc; 1: inc %rdx")
CASE("jmp bnd", "", "nop; nop; .byte 0xf2; jmp 1f; ud2; 1: inc %rdx")
CASE("jmp register", "lea 1f(%rip), %r12", "nop; nop; jmp *%r12; ud2; 1: inc %rdx")
CASE("jmp notrack register", "lea 1f(%rip), %rax", "nop; nop; notrack jmp *%rax; ud2; 1: inc %rdx")
CASE("jmp rip", "lea 1f(%rip), %rax; mov %rax, scratch(%rip)", "jmp *scratch(%rip); ud2; 1: inc %rdx")
CASE("jmp table", "lea 1f(%rip), %rax; mov %rax, 16(%rbx); mov $2, %ecx",
	"nop; nop; jmp *(%rbx,%rcx,8); ud2; 1: inc %rdx")
CASE("jmp stack", "lea 1f(%rip), %rax; mov %rax, -8(%rsp)", "nop; jmp *-8(%rsp); ud2; 1: inc %rdx")
CASE("call direct", "", "call callee; inc %rdx")
CASE("call direct behind mov", "", "nop; mov %rsi, %rdi; call callee; inc %rdx")
CASE("call with stack argument", "push %rdx", "nop; push %r15; call callee; pop %r14; pop %r13")
CASE("call callee pops", "push %rdx; push %rcx", "nop; call callee_pop; pop %r13")
CASE("call with prefixes of tls", "", "nop; .byte 0x66, 0x66, 0x48; call callee; inc %rdx")
CASE("call addr32", "", "nop; .byte 0x67; call callee; inc %rdx")
CASE("call bnd", "", "nop; .byte 0xf2; call callee; inc %rdx")
CASE("call next", "", "nop; call 1f; 1: pop %rax")
CASE("call register", "lea callee(%rip), %rax", "nop; mov %rsi, %rdi; call *%rax; inc %rdx")
CASE("call register 12", "lea callee(%rip), %r12", "nop; mov %rsi, %rdi; call *%r12; inc %rdx")
CASE("call notrack", "lea callee(%rip), %rbx", "nop; mov %rsi, %rdi; notrack call *%rbx; inc %rdx")
CASE("call memory", "lea callee(%rip), %rax; mov %rax, (%rbx)", "nop; mov %rsi, %rdi; call *(%rbx); inc %rdx")
CASE("call memory disp8", "lea callee(%rip), %rax; mov %rax, 24(%rbx)", "nop; nop; call *24(%rbx); inc %rdx")
CASE("call memory disp32", "lea callee(%rip), %rax; mov %rax, 512(%rdi)", "nop; call *512(%rdi); inc %rdx")
CASE("call memory r12", "mov %rbx, %r12; lea callee(%rip), %rax; mov %rax, 8(%r12)", "nop; call *8(%r12)")
CASE("call memory r13", "mov %rbx, %r13; lea callee(%rip), %rax; mov %rax, (%r13)", "nop; call *(%r13)")
CASE("call table", "lea callee(%rip), %rax; mov %rax, 24(%rbx); mov $3, %ecx",
	"nop; nop; call *(%rbx,%rcx,8); inc %rdx")
CASE("call rbp", "lea callee(%rip), %rax; mov %rax, -24(%rbp)", "nop; nop; call *-24(%rbp); inc %rdx")
CASE("call rip", "lea callee(%rip), %rax; mov %rax, scratch+8(%rip)", "nop; call *scratch+8(%rip); inc %rdx")
CASE("call stack", "lea callee(%rip), %rax; push %rax", "nop; nop; call *(%rsp); inc %rdx")
CASE("call stack disp8", "lea callee(%rip), %rax; push %rax; push %rbx", "nop; call *8(%rsp); inc %rdx")
CASE("call stack disp8 grows", "lea callee(%rip), %rax; mov %rax, 120(%rsp)", "nop; call *120(%rsp); inc %rdx")
CASE("call stack disp32", "lea callee(%rip), %rax; mov %rax, 256(%rsp)", "nop; call *256(%rsp)")
CASE("call stack below the slot", "lea callee(%rip), %rax; mov %rax, -16(%rsp)", "nop; call *-16(%rsp)")
CASE("call stack index", "lea callee(%rip), %rax; mov %rax, 24(%rsp); mov $2, %ecx",
	"nop; call *8(%rsp,%rcx,8); inc %rdx")
CASE("ret last", "lea 1f(%rip), %rax; push %rax", "nop; xor %ebx, %ebx; pop %r9; push %r9; ret; ud2; 1: inc %rdx")
CASE("ret imm last", "push %rdx; lea 1f(%rip), %rax; push %rax", "nop; nop; ret $8; ud2; 1: inc %rdx")
CASE("rep ret", "lea 1f(%rip), %rax; push %rax", "mov %rax, %rdx; rep ret; ud2; 1: inc %rdx")
CASE("jmp before padding", "", "nop; jmp 1f; nopl 0(%rax); 1: inc %rdx")
CASE("ret before padding", "lea 1f(%rip), %rax; push %rax", "nop; ret; nopw 0(%rax,%rax,1); ud2; 1: inc %rdx")
CASE("push pop", "", "nop; push %rax; push %r9; pop %rdx; pop %rcx")
CASE("push rip, push imm", "", "push numbers(%rip); push $-7; pop %rax; pop %rdx")
CASE("push rsp, sub rsp", "", "nop; push %rsp; sub $24, %rsp; lea 8(%rsp), %rax")
CASE("leave enter", "", "nop; push %rbp; mov %rsp, %rbp; sub $16, %rsp; leave")
CASE("red zone", "", "mov %rax, -8(%rsp); mov %rcx, -128(%rsp); mov -8(%rsp), %rdx")
CASE("rep movsb", "mov $13, %ecx", "nop; rep movsb; mov %rdi, %rax")
CASE("rep stosq, std", "mov $3, %ecx", "nop; std; rep stosq; cld")
CASE("repe cmpsb", "mov $9, %ecx", "nop; repe cmpsb; sete %al")
CASE("pushf popf", "", "pushf; orb $0x41, (%rsp); popf; nop")
CASE("long nops", "", "nopw 0(%rax,%rax,1); inc %rax")
CASE("endbr64", "", "nop; endbr64; inc %rax")
CASE("div", "mov $7, %ecx; xor %edx, %edx", "nop; div %rcx; mov %rax, %r8")
CASE("bswap movabs", "", "nop; movabs $0x1122334455667788, %r10; bswap %r10")
CASE("xlat cpuid", "and $15, %eax", "nop; xlat; lahf; seto %bl")
CASE("x87 rip", "", "nop; fldl constants(%rip); fstpl scratch(%rip)")
CASE("cmpxchg16b rip", "", "nop; lock cmpxchg16b scratch(%rip)")
"	.balign 4096\n"
"case_data:\n"
"exit_pointer: .quad 0\n"
"numbers: .quad 0x1122334455667788, 0x8877665544332211\n"
"	.balign 16\n"
"constants: .double 3.5, -1.25\n"
"scratch: .quad 1, 2, 3, 4\n"
"	.balign 4096, 0x5a\n"
"case_block_end:\n"
"	.popsection\n"
"	.pushsection .case_table, \"a\"\n"
"case_table_end:\n"
"	.popsection\n");
/* clang-format on */

/* The state after a run. */
struct outcome {
	struct cpu cpu;
	uint8_t data[PAGE];
	uint8_t stack[PAGE];
};

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void protect(void *at, size_t length, int protection)
{
	assert_int_equal(mprotect(at, length, protection), 0);
}

static void prepare(uint8_t *arena, uint64_t seed, struct cpu *ret)
{
	uint8_t *data = arena + (case_data - case_block), *stack = arena + STACK_OFFSET;
	uint64_t exit_address = (uint64_t)(uintptr_t)run_exit, at = (uint64_t)(uintptr_t)data;

	memcpy(data, case_data, PAGE);
	memcpy(data, &exit_address, sizeof(exit_address));
	memset(ret, 0, sizeof(*ret));
	seed = seed * 0x9e3779b97f4a7c15 + 1;
	for (size_t i = 0; i < 16; i++)
		ret->gpr[i] = random_next(&seed);
	for (size_t i = 256; i < PAGE; i++)
		data[i] = (uint8_t)random_next(&seed);
	memset(stack, 0xa5, PAGE);
	ret->flags = 0x202 | (random_next(&seed) & 0x8d5);
	for (size_t i = 0; i < sizeof(ret->xmm); i++)
		ret->xmm[i / 16][i % 16] = (uint8_t)random_next(&seed);
	ret->gpr[RCX] &= 15;
	ret->gpr[RDI] = at + 0x400;
	ret->gpr[RSI] = at + 0x800;
	ret->gpr[RBX] = at + 0xc00;
	ret->gpr[RBP] = (uint64_t)(uintptr_t)stack + 0xc00;
	ret->gpr[RSP] = (uint64_t)(uintptr_t)stack + 0x800;
}

static void run(uint8_t *arena, const struct case_entry *entry, uint64_t seed, struct outcome *ret)
{
	prepare(arena, seed, &ret->cpu);
	ret->cpu.target = (uint64_t)(uintptr_t)arena + entry->start;
	run_code(&ret->cpu);
	memcpy(ret->data, arena + (case_data - case_block), PAGE);
	memcpy(ret->stack, arena + STACK_OFFSET, PAGE);
}

/* Moves the code at the site and puts a jump there. */
static enum arch_move_status patch(uint8_t *arena, const struct case_entry *entry)
{
	uint8_t *site = arena + entry->site, *stub = arena + STUB_OFFSET;
	uint64_t from = (uint64_t)(uintptr_t)site, to = (uint64_t)(uintptr_t)stub;
	size_t code_bytes = case_data - case_block;
	struct arch_moved moved;
	enum arch_move_status status;

	status = arch_x86_64.move(
		site, code_bytes - entry->site, from, to, X86_64_JUMP_LENGTH, &moved);
	if (status != ARCH_MOVE_OK && !(status == ARCH_MOVE_FLOW_INSIDE && moved.padding))
		return status;
	protect(stub, PAGE, PROT_READ | PROT_WRITE);
	memset(stub, 0xcc, PAGE);
	memcpy(stub, moved.code, moved.code_length);
	if (moved.falls_through)
		assert_int_not_equal(arch_x86_64.jump(to + moved.code_length, from + moved.length,
					     stub + moved.code_length),
			0);
	protect(stub, PAGE, PROT_READ | PROT_EXEC);

	protect(arena, code_bytes, PROT_READ | PROT_WRITE);
	memset(site, 0xcc, moved.length);
	assert_int_not_equal(arch_x86_64.jump(from, to, site), 0);
	protect(arena, code_bytes, PROT_READ | PROT_EXEC);
	return ARCH_MOVE_OK;
}

static void restore(uint8_t *arena)
{
	size_t code_bytes = case_data - case_block;

	protect(arena, code_bytes, PROT_READ | PROT_WRITE);
	memcpy(arena, case_block, code_bytes);
	protect(arena, code_bytes, PROT_READ | PROT_EXEC);
}

static void compare(const struct case_entry *entry, const struct outcome *expected,
	const struct outcome *actual)
{
	for (size_t i = 0; i < 16; i++) {
		if (expected->cpu.gpr[i] != actual->cpu.gpr[i])
			fail_msg("%s: register %zu is 0x%lx, not 0x%lx", entry->name, i,
				actual->cpu.gpr[i], expected->cpu.gpr[i]);
	}
	if (expected->cpu.flags != actual->cpu.flags)
		fail_msg("%s: flags are 0x%lx, not 0x%lx", entry->name, actual->cpu.flags,
			expected->cpu.flags);
	if (memcmp(expected->cpu.xmm, actual->cpu.xmm, sizeof(actual->cpu.xmm)))
		fail_msg("%s: a vector register differs", entry->name);
	if (memcmp(expected->data, actual->data, PAGE))
		fail_msg("%s: the data differ", entry->name);
	if (memcmp(expected->stack, actual->stack, PAGE))
		fail_msg("%s: the stack differs", entry->name);
}

static uint8_t *arena_create(uint64_t address)
{
	uint8_t *arena = mmap((void *)(uintptr_t)address, ARENA_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (arena == MAP_FAILED)
		return NULL;
	assert_ptr_equal(arena, (void *)(uintptr_t)address);
	restore(arena);
	return arena;
}

static void run_all(uint64_t address)
{
	static struct outcome expected[SEEDS], actual;
	uint8_t *arena = arena_create(address);

	if (!arena) {
		skip_because("the addresses of the code are in use");
	}
	assert_true(case_table_end - case_table > 50);
	for (const struct case_entry *entry = case_table; entry < case_table_end; entry++) {
		enum arch_move_status status;

		for (uint64_t seed = 0; seed < SEEDS; seed++)
			run(arena, entry, seed, &expected[seed]);
		status = patch(arena, entry);
		if (status != ARCH_MOVE_OK)
			fail_msg("%s: not moved, status %d", entry->name, status);
		for (uint64_t seed = 0; seed < SEEDS; seed++) {
			run(arena, entry, seed, &actual);
			compare(entry, &expected[seed], &actual);
		}
		restore(arena);
	}
	munmap(arena, ARENA_BYTES);
}

/* A return address below 2 GiB is pushed completely. */
static void test_low(void **state)
{
	(void)state;
	run_all(0x31000000);
}

/* From 2 to 4 GiB the push would extend the sign. */
static void test_sign(void **state)
{
	(void)state;
	run_all(0xb1000000);
}

/* Where programs and libraries are; ThreadSanitizer reserves the rest. */
#ifdef __SANITIZE_THREAD__
#define HIGH UINT64_C(0x7e9200000000)
#else
#define HIGH UINT64_C(0x6a1200000000)
#endif

/* Both signs of the low half. */
static void test_high(void **state)
{
	(void)state;
	run_all(HIGH + 0x31000000);
}

static void test_high_sign(void **state)
{
	(void)state;
	run_all(HIGH + 0xb1000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_low),
		cmocka_unit_test(test_sign),
		cmocka_unit_test(test_high),
		cmocka_unit_test(test_high_sign),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

#include <stdio.h>

int main(void)
{
	return skip_all("x86-64 code runs on x86-64 only");
}

#endif
