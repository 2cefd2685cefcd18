/* SPDX-License-Identifier: MIT */
/* Source lines of compiled files, and what happens without debug information or libdw. */
#include <sys/resource.h>
#include <sys/wait.h>

#include "arch/arch.h"
#include "elf/lines.h"
#include "elf/sdt.h"
#include "tests/unit/elf/elf_image.h"

/* The probe is hand-made: <sys/sdt.h> may not be installed. It is on line 4. */
static const char source[] =
	"int f(int x)\n"
	"{\n"
	"	x *= 3;\n"
	"	__asm__ volatile(\"990: nop\\n.pushsection .note.stapsdt, \\\"\\\", \\\"note\\\"\\n"
	".balign 4\\n.4byte 8, 992f-991f, 3\\n.asciz \\\"stapsdt\\\"\\n991: .8byte 990b, 0, 0\\n"
	".asciz \\\"p\\\"\\n.asciz \\\"n\\\"\\n.asciz \\\"\\\"\\n992: .balign 4\\n.popsection\");\n"
	"	return x + 1;\n"
	"}\n"
	"int main(void) { return f(1); }\n";

enum { SITE_LINE = 4 };

static void check_site(const char *path, bool has_lines)
{
	struct sdt_notes notes;
	struct object *object;
	struct lines *lines;
	uint64_t nowhere = 0xdeadbeef000;
	uint8_t nop[4] = {0};
	struct line line;

	assert_no_error(object_open(path, &object));
	assert_no_error(sdt_read(object, &notes));
	assert_int_equal(notes.count, 1);
	assert_int_equal(object_read(object, notes.notes[0].pc, nop, 4), 4);
	assert_true(arch_of_machine(object_machine(object))->nop_length(nop, 4) > 0);
	assert_no_error(lines_open(object, &lines));
	lines_find(lines, &notes.notes[0].pc, 1, &line);
	assert_int_equal(line.file != NULL, has_lines);
	if (has_lines) {
		assert_non_null(strstr(line.file, "site.c"));
		assert_int_equal(line.number, SITE_LINE);
	}
	lines_find(lines, &nowhere, 1, &line);
	assert_null(line.file);
	lines_close(lines);
	sdt_notes_deinit(&notes);
	object_close(object);
}

/* Of many addresses at once, each has the line that it has alone. */
static void check_many(const char *path)
{
	uint64_t addresses[LINES_AT_ONCE], start = 0, size;
	struct line found[LINES_AT_ONCE], line;
	struct object *object;
	struct lines *lines;

	assert_no_error(object_open(path, &object));
	assert_no_error(lines_open(object, &lines));
	assert_true(object_symbol(object, "f", 1, &start, &size));
	for (uint64_t i = 0; i < LINES_AT_ONCE; i++)
		addresses[i] = i % 5 == 3 ? 0xdeadbeef000 : start + i * 7 % size;
	lines_find(lines, addresses, LINES_AT_ONCE, found);
	for (int i = 0; i < LINES_AT_ONCE; i++) {
		lines_find(lines, &addresses[i], 1, &line);
		assert_int_equal(found[i].file != NULL, i % 5 != 3);
		assert_ptr_equal(found[i].file, line.file);
		assert_int_equal(found[i].number, line.number);
	}
	lines_close(lines);
	object_close(object);
}

/* The child that reads debug information cannot take all memory. */
static void limited(void **state)
{
	char dir[] = "/tmp/probectl-test-XXXXXX", path[256];
	uint64_t address = 0;
	struct object *object;
	struct lines *lines;
	struct line line;

	(void)state;
	assert_non_null(mkdtemp(dir));
	write_file(dir, "site.c", source, path);
	assert_true(run("cc -g -o %s/site %s", dir, path));
	snprintf(path, sizeof(path), "%s/site", dir);
	assert_no_error(object_open(path, &object));
	assert_no_error(lines_open(object, &lines));
	lines_find(lines, &address, 1, &line);
	/* This process has the shell for a child, too. */
	assert_true(run("for child in $(cat /proc/%d/task/%d/children); do "
			"grep -q '^Max data size *[0-9]' /proc/$child/limits && exit; done; exit 1",
		getpid(), getpid()));
	lines_close(lines);
	object_close(object);
	assert_true(run("rm -r %s", dir));
}

static void check_compiled(const char *options, bool has_lines)
{
	char dir[] = "/tmp/probectl-test-XXXXXX", path[256];

	assert_non_null(mkdtemp(dir));
	write_file(dir, "site.c", source, path);
	assert_true(run("cc %s -o %s/site %s", options, dir, path));
	snprintf(path, sizeof(path), "%s/site", dir);
	check_site(path, has_lines);
	if (has_lines)
		check_many(path);
	assert_true(run("rm -r %s", dir));
}

static void compiled(void **state)
{
	(void)state;
	check_compiled("-O0 -g -pie -fPIE", true);
	check_compiled("-O2 -g -no-pie", true);
	check_compiled("-O2 -gdwarf-4 -shared -fPIC", true);
	check_compiled("-O2 -gdwarf-5 -shared -fPIC", true);
	check_compiled("-O2 -g -gz -shared -fPIC", true);
	check_compiled("-O2 -g0 -pie -fPIE", false);
	check_compiled("-O2 -g -s", false);
}

