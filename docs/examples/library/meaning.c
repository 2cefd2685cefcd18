/* SPDX-License-Identifier: MIT */
/*
 * meaning FILE PROBE [NAMES]: what is known of the first probe of a program that PROBE, such as
 * `hits:work(length)`, names, in the file or else in a library that it needs; and what PROBE is
 * without names. NAMES is a file that says more of probes.
 */
#include <probe/catalogue.h>
#include <probe/list.h>
#include <probe/pattern.h>

#include "example.h"

static void print_meaning(const struct probe_meaning *meaning)
{
	printf("%s:%s", meaning->provider, meaning->name);
	for (size_t i = 0; i < meaning->arg_count; i++) {
		const struct probe_arg_meaning *arg = &meaning->args[i];
		const char *word = probe_meaning_word(arg, 1);

		printf(" %s", arg->name);
		if (word)
			printf("(1 is %s)", word);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	struct probe_catalogue *catalogue;
	struct probe_pattern *pattern;
	const struct probe_site *sites;
	struct probe_list *list;
	size_t count, args;
	const struct probe_arg *unused;
	char *plain;

	if (argc < 3)
		return 2;
	check(probe_catalogue_create(&catalogue));
	if (argc > 3)
		check(probe_catalogue_add(catalogue, argv[3]));
	check(probe_pattern_parse_named(argv[2], catalogue, &pattern));
	check(probe_list_create(&list));
	check(probe_list_add_file(list, argv[1]));
	probe_list_sites(list, &count);
	if (!count)
		check(probe_list_add_needed(list, argv[1]));
	check(probe_list_check(list, pattern));
	sites = probe_list_sites(list, &count);
	for (size_t i = 0; i < count; i++) {
		const struct probe_meaning *meaning;

		if (!probe_pattern_matches(
			    pattern, sites[i].path, sites[i].provider, sites[i].name))
			continue;
		check(probe_list_args(list, &sites[i], &unused, &args));
		meaning = probe_catalogue_find(catalogue, sites[i].provider, sites[i].name, args);
		if (meaning)
			print_meaning(meaning);
		break;
	}
	check(probe_pattern_plain_text(pattern, &plain));
	printf("%s is %s\n", probe_pattern_text(pattern), plain);
	free(plain);
	probe_pattern_free(pattern);
	probe_list_free(list);
	probe_catalogue_free(catalogue);
	return 0;
}
