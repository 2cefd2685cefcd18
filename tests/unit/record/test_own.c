/* SPDX-License-Identifier: MIT */
/*
 * Our own decoder: every form of field in a stream of a ring's bytes, what is lost and damaged,
 * and what metadata is refused. tests/integration/record/own.sh compares with libbabeltrace2.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/record/record.h"
#include "probe/reader.h"
#include "tests/unit/record/read_back.h"
#include "tests/unit/record/ring_record.h"

enum {
	THREAD = -1,
	PAD = -2,
	FRAME = -3,
	NUMBERS = 0,
	ALL = 1,
	CPU = 3,
	PID = 777,
	HEADER = 80,
	PACKET = 512,
	ROOM = 1 << 16,
	TRUNCATED = 1 << 30
};
#define UNREADABLE (UINT32_C(1) << 31)

static char folder[64];

/* A stream that is being written. */
static struct {
	uint8_t bytes[ROOM];
	size_t packet, at; /* where the packet begins, and the next event */
	uint64_t sequence;
} stream;

static int folder_make(void **state)
{
	(void)state;
	memset(&stream, 0, sizeof(stream));
	strcpy(folder, "/tmp/probectl-own.XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
	static const char *const names[] = {"metadata", "stream_0_cpu3"};
	char path[128];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	return rmdir(folder);
}

/* ---- Writing ------------------------------------------------------------------------------- */

static void put(const void *bytes, size_t length)
{
	memcpy(stream.bytes + stream.at, bytes, length);
	stream.at += length;
}

static void put_u64(uint64_t value)
{
	put(&value, sizeof(value));
}

static void put_u32(uint32_t value)
{
	put(&value, sizeof(value));
}

static void packet_begin(void)
{
	stream.packet = stream.at;
	stream.at += HEADER;
}

static void packet_end(uint64_t discarded)
{
	static const uint8_t uuid[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	size_t content = stream.at - stream.packet;
	size_t size = (content + PACKET - 1) / PACKET * PACKET;

	stream.at = stream.packet;
	put_u32(0xc1fc1fc1);
	put(uuid, sizeof(uuid));
	put_u32(1);
	put_u64(3000);
	put_u64(9000);
	put_u64(8 * content);
	put_u64(8 * size);
	put_u64(stream.sequence++);
	put_u64(discarded);
	put_u32(CPU);
	put_u32(PID);
	stream.at = stream.packet + size;
}

static void event(uint64_t stamp, int id, uint32_t tid, bool child)
{
	stream.at = (stream.at + 3) / 4 * 4;
	put_u64(stamp);
	put_u32((uint32_t)id);
	put_u32(tid | (uint32_t)child << 31);
}

static void thread(uint32_t word_tid, bool child, int pid, int tid, const char *comm)
{
	event(3000, THREAD, word_tid, child);
	put_u32((uint32_t)pid);
	put_u32((uint32_t)tid);
	put(comm, strlen(comm) + 1);
}

static void numbers(uint64_t stamp, uint32_t tid, bool child)
{
	event(stamp, NUMBERS, tid, child);
	put_u32((uint32_t)-5);
	put_u64(UINT64_MAX);
	put("\xc8", 1);
}

/* The flags: bits of arg0, arg1, arg2, arg4, arg4_text, arg5. */
static void all(uint32_t string, const char *text, uint32_t guess, const char *guessed,
	uint32_t bytes, uint8_t readable)
{
	const float single = 1.5;
	const double real = 0.1;

	event(4000, ALL, PID, false);
	put_u32((uint32_t)-5);
	put_u32(string);
	put(&single, sizeof(single));
	put_u64(0x7fff1234);
	put_u32(guess);
	put_u32(bytes);
	put(&real, sizeof(real));
	put(&readable, 1);
	put(text, string & 0x3fffffff);
	put(guessed, guess & 0x3fffffff);
	put("\1\2\0\3", bytes & 0x3fffffff);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static struct probe_reader *open_written(void)
{
	struct probe_reader *reader;
	struct probe_error *error;

	put_file(folder, "metadata", ring_metadata, sizeof(ring_metadata) - 1);
	put_file(folder, "stream_0_cpu3", stream.bytes, stream.at);
	error = probe_reader_open(folder, &reader);
	if (error)
		fail_msg("%s", error->message);
	return reader;
}

static struct probe_event next(struct probe_reader *reader)
{
	struct probe_event event;
	bool there;

	assert_null(probe_reader_next(reader, &event, &there));
	assert_true(there);
	return event;
}

static void over(struct probe_reader *reader)
{
	struct probe_event event;
	bool there;

	assert_null(probe_reader_next(reader, &event, &there));
	assert_false(there);
	probe_reader_close(reader);
}

static void same_bytes(const struct probe_value *value, enum probe_value_kind kind,
	const char *bytes, size_t length, bool truncated)
{
	assert_int_equal(value->kind, kind);
	assert_int_equal(value->length, length);
	assert_memory_equal(value->bytes, bytes, length);
	assert_int_equal(value->truncated, truncated);
}

static void test_threads(void **state)
{
	struct probe_reader *reader;
	struct probe_event hit;
	uint64_t total, texts;

	(void)state;
	packet_begin();
	thread(5, true, 778, 779, "worker");
	event(3000, PAD, 0, false);
	put("\3\0\0\0\0", 5);
	numbers(3500, 5, true);
	numbers(3600, 5, false);
	thread(5, true, 778, 779, "renamed");
	numbers(3700, 5, true);
	thread(6, false, 778, 780, "");
	numbers(3800, 6, false);
	numbers(3900, 0, false);
	packet_end(0);
	reader = open_written();
	hit = next(reader);
	/* 3500 cycles of a third of a nanosecond, and 6000000003 - 2 s. */
	assert_int_equal(hit.time_ns, 1 + 1166);
	assert_string_equal(hit.provider, "p");
	assert_string_equal(hit.name, "numbers");
	assert_int_equal(hit.pid, 778);
	assert_int_equal(hit.tid, 779);
	assert_int_equal(hit.cpu, CPU);
	assert_string_equal(hit.comm, "worker");
	assert_int_equal(hit.arg_count, 3);
	assert_int_equal(hit.args[0].i, -5);
	assert_int_equal(hit.args[0].kind, PROBE_VALUE_SIGNED);
	assert_int_equal(hit.args[1].u, UINT64_MAX);
	assert_int_equal(hit.args[2].u, 200);
	assert_int_equal(hit.args[2].number, 3);
	texts = hit.texts;
	assert_true(texts != 0);
	hit = next(reader);
	assert_true(hit.texts == texts);
	assert_int_equal(hit.pid, PID);
	assert_int_equal(hit.tid, 5);
	assert_null(hit.comm);
	hit = next(reader);
	assert_string_equal(hit.comm, "renamed");
	assert_true(hit.texts != texts);
	hit = next(reader);
	assert_int_equal(hit.tid, 780);
	assert_null(hit.comm);
	assert_int_equal(next(reader).tid, PID);
	assert_int_equal(probe_reader_progress(reader, &total), PACKET);
	assert_int_equal(total, PACKET);
	over(reader);
}

/* Names of frames are strings up to a NUL, and always there. An event that has others is none. */
static void test_frames(void **state)
{
	static const char *const fields[] = {
		"uint64_t ip; string module; string symbol; uint64_t offset; uint64_t function;"
		" bit_t file_unreadable; string file; uint32_t line;",
		"uint64_t ip; string module; string symbol; uint64_t offset; uint64_t function;"
		" char_t file[16]; uint32_t line;",
	};
	static const char text[] = "0123456789abcdef";

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		char metadata[sizeof(ring_metadata) + 512];
		struct probe_reader *reader;

		memset(&stream, 0, sizeof(stream));
		packet_begin();
		event(3000, FRAME, 0, false);
		put_u64(0x1000);
		put("m\0s", 4);
		put_u64(1);
		put_u64(2);
		if (!i)
			put("\1", 1);
		put(text, i ? sizeof(text) - 1 : sizeof(text));
		put_u32(7);
		packet_end(0);
		snprintf(metadata, sizeof(metadata),
			"%sevent { name = \"probectl:frame\"; id = 4294967293; stream_id = 1; "
			"fields := struct { %s }; };\n",
			ring_metadata, fields[i]);
		put_file(folder, "metadata", metadata, strlen(metadata));
		put_file(folder, "stream_0_cpu3", stream.bytes, stream.at);
		assert_null(probe_reader_open(folder, &reader));
		over(reader);
	}
}

static void test_fields(void **state)
{
	struct probe_reader *reader;
	struct probe_event hit;

	(void)state;
	packet_begin();
	all(5 | TRUNCATED, "hello", 6 | TRUNCATED, "text!!", 4 | TRUNCATED, 0x3f);
	all(5 | TRUNCATED, "he\0lo", 6, "te\1xt!", UNREADABLE, 0x3f);
	all(UNREADABLE, "", 6 | TRUNCATED, "te\0xt!", 4, 0);
	all(0, "", 2 | UNREADABLE, "ab", 4, 0x3f);
	packet_end(0);
	reader = open_written();

	hit = next(reader);
	assert_int_equal(hit.arg_count, 7);
	assert_int_equal(hit.args[0].i, -5);
	same_bytes(&hit.args[1], PROBE_VALUE_STRING, "hello", 5, true);
	assert_true(hit.args[2].kind == PROBE_VALUE_FLOAT && hit.args[2].f == 1.5);
	assert_int_equal(hit.args[3].kind, PROBE_VALUE_NULL);
	same_bytes(&hit.args[4], PROBE_VALUE_TEXT, "text!!", 6, true);
	assert_int_equal(hit.args[4].u, 0x7fff1234);
	same_bytes(&hit.args[5], PROBE_VALUE_BYTES, "\1\2\0\3", 4, true);
	assert_true(hit.args[6].kind == PROBE_VALUE_FLOAT && hit.args[6].f == 0.1);
	assert_int_equal(hit.args[6].number, 2);

	hit = next(reader);
	same_bytes(&hit.args[1], PROBE_VALUE_STRING, "he", 2, false);
	same_bytes(&hit.args[4], PROBE_VALUE_UNSIGNED, "", 0, false);
	assert_int_equal(hit.args[4].u, 0x7fff1234);
	same_bytes(&hit.args[5], PROBE_VALUE_NULL, "", 0, false);

	hit = next(reader);
	assert_int_equal(hit.args[0].kind, PROBE_VALUE_NULL);
	same_bytes(&hit.args[1], PROBE_VALUE_NULL, "", 0, false);
	assert_int_equal(hit.args[2].kind, PROBE_VALUE_NULL);
	same_bytes(&hit.args[4], PROBE_VALUE_NULL, "", 0, false);
	same_bytes(&hit.args[5], PROBE_VALUE_NULL, "", 0, false);

	hit = next(reader);
	same_bytes(&hit.args[1], PROBE_VALUE_STRING, "", 0, false);
	same_bytes(&hit.args[4], PROBE_VALUE_UNSIGNED, "", 0, false);
	over(reader);
}

/* An event that is larger than a block, and one behind it. */
static void test_large(void **state)
{
	enum { LENGTH = 1 << 15 };
	static char text[LENGTH];
	struct probe_reader *reader;

	(void)state;
	memset(text, 'x', sizeof(text));
	packet_begin();
	all(LENGTH, text, 0, "", 0, 0x3f);
	numbers(5000, 5, false);
	packet_end(0);
	reader = open_written();
	same_bytes(&next(reader).args[1], PROBE_VALUE_STRING, text, LENGTH, false);
	assert_int_equal(next(reader).args[0].i, -5);
	over(reader);
}

static void test_losses(void **state)
{
	struct probe_reader *reader;
	struct probe_event event;

	(void)state;
	packet_begin();
	numbers(3500, 5, false);
	packet_end(2);
	stream.sequence += 3;
	packet_begin();
	numbers(3600, 5, false);
	packet_end(9);
	reader = open_written();
	assert_int_equal(next(reader).lost, 2);
	assert_int_equal(next(reader).kind, PROBE_EVENT_HIT);
	event = next(reader);
	assert_int_equal(event.kind, PROBE_EVENT_LOST);
	assert_int_equal(event.lost, 7);
	assert_int_equal(event.time_ns, 1 + 3000);
	assert_null(event.provider);
	assert_int_equal(next(reader).lost, 3);
	assert_int_equal(next(reader).kind, PROBE_EVENT_HIT);
	over(reader);
}

/* ---- Damage ------------------------------------------------------------------------------------
 */

/* Reads everything; the error at its end says `why`. */
static void check_damage(uint64_t hits, uint64_t lost, const char *why)
{
	struct probe_reader *reader = open_written();
	struct probe_error *error;
	struct probe_event event;
	bool there = true;

	while (!(error = probe_reader_next(reader, &event, &there)) && there) {
		hits -= event.kind == PROBE_EVENT_HIT;
		lost -= event.lost;
	}
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_FORMAT);
	if (!strstr(error->message, why))
		fail_msg("'%s' is not in: %s", why, error->message);
	probe_error_free(error);
	assert_int_equal(hits, 0);
	assert_int_equal(lost, 0);
	over(reader);
}

/* Three packets of two hits each. */
static void put_three(void)
{
	memset(&stream, 0, sizeof(stream));
	for (uint64_t i = 0; i < 3; i++) {
		packet_begin();
		numbers(3500 + 100 * i, 5, false);
		numbers(3550 + 100 * i, 5, false);
		packet_end(0);
	}
}

static void change_u32(size_t at, uint32_t value)
{
	memcpy(stream.bytes + at, &value, sizeof(value));
}

/* An event that makes no sense ends its packet, a packet that makes none ends its stream. */
static void test_damage(void **state)
{
	enum { EVENT = 16 + 16, CONTENT = 40, SIZE = 48 };

	(void)state;
	put_three();
	change_u32(PACKET + HEADER + EVENT + 8, 99);
	check_damage(5, 1, "stream_0_cpu3: an event is of a kind that is not described: 29 bytes");
	put_three();
	change_u32(PACKET + CONTENT, 8 * (HEADER + EVENT + 20));
	check_damage(5, 1, "an event is longer than its packet: 8 bytes");
	put_three();
	change_u32(PACKET + CONTENT, 8 * (HEADER + EVENT + 4));
	check_damage(5, 1, "an event is cut off: 4 bytes");
	put_three();
	change_u32(PACKET, 0);
	check_damage(2, 1, "no packet begins there: 1024 bytes of the record were not read");
	put_three();
	change_u32(PACKET + 4, 0);
	check_damage(2, 1, "a packet is of another record");
	put_three();
	change_u32(PACKET + 20, 7);
	check_damage(2, 1, "a packet is of a stream that is not described");
	put_three();
	change_u32(PACKET + SIZE, 0);
	check_damage(2, 1, "a packet's size makes no sense");
	put_three();
	change_u32(PACKET + SIZE + 4, UINT32_MAX);
	check_damage(2, 1, "the last packet is cut off");
	put_three();
	stream.at -= 100;
	check_damage(4, 1, "the last packet is cut off: 412 bytes");
	put_three();
	stream.at = 2 * PACKET + 10;
	check_damage(4, 1, "the last packet is cut off: 10 bytes");
}

/* A length that leads out of the packet, and one that would wrap around. */
static void test_lengths(void **state)
{
	static const uint32_t lengths[] = {100, 0x3fffffff};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		memset(&stream, 0, sizeof(stream));
		packet_begin();
		all(5, "hello", 0, "", 0, 0x3f);
		change_u32(HEADER + 16 + 4, lengths[i]);
		packet_end(0);
		check_damage(0, 1, "an event is longer than its packet");
	}
}

