/* SPDX-License-Identifier: MIT */
/*
 * switch [LIBRARY]: a program that lists its own probes, counts the hits of one for a
 * while, then of another in its place, and connects a function to those of a library that
 * it opens later.
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
	if (i % 2)
		STAP_PROBE1(selfswitch, odd, i);
}

static void turns(void)
{
	for (int i = 0; i < 1000; i++)
		turn(i);
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

static void *open_library(const char *path, void (**poke_ret)(void))
{
	void *library = dlopen(path, RTLD_NOW);

	*poke_ret = library ? (void (*)(void))(uintptr_t)dlsym(library, "poke") : NULL;
	if (!*poke_ret) {
		fprintf(stderr, "switch: %s\n", dlerror());
		exit(1);
	}
	return library;
}

/* A function that is connected to the probes of all libraries, also of this one. */
static void update(const char *path)
{
	struct probe_report report = {0};
	void (*poke)(void);
	void *library;

	check(probe_self_register("selfswitch:*", print, NULL));
	library = open_library(path, &poke);
	poke(); /* not yet */
	check(probe_self_update(&report));
	printf("updated: %zu more\n", report.sites);
	probe_report_deinit(&report);
	poke();
	check(probe_self_unregister("selfswitch:*", print, NULL));
	dlclose(library);
}

static void tell(const struct probe_report *report, const struct probe_error *error, void *data)
{
	(void)data;
	if (error)
		printf("not connected: %s\n", error->message);
	else
		printf("opened: %zu sites\n", report->sites);
}

/* A function that waits for its library, and is connected before any code of it runs. */
static void follow(const char *path)
{
	void (*poke)(void);
	void *library;

	check(probe_self_follow(tell, NULL));
	check(probe_self_register("selfswitch:poked", print, NULL)); /* there is none yet */
	library = open_library(path, &poke);
	poke();
	check(probe_self_unregister("selfswitch:poked", print, NULL));
	dlclose(library);
	check(probe_self_unfollow());
}

static void count_hits(const struct probe_pattern *first, const struct probe_pattern *second)
{
	const struct probe_pattern *const one[] = {first}, *const other[] = {second};
	const struct probe_request enable = {.patterns = one, .pattern_count = 1},
				   disable = {.patterns = other, .pattern_count = 1},
				   exchange = {.atomic = true};
	const struct probe_action actions[] = {
		{.disable = true, .pattern = first},
		{.disable = false, .pattern = second},
	};
	struct probe_report report = {0};

	show_state("at first");
	check(probe_self_enable(&enable, &report));
	turns();
	show_state("enabled");
	check(probe_self_switch(actions, 2, &exchange, &report));
	turns();
	show_state("exchanged");
	check(probe_self_disable(&disable, &report));
	show_state("disabled");
	probe_report_deinit(&report);
}

int main(int argc, char **argv)
{
	struct probe_pattern *turn, *odd;

	check(probe_pattern_parse("selfswitch:turn", &turn));
	check(probe_pattern_parse("selfswitch:odd", &odd));
	list_own();
	count_hits(turn, odd);
	probe_pattern_free(turn);
	probe_pattern_free(odd);
	if (argc > 1) {
		update(argv[1]);
		follow(argv[1]);
	}
	return 0;
}
