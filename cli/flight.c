/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/flight.h"
#include "probe/remains.h"

/* ---- Times -------------------------------------------------------------------------------- */

struct span {
	uint64_t oldest_ns, newest_ns;
};

static bool widen(const struct probe_hit *hit, void *data)
{
	struct span *span = data;

	if (hit->time_ns < span->oldest_ns)
		span->oldest_ns = hit->time_ns;
	if (hit->time_ns > span->newest_ns)
		span->newest_ns = hit->time_ns;
	return true;
}

/* ---- Hits --------------------------------------------------------------------------------- */

struct writing {
	struct flight_output *output;
	const struct probe_session *session;
	const struct probe_session_probe *probes;
	size_t probe_count;
	uint64_t from_ns;
	struct probe_error *error;
};

static bool write_hit(const struct probe_hit *hit, void *data)
{
	struct writing *w = data;
	const char *comm;

	if (hit->probe >= w->probe_count || hit->time_ns < w->from_ns)
		return true;
	w->output->hits++;
	comm = w->output->comm ? w->output->comm(w->output->comm_data, hit) : NULL;
	if (w->output->record)
		w->error = probe_ctf_hit(w->output->record, w->session, hit, comm);
	else
		probe_sink_hit(w->output->sink, hit, &w->probes[hit->probe], comm);
	return !w->error;
}

struct probe_error *flight_write(
	struct flight_output *output, struct probe_session *const *sessions, size_t count)
{
	struct writing writing = {.output = output};
	struct span span = {.oldest_ns = UINT64_MAX};
	struct probe_error *error = NULL;
	bool asks = output->last_ns || output->directory;

	for (size_t i = 0; i < count && asks && !error; i++)
		error = probe_session_snapshot(sessions[i], widen, &span);
	if (output->last_ns && span.newest_ns > output->last_ns)
		writing.from_ns = span.newest_ns - output->last_ns;
	if (!error && output->directory && !output->record)
		error = probe_ctf_create(output->directory,
			&(struct probe_ctf_options){.oldest_ns = span.oldest_ns}, &output->record);
	for (size_t i = 0; i < count && !error; i++) {
		writing.session = sessions[i];
		writing.probes = probe_session_probes(sessions[i], &writing.probe_count);
		error = probe_session_snapshot(sessions[i], write_hit, &writing);
		error = probe_error_first(error, writing.error);
		writing.error = NULL;
	}
	return error;
}

struct probe_error *flight_end(struct flight_output *output)
{
	struct probe_error *error = output->record ? probe_ctf_flush(output->record) : NULL;

	probe_ctf_free(output->record);
	output->record = NULL;
	return error;
}

/* ---- Files -------------------------------------------------------------------------------- */

/* All recorders in a file belong to one process, whose name stands for its threads' names. */
static const char *comm_of_remains(void *data, const struct probe_hit *hit)
{
	(void)hit;
	return probe_remains_command(data, 0);
}

struct probe_error *flight_read_file(
	struct flight_output *output, const char *path, bool *sound_ret)
{
	struct probe_remains *remains;
	struct probe_session **sessions;
	struct probe_error *error = probe_remains_open(path, &remains);
	const char *damage;
	size_t count = 0;

	*sound_ret = true;
	if (error)
		return error;
	for (size_t i = 0; (damage = probe_remains_damage(remains, i)); i++) {
		report_warning("%s: a flight recorder is left out: %s", path, damage);
		*sound_ret = false;
	}
	while (probe_remains_session(remains, count))
		count++;
	sessions = calloc(count + 1, sizeof(*sessions));
	error = sessions ? NULL : probe_error_no_memory();
	for (size_t i = 0; sessions && i < count; i++)
		sessions[i] = probe_remains_session(remains, i);
	output->comm = comm_of_remains;
	output->comm_data = remains;
	if (!error && count)
		error = flight_write(output, sessions, count);
	error = probe_error_first(error, flight_end(output));
	free(sessions);
	probe_remains_close(remains);
	return error;
}
