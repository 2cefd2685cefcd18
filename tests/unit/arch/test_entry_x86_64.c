/* SPDX-License-Identifier: MIT */
/* What stays at the entry of a function, and where its arguments are behind it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "arch/x86/decode/insn.h"
#include "tests/unit/skip.h"

#define BYTES(literal) (const uint8_t *)(literal), sizeof(literal) - 1
#define REST "\x89\xf8\x31\xd2\x90\x90\xc3"
#define FLOATS " 8f@%xmm0 8f@%xmm1 8f@%xmm2 8f@%xmm3 8f@%xmm4 8f@%xmm5 8f@%xmm6 8f@%xmm7"
#define REGISTERS "-8@%rdi -8@%rsi -8@%rdx -8@%rcx -8@%r8 -8@%r9"

/* clang-format off */
static const struct entry_case {
	const char *name;
	const uint8_t *bytes;
	size_t length;
	uint8_t keep;
	const char *args;
} cases[] = {
	{"frame pointer", BYTES("\x55\x48\x89\xe5" REST), 4,
		REGISTERS " -8@16(%rsp) -8@24(%rsp) -8@32(%rsp) -8@40(%rsp)" FLOATS},
	{"other encoding", BYTES("\x55\x48\x8b\xec" REST), 4, NULL},
	{"endbr64 and frame pointer", BYTES("\xf3\x0f\x1e\xfa\x55\x48\x89\xe5" REST), 8, NULL},
	{"endbr64", BYTES("\xf3\x0f\x1e\xfa" REST), 4,
		REGISTERS " -8@8(%rsp) -8@16(%rsp) -8@24(%rsp) -8@32(%rsp)" FLOATS},
	{"endbr64 and push %rbp alone", BYTES("\xf3\x0f\x1e\xfa\x55\x53" REST), 5, NULL},
	{"push %rbp alone", BYTES("\x55\x53" REST), 1, NULL},
	{"aligned stack", BYTES("\x4c\x8d\x54\x24\x08\x48\x83\xe4\xe0\x41\xff\x72\xf8\x55\x48\x89\xe5" REST), 17,
		REGISTERS " 8@? 8@? 8@? 8@?" FLOATS},
	{"stack set", BYTES("\x48\x83\xe4\xe0" REST), 0, "its first instruction sets the stack pointer"},
	{"room on the stack", BYTES("\x48\x83\xec\x18" REST), 4,
		REGISTERS " -8@32(%rsp) -8@40(%rsp) -8@48(%rsp) -8@56(%rsp)" FLOATS},
	{"much room", BYTES("\x48\x81\xec\x18\x01\0\0" REST), 7,
		REGISTERS " -8@288(%rsp) -8@296(%rsp) -8@304(%rsp) -8@312(%rsp)" FLOATS},
	{"push %r12", BYTES("\x41\x54" REST), 2,
		REGISTERS " -8@16(%rsp) -8@24(%rsp) -8@32(%rsp) -8@40(%rsp)" FLOATS},
	{"first argument lost", BYTES("\x48\x8b\x3f" REST), 3,
		"8@? -8@%rsi -8@%rdx -8@%rcx -8@%r8 -8@%r9 -8@8(%rsp) -8@16(%rsp) -8@24(%rsp) -8@32(%rsp)" FLOATS},
	{"half of the third lost", BYTES("\x31\xd2" REST), 2,
		"-8@%rdi -8@%rsi 8@? -8@%rcx -8@%r8 -8@%r9 -8@8(%rsp) -8@16(%rsp) -8@24(%rsp) -8@32(%rsp)" FLOATS},
	{"a comparison loses nothing", BYTES("\x48\x39\xf7" REST), 3,
		REGISTERS " -8@8(%rsp) -8@16(%rsp) -8@24(%rsp) -8@32(%rsp)" FLOATS},
	{"cpuid loses two", BYTES("\x0f\xa2" REST), 2,
		"-8@%rdi -8@%rsi 8@? 8@? -8@%r8 -8@%r9 -8@8(%rsp) -8@16(%rsp) -8@24(%rsp) -8@32(%rsp)" FLOATS},
	{"second number lost", BYTES("\xf2\x0f\x58\xc8" REST), 4,
		REGISTERS " -8@8(%rsp) -8@16(%rsp) -8@24(%rsp) -8@32(%rsp)"
		" 8f@%xmm0 8@? 8f@%xmm2 8f@%xmm3 8f@%xmm4 8f@%xmm5 8f@%xmm6 8f@%xmm7"},
	{"jump", BYTES("\xe9\0\0\0\0"), 0, NULL},
	{"short jump", BYTES("\xeb\x10"), ARCH_NO_JUMP, NULL},
	{"return", BYTES("\xc3"), 0, NULL},
	/* A removed uprobe would leave the rest of our jump behind the first byte of these. */
	{"indirect jump", BYTES("\xff\xe0"), 0, "its first instructions may lead elsewhere"},
	{"return with a prefix", BYTES("\xf3\xc3"), 0, "its first instructions may lead elsewhere"},
	{"branch", BYTES("\x74\x10" REST), 0, "its first instructions may lead elsewhere"},
	{"call", BYTES("\xff\xd0" REST), 0, "its first instructions may lead elsewhere"},
	{"no instruction", BYTES("\x06\x06"), 0, "its first instructions may lead elsewhere"},
	{"nothing", BYTES(""), 0, "its first instructions may lead elsewhere"},
};
/* clang-format on */

