/* SPDX-License-Identifier: MIT */
/*
 * Bounds of functions and landing pads: real files compared with readelf, assembled and
 * hand-made ones.
 */
#include <errno.h>

#include "tests/unit/elf/elf_image.h"

/* ---- Compared with readelf --------------------------------------------------------- */

static const char *const real_files[] = {
	"/usr/lib/" MULTIARCH "/libstdc++.so.6",
	"/usr/bin/stap",
};

struct pads {
	const struct object_function *function;
	size_t count, outside;
	uint64_t first, last;
};

static void count_pad(uint64_t address, void *data)
{
	struct pads *pads = data;

	if (!pads->count++)
		pads->first = address;
	pads->last = address;
	if (address < pads->function->range.start || address >= pads->function->range.end)
		pads->outside++;
}

static void check_function(struct object *object, uint64_t start, uint64_t end, size_t *pads_ret)
{
	const uint64_t addresses[] = {start, start + (end - start) / 2, end - 1};
	struct object_function function;
	struct pads pads = {.function = &function};

	for (size_t i = 0; i < 3; i++) {
		assert_true(object_function_at(object, addresses[i], &function));
		assert_true(function.from_cfi);
		assert_int_equal(function.range.start, start);
		assert_int_equal(function.range.end, end);
	}
	assert_true(function.lsda != OBJECT_LSDA_UNKNOWN);
	assert_true(object_landing_pads(object, &function, count_pad, &pads));
	assert_int_equal(pads.outside, 0);
	*pads_ret += pads.count;
}

static void same_as_readelf(void **state)
{
	const char *path = *state;
	char command[512], line[512];
	size_t functions = 0, pads = 0;
	struct object *object;
	FILE *readelf;

	if (access(path, R_OK))
		skip_because("%s: %s", path, strerror(errno));
	if (!run("readelf --version > /dev/null 2>&1"))
		skip_because("readelf is not installed");
	assert_no_error(object_open(path, &object));
	snprintf(command, sizeof(command), "readelf --debug-dump=frames '%s'", path);
	readelf = popen(command, "r");
	assert_non_null(readelf);
	while (fgets(line, sizeof(line), readelf)) {
		char *field = strstr(line, " pc=");
		unsigned long start, end;

		if (!field || sscanf(field, " pc=%lx..%lx", &start, &end) != 2 || start == end)
			continue;
		check_function(object, start, end, &pads);
		functions++;
	}
	assert_int_equal(pclose(readelf), 0);
	assert_true(functions > 1000 && pads > 1000);
	print_message("%s: %zu functions, %zu landing pads\n", path, functions, pads);
	object_close(object);
}

/* ---- Hand-made frames ------------------------------------------------------------ */

enum {
	FUNCTION = 0x4000, /* link-time address of the function */
	FUNCTION_SIZE = 0x80,
	OMIT = 0xff
};

/* How the frames are encoded. */
struct frames {
	uint8_t table_encoding;	  /* of .eh_frame_hdr */
	const char *augmentation; /* of the CIE */
	uint8_t pointer_encoding; /* 'R' */
	uint8_t lsda_encoding;	  /* 'L' */
	uint8_t version;	  /* of the CIE */
	bool long_length;	  /* the FDE's length has 64 bits */
	uint8_t pads_from;	  /* encoding of LPStart */
	uint8_t call_sites;	  /* encoding */
};

static const struct frames usual = {.table_encoding = 0x3b,
	.augmentation = "zPLR",
	.pointer_encoding = 0x1b,
	.lsda_encoding = 0x1b,
	.version = 1,
	.pads_from = OMIT,
	.call_sites = 0x01};

/* The parts of the section, and their offsets. */
enum { AT_TABLE = 0, AT_CIE = 0x80, AT_FDE = 0xc0, AT_LSDA = 0x100 };

static void put_leb(struct buffer *buffer, uint64_t value)
{
	do {
		put(buffer, (value & 0x7f) | (value > 0x7f ? 0x80 : 0), 1);
		value >>= 7;
	} while (value);
}

static void put_pointer(struct buffer *buffer, uint64_t section, uint8_t encoding, uint64_t value)
{
	if ((encoding & 0x70) == 0x10)
		value -= section + buffer->size;
	if ((encoding & 0x70) == 0x30)
		value -= section + AT_TABLE;
	if ((encoding & 0x70) == 0x40)
		value -= FUNCTION;
	switch (encoding & 0x0f) {
	case 0x00:
	case 0x08:
		put_address(buffer, value);
		break;
	case 0x01:
		put_leb(buffer, value);
		break;
	default:
		put(buffer, value, 1u << ((encoding & 7) - 1));
		break;
	}
}

