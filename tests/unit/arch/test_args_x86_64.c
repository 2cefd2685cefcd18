/* SPDX-License-Identifier: MIT */
/* Argument specifications of x86-64: each form, and what must not be misparsed. */
/* Not under ThreadSanitizer: nothing has threads. */
#include "tests/unit/arch/args_case.h"

#include "arch/spec.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };
#define PC ARCH_REG_PC

/* clang-format off */
static const struct args_case registers[] = {
	REGISTER_CASE("8@%rax", 8, "", RAX, 8, 0),
	REGISTER_CASE("-8@%rax", 8, "s", RAX, 8, 0),
	REGISTER_CASE("-4@%eax", 4, "s", RAX, 4, 0),
	REGISTER_CASE("2@%ax", 2, "", RAX, 2, 0),
	REGISTER_CASE("-1@%al", 1, "s", RAX, 1, 0),
	REGISTER_CASE("1@%ah", 1, "", RAX, 1, 8),
	REGISTER_CASE("1@%ch", 1, "", RCX, 1, 8),
	REGISTER_CASE("1@%dh", 1, "", RDX, 1, 8),
	REGISTER_CASE("1@%bh", 1, "", RBX, 1, 8),
	REGISTER_CASE("1@%spl", 1, "", RSP, 1, 0),
	REGISTER_CASE("1@%sil", 1, "", RSI, 1, 0),
	REGISTER_CASE("1@%dil", 1, "", RDI, 1, 0),
	REGISTER_CASE("1@%bpl", 1, "", RBP, 1, 0),
	REGISTER_CASE("1@%r9b", 1, "", R9, 1, 0),
	REGISTER_CASE("2@%r10w", 2, "", R10, 2, 0),
	REGISTER_CASE("4@%r12d", 4, "", R12, 4, 0),
	REGISTER_CASE("8@%r15", 8, "", R15, 8, 0),
	REGISTER_CASE("8@%RAX", 8, "", RAX, 8, 0),
	/* The size and the register's width may differ. */
	REGISTER_CASE("4@%rax", 4, "", RAX, 8, 0),
	REGISTER_CASE("-8@%eax", 8, "s", RAX, 4, 0),
	REGISTER_CASE("-4@%ax", 4, "s", RAX, 2, 0),
	REGISTER_CASE("16@%r8", 16, "", R8, 8, 0),
	REGISTER_CASE("3@%eax", 3, "", RAX, 4, 0),
	/* No size. */
	REGISTER_CASE("%rax", 8, "n", RAX, 8, 0),
	REGISTER_CASE("%eax", 4, "n", RAX, 4, 0),
	REGISTER_CASE("%ah", 1, "n", RAX, 1, 8),
	REGISTER_CASE("%r8w", 2, "n", R8, 2, 0),
	/* Floats, also in general registers (gcc 12, libstdc++ and php). */
	REGISTER_CASE("8f@%rax", 8, "f", RAX, 8, 0),
	REGISTER_CASE("-4f@%edx", 4, "sf", RDX, 4, 0),
	FP_CASE("8f@%xmm0", 8, "f", 0, 16),
	FP_CASE("-4f@%xmm15", 4, "sf", 15, 16),
	FP_CASE("16@%xmm31", 16, "", 31, 16),
	FP_CASE("32@%ymm7", 32, "", 7, 32),
	FP_CASE("64@%zmm16", 64, "", 16, 64),
	FP_CASE("%xmm1", 16, "n", 1, 16),
};

