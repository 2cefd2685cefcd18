/* SPDX-License-Identifier: MIT */
/* ELF files built byte by byte, of either class and byte order, for the tests of elf/. */
#ifndef TESTS_ELF_IMAGE_H
#define TESTS_ELF_IMAGE_H

#include <elf.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "elf/object.h"
#include "tests/unit/skip.h"

/* Where Debian has the libraries of this machine, and its JVM. */
#ifdef __aarch64__
#define MULTIARCH "aarch64-linux-gnu"
#define JVM_MACHINE "arm64"
#else
#define MULTIARCH "x86_64-linux-gnu"
#define JVM_MACHINE "amd64"
#endif

struct buffer {
	bool wide, big_endian;
	size_t size;
	uint8_t data[1 << 16];
};

static inline void put_bytes(struct buffer *buffer, const void *data, size_t size)
{
	assert_true(size <= sizeof(buffer->data) - buffer->size);
	memcpy(buffer->data + buffer->size, data, size);
	buffer->size += size;
}

static inline void put(struct buffer *buffer, uint64_t value, size_t width)
{
	for (size_t i = 0; i < width; i++) {
		size_t byte = buffer->big_endian ? width - 1 - i : i;

		put_bytes(buffer, &(uint8_t){(uint8_t)(value >> 8 * byte)}, 1);
	}
}

static inline void put_address(struct buffer *buffer, uint64_t value)
{
	put(buffer, value, buffer->wide ? 8 : 4);
}

static inline void put_align(struct buffer *buffer, size_t align)
{
	while (buffer->size % align)
		put(buffer, 0, 1);
}

enum { IMAGE_BASE = 0x10000 }; /* link-time address of the file's first byte */

/* A section; `at`, `claimed_*` are filled in or override what the header says. */
struct image_section {
	const char *name;
	uint32_t type;
	const struct buffer *content;
	uint64_t address;
	uint64_t align;
	uint64_t claimed_offset, claimed_size; /* 0: the true ones */
	uint64_t offset;		       /* filled in */
};

struct image {
	bool wide, big_endian;
	uint16_t type, machine;
	bool no_sections;		/* leave the section headers out */
	uint32_t segment_type;		/* of a second segment, over the first section; 0: none */
	uint64_t section_table;		/* claimed; 0: the true one */
	struct image_section *sections; /* without the null section and the names */
	size_t section_count;
	struct buffer file;
};

static inline void image_section_header(struct buffer *file, uint32_t name, uint32_t type,
	uint64_t address, uint64_t offset, uint64_t size, uint64_t align)
{
	put(file, name, 4);
	put(file, type, 4);
	put_address(file, 0);
	put_address(file, address);
	put_address(file, offset);
	put_address(file, size);
	put(file, 0, 8); /* link, info */
	put_address(file, align);
	put_address(file, 0);
}

static inline void image_segment(struct buffer *file, uint32_t type, uint64_t offset, uint64_t size)
{
	put(file, type, 4);
	if (file->wide)
		put(file, PF_R | PF_X, 4);
	put_address(file, offset);
	put_address(file, IMAGE_BASE + offset);
	put_address(file, IMAGE_BASE + offset);
	put_address(file, size);
	put_address(file, size);
	if (!file->wide)
		put(file, PF_R | PF_X, 4);
	put_address(file, 4);
}

static inline void image_header(struct image *image, uint64_t section_table, uint64_t end)
{
	struct buffer *file = &image->file;
	const uint8_t ident[EI_NIDENT] = {0x7f, 'E', 'L', 'F',
		image->wide ? ELFCLASS64 : ELFCLASS32,
		image->big_endian ? ELFDATA2MSB : ELFDATA2LSB, EV_CURRENT};
	size_t header = image->wide ? 64 : 52, segment = image->wide ? 56 : 32;

	*file = (struct buffer){.wide = image->wide, .big_endian = image->big_endian};
	put_bytes(file, ident, sizeof(ident));
	put(file, image->type, 2);
	put(file, image->machine, 2);
	put(file, EV_CURRENT, 4);
	put_address(file, 0);
	put_address(file, header);
	put_address(file, image->no_sections ? 0 : section_table);
	put(file, 0, 4);
	put(file, header, 2);
	put(file, segment, 2);
	put(file, image->segment_type ? 2 : 1, 2);
	put(file, image->wide ? 64 : 40, 2);
	put(file, image->no_sections ? 0 : image->section_count + 2, 2);
	put(file, image->no_sections ? 0 : image->section_count + 1, 2);
	image_segment(file, PT_LOAD, 0, end);
	if (image->segment_type)
		image_segment(file, image->segment_type, image->sections[0].offset,
			image->sections[0].content->size);
}

