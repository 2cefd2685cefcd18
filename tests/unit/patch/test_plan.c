/* SPDX-License-Identifier: MIT */
/*
 * Which plans a file allows: sites that are close together, unused bytes near by, long nops, what
 * stands before a site, OCaml's toggles and entries of functions. test_prove.c has the proof.
 */
#include "tests/unit/patch/plan_text.h"
#include "tests/unit/skip.h"

/* Assembles a text, lets the compiler link it with `how`, and plans all its sites. */
static size_t plans_linked(const char *how, const char *body, const enum probe_plan *order,
	size_t order_count, struct plan *plans, size_t room)
{
	char dir[] = "/tmp/probectl-test-XXXXXX", source[256], path[256];
	const struct plan_order asked = plan_order_of(order, order_count);
	char *text = NULL;
	const struct sdt_note **list;
	struct sdt_notes notes;
	struct object *object;
	size_t count;

	assert_non_null(mkdtemp(dir));
	assert_true(asprintf(&text, "%s%s .section .note.GNU-stack, \"\", @progbits\n",
			    plan_text_head, body) > 0);
	write_file(dir, "plan.s", text, source);
	snprintf(path, sizeof(path), "%s/plan", dir);
	assert_true(run("cc -nostdlib %s -o %s %s", how, path, source));
	assert_no_error(object_open(path, &object));
	assert_no_error(sdt_read(object, &notes));
	count = notes.count;
	assert_true(count <= room);
	list = plan_notes_of(&notes);
	assert_no_error(plan_sites(object, &notes, list, count, &asked, plans));
	assert_true(run("rm -r %s", dir));
	free(text);
	free(list);
	sdt_notes_deinit(&notes);
	object_close(object);
	return count;
}

static size_t plans_by(const char *body, const enum probe_plan *order, size_t order_count,
	struct plan *plans, size_t room)
{
	return plans_linked("-shared", body, order, order_count, plans, room);
}

static size_t plans_of(const char *body, struct plan *plans, size_t room)
{
	return plans_by(body, NULL, 0, plans, room);
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
	assert_string_equal(plans[0].behind.cannot, plan_entered);
	assert_string_equal(plans[1].behind.cannot, plan_entered);
	/* Behind three nops in a row, all of which are sites; each has the window of its own. */
	assert_int_equal(
		plans_of("f: .cfi_startproc\n lea 8f(%rip), %rcx\nsite_a: nop\nsite_b: nop\n"
			 "site_c: nop\n cwtl\n2: cwtl\n cwtl\n cwtl\n cwtl\n ret\n .cfi_endproc\n"
			 " NOTE a\n NOTE b\n NOTE c\n"
			 " .section .rodata\n .balign 4\n8: .long 2b - 8b\n",
			plans, 3),
		3);
	for (int i = 0; i < 3; i++)
		assert_string_equal(plans[i].behind.cannot, plan_entered);
}

/* What somebody else may break into is never moved. */
static void test_neighbours(void **state)
{
	static const char another_site[] = "another site is in the bytes after the site";
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
		assert_true(plan_is_shared(&plans[i], &plan_behind));
		assert_int_equal(plans[i].behind.lead, i);
	}
	/* The second is entered without the first. */
	plans_of("f: .cfi_startproc\n jz 2f\nsite_a: nop\n2:\nsite_b: nop\n lea 1(%rax), %rax\n"
		 " lea 1(%rax), %rax\n ret\n .cfi_endproc\n NOTE a\n NOTE b\n",
		plans, 4);
	assert_string_equal(plans[0].behind.cannot, plan_entered_short);
	assert_null(plans[1].behind.cannot);
	assert_false(plan_is_shared(&plans[1], &plan_behind));
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
	assert_false(plan_is_shared(&plans[3], &plan_behind));
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
	assert_string_equal(plans[0].behind.cannot, plan_entered_short);
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
	assert_int_equal(plan.hop.length, 2);
	assert_int_equal(plan.spare_count, 0);
	/* Something runs, or plan_jumps, or returns there; or may, one day. */
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
	}
}