static const struct args_case immediates[] = {
	IMMEDIATE_CASE("-4@$-5", 4, "s", -5, NULL),
	IMMEDIATE_CASE("4@$0", 4, "", 0, NULL),
	IMMEDIATE_CASE("1@$255", 1, "", 255, NULL),
	IMMEDIATE_CASE("$5", 8, "n", 5, NULL),
	IMMEDIATE_CASE("8@$0xff", 8, "", 255, NULL),
	IMMEDIATE_CASE("8@$0XfF", 8, "", 255, NULL),
	IMMEDIATE_CASE("8@$-0x10", 8, "", -16, NULL),
	IMMEDIATE_CASE("8@$010", 8, "", 8, NULL),
	IMMEDIATE_CASE("-8@$-9223372036854775808", 8, "s", INT64_MIN, NULL),
	IMMEDIATE_CASE("-8@$9223372036854775807", 8, "s", INT64_MAX, NULL),
	IMMEDIATE_CASE("8@$9223372036854775808", 8, "", INT64_MIN, NULL),
	IMMEDIATE_CASE("8@$18446744073709551615", 8, "", -1, NULL),
	IMMEDIATE_CASE("8@$0xffffffffffffffff", 8, "", -1, NULL),
	IMMEDIATE_CASE("8@$0x0000000000000000000001", 8, "", 1, NULL),
	IMMEDIATE_CASE("8@$(8)", 8, "", 8, NULL),
	IMMEDIATE_CASE("8@$-(8)", 8, "", -8, NULL),
	IMMEDIATE_CASE("8@$~0", 8, "", -1, NULL),
	IMMEDIATE_CASE("8@$4*8+1", 8, "", 33, NULL),
	IMMEDIATE_CASE("8@$2*(3+4)", 8, "", 14, NULL),
	/* The address of a symbol, not its contents. */
	IMMEDIATE_CASE("8@$glob", 8, "", 0, "glob"),
	IMMEDIATE_CASE("8@$a-12", 8, "", -12, "a"),
	IMMEDIATE_CASE("8@$-12+a", 8, "", -12, "a"),
	UNKNOWN_CASE("8@$18446744073709551616", 8, ""),
	UNKNOWN_CASE("8@$-9223372036854775809", 8, ""),
	UNKNOWN_CASE("8@$-0xffffffffffffffff", 8, ""),
	UNKNOWN_CASE("8@$0xffffffffffffffff+1", 8, ""),
	UNKNOWN_CASE("8@$0x1ffffffffffffffff", 8, ""),
	UNKNOWN_CASE("8@$0x4000000000000000*4*4", 8, ""),
	UNKNOWN_CASE("8@$0x", 8, ""),
	UNKNOWN_CASE("8@$08", 8, ""),
	UNKNOWN_CASE("8@$5x", 8, ""),
	UNKNOWN_CASE("8@$1f", 8, ""),
	UNKNOWN_CASE("8@$", 8, ""),
	UNKNOWN_CASE("8@$-", 8, ""),
	UNKNOWN_CASE("8@$5(%rax)", 8, ""),
	UNKNOWN_CASE("8@$-a", 8, ""),
	UNKNOWN_CASE("8@$a*2", 8, ""),
	UNKNOWN_CASE("8@$8/2", 8, ""),
	UNKNOWN_CASE("8@$(8", 8, ""),
	UNKNOWN_CASE("8@$%rax", 8, ""),
};

