/* SPDX-License-Identifier: MIT */
/*
 * record DIR PROBE PROGRAM [ARG...]: writes all hits of a program to DIR in the Common
 * Trace Format.
 */
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include <probe/catalogue.h>
#include <probe/ctf.h>
#include <probe/pattern.h>
#include <probe/target.h>

#include "example.h"

struct writing {
	struct probe_session *session;
	struct probe_ctf *ctf;
};

static bool visit(const struct probe_hit *hit, void *data)
{
	struct writing *w = data;

	check(probe_ctf_hit(w->ctf, w->session, hit, NULL));
	return true;
}

/* Returns whether there was something. */
static bool move_hits(const struct writing *w, enum probe_ctf_amount amount)
{
	struct probe_ctf_taken taken;
	bool more = false;

	check(probe_ctf_take(w->ctf, w->session, amount, NULL, &taken));
	/* Such as those with call stacks: one after the other. */
	check(probe_session_poll(w->session, taken.can ? NULL : visit, (void *)w, &more));
	return more || taken.active;
}

static void write_losses(const struct writing *w)
{
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(w->session, &count);
	uint64_t lost = 0;

	for (size_t i = 0; i < count; i++)
		lost += probes[i].lost;
	if (lost)
		check(probe_ctf_discarded(w->ctf, w->session, lost));
}

int main(int argc, char **argv)
{
	struct probe_session_options options = {.kind = PROBE_SESSION_RECORD};
	struct probe_report report = {0};
	struct probe_catalogue *catalogue;
	struct probe_pattern *pattern;
	struct probe_target *target;
	struct writing w;
	bool more = true;

	if (argc < 4)
		return 2;
	check(probe_ctf_create(argv[1], NULL, &w.ctf));
	check(probe_catalogue_create(&catalogue));
	options.catalogue = catalogue;
	check(probe_pattern_parse_named(argv[2], catalogue, &pattern));
	check(probe_target_spawn(argv + 3, &target));
	{
		const struct probe_pattern *const patterns[] = {pattern};
		const struct probe_request request = {
			.patterns = patterns, .pattern_count = 1, .catalogue = catalogue};

		check(probe_session_start(target, &request, &options, &report, &w.session));
		probe_report_deinit(&report);
	}
	check(probe_target_release(target));
	while (more || waitpid(probe_target_pid(target), NULL, WNOHANG) == 0) {
		more = move_hits(&w, PROBE_CTF_MUCH);
		usleep(1000);
	}
	check(probe_session_stop(w.session));
	while (move_hits(&w, PROBE_CTF_ALL))
		;
	write_losses(&w);
	/* It has no more hits, and need not be kept as long as the record. */
	check(probe_ctf_forget(w.ctf, w.session));
	probe_session_free(w.session);
	check(probe_ctf_flush(w.ctf));
	/* Readers know the functions' arguments by this, also on machines without the program. */
	check(probe_catalogue_save(catalogue, argv[1]));
	printf("%llu bytes\n", (unsigned long long)probe_ctf_bytes(w.ctf));
	/* An error ends this program; one that goes on, as on a full disk, asks what is missing. */
	printf("%llu hits not written\n", (unsigned long long)probe_ctf_unwritten(w.ctf));
	probe_ctf_free(w.ctf);
	probe_target_close(target);
	probe_pattern_free(pattern);
	probe_catalogue_free(catalogue);
	return 0;
}
