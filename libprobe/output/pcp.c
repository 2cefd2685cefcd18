/* SPDX-License-Identifier: MIT */
/*
 * Rows of tables as metrics for Performance Co-Pilot.
 *
 * A tracer's columns are metrics: mmv.probectl.latency.hits, .time, .p99 and so on. A row is an
 * instance, named PID/provider:name, or PID/provider:begin..end, a blank and the keys. Users select
 * or sum by labels: pid, program, provider, probe, begin, outcome, key, value.
 *
 * Values that only grow are counters, from which PCP computes rates, and averages as time by hits.
 * Percentiles and extremes are the last interval's. Counts without a row (hits without room for
 * their key, ends without a start event) have the process as their instance.
 *
 * The metrics of pmtrace(3)'s tags are mmv.trace.transact.count and so on, as of pmdatrace(1);
 * their instances are the tags.
 *
 * Numbers of metrics and domains must not change, because archives contain them. The number of an
 * instance is computed from its name. If another exporter has already used the number, for the same
 * process or by chance, the name gets the suffix "#2".
 */

#include "libprobe/base/array.h"
#include "libprobe/output/output.h"
#include "libprobe/session/session.h"

#ifdef PCP_BUILT

/* ==== Names =================================================================================== */

/* Names and labels of metric instances. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/cleanup.h"
#include "probe/pcp.h"

enum { NAME_CUT = 236 /* leaves room for "~01234567#99999" */ };

/* FNV-1a, of 32 bits. */
static uint32_t pcp_hash(const char *text)
{
	uint32_t value = 2166136261u;

	while (*text)
		value = (value ^ (unsigned char)*text++) * 16777619u;
	return value;
}

/* Returns where to cut a text to at most `most` bytes without splitting a character. */
static size_t cut_length(const char *text, size_t length, size_t most)
{
	if (length <= most)
		return length;
	while (most && ((unsigned char)text[most] & 0xc0) == 0x80)
		most--;
	return most;
}

char *pcp_row_key(pid_t pid, const struct probe_table_row *row, size_t key_count)
{
	struct buffer out = {0};

	buffer_signed(&out, pid);
	buffer_char(&out, '/');
	if (row->begin_name) {
		buffer_string(&out, row->begin_provider);
		buffer_char(&out, ':');
		buffer_string(&out, row->begin_name);
		buffer_string(&out, "..");
	}
	if (!row->begin_name || strcmp(row->begin_provider, row->provider)) {
		buffer_string(&out, row->provider);
		buffer_char(&out, ':');
	}
	buffer_string(&out, row->name);
	for (size_t i = 0; i < key_count; i++) {
		buffer_string(&out, i ? ", " : " ");
		metric_key_text(&out, &row->row.keys[i], key_count == 1);
	}
	return buffer_take(&out, NULL);
}

/* Returns a row's tag, its full description. */
static char *pcp_row_tag(const struct probe_table_row *row)
{
	struct buffer out = {0};

	metric_key_text(&out, &row->row.keys[0], true);
	return buffer_take(&out, NULL);
}

void pcp_instance_name(struct pcp_instance *instance, const char *key)
{
	size_t length = strlen(key), cut = cut_length(key, length, NAME_CUT);

	if (cut < length)
		snprintf(instance->name, sizeof(instance->name), "%.*s~%08x", (int)cut, key,
			pcp_hash(key));
	else
		snprintf(instance->name, sizeof(instance->name), "%s", key);
}

/* Adds a label, with as much of the text as fits. Returns false if memory is short. */
static bool add_label(
	struct pcp_instance *instance, const char *name, const char *text, size_t length)
{
	struct pcp_label *label = &instance->labels[instance->label_count];
	size_t most = PCP_LABEL_BYTES;
	struct buffer out = {0};

	for (;;) {
		length = cut_length(text, length, most);
		out.length = out.start = 0;
		json_bytes(&out, NULL, text, length);
		if (out.no_memory || out.length <= PCP_LABEL_BYTES + 2)
			break;
		/* One byte may become up to six bytes in JSON. */
		most = length - (out.length - PCP_LABEL_BYTES - 2 + 5) / 6;
	}
	*label = (struct pcp_label){.name = name, .value = buffer_take(&out, NULL)};
	instance->label_count += label->value != NULL;
	return label->value != NULL;
}

