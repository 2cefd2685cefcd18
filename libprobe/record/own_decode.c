/* SPDX-License-Identifier: MIT */
/* Following the steps of a class. Nothing here trusts what it reads. */
#include <string.h>

#include "libprobe/record/record.h"

/* Up to 64 bits, of the 8 bytes at the place of a step. */
static uint64_t bits(const uint8_t *run, const struct step *step)
{
	uint64_t word;

	memcpy(&word, run + step->offset, sizeof(word));
	return word << step->left >> step->right;
}

static int64_t signed_bits(const uint8_t *run, const struct step *step)
{
	uint64_t word;

	memcpy(&word, run + step->offset, sizeof(word));
	return (int64_t)(word << step->left) >> step->right;
}

static double single(const uint8_t *run, const struct step *step)
{
	float number;

	memcpy(&number, run + step->offset, sizeof(number));
	return (double)number;
}

static double double_of(const uint8_t *run, const struct step *step)
{
	double number;

	memcpy(&number, run + step->offset, sizeof(number));
	return number;
}

/* ---- What has a length of its own --------------------------------------------------------- */

/* What could not be read has no bytes. */
static void set_bytes(struct probe_value *value, const uint8_t *at, uint64_t length)
{
	bool is_null = value->kind == PROBE_VALUE_NULL;

	value->bytes = is_null ? NULL : (const char *)at;
	value->length = is_null ? 0 : length;
}

/* Up to the first NUL; what the target had behind that is none of the string. */
static void set_chars(struct probe_value *value, const uint8_t *at, uint64_t length)
{
	const uint8_t *nul = length ? memchr(at, '\0', length) : NULL;

	set_bytes(value, at, nul ? (uint64_t)(nul - at) : length);
	value->truncated &= !nul;
}

/* As isprint(3) and isspace(3) in the locale "C"; other bytes may be a letter of UTF-8. */
static bool is_text(const uint8_t *at, uint64_t length)
{
	for (uint64_t i = 0; i < length; i++)
		if ((at[i] < ' ' && !(at[i] >= '\t' && at[i] <= '\r')) || at[i] == 0x7f)
			return false;
	return true;
}

/* A number that points to text is shown with it, if it is known to, or looks like text. */
static void set_guess(
	struct probe_value *value, const uint8_t *at, uint64_t length, bool unreadable)
{
	const uint8_t *nul = length ? memchr(at, '\0', length) : NULL;
	uint64_t used = nul ? (uint64_t)(nul - at) : length;

	bool is_shown = value->known || (used && is_text(at, used));

	if (unreadable || !is_shown)
		used = 0;
	if (is_shown && !unreadable && value->kind != PROBE_VALUE_NULL)
		value->kind = PROBE_VALUE_TEXT;
	else
		value->truncated = false;
	value->truncated &= !nul;
	set_bytes(value, at, used);
}

/* A string up to a NUL. NULL: it has none before `end`. */
static const uint8_t *after_string(const uint8_t *at, const uint8_t *end)
{
	const uint8_t *nul = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;

	return nul ? nul + 1 : NULL;
}

static struct probe_value *value_of(const struct step *step, const struct step_result *result)
{
	return &result->values[step->to];
}

/* A step that ends the run, and those after it. */
static __attribute__((noinline)) const uint8_t *decode_variable(
	const struct step *step, const uint8_t *at, const uint8_t *end, struct step_result *result)
{
	uint64_t room = (uint64_t)(end - at);
	uint64_t length = step->from == STEP_NO_NUMBER ? step->offset : result->numbers[step->from];
	const uint8_t *after;

	if (step->op == STEP_STRING || step->op == STEP_COMM) {
		after = after_string(at, end);
		if (after && step->op == STEP_COMM)
			result->comm = (const char *)at;
		else if (after)
			set_bytes(value_of(step, result), at, (uint64_t)(after - 1 - at));
		return after ? own_decode(step + 1, after, end, result) : NULL;
	}
	if (length > room / step->kind)
		return NULL;
	switch (step->op) {
	case STEP_CHARS:
		set_chars(value_of(step, result), at, length);
		break;
	case STEP_BYTES:
		set_bytes(value_of(step, result), at, length);
		break;
	case STEP_GUESS:
		set_guess(value_of(step, result), at, length, result->numbers[step->also] != 0);
		break;
	case STEP_UUID:
		result->uuid = at;
		break;
	case STEP_STACK:
		result->stack = at;
		result->frames = length;
		break;
	}
	return own_decode(step + 1, at + length * step->kind, end, result);
}

static void make_null(struct probe_value *value)
{
	value->kind = PROBE_VALUE_NULL;
	value->u = 0;
}

/* ---- All steps ------------------------------------------------------------------------------ */

const uint8_t *own_decode(
	const struct step *steps, const uint8_t *at, const uint8_t *end, struct step_result *result)
{
	struct probe_value *values = result->values;
	const uint8_t *run = at;

	for (const struct step *step = steps;; step++) {
		switch ((enum step_op)step->op) {
		case STEP_END:
			return at;
		case STEP_RUN:
			at += -((uintptr_t)at - result->skew) & step->kind;
			if (at > end || (size_t)(end - at) < step->offset)
				return NULL;
			run = at;
			at += step->offset;
			break;
		case STEP_WORD:
			/* Often there are several. */
			do
				memcpy(&values[step->to].u, run + step->offset, sizeof(uint64_t));
			while ((++step)->op == STEP_WORD);
			step--;
			break;
		case STEP_UNSIGNED:
			values[step->to].u = bits(run, step);
			break;
		case STEP_SIGNED:
			values[step->to].i = signed_bits(run, step);
			break;
		case STEP_SINGLE:
			values[step->to].f = single(run, step);
			break;
		case STEP_DOUBLE:
			values[step->to].f = double_of(run, step);
			break;
		case STEP_KIND:
			values[step->to].kind = step->kind;
			values[step->to].truncated = false;
			break;
		case STEP_READABLE:
			if (!bits(run, step))
				make_null(&values[step->to]);
			break;
		case STEP_UNREADABLE:
			if (bits(run, step))
				make_null(&values[step->to]);
			break;
		case STEP_TRUNCATED:
			values[step->to].truncated = bits(run, step) != 0;
			break;
		case STEP_NUMBER:
			result->numbers[step->to] = bits(run, step);
			break;
		case STEP_NUMBER_SIGNED:
			result->numbers[step->to] = (uint64_t)signed_bits(run, step);
			break;
		default:
			/* The last call: what all other steps need then stays in registers. */
			return decode_variable(step, at, end, result);
		}
	}
}
