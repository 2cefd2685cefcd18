/* SPDX-License-Identifier: MIT */
/*
 * Keeps the texts of expressions. They are parsed again for each probe that has other names,
 * because the types of its arguments are known only then. Probes of one meaning share the result.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/session/session.h"

/* ==== Named =================================================================================== */

enum { FILTER, VALUE, MATCH, MATCH_END, KEYS, TEXTS = KEYS + PROBE_KEYS_MAX };

/* The expressions for all probes of one meaning and role. */
struct named {
	const struct probe_meaning *meaning;
	enum pair_role role;
	bool takes; /* as in struct pair_part */
	struct asked asked;
	/* texts of `asked`; NULL if without names, or unused in this role */
	char *replaced[TEXTS];
};

struct asked_names {
	/* Only its texts of expressions are used: NULL, or in `examples`. */
	struct probe_session_options options;
	char *texts[TEXTS];    /* texts as the user typed them; owned; NULL if without names */
	char *examples[TEXTS]; /* texts with an example argument for each name; owned, or NULL */
	/*
	 * The names of start events' arguments, or NULL. All start events keep the same arguments.
	 */
	const struct probe_meaning *begin;
	struct named **items;
	size_t count;
};

/* Returns the place of text `index` in the options. */
static const char **text_of(struct probe_session_options *options, size_t index)
{
	struct probe_gather *gather = &options->gather;

	switch (index) {
	case FILTER:
		return &options->filter;
	case VALUE:
		return &gather->value;
	case MATCH:
		return &gather->match;
	case MATCH_END:
		return &gather->match_end;
	default:
		return &gather->keys[index - KEYS];
	}
}

static const char *what(size_t index)
{
	static const char *const names[] = {
		"the filter", "the value", "the match", "the match of the end"};

	return index < KEYS ? names[index] : "the key";
}

/* ---- Examples --------------------------------------------------------------------------- */

/* Is this the description of unknown functions, for a pattern of functions? */
static bool is_any_function(
	const struct probe_pattern *pattern, const struct probe_meaning *meaning)
{
	for (int is_return = 0; is_return < 2; is_return++)
		if (meaning == catalogue_any_function(is_return))
			return pattern_is_function(pattern) && pattern_wants(pattern, is_return);
	return false;
}

/* Returns the pattern that names a probe with this meaning, or NULL. */
static const struct probe_pattern *asked_by(const struct probe_pattern *const *patterns,
	size_t count, const struct probe_meaning *meaning)
{
	for (size_t i = 0; i < count; i++)
		if (pattern_may_name(patterns[i], meaning->provider, meaning->name) ||
			is_any_function(patterns[i], meaning))
			return patterns[i];
	return NULL;
}

/* Says in an error which probe it is about. */
static struct probe_error *about(struct probe_error *error, const struct probe_pattern *pattern,
	const struct probe_meaning *meaning)
{
	return is_any_function(pattern, meaning)
		       ? probe_error_prefix(error, "%s", probe_pattern_text(pattern))
		       : probe_error_prefix(error, "%s:%s", meaning->provider, meaning->name);
}

/*
 * Replaces a text's names by the arguments of the first requested probe that has all names. If none
 * of them is in the catalogue, *ret is a copy of the text; parsing it gives an error that says what
 * is allowed there.
 */
static struct probe_error *replace_any(const struct asked_names *names, size_t index,
	const struct probe_pattern *const *patterns, size_t count, char **ret)
{
	const struct probe_meaning *meaning;
	const struct probe_pattern *pattern;
	struct probe_error *first = NULL;
	const char *provider = NULL;
	bool are_several = false;

	for (size_t i = 0; (meaning = catalogue_meaning_at(names->options.catalogue, i)); i++) {
		struct probe_error *error;

		pattern = asked_by(patterns, count, meaning);
		if (!pattern)
			continue;
		error = meaning_replace(
			what(index), names->texts[index], meaning, names->begin, NULL, ret);
		if (!error || error->code != PROBE_ERROR_USAGE) {
			probe_error_free(first);
			return error;
		}
		/* An error about any function says less than one of a described one. */
		if (first && strcmp(meaning->provider, SDT_FUNCTIONS) == 0) {
			probe_error_free(error);
			continue;
		}
		are_several |= first && strcmp(provider, meaning->provider) != 0;
		provider = meaning->provider;
		first = probe_error_first(first, about(error, pattern, meaning));
	}
	/* The error names no probe: the user may have meant the probes of another program. */
	if (are_several) {
		probe_error_free(first);
		return probe_error_new(PROBE_ERROR_USAGE,
			"%s '%s': no known probe of this name has all arguments that it names "
			"(`probectl list -v` shows them)",
			what(index), names->texts[index]);
	}
	*ret = first ? NULL : strdup(names->texts[index]);
	return *ret || first ? first : probe_error_no_memory();
}