static void put_until(struct buffer *buffer, size_t at)
{
	assert_true(buffer->size <= at);
	while (buffer->size < at)
		put(buffer, 0, 1);
}

static void put_cie(struct buffer *buffer, uint64_t section, const struct frames *frames)
{
	put(buffer, AT_FDE - AT_CIE - 4, 4);
	put(buffer, 0, 4);
	put(buffer, frames->version, 1);
	put_bytes(buffer, frames->augmentation, strlen(frames->augmentation) + 1);
	if (!strcmp(frames->augmentation, "eh"))
		put_address(buffer, 0x1234);
	if (frames->version == 4)
		put(buffer, buffer->wide ? 8 : 4, 2);
	put_leb(buffer, 1);
	put_leb(buffer, 0x78);
	put_leb(buffer, 16);
	put_leb(buffer, 7);
	for (const char *c = frames->augmentation; *c; c++) {
		if (*c == 'P') {
			put(buffer, 0x9b, 1);
			put_pointer(buffer, section, 0x1b, 0x5000);
		} else if (*c == 'L' || *c == 'R') {
			put(buffer, *c == 'L' ? frames->lsda_encoding : frames->pointer_encoding,
				1);
		}
	}
}

static void put_fde(struct buffer *buffer, uint64_t section, const struct frames *frames)
{
	size_t length = frames->long_length ? 12 : 4;
	uint8_t pointer = strchr(frames->augmentation, 'R') ? frames->pointer_encoding : 0;

	if (frames->long_length)
		put(buffer, 0xffffffff, 4);
	put(buffer, AT_LSDA - AT_FDE - length, frames->long_length ? 8 : 4);
	put(buffer, buffer->size - AT_CIE, 4);
	put_pointer(buffer, section, pointer, FUNCTION);
	put_pointer(buffer, section, pointer & 0x0f, FUNCTION_SIZE);
	if (*frames->augmentation == 'z')
		put_leb(buffer, 4);
	if (strchr(frames->augmentation, 'L'))
		put_pointer(buffer, section, frames->lsda_encoding, section + AT_LSDA);
}

/* Call sites with landing pads at 0x20 and 0x40 of the function, and one without. */
static void put_lsda(struct buffer *buffer, uint64_t section, const struct frames *frames)
{
	static const uint8_t sites[3][3] = {{0, 8, 0x20}, {8, 8, 0}, {16, 8, 0x40}};
	struct buffer table = {.wide = buffer->wide, .big_endian = buffer->big_endian};
	uint64_t pads_from = frames->pads_from == OMIT ? 0 : 0x10;

	for (int i = 0; i < 3; i++) {
		put_pointer(&table, 0, frames->call_sites, sites[i][0]);
		put_pointer(&table, 0, frames->call_sites, sites[i][1]);
		put_pointer(
			&table, 0, frames->call_sites, sites[i][2] ? sites[i][2] - pads_from : 0);
		put_leb(&table, 1);
	}
	put(buffer, frames->pads_from, 1);
	if (frames->pads_from != OMIT)
		put_pointer(buffer, section, frames->pads_from, FUNCTION + pads_from);
	put(buffer, 0x9b, 1);
	put_leb(buffer, 200);
	put(buffer, frames->call_sites, 1);
	put_leb(buffer, table.size);
	put_bytes(buffer, table.data, table.size);
}

static void put_frames(struct buffer *buffer, uint64_t section, const struct frames *frames)
{
	put(buffer, 1, 1);
	put(buffer, 0x1b, 1);
	put(buffer, 0x03, 1);
	put(buffer, frames->table_encoding, 1);
	put_pointer(buffer, section, 0x1b, section + AT_CIE);
	put(buffer, 3, 4);
	/* Two more functions around ours, which are not looked up. */
	for (int i = -1; i <= 1; i++) {
		put_pointer(
			buffer, section, frames->table_encoding, (uint64_t)(FUNCTION + i * 0x1000));
		put_pointer(buffer, section, frames->table_encoding, section + AT_FDE);
	}
	put_until(buffer, AT_CIE);
	put_cie(buffer, section, frames);
	put_until(buffer, AT_FDE);
	put_fde(buffer, section, frames);
	put_until(buffer, AT_LSDA);
	put_lsda(buffer, section, frames);
}

struct fixture {
	struct buffer content;
	struct image_section section;
	struct image image;
	int fd;
	struct object *object;
};

