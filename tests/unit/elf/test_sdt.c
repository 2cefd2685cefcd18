/* SPDX-License-Identifier: MIT */
/* Probes in ELF files: real ones compared with readelf, hand-made ones with every defect. */
#include <errno.h>

#include "elf/sdt.h"
#include "tests/unit/elf/elf_image.h"

/* ---- Compared with readelf ------------------------------------------------------ */

static const char *const real_files[] = {
	"/usr/lib/jvm/java-17-openjdk-" JVM_MACHINE "/lib/server/libjvm.so",
	"/usr/lib/postgresql/15/bin/postgres",
	"/usr/lib/" MULTIARCH "/libruby-3.1.so.3.1",
	"/usr/bin/python3.11",
	"/usr/bin/php8.2",
	"/usr/lib/" MULTIARCH "/libstdc++.so.6",
	"/usr/bin/stap",
};

/* The next line of readelf that contains `label`: the rest of it, without the newline. */
static bool next_field(FILE *readelf, const char *label, char line[4096], char **ret)
{
	while (fgets(line, 4096, readelf)) {
		char *found = strstr(line, label);

		if (!found)
			continue;
		line[strcspn(line, "\n")] = '\0';
		*ret = found + strlen(label);
		return true;
	}
	return false;
}

static void check_note(FILE *readelf, const struct sdt_note *note)
{
	unsigned long pc, base, semaphore;
	char line[4096], *field;

	assert_true(next_field(readelf, "Provider: ", line, &field));
	assert_string_equal(note->provider, field);
	assert_true(next_field(readelf, "Name: ", line, &field));
	assert_string_equal(note->name, field);
	assert_true(next_field(readelf, "Location: ", line, &field));
	assert_int_equal(
		sscanf(field, "%lx, Base: %lx, Semaphore: %lx", &pc, &base, &semaphore), 3);
	assert_int_equal(note->base, base);
	/* None of the files is prelinked. */
	assert_int_equal(note->pc, pc);
	assert_int_equal(note->semaphore, semaphore);
	assert_true(next_field(readelf, "Arguments: ", line, &field));
	assert_string_equal(note->args, field);
}

static void same_as_readelf(void **state)
{
	const char *path = *state;
	char command[512], line[4096], *field;
	struct sdt_notes notes;
	struct object *object;
	FILE *readelf;

	if (access(path, R_OK))
		skip_because("%s: %s", path, strerror(errno));
	if (!run("readelf --version > /dev/null 2>&1"))
		skip_because("readelf is not installed");
	if (!run("readelf -SW '%s' | grep -qF .note.stapsdt", path))
		skip_because("%s is built without probes", path);
	assert_no_error(object_open(path, &object));
	assert_no_error(sdt_read(object, &notes));
	assert_int_equal(notes.defect_count, 0);
	assert_true(notes.count > 0);
	snprintf(command, sizeof(command), "readelf -nW '%s'", path);
	readelf = popen(command, "r");
	assert_non_null(readelf);
	for (size_t i = 0; i < notes.count; i++)
		check_note(readelf, &notes.notes[i]);
	assert_false(next_field(readelf, "Provider: ", line, &field));
	assert_int_equal(pclose(readelf), 0);
	print_message("%s: %zu notes\n", path, notes.count);
	sdt_notes_deinit(&notes);
	object_close(object);
}

/* ---- Hand-made notes ----------------------------------------------------------- */

#define STRINGS(text) text, sizeof(text)

/* A note of a probe; desc_size and name_size as stated in its header, -1 for the true ones. */
static void put_note_sized(struct buffer *buffer, uint64_t pc, uint64_t base, uint64_t semaphore,
	const char *strings, size_t strings_size, int64_t name_size, int64_t desc_size)
{
	size_t true_size = strings_size + (buffer->wide ? 24 : 12);

	put(buffer, name_size < 0 ? 8 : (uint64_t)name_size, 4);
	put(buffer, desc_size < 0 ? true_size : (uint64_t)desc_size, 4);
	put(buffer, 3, 4);
	put_bytes(buffer, "stapsdt", 8);
	put_address(buffer, pc);
	put_address(buffer, base);
	put_address(buffer, semaphore);
	put_bytes(buffer, strings, strings_size);
	put_align(buffer, 4);
}

static void put_note(struct buffer *buffer, uint64_t pc, uint64_t base, uint64_t semaphore,
	const char *strings, size_t strings_size)
{
	put_note_sized(buffer, pc, base, semaphore, strings, strings_size, -1, -1);
}