static bool take_label(const struct metric_label *label, void *data)
{
	struct pcp_instance *instance = data;
	struct pcp_label *number = &instance->labels[instance->label_count];

	if (!label->is_number)
		return add_label(instance, label->name, label->text, label->length);
	*number = (struct pcp_label){.name = label->name,
		.value = strndup(label->text, label->length),
		.is_number = true};
	instance->label_count += number->value != NULL;
	return number->value != NULL;
}

bool pcp_rename_program(struct pcp_instance *instance, const char *program)
{
	struct pcp_instance named = {0};

	if (!add_label(&named, "program", program, strlen(program)))
		return false;
	/* "program" is the second label, after "pid". */
	free(instance->labels[1].value);
	instance->labels[1] = named.labels[0];
	return true;
}

bool pcp_process_labels(struct pcp_instance *instance, pid_t pid, const char *program)
{
	return metric_process_labels(pid, program, take_label, instance);
}

bool pcp_row_labels(struct pcp_instance *instance, const struct probe_table_row *row,
	const struct probe_view *view, size_t key_count)
{
	return metric_row_labels(row, view, key_count, take_label, instance);
}

/* ==== Metrics ================================================================================= */

enum { QUANTITIES_MAX = 32 };

/* clang-format off */
/* Names of pmdatrace(1); NULL if it has no such quantity. */
static const struct {
	const char *name;
	unsigned int columns;
} tag_quantities[METRIC_QUANTITY_COUNT] = {
	[METRIC_HITS] = {"count", PROBE_COLUMN_COUNT},
	[METRIC_RATE] = {"rate", PROBE_COLUMN_COUNT},
	[METRIC_AVERAGE] = {"ave_time", PROBE_COLUMN_AVERAGE},
	[METRIC_LEAST] = {"min_time", PROBE_COLUMN_MIN},
	[METRIC_MOST] = {"max_time", PROBE_COLUMN_MAX},
	[METRIC_TOTAL] = {"total_time", PROBE_COLUMN_SUM},
	[METRIC_LAST] = {"value", PROBE_COLUMN_LAST},
	[METRIC_UNMATCHED] = {"unmatched", PROBE_COLUMN_PAIRS},
	[METRIC_LOST] = {"lost", PROBE_COLUMN_COUNT},
};
/* clang-format on */

_Static_assert((int)METRIC_QUANTITY_COUNT <= (int)QUANTITIES_MAX, "a tracer's numbers end there");

static void add_metric(struct pcp_metrics *metrics, const struct probe_view *view,
	enum metric_quantity quantity, size_t tracer)
{
	struct pcp_metric *metric = &metrics->items[metrics->count];
	bool is_value = metric_infos[quantity].is_value;
	bool is_rate = quantity == METRIC_RATE, is_each = quantity == METRIC_AVERAGE;

	*metric = (struct pcp_metric){
		.item = (int)(tracer * QUANTITIES_MAX + quantity),
		.domain = metric_infos[quantity].is_per_process ? metrics->process_domain
								: metrics->row_domain,
		/* Other values may have fractions, and an integer of -1 would mean "no value". */
		.is_double = is_rate || (is_value && (!view->times || view->tags)),
		.is_counter = metric_is_counter(view, quantity),
		.is_time = is_rate || (is_value && view->times),
		.is_count = !is_value || is_each,
		.is_rate = is_rate,
		.is_each = is_each,
	};
	snprintf(metric->name, sizeof(metric->name), "%s.%s.%s", metrics->group, metrics->tracer,
		view->tags ? tag_quantities[quantity].name : metric_infos[quantity].name);
	snprintf(metric->help, sizeof(metric->help), "%s", metric_infos[quantity].help);
	metrics->quantity[metrics->count++] = quantity;
}

struct probe_error *pcp_metrics_init(
	const struct probe_view *view, size_t key_count, struct pcp_metrics *ret)
{
	const struct tracer_kind *kind = tracer_find(view->tracer);
	const unsigned int number = !kind ? 0 : view->tags ? kind->pcp_tags : kind->pcp;

	if (!number || (view->tags && !key_count))
		return probe_error_new(
			PROBE_ERROR_USAGE, "tracer '%s' has no metrics", view->tracer);
	ret->group = view->tags ? "trace" : "probectl";
	ret->tracer = view->tags && kind->pcp_tags_name ? kind->pcp_tags_name : kind->name;
	ret->count = 0;
	ret->row_domain = (int)(2 * number - 1);
	ret->process_domain = (int)(2 * number);
	for (enum metric_quantity i = 0; i < METRIC_QUANTITY_COUNT; i++)
		if (view->tags ? tag_quantities[i].columns & view->columns
			       : metric_has(view, key_count, i))
			add_metric(ret, view, i, number - 1);
	return NULL;
}

