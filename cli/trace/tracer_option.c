/* SPDX-License-Identifier: MIT */
/* The option -t of `probectl trace`, and related options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/tracer_option.h"
#include "libprobe/base/array.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"

/* ==== Tracer ================================================================================== */

/* ---- Options ---------------------------------------------------------------------- */

static const char *find_colon(const char *text)
{
	char quote = '\0';
	int depth = 0;

	for (; *text; text++) {
		if (quote && *text == '\\' && text[1])
			text++;
		else if (quote)
			quote = *text == quote ? '\0' : quote;
		else if (*text == '"' || *text == '\'')
			quote = *text;
		else if (*text == ':' && depth == 0)
			return text;
		else
			depth += (*text == '(') - (*text == ')');
	}
	return NULL;
}

struct probe_error *match_split(const char *text, char **begin_ret, char **end_ret)
{
	const char *colon = find_colon(text);

	*begin_ret = *end_ret = NULL;
	if (colon && (colon == text || !colon[1]))
		return usage_error(
			"--match '%s': give an expression for the begin and one for the end, "
			"--match arg0:arg1, or one for both",
			text);
	*begin_ret = colon ? strndup(text, (size_t)(colon - text)) : strdup(text);
	if (colon)
		*end_ret = strdup(colon + 1);
	if (*begin_ret && (!colon || *end_ret))
		return NULL;
	free(*begin_ret);
	free(*end_ret);
	*begin_ret = *end_ret = NULL;
	return probe_error_no_memory();
}

/* Parses the options that all tracers' sessions share. */
static struct probe_error *common_options(
	struct tracer_options *options, struct probe_session_options *ret)
{
	struct probe_error *error;

	if (options->keys.count > PROBE_KEYS_MAX)
		return usage_error("-k: at most %d keys", PROBE_KEYS_MAX);
	if (options->every > UINT32_MAX || options->rate > UINT32_MAX)
		return usage_error("--every and --rate: at most %u", UINT32_MAX);
	if (options->keys_max && !options->keys.count)
		return usage_error("--keys is the number of keys; give -k EXPR, too");
	ret->gather.pairing = PROBE_PAIRING_NONE;
	if (options->pairs && !strcmp(options->pairs, "auto"))
		ret->gather.pairing = PROBE_PAIRING_NAMES;
	else if (options->pairs && !strcmp(options->pairs, "listed"))
		ret->gather.pairing = PROBE_PAIRING_LISTED;
	else if (options->pairs)
		return usage_error(
			"--pairs '%s': use auto (by their names) or listed (a begin, its "
			"end, the next begin ...)",
			options->pairs);
	if (options->match) {
		error = match_split(options->match, &options->match_begin, &options->match_end);
		if (error)
			return error;
	}
	ret->filter = options->filter;
	ret->span_min_ns = options->min_ns;
	ret->sample_every = (uint32_t)options->every;
	ret->sample_rate = (uint32_t)options->rate;
	for (size_t i = 0; i < options->keys.count; i++)
		ret->gather.keys[i] = options->keys.items[i];
	ret->gather.key_count = options->keys.count;
	ret->gather.keys_max = options->keys_max;
	ret->gather.match = options->match_begin;
	ret->gather.match_end = options->match_end;
	return NULL;
}

/* ---- Tracers ---------------------------------------------------------------------- */

/* With several tracers, clears the options of a tracer that do not apply to its kind. */
static void leave_others_options(struct trace_tracer *tracer)
{
	struct probe_gather *gather = &tracer->options.gather;

	if (tracer->output != PROBE_TRACER_ROWS && !tracer_is_exported(tracer))
		gather->key_count = 0;
	if (!probe_tracer_spans(tracer->spec))
		tracer->options.span_min_ns = 0;
	if (!probe_tracer_pairs(tracer->spec)) {
		gather->match = gather->match_end = NULL;
		if (tracer->output != PROBE_TRACER_LOADED)
			gather->pairing = PROBE_PAIRING_NONE;
	}
}

/* Does a pattern name the exits (fn:X:return) of what another one names (fn:X, perhaps with a
 * list)? */
