/* SPDX-License-Identifier: MIT */
/*
 * Finds pairs of probes by their names. Two names of one provider in one module form a pair if they
 * differ only in their last word, and if one of the rules below lists the two words as begin and
 * end.
 *
 *   query__start            query__done
 *   transaction__start      transaction__commit, transaction__abort
 *   method__entry           method__return
 *
 * The words are those of PostgreSQL, OpenJDK, Ruby, Python, PHP, MySQL, glibc and SystemTap. Some
 * words are left out because they usually do not bracket an operation that one thread begins and
 * ends, properly nested: acquire and release, connect and disconnect, request and response. Users
 * can list such pairs, with the key to match them by.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/query/query.h"

/* ==== Pairs =================================================================================== */

enum { WORDS_MAX = 16 };

/*
 * The last words of end events whose start event has the last word `begin`. If several rules apply,
 * the first one for which end events exist is used.
 */
struct rule {
	const char *begin;
	const char *ends[WORDS_MAX];
};

/* clang-format off */
static const struct rule rules[] = {
	{"start",    {"done", "end", "finish", "finished", "complete", "completed", "stop",
		      "stopped", "commit", "abort", "rollback", "fail", "failed", "error"}},
	{"begin",    {"end", "done", "finish", "finished", "complete", "completed",
		      "commit", "abort", "rollback", "fail", "failed", "error"}},
	{"entry",    {"return", "exit"}},
	{"entry",    {"acquired"}}, /* for mutex_entry in glibc */
	{"enter",    {"entered"}},  /* for monitor__contended__enter in OpenJDK */
	{"enter",    {"exit", "leave", "return"}},
	{"startup",  {"shutdown"}},
	{"wait",     {"waited"}},
	/* for class__initialization in OpenJDK */
	{"required", {"end", "error", "erroneous", "recursive", "concurrent", "super__failed"}},
};
/* clang-format on */

/* ---- By names ------------------------------------------------------------------------- */

/* Returns the index past the last probe of the provider and module of probe `from`. */
static size_t provider_end(const struct selection *s, size_t from)
{
	const struct select_probe *first = &s->probes[from];

	while (from < s->probe_count && s->probes[from].module == first->module &&
		strcmp(s->probes[from].provider, first->provider) == 0)
		from++;
	return from;
}

/* Spells a name as DTrace does: `-` becomes `__`. */
char *pair_plain_name(const char *name)
{
	char *copy = malloc(2 * strlen(name) + 1), *to = copy;

	for (; copy && *name; name++) {
		*to++ = *name == '-' ? '_' : *name;
		if (*name == '-')
			*to++ = '_';
	}
	if (copy)
		*to = '\0';
	return copy;
}

static void free_names(char **names, size_t count)
{
	for (size_t i = 0; names && i < count; i++)
		free(names[i]);
	free(names);
}

static char **plain_names(const struct selection *s)
{
	char **names = calloc(s->probe_count + 1, sizeof(*names));

	for (size_t i = 0; names && i < s->probe_count; i++) {
		names[i] = pair_plain_name(s->probes[i].name);
		if (names[i])
			continue;
		free_names(names, i);
		return NULL;
	}
	return names;
}

/*
 * Returns true if `word` is the last word of a name. *before_ret is the length before it, with the
 * separator.
 */
static bool ends_in(const char *name, const char *word, size_t *before_ret)
{
	size_t length = strlen(name), word_length = strlen(word);

	if (length < word_length || strcmp(name + length - word_length, word) != 0)
		return false;
	*before_ret = length - word_length;
	return *before_ret == 0 || name[*before_ret - 1] == '_';
}

/*
 * Gives the pair's number to the end events that a rule lists for the probe `begin`. Returns how
 * many there are.
 */
static size_t take_ends(const struct rule *rule, char *const *names, size_t count,
	const char *begin, size_t before, uint32_t pair, struct pair_part *parts)
{
	size_t taken = 0;

	for (size_t i = 0; i < count; i++) {
		if (parts[i].role != PAIR_NONE || strncmp(names[i], begin, before) != 0)
			continue;
		for (size_t k = 0; k < WORDS_MAX && rule->ends[k]; k++) {
			if (strcmp(names[i] + before, rule->ends[k]) != 0)
				continue;
			parts[i] = (struct pair_part){.role = PAIR_END, .pair = pair};
			taken++;
		}
	}
	return taken;
}

