/* SPDX-License-Identifier: MIT */
/* Containers: which control groups are theirs, and the files that have their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/trace/trace.h"

#define ID "5f3c0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab"
#define OTHER "77aa0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab"

static void groups(void **state)
{
	static const struct {
		const char *container, *groups;
		bool in;
	} cases[] = {
		{"5f3c", "0::/system.slice/docker-" ID ".scope\n", true},
		{ID, "0::/system.slice/docker-" ID ".scope\n", true},
		{"5f3c0", "4:memory:/docker/" ID "\n0::/\n", true},
		{"5f3c", "0::/machine.slice/libpod-" ID ".scope/container\n", true},
		{"5f3c", "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID ".scope",
			true},
		{"5f3c", "0::/system.slice/docker-" OTHER ".scope\n", false},
		{"5f3", "0::/system.slice/docker-" ID ".scope\n", false},
		{"0123", "0::/system.slice/docker-" ID ".scope\n", false},
		{"5f3c", "0::/user.slice/5f3c\n", false},
		{"", "0::/\n", false},
		{"web", "0::/lxc.payload.web/init.scope\n", true},
		{"web", "0::/lxc/web\n", true},
		{"web", "0::/lxc/web2\n", false},
		{"web", "0::/user.slice/web\n", false},
		{"web", "0::/machine.slice/systemd-nspawn@web.service/payload\n", true},
		{"web", "0::/machine.slice/machine-web.scope\n", true},
		{"we", "0::/machine.slice/machine-web.scope\n", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (container_has(cases[i].container, cases[i].groups) != cases[i].in)
			fail_msg("'%s' in %s", cases[i].container, cases[i].groups);
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void check(char *found, const char *wanted)
{
	if (wanted)
		assert_string_equal(found, wanted);
	else
		assert_null(found);
	free(found);
}

static void docker(void **state)
{
	char folder[] = "/tmp/test-container.XXXXXX", below[256], path[512];

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(below, sizeof(below), "%s/" ID, folder);
	assert_int_equal(mkdir(below, 0700), 0);
	snprintf(path, sizeof(path), "%s/config.v2.json", below);
	put(path, "{\"ID\":\"" ID "\",\"Name\":\"/web\",\"Driver\":\"overlay2\"}");
	check(container_named_in_docker(folder, "web"), ID);
	check(container_named_in_docker(folder, "we"), NULL);
	check(container_named_in_docker("/nowhere", "web"), NULL);
	unlink(path);
	rmdir(below);
	rmdir(folder);
}

static void storage(void **state)
{
	char path[] = "/tmp/test-container.XXXXXX";

	(void)state;
	close(mkstemp(path));
	put(path, "[{\"id\":\"" ID "\",\"names\":[\"a\",\"web\"],\"image\":\"i\","
		  "\"metadata\":\"{\\\"id\\\":\\\"x\\\",\\\"name\\\":\\\"db\\\"}\"},"
		  "{\"id\":\"" OTHER "\",\"names\":[\"db\"],\"layer\":\"web2\"}]");
	check(container_named_in_storage(path, "web"), ID);
	check(container_named_in_storage(path, "db"), OTHER);
	check(container_named_in_storage(path, "web2"), NULL);
	put(path, "[{\"id\":\"" ID "\",\"names\":[\"web");
	check(container_named_in_storage(path, "web"), NULL);
	unlink(path);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups),
		cmocka_unit_test(docker),
		cmocka_unit_test(storage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