/* Returns true if the patterns allow this probe to be a start event. */
static bool may_begin(const struct asked_names *names, const struct probe_pattern *const *patterns,
	size_t count, const struct probe_meaning *meaning)
{
	const struct probe_catalogue *catalogue = names->options.catalogue;
	enum probe_pairing pairing = names->options.gather.pairing;
	const struct probe_meaning *begin;
	size_t stem;

	for (size_t i = 0; i < count && pairing != PROBE_PAIRING_NAMES; i++) {
		size_t place = pairs_place(patterns, count, catalogue, i);

		if (place != PAIRS_GIVER && (pairing == PROBE_PAIRING_LISTED ? place % 2 : place))
			continue;
		if (asked_by(&patterns[i], 1, meaning))
			return true;
	}
	if (pairing != PROBE_PAIRING_NAMES || !asked_by(patterns, count, meaning))
		return false;
	if (meaning->end_count || sdt_kind_of(meaning->provider, meaning->name) == SDT_ENTRY ||
		pair_may_be(meaning->name, &stem) == PAIR_BEGIN)
		return true;
	/* A requested start event may take its arguments from this probe. */
	for (size_t i = 0; (begin = catalogue_meaning_at(catalogue, i)); i++)
		if (begin->takes && strcmp(begin->provider, meaning->provider) == 0 &&
			catalogue_name_matches(begin->takes, meaning->name) &&
			asked_by(patterns, count, begin))
			return true;
	return false;
}

/* Replaces only the names of the start event's arguments. */
static struct probe_error *replace_begin(const struct asked_names *names, size_t index,
	const struct probe_meaning *begin, char **ret)
{
	return meaning_replace(what(index), names->texts[index], NULL, begin, "arg0", ret);
}

/* Finds the first start event with all names that the texts use for it. */
static struct probe_error *find_begin(
	struct asked_names *names, const struct probe_pattern *const *patterns, size_t count)
{
	const struct probe_meaning *meaning;
	struct probe_error *first = NULL, *error = NULL;

	for (size_t i = 0; (meaning = catalogue_meaning_at(names->options.catalogue, i)); i++) {
		bool gives = false;

		if (!may_begin(names, patterns, count, meaning))
			continue;
		for (size_t k = 0; k < TEXTS && !error; k++) {
			AUTO_FREE char *replaced = NULL;

			if (names->texts[k])
				error = replace_begin(names, k, meaning, &replaced);
		}
		if (!error) {
			names->begin = meaning;
			probe_error_free(first);
			return NULL;
		}
		error = about(error, asked_by(patterns, count, meaning), meaning);
		for (size_t k = 0; k < count && meaning->takes; k++)
			gives |= pattern_may_name(patterns[k], meaning->provider, meaning->takes);
		/* The probe that gives the start event's arguments was not requested. */
		if (meaning->takes && !gives && error->code == PROBE_ERROR_USAGE) {
			struct probe_error *with = probe_error_new(error->code,
				"%s; name %s:%s as well, and it has that one's", error->message,
				meaning->provider, meaning->takes);

			probe_error_free(error);
			error = with;
		}
		first = probe_error_first(first, error);
		error = NULL;
	}
	return first;
}