/* ---- Metadata
 * ------------------------------------------------------------------------------------ */

static void check_refused(const char *from, const char *to, const char *why)
{
	char text[sizeof(ring_metadata) + 512];
	const char *at = strstr(ring_metadata, from);
	struct probe_reader *reader;
	struct probe_error *error;

	assert_non_null(at);
	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - ring_metadata), ring_metadata, to,
		at + strlen(from));
	put_file(folder, "metadata", text, strlen(text));
	error = probe_reader_open(folder, &reader);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_FORMAT);
	if (!strstr(error->message, why) || !strstr(error->message, "made by probectl "))
		fail_msg("'%s' is not in: %s", why, error->message);
	probe_error_free(error);
}

/* What it does not understand of a record that probectl made is an error, with the line. */
static void test_refused(void **state)
{
	(void)state;
	check_refused("fields := struct { int32_t arg0; uint64_t",
		"fields := struct { variant arg0; x", "'variant' is no type that is understood");
	check_refused("freq = 3000000000", "freq = 0", "line 27: a clock has no frequency");
	check_refused("freq = 3000000000", "freq = 99999999999999999999", "a number is malformed");
	check_refused("freq", "speed", "a clock's 'speed' is not understood");
	check_refused("uint32_t cpu_id;", "uint32_t node;", "its field 'node' is not understood");
	check_refused("uint32_t cpu_id;", "", "its packets' context lacks something");
	check_refused("uint32_t id; };", "uint32_t id; string s; };", "its field 's'");
	check_refused(
		"size = 30; align = 8", "size = 65; align = 8", "an integer has not 1 to 64 bits");
	check_refused("size = 30; align = 8", "size = 30; align = 3", "an alignment is no power");
	check_refused("arg0; uint64_t arg1;", "arg0; uint64_t arg1[nothing];",
		"the length of 'arg1' is not understood");
	check_refused("id = 1; stream_id", "id = 0; stream_id", "two events have number 0");
	check_refused(
		"id = 1; stream_id = 1", "id = 1; stream_id = 9", "its stream is not described");
	check_refused("struct { } arg3",
		"struct { struct { struct { struct { struct { struct { struct "
		"{ struct { struct { } a; } a; } a; } a; } a; } a; } a; } a; } arg3",
		"types are nested too deeply");
	check_refused("struct { } arg3", "struct { bit_t a; } arg3", "structures in structures");
	check_refused("_unused;", "_unused", "there is no ;");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_threads, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_frames, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_fields, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_large, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_losses, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_damage, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_lengths, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_refused, folder_make, folder_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
