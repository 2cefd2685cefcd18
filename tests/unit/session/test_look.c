/* SPDX-License-Identifier: MIT */
/* Whether sites are still patched, while another controller's sessions come and go there. */
/* Not under ThreadSanitizer: its terabytes of memory are searched, and nothing has threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/live.h"

static const struct probe_session_options counting = {.kind = PROBE_SESSION_COUNT};

/* Begins and ends sessions of the same probes; the exit status is 0 if all went well. */
static int change_often(pid_t pid, int times)
{
	struct live l = {.pid = pid};
	struct probe_error *error = probe_target_open(pid, NULL, &l.target);

	for (int i = 0; i < times && !error; i++) {
		struct probe_report report = {0};

		error = live_begin(&l, "live:*", &counting, &report);
		probe_report_deinit(&report);
		live_end_session(&l);
	}
	probe_target_close(l.target);
	probe_error_free(error);
	return error != NULL;
}

static void note_news(const struct probe_site_news *news, void *data)
{
	(void)news;
	++*(int *)data;
}

static void test_others_come_and_go(void **state)
{
	struct live *l = *state;
	struct probe_report report = {0};
	int status, looks = 0, news = 0;
	pid_t other;

	live_ok(live_begin(l, "live:*", &counting, &report));
	probe_report_deinit(&report);
	other = fork();
	assert_true(other >= 0);
	if (other == 0)
		_exit(change_often(l->pid, 60));
	for (; waitpid(other, &status, WNOHANG) == 0; looks++)
		live_ok(probe_session_look(l->session, false, note_news, &news));
	assert_int_equal(status, 0);
	assert_true(looks > 0);
	live_ok(probe_session_look(l->session, true, note_news, &news));
	assert_int_equal(news, 0);
	live_order(l, 'v');
	live_ok(probe_session_stop(l->session));
	assert_int_equal(live_probe(l, "value")->hits, THREADS * HITS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_others_come_and_go, live_setup, live_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
