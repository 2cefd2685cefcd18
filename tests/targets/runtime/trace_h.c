/* SPDX-License-Identifier: MIT */
/*
 * A program written for <trace.h> of the standard, which knows nothing of this project. It opens
 * as many events as every system has, with the longest names that every system takes.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <trace.h>
#include <unistd.h>

#if TRACE_EVENT_NAME_MAX < _POSIX_TRACE_EVENT_NAME_MAX ||                                          \
	TRACE_NAME_MAX < _POSIX_TRACE_NAME_MAX || TRACE_SYS_MAX < _POSIX_TRACE_SYS_MAX
#error "less than the standard asks for"
#endif
#if _POSIX_TRACE_SYS_MAX != 8
#error "another number"
#endif
#ifdef TRACE_USER_EVENT_MAX
#error "a limit"
#endif

/* All constants of the page; equal ones in a group do not compile. */
static const char *group(int which, int value)
{
	switch (which) {
	case 0:
		switch (value) {
		case POSIX_TRACE_NOT_TRUNCATED:
			return "whole";
		case POSIX_TRACE_TRUNCATED_RECORD:
			return "record";
		case POSIX_TRACE_TRUNCATED_READ:
			return "read";
		}
		break;
	case 1:
		switch (value) {
		case POSIX_TRACE_LOOP:
		case POSIX_TRACE_UNTIL_FULL:
		case POSIX_TRACE_FLUSH:
		case POSIX_TRACE_APPEND:
			return "policy";
		}
		break;
	case 2:
		switch (value) {
		case POSIX_TRACE_WOPID_EVENTS:
		case POSIX_TRACE_SYSTEM_EVENTS:
		case POSIX_TRACE_ALL_EVENTS:
			return "fill";
		}
		break;
	case 3:
		switch (value) {
		case POSIX_TRACE_SET_EVENTSET:
		case POSIX_TRACE_ADD_EVENTSET:
		case POSIX_TRACE_SUB_EVENTSET:
			return "how";
		}
		break;
	case 4:
		switch ((unsigned int)value) {
		case POSIX_TRACE_ERROR:
		case POSIX_TRACE_START:
		case POSIX_TRACE_STOP:
		case POSIX_TRACE_FILTER:
		case POSIX_TRACE_OVERFLOW:
		case POSIX_TRACE_RESUME:
		case POSIX_TRACE_FLUSH_START:
		case POSIX_TRACE_FLUSH_STOP:
		case POSIX_TRACE_UNNAMED_USER_EVENT:
			return "event";
		}
		break;
	}
	return "none";
}

static int pairs(void)
{
	return POSIX_TRACE_RUNNING != POSIX_TRACE_SUSPENDED &&
	       POSIX_TRACE_FULL != POSIX_TRACE_NOT_FULL &&
	       POSIX_TRACE_OVERRUN != POSIX_TRACE_NO_OVERRUN &&
	       POSIX_TRACE_FLUSHING != POSIX_TRACE_NOT_FLUSHING &&
	       POSIX_TRACE_INHERITED != POSIX_TRACE_CLOSE_FOR_CHILD;
}

int main(void)
{
	struct posix_trace_event_info info = {0};
	struct posix_trace_status_info status = {0};
	trace_event_id_t ids[_POSIX_TRACE_USER_EVENT_MAX];
	char name[_POSIX_TRACE_EVENT_NAME_MAX + 1];
	int i;

	info.posix_event_id = POSIX_TRACE_START;
	info.posix_pid = getpid();
	info.posix_truncation_status = POSIX_TRACE_TRUNCATED_RECORD;
	status.posix_stream_status = POSIX_TRACE_RUNNING;
	for (i = 0; i < _POSIX_TRACE_USER_EVENT_MAX; i++) {
		sprintf(name, "a.name.of.thirty.characters.%02d", i);
		if (posix_trace_eventid_open(name, &ids[i]) != 0)
			return 1;
		posix_trace_event(ids[i], name, strlen(name));
	}
	printf("%s %s %d %d\n", group(0, info.posix_truncation_status),
		group(4, (int)info.posix_event_id), pairs(),
		status.posix_stream_status == POSIX_TRACE_RUNNING &&
			status.posix_log_overrun_status == 0 && status.posix_log_full_status == 0 &&
			status.posix_stream_full_status == 0 &&
			status.posix_stream_overrun_status == 0 &&
			status.posix_stream_flush_status == 0 &&
			status.posix_stream_flush_error == 0 && info.posix_prog_address == NULL &&
			info.posix_timestamp.tv_sec == 0 && info.posix_thread_id == 0);
	return ids[0] == POSIX_TRACE_UNNAMED_USEREVENT || strcmp(group(1, 0), "policy") ||
	       strcmp(group(2, 0), "fill") || strcmp(group(3, 0), "how");
}
