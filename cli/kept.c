/* SPDX-License-Identifier: MIT */
/*
 * The words of a kept session, one per line: the time of its start, then the options that define
 * it. `\n` and `\\` stand for a newline and a backslash.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/kept.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"

enum { WORDS_MAX = 4096 };

bool kept_is_wanted(const struct kept_options *options)
{
	return options->tracer.tracers.count || options->tracer.count;
}

struct probe_error *kept_tracer(struct kept_options *options, struct trace_tracer **ret)
{
	const char *pairs = options->tracer.pairs;
	const struct probe_session_options base = {
		.ring_bytes = options->ring_bytes,
		.string_bytes = (uint16_t)options->string_bytes,
		.file = options->file,
		.texts = true,
		.frames = true,
		/* Pairs that are found by name do not need the catalogue. */
		.catalogue =
			pairs && !strcmp(pairs, "auto") ? NULL : options->common.patterns.catalogue,
	};
	struct probe_error *error;
	size_t count = options->tracer.tracers.count + options->tracer.count;

	if (count != 1)
		return usage_error("give only one tracer; each has a session of its own");
	if (options->string_bytes > PROBE_STRING_BYTES_MAX)
		return usage_error("-s: at most %d bytes of a string", PROBE_STRING_BYTES_MAX);
	error = tracers_init(
		&options->tracer, &base, &options->common.patterns, false, ret, &count);
	if (!error && count != 1)
		error = usage_error(
			"tracer '%s' stands for several, and each has a session of its own; use "
			"`probectl trace`",
			options->tracer.tracers.items[0]);
	if (!error && (*ret)->output != PROBE_TRACER_ROWS && (*ret)->output != PROBE_TRACER_FLIGHT)
		error = usage_error(
			tracer_is_exported(*ret)
				? "the metrics of tracer '%s' are exported while probectl runs; "
				  "use `probectl trace`"
				: "tracer '%s' prints hits as they come; use `probectl trace`",
			probe_tracer_name((*ret)->spec));
	if (!error && options->file && (*ret)->output != PROBE_TRACER_FLIGHT)
		error = usage_error("--file is for -t ring; tracer '%s' keeps no hits",
			probe_tracer_name((*ret)->spec));
	if (error) {
		tracers_free(*ret, count);
		*ret = NULL;
	}
	return error;
}

/* ---- Writing ---------------------------------------------------------------------- */

static void add_escaped(struct buffer *out, const char *word)
{
	for (; *word; word++) {
		if (*word == '\\')
			buffer_string(out, "\\\\");
		else if (*word == '\n')
			buffer_string(out, "\\n");
		else
			buffer_char(out, *word);
	}
}

static void add_word(struct buffer *out, const char *word)
{
	buffer_char(out, '\n');
	add_escaped(out, word);
}

static void add_option(struct buffer *out, const char *name, const char *value)
{
	if (!value)
		return;
	add_word(out, name);
	add_word(out, value);
}

static void add_number(struct buffer *out, const char *name, uint64_t value)
{
	if (!value)
		return;
	add_word(out, name);
	buffer_char(out, '\n');
	buffer_unsigned(out, value);
}

/*
 * Makes the words of a session. `plain` has expressions in place of names. The caller frees *ret.
 */
