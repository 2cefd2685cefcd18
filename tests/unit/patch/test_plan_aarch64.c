/* SPDX-License-Identifier: MIT */
/*
 * Plans of aarch64, where a jump is as long as the nop: behind it, so that breakpoints of others at
 * the nop do no harm, or over it, where something enters behind it. No site is refused.
 */
#include "elf/sdt.h"
#include "libprobe/patch/patch.h"
#include "tests/unit/patch/plan_text.h"
#include "tests/unit/elf/elf_image.h"

enum { WORDS_MAX = 16, SITES_MAX = 4 };
#define NOP UINT32_C(0xd503201f)
#define MOV UINT32_C(0xaa1503e0) /* mov x0, x21 */
#define RET UINT32_C(0xd65f03c0)
#define BR UINT32_C(0xd61f0020) /* br x1 */

/* Plans sites at these indices of the code, which is all that the file has. */
static void plan_code_of(const uint32_t *code, size_t words, const size_t *at, size_t count,
	const enum probe_plan *order, size_t order_count, struct plan *plans)
{
	static struct image image;
	struct buffer text = {.wide = true};
	struct image_section section = {
		".text", SHT_PROGBITS, &text, .align = 8, .address = IMAGE_BASE};
	const struct plan_order asked = plan_order_of(order, order_count);
	struct sdt_note notes[SITES_MAX] = {0};
	const struct sdt_note *list[SITES_MAX];
	struct object *object;
	int fd;

	for (size_t i = 0; i < words; i++)
		put(&text, code[i], 4);
	image = (struct image){.wide = true,
		.type = ET_DYN,
		.machine = EM_AARCH64,
		.sections = &section,
		.section_count = 1};
	image_build(&image);
	assert_no_error(image_open_bytes(image.file.data, image.file.size, &fd, &object));
	for (size_t i = 0; i < count; i++) {
		notes[i].provider = "plan";
		notes[i].name = "site";
		notes[i].pc = IMAGE_BASE + section.offset + 4 * at[i];
		list[i] = &notes[i];
	}
	assert_no_error(plan_sites(object, &(struct sdt_notes){.notes = notes, .count = count},
		list, count, &asked, plans));
	object_close(object);
	close(fd);
}

static enum probe_plan chosen(const struct plan *plan)
{
	const char *reason;

	return chosen_of(plan, NULL, 0, &reason);
}

/* The plan of the only site, which is the third word. */
static enum probe_plan plan_alone(const uint32_t *code, size_t words, struct plan *plan)
{
	static const size_t at[] = {2};

	plan_code_of(code, words, at, 1, NULL, 0, plan);
	return chosen(plan);
}

static void behind_the_nop(void **state)
{
	const uint32_t moves[] = {MOV, MOV, NOP, MOV, RET};
	const uint32_t ends[] = {MOV, MOV, NOP, RET};
	struct plan plan;

	(void)state;
	assert_int_equal(plan_alone(moves, 5, &plan), PROBE_PLAN_BEHIND);
	assert_int_equal(plan.behind.offset, 4);
	assert_int_equal(plan.behind.length, 4);
	assert_int_equal(plan_needs(&plan, &plan_behind), 8);
	/* An instruction that leads elsewhere is as long as the jump over it. */
	assert_int_equal(plan_alone(ends, 4, &plan), PROBE_PLAN_BEHIND);
}

static void over_the_nop(void **state)
{
	const uint32_t entered[] = {0x34000060, MOV, NOP, MOV, RET}; /* cbz w0, behind the nop */
	const uint32_t fixed[] = {MOV, MOV, NOP, 0xd503245f, RET};   /* bti c */
	const uint32_t last[] = {MOV, MOV, NOP};
	/* adr x1, the word after it; what is added to it may be any distance */
	const uint32_t labels[] = {0x10000021, BR, NOP, MOV, RET};
	struct plan plan;

	(void)state;
	assert_int_equal(plan_alone(entered, 5, &plan), PROBE_PLAN_LONG_NOP);
	assert_non_null(plan.behind.cannot);
	assert_int_equal(plan.nop.offset, 0);
	assert_int_equal(plan.nop.relies, 4);
	assert_int_equal(plan.nop_fixed, 0);
	assert_int_equal(plan_alone(fixed, 5, &plan), PROBE_PLAN_LONG_NOP);
	assert_int_equal(plan_alone(labels, 5, &plan), PROBE_PLAN_LONG_NOP);
	/* What follows in the file is no instruction. */
	assert_int_equal(plan_alone(last, 3, &plan), PROBE_PLAN_LONG_NOP);
}

static void adjacent_sites(void **state)
{
	const uint32_t code[] = {MOV, NOP, NOP, MOV, RET};
	static const size_t at[] = {1, 2};
	struct plan plans[2];

	(void)state;
	plan_code_of(code, 5, at, 2, NULL, 0, plans);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(chosen(&plans[i]), PROBE_PLAN_BEHIND);
		assert_int_equal(plans[i].behind.offset, i ? 4 : 8);
		assert_true(plan_is_shared(&plans[i], &plan_behind));
	}
	assert_int_equal(plans[1].behind.lead, 4);
}

/* What needs a jump to anywhere, or one of less than a nop, is never chosen, and says so. */
static void never(void **state)
{
	static const enum probe_plan x86[] = {PROBE_PLAN_TOGGLE, PROBE_PLAN_HOP, PROBE_PLAN_PUN,
		PROBE_PLAN_BEFORE, PROBE_PLAN_TWIN, PROBE_PLAN_PART, PROBE_PLAN_CALL};
	const uint32_t code[] = {MOV, MOV, NOP, MOV, RET}, no_nop[] = {MOV, MOV, MOV, MOV, RET};
	static const size_t at[] = {2};
	const char *reason;
	struct plan plan;

	(void)state;
	assert_null(arch_aarch64.far_jump);
	plan_code_of(code, 5, at, 1, x86, sizeof(x86) / sizeof(*x86), &plan);
	for (size_t i = 0; i < sizeof(x86) / sizeof(*x86); i++) {
		assert_int_equal(chosen_of(&plan, &x86[i], 1, &reason), PROBE_PLAN_REFUSED);
		assert_non_null(strstr(reason, "its nop is as long as a jump"));
	}
	assert_int_equal(plan_alone(no_nop, 5, &plan), PROBE_PLAN_REFUSED);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(behind_the_nop),
		cmocka_unit_test(over_the_nop),
		cmocka_unit_test(adjacent_sites),
		cmocka_unit_test(never),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
