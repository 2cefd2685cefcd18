/* SPDX-License-Identifier: MIT */
/*
 * What sessions gather of a real process, against what it is known to have done:
 * this program's child, which hits its probes on command, in several threads.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/target.h"

enum {
	THREADS = 4,
	HITS = 20000, /* of each thread */
	KINDS = 10,
	ROUNDS = 500,
	DEPTH = 5,
	REQUESTS = 1000,
	LEFT = 5 /* requests that never end */
};

static const char *const names[] = {"alpha", "beta", "gamma"};

/* ---- The target ------------------------------------------------------------------------- */

static long value_of(long i)
{
	return i * 7919 % 100003 - 50000;
}

static __attribute__((noinline)) void hit_value(long i)
{
	DTRACE_PROBE3(live, value, value_of(i), (unsigned int)(i % KINDS), names[i % 3]);
}

static __attribute__((noinline)) void start(int id)
{
	DTRACE_PROBE1(live, op__start, id);
}

static __attribute__((noinline)) void done(int id)
{
	DTRACE_PROBE1(live, op__done, id);
}

static void *hit_values(void *unused)
{
	for (long i = 0; i < HITS; i++)
		hit_value(i);
	return unused;
}

static __attribute__((noinline)) void recurse(int depth)
{
	start(depth);
	if (depth > 1)
		recurse(depth - 1);
	done(depth);
}

static void *recurse_often(void *unused)
{
	for (int i = 0; i < ROUNDS; i++)
		recurse(DEPTH);
	return unused;
}

static void *start_requests(void *unused)
{
	for (int i = 0; i < REQUESTS; i++)
		start(i);
	return unused;
}

static void *end_requests(void *unused)
{
	for (int i = REQUESTS; i-- > LEFT;)
		done(i);
	return unused;
}

static void in_threads(void *(*work)(void *), int count)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			abort();
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void obey(char command)
{
	switch (command) {
	case 'v':
		in_threads(hit_values, THREADS);
		break;
	case 'r':
		in_threads(recurse_often, THREADS);
		done(0);
		start(0);
		break;
	case 'q': /* one after the other: begin and end are of different threads */
		in_threads(start_requests, 1);
		in_threads(end_requests, 1);
		done(REQUESTS + 1);
		break;
	default: /* one thread, in order */
		hit_values(NULL);
	}
}

/* ---- Its controller --------------------------------------------------------------------- */

struct live {
	pid_t pid;
	int commands, replies;
	struct probe_target *target;
	struct probe_session *session;
	struct probe_row *rows;
	size_t count;
};

