/* SPDX-License-Identifier: MIT */
/*
 * Reads notes from ELF files: static probes, and the build id.
 *
 * Each site of a probe has a note with name "stapsdt" and type 3, usually in .note.stapsdt, which
 * no segment maps. The note's descriptor holds three addresses of the file's class and three
 * strings:
 *
 *	pc | .stapsdt.base | semaphore | provider\0 | name\0 | arguments\0
 *
 * Prelink moves a library's addresses but does not adjust notes. .stapsdt.base compensates for
 * that: it is one byte in an allocated section, and each note records the byte's link-time address.
 * If the section has moved, pc and semaphore have moved by the same distance. Some linkers drop the
 * section (mold, and lld and gold with garbage collection); the note's base is then 0 and no
 * correction is possible. (SystemTap wiki, "User Space Probe Implementation".)
 *
 * In a relocatable object (ET_REL) the addresses in a note are 0, because relocations supply the
 * addresses later.
 *
 * If a malformed note's sizes reach past its section, or its descriptor swallows other notes, the
 * start of the next note is unknown. The header of a probe's note is 20 bytes that are fixed except
 * for one word, so the reader searches for the next such header.
 */
#include <elf.h>
#include <inttypes.h>
#include <string.h>

#include "elf/internal.h"
#include "elf/sdt.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"

/* ==== Notes =================================================================================== */

/*
 * A note is three words (size of the name, size of the descriptor, type), the name, padding, the
 * descriptor, padding.
 *
 * The gABI asks for padding to 8 bytes in 64-bit files, but in practice it is to 4, except in
 * sections aligned to 8 (.note.gnu.property). Like Binutils and elfutils we use the section's
 * alignment, except for static probes: <sys/sdt.h> and similar headers write `.balign 4`, whatever
 * section a linker script puts them into.
 */

struct note_range {
	uint64_t offset, size; /* as the header states them; not checked against the file */
	uint64_t align;	       /* alignment of the section or segment */
	bool compressed;
};

struct note_ranges {
	struct note_range *ranges; /* the caller frees them */
	size_t count;
};

struct note {
	size_t at; /* offset of the note's header in the cursor's data */
	uint32_t type;
	const char *name;
	size_t name_size;
	const uint8_t *desc;
	size_t desc_size;
};

enum note_status {
	NOTE_OK,
	NOTE_END,
	NOTE_CUT,      /* fewer bytes than a header are left */
	NOTE_TOO_LARGE /* the note's sizes reach past the end of the data */
};

enum { NOTE_HEADER_BYTES = 12, NT_STAPSDT = 3, NT_GUARD = 0x6764 };

/* Adds a range. If memory is short, frees the list, and returns the error. */
static struct probe_error *note_ranges_add(struct note_ranges *list, struct note_range range)
{
	if (ARRAY_ROOM(list->ranges, list->count)) {
		list->ranges[list->count++] = range;
		return NULL;
	}
	free(list->ranges);
	*list = (struct note_ranges){0};
	return probe_error_no_memory();
}

static struct probe_error *note_ranges_of_sections(
	const struct object *object, struct note_ranges *ret)
{
	struct probe_error *error;
	Elf_Scn *section = NULL;
	size_t count = 0;

	*ret = (struct note_ranges){0};
	if (!object->section_table)
		return NULL;
	if (elf_getshdrnum(object->elf, &count) || !count)
		goto unusable;
	while ((section = elf_nextscn(object->elf, section))) {
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header))
			goto unusable;
		if (header.sh_type != SHT_NOTE || !header.sh_size)
			continue;
		error = note_ranges_add(
			ret, (struct note_range){.offset = header.sh_offset,
				     .size = header.sh_size,
				     .align = header.sh_addralign,
				     .compressed = header.sh_flags & SHF_COMPRESSED});
		if (error)
			return error;
	}
	return NULL;
unusable:
	free(ret->ranges);
	*ret = (struct note_ranges){0};
	if (!elf_errno() || object->section_table >= object->file_size)
		return probe_error_new(PROBE_ERROR_FORMAT,
			"%s: the file ends before its section headers (at offset 0x%" PRIx64
			"): is it cut short?",
			object->path, object->section_table);
	return probe_error_new(PROBE_ERROR_FORMAT,
		"%s: the section headers at offset 0x%" PRIx64 " cannot be read: %s", object->path,
		object->section_table, elf_errmsg(-1));
}

