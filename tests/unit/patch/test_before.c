/* SPDX-License-Identifier: MIT */
/* The plan `before`: what may stand before one of OCaml's sites for it to be traced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elf/object.h"
#include "elf/sdt.h"
#include "libprobe/patch/patch.h"
#include "tests/unit/patch/plan_text.h"
#include "tests/unit/skip.h"

static const char no_start[] = "its function cannot be decoded from the start: the instructions "
			       "before the site are unknown";
static const char no_room[] = "too few instructions that fall through stand before the site";
static const char cannot_move[] =
	"the instructions before the site cannot move, or something may enter them";

static const char head[] =
	".macro OCAML name\n"
	"site_\\name: nop\n .byte 0x3d\n .long 0x7ff00000\n"
	" .pushsection .note.stapsdt, \"\", \"note\"\n .balign 4\n"
	" .long 892f - 891f, 894f - 893f, 3\n891: .asciz \"stapsdt\"\n892: .balign 4\n"
	"893: .quad site_\\name, 0, 0\n .asciz \"ocaml_1\"\n .asciz \"\\name\"\n .byte 0\n"
	"894: .balign 4\n .popsection\n.endm\n"
	".macro CODE name\n .type \\name, @function\n\\name: .cfi_startproc\n cwtl\n.endm\n"
	".macro DONE name\n .cfi_endproc\n .size \\name, . - \\name\n.endm\n"
	".macro LOADS\n lea 0x1000000(%rip), %rdx\n mov (%rdx), %rdx\n.endm\n .text\n";

/* A function, the length of what moves before its site, and why nothing does. */
struct row {
	const char *name, *body;
	uint8_t length;
	const char *cannot;
};

static const struct row rows[] = {
	{"loads", "LOADS\n OCAML loads\n ret\n", 10, NULL},
	{"only", "sub $8, %rsp\n OCAML only\n ret\n", 0, no_room},
	{"first", "OCAML first\n ret\n", 0, no_room},
	/* The first instruction of a function, and every nop, stay. */
	{"entry",
		"ret\n .cfi_endproc\n .type entered, @function\nentered: .cfi_startproc\n LOADS\n"
		" OCAML entry\n ret\n .size entered, . - entered\n",
		0, no_room},
	{"padded", "lea 0x1000000(%rip), %rdx\n nop\n mov (%rdx), %rdx\n OCAML padded\n ret\n", 0,
		no_room},
	{"call", "call loads\n mov %rax, %rdi\n OCAML call\n ret\n", 0, no_room},
	{"called", "call loads\n mov $1, %edi\n OCAML called\n ret\n", 5, NULL},
	{"leaves", "test %rdi, %rdi\n jne 1f\n mov %rdi, %rsi\n OCAML leaves\n1: ret\n", 5, NULL},
	{"to_site", "LOADS\n2: OCAML to_site\n dec %rdi\n jns 2b\n ret\n", 0, cannot_move},
	{"inside",
		"lea 0x1000000(%rip), %rdx\n3: mov (%rdx), %rdx\n OCAML inside\n dec %rdi\n jns "
		"3b\n"
		" ret\n",
		0, cannot_move},
	{"to_start", "4: LOADS\n OCAML to_start\n dec %rdi\n jns 4b\n ret\n", 10, NULL},
	{"skips", "test %rdi, %rdi\n jne site_skips\n mov %rdi, %rsi\n OCAML skips\n ret\n", 0,
		cannot_move},
	{"named",
		"LOADS\n OCAML named\n ret\n .pushsection .data\n .balign 8\n"
		" .quad site_named\n .popsection\n",
		0, cannot_move},
	{"pair", "LOADS\n OCAML pair\n OCAML second\n ret\n", 10, NULL},
	{"second", NULL, 0, cannot_move},
	{"apart", "LOADS\n OCAML apart\n LOADS\n OCAML other\n ret\n", 10, NULL},
	{"other", NULL, 10, NULL},
	{"data", "jmp 5f\n .byte 0x06\n5: LOADS\n OCAML data\n ret\n", 0, no_start},
	{"page",
		" .balign 4096\n .skip 4096 - 11, 0x90\n lea 0x1000001(%rip), %rdx\n lea "
		"0x1000002(%rip), %rdx\n"
		" OCAML page\n ret\n",
		14, NULL},
};
enum { ROWS = sizeof(rows) / sizeof(*rows) };

static void ok(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

static void assemble(const char *dir, char path[64])
{
	char source[64], command[192];
	FILE *file;

	snprintf(source, sizeof(source), "%s/before.s", dir);
	snprintf(path, 64, "%s/before", dir);
	file = fopen(source, "w");
	assert_non_null(file);
	fputs(head, file);
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].body)
			fprintf(file, " CODE %s\n %s DONE %s\n", rows[i].name, rows[i].body,
				rows[i].name);
	fputs(" .section .note.GNU-stack, \"\", @progbits\n", file);
	assert_int_equal(fclose(file), 0);
	snprintf(command, sizeof(command), "cc -nostdlib -shared -o %s %s", path, source);
	assert_int_equal(system(command), 0);
}