/* Returns where debuggers break, behind the entry of a function. */
static uint64_t breaks_of(const char *path, const char *name, uint64_t by_code)
{
	struct lines_function function = {0};
	struct object *object;
	struct lines *lines;
	uint64_t size, ret;

	assert_no_error(object_open(path, &object));
	assert_true(object_symbol(object, name, strlen(name), &function.range.start, &size));
	function.range.end = function.range.start + size;
	function.by_code = by_code ? function.range.start + by_code : 0;
	assert_true(lines_exist(object));
	assert_no_error(lines_open(object, &lines));
	assert_true(lines_breaks(lines, &function, &ret));
	lines_close(lines);
	object_close(object);
	return ret;
}

/* The assembler text says which bytes belong to which line. */
static void breaks(void **state)
{
	static const char text[] =
		".file \"a.c\"\n.file 1 \"a.c\"\n"
		".section .debug_line,\"\",@progbits\n.Lline:\n"
		".section .debug_abbrev,\"\",@progbits\n.Labbrev:\n"
		".byte 1, 0x11, 0, 0x10, 0x17, 0x11, 1, 0x12, 7, 0, 0, 0\n"
		".section .debug_info,\"\",@progbits\n.4byte 2f-1f\n1: .2byte 4\n"
		".4byte .Labbrev\n.byte 8, 1\n.4byte .Lline\n.8byte .Ltext, .Lend-.Ltext\n2:\n"
		".text\n.Ltext:\n"
		/* three lines of four bytes */
		".globl plain\n.type plain,@function\nplain: .loc 1 10\nnop;nop;nop;nop\n"
		".loc 1 11\nnop;nop;nop;nop\n.loc 1 12\nnop;nop;nop;ret\n.size plain,.-plain\n"
		/* an empty prologue */
		".globl none\n.type none,@function\nnone: .loc 1 20\n.loc 1 21\nnop;nop;nop;nop\n"
		".loc 1 22\nnop;nop;nop;ret\n.size none,.-none\n"
		/* a mark behind what lines say */
		".globl marked\n.type marked,@function\nmarked: .loc 1 30\nnop;nop;nop;nop\n"
		".loc 1 31\nnop;nop;nop;nop\n.loc 1 32 prologue_end\nnop;nop;nop;ret\n"
		".size marked,.-marked\n"
		/* the first line again: lldb goes on to the next */
		".globl again\n.type again,@function\nagain: .loc 1 40\nnop;nop;nop;nop\n"
		".loc 1 40 view -0\nnop;nop;nop;nop\n"
		".loc 1 41\nnop;nop;nop;ret\n.size again,.-again\n.Lend:\n"
		".section .note.GNU-stack,\"\",@progbits\n";
	char dir[] = "/tmp/probectl-test-XXXXXX", path[256];

	(void)state;
#ifndef __x86_64__
	skip(); /* the instructions are longer */
#endif
	assert_non_null(mkdtemp(dir));
	write_file(dir, "a.s", text, path);
	assert_true(run("cc -shared -nostdlib -Wl,--build-id -o %s/liba.so %s", dir, path));
	snprintf(path, sizeof(path), "%s/liba.so", dir);
	assert_int_equal(breaks_of(path, "plain", 0), 1 << 4);
	/* Amid the second line, gdb goes on to the third. */
	assert_int_equal(breaks_of(path, "plain", 6), 1 << 4 | 1 << 8);
	assert_int_equal(breaks_of(path, "plain", 4), 1 << 4);
	assert_int_equal(breaks_of(path, "none", 0), 0);
	assert_int_equal(breaks_of(path, "none", 2), 1 << 4);
	assert_int_equal(breaks_of(path, "marked", 0), 1 << 4 | 1 << 8);
	assert_int_equal(breaks_of(path, "again", 0), 1 << 4 | 1 << 8);
	/* The same from a separate file. */
	assert_true(
		run("cd %s && objcopy --only-keep-debug liba.so liba.debug && strip -g liba.so && "
		    "objcopy --add-gnu-debuglink=liba.debug liba.so",
			dir));
	assert_int_equal(breaks_of(path, "plain", 6), 1 << 4 | 1 << 8);
	assert_true(run("rm -r %s", dir));
}

/*
 * Without a free descriptor dlopen() finds no libdw: a child tries this, before it is loaded
 * here.
 */
static void without_libdw(void **state)
{
	struct object *object;
	int status;
	pid_t child;

	(void)state;
	assert_no_error(object_open("/proc/self/exe", &object));
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		struct rlimit limit = {0, 0};
		struct probe_error *error;
		struct lines *lines;

		setrlimit(RLIMIT_NOFILE, &limit);
		error = lines_open(object, &lines);
		_exit(error && error->code == PROBE_ERROR_UNSUPPORTED &&
					strstr(error->message, "source lines need libdw")
				? 0
				: 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	object_close(object);
}

/* A file that libdw cannot parse has no lines, but causes no error. */
static void not_for_libdw(void **state)
{
	struct image image = {.wide = true, .type = 0x1234, .no_sections = true};
	uint64_t address = IMAGE_BASE;
	struct object *object;
	struct lines *lines;
	struct line line;
	int fd;

	(void)state;
	image_build(&image);
	assert_no_error(image_open_bytes(image.file.data, image.file.size, &fd, &object));
	assert_no_error(lines_open(object, &lines));
	lines_find(lines, &address, 1, &line);
	assert_null(line.file);
	lines_close(lines);
	object_close(object);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_libdw),
		cmocka_unit_test(compiled),
		cmocka_unit_test(limited),
		cmocka_unit_test(breaks),
		cmocka_unit_test(not_for_libdw),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