static struct probe_error *kept_text(
	const struct kept_options *options, const struct probe_session_options *plain, char **ret)
{
	const struct tracer_options *tracer = &options->tracer;
	const struct pattern_list *patterns = &options->common.patterns;
	const struct string_list *typed =
		options->key_names.count ? &options->key_names : &tracer->keys;
	const char *text = tracer->count ? "count" : tracer->tracers.items[0];
	const struct probe_gather *gather = &plain->gather;
	struct probe_error *error = NULL;
	struct buffer out = {0};
	bool named = false;

	buffer_unsigned(&out, options->since_ns);
	/* The word that names the tracer, and the tracer's value. */
	add_word(&out, "-t");
	buffer_char(&out, '\n');
	buffer_bytes(&out, text, gather->value ? strcspn(text, ",") + 1 : strlen(text));
	if (gather->value)
		add_escaped(&out, gather->value);
	/* The keys as expressions and, if the user typed names in them, also as typed. */
	for (size_t i = 0; i < gather->key_count; i++) {
		add_option(&out, "-k", gather->keys[i]);
		named |= strcmp(gather->keys[i], typed->items[i]) != 0;
	}
	for (size_t i = 0; named && i < typed->count; i++)
		add_option(&out, "--key-name", typed->items[i]);
	add_option(&out, "-f", plain->filter);
	add_option(&out, "--pairs", tracer->pairs);
	add_option(&out, "--match", gather->match);
	if (gather->match && gather->match_end) {
		buffer_char(&out, ':');
		add_escaped(&out, gather->match_end);
	}
	add_number(&out, "--every", tracer->every);
	add_number(&out, "--rate", tracer->rate);
	add_number(&out, "--keys", tracer->keys_max);
	add_number(&out, "-s", options->string_bytes);
	add_number(&out, "-b", options->ring_bytes);
	add_option(&out, "--file", options->file);
	for (size_t i = 0; i < patterns->count && !error; i++) {
		AUTO_FREE char *pattern = NULL;

		const char *typed = probe_pattern_text(patterns->items[i]);

		error = probe_pattern_plain_text(patterns->items[i], &pattern);
		add_option(&out, "-e", pattern);
		/* A reader finds the names of what is behind pointers, too. */
		if (pattern && strcmp(pattern, typed) != 0)
			add_option(&out, "--typed", typed);
	}
	for (size_t i = 0; i < options->typed.count; i++)
		add_option(&out, "--typed", options->typed.items[i]);
	*ret = buffer_take(&out, NULL);
	return error || *ret ? error : probe_error_no_memory();
}

/* Returns a copy of a path with the process id for each %p. The caller frees it. */
static char *path_of(const char *pattern, pid_t pid)
{
	struct buffer out = {0};

	for (const char *at = pattern; *at; at++) {
		if (at[0] == '%' && at[1] == 'p') {
			buffer_unsigned(&out, (uint64_t)pid);
			at++;
		} else {
			buffer_char(&out, *at);
		}
	}
	return buffer_take(&out, NULL);
}

struct probe_error *kept_start(struct probe_target *target, const struct kept_options *options,
	const struct trace_tracer *tracer, struct probe_report *report)
{
	struct probe_session_options its = tracer->options;
	struct kept_options begun = *options;
	struct probe_session *session = NULL;
	struct probe_session_options plain;
	struct probe_error *error;
	AUTO_FREE char *text = NULL;
	AUTO_FREE char *path = its.file ? path_of(its.file, probe_target_pid(target)) : NULL;

	begun.since_ns = clock_now_ns();
	if (its.file && !path)
		return probe_error_no_memory();
	its.file = path;
	error = probe_session_start(target, &options->request.request, &its, report, &session);
	if (!error) {
		plain = its;
		error = probe_session_plain(session, &plain)
			?: kept_text(&begun, &plain, &text)
			?: probe_session_leave(session, text);
		if (error)
			probe_error_free(probe_session_stop(session));
	}
	probe_session_free(session);
	return error;
}

/* ---- Reading ---------------------------------------------------------------------- */

/*
 * Cuts a text into its words, in place. Returns NULL if there are too many, or on lack of memory.
 */
