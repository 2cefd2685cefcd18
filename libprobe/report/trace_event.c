/* SPDX-License-Identifier: MIT */
/*
 * The Trace Event Format, which Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) load: a
 * JSON object with an array of events
 * (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
 *
 *	X	a pair, in the thread of its start event
 *	b, e	a pair on a track of its own: matched by a value, or not nested in its thread
 *	B	a start event without an end event when the record ends
 *	i	a point event; with scope g, a loss
 *	M	names of processes and threads
 *
 * Times are in microseconds since the first event, with three decimals. Readers take them as
 * doubles, which cannot hold nanoseconds since 1970. otherData, at the end of the file, has the
 * absolute time of the first event.
 *
 * A pair is written when it ends, because readers ignore the order of events. With spans (`trace -t
 * span`), time 0 is 30 days before the start of the first span that ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libprobe/report/report.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/query/query.h"
#include "libprobe/output/output.h"

enum { NSEC_PER_USEC = 1000, NSEC_PER_SEC = 1000000000 };
/*
 * The time between time 0 and the first span. Later spans up to this length start after time 0, and
 * the times still fit into a double.
 */
#define SPAN_NS (30ULL * 24 * 3600 * NSEC_PER_SEC)
#define EXACT_MAX (1LL << 53) /* largest integer that doubles and JavaScript hold exactly */

enum { SLICES = 64 };

/* A thread, or a process. */
struct track {
	char *name; /* the name that was written last; NULL if none was */
	/* a thread's last spans, in order, none inside another */
	size_t count;
	struct {
		uint64_t begin_ns, end_ns;
	} slices[SLICES];
};

struct trace_export {
	struct export_settings settings;
	struct buffer *out, text;
	struct probe_spans *spans;
	struct map tracks; /* struct track by pid and tid; the tid of a process is 0 */
	uint64_t first_ns, last_ns, lost;
	uint64_t id; /* id of the last async event */
	bool begun, any;
};

/* ---- Pieces ------------------------------------------------------------------------------- */

static void add_us(struct buffer *out, uint64_t ns)
{
	buffer_unsigned(out, ns / NSEC_PER_USEC);
	buffer_char(out, '.');
	for (uint64_t rest = ns % NSEC_PER_USEC, unit = 100; unit; unit /= 10)
		buffer_char(out, (char)('0' + rest / unit % 10));
}

static void add_ts(struct trace_export *trace, uint64_t time_ns)
{
	json_begin(trace->out, "ts");
	add_us(trace->out, time_ns > trace->first_ns ? time_ns - trace->first_ns : 0);
}

/* Starts an event, on a line of its own, with its phase, pid and tid. */
static void begin_event(struct trace_export *trace, char phase, pid_t pid, pid_t tid)
{
	struct buffer *out = trace->out;

	buffer_string(out, trace->any ? ",\n" : "\n");
	trace->any = true;
	json_open(out, NULL, '{');
	json_bytes(out, "ph", &phase, 1);
	json_signed(out, "pid", pid);
	json_signed(out, "tid", tid);
}

/* Writes a number as text, because readers would round it. */
static void add_number_text(struct buffer *out, const char *name, uint64_t value)
{
	json_begin(out, name);
	buffer_char(out, '"');
	buffer_unsigned(out, value);
	buffer_char(out, '"');
}

/* Closes the arguments and the event. */
static void close_event(struct trace_export *trace)
{
	json_close(trace->out, '}');
	json_close(trace->out, '}');
}

/* Write integers that readers would round as text. */
static void add_value(struct buffer *out, const char *name, const struct probe_value *value)
{
	bool exact = true;

	if (value->kind == PROBE_VALUE_SIGNED)
		exact = value->i <= EXACT_MAX && value->i >= -EXACT_MAX;
	else if (value->kind == PROBE_VALUE_UNSIGNED)
		exact = value->u <= EXACT_MAX;
	if (exact) {
		json_value(out, name, value);
		return;
	}
	json_begin(out, name);
	buffer_char(out, '"');
	value_add_number(out, value);
	buffer_char(out, '"');
}

static void add_args(struct buffer *out, const char *prefix, const struct probe_event *event)
{
	for (size_t i = 0; i < event->arg_count; i++) {
		const struct probe_value *value = &event->args[i];
		unsigned int number = value->number ? value->number - 1U : (unsigned int)i;
		char name[160], second[24] = "";

		/* The argument was also recorded as a string. */
		if (probe_event_arg(event, number, false) != value)
			snprintf(second, sizeof(second), "_%zu", i);
		if (event->labels && event->labels[i])
			snprintf(name, sizeof(name), "%s%s", prefix, event->labels[i]);
		else
			snprintf(name, sizeof(name), "%sarg%u%s", prefix, number, second);
		add_value(out, name, value);
	}
}

/*
 * Writes "name": the event's values for keys, or `name`. If `name` is empty, because the start
 * probe is just "start", writes the probe's name.
 */
