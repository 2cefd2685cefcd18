/* SPDX-License-Identifier: MIT */
/*
 * switch [LIBRARY]: a program that lists its own probes, counts the hits of one for a
 * while, and those of a library that it opens later.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>

#include <probe/self.h>

static void check(struct probe_error *error)
{
	if (!error)
		return;
	fprintf(stderr, "switch: %s\n", error->message);
	exit(1);
}

__attribute__((noinline)) static void turn(int i)
{
	STAP_PROBE1(selfswitch, turn, i);
}

static void show_state(const char *when)
{
	struct probe_status *states;
	size_t count;

	check(probe_self_status(&states, &count));
	for (size_t i = 0; i < count; i++)
		if (!strcmp(states[i].provider, "selfswitch"))
			printf("%s: %s is %s, %ju hits\n", when, states[i].name,
				states[i].enabled ? "on" : "off", (uintmax_t)states[i].hits);
	free(states);
}

static void list_own(void)
{
	const struct probe_site *sites;
	struct probe_list *list;
	size_t count;

	check(probe_list_create(&list));
	check(probe_self_list(list));
	sites = probe_list_sites(list, &count);
	for (size_t i = 0; i < count; i++)
		if (!strcmp(sites[i].provider, "selfswitch"))
			printf("site: %s:%s\n", sites[i].provider, sites[i].name);
	probe_list_free(list);
}

static void print(const struct probe_self_hit *hit, void *data)
{
	(void)data;
	printf("called: %s:%s\n", hit->provider, hit->name);
}

/* A function that is connected to the probes of all libraries, also of this one. */
static void open_library(const char *path)
{
	struct probe_report report = {0};
	void *library;
	void (*poke)(void);

	check(probe_self_register("selfswitch:*", print, NULL));
	library = dlopen(path, RTLD_NOW);
	poke = library ? (void (*)(void))(uintptr_t)dlsym(library, "poke") : NULL;
	if (!poke) {
		fprintf(stderr, "switch: %s\n", dlerror());
		exit(1);
	}
	poke(); /* not yet */
	check(probe_self_update(&report));
	printf("updated: %zu more\n", report.sites);
	probe_report_deinit(&report);
	poke();
	check(probe_self_unregister("selfswitch:*", print, NULL));
	dlclose(library);
}

int main(int argc, char **argv)
{
	struct probe_report report = {0};
	struct probe_pattern *pattern;

	check(probe_pattern_parse("selfswitch:turn", &pattern));
	{
		const struct probe_pattern *const patterns[] = {pattern};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

		list_own();
		show_state("at first");
		check(probe_self_enable(&request, &report));
		for (int i = 0; i < 1000; i++)
			turn(i);
		show_state("enabled");
		check(probe_self_disable(&request, &report));
		show_state("disabled");
	}
	probe_report_deinit(&report);
	probe_pattern_free(pattern);
	if (argc > 1)
		open_library(argv[1]);
	return 0;
}
