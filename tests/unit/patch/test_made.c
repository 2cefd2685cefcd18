/* SPDX-License-Identifier: MIT */
/* Exits without padding near by: which code may make room for their jumps. */
#include "tests/unit/patch/plan_text.h"
#include "tests/unit/skip.h"

#include "arch/arch.h"
#include "libprobe/query/query.h"
#include "probe/pattern.h"

/* An exit that a branch enters, in a function with a frame; `made` goes before the exit. */
#define FRAME "push %rbp\n mov %rsp, %rbp\n mov %edi, -4(%rbp)\n test %edi, %edi\n je 9f\n"
#define EXIT " jmp 9f\n ud2\n9: leave\n ret\n"

static const struct shape {
	const char *name, *body;
	int at, length; /* from the start: the code that makes room, and its bytes; or 0 */
} shapes[] = {
	{"plain", FRAME "mov $1, %eax\nin_plain: mov $2, %edx\n" EXIT, 11, 10},
	/* The last instruction may be longer, a branch or a call. */
	{"longer", FRAME "at_longer: mov $1, %eax\n movl $2, -8(%rbp)\n" EXIT, 11, 12},
	{"branches", FRAME "mov $1, %eax\n add $2, %eax\n js 9f\n" EXIT, 11, 10},
	{"calls", FRAME "mov $1, %eax\n call plain\n" EXIT, 11, 10},
	/* Too little code, code that a branch enters or a call returns to, a nop. */
	{"short", FRAME "mov $1, %eax\n mov %eax, %edx\n" EXIT, 0, 0},
	{"entered", FRAME "mov $1, %eax\n1: mov $2, %edx\n dec %edi\n jne 1b\n" EXIT, 0, 0},
	{"returned", FRAME "call plain\n mov $2, %edx\n" EXIT, 0, 0},
	{"nop", FRAME "mov $1, %eax\n .byte 0x66, 0x90\n add $7, %eax\n" EXIT, 0, 0},
	/* No control flows there: it may be a table. */
	{"table", FRAME "jmp 9f\n mov $1, %eax\n mov $2, %edx\n" EXIT, 0, 0},
	/* A jump of its own returns to code behind a jump. */
	{"back",
		FRAME "jmp 2f\n1: mov $1, %eax\n mov $2, %edx\n jmp 9f\n2: jne 1b\n ud2\n9: "
		      "leave\n ret\n",
		13, 10},
	/* The jump at the entry ends there. */
	{"early", "push %rbp\n mov %rsp, %rbp\n mov $1, %eax\n mov $2, %edx\n je 9f\n" EXIT, 0, 0},
};

enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

static void assemble(const char *dir, char path[64], const char *more)
{
	char source[256], *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	assert_non_null(file);
	fprintf(file, "%s", plan_text_head);
	for (size_t i = 0; i < SHAPES; i++)
		fprintf(file,
			" .globl %s\n .type %s, @function\n%s: .cfi_startproc\n %s .cfi_endproc\n"
			" .size %s, . - %s\n .fill 200, 1, 0xf4\n",
			shapes[i].name, shapes[i].name, shapes[i].name, shapes[i].body,
			shapes[i].name, shapes[i].name);
	fprintf(file, "%s\n .section .note.GNU-stack, \"\", @progbits\n", more);
	assert_int_equal(fclose(file), 0);
	write_file(dir, "made.s", text, source);
	snprintf(path, 64, "%s/made", dir);
	assert_true(run("cc -nostdlib -shared -o %s %s", path, source));
	free(text);
}

/* Plans the exits of all shapes, in a file with `more` text. */
static void plan_exits(const char *more, struct plan *plans, uint64_t *starts)
{
	char dir[] = "/tmp/probectl-test-XXXXXX", path[64];
	struct sdt_functions functions = {0};
	const struct sdt_note *asked[SHAPES];
	const struct sdt_notes none = {0};
	struct probe_pattern *pattern;
	struct object *object;
	size_t count = 0;

	assert_non_null(mkdtemp(dir));
	assemble(dir, path, more);
	assert_no_error(object_open(path, &object));
	assert_no_error(probe_pattern_parse("fn:made:*:return", &pattern));
	assert_no_error(select_functions(object, path,
		(const struct probe_pattern *const *)&pattern, 1, NULL, NULL, &functions));
	for (size_t i = 0; i < SHAPES; i++)
		for (size_t k = 0; k < functions.count; k++)
			if (strncmp(functions.items[k]->name, shapes[i].name,
				    strlen(shapes[i].name)) == 0 &&
				functions.items[k]->name[strlen(shapes[i].name)] == ':')
				asked[count++] = functions.items[k];
	assert_int_equal(count, SHAPES);
	for (size_t i = 0; i < SHAPES; i++)
		starts[i] = asked[i]->start;
	assert_no_error(plan_sites(object, &none, asked, count, &plan_defaults, plans));
	probe_pattern_free(pattern);
	sdt_functions_deinit(&functions);
	object_close(object);
	assert_true(run("rm -r %s", dir));
}

static void test_shapes(void **state)
{
	struct plan plans[SHAPES];
	uint64_t starts[SHAPES];
	const char *reason;

	(void)state;
	plan_exits("", plans, starts);
	for (size_t i = 0; i < SHAPES; i++) {
		print_message("%s\n", shapes[i].name);
		if (!shapes[i].length) {
			assert_null(plan_choose(&plans[i], &plan_defaults, &reason));
			assert_int_equal(plans[i].spare_count, 0);
			continue;
		}
		assert_ptr_equal(plan_choose(&plans[i], &plan_defaults, &reason), &plan_before);
		assert_true(plan_is_short(&arch_x86_64, &plans[i], &plan_before));
		assert_int_equal(plans[i].spare_count, 1);
		assert_int_equal(plans[i].spares[0], starts[i] + (uint64_t)shapes[i].at + 5);
		assert_int_equal(plans[i].made[0], shapes[i].length);
	}
}

/* An address in the data leads into the code; one that leads to its start does no harm. */
static void test_addresses(void **state)
{
	struct plan plans[SHAPES];
	uint64_t starts[SHAPES];

	(void)state;
	plan_exits(" .data\n .balign 8\n .quad in_plain, at_longer", plans, starts);
	assert_int_equal(plans[0].spare_count, 0);
	assert_int_equal(plans[1].spare_count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_addresses),
	};

	if (!plan_text_compiles())
		return skip_all("the texts are of x86-64");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
