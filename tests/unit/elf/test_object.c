/* SPDX-License-Identifier: MIT */
/* ELF files: headers, segments, bytes, build ids, symbols, and files that are not ELF. */
#include <fcntl.h>
#include <sys/stat.h>

#include "elf/internal.h"
#include "tests/unit/elf/elf_image.h"

struct fixture {
	struct buffer content;
	struct image_section section;
	struct image image;
	int fd;
	struct object *object;
};

static void fixture_init(struct fixture *f, bool wide, bool big_endian)
{
	memset(f, 0, sizeof(*f));
	f->content.wide = f->image.wide = wide;
	f->content.big_endian = f->image.big_endian = big_endian;
	f->section = (struct image_section){
		.name = ".note.gnu.build-id", .type = SHT_NOTE, .content = &f->content, .align = 4};
	f->image.type = ET_DYN;
	f->image.machine = EM_AARCH64;
	f->image.sections = &f->section;
	f->image.section_count = 1;
	f->image.segment_type = PT_NOTE;
	put(&f->content, 4, 4);
	put(&f->content, 5, 4);
	put(&f->content, 3, 4);
	put_bytes(&f->content, "GNU\0\x01\x23\xab\xcd\xef\0\0", 12);
	image_build(&f->image);
}

static void fixture_open(struct fixture *f)
{
	assert_no_error(
		image_open_bytes(f->image.file.data, f->image.file.size, &f->fd, &f->object));
}

static void fixture_deinit(struct fixture *f)
{
	object_close(f->object);
	close(f->fd);
}

static void headers(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		const struct object_segment *segments;
		struct fixture f;
		size_t count;

		fixture_init(&f, i & 1, i & 2);
		fixture_open(&f);
		assert_string_equal(object_path(f.object), "image");
		assert_int_equal(object_machine(f.object), EM_AARCH64);
		assert_int_equal(object_type(f.object), ET_DYN);
		assert_int_equal(object_is_64bit(f.object), i & 1);
		segments = object_segments(f.object, &count);
		assert_int_equal(count, 1);
		assert_int_equal(segments[0].address, IMAGE_BASE);
		assert_int_equal(segments[0].offset, 0);
		assert_int_equal(segments[0].file_size, segments[0].size);
		assert_true(segments[0].readable && segments[0].executable);
		assert_false(segments[0].writable);
		assert_string_equal(object_build_id(f.object), "0123abcdef");
		fixture_deinit(&f);
	}
}

static void reading(void **state)
{
	const struct object_segment *segment;
	uint8_t bytes[8];
	struct fixture f;
	uint64_t offset;

	(void)state;
	fixture_init(&f, true, false);
	fixture_open(&f);
	segment = object_segment_of(f.object, IMAGE_BASE);
	assert_non_null(segment);
	assert_null(object_segment_of(f.object, IMAGE_BASE - 1));
	assert_null(object_segment_of(f.object, IMAGE_BASE + segment->file_size));
	assert_true(object_offset_of(f.object, IMAGE_BASE + 7, &offset));
	assert_int_equal(offset, 7);
	assert_false(object_offset_of(f.object, 0, &offset));
	assert_int_equal(object_read(f.object, IMAGE_BASE, bytes, 4), 4);
	assert_memory_equal(bytes, "\177ELF", 4);
	/* Not more than the segment contains. */
	assert_int_equal(object_read(f.object, IMAGE_BASE + segment->file_size - 3, bytes, 8), 3);
	assert_int_equal(object_read(f.object, 0, bytes, 8), 0);
	fixture_deinit(&f);
}

/* After loading, changes to the file have no effect, and do not kill us (SIGBUS). */
static void loading(void **state)
{
	const struct object_segment *segments;
	const uint8_t *bytes, *again;
	struct fixture f;
	size_t size;

	(void)state;
	fixture_init(&f, true, false);
	fixture_open(&f);
	segments = object_segments(f.object, &size);
	assert_no_error(object_load(f.object, &bytes, &size));
	assert_int_equal(size, f.image.file.size);
	assert_memory_equal(bytes, f.image.file.data, segments->file_size);
	assert_int_equal(ftruncate(f.fd, 0), 0);
	assert_no_error(object_load(f.object, &again, &size));
	assert_ptr_equal(again, bytes);
	assert_memory_equal(bytes, f.image.file.data, segments->file_size);
	fixture_deinit(&f);
}

