/* SPDX-License-Identifier: MIT */
/*
 * Whether sites are still patched, while another controller's sessions come and go there; and
 * whether the session's memory is still there.
 */
/* Not under ThreadSanitizer: its terabytes of memory are searched, and nothing has threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/page.h"
#include "libprobe/registry/registry.h"
#include "libprobe/session/session.h"
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

/*
 * Another session has unmapped a page that this one needed, and the registry no longer lists it:
 * it belonged to a library that was closed. The program has done nothing.
 */
static void test_page_given_back(void **state)
{
	struct live *l = *state;
	struct probe_report report = {0};
	struct reg_arena *arena;
	int news = 0;

	live_ok(live_begin(l, "live:*", &counting, &report));
	probe_report_deinit(&report);
	arena = registry_add_arena(&l->session->watch.memory);
	assert_non_null(arena);
	*arena = (struct reg_arena){page_bytes() << 4, page_bytes(), 1, 0};
	live_ok(probe_session_look(l->session, false, note_news, &news));
	assert_false(l->session->stopped);
	live_order(l, 'v');
	live_ok(probe_session_look(l->session, true, note_news, &news));
	live_ok(probe_session_stop(l->session));
	assert_int_equal(news, 0);
	assert_int_equal(live_probe(l, "value")->hits, THREADS * HITS);
}

/* The registry still lists a page of data that is gone: the program has taken it. */
static void test_page_taken(void **state)
{
	struct live *l = *state;
	struct probe_report report = {0};
	struct own_extent data = {.size = page_bytes(), .inode = OWN_NAMED};
	struct probe_error *error;
	struct change c;
	int news = 0;

	live_ok(live_begin(l, "live:*", &counting, &report));
	probe_report_deinit(&report);
	live_ok(change_begin(l->target, &c));
	data.start = l->session->data.rings.layout.data;
	live_ok(own_unmap(&c, &data, 1));
	change_end(&c);
	error = probe_session_look(l->session, false, note_news, &news);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "has mapped memory over that of probectl"));
	probe_error_free(error);
	assert_true(l->session->stopped);
	live_order(l, 'v');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_others_come_and_go, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_page_given_back, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_page_taken, live_setup, live_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
