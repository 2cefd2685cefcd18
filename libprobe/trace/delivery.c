/* SPDX-License-Identifier: MIT */
/*
 * The user of a trace gets news, hits in the order of time, counts and rows.
 *
 * The sessions are read one after the other. A hit that is younger than the start of the round
 * waits for the next round, because a session that was read earlier in this round may have an older
 * hit by then.
 *
 * A build runs thousands of programs, so the sessions of processes that have ended cannot be kept
 * until the end. Their counts and rows are summed, and the newest hits of their flight recorders
 * are copied.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/error.h"
#include "libprobe/trace/trace.h"

/* Memory for copies of hits: this, or twice the hits of the last process, whichever is more. */
enum { HITS_BYTES = 16 << 20 };

struct traced *traced_at(const struct probe_trace *trace, size_t i)
{
	return (struct traced *)trace->items[i];
}

/* ==== News ==================================================================================== */

void delivery_tell(const struct probe_trace *trace, const struct probe_trace_news *news)
{
	if (trace->options.news)
		trace->options.news(news, trace->options.data);
	else
		probe_error_free(news->error);
}

void delivery_fail(
	const struct probe_trace *trace, struct traced *traced, struct probe_error *error)
{
	if (error)
		delivery_tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_FAILED,
					     .traced = traced ? &traced->its : NULL,
					     .error = error});
}

static bool tallies_grow(struct traced *traced, size_t count)
{
	struct probe_trace_tally *tallies;

	if (count <= traced->tally_count)
		return true;
	tallies = reallocarray(traced->tallies, count, sizeof(*tallies));
	if (!tallies)
		return false;
	memset(tallies + traced->tally_count, 0, (count - traced->tally_count) * sizeof(*tallies));
	traced->tallies = tallies;
	traced->tally_count = count;
	return true;
}

static void tell_session_losses(struct probe_trace *trace, struct traced *traced)
{
	const struct probe_session_probe *probes;
	size_t count;

	probes = probe_session_probes(traced->its.session, &count);
	if (!tallies_grow(traced, count))
		return; /* they are told the next time */
	for (size_t i = 0; i < count; i++) {
		uint64_t told = traced->tallies[i].lost;

		if (probes[i].lost <= told)
			continue;
		traced->tallies[i].lost = probes[i].lost;
		delivery_tell(trace, &(struct probe_trace_news){.event = PROBE_TRACE_LOST,
					     .traced = &traced->its,
					     .probe = &probes[i],
					     .count = probes[i].lost - told});
	}
}

void probe_trace_tell_losses(struct probe_trace *trace)
{
	for (size_t i = 0; i < trace->count; i++)
		if (trace->items[i]->session && !trace->items[i]->is_read_by_user)
			tell_session_losses(trace, traced_at(trace, i));
}

struct looking {
	struct probe_trace *trace;
	struct traced *traced;
};

static void take_site(const struct probe_site_news *site, void *data)
{
	const struct looking *looking = data;

	delivery_tell(looking->trace,
		&(struct probe_trace_news){
			.event = PROBE_TRACE_SITE, .traced = &looking->traced->its, .site = site});
}

void probe_trace_look(struct probe_trace *trace, bool last)
{
	for (size_t i = 0; i < trace->count; i++) {
		struct traced *traced = traced_at(trace, i);
		struct looking looking = {trace, traced};

		if (traced->its.session && !traced->its.is_broken && !traced->its.has_ended)
			delivery_fail(trace, traced,
				probe_session_look(traced->its.session, last, take_site, &looking));
	}
}

/* ==== Hits ==================================================================================== */

bool delivery_blocked(const struct probe_trace *trace, const struct traced *traced, bool wait)
{
	return trace->options.is_full &&
	       trace->options.is_full(&traced->its, wait, trace->options.data);
}

/* Hands a hit to the user. Returns false if no more hits are wanted. `data` is the trace. */
static bool visit(size_t at, const struct probe_hit *hit, const char *comm, void *data)
{
	struct probe_trace *trace = data;
	struct traced *traced = at < trace->count ? traced_at(trace, at) : NULL;
	struct probe_trace_hit its = {.hit = hit, .comm = comm};
	size_t count = trace->sums.count;

	if (trace->is_enough)
		return false;
	its.probes =
		traced ? probe_session_probes(traced->its.session, &count) : trace->sums.probes;
	if (hit->probe >= count)
		return true;
	its.traced = traced ? &traced->its : NULL;
	its.tracer = traced ? traced->its.tracer : trace->sums.parts[hit->probe].tracer;
	if (traced && tallies_grow(traced, hit->probe + 1))
		traced->tallies[hit->probe].hits++;
	trace->is_enough = !trace->options.hit(&its, trace->options.data);
	return !trace->is_enough;
}

