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

/* Code of larger files is not probed, because 32-bit jumps would not reach. */
#define LOAD_BYTES_MAX (UINT64_C(2) << 30)

/* Linux runs no program with more headers (load_elf_phdrs()); times that segments share bytes */
enum { HEADERS_BYTES_MAX = 64 << 10, SHARED_MAX = 8 };

static struct probe_error *object_bad(const struct object *object, const char *what)
{
	return probe_error_new(PROBE_ERROR_FORMAT, "%s: %s", object->path, what);
}

static struct probe_error *object_read_segments(struct object *object, const GElf_Ehdr *elf_header)
{
	size_t count = 0;

	if (!elf_header->e_phoff || !elf_header->e_phnum)
		return NULL;
	if (elf_getphdrnum(object->elf, &count))
		count = 0;
	if (count > HEADERS_BYTES_MAX / sizeof(Elf64_Phdr))
		return object_bad(object, "it has more program headers than Linux loads");
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;

		if (!gelf_getphdr(object->elf, (int)i, &header)) {
			count = 0;
			break;
		}
		if (header.p_type == PT_GNU_EH_FRAME) {
			object->eh_frame_hdr = header.p_vaddr;
			object->eh_frame_hdr_size = header.p_filesz;
		}
		if (header.p_type != PT_LOAD)
			continue;
		if (!ARRAY_ROOM(object->segments, object->segment_count))
			return probe_error_no_memory();
		object->segments[object->segment_count++] = (struct object_segment){
			.address = header.p_vaddr,
			.offset = header.p_offset,
			.file_size = header.p_filesz,
			.size = header.p_memsz,
			.readable = header.p_flags & PF_R,
			.writable = header.p_flags & PF_W,
			.executable = header.p_flags & PF_X,
		};
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
	if (error)
		object_close(object);
	else
		*ret = object;
	return error;
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

void object_close(struct object *object)
{
	if (!object)
		return;
	if (object->symbols)
		object->symbols_free(object->symbols);
	if (object->cfi)
		object->cfi_free(object->cfi);
	if (object->loaded)
		munmap(object->loaded, (size_t)object->file_size);
	elf_end(object->elf);
	if (object->owns_fd)
		close(object->fd);
	free(object->segments);
	free(object->guards);
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

uint64_t object_size(const struct object *object)
{
	return object->file_size;
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
 * size, but not many times: they are all searched.
 */
static bool segments_fit(const struct object *object)
{
	uint64_t total = 0, most = LOAD_BYTES_MAX;

	if (object->file_size < most / SHARED_MAX)
		most = SHARED_MAX * object->file_size;

	for (size_t i = 0; i < object->segment_count; i++) {
		struct object_range range = in_file(object, &object->segments[i]);

		if (range.end - range.start > most - total)
			return false;
		total += range.end - range.start;
	}
	return true;
}

struct probe_error *object_load(struct object *object, const uint8_t **ret, size_t *size_ret)
{
	uint8_t *memory = object->loaded;

	if (!memory) {
		if (object->file_size > SIZE_MAX || !segments_fit(object))
			return object_bad(object, "its segments are too large to be searched");
		/* Segments are at their file offsets; gaps take no memory. */
		memory = mmap(NULL, (size_t)object->file_size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory == MAP_FAILED)
			return probe_error_system(errno, "%s", object->path);
	}
	for (size_t i = 0; !object->loaded && i < object->segment_count; i++) {
		struct object_range range = in_file(object, &object->segments[i]);
		size_t size = (size_t)(range.end - range.start);

		if (object_read_file(object, range.start, memory + range.start, size) == size)
			continue;
		munmap(memory, (size_t)object->file_size);
		return object_bad(object, "it was truncated while it was read");
	}
	*ret = object->loaded = memory;
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
