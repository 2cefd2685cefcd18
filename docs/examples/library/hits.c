/* SPDX-License-Identifier: MIT */
/*
 * hits PID PROBE COUNT [json]: prints COUNT hits as probectl does.
 */
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <probe/pattern.h>
#include <probe/sink.h>
#include <probe/target.h>

#include "example.h"

struct printing {
	struct probe_session *session;
	struct probe_sink *sink;
	pid_t pid;
	long left;
};

static bool visit(const struct probe_hit *hit, void *data)
{
	struct printing *p = data;
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(p->session, &count);

	if (!p->left || probe_sink_full(p->sink))
		return false;
	probe_sink_hit(p->sink, hit, &probes[hit->probe], NULL);
	p->left--;
	return true;
}

/* A site that somebody else has written over, and one that is in order again. */
static void on_news(const struct probe_site_news *news, void *data)
{
	struct printing *p = data;

	probe_sink_site(p->sink, p->pid, news);
}

/* Until there were so many hits, or the process has ended. */
static void print_hits(struct printing *p, const struct probe_target *target)
{
	bool more = true;

	while (p->left && (more || probe_target_alive(target))) {
		/* Readable when the process waits for us: it opens a library, or has no room. */
		struct pollfd wake = {.fd = probe_session_fd(p->session), .events = POLLIN};

		poll(&wake, 1, more ? 0 : 10);
		check(probe_session_poll(p->session, visit, p, &more));
		/* One system call; once a second would do. */
		check(probe_session_look(p->session, false, on_news, p));
		check(probe_sink_flush(p->sink));
	}
}

static void print_losses(const struct printing *p)
{
	uint64_t waited_ns, waited = probe_session_waited(p->session, &waited_ns);
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(p->session, &count);

	for (size_t i = 0; i < count; i++)
		if (probes[i].lost)
			probe_sink_lost(p->sink, &probes[i], probes[i].lost);
	if (waited)
		probe_sink_waited(p->sink, waited, waited_ns);
	if (probe_session_damaged(p->session))
		fprintf(stderr, "the process wrote over its records\n");
}

int main(int argc, char **argv)
{
	/* Hits that come faster than we print them wait a moment. */
	const struct probe_session_options options = {.kind = PROBE_SESSION_RECORD,
		.string_bytes = 64,
		.follow_libraries = true,
		.wait_ns = 10 * 1000 * 1000};
	struct printing p = {
		.pid = argc > 1 ? atoi(argv[1]) : 0, .left = argc > 3 ? atol(argv[3]) : 0};
	enum probe_sink_format format = argc > 4 ? PROBE_SINK_JSON : PROBE_SINK_TEXT;
	struct probe_report report = {0};
	struct probe_pattern *pattern;
	struct probe_target *target;

	if (argc < 4)
		return 2;
	check(probe_pattern_parse(argv[2], &pattern));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	check(probe_sink_create(format, STDOUT_FILENO, "standard output", &p.sink));
	{
		const struct probe_pattern *const patterns[] = {pattern};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

		check(probe_session_start(target, &request, &options, &report, &p.session));
		probe_report_deinit(&report);
		/* A library that is opened later may have it. */
		if (probe_session_unmatched(p.session) == 0 || !probe_session_matched(p.session, 0))
			fprintf(stderr, "%s matches nothing so far\n", probe_pattern_text(pattern));
		probe_sink_begin(p.sink, true);
		print_hits(&p, target);
		check(probe_session_stop(p.session));
		fprintf(stderr, "%zu sites in libraries that were opened\n",
			probe_session_report(p.session)->sites);
	}
	print_losses(&p);
	probe_sink_end(p.sink);
	while (probe_sink_pending(p.sink))
		check(probe_sink_flush(p.sink));
	probe_sink_free(p.sink);
	probe_session_free(p.session);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