static struct probe_error *note_ranges_of_segments(
	const struct object *object, struct note_ranges *ret)
{
	struct probe_error *error;
	size_t count = 0;

	*ret = (struct note_ranges){0};
	elf_getphdrnum(object->elf, &count);
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;

		if (!gelf_getphdr(object->elf, (int)i, &header))
			break;
		if (header.p_type != PT_NOTE || !header.p_filesz)
			continue;
		error = note_ranges_add(ret, (struct note_range){.offset = header.p_offset,
						     .size = header.p_filesz,
						     .align = header.p_align});
		if (error)
			return error;
	}
	return NULL;
}

/* Returns true if a note describes a static probe. */
static bool note_is_stapsdt(const struct note *note)
{
	/* A name's size includes its NUL in the gABI, but not for some writers. */
	return note->type == NT_STAPSDT && (note->name_size == 8 || note->name_size == 7) &&
	       !memcmp(note->name, "stapsdt", note->name_size);
}

static size_t align_up(size_t value, size_t align)
{
	return (value + align - 1) & ~(align - 1);
}

/*
 * Reads a note and advances the cursor, unless it fails. If the alignment of the section is 8,
 * notes are padded to 8 bytes, else to 4.
 */
static enum note_status note_next(struct bytes *bytes, uint64_t section_align, struct note *ret)
{
	size_t align = section_align == 8 ? 8 : 4;
	size_t start = bytes->at, left = bytes_left(bytes);
	uint64_t name_size, desc_size, desc_at;

	if (!left)
		return NOTE_END;
	if (left < NOTE_HEADER_BYTES) {
		for (size_t i = 0; i < left; i++) {
			if (bytes->data[start + i])
				return NOTE_CUT;
		}
		return NOTE_END; /* padding */
	}
	name_size = bytes_unsigned(bytes, 4);
	desc_size = bytes_unsigned(bytes, 4);
	*ret = (struct note){.at = start,
		.type = (uint32_t)bytes_unsigned(bytes, 4),
		.name = (const char *)bytes->data + bytes->at,
		.name_size = (size_t)name_size};
	bytes->at = start;
	/* The sums below stay under 2^34: fields have 32 bits. */
	if (NOTE_HEADER_BYTES + name_size > left)
		return NOTE_TOO_LARGE;
	if (note_is_stapsdt(ret))
		align = 4;
	desc_at = align_up(NOTE_HEADER_BYTES + (size_t)name_size, align);
	if (desc_at + desc_size > left && desc_size)
		return NOTE_TOO_LARGE;
	/* The last note may have no padding. */
	desc_at = desc_at > left ? left : desc_at;
	ret->desc = bytes->data + start + desc_at;
	ret->desc_size = (size_t)desc_size;
	desc_at = align_up((size_t)(desc_at + desc_size), align);
	bytes->at = start + (size_t)(desc_at > left ? left : desc_at);
	return NOTE_OK;
}

/* ---- The build id: a note of type 3 and name "GNU" ------------------------ */

/* Bounds for untrusted files. A build id is usually a SHA-1; --build-id=0x... may be longer. */
enum {
	BUILD_ID_BYTES_MAX = 256,
	BUILD_ID_NOTES_MAX = 64 << 10 /* bytes of notes to read from one segment */
};

static char *build_id_in(const struct object *object, const struct note_range *range)
{
	size_t size = range->size < BUILD_ID_NOTES_MAX ? (size_t)range->size : BUILD_ID_NOTES_MAX;
	AUTO_FREE uint8_t *data = malloc(size);
	struct bytes bytes;
	struct note note;
	char *text;

	if (!data || range->compressed)
		return NULL;
	bytes = object_bytes(object, data, object_read_file(object, range->offset, data, size), 0);
	while (note_next(&bytes, range->align, &note) == NOTE_OK) {
		if (note.type != NT_GNU_BUILD_ID || note.name_size != 4 ||
			memcmp(note.name, "GNU", 4) || !note.desc_size ||
			note.desc_size > BUILD_ID_BYTES_MAX)
			continue;
		text = calloc(note.desc_size, 2 + 1);
		for (size_t i = 0; text && i < note.desc_size; i++) {
			text[2 * i] = "0123456789abcdef"[note.desc[i] >> 4];
			text[2 * i + 1] = "0123456789abcdef"[note.desc[i] & 15];
		}
		return text;
	}
	return NULL;
}

