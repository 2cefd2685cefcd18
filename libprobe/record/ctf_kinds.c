/* SPDX-License-Identifier: MIT */
/*
 * Kinds: classes of streams that hold rings' bytes, and the names of stack frames.
 *
 * Events in rings are numbered by a site's index in its session. Sessions with the same sites, such
 * as those of a thousand processes of one program, share a kind, and each site is described once. A
 * session that gets sites that its kind lacks gets another kind, and other files.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

/* ==== Kinds =================================================================================== */

/* ---- Fields of records ------------------------------------------------------------- */

struct form_maker {
	const struct record_layout *layout;
	struct ctf_form *form;
	struct ring_form *ring;
	size_t next; /* index of the next capture */
};

/* Adds the field of a capture, which must be the next capture. */
static bool add_field(struct form_maker *m, int capture, size_t place, uint8_t code)
{
	const struct arch_capture *c = &m->layout->captures[capture];

	if ((size_t)capture != m->next++)
		return false;
	m->form->fields[m->form->count++] = (struct ctf_field){
		.code = code, .number = m->layout->args[place].number, .place = (uint8_t)place};
	if (arch_capture_has_bytes(c))
		m->ring->words[m->ring->count++] = (struct ring_word){m->ring->fixed, c->bytes_max};
	m->ring->fixed += (uint16_t)arch_capture_fixed(c);
	return true;
}

/* Adds an argument: a number, a string, or both for a number that may point to text. */
static bool add_arg(struct form_maker *m, size_t place)
{
	const struct record_layout_arg *arg = &m->layout->args[place];
	bool ok = !arg->is_symbol &&
		  ((!arg->is_guess && !arg->is_known) || arg->value >= 0 || arg->string < 0);

	if (arg->value < 0 && arg->string < 0)
		m->form->fields[m->form->count++] = (struct ctf_field){
			.code = CTF_UNREADABLE, .number = arg->number, .place = (uint8_t)place};
	if (ok && arg->value >= 0) {
		const struct arch_capture *c = &m->layout->captures[arg->value];
		enum ctf_code kind = arg->is_float    ? CTF_FLOAT
				     : arg->is_signed ? CTF_SIGNED
						      : CTF_UNSIGNED;

		ok = add_field(m, arg->value, place,
			arch_capture_has_bytes(c)
				? CTF_BYTES
				: (uint8_t)(kind | arch_capture_size(c) << CTF_SIZE_SHIFT));
	}
	if (ok && arg->string >= 0)
		ok = add_field(m, arg->string, place,
			arg->is_guess	? CTF_TEXT
			: arg->is_known ? CTF_KNOWN
			: arg->is_bytes ? CTF_BYTES
					: CTF_STRING);
	return ok;
}

/* Finds the fields of a layout. Returns false if its records cannot be CTF events unchanged. */
static bool ctf_form_init(
	const struct record_layout *layout, struct ctf_form *form, struct ring_form *ring)
{
	struct form_maker maker = {layout, form, ring, 0};

	*form = (struct ctf_form){0};
	*ring = (struct ring_form){.fixed = sizeof(struct ring_record)};
	for (size_t i = 0; i < layout->arg_count; i++)
		if (!add_arg(&maker, i))
			return false;
	if (layout->checked) {
		form->captures = layout->recorded;
		ring->fixed += (uint16_t)ring_mask_bytes(layout->recorded);
	}
	/* All captures that remain must be for a filter or a stack. */
	return maker.next == layout->recorded;
}

/* ---- Finding the kind of a session ------------------------------------------------- */

/*
 * Describes a session's sites as a kind, with borrowed strings, but for `labels`. *ok_ret is false
 * if its records cannot be CTF events unchanged.
 */
static struct probe_error *describe_session(
	const struct probe_session *s, struct ctf_kind *ret, bool *ok_ret)
{
	*ok_ret = true;
	ret->clock = ctf_clock_of(&s->clock);
	for (size_t i = 0; i < s->site_count; i++) {
		const struct probe_session_probe *probe = &s->probes[s->sites[i].probe];
		struct ctf_kind_site *site = &ret->sites[i];

		site->provider = (char *)probe->provider;
		site->name = (char *)probe->name;
		site->path = (char *)probe->path;
		site->labels = ctf_labels(probe, s->sites[i].layout.arg_count);
		if (!site->labels)
			return probe_error_no_memory();
		if (!ctf_form_init(&s->sites[i].layout, &site->form, &ret->forms[i]))
			*ok_ret = false;
	}
	ret->site_count = s->site_count;
	return NULL;
}

