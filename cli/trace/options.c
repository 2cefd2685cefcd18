/* SPDX-License-Identifier: MIT */
/* From a parsed command line to a trace. */
#include <string.h>

#include "cli/cli.h"
#include "cli/trace/options.h"
#include "cli/trace/record_stream.h"

/* `trace -c -k PROBE`: the key that was forgotten looks like the probe. */
static struct probe_error *check_keys(const struct trace_options *options)
{
	const struct common_options *common = &options->common;
	const struct string_list *keys = &options->tracer.keys;

	if (common->patterns.count || common->operand_count || !keys->count)
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"no PROBE given: -k took '%s' as a key, as in -k EXPR PROBE",
		keys->items[keys->count - 1]);
}

struct probe_error *trace_options_run(struct trace_options *options, int *status_ret)
{
	struct probe_error *error = NULL;

	if (options->string_bytes > PROBE_STRING_BYTES_MAX)
		error = probe_error_new(PROBE_ERROR_USAGE, "-s: at most %d bytes of a string",
			PROBE_STRING_BYTES_MAX);
	if (!error)
		error = processes_check(&options->common);
	if (!error)
		error = check_keys(options);
	if (!error)
		error = request_init(&options->request, &options->common);
	if (!error)
		error = processes_find(&options->common);
	if (error)
		return error;
	if (options->tracer.stack && options->full != RECORD_FLUSH)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--stack: only a record that is written continuously has stacks, without "
			"--full");
	options->parts.stacks = options->tracer.stack != NULL;
	if (options->full != RECORD_FLUSH)
		error = trace_rings_check(options);
	return error ? error : trace_command(options, status_ret);
}
