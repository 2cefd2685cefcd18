/* SPDX-License-Identifier: MIT */
/*
 * The proof that instructions may be moved: assembled functions with every way
 * of getting behind a site's nop, each refused for its reason, and with what
 * only looks like one. All are linked as different linkers lay files out.
 */
#include "elf_image.h"

#include "elf/sdt.h"
#include "libprobe/plan/plan.h"

/* ---- Functions ---------------------------------------------------------------------- */

static const char entered[] = "something in the module may jump to the bytes after the nop";
static const char entered_short[] = "a branch enters the instructions after the nop";
static const char landing_pad[] = "an exception lands in the bytes after the nop";
static const char call_returns[] = "a call returns to the bytes after the nop";
static const char jumps[] = "a jump or return follows the nop";
static const char undecodable[] = "the bytes after the nop cannot be decoded";
static const char unsupported[] = "an instruction after the nop cannot run elsewhere";

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
	{"called_behind_lock", "SITE\n9: lock addl $1, 8(%rdi)\n ret\n call 9b + 1\n", entered},
	{"called_behind_opcode", "SITE\n9: lock addl $1, 8(%rdi)\n ret\n call 9b + 2\n", NULL},
	{"called_in_padding", "SITE\n ret\n9: nopw 0(%rax,%rax)\n nop\n call 9b + 2\n", entered},
	{"jump_table_beside",
		" lea 8f(%rip), %rcx\n movslq (%rcx,%rdi,4), %rax\n add %rcx, %rax\n jmp *%rax\n"
		"9: SITE\n lea 1(%rax), %rax\n lea 1(%rax), %rax\n7: ret\n"
		" .section .rodata\n .balign 4\n8: .long 9b - 8b, 7b - 8b\n .previous\n",
		NULL},

	/* ---- Direct branches ---- */
	{"short_forwards", " jz in2\n SITE\n" BYTES " ret\n", entered_short},
	{"short_backwards", "SITE\n" BYTES " dec %rdi\n jnz in3\n ret\n", entered_short},
	{"short_jump", " jmp in1\n SITE\n" BYTES " ret\n", entered_short},
	{"short_jump_to_last", " jmp in4\n SITE\n" BYTES " ret\n", entered_short},
	{"short_jump_to_fifth", " jmp in5\n SITE\n" BYTES " ret\n", entered_short},
	{"loop", "SITE\n" BYTES " loop in1\n ret\n", entered_short},
	{"jrcxz", " jrcxz in4\n SITE\n" BYTES " ret\n", entered_short},
	{"from_another_function",
		"SITE\n" BYTES " ret\n .cfi_endproc\nother: .cfi_startproc\n jmp in2\n",
		entered_short},
	{"from_unknown_code",
		"SITE\n" BYTES " ret\n .cfi_endproc\n jmp in2\n .cfi_startproc\n nop\n",
		entered_short},
	{"long_branch", " .byte 0x0f, 0x84\n .long in2 - . - 4\n SITE\n" BYTES " ret\n", entered},
	{"long_jump", " .byte 0xe9\n .long in3 - . - 4\n SITE\n" BYTES " ret\n", entered},
	{"far_away",
		"SITE\n" BYTES " ret\n .cfi_endproc\n .section .text.unlikely, \"ax\"\n"
		" .zero 1000, 0xcc\n jmp in2\n .previous\n .cfi_startproc\n nop\n",
		entered},
	{"called", "SITE\n" BYTES " call in4\n ret\n", entered},
	{"called_last", "SITE\n" BYTES " call in5\n ret\n", entered},
	{"called_first", "SITE\n" BYTES " call in1\n ret\n", entered},
	{"xbegin", " xbegin in2\n SITE\n" BYTES " ret\n", entered},

	/* ---- Indirect branches ---- */
	{"jump_table_relative",
		" lea 8f(%rip), %rcx\n movslq (%rcx,%rdi,4), %rax\n add %rcx, %rax\n jmp *%rax\n"
		"9: SITE\n" BYTES " ret\n"
		" .section .rodata\n .balign 4\n8: .long 9b - 8b, in2 - 8b\n .previous\n",
		entered},
	{"jump_table_in_text",
		" lea 8f(%rip), %rcx\n movslq (%rcx,%rdi,4), %rax\n add %rcx, %rax\n jmp *%rax\n"
		" .balign 4\n8: .long 9f - 8b, in2 - 8b\n"
		"9: SITE\n" BYTES " ret\n",
		entered},
	{"jump_table_absolute",
		" lea 8f(%rip), %rcx\n jmp *(%rcx,%rdi,8)\n9: SITE\n" BYTES " ret\n"
		" .section .data.rel.ro, \"aw\"\n .balign 8\n8: .quad 9b, in3\n .previous\n",
		entered},
	{"address_in_data",
		"SITE\n" BYTES
		" ret\n .section .data, \"aw\"\n .balign 8\n .quad in1\n .previous\n",
		entered},
	{"address_in_code", " lea in4(%rip), %rax\n jmp *%rax\n SITE\n" BYTES " ret\n", entered},
	{"exported", " .globl exported_in\n SITE\n cwtl\nexported_in:" BYTES " ret\n", entered},
	/* Computed goto by distances from a label (GCC's manual, "Labels as Values"). */
	{"computed_goto_relative",
		" lea 9f(%rip), %rcx\n lea 8f(%rip), %rdx\n movslq (%rdx,%rdi,4), %rax\n"
		" add %rcx, %rax\n jmp *%rax\n9: SITE\n" BYTES " ret\n"
		" .section .rodata\n .balign 4\n8: .long 0, in2 - 9b\n .previous\n",
		entered},

	/* What __builtin_setjmp does: nothing is computed from the label. */
	{"label_alone",
		" lea 9f(%rip), %rcx\n mov %rcx, 8(%rdi)\n call plain\n9: SITE\n" BYTES " ret\n",
		NULL},

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

	/* ---- What stands there ---- */
	{"call_inside", "SITE\n call *%rax\n lea 1(%rax), %rax\n ret\n", call_returns},
	{"jump_inside", "SITE\n jmp 1f\n lea 1(%rax), %rax\n1: ret\n", jumps},
	{"return_inside", "SITE\n ret\n lea 1(%rax), %rax\n ret\n", jumps},
	{"bad_bytes", "SITE\n .byte 0x06, 0x06, 0x06, 0x06\n ret\n", undecodable},
	{"loop_inside", "SITE\n cwtl\n cwtl\n1: loop 1b\n ret\n", unsupported},
};

