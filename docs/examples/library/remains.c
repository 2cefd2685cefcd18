/* SPDX-License-Identifier: MIT */
/*
 * remains FILE: counts the hits that the flight recorders of a dead process hold, by probe. FILE is
 * its core file, or what `probectl enable -t ring --file` has left.
 */
#include <stdbool.h>

#include <probe/remains.h>
#include <probe/target.h>

#include "example.h"

static bool count(const struct probe_hit *hit, void *data)
{
	unsigned long long *counts = data;

	counts[hit->probe]++;
	return true;
}

static void print(struct probe_session *session)
{
	size_t probe_count;
	const struct probe_session_probe *probes = probe_session_probes(session, &probe_count);
	unsigned long long *counts = calloc(probe_count + 1, sizeof(*counts));

	if (!counts)
		exit(1);
	check(probe_session_snapshot(session, count, counts));
	for (size_t i = 0; i < probe_count; i++)
		printf("%s:%s %llu\n", probes[i].provider, probes[i].name, counts[i]);
	free(counts);
}

int main(int argc, char **argv)
{
	struct probe_remains *remains;
	struct probe_session *session;
	const char *damage;

	if (argc < 2)
		return 2;
	check(probe_remains_open(argv[1], &remains));
	for (size_t i = 0; (session = probe_remains_session(remains, i)); i++) {
		const char *command = probe_remains_command(remains, i);

		fprintf(stderr, "of %s:\n", command ? command : "an unknown program");
		print(session);
	}
	for (size_t i = 0; (damage = probe_remains_damage(remains, i)); i++)
		fprintf(stderr, "%s\n", damage);
	probe_remains_close(remains);
	return 0;
}