static void add_name(struct trace_export *trace, const struct probe_event *event, const char *name)
{
	trace->text.length = 0;
	export_key_text(&trace->text, event, &trace->settings);
	if (trace->text.length)
		json_bytes(trace->out, "name", trace->text.data + 1, trace->text.length - 1);
	else
		json_text(trace->out, "name", name[0] ? name : event->name);
	json_text(trace->out, "cat", event->provider);
}

/* ---- Names -------------------------------------------------------------------------------- */

/* Returns NULL if out of memory. */
static struct track *find_track(struct trace_export *trace, pid_t pid, pid_t tid)
{
	return map_add(
		&trace->tracks, sizeof(struct track), MAP_KEY(MAP_OBJECT(pid), MAP_OBJECT(tid)));
}

/*
 * Returns true if a name must be written, and marks it as written. Returns false if out of memory.
 */
static bool is_news(struct track *track, const char *name)
{
	char *copy;

	if (!track || (track->name && strcmp(track->name, name) == 0))
		return false;
	copy = strdup(name);
	if (!copy)
		return false;
	free(track->name);
	track->name = copy;
	return true;
}

static void tell_name(
	struct trace_export *trace, const char *what, pid_t pid, pid_t tid, const char *name)
{
	begin_event(trace, 'M', pid, tid);
	json_text(trace->out, "name", what);
	json_open(trace->out, "args", '{');
	json_text(trace->out, "name", name);
	close_event(trace);
}

/* Writes thread and process names. A process has the name of its main or first known thread. */
static void tell_names(struct trace_export *trace, const struct probe_event *event)
{
	struct track *process;

	if (!event->comm)
		return;
	process = find_track(trace, event->pid, 0);
	if (process && (event->tid == event->pid || !process->name) &&
		is_news(process, event->comm))
		tell_name(trace, "process_name", event->pid, event->pid, event->comm);
	if (event->tid && is_news(find_track(trace, event->pid, event->tid), event->comm))
		tell_name(trace, "thread_name", event->pid, event->tid, event->comm);
}

/* ---- Events ------------------------------------------------------------------------------- */

static void add_instant(struct trace_export *trace, const struct probe_event *event)
{
	begin_event(trace, 'i', event->pid, event->tid);
	add_ts(trace, event->time_ns);
	add_name(trace, event, event->name);
	json_text(trace->out, "s", "t");
	json_open(trace->out, "args", '{');
	add_args(trace->out, "", event);
	close_event(trace);
}

static void add_loss(struct trace_export *trace, const struct probe_event *event)
{
	/* A stream's losses have no time. */
	uint64_t time_ns = event->time_ns ? event->time_ns : trace->last_ns;

	begin_event(trace, 'i', 0, 0);
	add_ts(trace, time_ns);
	json_text(trace->out, "name", "hits lost");
	json_text(trace->out, "cat", "lost");
	json_text(trace->out, "s", "g");
	json_open(trace->out, "args", '{');
	json_unsigned(trace->out, "lost", event->lost);
	if (event->provider)
		json_text(trace->out, "provider", event->provider);
	if (event->name)
		json_text(trace->out, "name", event->name);
	close_event(trace);
}

/* Writes a pair, on a track of its own if `is_alone`. */
static void add_pair(struct trace_export *trace, const struct probe_event *begin,
	const struct probe_event *end, const char *name, bool is_alone)
{
	trace->id += is_alone;
	for (int i = 0; i < 2 && is_alone; i++) {
		const struct probe_event *event = i ? end : begin;

		begin_event(trace, i ? 'e' : 'b', begin->pid, event->tid);
		add_ts(trace, event->time_ns);
		add_name(trace, begin, name);
		add_number_text(trace->out, "id", trace->id);
		json_open(trace->out, "args", '{');
		add_args(trace->out, i ? "end_" : "", event);
		close_event(trace);
	}
	if (is_alone)
		return;
	begin_event(trace, 'X', begin->pid, begin->tid);
	add_ts(trace, begin->time_ns);
	json_begin(trace->out, "dur");
	add_us(trace->out, end->time_ns > begin->time_ns ? end->time_ns - begin->time_ns : 0);
	add_name(trace, begin, name);
	json_open(trace->out, "args", '{');
	add_args(trace->out, "", begin);
	add_args(trace->out, "end_", end);
	close_event(trace);
}

/*
 * Returns true if a span starts inside an earlier one of its thread, and ends after it: these
 * cannot be on one track. If not, adds the span to the thread, in place of the spans inside it.
 */
static bool is_across(struct trace_export *trace, const struct probe_event *end)
{
	struct track *thread = find_track(trace, end->pid, end->tid);
	uint64_t begin_ns = end->begin->time_ns;
	size_t count;

	if (!thread) {
		trace->text.no_memory = true;
		return true;
	}
	count = thread->count;
	while (count && thread->slices[count - 1].begin_ns >= begin_ns)
		count--;
	if (count && thread->slices[count - 1].end_ns > begin_ns)
		return true;
	if (count == SLICES) {
		count /= 2;
		memmove(thread->slices, thread->slices + count, count * sizeof(thread->slices[0]));
	}
	thread->slices[count].begin_ns = begin_ns;
	thread->slices[count].end_ns = end->time_ns;
	thread->count = count + 1;
	return false;
}

