/* SPDX-License-Identifier: MIT */
/*
 * Binds a session's expressions (named.c) to a site. Keys come first. A string is captured once for
 * all expressions, at the greatest length: a table entry has room for the strings of its keys, and
 * a filter that needs more bytes gets its own capture.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/session/session.h"

enum { EXPRS_MAX = 3 + PROBE_KEYS_MAX };

void asked_note_begin(struct asked *asked, const struct record_layout_site *site)
{
	for (uint8_t i = 0; i < asked->kept_count; i++) {
		const struct capture *what = &asked->kept[i].what;
		const struct arch_step *last =
			what->step_count ? &what->steps[what->step_count - 1] : NULL;
		const struct arch_arg spec = operand_cast(&site->specs[what->arg], what->cast);

		if (last)
			asked->kept[i].is_unsigned = last->size == 8 && !last->is_signed;
		else
			asked->kept[i].is_unsigned |=
				what->arg < site->count && spec.size == 8 && !spec.is_signed;
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
	uint8_t count;

	if (!expr)
		return NULL;
	error = expr_bind(expr, b->layout, b->site, nodes, &count);
	if (error)
		return error; /* *ret stays empty after this error */
	*ret = (struct arch_expr){.nodes = nodes, .count = count};
	b->used += count;
	return NULL;
}

static bool is_signed(const struct arch_expr *expr)
{
	return expr->count && expr_is_signed(&expr->nodes[expr->count - 1]);
}

static struct probe_error *bind_string(struct binder *b, const char *what, const struct expr *expr,
	const struct capture *string, uint8_t *ret)
{
	const struct arch_arg *specs = b->site->specs;
	struct probe_error *error = expr_check_string(expr, b->site);
	int capture;

	if (error)
		return error;
	capture = record_layout_capture(b->layout, b->site, string, b->asked->string_bytes);
	if (capture < 0)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"%s: arg%u cannot be captured as a string: '%.*s'%s%.*s", what, string->arg,
			(int)specs[string->arg].spec_length, specs[string->arg].spec,
			string->has_length ? ", of as many bytes as " : "",
			string->has_length ? (int)specs[string->length].spec_length : 0,
			string->has_length ? specs[string->length].spec : "");
	*ret = (uint8_t)capture;
	return NULL;
}

/* Binds a captured return address without signature bits. For capture -1, binds the number 0. */
static struct arch_expr bind_caller(struct binder *b, int capture)
{
	struct arch_expr_node *nodes = b->bound->nodes + b->used;
	uint64_t signature = arch_signature(b->site->arch);
	uint8_t count = capture >= 0 && signature ? 3 : 1;

	nodes[0] = (struct arch_expr_node){.kind = ARCH_EXPR_CONST, .wide = true};
	if (capture >= 0)
		nodes[0] = (struct arch_expr_node){
			.kind = ARCH_EXPR_CAPTURE, .wide = true, .capture = (uint8_t)capture};
	if (count == 3) {
		nodes[1] = (struct arch_expr_node){
			.kind = ARCH_EXPR_CONST, .wide = true, .value = ~signature};
		nodes[2] = (struct arch_expr_node){
			.kind = ARCH_EXPR_AND, .wide = true, .left = 0, .right = 1};
	}
	b->used += count;
	return (struct arch_expr){nodes, count};
}

/* Binds the parts of a call stack, from index `part` on. */
static struct probe_error *bind_stack(struct binder *b, size_t part)
{
	int capture = record_layout_capture_stack(b->layout, b->site->arch, ARCH_STACK_FRAMES,
		8 * ARCH_FRAMES_MAX, b->site->saved.frame_at);
	struct arch_expr_node *nodes = b->bound->nodes + b->used;
	int caller = record_layout_capture_return(b->layout, b->site);

	if (capture < 0)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"call stacks cannot be taken on this machine (%s)", b->site->arch->name);
	b->bound->key_strings[part + BIND_STACK_FRAMES] = (uint8_t)capture;
	nodes[0] = (struct arch_expr_node){
		.kind = ARCH_EXPR_CONST, .wide = true, .value = b->site->pc};
	b->used++;
	b->bound->key_numbers[part + BIND_STACK_SITE] = (struct arch_expr){nodes, 1};
	b->bound->key_numbers[part + BIND_STACK_CALLER] = bind_caller(b, caller);
	return NULL;
}

static struct probe_error *mixed(const char *what)
{
	return probe_error_new(PROBE_ERROR_USAGE,
		"the %s is a floating-point number at some of its sites, and an integer at others",
		what);
}

/* Binds a number that may be a double: *double_ret or *whole_ret. */
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

/* Binds key `i`. *part_inout is its first part, and becomes the first part of the next key. */
static struct probe_error *bind_key(
	struct binder *b, struct bound_types *types, size_t i, size_t *part_inout)
{
	size_t part = (*part_inout)++;
	const struct expr *key = b->asked->keys[i];
	struct arch_expr *number = &b->bound->key_numbers[part];
	struct capture string;
	struct probe_error *error;
	int capture = -1;

	switch (b->asked->key_word[i]) {
	case EXPR_USTACK:
		*part_inout = part + BIND_STACK_KEYS;
		return bind_stack(b, part);
	case EXPR_PROBE:
		*part_inout = part;
		return NULL;
	case EXPR_COMM:
		capture = record_layout_capture_comm(b->layout);
		break;
	case EXPR_NO_WORD:
		if (!expr_is_string(key, &string)) {
			error = bind_number(
				b, key, number, &types->key_double[i], &types->key_whole[i]);
			types->key_signed[i] |= is_signed(number);
			return !error && types->key_double[i] && types->key_whole[i] ? mixed("key")
										     : error;
		}
		if (!string.of_begin)
			return bind_string(
				b, "the key", key, &string, &b->bound->key_strings[part]);
		capture = record_layout_capture_begun(
			b->layout, b->site, &string, b->asked->string_bytes);
		break;
	}
	if (capture < 0)
		return probe_error_new(PROBE_ERROR_USAGE,
			"the filter and the keys ask for more than %d arguments", ARCH_ARGS_MAX);
	b->bound->key_strings[part] = (uint8_t)capture;
	return NULL;
}