static enum probe_plan choose(const struct plan *plan, enum probe_plan only, const char **reason)
{
	return chosen_of(plan, &only, 1, reason);
}

static enum probe_plan choose_first(const struct plan *plan, const char **reason)
{
	return chosen_of(plan, NULL, 0, reason);
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
	assert_int_equal(plans[0].nop.relies, 5);
	assert_int_equal(plans[0].nop.offset, 0);
	/* Two bytes of a jump there can be chosen: the rest makes a nop with the first byte. */
	assert_int_equal(plans[0].nop_fixed, 2);
	assert_int_equal(plans[0].behind.offset, 5);
	assert_false(plans[0].short_nop);
	assert_int_equal(choose_first(&plans[0], &reason), PROBE_PLAN_LONG_NOP);
	assert_int_equal(choose(&plans[0], PROBE_PLAN_BEHIND, &reason), PROBE_PLAN_REFUSED);
	assert_string_equal(reason, plan_jumps);
	assert_int_equal(choose(&plans[0], PROBE_PLAN_PUN, &reason), PROBE_PLAN_REFUSED);
	assert_string_equal(reason, "its nop is as long as a jump, which none of the requested "
				    "plans is for: use behind or nop");

	assert_int_equal(plans[1].nop.offset, 1);
	assert_true(plans[1].nop.relies >= 8);
	assert_int_equal(plans[1].nop_fixed, 4);
	assert_int_equal(plans[1].behind.offset, 1 + plans[1].nop.relies);
	assert_int_equal(choose_first(&plans[1], &reason), PROBE_PLAN_BEHIND);
	assert_int_equal(choose(&plans[1], PROBE_PLAN_LONG_NOP, &reason), PROBE_PLAN_LONG_NOP);
	assert_int_equal(choose(&plans[1], PROBE_PLAN_PUN, &reason), PROBE_PLAN_REFUSED);

	assert_int_equal(choose_first(&plans[2], &reason), PROBE_PLAN_REFUSED);
	assert_string_equal(reason, "the bytes there are not the nop that the note promises");

	assert_int_equal(choose_first(&plans[3], &reason), PROBE_PLAN_BEHIND);
	assert_int_equal(plans[3].behind.offset, 1);
	assert_int_equal(plans[3].behind.length, 5);
	assert_int_equal(choose(&plans[3], PROBE_PLAN_PUN, &reason), PROBE_PLAN_PUN);
	assert_int_equal(choose(&plans[3], PROBE_PLAN_LONG_NOP, &reason), PROBE_PLAN_REFUSED);
	assert_int_equal(choose(&plans[3], PROBE_PLAN_TOGGLE, &reason), PROBE_PLAN_REFUSED);
	assert_int_equal(chosen_of(&plans[3], (enum probe_plan[1]){PROBE_PLAN_PUN}, 0, &reason),
		PROBE_PLAN_REFUSED);

	/* A nop of two bytes: a jump behind it, and nothing else. */
	assert_int_equal(plans[4].behind.offset, 2);
	assert_string_equal(plans[4].behind.cannot, plan_call_returns);
	assert_int_equal(choose_first(&plans[4], &reason), PROBE_PLAN_REFUSED);

