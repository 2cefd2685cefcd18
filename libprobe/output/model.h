/* SPDX-License-Identifier: MIT */
/*
 * Gathered rows as metrics, whoever shows them: what is measured of a row (quantities.c), and the
 * labels that name it (labels.c). Performance Co-Pilot (libprobe/pcp), OpenMetrics and
 * OpenTelemetry (libprobe/metrics) write the same quantities and labels, each in its own form.
 */
#ifndef LIBPROBE_OUTPUT_MODEL_H
#define LIBPROBE_OUTPUT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "probe/table.h"

/* ---- Quantities ---------------------------------------------------------------- */

/* What is measured of a row or a process. The numbers are part of PCP's archives: keep them. */
enum metric_quantity {
	METRIC_HITS,
	METRIC_TOTAL,
	METRIC_LEAST,
	METRIC_MOST,
	METRIC_P50,
	METRIC_P90,
	METRIC_P95,
	METRIC_P99,
	METRIC_P999,
	METRIC_LAST,
	METRIC_IN_FLIGHT,
	METRIC_UNMATCHED,
	METRIC_LOST,
	METRIC_RATE,
	METRIC_AVERAGE,
	METRIC_QUANTITY_COUNT
};

struct metric_info {
	const char *name;
	const char *help;
	unsigned int columns; /* the views that have it (enum probe_column) */
	bool is_counter;
	bool is_value; /* a value of the user's, or a time; otherwise a number of hits */
	bool is_per_process;
	bool keyless; /* absent from rows by keys */
	double percent;
};
extern const struct metric_info metric_infos[METRIC_QUANTITY_COUNT];

/* Whether the rows of a view have it. That of tags is PCP's own matter. */
bool metric_has(const struct probe_view *view, size_t key_count, enum metric_quantity quantity);
/* Whether it only grows. */
bool metric_is_counter(const struct probe_view *view, enum metric_quantity quantity);

/*
 * What a row has in total, and, of a row of the last interval, what it has in that. NAN: none.
 * Times are in nanoseconds.
 */
long double metric_total(const struct probe_table_row *row, enum metric_quantity quantity);
long double metric_recent(
	const struct probe_table_row *row, enum metric_quantity quantity, uint64_t interval_ns);

/*
 * The sum of a row, as a counter. A time is a number of ticks of a clock, times the length of a
 * tick, which is known better from look to look; so a sum may shrink a little, and whoever computes
 * rates would take that for a counter that began again. Initialise with {0}.
 */
struct metric_growth {
	uint64_t hits;
	long double total;
	double unit; /* of the row's buckets, when there were hits first */
};
void metric_grow(
	struct metric_growth *growth, const struct probe_view *view, const struct probe_row *row);

/* Whether a row of a table is one of the metrics: ends without a begin are counted elsewhere. */
bool metric_shows(const struct probe_view *view, const struct probe_table_row *row);

/* What was gathered at the last look, and what was new then. Initialise with {0}. */
struct metric_history {
	struct probe_table *all, *recent;
	uint64_t taken_ns; /* CLOCK_MONOTONIC */
	uint64_t interval_ns;
};
/* Takes ownership of a table, after an error too. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *metric_history_take(
	struct metric_history *history, struct probe_table *table);
void metric_history_deinit(struct metric_history *history);

/* ---- Labels -------------------------------------------------------------------- */

/* The text is any bytes, and valid only during a call of metric_take_label. */
struct metric_label {
	const char *name;
	const char *text;
	size_t length;
	bool is_number;
};
/* Takes a label; false without memory, which ends the calls. */
typedef bool metric_take_label(const struct metric_label *label, void *data);

/* Both call it for each label: of a process `pid`, `program`; of a row the others. */
bool metric_process_labels(pid_t pid, const char *program, metric_take_label *take, void *data);
bool metric_row_labels(const struct probe_table_row *row, const struct probe_view *view,
	size_t key_count, metric_take_label *take, void *data);

/* The value of a key as text; one that stands alone has no quotes. */
void metric_key_text(struct buffer *out, const struct probe_value *key, bool is_alone);

#endif
