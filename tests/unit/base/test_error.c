/* SPDX-License-Identifier: MIT */
/* Of two errors the first is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "libprobe/base/error.h"

static struct probe_error *one(const char *message)
{
	return probe_error_new(PROBE_ERROR_USAGE, "%s", message);
}

static void is(struct probe_error *error, const char *message)
{
	assert_non_null(error);
	assert_string_equal(error->message, message);
	probe_error_free(error);
}

static void test_first(void **state)
{
	(void)state;
	assert_null(probe_error_first(NULL, NULL));
	is(probe_error_first(one("first"), NULL), "first");
	is(probe_error_first(NULL, one("second")), "second");
	is(probe_error_first(one("first"), one("second")), "first");
	is(probe_error_first(probe_error_no_memory(), one("second")), "out of memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
