/* SPDX-License-Identifier: MIT */
/* Turns a session's options into a description of each site's stub. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/session/session.h"

/* ==== Captures ================================================================================ */

/*
 * Decides what a site's records hold (site->layout): the pattern's list, what the catalogue knows,
 * or all. Notes which arguments the probe's hits show; without names if sites disagree about their
 * meaning. Errors: as pattern_captures().
 */
static struct probe_error *session_choose_captures(struct probe_session *s,
	const struct select_probe *probe, const struct record_layout_site *args,
	struct session_site *site)
{
	const struct probe_pattern *pattern = s->patterns[probe->pattern];
	const struct probe_meaning *meaning = probe_catalogue_find(
		s->options.catalogue, probe->provider, probe->name, args->count);
	const struct pair_part *part = &s->known[site->probe].part;
	struct probe_session_probe *shown = &s->probes[site->probe];
	struct capture captures[CAPTURES_MAX], *wanted = captures;
	bool is_first = site == s->sites || site[-1].probe != site->probe;
	/* In a pair of one name, the list is about the entry; the exit shows what is returned. */
	bool has_list = pattern_has_captures(pattern) &&
			!(probe->kind == SDT_EXIT && pattern_wants(pattern, false));
	struct probe_error *error = NULL;
	size_t count = 0, room = s->options.spans ? RING_RECORD_MAX / 2 : RING_RECORD_MAX;

	if (part->takes && pattern_is_exact(pattern) && has_list)
		return probe_error_new(PROBE_ERROR_USAGE,
			"%s:%s takes the arguments of another probe here: give that one the list, "
			"not '%s'",
			probe->provider, probe->name, probe_pattern_text(pattern));
	if (part->takes)
		count = 0; /* its hits show what the other probe's do */
	else if (has_list)
		error = pattern_captures(
			pattern, probe->provider, probe->name, args->count, true, captures, &count);
	else if (probe->kind == SDT_ENTRY || probe->kind == SDT_EXIT)
		count = meaning_captures(meaning, meaning->arg_count, captures);
	else if (meaning && s->options.described)
		count = meaning_captures(meaning, args->count, captures);
	else if (meaning && s->options.texts && !s->options.guess_strings)
		count = meaning_captures_all(meaning, args->count, captures);
	else
		wanted = NULL;
	if (error)
		return error;
	record_layout_init(&site->layout, args, wanted, count, &s->options);
	/* The room for kept start events is fixed when the session starts. */
	if (s->id && s->options.spans && part->role == PAIR_BEGIN && s->pairs.keep_bytes < room)
		room = s->pairs.keep_bytes;
	/* Without enough room, a record goes without strings that only the catalogue asks for. */
	if (wanted && !has_list &&
		record_layout_bytes(&site->layout) + sizeof(struct probe_begun) > room) {
		wanted = NULL;
		record_layout_init(&site->layout, args, NULL, 0, &s->options);
	}
	shown->meaning = is_first || shown->meaning == meaning ? meaning : NULL;
	for (size_t i = 0; i < PROBE_ARGS_MAX; i++)
		shown->args[i] =
			(unsigned char)(wanted && i < count ? meaning_shown(meaning, &wanted[i])
							    : i);
	return NULL;
}

/* ==== Stubs =================================================================================== */

enum { PAIRS_MAX = 1 << 20 };

/* 2^64 divided by the golden ratio: multiples are far from each other. */
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* ---- Pairs ------------------------------------------------------------------------------ */

static const char no_partner[] =
	"by their names, no other probe of its provider makes a pair with it";

/* Reports and drops probes without a partner. */
static struct probe_error *drop_single(
	struct selection *selection, struct pair_part *parts, struct probe_report *report)
{
	struct probe_error *error = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < selection->probe_count && !error; i++) {
		struct select_site *site = &selection->sites[selection->probes[i].first_site];

		selection->probes[i].unwanted = parts[i].role == PAIR_NONE;
		if (!selection->probes[i].unwanted) {
			parts[kept++] = parts[i];
			continue;
		}
		select_refuse(site, no_partner);
		error = report_refusal(report, &selection->probes[i], site);
	}
	if (!error)
		selection_drop_unwanted(selection);
	return error;
}