/* Returns how many values each instance of a domain has. */
static size_t pcp_metrics_of(const struct pcp_metrics *metrics, int domain)
{
	size_t count = 0;

	for (size_t i = 0; i < metrics->count; i++)
		count += metrics->items[i].domain == domain;
	return count;
}

/* ==== Values ================================================================================== */

struct pcp_value pcp_value(
	const struct probe_view *view, enum metric_quantity quantity, long double value)
{
	double ns = (double)value;

	if (quantity == METRIC_RATE)
		return (struct pcp_value){.f = (double)value};
	if (!metric_infos[quantity].is_value)
		return (struct pcp_value){.u = (uint64_t)value};
	if (!view->times)
		return (struct pcp_value){.f = (double)value};
	if (view->tags) /* in seconds, pmdatrace(1)'s unit; NAN means no value */
		return (struct pcp_value){.f = (double)value / 1e9};
	/* A sum keeps all its digits. */
	if (quantity == METRIC_TOTAL && value < 0)
		return (struct pcp_value){.u = value > -0x1p63L ? (uint64_t)(int64_t)value : 0};
	if (quantity == METRIC_TOTAL)
		return (struct pcp_value){.u = value < 0x1p64L ? (uint64_t)value : UINT64_MAX - 1};
	if (isnan(value))
		return (struct pcp_value){.u = PCP_NONE};
	return (struct pcp_value){.u = ns < 0 ? 0 : ns < 0x1p63 ? (uint64_t)(ns + 0.5) : INT64_MAX};
}

/* ==== Pcp ===================================================================================== */

struct instance {
	char *key; /* the instance's full description, which identifies it */
	struct pcp_instance mmv;
	bool has_id;
	struct metric_growth growth;
	struct pcp_value values[METRIC_QUANTITY_COUNT];
};

struct process {
	pid_t pid;
	struct instance *instance; /* borrowed */
	char *program;
	struct metric_history history;
};

struct probe_pcp {
	struct pcp_folder *folder;
	struct pcp_file *file;
	size_t shown_count; /* number of instances that the file holds, from the first on */
	bool is_dirty;	    /* the file must be replaced */

	struct probe_view view;
	size_t key_count;
	char *name; /* "mmv.probectl.count" */
	struct pcp_metrics metrics;

	struct instance **instances;
	size_t instance_count;
	size_t label_count, value_count; /* totals of all instances */
	struct map by_key;		 /* struct instance * by key */
	struct process *processes;
	size_t process_count;
	size_t left_out, leaving_out;
};

/* ---- Instances ---------------------------------------------------------------------- */

static void instance_free(struct instance *instance)
{
	if (!instance)
		return;
	for (size_t i = 0; i < instance->mmv.label_count; i++)
		free(instance->mmv.labels[i].value);
	free(instance->key);
	free(instance);
}

static struct instance *instance_create(const char *key, const char *name, int domain)
{
	struct instance *instance = calloc(1, sizeof(*instance));

	if (!instance)
		return NULL;
	instance->key = strdup(key);
	instance->mmv.domain = domain;
	pcp_instance_name(&instance->mmv, name);
	if (instance->key)
		return instance;
	instance_free(instance);
	return NULL;
}

/* Takes over an instance. *ret is NULL if the limits of PCP do not allow it. */
static struct probe_error *take_instance(
	struct probe_pcp *pcp, struct instance *instance, struct instance **ret)
{
	struct instance **place;

	*ret = NULL;
	/* The host counts as one more label. */
	if (pcp->instance_count >= PCP_COUNT_MAX ||
		pcp->label_count + instance->mmv.label_count >= PCP_COUNT_MAX ||
		pcp->value_count + pcp_metrics_of(&pcp->metrics, instance->mmv.domain) >
			PCP_COUNT_MAX) {
		instance_free(instance);
		return NULL;
	}
	place = map_add(&pcp->by_key, sizeof(struct instance *), MAP_KEY(map_text(instance->key)));
	if (!place || !ARRAY_ROOM(pcp->instances, pcp->instance_count)) {
		if (place && !*place)
			map_remove(&pcp->by_key, place);
		instance_free(instance);
		return probe_error_no_memory();
	}
	if (!*place)
		*place = instance;
	pcp->instances[pcp->instance_count++] = instance;
	pcp->label_count += instance->mmv.label_count;
	pcp->value_count += pcp_metrics_of(&pcp->metrics, instance->mmv.domain);
	pcp->is_dirty = true;
	*ret = instance;
	return NULL;
}

