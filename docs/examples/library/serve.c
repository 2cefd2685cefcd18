/* SPDX-License-Identifier: MIT */
/*
 * serve PID PROBE SECONDS ADDR:PORT: how often a process passes the sites of a probe, for
 * Prometheus, brought up to date every second; and in the end once more on the standard output, as
 * node_exporter(1) reads it from a file.
 */
#include <poll.h>
#include <time.h>

#include <probe/metrics.h>
#include <probe/pattern.h>
#include <probe/table.h>
#include <probe/target.h>

#include "example.h"

static const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What has been gathered so far. */
static void look(struct probe_metrics *metrics, size_t view, struct probe_target *target,
	struct probe_session *session)
{
	struct probe_table *table;

	check(probe_table_create(0, &table));
	check(probe_table_add(table, session, &options));
	check(probe_metrics_add(metrics, view, probe_target_pid(target), NULL, table));
}

/* Until a time; the server says when it has something to do. */
static void answer(struct probe_metrics_server *server, uint64_t until)
{
	struct pollfd fd = {.fd = probe_metrics_server_fd(server), .events = POLLIN};

	for (uint64_t now = now_ns(); now < until; now = now_ns()) {
		uint64_t due = probe_metrics_server_due_ns(server);

		due = due < until ? due : until;
		poll(&fd, 1, due > now ? (int)((due - now) / 1000000 + 1) : 0);
		probe_metrics_server_run(server);
	}
}

int main(int argc, char **argv)
{
	static const struct probe_view view = {.tracer = "count", .columns = PROBE_COLUMN_COUNT};
	struct probe_metrics_server *server;
	struct probe_report report = {0};
	struct probe_metrics *metrics;
	struct probe_session *session;
	struct probe_pattern *pattern;
	struct probe_target *target;
	size_t index, length;
	char *text;

	if (argc < 5)
		return 2;
	check(probe_metrics_create(100, &metrics));
	check(probe_metrics_view(metrics, &view, 0, &index));
	check(probe_metrics_listen(metrics, argv[4], &server));
	fprintf(stderr, "%s\n", probe_metrics_server_url(server));
	check(probe_pattern_parse(argv[2], &pattern));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	{
		const struct probe_pattern *const patterns[] = {pattern};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

		check(probe_session_start(target, &request, &options, &report, &session));
		probe_report_deinit(&report);
	}
	for (int i = 0; i < atoi(argv[3]); i++) {
		look(metrics, index, target, session);
		probe_metrics_server_renew(server);
		answer(server, now_ns() + 1000000000);
	}
	check(probe_session_stop(session));
	look(metrics, index, target, session);
	probe_metrics_end(metrics, index, probe_target_pid(target));
	check(probe_metrics_text(metrics, PROBE_METRICS_TEXT, &text, &length));
	fwrite(text, 1, length, stdout);
	free(text);
	fprintf(stderr, "%zu left out\n", probe_metrics_left_out(metrics));
	probe_metrics_server_close(server);
	probe_session_free(session);
	probe_metrics_free(metrics);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
