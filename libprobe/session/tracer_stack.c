/* SPDX-License-Identifier: MIT */
/*
 * stack: hits by call stack. Stacks are copied into records, and the controller unwinds them;
 * with `frames`, stubs follow the frame pointers and count by return addresses. heap: memory by
 * the stacks of allocations, which are taken in the same ways, but always into records. Other
 * tracers whose hits are handed over may have the stack of each of them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "libprobe/session/session.h"

enum {
	BYTES_MIN = 512,
	RING_BYTES = 16 << 20 /* a record is about a hundred times as long as others */
};

static const char bytes_prefix[] = "bytes=";

/* `option` is what stands before it on the command line. */
static struct probe_error *parse_bytes(
	const char *option, const char *text, size_t length, uint16_t *ret)
{
	char *end;
	unsigned long bytes;

	errno = 0;
	bytes = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || end != text + length || errno || bytes < BYTES_MIN ||
		bytes > ARCH_STACK_MAX)
		return probe_error_new(PROBE_ERROR_USAGE,
			"%sbytes=%.*s: between %d and %d bytes of each stack can be copied", option,
			(int)length, text, BYTES_MIN, ARCH_STACK_MAX);
	*ret = (uint16_t)bytes;
	return NULL;
}

static bool is_word(const char *text, size_t length, const char *word)
{
	return length == strlen(word) && !memcmp(text, word, length);
}

static struct probe_error *parse_word(const struct tracer_kind *kind, const char *text,
	size_t length, struct tracer_stack_options *ret)
{
	bool heap = kind->output == PROBE_TRACER_HEAP;
	size_t prefix = sizeof(bytes_prefix) - 1;

	if (heap && is_word(text, length, "live"))
		ret->live = true;
	else if (heap && is_word(text, length, "total"))
		ret->total = true;
	else if (is_word(text, length, "frames"))
		ret->frames = true;
	else if (is_word(text, length, "folded"))
		ret->folded = true;
	else if (is_word(text, length, "flamegraph"))
		ret->flamegraph = true;
	else if (is_word(text, length, "pprof"))
		ret->pprof = true;
	else if (length >= prefix && !memcmp(text, bytes_prefix, prefix))
		return parse_bytes(heap ? "-t heap," : "-t stack,", text + prefix, length - prefix,
			&ret->bytes);
	else
		return probe_error_new(PROBE_ERROR_USAGE,
			"tracer '%s' has no option '%.*s'; it has %sframes, bytes=N, folded, "
			"flamegraph and pprof",
			kind->name, (int)length, text, heap ? "live, total, " : "");
	return NULL;
}

struct probe_error *tracer_stack_parse(
	const struct probe_tracer_spec *spec, struct tracer_stack_options *ret)
{
	const char *name = spec->kind->name, *operand = spec->operand;
	struct probe_error *error = NULL;

	*ret = (struct tracer_stack_options){0};
	while (operand && !error) {
		size_t length = strcspn(operand, ",");

		error = parse_word(spec->kind, operand, length, ret);
		operand = operand[length] ? operand + length + 1 : NULL;
	}
	if (!error && ret->frames && ret->bytes)
		error = probe_error_new(PROBE_ERROR_USAGE,
			"-t %s: either frames, which copies no bytes, or bytes=N", name);
	if (!error && ret->folded + ret->flamegraph + ret->pprof > 1)
		error = probe_error_new(
			PROBE_ERROR_USAGE, "-t %s: one of folded, flamegraph and pprof", name);
	if (!error && ret->live && ret->total)
		error = probe_error_new(PROBE_ERROR_USAGE,
			"-t %s: either live, what is not freed, or total, all that was allocated",
			name);
	return error;
}

static void take_stacks(
	const struct tracer_stack_options *its, struct probe_session_options *options)
{
	options->stack = its->frames ? PROBE_STACK_FRAMES : PROBE_STACK_COPY;
	options->stack_bytes = its->bytes;
	if (!its->frames && !options->ring_bytes) {
		options->ring_bytes = RING_BYTES;
		options->may_shrink = true;
	}
}

/* Frees need no stack, but none of them may be missing. */
static struct probe_error *configure_heap(struct probe_session_options *options)
{
	if (options->filter)
		return probe_error_new(PROBE_ERROR_USAGE,
			"-f: tracer 'heap' needs each free of what it has seen allocated; a filter "
			"would leave some out");
	if (options->gather.match)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--match: tracer 'heap' matches a free with its allocation by the pointer");
	options->kind = PROBE_SESSION_RECORD;
	options->begin_stacks = true;
	return NULL;
}

struct probe_error *tracer_stack_configure(
	const struct probe_tracer_spec *spec, struct probe_session_options *options)
{
	struct tracer_stack_options its;
	struct probe_error *error = tracer_stack_parse(spec, &its);

	if (!error && spec->kind->output == PROBE_TRACER_HEAP)
		error = configure_heap(options);
	else
		options->kind = its.frames ? PROBE_SESSION_GATHER : PROBE_SESSION_RECORD;
	if (!error)
		take_stacks(&its, options);
	return error;
}

/* One word: no stack is both. */
static struct probe_error *parse_how(const char *how, struct tracer_stack_options *ret)
{
	size_t prefix = sizeof(bytes_prefix) - 1;

	*ret = (struct tracer_stack_options){.frames = !strcmp(how, "frames")};
	if (!*how || ret->frames)
		return NULL;
	if (!strncmp(how, bytes_prefix, prefix))
		return parse_bytes("--stack=", how + prefix, strlen(how) - prefix, &ret->bytes);
	return probe_error_new(PROBE_ERROR_USAGE,
		"--stack=%s: use --stack, --stack=frames or --stack=bytes=N", how);
}

struct probe_error *probe_tracer_take_stacks(const struct probe_tracer_spec *spec, const char *how,
	struct probe_session_options *options)
{
	enum probe_tracer_output output = probe_tracer_output(spec);
	struct tracer_stack_options its;
	struct probe_error *error;

	if (output == PROBE_TRACER_LOADED)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--stack: tracer %s gets no stacks; -t print and -t json show those of "
			"hits",
			spec->name);
	if (tracer_has_stacks(spec->kind))
		return probe_error_new(PROBE_ERROR_USAGE,
			"--stack: tracer '%s' takes stacks by itself", spec->name);
	if (output != PROBE_TRACER_HITS && output != PROBE_TRACER_HITS_JSON &&
		output != PROBE_TRACER_FLIGHT)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--stack: tracer '%s' prints no hits; -t %s", spec->name,
			spec->kind->has_pairs ? "span prints each pair with the stack of its end"
					      : "stack counts hits by their stacks");
	error = parse_how(how, &its);
	if (!error)
		take_stacks(&its, options);
	return error;
}