static void check(const struct row *row, const struct plan *plan)
{
	static const enum probe_plan order[] = {PROBE_PLAN_BEFORE};
	const char *reason;
	enum probe_plan chosen = chosen_of(plan, order, 1, &reason);

	print_message("%s\n", row->name);

	assert_true(plan->ocaml);
	assert_int_equal(plan->before.length, row->length);
	assert_int_equal(chosen, row->length ? PROBE_PLAN_BEFORE : PROBE_PLAN_REFUSED);
	if (row->cannot)
		assert_string_equal(reason, row->cannot);
	/* Handlers can be switched all the same, and nothing behind the nop is touched. */
	assert_int_equal(chosen_of(plan, NULL, 0, &reason), PROBE_PLAN_TOGGLE);
	assert_int_equal(plan->behind.length, 0);
}

static void what_stands_before(void **state)
{
	static const struct plan_order order = {.plans = {&plan_behind, &plan_before}, .count = 2};
	char dir[] = "/tmp/probectl-test-XXXXXX", path[64], command[96];
	const struct sdt_note *list[ROWS];
	struct plan plans[ROWS];
	struct sdt_notes notes = {0};
	struct object *object;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assemble(dir, path);
	ok(object_open(path, &object));
	ok(sdt_read(object, &notes));
	assert_int_equal(notes.count, ROWS);
	for (size_t i = 0; i < ROWS; i++)
		list[i] = &notes.notes[i];
	ok(plan_sites(object, &notes, list, ROWS, &order, plans));
	for (size_t i = 0; i < ROWS; i++)
		for (size_t k = 0; k < ROWS; k++)
			if (strcmp(rows[i].name, notes.notes[k].name) == 0)
				check(&rows[i], &plans[k]);
	sdt_notes_deinit(&notes);
	object_close(object);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

/* What memory may hold: the nop and the toggle are others', the instructions before them not. */
static void what_memory_holds(void **state)
{
	static const uint8_t code[] = {0x48, 0x8d, 0x57, 0x01, 0x50};
	struct plan plan = {.pc = 0x1005,
		.ocaml = true,
		.byte_count = 6,
		.bytes = {0x90, 0x3d},
		.before = {.offset = -(int)sizeof(code), .length = sizeof(code)}};
	uint8_t found[sizeof(code)];

	(void)state;
	memcpy(plan.before_bytes, code, sizeof(code));
	memcpy(found, code, sizeof(code));
	assert_int_equal(plan_starts_before(&plan, &plan_before), sizeof(code));
	assert_int_equal(plan_starts_before(&plan, &plan_toggle), 0);
	assert_int_equal(plan_needs(&plan, &plan_before), sizeof(code));
	assert_true(plan_holds(arch_host(), &plan, &plan_before, found));
	found[0] = 0xcc;
	assert_false(plan_holds(arch_host(), &plan, &plan_before, found));
}

/* A call of ours in place of the toggle: its byte is others', what follows it is not. */
static void what_becomes_a_call(void **state)
{
	static const enum probe_plan order[] = {PROBE_PLAN_CALL};
	const struct arch_toggle *toggle = arch_host()->toggle;
	const struct planning planning = {.arch = arch_host()};
	struct plan plan = {
		.pc = 0x1005, .ocaml = true, .byte_count = 6, .bytes = {0x90, 0x3d, 1, 2, 3, 4}};
	uint8_t found[6] = {0x90, 0x3d, 1, 2, 3, 4}, code[ARCH_TOGGLE_BYTES];
	uint64_t at = 0x10000;
	const char *reason;

	(void)state;
	plan_toggle.look(&planning, &plan);
	assert_int_equal(chosen_of(&plan, order, 1, &reason), PROBE_PLAN_CALL);
	assert_int_equal(plan_needs(&plan, &plan_call), 6);
	assert_true(plan_holds(arch_host(), &plan, &plan_call, found));
	found[1] = 0xe8;
	assert_true(plan_holds(arch_host(), &plan, &plan_call, found));
	found[0] = 0xcc; /* a breakpoint on the nop */
	assert_true(plan_holds(arch_host(), &plan, &plan_call, found));
	found[5] = 5;
	assert_false(plan_holds(arch_host(), &plan, &plan_call, found));
	found[5] = 4;
	found[1] = 0xe9;
	assert_false(plan_holds(arch_host(), &plan, &plan_call, found));
	assert_in_range(toggle->enter(code), 1, ARCH_TOGGLE_BYTES);
	assert_in_range(
		toggle->leave(at, at + 100, at - 100, at + 200, code), 1, ARCH_TOGGLE_BYTES);
	assert_int_equal(toggle->leave(at, at + (UINT64_C(1) << 32), at, at, code), 0);
	assert_int_equal(toggle->leave(at, at, at + (UINT64_C(1) << 32), at, code), 0);
	assert_int_equal(toggle->leave(at, at, at, at + (UINT64_C(1) << 32), code), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_stands_before),
		cmocka_unit_test(what_memory_holds),
		cmocka_unit_test(what_becomes_a_call),
	};

#ifndef __x86_64__
	return skip_all(
		"OCaml has its protocol, and sites have jumps before their nops, on x86-64 alone");
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
