/* SPDX-License-Identifier: MIT */
/*
 * read [DIR]: counts the events of a record; without DIR, of what `probectl trace --json`
 * prints, from standard input.
 */
#include <stdbool.h>
#include <unistd.h>

#include <probe/reader.h>

#include "example.h"

int main(int argc, char **argv)
{
	unsigned long long hits = 0, lost = 0;
	struct probe_reader *reader;
	struct probe_event event;
	bool there;

	if (argc > 1)
		check(probe_reader_open(argv[1], &reader));
	else
		check(probe_reader_open_json(STDIN_FILENO, "standard input", &reader));
	for (;;) {
		check(probe_reader_next(reader, &event, &there));
		if (!there)
			break;
		hits += event.kind == PROBE_EVENT_HIT;
		lost += event.lost;
	}
	probe_reader_close(reader);
	printf("%llu hits, %llu lost\n", hits, lost);
	return 0;
}
