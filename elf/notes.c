/* SPDX-License-Identifier: MIT */
/*
 * A note is three words (size of the name, size of the descriptor, type), the name, padding,
 * the descriptor, padding.
 *
 * The gABI asks for padding to 8 bytes in 64-bit files. In practice everything pads to 4,
 * except sections with an alignment of 8 (.note.gnu.property): binutils and elfutils use the
 * section's alignment, and so does this file. Static probes are an exception: <sys/sdt.h> and
 * similar headers write `.balign 4` between the parts, so that is their layout wherever a
 * linker script puts them.
 */
#include <elf.h>
#include <inttypes.h>
#include <string.h>

#include "elf/notes.h"
#include "libprobe/base/array.h"

enum { NOTE_HEADER_BYTES = 12, NT_STAPSDT = 3 };

static bool note_ranges_add(struct note_ranges *list, const struct note_range *range)
{
	if (!ARRAY_ROOM(list->ranges, list->count))
		return false;
	list->ranges[list->count++] = *range;
	return true;
}

static struct probe_error *note_ranges_no_memory(struct note_ranges *list)
{
	free(list->ranges);
	*list = (struct note_ranges){0};
	return probe_error_no_memory();
}

struct probe_error *note_ranges_of_sections(const struct object *object, struct note_ranges *ret)
{
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
		if (!note_ranges_add(ret, &(struct note_range){.offset = header.sh_offset,
						  .size = header.sh_size,
						  .align = header.sh_addralign,
						  .compressed = header.sh_flags & SHF_COMPRESSED}))
			return note_ranges_no_memory(ret);
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

struct probe_error *note_ranges_of_segments(const struct object *object, struct note_ranges *ret)
{
	size_t count = 0;

	*ret = (struct note_ranges){0};
	elf_getphdrnum(object->elf, &count);
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;

		if (!gelf_getphdr(object->elf, (int)i, &header))
			break;
		if (header.p_type != PT_NOTE || !header.p_filesz)
			continue;
		if (!note_ranges_add(ret, &(struct note_range){.offset = header.p_offset,
						  .size = header.p_filesz,
						  .align = header.p_align}))
			return note_ranges_no_memory(ret);
	}
	return NULL;
}

bool note_is_stapsdt(const struct note *note)
{
	/* The gABI counts the NUL in the size; some writers do not. */
	return note->type == NT_STAPSDT && (note->name_size == 8 || note->name_size == 7) &&
	       !memcmp(note->name, "stapsdt", note->name_size);
}

static size_t align_up(size_t value, size_t align)
{
	return (value + align - 1) & ~(align - 1);
}

enum note_status note_next(struct bytes *bytes, uint64_t section_align, struct note *ret)
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
	/* The sums below stay under 2^34, because the fields have 32 bits. */
	if (NOTE_HEADER_BYTES + name_size > left)
		return NOTE_TOO_LARGE;
	if (note_is_stapsdt(ret))
		align = 4;
	desc_at = align_up(NOTE_HEADER_BYTES + (size_t)name_size, align);
	if (desc_at + desc_size > left && desc_size)
		return NOTE_TOO_LARGE;
	/* The last note may lack its padding. */
	desc_at = desc_at > left ? left : desc_at;
	ret->desc = bytes->data + start + desc_at;
	ret->desc_size = (size_t)desc_size;
	desc_at = align_up((size_t)(desc_at + desc_size), align);
	bytes->at = start + (size_t)(desc_at > left ? left : desc_at);
	return NOTE_OK;
}
