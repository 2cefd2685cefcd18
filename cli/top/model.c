/* SPDX-License-Identifier: MIT */
/* The rows of `probectl top`: their order, filter and cursor. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/top.h"
#include "libprobe/base/array.h"
#include "libprobe/base/event.h"

void model_init(struct top_model *model)
{
	*model = (struct top_model){.selected = SIZE_MAX};
}

static void row_deinit(struct top_row *row)
{
	free(row->key);
	free(row->label);
	free(row->provider);
	free(row->name);
	free(row->path);
	free(row->reason);
	free(row->begin);
}

void model_deinit(struct top_model *model)
{
	for (size_t i = 0; i < model->count; i++)
		row_deinit(&model->rows[i]);
	free(model->rows);
	free(model->shown);
	probe_pattern_free(model->pattern);
	model_init(model);
}

/* ---- Rows -------------------------------------------------------------------------- */

/* The name of a row that is being looked up. */
struct wanted {
	const struct top_row *rows;
	const char *provider, *name, *key;
};

static int compare(const struct wanted *wanted, size_t index)
{
	const struct top_row *row = &wanted->rows[index];

	return strcmp(row->provider, wanted->provider) ?: strcmp(row->name, wanted->name)
		?: strcmp(row->key, wanted->key);
}

static bool is_before(const void *wanted, size_t index)
{
	return compare(wanted, index) < 0;
}

/* Returns the row or NULL. Sets *at_ret to its index, or to the index at which it belongs. */
static struct top_row *find(const struct top_model *model, const char *provider, const char *name,
	const char *key, size_t *at_ret)
{
	const struct wanted wanted = {model->rows, provider, name, key};

	*at_ret = array_partition(model->count, is_before, &wanted);
	return *at_ret < model->count && compare(&wanted, *at_ret) == 0 ? &model->rows[*at_ret]
									: NULL;
}

struct top_row *model_find(const struct top_model *model, const char *provider, const char *name)
{
	size_t at;

	return find(model, provider, name, "", &at);
}

struct top_row *model_row(struct top_model *model, const char *provider, const char *name)
{
	return model_key_row(model, provider, name, "");
}

struct top_row *model_key_row(
	struct top_model *model, const char *provider, const char *name, const char *key)
{
	static const struct top_times none = {NAN, NAN, NAN, NAN};
	struct top_row row = {.recent = none, .all = none};
	struct buffer label = {0};
	size_t at;
	struct top_row *found = find(model, provider, name, key, &at);

	if (found || !ARRAY_ROOM(model->rows, model->count) ||
		!ARRAY_ROOM(model->shown, model->count))
		return found;
	row.provider = strdup(provider);
	row.name = strdup(name);
	row.key = strdup(key);
	event_put_probe(&label, provider, name);
	buffer_string(&label, key[0] ? " " : "");
	buffer_string(&label, key);
	row.label = buffer_take(&label, NULL);
	if (!row.provider || !row.name || !row.key || !row.label) {
		row_deinit(&row);
		return NULL;
	}
	memmove(&model->rows[at + 1], &model->rows[at], (model->count - at) * sizeof(row));
	model->rows[at] = row;
	model->count++;
	if (model->selected != SIZE_MAX && model->selected >= at)
		model->selected++;
	return &model->rows[at];
}

/* ---- Figures ----------------------------------------------------------------------- */

static double per_second(const struct top_model *model, double count)
{
	uint64_t ns = model->since_start ? model->elapsed_ns : model->interval_ns;

	return ns ? count * NSEC_PER_SEC / (double)ns : 0;
}

/* Returns a row's hits in the last interval or, if the user wants this, since the start. */
static uint64_t model_hits(const struct top_model *model, const struct top_row *row)
{
	return model->since_start ? row->total : row->new_hits;
}

double model_rate(const struct top_model *model, const struct top_row *row)
{
	return per_second(model, (double)model_hits(model, row));
}