static void no_error(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

static int setup(void **state)
{
	struct live *l = calloc(1, sizeof(*l));
	int commands[2], replies[2];

	assert_non_null(l);
	assert_int_equal(pipe(commands) | pipe(replies), 0);
	l->pid = fork();
	assert_true(l->pid >= 0);
	if (l->pid == 0) {
		char command;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(commands[1]);
		while (read(commands[0], &command, 1) == 1) {
			obey(command);
			if (write(replies[1], &command, 1) != 1)
				break;
		}
		_exit(0);
	}
	close(commands[0]);
	close(replies[1]);
	l->commands = commands[1];
	l->replies = replies[0];
	no_error(probe_target_open(l->pid, NULL, &l->target));
	*state = l;
	return 0;
}

static void order(struct live *l, char command)
{
	char reply;

	assert_int_equal(write(l->commands, &command, 1), 1);
	assert_int_equal(read(l->replies, &reply, 1), 1);
	assert_int_equal(reply, command);
}

static void end_session(struct live *l)
{
	free(l->rows);
	l->rows = NULL;
	probe_session_free(l->session);
	l->session = NULL;
}

static int teardown(void **state)
{
	struct live *l = *state;
	int status;

	end_session(l);
	/* It is unharmed, if it is still there. */
	if (probe_target_alive(l->target))
		order(l, 'r');
	close(l->commands);
	close(l->replies);
	waitpid(l->pid, &status, 0);
	probe_target_close(l->target);
	free(l);
	return 0;
}

static struct probe_error *begin(struct live *l, const char *pattern,
	const struct probe_session_options *options, struct probe_report *report)
{
	struct probe_pattern *parsed;
	struct probe_error *error;
	struct probe_request request = {
		.patterns = (const struct probe_pattern *const *)&parsed, .pattern_count = 1};

	no_error(probe_pattern_parse(pattern, &parsed));
	error = probe_session_start(l->target, &request, options, report, &l->session);
	/* Only a session that follows libraries looks at its patterns again. */
	probe_pattern_free(parsed);
	return error;
}

/* A session over one command, and its rows. */
static void gather(struct live *l, const char *pattern, const struct probe_session_options *options,
	char command)
{
	struct probe_report report = {0};

	no_error(begin(l, pattern, options, &report));
	probe_report_deinit(&report);
	order(l, command);
	no_error(probe_session_stop(l->session));
	no_error(probe_session_rows(l->session, &l->rows, &l->count));
}

static const struct probe_session_probe *probe_named(const struct live *l, const char *name)
{
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(l->session, &count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(probes[i].name, name) == 0)
			return &probes[i];
	fail_msg("the session has no probe %s", name);
	return NULL;
}

/* ---- Values and keys -------------------------------------------------------------------- */

static void test_values(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.value = "arg0",
			.sum = true,
			.extremes = true,
			.last = true,
			.histogram = true}};
	struct live *l = *state;
	double sum = 0, min = 0, max = 0;
	uint64_t negative = 0;

	for (long i = 0; i < HITS; i++) {
		double v = (double)value_of(i);

		sum += THREADS * v;
		min = v < min ? v : min;
		max = v > max ? v : max;
		negative += v < 0 ? THREADS : 0;
	}
	gather(l, "live:value", &options, 'v');
	assert_int_equal(l->count, 1);
	assert_int_equal(l->rows->count, THREADS * HITS);
	assert_int_equal(probe_named(l, "value")->hits, THREADS * HITS);
	assert_int_equal(probe_named(l, "value")->lost, 0);
	assert_true(l->rows->is_signed && l->rows->sum == sum);
	assert_true((double)l->rows->min.i == min && (double)l->rows->max.i == max);
	assert_int_equal(l->rows->last.i, value_of(HITS - 1));
	assert_int_equal(l->rows->buckets[PROBE_BUCKETS - 1], negative);
}

static void test_keys(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.value = "arg0",
			.sum = true,
			.keys = {"str(arg2)", "arg1"},
			.key_count = 2}};
	struct live *l = *state;

	gather(l, "live:value", &options, 'v');
	assert_int_equal(l->count, 3 * KINDS);
	for (size_t i = 0; i < l->count; i++) {
		const struct probe_value *keys = l->rows[i].keys;
		uint64_t count = 0;
		double sum = 0;

		for (long k = 0; k < HITS; k++) {
			const char *name = names[k % 3];

			if ((uint64_t)k % KINDS != keys[1].u || strlen(name) != keys[0].length ||
				memcmp(name, keys[0].bytes, keys[0].length) != 0)
				continue;
			count += THREADS;
			sum += THREADS * (double)value_of(k);
		}
		assert_int_equal(l->rows[i].count, count);
		assert_true(l->rows[i].sum == sum);
	}
}

/* More keys than there is room for: what finds none is counted as lost. */
static void test_many_keys(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.keys = {"arg0"}, .key_count = 1, .keys_max = 16}};
	struct live *l = *state;
	uint64_t sum = 0;

	gather(l, "live:value", &options, 'v');
	for (size_t i = 0; i < l->count; i++)
		sum += l->rows[i].count;
	assert_true(l->count >= 16 && sum > 0);
	assert_int_equal(sum, probe_named(l, "value")->hits);
	assert_int_equal(sum + probe_named(l, "value")->lost, THREADS * HITS);
}

/* ---- Filters and samples ---------------------------------------------------------------- */

static bool count_hit(const struct probe_hit *hit, void *data)
{
	assert_int_equal(hit->args[1].u, 3);
	++*(uint64_t *)data;
	return true;
}

static void test_filters(void **state)
{
	struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.filter = "arg1 == 3 && str(arg2) == \"beta\" && arg0 > -40000"};
	struct live *l = *state;
	uint64_t truth = 0, seen = 0;

	for (long i = 0; i < HITS; i++)
		truth += i % KINDS == 3 && i % 3 == 1 && value_of(i) > -40000 ? THREADS : 0;
	gather(l, "live:value", &options, 'v');
	assert_int_equal(l->rows->count, truth);
	assert_false(l->rows->has_value);
	end_session(l);
	options.kind = PROBE_SESSION_COUNT;
	gather(l, "live:value", &options, 'v');
	assert_int_equal(l->count, 0); /* only what gathers has rows */
	assert_int_equal(probe_named(l, "value")->hits, truth);
	end_session(l);
	options.kind = PROBE_SESSION_RECORD;
	gather(l, "live:value", &options, 'v');
	no_error(probe_session_poll(l->session, count_hit, &seen, NULL));
	assert_int_equal(seen + probe_named(l, "value")->lost, truth);
}

