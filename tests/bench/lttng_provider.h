/* SPDX-License-Identifier: MIT */
/* An LTTng-UST tracepoint with the same three integers as loop:nop. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench_lttng

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_provider.h"

#if !defined(BENCH_LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(bench_lttng, hit,
	LTTNG_UST_TP_ARGS(uint64_t, left, uint64_t, done, uint64_t, hits),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint64_t, left, left)
		lttng_ust_field_integer(uint64_t, done, done)
		lttng_ust_field_integer(uint64_t, hits, hits)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(bench_lttng, text,
	LTTNG_UST_TP_ARGS(uint64_t, left, uint64_t, done, const char *, text),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint64_t, left, left)
		lttng_ust_field_integer(uint64_t, done, done)
		lttng_ust_field_string(text, text)
	)
)
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
