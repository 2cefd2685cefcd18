/* SPDX-License-Identifier: MIT */
/*
 * Executes every form of operand that a probe's arguments can have.
 *
 *	args            hits each probe args:NAME of args_cases_*.h once
 *	args --expect   prints {"name":…,"args":…}, what a tracer must show
 *	args --wait     the same as without, but waits for a line before and after
 *
 * The cases are written in assembly, because a compiler would choose the operands itself; the
 * last two use <sys/sdt.h>.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>

#include "../target.h"

/* Pages at addresses that the cases know. */
enum { ARGS_FIXED = 0x60000000, ARGS_STACK = 0x60008000 };

/* clang-format off */

/* Like PROBE_NOTE of note.h, for inline assembly. */
#define ARGS_NOTE(NAME, SPEC)							\
	".pushsection .note.stapsdt, \"?\", \"note\"\n"				\
	".balign 4\n"								\
	".long 992f - 991f, 994f - 993f, 3\n"					\
	"991: .asciz \"stapsdt\"\n"						\
	"992: .balign 4\n"							\
	"993: .quad 990b, _.stapsdt.base, 0\n"					\
	".asciz \"args\"\n"							\
	".asciz \"" NAME "\"\n"							\
	".asciz \"" SPEC "\"\n"							\
	"994: .balign 4\n"							\
	".popsection\n"

#ifdef __x86_64__

#define ARGS_CASES "args_cases_x86_64.h"
#define ARGS_ENTER								\
	"push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"	\
	"mov %rsp, args_saved_sp(%rip)\n"					\
	"movabs $0x887766559030a080, %rax\n"					\
	"movabs $0x887766559131a181, %rbx\n"					\
	"movabs $0x887766559232a282, %rcx\n"					\
	"movabs $0x887766559333a383, %rdx\n"					\
	"movabs $0x887766559434a484, %rsi\n"					\
	"movabs $0x887766559535a585, %rdi\n"					\
	"movabs $0x887766559636a686, %rbp\n"					\
	"movabs $0x887766559737a787, %r8\n"					\
	"movabs $0x887766559838a888, %r9\n"					\
	"movabs $0x887766559939a989, %r10\n"					\
	"movabs $0x887766559a3aaa8a, %r11\n"					\
	"movabs $0x887766559b3bab8b, %r12\n"					\
	"movabs $0x887766559c3cac8c, %r13\n"					\
	"movabs $0x887766559d3dad8d, %r14\n"					\
	"movabs $0x887766559e3eae8e, %r15\n"
#define ARGS_LEAVE								\
	"mov args_saved_sp(%rip), %rsp\n"					\
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"

#else /* aarch64 */

#define ARGS_CASES "args_cases_aarch64.h"
#define ARGS_ADDRESS(REGISTER, WHAT)						\
	"adrp " #REGISTER ", " #WHAT "; add " #REGISTER ", " #REGISTER ", :lo12:" #WHAT
#define ARGS_ENTER								\
	"stp x29, x30, [sp, #-96]!\n"						\
	"stp x19, x20, [sp, #16]; stp x21, x22, [sp, #32]; stp x23, x24, [sp, #48]\n" \
	"stp x25, x26, [sp, #64]; stp x27, x28, [sp, #80]\n"			\
	ARGS_ADDRESS(x9, args_saved_sp) "; mov x10, sp; str x10, [x9]\n"	\
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n" \
	"ldr x\\n, =0x887766559030a080 + 0x01010101 * \\n\n"			\
	".endr\n"
/* The instruction that a jump behind the nop replaces depends on its own address. */
#define ARGS_LEAVE								\
	ARGS_ADDRESS(x9, args_saved_sp) "; ldr x9, [x9]; mov sp, x9\n"		\
	"ldp x19, x20, [sp, #16]; ldp x21, x22, [sp, #32]; ldp x23, x24, [sp, #48]\n" \
	"ldp x25, x26, [sp, #64]; ldp x27, x28, [sp, #80]\n"			\
	"ldp x29, x30, [sp], #96\n"

#endif

