/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "arch/layout.h"
#include "libprobe/base/array.h"
#include "libprobe/base/hash.h"
#include "libprobe/base/value.h"
#include "libprobe/report/report.h"

struct identity_begin {
	bool is_known;
	uint8_t count;
	struct key keys[PROBE_SAME_MAX];
};

static void begin_deinit(struct identity_begin *begin)
{
	for (uint8_t i = 0; i < begin->count; i++)
		key_deinit(&begin->keys[i]);
	*begin = (struct identity_begin){0};
}

void identities_deinit(struct identities *identities)
{
	for (size_t i = 0; i < identities->count; i++)
		begin_deinit(&identities->begins[i]);
	free(identities->begins);
	*identities = (struct identities){0};
}

/* What is known of a probe depends on the number of its arguments; what is compared does not. */
static struct probe_error *learn(const struct probe_catalogue *catalogue, const char *provider,
	const char *name, struct identity_begin *ret)
{
	const struct probe_meaning *meaning =
		probe_catalogue_find(catalogue, provider, name, SIZE_MAX);
	size_t count = meaning && !meaning->takes ? meaning->same_count : 0;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < count && !error; i++) {
		error = key_parse(meaning->same[i], strlen(meaning->same[i]), catalogue, (uint8_t)i,
			&ret->keys[i]);
		ret->count += !error;
	}
	ret->is_known = !error;
	if (error)
		begin_deinit(ret);
	return error;
}

static uint64_t hash_of(const struct identity_begin *begin, const struct probe_event *event)
{
	uint64_t hash = 1;

	for (uint8_t i = 0; i < begin->count; i++) {
		struct probe_value value;

		if (!key_value(&begin->keys[i], event, &value))
			return 0;
		if (!value_has_bytes(&value))
			hash = hash_word(hash, value.u);
		else
			hash = hash_bytes(hash, value.bytes,
				value.length < FLIGHT_IDENTITY_BYTES ? value.length
								     : FLIGHT_IDENTITY_BYTES);
	}
	return hash | 1;
}

struct probe_error *identity_of(struct identities *identities, size_t index, const char *provider,
	const char *name, const struct probe_event *event, uint64_t *ret)
{
	struct probe_error *error = NULL;
	struct identity_begin *begin;

	*ret = 0;
	if (!identities->catalogue)
		return NULL;
	while (identities->count <= index) {
		if (!ARRAY_ROOM(identities->begins, identities->count))
			return probe_error_no_memory();
		identities->begins[identities->count++] = (struct identity_begin){0};
	}
	begin = &identities->begins[index];
	if (!begin->is_known)
		error = learn(identities->catalogue, provider, name, begin);
	if (!error && begin->count)
		*ret = hash_of(begin, event);
	return error;
}