/* Binds the arguments that a start event keeps for its end event. */
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

/* Binds the captures that identify the pair: all of them, or none if one is impossible. */
static void bind_same(struct binder *b)
{
	const struct record_layout_site *site = b->site;

	for (uint8_t i = 0; i < site->same_count; i++) {
		const struct capture *same = &site->same[i];
		int capture = -1;

		if (same->arg < site->count && site->specs[same->arg].kind != ARCH_ARG_FP_REGISTER)
			capture = record_layout_capture(b->layout, site, same,
				same->is_string || same->has_length ? FLIGHT_IDENTITY_BYTES : 0);
		if (capture < 0) {
			b->bound->same_count = 0;
			return;
		}
		b->bound->same[b->bound->same_count++] = (uint8_t)capture;
	}
}

static struct probe_error *bind_filter(struct binder *b, const struct expr *rule)
{
	const struct expr *filter = b->asked->filter;
	struct arch_expr *ret = &b->bound->filter;
	struct arch_expr_node *nodes = b->bound->nodes + b->used;
	struct probe_error *error;

	if (!filter || !rule)
		return bind_expr(b, filter ? filter : rule, ret);
	error = expr_bind_both(
		filter, rule, b->layout, b->site, nodes, &ret->count, &b->bound->filter_own);
	if (error) {
		*ret = (struct arch_expr){0};
		return error;
	}
	ret->nodes = nodes;
	b->used += ret->count;
	return NULL;
}

static struct probe_error *bind_all(
	struct binder *b, struct pair_part part, const struct expr *rule, struct bound_types *types)
{
	const struct asked *asked = b->asked;
	struct bound *bound = b->bound;
	bool is_end = part.role == PAIR_END;
	const struct expr *match = is_end && asked->match_end ? asked->match_end : asked->match;
	struct probe_error *error = NULL;
	struct capture string;
	size_t key_part = 0;

	if (asked->stack)
		error = bind_stack(b, 0);
	else if (part.takes)
		/* The arguments that such a start event keeps are those of another probe. */
		for (uint8_t i = 0; i < asked->kept_count; i++)
			bound->kept[i] = (struct arch_kept){
				.offset = asked->kept[i].offset, .bytes = asked->kept[i].bytes};
	else if (part.role == PAIR_BEGIN)
		error = bind_kept(b);
	else
		for (size_t i = 0; i < asked->key_count && !error; i++)
			error = bind_key(b, types, i, &key_part);
	if (error || part.gives)
		return error; /* no pair begins at a probe that only gives arguments */
	if (part.compares)
		bind_same(b);
	bound->frame = b->site->frame;
	if (part.role != PAIR_NONE) {
		error = asked->match_string && expr_is_string(match, &string)
				? bind_string(b, "the match", match, &string, &bound->match_string)
				: bind_expr(b, match, &bound->match);
	} else if (asked->value) {
		/* All sites of a probe add to the same cells: either doubles or integers. */
		error = bind_number(
			b, asked->value, &bound->value, &types->value_double, &types->value_whole);
		types->value_signed |= is_signed(&bound->value);
		if (!error && types->value_double && types->value_whole)
			error = mixed("value");
	}
	if (error)
		return error;
	/* A filter on a whole pair is evaluated at the end event. */
	if (!asked->filter || !expr_is_of_pair(asked->filter))
		return bind_filter(b, rule);
	return is_end ? bind_expr(b, asked->filter, &bound->pair_filter) : NULL;
}

/* Copies only the nodes in use. Expressions point to the copies of their nodes. */
static struct bound *shrink(const struct bound *from, size_t count)
{
	struct bound *to = malloc(sizeof(*to) + count * sizeof(to->nodes[0]));
	struct arch_expr *exprs[4 + ARCH_KEYS_MAX];
	size_t used = 0;

	if (!to)
		return NULL;
	*to = *from;
	memcpy(to->nodes, from->nodes, count * sizeof(to->nodes[0]));
	exprs[used++] = &to->filter;
	exprs[used++] = &to->value;
	exprs[used++] = &to->match;
	exprs[used++] = &to->pair_filter;
	for (size_t i = 0; i < ARCH_KEYS_MAX; i++)
		exprs[used++] = &to->key_numbers[i];
	for (size_t i = 0; i < used; i++)
		if (exprs[i]->count)
			exprs[i]->nodes = to->nodes + (exprs[i]->nodes - from->nodes);
	return to;
}

struct probe_error *bind_site(const struct asked *asked, struct pair_part part,
	const struct select_probe *probe, const struct record_layout_site *site,
	const struct expr *rule, struct record_layout *layout, struct bound_types *types,
	struct bound **ret)
{
	AUTO_FREE struct bound *room =
		calloc(1, sizeof(*room) + EXPRS_MAX * ARCH_EXPR_NODES_MAX * sizeof(room->nodes[0]));
	struct binder binder = {.asked = asked, .site = site, .layout = layout, .bound = room};
	struct probe_error *error;

	if (!room)
		return probe_error_no_memory();
	error = bind_all(&binder, part, rule, types);
	if (error)
		return probe_error_prefix(error, "%s:%s", probe->provider, probe->name);
	*ret = shrink(room, binder.used);
	return *ret ? NULL : probe_error_no_memory();
}
