/* SPDX-License-Identifier: MIT */
/* The writer of the Common Trace Format: packets byte by byte, and their descriptions. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

enum { PACKET = CTF_PACKET_BYTES, FILE_BYTES = 1 << 18, CPU = 3, PC = 0x1000 };

static struct probe_session_probe probe = {.provider = "p", .name = "n", .path = "/bin/p"};
static struct session_site site = {.pc = PC,
	.layout = {.arg_count = 3,
		.args = {{.size = 2, .is_signed = true}, {.size = 8, .number = 4},
			{.size = 8, .number = 4}}}};
static const struct probe_session session = {
	.probes = &probe, .probe_count = 1, .sites = &site, .site_count = 1};

struct record {
	char path[64];
	struct probe_ctf *ctf;
	uint8_t bytes[FILE_BYTES];
	size_t length;
};

static void record_open(struct record *record, const struct probe_ctf_options *options)
{
	strcpy(record->path, "/tmp/probectl-ctf.XXXXXX");
	assert_non_null(mkdtemp(record->path));
	assert_null(probe_ctf_create(record->path, options, &record->ctf));
}

static void record_read(struct record *record, const char *name)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", record->path, name);
	file = fopen(path, "re");
	assert_non_null(file);
	record->length = fread(record->bytes, 1, sizeof(record->bytes) - 1, file);
	record->bytes[record->length] = '\0';
	fclose(file);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

static void record_remove(struct record *record)
{
	probe_ctf_free(record->ctf);
	assert_int_equal(nftw(record->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static uint64_t number(const uint8_t *at, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, at, size);
	return value;
}

static struct probe_hit hit_of(const struct probe_value args[3])
{
	return (struct probe_hit){.time_ns = (uint64_t)(time(NULL) + 10) * 1000000000,
		.pid = 11,
		.tid = 12,
		.cpu = CPU,
		.pc = PC,
		.args = args,
		.arg_count = 3};
}

static void test_packet(void **state)
{
	const struct probe_value args[3] = {{.kind = PROBE_VALUE_SIGNED, .i = -2},
		{.kind = PROBE_VALUE_STRING, .bytes = "text", .length = 4, .truncated = true},
		{.kind = PROBE_VALUE_NULL}};
	/* After id and time: pid, tid, comm; -2; "text", truncated; unreadable. */
	static const uint8_t event[] = {
		11, 0, 0, 0, 12, 0, 0, 0, 'c', 0, 0xfe, 0xff, 't', 'e', 'x', 't', 0, 1, 0};
	struct probe_hit hit = hit_of(args);
	struct record record;
	const uint8_t *at = record.bytes;
	uint64_t first;

	(void)state;
	record_open(&record, NULL);
	assert_null(probe_ctf_hit(record.ctf, &session, &hit, "c"));
	/* The clock was set back. */
	hit.time_ns -= 5;
	assert_null(probe_ctf_hit(record.ctf, &session, &hit, "c"));
	assert_null(probe_ctf_discarded(record.ctf, &session, 7));
	assert_null(probe_ctf_flush(record.ctf));

	record_read(&record, "stream_0_cpu3");
	assert_int_equal(record.length, 2 * PACKET);
	assert_int_equal(number(at, 4), 0xc1fc1fc1);
	assert_int_equal(number(at + 20, 4), 0);
	first = number(at + 24, 8);
	assert_int_equal(number(at + 32, 8), first);
	assert_int_equal(number(at + 40, 8), 8 * (CTF_HEADER_BYTES + 2 * (12 + sizeof(event))));
	assert_int_equal(number(at + 48, 8), 8 * PACKET);
	assert_int_equal(number(at + 56, 8), 0);
	assert_int_equal(number(at + 64, 8), 0);
	assert_int_equal(number(at + 72, 4), CPU);
	at += CTF_HEADER_BYTES;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(number(at, 4), 0);
		assert_int_equal(number(at + 4, 8), first);
		assert_memory_equal(at + 12, event, sizeof(event));
		at += 12 + sizeof(event);
	}
	/* The losses are those since the previous packet. */
	at = record.bytes + PACKET;
	assert_int_equal(number(at + 40, 8), 8 * CTF_HEADER_BYTES);
	assert_int_equal(number(at + 56, 8), 1);
	assert_int_equal(number(at + 64, 8), 7);

	record_read(&record, "metadata");
	assert_non_null(strstr((char *)record.bytes, "/* CTF 1.8 */"));
	assert_non_null(strstr((char *)record.bytes,
		"event {\n\tname = \"p:n\";\n\tid = 0;\n\tstream_id = 0;\n"
		"\tmodel.emf.uri = \"/bin/p\";\n\tfields := struct {\n"
		"\t\tint16_t arg0;\n"
		"\t\tstring { encoding = UTF8; } arg4;\n"
		"\t\tuint8_t arg4_truncated;\n"
		"\t\tenum : uint8_t { unreadable = 0 } arg4_2;\n"
		"\t};\n};\n"));
	record_remove(&record);
}