static void test_samples(void **state)
{
	static const struct probe_session_options options = {
		.kind = PROBE_SESSION_COUNT, .sample_every = 4};
	struct live *l = *state;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	double off;

	gather(l, "live:value", &options, 'v');
	off = 4 * (double)probe_named(l, "value")->hits - THREADS * HITS;
	assert_true(fabs(off) <= 4 * (double)(cpus + 1)); /* each CPU begins anew */
}

/* ---- Pairs ------------------------------------------------------------------------------ */

static void test_recursion(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_NAMES,
			.sum = true,
			.extremes = true,
			.histogram = true}};
	struct live *l = *state;
	struct probe_report report = {0};
	struct timespec before, after;
	double most;

	no_error(begin(l, "live:*", &options, &report));
	assert_int_equal(report.refusal_count, 1); /* live:value has no partner */
	assert_string_equal(report.refusals->name, "value");
	probe_report_deinit(&report);
	clock_gettime(CLOCK_MONOTONIC, &before);
	order(l, 'r');
	clock_gettime(CLOCK_MONOTONIC, &after);
	most = (double)(after.tv_sec - before.tv_sec) * 1e9 +
	       (double)(after.tv_nsec - before.tv_nsec);
	no_error(probe_session_stop(l->session));
	no_error(probe_session_rows(l->session, &l->rows, &l->count));
	assert_int_equal(l->count, 1);
	assert_int_equal(l->rows->count, THREADS * ROUNDS * DEPTH);
	assert_int_equal(l->rows->in_flight, 1);
	assert_int_equal(probe_named(l, "op__done")->unmatched, 1);
	assert_int_equal(probe_named(l, "op__done")->role, PROBE_ROLE_END);
	assert_int_equal(probe_named(l, "op__start")->role, PROBE_ROLE_BEGIN);
	assert_true(l->rows->sum > 0 && (double)l->rows->max.u < most * 1.001);
	assert_true(l->rows->sum < most * THREADS * DEPTH * 1.001);
	assert_true((double)l->rows->min.u <= probe_row_percentile(l->rows, 50));
	assert_true(probe_row_percentile(l->rows, 99) <= (double)l->rows->max.u);
}

static void test_requests(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_NAMES, .sum = true, .match = "arg0"}};
	struct live *l = *state;

	gather(l, "live:op*", &options, 'q');
	assert_int_equal(l->count, 1);
	assert_int_equal(l->rows->count, REQUESTS - LEFT);
	assert_int_equal(l->rows->in_flight, LEFT);
	assert_int_equal(probe_named(l, "op__done")->unmatched, 1);
	assert_int_equal(probe_named(l, "op__start")->lost, 0);
}

/* ---- Flight recorder -------------------------------------------------------------------- */

struct flight {
	uint64_t count, last_time;
	long last;
};

static bool follow_flight(const struct probe_hit *hit, void *data)
{
	struct flight *f = data;

	assert_true(hit->time_ns >= f->last_time);
	f->last_time = hit->time_ns;
	f->last = (long)hit->args[0].i;
	f->count++;
	return true;
}

static void test_recorder(void **state)
{
	static const struct probe_session_options options = {
		.kind = PROBE_SESSION_RECORD, .overwrite = true, .ring_bytes = 1};
	struct flight first = {0}, second = {0};
	struct probe_report report = {0};
	struct live *l = *state;
	bool more = true;

	no_error(begin(l, "live:value", &options, &report));
	probe_report_deinit(&report);
	order(l, 'o');
	no_error(probe_session_poll(l->session, follow_flight, &first, &more));
	assert_true(first.count == 0 && !more && probe_session_damaged(l->session) == 0);
	no_error(probe_session_snapshot(l->session, follow_flight, &first));
	assert_true(first.count > 1000 && first.count < HITS);
	assert_int_equal(first.last, value_of(HITS - 1));
	/* It is still there when the target is not. */
	kill(l->pid, SIGKILL);
	waitpid(l->pid, NULL, 0);
	no_error(probe_session_snapshot(l->session, follow_flight, &second));
	assert_int_equal(second.count, first.count);
	assert_int_equal(second.last, first.last);
	no_error(probe_session_stop(l->session));
}

