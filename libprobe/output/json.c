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
 * bytes if it is an aggregate; null if it was unreadable, or is a float that JSON lacks (NaN,
 * infinities). If strings or aggregates were cut, "truncated" lists these arguments by number. If
 * the catalogue knows that an argument is a string, the argument itself is the pointer, and the
 * text is in "named" under the argument's name. If a record is read with another catalogue, the
 * text may be under argN instead. "named_args" lists these arguments in the same order. In events
 * read from a record (probectl-export(1)), "pc" is missing if the record does not contain it, and
 * so are the provider and name of losses.
 *
 * This code writes JSON without a library: a target may hit millions of times a second. For each
 * hit, a JSON library that builds a tree and writes it took 2.7 us; this code takes 0.24 us. The
 * layout is fixed; only the escaping of strings needs care (buffer_json_escaped()). The tests read
 * the output with Python's parser.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/file.h"
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

/* Writes a number, as an integer if it is whole and fits 64 bits. */
void json_number_field(struct buffer *out, const char *key, long double value)
{
	buffer_string(out, key);
	if (!isfinite(value))
		buffer_string(out, "null");
	else if (!buffer_whole(out, value))
		buffer_float(out, (double)value);
}

static void value_field(struct buffer *out, const char *key, const struct probe_value *value)
{
	buffer_string(out, key);
	json_value(out, value);
}

/* Rounds a number: values are whole, but the middle of a bucket may have a fraction. */
static double rounded(double value)
{
	return isfinite(value) && fabs(value) < 0x1p53 ? (double)(int64_t)(value + 0.5) : value;
}

static double percentile(const struct probe_row *row, double percent)
{
	double value = probe_row_percentile(row, percent);

	return row->is_float ? value : rounded(value);
}

static void percentile_fields(struct buffer *out, const struct probe_row *row)
{
	static const struct {
		const char *key;
		double percent;
	} percentiles[] = {
		{",\"p50\":", 50},
		{",\"p90\":", 90},
		{",\"p95\":", 95},
		{",\"p99\":", 99},
		{",\"p999\":", 99.9},
		{",\"p9999\":", 99.99},
	};

	for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++)
		json_number_field(out, percentiles[i].key, percentile(row, percentiles[i].percent));
}

/*
 * Converts a bound of a bucket to the row's unit. The high bound is the highest value in the
 * bucket.
 */
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

/*
 * Writes a bucket of doubles. All values in the bucket are below its high bound; null means that
 * there is no bound.
 */
static void bucket_of_doubles(struct buffer *out, const struct probe_row *row, size_t index)
{
	double low, high;

	probe_row_bucket(row, index, &low, &high);
	if (index == PROBE_BUCKETS - 1)
		value_number(&row->min, &low);
	json_number_field(out, "", low);
	json_number_field(out, ",", high);
	json_unsigned_field(out, ",", row->buckets[index]);
}

static void bucket(struct buffer *out, const struct probe_row *row, size_t index)
{
	uint64_t high;
	int64_t low;

	if (row->is_float) {
		bucket_of_doubles(out, row, index);
		return;
	}
	probe_bucket_range(index, &low, &high);
	if (index == PROBE_BUCKETS - 1) {
		buffer_signed(out, row->min.kind == PROBE_VALUE_SIGNED ? row->min.i : low);
		buffer_string(out, ",-1");
	} else {
		uint64_t from = scaled((uint64_t)low, row->unit, false);
		uint64_t to = scaled(high, row->unit, true);

		buffer_unsigned(out, from);
		json_unsigned_field(out, ",", to < from ? from : to);
	}
	json_unsigned_field(out, ",", row->buckets[index]);
}

static void buckets_field(struct buffer *out, const struct probe_row *row)
{
	bool any = false;

	buffer_string(out, ",\"buckets\":[");
	for (size_t i = 0; row->buckets && i < PROBE_BUCKETS; i++) {
		/* The last bucket holds the negative values. Write it first. */
		size_t index = i ? i - 1 : PROBE_BUCKETS - 1;

		if (!row->buckets[index])
			continue;
		buffer_string(out, any ? ",[" : "[");
		bucket(out, row, index);
		buffer_char(out, ']');
		any = true;
	}
	buffer_char(out, ']');
}