/* A note that is not a probe. */
static void put_other(struct buffer *buffer)
{
	put(buffer, 4, 4);
	put(buffer, 5, 4);
	put(buffer, 3, 4);
	put_bytes(buffer, "GNU", 4);
	put_bytes(buffer, "\1\2\3\4\5\0\0", 8);
}

/* A file under test, its object and the notes read. */
struct fixture {
	struct buffer notes, more;
	struct image_section sections[3];
	struct image image;
	int fd;
	struct object *object;
	struct sdt_notes read;
};

static void fixture_init(struct fixture *f, bool wide, bool big_endian)
{
	memset(f, 0, sizeof(*f));
	f->notes.wide = f->more.wide = f->image.wide = wide;
	f->notes.big_endian = f->more.big_endian = f->image.big_endian = big_endian;
	f->image.type = ET_DYN;
	f->image.machine = EM_X86_64;
	f->image.sections = f->sections;
	f->image.section_count = 1;
	f->sections[0] = (struct image_section){
		.name = ".note.stapsdt", .type = SHT_NOTE, .content = &f->notes, .align = 4};
}

static struct probe_error *fixture_try(struct fixture *f)
{
	image_build(&f->image);
	assert_no_error(
		image_open_bytes(f->image.file.data, f->image.file.size, &f->fd, &f->object));
	return sdt_read(f->object, &f->read);
}

static void fixture_read(struct fixture *f)
{
	assert_no_error(fixture_try(f));
}

static void fixture_deinit(struct fixture *f)
{
	sdt_notes_deinit(&f->read);
	object_close(f->object);
	close(f->fd);
}

static void assert_note(const struct sdt_note *note, uint64_t pc, uint64_t semaphore,
	const char *provider, const char *name, const char *args)
{
	assert_int_equal(note->pc, pc);
	assert_int_equal(note->semaphore, semaphore);
	assert_string_equal(note->provider, provider);
	assert_string_equal(note->name, name);
	assert_string_equal(note->args, args);
}

static void assert_defect(const struct fixture *f, size_t index, uint64_t offset, const char *what)
{
	assert_true(index < f->read.defect_count);
	assert_string_equal(f->read.defects[index].what, what);
	assert_int_equal(f->read.defects[index].offset, offset);
}

static void classes_and_byte_orders(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		uint64_t high = i & 1 ? 0x123400000000 : 0;
		struct fixture f;

		fixture_init(&f, i & 1, i & 2);
		put_other(&f.notes);
		put_note(&f.notes, high + 0x1000, 0x2000, 0, STRINGS("prov\0one\0-4@%eax 8@$5"));
		put_other(&f.notes);
		put_note(&f.notes, high + 0x1010, 0x2000, 0x3002, STRINGS("prov\0two\0"));
		fixture_read(&f);
		assert_int_equal(f.read.count, 2);
		assert_int_equal(f.read.defect_count, 0);
		assert_note(&f.read.notes[0], high + 0x1000, 0, "prov", "one", "-4@%eax 8@$5");
		assert_note(&f.read.notes[1], high + 0x1010, 0x3002, "prov", "two", "");
		assert_int_equal(f.read.notes[0].base, 0x2000);
		assert_int_equal(f.read.notes[0].offset, f.sections[0].offset + 24);
		fixture_deinit(&f);
	}
}

/* With a section .stapsdt.base at `address`, reads notes whose base is 0x2000 and 0. */
static void check_prelink(bool wide, uint64_t address, uint64_t pc, uint64_t semaphore)
{
	struct fixture f;

	fixture_init(&f, wide, false);
	put(&f.more, 0, 1);
	f.sections[1] = (struct image_section){.name = ".stapsdt.base",
		.type = SHT_PROGBITS,
		.content = &f.more,
		.address = address,
		.align = 1};
	f.image.section_count = 2;
	put_note(&f.notes, 0x1000, 0x2000, 0x3000, STRINGS("p\0moved\0"));
	put_note(&f.notes, 0, 0x2000, 0, STRINGS("p\0nowhere\0"));
	put_note(&f.notes, 0x1000, 0, 0x3000, STRINGS("p\0baseless\0"));
	fixture_read(&f);
	assert_int_equal(f.read.count, 3);
	assert_note(&f.read.notes[0], pc, semaphore, "p", "moved", "");
	assert_note(&f.read.notes[1], 0, 0, "p", "nowhere", "");
	assert_note(&f.read.notes[2], 0x1000, 0x3000, "p", "baseless", "");
	fixture_deinit(&f);
}