static void loading_what_is_cut_short(void **state)
{
	const struct object_segment *segments;
	const uint8_t *bytes;
	struct fixture f;
	size_t size;

	(void)state;
	fixture_init(&f, true, false);
	fixture_open(&f);
	segments = object_segments(f.object, &size);
	assert_int_equal(ftruncate(f.fd, (off_t)segments->file_size - 1), 0);
	assert_error(object_load(f.object, &bytes, &size), PROBE_ERROR_FORMAT,
		"image: it was truncated while it was read");
	assert_int_equal(
		pwrite(f.fd, f.image.file.data, f.image.file.size, 0), (ssize_t)f.image.file.size);
	assert_no_error(object_load(f.object, &bytes, &size));
	assert_memory_equal(bytes, f.image.file.data, segments->file_size);
	fixture_deinit(&f);
}

/* A tiny file whose only segment claims 4 GiB of it. */
static void loading_what_is_huge(void **state)
{
	const uint64_t huge = UINT64_C(4) << 30;
	const uint8_t *bytes;
	struct fixture f;
	size_t size;

	(void)state;
	fixture_init(&f, true, false);
	memcpy(f.image.file.data + 64 + 32, &huge, sizeof(huge)); /* p_filesz */
	memcpy(f.image.file.data + 64 + 40, &huge, sizeof(huge)); /* p_memsz */
	fixture_open(&f);
	assert_no_error(object_load(f.object, &bytes, &size));
	object_close(f.object);
	assert_int_equal(ftruncate(f.fd, (off_t)huge), 0);
	assert_no_error(object_open_fd(f.fd, "image", &f.object));
	assert_error(object_load(f.object, &bytes, &size), PROBE_ERROR_FORMAT,
		"image: its segments are too large to be searched");
	fixture_deinit(&f);
}

/* Nine segments of one file each have all of it. */
static void loading_what_is_shared(void **state)
{
	const uint8_t *bytes;
	struct fixture f;
	uint8_t *headers;
	size_t size;

	(void)state;
	fixture_init(&f, true, false);
	headers = f.image.file.data + f.image.file.size;
	for (int i = 0; i < 9; i++)
		memcpy(headers + (size_t)i * 56, f.image.file.data + 64, 56);
	memcpy(f.image.file.data + 32, &f.image.file.size, 8); /* e_phoff */
	f.image.file.data[56] = 9;			       /* e_phnum */
	f.image.file.size += (size_t)9 * 56;
	for (int i = 0; i < 9; i++)
		memcpy(headers + (size_t)i * 56 + 32, &f.image.file.size, 8); /* p_filesz */
	fixture_open(&f);
	assert_error(object_load(f.object, &bytes, &size), PROBE_ERROR_FORMAT,
		"image: its segments are too large to be searched");
	fixture_deinit(&f);
}

/* Absurd program headers: a segment that wraps, and one past the end of the file. */
static void absurd_segments(void **state)
{
	struct fixture f;
	uint64_t offset;
	uint8_t byte;

	(void)state;
	fixture_init(&f, true, false);
	memset(f.image.file.data + 64 + 32, 0xff, 16); /* p_filesz, p_memsz */
	fixture_open(&f);
	assert_true(object_offset_of(f.object, IMAGE_BASE, &offset));
	assert_false(object_offset_of(f.object, IMAGE_BASE + f.image.file.size, &offset));
	assert_int_equal(object_read(f.object, UINT64_MAX, &byte, 1), 0);
	assert_int_equal(object_read(f.object, IMAGE_BASE + f.image.file.size - 1, &byte, 1), 1);
	fixture_deinit(&f);

	fixture_init(&f, true, false);
	memset(f.image.file.data + 64 + 8, 0xff, 8); /* p_offset */
	fixture_open(&f);
	assert_false(object_offset_of(f.object, IMAGE_BASE + 8, &offset));
	assert_int_equal(object_read(f.object, IMAGE_BASE, &byte, 1), 0);
	fixture_deinit(&f);
}

static void check_no_elf(const void *data, size_t size, const char *message)
{
	struct object *object;
	int fd;

	assert_error(image_open_bytes(data, size, &fd, &object), PROBE_ERROR_FORMAT, message);
	close(fd);
}

