/* SPDX-License-Identifier: MIT */
/*
 * Reads an ELF file, and as little of it as possible.
 *
 * libelf decodes headers and symbol tables in both classes and byte orders, with extended
 * numbering, and reads from the descriptor (ELF_C_READ): the ELF and program headers at once,
 * section headers on demand. Nothing is mapped: truncating a mapped file would kill us with SIGBUS,
 * and for a few bytes of a big library pread(2) is faster. object_load(), for searches of a whole
 * text, copies the segments.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/internal.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"

/* Code of larger files is not probed, because 32-bit jumps would not reach. */
#define LOAD_BYTES_MAX (UINT64_C(2) << 30)

static struct probe_error *object_bad(const struct object *object, const char *what)
{
	return probe_error_new(PROBE_ERROR_FORMAT, "%s: %s", object->path, what);
}

static bool object_add_segment(struct object *object, const GElf_Phdr *header)
{
	if (!ARRAY_ROOM(object->segments, object->segment_count))
		return false;
	object->segments[object->segment_count++] = (struct object_segment){
		.address = header->p_vaddr,
		.offset = header->p_offset,
		.file_size = header->p_filesz,
		.size = header->p_memsz,
		.readable = header->p_flags & PF_R,
		.writable = header->p_flags & PF_W,
		.executable = header->p_flags & PF_X,
	};
	return true;
}

static struct probe_error *object_read_segments(struct object *object, const GElf_Ehdr *elf_header)
{
	size_t count = 0;

	if (!elf_header->e_phoff || !elf_header->e_phnum)
		return NULL;
	if (elf_getphdrnum(object->elf, &count))
		count = 0;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;

		if (!gelf_getphdr(object->elf, (int)i, &header)) {
			count = 0;
			break;
		}
		if (header.p_type == PT_LOAD && !object_add_segment(object, &header))
			return probe_error_no_memory();
		if (header.p_type == PT_GNU_EH_FRAME) {
			object->eh_frame_hdr = header.p_vaddr;
			object->eh_frame_hdr_size = header.p_filesz;
		}
	}
	if (count)
		return NULL;
	return probe_error_new(PROBE_ERROR_FORMAT,
		"%s: the program headers at offset 0x%" PRIx64 " cannot be read: %s", object->path,
		(uint64_t)elf_header->e_phoff, elf_errmsg(-1));
}

static struct probe_error *object_read_headers(struct object *object)
{
	char magic[SELFMAG];
	GElf_Ehdr header;
	struct stat st;

	/*
	 * Most files of a directory are scripts and data, which libelf would read three times each.
	 */
	if (pread(object->fd, magic, SELFMAG, 0) != SELFMAG || memcmp(magic, ELFMAG, SELFMAG))
		return object_bad(object, "not an ELF file");
	if (fstat(object->fd, &st))
		return probe_error_system(errno, "%s", object->path);
	if (!S_ISREG(st.st_mode))
		return object_bad(object, "not a regular file");
	object->file_size = (uint64_t)st.st_size;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED, "libelf is too old");
	object->elf = elf_begin(object->fd, ELF_C_READ, NULL);
	if (!object->elf || elf_kind(object->elf) != ELF_K_ELF ||
		!gelf_getehdr(object->elf, &header))
		return object_bad(object, "not an ELF file");
	object->machine = header.e_machine;
	object->type = header.e_type;
	object->wide = header.e_ident[EI_CLASS] == ELFCLASS64;
	object->big_endian = header.e_ident[EI_DATA] == ELFDATA2MSB;
	object->section_table = header.e_shoff;
	object->program_headers.start = header.e_phoff;
	object->program_headers.end =
		header.e_phoff + (uint64_t)header.e_phnum * header.e_phentsize;
	return object_read_segments(object, &header);
}

static struct probe_error *object_create(
	int fd, bool owns_fd, const char *path, struct object **ret)
{
	struct object *object = calloc(1, sizeof(*object));
	struct probe_error *error;

	if (object) {
		*object = (struct object){.fd = fd, .owns_fd = owns_fd, .path = strdup(path)};
		error = object->path ? object_read_headers(object) : probe_error_no_memory();
	} else {
		error = probe_error_no_memory();
		if (owns_fd)
			close(fd);
	}
	if (error) {
		object_close(object);
		return error;
	}
	*ret = object;
	return NULL;
}

struct probe_error *object_open_fd(int fd, const char *path, struct object **ret)
{
	return object_create(fd, false, path, ret);
}

