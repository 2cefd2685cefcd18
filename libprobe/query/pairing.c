/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/query/query.h"

void pairing_deinit(struct pairing *pairing)
{
	for (size_t i = 0; i < pairing->count; i++)
		free(pairing->probes[i].plain);
	free(pairing->probes);
	*pairing = (struct pairing){0};
}

/* Whether two that may be part of a pair can decide with whom the other one pairs. */
static bool are_kin(const struct pairing_probe *a, const struct pairing_probe *b)
{
	return a->may_be != PAIR_NONE && a->kin == b->kin &&
	       memcmp(a->plain, b->plain, a->kin) == 0 && strcmp(a->provider, b->provider) == 0;
}

/* Pairs the last probe and its kin again. False without memory. */
static bool pair_again(struct pairing *pairing)
{
	struct pairing_probe *probes = pairing->probes;
	const struct pairing_probe *last = &probes[pairing->count - 1];
	size_t *indices = calloc(pairing->count, sizeof(*indices)), count = 0;
	char **names = calloc(pairing->count, sizeof(*names));
	struct pair_part *parts = calloc(pairing->count, sizeof(*parts));
	bool ok = indices && names && parts;
	uint32_t pairs = 0;

	for (size_t i = 0; i < pairing->count && ok; i++) {
		if (probes[i].same != i || !are_kin(&probes[i], last))
			continue;
		names[count] = probes[i].plain;
		indices[count++] = i;
	}
	if (ok)
		pairs_by_name(names, count, parts, &pairs);
	for (size_t i = 0; i < count; i++) {
		probes[indices[i]].role = parts[i].role;
		for (size_t k = 0; k < count && parts[i].role == PAIR_BEGIN; k++)
			if (parts[k].role == PAIR_END && parts[k].pair == parts[i].pair)
				probes[indices[k]].begin = indices[i];
	}
	for (size_t i = 0; i < pairing->count && ok; i++) {
		probes[i].role = probes[probes[i].same].role;
		probes[i].begin = probes[probes[i].same].begin;
	}
	free(indices);
	free(names);
	free(parts);
	return ok;
}

struct probe_error *pairing_add(struct pairing *pairing, const char *provider, const char *name)
{
	struct pairing_probe *probe;

	if (!ARRAY_ROOM(pairing->probes, pairing->count))
		return probe_error_no_memory();
	probe = &pairing->probes[pairing->count];
	*probe = (struct pairing_probe){.provider = provider, .plain = pair_plain_name(name)};
	if (!probe->plain)
		return probe_error_no_memory();
	probe->may_be = pair_may_be(probe->plain, &probe->stem);
	probe->kin = pair_kin(probe->plain);
	while (probe->same < pairing->count &&
		(strcmp(pairing->probes[probe->same].plain, probe->plain) != 0 ||
			strcmp(pairing->probes[probe->same].provider, provider) != 0))
		probe->same++;
	pairing->count++;
	if (probe->may_be == PAIR_NONE || pair_again(pairing))
		return NULL;
	free(pairing->probes[--pairing->count].plain);
	return probe_error_no_memory();
}
