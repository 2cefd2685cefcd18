/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libprobe/base/permission.h"

static void test_profiles(void **state)
{
	static const struct {
		const char *text, *profile;
	} cases[] = {
		{"cri-containerd.apparmor.d (enforce)\n", "cri-containerd.apparmor.d"},
		{"docker-default (kill)", "docker-default"},
		{"/usr/bin/a (b) (enforce)\n", "/usr/bin/a (b)"},
		{"docker-default (complain)\n", NULL},
		{"unconfined\n", NULL},
		{"system_u:system_r:container_t:s0:c1,c2", NULL}, /* of SELinux */
		{"(enforce)", NULL},
		{"", NULL},
		{"\n", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char profile[PERMISSION_PROFILE] = "";
		bool found = permission_profile(cases[i].text, profile);

		assert_int_equal(found, cases[i].profile != NULL);
		assert_string_equal(profile, cases[i].profile ? cases[i].profile : "");
	}
}

static void test_denied(void **state)
{
	static const struct {
		struct permission_facts facts;
		const char *message;
	} cases[] = {
		{{.pid = 7, .tracer = 8, .tracer_name = "gdb", .is_allowed = true},
			"process 7 is being traced by process 8 (gdb): end that first"},
		{{.pid = 7, .tracer = 8, .is_unwritable = true},
			"process 7 may be read, but not written to (/proc/7/mem): Landlock or "
			"another security module forbids it: run probectl outside of that sandbox"},
		{{.pid = 7, .uid = 33, .own_uid = 1000, .own_profile = "docker-default"},
			"process 7 belongs to user 33: run probectl as that user or as root"},
		{{.pid = 7, .uid = 33, .own_uid = 33, .scope = 1},
			"process 7 may not be traced: kernel.yama.ptrace_scope is 1: set it to 0 "
			"or "
			"run probectl as root"},
		{{.pid = 7, .own_profile = "docker-default", .is_allowed = true},
			"process 7 may not be traced: probectl runs under the AppArmor profile "
			"docker-default, the process under none: run probectl under the profile "
			"of the process (in its container), or without one (apparmor=unconfined)"},
		{{.pid = 7, .own_profile = "cri-containerd.apparmor.d", .profile = "mine"},
			"process 7 may not be traced: probectl runs under the AppArmor profile "
			"cri-containerd.apparmor.d, the process under mine: run probectl under the "
			"profile of the process (in its container), or without one "
			"(apparmor=unconfined)"},
		/* These forbid nothing. */
		{{.pid = 7, .own_profile = "mine", .profile = "mine", .is_allowed = true},
			"process 7 may not be traced: Landlock or another security module forbids "
			"it: run probectl outside of that sandbox"},
		{{.pid = 7, .own_uid = 33, .uid = 33, .profile = "mine"},
			"process 7 may not be traced: it is not dumpable, has more capabilities or "
			"is in another user namespace: run probectl as root"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct probe_error *error = permission_denied(&cases[i].facts);

		assert_int_equal(error->code, PROBE_ERROR_PERMISSION);
		assert_string_equal(error->message, cases[i].message);
		probe_error_free(error);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_profiles),
		cmocka_unit_test(test_denied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