static void begin_field(struct buffer *out, const struct probe_table_row *row)
{
	if (!row->begin_name)
		return;
	buffer_string(out, ",\"begin\":\"");
	buffer_json_escaped(out, row->begin_provider, strlen(row->begin_provider));
	buffer_char(out, ':');
	buffer_json_escaped(out, row->begin_name, strlen(row->begin_name));
	buffer_char(out, '"');
}

static void keys_field(struct buffer *out, const struct probe_value *keys, size_t count)
{
	if (!count)
		return;
	buffer_string(out, ",\"keys\":[");
	for (size_t i = 0; i < count; i++) {
		if (i)
			buffer_char(out, ',');
		json_value(out, &keys[i]);
	}
	buffer_char(out, ']');
	if (value_keys_are_other(keys, count))
		buffer_string(out, ",\"other\":true");
}

static double average(const struct probe_row *row)
{
	return row->count ? (double)(row->sum / row->count) : NAN;
}

/*
 * Writes a time in whole nanoseconds. A fraction would mean nothing: it comes only from the
 * conversion of time stamps.
 */
static long double whole(long double ns)
{
	return isfinite(ns) && ns >= 0 && ns < 0x1p63L ? (long double)(uint64_t)(ns + 0.5L) : ns;
}

static double per_second(double amount, uint64_t elapsed_ns)
{
	return elapsed_ns ? amount * 1e9 / (double)elapsed_ns : NAN;
}

static double change(const struct probe_table_row *row, uint64_t elapsed_ns)
{
	double last;

	return value_number(&row->row.last, &last) ? per_second(last - row->first, elapsed_ns)
						   : NAN;
}

static void figures(
	struct buffer *out, const struct probe_table_row *row, const struct probe_view *view)
{
	const struct probe_row *its = &row->row;
	unsigned int columns = view->columns;
	bool is_time = row->begin_name != NULL;

	if (columns & PROBE_COLUMN_SUM)
		json_number_field(out, ",\"sum\":", is_time ? whole(its->sum) : its->sum);
	if (columns & PROBE_COLUMN_MIN)
		value_field(out, ",\"min\":", &its->min);
	if (columns & PROBE_COLUMN_MAX)
		value_field(out, ",\"max\":", &its->max);
	if (columns & PROBE_COLUMN_AVERAGE)
		json_number_field(out, ",\"avg\":", is_time ? whole(average(its)) : average(its));
	if (columns & PROBE_COLUMN_RATE)
		json_number_field(
			out, ",\"rate\":", per_second((double)its->count, view->elapsed_ns));
	if (columns & PROBE_COLUMN_PERCENTILES)
		percentile_fields(out, its);
	if (columns & PROBE_COLUMN_LAST)
		value_field(out, ",\"last\":", &its->last);
	if (columns & PROBE_COLUMN_TIME && its->last_time_ns)
		json_unsigned_field(out, ",\"last_ts\":", its->last_time_ns);
	if (columns & PROBE_COLUMN_CHANGE)
		json_number_field(out, ",\"change\":", change(row, view->elapsed_ns));
	if (columns & PROBE_COLUMN_BUCKETS)
		buckets_field(out, its);
}

/* Writes how many sites are not counted. Writes nothing if all hits are counted. */
static void coverage_fields(struct buffer *out, const struct probe_coverage *coverage)
{
	if (!coverage->refused && !coverage->overwritten)
		return;
	json_unsigned_field(out, ",\"sites\":", coverage->sites);
	json_unsigned_field(out, ",\"refused\":", coverage->refused);
	json_unsigned_field(out, ",\"inconsistent\":", coverage->overwritten);
}