struct probe_error *object_open(const char *path, struct object **ret)
{
	/* O_NONBLOCK: do not wait for the writer of a FIFO. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return probe_error_system(errno, "%s", path);
	return object_create(fd, true, path, ret);
}

static void object_unload(struct object *object)
{
	if (object->loaded)
		munmap(object->loaded, (size_t)object->file_size);
	object->loaded = NULL;
}

void object_close(struct object *object)
{
	if (!object)
		return;
	if (object->symbols)
		object->symbols_free(object->symbols);
	if (object->cfi)
		object->cfi_free(object->cfi);
	object_unload(object);
	elf_end(object->elf);
	if (object->owns_fd)
		close(object->fd);
	free(object->segments);
	free(object->build_id);
	free(object->path);
	free(object);
}

const char *object_path(const struct object *object)
{
	return object->path;
}

uint16_t object_machine(const struct object *object)
{
	return object->machine;
}

uint16_t object_type(const struct object *object)
{
	return object->type;
}

bool object_is_64bit(const struct object *object)
{
	return object->wide;
}

const struct object_segment *object_segments(const struct object *object, size_t *count_ret)
{
	*count_ret = object->segment_count;
	return object->segments;
}

struct object_range object_program_headers(const struct object *object)
{
	return object->program_headers;
}

struct object_range object_function_table(const struct object *object)
{
	return (struct object_range){
		object->eh_frame_hdr, object->eh_frame_hdr + object->eh_frame_hdr_size};
}

const struct object_segment *object_segment_of(const struct object *object, uint64_t address)
{
	for (size_t i = 0; i < object->segment_count; i++) {
		const struct object_segment *segment = &object->segments[i];

		if (address >= segment->address && address - segment->address < segment->file_size)
			return segment;
	}
	return NULL;
}

bool object_offset_of(const struct object *object, uint64_t address, uint64_t *ret)
{
	const struct object_segment *segment = object_segment_of(object, address);
	uint64_t offset;

	if (!segment)
		return false;
	if (__builtin_add_overflow(address - segment->address, segment->offset, &offset) ||
		offset >= object->file_size)
		return false;
	*ret = offset;
	return true;
}

size_t object_read_file(const struct object *object, uint64_t offset, void *buffer, size_t size)
{
	size_t done = 0;

	if (offset >= object->file_size)
		return 0;
	if (size > object->file_size - offset)
		size = (size_t)(object->file_size - offset);
	while (done < size) {
		ssize_t got = pread(
			object->fd, (char *)buffer + done, size - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

size_t object_read(const struct object *object, uint64_t address, void *buffer, size_t size)
{
	const struct object_segment *segment = object_segment_of(object, address);
	uint64_t offset, left;

	if (!segment || !object_offset_of(object, address, &offset))
		return 0;
	left = segment->file_size - (address - segment->address);
	return object_read_file(object, offset, buffer, size < left ? size : (size_t)left);
}

/* Returns the part of a segment that is in the file, which may be empty: [offset, end). */
static struct object_range in_file(
	const struct object *object, const struct object_segment *segment)
{
	struct object_range range = {segment->offset, object->file_size};

	if (range.start >= range.end)
		return (struct object_range){0};
	if (segment->file_size < range.end - range.start)
		range.end = range.start + segment->file_size;
	return range;
}

/*
 * Returns true if the segments fit into LOAD_BYTES_MAX. They may overlap, and so exceed the file's
 * size.
 */
static bool segments_fit(const struct object *object)
{
	uint64_t total = 0;

	for (size_t i = 0; i < object->segment_count; i++) {
		struct object_range range = in_file(object, &object->segments[i]);

		if (range.end - range.start > LOAD_BYTES_MAX - total)
			return false;
		total += range.end - range.start;
	}
	return true;
}

static struct probe_error *load_segments(const struct object *object, uint8_t *memory)
{
	for (size_t i = 0; i < object->segment_count; i++) {
		struct object_range range = in_file(object, &object->segments[i]);
		size_t size = (size_t)(range.end - range.start);

		if (object_read_file(object, range.start, memory + range.start, size) != size)
			return object_bad(object, "it was truncated while it was read");
	}
	return NULL;
}

struct probe_error *object_load(struct object *object, const uint8_t **ret, size_t *size_ret)
{
	struct probe_error *error = NULL;

