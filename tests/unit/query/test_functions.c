/* SPDX-License-Identifier: MIT */
/* Functions of files that lie about them: what cannot be read within bounds is refused. */
#include "libprobe/query/query.h"
#include "tests/unit/elf/elf_image.h"

static const char head[] = ".text\n"
			   ".globl f\n"
			   ".type f, %function\n"
			   "f:\n"
			   "	.cfi_startproc\n"
#ifdef __aarch64__
			   "	cbz x0, part\n"
			   "	ret\n"
#else
			   "	jz part + 0\n"
			   "	ret\n"
#endif
			   "	.cfi_endproc\n"
			   "	.size f, . - f\n";

static struct probe_error *select_in(const char *text, struct sdt_functions *ret)
{
	char dir[] = "/tmp/probectl-test-XXXXXX", source[256], path[256];
	struct probe_pattern *pattern;
	struct probe_error *error;
	struct object *object;
	struct sdt_notes notes;

	assert_non_null(mkdtemp(dir));
	write_file(dir, "functions.s", text, source);
	write_file(dir, "versions", "V_1 {};\nV_2 {};\nV_3 {};\n", path);
	snprintf(path, sizeof(path), "%s/functions.so", dir);
	assert_true(run("cc -shared -nostdlib -Wl,--version-script=%s/versions -o %s %s", dir, path,
		source));
	assert_no_error(object_open(path, &object));
	assert_no_error(probe_pattern_parse("fn:f*:return", &pattern));
	assert_no_error(sdt_read(object, &notes));
	sdt_notes_deinit(&notes);
	error = select_functions(
		object, path, (const struct probe_pattern *const *)&pattern, 1, NULL, NULL, ret);
	probe_pattern_free(pattern);
	object_close(object);
	assert_true(run("rm -r %s", dir));
	return error;
}

#define FDE(n, start, size)                                                                        \
	"	.long .L_fde_end" n " - . - 4\n"                                                   \
	".L_fde" n ": .long .L_fde" n " - .L_cie\n"                                                \
	"	.quad " start " - .\n"                                                             \
	"	.quad " size "\n"                                                                  \
	"	.byte 0\n"                                                                               \
	"	.p2align 3\n"                                                                            \
	".L_fde_end" n ":\n"

/* A part of the function is described as more than the file has, another as nearly all addresses.
 */
static void huge_parts(void **state)
{
	static const char parts[] = ".skip 256\n"
				    ".L_part: part = .\n"
				    "	ret\n"
				    ".L_next = .L_part + 0x100000\n"
				    ".section .eh_frame, \"a\"\n"
				    ".L_cie: .long .L_cie_end - . - 4\n"
				    "	.long 0\n"
				    "	.byte 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1c\n"
				    "	.p2align 3\n"
				    ".L_cie_end:\n" FDE("1", ".L_part", "0x100000")
					    FDE("2", ".L_next", "0x4000000000000000");
	char text[4096];
	struct sdt_functions functions = {0};

	(void)state;
	snprintf(text, sizeof(text), "%s%s", head, parts);
	assert_no_error(select_in(text, &functions));
	assert_int_equal(functions.count, 1);
	assert_string_equal(functions.items[0]->refused, "its code cannot be read or decoded");
	sdt_functions_deinit(&functions);
}

/* Each of many symbols covers all of the code. */
static void overlap(void **state)
{
	static const char symbols[] = ".altmacro\n"
				      ".macro cover n\n"
				      "	.type f\\n, %function\n"
				      "	f\\n = f + \\n * 4\n"
				      "	.size f\\n, 0x10000\n"
				      ".endm\n"
				      ".set i, 1\n"
				      ".rept 4000\n"
				      "	cover %i\n"
				      "	.set i, i + 1\n"
				      ".endr\n"
				      "part:\n"
				      ".rept 0x8000\n"
				      "	nop\n"
				      "	ret\n"
				      ".endr\n";
	char text[4096];
	struct sdt_functions functions = {0};

	(void)state;
	snprintf(text, sizeof(text), "%s%s", head, symbols);
	assert_error(select_in(text, &functions), PROBE_ERROR_FORMAT, "its functions overlap");
	sdt_functions_deinit(&functions);
}

