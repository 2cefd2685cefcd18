/* SPDX-License-Identifier: MIT */
/*
 * Reads static probes from ELF files.
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

static void reader_note(struct reader *reader, const struct sdt_note *note)
{
	struct sdt_notes *notes = reader->notes;

	if (!ARRAY_ROOM(notes->notes, notes->count)) {
		reader->no_memory = true;
		return;
	}
	notes->notes[notes->count++] = *note;
}

enum sdt_kind sdt_kind_of(const char *provider)
{
	static const struct {
		const char *provider;
		enum sdt_kind kind;
	} kinds[] = {{"ocaml", SDT_OCAML_HANDLERS}, {"ocaml.1", SDT_OCAML}, {"ocaml_1", SDT_OCAML},
		{"ocaml_2", SDT_OCAML}};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(provider, kinds[i].provider) == 0)
			return kinds[i].kind;
	return SDT_NOP;
}

bool sdt_is_ocaml(enum sdt_kind kind)
{
	return kind == SDT_OCAML || kind == SDT_OCAML_HANDLERS;
}

bool sdt_is_entry(enum sdt_kind kind)
{
	return kind == SDT_ENTRY || kind == SDT_GATE;
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
	ret->kind = sdt_kind_of(ret->provider);
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

	if (!what)
		reader_note(reader, &probe);
	if (next < end) {
		if (!what)
			what = "the note overlaps the next one";
		bytes->at = next;
	}
	if (what)
		reader_defect(reader, probe.offset, what);
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
}

struct probe_error *sdt_read(struct object *object, struct sdt_notes *ret)
{
	struct reader reader = {.object = object, .notes = ret};
	struct note_ranges list = {0};
	struct probe_error *error;

	*ret = (struct sdt_notes){0};
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
	return NULL;
}

void sdt_notes_deinit(struct sdt_notes *notes)
{
	free(notes->notes);
	free(notes->defects);
	free(notes->storage);
	*notes = (struct sdt_notes){0};
}