void json_row_fields(struct buffer *out, const struct probe_table_row *row, size_t key_count,
	const struct probe_view *view)
{
	json_string_field(out, "\"provider\":", row->provider);
	json_string_field(out, ",\"name\":", row->name);
	begin_field(out, row);
	keys_field(out, row->row.keys, key_count);
	if (view->columns & PROBE_COLUMN_OUTCOME)
		json_string_field(
			out, ",\"outcome\":", table_name_aborts(row->name) ? "aborted" : "done");
	/* Tables that only count hits are older than other tables, and call this field "hits". */
	buffer_string(out, view->columns == PROBE_COLUMN_COUNT ? ",\"hits\":" : ",\"count\":");
	if (probe_coverage_is_none(&row->coverage))
		buffer_string(out, "null");
	else
		buffer_unsigned(out, row->row.count);
	figures(out, row, view);
	if (view->columns & PROBE_COLUMN_PAIRS && !key_count) {
		json_unsigned_field(out, ",\"in_flight\":", row->row.in_flight);
		json_unsigned_field(out, ",\"unmatched\":", row->unmatched);
	}
	coverage_fields(out, &row->coverage);
	if (view->title)
		json_string_field(out, ",\"tracer\":", view->title);
	if (view->is_interval) {
		json_unsigned_field(out, ",\"ts\":", view->time_ns);
		json_unsigned_field(out, ",\"interval\":", view->elapsed_ns);
	}
}