const char *object_build_id(struct object *object)
{
	/* Relocatable objects (ET_REL) have no segments. */
	for (int sections = 0; sections < 2 && !object->build_id; sections++) {
		struct note_ranges list = {0};

		probe_error_free(sections ? note_ranges_of_sections(object, &list)
					  : note_ranges_of_segments(object, &list));
		for (size_t i = 0; i < list.count && !object->build_id; i++)
			object->build_id = build_id_in(object, &list.ranges[i]);
		free(list.ranges);
	}
	if (!object->build_id)
		object->build_id = calloc(1, 1);
	return object->build_id ? object->build_id : "";
}

/* ==== Static probes =========================================================================== */

/* Maximum gap between two note ranges that is cheaper to read than to skip. */
enum { GAP_BYTES_MAX = 64 };

struct reader {
	struct object *object;
	struct sdt_notes *notes;
	bool no_memory;
};

static void reader_defect(struct reader *reader, uint64_t offset, const char *what)
{
	struct sdt_notes *notes = reader->notes;

	if (!ARRAY_ROOM(notes->defects, notes->defect_count)) {
		reader->no_memory = true;
		return;
	}
	notes->defects[notes->defect_count++] = (struct sdt_defect){offset, what};
}

/* Returns a copy of a note with its texts in one block, or NULL. */
static struct sdt_note *copy_note(const struct sdt_note *note)
{
	struct sdt_note its = *note, *copy;
	const char **const texts[] = {
		&its.provider, &its.name, &its.args, &its.aliases, &its.frame};
	size_t total = sizeof(its);
	char *at;

	its.aliases = its.aliases ? its.aliases : "";
	its.frame = its.frame ? its.frame : "";
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		total += strlen(*texts[i]) + 1;
	copy = malloc(total);
	if (!copy)
		return NULL;
	at = (char *)(copy + 1);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		const char *text = *texts[i];

		*texts[i] = at;
		at = stpcpy(at, text) + 1;
	}
	*copy = its;
	return copy;
}

struct probe_error *sdt_functions_add(struct sdt_functions *functions, const struct sdt_note *note)
{
	struct sdt_note *copy = copy_note(note);

	if (!copy || !ARRAY_ROOM(functions->items, functions->count)) {
		free(copy);
		return probe_error_no_memory();
	}
	functions->items[functions->count++] = copy;
	return NULL;
}

void sdt_functions_deinit(struct sdt_functions *functions)
{
	for (size_t i = 0; i < functions->count; i++)
		free(functions->items[i]);
	free(functions->items);
	*functions = (struct sdt_functions){0};
}

size_t sdt_function_length(const char *name, size_t length)
{
	const size_t suffix = strlen(SDT_RETURN);

	return length > suffix && memcmp(name + length - suffix, SDT_RETURN, suffix) == 0
		       ? length - suffix
		       : length;
}

enum sdt_kind sdt_kind_of(const char *provider, const char *name)
{
	static const struct {
		const char *provider;
		enum sdt_kind kind;
	} kinds[] = {{"ocaml", SDT_OCAML_HANDLERS}, {"ocaml.1", SDT_OCAML}, {"ocaml_1", SDT_OCAML},
		{"ocaml_2", SDT_OCAML}};

	if (event_is_of_function(provider))
		return sdt_function_length(name, strlen(name)) < strlen(name) ? SDT_EXIT
									      : SDT_ENTRY;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(provider, kinds[i].provider) == 0)
			return kinds[i].kind;
	return SDT_NOP;
}

bool sdt_is_ocaml(enum sdt_kind kind)
{
	return kind == SDT_OCAML || kind == SDT_OCAML_HANDLERS;
}

/* Decodes a descriptor. Returns NULL, or text that says what is wrong. */
static const char *parse_desc(struct bytes *desc, struct sdt_note *ret)
{
	ret->pc = bytes_address(desc);
	ret->base = bytes_address(desc);
	ret->semaphore = bytes_address(desc);
	if (desc->failed)
		return "the note is too short for its three addresses";
	ret->provider = bytes_string(desc);
	if (!ret->provider)
		return "the provider's name is not terminated";
	ret->name = bytes_string(desc);
	if (!ret->name)
		return "the probe's name is not terminated";
	ret->args = bytes_left(desc) ? bytes_string(desc) : "";
	if (!ret->args)
		return "the arguments are not terminated";
	if (!*ret->provider)
		return "the provider's name is empty";
	if (!*ret->name)
		return "the probe's name is empty";
	ret->kind = sdt_kind_of(ret->provider, ret->name);
	return NULL;
}