double model_rate_all(const struct top_model *model)
{
	double sum = 0;

	for (size_t i = 0; i < model->count; i++)
		sum += model->rows[i].key[0] ? 0 : (double)model_hits(model, &model->rows[i]);
	return per_second(model, sum);
}

uint64_t model_unkeyed(const struct top_model *model)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < model->count; i++)
		sum += model->rows[i].unkeyed;
	return sum;
}

const struct top_times *model_times(const struct top_model *model, const struct top_row *row)
{
	return model->since_start ? &row->all : &row->recent;
}

double model_time(const struct top_model *model, const struct top_row *row)
{
	return per_second(model, model_times(model, row)->sum);
}

/* ---- Order ------------------------------------------------------------------------- */

/* Returns the value that a row is sorted by, or, without one, a value below all others. */
static double figure(const struct top_model *model, const struct top_row *row)
{
	const struct top_times *times = model_times(model, row);
	const double figures[TOP_ORDER_COUNT] = {[TOP_ORDER_RATE] = (double)model_hits(model, row),
		[TOP_ORDER_TOTAL] = (double)row->total,
		[TOP_ORDER_P50] = times->p50,
		[TOP_ORDER_P99] = times->p99,
		[TOP_ORDER_TIME] = times->sum,
		[TOP_ORDER_NAME] = -1};

	return isnan(figures[model->order]) ? -1 : figures[model->order];
}

/* Orders rows by value, highest first, then by name, which is the order of model->rows. */
static int compare_shown(const void *a, const void *b, void *data)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	const struct top_model *model = data;
	double left = figure(model, &model->rows[x]), right = figure(model, &model->rows[y]);
	int order = left > right ? -1 : left < right ? 1 : x < y ? -1 : 1;

	return model->reversed ? -order : order;
}

/* ---- The filter -------------------------------------------------------------------- */

bool model_set_filter(struct top_model *model, const char *text)
{
	struct probe_error *error = NULL;
	size_t length = strlen(text);

	probe_pattern_free(model->pattern);
	model->pattern = NULL;
	snprintf(model->filter, sizeof(model->filter), "%s", text);
	/* A pattern has glob characters, or is between slashes. */
	if (strpbrk(text, "*?[") || (length > 2 && text[0] == '/' && text[length - 1] == '/'))
		error = probe_pattern_parse(text, &model->pattern);
	model_arrange(model);
	if (!error)
		return true;
	probe_error_free(error);
	return false;
}

void model_arrange(struct top_model *model)
{
	const struct top_row *probe = NULL;

	model->shown_count = 0;
	for (size_t i = 0; i < model->count; i++) {
		struct top_row *row = &model->rows[i];

		/* Rows with keys follow the probe's own row, and have its state. */
		if (!row->key[0]) {
			probe = row;
		} else if (probe) {
			row->on = probe->on;
			row->coverage = probe->coverage;
		}
		if (model->pattern ? probe_pattern_matches(model->pattern,
					     row->path ? row->path : "", row->provider, row->name)
				   : strcasestr(row->label, model->filter) != NULL)
			model->shown[model->shown_count++] = i;
	}
	if (model->shown_count)
		qsort_r(model->shown, model->shown_count, sizeof(*model->shown), compare_shown,
			model);
}

/* ---- The cursor -------------------------------------------------------------------- */

size_t model_cursor(const struct top_model *model)
{
	for (size_t i = 0; model->selected != SIZE_MAX && i < model->shown_count; i++)
		if (model->shown[i] == model->selected)
			return i;
	return SIZE_MAX;
}

void model_move(struct top_model *model, long by)
{
	size_t at = model_cursor(model), last = model->shown_count - 1;

	if (!model->shown_count)
		return;
	if (at == SIZE_MAX)
		at = by > 1 && (size_t)by > last ? last : 0;
	else if (by < 0)
		at = (size_t)-by > at ? 0 : at - (size_t)-by;
	else
		at = (size_t)by > last - at ? last : at + (size_t)by;
	model->selected = model->shown[at];
}
