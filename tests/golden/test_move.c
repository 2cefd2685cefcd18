/* SPDX-License-Identifier: MIT */
/*
 * Golden pairs, in a folder of each ISA: NAME.before.s is code at a site; NAME.after.s is what the
 * instructions under a jump must become in the stub, without the jump back. Both are assembled
 * when the test runs, with these symbols:
 *
 *	site		the address of `before`; `after` is 1 MiB higher
 *	function, data	1 and 2 MiB above the site, the same in both
 *
 * A short branch needs a label in its own file: an assembler does not leave 8-bit displacements
 * to the linker. A line `# at: SITE STUB` in `before` sets other addresses.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"

struct place {
	uint64_t site, stub;
};

/*
 * How code is assembled and linked, and what makes bytes of a linked file if the linker does not;
 * `test` is a command that finds out whether they work.
 */
struct isa {
	const struct arch *arch;
	const char *pairs, *as, *ld, *copy, *test;
};

static const struct isa x86_64 = {&arch_x86_64, "x86_64/*", "as --64", "ld --oformat binary",
	"true", "echo '{disp32} jmp 0' | as --64 -o /dev/null - 2>/dev/null && ld -v >/dev/null"};
#if defined(__aarch64__)
static const struct isa aarch64 = {&arch_aarch64, "aarch64/*/*", "as -march=armv8.5-a", "ld",
	"objcopy -O binary", "as --version >/dev/null 2>&1 && ld -v >/dev/null"};
#else
static const struct isa aarch64 = {&arch_aarch64, "aarch64/*/*",
	"clang --target=aarch64-linux-gnu -march=armv8.5-a -c", "ld.lld --oformat binary", "true",
	"echo nop | clang --target=aarch64-linux-gnu -c -x assembler -o /dev/null - 2>/dev/null && "
	"ld.lld -v >/dev/null"};
#endif

/* The path of a file beside this one; tests run in the root of the sources. */
static void beside(const char *name, char ret[static 512])
{
	const char *slash = strrchr(__FILE__, '/');

	snprintf(ret, 512, "%.*s/%s", slash ? (int)(slash - __FILE__) : 1, slash ? __FILE__ : ".",
		name);
}

static void read_place(const char *path, struct place *ret)
{
	char line[256];
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	*ret = (struct place){.site = 0x401000, .stub = 0x501000};
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "# at: %lx %lx", &ret->site, &ret->stub) == 2)
			break;
	}
	fclose(file);
}

/* Assembles a file for an address; returns the number of bytes. */
static size_t assemble(const struct isa *isa, const char *path, uint64_t at, uint64_t site,
	uint8_t *ret, size_t room)
{
	char folder[] = "/tmp/golden.XXXXXX", command[2048], binary[64];
	size_t length;
	FILE *file;

	assert_non_null(mkdtemp(folder));
	snprintf(command, sizeof(command),
		"%s -o %s/o '%s' && "
		"%s -Ttext %#lx -e 0 --defsym site=%#lx --defsym function=%#lx --defsym data=%#lx "
		"-o %s/binary %s/o && %s %s/binary",
		isa->as, folder, path, isa->ld, at, site, site + 0x100000, site + 0x200000, folder,
		folder, isa->copy, folder);
	if (system(command))
		fail_msg("cannot assemble %s", path);
	snprintf(binary, sizeof(binary), "%s/binary", folder);
	file = fopen(binary, "r");
	assert_non_null(file);
	length = fread(ret, 1, room, file);
	fclose(file);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
	return length;
}

static void print_bytes(const char *what, const uint8_t *bytes, size_t length)
{
	print_error("%s", what);
	for (size_t i = 0; i < length; i++)
		print_error(" %02x", bytes[i]);
	print_error("\n");
}

/* `path` ends in .before.s. */
static void check_pair(const struct isa *isa, const char *path)
{
	uint8_t before[ARCH_MOVED_BYTES_MAX], after[ARCH_MOVED_BYTES_MAX];
	size_t before_length, after_length;
	struct arch_moved moved;
	char after_path[1024];
	struct place place;

	read_place(path, &place);
	snprintf(after_path, sizeof(after_path), "%.*s.after.s",
		(int)(strlen(path) - strlen(".before.s")), path);
	before_length = assemble(isa, path, place.site, place.site, before, sizeof(before));
	after_length = assemble(isa, after_path, place.stub, place.site, after, sizeof(after));
	if (isa->arch->move(before, before_length, place.site, place.stub, isa->arch->jump_length,
		    &moved) != ARCH_MOVE_OK)
		fail_msg("%s: cannot be moved", path);
	if (moved.code_length == after_length && !memcmp(moved.code, after, after_length))
		return;
	print_bytes("before:  ", before, before_length);
	print_bytes("expected:", after, after_length);
	print_bytes("moved:   ", moved.code, moved.code_length);
	fail_msg("%s: other code", path);
}

static void test_pairs(void **state)
{
	const struct isa *isa = *state;
	char name[64], pattern[512];
	glob_t pairs;

	if ((isa->arch->can_decode && !isa->arch->can_decode()) || system(isa->test)) {
		print_message("%s: no disassembler library, or no assembler\n", isa->pairs);
		skip();
	}
	snprintf(name, sizeof(name), "%s.before.s", isa->pairs);
	beside(name, pattern);
	assert_int_equal(glob(pattern, 0, NULL, &pairs), 0);
	for (size_t i = 0; i < pairs.gl_pathc; i++)
		check_pair(isa, pairs.gl_pathv[i]);
	globfree(&pairs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{"x86_64", test_pairs, NULL, NULL, (void *)&x86_64},
		{"aarch64", test_pairs, NULL, NULL, (void *)&aarch64},
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