static void prelink(void **state)
{
	(void)state;
	check_prelink(true, 0x2000, 0x1000, 0x3000);
	check_prelink(true, 0x402000, 0x401000, 0x403000);
	check_prelink(true, 0x1800, 0x800, 0x2800);
	check_prelink(true, 0, 0x1000, 0x3000);
	check_prelink(false, 0xfffff800, 0xffffe800, 0x800); /* wraps in 32 bits */
}

static void strings(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, true, false);
	put_note(&f.notes, 1, 0, 0, "p\0n", 4);	   /* no arguments at all */
	put_note(&f.notes, 2, 0, 0, "p\0n\0a", 5); /* not terminated */
	put_note(&f.notes, 3, 0, 0, "p\0nnn", 5);
	put_note(&f.notes, 4, 0, 0, "ppp", 3);
	put_note(&f.notes, 5, 0, 0, "", 0);
	put_note(&f.notes, 6, 0, 0, STRINGS("\0n\0a"));
	put_note(&f.notes, 7, 0, 0, STRINGS("p\0\0a"));
	put_note(&f.notes, 8, 0, 0, STRINGS("p\0last\0a"));
	fixture_read(&f);
	assert_int_equal(f.read.count, 2);
	assert_note(&f.read.notes[0], 1, 0, "p", "n", "");
	assert_note(&f.read.notes[1], 8, 0, "p", "last", "a");
	assert_int_equal(f.read.defect_count, 6);
	assert_defect(&f, 0, f.sections[0].offset + 48, "the arguments are not terminated");
	assert_defect(&f, 1, f.sections[0].offset + 48 + 52, "the probe's name is not terminated");
	assert_defect(
		&f, 2, f.sections[0].offset + 48 + 2 * 52, "the provider's name is not terminated");
	assert_string_equal(f.read.defects[3].what, "the provider's name is not terminated");
	assert_string_equal(f.read.defects[4].what, "the provider's name is empty");
	assert_string_equal(f.read.defects[5].what, "the probe's name is empty");
	fixture_deinit(&f);
}

/* A note with absurd sizes between two good ones. */
static void check_absurd(int64_t name_size, int64_t desc_size, size_t defects, const char *what)
{
	struct fixture f;
	uint64_t offset;

	fixture_init(&f, true, true);
	put_note(&f.notes, 1, 0, 0, STRINGS("p\0first\0"));
	offset = f.notes.size;
	put_note_sized(&f.notes, 2, 0, 0, STRINGS("p\0absurd\0"), name_size, desc_size);
	put_note(&f.notes, 3, 0, 0, STRINGS("p\0third\0a"));
	put_note(&f.notes, 4, 0, 0, STRINGS("p\0fourth\0"));
	fixture_read(&f);
	assert_true(f.read.count >= 3);
	assert_note(&f.read.notes[0], 1, 0, "p", "first", "");
	assert_note(&f.read.notes[f.read.count - 2], 3, 0, "p", "third", "a");
	assert_note(&f.read.notes[f.read.count - 1], 4, 0, "p", "fourth", "");
	assert_int_equal(f.read.defect_count, defects);
	assert_defect(&f, 0, f.sections[0].offset + offset, what);
	fixture_deinit(&f);
}

static void absurd_sizes(void **state)
{
	static const char behind[] = "the note's sizes reach past the end of its section";

	(void)state;
	check_absurd(-1, 0xffffffff, 1, behind);
	check_absurd(0xffffffff, -1, 1, behind);
	check_absurd(0xfffffffd, 0xfffffffc, 1, behind); /* would wrap when padded */
	check_absurd(8, 0x7fffffff, 1, behind);
	/* The bytes after the short note are not a header either. */
	check_absurd(-1, 23, 2, "the note is too short for its three addresses");
	check_absurd(-1, 40 + 64, 1, "the note overlaps the next one");
}

static void cut_short(void **state)
{
	struct fixture f;
	size_t whole;

	(void)state;
	fixture_init(&f, true, false);
	put_note(&f.notes, 1, 0, 0, STRINGS("p\0n\0"));
	whole = f.notes.size;
	put_note(&f.notes, 2, 0, 0, STRINGS("p\0n\0"));
	for (size_t size = whole; size < f.notes.size; size++) {
		struct fixture g = f;

		g.notes.size = size;
		g.image.sections = g.sections;
		g.sections[0].content = &g.notes;
		fixture_read(&g);
		/* The second is complete without its padding, and absent without any byte. */
		assert_int_equal(g.read.count, size >= whole + 20 + 24 + 5 ? 2 : 1);
		assert_int_equal(
			g.read.defect_count, size > whole && size < whole + 20 + 24 + 5 ? 1 : 0);
		if (g.read.defect_count)
			assert_int_equal(g.read.defects[0].offset, g.sections[0].offset + whole);
		fixture_deinit(&g);
	}
}

