/* SPDX-License-Identifier: MIT */
/*
 * send PID BEGIN END COUNT URL: COUNT times from one probe to another as spans, and how often both
 * were hit as metrics, for a collector of OpenTelemetry.
 */
#include <poll.h>
#include <time.h>

#include <probe/otlp.h>
#include <probe/pattern.h>
#include <probe/table.h>
#include <probe/target.h>

#include "example.h"

enum { PAUSE_MS = 10, END_MS = 5000 };

struct sending {
	struct probe_session *spans, *counts;
	struct probe_otlp *otlp;
	long left;
};

/* Each hit is that of an end. */
static bool visit(const struct probe_hit *hit, void *data)
{
	struct sending *s = data;
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(s->spans, &count);

	if (!s->left)
		return false;
	probe_otlp_span(s->otlp, hit, &probes[hit->begin->probe], &probes[hit->probe], NULL);
	s->left--;
	return true;
}

/* Sends what can be sent, and sleeps for a moment if there is nothing to do. */
static void send_some(struct probe_otlp *otlp)
{
	struct pollfd fd = {.fd = probe_otlp_fd(otlp), .events = POLLIN};
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (probe_otlp_due_ns(otlp) >
		(uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + PAUSE_MS * 1000000)
		poll(&fd, 1, PAUSE_MS);
	probe_otlp_run(otlp);
}

static void send_counts(const struct sending *s, pid_t pid)
{
	static const struct probe_view view = {.tracer = "count", .columns = PROBE_COLUMN_COUNT};
	static const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT};
	struct probe_metrics *metrics;
	struct probe_table *table;
	size_t index;

	check(probe_metrics_create(100, &metrics));
	check(probe_metrics_view(metrics, &view, 0, &index));
	check(probe_table_create(0, &table));
	check(probe_table_add(table, s->counts, &options));
	check(probe_metrics_add(metrics, index, pid, NULL, table));
	check(probe_otlp_metrics(s->otlp, metrics));
	probe_metrics_free(metrics);
}

/* Both sessions have one stub at each site. */
static void start(
	struct probe_target *target, const struct probe_request *request, struct sending *s)
{
	static const struct probe_session_options
		spans = {.kind = PROBE_SESSION_RECORD,
			.spans = true,
			.gather = {.pairing = PROBE_PAIRING_LISTED}},
		counts = {.kind = PROBE_SESSION_COUNT}, *const options[] = {&spans, &counts};
	struct probe_report reports[2] = {{0}};
	struct probe_session *sessions[2];

	check(probe_sessions_start(target, request, options, 2, reports, sessions));
	s->spans = sessions[0];
	s->counts = sessions[1];
	for (int i = 0; i < 2; i++)
		probe_report_deinit(&reports[i]);
}

int main(int argc, char **argv)
{
	struct probe_pattern *begin, *end;
	struct probe_target *target;
	struct probe_otlp_sent sent;
	struct sending s = {0};
	bool more = true;

	if (argc < 6)
		return 2;
	s.left = atol(argv[4]);
	check(probe_otlp_open(argv[5], NULL, -1, &s.otlp));
	check(probe_pattern_parse(argv[2], &begin));
	check(probe_pattern_parse(argv[3], &end));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	{
		const struct probe_pattern *const patterns[] = {begin, end};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 2};

		start(target, &request, &s);
	}
	while (s.left && (more || probe_target_alive(target))) {
		check(probe_session_poll(s.spans, visit, &s, &more));
		send_some(s.otlp);
	}
	check(probe_session_stop(s.spans));
	check(probe_session_stop(s.counts));
	send_counts(&s, probe_target_pid(target));
	probe_otlp_flush(s.otlp);
	for (int i = 0; probe_otlp_is_busy(s.otlp) && i < END_MS / PAUSE_MS; i++)
		send_some(s.otlp);
	probe_otlp_give_up(s.otlp);
	sent = probe_otlp_sent(s.otlp);
	printf("%llu spans and %llu points sent, %llu and %llu lost%s%s\n",
		(unsigned long long)sent.spans, (unsigned long long)sent.points,
		(unsigned long long)sent.lost_spans, (unsigned long long)sent.lost_points,
		*sent.why ? ": " : "", sent.why);
	probe_session_free(s.spans);
	probe_session_free(s.counts);
	probe_otlp_close(s.otlp);
	probe_target_close(target);
	probe_pattern_free(begin);
	probe_pattern_free(end);
	return 0;
}
