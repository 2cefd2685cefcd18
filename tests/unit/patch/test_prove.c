/* SPDX-License-Identifier: MIT */
/*
 * The proof that instructions may be moved: assembled functions with every way
 * of getting behind a site's nop, each refused for its reason, and with what
 * only looks like one. All are linked as different linkers lay files out.
 */
#include "tests/unit/patch/plan_text.h"
#include "tests/unit/skip.h"

/* ---- Functions ---------------------------------------------------------------------- */

static const char landing_pad[] = "an exception lands in the bytes after the site";
static const char another_site[] = "another site is in the bytes after the site";
static const char undecodable[] = "the bytes after the site cannot be decoded";
static const char function_starts[] = "a function may start in the bytes after the site";
static const char signal_return[] = "signal handlers return to the bytes after the site";
static const char unsupported[] = "an instruction after the site cannot run elsewhere";

/* SITE, and labels in the bytes after it: at each byte that a jump covers, and after the jump. */
#define BYTES "in1: cwtl\nin2: cwtl\nin3: cwtl\nin4: cwtl\nin5: lea 1(%rax), %rax\nin6: "

static const struct function {
	const char *name, *body, *reason; /* NULL: they may be moved */
} functions[] = {
	/* ---- What is safe ---- */
	{"plain", "SITE\n lea 1(%rax), %rax\n lea 1(%rax), %rax\n ret\n", NULL},
	{"loop_to_site",
		"1: SITE\n lea 1(%rax), %rax\n lea 1(%rax), %rax\n dec %rdi\n jnz 1b\n ret\n",
		NULL},
	{"branch_behind_window",
		" jz 1f\n SITE\n lea 1(%rax), %rax\n cwtl\n1: lea 1(%rax), %rax\n jmp 1b\n", NULL},
	{"call_is_last", "SITE\n call 1f\n lea 1(%rax), %rax\n1: ret\n", NULL},
	{"long_call_is_last", "SITE\n cwtl\n call *0x1000(%rax)\n ret\n", NULL},
	{"return_is_last", "SITE\n lea 1(%rax), %rax\n ret\n", NULL},
	{"return_and_padding", "SITE\n ret\n nopw 0(%rax,%rax)\n nop\n", NULL},
	{"site_in_data",
		"1: SITE\n lea 1(%rax), %rax\n ret\n .section .data.rel.ro, \"aw\"\n"
		" .balign 8\n .quad 1b\n .previous\n",
		NULL},
	{"relative_operand", "SITE\n mov plain(%rip), %eax\n ret\n", NULL},
	{"entered_behind", " jz in6\n SITE\n" BYTES " call in6\n ret\n", NULL},
	/* A displacement that has a short jump's bytes in it, which nothing runs. */
	{"looks_like_a_branch", "SITE\n" BYTES " mov $0x0000f4eb, %eax\n ret\n", NULL},
	/* What seems to lead into an instruction: by chance, except behind a prefix. */
	{"called_inside", "SITE\n9: mov $1, %eax\n ret\n call 9b + 2\n", NULL},
	{"address_inside_in_data",
		"SITE\n9: mov $1, %eax\n ret\n .section .data, \"aw\"\n .balign 8\n"
		" .quad 9b + 4\n .previous\n",
		NULL},
	{"called_behind_lock", "SITE\n9: lock addl $1, 8(%rdi)\n ret\n call 9b + 1\n",
		plan_entered},
	{"called_behind_opcode", "SITE\n9: lock addl $1, 8(%rdi)\n ret\n call 9b + 2\n", NULL},
	{"called_in_padding", "SITE\n ret\n9: nopw 0(%rax,%rax)\n nop\n call 9b + 2\n",
		plan_entered},
	{"jump_table_beside",
		" lea 8f(%rip), %rcx\n movslq (%rcx,%rdi,4), %rax\n add %rcx, %rax\n jmp *%rax\n"
		"9: SITE\n lea 1(%rax), %rax\n lea 1(%rax), %rax\n7: ret\n"
		" .section .rodata\n .balign 4\n8: .long 9b - 8b, 7b - 8b\n .previous\n",
		NULL},
	/* Behind the table of another function begins one whose distances are not from there. */
	{"behind_other_table",
		" ret\n .cfi_endproc\nwith_table: .cfi_startproc\n lea 8f(%rip), %rcx\n"
		" movslq (%rcx,%rdi,4), %rax\n add %rcx, %rax\n jmp *%rax\n9: ret\n"
		" .cfi_endproc\n .type behind_table, @function\nbehind_table: .cfi_startproc\n"
		" lea 7f(%rip), %rcx\n SITE\n" BYTES " ret\n"
		" .section .rodata\n .balign 4\n8: .long 9b - 8b\n7: .long 9b - 7b, in2 - 8b\n"
		" .previous\n",
		NULL},
	/* A function whose first bytes look like a distance. */
	{"address_of_function",
		" lea taken(%rip), %rcx\n SITE\n" BYTES " ret\n .cfi_endproc\n .balign 4\n"
		"taken: .cfi_startproc\n .long in2 - taken\n ret\n",
		NULL},

	/* ---- Direct branches ---- */
	{"short_forwards", " jz in2\n SITE\n" BYTES " ret\n", plan_entered_short},
	{"short_backwards", "SITE\n" BYTES " dec %rdi\n jnz in3\n ret\n", plan_entered_short},
	{"short_jump", " jmp in1\n SITE\n" BYTES " ret\n", plan_entered_short},
	{"short_jump_to_last", " jmp in4\n SITE\n" BYTES " ret\n", plan_entered_short},
	{"short_jump_to_fifth", " jmp in5\n SITE\n" BYTES " ret\n", plan_entered_short},
	{"loop", "SITE\n" BYTES " loop in1\n ret\n", plan_entered_short},
	{"jrcxz", " jrcxz in4\n SITE\n" BYTES " ret\n", plan_entered_short},
	{"from_another_function",
		"SITE\n" BYTES " ret\n .cfi_endproc\nother: .cfi_startproc\n jmp in2\n",
		plan_entered_short},
	{"from_unknown_code",
		"SITE\n" BYTES " ret\n .cfi_endproc\n jmp in2\n .cfi_startproc\n nop\n",
		plan_entered_short},
	{"long_branch", " .byte 0x0f, 0x84\n .long in2 - . - 4\n SITE\n" BYTES " ret\n",
		plan_entered},
	{"long_jump", " .byte 0xe9\n .long in3 - . - 4\n SITE\n" BYTES " ret\n", plan_entered},
	{"guard", " GUARD in3\n SITE\n" BYTES " ret\n", plan_entered},
	{"guard_far_away",
		"SITE\n" BYTES " ret\n .cfi_endproc\n .section .text.unlikely, \"ax\"\n"
		" GUARD in2\n .previous\n .cfi_startproc\n nop\n",
		plan_entered},
	{"guard_behind", " GUARD in6\n SITE\n" BYTES " ret\n", NULL},
	{"guard_inside", "SITE\n cwtl\n GUARD 1f\n1: ret\n", another_site},
	{"far_away",
		"SITE\n" BYTES " ret\n .cfi_endproc\n .section .text.unlikely, \"ax\"\n"
		" .zero 1000, 0xcc\n jmp in2\n .previous\n .cfi_startproc\n nop\n",
		plan_entered},
	{"called", "SITE\n" BYTES " call in4\n ret\n", plan_entered},
	{"called_last", "SITE\n" BYTES " call in5\n ret\n", plan_entered},
	{"called_first", "SITE\n" BYTES " call in1\n ret\n", plan_entered},
	{"xbegin", " xbegin in2\n SITE\n" BYTES " ret\n", plan_entered},

	/* ---- Indirect branches ---- */
	{"jump_table_relative",
		" lea 8f(%rip), %rcx\n movslq (%rcx,%rdi,4), %rax\n add %rcx, %rax\n jmp *%rax\n"
		"9: SITE\n" BYTES " ret\n"
		" .section .rodata\n .balign 4\n8: .long 9b - 8b, in2 - 8b\n .previous\n",
		plan_entered},
	{"jump_table_in_text",
		" lea 8f(%rip), %rcx\n movslq (%rcx,%rdi,4), %rax\n add %rcx, %rax\n jmp *%rax\n"
		" .balign 4\n8: .long 9f - 8b, in2 - 8b\n"
		"9: SITE\n" BYTES " ret\n",
		plan_entered},
	{"jump_table_behind_table",
		" lea 7f(%rip), %rcx\n lea 8f(%rip), %rcx\n movslq (%rcx,%rdi,4), %rax\n"
		" add %rcx, %rax\n jmp *%rax\n9: SITE\n" BYTES " ret\n"
		" .section .rodata\n .balign 4\n8: .long 9b - 8b\n7: .long 9b - 7b, in2 - 8b\n"
		" .previous\n",
		plan_entered},
	{"jump_table_absolute",
		" lea 8f(%rip), %rcx\n jmp *(%rcx,%rdi,8)\n9: SITE\n" BYTES " ret\n"
		" .section .data.rel.ro, \"aw\"\n .balign 8\n8: .quad 9b, in3\n .previous\n",
		plan_entered},
	{"address_in_data",
		"SITE\n" BYTES
		" ret\n .section .data, \"aw\"\n .balign 8\n .quad in1\n .previous\n",
		plan_entered},
	{"address_in_code", " lea in4(%rip), %rax\n jmp *%rax\n SITE\n" BYTES " ret\n",
		plan_entered},
	{"exported", " .globl exported_in\n SITE\n cwtl\nexported_in:" BYTES " ret\n",
		plan_entered},
	/* Computed goto by distances from a label (GCC's manual, "Labels as Values"). */
	{"computed_goto_relative",
		" lea 9f(%rip), %rcx\n lea 8f(%rip), %rdx\n movslq (%rdx,%rdi,4), %rax\n"
		" add %rcx, %rax\n jmp *%rax\n9: SITE\n" BYTES " ret\n"
		" .section .rodata\n .balign 4\n8: .long 0, in2 - 9b\n .previous\n",
		plan_entered},

	/* bare…: no size, no unwind information, between functions that are known. */
	{"bare", "SITE\n" BYTES " ret\n", NULL},
	/* What __builtin_setjmp does: nothing is computed from the label. */
	{"label_alone",
		" lea 9f(%rip), %rcx\n mov %rcx, 8(%rdi)\n call plain\n9: SITE\n" BYTES " ret\n",
		NULL},

	{"bare_label", " lea 9f(%rip), %rcx\n mov %rcx, 8(%rdi)\n9: SITE\n" BYTES " ret\n", NULL},

	/* ---- Exceptions ---- */
	{"landing_pad",
		" .cfi_personality 0x1b, personality\n .cfi_lsda 0x1b, 8f\n7: call plain\n6: ret\n"
		" SITE\n" BYTES " ret\n .section .gcc_except_table, \"a\"\n"
		"8: .byte 0xff, 0xff, 1\n .uleb128 5f - 4f\n4: .uleb128 7b - 1b\n .uleb128 6b - "
		"7b\n"
		" .uleb128 in2 - 1b\n .uleb128 0\n5:\n .previous\n",
		landing_pad},
	{"landing_pad_elsewhere",
		" .cfi_personality 0x1b, personality\n .cfi_lsda 0x1b, 8f\n7: call plain\n6: ret\n"
		"3: SITE\n" BYTES " ret\n .section .gcc_except_table, \"a\"\n"
		"8: .byte 0xff, 0xff, 1\n .uleb128 5f - 4f\n4: .uleb128 7b - 1b\n .uleb128 6b - "
		"7b\n"
		" .uleb128 3b - 1b\n .uleb128 0\n5:\n .previous\n",
		NULL},

	{"bare_goto", " lea 9f(%rip), %rcx\n add %rdi, %rcx\n jmp *%rcx\n9: SITE\n" BYTES " ret\n",
		plan_entered},

	/* ---- Functions to which nothing in the file leads ---- */
	{"symbol_in_padding",
		"SITE\n ret\n .type padded_symbol, @function\npadded_symbol: nopw 0(%rax,%rax)\n "
		"ret\n",
		function_starts},
	{"ifunc_in_padding",
		"SITE\n ret\n .type padded_ifunc, @gnu_indirect_function\n"
		"padded_ifunc: nopw 0(%rax,%rax)\n ret\n",
		function_starts},
	{"unwound_in_padding",
		"SITE\n ret\n .cfi_endproc\n .cfi_startproc\n nopw 0(%rax,%rax)\n ret\n",
		function_starts},
	{"second_entry",
		"SITE\n cwtl\n .type second_symbol, @function\nsecond_symbol: lea 1(%rax), %rax\n "
		"ret\n",
		function_starts},
	{"starts_behind",
		"SITE\n lea 1(%rax), %rax\n ret\n .type behind_symbol, @function\n"
		"behind_symbol: nop\n ret\n",
		NULL},

	/* ---- Where signal handlers return to, and what only looks like it ---- */
	{"signal_return", "SITE\n mov $15, %rax\n syscall\n ret\n", signal_return},
	{"signal_return_of_musl", "SITE\n cwtl\n mov $15, %eax\n syscall\n ret\n", signal_return},
	{"signal_return_later",
		"SITE\n lea 1(%rax), %rax\n lea 1(%rax), %rax\n cwtl\n cwtl\n"
		" cwtl\n cwtl\n mov $15, %rax\n syscall\n ret\n",
		NULL},
	{"another_call", "SITE\n mov $16, %rax\n syscall\n ret\n", NULL},

	/* ---- What stands there ---- */
	{"call_inside", "SITE\n call *%rax\n lea 1(%rax), %rax\n ret\n", plan_call_returns},
	{"jump_inside", "SITE\n jmp 1f\n lea 1(%rax), %rax\n1: ret\n", plan_jumps},
	{"return_inside", "SITE\n ret\n lea 1(%rax), %rax\n ret\n", plan_jumps},
	{"bad_bytes", "SITE\n .byte 0x06, 0x06, 0x06, 0x06\n ret\n", undecodable},
	{"loop_inside", "SITE\n cwtl\n cwtl\n1: loop 1b\n ret\n", unsupported},
};

