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
#include "elf/notes.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"

/* Larger files' code is not probed: 32-bit jumps would not reach. */
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
	symbols_free(object->symbols);
	cfi_free(object->cfi);
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

/* Returns the part of a segment in the file, maybe empty: [offset, end). */
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

/* Do the segments fit into LOAD_BYTES_MAX? They may overlap, and so exceed the file's size. */
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
