/* SPDX-License-Identifier: MIT */
/* Which instructions, and which functions, provably leave vector registers alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "libprobe/self/self.h"
#include "tests/unit/skip.h"

#if defined(__x86_64__)

/* ---- Instructions ------------------------------------------------------------------------ */

static bool is_general(const char *bytes, size_t length)
{
	struct arch_insn insn;

	if (!arch_x86_64.decode((const uint8_t *)bytes, length, 0x1000, &insn) ||
		insn.length != length)
		fail_msg("%#x ... of %zu bytes is no instruction", (uint8_t)bytes[0], length);
	return arch_x86_64.is_general((const uint8_t *)bytes, length);
}

#define GENERAL(bytes) assert_true(is_general(bytes, sizeof(bytes) - 1))
#define OTHER(bytes) assert_false(is_general(bytes, sizeof(bytes) - 1))

static void general_instructions(void **state)
{
	(void)state;
	GENERAL("\x48\x89\xc3");		 /* mov %rax,%rbx */
	GENERAL("\xf0\x48\x83\x00\x01");	 /* lock addq $1,(%rax) */
	GENERAL("\x64\x48\x8b\x04\x25\0\0\0\0"); /* mov %fs:0,%rax */
	GENERAL("\xf3\x48\xab");		 /* rep stos */
	GENERAL("\xf3\x0f\x1e\xfa");		 /* endbr64 */
	GENERAL("\xf3\x0f\xb8\xc1");		 /* popcnt */
	GENERAL("\xf3\x0f\xbc\xc1");		 /* tzcnt */
	GENERAL("\x66\x2e\x0f\x1f\x84\0\0\0\0\0");
	GENERAL("\x0f\xaf\xc1");
	GENERAL("\xf7\xf1");		 /* div */
	GENERAL("\xc7\x00\x01\0\0\0");	 /* movl $1,(%rax) */
	GENERAL("\xff\x30");		 /* push (%rax) */
	GENERAL("\xe8\0\0\0\0");	 /* call */
	GENERAL("\xf0\x48\x0f\xc1\x01"); /* lock xadd */
}

static void other_instructions(void **state)
{
	(void)state;
	OTHER("\x0f\x28\xc1");		   /* movaps */
	OTHER("\x66\x0f\xef\xc0");	   /* pxor */
	OTHER("\xf2\x0f\x58\xc1");	   /* addsd */
	OTHER("\x66\x48\x0f\x6e\xc0");	   /* movq %rax,%xmm0 */
	OTHER("\x0f\x7f\xc1");		   /* movq %mm0,%mm1 */
	OTHER("\x0f\x77");		   /* emms */
	OTHER("\xc5\xf8\x77");		   /* vzeroupper */
	OTHER("\xc5\xfd\xef\xc0");	   /* vpxor */
	OTHER("\xc4\xe2\x78\xf2\xc1");	   /* andn: VEX, although general */
	OTHER("\x62\xf1\xfe\x48\x6f\x00"); /* vmovdqu64 */
	OTHER("\xc5\xf8\x92\xc0");	   /* kmovw */
	OTHER("\xd9\xe8");		   /* fld1 */
	OTHER("\xdd\xd8");		   /* fstp */
	OTHER("\x9b");			   /* fwait */
	OTHER("\x0f\xae\x10");		   /* ldmxcsr */
	OTHER("\x0f\xae\x08");		   /* fxrstor */
	OTHER("\x0f\xc7\x18");		   /* xrstors */
	OTHER("\x0f\x38\xf0\x00");	   /* movbe: three bytes */
	OTHER("\xfd");			   /* std */
	OTHER("\x9d");			   /* popf */
	OTHER("\x0f\x05");		   /* syscall */
	OTHER("\xcd\x80");		   /* int */
	OTHER("\xff\xd0");		   /* call *%rax */
	OTHER("\xff\x20");		   /* jmp *(%rax) */
	OTHER("\xc7\xf8\0\0\0\0");	   /* xbegin */
	OTHER("\x8e\xd8");		   /* mov %eax,%ds */
	OTHER("\xf3\x48\x0f\xae\xd0");	   /* wrfsbase */
	OTHER("\x0f\x01\xd1");		   /* xsetbv */
}

/* The whole ranges of vectors in the map of two bytes, and of the x87 unit, with any prefix. */
static void vector_opcodes(void **state)
{
	static const struct {
		uint8_t first, last;
	} ranges[] = {{0x10, 0x17}, {0x28, 0x2f}, {0x38, 0x3f}, {0x50, 0x7f}, {0xae, 0xae},
		{0xc2, 0xc2}, {0xc4, 0xc7}, {0xd0, 0xff}};
	static const uint8_t prefixes[] = {0x90, 0x66, 0xf2, 0xf3, 0x48};
	uint8_t bytes[ARCH_INSN_MAX] = {0};

	(void)state;
	for (size_t r = 0; r < sizeof(ranges) / sizeof(*ranges); r++)
		for (unsigned int op = ranges[r].first; op <= ranges[r].last; op++)
			for (unsigned int modrm = 0; modrm < 256 * 5; modrm++) {
				size_t at = 0;

				if (modrm >= 256)
					bytes[at++] = prefixes[modrm / 256];
				bytes[at++] = 0x0f;
				bytes[at++] = (uint8_t)op;
				bytes[at++] = (uint8_t)modrm;
				assert_false(arch_x86_64.is_general(bytes, sizeof(bytes)));
			}
	for (unsigned int op = 0xd8; op <= 0xdf; op++)
		for (unsigned int modrm = 0; modrm < 256; modrm++) {
			bytes[0] = (uint8_t)op;
			bytes[1] = (uint8_t)modrm;
			assert_false(arch_x86_64.is_general(bytes, sizeof(bytes)));
		}
	/* Cut off. */
	assert_false(arch_x86_64.is_general(bytes, 0));
	assert_false(arch_x86_64.is_general((const uint8_t *)"\x48\x0f", 2));
	assert_false(arch_x86_64.is_general((const uint8_t *)"\xff", 1));
}

