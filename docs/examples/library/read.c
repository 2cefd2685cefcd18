/* SPDX-License-Identifier: MIT */
/*
 * read [DIR [N]]: counts the events of a record, and those that have the probe's argument number N
 * (default: 0), and says after each million how far it is; without DIR, of what `probectl trace
 * --json` prints, from standard input. It says so at once if no hit can have the argument.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <unistd.h>

#include <probe/reader.h>

#include "example.h"

int main(int argc, char **argv)
{
	unsigned int number = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;
	unsigned long long hits = 0, lost = 0, with = 0;
	struct probe_reader *reader;
	struct probe_event event;
	uint64_t done, total;
	bool there;

	if (argc > 1)
		check(probe_reader_open(argv[1], &reader));
	else
		check(probe_reader_open_json(STDIN_FILENO, "standard input", &reader));
	if (number >= probe_reader_args_max(reader))
		fprintf(stderr, "no hit can have arg%u\n", number);
	for (;;) {
		check(probe_reader_next(reader, &event, &there));
		if (!there)
			break;
		hits += event.kind == PROBE_EVENT_HIT;
		lost += event.lost;
		with += event.kind == PROBE_EVENT_HIT && probe_event_arg(&event, number, false);
		if ((hits + 1) % 1000000)
			continue;
		done = probe_reader_progress(reader, &total);
		if (total)
			fprintf(stderr, "%" PRIu64 " %%\n", 100 * done / total);
	}
	probe_reader_close(reader);
	printf("%llu hits, %llu lost; %llu with arg%u\n", hits, lost, with, number);
	return 0;
}