/* Finds or creates a row's instance. *ret is NULL if the limits are reached. */
static struct probe_error *row_instance(struct probe_pcp *pcp, const struct process *process,
	const struct probe_table_row *row, struct instance **ret)
{
	AUTO_FREE char *key = pcp_row_key(process->pid, row, pcp->key_count);
	AUTO_FREE char *tag = key && pcp->view.tags ? pcp_row_tag(row) : NULL;
	struct instance *instance;
	struct instance *const *known;

	*ret = NULL;
	if (!key || (pcp->view.tags && !tag))
		return probe_error_no_memory();
	known = map_find(&pcp->by_key, MAP_KEY(map_text(key)));
	*ret = known ? *known : NULL;
	if (known)
		return NULL;
	instance = instance_create(key, tag ? tag : key, pcp->metrics.row_domain);
	if (!instance || !pcp_process_labels(&instance->mmv, process->pid, process->program) ||
		!pcp_row_labels(&instance->mmv, row, &pcp->view, pcp->key_count)) {
		instance_free(instance);
		return probe_error_no_memory();
	}
	return take_instance(pcp, instance, ret);
}

/* ---- Processes ---------------------------------------------------------------------- */

/* Changes the program's name, a label of all the process's instances. */
static struct probe_error *rename_process(
	struct probe_pcp *pcp, struct process *process, const char *program)
{
	char prefix[24], *copy = strdup(program);

	if (!copy)
		return probe_error_no_memory();
	free(process->program);
	process->program = copy;
	snprintf(prefix, sizeof(prefix), "%d/", (int)process->pid);
	for (size_t i = 0; i < pcp->instance_count; i++) {
		struct instance *instance = pcp->instances[i];

		if (instance != process->instance && strncmp(instance->key, prefix, strlen(prefix)))
			continue;
		if (!pcp_rename_program(&instance->mmv, program))
			return probe_error_no_memory();
		pcp->is_dirty = true;
	}
	return NULL;
}

static struct probe_error *process_instance(struct probe_pcp *pcp, struct process *process)
{
	struct instance *instance;
	char name[16];

	snprintf(name, sizeof(name), "%d", (int)process->pid);
	instance = instance_create(name, name, pcp->metrics.process_domain);
	if (!instance || !pcp_process_labels(&instance->mmv, process->pid, process->program)) {
		instance_free(instance);
		return probe_error_no_memory();
	}
	return take_instance(pcp, instance, &process->instance);
}

static struct probe_error *find_process(
	struct probe_pcp *pcp, pid_t pid, const char *program, struct process **ret)
{
	struct probe_error *error = NULL;
	bool is_new;

	*ret = NULL;
	for (size_t i = 0; i < pcp->process_count && !*ret; i++)
		if (pcp->processes[i].pid == pid)
			*ret = &pcp->processes[i];
	is_new = !*ret;
	if (is_new) {
		if (!ARRAY_ROOM(pcp->processes, pcp->process_count))
			return probe_error_no_memory();
		*ret = &pcp->processes[pcp->process_count];
		**ret = (struct process){.pid = pid, .program = strdup("")};
		if (!(*ret)->program)
			return probe_error_no_memory();
		pcp->process_count++;
	}
	if (program && strcmp((*ret)->program, program))
		error = rename_process(pcp, *ret, program);
	if (!error && is_new)
		error = process_instance(pcp, *ret);
	return error;
}

/* ---- Rows ------------------------------------------------------------------------- */

enum rows_of { TOTALS, INTERVAL, RENEWED };

/*
 * Sets the totals of rows or, afterwards, the values of the last interval. RENEWED sets totals, and
 * keeps the values of the last interval, except in instances that had no hits before.
 */
