/* SPDX-License-Identifier: MIT */
/*
 * The functions of pmtrace(3), Performance Co-Pilot's libpcp_trace, as probes.
 *
 * A program written for <pcp/trace.h> is relinked with -lprobe_pmtrace in place of
 * -lpcp_trace, and need not be compiled again: prototypes, return values and error
 * codes are the same. Nothing is sent to an agent. Each call that succeeds is a hit of
 * a probe of the provider pmtrace, and does next to nothing until it is traced:
 *
 *     begin(tag, number)           end(tag, number)         abort(tag, number)
 *     point(tag)                   state(flags, previous)
 *     obs(tag, value, whole)       counter(tag, value, whole)
 *
 * `tag` is a string, `number` that of the tag in this process (for --match, where a transaction
 * ends in another thread), `value` a double, `whole` the same as an int64_t, without its fraction.
 * For example, with transactions kept apart by their number:
 *
 *     probectl trace -t transaction -k 'str(arg0)' --match arg1 -p PID 'pmtrace:*'
 *
 * A tag has at most PMTRACE_TAG_MAX bytes. A transaction belongs to its tag and
 * process, whatever thread begins and ends it; a forked child has none that its parent
 * began.
 */
#ifndef PROBE_PMTRACE_H
#define PROBE_PMTRACE_H

#ifdef __cplusplus
extern "C" {
#endif

enum { PMTRACE_TAG_MAX = 254 };

#ifndef PCP_TRACE_H
/* Negative return values. -1 and so on are errors of the system, such as -ENOMEM. */
#define PMTRACE_ERR_BASE 12000
#define PMTRACE_ERR_TAGNAME (-PMTRACE_ERR_BASE - 0)    /* no tag, or an empty one */
#define PMTRACE_ERR_INPROGRESS (-PMTRACE_ERR_BASE - 1) /* begun, and not ended yet */
#define PMTRACE_ERR_NOPROGRESS (-PMTRACE_ERR_BASE - 2) /* ended already */
#define PMTRACE_ERR_NOSUCHTAG (-PMTRACE_ERR_BASE - 3)  /* never begun in this process */
#define PMTRACE_ERR_TAGTYPE (-PMTRACE_ERR_BASE - 4)
#define PMTRACE_ERR_TAGLENGTH (-PMTRACE_ERR_BASE - 5) /* over PMTRACE_TAG_MAX bytes */
/* Errors of an agent, or of the connection to it; these never occur here. */
#define PMTRACE_ERR_IPC (-PMTRACE_ERR_BASE - 6)
#define PMTRACE_ERR_ENVFORMAT (-PMTRACE_ERR_BASE - 7)
#define PMTRACE_ERR_TIMEOUT (-PMTRACE_ERR_BASE - 8)
#define PMTRACE_ERR_VERSION (-PMTRACE_ERR_BASE - 9)
#define PMTRACE_ERR_PERMISSION (-PMTRACE_ERR_BASE - 10)
#define PMTRACE_ERR_CONNLIMIT (-PMTRACE_ERR_BASE - 11)

/* What pmtracestate() sets. */
#define PMTRACE_STATE_NONE 0
#define PMTRACE_STATE_API 1 /* prints each call and its result to standard error */
/*
 * About the connection to an agent, which does not exist: pmtracestate() says that they have no
 * effect.
 */
#define PMTRACE_STATE_COMMS 2
#define PMTRACE_STATE_PDU 4
#define PMTRACE_STATE_PDUBUF 8
#define PMTRACE_STATE_NOAGENT 16 /* always in effect */
#define PMTRACE_STATE_ASYNC 32	 /* no effect either; may be set before other calls only */
#endif

/*
 * Begins the transaction of a tag.
 * Returns 0. Errors: PMTRACE_ERR_TAGNAME, PMTRACE_ERR_TAGLENGTH,
 * PMTRACE_ERR_INPROGRESS, -ENOMEM.
 */
int pmtracebegin(const char *tag);

/*
 * End the transaction; one that is aborted does not count as done. Return 0. Errors:
 * PMTRACE_ERR_TAGNAME, PMTRACE_ERR_TAGLENGTH, PMTRACE_ERR_NOSUCHTAG, PMTRACE_ERR_NOPROGRESS.
 */
int pmtraceend(const char *tag);
int pmtraceabort(const char *tag);

/*
 * The program has passed a point; has a value to observe; has a counter, which only grows, at this
 * value. Tags of different kinds are independent. Return 0. Errors: PMTRACE_ERR_TAGNAME,
 * PMTRACE_ERR_TAGLENGTH.
 */
int pmtracepoint(const char *tag);
int pmtraceobs(const char *tag, double value);
int pmtracecounter(const char *tag, double value);

/* Returns what an error code means: a static text, which strerror(3) may overwrite. */
char *pmtraceerrstr(int code);

/*
 * Sets the flags above and returns the former ones. Prints a line to standard error for each
 * flag that was not set before and has no effect here, including unknown ones.
 * Errors: -EINVAL (PMTRACE_STATE_ASYNC comes too late).
 */
int pmtracestate(int code);

/*
 * The same for Fortran: `code = pmtracebegin(tag)`, with `integer code` and `character*(*)
 * tag`. Compilers add the underscore, pass addresses, and put the length of each text after
 * the last argument. A tag includes its trailing blanks.
 */
int pmtracebegin_(const char *tag, int tag_length);
int pmtraceend_(const char *tag, int tag_length);
int pmtraceabort_(const char *tag, int tag_length);
int pmtracepoint_(const char *tag, int tag_length);
int pmtraceobs_(const char *tag, const double *value, int tag_length);
int pmtracecounter_(const char *tag, const double *value, int tag_length);
int pmtracestate_(const int *code);

/* Fills `message` with what an error code means: cut to its length, or padded with blanks. */
void pmtraceerrstr_(const int *code, char *message, int message_length);

#ifdef __cplusplus
}
#endif
#endif