/* A function case_NAME that sets up, passes the site and restores the stack. */
#define ARGS_CASE(NAME, SETUP, SPEC, EXPECTED)					\
	__asm__(".text\n"							\
		".type case_" #NAME ", %function\n"				\
		".globl case_" #NAME "\n"					\
		"case_" #NAME ":\n"						\
		".cfi_startproc\n"						\
		ARGS_ENTER							\
		SETUP "\n"							\
		"990: nop\n"							\
		ARGS_LEAVE							\
		"ret\n"								\
		".cfi_endproc\n"						\
		".size case_" #NAME ", . - case_" #NAME "\n"			\
		ARGS_NOTE(#NAME, SPEC));
#include ARGS_CASES
#undef ARGS_CASE

__asm__(".data\n"
	".globl args_data, args_end, args_saved_sp\n"
	".type args_data, %object\n"
	".balign 16\n"
	".quad 0\n"
	".quad 77\n"
	"args_data:\n"
	".quad 0x1122334455667788\n"		/* 0 */
	".quad 0xfeedfacecafebeef\n"		/* 8 */
	".long -100000, 3000000000\n"		/* 16 */
	".short -3000, 60000\n"			/* 24 */
	".byte -3, 250, 0, 0\n"			/* 28 */
	".double 1.5, -2.25e10\n"		/* 32 */
	".float 0.5, -0.125\n"			/* 48 */
	".byte 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12\n" /* 56 */
	".byte 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24\n"
	".quad 4242\n"				/* 80 */
	".size args_data, . - args_data\n"
	"args_end:\n"
	".type args_local, %object\n"
	"args_local: .long -31337, 31338\n"
	".size args_local, . - args_local\n"
	".type args_saved_sp, %object\n"
	".balign 8\n"
	"args_saved_sp: .quad 0\n"
	".size args_saved_sp, . - args_saved_sp\n"
	".text\n");

#define ARGS_CASE(NAME, SETUP, SPEC, EXPECTED) void case_##NAME(void);
#include ARGS_CASES
#undef ARGS_CASE

/* The two that a compiler writes. */
static void case_compiled(void)
{
	volatile signed char a = -1;
	volatile unsigned char b = 200;
	volatile short c = -300;
	volatile unsigned short d = 50000;
	volatile int e = -70000;
	volatile unsigned int f = 4000000000u;
	volatile long g = -5000000000;
	volatile unsigned long h = 18000000000000000000u;

	STAP_PROBE8(args, compiled, a, b, c, d, e, f, g, h);
}

static void case_compiled_twelve(void)
{
	STAP_PROBE12(args, compiled_twelve, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, (char)12);
}

static const struct args_case {
	const char *name;
	void (*run)(void);
	const char *expected;
} cases[] = {
#define ARGS_CASE(NAME, SETUP, SPEC, EXPECTED) { #NAME, case_##NAME, EXPECTED },
#include ARGS_CASES
#undef ARGS_CASE
	{ "compiled", case_compiled,
	  "[-1, 200, -300, 50000, -70000, 4000000000, -5000000000, 18000000000000000000]" },
	{ "compiled_twelve", case_compiled_twelve, "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]" },
};
/* clang-format on */

enum { CASE_COUNT = sizeof(cases) / sizeof(cases[0]) };

static void map_fixed(void)
{
	unsigned char *page = mmap((void *)(uintptr_t)ARGS_FIXED, 0x10000, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	_Static_assert(ARGS_STACK - ARGS_FIXED == 0x8000, "the stack lies in the mapping");
	if (page == MAP_FAILED) {
		perror("args: mmap");
		exit(1);
	}
	memcpy(page, &(uint32_t){0xdeadbeef}, 4);
	memcpy(page + 4, &(int32_t){-77}, 4);
}

int main(int argc, char **argv)
{
	bool wait = argc > 1 && strcmp(argv[1], "--wait") == 0;

	if (argc > 1 && strcmp(argv[1], "--expect") == 0) {
		for (size_t i = 0; i < CASE_COUNT; i++)
			printf("{\"name\":\"%s\",\"args\":%s}\n", cases[i].name, cases[i].expected);
		return 0;
	}
	target_allow_tracing();
	map_fixed();
	if (wait)
		target_wait();
	for (size_t i = 0; i < CASE_COUNT; i++)
		cases[i].run();
	printf("hit %d\n", CASE_COUNT);
	fflush(stdout);
	if (wait)
		target_wait();
	return 0;
}