static bool is_named_again(const struct pattern_list *patterns, size_t i)
{
	static const char suffix[] = ":return";
	const char *text = probe_pattern_text(patterns->items[i]);
	size_t whole = strcspn(text, "("), length = whole - (sizeof(suffix) - 1);

	if (whole < sizeof(suffix) || strncmp(text + length, suffix, sizeof(suffix) - 1) != 0)
		return false;
	for (size_t k = 0; k < patterns->count; k++) {
		const char *other = probe_pattern_text(patterns->items[k]);

		if (strcspn(other, "(") == length && strncmp(text, other, length) == 0 &&
			probe_pattern_pair(patterns->items[k]))
			return true;
	}
	return false;
}

/*
 * Functions are pairs by themselves, unless the user lists pairs. For the tracer heap they are
 * none: the size is known at the entry, and the pointer at the exit.
 */
static struct probe_error *pair_functions(struct pattern_list *patterns, struct trace_tracer *inout)
{
	enum probe_pairing *pairing = &inout->options.gather.pairing;
	size_t paired = 0;

	if (*pairing != PROBE_PAIRING_NONE && *pairing != PROBE_PAIRING_NAMES)
		return NULL;
	for (size_t i = 0; i < patterns->count; i++)
		paired += probe_pattern_pair(patterns->items[i]) || is_named_again(patterns, i);
	if (paired && inout->output == PROBE_TRACER_HEAP)
		return usage_error(
			"tracer 'heap' needs probes that pass both the size and the pointer, which "
			"functions do not: -t sum,arg0 -k ustack sums sizes by caller; what is not "
			"freed is in flight with -t latency --pairs listed --match retval:arg0 "
			"fn:libc:malloc:return fn:libc:free");
	if (paired && paired == patterns->count)
		*pairing = PROBE_PAIRING_NAMES;
	return NULL;
}

bool tracer_prints_hits(const struct trace_tracer *tracer)
{
	return tracer->output == PROBE_TRACER_HITS || tracer->output == PROBE_TRACER_HITS_JSON ||
	       tracer->output == PROBE_TRACER_FLIGHT;
}

/*
 * Makes a tracer. `stack` is --stack or NULL; of several tracers, only those that print hits use
 * it.
 */
static struct probe_error *tracer_init(struct trace_tracer *tracer, const char *text,
	const struct probe_session_options *base, const char *stack, struct pattern_list *patterns,
	size_t pattern_count, bool alone, bool has_intervals)
{
	struct probe_error *error = probe_tracer_parse(text, &tracer->spec);
	struct probe_view view;

	if (error)
		return error;
	tracer->output = probe_tracer_output(tracer->spec);
	tracer->options = *base;
	if (patterns && probe_tracer_pairs(tracer->spec))
		error = pair_functions(patterns, tracer);
	if (error)
		return error;
	if (!alone) {
		leave_others_options(tracer);
		tracer->title = strdup(text);
		if (!tracer->title)
			return probe_error_no_memory();
	}
	if (tracer->output == PROBE_TRACER_CALLS) {
		/* Keys are read from hits; the session has none. */
		error = probe_calls_create(&(struct probe_calls_options){.keys = base->gather.keys,
						   .key_count = base->gather.key_count,
						   .catalogue = base->catalogue},
			&tracer->calls);
		tracer->options.gather.key_count = 0;
	}
	error = error ?: probe_tracer_configure(tracer->spec, pattern_count, &tracer->options);
	if (!error &&
		(tracer->output == PROBE_TRACER_STACKS || tracer->output == PROBE_TRACER_HEAP)) {
		probe_tracer_view(tracer->spec, &tracer->options, &view);
		tracer->folded = view.folded;
		tracer->flamegraph = view.flamegraph;
		tracer->pprof = view.pprof;
		error = tracer->output == PROBE_TRACER_HEAP ? probe_heap_create(&tracer->heap)
							    : probe_stacks_create(&tracer->stacks);
	}
	if (!error && stack && (alone || tracer_prints_hits(tracer)))
		error = probe_tracer_take_stacks(tracer->spec, stack, &tracer->options);
	/* The minimum and maximum of an interval can only be estimated from a histogram. */
	if (!error && (has_intervals || tracer_is_exported(tracer)) &&
		tracer->options.gather.extremes && tracer->options.kind == PROBE_SESSION_GATHER)
		tracer->options.gather.histogram = true;
	return error;
}

