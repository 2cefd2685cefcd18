/* SPDX-License-Identifier: MIT */
/*
 * Which code overwrites the arithmetic flags before it reads them, and stubs that leave them
 * changed. Random code that is said to do so is executed: whatever the flags were before, the
 * registers and flags after it are the same.
 */
/* Not under ThreadSanitizer: nothing has threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/skip.h"
#include "tests/unit/stub/stub_variant.h"

enum { CODES = 200000, INSTRUCTIONS = 5, CODE_BYTES = 128 };

/* ---- The list ----------------------------------------------------------------------------- */

#define FREES(bytes)                                                                               \
	assert_true(arch_x86_64.overwrites_flags((const uint8_t *)(bytes), sizeof(bytes) - 1))
#define KEEPS(bytes)                                                                               \
	assert_false(arch_x86_64.overwrites_flags((const uint8_t *)(bytes), sizeof(bytes) - 1))

static void code_that_overwrites(void **state)
{
	(void)state;
	FREES("\x39\xd0");			   /* cmp %edx,%eax */
	FREES("\x39\xd0\x75\xf0");		   /* and jne after it */
	FREES("\x48\x83\xc4\x08\xc3");		   /* add $8,%rsp; ret */
	FREES("\x48\x8b\x43\x08\x48\x85\xc0");	   /* mov 8(%rbx),%rax; test %rax,%rax */
	FREES("\x5b\x31\xc0");			   /* pop %rbx; xor %eax,%eax */
	FREES("\xf3\x0f\x6f\x07\x80\x7f\x10\x00"); /* movdqu (%rdi),%xmm0; cmpb $0,16(%rdi) */
	FREES("\x8d\x47\x01\xf7\xd8");		   /* lea 1(%rdi),%eax; neg %eax */
	FREES("\xf0\x83\x07\x01");		   /* lock addl $1,(%rdi) */
	FREES("\x66\x90\xa8\x01");		   /* nop; test $1,%al */
}

static void code_that_does_not(void **state)
{
	(void)state;
	KEEPS("");
	KEEPS("\x90");
	KEEPS("\x48\x89\xc3");		       /* mov: nothing follows */
	KEEPS("\x75\x02\x39\xd0");	       /* jne first */
	KEEPS("\xeb\x00\x39\xd0");	       /* jmp */
	KEEPS("\xe8\x00\x00\x00\x00\x39\xd0"); /* call */
	KEEPS("\xc3\x39\xd0");		       /* ret */
	KEEPS("\x9c\x39\xd0");		       /* pushf */
	KEEPS("\x9f\x39\xd0");		       /* lahf */
	KEEPS("\x83\xd0\x00");		       /* adc $0,%eax */
	KEEPS("\x19\xc0");		       /* sbb %eax,%eax */
	KEEPS("\xff\xc0\x39\xd0");	       /* inc %eax: keeps CF, and is not passed */
	KEEPS("\xd3\xe0");		       /* shl %cl,%eax */
	KEEPS("\xc1\xe0\x04\x39\xd0");	       /* shl $4,%eax */
	KEEPS("\x0f\x94\xc0\x39\xd0");	       /* sete */
	KEEPS("\x0f\x44\xc1\x39\xd0");	       /* cmove */
	KEEPS("\x0f\xa3\xc1");		       /* bt */
	KEEPS("\xf7\xe1");		       /* mul */
	KEEPS("\xf3\xa6\x39\xd0");	       /* repe cmpsb: none if %rcx is 0 */
	KEEPS("\xff\xe0\x39\xd0");	       /* jmp *%rax */
	KEEPS("\x0f\x05\x39\xd0");	       /* syscall: %r11 = flags */
	KEEPS("\xcc\x39\xd0");		       /* int3 */
	KEEPS("\x39");			       /* cut off */
	KEEPS("\xc5\xf8\x28\xc1\x39\xd0");     /* vmovaps: on no list */
}

/* ---- Random code ----------------------------------------------------------------------------- */

static uint32_t draw(uint32_t below)
{
	static uint64_t seed = 88172645463325252;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % below;
}

/* Opcodes whose operands may be registers; div is not among them. */
static const uint8_t with_modrm[] = {0x63, 0x80, 0x81, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
	0x8a, 0x8b, 0xc0, 0xc1, 0xc6, 0xc7, 0xd0, 0xd1, 0xd2, 0xd3, 0xf6, 0xf7, 0xfe, 0xff};
static const uint8_t without_modrm[] = {0x90, 0x91, 0x92, 0x95, 0x96, 0x98, 0x99, 0x9e, 0x9f, 0xa8,
	0xa9, 0xb0, 0xb1, 0xb5, 0xb8, 0xb9, 0xbe, 0xf5, 0xf8, 0xf9};
