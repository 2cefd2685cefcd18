/* SPDX-License-Identifier: MIT */
/* The output formats, compared with golden output; and readers that stop or go away. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/sink.h"

enum { NSEC_PER_SEC = 1000000000 };

static const struct probe_session_probe query = {
	.provider = "postgresql",
	.name = "query__start",
	.path = "/usr/lib/postgresql/15/bin/postgres",
};

/* An unnamed file, and what a sink wrote into it. */
struct output {
	int fd;
	struct probe_sink *sink;
	char text[8192];
};

static void output_open(struct output *output, enum probe_sink_format format)
{
	FILE *file = tmpfile();

	assert_non_null(file);
	output->fd = dup(fileno(file));
	fclose(file);
	assert_true(output->fd >= 0);
	assert_null(probe_sink_create(format, output->fd, "the file", &output->sink));
}

static const char *output_close(struct output *output)
{
	ssize_t length;

	assert_null(probe_sink_flush(output->sink));
	assert_int_equal(probe_sink_pending(output->sink), 0);
	length = pread(output->fd, output->text, sizeof(output->text) - 1, 0);
	assert_true(length >= 0);
	output->text[length] = '\0';
	probe_sink_free(output->sink);
	close(output->fd);
	return output->text;
}

static struct probe_hit hit_with(const struct probe_value *args, size_t count)
{
	return (struct probe_hit){
		.time_ns = (uint64_t)1700000000 * NSEC_PER_SEC + 1234567,
		.pid = 8121,
		.tid = 8122,
		.cpu = 1,
		.pc = 0x55d0c0ffee10,
		.args = args,
		.arg_count = count,
	};
}

#define STRING(k, s)                                                                               \
	{                                                                                          \
		.kind = (k), .bytes = (s), .length = sizeof(s) - 1                                 \
	}

static const struct probe_value every_kind[] = {
	{.kind = PROBE_VALUE_NULL},
	{.kind = PROBE_VALUE_SIGNED, .i = -5},
	{.kind = PROBE_VALUE_SIGNED, .i = INT64_MIN},
	{.kind = PROBE_VALUE_UNSIGNED, .u = 0},
	{.kind = PROBE_VALUE_UNSIGNED, .u = UINT32_MAX},
	{.kind = PROBE_VALUE_UNSIGNED, .u = (uint64_t)UINT32_MAX + 1},
	{.kind = PROBE_VALUE_UNSIGNED, .u = UINT64_MAX},
	{.kind = PROBE_VALUE_FLOAT, .f = 0.1},
	{.kind = PROBE_VALUE_FLOAT, .f = -1.5e300},
	STRING(PROBE_VALUE_STRING, "select \"a\" \\ \t\n\0011\xc3\xa9"),
	{.kind = PROBE_VALUE_TEXT, .u = 0x1000, .truncated = true, .bytes = "abc", .length = 3},
	STRING(PROBE_VALUE_BYTES, "\xde\xad\x00\xef"),
};

enum { KINDS = sizeof(every_kind) / sizeof(every_kind[0]) };

static void text_shows_every_kind_of_value(void **state)
{
	struct probe_hit hit = hit_with(every_kind, KINDS);
	struct output output;

	(void)state;
	output_open(&output, PROBE_SINK_TEXT);
	probe_sink_begin(output.sink, false);
	probe_sink_hit(output.sink, &hit, &query, "postgres");
	probe_sink_end(output.sink);
	assert_string_equal(output_close(&output),
		"22:13:20.001234  8121     8122     postgres         postgresql:query__start   "
		"null -5 -9223372036854775808 0 4294967295 0x100000000 0xffffffffffffffff 0.1 "
		"-1.5e+300 \"select \\\"a\\\" \\\\ \\t\\n\\0011\xc3\xa9\" \"abc\"... {dead00ef}\n");
}

