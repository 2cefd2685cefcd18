/* SPDX-License-Identifier: MIT */
/*
 * Reading records: what the writer wrote comes back, and damage leads to an error at most. With
 * another name in the metadata, they are another tool's, which are refused.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/session/session.h"
#include "probe/ctf.h"
#include "probe/reader.h"
#include "tests/unit/record/read_back.h"

enum { PC = 0x1000, ARGS = 9, CPU = 3 };

static struct probe_session_probe probe = {.provider = "p", .name = "n:m", .path = "/bin/p"};
static struct session_site site = {.pc = PC,
	.layout = {.arg_count = ARGS,
		.args = {{.size = 1, .is_signed = true}, {.size = 8}, {.size = 4, .is_float = true},
			{.size = 8, .is_float = true}, {.size = 8, .number = 5},
			{.size = 8, .number = 5}, {.size = 8, .number = 6},
			{.size = 8, .number = 30}, {.size = 2, .number = 31}}}};
static const struct probe_session session = {
	.probes = &probe, .probe_count = 1, .sites = &site, .site_count = 1};

static const struct probe_value values[ARGS] = {
	{.kind = PROBE_VALUE_SIGNED, .i = -2},
	{.kind = PROBE_VALUE_UNSIGNED, .u = UINT64_MAX},
	{.kind = PROBE_VALUE_FLOAT, .f = 0.5},
	{.kind = PROBE_VALUE_FLOAT, .f = 0.1},
	{.kind = PROBE_VALUE_NULL},
	{.kind = PROBE_VALUE_STRING, .bytes = "text", .length = 4, .truncated = true},
	{.kind = PROBE_VALUE_TEXT, .u = 77, .bytes = "behind", .length = 6},
	{.kind = PROBE_VALUE_BYTES, .bytes = "\0\xff", .length = 2, .truncated = true},
	{.kind = PROBE_VALUE_UNSIGNED, .u = 65535},
};

static uint64_t base_ns;
static char folder[64];

static int folder_make(void **state)
{
	(void)state;
	base_ns = (uint64_t)(time(NULL) + 10) * 1000000000;
	strcpy(folder, "/tmp/probectl-reader.XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static void remove_all(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	char name[512];

	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (entry->d_name[0] != '.' && unlink(name) != 0)
			remove_all(name);
	}
	closedir(directory);
	assert_int_equal(rmdir(path), 0);
}

static int folder_remove(void **state)
{
	(void)state;
	remove_all(folder);
	return 0;
}

static struct probe_ctf *writer(const char *path, uint64_t rotate_bytes)
{
	const struct probe_ctf_options options = {.rotate_bytes = rotate_bytes};
	struct probe_ctf *ctf;

	assert_null(probe_ctf_create(path, &options, &ctf));
	return ctf;
}

static void write_hit(struct probe_ctf *ctf, uint64_t n, const char *comm)
{
	const struct probe_hit hit = {.time_ns = base_ns + n,
		.pid = 11,
		.tid = (pid_t)(12 + n),
		.cpu = CPU,
		.pc = PC,
		.args = values,
		.arg_count = ARGS};

	assert_null(probe_ctf_hit(ctf, &session, &hit, comm));
}

/* Makes a record another tool's. */
static void disguise(const char *path)
{
	static const char name[] = "tracer_name = \"probectl\"",
			  other[] = "tracer_name = \"somebody\"";
	char file[128], text[1 << 14], *at;
	ssize_t length;
	int fd;

	snprintf(file, sizeof(file), "%s/metadata", path);
	fd = open(file, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	length = read(fd, text, sizeof(text));
	assert_true(length > 0);
	at = memmem(text, (size_t)length, name, strlen(name));
	assert_non_null(at);
	assert_int_equal(pwrite(fd, other, strlen(other), at - text), strlen(other));
	close(fd);
}

/* Ends the writing of a record. */
static void finish_record(struct probe_ctf *ctf)
{
	assert_null(probe_ctf_flush(ctf));
	probe_ctf_free(ctf);
}

static void check_hit(const struct probe_event *event, uint64_t n)
{
	assert_int_equal(event->kind, PROBE_EVENT_HIT);
	assert_int_equal(event->time_ns, base_ns + n);
	assert_int_equal(event->pid, 11);
	assert_int_equal(event->tid, 12 + n);
	assert_int_equal(event->cpu, CPU);
	assert_string_equal(event->provider, "p");
	assert_string_equal(event->name, "n:m");
	assert_int_equal(event->arg_count, ARGS);
	for (size_t i = 0; i < ARGS; i++) {
		check_value(&event->args[i], &values[i]);
		assert_int_equal(event->args[i].number, site.layout.args[i].number + 1);
	}
	assert_ptr_equal(probe_event_arg(event, 5, false), &event->args[4]);
	assert_ptr_equal(probe_event_arg(event, 5, true), &event->args[5]);
	assert_ptr_equal(probe_event_arg(event, 31, false), &event->args[8]);
	assert_null(probe_event_arg(event, 31, true));
	assert_null(probe_event_arg(event, 8, false));
}

static void test_values(void **state)
{
	struct probe_ctf *ctf = writer(folder, 0);
	struct probe_reader *reader;
	struct probe_event event;

	(void)state;
	write_hit(ctf, 0, "thread");
	write_hit(ctf, 1, NULL);
	finish_record(ctf);
	assert_null(probe_reader_open(folder, &reader));
	assert_int_equal(probe_reader_args_max(reader), ARGS);
	assert_true(read_next(reader, &event));
	check_hit(&event, 0);
	assert_string_equal(event.comm, "thread");
	assert_true(read_next(reader, &event));
	check_hit(&event, 1);
	assert_null(event.comm);
	assert_false(read_next(reader, &event));
	assert_false(read_next(reader, &event));
	probe_reader_close(reader);
}

/* ---- Call stacks ----------------------------------------------------------------------- */

static const struct probe_frame leaf = {.ip = 0x1010,
	.module = "/bin/app",
	.symbol = "leaf",
	.offset = 16,
	.function = 0x1000,
	.file = "/src/app.c",
	.line = 7};
static const struct probe_frame bare = {.ip = 0x2020, .offset = 0x2020};
/* Another library is at the address by now. */
static const struct probe_frame later = {.ip = 0x1010, .module = "/lib/b", .offset = 0x10};

static void write_stack(struct probe_ctf *ctf, uint64_t n, int cpu, const struct probe_stack *stack)
{
	const struct probe_hit hit = {.time_ns = base_ns + n,
		.pid = 11,
		.tid = (pid_t)(12 + n),
		.cpu = cpu,
		.pc = PC,
		.args = values,
		.arg_count = ARGS,
		.stack = stack};

	assert_null(probe_ctf_hit(ctf, &session, &hit, "thread"));
}

/* Stacks come back with their names, in every stream, and in every part that is its own record. */
static void stacks_written(uint64_t rotate_bytes)
{
	const struct probe_ctf_options options = {.rotate_bytes = rotate_bytes, .stacks = true};
	const struct probe_frame *many[PROBE_FRAMES_MAX];
	const struct probe_frame *const two[] = {&leaf, &bare}, *const other[] = {&later};
	const struct probe_stack stacks[] = {{two, 2, PROBE_STACK_WHOLE},
		{two, 1, PROBE_STACK_TRUNCATED}, {other, 1, PROBE_STACK_LOST},
		{many, PROBE_FRAMES_MAX, PROBE_STACK_TRUNCATED}};
	enum { ROUNDS = 200, KINDS = 5 };
	struct probe_reader *reader;
	struct probe_event event;
	struct probe_ctf *ctf;

	for (size_t i = 0; i < PROBE_FRAMES_MAX; i++)
		many[i] = i % 2 ? &later : &bare;
	assert_null(probe_ctf_create(folder, &options, &ctf));
	for (uint64_t n = 0; n < ROUNDS * KINDS; n++) {
		size_t kind = n % KINDS;

		/* Once its address is something else, it stays that. */
		if (n >= KINDS && kind < 2)
			kind = 2;
		write_stack(ctf, n, (int)(n / KINDS % 3), kind < 4 ? &stacks[kind] : NULL);
		if (n % 100 == 99)
			assert_null(probe_ctf_flush(ctf));
	}
	assert_null(probe_ctf_flush(ctf));
	probe_ctf_free(ctf);
	assert_null(probe_reader_open(folder, &reader));
	for (uint64_t n = 0; n < ROUNDS * KINDS; n++) {
		size_t kind = n % KINDS;

		if (n >= KINDS && kind < 2)
			kind = 2;
		assert_true(read_next(reader, &event));
		assert_int_equal(event.cpu, n / KINDS % 3);
		event.cpu = CPU;
		check_hit(&event, n);
		if (kind < 4)
			check_stack(event.stack, &stacks[kind]);
		else
			assert_null(event.stack);
	}
	assert_false(read_next(reader, &event));
	probe_reader_close(reader);
}

static void test_stacks(void **state)
{
	(void)state;
	stacks_written(0);
}

static void test_stacks_of_parts(void **state)
{
	(void)state;
	stacks_written(20000);
}

static void test_lost(void **state)
{
	struct probe_ctf *ctf = writer(folder, 0);
	struct probe_reader *reader;
	struct probe_event event;
	uint64_t hits = 0, lost = 0;

	(void)state;
	write_hit(ctf, 0, NULL);
	assert_null(probe_ctf_discarded(ctf, &session, 7));
	write_hit(ctf, 1, NULL);
	finish_record(ctf);
	assert_null(probe_reader_open(folder, &reader));
	while (read_next(reader, &event)) {
		hits += event.kind == PROBE_EVENT_HIT;
		lost += event.lost;
		if (event.kind == PROBE_EVENT_LOST)
			assert_null(event.provider);
	}
	assert_int_equal(hits, 2);
	assert_int_equal(lost, 7);
	probe_reader_close(reader);
}

/* Missing packets contained hits; their number is unknown. */
static void test_lost_packets(void **state)
{
	enum { PACKETS = 5, PACKET_BYTES = 4096 };
	struct probe_ctf *ctf = writer(folder, 0);
	uint64_t hits = 0, lost = 0, lost_ns = 0;
	char path[128], packets[PACKETS * PACKET_BYTES];
	struct probe_reader *reader;
	struct probe_event event;
	int fd;

	(void)state;
	for (uint64_t n = 0; n < PACKETS; n++) {
		write_hit(ctf, n, NULL);
		assert_null(probe_ctf_flush(ctf));
	}
	finish_record(ctf);
	snprintf(path, sizeof(path), "%s/stream_0_cpu%d", folder, CPU);
	fd = open(path, O_RDWR);
	assert_int_equal(read(fd, packets, sizeof(packets)), sizeof(packets));
	/* The second and the third. */
	memmove(packets + PACKET_BYTES, packets + 3 * PACKET_BYTES, 2 * PACKET_BYTES);
	assert_int_equal(pwrite(fd, packets, sizeof(packets), 0), sizeof(packets));
	assert_int_equal(ftruncate(fd, 3 * PACKET_BYTES), 0);
	close(fd);
	assert_null(probe_reader_open(folder, &reader));
	while (read_next(reader, &event)) {
		hits += event.kind == PROBE_EVENT_HIT;
		lost += event.lost;
		if (event.kind == PROBE_EVENT_LOST)
			lost_ns = event.time_ns;
	}
	probe_reader_close(reader);
	assert_int_equal(hits, 3);
	assert_int_equal(lost, 2);
	assert_int_equal(lost_ns, base_ns);
}

/* More parts than a process may have open files; the last one is empty. */
static void test_parts(void **state)
{
	enum { HITS = 1100 };
	struct probe_ctf *ctf = writer(folder, 1);
	struct probe_reader *reader;
	struct probe_event event;
	char path[128];

	(void)state;
	for (uint64_t n = 0; n < HITS; n++) {
		write_hit(ctf, n, "thread");
		assert_null(probe_ctf_flush(ctf));
	}
	probe_ctf_free(ctf);
	snprintf(path, sizeof(path), "%s/%06d", folder, HITS);
	assert_int_equal(access(path, F_OK), 0);
	assert_null(probe_reader_open(folder, &reader));
	assert_int_equal(probe_reader_args_max(reader), SIZE_MAX);
	for (uint64_t n = 0; n < HITS; n++) {
		assert_true(read_next(reader, &event));
		check_hit(&event, n);
	}
	assert_false(read_next(reader, &event));
	probe_reader_close(reader);
}

static void check_refused(const char *path, enum probe_error_code code, const char *text)
{
	struct probe_reader *reader;
	struct probe_error *error = probe_reader_open(path, &reader);

	assert_non_null(error);
	assert_int_equal(error->code, code);
	if (!strstr(error->message, text))
		fail_msg("'%s' is not in: %s", text, error->message);
	probe_error_free(error);
}

static void write_metadata(const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/metadata", folder);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void test_refused(void **state)
{
	static const char foreign[] = ": its metadata does not say that probectl has made this "
				      "record; babeltrace2 reads records of other tools";
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/nothing", folder);
	check_refused(path, PROBE_ERROR_NOT_FOUND, "there is no such folder");
	check_refused(folder, PROBE_ERROR_NOT_FOUND, "there is no record in it");
	write_metadata("/* CTF 1.8 */ trace {");
	check_refused(folder, PROBE_ERROR_FORMAT, foreign);
	write_metadata("");
	check_refused(folder, PROBE_ERROR_FORMAT, foreign);
	write_metadata("\x1e{\"type\":\"preamble\",\"version\":2}\n");
	check_refused(folder, PROBE_ERROR_FORMAT,
		": this is a record in CTF 2, and probectl reads CTF 1.8; babeltrace2 reads both");
}

/* Another tool's record refuses the whole folder, whatever else is in it. */
static void test_foreign(void **state)
{
	static const char other[] = "b: its metadata does not say that probectl has made this";
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/a", folder);
	finish_record(writer(path, 0));
	snprintf(path, sizeof(path), "%s/b", folder);
	finish_record(writer(path, 0));
	disguise(path);
	check_refused(folder, PROBE_ERROR_FORMAT, other);
	check_refused(path, PROBE_ERROR_FORMAT, other);
}

/* ---- Damage ----------------------------------------------------------------------------- */

static size_t get_file(const char *name, uint8_t *ret, size_t room)
{
	char path[128];
	size_t length;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	assert_non_null(file);
	length = fread(ret, 1, room, file);
	assert_true(length > 0 && length < room);
	fclose(file);
	return length;
}

/* Reads what is readable; returns the number of events. Errors are format errors. */
static uint64_t read_damaged(void)
{
	struct probe_reader *reader;
	struct probe_event event;
	bool there = true;
	uint64_t count = 0;
	struct probe_error *error = probe_reader_open(folder, &reader);

	if (!error) {
		while (!(error = probe_reader_next(reader, &event, &there)) && there)
			count++;
		probe_reader_close(reader);
	}
	if (error)
		assert_int_equal(error->code, PROBE_ERROR_FORMAT);
	probe_error_free(error);
	return count;
}

/* Truncated anywhere, or with any bit of the packet's header flipped. */
static void test_damaged(void **state)
{
	enum { ROOM = 1 << 16, HITS = 20, STEPS = 25, HEADER_BITS = 76 * 8 };
	static const char stream[] = "stream_0_cpu3";
	static uint8_t metadata[ROOM], packets[ROOM];
	struct probe_ctf *ctf = writer(folder, 0);
	size_t metadata_length, length;

	(void)state;
	for (uint64_t n = 0; n < HITS; n++)
		write_hit(ctf, n, "thread");
	finish_record(ctf);
	metadata_length = get_file("metadata", metadata, sizeof(metadata));
	length = get_file(stream, packets, sizeof(packets));
	assert_int_equal(read_damaged(), HITS);
	for (size_t i = 0; i < STEPS; i++) {
		put_file(folder, stream, packets, length * i / STEPS);
		assert_in_range(read_damaged(), 0, HITS);
	}
	put_file(folder, stream, packets, length);
	for (size_t i = 0; i < STEPS; i++) {
		put_file(folder, "metadata", metadata, metadata_length * i / STEPS);
		assert_in_range(read_damaged(), 0, HITS);
	}
	put_file(folder, "metadata", metadata, metadata_length);
	for (size_t bit = 0; bit < HEADER_BITS; bit += 7) {
		packets[bit / 8] ^= (uint8_t)(1 << bit % 8);
		put_file(folder, stream, packets, length);
		read_damaged();
		packets[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_values, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_stacks, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_stacks_of_parts, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_lost, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_lost_packets, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_parts, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_refused, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_foreign, folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(test_damaged, folder_make, folder_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