/* Notes pairs that are probably reversed: users seldom want the time between two calls. */
static struct probe_error *note_reversed(
	const struct selection *s, const struct pair_part *parts, struct probe_report *report)
{
	struct probe_error *error = NULL;

	for (size_t b = 0; b < s->probe_count && !error; b++)
		for (size_t e = 0; e < s->probe_count && !error; e++) {
			const struct select_probe *begin = &s->probes[b], *end = &s->probes[e];

			if (parts[b].role == PAIR_BEGIN && parts[e].role == PAIR_END &&
				parts[b].pair == parts[e].pair &&
				pair_looks_reversed(begin->name, end->name))
				error = report_note(report,
					"by their names, %s:%s ends what %s:%s begins: the time "
					"from an end to the next begin is measured",
					begin->provider, begin->name, end->provider, end->name);
		}
	return error;
}

/*
 * Finds a selection's pairs; *ret has an element for each remaining probe. Gathering, spans and
 * start events with stacks drop those without a partner; others wait for a later library.
 */
static struct probe_error *find_pairs(struct probe_session *s, struct selection *selection,
	struct probe_report *report, struct pair_part **ret)
{
	enum probe_pairing pairing = s->options.gather.pairing;
	bool matches = session_has_pairs(s) || s->options.begin_stacks;
	struct pair_part *parts = calloc(selection->probe_count + 1, sizeof(*parts));
	struct probe_error *error;

	if (!parts)
		return probe_error_no_memory();
	*ret = parts;
	error = pairs_assign(
		selection, s->patterns, pairing, s->options.catalogue, parts, &s->pairs.count);
	if (error && error->code == PROBE_ERROR_NOT_FOUND &&
		(!matches || s->options.follow_libraries)) {
		probe_error_free(error);
		error = NULL;
	}
	/* With --match, a thread may have several open pairs: no start event can take arguments. */
	for (size_t i = 0; i < selection->probe_count && !error && s->options.gather.match; i++) {
		if (parts[i].gives)
			error = probe_error_new(PROBE_ERROR_USAGE,
				"%s:%s gives arguments to a begin of the same thread: that is not "
				"possible if begins are matched by an expression",
				selection->probes[i].provider, selection->probes[i].name);
		parts[i].single = parts[i].compares = false;
	}
	if (error || !matches)
		return error;
	if (pairing != PROBE_PAIRING_NAMES)
		return note_reversed(selection, parts, report);
	return drop_single(selection, parts, report);
}

/* Notes that calls of a function are missing because its callers have copies of it. */
static struct probe_error *note_inlined(const struct probe_session *s,
	const struct selection *selection, struct probe_report *report)
{
	const struct probe_meaning *first = NULL, *last = NULL;
	size_t others = 0;

	for (size_t i = 0; i < selection->probe_count; i++) {
		const struct select_probe *probe = &selection->probes[i];
		AUTO_FREE char *function =
			strndup(probe->name, sdt_function_length(probe->name, strlen(probe->name)));
		const struct probe_meaning *meaning =
			function ? probe_catalogue_find(s->options.catalogue, probe->provider,
					   function, SIZE_MAX)
				 : NULL;

		/* Entries and exits of a function stand beside each other. */
		if (!meaning || !meaning->inlined || meaning == last)
			continue;
		others += first != NULL;
		first = first ? first : meaning;
		last = meaning;
	}
	if (!first)
		return NULL;
	return others ? report_note(report, "%s:%s: %s, nor those of %zu other%s", first->provider,
				first->name, first->inlined, others,
				others > 1 ? " functions" : " function")
		      : report_note(
				report, "%s:%s: %s", first->provider, first->name, first->inlined);
}

/* ---- Sites ------------------------------------------------------------------------------ */

/*
 * Makes room for records of `bytes`. The record of an end event contains that of its start event,
 * and the room for these cannot grow once the session has started.
 */
static struct probe_error *size_record(struct probe_session *s, enum pair_role role, size_t bytes)
{
	size_t kept = bytes + sizeof(struct probe_begun) + s->asked.kept_bytes;

	if (!s->options.spans || role != PAIR_BEGIN) {
		if (bytes > s->record_max)
			s->record_max = bytes;
	} else if (kept > s->pairs.keep_bytes) {
		if (s->id)
			return probe_error_new(PROBE_ERROR_USAGE,
				"what is kept of a begin could take %zu bytes, and there is room "
				"for %zu: capture fewer strings, or use a smaller -s",
				kept, s->pairs.keep_bytes);
		s->pairs.keep_bytes = kept;
	}
	if (session_record_max(s) <= RING_RECORD_MAX)
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"a record could take %zu bytes: capture fewer strings, or use a smaller -s",
		session_record_max(s));
}