/* Processes come and go: their probes are described once. */
static void test_description(void **state)
{
	struct probe_session_probe elsewhere = probe;
	struct probe_session again = session, other = session;
	struct probe_hit hit = hit_of(NULL);
	const char *at;
	struct record record;
	size_t count = 0;

	(void)state;
	elsewhere.path = "/bin/q";
	other.probes = &elsewhere;
	hit.arg_count = 0;
	record_open(&record, NULL);
	for (int i = 0; i < 2; i++) {
		assert_null(probe_ctf_hit(record.ctf, &session, &hit, NULL));
		assert_null(probe_ctf_hit(record.ctf, &again, &hit, NULL));
		assert_null(probe_ctf_hit(record.ctf, &other, &hit, NULL));
	}
	assert_null(probe_ctf_flush(record.ctf));
	record_read(&record, "metadata");
	for (at = (char *)record.bytes; (at = strstr(at, "event {\n\tname = ")); at++)
		count++;
	assert_int_equal(count, 2);
	record_read(&record, "stream_1_cpu3");
	assert_int_equal(number(record.bytes + CTF_HEADER_BYTES, 4), 0);
	record_read(&record, "stream_2_cpu3");
	assert_int_equal(number(record.bytes + CTF_HEADER_BYTES, 4), 1);
	record_remove(&record);
}

/* After a report of losses, later events keep their times. */
static void test_time_of_losses(void **state)
{
	struct probe_hit hit = hit_of(NULL);
	struct record record;
	uint64_t first;

	(void)state;
	hit.arg_count = 0;
	hit.time_ns -= UINT64_C(15000000000); /* it was read some time after it occurred */
	record_open(&record, NULL);
	assert_null(probe_ctf_hit(record.ctf, &session, &hit, NULL));
	assert_null(probe_ctf_discarded(record.ctf, &session, 7));
	hit.time_ns += 100;
	assert_null(probe_ctf_hit(record.ctf, &session, &hit, NULL));
	assert_null(probe_ctf_flush(record.ctf));
	record_read(&record, "stream_0_cpu3");
	assert_int_equal(record.length, 2 * PACKET);
	first = number(record.bytes + CTF_HEADER_BYTES + 4, 8);
	assert_int_equal(number(record.bytes + PACKET + 64, 8), 7);
	assert_int_equal(number(record.bytes + PACKET + 24, 8), first);
	assert_int_equal(number(record.bytes + PACKET + 32, 8), first + 100);
	assert_int_equal(number(record.bytes + PACKET + CTF_HEADER_BYTES + 4, 8), first + 100);
	record_remove(&record);

	/* In a part without hits of that CPU so far, it has the CPU of the last hit. */
	record_open(&record, NULL);
	assert_null(probe_ctf_hit(record.ctf, &session, &hit, NULL));
	assert_null(probe_ctf_discarded(record.ctf, &(struct probe_session){0}, 7));
	assert_null(probe_ctf_flush(record.ctf));
	record_read(&record, "stream_0_cpu3");
	first = number(record.bytes + CTF_HEADER_BYTES + 4, 8);
	record_read(&record, "stream_1_cpu3");
	assert_int_equal(record.length, 2 * PACKET);
	assert_int_equal(number(record.bytes + PACKET + 24, 8), first);
	record_remove(&record);
}