enum { FUNCTIONS = sizeof(functions) / sizeof(*functions) };

static const char head[] =
	".macro NOTE name\n"
	" .pushsection .note.stapsdt, \"\", \"note\"\n .balign 4\n"
	" .long 892f - 891f, 894f - 893f, 3\n891: .asciz \"stapsdt\"\n892: .balign 4\n"
	"893: .quad site_\\name, 0, 0\n .asciz \"plan\"\n .asciz \"\\name\"\n .byte 0\n"
	"894: .balign 4\n .popsection\n.endm\n"
	" .text\npersonality: .cfi_startproc\n ret\n .cfi_endproc\n";

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

static void write_source(const char *path)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(head, file);
	for (size_t i = 0; i < FUNCTIONS; i++) {
		fprintf(file,
			" .balign 16, 0xcc\n .type %s, @function\n%s:\n"
			" .cfi_startproc\n1:\n",
			functions[i].name, functions[i].name);
		put_body(file, &functions[i]);
		fprintf(file,
			" .cfi_endproc\n .size %s, . - %s\n NOTE %s\n"
			" .zero 300, 0xcc\n",
			functions[i].name, functions[i].name, functions[i].name);
	}
	fputs(" .globl _start\n_start: ret\n .section .note.GNU-stack, \"\", @progbits\n", file);
	assert_int_equal(fclose(file), 0);
}

/* ---- Plans --------------------------------------------------------------------------- */