static bool agree(const struct ctf_kind *a, const struct ctf_kind *b)
{
	size_t count = a->site_count < b->site_count ? a->site_count : b->site_count;

	for (size_t i = 0; i < count; i++)
		if (strcmp(a->sites[i].provider, b->sites[i].provider) != 0 ||
			strcmp(a->sites[i].name, b->sites[i].name) != 0 ||
			strcmp(a->sites[i].path, b->sites[i].path) != 0 ||
			strcmp(a->sites[i].labels, b->sites[i].labels) != 0 ||
			memcmp(&a->sites[i].form, &b->sites[i].form, sizeof(a->sites[i].form)) !=
				0 ||
			memcmp(&a->forms[i], &b->forms[i], sizeof(a->forms[i])) != 0)
			return false;
	return a->clock == b->clock;
}

static void free_site(struct ctf_kind_site *site)
{
	free(site->provider);
	free(site->name);
	free(site->path);
	free(site->labels);
}

static struct probe_error *extend(struct ctf_kind *kind, const struct ctf_kind *session)
{
	for (size_t i = kind->site_count; i < session->site_count; i++) {
		const struct ctf_kind_site *site = &session->sites[i];
		struct ctf_kind_site copy = {.form = site->form,
			.provider = strdup(site->provider),
			.name = strdup(site->name),
			.path = strdup(site->path),
			.labels = strdup(site->labels)};

		if (!copy.provider || !copy.name || !copy.path || !copy.labels ||
			!ARRAY_ROOM(kind->sites, i) || !ARRAY_ROOM(kind->forms, i)) {
			free_site(&copy);
			return probe_error_no_memory();
		}
		kind->sites[i] = copy;
		kind->forms[i] = session->forms[i];
		kind->site_count++;
	}
	return NULL;
}

/* Finds or adds a session's kind. Prefers the session's previous kind. Returns the index. */
static struct probe_error *find(struct ctf_kinds *kinds, struct ctf_description *description,
	const struct ctf_kind *session, size_t had, size_t *ret)
{
	size_t i = 0;

	if (had < kinds->count && agree(&kinds->kinds[had], session)) {
		*ret = had;
		return NULL;
	}
	while (i < kinds->count && !agree(&kinds->kinds[i], session))
		i++;
	if (i == kinds->count) {
		if (!ARRAY_ROOM(kinds->kinds, i))
			return probe_error_no_memory();
		kinds->kinds[kinds->count++] = (struct ctf_kind){.clock = session->clock};
		ctf_describe_kind(&description->classes, (uint32_t)kinds->count, session->clock);
	}
	*ret = i;
	return NULL;
}

static struct probe_error *find_for(struct ctf_kinds *kinds, struct ctf_description *description,
	struct ctf_source *source, const struct ctf_kind *session)
{
	size_t count = session->site_count, i = 0;
	uint64_t *hits = reallocarray(source->hits, count + 1, sizeof(*hits));
	struct probe_error *error;

	if (!hits)
		return probe_error_no_memory();
	memset(hits, 0, (count + 1) * sizeof(*hits));
	source->hits = hits;
	error = find(kinds, description, session, source->kind - (size_t)1, &i)
			?: extend(&kinds->kinds[i], session);
	if (error)
		return error;
	source->kind = (uint32_t)i + 1;
	source->agreed = count;
	return NULL;
}

struct probe_error *ctf_kinds_find(
	struct ctf_kinds *kinds, struct ctf_description *description, struct ctf_source *source)
{
	const struct probe_session *s = source->session;
	const struct probe_session_options *o = &s->options;
	struct ctf_kind session = {0};
	struct probe_error *error = NULL;
	bool ok = false;

	source->never |= o->kind != PROBE_SESSION_RECORD || o->overwrite || o->spans || s->opened;
	if (source->never || (source->kind && source->agreed == s->site_count))
		return NULL;
	session.sites = calloc(s->site_count + 1, sizeof(*session.sites));
	session.forms = calloc(s->site_count + 1, sizeof(*session.forms));
	if (!session.sites || !session.forms)
		error = probe_error_no_memory();
	else
		error = describe_session(s, &session, &ok);
	if (!error && ok)
		error = find_for(kinds, description, source, &session);
	source->never |= !error && !ok;
	for (size_t i = 0; session.sites && i < s->site_count; i++)
		free(session.sites[i].labels);
	free(session.sites);
	free(session.forms);
	return error;
}