/* A name has three versions: each process chooses the function for two, and one is known. */
static void versions(void **state)
{
	static const char symbols[] = ".type first, %gnu_indirect_function\n"
				      ".globl first, second, third\n"
				      "first:\n"
				      "	ret\n"
				      ".size first, 4\n"
				      ".type second, %gnu_indirect_function\n"
				      ".p2align 4\n"
				      "second:\n"
				      "	ret\n"
				      ".size second, 4\n"
				      ".type third, %function\n"
				      ".p2align 4\n"
				      "third: part:\n"
				      "	ret\n"
				      ".size third, . - third\n"
				      ".symver first, f3@V_1\n"
				      ".symver second, f3@V_2\n"
				      ".symver third, f3@@V_3\n";
	char text[4096];
	struct sdt_functions functions = {0};
	size_t count = 0;

	(void)state;
	snprintf(text, sizeof(text), "%s%s", head, symbols);
	assert_no_error(select_in(text, &functions));
	for (size_t i = 0; i < functions.count; i++)
		if (strcmp(functions.items[i]->name, "f3:return") == 0) {
			assert_null(functions.items[i]->refused);
			count++;
		}
	assert_int_equal(count, 1);
	sdt_functions_deinit(&functions);
}

/* Looking for what a process has chosen takes long: not for any number of names. */
static void many_chosen(void **state)
{
	static const char symbols[] = ".altmacro\n"
				      ".macro choose n\n"
				      "	.type f\\n, %gnu_indirect_function\n"
				      "	f\\n = f + \\n * 4\n"
				      "	.size f\\n, 4\n"
				      ".endm\n"
				      ".set i, 1\n"
				      ".rept 1100\n"
				      "	choose %i\n"
				      "	.set i, i + 1\n"
				      ".endr\n"
				      "part:\n"
				      ".rept 0x2000\n"
				      "	ret\n"
				      ".endr\n";
	char text[4096];
	struct sdt_functions functions = {0};
	size_t counts[2] = {0};

	(void)state;
	snprintf(text, sizeof(text), "%s%s", head, symbols);
	assert_no_error(select_in(text, &functions));
	for (size_t i = 0; i < functions.count; i++) {
		const char *refused = functions.items[i]->refused;

		counts[0] += refused && strstr(refused, "has not called it yet");
		counts[1] += refused && strstr(refused, "the file has too many such names");
	}
	assert_int_equal(counts[0], 1024);
	assert_int_equal(counts[1], 1100 - 1024);
	sdt_functions_deinit(&functions);
}

/* A guard (<probe/tracepoint.h>) leads to a part of the function, and out of another function. */
static void guards(void **state)
{
	static const char text[] = ".macro guard label\n"
#ifdef __aarch64__
				   "1:	nop\n"
#else
				   "1:	.byte 0xa9\n"
				   "	.long \\label - . - 4\n"
#endif
				   "	.pushsection .note.probectl, \"\", %note\n"
				   "	.balign 4\n"
				   "	.long 9, 32, 0x6764\n"
				   "	.asciz \"probectl\"\n"
				   "	.balign 4\n"
				   "	.quad 1b, \\label, 0, 1b\n"
				   "	.popsection\n"
				   "	.endm\n"
				   "	.macro function name\n"
				   "	.type \\name, %function\n"
				   "	.globl \\name\n"
				   "\\name:	.cfi_startproc\n"
				   "	.endm\n"
				   "	.macro end name\n"
				   "	ret\n"
				   "	.cfi_endproc\n"
				   "	.size \\name, . - \\name\n"
				   "	.endm\n"
				   "	.text\n"
				   "	function f\n"
				   "	guard f.cold\n"
				   "	end f\n"
				   "	function f.cold\n"
				   "	nop\n"
				   "	end f.cold\n"
				   "	function fout\n"
				   "	nop\n"
				   "	guard f\n"
				   "	end fout\n";
	struct sdt_functions functions = {0};
	size_t exits = 0;

	(void)state;
	assert_no_error(select_in(text, &functions));
	for (size_t i = 0; i < functions.count; i++) {
		const struct sdt_note *note = functions.items[i];

		exits += strcmp(note->name, "f:return") == 0 && !note->refused;
		if (strcmp(note->name, "fout:return") == 0)
			assert_string_equal(note->refused,
				"one of its conditional jumps leads to another function");
	}
	assert_int_equal(exits, 2);
	sdt_functions_deinit(&functions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(huge_parts),
		cmocka_unit_test(overlap),
		cmocka_unit_test(versions),
		cmocka_unit_test(many_chosen),
		cmocka_unit_test(guards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
