/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of scales. Not libm's: loading that would make every start of
 * probectl slower, and nothing here needs more than a few digits.
 */
#ifndef LIBPROBE_REPORT_NUMBERS_H
#define LIBPROBE_REPORT_NUMBERS_H

#include <math.h> /* frexp() and isfinite() are in libc */
#include <stdint.h>

/* A number that is not negative, to the nearest whole one. */
static inline double rounded(double value)
{
	return value < 0x1p63 ? (double)(uint64_t)(value + 0.5) : value;
}

static inline double larger(double a, double b)
{
	return a > b ? a : b;
}

/* The logarithm to the base 2 of a number above 0, to 7 digits; exact for powers of two. */
static inline double logarithm(double value)
{
	int exponent;
	double part = 2 * frexp(value, &exponent);
	/* ln((1 + z) / (1 - z)) = 2 (z + z^3 / 3 + z^5 / 5 ...), with z up to 1/3. */
	double z = (part - 1) / (part + 1), power = z, sum = 0;

	for (int i = 1; i <= 13; i += 2, power *= z * z)
		sum += power / i;
	return exponent - 1 + 2 * sum / 0.69314718055994531;
}

/* The largest power of ten that is not above. */
static inline double power_of_ten(double value)
{
	double power = 1;

	while (power * 10 <= value * (1 + 1e-9))
		power *= 10;
	while (value > 0 && power > value * (1 + 1e-9))
		power /= 10;
	return power;
}

#endif
