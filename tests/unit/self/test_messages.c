/* SPDX-License-Identifier: MIT */
/* Messages between a process and its controller: whole, cut short, and wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"
#include "libprobe/self/self.h"
#include "libprobe/self/helper/helper.h"

static int ends[2];

static int set_up(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
}

static int tear_down(void **state)
{
	(void)state;
	close(ends[0]);
	close(ends[1]);
	return 0;
}

/* A reply with everything. */
static void send_reply(void)
{
	struct probe_refusal refusals[2] = {
		{"one", "first", "/path", 1, "because", true},
		{"two", "second", "", 2, "", false},
	};
	struct probe_report report = {
		.probes = 3, .sites = 4, .refusals = refusals, .refusal_count = 2, .stop_ns = 5};
	struct probe_error *error = probe_error_new(PROBE_ERROR_REFUSED, "a reason");
	uint64_t result = 77;

	reply_send(ends[1], error, &report, &result, sizeof(result));
	probe_error_free(error);
}

static void test_reply(void **state)
{
	struct probe_report report = {0};
	struct probe_error *error = NULL;
	struct message m = {0};
	uint64_t result = 0;

	(void)state;
	send_reply();
	assert_int_equal(message_receive(ends[0], -1, 0, &m), MESSAGE_GOT);
	assert_true(reply_take(&m, &error, &report, &result, sizeof(result)));
	assert_int_equal(result, 77);
	assert_int_equal(error->code, PROBE_ERROR_REFUSED);
	assert_string_equal(error->message, "a reason");
	assert_int_equal(report.probes, 3);
	assert_int_equal(report.stop_ns, 5);
	assert_int_equal(report.refusal_count, 2);
	assert_string_equal(report.refusals[0].reason, "because");
	assert_string_equal(report.refusals[1].name, "second");
	assert_true(report.refusals[0].named && !report.refusals[1].named);
	assert_int_equal(m.at, m.length);
	probe_error_free(error);
	probe_report_deinit(&report);
	message_deinit(&m);
}

/* Each beginning of a reply is read without a byte beyond its end. */
static void test_reply_cut(void **state)
{
	struct message m = {0};

	(void)state;
	send_reply();
	assert_int_equal(message_receive(ends[0], -1, 0, &m), MESSAGE_GOT);
	for (size_t length = 0; length < m.length; length++) {
		struct probe_report report = {0};
		struct probe_error *error = NULL;
		struct message cut = {
			.kind = m.kind, .bytes = malloc(length + 1), .length = length};
		uint64_t result;

		assert_non_null(cut.bytes);
		memcpy(cut.bytes, m.bytes, length);
		cut.bytes[length] = 'x';
		assert_false(reply_take(&cut, &error, &report, &result, sizeof(result)));
		assert_true(cut.is_bad && cut.at <= length);
		assert_null(error);
		probe_report_deinit(&report);
		message_deinit(&cut);
	}
	message_deinit(&m);
}

/* Another result than what was asked for, or no reply at all. */
static void test_other_reply(void **state)
{
	struct probe_report report = {0};
	struct probe_error *error = NULL;
	struct message m = {0};
	char result[4];

	(void)state;
	send_reply();
	assert_int_equal(message_receive(ends[0], -1, 0, &m), MESSAGE_GOT);
	assert_false(reply_take(&m, &error, &report, result, sizeof(result)));
	m.kind = MESSAGE_HELLO;
	m.at = 0;
	m.is_bad = false;
	assert_false(reply_take(&m, &error, &report, NULL, 8));
	assert_null(error);
	message_deinit(&m);
}

static void test_socket(void **state)
{
	struct message m = {0};
	uint64_t soon = clock_monotonic_ns() + 20000000;
	int process;
	pid_t child;

	(void)state;
	assert_int_equal(message_receive(ends[0], -1, soon, &m), MESSAGE_LATE);
	/* The other side is gone, though its end of the socket is open here. */
	child = fork();
	if (child == 0)
		_exit(!message_send(ends[1], MESSAGE_WORK, &(struct buffer){0}));
	process = (int)syscall(SYS_pidfd_open, child, 0);
	assert_true(process >= 0);
	assert_int_equal(message_receive(ends[0], process, 0, &m), MESSAGE_GOT);
	assert_int_equal(message_receive(ends[0], process, 0, &m), MESSAGE_ENDED);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(process);
	assert_int_equal(write(ends[1], "no message of ours", 18), 18);
	assert_int_equal(message_receive(ends[0], -1, 0, &m), MESSAGE_ENDED);
	close(ends[1]);
	assert_int_equal(message_receive(ends[0], -1, 0, &m), MESSAGE_ENDED);
	ends[1] = dup(ends[0]);
	message_deinit(&m);
}

/* Lists are no longer than what follows, and no hook comes after more than there are. */
static void test_known(void **state)
{
	uint32_t sessions[] = {5, 6, 7};
	struct attach_known known = {.caller = 1, .sessions = sessions, .count = 3, .before = 2},
			    got;
	struct buffer b = {0};
	struct message m = {0};

	(void)state;
	attach_known_add(&b, &known);
	m.bytes = b.data;
	m.length = b.length;
	assert_true(attach_known_read(&m, &got));
	assert_int_equal(got.count, 3);
	assert_int_equal(got.sessions[2], 7);
	attach_known_deinit(&got);
	m.at = 0;
	m.length -= 1;
	assert_false(attach_known_read(&m, &got));
	attach_known_deinit(&got);
	buffer_deinit(&b);
	known.before = 4;
	attach_known_add(&b, &known);
	m = (struct message){.bytes = b.data, .length = b.length};
	assert_false(attach_known_read(&m, &got));
	attach_known_deinit(&got);
	buffer_deinit(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reply, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reply_cut, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_reply, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_socket, set_up, tear_down),
		cmocka_unit_test(test_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
