/* SPDX-License-Identifier: MIT */
/*
 * A session's expressions are parsed once and bound to each site, whose arguments may be
 * elsewhere and of other types.
 *
 *   filter   applies to every hit; of a pair, to both ends, since otherwise one
 *            would find the other's; or, if it names what only a pair has, to the
 *            pair, at its end
 *   value    of probes outside pairs; a pair's value is its time
 *   keys     of probes outside pairs, and of ends
 *   kept     of begins: the arguments that filters of pairs, and keys of ends, ask for
 *   match    of begins and ends
 *
 * Keys are bound first. A string is captured once for all its users, at the greatest length
 * that exists: an entry of the table has room for what keys capture, and a filter that needs
 * more bytes gets its own capture.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/expr/asked.h"
#include "libprobe/expr/named.h"
#include "libprobe/names/argument.h"
#include "libprobe/target/data.h"

/* ---- Parsing --------------------------------------------------------------------------- */

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
	if ((o->stack == PROBE_STACK_COPY && o->kind != PROBE_SESSION_RECORD) ||
		(o->stack == PROBE_STACK_FRAMES && o->kind != PROBE_SESSION_GATHER))
		return usage("copies of stacks need a session that records, return addresses one "
			     "that gathers");
	if (o->spans && (o->kind != PROBE_SESSION_RECORD || o->overwrite || o->switched ||
				o->stack != PROBE_STACK_NONE || o->filter_value))
		return usage("spans are records without a stack, a switch, or the value of a "
			     "filter, in rings that are not overwritten");
	if (o->spans && !pairs)
		return usage("spans are pairs: say which probes begin and which end");
	if (pairs && (o->spans || o->kind == PROBE_SESSION_GATHER) &&
		(o->sample_every > 1 || o->sample_rate))
		return usage("pairs cannot be sampled: ends would match the wrong begins");
	if (o->kind != PROBE_SESSION_GATHER)
		return NULL;
	if (g->key_count > PROBE_KEYS_MAX)
		return probe_error_new(
			PROBE_ERROR_USAGE, "a key has at most %d parts", PROBE_KEYS_MAX);
	if (o->stack == PROBE_STACK_FRAMES && (pairs || g->key_count))
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

static struct probe_error *parse_match(struct asked *asked, const struct probe_gather *g)
{
	struct probe_error *error = parse_of_hit("the match", g->match, &asked->match);

	return error ? error
		     : parse_of_hit("the match of the end", g->match_end, &asked->match_end);
}

static struct probe_error *parse_gather(struct asked *asked, const struct probe_gather *g)
{
	struct probe_error *error = parse_of_hit("the value", g->value, &asked->value);
	struct capture string;