/* However large events are, the file consists of whole packets of whole pages. */
static void test_large(void **state)
{
	static char text[9000];
	struct probe_value args[3] = {{.kind = PROBE_VALUE_SIGNED}, {.kind = PROBE_VALUE_UNSIGNED},
		{.kind = PROBE_VALUE_BYTES, .bytes = text, .length = 1}};
	struct probe_hit hit = hit_of(args);
	struct record record;
	size_t at = 0, content = 0;

	(void)state;
	record_open(&record, NULL);
	for (size_t i = 0; i < 40; i++) {
		args[2].length = i % 4 == 3 ? sizeof(text) : i * 50;
		content += 12 + 8 + sizeof(CTF_UNKNOWN) + 2 + 8 + 4 + args[2].length;
		assert_null(probe_ctf_hit(record.ctf, &session, &hit, NULL));
	}
	assert_null(probe_ctf_flush(record.ctf));
	record_read(&record, "stream_0_cpu3");
	while (at < record.length) {
		size_t size = number(record.bytes + at + 48, 8) / 8;

		assert_int_equal(number(record.bytes + at, 4), 0xc1fc1fc1);
		assert_true(size && size % PACKET == 0);
		content -= number(record.bytes + at + 40, 8) / 8 - CTF_HEADER_BYTES;
		at += size;
	}
	assert_int_equal(at, record.length);
	assert_int_equal(content, 0);
	record_remove(&record);
}

static void test_folder(void **state)
{
	struct probe_ctf *again;
	struct probe_error *error;
	struct record record;

	(void)state;
	record_open(&record, NULL);
	error = probe_ctf_create(record.path, NULL, &again);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	probe_error_free(error);
	record_remove(&record);
}

/* ---- A folder of another user ---------------------------------------------------------- */

/* What to replace a newly created folder by, or NULL. */
static const char *mkdir_leads_to;

/* Replaces libc's function. */
int mkdirat(int at, const char *name, mode_t mode)
{
	int result = (int)syscall(SYS_mkdirat, at, name, mode);

	if (!result && mkdir_leads_to) {
		assert_int_equal(unlinkat(at, name, AT_REMOVEDIR), 0);
		assert_int_equal(symlinkat(mkdir_leads_to, at, name), 0);
	}
	return result;
}

/* Links that the folder's owner puts there during the writing are not followed. */
static void test_links(void **state)
{
	static const struct probe_ctf_options in_parts = {.rotate_bytes = 1};
	struct probe_hit hit = hit_of(NULL);
	struct record record, other;
	struct probe_error *error;
	char link[128], target[128];
	struct stat st;

	(void)state;
	hit.arg_count = 0;
	record_open(&other, NULL);
	snprintf(target, sizeof(target), "%s/metadata", other.path);
	assert_int_equal(stat(target, &st), 0);
	for (int hard = 0; hard < 2; hard++) {
		record_open(&record, NULL);
		snprintf(link, sizeof(link), "%s/.metadata.new", record.path);
		assert_int_equal(
			hard ? linkat(AT_FDCWD, target, AT_FDCWD, link, 0) : symlink(target, link),
			0);
		assert_null(probe_ctf_hit(record.ctf, &session, &hit, NULL));
		assert_null(probe_ctf_flush(record.ctf));
		record_read(&record, "metadata");
		assert_non_null(strstr((char *)record.bytes, "\"p:n\""));
		record_remove(&record);
		record_read(&other, "metadata");
		assert_int_equal(other.length, st.st_size);
		assert_null(strstr((char *)other.bytes, "\"p:n\""));
	}

	record_open(&record, &in_parts);
	assert_null(probe_ctf_hit(record.ctf, &session, &hit, NULL));
	assert_null(probe_ctf_flush(record.ctf));
	mkdir_leads_to = other.path;
	error = probe_ctf_hit(record.ctf, &session, &hit, NULL);
	mkdir_leads_to = NULL;
	assert_non_null(error);
	assert_int_equal(error->err, ENOTDIR);
	probe_error_free(error);
	record_remove(&record);
	record_read(&other, "metadata");
	assert_int_equal(other.length, st.st_size);
	record_remove(&other);
}