/* Returns tracer `index` as typed with -t, "count" for -c, or "print" without both. */
static const char *tracer_text(const struct tracer_options *options, size_t index)
{
	if (index < options->tracers.count)
		return options->tracers.items[index];
	return options->count ? "count" : "print";
}

static size_t parts_of(const char *text)
{
	struct probe_tracer_part part;
	size_t count = 0;

	while (probe_tracer_part(text, count, &part))
		count++;
	return count;
}

/* Adds the tracers that one option -t names. Adds their number to *count. */
static struct probe_error *tracers_add(struct trace_tracer *tracers, size_t *count,
	const struct tracer_options *options, const char *text,
	const struct probe_session_options *common, struct pattern_list *patterns, bool alone,
	bool has_intervals)
{
	struct probe_session_options its = *common;
	struct probe_error *error = NULL;
	struct probe_tracer_part part;

	if (!parts_of(text))
		return tracer_init(&tracers[(*count)++], text, common, options->stack, patterns,
			probe_pattern_paired((const struct probe_pattern *const *)patterns->items,
				patterns->count, common->catalogue),
			alone, has_intervals);
	if (options->keys.count || options->match || options->pairs)
		return usage_error(
			"-k, --match and --pairs do not apply to tracer '%s', which has a row for "
			"each tag",
			text);
	for (size_t i = 0; !error && probe_tracer_part(text, i, &part); i++) {
		struct trace_tracer *tracer = &tracers[(*count)++];

		its.gather.keys[0] = part.key;
		its.gather.key_count = 1;
		its.gather.match = part.match;
		tracer->part = part;
		error = tracer_init(tracer, part.tracer, &its, options->stack, NULL,
			part.probe_count, false, has_intervals);
	}
	return error;
}

struct probe_error *tracers_init(struct tracer_options *options,
	const struct probe_session_options *base, struct pattern_list *patterns, bool has_intervals,
	struct trace_tracer **ret, size_t *count_ret)
{
	size_t typed = options->tracers.count + options->count, room = 0;
	struct probe_session_options common = *base;
	struct probe_error *error = common_options(options, &common);
	bool any = !options->stack;

	*ret = NULL;
	*count_ret = 0;
	if (error)
		return error;
	if (!typed)
		typed = 1;
	for (size_t i = 0; i < typed; i++) {
		size_t parts = parts_of(tracer_text(options, i));

		room += parts ? parts : 1;
	}
	*ret = calloc(room, sizeof(**ret));
	if (!*ret)
		return probe_error_no_memory();
	for (size_t i = 0; i < typed && !error; i++)
		error = tracers_add(*ret, count_ret, options, tracer_text(options, i), &common,
			patterns, room == 1, has_intervals);
	for (size_t i = 0; i < *count_ret; i++)
		any |= tracer_prints_hits(&(*ret)[i]);
	if (error || any)
		return error;
	return usage_error(
		"--stack: none of the tracers prints hits; -t stack counts them by their stacks");
}

struct probe_error *tracers_set_requests(
	struct trace_tracer *tracers, size_t count, const struct probe_request *all)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < count && !error; i++) {
		struct trace_tracer *tracer = &tracers[i];
		const struct probe_tracer_part *part = &tracer->part;

		if (!tracer_is_part(tracer))
			continue;
		if (all->pattern_count != 1 ||
			strcmp(probe_pattern_text(all->patterns[0]), "pmtrace:*") != 0)
			return usage_error(
				"tracer 'pmtrace' takes all probes of pmtrace: name 'pmtrace:*' "
				"and "
				"no other PROBE");
		tracer->request = *all;
		tracer->request.patterns = (const struct probe_pattern *const *)tracer->patterns;
		tracer->request.pattern_count = part->probe_count;
		for (size_t k = 0; k < part->probe_count && !error; k++)
			error = probe_pattern_parse(part->probes[k], &tracer->patterns[k]);
	}
	return error;
}