	/* Nothing can be moved: a return follows the nop. */
	assert_int_equal(choose_first(&plans[5], &reason), PROBE_PLAN_PUN);
	assert_string_equal(plans[5].behind.cannot, plan_jumps);

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
		"too few instructions that fall through stand before the site";
	static const char *const reasons[] = {NULL, NULL,
		"the instructions before the site cannot move, or something may enter them",
		too_few, too_few, too_few};
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

/* No jump is written across the end of a page: the file tells where that is. */
static void test_page_end(void **state)
{
	static const enum probe_plan behind = PROBE_PLAN_BEHIND;
	static const char body[] =
		" .balign 4096\n .skip 4090\n"
		"f: .cfi_startproc\nsite_a: nop\n lea 0x1000(%rax), %rax\n ret\n .cfi_endproc\n"
		" .balign 4096\n .skip 4091\n"
		"g: .cfi_startproc\nsite_b: nop\n lea 0x1000(%rax), %rax\n ret\n .cfi_endproc\n"
		" NOTE a\n NOTE b\n";
	const char *reason;
	struct plan plans[2];

	(void)state;
	assert_int_equal(plans_of(body, plans, 2), 2);
	assert_int_equal(chosen_of(&plans[0], &behind, 1, &reason), PROBE_PLAN_BEHIND);
	assert_int_equal(chosen_of(&plans[1], &behind, 1, &reason), PROBE_PLAN_REFUSED);
	assert_string_equal(
		reason, "the jump would cross a page, and could not be written in one step");
	assert_int_not_equal(choose_first(&plans[1], &reason), PROBE_PLAN_BEHIND);
}

/* Jumps in less room than theirs, where nothing else that is asked for is possible. */
static void test_tight(void **state)
{
	static const enum probe_plan tight[] = {PROBE_PLAN_TWIN, PROBE_PLAN_PART},
				     either[] = {PROBE_PLAN_PUN, PROBE_PLAN_TWIN};
	static const char body[] =
		"f: .cfi_startproc\nsite_a: nop\n1: lea 0x1000(%rax), %rax\n dec %rdi\n jnz 1b\n "
		"ret\n"
		" .cfi_endproc\n"
		"g: .cfi_startproc\nsite_b: nop\n cwtl\n cwtl\n cwtl\n1: cwtl\n cwtl\n dec %rdi\n"
		" jnz 1b\n ret\n .cfi_endproc\n"
		"h: .cfi_startproc\nsite_c: nop\n1: cwtl\n2: cwtl\n cwtl\n cwtl\n cwtl\n dec %rdi\n"
		" jnz 1b\n js 2b\n ret\n .cfi_endproc\n"
		"i: .cfi_startproc\nsite_d: nop\n cwtl\n cwtl\nsite_e: nop\n"
		" lea 0x1000(%rax), %rax\n ret\n .cfi_endproc\n"
		" .balign 4096\n .skip 4094\n"
		"j: .cfi_startproc\nsite_f: nop\n lea 0x1000(%rax), %rax\n ret\n .cfi_endproc\n"
		" .balign 4096\n .skip 4091\n"
		"k: .cfi_startproc\nsite_g: nop\n lea 0x1000(%rax), %rax\n ret\n .cfi_endproc\n"
		" NOTE a\n NOTE b\n NOTE c\n NOTE d\n NOTE e\n NOTE f\n NOTE g\n";
	static const char near_site[] = "another site is in the bytes after the site";
	static const char entered[] = "a branch enters the instructions after the site";
	static const char page_end[] = "a page ends in the bytes after the site";
	static const struct {
		uint8_t twin, part, jump;
		const char *no_twin, *no_part;
	} rows[] = {
		{8, 0, 0, NULL,
			NULL}, /* where the first is possible, the other is not looked for */
		{0, 3, 3, entered, NULL},
		{0, 0, 0, entered, entered},
		{0, 0, 0, near_site, near_site},
		{8, 0, 0, NULL, NULL},
		{0, 7, 1, page_end, NULL},
		{0, 7, 4, page_end, NULL},
	};
	struct plan plans[7];

	(void)state;
	assert_int_equal(plans_by(body, tight, 2, plans, 7), 7);
	for (size_t i = 0; i < 7; i++) {
		assert_int_equal(plans[i].twin.length, rows[i].twin);
		assert_int_equal(plans[i].part.length, rows[i].part);
		if (rows[i].part)
			assert_int_equal(plans[i].part.jump, rows[i].jump);
		assert_true(!rows[i].no_twin == !plans[i].twin.cannot);
		assert_true(!rows[i].no_part == !plans[i].part.cannot);
		if (rows[i].no_twin)
			assert_string_equal(plans[i].twin.cannot, rows[i].no_twin);
		if (rows[i].no_part)
			assert_string_equal(plans[i].part.cannot, rows[i].no_part);
	}
	/* A better plan is possible: the proof is not made. */
	assert_int_equal(plans_by(body, either, 2, plans, 7), 7);
	assert_int_equal(plans[0].twin.length, 0);
	assert_null(plans[0].twin.cannot);
	/* The other site's nop keeps the first one from being a pun. */
	assert_string_equal(plans[3].twin.cannot, near_site);
}

/* Where another tool may put a breakpoint must be no part of the distance that a pun jumps. */
static void test_pun_of_another_site(void **state)
{
	static const enum probe_plan pun = PROBE_PLAN_PUN;
	const char *reason;
	struct plan plans[4];

	(void)state;
	assert_int_equal(plans_by("f: .cfi_startproc\nsite_a: nop\n jmp 1f\nsite_b: nop\n"
				  " mov %rax, (%rdx)\nsite_c: nop\nsite_d: nop\n1: cwtl\n ret\n"
				  " .cfi_endproc\n NOTE a\n NOTE b\n NOTE c\n NOTE d\n",
				 &pun, 1, plans, 4),
		4);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(chosen_of(&plans[i], &pun, 1, &reason), PROBE_PLAN_REFUSED);
		assert_string_equal(reason,
			"another site, where other tools put breakpoints, would be "
			"part of the jump's distance");
	}
	assert_int_equal(chosen_of(&plans[3], &pun, 1, &reason), PROBE_PLAN_PUN);
}

