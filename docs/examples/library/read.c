/* SPDX-License-Identifier: MIT */
/*
 * read [DIR]: counts the events of a record, and names the last hit; without DIR, of what
 * `probectl trace --json` prints, from standard input.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <probe/reader.h>

#include "example.h"

/* Keeps a copy of an event, which is gone once the next one is read. */
static void keep(const struct probe_event *event, void **block, size_t *size)
{
	*size = probe_event_packed_size(event);
	free(*block);
	*block = malloc(*size);
	if (!*block)
		abort();
	probe_event_pack(event, *block);
}

int main(int argc, char **argv)
{
	unsigned long long hits = 0, lost = 0;
	struct probe_reader *reader;
	struct probe_event event, *last = NULL;
	void *block = NULL;
	size_t size = 0;
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
		if (event.kind == PROBE_EVENT_HIT)
			keep(&event, &block, &size);
		lost += event.lost;
	}
	probe_reader_close(reader);
	printf("%llu hits, %llu lost\n", hits, lost);
	if (block)
		last = probe_event_unpack(block, size);
	if (last)
		printf("the last: %s:%s\n", last->provider, last->name);
	free(block);
	return 0;
}