static const struct sdt_note **notes_of(const struct sdt_notes *notes)
{
	const struct sdt_note **ret = calloc(notes->count, sizeof(*ret));

	assert_non_null(ret);
	for (size_t i = 0; i < notes->count; i++)
		ret[i] = &notes->notes[i];
	return ret;
}

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
	list = notes_of(&notes);
	assert_no_error(plan_sites(
		object, &notes, list, notes.count, plan_default_order, PLAN_DEFAULTS, plans));
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

static const enum probe_plan all_plans[] = {PROBE_PLAN_TOGGLE, PROBE_PLAN_BEHIND, PROBE_PLAN_PUN,
	PROBE_PLAN_LONG_NOP, PROBE_PLAN_RELOCATE, PROBE_PLAN_HOP};

/* Assembles a text and plans all its sites, also for what is only done if it is asked for. */
static size_t plans_by(const char *body, const enum probe_plan *order, size_t order_count,
	struct plan *plans, size_t room)
{
	char dir[] = "/tmp/probectl-test-XXXXXX", source[256], path[256];
	char *text = NULL;
	const struct sdt_note **list;
	struct sdt_notes notes;
	struct object *object;
	size_t count;

	assert_non_null(mkdtemp(dir));
	assert_true(asprintf(&text, "%s%s .section .note.GNU-stack, \"\", @progbits\n", head,
			    body) > 0);
	write_file(dir, "plan.s", text, source);
	snprintf(path, sizeof(path), "%s/plan", dir);
	assert_true(run("cc -nostdlib -shared -o %s %s", path, source));
	assert_no_error(object_open(path, &object));
	assert_no_error(sdt_read(object, &notes));
	count = notes.count;
	assert_true(count <= room);
	list = notes_of(&notes);
	assert_no_error(plan_sites(object, &notes, list, count, order, order_count, plans));
	assert_true(run("rm -r %s", dir));
	free(text);
	free(list);
	sdt_notes_deinit(&notes);
	object_close(object);
	return count;
}

static size_t plans_of(const char *body, struct plan *plans, size_t room)
{
	return plans_by(body, all_plans, sizeof(all_plans) / sizeof(*all_plans), plans, room);
}

/* An address in the windows of two sites keeps both from being moved. */
static void test_windows_that_overlap(void **state)
{
	struct plan plans[3];

	(void)state;
	assert_int_equal(
		plans_of("f: .cfi_startproc\nsite_a: nop\n cwtl\n cwtl\n cwtl\n cwtl\n cwtl\n"
			 "site_b: nop\n2: cwtl\n cwtl\n cwtl\n cwtl\n cwtl\n ret\n"
			 " .cfi_endproc\n NOTE a\n NOTE b\n"
			 " .data\n .balign 8\n .quad 2b, 2b - 2\n",
			plans, 3),
		2);
	assert_string_equal(plans[0].behind.cannot, entered);
	assert_string_equal(plans[1].behind.cannot, entered);
	assert_null(plans[0].relocate.cannot);
	assert_string_equal(plans[1].relocate.cannot, entered);
	/* Behind three nops in a row, all of which are sites; each has the window of its own. */
	assert_int_equal(
		plans_of("f: .cfi_startproc\n lea 8f(%rip), %rcx\nsite_a: nop\nsite_b: nop\n"
			 "site_c: nop\n cwtl\n2: cwtl\n cwtl\n cwtl\n cwtl\n ret\n .cfi_endproc\n"
			 " NOTE a\n NOTE b\n NOTE c\n"
			 " .section .rodata\n .balign 4\n8: .long 2b - 8b\n",
			plans, 3),
		3);
	for (int i = 0; i < 3; i++)
		assert_string_equal(plans[i].behind.cannot, entered);
}

