/* SPDX-License-Identifier: MIT */
/*
 * loaded PID PROBE TRACER.so[,OPTIONS]: hands the hits of a process to a tracer of
 * one's own, which runs in a process of its own, until it has enough.
 */
#include <stdbool.h>
#include <unistd.h>

#include <probe/pattern.h>
#include <probe/sink.h>
#include <probe/target.h>
#include <probe/tracer.h>

#include "example.h"

struct handing {
	struct probe_session *session;
	struct probe_tracer_host *host;
};

static bool visit(const struct probe_hit *hit, void *data)
{
	struct handing *h = data;
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(h->session, &count);

	if (probe_sink_full(probe_tracer_host_sink(h->host)))
		return false;
	probe_tracer_host_hit(h->host, PROBE_TAG_POINT, hit, &probes[hit->probe], NULL);
	return true;
}

/* Here the hits are only not wanted any more: probe_session_select() would restore the sites. */
static void removed(pid_t pid, const char *provider, const char *name, void *data)
{
	(void)data;
	fprintf(stderr, "process %d: no more of %s:%s\n", (int)pid, provider ? provider : "*",
		provider ? name : "*");
}

static void hand_over(struct handing *h, const struct probe_target *target)
{
	bool more = true;

	fprintf(stderr, "pipes %d and %d\n", probe_tracer_host_input(h->host),
		probe_tracer_host_fd(h->host));
	while (!probe_tracer_host_off(h->host) && (more || probe_target_alive(target))) {
		check(probe_session_poll(h->session, visit, h, &more));
		check(probe_sink_flush(probe_tracer_host_sink(h->host)));
		check(probe_tracer_host_poll(h->host, removed, NULL));
		usleep(10000);
	}
	probe_tracer_host_look(h->host, 0);
	check(probe_session_stop(h->session));
	check(probe_tracer_host_finish(h->host));
}

/* The tracer may want nothing of this process. */
static bool wants(struct probe_tracer_host *host, pid_t pid)
{
	bool wanted;

	check(probe_tracer_host_ask(host, pid, &wanted));
	return wanted;
}

int main(int argc, char **argv)
{
	struct probe_session_options options = {0};
	struct probe_report report = {0};
	struct probe_tracer_spec *spec;
	struct probe_pattern *pattern;
	struct probe_target *target;
	struct handing h;

	if (argc < 4)
		return 2;
	check(probe_pattern_parse(argv[2], &pattern));
	check(probe_tracer_parse(argv[3], &spec));
	if (probe_tracer_output(spec) != PROBE_TRACER_LOADED)
		return 2;
	check(probe_tracer_configure(spec, 1, &options));
	/* First: it is to inherit nothing of what follows. */
	check(probe_tracer_host_start(spec, STDOUT_FILENO, &h.host));
	options.filters = probe_tracer_host_filters(h.host, &options.filter_count);
	if (!wants(h.host, atoi(argv[1])))
		return 1;
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	{
		const struct probe_pattern *const patterns[] = {pattern};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

		check(probe_session_start(target, &request, &options, &report, &h.session));
		probe_report_deinit(&report);
	}
	hand_over(&h, target);
	if (probe_tracer_host_idle_tag(h.host))
		fprintf(stderr, "no hit got the tag of %s\n", probe_tracer_host_idle_tag(h.host));
	probe_session_free(h.session);
	probe_tracer_host_free(h.host);
	probe_target_close(target);
	probe_tracer_free(spec);
	probe_pattern_free(pattern);
	return 0;
}
