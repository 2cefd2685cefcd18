/* SPDX-License-Identifier: MIT */
/* The expressions of a session, and how they are bound to its sites. */
#ifndef LIBPROBE_SESSION_ASKED_H
#define LIBPROBE_SESSION_ASKED_H

#include "libprobe/query/expr.h"
#include "libprobe/query/pairs.h"

/*
 * The parts of a key that is a call stack, and the keys of a session with PROBE_STACK_FRAMES:
 * return addresses; the site's address; and the return address of the site's function if that
 * function has no frame, so that the first part lacks it, else 0.
 */
enum { BIND_STACK_FRAMES, BIND_STACK_SITE, BIND_STACK_CALLER, BIND_STACK_KEYS };

/*
 * What stubs have of the keys: a part for each, but of a call stack those above, and of the probe
 * none, since entries of the table say whose they are.
 */
struct asked_parts {
	size_t count;
	bool is_string[ARCH_KEYS_MAX];
	bool is_norm[ARCH_KEYS_MAX]; /* a string in its normal form, which the stub makes */
	uint8_t string_count;
	uint16_t string_bytes; /* of the longest string */
};

/* A session's expressions; NULL if there is none. */
struct asked {
	struct expr *filter, *value, *match, *match_end;
	struct expr *keys[PROBE_KEYS_MAX];
	size_t key_count;
	bool stack;  /* the keys are return addresses and a site instead of those above */
	bool ustack; /* one of the keys is a call stack */
	enum expr_word key_word[PROBE_KEYS_MAX];
	bool key_string[PROBE_KEYS_MAX]; /* whether its values are no numbers */
	bool key_symbol[PROBE_KEYS_MAX]; /* whether it is sym(argN): its rows are by name */
	struct asked_parts parts;
	uint16_t string_bytes; /* of each argument that is a string */
	bool match_string;     /* pairs are matched by a text */
	bool of_pair;	       /* the filter or a key asks for what only a pair has */
	/* What they ask of the begins of pairs, and the bytes that this takes in all. */
	struct record_layout_kept kept[ARCH_KEPT_MAX];
	uint8_t kept_count;
	uint16_t kept_bytes;
	struct asked_names *names; /* see named.h; NULL: there are none */
};

/*
 * Parses the expressions of a session's options, and checks that the options go together.
 * Errors: PROBE_ERROR_USAGE.
 */
PROBE_MUST_CHECK struct probe_error *asked_init(
	struct asked *asked, const struct probe_session_options *options);
void asked_deinit(struct asked *asked);

/* What is known of a probe's values; the same for all of its sites. */
struct bound_types {
	bool value_signed;
	bool value_double, value_whole; /* some site's value is a double; is none */
	bool key_signed[PROBE_KEYS_MAX];
	bool key_double[PROBE_KEYS_MAX], key_whole[PROBE_KEYS_MAX]; /* likewise */
};

/* The expressions as a site's stub uses them; `count` is 0 if there is none. */
struct bound {
	struct arch_expr filter, value, match;
	struct arch_expr pair_filter;		     /* of an end */
	struct arch_kept kept[ARCH_KEPT_MAX];	     /* of a begin: asked.kept_count of them */
	uint8_t same[ARCH_SAME_MAX], same_count;     /* captures that begins and ends have */
	struct arch_expr key_numbers[ARCH_KEYS_MAX]; /* by part */
	uint8_t key_strings[ARCH_KEYS_MAX];
	uint8_t match_string; /* the capture, if pairs are matched by a text */
	struct arch_expr_node nodes[];
};

/*
 * Notes the types of what a site of a begin keeps. To be called with all that are known before the
 * ends are bound: if one of them declares a number of 64 bits without a sign, it has none for ends.
 */
void asked_note_begin(struct asked *asked, const struct record_layout_site *site);

/*
 * Binds everything that a probe with this part needs to one of its sites, and adds the captures
 * for it after the recorded ones. *types is widened: if some sites have signed arguments, all
 * sites have signed values. The caller frees *ret, before `asked`. Errors: PROBE_ERROR_USAGE
 * and PROBE_ERROR_UNSUPPORTED, which name the probe; PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *bind_site(const struct asked *asked, struct pair_part part,
	const struct select_probe *probe, const struct record_layout_site *site,
	struct record_layout *layout, struct bound_types *types, struct bound **ret);

#endif