/* Copies texts with names. In the options, each gets an example argument for each name. */
static struct probe_error *take_texts(
	struct asked_names *names, const struct probe_pattern *const *patterns, size_t count)
{
	struct probe_error *error = NULL;
	bool of_begin = false;

	for (size_t i = 0; i < TEXTS; i++) {
		const char *text = *text_of(&names->options, i);

		if (i >= KEYS + names->options.gather.key_count || !text ||
			!meaning_names_used(text))
			continue;
		names->texts[i] = strdup(text);
		if (!names->texts[i])
			return probe_error_no_memory();
		of_begin |= meaning_begin_used(text);
	}
	if (of_begin)
		error = find_begin(names, patterns, count);
	for (size_t i = 0; i < TEXTS && !error; i++) {
		if (!names->texts[i])
			continue;
		error = replace_any(names, i, patterns, count, &names->examples[i]);
		*text_of(&names->options, i) = names->examples[i];
	}
	return error;
}

static void named_free(struct named *named)
{
	asked_deinit(&named->asked);
	for (size_t i = 0; i < TEXTS; i++)
		free(named->replaced[i]);
	free(named);
}

static void asked_names_free(struct asked_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->count; i++)
		named_free(names->items[i]);
	for (size_t i = 0; i < TEXTS; i++) {
		free(names->texts[i]);
		free(names->examples[i]);
	}
	free(names->items);
	free(names);
}

struct probe_error *asked_init_named(struct asked *asked,
	const struct probe_session_options *options, const struct probe_pattern *const *patterns,
	size_t pattern_count)
{
	struct asked_names *names;
	struct probe_error *error;
	size_t named = 0;

	*asked = (struct asked){0};
	if (!options->catalogue || options->gather.key_count > PROBE_KEYS_MAX)
		return asked_init(asked, options);
	names = calloc(1, sizeof(*names));
	if (!names)
		return probe_error_no_memory();
	names->options = *options;
	error = take_texts(names, patterns, pattern_count) ?: asked_init(asked, &names->options);
	while (named < TEXTS && !names->texts[named])
		named++;
	if (error || named == TEXTS) {
		asked_names_free(names);
		return error;
	}
	/* Copy the other texts, too: they are parsed later, and the caller owns them. */
	for (size_t i = 0; i < TEXTS && !error; i++) {
		const char **text = text_of(&names->options, i);

		if (names->examples[i] || !*text || i >= KEYS + options->gather.key_count)
			continue;
		*text = names->examples[i] = strdup(*text);
		error = *text ? NULL : probe_error_no_memory();
	}
	asked->names = names;
	if (error)
		asked_deinit(asked);
	return error;
}

/* ---- One probe -------------------------------------------------------------------------- */

/* Returns true if bind_site() uses text `index` for this role. */
static bool is_used(const struct asked *asked, size_t index, enum pair_role role)
{
	switch (index) {
	case FILTER:
		return role != PAIR_BEGIN || !expr_is_of_pair(asked->filter);
	case VALUE:
		return role == PAIR_NONE;
	case MATCH:
		return role == PAIR_BEGIN || (role == PAIR_END && !asked->match_end);
	case MATCH_END:
		return role == PAIR_END;
	default:
		return role != PAIR_BEGIN;
	}
}

/*
 * Checks that names mean the same arguments as for other start events, because all keep the same.
 */
static struct probe_error *check_begin(
	const struct asked_names *names, const struct probe_meaning *meaning)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; names->begin && i < TEXTS && !error; i++) {
		AUTO_FREE char *its = NULL, *agreed = NULL;

		if (!names->texts[i])
			continue;
		error = replace_begin(names, i, meaning, &its)
				?: replace_begin(names, i, names->begin, &agreed);
		if (!error && strcmp(its, agreed) != 0)
			error = probe_error_new(PROBE_ERROR_USAGE,
				"%s '%s': the names are other arguments of %s:%s, which is a "
				"begin, "
				"too",
				what(i), names->texts[i], names->begin->provider,
				names->begin->name);
	}
	return error;
}

static struct probe_error *parse_again(const struct asked *asked, struct named *named)
{
	struct probe_session_options options = asked->names->options;
	struct probe_error *error = NULL;

