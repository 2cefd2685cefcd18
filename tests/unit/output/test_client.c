/* SPDX-License-Identifier: MIT */
/* The queue of messages: what has no room is counted, the oldest first; and headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/output/output.h"
#include "tests/unit/skip.h"

/* Nothing is sent: the client is not run. */
static struct http_client *client_made(void)
{
	struct http_client *client = NULL;
	struct probe_error *error = http_client_open("http://127.0.0.1:1/", NULL, &client);

	if (error && error->code == PROBE_ERROR_UNSUPPORTED) {
		skip_reason("%s", error->message);
		probe_error_free(error);
		skip();
	}
	assert_null(error);
	return client;
}

static void post(struct http_client *client, unsigned int kind, size_t length, uint64_t items)
{
	const struct http_message message = {.kind = kind,
		.path = "/",
		.rejected = "\"rejected\"",
		.body = calloc(1, length),
		.length = length,
		.items = items};

	assert_non_null(message.body);
	http_client_post(client, &message);
}

static void messages_have_limited_room(void **state)
{
	struct http_client *client = client_made();

	(void)state;
	assert_false(http_client_is_busy(client));
	assert_int_equal(http_client_due_ns(client), UINT64_MAX);
	for (int i = 0; i < 256; i++)
		post(client, i % 2, 10, 3);
	assert_true(http_client_is_busy(client));
	assert_int_equal(http_client_sent(client, 0).lost, 0);
	/* The first two go. */
	post(client, 0, 10, 3);
	assert_int_equal(http_client_sent(client, 0).lost, 3);
	post(client, 0, 10, 3);
	assert_int_equal(http_client_sent(client, 1).lost, 3);
	http_client_give_up(client);
	assert_false(http_client_is_busy(client));
	assert_int_equal(http_client_sent(client, 0).lost, 3 * (128 + 2));
	assert_int_equal(http_client_sent(client, 1).lost, 3 * 128);
	assert_int_equal(http_client_sent(client, 0).done, 0);
	http_client_close(client);
}

static void bytes_have_limited_room(void **state)
{
	struct http_client *client = client_made();

	(void)state;
	for (int i = 0; i < 16; i++)
		post(client, 0, 1 << 20, 1);
	assert_int_equal(http_client_sent(client, 0).lost, 0);
	post(client, 0, (1 << 20) + 1, 1);
	assert_int_equal(http_client_sent(client, 0).lost, 2);
	/* One that is larger than all room drives out the others, and is tried. */
	post(client, 0, 20 << 20, 1);
	assert_int_equal(http_client_sent(client, 0).lost, 17);
	assert_true(http_client_is_busy(client));
	http_client_close(client);
}

/* ---- Headers --------------------------------------------------------------------- */

static void headers_are_decoded(void **state)
{
	const char *headers = ",api-key=a%20b%2c%zz, X=1=2 ,\tempty=,";
	static const char *const wanted[] = {"api-key: a b,%zz", "X: 1=2", "empty: "};
	struct probe_error *error = NULL;
	char *header;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_true(http_next_header(&headers, &header, &error));
		assert_string_equal(header, wanted[i]);
		free(header);
	}
	assert_false(http_next_header(&headers, &header, &error));
	headers = NULL;
	assert_false(http_next_header(&headers, &header, &error));
	assert_null(error);
}

static void wrong_headers_are_refused(void **state)
{
	static const char *const cases[][2] = {
		{"key", "OTEL_EXPORTER_OTLP_HEADERS is NAME=VALUE,NAME=VALUE..."},
		{"=secret", "header  has a byte that is not allowed there"},
		{"a b=secret", "header a b has a byte"},
		{"key=secret%0d%0aHost: x", "header key has a byte"},
		{"key=secret\nHost: x", "header key has a byte"},
		{"key=secret%00", "header key has a byte"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *headers = cases[i][0];
		struct probe_error *error = NULL;
		char *header;

		assert_false(http_next_header(&headers, &header, &error));
		assert_non_null(error);
		assert_int_equal(error->code, PROBE_ERROR_USAGE);
		if (!strstr(error->message, cases[i][1]) || strstr(error->message, "secret"))
			fail_msg("%s: %s", cases[i][0], error->message);
		probe_error_free(error);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_have_limited_room),
		cmocka_unit_test(bytes_have_limited_room),
		cmocka_unit_test(headers_are_decoded),
		cmocka_unit_test(wrong_headers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
