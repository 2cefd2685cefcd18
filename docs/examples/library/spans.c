/* SPDX-License-Identifier: MIT */
/*
 * spans PID MIN_NS COUNT BEGIN END: COUNT times from one probe to another that took at least so
 * many nanoseconds, with the arguments of both and the call stack of the end, as `probectl trace
 * -t span --stack` prints them.
 */
#include <stdbool.h>
#include <unistd.h>

#include <probe/pattern.h>
#include <probe/sink.h>
#include <probe/target.h>
#include <probe/tracer.h>

#include "example.h"

struct printing {
	struct probe_session *session;
	struct probe_sink *sink;
	long left;
};

/* Each hit is that of an end. */
static bool visit(const struct probe_hit *hit, void *data)
{
	struct printing *p = data;
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(p->session, &count);

	if (!p->left)
		return false;
	probe_sink_span(p->sink, hit, &probes[hit->begin->probe], &probes[hit->probe], NULL);
	p->left--;
	return true;
}

static void print_rest(const struct printing *p)
{
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(p->session, &count);

	for (size_t i = 0; i < count; i++)
		if (probes[i].role == PROBE_ROLE_END)
			printf("%llu in flight, %llu ends without a begin\n",
				(unsigned long long)probes[i].in_flight,
				(unsigned long long)probes[i].unmatched);
}

int main(int argc, char **argv)
{
	struct probe_session_options options = {0};
	struct probe_report report = {0};
	struct probe_pattern *begin, *end;
	struct probe_tracer_spec *spec;
	struct probe_target *target;
	struct printing p = {0};
	bool more = true;

	if (argc < 6)
		return 2;
	options.span_min_ns = strtoull(argv[2], NULL, 10);
	p.left = atol(argv[3]);
	check(probe_tracer_parse("span", &spec));
	check(probe_tracer_configure(spec, 2, &options));
	check(probe_tracer_take_stacks(spec, "", &options));
	check(probe_pattern_parse(argv[4], &begin));
	check(probe_pattern_parse(argv[5], &end));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	check(probe_sink_create(PROBE_SINK_TEXT, STDOUT_FILENO, "standard output", &p.sink));
	{
		const struct probe_pattern *const patterns[] = {begin, end};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 2};

		check(probe_session_start(target, &request, &options, &report, &p.session));
	}
	probe_report_deinit(&report);
	if (probe_tracer_spans(spec))
		probe_sink_begin_spans(p.sink, true);
	while (p.left && (more || probe_target_alive(target))) {
		usleep(more ? 0 : 10000);
		check(probe_session_poll(p.session, visit, &p, &more));
		check(probe_sink_flush(p.sink));
	}
	check(probe_session_stop(p.session));
	check(probe_session_poll(p.session, NULL, NULL, NULL));
	while (probe_sink_pending(p.sink))
		check(probe_sink_flush(p.sink));
	print_rest(&p);
	probe_sink_free(p.sink);
	probe_session_free(p.session);
	probe_target_close(target);
	probe_tracer_free(spec);
	probe_pattern_free(begin);
	probe_pattern_free(end);
	return 0;
}
