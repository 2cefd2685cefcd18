/* SPDX-License-Identifier: MIT */
/* Exits that a jump at their function's entry covers: which share it, and what memory may hold. */
#include "tests/unit/patch/plan_text.h"
#include "tests/unit/skip.h"

#include "arch/arch.h"
#include "libprobe/query/query.h"
#include "probe/pattern.h"

enum { ROOM = 64 };

static struct shape {
	const char *name, *body;
	int keep, exit; /* offsets of the jump, and of the exit, that share it; or -1 */
} shapes[] = {
	{"getter", "mov 8(%rdi), %rax\n ret\n", 4, 4},
	{"adds", "mov 8(%rdi), %rax\n add $7, %rax\n ret\n", 4, 8},
	{"tail", "mov %eax, %eax\n jmp getter\n", 2, 2},
	{"short_tail", "mov %eax, %eax\n .byte 0xeb, getter - . - 1\n", 2, 2},
	{"frame", "push %rbp\n mov %rsp, %rbp\n pop %rbp\n ret\n", 4, 5},
	/* The exit is behind the jump, or the first instruction. */
	{"behind", "mov %eax, %eax\n add $700, %eax\n ret\n", -1, -1},
	{"only", "ret\n", -1, -1},
	/* Something enters between the entry and the exit, or the exit itself. */
	{"between",
		"mov %eax, %eax\n1: inc %edi\n ret\n cmp %eax, %edi\n jne 1b\n mov %edi, %eax\n "
		"ret\n",
		-1, -1},
	{"entered",
		"mov %eax, %eax\n inc %edi\n1: ret\n cmp %eax, %edi\n jne 1b\n mov %edi, %eax\n "
		"ret\n",
		-1, -1},
	/* Code follows the exit; more or less stands before it. */
	{"pops",
		"push %rbx\n mov %edi, %ebx\n test %edi, %edi\n jne 1f\n imul $7, %ebx, %ebx\n"
		"1: pop %rbx\n ret\n ud2\n",
		-1, -1},
	{"saves",
		"push %rbx\n mov %edi, %ebx\n lea 8(%rbx), %eax\n add $8, %eax\n pop %rbx\n ret\n"
		" jmp pops\n",
		-1, -1},
	/* A jump to an address in a register may be none of the exits. */
	{"indirect", "mov %eax, %eax\n jmp *%rax\n", -1, -1},
};

enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

static struct plan plans[ROOM];
static struct sdt_functions functions;

static void assemble(const char *dir, char path[64])
{
	char source[256], *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	assert_non_null(file);
	fprintf(file, "%s", plan_text_head);
	for (size_t i = 0; i < SHAPES; i++)
		fprintf(file,
			" .globl %s\n .type %s, @function\n%s: .cfi_startproc\n %s .cfi_endproc\n"
			" .size %s, . - %s\n .balign 16, 0xcc\n",
			shapes[i].name, shapes[i].name, shapes[i].name, shapes[i].body,
			shapes[i].name, shapes[i].name);
	fputs(" .section .note.GNU-stack, \"\", @progbits\n", file);
	assert_int_equal(fclose(file), 0);
	write_file(dir, "exits.s", text, source);
	snprintf(path, 64, "%s/exits", dir);
	assert_true(run("cc -nostdlib -shared -o %s %s", path, source));
	free(text);
}

static int set_up(void **state)
{
	static const char *const texts[] = {"fn:exits:*", "fn:exits:*:return"};
	char dir[] = "/tmp/probectl-test-XXXXXX", path[64];
	const struct sdt_note *asked[ROOM];
	struct probe_pattern *patterns[2];
	struct sdt_notes none = {0};
	struct object *object;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assemble(dir, path);
	assert_no_error(object_open(path, &object));
	for (size_t i = 0; i < 2; i++)
		assert_no_error(probe_pattern_parse(texts[i], &patterns[i]));
	assert_no_error(select_functions(object, path,
		(const struct probe_pattern *const *)patterns, 2, NULL, NULL, &functions));
	assert_in_range(functions.count, SHAPES, ROOM);
	for (size_t i = 0; i < functions.count; i++)
		asked[i] = functions.items[i];
	assert_no_error(plan_sites(object, &none, asked, functions.count, &plan_defaults, plans));
	for (size_t i = 0; i < 2; i++)
		probe_pattern_free(patterns[i]);
	object_close(object);
	assert_true(run("rm -r %s", dir));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	sdt_functions_deinit(&functions);
	return 0;
}

static const struct plan *plan_named(const char *name, const char *end, uint64_t *start_ret)
{
	char text[32];

	snprintf(text, sizeof(text), "%s%s", name, end);
	for (size_t i = 0; i < functions.count; i++)
		if (strcmp(functions.items[i]->name, text) == 0) {
			*start_ret = functions.items[i]->start;
			return &plans[i];
		}
	return NULL;
}