static void add_made_span(struct trace_export *trace, const struct probe_event *end)
{
	const struct probe_event *begin = end->begin;
	AUTO_FREE char *name = pair_plain_name(begin->name);
	size_t stem = 0;

	if (!name) {
		trace->text.no_memory = true;
		return;
	}
	if (pair_may_be(name, &stem) != PAIR_BEGIN)
		stem = strlen(name);
	while (stem && name[stem - 1] == '_')
		stem--;
	name[stem] = '\0';
	add_pair(trace, begin, end, name, begin->tid != end->tid || is_across(trace, end));
}

/* Writes a start event without an end event: an open pair, or a point event. */
static void unended(void *data, struct probe_span *span)
{
	struct trace_export *trace = data;
	const struct probe_event *begin = &span->begin;

	if (!span->pair->ended || span->crossed || span->is_cut || trace->settings.match >= 0) {
		add_instant(trace, begin);
		return;
	}
	begin_event(trace, 'B', begin->pid, begin->tid);
	add_ts(trace, begin->time_ns);
	add_name(trace, begin, span->pair->name);
	json_open(trace->out, "args", '{');
	add_args(trace->out, "", begin);
	close_event(trace);
}

static void begin_file(struct trace_export *trace)
{
	if (trace->begun)
		return;
	trace->begun = true;
	json_open(trace->out, NULL, '{');
	json_text(trace->out, "displayTimeUnit", "ns");
	json_open(trace->out, "traceEvents", '[');
}

static struct probe_error *trace_event(void *state, const struct probe_event *event)
{
	struct trace_export *trace = state;
	enum probe_span_kind kind;
	struct probe_error *error;
	struct probe_span *span;

	begin_file(trace);
	/* A span arrives at its end, so a span that arrives later may have started earlier. */
	if (!trace->first_ns)
		trace->first_ns = !event->begin ? event->time_ns
				  : event->begin->time_ns > SPAN_NS
					  ? event->begin->time_ns - SPAN_NS
					  : 1;
	if (event->kind == PROBE_EVENT_LOST) {
		trace->lost += event->lost;
		add_loss(trace, event);
		return probe_spans_add(trace->spans, event, &kind, &span);
	}
	trace->last_ns = event->time_ns;
	tell_names(trace, event);
	if (event->begin) {
		add_made_span(trace, event);
		return trace->text.no_memory ? probe_error_no_memory() : NULL;
	}
	error = probe_spans_add(trace->spans, event, &kind, &span);
	if (error)
		return error;
	if (kind == PROBE_SPAN_END)
		add_pair(trace, &span->begin, event, span->pair->name,
			span->crossed || trace->settings.match >= 0);
	else if (kind != PROBE_SPAN_BEGIN)
		add_instant(trace, event);
	return trace->text.no_memory ? probe_error_no_memory() : NULL;
}

/* ---- The file ----------------------------------------------------------------------------- */

static struct probe_error *trace_finish(void *state, bool *done_ret)
{
	struct trace_export *trace = state;
	time_t first_s = (time_t)(trace->first_ns / NSEC_PER_SEC);
	struct tm utc;
	char text[40];

	begin_file(trace);
	probe_spans_finish(trace->spans);
	buffer_string(trace->out, "\n]");
	json_open(trace->out, "otherData", '{');
	json_text(trace->out, "tracer", "probectl");
	if (trace->first_ns && gmtime_r(&first_s, &utc) &&
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc)) {
		json_text(trace->out, "first_event", text);
		add_number_text(trace->out, "first_event_ns", trace->first_ns);
	}
	json_unsigned(trace->out, "lost", trace->lost);
	buffer_string(trace->out, "}}\n");
	*done_ret = true;
	return NULL;
}

static void trace_free(void *state)
{
	struct trace_export *trace = state;
	const struct track *track;

	if (!trace)
		return;
	probe_spans_free(trace->spans);
	for (size_t i = 0; (track = map_next(&trace->tracks, &i));)
		free(track->name);
	map_clear(&trace->tracks);
	buffer_deinit(&trace->text);
	free(trace);
}

static struct probe_error *trace_create(
	const struct export_settings *settings, struct format_context *context, void **ret)
{
	struct trace_export *trace = calloc(1, sizeof(*trace));
	const struct probe_spans_options options = {.match = settings->match,
		.match_end = settings->match_end,
		.unended = unended,
		.data = trace,
		.catalogue = settings->options->catalogue};
	struct probe_error *error;

	if (!trace)
		return probe_error_no_memory();
	trace->settings = *settings;
	trace->out = &context->out;
	error = probe_spans_create(&options, &trace->spans);
	if (error)
		trace_free(trace);
	else
		*ret = trace;
	return error;
}

const struct export_format export_trace_event = {
	.names = {"trace-event", "perfetto", "chrome"},
	.create = trace_create,
	.free = trace_free,
	.event = trace_event,
	.finish = trace_finish,
};
