/* SPDX-License-Identifier: MIT */
/*
 * What Performance Co-Pilot's library sends to its agent, this one reports at probes. Return
 * values are those of libpcp_trace 6.0 with an agent; tests/integration/runtime/pmtrace.sh runs the
 * same calls through both. That library's manual pages say that transactions belong to threads,
 * but its behaviour distinguishes only processes.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "arch/runtime.h"
#include "libprobe/runtime/pmtrace/tags.h"
#include "probe/pmtrace.h"

#define SEMAPHORE(name)                                                                            \
	__extension__ unsigned short pmtrace_##name##_semaphore                                    \
		__attribute__((section(".probes"), visibility("hidden")))
SEMAPHORE(begin);
SEMAPHORE(end);
SEMAPHORE(abort);
SEMAPHORE(point);
SEMAPHORE(obs);
SEMAPHORE(counter);
SEMAPHORE(state);

/* Whether the probe is traced: its arguments are computed only then. */
#define TRACED(name) __builtin_expect(pmtrace_##name##_semaphore != 0, 0)

static atomic_int flags;
static atomic_bool is_synchronous; /* set by the first call, permanently */

/* ---- Diagnostics ---------------------------------------------------------------------- */

/* With PMTRACE_STATE_API, prints the call and its result. Returns the result. */
__attribute__((format(printf, 3, 4))) static int told(
	int result, const char *function, const char *format, ...)
{
	char arguments[PMTRACE_TAG_MAX + 64];
	va_list list;

	if (__builtin_expect(
		    !(atomic_load_explicit(&flags, memory_order_relaxed) & PMTRACE_STATE_API), 1))
		return result;
	va_start(list, format);
	vsnprintf(arguments, sizeof(arguments), format, list);
	va_end(list);
	if (result < 0)
		fprintf(stderr, "%s(%s) = %d (%s)\n", function, arguments, result,
			pmtraceerrstr(result));
	else
		fprintf(stderr, "%s(%s) = %d\n", function, arguments, result);
	return result;
}

/* For %s, if there may be no tag. */
static const char *shown(const char *tag)
{
	return tag ? tag : "(null)";
}

/* The first call with a tag selects the protocol; this is all that is left of it. */
static void decide(void)
{
	if (!(atomic_load_explicit(&flags, memory_order_relaxed) & PMTRACE_STATE_ASYNC) &&
		!atomic_load_explicit(&is_synchronous, memory_order_relaxed))
		atomic_store(&is_synchronous, true);
}

/* ---- Transactions --------------------------------------------------------------------- */

int pmtracebegin(const char *tag)
{
	uint64_t number = 0;
	int err = tags_begin(tag, &number);

	if (!err) {
		decide();
		if (TRACED(begin)) {
			STAP_PROBE2(pmtrace, begin, tag, number);
			ARCH_JUMP_ROOM();
		}
	}
	return told(err, __func__, "\"%s\"", shown(tag));
}

int pmtraceend(const char *tag)
{
	uint64_t number = 0;
	int err = tags_end(tag, &number);

	if (!err && TRACED(end)) {
		STAP_PROBE2(pmtrace, end, tag, number);
		ARCH_JUMP_ROOM();
	}
	return told(err, __func__, "\"%s\"", shown(tag));
}

int pmtraceabort(const char *tag)
{
	uint64_t number = 0;
	int err = tags_end(tag, &number);

	if (!err && TRACED(abort)) {
		STAP_PROBE2(pmtrace, abort, tag, number);
		ARCH_JUMP_ROOM();
	}
	return told(err, __func__, "\"%s\"", shown(tag));
}

/* ---- Points and values ------------------------------------------------------------------ */

/* Truncates to an integer, clamped to int64_t. */
static int64_t whole(double value)
{
	if (value >= 0x1p63)
		return INT64_MAX;
	if (value < -0x1p63)
		return INT64_MIN;
	return value == value ? (int64_t)value : 0;
}