static struct probe_error *set_rows(struct probe_pcp *pcp, const struct process *process,
	const struct probe_table *table, enum rows_of what)
{
	bool is_interval = what == INTERVAL;
	size_t count;
	const struct probe_table_row *rows = probe_table_rows(table, &count);
	struct probe_error *error = NULL;
	struct instance *instance;

	for (size_t i = 0; i < count && !error; i++) {
		if (!metric_shows(&pcp->view, &rows[i]))
			continue;
		error = row_instance(pcp, process, &rows[i], &instance);
		if (error)
			break;
		if (!instance) {
			pcp->leaving_out += !is_interval;
			continue;
		}
		for (enum metric_quantity k = 0; k < METRIC_QUANTITY_COUNT; k++) {
			long double value = is_interval ? metric_recent(&rows[i], k,
								  process->history.interval_ns)
							: metric_total(&rows[i], k);

			if (what == RENEWED && instance->growth.hits &&
				(value != value || k == METRIC_RATE))
				continue;
			if (is_interval ? rows[i].row.count && value == value
					: !metric_infos[k].is_per_process)
				instance->values[k] = pcp_value(&pcp->view, k, value);
		}
		if (is_interval)
			continue;
		metric_grow(&instance->growth, &pcp->view, &rows[i].row);
		instance->values[METRIC_TOTAL] =
			pcp_value(&pcp->view, METRIC_TOTAL, instance->growth.total);
	}
	return error;
}

/* Sets the counts without a row. */
static void set_process(const struct process *process, const struct probe_table *table)
{
	if (!process->instance)
		return;
	process->instance->values[METRIC_LOST].u = probe_table_lost(table);
	process->instance->values[METRIC_UNMATCHED].u = probe_table_unmatched(table);
}

struct probe_error *probe_pcp_add(
	struct probe_pcp *pcp, pid_t pid, const char *program, struct probe_table *table)
{
	struct process *process = NULL;
	struct probe_error *error = find_process(pcp, pid, program, &process);

	if (error)
		probe_table_free(table);
	else
		error = metric_history_take(&process->history, table);
	error = error ?: set_rows(pcp, process, process->history.all, TOTALS)
		?: set_rows(pcp, process, process->history.recent, INTERVAL);
	if (!error)
		set_process(process, table);
	return error;
}

struct probe_error *probe_pcp_renew(
	struct probe_pcp *pcp, pid_t pid, const char *program, struct probe_table *table)
{
	struct process *process = NULL;
	struct probe_error *error =
		find_process(pcp, pid, program, &process) ?: set_rows(pcp, process, table, RENEWED);

	if (!error)
		set_process(process, table);
	probe_table_free(table);
	return error;
}

void probe_pcp_end(struct probe_pcp *pcp, pid_t pid)
{
	for (size_t i = 0; i < pcp->process_count; i++) {
		struct process *process = &pcp->processes[i];

		if (process->pid != pid || process->instance)
			continue;
		metric_history_deinit(&process->history);
		free(process->program);
		*process = pcp->processes[--pcp->process_count];
		return;
	}
}

/* ---- Publishing --------------------------------------------------------------------- */

static struct pcp_taken id_of(const struct pcp_instance *instance)
{
	return (struct pcp_taken){
		instance->domain, (int32_t)(pcp_hash(instance->name) & INT32_MAX)};
}

/* Gives an instance a free number. If its own number is taken, it gets another name, too. */
static bool number_instance(struct instance *instance, struct map *taken)
{
	size_t length = strlen(instance->mmv.name);
	struct pcp_taken slot = id_of(&instance->mmv);

	for (unsigned int i = 2; map_find(taken, MAP_KEY(MAP_OBJECT(slot))); i++) {
		snprintf(
			instance->mmv.name + length, sizeof(instance->mmv.name) - length, "#%u", i);
		slot = id_of(&instance->mmv);
	}
	if (!map_add(taken, 0, MAP_KEY(MAP_OBJECT(slot))))
		return false;
	instance->mmv.id = slot.id;
	instance->has_id = true;
	return true;
}

static struct probe_error *number_instances(
	const struct probe_pcp *pcp, const struct pcp_taken *others, size_t other_count)
{
	AUTO(map_clear) struct map taken = {0}; /* numbers of domains: struct pcp_taken */
	bool done = true;

	for (size_t i = 0; i < other_count && done; i++)
		done = map_add(&taken, 0, MAP_KEY(MAP_OBJECT(others[i]))) != NULL;
	for (size_t i = 0; i < pcp->instance_count && done; i++) {
		const struct instance *its = pcp->instances[i];
		const struct pcp_taken own = {its->mmv.domain, its->mmv.id};

		if (its->has_id)
			done = map_add(&taken, 0, MAP_KEY(MAP_OBJECT(own))) != NULL;
	}
	for (size_t i = 0; i < pcp->instance_count && done; i++)
		if (!pcp->instances[i]->has_id)
			done = number_instance(pcp->instances[i], &taken);
	return done ? NULL : probe_error_no_memory();
}