/* Writes one object for each row. */
static void json_table(struct format_context *context, const struct probe_table *table,
	const struct probe_view *view)
{
	const struct probe_table_row *rows;
	size_t count;

	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count; i++) {
		buffer_char(&context->out, '{');
		json_row_fields(&context->out, &rows[i], table->key_count, view);
		buffer_json_end(&context->out);
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

static void text_or_null(struct buffer *out, const char *key, const char *text)
{
	if (text) {
		json_string_field(out, key, text);
		return;
	}
	buffer_string(out, key);
	buffer_string(out, "null");
}

static void hex_field(struct buffer *out, const char *key, uint64_t value)
{
	buffer_string(out, key);
	buffer_char(out, '"');
	buffer_hex(out, value);
	buffer_char(out, '"');
}

static void json_frame(struct buffer *out, const struct probe_frame *frame)
{
	hex_field(out, "{\"ip\":", frame->ip);
	text_or_null(out, ",\"module\":", frame->module);
	text_or_null(out, ",\"symbol\":", frame->symbol);
	if (frame->module || frame->symbol)
		hex_field(out, ",\"offset\":", frame->offset);
	else
		buffer_string(out, ",\"offset\":null");
	if (frame->file) {
		json_string_field(out, ",\"file\":", frame->file);
		json_unsigned_field(out, ",\"line\":", (uint64_t)frame->line);
	}
	buffer_char(out, '}');
}

void json_stack_fields(struct buffer *out, const char *key, const struct probe_stack *stack)
{
	static const char *const ends[] = {
		[PROBE_STACK_WHOLE] = "whole",
		[PROBE_STACK_TRUNCATED] = "truncated",
		[PROBE_STACK_LOST] = "unknown",
	};

	json_string_field(out, key, ends[stack->end]);
	buffer_string(out, ",\"frames\":[");
	for (size_t i = 0; i < stack->count; i++) {
		if (i)
			buffer_char(out, ',');
		json_frame(out, stack->frames[i]);
	}
	buffer_char(out, ']');
}

static void json_row(
	struct buffer *out, const struct probe_stacks_row *row, const struct probe_view *view)
{
	json_string_field(out, "{\"provider\":", row->provider);
	json_string_field(out, ",\"name\":", row->name);
	if (row->is_heap) {
		json_unsigned_field(out, ",\"total_bytes\":", row->total_bytes);
		json_unsigned_field(out, ",\"total_count\":", row->total_count);
		json_unsigned_field(out, ",\"live_bytes\":", row->live_bytes);
		json_unsigned_field(out, ",\"live_count\":", row->live_count);
	} else {
		json_unsigned_field(out, ",\"count\":", row->count);
	}
	text_or_null(out, ",\"comm\":", row->comm);
	json_stack_fields(out, ",\"end\":", &row->stack);
	if (view->title)
		json_string_field(out, ",\"tracer\":", view->title);
	if (view->is_interval) {
		json_unsigned_field(out, ",\"ts\":", view->time_ns);
		json_unsigned_field(out, ",\"interval\":", view->elapsed_ns);
	}
	buffer_json_end(out);
}

static void json_stacks(struct format_context *context, const struct probe_stacks_row *rows,
	size_t count, const struct probe_view *view)
{
	for (size_t i = 0; i < count; i++)
		json_row(&context->out, &rows[i], view);
}

/* ==== Json ==================================================================================== */

void json_string(struct buffer *out, const char *text, size_t length)
{
	buffer_char(out, '"');
	buffer_json_escaped(out, text, length);
	buffer_char(out, '"');
}

/* `key` includes all its punctuation, e.g. ",\"name\":". */
void json_string_field(struct buffer *out, const char *key, const char *text)
{
	buffer_string(out, key);
	json_string(out, text, strlen(text));
}

void json_unsigned_field(struct buffer *out, const char *key, uint64_t value)
{
	buffer_string(out, key);
	buffer_unsigned(out, value);
}

void json_signed_field(struct buffer *out, const char *key, int64_t value)
{
	buffer_string(out, key);
	buffer_signed(out, value);
}

/* Writes the stack as an array of its functions. */
static void json_stack(struct buffer *out, const struct probe_value *stack)
{
	buffer_char(out, '[');
	for (size_t at = 0, length; at < stack->length; at += length + 1) {
		length = value_stack_line(stack, at);
		buffer_string(out, at ? "," : "");
		json_string(out, stack->bytes + at, length);
	}
	buffer_char(out, ']');
}

void json_value(struct buffer *out, const struct probe_value *value)
{
	bool is_nothing = value->kind == PROBE_VALUE_NULL ||
			  (value->kind == PROBE_VALUE_FLOAT && !isfinite(value->f));

	if (is_nothing) {
		buffer_string(out, "null");
	} else if (value->kind == PROBE_VALUE_BYTES) {
		buffer_char(out, '"');
		buffer_hex_bytes(out, value->bytes, value->length);
		buffer_char(out, '"');
	} else if (value->kind == PROBE_VALUE_STACK) {
		json_stack(out, value);
	} else if (value_has_known_text(value)) {
		buffer_unsigned(out, value->u);
	} else if (!value_add_number(out, value)) {
		json_string(out, value->bytes, value->length);
	}
}

static void json_truncated(struct buffer *out, const struct probe_hit *hit)
{
	bool any = false;

	for (size_t i = 0; i < hit->arg_count; i++) {
		if (!hit->args[i].truncated)
			continue;
		json_unsigned_field(out, any ? "," : ",\"truncated\":[", i);
		any = true;
	}
	if (any)
		buffer_char(out, ']');
}

static void json_name(struct buffer *out, const struct probe_session_probe *probe,
	const struct probe_value *value, size_t index)
{
	const struct probe_meaning *meaning = probe->meaning;

	buffer_char(out, '"');
	if (meaning && index < PROBE_ARGS_MAX && probe->args[index] < meaning->arg_count) {
		const char *name = meaning->args[probe->args[index]].name;

		buffer_json_escaped(out, name, strlen(name));
	} else {
		buffer_string(out, "arg");
		buffer_unsigned(out, value->number ? value->number - 1U : index);
	}
	buffer_char(out, '"');
}

static void json_named(
	struct buffer *out, const struct probe_hit *hit, const struct probe_session_probe *probe)
{
	bool any = false;

	for (size_t i = 0; i < hit->arg_count; i++) {
		const struct probe_value *value = &hit->args[i];

		if (!value_has_known_text(value))
			continue;
		buffer_string(out, any ? "," : ",\"named\":{");
		json_name(out, probe, value, i);
		buffer_char(out, ':');
		json_string(out, value->bytes, value->length);
		any = true;
	}
	if (!any)
		return;
	any = false;
	for (size_t i = 0; i < hit->arg_count; i++) {
		if (!value_has_known_text(&hit->args[i]))
			continue;
		json_unsigned_field(out, any ? "," : "},\"named_args\":[", i);
		any = true;
	}
	buffer_char(out, ']');
}

/*
 * Writes a hit without the closing brace. Leaves out the CPU of a span's start event, which is
 * unknown.
 */
static void json_open_hit(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm, bool is_begin)
{
	json_unsigned_field(out, "{\"ts\":", hit->time_ns);
	json_signed_field(out, ",\"pid\":", hit->pid);
	json_signed_field(out, ",\"tid\":", hit->tid);
	if (!is_begin)
		json_signed_field(out, ",\"cpu\":", hit->cpu);
	if (comm)
		json_string_field(out, ",\"comm\":", comm);
	json_string_field(out, ",\"provider\":", probe->provider);
	json_string_field(out, ",\"name\":", probe->name);
	if (hit->pc) {
		buffer_string(out, ",\"pc\":\"");
		buffer_hex(out, hit->pc);
		buffer_char(out, '"');
	}
	buffer_string(out, ",\"args\":[");
	for (size_t i = 0; i < hit->arg_count; i++) {
		if (i)
			buffer_char(out, ',');
		json_value(out, &hit->args[i]);
	}
	buffer_char(out, ']');
	json_named(out, hit, probe);
	json_truncated(out, hit);
}

void json_hit(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm)
{
	json_open_hit(out, hit, probe, comm, false);
	if (hit->stack)
		json_stack_fields(out, ",\"stack\":", hit->stack);
	buffer_json_end(out);
}

void json_span(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm)
{
	json_open_hit(out, hit, end, comm, false);
	json_unsigned_field(out, ",\"duration\":", hit->duration_ns);
	buffer_string(out, ",\"begin\":");
	json_open_hit(out, hit->begin, begin, NULL, true);
	buffer_char(out, '}');
	if (hit->stack)
		json_stack_fields(out, ",\"stack\":", hit->stack);
	buffer_json_end(out);
}

void json_lost(struct buffer *out, const struct probe_session_probe *probe, uint64_t lost)
{
	json_unsigned_field(out, "{\"lost\":", lost);
	if (probe->provider)
		json_string_field(out, ",\"provider\":", probe->provider);
	if (probe->name)
		json_string_field(out, ",\"name\":", probe->name);
	buffer_json_end(out);
}

static void format_hit(struct format_context *context, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm)
{
	json_hit(&context->out, hit, probe, comm);
}

static void format_span(struct format_context *context, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm)
{
	json_span(&context->out, hit, begin, end, comm);
}

static void format_lost(
	struct format_context *context, const struct probe_session_probe *probe, uint64_t lost)
{
	json_lost(&context->out, probe, lost);
}

static void json_waited(struct format_context *context, uint64_t hits, uint64_t ns)
{
	json_unsigned_field(&context->out, "{\"waited\":", hits);
	json_unsigned_field(&context->out, ",\"waited_ns\":", ns);
	buffer_json_end(&context->out);
}

/*
 * Reports that a site has become inconsistent or consistent. A site without a probe belongs to a
 * gate, by which libraries or started programs are followed.
 */
static void json_site(struct format_context *context, pid_t pid, const struct probe_site_news *news)
{
	struct buffer *out = &context->out;

	buffer_string(out, news->event == PROBE_SITE_BACK ? "{\"inconsistent\":false,\"pid\":"
							  : "{\"inconsistent\":true,\"pid\":");
	buffer_signed(out, pid);
	if (news->site.name) {
		json_string_field(out, ",\"provider\":", news->site.provider);
		json_string_field(out, ",\"name\":", news->site.name);
		json_string_field(out, ",\"path\":", news->site.path);
	}
	buffer_string(out, ",\"pc\":\"");
	buffer_hex(out, news->site.pc);
	buffer_string(out, "\",\"good_ts\":");
	if (news->good_ns)
		buffer_unsigned(out, news->good_ns);
	else
		buffer_string(out, "null");
	json_unsigned_field(out, ",\"bad_ts\":", news->bad_ns);
	json_unsigned_field(out, ",\"ts\":", news->now_ns);
	buffer_string(out, ",\"bytes\":\"");
	buffer_hex_bytes(out, (const char *)news->site.bytes, news->site.length);
	buffer_string(out, news->site.left ? "\",\"left\":true" : "\",\"left\":false");
	buffer_json_end(out);
}

const struct format format_json = {
	.hit = format_hit,
	.span = format_span,
	.lost = format_lost,
	.waited = json_waited,
	.site = json_site,
	.table = json_table,
	.stacks = json_stacks,
};