enum { FUNCTIONS = sizeof(functions) / sizeof(*functions) };

/* Labels of a function get its name, as those of others are in the same file. */
static void put_body(FILE *file, const struct function *f)
{
	static const char *const labels[] = {"in1", "in2", "in3", "in4", "in5", "in6"};

	for (const char *at = f->body; *at;) {
		size_t k;

		for (k = 0; k < 6; k++)
			if (strncmp(at, labels[k], 3) == 0 && (at == f->body || at[-1] != '_'))
				break;
		if (strncmp(at, "SITE", 4) == 0) {
			fprintf(file, "site_%s: nop", f->name);
			at += 4;
		} else if (k < 6) {
			fprintf(file, "%s_%s", f->name, labels[k]);
			at += 3;
		} else {
			fputc(*at++, file);
		}
	}
}

/* GUARD LABEL makes a guard of <probe/tracepoint.h>, and its note. */
static const char guard_macro[] = ".macro GUARD label\n"
				  "890: .byte 0xa9\n .long \\label - . - 4\n"
				  " .pushsection .note.probectl, \"\", \"note\"\n .balign 4\n"
				  " .long 9, 32, 0x6764\n .asciz \"probectl\"\n .balign 4\n"
				  " .quad 890b, \\label, 0, personality\n .popsection\n.endm\n";

