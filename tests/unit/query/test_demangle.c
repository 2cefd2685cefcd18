/* SPDX-License-Identifier: MIT */
/* Names of C++ and Rust functions, and symbols that stand for more text than there is memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/query/query.h"
#include "probe/symbol.h"

static void check(const char *symbol, const char *expected)
{
	char *name;

	assert_null(probe_demangle(symbol, &name));
	if (expected)
		assert_string_equal(name, expected);
	else
		assert_null(name);
	free(name);
}

static void test_names(void **state)
{
	(void)state;
	check("_ZN4shop6ordersEi", "shop::orders(int)");
	check("_ZNSt6vectorIiSaIiEE9push_backEOi",
		"std::vector<int, std::allocator<int> >::push_back(int&&)");
	check("_ZN4shop6orders17h0123456789abcdefE", "shop::orders");
	check("_RNvCs1234_7mycrate3foo", "mycrate::foo");
	check("_RNvMCs1234_7mycrateNtB2_3Bar3baz", "<mycrate::Bar>::baz");
	check("_ZN3fooEv.isra.0", "foo() [clone .isra.0]");
}

static void check_plain(const char *symbol, const char *expected)
{
	char *name = function_plain_name(symbol);

	assert_string_equal(name, expected);
	free(name);
}

/* Only C++ has parameters behind a name. In Rust, parentheses belong to types. */
static void test_plain(void **state)
{
	(void)state;
	check_plain("_ZN4shop6ordersEi", "shop::orders");
	check_plain("_ZN3fooEv.isra.0", "foo.isra.0");
	check_plain("_ZN1c26W$LT$$LP$i32$C$i32$RP$$GT$3get17hcfe954f2255acc04E",
		"c::W<(i32,i32)>::get");
	check_plain("_RNvMCs1234_1cINtB2_1WTllEE3get", "<c::W<(i32, i32)>>::get");
	check_plain("_RNvMs_Cs1234_1cINtB4_1WThEE3get", "<c::W<(u8,)>>::get");
}

static void test_others(void **state)
{
	(void)state;
	check("main", NULL);
	check("", NULL);
	check("_", NULL);
	check("_start", NULL);
	check("_Z", NULL);
	check("_R", NULL);
	check("_ZN4shop", NULL);
	check("_Z\x80\xff", NULL);
}

/* Each pair holds the pair before it twice: 2 to the power of 35 names. */
static void test_bomb(void **state)
{
	enum { LEVELS = 35 };
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char symbol[4096] = "_Z1f1PIiiE";

	(void)state;
	for (size_t level = 0; level < LEVELS; level++) {
		/* S0_ is P<int, int>, and each level adds one. */
		char part[32] = "S_IS0_S0_E";
		size_t at = 5;

		part[at - 1] = digits[level];
		part[at + 2] = digits[level];
		strcat(symbol, part);
	}
	check(symbol, NULL);
}

/* Longer than the demangler takes: left as it is. */
static void test_long(void **state)
{
	const size_t length = 1 << 20;
	char *symbol = malloc(length + 1);

	(void)state;
	assert_non_null(symbol);
	memset(symbol, 'P', length);
	memcpy(symbol, "_Z1f", 4);
	symbol[length - 1] = 'i';
	symbol[length] = '\0';
	check(symbol, NULL);
	free(symbol);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