/* What somebody else may break into is never moved. */
static void test_neighbours(void **state)
{
	static const char another_site[] = "another site is in the bytes after the nop";
	struct plan plans[4];

	(void)state;
	assert_int_equal(plans_of("f: .cfi_startproc\nsite_a: nop\nsite_b: nop\nsite_c: nop\n"
				  " lea 1(%rax), %rax\n lea 1(%rax), %rax\n ret\n .cfi_endproc\n"
				  " NOTE a\n NOTE b\n NOTE c\n",
				 plans, 4),
		3);
	for (int i = 0; i < 3; i++) {
		assert_null(plans[i].behind.cannot);
		assert_int_equal(plans[i].behind.offset, 3 - i);
		assert_true(plan_is_shared(&plans[i], PROBE_PLAN_BEHIND));
		assert_int_equal(plans[i].behind.lead, i);
	}
	assert_string_equal(plans[0].relocate.cannot, another_site);
	/* The second is entered without the first. */
	plans_of("f: .cfi_startproc\n jz 2f\nsite_a: nop\n2:\nsite_b: nop\n lea 1(%rax), %rax\n"
		 " lea 1(%rax), %rax\n ret\n .cfi_endproc\n NOTE a\n NOTE b\n",
		plans, 4);
	assert_string_equal(plans[0].behind.cannot, entered_short);
	assert_null(plans[1].behind.cannot);
	assert_false(plan_is_shared(&plans[1], PROBE_PLAN_BEHIND));
	assert_int_equal(plans[1].behind.lead, 0);
	/* The nops of sys/sdt.h and usdt.h, of any length; one that is no site ends the row. */
	plans_of("f: .cfi_startproc\nsite_a: .byte 0x0f, 0x1f, 0x44, 0, 0\nsite_b: nop\n"
		 "site_c: nop\n .byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n nop\n"
		 "site_d: nop\n lea 1(%rax), %rax\n cwtl\n ret\n .cfi_endproc\n"
		 " NOTE a\n NOTE b\n NOTE c\n NOTE d\n",
		plans, 4);
	assert_int_equal(plans[0].behind.offset, 17);
	assert_int_equal(plans[1].behind.lead, 0);
	assert_string_equal(plans[0].behind.cannot, another_site);
	assert_false(plan_is_shared(&plans[3], PROBE_PLAN_BEHIND));
	/* More than fit: those that are nearest to the jump share it. */
	plans_of("f: .cfi_startproc\n .rept 43\n nop\n .endr\n lea 1(%rax), %rax\n"
		 " cwtl\n ret\n .cfi_endproc\n"
		 " .set site_a, f\n .set site_b, f + 3\n .set site_c, f + 41\n"
		 " .set site_d, f + 42\n NOTE a\n NOTE b\n NOTE c\n NOTE d\n",
		plans, 4);
	assert_int_equal(plans[2].behind.offset, 2);
	assert_int_equal(plans[3].behind.lead, 1);
	/* One behind another instruction; one right behind what is moved. */
	plans_of("f: .cfi_startproc\nsite_a: nop\n cwtl\nsite_b: nop\n lea 1(%rax), %rax\n cwtl\n"
		 "site_c: nop\n lea 1(%rax), %rax\n cwtl\n ret\n .cfi_endproc\n"
		 " NOTE a\n NOTE b\n NOTE c\n",
		plans, 4);
	assert_string_equal(plans[0].behind.cannot, another_site);
	assert_null(plans[1].behind.cannot);
	assert_int_equal(plans[1].behind.length, 5);
	assert_null(plans[2].behind.cannot);
}

/* A site with room for a short jump, which something enters behind; what follows is padding. */
#define HOP                                                                                        \
	"f: .cfi_startproc\n jz 1f\nsite_a: nop\n test %%eax, %%eax\n1: cwtl\n cwtl\n cwtl\n "     \
	"cwtl\n"                                                                                   \
	" cwtl\n"

/* How many places the short jump could lead to, and why it has none. */
static size_t spares_of(const char *end)
{
	char *text = NULL;
	struct plan plans[2];
	size_t count;

	assert_true(asprintf(&text, HOP "%s\n NOTE a\n", end) > 0);
	assert_int_equal(plans_of(text, plans, 2), 1);
	free(text);
	assert_string_equal(plans[0].behind.cannot, entered_short);
	assert_int_equal(plans[0].hop.offset, 1);
	assert_int_equal(plans[0].hop.length, 2);
	count = plans[0].spare_count;
	assert_true((count == 0) == (plans[0].hop.cannot != NULL));
	for (size_t i = 0; i < count; i++)
		assert_int_equal(plans[0].spares[i], plans[0].pc + 9 + 5 * i);
	return count;
}