static const struct args_case memory[] = {
	MEMORY_CASE("8@(%rax)", 8, "", RAX, NONE, 1, 0, NULL),
	MEMORY_CASE("-4@-20(%rbp)", 4, "s", RBP, NONE, 1, -20, NULL),
	MEMORY_CASE("8@0(%r13)", 8, "", R13, NONE, 1, 0, NULL),
	MEMORY_CASE("8@+8(%rsp)", 8, "", RSP, NONE, 1, 8, NULL),
	MEMORY_CASE("8@0x10(%rsp)", 8, "", RSP, NONE, 1, 16, NULL),
	MEMORY_CASE("8@0xfffffffffffffff8(%rsp)", 8, "", RSP, NONE, 1, -8, NULL),
	MEMORY_CASE("8@-2147483648(%rax)", 8, "", RAX, NONE, 1, INT32_MIN, NULL),
	MEMORY_CASE("8@2147483647(%rax)", 8, "", RAX, NONE, 1, INT32_MAX, NULL),
	MEMORY_CASE("8@(%rax,%rcx)", 8, "", RAX, RCX, 1, 0, NULL),
	MEMORY_CASE("8@-8(%rax,%rcx,4)", 8, "", RAX, RCX, 4, -8, NULL),
	MEMORY_CASE("8@2147483632(%rbp,%r12,8)", 8, "", RBP, R12, 8, 2147483632, NULL),
	MEMORY_CASE("8@(,%rdi,8)", 8, "", NONE, RDI, 8, 0, NULL),
	MEMORY_CASE("8@(,%rdi)", 8, "", NONE, RDI, 1, 0, NULL),
	MEMORY_CASE("8@(%rax,%riz,4)", 8, "", RAX, NONE, 1, 0, NULL),
	MEMORY_CASE("8@(%rax,1)", 8, "", RAX, NONE, 1, 0, NULL),
	MEMORY_CASE("8@8( %rax , %rcx , 2 )", 8, "", RAX, RCX, 2, 8, NULL),
	MEMORY_CASE("8@-(8)(%rbp)", 8, "", RBP, NONE, 1, -8, NULL),
	MEMORY_CASE("8@(8)(%rbp)", 8, "", RBP, NONE, 1, 8, NULL),
	MEMORY_CASE("8@(-(8)+4)*2(%rbp)", 8, "", RBP, NONE, 1, -8, NULL),
	MEMORY_CASE("8@8*2+1(%rbp)", 8, "", RBP, NONE, 1, 17, NULL),
	MEMORY_CASE("16(%rsp)", 8, "n", RSP, NONE, 1, 16, NULL),
	MEMORY_CASE("(%rsp)", 8, "n", RSP, NONE, 1, 0, NULL),
	MEMORY_CASE("8f@(%rax)", 8, "f", RAX, NONE, 1, 0, NULL),
	MEMORY_CASE("800@-120(%rsp)", 800, "", RSP, NONE, 1, -120, NULL),
	MEMORY_CASE("-16@-16(%rsp)", 16, "s", RSP, NONE, 1, -16, NULL),
	MEMORY_CASE("4294967295@(%rax)", UINT32_MAX, "", RAX, NONE, 1, 0, NULL),

	MEMORY_CASE("8@sym(%rip)", 8, "", PC, NONE, 1, 0, "sym"),
	MEMORY_CASE("8@sym+16(%rip)", 8, "", PC, NONE, 1, 16, "sym"),
	MEMORY_CASE("8@16+sym(%rip)", 8, "", PC, NONE, 1, 16, "sym"),
	MEMORY_CASE("8@-16+sym(%rip)", 8, "", PC, NONE, 1, -16, "sym"),
	MEMORY_CASE("8@sym-16(%rip)", 8, "", PC, NONE, 1, -16, "sym"),
	MEMORY_CASE("8@8+sym+4(%rip)", 8, "", PC, NONE, 1, 12, "sym"),
	MEMORY_CASE("8@8+sym-4+1(%rip)", 8, "", PC, NONE, 1, 5, "sym"),
	MEMORY_CASE("8@(sym+4)-1(%rip)", 8, "", PC, NONE, 1, 3, "sym"),
	MEMORY_CASE("-4@12+CheckpointStats(%rip)", 4, "s", PC, NONE, 1, 12, "CheckpointStats"),
	MEMORY_CASE("8@.LC1(%rip)", 8, "", PC, NONE, 1, 0, ".LC1"),
	MEMORY_CASE("4@st.0(%rip)", 4, "", PC, NONE, 1, 0, "st.0"),
	MEMORY_CASE("4@_ZZ4mainE3$_0(%rip)", 4, "", PC, NONE, 1, 0, "_ZZ4mainE3$_0"),
	MEMORY_CASE("4@gr\xc3\xb6\xc3\x9f" "e(%rip)", 4, "", PC, NONE, 1, 0,
		"gr\xc3\xb6\xc3\x9f" "e"),
	MEMORY_CASE("4@sym@VERS_1.2(%rip)", 4, "", PC, NONE, 1, 0, "sym@VERS_1.2"),
	MEMORY_CASE("4@eax(%rip)", 4, "", PC, NONE, 1, 0, "eax"),
	MEMORY_CASE("sym(%rip)", 8, "n", PC, NONE, 1, 0, "sym"),
	MEMORY_CASE("8@sym(%rax)", 8, "", RAX, NONE, 1, 0, "sym"),
	MEMORY_CASE("8@sym-8(%rbx,%rdi,8)", 8, "", RBX, RDI, 8, -8, "sym"),
	MEMORY_CASE("8@table+8(,%rdi,8)", 8, "", NONE, RDI, 8, 8, "table"),
	MEMORY_CASE("8@sym(,1)", 8, "", NONE, NONE, 1, 0, "sym"),
	MEMORY_CASE("8@sym", 8, "", NONE, NONE, 1, 0, "sym"),
	MEMORY_CASE("8@sym+4", 8, "", NONE, NONE, 1, 4, "sym"),
	MEMORY_CASE("8@ptr", 8, "", NONE, NONE, 1, 0, "ptr"),
	MEMORY_CASE("8@0x1234", 8, "", NONE, NONE, 1, 0x1234, NULL),
	MEMORY_CASE("8@4660", 8, "", NONE, NONE, 1, 4660, NULL),
	MEMORY_CASE("4@-16", 4, "", NONE, NONE, 1, -16, NULL),
	MEMORY_CASE("8@0xffffffffff600000", 8, "", NONE, NONE, 1, -10485760, NULL),
};