static void json_shows_every_kind_of_value(void **state)
{
	struct probe_hit hit = hit_with(every_kind, KINDS);
	struct output output;

	(void)state;
	output_open(&output, PROBE_SINK_JSON);
	probe_sink_begin(output.sink, true);
	probe_sink_hit(output.sink, &hit, &query, "postgres");
	probe_sink_end(output.sink);
	assert_string_equal(output_close(&output),
		"{\"ts\":1700000000001234567,\"pid\":8121,\"tid\":8122,\"cpu\":1,"
		"\"comm\":\"postgres\",\"provider\":\"postgresql\",\"name\":\"query__start\","
		"\"pc\":\"0x55d0c0ffee10\",\"args\":[null,-5,-9223372036854775808,0,4294967295,"
		"4294967296,18446744073709551615,0.1,-1.5e+300,"
		"\"select \\\"a\\\" \\\\ \\t\\n\\u00011\xc3\xa9\",\"abc\",\"dead00ef\"],"
		"\"truncated\":[10],\"schema\":1}\n");
}

static void header_and_hit_stand_in_the_same_columns(void **state)
{
	struct probe_value one = {.kind = PROBE_VALUE_SIGNED, .i = 1};
	struct probe_hit hit = hit_with(&one, 1);
	struct output output;

	(void)state;
	output_open(&output, PROBE_SINK_TEXT);
	probe_sink_begin(output.sink, true);
	probe_sink_hit(output.sink, &hit, &query, "postgres");
	hit.arg_count = 0;
	probe_sink_hit(output.sink, &hit, &query, NULL);
	assert_string_equal(output_close(&output),
		"TIME             PID      TID      COMMAND          PROBE                     "
		"ARGUMENTS\n"
		"22:13:20.001234  8121     8122     postgres         postgresql:query__start   1\n"
		"22:13:20.001234  8121     8122     ?                postgresql:query__start\n");
}

/* Its columns have the width of those of hits; arguments are those of either end. */
static void spans_show_both_ends(void **state)
{
	static const struct probe_session_probe done = {
		.provider = "postgresql", .name = "query__done"};
	static const struct probe_session_probe other = {.provider = "a b", .name = "c"};
	static const struct probe_value begun[] = {
		{.kind = PROBE_VALUE_STRING, .truncated = true, .bytes = "sel", .length = 3}};
	static const struct probe_value ended[] = {{.kind = PROBE_VALUE_SIGNED, .i = -1}};
	const struct probe_hit begin = hit_with(begun, 1), bare_begin = hit_with(NULL, 0);
	struct probe_hit span = hit_with(ended, 1), bare = hit_with(NULL, 0);
	struct output text, json;

	(void)state;
	span.begin = &begin;
	span.duration_ns = 12345678;
	bare.begin = &begin;
	output_open(&text, PROBE_SINK_TEXT);
	probe_sink_begin_spans(text.sink, true);
	probe_sink_span(text.sink, &span, &query, &done, "postgres");
	probe_sink_span(text.sink, &bare, &query, &other, NULL);
	span.begin = bare.begin = &bare_begin;
	probe_sink_span(text.sink, &span, &query, &done, NULL);
	probe_sink_span(text.sink, &bare, &query, &done, NULL);
	assert_string_equal(output_close(&text),
		"TIME             PID      TID      COMMAND          DURATION  "
		"PAIR                      ARGUMENTS\n"
		"22:13:20.001234  8121     8122     postgres         12.3ms    "
		"postgresql:query__start..query__done  \"sel\"... -> -1\n"
		"22:13:20.001234  8121     8122     ?                0ns       "
		"postgresql:query__start..a b:c        \"sel\"...\n"
		"22:13:20.001234  8121     8122     ?                12.3ms    "
		"postgresql:query__start..query__done  -> -1\n"
		"22:13:20.001234  8121     8122     ?                0ns       "
		"postgresql:query__start..query__done\n");
	output_open(&json, PROBE_SINK_JSON);
	probe_sink_begin_spans(json.sink, true);
	span.begin = &begin;
	probe_sink_span(json.sink, &span, &query, &done, "postgres");
	assert_string_equal(output_close(&json),
		"{\"ts\":1700000000001234567,\"pid\":8121,\"tid\":8122,\"cpu\":1,"
		"\"comm\":\"postgres\",\"provider\":\"postgresql\",\"name\":\"query__done\","
		"\"pc\":\"0x55d0c0ffee10\",\"args\":[-1],\"duration\":12345678,"
		"\"begin\":{\"ts\":1700000000001234567,\"pid\":8121,\"tid\":8122,"
		"\"provider\":\"postgresql\",\"name\":\"query__start\","
		"\"pc\":\"0x55d0c0ffee10\",\"args\":[\"sel\"],\"truncated\":[0]},\"schema\":1}\n");
}