static struct arch_arg frame_of(const struct arch *arch, const struct sdt_note *note)
{
	struct arch_arg specs[ARCH_ARGS_MAX];

	return note->frame && arch->parse_args(note->frame, specs) == 1 ? specs[0]
									: (struct arch_arg){0};
}

static struct probe_error *prepare_site(struct probe_session *s, const struct arch *arch,
	const struct select_probe *probe, const struct select_site *selected,
	struct session_site *site)
{
	struct session_probe *part = &s->known[site->probe];
	bool has_stack = !s->options.spans || part->part.role != PAIR_BEGIN;
	const struct probe_session *leader = s->group.leader ? s->group.leader : s;
	const struct probe_session *recorder = leader->group.recorder ? leader->group.recorder : s;
	/* The sites have the same indices. */
	struct record_layout *layout = &recorder->sites[site->number].layout;
	const struct expr *rule = NULL;
	const struct asked *asked;
	struct record_layout_site args;
	struct probe_error *error = NULL;

	record_layout_site_init(&args, arch, probe->module, selected->note->args);
	args.frame = frame_of(arch, selected->note);
	args.kept = s->asked.kept;
	args.kept_count = s->asked.kept_count;
	args.same_count = (uint8_t)meaning_same(part->part.same,
		probe_catalogue_find(
			s->options.catalogue, probe->provider, probe->name, args.count),
		args.same);
	/* A span has the stack of its end event. */
	if (s->options.begin_stacks)
		has_stack = part->part.role == PAIR_BEGIN;
	args.stack = has_stack ? s->options.stack : PROBE_STACK_NONE;
	args.pc = selected->pc;
	args.saved = session_stack_saved(s, selected->pc + selected->note->keep);
	if (site->exit && leader->options.gather.match)
		error = probe_error_new(PROBE_ERROR_USAGE,
			"%s:%s: it returns in another function, by a tail call, which cannot be "
			"noticed if begins are matched by an expression",
			probe->provider, probe->name);
	if (!error && s->options.kind == PROBE_SESSION_RECORD)
		error = session_choose_captures(s, probe, &args, site);
	error = error
		?: asked_for(&s->asked, part->part, probe, args.count, &asked)
		?: asked_rule(&s->asked, &s->options, part->part, probe, args.count, &rule)
		?: bind_site(
			asked, part->part, probe, &args, rule, layout, &part->types, &site->bound);
	if (error || s->options.kind != PROBE_SESSION_RECORD)
		return error;
	if (s->options.filter_value)
		record_layout_record_all(&site->layout, arch);
	return size_record(s, part->part.role,
		ring_padded(record_layout_bytes(&site->layout),
			s->options.overwrite ? RING_BACK_BYTES : RING_ALIGN));
}

/* Adds a probe with its role, and its sites. */
static struct probe_error *add_probe(struct probe_session *s, const struct arch *arch,
	const struct selection *selection, const struct select_probe *probe, struct pair_part part)
{
	struct probe_session_probe shown = {.provider = target_string(s->target, probe->provider),
		.name = target_string(s->target, probe->name),
		.path = target_string(s->target, probe->module->path),
		.role = part.role == PAIR_BEGIN ? PROBE_ROLE_BEGIN
			: part.role == PAIR_END ? PROBE_ROLE_END
						: PROBE_ROLE_NONE,
		.pair = part.pair};
	struct probe_error *error = NULL;

	if (!shown.provider || !shown.name || !shown.path ||
		!ARRAY_ROOM(s->probes, s->probe_count) || !ARRAY_ROOM(s->known, s->probe_count))
		return probe_error_no_memory();
	s->probes[s->probe_count] = shown;
	s->known[s->probe_count++] = (struct session_probe){.part = part, .key = probe->key};
	for (size_t i = 0; i < probe->site_count && !error; i++) {
		const struct select_site *selected = &selection->sites[probe->first_site + i];
		struct session_site *site;

		if (!ARRAY_ROOM(s->sites, s->site_count))
			return probe_error_no_memory();
		site = &s->sites[s->site_count];
		*site = (struct session_site){.pc = selected->pc,
			.keep = selected->note->keep,
			.probe = s->probe_count - 1,
			.number = (uint32_t)s->site_count,
			.exit = selected->note->exit,
			.args = target_string(s->target, selected->note->args)};
		if (!site->args)
			return probe_error_no_memory();
		s->site_count++;
		error = prepare_site(s, arch, probe, selected, site);
	}
	return error;
}