static void overlapping_sections(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, true, false);
	put_note(&f.notes, 1, 0, 0, STRINGS("p\0one\0"));
	put_note(&f.notes, 2, 0, 0, STRINGS("p\0two\0"));
	image_build(&f.image);
	f.sections[1] = f.sections[2] = f.sections[0];
	f.image.section_count = 3;
	image_build(&f.image);
	/* The second has the same bytes; the third those from the second note on, and more. */
	f.sections[1].claimed_offset = f.sections[0].offset;
	f.sections[2].claimed_offset = f.sections[0].offset + f.notes.size / 2;
	f.sections[2].claimed_size = f.notes.size;
	fixture_read(&f);
	assert_int_equal(f.read.count, 3); /* the third shows the first half of its own copy */
	assert_note(&f.read.notes[0], 1, 0, "p", "one", "");
	assert_note(&f.read.notes[1], 2, 0, "p", "two", "");
	assert_int_equal(f.read.defect_count, 2);
	assert_defect(&f, 0, f.sections[0].offset, "the note section overlaps another");
	assert_defect(&f, 1, f.sections[2].claimed_offset, "the note section overlaps another");
	fixture_deinit(&f);
}

static void sections_behind_the_end(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, true, false);
	put_note(&f.notes, 1, 0, 0, STRINGS("p\0one\0"));
	f.sections[1] = f.sections[0];
	f.sections[0].claimed_size = UINT64_MAX - 8;
	f.sections[1].claimed_offset = UINT64_MAX - 8;
	f.image.section_count = 2;
	fixture_read(&f);
	assert_true(f.read.count >= 1);
	assert_note(&f.read.notes[0], 1, 0, "p", "one", "");
	assert_defect(
		&f, 0, f.sections[0].offset, "the note section reaches past the end of the file");
	assert_defect(&f, 1, UINT64_MAX - 8, "the note section reaches past the end of the file");
	fixture_deinit(&f);
}

static void section_headers_behind_the_end(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, true, false);
	put_note(&f.notes, 1, 0, 0, STRINGS("p\0one\0"));
	f.image.section_table = 0x10000000;
	assert_error(fixture_try(&f), PROBE_ERROR_FORMAT, "section headers (at offset 0x10000000)");
	fixture_deinit(&f);
}

static void without_section_headers(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct fixture f;

		fixture_init(&f, i & 1, i & 2);
		put_note(&f.notes, 1, 0, 0, STRINGS("p\0one\0a"));
		f.image.no_sections = true;
		f.image.segment_type = PT_NOTE;
		fixture_read(&f);
		assert_int_equal(f.read.count, 1);
		assert_note(&f.read.notes[0], 1, 0, "p", "one", "a");
		fixture_deinit(&f);
	}
}

static void no_notes(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, true, false);
	f.image.no_sections = true;
	fixture_read(&f);
	assert_int_equal(f.read.count, 0);
	fixture_deinit(&f);

	fixture_init(&f, true, false);
	put_other(&f.notes);
	put(&f.notes, 0, 8); /* padding */
	fixture_read(&f);
	assert_int_equal(f.read.count, 0);
	assert_int_equal(f.read.defect_count, 0);
	assert_null(f.read.storage);
	fixture_deinit(&f);
}

/* The macros align with .balign 4, even if the section is aligned to 8. */
static void section_of_alignment_8(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, true, false);
	put_note(&f.notes, 1, 0, 0, STRINGS("p\0one\0"));
	put_note(&f.notes, 2, 0, 0, STRINGS("p\0two\0"));
	f.sections[0].align = 8;
	fixture_read(&f);
	assert_int_equal(f.read.count, 2);
	assert_note(&f.read.notes[1], 2, 0, "p", "two", "");
	fixture_deinit(&f);
}

/* A note of a guard; desc_size is what its header states. */
static void put_guard(struct buffer *buffer, uint64_t pc, uint64_t label, uint64_t base,
	uint64_t semaphore, size_t desc_size)
{
	put(buffer, 9, 4);
	put(buffer, desc_size, 4);
	put(buffer, 0x6764, 4);
	put_bytes(buffer, "probectl\0\0\0", 12);
	put_address(buffer, pc);
	put_address(buffer, label);
	put_address(buffer, base);
	put_address(buffer, semaphore);
}