/* Applies the rules to probes without a role. */
static void apply_rules(char *const *names, size_t count, struct pair_part *parts, uint32_t *pairs)
{
	for (size_t r = 0; r < sizeof(rules) / sizeof(*rules); r++) {
		for (size_t i = 0; i < count; i++) {
			size_t before;

			if (parts[i].role != PAIR_NONE ||
				!ends_in(names[i], rules[r].begin, &before) ||
				!take_ends(
					&rules[r], names, count, names[i], before, *pairs, parts))
				continue;
			parts[i] = (struct pair_part){.role = PAIR_BEGIN, .pair = (*pairs)++};
		}
	}
}

void pairs_by_name(char *const *names, size_t count, struct pair_part *parts, uint32_t *pairs)
{
	for (size_t i = 0; i < count; i++)
		parts[i] = (struct pair_part){.role = PAIR_NONE};
	apply_rules(names, count, parts, pairs);
}

enum pair_role pair_may_be(const char *name, size_t *stem_ret)
{
	for (size_t r = 0; r < sizeof(rules) / sizeof(*rules); r++) {
		if (ends_in(name, rules[r].begin, stem_ret))
			return PAIR_BEGIN;
		for (size_t k = 0; k < WORDS_MAX && rules[r].ends[k]; k++)
			if (ends_in(name, rules[r].ends[k], stem_ret))
				return PAIR_END;
	}
	return PAIR_NONE;
}

bool pair_looks_reversed(const char *begin, const char *end)
{
	char *begin_name = pair_plain_name(begin), *end_name = pair_plain_name(end);
	size_t begin_stem, end_stem;
	bool ret = begin_name && end_name && pair_may_be(begin_name, &begin_stem) == PAIR_END &&
		   pair_may_be(end_name, &end_stem) == PAIR_BEGIN && begin_stem == end_stem &&
		   memcmp(begin_name, end_name, begin_stem) == 0;

	free(begin_name);
	free(end_name);
	return ret;
}

/*
 * Returns the length of the prefix that names share if they may affect each other's pairing.
 * Usually this prefix is all but the last word. But x__super__failed may end x__super__start and
 * x__required, so the prefix is x__ for all three.
 */
static size_t pair_kin(const char *name)
{
	/* super__failed is the only end with two words. */
	static const char inner[] = "super__";
	size_t length;

	if (pair_may_be(name, &length) == PAIR_NONE)
		return strlen(name);
	while (length >= sizeof(inner) - 1 &&
		memcmp(name + length - (sizeof(inner) - 1), inner, sizeof(inner) - 1) == 0)
		length -= sizeof(inner) - 1;
	return length;
}

/* ---- By the catalogue ----------------------------------------------------------------- */

/* Returns true if the catalogue lists a probe among the end events of a start event. */
static bool is_end_of(const struct probe_meaning *begin, const char *name)
{
	for (size_t i = 0; i < begin->end_count; i++)
		if (catalogue_name_matches(begin->ends[i], name))
			return true;
	return false;
}

/* Finds the pairs of the catalogue, which take precedence over the rules. */
static void apply_catalogue(const struct probe_catalogue *catalogue, const char *provider,
	char *const *names, size_t count, struct pair_part *parts, uint32_t *pairs)
{
	for (size_t i = 0; i < count; i++) {
		const struct probe_meaning *begin =
			parts[i].role == PAIR_NONE
				? probe_catalogue_find(catalogue, provider, names[i], SIZE_MAX)
				: NULL;
		bool found = false;

		for (size_t k = 0; begin && k < count; k++) {
			if (k == i || parts[k].role != PAIR_NONE || !is_end_of(begin, names[k]))
				continue;
			parts[k] = (struct pair_part){.role = PAIR_END, .pair = *pairs};
			found = true;
		}
		if (found)
			parts[i] = (struct pair_part){.role = PAIR_BEGIN, .pair = (*pairs)++};
	}
}

/* ---- Functions ------------------------------------------------------------------------- */