/* Returns the offset of the next probe note's header from `at` on, or `end`. */
static size_t find_probe(const struct bytes *bytes, size_t at, size_t end)
{
	struct bytes reader = *bytes;
	struct note note = {.name_size = 8};

	for (at = (at + 3) & ~(size_t)3; at <= end && end - at >= 20; at += 4) {
		if (memcmp(bytes->data + at + 12, "stapsdt", 8))
			continue;
		reader.at = at;
		note.name = (const char *)bytes->data + at + 12;
		if (bytes_unsigned(&reader, 4) != 8)
			continue;
		bytes_skip(&reader, 4);
		note.type = (uint32_t)bytes_unsigned(&reader, 4);
		if (note_is_stapsdt(&note))
			return at;
	}
	return end;
}

static void read_probe(
	struct reader *reader, struct bytes *bytes, const struct note *note, uint64_t offset)
{
	size_t desc_at = (size_t)(note->desc - bytes->data), end = desc_at + note->desc_size;
	struct bytes desc = object_bytes(reader->object, note->desc, note->desc_size, 0);
	struct sdt_note probe = {.offset = offset + note->at};
	const char *what = parse_desc(&desc, &probe);
	size_t next = find_probe(bytes, desc_at + (what ? 0 : desc.at), end);

	if (!what && ARRAY_ROOM(reader->notes->notes, reader->notes->count))
		reader->notes->notes[reader->notes->count++] = probe;
	else if (!what)
		reader->no_memory = true;
	if (next < end) {
		if (!what)
			what = "the note overlaps the next one";
		bytes->at = next;
	}
	if (what)
		reader_defect(reader, probe.offset, what);
}

/*
 * Reads a note of name "probectl" and type 0x6764, whose descriptor holds four addresses:
 *
 *	pc | label | .stapsdt.base | semaphore
 *
 * The addresses of a relocatable object, and of code that the linker has dropped, are 0.
 */
static void read_guard(struct reader *reader, const struct note *note, uint64_t offset)
{
	struct object *object = reader->object;
	struct bytes desc = object_bytes(object, note->desc, note->desc_size, 0);
	struct sdt_guard guard = {.pc = bytes_address(&desc)};

	guard.label = bytes_address(&desc);
	guard.base = bytes_address(&desc);
	guard.semaphore = bytes_address(&desc);
	if (desc.failed)
		reader_defect(reader, offset + note->at,
			"the guard's note is too short for its four addresses");
	else if (!guard.pc || !guard.label || !guard.semaphore)
		return;
	else if (ARRAY_ROOM(object->guards, object->guard_count))
		object->guards[object->guard_count++] = guard;
	else
		reader->no_memory = true;
}

/* Reads the notes of a range that starts at file offset `offset`. */
static void read_range(struct reader *reader, struct bytes bytes, uint64_t align, uint64_t offset)
{
	while (!reader->no_memory) {
		struct note note;
		enum note_status status = note_next(&bytes, align, &note);

		switch (status) {
		case NOTE_OK:
			if (note_is_stapsdt(&note))
				read_probe(reader, &bytes, &note, offset);
			else if (note.type == NT_GUARD && note.name_size == sizeof("probectl") &&
				 !memcmp(note.name, "probectl", sizeof("probectl")))
				read_guard(reader, &note, offset);
			break;
		case NOTE_END:
			return;
		case NOTE_CUT:
			reader_defect(reader, offset + bytes.at, "the note's header is cut short");
			return;
		case NOTE_TOO_LARGE:
			reader_defect(reader, offset + bytes.at,
				"the note's sizes reach past the end of its section");
			bytes.at = find_probe(&bytes, bytes.at + 4, bytes.size);
			break;
		}
	}
}