	if (named->role == PAIR_BEGIN && !named->takes)
		error = check_begin(asked->names, named->meaning);
	for (size_t i = 0; i < TEXTS && !error; i++) {
		if (!asked->names->texts[i] || !is_used(asked, i, named->role))
			continue;
		error = meaning_replace(what(i), asked->names->texts[i], named->meaning,
			asked->names->begin, NULL, &named->replaced[i]);
		*text_of(&options, i) = named->replaced[i];
	}
	return error ?: asked_init(&named->asked, &options);
}

static struct probe_error *add_named(const struct asked *asked, struct pair_part part,
	const struct probe_meaning *meaning, const struct asked **ret)
{
	struct asked_names *names = asked->names;
	struct probe_error *error;
	struct named *named;

	if (!ARRAY_ROOM(names->items, names->count))
		return probe_error_no_memory();
	named = calloc(1, sizeof(*named));
	if (!named)
		return probe_error_no_memory();
	named->meaning = meaning;
	named->role = part.role;
	named->takes = part.takes;
	error = parse_again(asked, named);
	/* Each key, and the match of pairs, must be a string for all probes or for none. */
	for (size_t i = 0; i < asked->key_count && !error; i++)
		if (named->asked.key_string[i] != asked->key_string[i])
			error = probe_error_new(PROBE_ERROR_USAGE,
				"the key '%s' is a string for some of the probes, and a number for "
				"others",
				names->texts[KEYS + i]);
	if (!error && named->asked.match_string != asked->match_string)
		error = probe_error_new(PROBE_ERROR_USAGE,
			"the match '%s' is a string for some of the probes, and a number for "
			"others",
			names->texts[MATCH]);
	if (error) {
		named_free(named);
		return error;
	}
	names->items[names->count++] = named;
	*ret = &named->asked;
	return NULL;
}

struct probe_error *asked_for(const struct asked *asked, struct pair_part part,
	const struct select_probe *probe, size_t arg_count, const struct asked **ret)
{
	const struct asked_names *names = asked->names;
	const struct probe_meaning *meaning;

	*ret = asked;
	if (!names)
		return NULL;
	meaning = probe_catalogue_find(
		names->options.catalogue, probe->provider, probe->name, arg_count);
	for (size_t i = 0; i < names->count; i++) {
		if (names->items[i]->meaning != meaning || names->items[i]->role != part.role ||
			names->items[i]->takes != part.takes)
			continue;
		*ret = &names->items[i]->asked;
		return NULL;
	}
	return probe_error_prefix(
		add_named(asked, part, meaning, ret), "%s:%s", probe->provider, probe->name);
}

/* ---- Without names ---------------------------------------------------------------------- */

struct probe_error *asked_plain(const struct asked *asked, struct probe_session_options *options)
{
	const struct asked_names *names = asked->names;

	for (size_t i = 0; names && i < TEXTS; i++) {
		const char *plain = NULL;

		if (!names->texts[i])
			continue;
		for (size_t k = 0; k < names->count; k++) {
			const char *its = names->items[k]->replaced[i];

			if (its && plain && strcmp(its, plain) != 0)
				return probe_error_new(PROBE_ERROR_USAGE,
					"%s '%s': its names are '%s' for one of the probes and "
					"'%s' for another, and a session that is kept has one text "
					"for all; give each a session of its own, or use argN",
					what(i), names->texts[i], plain, its);
			plain = its ? its : plain;
		}
		*text_of(options, i) = plain ? plain : names->examples[i];
	}
	return NULL;
}

/* ==== Asked =================================================================================== */

/*
 * A session's expressions are parsed once and bound to each site (bind_site.c), whose arguments may
 * be in other places and of other types.
 *
 *   filter   applies to every hit; in pairs, to both events, because otherwise an event
 *            could find the wrong partner; or, if the filter needs a whole pair, to the
 *            pair at its end event
 *   value    for probes outside pairs; the value of a pair is its duration
 *   keys     for probes outside pairs, and for end events
 *   kept     for start events: the arguments that pair filters and keys of end events use
 *   match    for start and end events
 *   same     for start and end events: captures from the catalogue, not from the user
 */