int pmtracepoint(const char *tag)
{
	int err = tags_check(tag);

	if (!err) {
		decide();
		if (TRACED(point)) {
			STAP_PROBE1(pmtrace, point, tag);
			ARCH_JUMP_ROOM();
		}
	}
	return told(err, __func__, "\"%s\"", shown(tag));
}

int pmtraceobs(const char *tag, double value)
{
	int err = tags_check(tag);

	if (!err) {
		decide();
		if (TRACED(obs)) {
			STAP_PROBE3(pmtrace, obs, tag, value, whole(value));
			ARCH_JUMP_ROOM();
		}
	}
	return told(err, __func__, "\"%s\", %g", shown(tag), value);
}

int pmtracecounter(const char *tag, double value)
{
	int err = tags_check(tag);

	if (!err) {
		decide();
		if (TRACED(counter)) {
			STAP_PROBE3(pmtrace, counter, tag, value, whole(value));
			ARCH_JUMP_ROOM();
		}
	}
	return told(err, __func__, "\"%s\", %g", shown(tag), value);
}

/* ---- State and errors -------------------------------------------------------------------- */

/* Flags that are new and have no effect, a line for each. The page has no others. */
static void tell_ineffective(int code)
{
	static const struct {
		unsigned int flag;
		const char *name, *why;
	} known[] = {
		{PMTRACE_STATE_COMMS, "PMTRACE_STATE_COMMS", "there is no agent to connect to"},
		{PMTRACE_STATE_PDU, "PMTRACE_STATE_PDU", "nothing is sent to an agent"},
		{PMTRACE_STATE_PDUBUF, "PMTRACE_STATE_PDUBUF", "nothing is sent to an agent"},
		{PMTRACE_STATE_ASYNC, "PMTRACE_STATE_ASYNC", "nothing is sent to an agent"},
	};
	unsigned int rest = (unsigned int)code & ~(unsigned int)PMTRACE_STATE_API &
			    ~(unsigned int)PMTRACE_STATE_NOAGENT;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (rest & known[i].flag)
			fprintf(stderr, "pmtracestate: %s has no effect in libprobe_pmtrace: %s\n",
				known[i].name, known[i].why);
		rest &= ~known[i].flag;
	}
	if (rest)
		fprintf(stderr, "pmtracestate: 0x%x has no effect: there are no such flags\n",
			rest);
}

int pmtracestate(int code)
{
	int previous;

	if (code & PMTRACE_STATE_ASYNC && atomic_load(&is_synchronous))
		return told(-EINVAL, __func__, "%d", code);
	previous = atomic_exchange(&flags, code);
	tell_ineffective(code & ~previous);
	if (TRACED(state)) {
		STAP_PROBE2(pmtrace, state, code, previous);
		ARCH_JUMP_ROOM();
	}
	return told(previous, __func__, "%d", code);
}

char *pmtraceerrstr(int code)
{
	static char *const texts[] = {
		"Invalid tag name - tag names cannot be NULL",
		"Transaction is already in progress - cannot begin",
		"Transaction is not currently in progress - cannot end",
		"Transaction tag was not successfully initialised",
		"Tag is already in use for a different type of tracing",
		"Tag name is too long (maximum 256 characters)",
		"IPC protocol failure",
		"Unrecognised environment variable format",
		"Application timed out connecting to the PMDA",
		"Incompatible versions between application and PMDA",
		"Cannot connect to PMDA - permission denied",
		"Cannot connect to PMDA - connection limit reached",
	};
	static char none[] = "No error.", unknown[] = "Unknown error code.";
	const int count = sizeof(texts) / sizeof(texts[0]);

	if (code == 0)
		return none;
	if (code > 0 || code <= -PMTRACE_ERR_BASE - count)
		return unknown;
	return code > -PMTRACE_ERR_BASE ? strerror(-code) : texts[-PMTRACE_ERR_BASE - code];
}
