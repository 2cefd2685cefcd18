/* SPDX-License-Identifier: MIT */
/* flags: -Ilibprobe/include */
/*
 * A loaded tracer for the tests. It prints a line for each hit, or misbehaves as its option
 * says: crash, block, exit, refuse, odd (no verdict), off (at the start); with a number after it,
 * at that hit.
 * `only` wants the process with this number alone; `leave` wants it until it has had a hit;
 * `terms` prints what a hit's options hold; `named` prints the tag's name, also in `enabled`.
 * `filter` declares "arg0 > NUMBER" for the tag point, and the number's last digit for the tag
 * `own`; `wrong` and `lacking` declare what is no filter of loop:nop. `thread` leaves the first
 * thread, `asked` prints which processes it is asked about, `child` wants only the first of them.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <probe/tracer.h>

struct state {
	char what[16];
	uint64_t at, hits, asked;
	pid_t left; /* a process of which it has had enough */
	pid_t first;
	uint64_t enabled;
};

static struct state state;

static const char *create(const char *options, void **state_ret)
{
	sscanf(options, "%15[a-z]=%" SCNu64, state.what, &state.at);
	if (!strcmp(state.what, "refuse"))
		return "it does not want to";
	if (!strcmp(state.what, "early"))
		abort();
	*state_ret = &state;
	printf("created '%s'\n", options);
	return NULL;
}

static void destroy(void *data)
{
	const struct state *its = data;

	printf("destroyed after %" PRIu64 " hits\n", its->hits);
	if (!strcmp(its->what, "filter") || !strcmp(its->what, "thread"))
		printf("asked of %" PRIu64 " hits\n", its->enabled);
}

static const char *filter(enum probe_tracer_tag tag, const char *name, void *data)
{
	static char text[40];
	struct state *its = data;

	if (!strcmp(its->what, "wrong"))
		return "arg0 >";
	if (!strcmp(its->what, "lacking"))
		return "arg9 == 1";
	if (strcmp(its->what, "filter") != 0)
		return NULL;
	if (tag == PROBE_TAG_POINT)
		snprintf(text, sizeof(text), "arg0 > %" PRIu64, its->at);
	else if (tag == PROBE_TAG_NAMED && !strcmp(name, "own"))
		snprintf(text, sizeof(text), "arg0 == %" PRIu64, its->at % 10);
	else
		return NULL;
	return text;
}

static enum probe_tracer_verdict enabled(enum probe_tracer_tag tag, void *data,
	const struct probe_tracee *tracee, const struct probe_tracer_term *term)
{
	struct state *its = data;

	if (!term->tag || term->arg_count)
		abort();
	if (tag == PROBE_TAG_STATUS && tracee->pid) {
		if (!its->first)
			its->first = tracee->pid;
		if (!strcmp(its->what, "asked") || !strcmp(its->what, "child"))
			printf("asked about %d\n", (int)tracee->pid);
		if (!strcmp(its->what, "child") && tracee->pid != its->first)
			return PROBE_TRACER_REMOVE;
	}
	if (tag == PROBE_TAG_STATUS && tracee->pid) {
		if (tracee->tid)
			abort();
		if (!strcmp(its->what, "only"))
			printf("process %s\n",
				tracee->pid == (pid_t)its->at ? "wanted" : "unwanted");
		return (!strcmp(its->what, "only") && tracee->pid != (pid_t)its->at) ||
				       tracee->pid == its->left
			       ? PROBE_TRACER_REMOVE
			       : PROBE_TRACER_TRACE;
	}
	if (tag == PROBE_TAG_STATUS) {
		printf("status %" PRIu64 "\n", ++its->asked);
		return strcmp(its->what, "off") ? PROBE_TRACER_TRACE : PROBE_TRACER_REMOVE;
	}
	if (!tracee->pid || !tracee->tid)
		abort();
	its->enabled++;
	if (!strcmp(its->what, "named"))
		printf("enabled %s %s:%s\n", term->tag, term->provider, term->name);
	if (!strcmp(its->what, "thread")) {
		if (!its->left)
			its->left = tracee->tid;
		if (its->left == tracee->tid)
			return PROBE_TRACER_REMOVE;
	}
	return strcmp(its->what, "discard") ? PROBE_TRACER_TRACE : PROBE_TRACER_DISCARD;
}

static void misbehave(const struct state *its)
{
	if (!strcmp(its->what, "crash")) {
		signal(SIGSEGV, SIG_DFL); /* a sanitizer's */
		*(volatile int *)0 = 1;
	}
	if (!strcmp(its->what, "block"))
		for (;;)
			pause();
	if (!strcmp(its->what, "exit"))
		_exit(3);
}

/* A number of the options, or nothing. */
static void print_number(const char *what, const struct probe_value *value)
{
	if (value)
		printf(" %s=%" PRId64 "%s", what, value->i,
			value->kind == PROBE_VALUE_UNSIGNED ? "u" : "");
}

static void print_terms(enum probe_tracer_tag tag, const struct probe_tracer_options *options)
{
	/* A time is another one each time. */
	if (tag == PROBE_TAG_END)
		printf(" extra=%s", !options->extra			     ? "none"
				    : options->extra->u < 1000000000 * 60ull ? "time"
									     : "?");
	else
		print_number("extra", options->extra);
	print_number("filter", options->filter_result);
	printf(" comm=%s", options->comm ? options->comm : "");
	if (options->label && options->label->kind == PROBE_VALUE_STRING)
		printf(" label=%.*s", (int)options->label->length, options->label->bytes);
	else
		print_number("label", options->label);
}

static enum probe_tracer_verdict trace(enum probe_tracer_tag tag, void *data,
	const struct probe_tracee *tracee, const struct probe_tracer_term *term,
	const struct probe_tracer_options *options)
{
	struct state *its = data;

	if (tag == PROBE_TAG_STATUS)
		return PROBE_TRACER_TRACE;
	if (++its->hits == its->at)
		misbehave(its);
	if (!strcmp(its->what, "odd") && its->hits == its->at)
		return (enum probe_tracer_verdict)7;
	if (!strcmp(its->what, "remove") && its->hits == its->at)
		return PROBE_TRACER_REMOVE_PROBE;
	if (!strcmp(its->what, "leave"))
		its->left = tracee->pid;
	if (strcmp(its->what, "quiet")) {
		if (!strcmp(its->what, "named"))
			printf("%s ", term->tag);
		printf("tag %d %s:%s", (int)tag, term->provider, term->name);
		for (size_t i = 0; i < term->arg_count; i++) {
			const struct probe_value *value = &term->args[i];

			if (value->kind == PROBE_VALUE_STRING)
				printf(" \"%.*s\"", (int)value->length, value->bytes);
			else
				printf(" %" PRId64, value->i);
		}
		if (!strcmp(its->what, "terms") || !strcmp(its->what, "filter"))
			print_terms(tag, options);
		putchar('\n');
	}
	return PROBE_TRACER_TRACE;
}

const struct probe_tracer_ops probe_tracer = {
	.abi = PROBE_TRACER_ABI,
	.size = sizeof(struct probe_tracer_ops),
	.create = create,
	.destroy = destroy,
	.filter = filter,
	.enabled = enabled,
	.trace = trace,
};