static void write_source(const char *path)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(guard_macro, file);
	fputs(plan_text_head, file);
	for (size_t i = 0; i < FUNCTIONS; i++) {
		const char *name = functions[i].name;
		bool bare = strncmp(name, "bare", 4) == 0;

		fprintf(file, " .balign 16, 0xcc\n%s:\n", name);
		if (!bare)
			fprintf(file, " .type %s, @function\n .cfi_startproc\n", name);
		fputs("1:\n", file);
		put_body(file, &functions[i]);
		if (!bare)
			fprintf(file, " .cfi_endproc\n .size %s, . - %s\n", name, name);
		fprintf(file, " NOTE %s\n .zero 300, 0xcc\n", name);
	}
	fputs(" .globl _start\n_start: ret\n .section .note.GNU-stack, \"\", @progbits\n", file);
	assert_int_equal(fclose(file), 0);
}

/* ---- Plans --------------------------------------------------------------------------- */

static void check_plans(const char *path, const char *how)
{
	struct plan plans[FUNCTIONS];
	const struct sdt_note **list;
	struct sdt_notes notes;
	struct object *object;
	size_t wrong = 0;

	assert_no_error(object_open(path, &object));
	assert_no_error(sdt_read(object, &notes));
	assert_int_equal(notes.count, FUNCTIONS);
	list = plan_notes_of(&notes);
	assert_no_error(plan_sites(object, &notes, list, notes.count, &plan_defaults, plans));
	for (size_t i = 0; i < FUNCTIONS; i++) {
		const char *got = plans[i].behind.cannot, *wanted = functions[i].reason;

		assert_string_equal(notes.notes[i].name, functions[i].name);
		assert_int_equal(plans[i].pc, notes.notes[i].pc);
		assert_true(plans[i].short_nop);
		/* A static program exports nothing. */
		if (strcmp(functions[i].name, "exported") == 0 && strstr(how, "-static"))
			wanted = NULL;
		if (got == wanted || (got && wanted && strcmp(got, wanted) == 0))
			continue;
		print_message("%s, %s: got \"%s\", wanted \"%s\"\n", how, functions[i].name,
			got ? got : "movable", wanted ? wanted : "movable");
		wrong++;
	}
	assert_int_equal(wrong, 0);
	free(list);
	sdt_notes_deinit(&notes);
	object_close(object);
}

