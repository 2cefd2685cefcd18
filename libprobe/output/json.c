/* SPDX-License-Identifier: MIT */
/*
 * JSON, one object a line (RFC 8259). The field names are a contract (DESIGN).
 *
 *	{"ts":N,"pid":N,"tid":N,"cpu":N,"comm":"...","provider":"...","name":"...",
 *	 "pc":"0x...","args":[...]}
 *	a string that the catalogue knows has its text in: "named":{"query":"..."},"named_args":[0]
 *	a span: the fields of its end event, with "duration":NS,"begin":{"ts":N,"pid":N,"tid":N,
 *	 "provider":"...","name":"...","pc":"0x...","args":[...]}
 *	a hit or span with its call stack: also "stack":"whole","frames":[...]
 *	{"lost":N,"provider":"...","name":"..."}
 *	{"waited":N,"waited_ns":N}
 *	{"inconsistent":true,"pid":N,"provider":"...","name":"...","path":"...","pc":"0x...",
 *	 "good_ts":N,"bad_ts":N,"ts":N,"bytes":"...","left":false}
 *	rows of tables: see "Json table"
 *
 * An argument is a number; a string if the user asked for a string; the hexadecimal digits of its
 * bytes if it is an aggregate; null if it was unreadable, or is NaN or infinite, which JSON cannot
 * express. If strings or aggregates were cut, "truncated" lists these arguments by number. If the
 * catalogue knows that an argument is a string, the argument itself is the pointer, and the text is
 * in "named" under the argument's name. If a record is read with another catalogue, the text may be
 * under argN instead. "named_args" lists these arguments in the same order. In events read from a
 * record (probectl-export(1)), "pc" is missing if the record does not contain it, and so are the
 * provider and name of losses.
 *
 * This code writes JSON without a library: a target may hit millions of times a second. For each
 * hit, a JSON library that builds a tree and writes it took 2.7 us; this code takes 0.24 us. The
 * layout is fixed; only the escaping of strings needs care (buffer_json_escaped()). The tests read
 * the output with Python's parser.
 */
#include <math.h>
#include <string.h>

#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/session/session.h"

/* ==== Json table ============================================================================== */

/*
 * Rows of tables as JSON, one object each. The field names are a contract (DESIGN).
 *
 *	{"provider":"...","name":"...","begin":"provider:name","keys":[...],
 *	 "outcome":"done","hits":N,"count":N,"sum":N,"min":N,"max":N,"avg":N,"rate":N,
 *	 "p50":N,"p90":N,"p95":N,"p99":N,"p999":N,"p9999":N,"last":N,"last_ts":N,
 *	 "change":N,"buckets":[[LOW,HIGH,COUNT],...],"in_flight":N,"unmatched":N,
 *	 "sites":N,"refused":N,"inconsistent":N,
 *	 "tracer":"sum,arg0","ts":N,"interval":N}
 *
 * Fields that a tracer does not gather are missing; fields without a value are null. If some sites
 * of a probe were not counted all the time (struct probe_coverage), its rows have "sites",
 * "refused" and "inconsistent". If no site was counted, "hits" is null. Times are whole
 * nanoseconds. The value HIGH is in the bucket, except in buckets of floating-point values. Rows
 * that cover only an interval have its length, "interval", in nanoseconds. The interval ends at
 * "ts". "tracer" is present if there are several tracers.
 */

/* Values are whole numbers, but the middle of a bucket may have a fraction. */
static double rounded(double value)
{
	return isfinite(value) && fabs(value) < 0x1p53 ? (double)(int64_t)(value + 0.5) : value;
}

/* Converts a bucket's bound, the highest value for is_high, to the row's unit. */
static uint64_t scaled(uint64_t bound, double unit, bool is_high)
{
	double value;

	if (unit == 1)
		return bound;
	value = is_high ? ((double)bound + 1) * unit - 1 : (double)bound * unit;
	if (value < 0)
		return 0;
	return value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
}