static const char *comm_of(const struct probe_trace *trace, const struct probe_hit *hit)
{
	return trace->options.comm ? trace->options.comm(hit, trace->options.data) : NULL;
}

static bool read_hit(const struct probe_hit *hit, void *data)
{
	struct round *round = data;
	struct probe_trace *trace = round->trace;
	struct traced *traced = traced_at(trace, round->at);
	const char *comm = comm_of(trace, hit);

	round->hits++;
	if (!trace->merge || traced->tracer->is_unordered)
		return visit(round->at, hit, comm, trace) &&
		       !delivery_blocked(trace, traced, false);
	if (!merge_add(trace->merge, round->at, hit, comm)) {
		delivery_fail(trace, traced, probe_error_no_memory());
		trace->is_enough = true;
		return false;
	}
	return !merge_full(trace->merge, round->at);
}

static bool is_merge_full(const struct round *round)
{
	return round->trace->merge && merge_full(round->trace->merge, round->at);
}

struct probe_error *delivery_read(struct round *round, bool *more)
{
	struct probe_trace *trace = round->trace;
	struct probe_traced *its = trace->items[round->at];
	struct probe_trace_read read = {.all = its->has_ended || !its->is_on, .due_ns = UINT64_MAX};

	*more = is_merge_full(round);
	if (*more)
		return probe_session_poll(its->session, NULL, NULL, NULL);
	if (!trace->options.read || !trace->options.read(its, &read, trace->options.data))
		return probe_session_poll(
			its->session, trace->options.hit ? read_hit : NULL, round, more);
	*more = read.more;
	round->taken += read.hits;
	if (read.due_ns < round->due_ns)
		round->due_ns = read.due_ns;
	return read.error;
}

void delivery_read_rest(struct round *round)
{
	struct probe_trace *trace = round->trace;
	struct traced *traced = traced_at(trace, round->at);
	bool more;

	do {
		delivery_fail(trace, traced, delivery_read(round, &more));
		more &= trace->seeks && !trace->is_enough && !traced->its.is_stuck;
	} while (more && !is_merge_full(round) && !delivery_blocked(trace, traced, false));
	traced->is_unread = more;
}

struct probe_error *delivery_order(struct probe_trace *trace)
{
	bool any = false;

	for (size_t i = 0; i < trace->options.tracer_count && trace->options.hit; i++)
		any |= !trace->options.tracers[i].is_unordered;
	if (trace->merge || !any || (trace->count < 2 && !trace->sums.count))
		return NULL;
	trace->merge = merge_create();
	return trace->merge ? NULL : probe_error_no_memory();
}

bool delivery_visit(struct probe_trace *trace, uint64_t until_ns)
{
	uint64_t known_ns;

	if (!trace->merge || merge_is_empty(trace->merge))
		return false;
	known_ns = merge_known_ns(trace->merge);
	merge_drain(trace->merge, known_ns < until_ns ? known_ns : until_ns, visit, trace);
	return true;
}

/* ==== Processes that were dropped ============================================================= */

