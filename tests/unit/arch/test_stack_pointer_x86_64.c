/* SPDX-License-Identifier: MIT */
/* Code in which %rsp points to a stack, and code in which it does not. */
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
	bool loses;
};

#define CODE(loses, text, bytes)                                                                   \
	{                                                                                          \
		bytes, sizeof(bytes) - 1, text, loses                                              \
	}

static const struct code codes[] = {
	/* clang-format off */
	CODE(false, "nothing", ""),
	CODE(false, "mov %rsp,%rbp; sub $32,%rsp", "\x48\x89\xe5\x48\x83\xec\x20"),
	CODE(false, "mov %rbp,%rsp", "\x48\x89\xec"),
	CODE(false, "lea -40(%rbp),%rsp", "\x48\x8d\x65\xd8"),
	CODE(false, "lea 8(%rsp),%r10; and $-16,%rsp; lea -8(%r10),%rsp",
		"\x4c\x8d\x54\x24\x08\x48\x83\xe4\xf0\x49\x8d\x62\xf8"),
	CODE(false, "mov %rsp,%rbx; sub %rax,%rsp; mov %rbx,%rsp",
		"\x48\x89\xe3\x48\x29\xc4\x48\x89\xdc"),
	CODE(false, "mov %rsp,%r12; mov %r12,%rsp", "\x49\x89\xe4\x4c\x89\xe4"),
	CODE(false, "mov 48(%rdi),%r8; mov %r8,%rsp", "\x4c\x8b\x47\x30\x4c\x89\xc4"),
	CODE(false, "mov (%rsi),%rsp", "\x48\x8b\x26"),
	CODE(false, "lea 0(%rip),%rsp; mov %rsp,%rax; leave",
		"\x48\x8d\x25\0\0\0\0\x48\x89\xe0\xc9"),
	CODE(false, "mov %rsp,%r9; mov %rdi,%rsp; pop %rax; mov %r9,%rsp",
		"\x49\x89\xe1\x48\x89\xfc\x58\x4c\x89\xcc"),
	CODE(false, "mov $1,%r12", "\x49\xc7\xc4\1\0\0\0"),
	CODE(true, "mov %rdi,%rsp", "\x48\x89\xfc"),
	CODE(true, "mov %rdi,%rsp (8b)", "\x48\x8b\xe7"),
	CODE(true, "mov %r11,%rsp", "\x4c\x89\xdc"),
	CODE(true, "lea 0(%rip),%rsp", "\x48\x8d\x25\0\0\0\0"),
	CODE(true, "lea (%rdi,%rsi,8),%rsp", "\x48\x8d\x24\xf7"),
	CODE(true, "lea 64,%rsp", "\x48\x8d\x24\x25\x40\0\0\0"),
	CODE(true, "mov $64,%rsp", "\x48\xc7\xc4\x40\0\0\0"),
	CODE(true, "movabs $64,%rsp", "\x48\xbc\x40\0\0\0\0\0\0\0"),
	CODE(true, "xchg %rax,%rsp", "\x48\x94"),
	CODE(true, "xchg %rdi,%rsp", "\x48\x87\xfc"),
	CODE(false, "xchg %rdi,%rsp, twice", "\x48\x87\xfc\x48\x87\xfc"),
	CODE(true, "mov %rdi,%rsp; mov %rsp,%rbx; mov %rbx,%rsp",
		"\x48\x89\xfc\x48\x89\xe3\x48\x89\xdc"),
	/* clang-format on */
};

/* The search of bytes finds all that decoding does, also at the beginning of more. */
static bool is_found(const struct code *code)
{
	uint8_t longer[64] = {0};

	memcpy(longer, code->bytes, code->length);
	return arch_x86_64.may_lose_stack(longer, code->length) &&
	       arch_x86_64.may_lose_stack(longer, sizeof(longer));
}

static void stacks(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		if (arch_x86_64.loses_stack((const uint8_t *)codes[i].bytes, codes[i].length) !=
				codes[i].loses ||
			(codes[i].loses && !is_found(&codes[i])))
			fail_msg("%s", codes[i].text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {cmocka_unit_test(stacks)};

	if (!arch_x86_64.can_decode())
		return skip_all("no disassembler");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