static void no_elf(void **state)
{
	static uint8_t large[1 << 17];
	struct object *object;
	struct fixture f;
	char dir[] = "/tmp/probectl-test-XXXXXX", path[256];

	(void)state;
	check_no_elf("", 0, "image: not an ELF file");
	check_no_elf("#!/bin/sh\n", 10, "image: not an ELF file");
	check_no_elf("\177ELF", 4, "image: not an ELF file");
	check_no_elf("!<arch>\n", 8, "image: not an ELF file");
	fixture_init(&f, true, false);
	check_no_elf(f.image.file.data, 63, "image: not an ELF file");
	check_no_elf(f.image.file.data, 70, "image: the program headers at offset 0x40 cannot");
	memcpy(large, f.image.file.data, f.image.file.size);
	memcpy(large + 56, "\x93\x04", 2); /* e_phnum */
	check_no_elf(large, sizeof(large), "image: it has more program headers than Linux loads");
	memset(f.image.file.data + 32, 0xff, 8); /* e_phoff */
	check_no_elf(f.image.file.data, f.image.file.size,
		"image: the program headers at offset 0xffffffffffffffff cannot be read");

	assert_error(object_open("/nonexistent", &object), PROBE_ERROR_SYSTEM,
		"/nonexistent: No such file or directory");
	assert_error(object_open("/", &object), PROBE_ERROR_FORMAT, "/: not an ELF file");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_error(object_open(path, &object), PROBE_ERROR_FORMAT, "fifo: not an ELF file");
	assert_true(run("rm -r %s", dir));
}

/* ---- Symbols -------------------------------------------------------------------- */

static const char source[] =
	"static int hidden = 3;\n"
	"int data[4] = {1, 2, 3, 4};\n"
	"__attribute__((noinline)) static int local(int x) { return x * hidden; }\n"
	"__attribute__((noinline)) int exported(int x) { return local(x) + data[1]; }\n"
	"int _IO_exported(int x) __attribute__((alias(\"exported\")));\n"
	"int absent(void);\n"
	"int caller(void) { return absent() + exported(1); }\n"
	"void set(int x) { hidden = x; }\n";
/* Has a variable of its own that has the same name. */
static const char other_source[] = "static int hidden = 4;\n"
				   "void set_other(int x) { hidden = x; }\n"
				   "int other(void) { return hidden; }\n";

static bool is_name(const char *name, void *data)
{
	return strcmp(name, data) == 0;
}

static void check_symbols(const char *path, bool stripped)
{
	uint64_t value, size, start, address;
	struct object *object;
	int contents[4];

	assert_no_error(object_open(path, &object));
	assert_true(object_symbol(object, "data", 4, &value, &size));
	assert_int_equal(size, 16);
	assert_string_equal(object_data_at(object, value), "data");
	assert_string_equal(object_data_at(object, value + 15), "data");
	assert_null(object_symbol_at(object, value, &start));
	assert_int_equal(object_read(object, value, contents, 16), 16);
	assert_int_equal(contents[2], 3);
	assert_int_equal(object_symbol(object, "hidden", 6, &value, &size), !stripped);
	assert_int_equal(object_symbol_is_only(object, "hidden", 6), stripped);
	assert_true(object_symbol_is_only(object, "data", 4));
	assert_true(object_symbol_is_only(object, "exported+8", 8));
	assert_false(object_symbol(object, "absent", 6, &value, &size)); /* undefined */
	assert_false(object_imports_none(object, is_name, (char[]){"absent"}));
	assert_true(object_imports_none(object, is_name, (char[]){"exported"}));
	assert_true(object_imports_none(object, is_name, (char[]){"abs"}));
	assert_false(object_symbol(object, "dat", 3, &value, &size));
	assert_false(object_symbol(object, "data2", 5, &value, &size));
	assert_false(object_symbol(object, "", 0, &value, &size));
	/* The name need not be terminated. */
	assert_true(object_symbol(object, "exported+8", 8, &address, &size));
	assert_string_equal(object_symbol_at(object, address, &start), "exported");
	assert_int_equal(start, address);
	assert_string_equal(object_symbol_at(object, address + size - 1, &start), "exported");
	assert_null(object_symbol_at(object, 0, &start));
	assert_null(object_data_at(object, address));
	if (!stripped) {
		assert_true(object_symbol(object, "local", 5, &address, &size));
		assert_string_equal(object_symbol_at(object, address + 1, &start), "local");
	}
	object_close(object);
}