/*
 * Adds probe `i` of a selection to a session and its members. The session that records comes first:
 * its captures are the first ones of each layout.
 */
static struct probe_error *add_to_group(struct probe_session *s, const struct arch *arch,
	const struct selection *selection, size_t i, struct pair_part *const *parts)
{
	const struct select_probe *probe = &selection->probes[i];
	const struct probe_session *first = s->group.recorder ? s->group.recorder : s;
	struct probe_error *error = NULL;

	for (int others = 0; others < 2; others++)
		for (size_t m = 0; m <= s->group.member_count && !error; m++) {
			struct probe_session *its = m ? s->group.members[m - 1] : s;

			if ((its != first) == others)
				error = add_probe(its, arch, selection, probe, parts[m][i]);
		}
	return error;
}

/* Notes the types of kept arguments before any end event is bound. */
static void note_begins(struct probe_session *s, const struct arch *arch,
	const struct selection *selection, const struct pair_part *parts)
{
	for (size_t i = 0; i < selection->probe_count && s->asked.kept_count; i++) {
		const struct select_probe *probe = &selection->probes[i];

		if (parts[i].role != PAIR_BEGIN || parts[i].takes)
			continue;
		for (size_t k = 0; k < probe->site_count; k++) {
			struct record_layout_site site;

			record_layout_site_init(&site, arch, probe->module,
				selection->sites[probe->first_site + k].note->args);
			asked_note_begin(&s->asked, &site);
		}
	}
}

/*
 * Adds a selection's probes and sites, with their roles. With a report, a later library's probe
 * for which an expression makes no sense is refused, and others are added.
 */
static struct probe_error *add_all(struct probe_session *s, const struct arch *arch,
	struct selection *selection, struct pair_part *const *parts, struct probe_report *report)
{
	struct probe_error *error = NULL;

	for (size_t m = 0; m <= s->group.member_count && !s->site_count; m++)
		note_begins(m ? s->group.members[m - 1] : s, arch, selection, parts[m]);
	for (size_t i = 0; i < selection->probe_count && !error; i++) {
		size_t probes = s->probe_count, sites = s->site_count, most = s->record_max;
		struct select_probe *probe = &selection->probes[i];

		error = add_to_group(s, arch, selection, i, parts);
		if (!error || !s->id || !report || error->code != PROBE_ERROR_USAGE)
			continue;
		session_unprepare(s, probes, sites);
		s->record_max = most;
		error = report_drop(selection, probe, error, report);
	}
	/* Start events that take another probe's arguments show them as that does. */
	for (size_t i = 0; i < s->probe_count; i++)
		for (size_t k = 0; s->known[i].part.takes && k < s->probe_count; k++) {
			if (!s->known[k].part.gives ||
				s->known[k].part.pair != s->known[i].part.pair)
				continue;
			s->probes[i].meaning = s->probes[k].meaning;
			memcpy(s->probes[i].args, s->probes[k].args, sizeof(s->probes[i].args));
		}
	if (!error)
		selection_drop_unwanted(selection);
	return error;
}

struct probe_error *session_prepare(struct probe_session *session, const struct change *change,
	struct selection *selection, struct probe_report *report)
{
	struct pair_part *parts[ARCH_ACTIONS_MAX] = {NULL};
	struct probe_error *error = NULL;

	for (size_t m = 0; m <= session->group.member_count && !error; m++) {
		struct probe_session *its = m ? session->group.members[m - 1] : session;

		error = find_pairs(its, selection, report, &parts[m]);
		/* Make room for what spans of libraries that are opened later keep. */
		if (!its->id && its->options.spans && its->options.follow_libraries)
			its->pairs.keep_bytes = DATA_KEEP_DEFAULT + its->asked.kept_bytes;
	}
	error = error ?: add_all(session, change->arch, selection, parts, report);
	if (!error && report)
		error = note_inlined(session, selection, report);
	for (size_t m = 0; m < ARCH_ACTIONS_MAX; m++)
		free(parts[m]);
	return error;
}

enum { PART_ROLE_BITS = 2, PART_BITS = 28 };