/* Guards are sorted, and corrected for prelink; they are no probes. */
static void guards(void **state)
{
	(void)state;
	for (int wide = 0; wide < 2; wide++) {
		const struct sdt_guard *guard;
		size_t count, bytes = wide ? 32 : 16, last;
		struct fixture f;

		fixture_init(&f, wide, !wide);
		put_note(&f.notes, 0x100, 0x2000, 0x300, STRINGS("p\0one\0a"));
		put_guard(&f.notes, 0x40, 0x48, 0, 0x300, bytes);
		put_guard(&f.notes, 0, 0x48, 0, 0x300, bytes);
		put_guard(&f.notes, 0x30, 0, 0, 0x300, bytes);
		put_guard(&f.notes, 0x30, 0x48, 0, 0, bytes);
		put_guard(&f.notes, 0x20, 0x28, 0x2000, 0x300, bytes);
		put_note(&f.notes, 0x200, 0x2000, 0, STRINGS("p\0two\0"));
		last = f.notes.size;
		put_guard(&f.notes, 0x50, 0x58, 0, 0x300, bytes - 1);
		f.sections[1] = (struct image_section){.name = ".stapsdt.base",
			.type = SHT_PROGBITS,
			.content = &f.more,
			.address = 0x3000};
		put(&f.more, 0, 1);
		f.image.section_count = 2;
		fixture_read(&f);
		assert_int_equal(f.read.count, 2);
		assert_int_equal(f.read.defect_count, 1);
		assert_defect(&f, 0, f.sections[0].offset + last,
			"the guard's note is too short for its four addresses");
		guard = sdt_guards(f.object, &count);
		assert_int_equal(count, 2);
		assert_int_equal(guard[0].pc, 0x40);
		assert_int_equal(guard[1].pc, 0x1020);
		assert_int_equal(guard[1].label, 0x1028);
		assert_int_equal(guard[1].semaphore, 0x1300);
		fixture_deinit(&f);
	}
}

/* Random damage: nothing is asserted except that it finishes (and what the sanitizers see). */
static void damage(void **state)
{
	struct fixture f;
	unsigned int seed = 1;

	(void)state;
	for (int round = 0; round < 4000; round++) {
		struct probe_error *error;

		fixture_init(&f, round & 1, round & 2);
		put_note(&f.notes, 1, 0x2000, 0, STRINGS("p\0one\0a"));
		put_other(&f.notes);
		put_note(&f.notes, 2, 0x2000, 2, STRINGS("p\0two\0"));
		put_guard(&f.notes, 3, 4, 0x2000, 5, f.notes.wide ? 32 : 16);
		f.image.segment_type = round & 4 ? PT_NOTE : 0;
		f.image.no_sections = round & 8;
		image_build(&f.image);
		for (int i = rand_r(&seed) % 4; i >= 0; i--)
			f.image.file.data[(unsigned int)rand_r(&seed) % f.image.file.size] =
				(uint8_t)(rand_r(&seed) % 3 ? rand_r(&seed) : 0xff);
		error = image_open_bytes(f.image.file.data, f.image.file.size, &f.fd, &f.object);
		if (!error) {
			error = sdt_read(f.object, &f.read);
			object_build_id(f.object);
		}
		if (error)
			assert_int_equal(error->code, PROBE_ERROR_FORMAT);
		probe_error_free(error);
		fixture_deinit(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(same_as_readelf, (void *)real_files[0]),
		cmocka_unit_test_prestate(same_as_readelf, (void *)real_files[1]),
		cmocka_unit_test_prestate(same_as_readelf, (void *)real_files[2]),
		cmocka_unit_test_prestate(same_as_readelf, (void *)real_files[3]),
		cmocka_unit_test_prestate(same_as_readelf, (void *)real_files[4]),
		cmocka_unit_test_prestate(same_as_readelf, (void *)real_files[5]),
		cmocka_unit_test_prestate(same_as_readelf, (void *)real_files[6]),
		cmocka_unit_test(classes_and_byte_orders),
		cmocka_unit_test(prelink),
		cmocka_unit_test(strings),
		cmocka_unit_test(absurd_sizes),
		cmocka_unit_test(cut_short),
		cmocka_unit_test(overlapping_sections),
		cmocka_unit_test(sections_behind_the_end),
		cmocka_unit_test(section_headers_behind_the_end),
		cmocka_unit_test(without_section_headers),
		cmocka_unit_test(no_notes),
		cmocka_unit_test(section_of_alignment_8),
		cmocka_unit_test(guards),
		cmocka_unit_test(damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
