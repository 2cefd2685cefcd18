/* SPDX-License-Identifier: MIT */
/*
 * The functions of pmtrace(3), Performance Co-Pilot's libpcp_trace, as probes.
 *
 * A program written for <pcp/trace.h> is relinked with -lprobe_pmtrace in place of -lpcp_trace, and
 * need not be compiled again: prototypes, return values and error codes are the same. A program
 * that is linked with libpcp_trace.so.2 runs as it is with our library of that name, and this
 * header is installed as <pcp/trace.h>, too (docs/instrumenting.md). Nothing is sent to an agent,
 * unless the environment variable PROBE_PMTRACE_AGENT names Performance Co-Pilot's library, which
 * then gets each call as well. Each call that succeeds is a hit of a probe of the provider pmtrace,
 * and does next to nothing until it is traced:
 *
 *     begin(tag, number)           end(tag, number)         abort(tag, number)
 *     point(tag)                   state(flags, previous)
 *     obs(tag, value, whole)       counter(tag, value, whole)
 *
 * `tag` is a string. `number` is the number of the tag in this process (for --match, if a
 * transaction ends in another thread). `value` is a double, and `whole` is `value` as an int64_t,
 * without its fraction. For example, to keep transactions apart by their number:
 *
 *     probectl trace -t transaction -k 'str(arg0)' --match arg1 -p PID 'pmtrace:*'
 *
 * A tag has at most PMTRACE_TAG_MAX bytes. A transaction belongs to its tag and process, regardless
 * of the threads that begin and end it. A forked child does not inherit transactions that its
 * parent began.
 */
#ifndef PROBE_PMTRACE_H
#define PROBE_PMTRACE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PMTRACE_TAG_MAX = 254 };

#ifndef PCP_TRACE_H
/* Negative return values. Values above these, such as -ENOMEM, are errors of the system. */
#define PMTRACE_ERR_BASE 12000
#define PMTRACE_ERR_TAGNAME (-PMTRACE_ERR_BASE - 0)    /* the tag is missing or empty */
#define PMTRACE_ERR_INPROGRESS (-PMTRACE_ERR_BASE - 1) /* transaction not ended yet */
#define PMTRACE_ERR_NOPROGRESS (-PMTRACE_ERR_BASE - 2) /* transaction already ended */
#define PMTRACE_ERR_NOSUCHTAG (-PMTRACE_ERR_BASE - 3)  /* never begun in this process */
#define PMTRACE_ERR_TAGTYPE (-PMTRACE_ERR_BASE - 4)
#define PMTRACE_ERR_TAGLENGTH (-PMTRACE_ERR_BASE - 5) /* more than PMTRACE_TAG_MAX bytes */
/* Errors of an agent, or of the connection to it; only with PROBE_PMTRACE_AGENT. */
#define PMTRACE_ERR_IPC (-PMTRACE_ERR_BASE - 6)
#define PMTRACE_ERR_ENVFORMAT (-PMTRACE_ERR_BASE - 7)
#define PMTRACE_ERR_TIMEOUT (-PMTRACE_ERR_BASE - 8)
#define PMTRACE_ERR_VERSION (-PMTRACE_ERR_BASE - 9)
#define PMTRACE_ERR_PERMISSION (-PMTRACE_ERR_BASE - 10)
#define PMTRACE_ERR_CONNLIMIT (-PMTRACE_ERR_BASE - 11)

/* Flags for pmtracestate(). */
#define PMTRACE_STATE_NONE 0
#define PMTRACE_STATE_API 1 /* prints each call and its result to standard error */
/* Flags for the connection to an agent. If there is none, pmtracestate() says so. */
#define PMTRACE_STATE_COMMS 2
#define PMTRACE_STATE_PDU 4
#define PMTRACE_STATE_PDUBUF 8
#define PMTRACE_STATE_NOAGENT 16 /* in effect without PROBE_PMTRACE_AGENT */
#define PMTRACE_STATE_ASYNC 32	 /* may only be set before other calls */
#endif

/*
 * Begins the transaction of a tag.
 * Returns 0. Errors: PMTRACE_ERR_TAGNAME, PMTRACE_ERR_TAGLENGTH,
 * PMTRACE_ERR_INPROGRESS, -ENOMEM.
 */
int pmtracebegin(const char *tag);

/*
 * End the transaction of a tag. A transaction that is aborted does not count as done. Return 0.
 * Errors: PMTRACE_ERR_TAGNAME, PMTRACE_ERR_TAGLENGTH, PMTRACE_ERR_NOSUCHTAG,
 * PMTRACE_ERR_NOPROGRESS.
 */
int pmtraceend(const char *tag);
int pmtraceabort(const char *tag);

/*
 * Report a point, a value or a counter. pmtracepoint(): the program has passed a point.
 * pmtraceobs(): the program has observed this value. pmtracecounter(): a counter, which only grows,
 * has this value. Tags of different kinds are independent. Return 0. Errors: PMTRACE_ERR_TAGNAME,
 * PMTRACE_ERR_TAGLENGTH.
 */
int pmtracepoint(const char *tag);
int pmtraceobs(const char *tag, double value);
int pmtracecounter(const char *tag, double value);

/* Returns the meaning of an error code: a static text, which strerror(3) may overwrite. */
char *pmtraceerrstr(int code);

/*
 * Sets the flags (PMTRACE_STATE_*) and returns the former ones. Prints a line to standard error for
 * each new flag that has no effect here, including unknown flags. Errors: -EINVAL
 * (PMTRACE_STATE_ASYNC comes too late).
 */
int pmtracestate(int code);

/*
 * The same functions for Fortran: `code = pmtracebegin(tag)`, with `integer code` and
 * `character*(*) tag`. Compilers add the underscore, pass addresses, and put the length of each
 * text after the last argument. A tag includes its trailing blanks. libpcp_trace has pmtraceobs_()
 * with the tag's length before the value; both orders work here.
 */
int pmtracebegin_(const char *tag, int tag_length);
int pmtraceend_(const char *tag, int tag_length);
int pmtraceabort_(const char *tag, int tag_length);
int pmtracepoint_(const char *tag, int tag_length);
int pmtraceobs_(const char *tag, const double *value, uintptr_t tag_length);
int pmtracecounter_(const char *tag, const double *value, int tag_length);
int pmtracestate_(const int *code);

/* Fills `message` with the meaning of an error code, cut to its length or padded with blanks. */
void pmtraceerrstr_(const int *code, char *message, int message_length);

#ifdef __cplusplus
}
#endif
#endif
