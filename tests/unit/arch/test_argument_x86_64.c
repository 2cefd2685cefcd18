/* SPDX-License-Identifier: MIT */
/* Code after a system call that needs %r10, and code that does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "tests/unit/skip.h"

struct code {
	const char *bytes;
	size_t length;
	const char *text;
	bool dies;
};

#define CODE(dies, text, bytes)                                                                    \
	{                                                                                          \
		bytes, sizeof(bytes) - 1, text, dies                                               \
	}

static const struct code codes[] = {
	/* clang-format off */
	CODE(true, "ret", "\xc3"),
	CODE(true, "cmp $-4096,%rax; ja 1f; ret; 1: neg %eax; mov %eax,%fs:(%rdx); ret",
		"\x48\x3d\x00\xf0\xff\xff\x77\x01\xc3\xf7\xd8\x64\x89\x02\xc3"),
	CODE(true, "ja 1f; mov %r8d,%edi; call; 1: mov %r8d,%edi; call",
		"\x77\x08\x44\x89\xc7\xe8\x00\x00\x00\x00\x44\x89\xc7\xe8\x00\x00\x00\x00"),
	CODE(true, "mov %eax,%ebx; pop %rbx; ret", "\x89\xc3\x5b\xc3"),
	CODE(true, "mov 0x10(%r12),%rdx; mov %rdx,(%rdx,%rdx); ret",
		"\x49\x8b\x54\x24\x10\x48\x89\x14\x12\xc3"),
	CODE(false, "nothing", ""),
	CODE(false, "no end", "\x90\x90\x90"),
	CODE(false, "cut off", "\x48\x3d\x00"),
	CODE(false, "no instruction", "\x06\xc3"),
	CODE(false, "jmp back to the call", "\xeb\xf0"),
	CODE(false, "for ever", "\xeb\xfe"),
	CODE(false, "jmp *%rax", "\xff\xe0"),
	CODE(false, "mov %r10,%rax; ret", "\x4c\x89\xd0\xc3"),
	CODE(false, "mov %rax,%r10; ret", "\x49\x89\xc2\xc3"),
	CODE(false, "mov (%r10),%eax; ret", "\x41\x8b\x02\xc3"),
	CODE(false, "mov (%rax,%r10),%eax; ret", "\x42\x8b\x04\x10\xc3"),
	CODE(false, "mov (%r10,%rax),%eax; ret", "\x41\x8b\x04\x02\xc3"),
	CODE(false, "push %r10; ret", "\x41\x52\xc3"),
	CODE(false, "ja 1f; ret; 1: mov %r10d,%eax; ret", "\x77\x01\xc3\x44\x89\xd0\xc3"),
	CODE(false, "syscall; ret", "\x0f\x05\xc3"),
	CODE(false, "vmovd %r10d,%xmm0; ret", "\xc4\xc1\x79\x6e\xc2\xc3"),
	CODE(false, "call *%r10", "\x41\xff\xd2"),
	/* clang-format on */
};

static void arguments(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		if (arch_x86_64.argument_dies((const uint8_t *)codes[i].bytes, codes[i].length) !=
			codes[i].dies)
			fail_msg("%s", codes[i].text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {cmocka_unit_test(arguments)};

	if (!arch_x86_64.can_decode())
		return skip_all("no disassembler");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