uint32_t session_part_word(const struct pair_part *part)
{
	return part->pair << PART_ROLE_BITS | part->role | (uint32_t)part->single << PART_BITS |
	       (uint32_t)part->takes << (PART_BITS + 1) | (uint32_t)part->gives << (PART_BITS + 2) |
	       (uint32_t)part->compares << (PART_BITS + 3);
}

/* Decodes a part of a pair, maybe from the target: impossible ones become PAIR_NONE. */
static struct pair_part part_of(uint32_t word)
{
	struct pair_part part = {.role = word & ((1u << PART_ROLE_BITS) - 1),
		.pair = (word & ((1u << PART_BITS) - 1)) >> PART_ROLE_BITS,
		.single = word >> PART_BITS & 1,
		.takes = word >> (PART_BITS + 1) & 1,
		.gives = word >> (PART_BITS + 2) & 1,
		.compares = word >> (PART_BITS + 3) & 1};

	if (part.role > PAIR_END || part.pair >= PAIRS_MAX)
		part = (struct pair_part){.role = PAIR_NONE};
	return part;
}

struct probe_error *session_resume(struct probe_session *session, const struct arch *arch,
	struct selection *selection, const struct registry *registry)
{
	AUTO_FREE struct pair_part *parts = calloc(selection->probe_count + 1, sizeof(*parts));
	struct probe_error *error;

	if (!parts)
		return probe_error_no_memory();
	for (size_t i = 0; i < selection->probe_count; i++) {
		parts[i] = part_of(
			registry_probe(registry, selection->probes[i].key, session->id)->part);
		if (parts[i].role != PAIR_NONE && parts[i].pair >= session->pairs.count)
			session->pairs.count = parts[i].pair + 1;
	}
	error = add_all(session, arch, selection, &parts, NULL);
	for (size_t i = 0; i < session->site_count && !error; i++) {
		struct session_site *site = &session->sites[i];
		size_t count;
		const struct reg_stub *stubs = registry_stubs(registry, site->pc, &count);

		site->number = UINT32_MAX; /* unused: the site has no stub */
		for (size_t k = count; k-- > 0;)
			if (stubs[k].session == session->id &&
				stubs[k].key == session->known[site->probe].key)
				site->number = stubs[k].site;
	}
	return error;
}

void session_unprepare(struct probe_session *session, size_t probes, size_t sites)
{
	session->probe_count = probes;
	while (session->site_count > sites)
		free(session->sites[--session->site_count].bound);
	for (size_t m = 0; m < session->group.member_count; m++)
		session_unprepare(session->group.members[m], probes, sites);
}

/* ---- Memory ----------------------------------------------------------------------------- */

struct data_needs session_needs(const struct probe_session *session)
{
	const struct probe_session_options *o = &session->options;
	const struct probe_gather *g = &o->gather;
	struct data_needs needs = {0};
	bool marks = false; /* does a site mark tail calls? */
	long threads;

	if (o->kind == PROBE_SESSION_RECORD)
		needs = (struct data_needs){.ring_bytes = o->ring_bytes, .overwrite = o->overwrite};
	else if (o->kind == PROBE_SESSION_GATHER)
		needs = (struct data_needs){.cells = true,
			.buckets = g->histogram,
			.key_count = (uint8_t)session->asked.parts.count,
			.string_count = session->asked.parts.string_count,
			.string_bytes = session->asked.parts.string_bytes,
			.keys_max = g->keys_max ? g->keys_max : PROBE_KEYS_DEFAULT};
	for (size_t i = 0; i < session->request.pattern_count; i++)
		marks |= pattern_is_function(session->patterns[i]) &&
			 pattern_wants(session->patterns[i], true);
	if (!session_has_pairs(session) && !marks)
		return needs;
	/* If pairs are found by name, later libraries may add some. */
	needs.pairs =
		session->pairs.count || g->pairing == PROBE_PAIRING_NONE ? session->pairs.count : 1;
	needs.pairs += marks;
	needs.by_key = g->match != NULL;
	if (o->follow_children || (session->pairs.keep_bytes && g->match))
		needs.flights_min = DATA_FLIGHTS_FORKS;
	threads = procfs_status_number(session->target->pid, "Threads:");
	needs.threads = threads > 0 ? (size_t)threads : 1;
	needs.keep_bytes = (session->pairs.keep_bytes + 7) & ~(size_t)7;
	needs.text_bytes = session->asked.match_string ? session->asked.string_bytes : 0;
	return needs;
}

