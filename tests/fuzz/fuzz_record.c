/* SPDX-License-Identifier: MIT */
/*
 * Our own records with any bytes in them: metadata and a stream, up to the last event.
 *
 * The first byte says what the rest is:
 *
 *	0	a stream of ring_metadata
 *	1	a stream of the record's first form, which is described here
 *	2	metadata, whose length is in 2 bytes, and a stream
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/value.h"
#include "libprobe/reader/reader.h"
#include "tests/fuzz/require.h"
#include "tests/unit/reader/ring_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char first_metadata[] =
	"typealias integer { size = 8; align = 8; } := uint8_t;\n"
	"typealias integer { size = 32; align = 8; } := uint32_t;\n"
	"typealias integer { size = 32; align = 8; signed = true; } := int32_t;\n"
	"typealias integer { size = 64; align = 8; } := uint64_t;\n"
	"trace { major = 1; minor = 8; byte_order = le;\n"
	"	packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; "
	"};\n"
	"};\n"
	"env { tracer_name = \"probectl\"; };\n"
	"clock { name = \"realtime\"; offset_s = 1; };\n"
	"typealias integer { size = 64; align = 8; map = clock.realtime.value; } := time_t;\n"
	"stream { id = 0;\n"
	"	packet.context := struct { time_t timestamp_begin; time_t timestamp_end;\n"
	"		uint64_t content_size; uint64_t packet_size; uint64_t packet_seq_num;\n"
	"		uint64_t events_discarded; uint32_t cpu_id; };\n"
	"	event.header := struct { uint32_t id; time_t timestamp; };\n"
	"	event.context := struct { int32_t pid; int32_t tid; string comm;\n"
	"		enum : uint8_t { whole = 0, truncated = 1, unknown = 2 } callstack_end;\n"
	"		uint32_t __callstack_user_length;\n"
	"		uint64_t _callstack_user[__callstack_user_length]; };\n"
	"};\n"
	"event { name = \"probectl:frame\"; id = 4294967295; stream_id = 0;\n"
	"	fields := struct { uint64_t ip; string module; string symbol; uint64_t offset;\n"
	"		uint64_t function; string file; uint32_t line; };\n"
	"};\n"
	"event { name = \"p:n\"; id = 0; stream_id = 0;\n"
	"	fields := struct { uint64_t arg0; string arg0_text; uint8_t arg0_truncated;\n"
	"		enum : uint8_t { unreadable = 0 } arg1; string arg2;\n"
	"		uint32_t arg3_length; uint8_t arg3[arg3_length]; };\n"
	"};\n";

enum { STREAM, METADATA, FILES };
static const char *const names[FILES] = {[STREAM] = "stream", [METADATA] = "metadata"};

/* The record, in a folder in memory if there is one. */
struct record {
	char path[64];
	int files[FILES];
};

static struct record record;

static void record_remove(void)
{
	char path[128];

	for (size_t i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", record.path, names[i]);
		unlink(path);
	}
	rmdir(record.path);
}

static void record_make(void)
{
	char path[128];

	strcpy(record.path, access("/dev/shm", W_OK) == 0 ? "/dev/shm/fuzz-record.XXXXXX"
							  : "/tmp/fuzz-record.XXXXXX");
	require(mkdtemp(record.path) != NULL, "no folder");
	atexit(record_remove);
	for (size_t i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", record.path, names[i]);
		record.files[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		require(record.files[i] >= 0, "no file");
	}
}

static void put(size_t file, const void *bytes, size_t size)
{
	require(pwrite(record.files[file], bytes, size, 0) == (ssize_t)size &&
			ftruncate(record.files[file], (off_t)size) == 0,
		"no room");
}

/* Everything that an event points to can be read. */
static void check(const struct probe_event *event)
{
	size_t sum = event->comm ? strlen(event->comm) : 0;

	require(event->kind == PROBE_EVENT_LOST || (event->provider && event->name), "no names");
	for (size_t i = 0; i < event->arg_count; i++)
		for (size_t k = 0; value_has_bytes(&event->args[i]) && k < event->args[i].length;
			k++)
			sum += (unsigned char)event->args[i].bytes[k];
	for (size_t i = 0; event->stack && i < event->stack->count; i++) {
		const struct probe_frame *frame = event->stack->frames[i];

		sum += (frame->module ? strlen(frame->module) : 0) +
		       (frame->symbol ? strlen(frame->symbol) : 0) +
		       (frame->file ? strlen(frame->file) : 0);
	}
	require(sum != SIZE_MAX, "a sum of bytes");
}

static void read_all(void *source, size_t size)
{
	struct probe_error *error = NULL;
	struct probe_event event;
	size_t events = 0;
	bool there = true;

	while (!error && there) {
		error = reader_own.next(source, &event, &there);
		if (error || !there)
			break;
		check(&event);
		/* A header has a time and an id; a packet makes three losses at most. */
		require(++events <= size, "more events than bytes");
	}
	require(!error || error->code == PROBE_ERROR_FORMAT, "another error than that of a format");
	probe_error_free(error);
	require(!reader_own.next(source, &event, &there) && !there, "something after the end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *metadata = ring_metadata;
	char *const records[] = {record.path};
	struct reader_folder folder = {
		.path = record.path, .records = (char **)records, .count = 1, .parts = true};
	size_t length = sizeof(ring_metadata) - 1;
	struct probe_error *error;
	void *source;

	if (!size)
		return 0;
	if (!record.path[0])
		record_make();
	if (data[0] == 1) {
		metadata = first_metadata;
		length = sizeof(first_metadata) - 1;
	} else if (data[0] >= 2) {
		if (size < 3)
			return 0;
		length = (size_t)data[1] | (size_t)data[2] << 8;
		data += 2;
		size -= 2;
		length = length < size - 1 ? length : size - 1;
		metadata = (const char *)data + 1;
	}
	put(METADATA, metadata, length);
	if (metadata == (const char *)data + 1) {
		data += length;
		size -= length;
	}
	put(STREAM, data + 1, size - 1);
	error = reader_own_open(&folder, &source);
	if (!error) {
		read_all(source, size);
		reader_own.close(source);
	}
	require(!error || error->code == PROBE_ERROR_FORMAT, "another error than that of a format");
	probe_error_free(error);
	return 0;
}