/* ---- Sessions that stay ----------------------------------------------------------------- */

static struct probe_error *open_kept(struct live *l, uint32_t id, const char *pattern,
	const struct probe_session_options *options)
{
	struct probe_pattern *parsed;
	struct probe_error *error;
	struct probe_request request = {
		.patterns = (const struct probe_pattern *const *)&parsed, .pattern_count = 1};

	no_error(probe_pattern_parse(pattern, &parsed));
	error = probe_session_open(l->target, id, &request, options, &l->session);
	probe_pattern_free(parsed);
	return error;
}

/* Leaves a session there with a text, and nothing here; its id. */
static uint32_t keep(struct live *l, const char *pattern,
	const struct probe_session_options *options, const char *text)
{
	struct probe_report report = {0};
	struct probe_kept *kept;
	uint32_t id;
	size_t count;

	no_error(begin(l, pattern, options, &report));
	probe_report_deinit(&report);
	no_error(probe_session_leave(l->session, text));
	no_error(probe_session_stop(l->session)); /* it is not ours any more */
	end_session(l);
	no_error(probe_target_kept(l->target, &kept, &count));
	assert_true(count >= 1);
	assert_string_equal(kept[count - 1].text, text);
	id = kept[count - 1].id;
	free(kept);
	return id;
}

static void is_gone(struct live *l, uint32_t id, const struct probe_session_options *options)
{
	struct probe_error *error = open_kept(l, id, "live:*", options);

	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	probe_error_free(error);
	error = probe_target_end(l->target, id);
	assert_non_null(error);
	probe_error_free(error);
}

static void test_kept(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
							  .gather = {.value = "arg0",
								  .sum = true,
								  .histogram = true,
								  .keys = {"str(arg2)"},
								  .key_count = 1}},
						  others = {.kind = PROBE_SESSION_GATHER,
							  .gather = {.value = "arg0", .sum = true}};
	struct live *l = *state;
	struct probe_error *error;
	struct probe_kept *kept;
	uint64_t sum = 0;
	char text[1000];
	uint32_t id;
	size_t count;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	id = keep(l, "live:value", &options, text);
	order(l, 'v');
	no_error(open_kept(l, id, "live:*", &options)); /* of others it takes no notice */
	no_error(probe_session_rows(l->session, &l->rows, &l->count));
	assert_int_equal(l->count, 3);
	for (size_t i = 0; i < l->count; i++) {
		assert_true(l->rows[i].is_signed && l->rows[i].buckets);
		sum += l->rows[i].count;
	}
	assert_int_equal(sum, THREADS * HITS);
	no_error(probe_session_poll(l->session, NULL, NULL, NULL));
	assert_int_equal(probe_named(l, "value")->hits, THREADS * HITS);
	end_session(l);
	error = open_kept(l, id, "live:*", &others);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	probe_error_free(error);
	no_error(probe_target_end(l->target, id));
	no_error(probe_target_kept(l->target, &kept, &count));
	assert_int_equal(count, 0);
	free(kept);
	is_gone(l, id, &options);
}

static void test_kept_pairs(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_NAMES, .sum = true, .extremes = true}};
	struct live *l = *state;
	uint32_t id = keep(l, "live:op*", &options, "latency"), other;
	struct probe_request request;
	struct probe_pattern *pattern;
	struct probe_report report = {0};

	order(l, 'r');
	other = keep(l, "live:op*", &options, ""); /* two at once: their numbers are their own */
	order(l, 'r');
	no_error(open_kept(l, id, "live:*", &options));
	no_error(probe_session_rows(l->session, &l->rows, &l->count));
	assert_int_equal(l->count, 1);
	assert_int_equal(l->rows->count, 2 * THREADS * ROUNDS * DEPTH + 1);
	assert_int_equal(l->rows->in_flight, 1);
	assert_true(l->rows->begin != SIZE_MAX && l->rows->min.u <= l->rows->max.u);
	end_session(l);
	no_error(open_kept(l, other, "live:*", &options));
	no_error(probe_session_rows(l->session, &l->rows, &l->count));
	assert_int_equal(l->rows->count, THREADS * ROUNDS * DEPTH);
	assert_int_equal(probe_named(l, "op__done")->unmatched, 1);
	end_session(l);
	/* Each is one reference. */
	no_error(probe_pattern_parse("live:op*", &pattern));
	request = (struct probe_request){
		.patterns = (const struct probe_pattern *const *)&pattern, .pattern_count = 1};
	no_error(probe_target_disable(l->target, &request, &report));
	no_error(probe_target_disable(l->target, &request, &report));
	probe_report_deinit(&report);
	probe_pattern_free(pattern);
	is_gone(l, id, &options);
	is_gone(l, other, &options);
}

