/* SPDX-License-Identifier: MIT */
/* Long rows of sites: which of them share the jump after the last one, and what is known of it. */
#include "tests/unit/patch/plan_text.h"
#include "tests/unit/skip.h"

#include "arch/arch.h"

enum { ROOM = 5000 };

/*
 * A row of sites, up to number `end`, within what stands before and after it; at an address that no
 * length in the file looks like.
 */
static size_t plans_of_row(
	const char *before, size_t first, size_t end, const char *after, struct plan *plans)
{
	char dir[] = "/tmp/probectl-test-XXXXXX", source[256], path[256], *text = NULL;
	const struct sdt_note **list;
	struct sdt_notes notes;
	struct object *object;
	size_t count;

	assert_non_null(mkdtemp(dir));
	assert_true(asprintf(&text,
			    "%s .skip 0x10000, 0xcc\n .altmacro\n.macro SITE n\nsite_\\n: nop\n "
			    "NOTE \\n\n.endm\n"
			    "f: .cfi_startproc\n%s .set n, %zu\n .rept %zu\n SITE %%n\n"
			    " .set n, n + 1\n .endr\n%s .cfi_endproc\n"
			    " .section .note.GNU-stack, \"\", @progbits\n",
			    plan_text_head, before, first, end - first, after) > 0);
	write_file(dir, "plan.s", text, source);
	snprintf(path, sizeof(path), "%s/plan", dir);
	assert_true(run("cc -nostdlib -shared -o %s %s", path, source));
	assert_no_error(object_open(path, &object));
	assert_no_error(sdt_read(object, &notes));
	count = notes.count;
	assert_true(count <= ROOM);
	list = plan_notes_of(&notes);
	assert_no_error(plan_sites(object, &notes, list, count, &plan_defaults, plans));
	assert_true(run("rm -r %s", dir));
	free(text);
	free(list);
	sdt_notes_deinit(&notes);
	object_close(object);
	return count;
}

static struct plan plans[ROOM];

/* plans[first..end) share the jump after the last of them. */
static void assert_row(size_t first, size_t end, const struct plan_ops *chosen)
{
	for (size_t i = first; i < end; i++) {
		const struct plan_way *move = plan_way(&plans[i], chosen);
		const uint8_t *code;

		assert_int_equal(plans[i].pc - plans[first].pc, i - first);
		assert_null(move->cannot);
		assert_int_equal(move->offset, end - i);
		assert_int_equal(move->lead, i - first);
		assert_true(plan_is_shared(&plans[i], chosen));
		assert_true(plan_code(&plans[i], move->offset, &code) >= move->length);
		assert_int_not_equal(code[0], 0x90);
	}
}

static void test_any_length(void **state)
{
	static const char after[] = " lea 1(%rax), %rax\n cwtl\n ret\n";
	static const size_t lengths[] = {2, 40, 41, 42, 400, PLAN_ROW_MAX};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		assert_int_equal(plans_of_row("", 0, lengths[i], after, plans), lengths[i]);
		assert_row(0, lengths[i], &plan_behind);
	}
	/* Those that are too far away are refused. */
	assert_int_equal(plans_of_row("", 0, PLAN_ROW_MAX + 50, after, plans), PLAN_ROW_MAX + 50);
	assert_row(50, PLAN_ROW_MAX + 50, &plan_behind);
	for (size_t i = 0; i < 50; i++)
		assert_int_equal(plans[i].behind.length, 0);
}

/* Something enters after the 10th of 100, or after the last. */
static void test_entered(void **state)
{
	(void)state;
	plans_of_row(" jz site_10\n", 0, 100, " lea 1(%rax), %rax\n cwtl\n ret\n", plans);
	assert_row(10, 100, &plan_behind);
	for (size_t i = 0; i < 10; i++) {
		assert_string_equal(plans[i].behind.cannot, plan_entered_short);
		assert_int_equal(plans[i].behind.length, 0);
	}
	plans_of_row(" lea 8f(%rip), %rcx\n", 0, 100,
		" cwtl\n2: cwtl\n cwtl\n cwtl\n cwtl\n ret\n"
		" .pushsection .rodata\n .balign 4\n8: .long 2b - 8b\n .popsection\n",
		plans);
	for (size_t i = 0; i < 100; i++)
		assert_string_equal(plans[i].behind.cannot, plan_entered);
}

static void test_hop(void **state)
{
	(void)state;
	plans_of_row("", 0, 60, " jz 1f\n1: cwtl\n ret\n .nops 9\n", plans);
	assert_row(0, 60, &plan_hop);
	for (size_t i = 0; i < 60; i++)
		assert_int_equal(plans[i].spare_count, plans[59].spare_count);
}

/* A nop of five bytes before the row, and the one of usdt.h after it. */
static void test_long_nops(void **state)
{
	(void)state;
	plans_of_row("site_0: .byte 0x0f, 0x1f, 0x44, 0, 0\n NOTE 0\n", 1, 9,
		" .byte 0x0f, 0x1f, 0x44, 0, 0\n lea 1(%rax), %rax\n cwtl\n ret\n", plans);
	for (size_t i = 1; i < 9; i++) {
		assert_null(plans[i].behind.cannot);
		assert_int_equal(plans[i].behind.offset, 9 - i + 5);
		assert_int_equal(plans[i].behind.lead, i - 1 + 5);
		assert_int_equal(plans[i].row, 8 - i);
	}
	assert_int_equal(plans[0].row, 0);
	assert_int_equal(plans[0].behind.offset, 5 + 8 + 5);
}

/* Each nop of a row may have a breakpoint, and nothing else. */
static void test_holds(void **state)
{
	uint8_t found[500];
	size_t needs;

	(void)state;
	plans_of_row("", 0, 400, " lea 1(%rax), %rax\n cwtl\n ret\n", plans);
	needs = plan_needs(&plans[0], &plan_behind);
	assert_int_equal(needs, 400 + plans[0].behind.length);
	memset(found, 0x90, sizeof(found));
	memcpy(found + 399, plans[399].bytes, PLAN_BYTES);
	assert_true(plan_holds(&arch_x86_64, &plans[0], &plan_behind, found));
	for (size_t i = 0; i < needs; i++) {
		uint8_t byte = found[i];

		found[i] = 0xcc;
		assert_int_equal(plan_holds(&arch_x86_64, &plans[0], &plan_behind, found), i < 400);
		found[i] = 0xf8;
		assert_false(plan_holds(&arch_x86_64, &plans[0], &plan_behind, found));
		found[i] = byte;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_length),
		cmocka_unit_test(test_entered),
		cmocka_unit_test(test_hop),
		cmocka_unit_test(test_long_nops),
		cmocka_unit_test(test_holds),
	};

	if (!plan_text_compiles())
		return skip_all("no compiler here makes code of x86-64, whose plans these are");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
