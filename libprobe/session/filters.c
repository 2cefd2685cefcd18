/* SPDX-License-Identifier: MIT */
/*
 * A program may install a seccomp filter at any time, also while it has stubs that make system
 * calls. So the threads are checked from time to time (/proc/PID/task/TID/status). If there is a
 * new filter that does not allow the calls of the stubs, or that cannot be read, the session ends.
 *
 * A look reads a file for each thread: it is never more than a small part of the time.
 */
#include "libprobe/base/clock.h"
#include "libprobe/session/session.h"

enum { LOOK_NS = 100 * 1000 * 1000, LOOK_SHARE = 100 };

void session_keep_filters(struct probe_session *session, struct change *change)
{
	seccomp_deinit(&session->seccomp);
	session->seccomp = change->seccomp;
	change->seccomp = (struct seccomp){.pid = change->pid};
}

/* Do all threads' filters still allow the calls of its stubs? */
static struct probe_error *judge_again(struct probe_session *s)
{
	unsigned int needed =
		s->calls | (s->gate.shared || s->exec_gate.gate.shared ? SECCOMP_WAIT : 0);
	AUTO_CHANGE struct change c;
	struct probe_error *error = change_begin(s->target, &c);

	if (error)
		return error;
	error = change_judge(&c);
	for (unsigned int kind = 1; kind <= needed && !error; kind <<= 1)
		if (needed & kind & ~c.seccomp.allowed)
			error = seccomp_error(&c.seccomp, kind);
	return error;
}

struct probe_error *session_look_at_filters(struct probe_session *session)
{
	uint64_t begin = clock_monotonic_ns(), end;
	bool calls = session->calls || session->gate.shared || session->exec_gate.gate.shared;
	struct probe_error *error = NULL;

	if (!calls || begin < session->look_again_ns)
		return NULL;
	if (seccomp_has_grown(&session->seccomp))
		error = judge_again(session);
	end = clock_monotonic_ns();
	session->look_again_ns = end + LOOK_NS + LOOK_SHARE * (end - begin);
	if (error && error->code == PROBE_ERROR_UNSUPPORTED)
		return probe_error_prefix(error, "its probes are switched off");
	probe_error_free(error); /* it is handled, and reported, elsewhere */
	return NULL;
}