/* The time of the only event in a stream; 0 if there is no such stream. */
static uint64_t only_event(struct record *record, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", record->path, name);
	if (access(path, F_OK) != 0)
		return 0;
	record_read(record, name);
	assert_int_equal(record->length, PACKET);
	assert_int_equal(number(record->bytes + 40, 8),
		8 * (CTF_HEADER_BYTES + 12 + 8 + sizeof(CTF_UNKNOWN)));
	return number(record->bytes + CTF_HEADER_BYTES + 4, 8);
}

static void test_part_names(void **state)
{
	static const char *const none[] = {
		"", ".", "00001", "0000001", "-00001", "+00001", "00000a", "4294967296"};
	static const struct {
		unsigned int number;
		const char *name;
	} parts[] = {{1, "000001"}, {999999, "999999"}, {1000000, "1000000"},
		{UINT32_MAX, "4294967295"}};
	char name[CTF_PART_NAME_BYTES];
	unsigned int number;

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		assert_false(ctf_part_number(none[i], &number));
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		ctf_part_name(name, parts[i].number);
		assert_string_equal(name, parts[i].name);
		assert_true(ctf_part_number(name, &number));
		assert_int_equal(number, parts[i].number);
	}
}

/* Hits of another session from before a part began go into the previous part. */
static void test_parts(void **state)
{
	static const struct probe_ctf_options options = {.rotate_bytes = 1};
	const struct probe_session other = session;
	struct probe_hit hit = hit_of(NULL);
	struct record record;
	uint64_t first;

	(void)state;
	hit.arg_count = 0;
	record_open(&record, &options);
	assert_null(probe_ctf_hit(record.ctf, &session, &hit, NULL));
	assert_null(probe_ctf_flush(record.ctf));
	hit.time_ns += 200;
	assert_null(probe_ctf_hit(record.ctf, &session, &hit, NULL));
	hit.time_ns -= 100;
	assert_null(probe_ctf_hit(record.ctf, &other, &hit, NULL));
	assert_null(probe_ctf_flush(record.ctf));
	assert_null(probe_ctf_flush(record.ctf));
	/* Too late: it is no longer waited for. */
	assert_null(probe_ctf_hit(record.ctf, &other, &hit, NULL));
	assert_null(probe_ctf_flush(record.ctf));

	first = only_event(&record, "000001/stream_0_cpu3");
	assert_true(first > 0);
	assert_int_equal(only_event(&record, "000001/stream_1_cpu3"), first + 100);
	assert_int_equal(only_event(&record, "000002/stream_0_cpu3"), first + 200);
	assert_int_equal(only_event(&record, "000003/stream_0_cpu3"), first + 100);
	assert_int_equal(only_event(&record, "000003/stream_1_cpu3"), 0);
	assert_int_equal(only_event(&record, "000004/metadata"), 0);
	record_remove(&record);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packet),
		cmocka_unit_test(test_description),
		cmocka_unit_test(test_time_of_losses),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_folder),
		cmocka_unit_test(test_part_names),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
