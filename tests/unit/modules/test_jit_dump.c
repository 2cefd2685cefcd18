/* SPDX-License-Identifier: MIT */
/* Names of generated code in jit-PID.dump: whole files, growing ones, and such as make no sense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/modules/jit_dump.h"

enum { MAGIC = 0x4a695444, LOAD = 0, MOVE = 1, DEBUG_INFO = 2, CODE_BYTES = 5000, LONG = 3000 };

struct file {
	struct jit_dump dump;
	uint64_t number;
};

static void put(struct file *f, const void *bytes, size_t size)
{
	assert_int_equal(write(f->dump.fd, bytes, size), size);
}

static void put_header(struct file *f, uint32_t magic, uint32_t version, uint32_t bytes)
{
	const uint32_t words[10] = {magic, version, bytes, 62, 0, (uint32_t)getpid()};

	put(f, words, sizeof(words));
}

static struct file file_open(void)
{
	struct file f = {0};

	jit_dump_init(&f.dump);
	f.dump.fd = memfd_create("jit-1.dump", MFD_CLOEXEC);
	assert_true(f.dump.fd >= 0);
	return f;
}

static struct file file_begun(void)
{
	struct file f = file_open();

	put_header(&f, MAGIC, 1, 40);
	return f;
}

/* The head of a record whose length is `bytes` in all. */
static void put_record(struct file *f, uint32_t kind, size_t bytes)
{
	const uint32_t words[4] = {kind, (uint32_t)bytes};

	put(f, words, sizeof(words));
}

/* Returns the number of the function. */
static uint64_t put_load(struct file *f, uint64_t address, uint64_t size, const char *name)
{
	const uint64_t words[5] = {0, 1, address, size, f->number++};
	static const char code[CODE_BYTES];

	put_record(f, LOAD, 56 + strlen(name) + 1 + sizeof(code));
	put(f, words, sizeof(words));
	put(f, name, strlen(name) + 1);
	put(f, code, sizeof(code));
	return f->number - 1;
}

static void put_move(struct file *f, uint64_t from, uint64_t to, uint64_t size, uint64_t number)
{
	const uint64_t words[6] = {0, 1, from, to, size, number};

	put_record(f, MOVE, 64);
	put(f, words, sizeof(words));
}

static void check_name(const struct file *f, uint64_t address, const char *name, uint64_t start)
{
	uint64_t found = 0;
	const char *got = jit_dump_find(&f->dump, address, &found);

	if (!name) {
		assert_null(got);
		return;
	}
	assert_non_null(got);
	assert_string_equal(got, name);
	assert_int_equal(found, start);
}

static void test_names(void **state)
{
	struct file f = file_begun();
	uint64_t moved;

	(void)state;
	put_record(&f, DEBUG_INFO, 24);
	put(&f, "12345678", 8);
	put_load(&f, 0x1000, 0x100, "first");
	moved = put_load(&f, 0x2000, 0x100, "second");
	put_load(&f, 0x3000, 0, "empty");
	put_load(&f, 0x4000, 1, "");
	put_load(&f, UINT64_MAX - 1, 0x100, "beyond");
	assert_true(jit_dump_read(&f.dump));
	assert_false(jit_dump_read(&f.dump)); /* there is no more */
	check_name(&f, 0xfff, NULL, 0);
	check_name(&f, 0x1000, "first", 0x1000);
	check_name(&f, 0x10ff, "first", 0x1000);
	check_name(&f, 0x1100, NULL, 0);
	check_name(&f, 0x3000, NULL, 0);
	check_name(&f, 0x4000, NULL, 0);
	check_name(&f, UINT64_MAX - 1, NULL, 0);
	/* Memory is used again, and code moves. */
	put_load(&f, 0x1080, 0x40, "newer");
	put_move(&f, 0x2000, 0x5000, 0x100, moved);
	put_move(&f, 0x2000, 0x6000, 0x100, 99);
	assert_true(jit_dump_read(&f.dump));
	check_name(&f, 0x107f, "first", 0x1000);
	check_name(&f, 0x1080, "newer", 0x1080);
	check_name(&f, 0x10c0, "first", 0x1000);
	check_name(&f, 0x5010, "second", 0x5000);
	check_name(&f, 0x6010, NULL, 0);
	jit_dump_deinit(&f.dump);
}

/* A file that is being written: every length of it is read once. */
static void test_growing(void **state)
{
	struct file f = file_begun(), part = file_open();
	char *all;
	off_t size;

	(void)state;
	put_load(&f, 0x1000, 0x100, "first");
	put_load(&f, 0x2000, 0x100, "second");
	size = lseek(f.dump.fd, 0, SEEK_END);
	all = malloc((size_t)size);
	assert_non_null(all);
	assert_int_equal(pread(f.dump.fd, all, (size_t)size, 0), size);
	for (off_t i = 0; i < size; i++) {
		bool is_end = i + 1 == size || i + 1 == 40 + 56 + 6 + CODE_BYTES;

		put(&part, all + i, 1);
		assert_int_equal(jit_dump_read(&part.dump), is_end);
		assert_false(part.dump.is_over);
	}
	check_name(&part, 0x1000, "first", 0x1000);
	check_name(&part, 0x2000, "second", 0x2000);
	/* One that shrinks was not written by such a program. */
	assert_int_equal(ftruncate(part.dump.fd, 100), 0);
	assert_false(jit_dump_read(&part.dump));
	assert_true(part.dump.is_over);
	check_name(&part, 0x2000, "second", 0x2000);
	free(all);
	jit_dump_deinit(&part.dump);
	jit_dump_deinit(&f.dump);
}

static void test_headers(void **state)
{
	static const uint32_t wrong[][3] = {{0x4454694a, 1, 40}, {0, 1, 40}, {MAGIC, 2, 40},
		{MAGIC, 1, 39}, {MAGIC, 1, 0}, {MAGIC, 1, UINT32_MAX}};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct file f = file_open();

		put_header(&f, wrong[i][0], wrong[i][1], wrong[i][2]);
		put_load(&f, 0x1000, 0x100, "first");
		assert_false(jit_dump_read(&f.dump));
		assert_true(f.dump.is_over);
		check_name(&f, 0x1000, NULL, 0);
		jit_dump_deinit(&f.dump);
	}
}

/* What is before it has names all the same. */
static void test_lies(void **state)
{
	static const uint64_t head[5] = {0, 1, 0x2000, 0x100, 7};
	char text[LONG + 1];
	struct file f = file_begun();

	(void)state;
	put_load(&f, 0x1000, 0x100, "first");
	/* A record too short for its kind, and names without an end. */
	put_record(&f, LOAD, 24);
	put(&f, "12345678", 8);
	put_record(&f, LOAD, 56);
	put(&f, head, sizeof(head));
	put_record(&f, LOAD, 56 + 3);
	put(&f, head, sizeof(head));
	put(&f, "abc", 3);
	memset(text, 'x', LONG);
	text[LONG] = '\0';
	put_load(&f, 0x3000, 0x100, text);
	put_record(&f, MOVE, 32);
	put(&f, "1234567812345678", 16);
	put_record(&f, LOAD, 15);
	put_load(&f, 0x4000, 0x100, "behind");
	assert_true(jit_dump_read(&f.dump));
	assert_true(f.dump.is_over);
	check_name(&f, 0x1000, "first", 0x1000);
	check_name(&f, 0x2000, "abc", 0x2000);
	text[1024] = '\0';
	check_name(&f, 0x3000, text, 0x3000);
	check_name(&f, 0x4000, NULL, 0);
	jit_dump_deinit(&f.dump);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_growing),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
