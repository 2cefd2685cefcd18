/* SPDX-License-Identifier: MIT */
/* Names in memory that is used again: what `texts` of an event promises, and what without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/report/report.h"
#include "tests/unit/report/summary_events.h"

/* Each event has its texts here, where those of the one before it were. */
static char provider[16], name[16], comm[16];

static void hit(struct probe_summary *summary, uint64_t texts, const char *its_provider,
	const char *its_name, const char *its_comm)
{
	const struct probe_event event = {.time_ns = 1000,
		.pid = 10,
		.tid = 10,
		.provider = strcpy(provider, its_provider),
		.name = strcpy(name, its_name),
		.comm = strcpy(comm, its_comm),
		.texts = texts};

	assert_null(probe_summary_add(summary, &event));
}

static void assert_probe(
	const struct probe_summary *summary, size_t index, const char *its_name, uint64_t hits)
{
	assert_string_equal(summary->probes[index]->name, its_name);
	assert_int_equal(summary->probes[index]->hits, hits);
}

/* Where nothing is promised, texts are compared. */
static void test_memory_used_again(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	const struct summary_thread **threads;

	(void)state;
	hit(summary, 0, "db", "query", "old");
	hit(summary, 0, "db", "query", "old");
	hit(summary, 0, "db", "flush", "old");
	hit(summary, 0, "lock", "flush", "new");
	hit(summary, 0, "db", "query", "new");
	assert_int_equal(summary->probe_count, 3);
	assert_probe(summary, 0, "query", 3);
	assert_probe(summary, 1, "flush", 1);
	assert_string_equal(summary->probes[1]->provider, "db");
	assert_probe(summary, 2, "flush", 1);
	assert_string_equal(summary->probes[2]->provider, "lock");
	threads = threads_sorted(summary);
	assert_string_equal(threads[0]->comm, "new");
	free(threads);
	probe_summary_free(summary);
}

/* Of one reader, the place of a text says all; another reader may have other texts there. */
static void test_readers(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	const struct summary_thread **threads;

	(void)state;
	hit(summary, 1, "db", "query", "old");
	hit(summary, 1, "db", "query", "old");
	hit(summary, 2, "db", "flush", "new");
	assert_int_equal(summary->probe_count, 2);
	assert_probe(summary, 0, "query", 2);
	assert_probe(summary, 1, "flush", 1);
	threads = threads_sorted(summary);
	assert_string_equal(threads[0]->comm, "new");
	free(threads);
	/* A reader that breaks its promise: nobody looks. */
	hit(summary, 2, "db", "query", "old");
	assert_probe(summary, 1, "flush", 2);
	/* An event without the promise is compared, and so is the next one with it. */
	hit(summary, 0, "db", "query", "old");
	assert_probe(summary, 0, "query", 3);
	hit(summary, 2, "db", "flush", "new");
	assert_probe(summary, 1, "flush", 3);
	threads = threads_sorted(summary);
	assert_string_equal(threads[0]->comm, "new");
	free(threads);
	probe_summary_free(summary);
}

/* Some event: mostly like others before it, sometimes earlier, or a loss. */
static struct probe_event any_event(unsigned int *seed, uint64_t *time_ns)
{
	static const char *const names[] = {"query__start", "query__done", "flush"};
	static const char *const comms[] = {"old", "new", NULL};
	static struct probe_value value;
	unsigned int draw = (unsigned int)rand_r(seed);

	*time_ns += draw % 7 * 100;
	value = (struct probe_value){.kind = PROBE_VALUE_UNSIGNED, .u = draw / 512 % 3};
	return (struct probe_event){.kind = draw % 97 ? PROBE_EVENT_HIT : PROBE_EVENT_LOST,
		.lost = draw % 97 ? 0 : 3,
		.time_ns = draw % 3 ? *time_ns : *time_ns - draw % 5000,
		.pid = 10,
		.tid = (pid_t)(draw / 16 % 5 ? 10 + draw / 16 % 3 : 10 + draw / 64 % 200),
		.provider = "db",
		.name = names[draw / 128 % 3],
		.comm = comms[draw / 1024 % 16 ? 0 : draw / 16384 % 3],
		.args = &value,
		.arg_count = 1};
}

/* The same events, without the promise and with it. */
static void compare_some(unsigned int seed)
{
	static const struct probe_summary_view view = {.title = "record"};
	struct probe_summary *summaries[2] = {summary_made(NULL), summary_made(NULL)};
	uint64_t time_ns = 1000000;
	size_t lengths[2];
	char *texts[2];

	for (size_t i = 0; i < 500; i++) {
		struct probe_event event = any_event(&seed, &time_ns);

		assert_null(probe_summary_add(summaries[0], &event));
		event.texts = i / 100 % 2 + 1;
		assert_null(probe_summary_add(summaries[1], &event));
	}
	for (size_t i = 0; i < 2; i++) {
		assert_null(probe_summary_render(
			summaries[i], PROBE_SUMMARY_JSON, &view, &texts[i], &lengths[i]));
		probe_summary_free(summaries[i]);
	}
	assert_string_equal(texts[0], texts[1]);
	free(texts[0]);
	free(texts[1]);
}

/* What is promised makes it faster, and changes nothing. */
static void test_same_with_promise(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= 200; seed++)
		compare_some(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_used_again),
		cmocka_unit_test(test_readers),
		cmocka_unit_test(test_same_with_promise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