static const struct args_case unknown[] = {
	/* Not the symbol's own address. */
	UNKNOWN_CASE("8@f@GOTPCREL(%rip)", 8, ""),
	UNKNOWN_CASE("-8@f@gotpcrel(%rip)", 8, "s"),
	UNKNOWN_CASE("8@f@PLT", 8, ""),
	UNKNOWN_CASE("4@tls@TPOFF(%rax)", 4, ""),
	UNKNOWN_CASE("4@tls@tpoff+4(%rax)", 4, ""),
	UNKNOWN_CASE("8@a-b(%rip)", 8, ""),
	UNKNOWN_CASE("8@a+b(%rip)", 8, ""),
	UNKNOWN_CASE("8@(a-b)(%rip)", 8, ""),
	/* Segments. */
	UNKNOWN_CASE("4@%fs:(%rax)", 4, ""),
	UNKNOWN_CASE("4@%fs:0x10", 4, ""),
	UNKNOWN_CASE("4@%fs:tls@tpoff", 4, ""),
	UNKNOWN_CASE("4@%gs:0", 4, ""),
	UNKNOWN_CASE("4@%fs", 4, ""),
	/* Registers that do not exist, or are not allowed here. */
	UNKNOWN_CASE("8@%rip", 8, ""),
	UNKNOWN_CASE("8@%r16", 8, ""),
	UNKNOWN_CASE("8@%r7", 8, ""),
	UNKNOWN_CASE("8@%r08", 8, ""),
	UNKNOWN_CASE("8@%r8q", 8, ""),
	UNKNOWN_CASE("8@%r", 8, ""),
	UNKNOWN_CASE("8@%", 8, ""),
	UNKNOWN_CASE("8@%raxx", 8, ""),
	UNKNOWN_CASE("8@%xmm32", 8, ""),
	UNKNOWN_CASE("8@%xmm", 8, ""),
	UNKNOWN_CASE("8@%xmm01", 8, ""),
	UNKNOWN_CASE("10f@%st", 10, "f"),
	UNKNOWN_CASE("10f@%st(1)", 10, "f"),
	UNKNOWN_CASE("8@%mm0", 8, ""),
	UNKNOWN_CASE("8@(%eax)", 8, ""),
	UNKNOWN_CASE("8@(%rax,%ecx,4)", 8, ""),
	UNKNOWN_CASE("8@(%rax,%rsp)", 8, ""),
	UNKNOWN_CASE("8@(%rax,%rip)", 8, ""),
	UNKNOWN_CASE("8@(%rax,%xmm1,4)", 8, ""),
	UNKNOWN_CASE("8@(%riz)", 8, ""),
	UNKNOWN_CASE("8@sym(%rip,%rax,4)", 8, ""),
	UNKNOWN_CASE("8@8(%rip)", 8, ""),
	UNKNOWN_CASE("8@(%rip)", 8, ""),
	UNKNOWN_CASE("8@*%rax", 8, ""),
	UNKNOWN_CASE("8@*8(%rax)", 8, ""),
	/* Invalid addresses. */
	UNKNOWN_CASE("8@2147483648(%rax)", 8, ""),
	UNKNOWN_CASE("8@-2147483649(%rax)", 8, ""),
	UNKNOWN_CASE("8@0xfffffff8(%rbp)", 8, ""),
	UNKNOWN_CASE("8@0xffffffff(,%rdi,8)", 8, ""),
	UNKNOWN_CASE("8@sym+2147483648(%rip)", 8, ""),
	UNKNOWN_CASE("8@()", 8, ""),
	UNKNOWN_CASE("8@(,)", 8, ""),
	UNKNOWN_CASE("8@(%rax,)", 8, ""),
	UNKNOWN_CASE("8@(%rax,,4)", 8, ""),
	UNKNOWN_CASE("8@(%rax,%rcx,)", 8, ""),
	UNKNOWN_CASE("8@(%rax,%rcx,3)", 8, ""),
	UNKNOWN_CASE("8@(%rax,%rcx,0)", 8, ""),
	UNKNOWN_CASE("8@(%rax,%rcx,257)", 8, ""),
	UNKNOWN_CASE("8@(%rax)(%rcx)", 8, ""),
	UNKNOWN_CASE("8@(%rax)8", 8, ""),
	UNKNOWN_CASE("8@8+(%rax)", 8, ""),
	UNKNOWN_CASE("8@1f(%rip)", 8, ""),
	UNKNOWN_CASE("8@%rax,%rcx", 8, ""),
	UNKNOWN_CASE("8@)", 8, ""),
	UNKNOWN_CASE("8@(%rax", 8, ""),
	UNKNOWN_CASE("8@((((((((((((((((((((1))))))))))))))))))))", 8, ""),
	/* Invalid sizes. */
	UNKNOWN_CASE("8@", 8, ""),
	UNKNOWN_CASE("0@%rax", 8, "n"),
	UNKNOWN_CASE("@%rax", 8, "n"),
	UNKNOWN_CASE("-@%rax", 8, "n"),
	UNKNOWN_CASE("--8@%rax", 8, "n"),
	UNKNOWN_CASE("8g@%rax", 8, "n"),
	UNKNOWN_CASE("8ff@%rax", 8, "n"),
	UNKNOWN_CASE("4294967296@%rax", 8, "n"),
	UNKNOWN_CASE("99999999999999999999999@%rax", 8, "n"),
	/* Intel syntax: one argument each, however many blanks it has. */
	UNKNOWN_CASE("4@DWORD PTR [rbx+rcx*4]", 4, ""),
	UNKNOWN_CASE("4@DWORD PTR ext[rip]", 4, ""),
	UNKNOWN_CASE("8@QWORD PTR -32[rdx+r9]", 8, ""),
	UNKNOWN_CASE("4@DWORD PTR fs:[rax]", 4, ""),
	UNKNOWN_CASE("8@OFFSET FLAT:glob", 8, ""),
	UNKNOWN_CASE("8@offset glob", 8, ""),
	UNKNOWN_CASE("8@[rip + offset .LC0]", 8, ""),
	UNKNOWN_CASE("4@[rsp - 68]", 4, ""),
	UNKNOWN_CASE("4@eax", 4, ""),
	UNKNOWN_CASE("8@r8", 8, ""),
	UNKNOWN_CASE("8f@xmm0", 8, "f"),
};
/* clang-format on */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_registers(void **state)
{
	(void)state;
	args_check(x86_64_parse_args, registers, COUNT(registers), "4@%esi");
}

