/* SPDX-License-Identifier: MIT */
/*
 * A session's rings and counters with any bytes in them, which also change while they are read;
 * from the shared memory to the formatted line.
 *
 * The input is a program:
 *
 *	byte 0        how many sites
 *	each site     how many captures; two bytes for each: kind and limit
 *	then          commands: what the target writes where, and when we poll
 *
 * Commands that may run while we read are executed inside the poll: each hit that it delivers
 * runs the next one.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/process.h"
#include "libprobe/session/session.h"
#include "libprobe/registry/registry.h"
#include "probe/sink.h"
#include "tests/fuzz/require.h"

enum {
	PAGE = 4096,
	CPUS = 1,
	RINGS = 2 * CPUS,
	RING_BYTES = 4096,
	RINGS_SHIFT = 17,
	SITES_MAX = 4,
	SITE_CAPTURES_MAX = 4,
	HITS_MAX = 4 * RINGS * RING_BYTES / (int)sizeof(struct ring_record)
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *at, *end;
};

struct run {
	struct input input;
	uint8_t *shared; /* the target's mapping */
	struct probe_session session;
	struct probe_sink *sinks[2];
	size_t hits;
	uint64_t orders;
};

static uint64_t take(struct input *input, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes && input->at < input->end; i++)
		value |= (uint64_t)*input->at++ << 8 * i;
	return value;
}

/* ---- What the session would record ---------------------------------------------------- */

static void make_capture(struct input *input, struct record_layout *layout)
{
	static const uint32_t sizes[] = {1, 2, 4, 8, 16, 3, 24, 100};
	unsigned int kind = take(input, 1), limit = take(input, 1);
	struct arch_capture *capture = &layout->captures[layout->capture_count];
	struct record_layout_arg *arg = &layout->args[layout->arg_count++];
	bool is_string = kind & 1;

	*capture = (struct arch_capture){.is_string = is_string, .bytes_max = limit * 8};
	capture->arg.size = is_string ? 8 : sizes[kind >> 1 & 7];
	*arg = (struct record_layout_arg){.value = is_string ? -1 : layout->capture_count,
		.string = is_string ? layout->capture_count : -1,
		.is_signed = kind >> 4 & 1,
		.is_float = kind >> 5 & 1 && (capture->arg.size == 4 || capture->arg.size == 8),
		.size = capture->arg.size <= 8 ? capture->arg.size : 0};
	layout->capture_count++;
	layout->checked |= kind >> 6 & 1;
	/* The number and the text that it points to, as with -s. */
	if (is_string && kind >> 7 && layout->capture_count < SITE_CAPTURES_MAX) {
		layout->captures[layout->capture_count] = (struct arch_capture){.arg.size = 8};
		arg->value = layout->capture_count++;
		arg->is_guess = true;
	}
}

static void make_sites(struct run *run)
{
	static const struct probe_session_probe probe = {
		.provider = "fuzz", .name = "ring", .path = "/nowhere"};
	struct probe_session *s = &run->session;

	s->site_count = 1 + take(&run->input, 1) % SITES_MAX;
	s->probe_count = s->site_count;
	for (size_t i = 0; i < s->site_count; i++) {
		size_t captures = take(&run->input, 1) % (SITE_CAPTURES_MAX + 1);

		s->sites[i] = (struct session_site){.pc = 0x1000 + i, .probe = i};
		while (s->sites[i].layout.capture_count < captures)
			make_capture(&run->input, &s->sites[i].layout);
		s->sites[i].layout.recorded = s->sites[i].layout.capture_count;
		s->probes[i] = probe;
		s->known[i] = (struct session_probe){.slot = (uint32_t)i};
	}
	s->record_max = RING_RECORD_MAX;
}

/* ---- The target -------------------------------------------------------------------------- */

static struct ring_header *header_of(const struct run *run, unsigned int ring)
{
	return (struct ring_header *)(run->shared + 2 * PAGE +
				      ((size_t)(ring % RINGS) << RINGS_SHIFT));
}

/* One record as a stub writes it, but with the input's words. */
static void write_record(struct run *run, unsigned int ring)
{
	struct ring_header *header = header_of(run, ring);
	uint8_t *at = (uint8_t *)(header + 1) + (header->head & (RING_BYTES - 1));
	size_t words = take(&run->input, 1) % 32;
	struct ring_record record = {
		.time = take(&run->input, 2), .tid = 1, .site = (uint32_t)take(&run->input, 1)};

	memcpy(at, &record, sizeof(record));
	for (size_t i = 0; i < words; i++) {
		uint32_t word = (uint32_t)take(&run->input, sizeof(word));

		memcpy(at + sizeof(record) + sizeof(word) * i, &word, sizeof(word));
	}
	header->head += sizeof(record) + sizeof(uint32_t) * words;
}