static void test_sharing(void **state)
{
	(void)state;
	for (size_t i = 0; i < SHAPES; i++) {
		uint64_t start;
		const struct plan *entry = plan_named(shapes[i].name, "", &start);
		const struct plan *leave = plan_named(shapes[i].name, ":return", &start);
		bool shares = shapes[i].keep >= 0;

		print_message("%s\n", shapes[i].name);
		assert_int_equal(plan_is_shared(entry, &plan_behind), shares);
		assert_int_equal(plan_is_shared(leave, &plan_behind), shares);
		if (!shares) {
			assert_int_equal(leave->row, 0);
			continue;
		}
		/* Both know the same bytes, and write at the same place. */
		assert_int_equal(entry->pc, start);
		assert_int_equal(leave->pc, start + (uint64_t)shapes[i].exit);
		assert_int_equal(leave->row, -shapes[i].exit);
		assert_int_equal(entry->behind.offset, shapes[i].keep);
		assert_int_equal(leave->behind.offset, shapes[i].keep - shapes[i].exit);
		assert_int_equal(entry->behind.exit_at, shapes[i].exit - shapes[i].keep);
		assert_int_equal(leave->behind.exit_at, entry->behind.exit_at);
		assert_int_equal(leave->behind.length, entry->behind.length);
		assert_memory_equal(leave->bytes, entry->bytes, PLAN_BYTES);
	}
}

/* Too little for a jump moves before an exit: a short jump, to unused bytes. */
static void test_short(void **state)
{
	uint64_t start;
	const struct plan *plan = plan_named("pops", ":return", &start);
	const char *reason;

	(void)state;
	assert_ptr_equal(plan_choose(plan, &plan_defaults, &reason), &plan_before);
	assert_true(plan_is_short(&arch_x86_64, plan, &plan_before));
	assert_true(plan_takes_spare(&arch_x86_64, plan, &plan_defaults));
	assert_int_equal(plan->before.offset, -1);
	assert_int_equal(plan->before.jump, 2);
	assert_int_equal(plan->before.length, 2);
	assert_memory_equal(plan->before_bytes, "\x5b\xc3", 2);
	assert_in_range(plan->spare_count, 1, PLAN_SPARES);
	plan = plan_named("saves", ":return", &start);
	assert_ptr_equal(plan_choose(plan, &plan_defaults, &reason), &plan_before);
	assert_false(plan_is_short(&arch_x86_64, plan, &plan_before));
	assert_int_equal(plan->before.jump, 5);
}

static bool holds(const struct plan *plan, size_t at, uint8_t byte)
{
	uint8_t found[PLAN_BYTES];

	memcpy(found, plan->bytes, sizeof(found));
	found[at] = byte;
	return plan_holds(&arch_x86_64, plan, &plan_behind, found);
}

/* The bytes that are compared begin at the entry, whichever of the two sites is switched. */
static void test_bytes(void **state)
{
	uint64_t start;
	const struct plan *entry = plan_named("adds", "", &start);
	const struct plan *leave = plan_named("adds", ":return", &start);
	const uint8_t *code;

	(void)state;
	assert_int_equal(plan_starts_before(entry, &plan_behind), 0);
	assert_int_equal(plan_bytes_before(leave), 8);
	assert_int_equal(plan_starts_before(leave, &plan_behind), 8);
	assert_int_equal(plan_needs(entry, &plan_behind), 9);
	assert_int_equal(plan_needs(leave, &plan_behind), 9);
	assert_true(plan_code(leave, leave->behind.offset, &code) >= 5);
	assert_ptr_equal(code, leave->bytes + 4);
	assert_true(plan_code(leave, 0, &code) >= 1);
	assert_int_equal(*code, 0xc3);
	assert_true(holds(leave, 0, 0xcc));
	for (size_t i = 0; i < 9; i++)
		assert_false(holds(leave, i, 0xe9));
	for (size_t i = 4; i < 9; i++)
		assert_false(holds(leave, i, 0xcc));
	assert_true(holds(leave, 9, 0xe9));
}

/* One claim is for both. */
static void test_claims(void **state)
{
	uint64_t start;
	struct plan entry = *plan_named("adds", "", &start);
	struct plan leave = *plan_named("adds", ":return", &start);
	struct select_site first = {.pc = entry.pc, .plan = &entry, .chosen = &plan_behind};
	struct select_site second = {.pc = leave.pc, .plan = &leave, .chosen = &plan_behind};
	struct claims claims = {0};

	(void)state;
	assert_false(claims_have_jump(&claims, &second, &plan_behind));
	assert_true(claims_take(&arch_x86_64, &claims, &first, 0));
	assert_true(claims_have_jump(&claims, &second, &plan_behind));
	assert_true(claims_take(&arch_x86_64, &claims, &second, 0));
	assert_int_equal(claims.count, 1);
	assert_int_equal(claims.items[0].start, start + 4);
	assert_int_equal(claims.items[0].written_end, start + 9);
	claims_deinit(&claims);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sharing),
		cmocka_unit_test(test_short),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_claims),
	};

	if (!plan_text_compiles())
		return skip_all("no compiler here makes code of x86-64, whose plans these are");
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