/* Only what no thread comes to is spare. */
static void test_spares(void **state)
{
	struct plan plan;

	(void)state;
	assert_int_equal(spares_of(" ret\n .nops 9\n .cfi_endproc\n"), 1);
	assert_int_equal(spares_of(" ret\n .cfi_endproc\n .nops 4\n"), 0);
	assert_int_equal(spares_of(" ret\n .cfi_endproc\n .nops 14\ng: .cfi_startproc\n ret\n"
				   " .cfi_endproc\n"),
		2);
	assert_int_equal(spares_of(" ret\n .cfi_endproc\n .zero 10, 0xcc\n"), 2);
	/* The short jump is written over the padding itself. */
	assert_int_equal(plans_of("f: .cfi_startproc\nsite_a: nop\n ret\n .nops 9\n"
				  " .cfi_endproc\n NOTE a\n .data\n .balign 8\n .quad f + 4\n",
				 &plan, 1),
		1);
	assert_int_equal(plan.hop.length, 10);
	assert_int_equal(plan.spare_count, 0);
	/* Something runs, or jumps, or returns there; or may, one day. */
	assert_int_equal(spares_of(" cwtl\n .nops 9\n ret\n .cfi_endproc\n"), 0);
	assert_int_equal(spares_of(" call *%rax\n .nops 9\n .cfi_endproc\n"), 0);
	assert_int_equal(spares_of(" ret\n2: .nops 14\n jmp 2b\n .cfi_endproc\n"), 0);
	assert_int_equal(spares_of(" ret\n .nops 5\n2: .nops 9\n jmp 2b\n .cfi_endproc\n"), 1);
	assert_int_equal(spares_of(" ret\n .cfi_endproc\n .nops 9\n2: .nops 5\n"
				   " .data\n .balign 8\n .quad 2b - 5\n"),
		0);
	assert_int_equal(spares_of(" ret\n .cfi_endproc\n .zero 16, 0x90\n"), 0);
	assert_int_equal(spares_of(" ret\n .byte 6\n .nops 9\n .cfi_endproc\n"), 0);
}

static void test_one_address_twice(void **state)
{
	struct plan plans[3];

	(void)state;
	plans_of("site_a:\nsite_b:\nsite_c: nop\n lea 1(%rax), %rax\n cwtl\n ret\n"
		 " NOTE a\n NOTE b\n NOTE c\n",
		plans, 3);
	for (int i = 0; i < 3; i++) {
		assert_null(plans[i].behind.cannot);
		assert_int_equal(plans[i].behind.length, 5);
		assert_int_equal(plans[i].relocate.length, 5);
	}
}

static enum probe_plan choose(const struct plan *plan, enum probe_plan only, const char **reason)
{
	return plan_choose(plan, &only, 1, reason);
}

static enum probe_plan choose_first(const struct plan *plan, const char **reason)
{
	return plan_choose(plan, plan_default_order, PLAN_DEFAULTS, reason);
}

/* Long nops that are somebody's site, or may be one by usdt.h; and those that are not. */
static void test_long_nops(void **state)
{
	static const uint8_t fixed[] = {2, 4, 2, 4, 0, 0};
	struct plan plans[6];

	(void)state;
	assert_int_equal(
		plans_of("site_a: .byte 0x0f, 0x1f, 0x44, 0, 0\n ret\n"
			 "site_b: .byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n ret\n"
			 "site_c: nop\n .byte 0x0f, 0x1f, 0x44, 0, 0\n ret\n"
			 "site_d: nop\n .byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n ret\n"
			 "site_e: nop\n .byte 0x66, 0x0f, 0x1f, 0x44, 0, 0\n ret\n"
			 "site_f: nop\n .byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n ret\n"
			 " NOTE a\n NOTE b\n NOTE c\n NOTE d\n NOTE e\n NOTE f\n",
			plans, 6),
		6);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(plans[i].nop_fixed, fixed[i]);
}