/* Writes the bounds of a bucket; null means that there is no bound. */
static void bucket_bounds(struct buffer *out, const struct probe_row *row, size_t index)
{
	bool is_negative = index == PROBE_BUCKETS - 1;
	double least, most;
	uint64_t high;
	int64_t low;

	if (row->is_float) {
		/* All values in the bucket are below its high bound. */
		probe_row_bucket(row, index, &least, &most);
		if (is_negative)
			value_number(&row->min, &least);
		json_number(out, NULL, least);
		json_number(out, NULL, most);
		return;
	}
	probe_bucket_range(index, &low, &high);
	if (is_negative) {
		json_signed(out, NULL, row->min.kind == PROBE_VALUE_SIGNED ? row->min.i : low);
		json_signed(out, NULL, -1);
	} else {
		uint64_t from = scaled((uint64_t)low, row->unit, false);
		uint64_t to = scaled(high, row->unit, true);

		json_unsigned(out, NULL, from);
		json_unsigned(out, NULL, to < from ? from : to);
	}
}

static void buckets(struct buffer *out, const struct probe_row *row)
{
	json_open(out, "buckets", '[');
	for (size_t i = 0; row->buckets && i < PROBE_BUCKETS; i++) {
		/* The last bucket holds negative values: write it first. */
		size_t index = i ? i - 1 : PROBE_BUCKETS - 1;

		if (!row->buckets[index])
			continue;
		json_open(out, NULL, '[');
		bucket_bounds(out, row, index);
		json_unsigned(out, NULL, row->buckets[index]);
		json_close(out, ']');
	}
	json_close(out, ']');
}

/* Writes a time in whole ns; fractions come only from the conversion of stamps. */
static long double whole(long double ns)
{
	return isfinite(ns) && ns >= 0 && ns < 0x1p63L ? (long double)(uint64_t)(ns + 0.5L) : ns;
}

static double per_second(double amount, uint64_t elapsed_ns)
{
	return elapsed_ns ? amount * 1e9 / (double)elapsed_ns : NAN;
}

static const struct {
	const char *name;
	double percent;
} percentiles[] = {
	{"p50", 50},
	{"p90", 90},
	{"p95", 95},
	{"p99", 99},
	{"p999", 99.9},
	{"p9999", 99.99},
};
enum { PERCENTILES = sizeof(percentiles) / sizeof(percentiles[0]) };

static void figures(
	struct buffer *out, const struct probe_table_row *row, const struct probe_view *view)
{
	const struct probe_row *its = &row->row;
	unsigned int columns = view->columns;
	double average = its->count ? (double)(its->sum / its->count) : NAN, last;
	bool is_time = row->begin_name != NULL;

	if (columns & PROBE_COLUMN_SUM)
		json_number(out, "sum", is_time ? whole(its->sum) : its->sum);
	if (columns & PROBE_COLUMN_MIN)
		json_value(out, "min", &its->min);
	if (columns & PROBE_COLUMN_MAX)
		json_value(out, "max", &its->max);
	if (columns & PROBE_COLUMN_AVERAGE)
		json_number(out, "avg", is_time ? whole(average) : average);
	if (columns & PROBE_COLUMN_RATE)
		json_number(out, "rate", per_second((double)its->count, view->elapsed_ns));
	for (size_t i = 0; columns & PROBE_COLUMN_PERCENTILES && i < PERCENTILES; i++) {
		double value = probe_row_percentile(its, percentiles[i].percent);

		json_number(out, percentiles[i].name, its->is_float ? value : rounded(value));
	}
	if (columns & PROBE_COLUMN_LAST)
		json_value(out, "last", &its->last);
	if (columns & PROBE_COLUMN_TIME && its->last_time_ns)
		json_unsigned(out, "last_ts", its->last_time_ns);
	if (columns & PROBE_COLUMN_CHANGE)
		json_number(out, "change",
			value_number(&its->last, &last)
				? per_second(last - row->first, view->elapsed_ns)
				: NAN);
	if (columns & PROBE_COLUMN_BUCKETS)
		buckets(out, its);
}

static void view_fields(struct buffer *out, const struct probe_view *view)
{
	if (view->title)
		json_text(out, "tracer", view->title);
	if (view->is_interval) {
		json_unsigned(out, "ts", view->time_ns);
		json_unsigned(out, "interval", view->elapsed_ns);
	}
}