static const uint8_t two_bytes[] = {0x1f, 0x28, 0x40, 0x42, 0x44, 0x46, 0x48, 0x4a, 0x57, 0x6f,
	0x7f, 0x90, 0x92, 0x94, 0x98, 0x9a, 0xa3, 0xa4, 0xa5, 0xab, 0xac, 0xad, 0xaf, 0xb0, 0xb1,
	0xb3, 0xb6, 0xb7, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xc1, 0xef};

/* ModRM with two registers, neither of them %rsp. */
static uint8_t registers(uint8_t operation)
{
	static const uint8_t numbers[] = {0, 1, 2, 3, 5, 6, 7};

	return 0xc0 | operation << 3 | numbers[draw(7)];
}

/* The operation in ModRM, of those that exist; or a register. */
static uint8_t operation_of(uint8_t opcode)
{
	switch (opcode) {
	case 0xc6:
	case 0xc7:
		return 0;
	case 0xf6:
	case 0xf7:
		return (uint8_t)draw(6);
	case 0xfe:
	case 0xff:
		return (uint8_t)draw(2);
	case 0x80:
	case 0x81:
	case 0x83:
		return (uint8_t)draw(8);
	default:
		return registers(0) & 7;
	}
}

static void random_opcode(uint8_t *out)
{
	switch (draw(4)) {
	case 0: /* add ... cmp */
		out[0] = (uint8_t)(draw(8) << 3 | draw(6));
		if ((out[0] & 7) < 4)
			out[1] = registers(registers(0) & 7);
		break;
	case 1:
		out[0] = with_modrm[draw(sizeof(with_modrm))];
		out[1] = registers(operation_of(out[0]));
		break;
	case 2:
		out[0] = without_modrm[draw(sizeof(without_modrm))];
		break;
	default:
		out[0] = 0x0f;
		out[1] = two_bytes[draw(sizeof(two_bytes))];
		out[2] = registers(out[1] == 0xba ? (uint8_t)(4 + draw(4)) : registers(0) & 7);
	}
}

/* One instruction of registers and constants only; its length. */
static size_t random_instruction(uint8_t *out)
{
	static const uint8_t rex[] = {0x40, 0x41, 0x44, 0x45, 0x48, 0x49, 0x4c, 0x4d};
	struct arch_insn insn;

	do {
		size_t at = 0;

		for (int i = 0; i < 16; i++)
			out[i] = (uint8_t)draw(256);
		if (draw(8) == 0)
			out[at++] = 0x66;
		if (draw(2) == 0)
			out[at++] = rex[draw(sizeof(rex))];
		random_opcode(out + at);
	} while (!arch_x86_64.decode(out, 16, 0, &insn) || insn.flow != ARCH_FLOW_NONE);
	return insn.length;
}

static size_t random_code(uint8_t *out)
{
	size_t length = 0;

	for (uint32_t count = 1 + draw(INSTRUCTIONS); count > 0; count--)
		length += random_instruction(out + length);
	return length;
}

/* Appends the way back to the harness; the code's address. */
static const void *place(struct variant *v, const uint8_t *code, size_t length)
{
	uint8_t *at = v->host.code_rw + HOST_CODE_BYTES - CODE_BYTES;
	uint64_t address = (uintptr_t)v->host.code + HOST_CODE_BYTES - CODE_BYTES;

	memcpy(at, code, length);
	arch_x86_64.far_jump(address + length, (uintptr_t)stub_harness_next, at + length);
	return (const void *)(uintptr_t)address;
}

static void scramble(struct stub_state *s)
{
	for (int i = 0; i < 16; i++)
		if (i != RSP)
			s->gpr[i] = (uint64_t)draw(UINT32_MAX) << 32 | draw(UINT32_MAX);
	s->gpr[RCX] = draw(4) ? s->gpr[RCX] : 0;
}

static uint64_t random_flags(void)
{
	return FLAGS_ALWAYS | (FLAGS_ARITHMETIC & draw(0x1000));
}

static void same_end(const struct stub_state *a, const struct stub_state *b, const uint8_t *code)
{
	if (a->flags != b->flags || memcmp(a->gpr, b->gpr, sizeof(a->gpr)) != 0 ||
		memcmp(a->xmm, b->xmm, sizeof(a->xmm)) != 0)
		fail_msg("%02x %02x %02x %02x %02x %02x ...: flags %#lx, %#lx", code[0], code[1],
			code[2], code[3], code[4], code[5], a->flags, b->flags);
}

