/* SPDX-License-Identifier: MIT */
/* The value of a bound expression for one hit, according to arch/expr.h. */
#ifndef LIBPROBE_QUERY_INTERPRET_H
#define LIBPROBE_QUERY_INTERPRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/expr.h"
#include "libprobe/query/record_layout.h"

struct expr_string {
	const char *bytes;
	size_t length;
};

/* A hit. Arrays have an element for each capture of the stub. */
struct expr_input {
	const uint64_t *words;		   /* of scalars, as they are recorded */
	const struct expr_string *strings; /* of strings */
	uint64_t unreadable;		   /* bit i: capture i could not be read */
	int32_t tid, pid, cpu;
	uint64_t duration;
};

/* False: the hit is rejected, since something could not be read, or was divided by 0. */
bool expr_interpret(const struct arch_expr *expr, const struct expr_input *input, uint64_t *ret);

/*
 * The value of an expression for a hit whose record holds everything that it needs
 * (record_layout_record_all()), and which record_layout_read() has accepted. Its kind is
 * PROBE_VALUE_NULL where something could not be read. `tid`, `pid` and `cpu` are as the
 * target's own stub saw them.
 */
struct probe_value expr_record_value(const struct arch_expr *expr,
	const struct record_layout *layout, const uint8_t *record, int32_t tid, int32_t pid,
	int32_t cpu);

#endif
