/* SPDX-License-Identifier: MIT */
/*
 * Files that may be a flight recorder's, or core files that have one, with any bytes in them;
 * from the file to the formatted line.
 *
 * The first byte says what the rest is:
 *
 *	0	a file as it is
 *	1	notes (libprobe/session/session.h) and the bytes of a ring: their lengths, 2 bytes
 *		each, then both; they are put where a recorder of one CPU has them
 *	2	the same, as a segment of a core file
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libprobe/session/session.h"
#include "probe/sink.h"
#include "tests/fuzz/require.h"

enum {
	PAGE = 4096,
	RINGS_SHIFT = 17,
	NOTES_AT = PAGE + (2 << RINGS_SHIFT),
	NOTES_ROOM = 1 << 16,
	DATA_BYTES = NOTES_AT + NOTES_ROOM
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(int fd, const void *bytes, size_t size, off_t at)
{
	require(pwrite(fd, bytes, size, at) == (ssize_t)size, "no memory");
}

/* A core file's headers; its only segment is a page further on. */
static void put_core(int fd)
{
	const Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					   ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_CORE,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1};
	const Elf64_Phdr segment = {
		.p_type = PT_LOAD, .p_offset = PAGE, .p_filesz = DATA_BYTES, .p_memsz = DATA_BYTES};

	put(fd, &header, sizeof(header), 0);
	put(fd, &segment, sizeof(segment), sizeof(header));
}

static void put_recorder(int fd, off_t start, const uint8_t *data, size_t size)
{
	const struct data_header header = {.magic = DATA_MAGIC, .session = 1};
	struct data_notes place = {.offset = NOTES_AT};
	uint16_t lengths[2];

	require(ftruncate(fd, start + DATA_BYTES) == 0, "no memory");
	if (size < sizeof(lengths))
		return;
	memcpy(lengths, data, sizeof(lengths));
	data += sizeof(lengths);
	size -= sizeof(lengths);
	place.bytes = lengths[0] < size ? lengths[0] : size;
	put(fd, &header, sizeof(header), start);
	put(fd, &place, sizeof(place), start + DATA_NOTES_OFFSET);
	put(fd, data, place.bytes, start + NOTES_AT);
	data += place.bytes;
	size -= place.bytes;
	put(fd, data, lengths[1] < size ? lengths[1] : size, start + PAGE);
}

static int make_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("remains", MFD_CLOEXEC);

	require(fd >= 0, "no memory");
	if (data[0] == 0) {
		put(fd, data + 1, size - 1, 0);
	} else if (data[0] == 1) {
		put_recorder(fd, 0, data + 1, size - 1);
	} else {
		put_core(fd);
		put_recorder(fd, PAGE, data + 1, size - 1);
	}
	return fd;
}

struct reading {
	struct probe_sink *sinks[2];
	const struct probe_session_probe *probes;
	size_t probe_count, hits;
};

static bool visit(const struct probe_hit *hit, void *data)
{
	struct reading *reading = data;

	require(hit->probe < reading->probe_count, "a hit of no probe");
	for (size_t i = 0; i < 2; i++) {
		probe_sink_hit(reading->sinks[i], hit, &reading->probes[hit->probe], NULL);
		if (probe_sink_full(reading->sinks[i]))
			probe_error_free(probe_sink_flush(reading->sinks[i]));
	}
	return ++reading->hits < 10000;
}

static void read_all(const struct probe_remains *remains, struct reading *reading)
{
	struct probe_session *session;

	for (size_t i = 0; (session = probe_remains_session(remains, i)); i++) {
		reading->probes = probe_session_probes(session, &reading->probe_count);
		for (size_t k = 0; k < reading->probe_count; k++)
			require(strlen(reading->probes[k].provider) +
						strlen(reading->probes[k].name) +
						strlen(reading->probes[k].path) <
					NOTES_BYTES_MAX,
				"names without an end");
		probe_error_free(probe_session_snapshot(session, visit, reading));
	}
	for (size_t i = 0; probe_remains_damage(remains, i); i++)
		require(*probe_remains_damage(remains, i), "a damage without a reason");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct reading reading;
	struct probe_remains *remains;
	struct probe_error *error;

	if (!reading.sinks[0]) {
		int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

		require(!probe_sink_create(PROBE_SINK_TEXT, fd, "nowhere", &reading.sinks[0]) &&
				!probe_sink_create(
					PROBE_SINK_JSON, fd, "nowhere", &reading.sinks[1]),
			"no sinks");
	}
	if (!size)
		return 0;
	reading.hits = 0;
	error = remains_of(make_file(data, size), "fuzz", &remains);
	if (!error) {
		read_all(remains, &reading);
		probe_remains_close(remains);
	}
	probe_error_free(error);
	return 0;
}