#endif

#if defined(__x86_64__) || defined(__aarch64__)

/* ---- Functions --------------------------------------------------------------------------- */

/* Local labels: not through a table of the linker. */
#pragma GCC visibility push(hidden)
extern const char general_leaf[], general_loop[], general_recursive[], general_tail[];
extern const char vector_leaf[], vector_rarely[], vector_below[], by_pointer[], by_table[],
	endless[];
#pragma GCC visibility pop

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	"general_leaf: addq $1,(%rdi)\n ret\n"
	"general_loop: movl $10,%ecx\n 1: call general_leaf\n loop 1b\n ret\n"
	"general_recursive: testq %rsi,%rsi\n je 1f\n decq %rsi\n call general_recursive\n 1: ret\n"
	"general_tail: cmpq $3,%rsi\n jb general_leaf\n jmp general_loop\n"
	"vector_leaf: movaps %xmm0,%xmm1\n ret\n"
	"vector_rarely: testq %rsi,%rsi\n jne 1f\n ret\n 1: addsd %xmm0,%xmm0\n ret\n"
	"vector_below: call general_leaf\n call 2f\n ret\n 2: jmp vector_leaf\n"
	"by_pointer: movq (%rdi),%rax\n call *%rax\n ret\n"
	"by_table: jmp *(%rdi)\n"
	"endless: .rept 3000\n incq %rax\n .endr\n ret\n"
	".popsection\n");
#else
__asm__(".pushsection .text\n"
	"general_leaf: ldr x2,[x0]\n add x2,x2,1\n str x2,[x0]\n ret\n"
	"general_loop: stp x29,x30,[sp,-16]!\n mov w3,10\n 1: bl general_leaf\n"
	" subs w3,w3,1\n b.ne 1b\n ldp x29,x30,[sp],16\n ret\n"
	"general_recursive: cbz x1,1f\n str x30,[sp,-16]!\n sub x1,x1,1\n"
	" bl general_recursive\n ldr x30,[sp],16\n 1: ret\n"
	"general_tail: cmp x1,3\n b.lo general_leaf\n b general_loop\n"
	"vector_leaf: fmov d0,d1\n ret\n"
	"vector_rarely: cbnz x1,1f\n ret\n 1: fadd d0,d0,d0\n ret\n"
	"vector_below: str x30,[sp,-16]!\n bl general_leaf\n bl 2f\n ldr x30,[sp],16\n ret\n"
	" 2: b vector_leaf\n"
	"by_pointer: ldr x2,[x0]\n blr x2\n ret\n"
	"by_table: ldr x2,[x0]\n br x2\n"
	"endless: .rept 3000\n add x2,x2,1\n .endr\n ret\n"
	".popsection\n");
#endif

static bool is_general_function(const void *code)
{
	return general_function((uintptr_t)code);
}

static void functions(void **state)
{
	(void)state;
	assert_true(is_general_function(general_leaf));
	assert_true(is_general_function(general_loop));
	assert_true(is_general_function(general_recursive));
	assert_true(is_general_function(general_tail));
	assert_false(is_general_function(vector_leaf));
	assert_false(is_general_function(vector_rarely));
	assert_false(is_general_function(vector_below));
	assert_false(is_general_function(by_pointer));
	assert_false(is_general_function(by_table));
	assert_false(is_general_function(endless));
	assert_false(is_general_function((const void *)(uintptr_t)memcpy));
	assert_false(is_general_function((const void *)(uintptr_t)snprintf));
	assert_false(is_general_function(NULL));
}

#if defined(__x86_64__)
static const uint8_t returns[] = {0xc3};
#else
static const uint8_t returns[] = {0xc0, 0x03, 0x5f, 0xd6};
#endif

/* Code that may change, and data. */
static void writable_code(void **state)
{
	uint8_t *code = mmap(
		NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(code, MAP_FAILED);
	memcpy(code, returns, sizeof(returns));
	memcpy(code + 4096 - sizeof(returns), returns, sizeof(returns));
	assert_false(is_general_function(code));
	assert_int_equal(mprotect(code, 4096, PROT_READ | PROT_EXEC), 0);
	assert_true(is_general_function(code));
	assert_true(is_general_function(code + 4096 - sizeof(returns)));
#if defined(__x86_64__)
	assert_false(is_general_function(code + 4096 - 8)); /* add %al,(%rax) ... the end is cut */
#endif
	assert_int_equal(mprotect(code, 4096, PROT_READ), 0);
	assert_false(is_general_function(code));
	munmap(code, 4096);
	assert_false(is_general_function(code));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
		cmocka_unit_test(general_instructions),
		cmocka_unit_test(other_instructions),
		cmocka_unit_test(vector_opcodes),
#endif
		cmocka_unit_test(functions),
		cmocka_unit_test(writable_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return skip_all("neither x86-64 nor aarch64");
}

#endif