/* A file whose hash table has other numbers finds less, and nothing that is not there. */
static void spoil_hash(const char *path)
{
	static const uint32_t values[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff};
	struct object *object;
	GElf_Shdr header;
	uint32_t kept;
	int fd = open(path, O_RDWR);

	assert_true(fd >= 0);
	assert_no_error(object_open(path, &object));
	if (!object_section(object, ".gnu.hash", &header))
		header.sh_size = 0;
	object_close(object);
	for (uint64_t at = 0; at < header.sh_size; at += sizeof(kept)) {
		off_t offset = (off_t)(header.sh_offset + at);

		assert_int_equal(pread(fd, &kept, sizeof(kept), offset), sizeof(kept));
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
			uint64_t value, size;

			assert_int_equal(
				pwrite(fd, &values[i], sizeof(kept), offset), sizeof(kept));
			assert_no_error(object_open(path, &object));
			if (object_symbol(object, "data", 4, &value, &size))
				assert_int_equal(size, 16);
			assert_false(object_symbol(object, "absent", 6, &value, &size));
			object_close(object);
		}
		assert_int_equal(pwrite(fd, &kept, sizeof(kept), offset), sizeof(kept));
	}
	close(fd);
}

static void symbols(void **state)
{
	static const char *const hashes[] = {"sysv", "gnu", "both"};
	char dir[] = "/tmp/probectl-test-XXXXXX", c[256];

	(void)state;
	assert_non_null(mkdtemp(dir));
	write_file(dir, "symbols.c", source, c);
	write_file(dir, "other.c", other_source, c);
	if (!run("cc -O1 -shared -fPIC -o %s/full.so %s/*.c && strip -o %s/stripped.so %s/full.so",
		    dir, dir, dir, dir))
		skip_because("cc or strip do not work");
	snprintf(c, sizeof(c), "%s/full.so", dir);
	check_symbols(c, false);
	snprintf(c, sizeof(c), "%s/stripped.so", dir);
	check_symbols(c, true);
	for (size_t i = 0; i < sizeof(hashes) / sizeof(*hashes); i++) {
		assert_true(run("cc -O1 -shared -fPIC -Wl,--hash-style=%s -o %s/hash.so %s/*.c",
			hashes[i], dir, dir));
		snprintf(c, sizeof(c), "%s/hash.so", dir);
		check_symbols(c, false);
		spoil_hash(c);
	}
	assert_true(run("rm -r %s", dir));
}

/* Every function symbol that readelf lists is found by name and by address. */
static void symbols_same_as_readelf(void **state)
{
	static const char path[] = "/usr/lib/" MULTIARCH "/libstdc++.so.6";
	char line[4096], name[4096];
	struct object *object;
	size_t count = 0;
	FILE *readelf;

	(void)state;
	if (access(path, R_OK) || !run("readelf --version > /dev/null 2>&1"))
		skip_because("%s or readelf is absent", path);
	assert_no_error(object_open(path, &object));
	readelf = popen("readelf -sW /usr/lib/" MULTIARCH "/libstdc++.so.6", "r");
	assert_non_null(readelf);
	while (fgets(line, sizeof(line), readelf)) {
		uint64_t value, size, start;
		unsigned long listed;
		char section[16];

		if (sscanf(line, " %*d: %lx %*s FUNC %*s %*s %15s %4095[^@ \n]", &listed, section,
			    name) != 3 ||
			!strcmp(section, "UND"))
			continue;
		assert_true(object_symbol(object, name, strlen(name), &value, &size));
		assert_non_null(object_symbol_at(object, listed, &start));
		assert_int_equal(start, listed);
		count++;
	}
	assert_int_equal(pclose(readelf), 0);
	assert_true(count > 1000);
	object_close(object);
}

static void build_id_of_a_real_file(void **state)
{
	char line[256], id[128] = "";
	struct object *object;
	FILE *readelf;

	(void)state;
	readelf = popen("readelf -n /proc/self/exe 2> /dev/null", "r");
	assert_non_null(readelf);
	while (fgets(line, sizeof(line), readelf))
		sscanf(line, " Build ID: %127s", id);
	pclose(readelf);
	if (!*id)
		skip_because("readelf shows no build id");
	/* readelf reads its own /proc/self/exe. */
	readelf = popen("command -v readelf", "r");
	assert_non_null(readelf);
	assert_non_null(fgets(line, sizeof(line), readelf));
	pclose(readelf);
	line[strcspn(line, "\n")] = '\0';
	assert_no_error(object_open(line, &object));
	assert_string_equal(object_build_id(object), id);
	object_close(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers),
		cmocka_unit_test(reading),
		cmocka_unit_test(loading),
		cmocka_unit_test(loading_what_is_cut_short),
		cmocka_unit_test(loading_what_is_huge),
		cmocka_unit_test(loading_what_is_shared),
		cmocka_unit_test(absurd_segments),
		cmocka_unit_test(no_elf),
		cmocka_unit_test(symbols),
		cmocka_unit_test(symbols_same_as_readelf),
		cmocka_unit_test(build_id_of_a_real_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