/* Makes a pair of each function's entry and exits, which have the same frame. */
static void apply_functions(
	const struct select_probe *probes, size_t count, struct pair_part *parts, uint32_t *pairs)
{
	for (size_t i = 0; i < count; i++) {
		const struct select_probe *entry = select_entry_of(probes, &probes[i]);

		if (!entry)
			continue;
		parts[entry - probes] =
			(struct pair_part){.role = PAIR_BEGIN, .pair = *pairs, .compares = true};
		parts[i] =
			(struct pair_part){.role = PAIR_END, .pair = (*pairs)++, .compares = true};
	}
}

/* Marks the pair of a function's entry and exits that a user has listed. */
static void mark_function(const struct select_probe probes[2], struct pair_part parts[2])
{
	if (parts[0].role == PAIR_BEGIN && parts[1].role == PAIR_END)
		parts[0].compares = parts[1].compares = select_is_exit_of(&probes[1], &probes[0]);
}

/* ---- Begins that take the arguments of another probe ----------------------------------- */

/* Returns true if a probe is the giver of a start event, which takes its arguments. */
static bool is_giver(const struct probe_meaning *begin, const char *name)
{
	return begin && begin->takes && catalogue_name_matches(begin->takes, name);
}

/* Returns the catalogue's entry of a start event; NULL for other probes. */
static const struct probe_meaning *meaning_of_begin(const struct probe_catalogue *catalogue,
	const char *provider, const char *name, const struct pair_part *part)
{
	return part->role == PAIR_BEGIN ? probe_catalogue_find(catalogue, provider, name, SIZE_MAX)
					: NULL;
}

/* Marks the pairs of a provider that do not nest, by the catalogue. */
static void apply_takes(const struct probe_catalogue *catalogue, const char *provider,
	char *const *names, size_t count, struct pair_part *parts)
{
	for (size_t i = 0; i < count; i++) {
		const struct probe_meaning *begin =
			meaning_of_begin(catalogue, provider, names[i], &parts[i]);

		/* Mark all probes of the pair, and the giver. All have the same provider. */
		for (size_t k = 0; begin && begin->takes && !parts[i].gives && k < count; k++) {
			struct pair_part *part = &parts[k];

			if (part->role == PAIR_NONE && is_giver(begin, names[k]))
				*part = (struct pair_part){
					.role = PAIR_BEGIN, .pair = parts[i].pair, .gives = true};
			if (part->role == PAIR_NONE || part->pair != parts[i].pair)
				continue;
			part->single = true;
			parts[i].takes |= part->gives;
		}
	}
}

/* ---- Pairs whose events are matched by arguments ---------------------------------------- */

static bool same_names(const struct probe_meaning *a, const struct probe_meaning *b)
{
	size_t i = 0;

	while (i < a->same_count && i < b->same_count && strcmp(a->same[i], b->same[i]) == 0)
		i++;
	return i == a->same_count && i == b->same_count;
}

/*
 * Returns the entry that lists the arguments to compare for a pair; NULL if its start events list
 * none, or different ones.
 */
static const struct probe_meaning *same_of_begins(
	const struct pair_part *parts, size_t count, uint32_t pair)
{
	const struct probe_meaning *ret = NULL;

	for (size_t i = 0; i < count; i++) {
		if (parts[i].role != PAIR_BEGIN || parts[i].pair != pair || !parts[i].same)
			continue;
		if (ret && !same_names(ret, parts[i].same))
			return NULL;
		ret = parts[i].same;
	}
	return ret;
}

/* Finds the arguments to compare for a provider's pairs. */
static void apply_same(const struct probe_catalogue *catalogue, const char *provider,
	char *const *names, size_t count, struct pair_part *parts)
{
	for (size_t i = 0; i < count; i++) {
		const struct probe_meaning *begin =
			meaning_of_begin(catalogue, provider, names[i], &parts[i]);

		if (begin && begin->same_count && !parts[i].single)
			parts[i].same = begin;
	}
	for (size_t i = 0; i < count; i++)
		if (parts[i].role == PAIR_END)
			parts[i].same = same_of_begins(parts, count, parts[i].pair);
}

/* Marks all probes of compared pairs, because the arguments may be listed for only one of them. */
static void mark_compared(struct pair_part *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; parts[i].same && k < count; k++)
			parts[k].compares |=
				parts[k].role != PAIR_NONE && parts[k].pair == parts[i].pair;
}

/* ---- Positions of patterns --------------------------------------------------------------- */

