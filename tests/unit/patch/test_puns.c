/* SPDX-License-Identifier: MIT */
/* Which addresses puns can lead to, in a process that has mapped nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "libprobe/patch/patch.h"
#include "tests/unit/skip.h"

static const char *take(uint64_t first, uint64_t step, uint64_t *entry_ret)
{
	struct change change = {.arch = arch_host()};
	struct install install = {.change = &change};
	const char *reason = puns_take(&install, (struct arch_pun){first, step}, entry_ret);

	free(install.puns.pages);
	return reason;
}

/* The jump there is written in one step. */
static void test_end_of_page(void **state)
{
	uint64_t page = UINT64_C(0x555555556000), entry;
	uint64_t last = page + 4096 - arch_host()->far_jump_length;

	(void)state;
	for (uint64_t at = page; at < page + 4096; at++) {
		assert_int_equal(take(at, 0, &entry) == NULL, at <= last);
		assert_true(at > last || entry == at);
	}
	/* All that a jump inside a nop can lead to have the same place in their pages. */
	assert_null(take(last, 0x10000, &entry));
	assert_int_equal(entry, last);
	assert_string_equal(take(last + 1, 0x10000, &entry),
		"the jump at the address that its bytes would jump to would cross a page");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_end_of_page),
	};

	if (!arch_host()->pun_length)
		return skip_all("no jump is written byte by byte on this machine");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