static void test_immediates(void **state)
{
	(void)state;
	args_check(x86_64_parse_args, immediates, COUNT(immediates), "4@%esi");
}

static void test_memory(void **state)
{
	(void)state;
	args_check(x86_64_parse_args, memory, COUNT(memory), "4@%esi");
}

static void test_unknown(void **state)
{
	(void)state;
	args_check(x86_64_parse_args, unknown, COUNT(unknown), "4@%esi");
}

static void test_register_names(void **state)
{
	static const char *const legacy[][4] = {{"%al", "%ax", "%eax", "%rax"},
		{"%cl", "%cx", "%ecx", "%rcx"}, {"%dl", "%dx", "%edx", "%rdx"},
		{"%bl", "%bx", "%ebx", "%rbx"}, {"%spl", "%sp", "%esp", "%rsp"},
		{"%bpl", "%bp", "%ebp", "%rbp"}, {"%sil", "%si", "%esi", "%rsi"},
		{"%dil", "%di", "%edi", "%rdi"}};
	static const char *const suffixes[] = {"b", "w", "d", ""};
	char name[16];

	(void)state;
	for (int reg = RAX; reg <= R15; reg++) {
		for (int i = 0; i < 4; i++) {
			snprintf(name, sizeof(name), "%%r%d%s", reg, suffixes[i]);
			args_check_register(x86_64_parse_args, reg < R8 ? legacy[reg][i] : name,
				ARCH_ARG_REGISTER, reg, 1u << i);
		}
	}
	for (int reg = 0; reg < 32; reg++) {
		for (int i = 0; i < 3; i++) {
			snprintf(name, sizeof(name), "%%%cmm%d", "xyz"[i], reg);
			args_check_register(
				x86_64_parse_args, name, ARCH_ARG_FP_REGISTER, reg, 16u << i);
		}
	}
}