size_t pairs_place(const struct probe_pattern *const *patterns, size_t count,
	const struct probe_catalogue *catalogue, size_t pattern)
{
	size_t place = 0;

	for (size_t i = 0; i <= pattern; i++) {
		const char *provider, *name, *other, *begin;
		bool gives = false;

		for (size_t k = 0; k < count && pattern_names(patterns[i], &provider, &name); k++)
			gives |= k != i && pattern_names(patterns[k], &other, &begin) &&
				 strcmp(provider, other) == 0 &&
				 is_giver(probe_catalogue_find(catalogue, other, begin, SIZE_MAX),
					 name);
		if (i == pattern)
			return gives ? PAIRS_GIVER : place;
		place += !gives;
	}
	return place;
}

size_t probe_pattern_paired(const struct probe_pattern *const *patterns, size_t count,
	const struct probe_catalogue *catalogue)
{
	size_t paired = 0;

	for (size_t i = 0; i < count; i++)
		paired += pairs_place(patterns, count, catalogue, i) != PAIRS_GIVER;
	return paired;
}

/*
 * Pairs the probes of each provider and module by the catalogue and the rules, if `pairs` is not
 * NULL. Finds pairs that do not nest or are compared.
 */
static struct probe_error *find_known(const struct selection *s,
	const struct probe_catalogue *catalogue, struct pair_part *parts, uint32_t *pairs)
{
	char **names = plain_names(s);

	if (!names)
		return probe_error_no_memory();
	for (size_t i = 0, end; i < s->probe_count; i = end) {
		const char *provider = s->probes[i].provider;

		end = provider_end(s, i);
		if (pairs) {
			apply_functions(s->probes + i, end - i, parts + i, pairs);
			apply_catalogue(catalogue, provider, names + i, end - i, parts + i, pairs);
			apply_rules(names + i, end - i, parts + i, pairs);
		}
		apply_takes(catalogue, provider, names + i, end - i, parts + i);
		apply_same(catalogue, provider, names + i, end - i, parts + i);
	}
	free_names(names, s->probe_count);
	mark_compared(parts, s->probe_count);
	return NULL;
}

/* ---- By patterns ------------------------------------------------------------------------ */

/* The patterns of a request, and the role of the probes that match each. */
struct pattern_parts {
	const struct probe_pattern *const *patterns;
	struct pair_part *parts; /* PAIR_NONE for a pattern that names the giver of a begin */
	size_t count;
};

/* Returns an error for a probe that is begin and end, or of two pairs. */
static struct probe_error *check_part(
	const struct select_probe *probe, const struct pattern_parts *all)
{
	struct pair_part part = all->parts[probe->pattern];

	for (size_t i = 0; i < all->count; i++) {
		struct pair_part other = all->parts[i];

		if ((part.role == other.role && part.pair == other.pair) ||
			!probe_pattern_matches(all->patterns[i], probe->module->path,
				probe->provider, probe->name))
			continue;
		return probe_error_new(PROBE_ERROR_USAGE,
			"%s:%s matches both '%s' and '%s': it can begin or end only one pair",
			probe->provider, probe->name,
			probe_pattern_text(all->patterns[probe->pattern]),
			probe_pattern_text(all->patterns[i]));
	}
	return NULL;
}

static struct probe_error *pair_patterns(const struct selection *s,
	const struct probe_pattern *const *patterns, enum probe_pairing pairing,
	const struct probe_catalogue *catalogue, struct pair_part *parts, uint32_t *pairs)
{
	struct pattern_parts all = {.patterns = patterns,
		.parts = calloc(s->pattern_count + 1, sizeof(*all.parts)),
		.count = s->pattern_count};
	struct probe_error *error = NULL;
	size_t count = 0;

	if (!all.parts)
		return probe_error_no_memory();
	for (size_t i = 0; i < all.count; i++) {
		size_t place = pairs_place(patterns, all.count, catalogue, i);

		all.parts[i] = (struct pair_part){
			.role = place % 2 ? PAIR_END : PAIR_BEGIN, .pair = (uint32_t)(place / 2)};
		if (place == PAIRS_GIVER)
			all.parts[i] = (struct pair_part){.role = PAIR_NONE};
		else if (pairing == PROBE_PAIRING_ONE)
			all.parts[i] = (struct pair_part){.role = place ? PAIR_END : PAIR_BEGIN};
		count += place != PAIRS_GIVER;
	}
	if (count < 2 || (pairing == PROBE_PAIRING_LISTED && count % 2))
		error = probe_error_new(PROBE_ERROR_USAGE,
			"%zu probe%s pairs: each begin needs its end", count,
			count == 1 ? " does not make" : "s do not make");
	for (size_t i = 0; i < s->probe_count && !error; i++) {
		error = check_part(&s->probes[i], &all);
		parts[i] = all.parts[s->probes[i].pattern];
	}
	*pairs = pairing == PROBE_PAIRING_ONE ? 1 : (uint32_t)(count / 2);
	free(all.parts);
	if (!error && s->probe_count == 2)
		mark_function(s->probes, parts);
	return error || !catalogue ? error : find_known(s, catalogue, parts, NULL);
}