/* ---- Stubs ------------------------------------------------------------------------------ */

static const struct arch_expr *if_any(const struct arch_expr *expr)
{
	return expr->count ? expr : NULL;
}

static struct arch_flights flights_of(const struct reg_session *reg)
{
	return (struct arch_flights){.table = reg->flights,
		.entries = reg->flight_entries,
		.depth = reg->flight_depth,
		.keep = reg->flight_keep,
		.text = reg->flight_text,
		.process = reg->process,
		.processes = reg->process ? reg->data + offsetof(struct data_header, processes) : 0,
		.identities = reg->flight_identities};
}

static void describe_flights(const struct probe_session *s, const struct reg_session *reg,
	const struct session_probe *part, const struct bound *bound, struct arch_action *action)
{
	struct arch_flights *flights = &action->flights;

	if (part->part.role == PAIR_NONE)
		return;
	*flights = flights_of(reg);
	flights->pair = part->part.pair;
	flights->match = if_any(&bound->match);
	flights->string = bound->match_string;
	flights->record = s->options.spans ? sizeof(struct probe_begun) + s->asked.kept_bytes : 0;
	flights->scale = s->tick_ns32;
	flights->min_ns = s->options.span_min_ns;
	flights->filter = if_any(&bound->pair_filter);
	flights->single = part->part.single;
	flights->takes = part->part.takes;
	flights->gives = part->part.gives;
	flights->compares = part->part.compares;
	flights->same_count = part->part.compares ? bound->same_count : 0;
	flights->frame = bound->frame;
	memcpy(flights->same, bound->same, sizeof(bound->same));
	if (part->part.role != PAIR_BEGIN)
		return;
	flights->kept_count = s->asked.kept_count;
	memcpy(flights->kept, bound->kept, sizeof(bound->kept));
}

/*
 * Describes what a site of a function's exits does with the mark of a tail call. All functions
 * share the pair PAIRS_MAX, so a frame's identity has a part for the function.
 */
static void describe_mark(const struct reg_session *reg, uint32_t slot,
	const struct session_site *site, struct arch_action *action)
{
	static const enum arch_action_kind kinds[] = {[SDT_TAIL_CALL] = ARCH_ACTION_BEGIN,
		[SDT_TAIL_ENTRY] = ARCH_ACTION_TAIL_ENTRY,
		[SDT_TAIL_JUMP] = ARCH_ACTION_TAIL_JUMP,
		[SDT_TAIL_RETURN] = ARCH_ACTION_TAIL_RETURN};

	action->kind = kinds[site->exit];
	action->flights = flights_of(reg);
	action->flights.pair = PAIRS_MAX;
	action->flights.compares = true;
	action->flights.marks =
		reg->slots + slot * sizeof(struct probe_slot) + offsetof(struct probe_slot, marks);
	action->flights.frame = site->bound->frame;
	action->flights.frame.disp += (int64_t)(GOLDEN * (site->probe + 1));
}

static void describe_gather(const struct probe_session *s, const struct reg_session *reg,
	uint32_t slot, const struct session_probe *part, const struct bound *bound,
	struct arch_action *action)
{
	const struct probe_gather *what = &s->options.gather;
	struct arch_gather *g = &action->gather;

	g->parts = (what->sum ? ARCH_GATHER_SUM : 0) | (what->extremes ? ARCH_GATHER_EXTREMES : 0) |
		   (what->last ? ARCH_GATHER_LAST : 0) |
		   (what->histogram ? ARCH_GATHER_BUCKETS : 0);
	g->value = if_any(&bound->value);
	g->is_signed = part->types.value_signed;
	g->is_double = part->types.value_double;
	g->cell = reg->cells;
	if (!data_has_table(reg)) {
		g->cell += slot * reg->cell_bytes;
		return;
	}
	g->key_count = (uint8_t)s->asked.parts.count;
	for (size_t i = 0; i < g->key_count; i++)
		g->keys[i] = (struct arch_key){.number = if_any(&bound->key_numbers[i]),
			.string = bound->key_strings[i],
			.is_norm = s->asked.parts.is_norm[i]};
	g->owner = slot;
	g->entries = reg->entries;
	g->entry_bytes = reg->cell_bytes;
	g->entry_cell = reg->entry_cell;
}