static inline void image_body(struct image *image)
{
	for (size_t i = 0; i < image->section_count; i++) {
		struct image_section *section = &image->sections[i];

		put_align(&image->file, 8);
		section->offset = image->file.size;
		put_bytes(&image->file, section->content->data, section->content->size);
	}
	put_align(&image->file, 8);
}

/* Lays the file out in image->file: headers, sections, their names, section headers. */
static inline void image_build(struct image *image)
{
	struct buffer *file = &image->file;
	uint64_t names, table;
	uint32_t name = 1;

	image_header(image, 0, 0);
	image_body(image); /* once for the offsets, and again behind the true header */
	names = file->size;
	put(file, 0, 1);
	for (size_t i = 0; i < image->section_count; i++)
		put_bytes(file, image->sections[i].name, strlen(image->sections[i].name) + 1);
	put_align(file, 8);
	table = file->size;
	image_header(image, image->section_table ? image->section_table : table, table);
	image_body(image);
	put(file, 0, 1);
	for (size_t i = 0; i < image->section_count; i++)
		put_bytes(file, image->sections[i].name, strlen(image->sections[i].name) + 1);
	put_align(file, 8);
	if (image->no_sections)
		return;
	image_section_header(file, 0, SHT_NULL, 0, 0, 0, 0);
	for (size_t i = 0; i < image->section_count; i++) {
		struct image_section *s = &image->sections[i];

		image_section_header(file, name, s->type, s->address,
			s->claimed_offset ? s->claimed_offset : s->offset,
			s->claimed_size ? s->claimed_size : s->content->size, s->align);
		name += (uint32_t)strlen(s->name) + 1;
	}
	image_section_header(file, 0, SHT_STRTAB, 0, names, table - names, 1);
}

/* Opens bytes as a file; the caller closes *fd_ret after the object. */
static inline struct probe_error *image_open_bytes(
	const void *data, size_t size, int *fd_ret, struct object **ret)
{
	*fd_ret = memfd_create("elf image", MFD_CLOEXEC);
	assert_true(*fd_ret >= 0);
	assert_int_equal(write(*fd_ret, data, size), size);
	return object_open_fd(*fd_ret, "image", ret);
}

/* Runs a shell command made like printf's; true if it succeeded. */
__attribute__((format(printf, 1, 2))) static inline bool run(const char *format, ...)
{
	char command[4096];
	va_list ap;
	int length;

	va_start(ap, format);
	length = vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	assert_true(length > 0 && (size_t)length < sizeof(command));
	return system(command) == 0;
}

/* Skips a test that links with a linker that is not installed. */
static inline void need_linker(const char *name)
{
	if (!run("command -v ld.%s >/dev/null", name))
		skip_because("%s is not installed", name);
}

/* Writes a file into a directory and returns its path in `path`. */
static inline void write_file(const char *dir, const char *name, const char *text, char path[256])
{
	FILE *file;

	snprintf(path, 256, "%s/%s", dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static inline void assert_no_error(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

/* The error must be there, of that code, and say `part`. */
static inline void assert_error(
	struct probe_error *error, enum probe_error_code code, const char *part)
{
	assert_non_null(error);
	assert_int_equal(error->code, code);
	if (!strstr(error->message, part))
		fail_msg("\"%s\" does not say \"%s\"", error->message, part);
	probe_error_free(error);
}

#endif