static void fixture_init(struct fixture *f, bool wide, bool big_endian, const struct frames *frames)
{
	memset(f, 0, sizeof(*f));
	f->content.wide = f->image.wide = wide;
	f->content.big_endian = f->image.big_endian = big_endian;
	f->section = (struct image_section){.name = ".eh_frame_hdr",
		.type = SHT_PROGBITS,
		.content = &f->content,
		.address = IMAGE_BASE,
		.align = 4};
	f->image.type = ET_EXEC;
	f->image.sections = &f->section;
	f->image.section_count = 1;
	f->image.segment_type = PT_GNU_EH_FRAME;
	image_build(&f->image); /* computes the section's offset */
	put_frames(&f->content, IMAGE_BASE + f->section.offset, frames);
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

/* Looks up the function with these frames, in both classes and byte orders. */
static void check_frames(struct frames frames, bool has_lsda)
{
	for (int i = 0; i < 4; i++) {
		struct object_function function = {0};
		struct pads pads = {.function = &function};
		struct fixture f;

		fixture_init(&f, i & 1, i & 2, &frames);
		fixture_open(&f);
		assert_true(object_function_at(f.object, FUNCTION + 0x7f, &function));
		assert_true(function.from_cfi);
		assert_int_equal(function.range.start, FUNCTION);
		assert_int_equal(function.range.end, FUNCTION + FUNCTION_SIZE);
		assert_int_equal(
			function.lsda, has_lsda ? IMAGE_BASE + f.section.offset + AT_LSDA : 0);
		assert_true(object_landing_pads(f.object, &function, count_pad, &pads));
		assert_int_equal(pads.count, has_lsda ? 2 : 0);
		if (has_lsda) {
			assert_int_equal(pads.first, FUNCTION + 0x20);
			assert_int_equal(pads.last, FUNCTION + 0x40);
		}
		assert_false(object_function_at(f.object, FUNCTION - 1, &function));
		assert_false(object_function_at(f.object, FUNCTION + FUNCTION_SIZE, &function));
		assert_false(object_function_at(f.object, 0, &function));
		fixture_deinit(&f);
	}
}

static void encodings(void **state)
{
	static const uint8_t tables[] = {0x3b, 0x1b, 0x00, 0x03, 0x0b, 0x0c, 0x3c};
	static const uint8_t pointers[] = {0x1b, 0x00, 0x03, 0x0b, 0x0c, 0x1c, 0x08};
	static const uint8_t lsdas[] = {0x1b, 0x00, 0x03, 0x0c, 0x1c, 0x01, 0x4b};
	static const uint8_t sites[] = {0x01, 0x03, 0x02, 0x04, 0x00, 0x0b};
	static const uint8_t pads[] = {OMIT, 0x1b, 0x00, 0x03, 0x4b, 0x01};
	struct frames frames;

	(void)state;
	for (size_t i = 0; i < sizeof(tables); i++) {
		frames = usual;
		frames.table_encoding = tables[i];
		check_frames(frames, true);
	}
	for (size_t i = 0; i < sizeof(pointers); i++) {
		frames = usual;
		frames.pointer_encoding = pointers[i];
		check_frames(frames, true);
	}
	for (size_t i = 0; i < sizeof(lsdas); i++) {
		frames = usual;
		frames.lsda_encoding = lsdas[i];
		check_frames(frames, true);
	}
	for (size_t i = 0; i < sizeof(sites); i++) {
		frames = usual;
		frames.call_sites = sites[i];
		check_frames(frames, true);
	}
	for (size_t i = 0; i < sizeof(pads); i++) {
		frames = usual;
		frames.pads_from = pads[i];
		check_frames(frames, true);
	}
}

static void augmentations(void **state)
{
	static const struct {
		const char *text;
		bool has_lsda;
	} cases[] = {{"zR", false}, {"zRS", false}, {"zPLR", true}, {"zLR", true}, {"zLPR", true},
		{"zRB", false}, {"", false}, {"eh", false}, {"z", false}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (uint8_t version = 1; version <= 4; version += version == 1 ? 2 : 1) {
			struct frames frames = usual;

			frames.augmentation = cases[i].text;
			frames.version = version;
			frames.long_length = version == 3;
			check_frames(frames, cases[i].has_lsda);
		}
	}
}

/* Unreadable tables must not count as "no landing pads". */
static void unreadable(void **state)
{
	struct object_function function;
	struct pads pads = {.function = &function};
	struct frames frames = usual;
	struct fixture f;

	(void)state;
	frames.augmentation = "zXR";
	fixture_init(&f, true, false, &frames);
	fixture_open(&f);
	assert_false(object_function_at(f.object, FUNCTION, &function));
	fixture_deinit(&f);

	frames = usual;
	frames.lsda_encoding = 0x9b; /* indirect */
	fixture_init(&f, true, false, &frames);
	fixture_open(&f);
	assert_true(object_function_at(f.object, FUNCTION, &function));
	assert_int_equal(function.lsda, OBJECT_LSDA_UNKNOWN);
	assert_false(object_landing_pads(f.object, &function, count_pad, &pads));
	fixture_deinit(&f);

	fixture_init(&f, true, false, &usual);
	fixture_open(&f);
	assert_true(object_function_at(f.object, FUNCTION, &function));
	function.lsda = IMAGE_BASE + f.image.file.size + 0x1000;
	assert_false(object_landing_pads(f.object, &function, count_pad, &pads));
	function.lsda = IMAGE_BASE + f.section.offset + AT_CIE; /* no LSDA: zero encodings */
	object_landing_pads(f.object, &function, count_pad, &pads);
	fixture_deinit(&f);
}

static void damage(void **state)
{
	unsigned int seed = 1;

	(void)state;
	for (int round = 0; round < 4000; round++) {
		struct object_function function;
		struct pads pads = {.function = &function};
		struct probe_error *error;
		struct fixture f;

		fixture_init(&f, round & 1, round & 2, &usual);
		for (int i = rand_r(&seed) % 4; i >= 0; i--) {
			size_t at = (unsigned int)rand_r(&seed) % f.content.size;

			f.image.file.data[f.section.offset + at] =
				(uint8_t)(rand_r(&seed) % 3 ? rand_r(&seed) : 0xff);
		}
		error = image_open_bytes(f.image.file.data, f.image.file.size, &f.fd, &f.object);
		assert_null(error);
		if (object_function_at(f.object, FUNCTION + 1, &function))
			object_landing_pads(f.object, &function, count_pad, &pads);
		fixture_deinit(&f);
	}
}

/* ---- Assembled ------------------------------------------------------------------- */

static const char assembly[] = "	.text\n"
			       "	.globl described, named\n"
			       "	.type described, @function\n"
			       "described:\n"
			       "	.cfi_startproc\n"
			       "	.zero 32, 0x90\n"
			       "	.cfi_endproc\n"
			       "	.size described, . - described\n"
			       "	.type named, @function\n"
			       "named:	.zero 48, 0x90\n"
			       "	.size named, . - named\n"
			       "unsized:\n"
			       "	.type unsized, @function\n"
			       "	.zero 16, 0x90\n"
			       "	.section .note.GNU-stack, \"\", %progbits\n";

static void check_assembled(const char *path)
{
	struct object_function function;
	uint64_t start, size;
	struct object *object;

	assert_no_error(object_open(path, &object));
	assert_true(object_symbol(object, "described", 9, &start, &size));
	assert_true(object_function_at(object, start + 31, &function));
	assert_true(function.from_cfi);
	assert_int_equal(function.range.start, start);
	assert_int_equal(function.range.end, start + 32);
	assert_int_equal(function.lsda, 0);
	/* Without a description the symbol is used; without a size there is nothing. */
	assert_true(object_function_at(object, start + 32, &function));
	assert_false(function.from_cfi);
	assert_int_equal(function.range.start, start + 32);
	assert_int_equal(function.range.end, start + 80);
	assert_int_equal(function.lsda, 0);
	assert_false(object_function_at(object, start + 80, &function));
	object_close(object);
}

static void assembled(void **state)
{
	const char *linker = *state;
	char dir[] = "/tmp/probectl-test-XXXXXX", source[256], path[256];

	need_linker(linker);
	assert_non_null(mkdtemp(dir));
	write_file(dir, "functions.s", assembly, source);
	snprintf(path, sizeof(path), "%s/functions.so", dir);
	assert_true(run("cc -shared -nostdlib -fuse-ld=%s -o %s %s", linker, path, source));
	check_assembled(path);
	/* As in static programs: without a search table. */
	assert_true(run("cc -static -nostdlib -Wl,--no-eh-frame-hdr -e described -fuse-ld=%s "
			"-o %s %s",
		linker, path, source));
	check_assembled(path);
	assert_true(run("rm -r %s", dir));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(same_as_readelf, (void *)real_files[0]),
		cmocka_unit_test_prestate(same_as_readelf, (void *)real_files[1]),
		cmocka_unit_test(encodings),
		cmocka_unit_test(augmentations),
		cmocka_unit_test(unreadable),
		cmocka_unit_test(damage),
		cmocka_unit_test_prestate(assembled, "bfd"),
		cmocka_unit_test_prestate(assembled, "gold"),
		cmocka_unit_test_prestate(assembled, "lld"),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
