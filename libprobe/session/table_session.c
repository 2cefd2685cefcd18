/* SPDX-License-Identifier: MIT */
/* Tables of what a session has gathered. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/session/session.h"

/* A row for a probe as such: its count, and what only probes have. */
static struct probe_error *append_probe(
	struct probe_table *table, const struct probe_session_probe *probe, bool is_count)
{
	return table_append(table, &(struct probe_table_row){.provider = probe->provider,
					   .name = probe->name,
					   .row = {.count = is_count ? probe->hits : 0, .unit = 1},
					   .unmatched = probe->unmatched,
					   .coverage = probe->coverage});
}

/* Which probes no row is about; NULL without memory. */
static bool *find_silent(const struct probe_row *rows, size_t count, size_t probe_count)
{
	bool *silent = malloc(probe_count + 1);

	if (!silent)
		return NULL;
	memset(silent, true, probe_count + 1);
	for (size_t i = 0; i < count; i++) {
		if (rows[i].probe < probe_count)
			silent[rows[i].probe] = false;
		if (rows[i].begin < probe_count)
			silent[rows[i].begin] = false;
	}
	return silent;
}

/* Without keys there is a row for every probe; of pairs, for every end that was hit. */
static struct probe_error *append_silent(struct probe_table *table, const struct probe_row *rows,
	size_t count, const struct probe_session_probe *probes, size_t probe_count, bool paired)
{
	bool *silent = find_silent(rows, count, probe_count);
	struct probe_error *error = silent ? NULL : probe_error_no_memory();

	for (size_t i = 0; i < probe_count && !error; i++) {
		if (silent[i] && (!paired || probes[i].unmatched))
			error = append_probe(table, &probes[i], false);
	}
	free(silent);
	return error;
}

static struct probe_error *add_counts(
	struct probe_table *table, const struct probe_session_probe *probes, size_t probe_count)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < probe_count && !error; i++)
		error = append_probe(table, &probes[i], true);
	if (!error) {
		table_add_totals(table, probes, probe_count);
		table_merge(table);
	}
	return error;
}

/* Rows with keys do not say what is in flight; the table does. */
static struct probe_error *add_in_flight(struct probe_table *table, struct probe_session *session)
{
	uint64_t *flights = gather_flights(session);

	if (!flights)
		return probe_error_no_memory();
	for (uint32_t i = 0; i < session->pairs; i++)
		table->in_flight += flights[i];
	free(flights);
	return NULL;
}

struct probe_error *probe_table_add(struct probe_table *table, struct probe_session *session,
	const struct probe_session_options *options)
{
	const struct probe_session_probe *probes;
	size_t probe_count, count;
	struct probe_error *error;
	struct probe_row *rows;

	if (options->kind == PROBE_SESSION_COUNT) {
		probes = probe_session_probes(session, &probe_count);
		return add_counts(table, probes, probe_count);
	}
	error = probe_session_rows(session, &rows, &count);
	if (error)
		return error;
	probes = probe_session_probes(session, &probe_count);
	if (!options->gather.key_count)
		error = append_silent(table, rows, count, probes, probe_count,
			options->gather.pairing != PROBE_PAIRING_NONE);
	else if (session->pairs)
		error = add_in_flight(table, session);
	if (!error)
		error = table_add_rows(table, rows, count, probes, probe_count);
	free(rows);
	return error;
}
