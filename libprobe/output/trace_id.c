/* SPDX-License-Identifier: MIT */
/*
 * Finds the trace of a span. If a program takes part in traces, the arguments of its probes may
 * contain the trace id, either in the header that it received,
 *
 *	00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01	https://www.w3.org/TR/trace-context/
 *
 * or alone: 32 hexadecimal digits, or a UUID. Other values can group spans into traces, too: the
 * user names an argument, and the trace id is a hash of the argument's value. A text, such as
 * "order-17", gives the same id in every process. A number gives the same id only within a process.
 */
#include <stdio.h>
#include <string.h>

#include "libprobe/base/value.h"
#include "libprobe/output/output.h"

static bool is_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Copies hexadecimal digits, in lower case. Returns false if one is missing, or all are 0. */
static bool take_digits(const char *text, size_t length, size_t count, char *ret)
{
	bool any = false;

	if (length < count)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!is_digit(text[i]))
			return false;
		any |= text[i] != '0';
		ret[i] = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] + ('a' - 'A') : text[i]);
	}
	ret[count] = '\0';
	return any;
}

static bool take_traceparent(const char *text, size_t length, struct otlp_ids *ids)
{
	enum {
		TRACE = 3,
		PARENT = TRACE + TRACE_ID_DIGITS + 1,
		FLAGS = PARENT + SPAN_ID_DIGITS + 1
	};
	struct otlp_ids found = *ids;
	char version[3], flags[3] = "";

	if (length < FLAGS + 2 || text[2] != '-' || text[PARENT - 1] != '-' ||
		text[FLAGS - 1] != '-')
		return false;
	/* Version 00 must end after the flags. Version and flags may be 0, unlike the ids. */
	take_digits(text, 2, 2, version);
	if (!is_digit(text[0]) || !is_digit(text[1]) || !strcmp(version, "ff") ||
		(length > FLAGS + 2 && (!strcmp(version, "00") || text[FLAGS + 2] != '-')))
		return false;
	take_digits(text + FLAGS, 2, 2, flags);
	if (!*flags || !take_digits(text + TRACE, TRACE_ID_DIGITS, TRACE_ID_DIGITS, found.trace) ||
		!take_digits(text + PARENT, SPAN_ID_DIGITS, SPAN_ID_DIGITS, found.parent))
		return false;
	*ids = found;
	return true;
}

/* Reads an id of 32 digits, or a UUID with hyphens. */
static bool take_id(const char *text, size_t length, struct otlp_ids *ids)
{
	char digits[TRACE_ID_DIGITS + 1], trace[TRACE_ID_DIGITS + 1];
	size_t count = 0;
	bool is_uuid = length == 36;

	if (length != TRACE_ID_DIGITS && !is_uuid)
		return false;
	for (size_t i = 0; i < length; i++) {
		bool is_hyphen = is_uuid && (i == 8 || i == 13 || i == 18 || i == 23);

		if (is_hyphen != (text[i] == '-'))
			return false;
		if (!is_hyphen)
			digits[count++] = text[i];
	}
	if (!take_digits(digits, count, TRACE_ID_DIGITS, trace))
		return false;
	memcpy(ids->trace, trace, sizeof(trace));
	return true;
}

static bool find_id(const struct probe_hit *hit, struct otlp_ids *ids)
{
	for (size_t i = 0; i < hit->arg_count; i++) {
		const struct probe_value *value = &hit->args[i];

		if (value_has_bytes(value) && value->kind != PROBE_VALUE_BYTES &&
			!value->truncated &&
			(take_traceparent(value->bytes, value->length, ids) ||
				take_id(value->bytes, value->length, ids)))
			return true;
	}
	return false;
}

/* splitmix64: different states give different numbers. */
static uint64_t mix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static void make_trace(uint64_t seed, struct otlp_ids *ids)
{
	uint64_t high = mix(&seed), low = mix(&seed);

	snprintf(ids->trace, sizeof(ids->trace), "%016llx%016llx", (unsigned long long)high,
		(unsigned long long)low);
}

/* FNV-1a, of 64 bits. */
static uint64_t hash(uint64_t from, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < length; i++)
		from = (from ^ at[i]) * 0x100000001b3;
	return from;
}

static bool hash_value(const struct probe_otlp *otlp, const struct probe_hit *hit, uint64_t *ret)
{
	const struct probe_hit *begin = hit->begin;
	const uint64_t start = 0xcbf29ce484222325;

	for (size_t i = 0; i < begin->arg_count; i++) {
		const struct probe_value *value = &begin->args[i];

		if ((value->number ? value->number - (size_t)1 : i) != (size_t)otlp->trace_arg)
			continue;
		if (value_has_bytes(value)) {
			*ret = hash(start, value->bytes, value->length);
			return true;
		}
		*ret = hash(hash(start, &hit->pid, sizeof(hit->pid)), &value->u, sizeof(value->u));
		return value->kind != PROBE_VALUE_NULL;
	}
	return false;
}

void otlp_ids_of(struct probe_otlp *otlp, const struct probe_hit *hit, struct otlp_ids *ret)
{
	uint64_t id, seed;

	*ret = (struct otlp_ids){0};
	do
		id = mix(&otlp->random);
	while (!id);
	snprintf(ret->span, sizeof(ret->span), "%016llx", (unsigned long long)id);
	if (find_id(hit->begin, ret) || find_id(hit, ret))
		return;
	if (otlp->trace_arg < 0 || !hash_value(otlp, hit, &seed))
		seed = mix(&otlp->random);
	make_trace(seed, ret);
}
