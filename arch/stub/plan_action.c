/* SPDX-License-Identifier: MIT */
/* What each action needs, and what it cannot do. */
#include "arch/layout.h"
#include "arch/stub/flights.h"
#include "arch/stub/plan.h"

enum {
	RING_BYTES_MAX = 1 << 30, /* as an immediate operand */
	TABLE_BYTES_MAX = 1 << 30,
	KEPT_BYTES_MAX = 1 << 30 /* of an entry */
};

bool stub_has_spans(const struct arch_stub *s)
{
	return s->flights.table && s->flights.record;
}

bool stub_keeps_begins(const struct arch_stub *s)
{
	return s->flights.table && s->flights.keep;
}

/* ---- Records ---------------------------------------------------------------------------- */

/* What a record takes, or what is kept of a begin. */
static void plan_record_body(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	p->fixed_bytes = sizeof(struct ring_record);
	for (int i = 0; i < s->recorded; i++) {
		p->record_at[i] = (int32_t)p->fixed_bytes;
		p->fixed_bytes += arch_capture_fixed(&s->captures[i]);
	}
	p->record_mask_at = (int32_t)p->fixed_bytes;
	if (p->records_mask)
		p->fixed_bytes += ring_mask_bytes(s->recorded);
	p->record_align = s->overwrite ? RING_BACK_BYTES : RING_ALIGN;
	p->max_bytes = (uint32_t)ring_padded(p->max_bytes + p->fixed_bytes, p->record_align);
	if (!p->recorded_pairs)
		p->fixed_bytes = p->max_bytes;
	p->kernel_tid |= !s->thread.has_tid && s->may_call_kernel;
}

static bool plan_record(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	uint32_t room = RING_RECORD_MAX - (s->overwrite ? RING_BACK_BYTES : 0);

	plan_record_body(p);
	/* An end holds its begin: others might have to wait for that. */
	if (s->room && (s->overwrite || stub_has_spans(s)))
		return false;
	if (stub_has_spans(s)) /* and the duration */
		p->max_bytes += 8 + s->flights.keep - s->flights.record;
	return p->max_bytes <= room && p->max_bytes <= s->ring_bytes &&
	       s->ring_bytes <= RING_BYTES_MAX && !(s->ring_bytes & (s->ring_bytes - 1));
}

bool stub_has_norm(const struct arch_stub *s)
{
	for (int k = 0; k < s->gather.key_count; k++)
		if (s->gather.keys[k].is_norm)
			return true;
	return false;
}

/* ---- Cells ------------------------------------------------------------------------------ */

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static bool plan_gather(struct stub_plan *p)
{
	const struct arch_gather *g = &p->stub->gather;

	p->value_temp = take_temps(p, 1);
	p->time_temp = take_temps(p, 1);
	if (g->is_double && g->parts & ARCH_GATHER_SUM)
		p->double_temp = take_temps(p, FORM_VECTOR_TEMPS + 1);
	if (!g->key_count)
		return true;
	p->tag_temp = take_temps(p, 1);
	p->tries_temp = take_temps(p, 1);
	if (g->key_count > ARCH_KEYS_MAX || !is_power_of_two(g->entries) ||
		g->entries > TABLE_BYTES_MAX || g->entry_bytes > TABLE_BYTES_MAX)
		return false;
	for (int k = 0; k < g->key_count; k++) {
		uint8_t string = g->keys[k].string;

		if (!g->keys[k].number &&
			(string >= p->stub->capture_count ||
				!arch_capture_has_bytes(&p->stub->captures[string])))
			return false;
		if (g->keys[k].number && g->keys[k].is_norm)
			return false;
		p->key_temp[k] = g->keys[k].number || g->keys[k].is_norm ? take_temps(p, 1)
									 : p->temp[string] + 1;
	}
	if (stub_has_norm(p->stub))
		p->norm_temp = take_temps(p, NORM_TEMPS);
	return true;
}

/* ---- Pairs ------------------------------------------------------------------------------ */

/* Where the arguments that are kept of a begin end. */
static uint32_t arguments_end(const struct arch_flights *f)
{
	return f->record ? f->record : f->keep;
}

/* Is there such a place among them? Of a number, `bytes` is 0. */
static bool is_place(const struct arch_flights *f, uint32_t offset, uint32_t bytes)
{
	return offset >= sizeof(struct probe_begun) && offset % 8 == 0 &&
	       offset + 8 + (bytes ? (bytes + 7) & ~7u : 8) <= arguments_end(f);
}

static bool may_keep(const struct arch_stub *s, const struct arch_kept *k)
{
	const struct arch_capture *c = &s->captures[k->capture];

	return k->capture < s->capture_count && c->is_string == (k->bytes > 0) &&
	       arch_capture_has_bytes(c) == (k->bytes > 0) &&
	       is_place(&s->flights, k->offset, k->bytes);
}

