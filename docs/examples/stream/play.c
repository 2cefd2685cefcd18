/* SPDX-License-Identifier: MIT */
/* play DIR: what a log, or any record, has of each type of events; and the first event. */
#include <inttypes.h>
#include <stdbool.h>

#include <probe/stream.h>

#include "../library/example.h"

static void describe(struct probe_stream *stream)
{
	struct probe_stream_attributes attributes;
	struct probe_stream_status status;

	check(probe_stream_get_attributes(stream, &attributes));
	check(probe_stream_get_status(stream, &status));
	if (attributes.created_ns)
		printf("a log of %s, of %" PRIu64 " hits\n", attributes.version, status.flushed);
}

/* Of an event whose arguments are of no interest, there need be no memory for them. */
static void count_events(struct probe_stream *stream, uint64_t counts[PROBE_STREAM_TYPES_END])
{
	struct probe_stream_event event;
	bool there;

	for (;;) {
		check(probe_stream_next(stream, NULL, 0, NULL, &event, &there));
		if (!there)
			return;
		counts[event.type]++;
	}
}

int main(int argc, char **argv)
{
	static uint64_t counts[PROBE_STREAM_TYPES_END];
	struct probe_stream_event event;
	struct probe_stream *stream;
	const char *name;
	uint32_t type;
	bool there;

	if (argc != 2) {
		fprintf(stderr, "usage: play DIR\n");
		return 2;
	}
	check(probe_stream_open(argv[1], &stream));
	describe(stream);
	check(probe_stream_next(stream, NULL, 0, NULL, &event, &there));
	if (there)
		printf("first %s:%s\n", event.event.provider, event.event.name);
	/* A log tells its types; those of other records are known once they have been read. */
	check(probe_stream_rewind(stream));
	count_events(stream, counts);
	for (type = 0;; type++) {
		check(probe_stream_type_next(stream, type, &type, &there));
		if (!there)
			break;
		check(probe_stream_type_name(stream, type, &name));
		if (counts[type])
			printf("%s %" PRIu64 "\n", name, counts[type]);
	}
	check(probe_stream_close(stream));
	return 0;
}
