/* SPDX-License-Identifier: MIT */
/*
 * A state machine whose states are read from standard input, a line each, so that its
 * trace points are known only when it runs: each state is a user event, and becomes the
 * probe posix_trace:STATE.
 *
 *     cc machine.c -o machine -lprobe_events
 *     printf '%s\n' idle busy idle | probectl trace 'posix_trace:*(str(arg0,arg1))' -- ./machine
 */
#include <probe/posix_trace.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	char line[256], before[256] = "start";
	trace_event_id_t event;
	int err;

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		/* The first time makes the event; then it is a look into a table. */
		err = posix_trace_eventid_open(line, &event);
		if (err) {
			fprintf(stderr, "%s: %s\n", line, strerror(err));
			continue;
		}
		posix_trace_event(event, before, strlen(before));
		strcpy(before, line);
	}
	return 0;
}