	if (!error)
		error = parse_match(asked, g);
	for (size_t i = 0; i < g->key_count && !error; i++) {
		error = g->pairing == PROBE_PAIRING_NONE
				? parse_of_hit("the key", g->keys[i], &asked->keys[i])
				: parse("the key", g->keys[i], &asked->keys[i]);
		asked->key_string[i] = !error && expr_is_string(asked->keys[i], &string);
		asked->key_norm[i] = !error && expr_is_norm(asked->keys[i]);
		asked->string_count += asked->key_string[i];
		asked->of_pair |= !error && expr_is_of_pair(asked->keys[i]);
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
	asked->string_count = 1;
	asked->string_bytes = 8 * ARCH_FRAMES_MAX;
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
	if (!error && options->stack == PROBE_STACK_FRAMES)
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

/* ---- Binding --------------------------------------------------------------------------- */

enum { EXPRS_MAX = 3 + PROBE_KEYS_MAX };

void asked_note_begin(struct asked *asked, const struct record_layout_site *site)
{
	for (uint8_t i = 0; i < asked->kept_count; i++) {
		const struct capture *what = &asked->kept[i].what;
		const struct arch_step *last =
			what->step_count ? &what->steps[what->step_count - 1] : NULL;
		const struct arch_arg *spec = &site->specs[what->arg];

		if (last)
			asked->kept[i].is_unsigned = last->size == 8 && !last->is_signed;
		else
			asked->kept[i].is_unsigned |=
				what->arg < site->count && spec->size == 8 && !spec->is_signed;
	}
}

struct binder {
	const struct asked *asked;
	const struct record_layout_site *site;
	struct record_layout *layout;
	struct bound *bound; /* with room for the largest number of nodes */
	size_t used;
};

static struct probe_error *bind_expr(
	struct binder *b, const struct expr *expr, struct arch_expr *ret)
{
	struct arch_expr_node *nodes = b->bound->nodes + b->used;
	struct probe_error *error;

	if (!expr)
		return NULL;
	error = expr_bind(expr, b->layout, b->site, nodes, &ret->count);
	if (error)
		return error;
	ret->nodes = nodes;
	b->used += ret->count;
	return NULL;
}

static bool is_signed(const struct arch_expr *expr)
{
	return expr->count && expr_is_signed(&expr->nodes[expr->count - 1]);
}

static struct probe_error *bind_begun_string(
	struct binder *b, const struct capture *string, uint8_t *ret)
{
	int capture =
		record_layout_capture_begun(b->layout, b->site, string, b->asked->string_bytes);

	if (capture < 0)
		return probe_error_new(PROBE_ERROR_USAGE,
			"the filter and the keys ask for more than %d arguments", ARCH_ARGS_MAX);
	*ret = (uint8_t)capture;
	return NULL;
}

static struct probe_error *bind_string(struct binder *b, const struct capture *string, uint8_t *ret)
{
	const struct arch_arg *specs = b->site->specs;
	unsigned int missing = string->arg < b->site->count ? string->length : string->arg;
	char list[ARGUMENT_TEXT];
	int capture;

	if (string->arg >= b->site->count ||
		(string->has_length && string->length >= b->site->count)) {
		argument_list(specs, b->site->count, list);
		return probe_error_new(PROBE_ERROR_USAGE,
			"the key: there is no arg%u, the probe has %s", missing, list);
	}
	capture = record_layout_capture(b->layout, b->site, string, b->asked->string_bytes);
	if (capture < 0)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"the key: arg%u cannot be captured as a string: '%.*s'%s%.*s", string->arg,
			(int)specs[string->arg].spec_length, specs[string->arg].spec,
			string->has_length ? ", of as many bytes as " : "",
			string->has_length ? (int)specs[string->length].spec_length : 0,
			string->has_length ? specs[string->length].spec : "");
	*ret = (uint8_t)capture;
	return NULL;
}

static struct probe_error *bind_stack(struct binder *b)
{
	int capture = record_layout_capture_stack(
		b->layout, b->site->arch, ARCH_STACK_FRAMES, b->asked->string_bytes);
	struct arch_expr_node *nodes = b->bound->nodes + b->used;
	int caller = b->site->return_offset < 0 ? -1
						: record_layout_capture_word(b->layout,
							  b->site->arch, b->site->return_offset);

	if (capture < 0)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"call stacks cannot be taken on this machine (%s)", b->site->arch->name);
	b->bound->key_strings[BIND_STACK_FRAMES] = (uint8_t)capture;
	nodes[0] = (struct arch_expr_node){
		.kind = ARCH_EXPR_CONST, .wide = true, .value = b->site->pc};
	nodes[1] = (struct arch_expr_node){.kind = ARCH_EXPR_CONST, .wide = true};
	if (caller >= 0)
		nodes[1] = (struct arch_expr_node){
			.kind = ARCH_EXPR_CAPTURE, .wide = true, .capture = (uint8_t)caller};
	b->used += 2;
	b->bound->key_numbers[BIND_STACK_SITE] = (struct arch_expr){&nodes[0], 1};
	b->bound->key_numbers[BIND_STACK_CALLER] = (struct arch_expr){&nodes[1], 1};
	return NULL;
}

static struct probe_error *mixed(const char *what)
{
	return probe_error_new(PROBE_ERROR_USAGE,
		"the %s is a floating-point number at some of its sites, and an integer at others",
		what);
}

/* A number that may be a double: *double_ret or *whole_ret is set. */
static struct probe_error *bind_number(struct binder *b, const struct expr *expr,
	struct arch_expr *ret, bool *double_ret, bool *whole_ret)
{
	struct arch_expr_node *nodes = b->bound->nodes + b->used;
	struct probe_error *error;

	if (!expr_is_double(expr, b->site)) {
		*whole_ret = true;
		return bind_expr(b, expr, ret);
	}
	*double_ret = true;
	error = expr_bind_double(expr, b->layout, b->site, nodes, &ret->count);
	if (error)
		return error;
	ret->nodes = nodes;
	b->used += ret->count;
	return NULL;
}

static struct probe_error *bind_keys(struct binder *b, struct bound_types *types)
{
	struct probe_error *error = NULL;
	struct capture string;

	for (size_t i = 0; i < b->asked->key_count && !error; i++) {
		struct arch_expr *number = &b->bound->key_numbers[i];

		if (expr_is_string(b->asked->keys[i], &string)) {
			error = string.of_begin
					? bind_begun_string(b, &string, &b->bound->key_strings[i])
					: bind_string(b, &string, &b->bound->key_strings[i]);
			continue;
		}
		error = bind_number(
			b, b->asked->keys[i], number, &types->key_double[i], &types->key_whole[i]);
		types->key_signed[i] = types->key_signed[i] || is_signed(number);
		if (!error && types->key_double[i] && types->key_whole[i])
			error = mixed("key");
	}
	return error;
}