void json_row_fields(struct buffer *out, const struct probe_table_row *row, size_t key_count,
	const struct probe_view *view)
{
	/* Tables that only count have "hits", because they are older than "count". */
	const char *count_name = view->columns == PROBE_COLUMN_COUNT ? "hits" : "count";

	json_text(out, "provider", row->provider);
	json_text(out, "name", row->name);
	if (row->begin_name) {
		json_begin(out, "begin");
		buffer_char(out, '"');
		buffer_json_escaped(out, row->begin_provider, strlen(row->begin_provider));
		buffer_char(out, ':');
		buffer_json_escaped(out, row->begin_name, strlen(row->begin_name));
		buffer_char(out, '"');
	}
	if (key_count) {
		json_open(out, "keys", '[');
		for (size_t i = 0; i < key_count; i++)
			json_value(out, NULL, &row->row.keys[i]);
		json_close(out, ']');
	}
	if (value_keys_are_other(row->row.keys, key_count))
		json_boolean(out, "other", true);
	if (view->columns & PROBE_COLUMN_OUTCOME)
		json_text(out, "outcome", table_name_aborts(row->name) ? "aborted" : "done");
	if (probe_coverage_is_none(&row->coverage))
		json_null(out, count_name);
	else
		json_unsigned(out, count_name, row->row.count);
	figures(out, row, view);
	if (view->columns & PROBE_COLUMN_PAIRS && !key_count) {
		json_unsigned(out, "in_flight", row->row.in_flight);
		json_unsigned(out, "unmatched", row->unmatched);
	}
	/* How many sites are not counted, unless all are. */
	if (row->coverage.refused || row->coverage.overwritten) {
		json_unsigned(out, "sites", row->coverage.sites);
		json_unsigned(out, "refused", row->coverage.refused);
		json_unsigned(out, "inconsistent", row->coverage.overwritten);
	}
	view_fields(out, view);
}

static void json_table(struct format_context *context, const struct probe_table *table,
	const struct probe_view *view)
{
	const struct probe_table_row *rows;
	size_t count;

	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count; i++) {
		json_open(&context->out, NULL, '{');
		json_row_fields(&context->out, &rows[i], table->key_count, view);
		json_end_line(&context->out);
	}
}

/* ==== Json stacks ============================================================================= */

/*
 * Stacks as JSON, one object each; the innermost frame comes first:
 *
 *	{"provider":"...","name":"...","count":N,"comm":"...","end":"whole",
 *	 "frames":[{"ip":"0x...","module":"...","symbol":"...","offset":"0x..."},...],
 *	 "tracer":"stack","ts":N,"interval":N}
 *
 * For a heap, "total_bytes", "total_count", "live_bytes" and "live_count" replace "count". "end" is
 * "truncated" if the copy of the stack ended before the stack did, and "unknown" if the caller of
 * the outermost frame is unknown. "offset" is the distance of "ip" from the start of the symbol or,
 * if "symbol" is null, of the module.
 */

void json_stack_fields(struct buffer *out, const char *name, const struct probe_stack *stack)
{
	static const char *const ends[] = {
		[PROBE_STACK_WHOLE] = "whole",
		[PROBE_STACK_TRUNCATED] = "truncated",
		[PROBE_STACK_LOST] = "unknown",
	};

	json_text(out, name, ends[stack->end]);
	json_open(out, "frames", '[');
	for (size_t i = 0; i < stack->count; i++) {
		const struct probe_frame *frame = stack->frames[i];

		json_open(out, NULL, '{');
		json_hex(out, "ip", frame->ip);
		json_text(out, "module", frame->module);
		json_text(out, "symbol", frame->symbol);
		if (frame->module || frame->symbol)
			json_hex(out, "offset", frame->offset);
		else
			json_null(out, "offset");
		if (frame->file) {
			json_text(out, "file", frame->file);
			json_unsigned(out, "line", (uint64_t)frame->line);
		}
		json_close(out, '}');
	}
	json_close(out, ']');
}

static void json_stacks(struct format_context *context, const struct probe_stacks_row *rows,
	size_t count, const struct probe_view *view)
{
	struct buffer *out = &context->out;

	for (size_t i = 0; i < count; i++) {
		const struct probe_stacks_row *row = &rows[i];

		json_open(out, NULL, '{');
		json_text(out, "provider", row->provider);
		json_text(out, "name", row->name);
		if (row->is_heap) {
			json_unsigned(out, "total_bytes", row->total_bytes);
			json_unsigned(out, "total_count", row->total_count);
			json_unsigned(out, "live_bytes", row->live_bytes);
			json_unsigned(out, "live_count", row->live_count);
		} else {
			json_unsigned(out, "count", row->count);
		}
		json_text(out, "comm", row->comm);
		json_stack_fields(out, "end", &row->stack);
		view_fields(out, view);
		json_end_line(out);
	}
}

