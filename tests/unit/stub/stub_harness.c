/* SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <stdio.h>

#include "tests/unit/stub/stub_harness.h"
#include "tests/unit/skip.h"

#ifdef __x86_64__

/*
 * Between the jump and the return no register belongs to the harness, so its state is in
 * thread-local variables.
 */
__thread void *stub_harness_entry __attribute__((visibility("hidden"), tls_model("local-exec")));
__thread void *stub_harness_out __attribute__((visibility("hidden"), tls_model("local-exec")));
__thread uint64_t stub_harness_rsp __attribute__((visibility("hidden"), tls_model("local-exec")));
__thread uint64_t stub_harness_rax __attribute__((visibility("hidden"), tls_model("local-exec")));

#define XMMS(X)                                                                                    \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define LOAD_XMM(n) "movups 136+16*" #n "(%rax), %xmm" #n "\n"
#define STORE_XMM(n) "movups %xmm" #n ", 136+16*" #n "(%rax)\n"

_Static_assert(offsetof(struct stub_state, flags) == 128, "the code below relies on it");
_Static_assert(offsetof(struct stub_state, xmm) == 136, "the code below relies on it");

/* clang-format off */
__asm__(
	".text\n"
	".globl stub_harness_run\n"
	".type stub_harness_run, @function\n"
	"stub_harness_run:\n"
	"push %rbp\n" "push %rbx\n" "push %r12\n" "push %r13\n" "push %r14\n" "push %r15\n"
	"mov %rsp, %fs:stub_harness_rsp@tpoff\n"
	"mov %rsi, %fs:stub_harness_out@tpoff\n"
	"mov %rdx, %fs:stub_harness_entry@tpoff\n"
	"mov %rdi, %rax\n"
	XMMS(LOAD_XMM)
	"push 128(%rax)\n" "popfq\n" /* mov leaves the flags alone */
	"mov 8(%rax), %rcx\n"
	"mov 16(%rax), %rdx\n"
	"mov 24(%rax), %rbx\n"
	"mov 32(%rax), %rsp\n"
	"mov 40(%rax), %rbp\n"
	"mov 48(%rax), %rsi\n"
	"mov 56(%rax), %rdi\n"
	"mov 64(%rax), %r8\n"
	"mov 72(%rax), %r9\n"
	"mov 80(%rax), %r10\n"
	"mov 88(%rax), %r11\n"
	"mov 96(%rax), %r12\n"
	"mov 104(%rax), %r13\n"
	"mov 112(%rax), %r14\n"
	"mov 120(%rax), %r15\n"
	"mov (%rax), %rax\n"
	"jmp *%fs:stub_harness_entry@tpoff\n"
	".globl stub_harness_next\n"
	"stub_harness_next:\n"
	"mov %rax, %fs:stub_harness_rax@tpoff\n"
	"mov %fs:stub_harness_out@tpoff, %rax\n"
	"mov %rcx, 8(%rax)\n"
	"mov %rdx, 16(%rax)\n"
	"mov %rbx, 24(%rax)\n"
	"mov %rsp, 32(%rax)\n"
	"mov %rbp, 40(%rax)\n"
	"mov %rsi, 48(%rax)\n"
	"mov %rdi, 56(%rax)\n"
	"mov %r8, 64(%rax)\n"
	"mov %r9, 72(%rax)\n"
	"mov %r10, 80(%rax)\n"
	"mov %r11, 88(%rax)\n"
	"mov %r12, 96(%rax)\n"
	"mov %r13, 104(%rax)\n"
	"mov %r14, 112(%rax)\n"
	"mov %r15, 120(%rax)\n"
	"mov %fs:stub_harness_rsp@tpoff, %rsp\n"
	"pushfq\n" "pop 128(%rax)\n"
	"mov %fs:stub_harness_rax@tpoff, %rcx\n"
	"mov %rcx, (%rax)\n"
	"cld\n"
	"pushfq\n" "andl $~0x40100, (%rsp)\n" "popfq\n" /* no alignment check, no trap */
	XMMS(STORE_XMM)
	"pop %r15\n" "pop %r14\n" "pop %r13\n" "pop %r12\n" "pop %rbx\n" "pop %rbp\n"
	"ret\n"
	".size stub_harness_run, . - stub_harness_run\n"
);
/* clang-format on */

#else

const char stub_harness_next[1];

/* Never called: the tests are skipped before. */
void stub_harness_run(const struct stub_state *in, struct stub_state *out, const void *entry)
{
	(void)entry;
	*out = *in;
}

#endif

int stub_harness_lacks(void)
{
	return skip_all(
		"its harness sets registers of x86-64; test_stub_aarch64 has one for aarch64");
}