enum { KEPT_BYTES_MAX = 32768 };

static struct probe_error *usage(const char *message)
{
	return probe_error_new(PROBE_ERROR_USAGE, "%s", message);
}

/* Checks which options go together. */
static struct probe_error *check_options(const struct probe_session_options *o)
{
	const struct probe_gather *g = &o->gather;
	bool pairs = g->pairing != PROBE_PAIRING_NONE;

	if (o->overwrite && o->kind != PROBE_SESSION_RECORD)
		return usage("only a session that records has rings to overwrite");
	if (o->switched && o->kind != PROBE_SESSION_RECORD)
		return usage("only a session that records has switches");
	if (o->until_full && (!o->switched || o->overwrite))
		return usage("only a session with a switch, whose rings are not overwritten, can "
			     "end when a ring is full");
	if (o->stack != PROBE_STACK_NONE && o->kind != PROBE_SESSION_RECORD &&
		!(o->stack == PROBE_STACK_FRAMES && o->kind == PROBE_SESSION_GATHER))
		return usage("stacks need a session that records, or, of return addresses, one "
			     "that gathers");
	if (o->spans &&
		(o->kind != PROBE_SESSION_RECORD || o->overwrite || o->switched || o->filter_value))
		return usage("spans are records without a switch or the value of a filter, in "
			     "rings that are not overwritten");
	if (o->filter_count && (o->kind != PROBE_SESSION_RECORD || o->spans || o->overwrite))
		return usage("only records that are no spans, in rings that are not overwritten, "
			     "have filters of some probes");
	if (o->spans && !pairs)
		return usage("spans are pairs: say which probes begin and which end");
	if (o->begin_stacks && (!pairs || o->spans || o->kind != PROBE_SESSION_RECORD))
		return usage(
			"only records of pairs, which are no spans, have the stacks of begins");
	if (pairs && (o->spans || o->begin_stacks || o->kind == PROBE_SESSION_GATHER) &&
		(o->sample_every > 1 || o->sample_rate))
		return usage("pairs cannot be sampled: ends would match the wrong begins");
	if (o->kind != PROBE_SESSION_GATHER)
		return NULL;
	if (g->key_count > PROBE_KEYS_MAX)
		return probe_error_new(
			PROBE_ERROR_USAGE, "a key has at most %d parts", PROBE_KEYS_MAX);
	if (o->stack != PROBE_STACK_NONE && (pairs || g->key_count))
		return usage("hits are counted by stack: there can be no other key, and no "
			     "pairs");
	if (pairs && g->value)
		return usage("the value of a pair is its time: it can have no other");
	if (!pairs && (g->match || g->match_end))
		return usage("only pairs can be matched");
	if (!pairs && !g->value && (g->sum || g->extremes || g->histogram))
		return usage("there is nothing to add up except hits: give a value");
	return NULL;
}

/* Parses an expression, if there is one. Only with `of_pair` may it need a whole pair. */
static struct probe_error *parse(
	const char *what, const char *text, bool of_pair, struct expr **ret)
{
	struct probe_error *error = text ? expr_parse(what, text, ret) : NULL;

	return !error && text && !of_pair && expr_is_of_pair(*ret) ? expr_no_pair(*ret) : error;
}

/* Parses the match of pairs: two numbers, or two strings. */
static struct probe_error *parse_match(struct asked *asked, const struct probe_gather *g)
{
	struct probe_error *error = parse("the match", g->match, false, &asked->match);
	size_t texts = 0, count = 0;
	struct capture string;

	error = error ?: parse("the match of the end", g->match_end, false, &asked->match_end);
	for (size_t i = 0; i < 2 && !error; i++) {
		const struct expr *its = i ? asked->match_end : asked->match;

		if (!its)
			continue;
		if (expr_word(its) != EXPR_NO_WORD || expr_is_norm(its))
			return usage("pairs are matched by a number or by str(argN): comm, ustack, "
				     "probe and norm() are for keys");
		texts += expr_is_string(its, &string);
		count++;
	}
	asked->match_string = texts > 0;
	if (!error && texts && texts != count)
		error = usage("a pair is matched by a text of its begin and a number of its end, "
			      "or the other way round: they are never the same");
	return error;
}