static void random_codes(void **state)
{
	struct stub_state ends[2];
	struct variant v;
	long freed = 0;

	(void)state;
	variant_init(&v, true, false);
	for (int i = 0; i < CODES; i++) {
		uint8_t code[CODE_BYTES];
		size_t length = random_code(code);

		if (!arch_x86_64.overwrites_flags(code, length))
			continue;
		freed++;
		scramble(&v.state);
		for (int k = 0; k < 2; k++) {
			v.state.flags = random_flags();
			stub_harness_run(&v.state, &ends[k], place(&v, code, length));
		}
		same_end(&ends[0], &ends[1], code);
	}
	assert_true(freed > CODES / 20);
	variant_deinit(&v);
}

/* ---- Stubs ------------------------------------------------------------------------------------
 */

/* A hit in front of such code: it ends as without the hit. */
static void check_stub(struct variant *v, struct arch_stub *stub)
{
	const void *entry;

	stub->frees_flags = true;
	stub->next = (uintptr_t)v->host.code + HOST_CODE_BYTES - CODE_BYTES;
	entry = stub_host_emit(&v->host, stub);
	for (int i = 0; i < 200; i++) {
		struct stub_state alone, hit;
		uint8_t code[CODE_BYTES];
		size_t length;

		do
			length = random_code(code);
		while (!arch_x86_64.overwrites_flags(code, length));
		v->state.flags = random_flags();
		stub_harness_run(&v->state, &alone, place(v, code, length));
		stub_harness_run(&v->state, &hit, entry);
		same_end(&alone, &hit, code);
	}
}

static void check_stubs(struct variant *v)
{
	static const char *const specs[] = {
		"8@%rax", "-4@%ecx", "8@%rsp", "8@8(%rsp)", "4@3(%rsp)", "8@(%rbx)", "8@%rbx"};
	enum { SPECS = sizeof(specs) / sizeof(*specs) };
	struct arch_capture captures[SPECS];
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_COUNT);

	strcpy((char *)v->pages, "some text");
	v->state.gpr[RBX] = (uintptr_t)v->pages;
	check_stub(v, &stub);
	assert_int_equal(stub_host_hits(&v->host), 200);
	*v->host.guard = 0;
	check_stub(v, &stub);
	assert_int_equal(stub_host_hits(&v->host), 200);
	*v->host.guard = 1;
	for (int i = 0; i < SPECS; i++)
		captures[i] = variant_capture(specs[i]);
	captures[SPECS - 1].is_string = true;
	stub = variant_stub(v, ARCH_ACTION_RECORD);
	stub.captures = captures;
	for (int count = 0; count <= SPECS; count++) {
		stub.capture_count = stub.recorded = (uint8_t)count;
		stub_host_reset(&v->host);
		check_stub(v, &stub);
	}
}

static void stubs(void **state)
{
	(void)state;
	variant_each(check_stubs);
}

/* What is recorded does not depend on it: registers are found where they are saved. */
static void check_words(struct variant *v)
{
	static const char *const specs[] = {"8@%rax", "8@%rsp", "8@8(%rsp)", "8@%r11", "8@%rbx"};
	struct arch_capture captures[5];

	v->state.gpr[RBX] = (uintptr_t) "text";
	for (int aligned = 0; aligned < 2; aligned++) {
		struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
		const struct ring_record *r;
		const uint64_t *words;
		struct stub_state out;
		uint64_t above;
		size_t bytes;

		for (int i = 0; i < 5; i++)
			captures[i] = variant_capture(specs[i]);
		captures[4].is_string = !aligned;
		stub.captures = captures;
		stub.capture_count = stub.recorded = 5;
		stub.frees_flags = true;
		stub_host_reset(&v->host);
		stub_harness_run(&v->state, &out, stub_host_emit(&v->host, &stub));
		assert_memory_equal(out.gpr, v->state.gpr, sizeof(out.gpr));
		r = stub_host_only_record(&v->host, &bytes);
		words = stub_host_open_record(captures, 5, r, bytes);
		memcpy(&above, (const void *)(uintptr_t)(v->state.gpr[RSP] + 8), 8);
		assert_int_equal(words[0], v->state.gpr[RAX]);
		assert_int_equal(words[1], v->state.gpr[RSP]);
		assert_int_equal(words[2], above);
		assert_int_equal(words[3], v->state.gpr[R11]);
		assert_int_equal(words[4], aligned ? v->state.gpr[RBX] : 4);
	}
}

static void words(void **state)
{
	(void)state;
	variant_each(check_words);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_that_overwrites),
		cmocka_unit_test(code_that_does_not),
		cmocka_unit_test(random_codes),
		cmocka_unit_test(stubs),
		cmocka_unit_test(words),
	};

#ifndef __x86_64__
	return skip_all("code of x86-64, which this machine does not run");
#endif
	if (!arch_x86_64.can_decode())
		return skip_all("needs the disassembler's library");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
