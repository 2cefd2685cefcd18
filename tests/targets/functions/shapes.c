/* SPDX-License-Identifier: MIT */
/*
 * Functions with the entries and exits that compilers write (shapes_sites.S); most are for aarch64.
 *
 *	shapes	prints "ready PID"; for each line with a number N, calls each function N times, the
 *		ith time with (i, 3 * i + 1), and prints "passed N wrong W": W calls returned
 *		something else than i + 2 * (3 * i + 1) + 7
 */
#include "../target.h"

/* clang-format off */
#ifdef __aarch64__
#define SHAPES(X)                                                                                  \
	X(leaf)                                                                                    \
	X(landing)                                                                                 \
	X(sign_a) X(sign_b) X(frame) X(tail) X(landing_tail) X(only_tail) X(far_tail) X(by_adr)    \
		X(by_adrp) X(by_literal) X(by_vector) X(by_tbz) X(by_condition) X(by_call)         \
			X(first_cbz) X(first_adr) X(overwrites) X(chooses) X(loops) X(leaves)
#else
#define SHAPES(X)                                                                                  \
	X(leaf) X(only_tail) X(loops) X(getter) X(adds) X(swaps) X(calls) X(far_jump) X(near_jump)
#endif
/* clang-format on */

#define DECLARE(name) uint64_t name(uint64_t a, uint64_t b);
#define ROW(name) name,
SHAPES(DECLARE)
static uint64_t (*const shapes[])(uint64_t, uint64_t) = {SHAPES(ROW)};
#ifdef __aarch64__
uint64_t empty(uint64_t a);
uint64_t zero(void);
uint64_t system_call(void);
uint64_t ten(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
	uint64_t h, uint64_t i, uint64_t j);
double floating(double a, double b);
#endif

static int pass(uint64_t n)
{
	int wrong = 0;

	for (uint64_t i = 0; i < n; i++) {
		for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++)
			wrong += shapes[k](i, 3 * i + 1) != i + 2 * (3 * i + 1) + 7;
#ifdef __aarch64__
		wrong += empty(i) != i || zero() || system_call() != (uint64_t)getpid();
		wrong += ten(i, 1, 2, 3, 4, 5, 6, 7, i + 8, i + 9) != 3 * i + 45;
		wrong += floating((double)i, 0.5) != (double)i + 0.5;
#endif
	}
	return wrong;
}

int main(void)
{
	char line[64];

	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line))) {
		printf("passed %s wrong %d\n", line, pass(strtoull(line, NULL, 10)));
		fflush(stdout);
	}
	return 0;
}