static void test_entries(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct entry_case *c = &cases[i];
		struct arch_entry entry = {0};
		const char *why = x86_64_functions.entry(c->bytes, c->length, 0x1000, &entry);

		print_message("%s\n", c->name);
		if (!why) {
			assert_int_equal(entry.keep, c->keep);
			assert_int_equal(entry.keep_short, c->keep == ARCH_NO_JUMP ? 0
							   : c->bytes[0] == 0xe9   ? ARCH_NO_JUMP
										   : c->keep);
		}
		if (why)
			assert_string_equal(why, c->args);
		else if (c->args)
			assert_string_equal(entry.args, c->args);
	}
}

/* A breakpoint may be where a jump begins, not inside it. */
static void test_breakpoints(void **state)
{
	/* push %rbp; mov %rsp,%rbp; sub $16,%rsp; xor %edx,%edx; mov %edi,%eax; ret */
	static const uint8_t frame[] = "\x55\x48\x89\xe5\x48\x83\xec\x10\x31\xd2\x89\xf8\xc3";
	/* xor %edx,%edx; ret */
	static const uint8_t leaf[] = "\x31\xd2\xc3\xcc\xcc\xcc\xcc\xcc";
	static const struct {
		const uint8_t *code;
		uint64_t breaks;
		uint8_t keep, keep_short;
		const char *refused;
	} wanted[] = {
		{frame, 0, 4, 4, NULL},
		{frame, 1 << 4, 4, 4, NULL},
		{frame, 1 << 8, 8, 4, NULL},
		{frame, 1 << 9, 4, 4, NULL},
		/* not inside the jump that begins at the first of them */
		{frame, 1 << 8 | 1 << 10, 10, 4, NULL},
		{frame, 1 << 8 | 1 << 12, 12, 4, NULL},
		{frame, 1 << 5, 8, 8, NULL},
		/* The instruction behind it returns. */
		{leaf, 1 << 4, ARCH_NO_JUMP, 2, NULL},
		{leaf, 1 << 3, 0, 0, "a debugger's breakpoint would be inside the jump"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		struct arch_entry entry = {.breaks = wanted[i].breaks};
		const char *why = x86_64_functions.entry(wanted[i].code, 13, 0x1000, &entry);

		print_message("case %zu\n", i);
		if (wanted[i].refused) {
			assert_string_equal(why, wanted[i].refused);
			continue;
		}
		assert_null(why);
		assert_int_equal(entry.keep_short, wanted[i].keep_short);
		assert_int_equal(entry.keep, wanted[i].keep);
	}
	/* Arguments are those of both jumps: `xor` loses one, and `sub` moves those on the stack.
	 */
	{
		struct arch_entry entry = {.breaks = 1 << 8 | 1 << 10};

		assert_null(x86_64_functions.entry(frame, 13, 0x1000, &entry));
		assert_string_equal(entry.args,
			"-8@%rdi -8@%rsi 8@? -8@%rcx -8@%r8 -8@%r9 8@? 8@? 8@? 8@?" FLOATS);
	}
}

/* The address of the operand is that of the return address. */
static void test_frames(void **state)
{
	static const struct {
		const uint8_t *bytes;
		size_t length;
		const char *expected;
	} frames[] = {
		{BYTES("\x55\x48\x89\xe5" REST), "8@8(%rsp)"},
		{BYTES("\xf3\x0f\x1e\xfa" REST), "8@0(%rsp)"},
		{BYTES("\x48\x83\xec\x18" REST), "8@24(%rsp)"},
		{BYTES("\x48\x81\xec\x18\x01\0\0" REST), "8@280(%rsp)"},
		{BYTES("\x4c\x8d\x54\x24\x08\x48\x83\xe4\xe0\x41\xff\x72\xf8\x55\x48\x89\xe5" REST),
			"8@-8(%r10)"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
		struct arch_entry entry = {0};

		assert_null(
			x86_64_functions.entry(frames[i].bytes, frames[i].length, 0x1000, &entry));
		assert_string_equal(entry.slot, frames[i].expected);
	}
}

#define TABLE "\x00\x10\x40\x00"
/* lea table(%rip),%rax; mov (%rdx,%rax),%eax; cltq; lea table(%rip),%rdx; add %rdx,%rax */
#define TWICE(first, load, second)                                                                 \
	"\x48\x8d" first "\x0e\0\0" load "\x48\x8d" second "\x0e\0\0\x48\x01\xd0"

static void test_switches(void **state)
{
	static const struct {
		const uint8_t *bytes;
		size_t length;
		uint64_t expected; /* the table of addresses; true for one of distances */
	} jumps[] = {
		{BYTES("\x90\xff\x24\xc5" TABLE), 0x401000}, /* jmp *0x401000(,%rax,8) */
		{BYTES("\x90\xff\x24\xc5\0\0\0\0"), false},  /* no table */
		/* mov 0x401000(,%rax,8),%rax; jmp *%rax */
		{BYTES("\x48\x8b\x04\xc5" TABLE "\xff\xe0"), 0x401000},
		{BYTES("\x48\x8b\x04\xc5" TABLE "\x3e\xff\xe0"), 0x401000},
		{BYTES("\x4e\x8b\x0c\xc5" TABLE "\x41\xff\xe1"), 0x401000}, /* %r9 */
		{BYTES("\x48\x8b\x04\xc5" TABLE "\xff\xe2"), false},	    /* jmp *%rdx */
		{BYTES("\x48\x8b\x04\xc5\0\0\0\0\xff\xe0"), false},	    /* no table */
		{BYTES("\x90\x8b\x04\xc5" TABLE "\xff\xe0"), false},	    /* half an address */
		{BYTES("\x48\x8b\x84\xc5" TABLE "\xff\xe0"), false},	    /* and %rbp */
		/* shl $3,%rax; add $0x401000,%rax; mov (%rax),%rax; jmp *%rax */
		{BYTES("\x48\xc1\xe0\x03\x48\x05" TABLE "\x48\x8b\0\xff\xe0"), 0x401000},
		{BYTES("\x48\xc1\xe0\x03\x48\x05" TABLE "\x48\x8b\0\x3e\xff\xe0"), 0x401000},
		{BYTES("\x48\xc1\xe0\x03\x48\x05" TABLE "\x48\x8b\0\xff\xe2"), false},
		{BYTES("\x48\xc1\xe0\x02\x48\x05" TABLE "\x48\x8b\0\xff\xe0"), false}, /* $2 */
		{BYTES("\x48\xc1\xe0\x03\x48\x05" TABLE "\x48\x8b\x02\xff\xe0"), false},
		{BYTES("\x48\xc1\xe0\x03\x48\x05\0\0\0\0\x48\x8b\0\xff\xe0"), false},
		{BYTES(TWICE("\x05\xa9", "\x8b\x04\x02\x48\x98", "\x15\x9d") "\xff\xe0"), true},
		{BYTES(TWICE("\x05\xa9", "\x8b\x04\x02\x48\x98", "\x15\x9d") "\x3e\xff\xe0"), true},
		{BYTES(TWICE("\x15\xa9", "\x8b\x04\x10\x48\x98", "\x15\x9d") "\xff\xe0"), true},
		{BYTES(TWICE("\x05\xa9", "\x8b\x04\x02\x48\x63\xd0", "\x05\x9c") "\xff\xe0"), true},
		/* another table, register, operand or jump */
		{BYTES(TWICE("\x05\xa9", "\x8b\x04\x02\x48\x98", "\x15\x9e") "\xff\xe0"), false},
		{BYTES(TWICE("\x05\xa9", "\x8b\x04\x02\x48\x63\xd0", "\x05\x9d") "\xff\xe0"),
			false},
		{BYTES(TWICE("\x0d\xa9", "\x8b\x04\x02\x48\x98", "\x15\x9d") "\xff\xe0"), false},
		{BYTES(TWICE("\x05\xa9", "\x8b\x40\x02\x48\x98", "\x15\x9d") "\xff\xe0"), false},
		{BYTES(TWICE("\x05\xa9", "\x8b\x04\x02\x48\x98", "\x15\x9d") "\xff\xe2"), false},
		/* The start is not the function's. */
		{BYTES("\xa9\x0e\0\0\x8b\x04\x02\x48\x98\x48\x8d\x15\x9d\x0e\0\0\x48\x01\xd0"
		       "\xff\xe0"),
			false},
		{BYTES("\x48\x63\x04\x82\x48\x01\xd0\xff\xe0"), true}, /* a table of distances */
		{BYTES("\x48\x63\x04\x82\x48\x01\xd0\x3e\xff\xe0"), true},
		{BYTES("\x48\x63\x44\x85\x00\x48\x01\xe8\xff\xe0"), true}, /* behind %rbp */
		/* movslq (%r9,%rax,4),%r8; add %r9,%r8; notrack jmp *%r8 */
		{BYTES("\x4d\x63\x04\x81\x4d\x01\xc8\x3e\x41\xff\xe0"), true},
		{BYTES("\x48\x63\x04\x82\x48\x03\xd0\xff\xe2"), true},	    /* add %rax,%rdx */
		{BYTES("\x48\x63\x04\x82\x48\x01\xd0\xff\xe1"), false},	    /* jmp *%rcx */
		{BYTES("\x48\x63\x04\x82\x48\x01\xd0\x41\xff\xe0"), false}, /* jmp *%r8 */
		{BYTES("\x48\x63\x04\x82\x48\x01\xc8\xff\xe0"), false},	    /* add %rcx,%rax */
		{BYTES("\x48\x63\x04\x82\x48\x01\xd0\xff\x20"), false},	    /* jmp *(%rax) */
		{BYTES("\x48\x63\x44\x82\x04\x48\x01\xd0\xff\xe0"), false}, /* a member */
		{BYTES("\x90\x90\x90\x90\x90\x90\x90\x3e\xff\xe0"), false}, /* notrack */
		{BYTES("\x48\x8b\x40\x10\xff\xe0"), false}, /* a pointer to a function */
		{BYTES("\x90\x90\x90\xff\x60\x10"), false}, /* jmp *16(%rax) */
		{BYTES("\xff\xe0"), false},
	};

	uint64_t table;

	(void)state;
	for (size_t i = 0; i < sizeof(jumps) / sizeof(*jumps); i++) {
		assert_int_equal(
			x86_64_functions.is_switch(jumps[i].bytes, jumps[i].length, &table),
			jumps[i].expected != false);
		assert_int_equal(table, jumps[i].expected == true ? 0 : jumps[i].expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_breakpoints),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_switches),
	};

	if (!x86_64_can_decode())
		return skip_all("there is no capstone library here");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