static void obey(struct run *run)
{
	unsigned int order = take(&run->input, 1), ring = order >> 7;
	size_t at, length;

	switch (order % 8) {
	case 0: /* any word of a header */
		at = take(&run->input, 1) % (sizeof(struct ring_header) - 7);
		memcpy((uint8_t *)header_of(run, ring) + at, &(uint64_t){take(&run->input, 8)}, 8);
		break;
	case 1: /* head advances over whatever is there */
		header_of(run, ring)->head += take(&run->input, 2);
		break;
	case 2: /* the same byte over a stretch of data and slop */
		at = take(&run->input, 2);
		length = take(&run->input, 1) * 8;
		memset((uint8_t *)(header_of(run, ring) + 1) + at, (int)take(&run->input, 1),
			length);
		break;
	case 3: /* the data's own header and the counters */
		at = take(&run->input, 2) % (2 * PAGE - 7);
		memcpy(run->shared + at, &(uint64_t){take(&run->input, 8)}, 8);
		break;
	default:
		write_record(run, ring);
	}
}

/* ---- The controller ----------------------------------------------------------------------- */

static void check_value(const struct run *run, const struct probe_value *value)
{
	const char *copy = (const char *)run->session.data.rings.record;

	switch (value->kind) {
	case PROBE_VALUE_STRING:
	case PROBE_VALUE_TEXT:
	case PROBE_VALUE_BYTES:
		require(value->bytes >= copy && value->length <= RING_RECORD_MAX &&
				value->bytes + value->length <= copy + RING_RECORD_MAX,
			"a string is not in the private copy");
		break;
	default:
		break;
	}
}

static bool visit(const struct probe_hit *hit, void *data)
{
	struct run *run = data;

	require(++run->hits <= run->orders * HITS_MAX, "more hits than the rings can hold");
	require(hit->probe < run->session.probe_count, "a hit of no probe");
	for (size_t i = 0; i < hit->arg_count; i++)
		check_value(run, &hit->args[i]);
	for (size_t i = 0; i < 2; i++) {
		probe_sink_hit(run->sinks[i], hit, &run->session.probes[hit->probe], "fuzz");
		if (probe_sink_full(run->sinks[i]))
			probe_error_free(probe_sink_flush(run->sinks[i]));
	}
	if (run->input.at < run->input.end) {
		run->orders++;
		obey(run);
	}
	return run->hits % 5 != 0;
}

static void poll_once(struct run *run)
{
	struct probe_error *error = probe_session_poll(&run->session, visit, run, NULL);

	require(!error, "polling without a gate cannot fail");
	for (size_t i = 0; i < RINGS; i++) {
		const struct ring *ring = &run->session.data.rings.rings[i];

		require(ring->head - ring->tail <= RING_BYTES, "a ring holds more than it can");
		require(ring->tail == ring->told, "the target was not told");
	}
}

static void interpret(struct run *run)
{
	static const struct reg_session layout = {.id = 1,
		.cpus = CPUS,
		.data = UINT64_C(0x7f0000000000),
		.data_size = 2 * PAGE + ((uint64_t)RINGS << RINGS_SHIFT),
		.slots = UINT64_C(0x7f0000000000) + PAGE,
		.rings = UINT64_C(0x7f0000000000) + 2 * PAGE,
		.slot_count = SITES_MAX,
		.slot_capacity = SITES_MAX,
		.slots_shift = 7,
		.rings_shift = RINGS_SHIFT,
		.ring_bytes = RING_BYTES};
	int fd = memfd_create("data", MFD_CLOEXEC);

	require(fd >= 0 && !ftruncate(fd, layout.data_size), "no memory");
	require(!rings_open(fd, &layout, &run->session.data.rings), "the rings cannot be mapped");
	close(fd);
	run->shared = run->session.data.rings.base;
	make_sites(run);
	while (run->input.at < run->input.end) {
		run->orders++;
		if (take(&run->input, 1) & 1)
			poll_once(run);
		else
			obey(run);
	}
	/* The probes are off: the remaining records are read, whatever their times are. */
	run->session.stopped = true;
	run->orders++;
	poll_once(run);
	rings_close(&run->session.data.rings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct probe_sink *sinks[2];
	struct session_site sites[SITES_MAX];
	struct probe_session_probe probes[SITES_MAX];
	struct probe_target target = {.pid = 1};
	struct session_probe known[SITES_MAX];
	struct run run = {.input = {data, data + size}};

	if (!sinks[0]) {
		int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

		require(!probe_sink_create(PROBE_SINK_TEXT, fd, "nowhere", &sinks[0]) &&
				!probe_sink_create(PROBE_SINK_JSON, fd, "nowhere", &sinks[1]),
			"no sinks");
	}
	memcpy(run.sinks, sinks, sizeof(sinks));
	run.session.target = &target;
	run.session.sites = sites;
	run.session.probes = probes;
	run.session.known = known;
	clock_init(&run.session.clock, arch_process()->counter);
	interpret(&run);
	return 0;
}
