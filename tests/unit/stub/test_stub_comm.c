/* SPDX-License-Identifier: MIT */
/* Stubs that capture the name of their thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_host.h"

static struct arch_stub naming_stub(
	struct stub_host *host, const struct arch_capture *capture, bool has_rseq)
{
	struct arch_stub stub = stub_host_stub(host, has_rseq);

	stub_host_reset(host);
	stub.actions[0].kind = ARCH_ACTION_RECORD;
	stub.captures = capture;
	stub.capture_count = stub.recorded = 1;
	return stub;
}

static void names_are_those_of_now(void **state)
{
	static const char *const names[] = {
		"", "a", "seven77", "eight888", "nine99999", "a name of 15 by", "\xff\n\x01"};
	static const struct arch_capture capture = {.is_comm = true};
	struct stub_host *host = *state;
	char before[ARCH_COMM_MAX];

	assert_int_equal(prctl(PR_GET_NAME, before), 0);
	for (size_t i = 0; i < 2 * sizeof(names) / sizeof(*names); i++) {
		const char *name = names[i / 2];
		struct arch_stub stub = naming_stub(host, &capture, i % 2);
		stub_host_site *site = stub_host_emit_site(host, &stub);
		const struct ring_record *record;
		uint32_t word;
		size_t bytes;

		assert_int_equal(prctl(PR_SET_NAME, name), 0);
		site(1, 2, 3);
		record = stub_host_only_record(host, &bytes);
		assert_non_null(record);
		memcpy(&word, record + 1, sizeof(word));
		assert_int_equal(word, strlen(name));
		assert_memory_equal((const char *)(record + 1) + sizeof(word), name, strlen(name));
	}
	assert_int_equal(prctl(PR_SET_NAME, before), 0);
}

static void it_is_not_asked_where_it_may_not_be(void **state)
{
	static const struct arch_capture capture = {.is_comm = true};
	struct arch_stub stub = naming_stub(*state, &capture, true);
	uint8_t out[ARCH_STUB_MAX];
	struct arch_stub_code code;

	stub.may_call_kernel = false;
	assert_int_equal(
		arch_make_stub(arch_host(), &stub, 0x10000, out, sizeof(out), &code), ARCH_STUB_OK);
	assert_true(code.asks_name);
	assert_false(code.asks);
	stub.may_ask_name = false;
	assert_int_equal(arch_make_stub(arch_host(), &stub, 0x10000, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			names_are_those_of_now, stub_host_setup, stub_host_teardown),
		cmocka_unit_test_setup_teardown(
			it_is_not_asked_where_it_may_not_be, stub_host_setup, stub_host_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