/* Writes the values of instances that are in the file. */
static void set_values(const struct probe_pcp *pcp, struct pcp_file *file, size_t instance_count)
{
	size_t at = 0;

	for (size_t i = 0; i < pcp->metrics.count; i++)
		for (size_t k = 0; k < instance_count; k++)
			if (pcp->instances[k]->mmv.domain == pcp->metrics.items[i].domain)
				pcp_file_set(file, at++,
					pcp->instances[k]->values[pcp->metrics.quantity[i]]);
}

static struct probe_error *make_file(struct probe_pcp *pcp, struct pcp_file **ret)
{
	AUTO_FREE const struct pcp_instance **instances =
		calloc(pcp->instance_count + 1, sizeof(struct pcp_instance *));
	struct probe_error *error;

	if (!instances)
		return probe_error_no_memory();
	for (size_t i = 0; i < pcp->instance_count; i++)
		instances[i] = &pcp->instances[i]->mmv;
	error = pcp_file_create(pcp->folder, pcp->metrics.items, pcp->metrics.count, instances,
		pcp->instance_count, ret);
	if (error)
		return error;
	set_values(pcp, *ret, pcp->instance_count);
	error = pcp_file_show(*ret);
	if (error)
		pcp_file_retire(*ret);
	return error;
}

/* Replaces the file. The new one appears first, so that PCP always finds a file. */
static struct probe_error *renew_file(struct probe_pcp *pcp)
{
	struct probe_error *error = pcp_folder_lock(pcp->folder);
	AUTO_FREE struct pcp_taken *others = NULL;
	struct pcp_file *file = NULL;
	size_t count = 0;

	if (error)
		return error;
	error = pcp_folder_taken(
		pcp->folder, pcp->file ? pcp_file_name(pcp->file) : NULL, &others, &count);
	error = error ?: number_instances(pcp, others, count);
	error = error ?: make_file(pcp, &file);
	pcp_folder_unlock(pcp->folder);
	if (error)
		return error;
	pcp_file_retire(pcp->file);
	pcp->file = file;
	pcp->shown_count = pcp->instance_count;
	pcp->is_dirty = false;
	return NULL;
}

struct probe_error *probe_pcp_update(struct probe_pcp *pcp)
{
	struct probe_error *error = NULL;

	pcp->left_out = pcp->leaving_out;
	pcp->leaving_out = 0;
	if (pcp->is_dirty || !pcp->file || !pcp_file_is_there(pcp->file))
		error = renew_file(pcp);
	if (!pcp->file)
		return error;
	set_values(pcp, pcp->file, pcp->shown_count);
	pcp_file_remind(pcp->file);
	return error;
}

/* ---- Life ----------------------------------------------------------------------------- */

struct probe_error *probe_pcp_open(
	const struct probe_view *view, size_t key_count, struct probe_pcp **ret)
{
	struct probe_pcp *pcp = calloc(1, sizeof(*pcp));
	struct probe_error *error;

	if (!pcp)
		return probe_error_no_memory();
	pcp->view = *view;
	pcp->key_count = key_count;
	error = pcp_metrics_init(view, key_count, &pcp->metrics);
	if (!error &&
		asprintf(&pcp->name, "mmv.%s.%s", pcp->metrics.group, pcp->metrics.tracer) < 0) {
		pcp->name = NULL;
		error = probe_error_no_memory();
	}
	error = error ?: pcp_folder_open(&pcp->folder);
	if (error)
		probe_pcp_close(pcp);
	else
		*ret = pcp;
	return error;
}

const char *probe_pcp_name(const struct probe_pcp *pcp)
{
	return pcp->name;
}

size_t probe_pcp_left_out(const struct probe_pcp *pcp)
{
	return pcp->left_out;
}

void probe_pcp_close(struct probe_pcp *pcp)
{
	if (!pcp)
		return;
	pcp_file_retire(pcp->file);
	pcp_folder_close(pcp->folder);
	map_clear(&pcp->by_key);
	for (size_t i = 0; i < pcp->instance_count; i++)
		instance_free(pcp->instances[i]);
	for (size_t i = 0; i < pcp->process_count; i++) {
		metric_history_deinit(&pcp->processes[i].history);
		free(pcp->processes[i].program);
	}
	free(pcp->processes);
	free(pcp->instances);
	free(pcp->name);
	free(pcp);
}
#endif