static int compare_ranges(const void *a, const void *b)
{
	const struct note_range *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/*
 * Sorts the ranges, and cuts off parts that are outside the file or in an earlier range. So no byte
 * is read twice, and the file's size limits memory.
 */
static void tidy_ranges(struct reader *reader, struct note_ranges *list)
{
	uint64_t file_size = reader->object->file_size, covered = 0;
	size_t kept = 0;

	if (list->count > 1)
		qsort(list->ranges, list->count, sizeof(*list->ranges), compare_ranges);
	for (size_t i = 0; i < list->count; i++) {
		struct note_range range = list->ranges[i];

		if (range.compressed) {
			reader_defect(reader, range.offset, "the note section is compressed");
			continue;
		}
		if (range.offset >= file_size || range.size > file_size - range.offset) {
			reader_defect(reader, range.offset,
				"the note section reaches past the end of the file");
			if (range.offset >= file_size)
				continue;
			range.size = file_size - range.offset;
		}
		if (range.offset < covered) {
			uint64_t end = range.offset + range.size;

			reader_defect(reader, range.offset, "the note section overlaps another");
			if (end <= covered)
				continue;
			range.offset = covered;
			range.size = end - covered;
		}
		covered = range.offset + range.size;
		list->ranges[kept++] = range;
	}
	list->count = kept;
}

/* Ranges, up to index `last`, that are so close together that one system call reads them. */
struct run {
	uint64_t offset, size;
	size_t last;
};

static struct run run_from(const struct note_ranges *list, size_t first)
{
	const struct note_range *range = &list->ranges[first];
	struct run run = {range->offset, range->size, first};

	while (run.last + 1 < list->count) {
		const struct note_range *next = &list->ranges[run.last + 1];

		if (next->offset - (run.offset + run.size) > GAP_BYTES_MAX)
			break;
		run.size = next->offset + next->size - run.offset;
		run.last++;
	}
	return run;
}

static void read_run(struct reader *reader, const struct note_ranges *list, size_t first,
	const struct run *run, char *buffer)
{
	size_t got = object_read_file(reader->object, run->offset, buffer, (size_t)run->size);

	if (got < run->size)
		reader_defect(reader, run->offset + got, "the notes could not be read");
	for (size_t i = first; i <= run->last; i++) {
		const struct note_range *range = &list->ranges[i];
		size_t at = (size_t)(range->offset - run->offset);
		size_t size = (size_t)range->size;

		if (at >= got)
			break;
		if (size > got - at)
			size = got - at;
		read_range(reader, object_bytes(reader->object, buffer + at, size, 0), range->align,
			range->offset);
	}
}

static void read_ranges(struct reader *reader, struct note_ranges *list)
{
	struct run run;
	size_t total = 0;
	char *at;

	tidy_ranges(reader, list);
	for (size_t i = 0; i < list->count; i = run.last + 1) {
		run = run_from(list, i);
		/* Runs do not overlap, so the total is at most the file's size. */
		total += (size_t)run.size;
	}
	if (!total)
		return;
	reader->notes->storage = at = malloc(total);
	if (!at) {
		reader->no_memory = true;
		return;
	}
	for (size_t i = 0; i < list->count; i = run.last + 1) {
		run = run_from(list, i);
		read_run(reader, list, i, &run, at);
		at += run.size;
	}
}

static void correct_for_prelink(struct object *object, struct sdt_notes *notes)
{
	uint64_t mask = object->wide ? ~0ull : 0xffffffff;
	GElf_Shdr section;

	if (!object_section(object, ".stapsdt.base", &section) || !section.sh_addr)
		return;
	for (size_t i = 0; i < notes->count; i++) {
		struct sdt_note *note = &notes->notes[i];
		uint64_t moved = note->base ? section.sh_addr - note->base : 0;

		/* 0 means "none" (no semaphore, or some notes of OCaml), so do not move it. */
		if (note->pc)
			note->pc = (note->pc + moved) & mask;
		if (note->semaphore)
			note->semaphore = (note->semaphore + moved) & mask;
	}
	for (size_t i = 0; i < object->guard_count; i++) {
		struct sdt_guard *guard = &object->guards[i];
		uint64_t moved = guard->base ? section.sh_addr - guard->base : 0;

		guard->pc += moved;
		guard->label += moved;
		guard->semaphore += moved;
	}
}

struct probe_error *sdt_read(struct object *object, struct sdt_notes *ret)
{
	struct reader reader = {.object = object, .notes = ret};
	struct note_ranges list = {0};
	struct probe_error *error;

	*ret = (struct sdt_notes){0};
	object->guard_count = 0;
	if (object->section_table)
		error = note_ranges_of_sections(object, &list);
	else
		error = note_ranges_of_segments(object, &list);
	if (error)
		return error;
	read_ranges(&reader, &list);
	free(list.ranges);
	if (reader.no_memory) {
		sdt_notes_deinit(ret);
		return probe_error_no_memory();
	}
	if (ret->count) {
		correct_for_prelink(object, ret);
	} else {
		free(ret->storage);
		ret->storage = NULL;
	}
	ARRAY_SORT(object->guards, object->guard_count, pc);
	return NULL;
}

const struct sdt_guard *sdt_guards(const struct object *object, size_t *count_ret)
{
	*count_ret = object ? object->guard_count : 0;
	return object ? object->guards : NULL;
}

void sdt_notes_deinit(struct sdt_notes *notes)
{
	free(notes->notes);
	free(notes->defects);
	free(notes->storage);
	*notes = (struct sdt_notes){0};
}
