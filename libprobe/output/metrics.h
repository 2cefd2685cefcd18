/* SPDX-License-Identifier: MIT */
/*
 * A set of metrics: the rows of several tracers (store.c), what families of metrics they make
 * (families.c), the buckets of histograms (bounds.c), and the text of all (openmetrics.c).
 */
#ifndef LIBPROBE_OUTPUT_METRICS_H
#define LIBPROBE_OUTPUT_METRICS_H

#include "libprobe/output/model.h"
#include "probe/metrics.h"

/* ---- Families ------------------------------------------------------------------ */

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* What has a name of its own: "probectl_latency_seconds". */
struct metric_family {
	char name[64];
	const char *help;
	const char *unit; /* or NULL */
	enum metric_kind kind;
	enum metric_quantity quantity; /* of a histogram: METRIC_TOTAL */
};

/* All of a view; returns their number. */
size_t metric_families(const struct probe_view *view, size_t key_count,
	struct metric_family ret[METRIC_QUANTITY_COUNT]);

/* Beside those of tracers: what probe_metrics_left_out() returns. */
extern const struct metric_family metric_left_out;

/* A value in the family's unit, whose times are in seconds. */
double metric_in_unit(const struct metric_family *family, long double value);

/* ---- Histograms ---------------------------------------------------------------- */

enum { METRIC_BOUNDS_MAX = 41 };

/* The upper bounds, in the unit of the row's values, inclusive; returns their number. */
size_t metric_bounds(
	const struct probe_view *view, const struct probe_row *row, double ret[METRIC_BOUNDS_MAX]);

/* How many hits are in each bucket; the last one is above all bounds. */
void metric_fill(const struct probe_view *view, const struct probe_row *row, const double *bounds,
	size_t count, uint64_t ret[METRIC_BOUNDS_MAX + 1]);

/* ---- The set ------------------------------------------------------------------- */

/* A row that has been shown. */
struct metric_name {
	char *labels;	/* provider="shop",probe="order" */
	uint64_t round; /* in which it was seen last: no two rows may have one name */
	struct metric_growth growth;
};

struct metric_process {
	pid_t pid;
	char *program; /* NULL: it has no room */
	char *labels;  /* pid="4711",program="shop" */
	void *names;   /* tsearch(3): those of its rows */
	uint64_t round;
	struct metric_history history;
	/* Of each row of the two tables in `history`; NULL: it is left out. */
	const struct metric_name **all, **recent;
	size_t left_out;
};

struct metric_source {
	struct probe_view view;
	size_t key_count;
	char *labels; /* of what belongs to no row: value="arg0", or "" */
	struct metric_family families[METRIC_QUANTITY_COUNT];
	size_t family_count;
	struct metric_process *processes;
	size_t process_count;
	size_t left_out; /* rows of processes that had no room, and have ended */
};

struct probe_metrics {
	uint64_t start_ns; /* CLOCK_REALTIME */
	struct metric_source *sources;
	size_t source_count;
	size_t rows_max, row_count;
};

/* ---- Samples --------------------------------------------------------------------- */

struct metric_sample {
	const struct metric_family *family;
	const struct metric_process *process;
	const struct probe_table_row *row; /* NULL: of the process */
	const char *labels;		   /* beside the process's */
	long double value;		   /* of a histogram: the sum */
	double bounds[METRIC_BOUNDS_MAX];
	uint64_t hits[METRIC_BOUNDS_MAX + 1];
	size_t bound_count;
};
typedef void metric_visit(const struct metric_sample *sample, void *data);
/* Visits all samples that a process has in a family of a source. */
void metric_samples(const struct metric_source *source, const struct metric_family *family,
	const struct metric_process *process, metric_visit *visit, void *data);

/* Whether two have the same families, in the same order. */
bool metric_is_same_tracer(const struct probe_view *a, const struct probe_view *b);

/* Appends NAME="VALUE", after a comma if there is something before; `data` is a struct buffer. */
bool metric_write_label(const struct metric_label *label, void *data);

/* The format (enum probe_metrics_format) of the page at a path; negative: there is none. */
int metrics_find_page(const char *path, const char *accept);

#endif
