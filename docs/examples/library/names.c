/* SPDX-License-Identifier: MIT */
/*
 * names FILE [PROBE]: the probes of a program or library, each once; then the sites of
 * those that PROBE names, with their arguments and how they would be patched.
 */
#include <stdbool.h>

#include <probe/list.h>
#include <probe/pattern.h>

#include "example.h"

static void print_site(struct probe_list *list, const struct probe_site *site)
{
	struct probe_site_detail detail;
	const struct probe_arg *args;
	size_t count;

	check(probe_list_detail(list, site, true, &detail));
	check(probe_list_args(list, site, &args, &count));
	printf("%s:%s 0x%llx in %s: %s", site->provider, site->name, (unsigned long long)site->pc,
		detail.function ? detail.function : "?", probe_plan_name(detail.plan));
	for (size_t i = 0; i < count; i++)
		printf(" arg%zu=%s%u", i, args[i].is_signed ? "i" : "u", 8 * args[i].size);
	printf("\n");
}

static bool print_matching(struct probe_list *list, const struct probe_pattern *pattern)
{
	size_t count;
	const struct probe_site *sites = probe_list_sites(list, &count);
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		const struct probe_site *site = &sites[i];

		if (!probe_pattern_matches(pattern, site->path, site->provider, site->name))
			continue;
		print_site(list, site);
		any = true;
	}
	return any;
}

int main(int argc, char **argv)
{
	const struct probe_defect *defects;
	struct probe_pattern *pattern;
	struct probe_list *list;
	char **names;
	size_t count;

	if (argc < 2)
		return 2;
	check(probe_list_create(&list));
	check(probe_list_add_file(list, argv[1]));
	defects = probe_list_defects(list, &count);
	for (size_t i = 0; i < count; i++)
		fprintf(stderr, "%s: %s\n", defects[i].path, defects[i].what);
	check(probe_list_names(list, &names, &count));
	for (size_t i = 0; i < count; i++)
		printf("%s\n", names[i]);
	if (argc > 2) {
		check(probe_pattern_parse(argv[2], &pattern));
		/* hits:work(arg9) is a mistake if hits:work has three arguments. */
		check(probe_list_check(list, pattern));
		if (!print_matching(list, pattern))
			check(probe_pattern_no_match(
				pattern, argv[1], "names FILE", (const char *const *)names, count));
		probe_pattern_free(pattern);
	}
	free(names);
	probe_list_free(list);
	return 0;
}