/* Behind the line of a hit or a span, the innermost frame first; how it ends is the last line. */
static void stacks_follow_hits(void **state)
{
	static const struct probe_frame inner = {.ip = 0x1010,
		.module = "/bin/app",
		.symbol = "in\nner",
		.offset = 16,
		.file = "/src/app.c",
		.line = 7};
	static const struct probe_frame outer = {.ip = 0x2020, .module = "/lib/a", .offset = 0x20};
	static const struct probe_frame *const frames[] = {&inner, &outer};
	struct probe_stack whole = {frames, 2, PROBE_STACK_WHOLE},
			   cut = {frames, 1, PROBE_STACK_TRUNCATED},
			   none = {NULL, 0, PROBE_STACK_LOST};
	const struct probe_hit begin = hit_with(NULL, 0);
	struct probe_hit hits[3] = {hit_with(NULL, 0), hit_with(NULL, 0), hit_with(NULL, 0)};
	struct output text, json;

	(void)state;
	hits[0].stack = &whole;
	hits[1].stack = &cut;
	hits[1].begin = &begin;
	hits[2].stack = &none;
	output_open(&text, PROBE_SINK_TEXT);
	probe_sink_hit(text.sink, &hits[0], &query, "a");
	probe_sink_span(text.sink, &hits[1], &query, &query, "a");
	probe_sink_hit(text.sink, &hits[2], &query, "a");
	assert_string_equal(output_close(&text),
		"22:13:20.001234  8121     8122     a                postgresql:query__start\n"
		"\tin?ner (app.c:7)\n"
		"\ta+0x20\n"
		"22:13:20.001234  8121     8122     a                0ns       "
		"postgresql:query__start..query__start\n"
		"\tin?ner (app.c:7)\n"
		"\t[truncated]\n"
		"22:13:20.001234  8121     8122     a                postgresql:query__start\n"
		"\t[unknown]\n");
	output_open(&json, PROBE_SINK_JSON);
	probe_sink_hit(json.sink, &hits[0], &query, NULL);
	probe_sink_span(json.sink, &hits[1], &query, &query, NULL);
#define HIT                                                                                        \
	"\"ts\":1700000000001234567,\"pid\":8121,\"tid\":8122,\"cpu\":1,"                          \
	"\"provider\":\"postgresql\",\"name\":\"query__start\",\"pc\":\"0x55d0c0ffee10\","         \
	"\"args\":[]"
#define INNER                                                                                      \
	"{\"ip\":\"0x1010\",\"module\":\"/bin/app\",\"symbol\":\"in\\nner\",\"offset\":\"0x10\","  \
	"\"file\":\"/src/app.c\",\"line\":7}"
	assert_string_equal(output_close(&json),
		"{" HIT ",\"stack\":\"whole\",\"frames\":[" INNER
		",{\"ip\":\"0x2020\",\"module\":\"/lib/a\",\"symbol\":null,\"offset\":\"0x20\"}],"
		"\"schema\":1}\n"
		"{" HIT ",\"duration\":0,\"begin\":{\"ts\":1700000000001234567,\"pid\":8121,"
		"\"tid\":8122,\"provider\":\"postgresql\",\"name\":\"query__start\","
		"\"pc\":\"0x55d0c0ffee10\",\"args\":[]},"
		"\"stack\":\"truncated\",\"frames\":[" INNER "],\"schema\":1}\n");
}

static void time_follows_the_clock(void **state)
{
	struct probe_hit hit = hit_with(NULL, 0);
	struct output output;

	(void)state;
	output_open(&output, PROBE_SINK_TEXT);
	hit.time_ns = (uint64_t)1700000000 * NSEC_PER_SEC;
	probe_sink_hit(output.sink, &hit, &query, "a");
	hit.time_ns += NSEC_PER_SEC - 1;
	probe_sink_hit(output.sink, &hit, &query, "a");
	hit.time_ns += 1;
	probe_sink_hit(output.sink, &hit, &query, "a");
	assert_string_equal(output_close(&output),
		"22:13:20.000000  8121     8122     a                postgresql:query__start\n"
		"22:13:20.999999  8121     8122     a                postgresql:query__start\n"
		"22:13:21.000000  8121     8122     a                postgresql:query__start\n");
}