/* ==== Json calls ============================================================================== */

/*
 * Functions as JSON, one object each. Times are in nanoseconds. "function" of a caller is null if
 * no traced function called:
 *
 *	{"provider":"...","name":"...","function":"...","count":N,"self":N,"total":N,
 *	 "callers":[{"function":"...","count":N,"self":N,"total":N},...],"callees":[...],
 *	 "tracer":"self","ts":N,"interval":N}
 */

static void call_fields(struct buffer *out, const char *function, const struct probe_calls_sum *sum)
{
	json_text(out, "function", function);
	json_unsigned(out, "count", sum->count);
	json_unsigned(out, "self", sum->self_ns);
	json_unsigned(out, "total", sum->total_ns);
}

static void call_edges(
	struct buffer *out, const char *name, const struct probe_calls_edge *edges, size_t count)
{
	json_open(out, name, '[');
	for (size_t i = 0; i < count; i++) {
		json_open(out, NULL, '{');
		call_fields(out, edges[i].function, &edges[i].sum);
		json_close(out, '}');
	}
	json_close(out, ']');
}

static void json_calls(struct format_context *context, const struct probe_calls_row *rows,
	size_t count, const struct probe_view *view)
{
	struct buffer *out = &context->out;

	for (size_t i = 0; i < count; i++) {
		json_open(out, NULL, '{');
		json_text(out, "provider", rows[i].provider);
		json_text(out, "name", rows[i].pair);
		call_fields(out, rows[i].function, &rows[i].sum);
		call_edges(out, "callers", rows[i].callers, rows[i].caller_count);
		call_edges(out, "callees", rows[i].callees, rows[i].callee_count);
		view_fields(out, view);
		json_end_line(out);
	}
}

/* ==== Json ==================================================================================== */

void json_value(struct buffer *out, const char *name, const struct probe_value *value)
{
	switch (value->kind) {
	case PROBE_VALUE_NULL:
		json_null(out, name);
		break;
	case PROBE_VALUE_SIGNED:
		json_signed(out, name, value->i);
		break;
	case PROBE_VALUE_UNSIGNED:
		json_unsigned(out, name, value->u);
		break;
	case PROBE_VALUE_FLOAT:
		if (!isfinite(value->f)) {
			json_null(out, name);
			break;
		}
		json_begin(out, name);
		buffer_float(out, value->f);
		break;
	case PROBE_VALUE_BYTES:
		json_hex_bytes(out, name, value->bytes, value->length);
		break;
	case PROBE_VALUE_STACK:
		json_open(out, name, '[');
		for (size_t at = 0, length; at < value->length; at += length + 1) {
			length = value_stack_line(value, at);
			json_bytes(out, NULL, value->bytes + at, length);
		}
		json_close(out, ']');
		break;
	case PROBE_VALUE_TEXT:
	case PROBE_VALUE_STRING:
	case PROBE_VALUE_OTHER:
		if (value_has_known_text(value))
			json_unsigned(out, name, value->u);
		else
			json_bytes(out, name, value->bytes, value->length);
	}
}

static void json_named(
	struct buffer *out, const struct probe_hit *hit, const struct probe_session_probe *probe)
{
	const struct probe_meaning *meaning = probe->meaning;
	bool any = false;

	for (size_t i = 0; i < hit->arg_count; i++) {
		const struct probe_value *value = &hit->args[i];

		if (!value_has_known_text(value))
			continue;
		if (!any)
			json_open(out, "named", '{');
		if (meaning && i < PROBE_ARGS_MAX && probe->args[i] < meaning->arg_count) {
			json_text(out, NULL, meaning->args[probe->args[i]].name);
		} else {
			json_begin(out, NULL);
			buffer_string(out, "\"arg");
			buffer_unsigned(out, value->number ? value->number - 1U : i);
			buffer_char(out, '"');
		}
		buffer_char(out, ':');
		json_bytes(out, NULL, value->bytes, value->length);
		any = true;
	}
	if (!any)
		return;
	json_close(out, '}');
	json_open(out, "named_args", '[');
	for (size_t i = 0; i < hit->arg_count; i++) {
		if (value_has_known_text(&hit->args[i]))
			json_unsigned(out, NULL, i);
	}
	json_close(out, ']');
}