/* Adds a part; `bytes` is 0 for a number. */
static void add_part(struct asked_parts *parts, uint16_t bytes)
{
	parts->is_string[parts->count++] = bytes > 0;
	parts->string_count += bytes > 0;
	if (bytes > parts->string_bytes)
		parts->string_bytes = bytes;
}

static void add_stack(struct asked_parts *parts)
{
	for (int i = 0; i < BIND_STACK_KEYS; i++)
		add_part(parts, i == BIND_STACK_FRAMES ? 8 * ARCH_FRAMES_MAX : 0);
}

/* Finds a key's kind from its text. */
static struct probe_error *take_key(struct asked *asked, size_t i)
{
	const struct expr *key = asked->keys[i];
	struct capture string;
	bool is_string = expr_is_string(key, &string);

	asked->key_word[i] = expr_word(key);
	asked->key_symbol[i] = expr_is_symbol(key);
	asked->key_string[i] = is_string || asked->key_symbol[i];
	asked->of_pair |= expr_is_of_pair(key);
	switch (asked->key_word[i]) {
	case EXPR_NO_WORD:
		asked->parts.is_norm[asked->parts.count] = expr_is_norm(key);
		add_part(&asked->parts, is_string ? asked->string_bytes : 0);
		break;
	case EXPR_COMM:
		add_part(&asked->parts, ARCH_COMM_MAX);
		break;
	case EXPR_USTACK:
		if (asked->ustack)
			return usage("only one of the keys can be ustack");
		asked->ustack = true;
		add_stack(&asked->parts);
		break;
	case EXPR_PROBE:
		break;
	}
	return NULL;
}

static struct probe_error *parse_gather(struct asked *asked, const struct probe_gather *g)
{
	struct probe_error *error =
		parse("the value", g->value, false, &asked->value) ?: parse_match(asked, g);

	for (size_t i = 0; i < g->key_count && !error; i++) {
		error = parse(
			"the key", g->keys[i], g->pairing != PROBE_PAIRING_NONE, &asked->keys[i]);
		error = error ?: take_key(asked, i);
		asked->key_count++;
	}
	return error;
}

/* Decides where a start event's arguments are kept. */
static struct probe_error *ask_begins(struct asked *asked)
{
	uint32_t offset = sizeof(struct probe_begun);
	bool fits = !asked->filter || expr_ask_begin(asked->filter, asked->string_bytes,
					      asked->kept, &asked->kept_count);

	for (size_t i = 0; i < asked->key_count && fits; i++)
		fits = !asked->keys[i] || expr_ask_begin(asked->keys[i], asked->string_bytes,
						  asked->kept, &asked->kept_count);
	if (!fits)
		return probe_error_new(PROBE_ERROR_USAGE,
			"the filter and the keys ask for more than %d arguments of the begin",
			ARCH_KEPT_MAX);
	for (uint8_t i = 0; i < asked->kept_count; i++) {
		uint32_t bytes = asked->kept[i].bytes ? asked->kept[i].bytes : 8;

		asked->kept[i].offset = (uint16_t)offset;
		offset += 8 + ((bytes + 7) & ~7u);
	}
	asked->kept_bytes = (uint16_t)(offset - sizeof(struct probe_begun));
	if (offset > KEPT_BYTES_MAX)
		return probe_error_new(PROBE_ERROR_USAGE,
			"what is kept of a begin would take %u bytes: take shorter strings (-s)",
			offset);
	return NULL;
}

struct probe_error *asked_init(struct asked *asked, const struct probe_session_options *options)
{
	struct expr *const *const others[] = {
		&asked->filter, &asked->value, &asked->match, &asked->match_end};
	struct probe_error *error = check_options(options);
	bool pairs = options->gather.pairing != PROBE_PAIRING_NONE &&
		     (options->spans || options->kind == PROBE_SESSION_GATHER);