/* Describes what a hit of a site leaves in the session. */
static void describe_action(const struct probe_session *s, const struct reg_session *reg,
	uint32_t slot, const struct session_site *site, struct arch_action *action)
{
	const struct session_probe *part = &s->known[site->probe];
	bool begins = part->part.role == PAIR_BEGIN;

	if (s->options.kind == PROBE_SESSION_RECORD) {
		action->kind = s->options.spans && begins ? ARCH_ACTION_BEGIN : ARCH_ACTION_RECORD;
		if (s->options.spans)
			describe_flights(s, reg, part, site->bound, action);
		action->record = (struct arch_record){.rings = reg->rings,
			.rings_shift = reg->rings_shift,
			.ring_bytes = reg->ring_bytes,
			.overwrite = s->options.overwrite,
			.room = s->options.wait_ns ? reg->data + DATA_ROOM_OFFSET : 0,
			.wait_ticks = s->gates.room_ticks,
			.wait_scale = s->tick_ns32};
	} else if (s->options.kind == PROBE_SESSION_GATHER) {
		action->kind = begins ? ARCH_ACTION_BEGIN : ARCH_ACTION_GATHER;
		describe_flights(s, reg, part, site->bound, action);
		if (!begins)
			describe_gather(s, reg, slot, part, site->bound, action);
	}
}

/* Describes a site's stub; see struct install. */
static void describe(const void *data, const struct reg_session *reg, uint32_t slot,
	uint32_t number, struct arch_stub *stub)
{
	const struct probe_session *s = data;
	const struct session_site *site = &s->sites[number];
	const struct record_layout *layout =
		s->group.recorder ? &s->group.recorder->sites[number].layout : &site->layout;

	stub->pid = s->target_pid;
	if (s->options.switched) {
		stub->on = reg->data + DATA_SWITCH_OFFSET;
		stub->off = reg->slots + ((uint64_t)reg->cpus << reg->slots_shift) +
			    slot * sizeof(struct probe_slot) + offsetof(struct probe_slot, off);
		stub->on_until_full = s->options.until_full;
	}
	if (site->exit != SDT_OWN_EXIT && site->exit != SDT_TAIL_RETURN) {
		describe_mark(reg, slot, site, &stub->actions[0]);
		return;
	}
	stub->captures = layout->captures;
	stub->capture_count = layout->capture_count;
	stub->recorded = layout->recorded;
	stub->filter = if_any(&site->bound->filter);
	stub->every = s->options.sample_every;
	stub->rate = s->options.sample_rate;
	stub->rate_ticks = s->rate_ticks;
	stub->rate_word = reg->data + DATA_RATE_OFFSET;
	if (site->exit == SDT_TAIL_RETURN) {
		stub->actions[stub->action_count++] = stub->actions[0];
		describe_mark(reg, slot, site, &stub->actions[0]);
	}
	describe_action(s, reg, slot, site, &stub->actions[stub->action_count - 1]);
	for (size_t m = 0; m < s->group.member_count; m++) {
		const struct probe_session *member = s->group.members[m];
		struct arch_action *action = &stub->actions[stub->action_count++];

		reg = &member->group.part.layout;
		*action = (struct arch_action){.kind = ARCH_ACTION_COUNT,
			.slots = reg->slots,
			.slots_shift = reg->slots_shift,
			.slot_offset = slot * sizeof(struct probe_slot)};
		describe_action(member, reg, slot, &member->sites[number], action);
	}
}

/* Does a stub of the session read the time? */
static bool takes_time(const struct probe_session *s)
{
	const struct probe_session_options *o = &s->options;

	return o->kind == PROBE_SESSION_RECORD || o->sample_rate || o->gather.last ||
	       s->pairs.count || o->gather.pairing != PROBE_PAIRING_NONE;
}

struct install session_attach(
	struct probe_session *session, struct transaction *transaction, struct selection *selection)
{
	struct install install = install_of(transaction, selection, &session->request);

	install.stubs.describe = describe;
	install.stubs.data = session;
	install.session = session->id;
	install.is_copy = transaction->change->target != session->target;
	install.stubs.takes_time = takes_time(session);
	install.stubs.waits = session->options.wait_ns != 0;
	for (size_t m = 0; m < session->group.member_count; m++) {
		install.stubs.takes_time |= takes_time(session->group.members[m]);
		install.stubs.waits |= session->group.members[m]->options.wait_ns != 0;
	}
	install.stubs.follow_children = session->options.follow_children;
	install.data.file = session->options.file;
	return install;
}