/* What a pun, or a part of a jump, would jump to is where the file is itself, or below it. */
static void test_fixed_addresses(void **state)
{
	static const enum probe_plan both[] = {PROBE_PLAN_PUN, PROBE_PLAN_PART};
	/* +2, -4 MiB below the site, below 0, and 16 MiB above; entered after one byte. */
	static const char body[] =
		"_start: .globl _start\nf: .cfi_startproc\n"
		"site_a: nop\n .byte 2, 0, 0, 0\n"
		"site_b: nop\n .byte 0, 0, 0xc0, 0xff\n"
		"site_c: nop\n .byte 0, 0, 0, 0x80\n"
		"site_d: nop\n .byte 0, 0, 0, 1\n"
		"site_e: nop\n cwtl\n2: .byte 0, 0, 0x80\n nop\n ret\n .cfi_endproc\n"
		" NOTE a\n NOTE b\n NOTE c\n NOTE d\n NOTE e\n .data\n .balign 8\n .quad 2b\n";
	static const enum probe_plan fixed[] = {PROBE_PLAN_REFUSED, PROBE_PLAN_REFUSED,
		PROBE_PLAN_REFUSED, PROBE_PLAN_PUN, PROBE_PLAN_REFUSED};
	static const enum probe_plan anywhere[] = {
		PROBE_PLAN_REFUSED, PROBE_PLAN_PUN, PROBE_PLAN_PUN, PROBE_PLAN_PUN, PROBE_PLAN_PUN};
	const char *reason;
	struct plan plans[5];

	(void)state;
	assert_int_equal(plans_linked("-static -Wl,-Ttext=0x401000", body, both, 2, plans, 5), 5);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(chosen_of(&plans[i], both, 2, &reason), fixed[i]);
	assert_string_equal(plans[2].pun.cannot, plan_leads_nowhere);
	assert_string_equal(plans[4].pun.cannot, plan_leads_nowhere);
	assert_string_equal(plans[4].part.cannot, plan_leads_nowhere);
	assert_int_equal(plans_by(body, both, 2, plans, 5), 5);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(chosen_of(&plans[i], both, 2, &reason), anywhere[i]);
}