static char **cut(char *text, int *count_ret)
{
	char **words = calloc(WORDS_MAX + 1, sizeof(*words)), *to = text;
	int count = 0;

	if (!words)
		return NULL;
	words[count++] = text;
	for (const char *from = text; *from; from++) {
		if (*from == '\n' && count == WORDS_MAX) {
			free(words);
			return NULL;
		}
		if (*from == '\n') {
			*to++ = '\0';
			words[count++] = to;
		} else if (*from == '\\' && from[1]) {
			from++;
			*to++ = *from == 'n' ? '\n' : *from;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
	*count_ret = count;
	return words;
}

static struct probe_error *malformed(void)
{
	return probe_error_new(PROBE_ERROR_FORMAT,
		"the options stored with the session make no sense; another version of "
		"probectl may have left it");
}

/* Makes the catalogue learn the names of arguments in a PROBE. */
static struct probe_error *want(const struct kept_options *options, const char *probe)
{
	struct probe_pattern *pattern = NULL;
	struct probe_error *error =
		probe_pattern_parse_named(probe, options->common.patterns.catalogue, &pattern);

	probe_pattern_free(pattern);
	return error;
}

static struct probe_error *want_all(const struct kept_options *options)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < options->typed.count && !error; i++)
		error = want(options, options->typed.items[i]);
	for (size_t i = 0; i < options->key_names.count && !error; i++) {
		AUTO_FREE char *probe = NULL;

		if (asprintf(&probe, "fn:*(%s)", options->key_names.items[i]) < 0)
			return probe_error_no_memory();
		error = want(options, probe);
	}
	return error;
}

/* The options of `enable` that define a session. */
static struct probe_error *parse_words(int count, char **words, struct kept_options *ret)
{
	const struct option_row rows[] = {
		OPTIONS_PROBE(&ret->common),
		OPTIONS_KEPT(ret),
		OPTION(0, "key-name", STRINGS, "NAME", &ret->key_names, ""),
		OPTION(0, "typed", STRINGS, "PROBE", &ret->typed, ""),
	};
	const struct command_line line = {
		.synopsis = "read",
		.help = "",
		OPTION_ROWS(rows),
	};
	struct probe_error *error = parse_number(words[0], &ret->since_ns);

	for (int i = 0; i < count && !error; i++) {
		/* Refuse --help, because options_parse() would print the help. */
		if (!strcmp(words[i], "--help") || !strcmp(words[i], "-h"))
			error = malformed();
	}
	error = error ?: options_parse(&line, count, words, &ret->common);
	if (!error && ret->key_names.count && ret->key_names.count != ret->tracer.keys.count)
		error = malformed();
	if (!error && (ret->common.helped || ret->common.program || !kept_is_wanted(ret)))
		error = malformed();
	return error ?: request_init(&ret->request, &ret->common) ?: want_all(ret);
}

struct probe_error *kept_parse(const char *text, struct kept_options *ret, char ***words_ret)
{
	struct probe_error *error;
	char *copy = strdup(text), **words;
	int count;

	if (!copy)
		return probe_error_no_memory();
	words = cut(copy, &count);
	if (!words) {
		free(copy);
		return malformed();
	}
	error = parse_words(count, words, ret);
	/* words[0] was the start time; now it owns the memory of all words. */
	words[0] = copy;
	if (error && error->code == PROBE_ERROR_USAGE) {
		probe_error_free(error);
		error = malformed();
	}
	*words_ret = words;
	return error;
}

void kept_deinit(struct kept_options *options)
{
	tracer_options_deinit(&options->tracer);
	free(options->key_names.items);
	free(options->typed.items);
	options_deinit(&options->common);
}

char *kept_title(const char *text)
{
	struct buffer out = {0};
	const char *from = strchr(text, '\n');
	AUTO_FREE char *copy = strdup(from ? from + 1 : ""), **words = NULL;
	int count = 0;

	if (copy)
		words = cut(copy, &count);
	for (int i = 0; i < count; i++) {
		/* Leave out what users do not type: -e and -t. */
		if (!strcmp(words[i], "--key-name") || !strcmp(words[i], "--typed")) {
			i++;
			continue;
		}
		if (!strcmp(words[i], "-e") || (i == 0 && !strcmp(words[i], "-t")))
			continue;
		if (out.length)
			buffer_char(&out, ' ');
		buffer_string(&out, words[i]);
	}
	return buffer_take(&out, NULL);
}