void ctf_kinds_describe(struct ctf_kinds *kinds, struct ctf_description *description,
	const struct ctf_source *source, size_t site)
{
	struct ctf_kind_site *its = &kinds->kinds[source->kind - 1].sites[site];

	if (its->described)
		return;
	ctf_describe_site(&description->classes, source->kind, (uint32_t)site, its);
	its->described = true;
}

void ctf_kinds_deinit(struct ctf_kinds *kinds)
{
	for (size_t i = 0; i < kinds->count; i++) {
		for (size_t k = 0; k < kinds->kinds[i].site_count; k++)
			free_site(&kinds->kinds[i].sites[k]);
		free(kinds->kinds[i].sites);
		free(kinds->kinds[i].forms);
	}
	free(kinds->kinds);
	*kinds = (struct ctf_kinds){0};
}

/* ==== Call stacks ============================================================================= */

/*
 * Call stacks in a record are addresses. A stack is unwound while the process runs, and each stream
 * names an address before its first use, and again if the process maps another file there. So each
 * stream can be read without the others, even if we are killed.
 */

enum {
	TEXT_MAX = 4096, /* maximum length of a name; names of C++ templates can be of any length */
	FRAME_ROOM = 128 /* size of an event that names a frame, without its strings */
};

uint8_t *ctf_put_stack(uint8_t *at, const struct probe_stack *stack)
{
	uint32_t count = stack ? (uint32_t)stack->count : 0;

	*at++ = stack ? (uint8_t)stack->end : 0;
	at = ctf_put(at, &count, sizeof(count));
	for (uint32_t i = 0; i < count; i++)
		at = ctf_put(at, &stack->frames[i]->ip, sizeof(stack->frames[i]->ip));
	return at;
}

/* ---- Naming frames ------------------------------------------------------------------- */

static const char *name_of(const char *text)
{
	return text && *text ? text : CTF_UNKNOWN;
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
	at = ctf_put(at, text, strnlen(text, TEXT_MAX));
	*at++ = '\0';
	return at;
}

/* Writes an event that names a frame, with the hit's context but no stack. */
static uint8_t *put_frame(uint8_t *at, const struct ctf_stream *stream, const struct probe_hit *hit,
	const char *comm, const struct probe_frame *frame)
{
	const uint32_t id = CTF_FRAME_ID, line = frame->file ? (uint32_t)frame->line : 0;

	at = ctf_put(at, &id, sizeof(id));
	at = ctf_put(at, &stream->last, sizeof(stream->last));
	at = ctf_put(at, &hit->pid, sizeof(int32_t));
	at = ctf_put(at, &hit->tid, sizeof(int32_t));
	at = put_text(at, comm);
	at = ctf_put_stack(at, NULL);
	at = ctf_put(at, &frame->ip, sizeof(frame->ip));
	at = put_text(at, name_of(frame->module));
	at = put_text(at, name_of(frame->symbol));
	at = ctf_put(at, &frame->offset, sizeof(frame->offset));
	at = ctf_put(at, &frame->function, sizeof(frame->function));
	at = put_text(at, name_of(frame->file));
	return ctf_put(at, &line, sizeof(line));
}

struct probe_error *ctf_name_frames(struct ctf_part *part, struct ctf_stream *stream,
	const struct probe_hit *hit, const char *comm)
{
	for (size_t i = 0; i < hit->stack->count; i++) {
		const struct probe_frame *frame = hit->stack->frames[i];
		struct probe_error *error;
		size_t room;
		uint8_t *at;

		if (map_find(&stream->frames, MAP_KEY(MAP_OBJECT(frame))))
			continue;
		room = FRAME_ROOM + strnlen(comm, TEXT_MAX) +
		       strnlen(name_of(frame->module), TEXT_MAX) +
		       strnlen(name_of(frame->symbol), TEXT_MAX) +
		       strnlen(name_of(frame->file), TEXT_MAX);
		error = ctf_part_room(part, stream, room, &at);
		if (error)
			return error;
		if (!map_add(&stream->frames, 0, MAP_KEY(MAP_OBJECT(frame))))
			return probe_error_no_memory();
		at = put_frame(at, stream, hit, comm, frame);
		stream->length = (size_t)(at - stream->buffer);
	}
	return NULL;
}