	*asked = (struct asked){.string_bytes = options->string_bytes ? options->string_bytes
								      : DATA_KEY_STRING_DEFAULT};
	error = error ?: parse("the filter", options->filter, pairs, &asked->filter);
	asked->of_pair = !error && asked->filter && expr_is_of_pair(asked->filter);
	if (!error && options->kind == PROBE_SESSION_GATHER)
		error = parse_gather(asked, &options->gather);
	if (!error && options->spans)
		error = parse_match(asked, &options->gather);
	/* Only keys use sym(), because stubs cannot look up names. */
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]) && !error; i++)
		if (*others[i] && expr_is_symbol(*others[i]))
			error = expr_no_symbol(*others[i]);
	/* A row for each call stack: the keys are return addresses and the site. */
	if (!error && options->stack != PROBE_STACK_NONE && options->kind == PROBE_SESSION_GATHER) {
		asked->stack = true;
		asked->key_count = BIND_STACK_KEYS;
		asked->key_string[BIND_STACK_FRAMES] = true;
		add_stack(&asked->parts);
	}
	error = error ?: ask_begins(asked);
	if (error)
		asked_deinit(asked);
	return error;
}

void asked_deinit(struct asked *asked)
{
	expr_free(asked->filter);
	expr_free(asked->value);
	expr_free(asked->match);
	expr_free(asked->match_end);
	for (size_t i = 0; i < PROBE_KEYS_MAX; i++)
		expr_free(asked->keys[i]);
	asked_names_free(asked->names);
	for (size_t i = 0; i < asked->rule_count; i++)
		expr_free(asked->rules[i].filter);
	free(asked->rules);
	*asked = (struct asked){0};
}

/* ---- Filters of some probes ------------------------------------------------------------- */

static const struct probe_filter_rule *find_rule(const struct probe_session_options *options,
	enum pair_role role, const struct select_probe *probe)
{
	static const enum probe_role roles[] = {[PAIR_NONE] = PROBE_ROLE_NONE,
		[PAIR_BEGIN] = PROBE_ROLE_BEGIN,
		[PAIR_END] = PROBE_ROLE_END};

	for (size_t i = options->filter_count; i-- > 0;) {
		const struct probe_filter_rule *rule = &options->filters[i];

		if (rule->role == roles[role] &&
			(!rule->pattern || probe_pattern_matches(rule->pattern, probe->module->path,
						   probe->provider, probe->name)))
			return rule->filter ? rule : NULL;
	}
	return NULL;
}

struct probe_error *asked_rule(struct asked *asked, const struct probe_session_options *options,
	struct pair_part part, const struct select_probe *probe, size_t arg_count,
	const struct expr **ret)
{
	static const char its[] = "the tracer's filter";
	const struct probe_filter_rule *rule = find_rule(options, part.role, probe);
	const struct probe_meaning *meaning = NULL;
	struct probe_error *error = NULL;
	AUTO_FREE char *plain = NULL;
	struct expr *filter = NULL;

	*ret = NULL;
	if (!rule)
		return NULL;
	if (options->catalogue && meaning_names_used(rule->filter))
		meaning = probe_catalogue_find(
			options->catalogue, probe->provider, probe->name, arg_count);
	for (size_t i = 0; i < asked->rule_count; i++) {
		if (asked->rules[i].rule != rule || asked->rules[i].meaning != meaning)
			continue;
		*ret = asked->rules[i].filter;
		return NULL;
	}
	if (meaning)
		error = meaning_replace(its, rule->filter, meaning, NULL, NULL, &plain);
	if (!error)
		error = parse(its, plain ? plain : rule->filter, false, &filter);
	if (!error && expr_is_symbol(filter))
		error = expr_no_symbol(filter);
	if (!error && !ARRAY_ROOM(asked->rules, asked->rule_count))
		error = probe_error_no_memory();
	if (error) {
		expr_free(filter);
		return probe_error_prefix(error, "%s:%s", probe->provider, probe->name);
	}
	asked->rules[asked->rule_count++] = (struct asked_rule){rule, meaning, filter};
	*ret = filter;
	return NULL;
}