/* Overlong, surrogate, beyond U+10FFFF, truncated, stray; and C1 controls, which terminals obey. */
static void bytes_that_are_no_text_are_made_safe(void **state)
{
	struct probe_value bad[] = {
		STRING(PROBE_VALUE_STRING, "\xc0\xaf"),
		STRING(PROBE_VALUE_STRING, "\xed\xa0\x80"),
		STRING(PROBE_VALUE_STRING, "\xf4\x90\x80\x80"),
		STRING(PROBE_VALUE_STRING, "\xe2\x82"),
		STRING(PROBE_VALUE_STRING, "\xff"
					   "7"),
		STRING(PROBE_VALUE_STRING, "\xc2\x9b"
					   "\x1b[m\x7f"),
		STRING(PROBE_VALUE_STRING, "\xf0\x9f\x90\x98"),
		STRING(PROBE_VALUE_STRING, ""),
	};
	struct probe_hit hit = hit_with(bad, sizeof(bad) / sizeof(bad[0]));
	struct output text, json;

	(void)state;
	output_open(&text, PROBE_SINK_TEXT);
	probe_sink_hit(text.sink, &hit, &query, "a\nb");
	assert_string_equal(output_close(&text),
		"22:13:20.001234  8121     8122     a\\nb             postgresql:query__start   "
		"\"\\300\\257\" \"\\355\\240\\200\" \"\\364\\220\\200\\200\" \"\\342\\202\" "
		"\"\\3777\" "
		"\"\\302\\233\\033[m\\177\" \"\xf0\x9f\x90\x98\" \"\"\n");

	output_open(&json, PROBE_SINK_JSON);
	probe_sink_hit(json.sink, &hit, &query, "a\nb\xff");
	assert_string_equal(output_close(&json),
		"{\"ts\":1700000000001234567,\"pid\":8121,\"tid\":8122,\"cpu\":1,"
		"\"comm\":\"a\\nb\xef\xbf\xbd\",\"provider\":\"postgresql\","
		"\"name\":\"query__start\",\"pc\":\"0x55d0c0ffee10\",\"args\":["
		"\"\xef\xbf\xbd\xef\xbf\xbd\",\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\","
		"\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\","
		"\"\xef\xbf\xbd\xef\xbf\xbd\",\"\xef\xbf\xbd"
		"7\",\"\\u009b\\u001b[m\\u007f\",\"\xf0\x9f\x90\x98\",\"\"],\"schema\":1}\n");
}

/* A list of a known probe's arguments, in another order; the last is not known. */
static void text_names_known_arguments(void **state)
{
	static const struct probe_word words[] = {{3, "three"}, {-1, "none"}};
	static const struct probe_arg_meaning args[] = {
		{.name = "mode", .words = words, .word_count = 2},
		{.name = "hit", .kind = PROBE_ARG_BOOLEAN},
		{.name = "lock", .kind = PROBE_ARG_POINTER},
		{.name = "text", .kind = PROBE_ARG_STRING},
	};
	static const struct probe_meaning meaning = {.args = args, .arg_count = 4};
	const struct probe_value values[] = {
		STRING(PROBE_VALUE_STRING, "a\n"),
		{.kind = PROBE_VALUE_UNSIGNED, .u = 16},
		{.kind = PROBE_VALUE_SIGNED, .i = 7},
		{.kind = PROBE_VALUE_SIGNED, .i = -1},
		{.kind = PROBE_VALUE_SIGNED, .i = 4},
		{.kind = PROBE_VALUE_NULL},
		{.kind = PROBE_VALUE_SIGNED, .i = 5},
	};
	struct probe_session_probe known = query;
	struct probe_hit hit = hit_with(values, 7);
	struct output output;

	(void)state;
	known.meaning = &meaning;
	memcpy(known.args, "\3\2\1\0\0\1\4", 7);
	output_open(&output, PROBE_SINK_TEXT);
	probe_sink_hit(output.sink, &hit, &known, NULL);
	assert_non_null(strstr(output_close(&output),
		"  text=\"a\\n\" lock=0x10 hit=true mode=none mode=4 hit=null 5\n"));
	/* JSON is for programs, which know the order. */
	output_open(&output, PROBE_SINK_JSON);
	probe_sink_hit(output.sink, &hit, &known, NULL);
	assert_non_null(strstr(
		output_close(&output), "\"args\":[\"a\\n\",16,7,-1,4,null,5],\"schema\":1}"));
}

