/* SPDX-License-Identifier: MIT */
/*
 * Sums over processes that were dropped. A build runs thousands of programs, so their
 * sessions cannot be kept until the end.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/error.h"
#include "libprobe/trace/trace.h"

/* Memory for copies of hits: this, or twice the hits of the last process, whichever is more. */
enum { HITS_BYTES = 16 << 20 };

/* Returns true if two probes have the same name, role, meaning and arguments. */
static bool is_same_probe(const struct probe_session_probe *a, const struct probe_session_probe *b)
{
	return a->role == b->role && a->meaning == b->meaning &&
	       memcmp(a->args, b->args, sizeof(a->args)) == 0 &&
	       strcmp(a->provider, b->provider) == 0 && strcmp(a->name, b->name) == 0;
}

/* Returns the index of the sum of a probe, or SIZE_MAX on lack of memory. */
static size_t sum_of(struct sums *sums, size_t tracer, const struct probe_session_probe *probe)
{
	struct probe_session_probe sum = {
		.role = probe->role, .pair = probe->pair, .meaning = probe->meaning};

	for (size_t i = 0; i < sums->count; i++)
		if (sums->parts[i].tracer == tracer && is_same_probe(&sums->probes[i], probe))
			return i;
	if (!ARRAY_ROOM(sums->parts, sums->count) || !ARRAY_ROOM(sums->probes, sums->count))
		return SIZE_MAX;
	memcpy(sum.args, probe->args, sizeof(probe->args));
	sum.provider = strdup(probe->provider);
	sum.name = strdup(probe->name);
	if (!sum.provider || !sum.name) {
		free((void *)sum.provider);
		free((void *)sum.name);
		return SIZE_MAX;
	}
	sums->probes[sums->count] = sum;
	sums->parts[sums->count] = (struct sums_part){.tracer = tracer};
	return sums->count++;
}

struct probe_error *sums_add(struct sums *sums, const struct probe_traced *traced,
	const struct probe_trace_tally *tallies, size_t tally_count)
{
	const struct probe_session_probe *probes;
	size_t count;

	probes = probe_session_probes(traced->session, &count);
	for (size_t i = 0; i < count; i++) {
		size_t index = sum_of(sums, traced->tracer, &probes[i]);
		struct probe_session_probe *sum;

		if (index == SIZE_MAX)
			return probe_error_no_memory();
		sum = &sums->probes[index];
		sum->hits += probes[i].hits;
		sum->lost += probes[i].lost;
		sum->unmatched += probes[i].unmatched;
		sum->in_flight += probes[i].in_flight;
		probe_coverage_add(&sum->coverage, &probes[i].coverage);
		if (i >= tally_count)
			continue;
		sums->parts[index].tally.hits += tallies[i].hits;
		sums->parts[index].tally.lost += tallies[i].lost;
	}
	return NULL;
}

struct adding {
	struct sums *sums;
	const struct probe_traced *traced;
	const char *(*comm)(const struct probe_hit *hit, void *data);
	void *data;
	bool no_memory;
};

static bool add_hit(const struct probe_hit *hit, void *data)
{
	struct adding *adding = data;
	struct sums *sums = adding->sums;
	const struct probe_session_probe *probes;
	struct probe_hit kept = *hit;
	size_t count;

	probes = probe_session_probes(adding->traced->session, &count);
	if (hit->probe >= count)
		return true;
	kept.probe = sum_of(sums, adding->traced->tracer, &probes[hit->probe]);
	adding->no_memory = kept.probe == SIZE_MAX ||
			    !merge_add(sums->hits, 0, &kept,
				    adding->comm ? adding->comm(hit, adding->data) : NULL);
	return !adding->no_memory;
}

struct probe_error *sums_add_hits(struct sums *sums, const struct probe_traced *traced,
	const char *(*comm)(const struct probe_hit *hit, void *data), void *data)
{
	struct adding adding = {.sums = sums, .traced = traced, .comm = comm, .data = data};
	size_t before, room = HITS_BYTES;
	struct probe_error *error;

	if (!sums->hits)
		sums->hits = merge_create();
	if (!sums->hits)
		return probe_error_no_memory();
	before = merge_bytes(sums->hits);
	error = probe_session_snapshot(traced->session, add_hit, &adding);
	if (2 * (merge_bytes(sums->hits) - before) > room)
		room = 2 * (merge_bytes(sums->hits) - before);
	/* Trim to three quarters of the limit, because each trim moves all kept hits. */
	if (merge_bytes(sums->hits) > room)
		sums->forgotten += merge_trim(sums->hits, room / 4 * 3);
	return adding.no_memory ? probe_error_first(error, probe_error_no_memory()) : error;
}

void sums_deinit(struct sums *sums)
{
	for (size_t i = 0; i < sums->count; i++) {
		free((void *)sums->probes[i].provider);
		free((void *)sums->probes[i].name);
	}
	free(sums->probes);
	free(sums->parts);
	merge_free(sums->hits);
}
