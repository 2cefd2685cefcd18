/* SPDX-License-Identifier: MIT */
/* Data of hits: values of arguments, records with call stacks, rows added up in the target. */
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
	PROBE_VALUE_NULL, /* the value could not be read */
	PROBE_VALUE_SIGNED,
	PROBE_VALUE_UNSIGNED,
	PROBE_VALUE_FLOAT,
	PROBE_VALUE_STRING, /* a string: str() in the pattern */
	/* A number (u) that points to text (bytes, length), or an address with its name: sym(). */
	PROBE_VALUE_TEXT,
	PROBE_VALUE_BYTES, /* an aggregate, or bytes() in the pattern */
	/* The key ustack: names of functions, a line for each, innermost first. */
	PROBE_VALUE_STACK,
	/*
	 * The key of the row for hits whose own keys found no room; its text is "(other)". This row
	 * is the last row.
	 */
	PROBE_VALUE_OTHER
};

struct probe_value {
	enum probe_value_kind kind;
	bool truncated; /* the original string or bytes were longer */
	/*
	 * For an argument of an event: the number of the probe's argument, plus 1. 0 if the number
	 * is the index in the event. Above PROBE_ARGS_MAX, the value is a member of a structure,
	 * and labels[] of the event has its name.
	 */
	uint8_t number;
	/* For PROBE_VALUE_TEXT: true if the catalogue says that the argument is a string. */
	bool known;
	union {
		int64_t i;
		uint64_t u;
		double f;
	};
	const char *bytes; /* not NUL-terminated; valid during the call of the visitor */
	size_t length;
};

/* ---- Records ------------------------------------------------------------- */

/* A frame of a call stack. Owned by the session, which keeps one copy of equal frames. */
struct probe_frame {
	uint64_t ip;	    /* run-time address: of the site, or a return address */
	const char *module; /* path of the file; NULL for code without a file, as of a JIT */
	const char *symbol; /* name of the function; NULL if unknown */
	/* Bytes from the symbol to ip; without a symbol, link-time address in the file. */
	uint64_t offset;
	uint64_t function; /* link-time address of the function; 0 if unknown */
	const char *file;  /* source file, with probe_session_options.lines; NULL if unknown */
	int line;
	const char *build_id; /* build id of the file, hexadecimal; NULL if unknown */
};

enum probe_stack_end {
	PROBE_STACK_WHOLE,
	/* Frames are missing: the copy was too short, or the stack has too many frames. */
	PROBE_STACK_TRUNCATED,
	PROBE_STACK_LOST /* frames are missing: no unwind rules for the code, or a broken stack */
};
enum { PROBE_FRAMES_MAX = 127 };

/* A call stack. The first frame is the innermost one: the site's. */
struct probe_stack {
	const struct probe_frame *const *frames;
	size_t count;
	enum probe_stack_end end;
};

struct probe_hit {
	uint64_t time_ns; /* CLOCK_REALTIME */
	pid_t pid, tid;
	int cpu;
	size_t probe; /* index into probe_session_probes() */
	uint64_t pc;  /* run-time address of the site */
	const struct probe_value *args;
	size_t arg_count;
	const struct probe_stack *stack; /* call stack, with options->stack; else NULL */
	/* The value of the filter, with options->filter_value; else PROBE_VALUE_NULL. */
	struct probe_value filter;
	/*
	 * With options->spans: the hit ends a span that took duration_ns, and `begin` is the hit
	 * that started the span, with an unknown CPU (-1). Otherwise NULL.
	 */
	const struct probe_hit *begin;
	uint64_t duration_ns;
	/*
	 * At a function's entry and exits, with options->frames: the address of its return address
	 * on the stack, which tells the open calls of a thread apart. Otherwise 0.
	 */
	uint64_t frame;
};

/* ---- Rows ---------------------------------------------------------------- */

/*
 * The hits of one probe, or of one key of a probe, added up over all sites and CPUs. The row of a
 * pair has the probe of the end event. Times are in nanoseconds.
 */
struct probe_row {
	size_t probe; /* index into probe_session_probes() */
	/*
	 * For a pair: index into probe_session_probes() of the (first) probe of its start event;
	 * otherwise SIZE_MAX.
	 */
	size_t begin;
	const struct probe_value *keys; /* as many as options.gather.key_count of the session */
	uint64_t count;
	/*
	 * False if the hits have neither a value nor a time. The following members are then unused.
	 */
	bool has_value;
	bool is_signed;
	bool is_float; /* values are PROBE_VALUE_FLOAT, and the sum is a sum of doubles */
	/*
	 * The sum of the values. If `unit` is 1, it is exact up to 2^64, as a double would not be.
	 */
	long double sum;
	struct probe_value min, max; /* smallest and largest value; PROBE_VALUE_NULL if unknown */
	struct probe_value last;
	uint64_t last_time_ns; /* CLOCK_REALTIME */
	/* PROBE_BUCKETS counts, or NULL. probe_row_bucket() returns a bucket's bounds. */
	const uint64_t *buckets;
	double unit; /* nanoseconds for each unit of the buckets' bounds; 1 for plain values */
	/*
	 * For a pair without keys: how many pairs have started and not ended. Each row of the pair
	 * has the same number.
	 */
	uint64_t in_flight;
};
#define PROBE_BUCKETS 1921

/*
 * Returns the smallest and the largest value that bucket `index` counts, both inclusive. The last
 * bucket, PROBE_BUCKETS - 1, counts negative values, INT64_MIN to -1. All other buckets have
 * unsigned bounds.
 */
void probe_bucket_range(size_t index, int64_t *low_ret, uint64_t *high_ret);

/*
 * Returns the bounds of a bucket of a row, in the unit of the row's values. Values are at least
 * *low_ret. If the values are doubles (is_float), they are below *high_ret; otherwise they are at
 * most *high_ret. A bucket without a limit on one side has an infinite bound on that side.
 */
void probe_row_bucket(const struct probe_row *row, size_t index, double *low_ret, double *high_ret);

/*
 * Returns a percentile of a row's values, in their unit (nanoseconds for latencies): `percent`,
 * from 0 to 100, of the hits have this value or less. The result is at most 1.6 % off, and between
 * min and max. It is NAN without hits or buckets.
 */
double probe_row_percentile(const struct probe_row *row, double percent);

/* ---- Coverage ------------------------------------------------------------ */

/* How many sites of a probe count their hits. Hits at the other sites are unknown, not 0. */
struct probe_coverage {
	size_t sites;	    /* sites of the probe in its module */
	size_t refused;	    /* sites that could not be patched: none of their hits are counted */
	size_t overwritten; /* sites that were found altered: some of their hits are not counted */
};

/* Adds the coverage of another probe, or of the same probe in another process. */
void probe_coverage_add(struct probe_coverage *sum, const struct probe_coverage *more);

/* Returns true if hits are counted at no site of the probe. The number of hits is then unknown. */
bool probe_coverage_is_none(const struct probe_coverage *coverage);

/* Says what is not counted: "refused", "1 of 3 sites overwritten"; "" if all is counted. */
enum { PROBE_COVERAGE_BYTES = 96 };
void probe_coverage_text(char text[PROBE_COVERAGE_BYTES], const struct probe_coverage *coverage);

#ifdef __cplusplus
}
#endif
#endif