/* Cells hold doubles or whole numbers, and all sites of a probe add to the same ones. */
static struct probe_error *bind_value(struct binder *b, struct bound_types *types)
{
	const struct expr *expr = b->asked->value;
	struct arch_expr *ret = &b->bound->value;
	struct probe_error *error;

	if (!expr)
		return NULL;
	error = bind_number(b, expr, ret, &types->value_double, &types->value_whole);
	types->value_signed = types->value_signed || is_signed(ret);
	return !error && types->value_double && types->value_whole ? mixed("value") : error;
}

/* A filter of pairs is evaluated at the end only. */
static struct probe_error *bind_filter(struct binder *b, enum pair_role role)
{
	const struct expr *filter = b->asked->filter;

	if (!filter || !expr_is_of_pair(filter))
		return bind_expr(b, filter, &b->bound->filter);
	return role == PAIR_END ? bind_expr(b, filter, &b->bound->pair_filter) : NULL;
}

/* The captures of a begin that it keeps for its end. */
static struct probe_error *bind_kept(struct binder *b)
{
	const struct asked *asked = b->asked;
	struct probe_error *error = asked->filter ? expr_check_begin(asked->filter, b->site) : NULL;

	for (size_t i = 0; i < asked->key_count && !error; i++)
		if (asked->keys[i])
			error = expr_check_begin(asked->keys[i], b->site);
	for (uint8_t i = 0; i < asked->kept_count && !error; i++) {
		const struct record_layout_kept *kept = &asked->kept[i];
		int capture = record_layout_capture(b->layout, b->site, &kept->what, kept->bytes);

		if (capture < 0)
			return probe_error_new(PROBE_ERROR_UNSUPPORTED,
				"begin.arg%u cannot be captured: '%.*s'", kept->what.arg,
				(int)b->site->specs[kept->what.arg].spec_length,
				b->site->specs[kept->what.arg].spec);
		b->bound->kept[i] = (struct arch_kept){
			.capture = (uint8_t)capture, .offset = kept->offset, .bytes = kept->bytes};
	}
	return error;
}

static struct probe_error *bind_all(
	struct binder *b, enum pair_role role, struct bound_types *types)
{
	const struct asked *asked = b->asked;
	struct probe_error *error = NULL;

	if (asked->stack)
		error = bind_stack(b);
	else if (role == PAIR_BEGIN)
		error = bind_kept(b);
	else
		error = bind_keys(b, types);
	if (!error && role == PAIR_NONE)
		error = bind_value(b, types);
	if (!error && role != PAIR_NONE)
		error = bind_expr(b,
			role == PAIR_END && asked->match_end ? asked->match_end : asked->match,
			&b->bound->match);
	return error ? error : bind_filter(b, role);
}

/* Adjusts an expression whose nodes were copied. */
static void move_nodes(
	struct arch_expr *expr, const struct arch_expr_node *from, const struct arch_expr_node *to)
{
	if (expr->count)
		expr->nodes = to + (expr->nodes - from);
}

/* A copy with only the nodes in use. */
static struct bound *shrink(const struct bound *from, size_t count)
{
	struct bound *to = malloc(sizeof(*to) + count * sizeof(to->nodes[0]));

	if (!to)
		return NULL;
	*to = *from;
	memcpy(to->nodes, from->nodes, count * sizeof(to->nodes[0]));
	move_nodes(&to->filter, from->nodes, to->nodes);
	move_nodes(&to->value, from->nodes, to->nodes);
	move_nodes(&to->match, from->nodes, to->nodes);
	move_nodes(&to->pair_filter, from->nodes, to->nodes);
	for (size_t i = 0; i < PROBE_KEYS_MAX; i++)
		move_nodes(&to->key_numbers[i], from->nodes, to->nodes);
	return to;
}

struct probe_error *bind_site(const struct asked *asked, enum pair_role role,
	const struct select_probe *probe, const struct record_layout_site *site,
	struct record_layout *layout, struct bound_types *types, struct bound **ret)
{
	struct bound *room =
		calloc(1, sizeof(*room) + EXPRS_MAX * ARCH_EXPR_NODES_MAX * sizeof(room->nodes[0]));
	struct binder binder = {.asked = asked, .site = site, .layout = layout, .bound = room};
	struct probe_error *error;

	if (!room)
		return probe_error_no_memory();
	error = bind_all(&binder, role, types);
	if (!error) {
		*ret = shrink(room, binder.used);
		if (!*ret)
			error = probe_error_no_memory();
	}
	free(room);
	return probe_error_prefix(error, "%s:%s", probe->provider, probe->name);
}