static void test_other_plans(void **state)
{
	const char *reason;
	struct plan plans[7];

	(void)state;
	assert_int_equal(plans_of("f:\nsite_long: .byte 0x0f, 0x1f, 0x44, 0, 0\n cwtl\n ret\n"
				  " ret\n ret\n ret\n ret\n"
				  "site_behind: nop\n nopw %cs:0x200(%rax,%rax)\n"
				  " lea 1(%rax), %rax\n ret\n"
				  "site_none: ret\n ret\n ret\n ret\n ret\n"
				  "site_safe: nop\n lea 1(%rax), %rax\n cwtl\n ret\n"
				  " ret\n ret\n ret\n ret\n"
				  "site_two: .byte 0x66, 0x90\n call *4(%rax)\n ret\n ret\n ret\n"
				  "site_only: nop\n ret\n ret\n ret\n ret\n ret\n"
				  " .data\nsite_data: nop\n ret\n .text\n"
				  " NOTE long\n NOTE behind\n NOTE none\n NOTE safe\n NOTE two\n"
				  " NOTE only\n NOTE data\n",
				 plans, 7),
		7);
	/* The kernel may write the long nop: our jump is behind it, if that can be. */
	assert_int_equal(plans[0].nop_length, 5);
	assert_int_equal(plans[0].nop_offset, 0);
	/* Two bytes of a jump there can be chosen: the rest makes a nop with the first byte. */
	assert_int_equal(plans[0].nop_fixed, 2);
	assert_int_equal(plans[0].behind.offset, 5);
	assert_false(plans[0].short_nop);
	assert_int_equal(choose_first(&plans[0], &reason), PROBE_PLAN_LONG_NOP);
	assert_int_equal(choose(&plans[0], PROBE_PLAN_BEHIND, &reason), PROBE_PLAN_REFUSED);
	assert_string_equal(reason, jumps);
	assert_int_equal(choose(&plans[0], PROBE_PLAN_PUN, &reason), PROBE_PLAN_REFUSED);
	assert_string_equal(reason, "none of the requested plans is possible there");

	assert_int_equal(plans[1].nop_offset, 1);
	assert_true(plans[1].nop_length >= 8);
	assert_int_equal(plans[1].nop_fixed, 4);
	assert_int_equal(plans[1].behind.offset, 1 + plans[1].nop_length);
	assert_int_equal(choose_first(&plans[1], &reason), PROBE_PLAN_BEHIND);
	assert_int_equal(choose(&plans[1], PROBE_PLAN_LONG_NOP, &reason), PROBE_PLAN_LONG_NOP);
	assert_int_equal(choose(&plans[1], PROBE_PLAN_PUN, &reason), PROBE_PLAN_REFUSED);

	assert_int_equal(choose_first(&plans[2], &reason), PROBE_PLAN_REFUSED);
	assert_string_equal(reason, "the bytes there are not the nop that the note promises");

	assert_int_equal(choose_first(&plans[3], &reason), PROBE_PLAN_BEHIND);
	assert_int_equal(plans[3].behind.offset, 1);
	assert_int_equal(plans[3].behind.length, 5);
	assert_int_equal(plans[3].relocate.length, 5);
	assert_int_equal(choose(&plans[3], PROBE_PLAN_PUN, &reason), PROBE_PLAN_PUN);
	assert_int_equal(choose(&plans[3], PROBE_PLAN_RELOCATE, &reason), PROBE_PLAN_RELOCATE);
	assert_int_equal(choose(&plans[3], PROBE_PLAN_LONG_NOP, &reason), PROBE_PLAN_REFUSED);
	assert_int_equal(choose(&plans[3], PROBE_PLAN_TOGGLE, &reason), PROBE_PLAN_REFUSED);
	assert_int_equal(
		plan_choose(&plans[3], plan_default_order, 0, &reason), PROBE_PLAN_REFUSED);

	/* A nop of two bytes: a jump behind it, and nothing else. */
	assert_int_equal(plans[4].behind.offset, 2);
	assert_string_equal(plans[4].behind.cannot, call_returns);
	assert_int_equal(choose_first(&plans[4], &reason), PROBE_PLAN_REFUSED);

	/* Moved only if it is asked for, as a breakpoint of somebody else would crash it. */
	assert_int_equal(choose_first(&plans[5], &reason), PROBE_PLAN_PUN);
	assert_string_equal(plans[5].behind.cannot, jumps);

	assert_int_equal(plans[6].byte_count, 0);
	assert_int_equal(choose_first(&plans[6], &reason), PROBE_PLAN_REFUSED);
	assert_string_equal(reason, "its address is not in the code of the file");
}