void trace_ended_deinit(struct trace_ended *ended)
{
	probe_table_free(ended->rows);
	free(ended->program);
}

void tracers_free(struct trace_tracer *tracers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		probe_tracer_host_free(tracers[i].host);
		probe_table_free(tracers[i].last);
		for (size_t k = 0; k < tracers[i].ended_count; k++)
			trace_ended_deinit(&tracers[i].ended[k]);
		free(tracers[i].ended);
		probe_pcp_close(tracers[i].pcp);
		probe_stacks_free(tracers[i].stacks);
		probe_heap_free(tracers[i].heap);
		probe_calls_free(tracers[i].calls);
		probe_tracer_free(tracers[i].spec);
		free(tracers[i].title);
		for (size_t k = 0; k < tracers[i].part.probe_count; k++)
			probe_pattern_free(tracers[i].patterns[k]);
	}
	free(tracers);
}

void tracer_options_deinit(struct tracer_options *options)
{
	free(options->tracers.items);
	free(options->keys.items);
	free(options->match_begin);
	free(options->match_end);
}

bool tracers_help(const struct tracer_options *options)
{
	struct probe_tracer_info info;
	bool asked = false;

	for (size_t i = 0; i < options->tracers.count; i++)
		asked |= !strcmp(options->tracers.items[i], "help");
	if (!asked)
		return false;
	for (size_t i = 0; probe_tracer_info(i, &info); i++)
		printf("  %-20s  %s\n", info.usage, info.help);
	return true;
}

/* ==== Names of threads ======================================================================== */

enum {
	/* A power of two. Threads whose ids lead to the same slot replace each other. */
	COMM_ENTRIES = 4096,
	COMM_MAX_AGE_NS = 100000000,
	COMM_GONE_NS = 1000000000 /* maximum age of the name of a thread that has ended */
};

struct comm_entry {
	pid_t pid, tid; /* ids of the thread; 0 in an empty entry */
	uint64_t asked_ns, read_ns;
	char comm[COMM_BYTES];
};

struct comm_cache {
	struct comm_entry entries[COMM_ENTRIES];
};

struct comm_cache *comm_cache_create(void)
{
	return calloc(1, sizeof(struct comm_cache));
}

void comm_cache_free(struct comm_cache *cache)
{
	free(cache);
}

static struct comm_entry *entry_of(struct comm_cache *cache, pid_t tid)
{
	return &cache->entries[(unsigned int)tid % COMM_ENTRIES];
}

const char *comm_cache_get(struct comm_cache *cache, pid_t pid, pid_t tid, uint64_t time_ns)
{
	struct comm_entry *entry = entry_of(cache, tid);
	char text[COMM_BYTES + 1];
	size_t length;

	if (entry->pid != pid || entry->tid != tid)
		*entry = (struct comm_entry){.pid = pid, .tid = tid};
	else if (time_ns < entry->asked_ns + COMM_MAX_AGE_NS)
		return entry->comm[0] ? entry->comm : NULL;
	entry->asked_ns = time_ns;
	length = file_read(procfs_path("/proc/%d/task/%d/comm", pid, tid).text, text, sizeof(text));
	/* The kernel adds the last newline. The name itself may contain newlines, too. */
	if (length && text[length - 1] == '\n')
		text[length - 1] = '\0';
	if (length) {
		memcpy(entry->comm, text, COMM_BYTES);
		entry->comm[COMM_BYTES - 1] = '\0';
		entry->read_ns = time_ns;
	} else if (time_ns >= entry->read_ns + COMM_GONE_NS)
		entry->comm[0] = '\0';
	return entry->comm[0] ? entry->comm : NULL;
}

const char *comm_cache_known(struct comm_cache *cache, pid_t pid, pid_t tid)
{
	const struct comm_entry *entry = entry_of(cache, tid);

	return entry->pid == pid && entry->tid == tid && entry->comm[0] ? entry->comm : NULL;
}

void comm_cache_forget(struct comm_cache *cache, pid_t pid)
{
	for (size_t i = 0; i < COMM_ENTRIES; i++)
		if (cache->entries[i].pid == pid)
			cache->entries[i] = (struct comm_entry){0};
}
