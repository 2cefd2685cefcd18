/* SPDX-License-Identifier: MIT */
/*
 * heap PID: for two seconds, which functions allocate memory, and what of it is not freed, as
 * otel_memory:alloc and otel_memory:free tell.
 */
#include <stdbool.h>
#include <unistd.h>

#include <probe/heap.h>
#include <probe/pattern.h>
#include <probe/target.h>

#include "example.h"

enum { SECONDS = 2 };

struct adding {
	struct probe_session *session;
	struct probe_heap *heap;
};

static bool visit(const struct probe_hit *hit, void *data)
{
	struct adding *a = data;
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(a->session, &count);

	check(probe_heap_add(a->heap, a->session, &probes[hit->probe], hit, NULL));
	return true;
}

/* The function that has called the allocator: the allocator is the innermost. */
static const char *caller_of(const struct probe_stack *stack)
{
	const char *symbol = stack->count > 1 ? stack->frames[1]->symbol : NULL;

	return symbol ? symbol : "?";
}

static void print(struct probe_heap *heap)
{
	struct probe_stacks_row *rows;
	size_t count;

	check(probe_heap_rows(heap, true, true, &rows, &count));
	for (size_t i = 0; i < count; i++)
		printf("%s: %llu bytes more, %llu live\n", caller_of(&rows[i].stack),
			(unsigned long long)rows[i].total_bytes,
			(unsigned long long)rows[i].live_bytes);
	free(rows);
	/* The next time, only what is new. */
	probe_heap_mark(heap);
}

int main(int argc, char **argv)
{
	const struct probe_session_options options = {.kind = PROBE_SESSION_RECORD,
		.gather = {.pairing = PROBE_PAIRING_LISTED},
		.stack = PROBE_STACK_COPY,
		.begin_stacks = true};
	struct probe_pattern *patterns[2];
	const struct probe_request request = {
		.patterns = (const struct probe_pattern **)patterns, .pattern_count = 2};
	struct probe_report report = {0};
	struct probe_target *target;
	struct adding a;

	if (argc < 2)
		return 2;
	check(probe_heap_create(&a.heap));
	check(probe_pattern_parse("otel_memory:alloc", &patterns[0]));
	check(probe_pattern_parse("otel_memory:free", &patterns[1]));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	check(probe_session_start(target, &request, &options, &report, &a.session));
	probe_report_deinit(&report);
	for (int i = 0; i < SECONDS; i++) {
		sleep(1);
		check(probe_session_poll(a.session, visit, &a, NULL));
		print(a.heap);
		fflush(stdout);
	}
	check(probe_session_stop(a.session));
	printf("%llu frees of older memory\n",
		(unsigned long long)probe_heap_doubts(a.heap).unknown_frees);
	/* Hits of other sessions could still be added. */
	probe_heap_forget(a.heap, a.session);
	probe_session_free(a.session);
	probe_heap_free(a.heap);
	probe_target_close(target);
	probe_pattern_free(patterns[0]);
	probe_pattern_free(patterns[1]);
	return 0;
}
