/* SPDX-License-Identifier: MIT */
/*
 * What hits leave behind: values, records with their call stacks, and rows of what was gathered
 * in the target.
 */
#ifndef PROBE_HIT_H
#define PROBE_HIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Values -------------------------------------------------------------- */

enum probe_value_kind {
	PROBE_VALUE_NULL, /* could not be read */
	PROBE_VALUE_SIGNED,
	PROBE_VALUE_UNSIGNED,
	PROBE_VALUE_FLOAT,
	PROBE_VALUE_STRING, /* str() in the pattern */
	/* A number (u) that points to text (bytes, length), or an address and its name: sym(). */
	PROBE_VALUE_TEXT,
	PROBE_VALUE_BYTES, /* an aggregate, or bytes() in the pattern */
	PROBE_VALUE_STACK, /* the key ustack: its functions, a line for each, innermost first */
	/* In place of the keys that found no room; the text is "(other)". Its row is the last one.
	 */
	PROBE_VALUE_OTHER
};

struct probe_value {
	enum probe_value_kind kind;
	bool truncated; /* the string or the bytes were longer */
	/* Of an event's arguments: 1 + the number that the probe's argument has; 0: its index. */
	uint8_t number;
	/* Of PROBE_VALUE_TEXT: the catalogue says that the argument is a string. */
	bool known;
	union {
		int64_t i;
		uint64_t u;
		double f;
	};
	const char *bytes; /* not terminated by NUL; valid during the call of the visitor */
	size_t length;
};

/* ---- Records ------------------------------------------------------------- */

/* A frame of a call stack. Owned by the session, which has each different frame once. */
struct probe_frame {
	uint64_t ip;	    /* run-time address: the site, or a return address */
	const char *module; /* path of the file; NULL: no file, such as code of a JIT */
	const char *symbol; /* or NULL */
	uint64_t offset; /* of ip in the symbol; without a symbol, link-time address in the file */
	uint64_t function; /* link-time address of the function; 0: not known */
	const char *file;  /* the source, with probe_session_options.lines; NULL: not known */
	int line;
	const char *build_id; /* of the file, hexadecimal; NULL: not known */
};

enum probe_stack_end {
	PROBE_STACK_WHOLE,
	PROBE_STACK_TRUNCATED, /* there is more: the copy was too short, or too many frames */
	PROBE_STACK_LOST /* no way to unwind further: no rules for this code, or a broken stack */
};
enum { PROBE_FRAMES_MAX = 127 };

/* The first frame is the innermost: that of the site. */
struct probe_stack {
	const struct probe_frame *const *frames;
	size_t count;
	enum probe_stack_end end;
};

struct probe_hit {
	uint64_t time_ns; /* CLOCK_REALTIME */
	pid_t pid, tid;
	int cpu;
	size_t probe; /* index of probe_session_probes() */
	uint64_t pc;  /* run-time address of the site */
	const struct probe_value *args;
	size_t arg_count;
	const struct probe_stack *stack; /* with options->stack; else NULL */
	/* With options->filter_value: the value of the filter; else PROBE_VALUE_NULL. */
	struct probe_value filter;
	/*
	 * With options->spans: the hit is the end of a span that took duration_ns, and this is its
	 * begin, on an unknown CPU (-1); else NULL.
	 */
	const struct probe_hit *begin;
	uint64_t duration_ns;
};

/* ---- Rows ---------------------------------------------------------------- */

/*
 * What was gathered for one probe, or for one key of a probe, over all sites and CPUs. A pair
 * has its row at the end. Times are in nanoseconds.
 */
struct probe_row {
	size_t probe; /* index of probe_session_probes() */
	size_t begin; /* of a pair: index of the (first) probe that begins it; otherwise SIZE_MAX */
	const struct probe_value *keys; /* as many as the session's options have */
	uint64_t count;
	bool has_value; /* there is a value or a time; otherwise the following fields are unused */
	bool is_signed;
	bool is_float; /* values are PROBE_VALUE_FLOAT, and the sum is that of doubles */
	/* Exact up to 2^64 (a double would not be), unless `unit` is not 1. */
	long double sum;
	struct probe_value min, max; /* PROBE_VALUE_NULL: none */
	struct probe_value last;
	uint64_t last_time_ns; /* CLOCK_REALTIME */
	/* PROBE_BUCKETS counts, or NULL. probe_row_bucket() gives their bounds. */
	const uint64_t *buckets;
	double unit; /* nanoseconds per unit of the buckets' bounds; 1 of plain values */
	/*
	 * Of a pair without keys: how many have begun and not ended. The same in each row of the
	 * pair.
	 */
	uint64_t in_flight;
};
#define PROBE_BUCKETS 1921

/*
 * Returns the smallest and the largest value that bucket `index` counts, both inclusive. The last
 * bucket, PROBE_BUCKETS - 1, counts negative values, INT64_MIN to -1. The bounds of the others
 * are unsigned.
 */
void probe_bucket_range(size_t index, int64_t *low_ret, uint64_t *high_ret);

/*
 * Returns the bounds of a bucket of a row, in the unit of the row's values. Values are at least
 * *low_ret. If the row's values are doubles (is_float), they are below *high_ret; else they are at
 * most *high_ret. Where there is no limit, a bound is infinite.
 */
void probe_row_bucket(const struct probe_row *row, size_t index, double *low_ret, double *high_ret);

/*
 * Returns a percentile of a row's values, in their unit (nanoseconds for latencies): `percent`,
 * from 0 to 100, of the hits have this value or less. It is at most 1.6 % off, and between min and
 * max. Without hits or buckets, it is NAN.
 */
double probe_row_percentile(const struct probe_row *row, double percent);

/* ---- Coverage ------------------------------------------------------------ */

/* Which part of a probe is counted. The hits of its other sites are unknown, not 0. */
struct probe_coverage {
	size_t sites;	    /* of the probe, in its module */
	size_t refused;	    /* could not be patched: none of their hits are counted */
	size_t overwritten; /* were found altered: some of their hits are not counted */
};

/* Adds the coverage of another probe, or of the same probe in another process. */
void probe_coverage_add(struct probe_coverage *sum, const struct probe_coverage *more);

/* Tells whether no site is counted: then the number of hits is unknown. */
bool probe_coverage_is_none(const struct probe_coverage *coverage);

/* Says what is not counted: "refused", "1 of 3 sites overwritten"; "" if everything is. */
enum { PROBE_COVERAGE_BYTES = 96 };
void probe_coverage_text(char text[PROBE_COVERAGE_BYTES], const struct probe_coverage *coverage);

#ifdef __cplusplus
}
#endif
#endif