/* A jump before the nop, where nothing else that is asked for is possible. */
static void test_before(void **state)
{
	static const enum probe_plan before[] = {PROBE_PLAN_BEFORE},
				     either[] = {PROBE_PLAN_PUN, PROBE_PLAN_BEFORE};
	static const char body[] =
		"f: .cfi_startproc\n cwtl\n lea 1(%rax), %rax\n lea 2(%rax), %rax\nsite_a: nop\n"
		"1: dec %rdi\n jnz 1b\n ret\n .cfi_endproc\n"
		"g: .cfi_startproc\n cwtl\n test %rdi, %rdi\n je 1f\nsite_b: nop\n1: ret\n"
		" .cfi_endproc\n"
		"h: .cfi_startproc\n cwtl\n lea 1(%rax), %rax\n lea 2(%rax), %rax\nsite_c: nop\n"
		" dec %rdi\n jnz site_c\n ret\n .cfi_endproc\n"
		"i: .cfi_startproc\n lea 0x1000(%rax), %rax\nsite_d: nop\n ret\n .cfi_endproc\n"
		"j: .cfi_startproc\n cwtl\n call f\n cwtl\nsite_e: nop\n ret\n .cfi_endproc\n"
		"k: .cfi_startproc\n cwtl\n lea 1(%rax), %rax\n nop\n lea 2(%rax), %rax\n"
		"site_f: nop\n ret\n .cfi_endproc\n"
		" NOTE a\n NOTE b\n NOTE c\n NOTE d\n NOTE e\n NOTE f\n";
	static const char *const too_few =
		"too few instructions that fall through stand before the nop";
	static const char *const reasons[] = {NULL, NULL,
		"the instructions before the nop cannot move, or something may enter them", too_few,
		too_few, too_few};
	static const uint8_t lengths[] = {8, 5, 0, 0, 0, 0};
	const char *reason;
	struct plan plans[6];

	(void)state;
	assert_int_equal(plans_by(body, before, 1, plans, 6), 6);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(plans[i].before.length, lengths[i]);
		if (reasons[i])
			assert_string_equal(plans[i].before.cannot, reasons[i]);
		else
			assert_int_equal(choose_first(&plans[i], &reason), PROBE_PLAN_PUN);
	}
	/* A better plan is possible: the proof is not made. */
	assert_int_equal(plans_by(body, either, 2, plans, 6), 6);
	assert_int_equal(plans[0].before.length, 0);
	assert_null(plans[0].before.cannot);
}

/* OCaml's providers: a cmp behind the nop, which is made a call. */
static void test_toggle(void **state)
{
	static const uint8_t code[] = {0x90, 0x3d, 1, 2, 3, 4, 0xc3};
	struct plan plan = {.byte_count = sizeof(code), .short_nop = true, .ocaml = true};
	const char *reason;

	(void)state;
	memcpy(plan.bytes, code, sizeof(code));
	assert_int_equal(choose_first(&plan, &reason), PROBE_PLAN_TOGGLE);
	assert_int_equal(choose(&plan, PROBE_PLAN_BEHIND, &reason), PROBE_PLAN_REFUSED);
	assert_int_equal(choose(&plan, PROBE_PLAN_RELOCATE, &reason), PROBE_PLAN_REFUSED);
	assert_int_equal(choose(&plan, PROBE_PLAN_PUN, &reason), PROBE_PLAN_REFUSED);
	assert_true(plan_is_ocaml("ocaml") && plan_is_ocaml("ocaml.1"));
	assert_true(plan_is_ocaml("ocaml_1") && plan_is_ocaml("ocaml_2"));
	assert_false(plan_is_ocaml("ocaml_3") || plan_is_ocaml("ocam") || plan_is_ocaml(""));
}