/* OCaml's providers: a cmp behind the nop, which is made a call. */
static void test_toggle(void **state)
{
	static const uint8_t code[] = {0x90, 0x3d, 1, 2, 3, 4, 0xc3};
	const struct planning planning = {.arch = &arch_x86_64};
	struct plan plan = {.byte_count = sizeof(code), .short_nop = true, .ocaml = true};
	const char *reason;

	(void)state;
	memcpy(plan.bytes, code, sizeof(code));
	plan_toggle.look(&planning, &plan);
	assert_int_equal(choose_first(&plan, &reason), PROBE_PLAN_TOGGLE);
	assert_int_equal(choose(&plan, PROBE_PLAN_BEHIND, &reason), PROBE_PLAN_REFUSED);
	assert_int_equal(choose(&plan, PROBE_PLAN_PUN, &reason), PROBE_PLAN_REFUSED);
	assert_true(sdt_is_ocaml(sdt_kind_of("ocaml", "x")) &&
		    sdt_is_ocaml(sdt_kind_of("ocaml.1", "x")));
	assert_true(sdt_is_ocaml(sdt_kind_of("ocaml_1", "x")) &&
		    sdt_is_ocaml(sdt_kind_of("ocaml_2", "x")));
	assert_false(sdt_is_ocaml(sdt_kind_of("ocaml_3", "x")) ||
		     sdt_is_ocaml(sdt_kind_of("ocam", "x")) || sdt_is_ocaml(sdt_kind_of("", "x")));
}

/* ---- The table ----------------------------------------------------------------------- */

static void test_table(void **state)
{
	static const struct {
		enum probe_plan id;
		const char *name;
		const struct plan_ops *plan;
		size_t way;
	} rows[PLAN_COUNT] = {
#define X(constant, number, name) {constant, #name, &plan_##name, offsetof(struct plan, name)},
		PROBE_PLANS(X, )
#undef X
	};

	(void)state;
	assert_int_equal(plan_defaults.count, PLAN_COUNT);
	for (size_t i = 0; i < PLAN_COUNT; i++) {
		assert_ptr_equal(plan_defaults.plans[i], rows[i].plan);
		assert_ptr_equal(plan_of(rows[i].id), rows[i].plan);
		assert_int_equal(rows[i].plan->id, rows[i].id);
		assert_int_equal(rows[i].plan->way, rows[i].way);
		assert_string_equal(probe_plan_name(rows[i].id), rows[i].name);
		assert_int_equal(probe_plan_named(rows[i].name, strlen(rows[i].name)), rows[i].id);
	}
	/* These have names, too, but no request may name them. */
	assert_int_equal(probe_plan_named("reserved", 8), PROBE_PLAN_NONE);
	assert_int_equal(probe_plan_named("refused", 7), PROBE_PLAN_NONE);
	/* The Python package counts the plans by their names. */
	for (unsigned int id = 0; id < PROBE_PLAN_COUNT + 2; id++)
		assert_true(!strcmp(probe_plan_name((enum probe_plan)id), "none") ==
			    (!id || id >= PROBE_PLAN_COUNT));
}

/* ---- Gates, at entries of functions --------------------------------------------------- */

static struct plan plan_of_entry(const char *body)
{
	char dir[] = "/tmp/probectl-test-XXXXXX", source[256], path[256];
	struct sdt_note note = {.provider = "", .name = "", .args = "", .kind = SDT_GATE};
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
	assert_no_error(plan_sites(object, &none, notes, 1, &plan_defaults, &plan));
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
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_windows_that_overlap),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_spares),
		cmocka_unit_test(test_one_address_twice),
		cmocka_unit_test(test_long_nops),
		cmocka_unit_test(test_other_plans),
		cmocka_unit_test(test_before),
		cmocka_unit_test(test_page_end),
		cmocka_unit_test(test_tight),
		cmocka_unit_test(test_pun_of_another_site),
		cmocka_unit_test(test_fixed_addresses),
		cmocka_unit_test(test_toggle),
		cmocka_unit_test(test_entries),
	};

	if (!plan_text_compiles())
		return skip_all("no compiler here makes code of x86-64, whose plans these are");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
