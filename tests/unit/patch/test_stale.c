/* SPDX-License-Identifier: MIT */
/* A controller notices that another controller has changed the process meanwhile. */
/* Not under ThreadSanitizer: its terabytes of memory are searched, and nothing has threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/live.h"

static const struct probe_session_options counting = {.kind = PROBE_SESSION_COUNT};

/* Begins its session before memory is read next, or ends the one that it has; or NULL. */
static struct live *other;

static void begin(struct live *l)
{
	struct probe_report report = {0};

	live_ok(live_begin(l, "live:*", &counting, &report));
	probe_report_deinit(&report);
}

/* Stands before that of the C library. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long count,
	const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	struct live *l = other;

	other = NULL;
	if (l && l->session)
		live_ok(probe_session_stop(l->session));
	else if (l)
		begin(l);
	return syscall(SYS_process_vm_readv, pid, local, count, remote, remote_count, flags);
}

/* Looks for what is stale while another controller begins or ends a session: there is nothing. */
static void look(struct live *l, struct live *second)
{
	struct probe_stale stale;

	other = second;
	live_ok(probe_target_stale(l->target, &stale));
	assert_null(other);
	assert_false(stale.lost);
	assert_int_equal(stale.sessions, 0);
	assert_int_equal(stale.mappings, 0);
}

/* The registry lists memory that was mapped after the mappings were read; then it does not. */
static void changed_meanwhile(void **state)
{
	struct live *l = *state, second = {.pid = l->pid};

	begin(l);
	live_ok(probe_target_open(l->pid, NULL, &second.target));
	look(l, &second);
	live_order(l, 'v');
	look(l, &second);
	assert_int_equal(live_probe(&second, "value")->hits, THREADS * HITS);
	live_end_session(&second);
	probe_target_close(second.target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(changed_meanwhile, live_setup, live_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