/* How a linker is asked for, and how a file is linked. */
struct way {
	const char *linker, *options;
};

static const struct way ways[] = {
	{"bfd", "-shared"},
	{"bfd", "-shared -Wl,-z,noseparate-code"},
	{"gold", "-shared"},
	{"lld", "-shared"},
	{"mold", "-shared"},
	{"bfd", "-static -no-pie -Wl,--eh-frame-hdr"},
	{"bfd", "-static-pie -Wl,--eh-frame-hdr"},
};

static void test_proofs(void **state)
{
	const struct way *way = *state;
	char dir[] = "/tmp/probectl-test-XXXXXX", source[256], path[256], how[256];

	need_linker(way->linker);
	assert_non_null(mkdtemp(dir));
	snprintf(source, sizeof(source), "%s/plan.s", dir);
	snprintf(path, sizeof(path), "%s/plan", dir);
	snprintf(how, sizeof(how), "%s -fuse-ld=%s", way->options, way->linker);
	write_source(source);
	assert_true(run("cc -nostdlib %s -o %s %s", how, path, source));
	check_plans(path, how);
	assert_true(run("rm -r %s", dir));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(test_proofs, (void *)&ways[0]),
		cmocka_unit_test_prestate(test_proofs, (void *)&ways[1]),
		cmocka_unit_test_prestate(test_proofs, (void *)&ways[2]),
		cmocka_unit_test_prestate(test_proofs, (void *)&ways[3]),
		cmocka_unit_test_prestate(test_proofs, (void *)&ways[4]),
		cmocka_unit_test_prestate(test_proofs, (void *)&ways[5]),
		cmocka_unit_test_prestate(test_proofs, (void *)&ways[6]),
	};

	if (!plan_text_compiles())
		return skip_all("no compiler here makes code of x86-64, whose plans these are");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