/* Writes a hit without the closing brace, and without the unknown CPU of a span's start. */
static void json_open_hit(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm, bool is_begin)
{
	bool any_truncated = false;

	json_open(out, NULL, '{');
	json_unsigned(out, "ts", hit->time_ns);
	json_signed(out, "pid", hit->pid);
	json_signed(out, "tid", hit->tid);
	if (!is_begin)
		json_signed(out, "cpu", hit->cpu);
	if (comm)
		json_text(out, "comm", comm);
	json_text(out, "provider", probe->provider);
	json_text(out, "name", probe->name);
	if (hit->pc)
		json_hex(out, "pc", hit->pc);
	json_open(out, "args", '[');
	for (size_t i = 0; i < hit->arg_count; i++)
		json_value(out, NULL, &hit->args[i]);
	json_close(out, ']');
	json_named(out, hit, probe);
	for (size_t i = 0; i < hit->arg_count; i++) {
		if (!hit->args[i].truncated)
			continue;
		if (!any_truncated)
			json_open(out, "truncated", '[');
		json_unsigned(out, NULL, i);
		any_truncated = true;
	}
	if (any_truncated)
		json_close(out, ']');
}

/* Writes a hit, without "pc" if that is 0. */
static void json_hit(struct format_context *context, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm)
{
	struct buffer *out = &context->out;

	json_open_hit(out, hit, probe, comm, false);
	if (hit->stack)
		json_stack_fields(out, "stack", hit->stack);
	json_end_line(out);
}

static void json_span(struct format_context *context, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm)
{
	struct buffer *out = &context->out;

	json_open_hit(out, hit, end, comm, false);
	json_unsigned(out, "duration", hit->duration_ns);
	json_begin(out, "begin");
	json_open_hit(out, hit->begin, begin, NULL, true);
	json_close(out, '}');
	if (hit->stack)
		json_stack_fields(out, "stack", hit->stack);
	json_end_line(out);
}

/* Writes lost hits; provider and name may be NULL. */
static void json_lost(
	struct format_context *context, const struct probe_session_probe *probe, uint64_t lost)
{
	struct buffer *out = &context->out;

	json_open(out, NULL, '{');
	json_unsigned(out, "lost", lost);
	if (probe->provider)
		json_text(out, "provider", probe->provider);
	if (probe->name)
		json_text(out, "name", probe->name);
	json_end_line(out);
}

static void json_waited(struct format_context *context, uint64_t hits, uint64_t ns)
{
	json_open(&context->out, NULL, '{');
	json_unsigned(&context->out, "waited", hits);
	json_unsigned(&context->out, "waited_ns", ns);
	json_end_line(&context->out);
}

/* Reports that a site is inconsistent or consistent again. A site without a probe is at a gate. */
static void json_site(struct format_context *context, pid_t pid, const struct probe_site_news *news)
{
	struct buffer *out = &context->out;

	json_open(out, NULL, '{');
	json_boolean(out, "inconsistent", news->event != PROBE_SITE_BACK);
	json_signed(out, "pid", pid);
	if (news->site.name) {
		json_text(out, "provider", news->site.provider);
		json_text(out, "name", news->site.name);
		json_text(out, "path", news->site.path);
	}
	json_hex(out, "pc", news->site.pc);
	if (news->good_ns)
		json_unsigned(out, "good_ts", news->good_ns);
	else
		json_null(out, "good_ts");
	json_unsigned(out, "bad_ts", news->bad_ns);
	json_unsigned(out, "ts", news->now_ns);
	json_hex_bytes(out, "bytes", news->site.bytes, news->site.length);
	json_boolean(out, "left", news->site.left);
	json_end_line(out);
}

const struct format format_json = {
	.hit = json_hit,
	.span = json_span,
	.lost = json_lost,
	.waited = json_waited,
	.site = json_site,
	.table = json_table,
	.stacks = json_stacks,
	.calls = json_calls,
};