struct probe_error *pairs_assign(const struct selection *selection,
	const struct probe_pattern *const *patterns, enum probe_pairing pairing,
	const struct probe_catalogue *catalogue, struct pair_part *parts, uint32_t *pairs)
{
	uint32_t before = *pairs;
	struct probe_error *error;

	for (size_t i = 0; i < selection->probe_count; i++)
		parts[i] = (struct pair_part){.role = PAIR_NONE};
	if (pairing == PROBE_PAIRING_NONE)
		return NULL;
	if (pairing != PROBE_PAIRING_NAMES)
		return pair_patterns(selection, patterns, pairing, catalogue, parts, pairs);
	error = find_known(selection, catalogue, parts, pairs);
	if (error || *pairs != before || !selection->probe_count)
		return error;
	return probe_error_new(PROBE_ERROR_NOT_FOUND,
		"no two of the probes are a pair by their names (X__start and X__done, X__entry "
		"and X__return ...): %s:%s has no partner",
		selection->probes[0].provider, selection->probes[0].name);
}

/* ==== Pairing ================================================================================= */

void pairing_deinit(struct pairing *pairing)
{
	for (size_t i = 0; i < pairing->count; i++)
		free(pairing->probes[i].plain);
	free(pairing->probes);
	*pairing = (struct pairing){0};
}

/* Pairs the last probe and its kin again (see pair_kin()). Returns false if out of memory. */
static bool pair_again(struct pairing *pairing)
{
	struct pairing_probe *probes = pairing->probes;
	const struct pairing_probe *last = &probes[pairing->count - 1];
	size_t *indices = calloc(pairing->count, sizeof(*indices)), count = 0;
	AUTO_FREE char **names = calloc(pairing->count, sizeof(*names));
	AUTO_FREE struct pair_part *parts = calloc(pairing->count, sizeof(*parts));
	bool ok = indices && names && parts;
	uint32_t pairs = 0;

	for (size_t i = 0; i < pairing->count && ok; i++) {
		const struct pairing_probe *p = &probes[i];

		if (p->same != i || p->may_be == PAIR_NONE || p->kin != last->kin ||
			memcmp(p->plain, last->plain, p->kin) != 0 ||
			strcmp(p->provider, last->provider) != 0)
			continue;
		names[count] = probes[i].plain;
		indices[count++] = i;
	}
	/* A function's entry and its exits are the only kin of each other. */
	for (size_t i = 0; i < count && count == 2 && last->is_function; i++)
		parts[i] = (struct pair_part){.role = probes[indices[i]].may_be};
	if (ok && !last->is_function)
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
	return ok;
}

struct probe_error *pairing_add(struct pairing *pairing, const char *provider, const char *name)
{
	struct pairing_probe *probe;

	if (!ARRAY_ROOM(pairing->probes, pairing->count))
		return probe_error_no_memory();
	probe = &pairing->probes[pairing->count];
	*probe = (struct pairing_probe){
		.provider = provider, .is_function = event_is_of_function(provider)};
	probe->plain = probe->is_function ? strdup(name) : pair_plain_name(name);
	if (!probe->plain)
		return probe_error_no_memory();
	if (probe->is_function) {
		probe->stem = probe->kin = sdt_function_length(name, strlen(name));
		probe->may_be = name[probe->stem] ? PAIR_END : PAIR_BEGIN;
	} else {
		probe->may_be = pair_may_be(probe->plain, &probe->stem);
		probe->kin = pair_kin(probe->plain);
	}
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