static bool may_keep_begins(const struct arch_stub *s)
{
	const struct arch_flights *f = &s->flights;

	if (f->keep % 8 || f->keep > RING_RECORD_MAX || f->record % 8 ||
		(f->record && (f->record < sizeof(struct probe_begun) ||
				      f->record + sizeof(struct ring_record) > f->keep)) ||
		(uint64_t)f->depth * (f->keep + 16) > KEPT_BYTES_MAX ||
		f->kept_count > ARCH_KEPT_MAX)
		return false;
	for (int i = 0; i < f->kept_count; i++)
		if (f->takes ? !is_place(f, f->kept[i].offset, f->kept[i].bytes)
			     : !may_keep(s, &f->kept[i]))
			return false;
	for (int i = 0; i < s->capture_count; i++)
		if (s->captures[i].begun &&
			!is_place(f, s->captures[i].begun,
				s->captures[i].is_string ? s->captures[i].bytes_max : 0))
			return false;
	return true;
}

static bool plan_begin(struct stub_plan *p)
{
	const struct arch_flights *f = &p->stub->flights;

	p->pass_temp = take_temps(p, 1);
	p->last_temp = take_temps(p, 1);
	if (!f->record)
		return true;
	plan_record_body(p);
	return p->max_bytes <= f->keep - f->record;
}

/* What an end needs of its begin. */
static bool plan_begun(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	p->kept_temp = take_temps(p, 1);
	if (!s->flights.record)
		return s->kind == ARCH_STUB_GATHER;
	p->has_duration = true;
	p->value_temp = take_temps(p, 1);
	p->time_temp = take_temps(p, 1);
	p->begin_temp = take_temps(p, 1);
	return s->kind == ARCH_STUB_RECORD && !s->overwrite;
}

static bool plan_keeping(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (!may_keep_begins(s))
		return false;
	p->entry_temp = take_temps(p, 1);
	if (s->flights.compares)
		p->place_temp = take_temps(p, 1);
	return s->kind == ARCH_STUB_BEGIN ? plan_begin(p) : plan_begun(p);
}

/* Texts that fit into an entry, and are not the begin's: that is yet to be found. */
static bool may_match(const struct arch_stub *s)
{
	const struct arch_flights *f = &s->flights;
	const struct arch_capture *c = &s->captures[f->string];

	return !f->match && f->string < s->capture_count && c->is_string && !c->begun &&
	       c->bytes_max <= f->text && f->text <= RING_RECORD_MAX;
}

/* Plans the identity by which an end finds its begin; false: the captures do not allow it. */
static bool plan_identity(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	const struct arch_flights *f = &s->flights;

	if (!f->compares)
		return !f->same_count;
	p->same_temp = take_temps(p, 1);
	for (int i = 0; i < f->same_count; i++)
		if (f->same[i] >= s->capture_count || s->captures[f->same[i]].begun ||
			s->captures[f->same[i]].stack ||
			s->captures[f->same[i]].arg.kind == ARCH_ARG_FP_REGISTER)
			return false;
	return f->same_count <= ARCH_SAME_MAX && f->identities && !f->single;
}

static bool plan_flights(struct stub_plan *p)
{
	const struct arch_flights *f = &p->stub->flights;
	bool by_key = flights_by_key(f);

	p->kernel_tid |= !by_key && !p->stub->thread.has_tp;
	if (f->text)
		p->match_temp = take_temps(p, 2);
	if (f->text && !may_match(p->stub))
		return false;
	if (f->process)
		p->process_temp = take_temps(p, 1);
	if ((f->single && by_key) || ((f->takes || f->gives) && !f->single) ||
		(f->identities && by_key) || !plan_identity(p))
		return false;
	/* By key, an entry is less than the table away from its place: flight_free(). */
	return is_power_of_two(f->entries) && (!by_key || f->entries >= FLIGHT_PROBES_MAX) &&
	       is_power_of_two(f->depth) && f->depth < 1 << 20 &&
	       (f->keep ? plan_keeping(p) : p->stub->kind != ARCH_STUB_RECORD);
}

/* ---- All of them ------------------------------------------------------------------------ */

bool plan_action(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (s->kind == ARCH_STUB_RECORD && !plan_record(p))
		return false;
	if (s->kind == ARCH_STUB_GATHER && !plan_gather(p))
		return false;
	if (s->flights.table && !plan_flights(p))
		return false;
	if (p->has_duration)
		p->duration_temp = take_temps(p, 1);
	if (s->kind == ARCH_STUB_GATE)
		take_temps(p, GATE_TEMPS);
	if (s->kind == ARCH_STUB_CALL) /* words, mask and pointers: see arch_stub.call */
		p->call_temp = take_temps(p, 2 * s->recorded + 1);
	return true;
}
