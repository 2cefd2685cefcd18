/* SPDX-License-Identifier: MIT */
/* Counts of losses, in memory that the target can write to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libprobe/session/session.h"

enum { PAGE = 4096, CPUS = 2 };

static void test_losses(void **state)
{
	static _Alignas(PAGE) uint8_t data[(CPUS + 1) * PAGE];
	struct probe_slot *slot = (struct probe_slot *)(data + CPUS * PAGE);
	struct probe_session_probe probe = {0};
	struct session_probe known = {0};
	struct probe_session session = {.probes = &probe,
		.known = &known,
		.probe_count = 1,
		.data.view = {.base = data,
			.fd = -1,
			.layout = {.cpus = CPUS,
				.data = PAGE,
				.slots = PAGE,
				.slots_shift = 12,
				.slot_capacity = 1,
				.data_size = sizeof(data)}}};

	(void)state;
	slot->lost = 5;
	slot->unmatched = 6;
	session_count_lost(&session);
	assert_int_equal(probe.lost, 5);
	assert_int_equal(probe.unmatched, 6);
	assert_int_equal(probe_session_damaged(&session), 0);

	/* More than all processors can have had since the machine was started. */
	slot->lost = UINT64_C(0x4141414141414141);
	for (int i = 0; i < 2; i++) {
		session_count_lost(&session);
		assert_int_equal(probe.lost, 5);
		assert_int_equal(probe_session_damaged(&session), 1);
	}
	/* A file may be of another machine. */
	session.remains.dead = true;
	session_count_lost(&session);
	assert_int_equal(probe.lost, slot->lost);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_losses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