static void json_has_no_word_for_nan_and_infinity(void **state)
{
	struct probe_value values[] = {
		{.kind = PROBE_VALUE_FLOAT, .f = NAN},
		{.kind = PROBE_VALUE_FLOAT, .f = -INFINITY},
		{.kind = PROBE_VALUE_FLOAT, .f = 1.0},
	};
	struct probe_hit hit = hit_with(values, 3);
	struct output output;

	(void)state;
	output_open(&output, PROBE_SINK_JSON);
	probe_sink_hit(output.sink, &hit, &query, NULL);
	assert_non_null(strstr(output_close(&output), "\"args\":[null,null,1],"));
	output_open(&output, PROBE_SINK_TEXT);
	probe_sink_hit(output.sink, &hit, &query, NULL);
	assert_non_null(strstr(output_close(&output), "  nan -inf 1\n"));
}

static void floats_read_back_as_they_were(void **state)
{
	static const double numbers[] = {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -2.5, 1e21};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct probe_value value = {.kind = PROBE_VALUE_FLOAT, .f = numbers[i]};
		struct probe_hit hit = hit_with(&value, 1);
		struct output output;
		const char *args;

		output_open(&output, PROBE_SINK_JSON);
		probe_sink_hit(output.sink, &hit, &query, NULL);
		args = strstr(output_close(&output), "\"args\":[");
		assert_non_null(args);
		assert_true(strtod(args + strlen("\"args\":["), NULL) == numbers[i]);
	}
}

static void losses_are_said(void **state)
{
	struct output output;

	(void)state;
	output_open(&output, PROBE_SINK_TEXT);
	probe_sink_lost(output.sink, &query, 1);
	probe_sink_lost(output.sink, &query, 12);
	assert_string_equal(output_close(&output), "# lost 1 hit of postgresql:query__start\n"
						   "# lost 12 hits of postgresql:query__start\n");
	output_open(&output, PROBE_SINK_JSON);
	probe_sink_lost(output.sink, &query, 12);
	assert_string_equal(output_close(&output), "{\"lost\":12,\"provider\":\"postgresql\","
						   "\"name\":\"query__start\",\"schema\":1}\n");
}

static void a_full_disk_is_reported_once(void **state)
{
	struct probe_hit hit = hit_with(every_kind, KINDS);
	struct probe_error *error;
	struct probe_sink *sink;
	int fd = open("/dev/full", O_WRONLY);

	(void)state;
	assert_true(fd >= 0);
	assert_null(probe_sink_create(PROBE_SINK_TEXT, fd, "/dev/full", &sink));
	probe_sink_hit(sink, &hit, &query, "a");
	error = probe_sink_flush(sink);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_SYSTEM);
	assert_int_equal(error->err, ENOSPC);
	assert_string_equal(error->message, "cannot write to /dev/full: No space left on device");
	probe_error_free(error);
	probe_sink_hit(sink, &hit, &query, "a");
	assert_int_equal(probe_sink_pending(sink), 0);
	assert_null(probe_sink_flush(sink));
	probe_sink_free(sink);
	close(fd);
}

static void what_cannot_be_written_is_refused_at_once(void **state)
{
	struct probe_error *error;
	struct probe_sink *sink;
	int fd = open("/dev/null", O_RDONLY);

	(void)state;
	assert_true(fd >= 0);
	for (int i = 0; i < 2; i++) {
		error = probe_sink_create(PROBE_SINK_TEXT, fd, "the output", &sink);
		assert_non_null(error);
		assert_int_equal(error->err, EBADF);
		assert_string_equal(error->message, "the output: Bad file descriptor");
		probe_error_free(error);
		close(fd);
	}
}

static void a_reader_that_went_away_is_epipe(void **state)
{
	struct probe_hit hit = hit_with(NULL, 0);
	struct probe_error *error;
	struct probe_sink *sink;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_null(probe_sink_create(PROBE_SINK_TEXT, ends[1], "the pipe", &sink));
	close(ends[0]);
	probe_sink_hit(sink, &hit, &query, "a");
	error = probe_sink_flush(sink);
	assert_non_null(error);
	assert_int_equal(error->err, EPIPE);
	probe_error_free(error);
	probe_sink_free(sink);
	close(ends[1]);
}