/* ---- Entries of functions ------------------------------------------------------------ */

static struct plan plan_of_entry(const char *body)
{
	char dir[] = "/tmp/probectl-test-XXXXXX", source[256], path[256];
	struct sdt_note note = {.provider = plan_entry_provider, .name = "", .args = ""};
	const struct sdt_note *notes[] = {&note};
	const struct sdt_notes none = {0};
	struct object *object;
	struct plan plan;
	uint64_t size;
	char *text;

	assert_non_null(mkdtemp(dir));
	assert_true(asprintf(&text,
			    " .text\n .globl f\n .type f, @function\nf: .cfi_startproc\n%s"
			    " .cfi_endproc\n .size f, . - f\n .zero 64, 0xcc\n"
			    " .section .note.GNU-stack, \"\", @progbits\n",
			    body) > 0);
	write_file(dir, "plan.s", text, source);
	snprintf(path, sizeof(path), "%s/plan", dir);
	assert_true(run("cc -nostdlib -shared -o %s %s", path, source));
	assert_no_error(object_open(path, &object));
	assert_true(object_symbol(object, "f", 1, &note.pc, &size));
	assert_no_error(
		plan_sites(object, &none, notes, 1, plan_default_order, PLAN_DEFAULTS, &plan));
	assert_true(run("rm -r %s", dir));
	object_close(object);
	free(text);
	return plan;
}

/* Where a breakpoint on the entry would go on, our jump begins, or nothing of it is. */
static void test_entries(void **state)
{
	static const struct {
		const char *body;
		int offset, length; /* 0: as much as there is padding */
		const char *reason;
	} entries[] = {
		{" ret\n", 0, 0, NULL},
		{" endbr64\n ret\n", 4, 0, NULL},
		{" mov $59, %eax\n syscall\n ret\n", 0, 5, NULL},
		{" endbr64\n mov $59, %eax\n syscall\n ret\n", 4, 5, NULL},
		{" push %rbp\n mov %rsp, %rbp\n cwtl\n cwtl\n pop %rbp\n ret\n", 1, 5, NULL},
		{" jmp *%rax\n", 0, 0, NULL},
		{" jz 1f\n lea 1(%rax), %rax\n1: ret\n", 0, 0,
			"the first instruction may jump elsewhere and come back"},
		{" call *%rax\n lea 1(%rax), %rax\n ret\n", 0, 0,
			"the first instruction may jump elsewhere and come back"},
		{" .byte 6, 6, 6\n", 0, 0, "the first instruction cannot be decoded"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
		struct plan plan = plan_of_entry(entries[i].body);
		const char *reason;

		assert_int_equal(plan.behind.offset, entries[i].offset);
		if (entries[i].reason)
			assert_string_equal(plan.behind.cannot, entries[i].reason);
		else
			assert_null(plan.behind.cannot);
		if (entries[i].length)
			assert_int_equal(plan.behind.length, entries[i].length);
		assert_int_equal(choose_first(&plan, &reason),
			entries[i].reason ? PROBE_PLAN_REFUSED : PROBE_PLAN_BEHIND);
	}
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
		cmocka_unit_test(test_windows_that_overlap),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_spares),
		cmocka_unit_test(test_one_address_twice),
		cmocka_unit_test(test_long_nops),
		cmocka_unit_test(test_other_plans),
		cmocka_unit_test(test_before),
		cmocka_unit_test(test_toggle),
		cmocka_unit_test(test_entries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