	if (!object->loaded) {
		void *memory;

		if (object->file_size > SIZE_MAX || !segments_fit(object))
			return object_bad(object, "its segments are too large to be searched");
		/* Segments are at their file offsets; gaps take no memory. */
		memory = mmap(NULL, (size_t)object->file_size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory == MAP_FAILED)
			return probe_error_system(errno, "%s", object->path);
		object->loaded = memory;
		error = load_segments(object, memory);
	}
	if (error) {
		object_unload(object);
		return error;
	}
	*ret = object->loaded;
	*size_ret = (size_t)object->file_size;
	return NULL;
}

struct bytes object_bytes(
	const struct object *object, const void *data, size_t size, uint64_t address)
{
	return (struct bytes){.data = data,
		.size = size,
		.address = address,
		.big_endian = object->big_endian,
		.wide = object->wide};
}

/* ---- Bytes ------------------------------------------------------------------------- */

static bool bytes_take(struct bytes *bytes, size_t count)
{
	if (bytes->failed || count > bytes_left(bytes)) {
		bytes->failed = true;
		return false;
	}
	bytes->at += count;
	return true;
}

uint64_t bytes_unsigned(struct bytes *bytes, size_t width)
{
	const uint8_t *from = bytes->data + bytes->at;
	uint64_t value = 0;

	if (!bytes_take(bytes, width))
		return 0;
	for (size_t i = 0; i < width; i++)
		value = value << 8 | from[bytes->big_endian ? i : width - 1 - i];
	return value;
}

uint64_t bytes_address(struct bytes *bytes)
{
	return bytes_unsigned(bytes, bytes->wide ? 8 : 4);
}

const char *bytes_string(struct bytes *bytes)
{
	const uint8_t *start = bytes->data + bytes->at;
	const uint8_t *end = NULL;

	if (!bytes->failed && bytes_left(bytes))
		end = memchr(start, 0, bytes_left(bytes));
	if (!end) {
		bytes->failed = true;
		return NULL;
	}
	bytes->at += (size_t)(end - start) + 1;
	return (const char *)start;
}

void bytes_skip(struct bytes *bytes, uint64_t count)
{
	if (count > bytes_left(bytes))
		bytes->failed = true;
	else
		bytes_take(bytes, (size_t)count);
}

/* ---- Sections ---------------------------------------------------------------------- */

bool object_section(const struct object *object, const char *name, GElf_Shdr *ret)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (!object->section_table || elf_getshdrstrndx(object->elf, &names))
		return false;
	while ((section = elf_nextscn(object->elf, section))) {
		const char *found;

		if (!gelf_getshdr(section, ret))
			return false;
		found = elf_strptr(object->elf, names, ret->sh_name);
		if (found && !strcmp(found, name))
			return true;
	}
	return false;
}

/* ---- Notes ------------------------------------------------------------------------ */

/*
 * A note is three words (size of the name, size of the descriptor, type), the name, padding, the
 * descriptor, padding.
 *
 * The gABI asks for padding to 8 bytes in 64-bit files, but in practice it is to 4, except in
 * sections aligned to 8 (.note.gnu.property). Like Binutils and elfutils we use the section's
 * alignment, except for static probes: <sys/sdt.h> and similar headers write `.balign 4`, whatever
 * section a linker script puts them into.
 */

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
	/* A name's size includes its NUL in the gABI, but not for some writers. */
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

static char *hexadecimal(const uint8_t *bytes, size_t count)
{
	char *text = malloc(count * 2 + 1);

	if (!text)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
		text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
	}
	text[2 * count] = '\0';
	return text;
}

static char *build_id_in(const struct object *object, const struct note_range *range)
{
	size_t size = range->size < BUILD_ID_NOTES_MAX ? (size_t)range->size : BUILD_ID_NOTES_MAX;
	AUTO_FREE uint8_t *data = malloc(size);
	struct bytes bytes;
	struct note note;

	if (!data || range->compressed)
		return NULL;
	bytes = object_bytes(object, data, object_read_file(object, range->offset, data, size), 0);
	while (note_next(&bytes, range->align, &note) == NOTE_OK) {
		if (note.type == NT_GNU_BUILD_ID && note.name_size == 4 &&
			!memcmp(note.name, "GNU", 4) && note.desc_size &&
			note.desc_size <= BUILD_ID_BYTES_MAX)
			return hexadecimal(note.desc, note.desc_size);
	}
	return NULL;
}

/* Returns the build id in these notes, or NULL. Frees the ranges. */
static char *build_id_among(const struct object *object, struct note_ranges *list)
{
	char *found = NULL;

	for (size_t i = 0; i < list->count && !found; i++)
		found = build_id_in(object, &list->ranges[i]);
	free(list->ranges);
	return found;
}

const char *object_build_id(struct object *object)
{
	struct note_ranges list = {0};

	if (object->build_id)
		return object->build_id;
	/* Relocatable objects (ET_REL) have no segments. */
	probe_error_free(note_ranges_of_segments(object, &list));
	object->build_id = build_id_among(object, &list);
	if (!object->build_id) {
		probe_error_free(note_ranges_of_sections(object, &list));
		object->build_id = build_id_among(object, &list);
	}
	if (!object->build_id)
		object->build_id = calloc(1, 1);
	return object->build_id ? object->build_id : "";
}