static void test_kept_stacks(void **state)
{
	static const struct probe_session_options options = {
		.kind = PROBE_SESSION_GATHER, .stack = PROBE_STACK_FRAMES};
	struct live *l = *state;
	struct probe_stack stack;
	uint32_t id = keep(l, "live:value", &options, "stack");
	uint64_t sum = 0;

	order(l, 'v');
	no_error(open_kept(l, id, "*", &options));
	no_error(probe_session_rows(l->session, &l->rows, &l->count));
	for (size_t i = 0; i < l->count; i++) {
		no_error(probe_session_stack(l->session, &l->rows[i], &stack));
		assert_true(stack.count > 0);
		sum += l->rows[i].count;
	}
	assert_int_equal(sum, THREADS * HITS);
	end_session(l);
	no_error(probe_target_end(l->target, id));
}

static void test_kept_recorder(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_RECORD,
							  .overwrite = true,
							  .ring_bytes = 1},
						  plain = {.kind = PROBE_SESSION_RECORD};
	struct live *l = *state;
	struct flight flight = {0};
	struct probe_report report = {0};
	struct probe_error *error;
	uint32_t id = keep(l, "live:value", &options, "ring");

	order(l, 'o');
	no_error(open_kept(l, id, "*", &options));
	no_error(probe_session_snapshot(l->session, follow_flight, &flight));
	assert_true(flight.count > 1000 && flight.count < HITS);
	assert_int_equal(flight.last, value_of(HITS - 1));
	end_session(l);
	no_error(probe_target_end(l->target, id));
	no_error(begin(l, "live:value", &plain, &report));
	probe_report_deinit(&report);
	error = probe_session_leave(l->session, "");
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	probe_error_free(error);
	no_error(probe_session_stop(l->session));
}

/* ---- Mistakes --------------------------------------------------------------------------- */

static void refused(struct live *l, const char *pattern,
	const struct probe_session_options *options, enum probe_error_code code,
	const char *message)
{
	struct probe_report report = {0};
	struct probe_error *error = begin(l, pattern, options, &report);

	probe_report_deinit(&report);
	assert_non_null(error);
	assert_int_equal(error->code, code);
	if (!strstr(error->message, message))
		fail_msg("%s", error->message);
	probe_error_free(error);
}

static void test_mistakes(void **state)
{
	struct probe_session_options options = {.kind = PROBE_SESSION_GATHER};
	struct live *l = *state;

	options.gather.pairing = PROBE_PAIRING_NAMES;
	refused(l, "live:value", &options, PROBE_ERROR_NOT_FOUND, "live:value has no partner");
	options.gather.value = "arg0";
	refused(l, "live:op*", &options, PROBE_ERROR_USAGE, "no other value");
	options.gather.pairing = PROBE_PAIRING_NONE;
	options.gather.value = "arg5";
	refused(l, "live:value", &options, PROBE_ERROR_USAGE, "live:value: ");
	options.gather.value = "arg0 +";
	refused(l, "live:value", &options, PROBE_ERROR_USAGE, "column 7");
	options.gather.value = NULL;
	options.gather.histogram = true;
	refused(l, "live:value", &options, PROBE_ERROR_USAGE, "give a value");
	options.gather.histogram = false;
	options.gather.keys[options.gather.key_count++] = "str(arg7)";
	refused(l, "live:value", &options, PROBE_ERROR_USAGE, "no arg7 for the key");
	options.gather.keys[0] = "arg0";
	options.gather.keys_max = SIZE_MAX;
	refused(l, "live:value", &options, PROBE_ERROR_USAGE, "keys");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_values, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_filters, setup, teardown),
		cmocka_unit_test_setup_teardown(test_samples, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recursion, setup, teardown),
		cmocka_unit_test_setup_teardown(test_requests, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recorder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept_pairs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept_stacks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept_recorder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mistakes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