/* Everything arrives, in order, though the pipe was full most of the time. */
static void a_reader_that_stops_is_not_waited_for(void **state)
{
	struct probe_hit hit = hit_with(NULL, 0);
	size_t expected = 0, got = 0;
	struct probe_sink *sink;
	char chunk[PIPE_BUF];
	int ends[2];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	/* A pipe has room for 16 pages, which may be large. */
	assert_true(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BUF) > 0);
	assert_null(probe_sink_create(PROBE_SINK_JSON, ends[1], "the pipe", &sink));
	while (!probe_sink_full(sink)) {
		probe_sink_hit(sink, &hit, &query, "a");
		expected = probe_sink_pending(sink);
	}
	assert_null(probe_sink_flush(sink));
	assert_true(probe_sink_pending(sink) > 0);
	assert_true(probe_sink_pending(sink) < expected);
	while (got < expected) {
		n = read(ends[0], chunk, sizeof(chunk));
		assert_true(n > 0);
		if (!got)
			assert_memory_equal(chunk, "{\"ts\":", 6);
		got += (size_t)n;
		if (got == expected)
			assert_memory_equal(chunk + n - 2, "}\n", 2);
		assert_null(probe_sink_flush(sink));
	}
	assert_int_equal(got, expected);
	assert_int_equal(probe_sink_pending(sink), 0);
	probe_sink_free(sink);
	close(ends[0]);
	close(ends[1]);
}

/* A packet pipe shows what each write contained: whole lines, except the long one. */
static void each_write_ends_with_a_line(void **state)
{
	static char long_text[2 * PIPE_BUF];
	struct probe_value text = {
		.kind = PROBE_VALUE_STRING, .bytes = long_text, .length = sizeof(long_text)};
	struct probe_hit hit = hit_with(NULL, 0), long_hit = hit_with(&text, 1);
	size_t packets = 0, unfinished = 0;
	struct probe_sink *sink;
	char packet[PIPE_BUF];
	int ends[2];

	(void)state;
	memset(long_text, 'x', sizeof(long_text));
	assert_int_equal(pipe2(ends, O_DIRECT | O_NONBLOCK), 0);
	assert_null(probe_sink_create(PROBE_SINK_TEXT, ends[1], "the pipe", &sink));
	for (int i = 0; i < 300; i++)
		probe_sink_hit(sink, i == 200 ? &long_hit : &hit, &query, "a");
	while (probe_sink_pending(sink)) {
		ssize_t n;

		assert_null(probe_sink_flush(sink));
		while ((n = read(ends[0], packet, sizeof(packet))) > 0) {
			packets++;
			if (packet[n - 1] != '\n')
				unfinished++;
		}
	}
	assert_true(packets > 4);
	assert_int_equal(unfinished, 2);
	probe_sink_free(sink);
	close(ends[0]);
	close(ends[1]);
}

static void a_closed_descriptor_is_an_error(void **state)
{
	struct probe_sink *sink;
	struct probe_error *error = probe_sink_create(PROBE_SINK_TEXT, -1, "nothing", &sink);

	(void)state;
	assert_non_null(error);
	assert_int_equal(error->err, EBADF);
	assert_string_equal(error->message, "nothing: Bad file descriptor");
	probe_error_free(error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_shows_every_kind_of_value),
		cmocka_unit_test(json_shows_every_kind_of_value),
		cmocka_unit_test(header_and_hit_stand_in_the_same_columns),
		cmocka_unit_test(spans_show_both_ends),
		cmocka_unit_test(stacks_follow_hits),
		cmocka_unit_test(time_follows_the_clock),
		cmocka_unit_test(bytes_that_are_no_text_are_made_safe),
		cmocka_unit_test(text_names_known_arguments),
		cmocka_unit_test(json_has_no_word_for_nan_and_infinity),
		cmocka_unit_test(floats_read_back_as_they_were),
		cmocka_unit_test(losses_are_said),
		cmocka_unit_test(a_full_disk_is_reported_once),
		cmocka_unit_test(what_cannot_be_written_is_refused_at_once),
		cmocka_unit_test(a_reader_that_went_away_is_epipe),
		cmocka_unit_test(a_reader_that_stops_is_not_waited_for),
		cmocka_unit_test(each_write_ends_with_a_line),
		cmocka_unit_test(a_closed_descriptor_is_an_error),
	};

	setenv("TZ", "UTC", 1);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