/* Returns the index of the sum of a probe, or SIZE_MAX on lack of memory. */
static size_t sum_of(struct sums *sums, size_t tracer, const struct probe_session_probe *probe)
{
	struct probe_session_probe sum = {
		.role = probe->role, .pair = probe->pair, .meaning = probe->meaning};

	for (size_t i = 0; i < sums->count; i++) {
		const struct probe_session_probe *its = &sums->probes[i];

		if (sums->parts[i].tracer == tracer && its->role == probe->role &&
			its->meaning == probe->meaning &&
			memcmp(its->args, probe->args, sizeof(probe->args)) == 0 &&
			strcmp(its->provider, probe->provider) == 0 &&
			strcmp(its->name, probe->name) == 0)
			return i;
	}
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

static struct probe_error *keep_counts(struct sums *sums, const struct traced *traced)
{
	const struct probe_session_probe *probes;
	size_t count;

	probes = probe_session_probes(traced->its.session, &count);
	for (size_t i = 0; i < count; i++) {
		size_t index = sum_of(sums, traced->its.tracer, &probes[i]);
		struct probe_session_probe *sum;

		if (index == SIZE_MAX)
			return probe_error_no_memory();
		sum = &sums->probes[index];
		sum->hits += probes[i].hits;
		sum->lost += probes[i].lost;
		sum->unmatched += probes[i].unmatched;
		sum->in_flight += probes[i].in_flight;
		probe_coverage_add(&sum->coverage, &probes[i].coverage);
		if (i >= traced->tally_count)
			continue;
		sums->parts[index].tally.hits += traced->tallies[i].hits;
		sums->parts[index].tally.lost += traced->tallies[i].lost;
	}
	return NULL;
}

/* A hit of a flight recorder is copied, because the recorder may overwrite its records. */
struct copying {
	struct probe_trace *trace;
	struct merge *merge; /* NULL if there is a single session */
	size_t at;	     /* index of the session */
	bool no_memory;
};

static bool keep_hit(const struct probe_hit *hit, void *data)
{
	struct copying *copying = data;
	struct probe_trace *trace = copying->trace;
	const struct probe_traced *its = trace->items[copying->at];
	const struct probe_session_probe *probes;
	struct probe_hit kept = *hit;
	size_t count;

	probes = probe_session_probes(its->session, &count);
	if (hit->probe >= count)
		return true;
	kept.probe = sum_of(&trace->sums, its->tracer, &probes[hit->probe]);
	copying->no_memory =
		kept.probe == SIZE_MAX || !merge_add(copying->merge, 0, &kept, comm_of(trace, hit));
	return !copying->no_memory;
}

/* Copies the newest hits in the flight recorders of a session. */
static struct probe_error *keep_hits(struct probe_trace *trace, size_t i)
{
	struct sums *sums = &trace->sums;
	struct merge *hits = sums->hits ? sums->hits : merge_create();
	struct copying copying = {.trace = trace, .merge = hits, .at = i};
	size_t before, bytes, limit;
	struct probe_error *error;

	if (!hits)
		return probe_error_no_memory();
	sums->hits = hits;
	before = merge_bytes(hits);
	error = probe_session_snapshot(trace->items[i]->session, keep_hit, &copying);
	bytes = merge_bytes(hits);
	limit = 2 * (bytes - before) > HITS_BYTES ? 2 * (bytes - before) : HITS_BYTES;
	/* Trim to three quarters of the limit, because each trim moves all kept hits. */
	if (bytes > limit)
		sums->forgotten += merge_trim(hits, limit / 4 * 3);
	return copying.no_memory ? probe_error_first(error, probe_error_no_memory()) : error;
}

/*
 * Adds the rows of a session to those of dropped processes. Keys may be different in each process,
 * so only as many different keys are kept as one session may have.
 */
static struct probe_error *keep_rows(struct probe_trace *trace, const struct traced *traced)
{
	const struct probe_session_options *options = &traced->tracer->options;
	const struct probe_gather *gather = &options->gather;
	struct probe_table **sum = &trace->rows[traced->its.tracer], *rows = NULL;
	struct probe_error *error = *sum ? NULL : probe_table_create(gather->key_count, sum);

	error = error ?: probe_table_create(gather->key_count, &rows);
	if (error)
		return error;
	probe_table_limit(*sum, gather->keys_max ? gather->keys_max : PROBE_KEYS_DEFAULT);
	error = probe_table_add(rows, traced->its.session, options)
			?: probe_table_add_table(*sum, rows);
	probe_table_free(rows);
	return error;
}

void delivery_keep(struct probe_trace *trace, size_t i)
{
	struct traced *traced = traced_at(trace, i);
	const struct probe_session_options *options = &traced->tracer->options;

	delivery_fail(trace, traced, keep_counts(&trace->sums, traced));
	/* Rows with stacks are not summed, because stacks belong to a session. */
	if (options->kind != PROBE_SESSION_RECORD && options->stack == PROBE_STACK_NONE)
		delivery_fail(trace, traced, keep_rows(trace, traced));
	if (options->overwrite && !traced->its.is_read_by_user)
		delivery_fail(trace, traced, keep_hits(trace, i));
}

void delivery_forget(struct probe_trace *trace)
{
	struct sums *sums = &trace->sums;

	for (size_t i = 0; i < sums->count; i++) {
		free((void *)sums->probes[i].provider);
		free((void *)sums->probes[i].name);
	}
	free(sums->probes);
	free(sums->parts);
	merge_free(sums->hits);
	for (size_t i = 0; trace->rows && i < trace->options.tracer_count; i++)
		probe_table_free(trace->rows[i]);
	free(trace->rows);
	merge_free(trace->merge);
}

/* ==== All processes =========================================================================== */

static bool recall_hit(const struct probe_hit *hit, void *data)
{
	struct copying *copying = data;
	const char *comm = comm_of(copying->trace, hit);

	if (!copying->merge)
		return visit(copying->at, hit, comm, copying->trace);
	copying->no_memory = !merge_add(copying->merge, copying->at, hit, comm);
	return !copying->no_memory;
}

void probe_trace_snapshot(struct probe_trace *trace)
{
	bool is_merged = trace->count > 1 || trace->sums.hits;
	/* The snapshot has a merge of its own. The hits that wait in trace->merge stay there. */
	struct copying copying = {.trace = trace, .merge = is_merged ? merge_create() : NULL};

	copying.no_memory = is_merged && !copying.merge;
	for (; copying.at < trace->count && !copying.no_memory; copying.at++) {
		struct traced *traced = traced_at(trace, copying.at);

		if (traced->tracer->options.overwrite && !traced->its.is_broken &&
			!traced->its.is_read_by_user)
			delivery_fail(trace, traced,
				probe_session_snapshot(traced->its.session, recall_hit, &copying));
	}
	if (trace->sums.hits && copying.merge)
		copying.no_memory |= !merge_add_all(copying.merge, trace->count, trace->sums.hits);
	if (copying.no_memory)
		delivery_fail(trace, NULL, probe_error_no_memory());
	if (copying.merge)
		merge_drain(copying.merge, UINT64_MAX, visit, trace);
	merge_free(copying.merge);
}

uint64_t probe_trace_forgotten(const struct probe_trace *trace)
{
	return trace->sums.forgotten;
}

struct probe_trace_probe *probe_trace_probes(const struct probe_trace *trace, size_t *count_ret)
{
	const struct probe_session_probe *probes;
	size_t total = trace->sums.count, count;
	struct probe_trace_probe *all;

	for (size_t i = 0; i < trace->count; i++) {
		probe_session_probes(trace->items[i]->session, &count);
		total += count;
	}
	*count_ret = 0;
	all = calloc(total + 1, sizeof(*all));
	for (size_t i = 0; all && i < trace->sums.count; i++)
		all[(*count_ret)++] =
			(struct probe_trace_probe){.tracer = trace->sums.parts[i].tracer,
				.probe = &trace->sums.probes[i],
				.tally = trace->sums.parts[i].tally};
	for (size_t i = 0; all && i < trace->count; i++) {
		const struct traced *traced = traced_at(trace, i);

		probes = probe_session_probes(traced->its.session, &count);
		for (size_t k = 0; k < count; k++) {
			all[*count_ret] = (struct probe_trace_probe){.traced = &traced->its,
				.tracer = traced->its.tracer,
				.probe = &probes[k]};
			if (k < traced->tally_count)
				all[*count_ret].tally = traced->tallies[k];
			++*count_ret;
		}
	}
	return all;
}

struct probe_error *probe_trace_table(
	const struct probe_trace *trace, size_t tracer, struct probe_table **ret)
{
	const struct probe_session_options *options = &trace->options.tracers[tracer].options;
	struct probe_table *table;
	struct probe_error *error = probe_table_create(options->gather.key_count, &table);

	if (error)
		return error;
	if (trace->rows[tracer])
		error = probe_table_add_table(table, trace->rows[tracer]);
	for (size_t i = 0; i < trace->count && !error; i++) {
		const struct probe_traced *its = trace->items[i];

		if (its->tracer != tracer)
			continue;
		error = probe_table_add(table, its->session, options);
		/* The failure was told. Its readable rows are in the table. */
		if (error && its->is_broken) {
			probe_error_free(error);
			error = NULL;
		}
	}
	if (error)
		probe_table_free(table);
	else
		*ret = table;
	return error;
}