/* How a string is split into items. */
static void test_items(void **state)
{
	/* clang-format off */
	static const struct {
		const char *args;
		size_t count;
		const char *second; /* spec of the second item */
	} cases[] = {
		{"", 0, NULL},
		{"  \t ", 0, NULL},
		{"8@%rax", 1, NULL},
		{" 8@%rax -4@%esi", 2, "-4@%esi"},
		{"8@%rax\t%rcx ", 2, "%rcx"},
		{"8@8( %rax, %rcx ) 4@$5", 2, "4@$5"},
		{"8@(%rax 4@%ecx", 2, "4@%ecx"},
		{"8@(%rax 8@8(%rbx) 1@%al", 3, "8@8(%rbx)"},
		{"8@%rax) 4@%ecx", 2, "4@%ecx"},
		{"4@DWORD PTR [rbx + rcx*4] 4@eax", 2, "4@eax"},
		{"8@$offset -4@$1", 2, "-4@$1"},
		{"8@offset -4@$1", 2, "-4@$1"},
		{"nonsense?! 4@%ecx", 2, "4@%ecx"},
	};
	/* clang-format on */
	struct arch_arg args[ARCH_ARGS_MAX];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		if (x86_64_parse_args(cases[i].args, args) != cases[i].count)
			fail_msg("\"%s\": count", cases[i].args);
		if (!cases[i].second)
			continue;
		assert_int_equal(args[1].spec_length, strlen(cases[i].second));
		assert_memory_equal(args[1].spec, cases[i].second, strlen(cases[i].second));
	}
}

/* Bare numbers next to Intel syntax are constants, and must not be parsed as addresses. */
static void test_intel_note(void **state)
{
	struct arch_arg args[ARCH_ARGS_MAX];

	(void)state;
	assert_int_equal(x86_64_parse_args("4@5 -8@rax", args), 2);
	assert_int_equal(args[0].kind, ARCH_ARG_UNKNOWN);
	assert_int_equal(args[0].disp, 0);
	assert_int_equal(args[0].size, 4);
	assert_int_equal(args[1].kind, ARCH_ARG_UNKNOWN);
	assert_int_equal(x86_64_parse_args("4@-1 4@DWORD PTR [rsp] 8@7", args), 3);
	assert_int_equal(args[0].kind, ARCH_ARG_UNKNOWN);
	assert_int_equal(args[2].kind, ARCH_ARG_UNKNOWN);
	assert_int_equal(x86_64_parse_args("4@5 4@%fs:0", args), 2);
	assert_int_equal(args[0].kind, ARCH_ARG_MEMORY);
}

static void test_hostile(void **state)
{
	(void)state;
	args_check_hostile(x86_64_parse_args, "-4@8+sym-4(%rax,%r12,4)");
}

#define FILE_TEST(name, path, notes)                                                               \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		args_check_file(&arch_x86_64, path, notes);                                        \
	}

FILE_TEST(libjvm, "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so", 531)
FILE_TEST(postgres, "/usr/lib/postgresql/15/bin/postgres", 71)
FILE_TEST(libruby, "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1", 40)
FILE_TEST(python, "/usr/bin/python3.11", 8)
FILE_TEST(php, "/usr/bin/php8.2", 14)
FILE_TEST(libstdcxx, "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 3)
FILE_TEST(stap, "/usr/bin/stap", 32)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_immediates),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_register_names),
		cmocka_unit_test(test_items),
		cmocka_unit_test(test_intel_note),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_libjvm),
		cmocka_unit_test(test_postgres),
		cmocka_unit_test(test_libruby),
		cmocka_unit_test(test_python),
		cmocka_unit_test(test_php),
		cmocka_unit_test(test_libstdcxx),
		cmocka_unit_test(test_stap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
