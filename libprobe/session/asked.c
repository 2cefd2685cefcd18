/* SPDX-License-Identifier: MIT */
/*
 * A session's expressions are parsed once and bound to each site (bind_site.c), whose arguments
 * may be elsewhere and of other types.
 *
 *   filter   applies to every hit; of a pair, to both ends, since otherwise one
 *            would find the other's; or, if it names what only a pair has, to the
 *            pair, at its end
 *   value    of probes outside pairs; a pair's value is its time
 *   keys     of probes outside pairs, and of ends
 *   kept     of begins: the arguments that filters of pairs, and keys of ends, ask for
 *   match    of begins and ends
 *   same     of begins and ends, without having been asked for: what the catalogue says
 */
#include "libprobe/session/session.h"
#include "libprobe/registry/registry.h"

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

static struct probe_error *parse(const char *what, const char *text, struct expr **ret)
{
	return text ? expr_parse(what, text, ret) : NULL;
}

/* If nothing is known of a pair yet, or at all, expressions may not ask about it. */
static struct probe_error *parse_of_hit(const char *what, const char *text, struct expr **ret)
{
	struct probe_error *error = parse(what, text, ret);

	return !error && *ret && expr_is_of_pair(*ret) ? expr_no_pair(*ret) : error;
}

/* Begin and end are matched by two numbers, or by two arguments that are texts. */
static struct probe_error *take_match(struct asked *asked)
{
	const struct expr *const both[] = {asked->match, asked->match_end};
	struct capture string;
	size_t texts = 0, count = 0;

	for (size_t i = 0; i < 2; i++) {
		if (!both[i])
			continue;
		if (expr_word(both[i]) != EXPR_NO_WORD || expr_is_norm(both[i]))
			return usage("pairs are matched by a number or by str(argN): comm, ustack, "
				     "probe and norm() are for keys");
		texts += expr_is_string(both[i], &string);
		count++;
	}
	asked->match_string = texts > 0;
	return !texts || texts == count ? NULL
					: usage("a pair is matched by a text of its begin and a "
						"number of its end, or "
						"the other way round: they are never the same");
}

static struct probe_error *parse_match(struct asked *asked, const struct probe_gather *g)
{
	struct probe_error *error = parse_of_hit("the match", g->match, &asked->match);

	if (!error)
		error = parse_of_hit("the match of the end", g->match_end, &asked->match_end);
	return error ? error : take_match(asked);
}

/* `bytes` is 0 for a number. */
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

/* What a key is, from its text. */
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
	struct probe_error *error = parse_of_hit("the value", g->value, &asked->value);

	if (!error)
		error = parse_match(asked, g);
	for (size_t i = 0; i < g->key_count && !error; i++) {
		error = g->pairing == PROBE_PAIRING_NONE
				? parse_of_hit("the key", g->keys[i], &asked->keys[i])
				: parse("the key", g->keys[i], &asked->keys[i]);
		if (!error)
			error = take_key(asked, i);
		asked->key_count++;
	}
	return error;
}

/* One row per stack: its return addresses, and the site. */
static void ask_for_stacks(struct asked *asked)
{
	asked->stack = true;
	asked->key_count = BIND_STACK_KEYS;
	asked->key_string[BIND_STACK_FRAMES] = true;
	add_stack(&asked->parts);
}

/* The target knows no names. */
static struct probe_error *check_symbols(const struct asked *asked)
{
	const struct expr *const others[] = {
		asked->filter, asked->value, asked->match, asked->match_end};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (others[i] && expr_is_symbol(others[i]))
			return expr_no_symbol(others[i]);
	return NULL;
}

/* Decides where each argument of the begin is kept. */
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
	struct probe_error *error = check_options(options);
	bool pairs = options->gather.pairing != PROBE_PAIRING_NONE &&
		     (options->spans || options->kind == PROBE_SESSION_GATHER);

	*asked = (struct asked){.string_bytes = options->string_bytes ? options->string_bytes
								      : DATA_KEY_STRING_DEFAULT};
	if (!error)
		error = pairs ? parse("the filter", options->filter, &asked->filter)
			      : parse_of_hit("the filter", options->filter, &asked->filter);
	asked->of_pair = !error && asked->filter && expr_is_of_pair(asked->filter);
	if (!error && options->kind == PROBE_SESSION_GATHER)
		error = parse_gather(asked, &options->gather);
	if (!error && options->spans)
		error = parse_match(asked, &options->gather);
	if (!error)
		error = check_symbols(asked);
	if (!error && options->stack != PROBE_STACK_NONE && options->kind == PROBE_SESSION_GATHER)
		ask_for_stacks(asked);
	if (!error)
		error = ask_begins(asked);
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
	*asked = (struct asked){0};
}
