/* SPDX-License-Identifier: MIT */
/*
 * Reads what a session has gathered: the cells of all CPUs become a row for each probe, or for each
 * of its keys.
 *
 * A hit changes its cell in two steps, values and then count, so a row may hold one value more than
 * it counts. At rest, both are exact.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/frame_text.h"
#include "libprobe/base/procfs.h"
#include "libprobe/base/value.h"
#include "libprobe/session/session.h"

/* ==== Keys ==================================================================================== */

/*
 * Turns the entries of stubs into the keys of rows. A stub stores the bytes of a string, or of its
 * normal form, and addresses. Rows show functions, so several entries may become one row. The
 * number of entries is bounded by the addresses in the program's code; the number of texts has no
 * bound.
 *
 * 	parts	word, word, ...   bytes of strings, each padded to 8
 * 	key	word, word, ...   the same; but a stack is the names of its functions, a line for
 * 				  each; an address of code, or a probe, is its name
 */

/* Describes the keys in the session's entries; borrows from the session. */
static struct view_keys keys_of_view(const struct probe_session *s)
{
	return (struct view_keys){.is_string = s->asked.parts.is_string,
		.count = s->asked.parts.count,
		.string_bytes = s->asked.parts.string_bytes};
}

/* A position in an entry's parts. */
struct reading {
	const uint8_t *word, *bytes;
};

static uint64_t next_word(struct reading *r)
{
	uint64_t word;

	memcpy(&word, r->word, sizeof(word));
	r->word += sizeof(word);
	return word;
}

/* Returns a string's bytes, as many as `word` says. */
static const uint8_t *next_bytes(struct reading *r, uint64_t word)
{
	const uint8_t *bytes = r->bytes;

	r->bytes += (ring_string_length(word) + UINT64_C(7)) & ~UINT64_C(7);
	return bytes;
}

/* ---- Names ------------------------------------------------------------------------------ */

/*
 * The text of a stack or address. It stays as it was first read, even if libraries are closed and
 * generated code is renamed, because a row must be found again in the next interval.
 */
struct kept_text {
	size_t length;
	char bytes[];
};

enum { NAME_BYTES = 8, STACK_BYTES = 16 /* site and caller, before the return addresses */ };

/* Makes and stores the text of a key; NULL if memory is short. */
static const struct kept_text *keep_text(
	struct probe_session *s, const uint8_t *raw, size_t raw_bytes)
{
	AUTO(buffer_deinit) struct buffer text = {0};
	struct probe_error *error = NULL;
	struct kept_text *kept;
	struct probe_stack stack;
	uint64_t address, caller;

	memcpy(&address, raw, sizeof(address));
	if (raw_bytes == NAME_BYTES) {
		char room[SESSION_NAME_ROOM];

		buffer_string(&text, session_name(&s->names, address, room));
	} else {
		memcpy(&caller, raw + 8, sizeof(caller));
		error = unwinder_frames(s->names.unwinder, address, caller, raw + STACK_BYTES,
			(raw_bytes - STACK_BYTES) / 8, &stack);
		if (!error)
			frame_text_stack(&text, &stack);
	}
	if (error || text.no_memory) {
		probe_error_free(error);
		return NULL;
	}
	kept = map_add(&s->names.texts, sizeof(*kept) + text.length, MAP_KEY({raw, raw_bytes}));
	if (kept) {
		kept->length = text.length;
		memcpy(kept->bytes, text.length ? text.data : "", text.length);
	}
	return kept;
}

static void put_text(
	struct buffer *out, struct probe_session *s, const uint8_t *raw, size_t raw_bytes)
{
	const struct kept_text *text = map_find(&s->names.texts, MAP_KEY({raw, raw_bytes}));

	if (!text)
		text = keep_text(s, raw, raw_bytes);
	if (text)
		buffer_bytes(out, text->bytes, text->length);
	out->no_memory |= !text;
}

static void put_stack(struct buffer *out, struct probe_session *s, struct reading *r)
{
	uint64_t returns = next_word(r), site = next_word(r), caller = next_word(r);
	const uint8_t *bytes = next_bytes(r, returns);
	size_t length = ring_string_length(returns) & ~UINT32_C(7);
	uint8_t raw[STACK_BYTES + 8 * ARCH_FRAMES_MAX];

	if (length > sizeof(raw) - STACK_BYTES)
		length = sizeof(raw) - STACK_BYTES;
	memcpy(raw, &site, sizeof(site));
	memcpy(raw + 8, &caller, sizeof(caller));
	memcpy(raw + STACK_BYTES, bytes, length);
	put_text(out, s, raw, STACK_BYTES + length);
}

/* ---- Keys ------------------------------------------------------------------------------- */

/* Appends the bytes of key `i`, which is not a number. Returns its word. */
static uint64_t put_bytes(
	struct probe_session *s, size_t probe, size_t i, struct reading *r, struct buffer *out)
{
	size_t start = out->length;
	uint64_t word = 0, address;

	if (s->asked.key_word[i] == EXPR_USTACK) {
		put_stack(out, s, r);
	} else if (s->asked.key_word[i] == EXPR_PROBE) {
		buffer_string(out, s->probes[probe].provider);
		buffer_char(out, ':');
		buffer_string(out, s->probes[probe].name);
	} else if (s->asked.key_symbol[i]) {
		address = next_word(r);
		put_text(out, s, (const uint8_t *)&address, NAME_BYTES);
	} else {
		word = next_word(r);
		buffer_bytes(out, (const char *)next_bytes(r, word), ring_string_length(word));
	}
	word = (word & ~(uint64_t)RING_STRING_LENGTH) | (uint32_t)(out->length - start);
	while (out->length % 8 && !out->no_memory)
		buffer_char(out, '\0');
	return word;
}

/*
 * Makes a row's key from an entry's parts (NULL without a table): a word for each key, then the
 * bytes of the keys that are not numbers. *ret is `parts`, or points into `room`, which is reused.
 * Returns false if memory is short.
 */
static bool keys_show(struct probe_session *s, size_t probe, const uint8_t *parts,
	struct buffer *room, const uint8_t **ret, size_t *bytes_ret)
{
	const struct asked *asked = &s->asked;
	const struct view_keys keys = keys_of_view(s);
	struct reading reading = {parts, parts ? parts + 8 * keys.count : NULL};
	size_t words = 8 * asked->key_count;
	bool differs = false; /* a key is shown as a name or a stack, which stubs do not gather */

	*ret = parts;
	*bytes_ret = parts ? snapshot_key_bytes(&keys, parts) : 0;
	for (size_t i = 0; i < asked->key_count; i++)
		differs |= asked->key_symbol[i] || asked->key_word[i] == EXPR_USTACK ||
			   asked->key_word[i] == EXPR_PROBE;
	if (!differs)
		return true;
	room->length = 0;
	if (!buffer_reserve(room, words))
		return false;
	room->length = words;
	for (size_t i = 0; i < asked->key_count; i++) {
		uint64_t word = asked->key_string[i] ? put_bytes(s, probe, i, &reading, room)
						     : next_word(&reading);

		if (room->no_memory)
			return false;
		memcpy(room->data + 8 * i, &word, sizeof(word));
	}
	*ret = (const uint8_t *)room->data;
	*bytes_ret = room->length;
	return true;
}

static double double_of(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Makes the values of a key that keys_show() has made, borrowing its bytes. */
static void keys_values(const struct probe_session *session, size_t probe, const uint8_t *key,
	struct probe_value *ret)
{
	const struct bound_types *types = &session->known[probe].types;
	const struct asked *asked = &session->asked;
	struct reading reading = {key, key + 8 * asked->key_count};

	for (size_t i = 0; i < asked->key_count; i++) {
		uint64_t word = next_word(&reading);

		if (!asked->key_string[i]) {
			ret[i] = (struct probe_value){
				.kind = types->key_double[i]   ? PROBE_VALUE_FLOAT
					: types->key_signed[i] ? PROBE_VALUE_SIGNED
							       : PROBE_VALUE_UNSIGNED,
				.u = word};
			if (types->key_double[i])
				ret[i].f = double_of(word);
			continue;
		}
		ret[i] = (struct probe_value){
			.kind = word >> RING_STRING_NULL_BIT & 1    ? PROBE_VALUE_NULL
				: asked->key_word[i] == EXPR_USTACK ? PROBE_VALUE_STACK
								    : PROBE_VALUE_STRING,
			.truncated = word >> RING_STRING_TRUNCATED_BIT & 1,
			.bytes = (const char *)next_bytes(&reading, word),
			.length = ring_string_length(word)};
	}
}

/* ==== Gather ================================================================================== */

enum { NO_PROBE = -1 };

/* A row, while cells are being added to it. */
struct merged {
	size_t probe;
	uint64_t count;
	uint64_t sum;			       /* modulo 2^64, like the sum of a cell */
	double double_sum;		       /* sum of doubles */
	uint64_t most, least, last, last_time; /* as in struct probe_cell */
	uint64_t *buckets;		       /* in the memory after this struct, or NULL */
	const uint8_t *key;		       /* in the map's key */
	size_t key_bytes;
};

struct merger {
	struct probe_session *session;
	size_t key_count;
	struct buffer shown;  /* storage for a key */
	int32_t *probe_of;    /* the probe of each slot, or NO_PROBE */
	struct merged **rows; /* in the order of their arrival; owned by the map */
	size_t count;
	struct map by_key; /* struct merged by probe and key */
};

static const struct probe_gather *gather_of(const struct probe_session *s)
{
	return &s->options.gather;
}

/* ---- Finding a row ---------------------------------------------------------------------- */

/* Finds or creates the row of a probe and key; NULL if memory is short. */
static struct merged *row_of(struct merger *m, size_t probe, const uint8_t *key, size_t bytes)
{
	size_t buckets = gather_of(m->session)->histogram ? CELL_BUCKETS : 0;
	struct merged *row;

	if (!ARRAY_ROOM(m->rows, m->count))
		return NULL;
	row = map_add(&m->by_key, sizeof(*row) + buckets * sizeof(*row->buckets),
		MAP_KEY(MAP_OBJECT(probe), {key, bytes}));
	if (!row || m->by_key.count == m->count)
		return row;
	row->probe = probe;
	row->buckets = buckets ? (uint64_t *)(row + 1) : NULL;
	row->key = (const uint8_t *)map_key(row) + sizeof(probe);
	row->key_bytes = bytes;
	m->rows[m->count++] = row;
	return row;
}

/* ---- Adding up -------------------------------------------------------------------------- */

static void add_cell(
	struct merged *row, const struct probe_cell *cell, const struct bound_types *types)
{
	if (types->value_double)
		row->double_sum += double_of(cell->sum);
	else
		row->sum += cell->sum;
	if (cell->most > row->most)
		row->most = cell->most;
	if (cell->least > row->least)
		row->least = cell->least;
	if (cell->last_time > row->last_time) {
		row->last_time = cell->last_time;
		row->last = cell->last;
	}
	if (!row->buckets)
		row->count += cell->count;
	for (size_t i = 0; row->buckets && i < CELL_BUCKETS; i++) {
		row->buckets[i] += cell->buckets[i];
		row->count += cell->buckets[i];
	}
}

static bool merge_cell(void *data, const struct view_cell *cell)
{
	struct merger *m = data;
	int32_t probe = m->probe_of[cell->slot];
	const uint8_t *key;
	struct merged *row;
	size_t bytes;

	if (probe == NO_PROBE || m->session->known[probe].part.role == PAIR_BEGIN)
		return true;
	/* If `probe` is the only key, the cells are not in a table. */
	if (!cell->key && m->session->asked.parts.count)
		key = NULL, bytes = 0;
	else if (!keys_show(m->session, (size_t)probe, cell->key, &m->shown, &key, &bytes))
		return false;
	row = row_of(m, (size_t)probe, key, bytes);
	if (row)
		add_cell(row, cell->cell, &m->session->known[probe].types);
	return row != NULL;
}

static bool merger_init(struct merger *m, struct probe_session *s)
{
	uint32_t slots = s->data.view.layout.slot_capacity;

	*m = (struct merger){.session = s,
		.key_count = s->asked.key_count,
		.probe_of = malloc(slots * sizeof(*m->probe_of) + 1)};
	if (!m->probe_of)
		return false;
	for (uint32_t i = 0; i < slots; i++)
		m->probe_of[i] = NO_PROBE;
	for (size_t i = 0; i < s->probe_count; i++)
		if (s->known[i].slot < slots)
			m->probe_of[s->known[i].slot] = (int32_t)i;
	return true;
}

/* ---- Rows ------------------------------------------------------------------------------- */

/* How a cell's word becomes a value. */
struct scale {
	bool is_signed, is_double;
	bool is_time;
	double unit;
};

static struct probe_value value_of(const struct scale *scale, uint64_t word)
{
	if (scale->is_time)
		return (struct probe_value){.kind = PROBE_VALUE_UNSIGNED,
			.u = (uint64_t)((double)word * scale->unit + 0.5)};
	if (scale->is_double)
		return (struct probe_value){.kind = PROBE_VALUE_FLOAT, .f = double_of(word)};
	return (struct probe_value){
		.kind = scale->is_signed ? PROBE_VALUE_SIGNED : PROBE_VALUE_UNSIGNED, .u = word};
}

static void set_extremes(
	struct probe_row *row, const struct merged *from, const struct scale *scale)
{
	uint64_t bias = scale->is_signed ? CELL_BIAS : 0;
	uint64_t most = from->most, least = ~from->least;

	if (!from->most && !from->least)
		return;
	/*
	 * A hit changes minimum and maximum one after the other, so they may contradict each other.
	 */
	if (least > most)
		least = most;
	if (scale->is_double) {
		least = cell_bits_of(least);
		most = cell_bits_of(most);
	}
	row->min = value_of(scale, least - bias);
	row->max = value_of(scale, most - bias);
}

/* Fills in a row's numbers, not its keys and buckets. */
static void fill_row(const struct probe_session *s, const struct merged *from, double tick_ns,
	const uint64_t *in_flight, struct probe_row *row)
{
	const struct probe_gather *g = gather_of(s);
	const struct session_probe *part = &s->known[from->probe];
	bool is_end = part->part.role == PAIR_END;
	struct scale scale = {.is_signed = part->types.value_signed,
		.is_double = part->types.value_double,
		.is_time = is_end,
		.unit = is_end ? tick_ns : 1};
	uint64_t now = s->clock.last_stamp, stamp = from->last_time;

	*row = (struct probe_row){.probe = from->probe,
		.begin = SIZE_MAX,
		.count = from->count,
		.has_value = is_end || g->value,
		.is_signed = scale.is_signed,
		.is_float = scale.is_double,
		.unit = scale.unit};
	for (size_t i = 0; is_end && i < s->probe_count && row->begin == SIZE_MAX; i++)
		if (s->known[i].part.role == PAIR_BEGIN && !s->known[i].part.gives &&
			s->known[i].part.pair == part->part.pair)
			row->begin = i;
	/* A time in the future is false. */
	if (g->last && stamp)
		row->last_time_ns = clock_realtime_ns(
			&s->clock, stamp > now || now - stamp > now / 2 ? now : stamp);
	if (is_end && !g->key_count && part->part.pair < s->pairs.count)
		row->in_flight = in_flight[part->part.pair];
	if (!row->has_value)
		return;
	/* The sum wraps like its cells', so that the split over CPUs does not matter. */
	row->sum = scale.is_double   ? (long double)from->double_sum
		   : scale.is_signed ? (long double)(int64_t)from->sum * scale.unit
				     : (long double)from->sum * scale.unit;
	set_extremes(row, from, &scale);
	if (g->last && from->last_time)
		row->last = value_of(&scale, from->last);
}

/*
 * Packs rows, keys' values, buckets, and keys' bytes into one block. A key without hits has no row,
 * but a whole probe has one.
 */
static struct probe_row *pack(
	const struct merger *m, double tick_ns, const uint64_t *in_flight, size_t *count_ret)
{
	size_t count = 0, key_bytes = 0, buckets = 0;
	struct probe_value *keys;
	struct probe_row *rows;
	uint64_t *words;
	uint8_t *bytes;

	for (size_t i = 0; i < m->count; i++) {
		if (!m->rows[i]->count && m->key_count)
			continue;
		count++;
		key_bytes += m->rows[i]->key_bytes;
		buckets += m->rows[i]->buckets ? CELL_BUCKETS : 0;
	}
	rows = malloc(count * (sizeof(*rows) + m->key_count * sizeof(*keys)) +
		      buckets * sizeof(*words) + key_bytes + 1);
	if (!rows)
		return NULL;
	keys = (struct probe_value *)(rows + count);
	words = (uint64_t *)(keys + count * m->key_count);
	bytes = (uint8_t *)(words + buckets);
	*count_ret = 0;
	for (size_t i = 0; i < m->count; i++) {
		const struct merged *from = m->rows[i];
		struct probe_row *row = &rows[*count_ret];

		if (!from->count && m->key_count)
			continue;
		fill_row(m->session, from, tick_ns, in_flight, row);
		row->keys = keys;
		if (from->key_bytes)
			memcpy(bytes, from->key, from->key_bytes);
		if (from->key_bytes)
			keys_values(m->session, from->probe, bytes, keys);
		for (size_t k = 0; !from->key_bytes && k < m->key_count; k++)
			keys[k] = value_other();
		keys += m->key_count;
		bytes += from->key_bytes;
		if (from->buckets) {
			memcpy(words, from->buckets, CELL_BUCKETS * sizeof(*words));
			row->buckets = words;
			words += CELL_BUCKETS;
		}
		(*count_ret)++;
	}
	return rows;
}

/* Returns true if the target has a thread with this id, or if that is unknown. */
static bool thread_lives(void *data, uint32_t tid)
{
	const struct probe_session *s = data;

	if (!tid || s->options.follow_children || s->target_pid != (uint32_t)s->target->pid)
		return true;
	return access(procfs_path("/proc/%d/task/%u", s->target->pid, tid).text, F_OK) == 0;
}

/*
 * Sets *ret to a plausible count: at most one hit per CPU and ns since boot. Counts in a file are
 * not checked, because they may be from another machine.
 */
static void take_count(struct probe_session *s, uint64_t count, uint64_t *ret)
{
	double most = (double)clock_monotonic_ns() * s->data.view.layout.cpus;

	if (s->remains.dead || (double)count <= most)
		*ret = count;
	else
		s->data.counts_damaged = true;
}

uint64_t *gather_flights(struct probe_session *s)
{
	uint64_t *ret = calloc(s->pairs.count + (size_t)1, sizeof(*ret));
	bool ask = !gather_of(s)->match && probe_target_alive(s->target);

	if (ret)
		snapshot_flights(&s->data.view, ret, s->pairs.count, ask ? thread_lives : NULL, s);
	for (uint32_t i = 0; ret && i < s->pairs.left_count; i++)
		ret[i] += s->pairs.left[i];
	/* Functions' start events that have lost their places are unmatched. */
	for (size_t i = 0; ret && i < s->probe_count; i++) {
		uint64_t replaced = 0;

		if (s->known[i].part.role == PAIR_BEGIN)
			take_count(s,
				snapshot_shared_count(&s->data.view, s->known[i].slot,
					offsetof(struct probe_slot, unmatched)),
				&replaced);
		ret[s->known[i].part.pair] += replaced;
	}
	return ret;
}

void session_count_lost(struct probe_session *s)
{
	for (size_t i = 0; i < s->probe_count; i++) {
		struct probe_session_probe *probe = &s->probes[i];
		uint32_t slot = s->known[i].slot;

		take_count(s,
			snapshot_shared_count(
				&s->data.view, slot, offsetof(struct probe_slot, lost)),
			&probe->lost);
		if (s->known[i].part.role != PAIR_BEGIN) /* see gather_flights() */
			take_count(s,
				snapshot_shared_count(&s->data.view, slot,
					offsetof(struct probe_slot, unmatched)),
				&probe->unmatched);
	}
}

struct probe_error *session_check_there(const struct probe_session *s)
{
	if (s->remains.dead || s->data.view.base || probe_target_alive(s->target))
		return NULL;
	return probe_error_new(PROBE_ERROR_NOT_FOUND,
		"process %d has ended, and with it what it had gathered", s->target->pid);
}

struct probe_error *probe_session_rows(
	struct probe_session *session, struct probe_row **ret, size_t *count_ret)
{
	struct probe_error *error = session_check_there(session);
	const struct asked *asked = &session->asked;
	struct view_keys parts = keys_of_view(session);
	AUTO_FREE uint64_t *in_flight = NULL;
	bool has_names = asked->ustack, added = true;
	struct merger m = {0};

	if (error)
		return error;
	*ret = NULL;
	/* Read the modules before rows, because names are read once. */
	for (size_t i = 0; i < asked->key_count; i++)
		has_names |= asked->key_symbol[i];
	if (has_names)
		session_names_refresh(&session->names);
	if (session->options.kind != PROBE_SESSION_GATHER) {
		*count_ret = 0;
		*ret = malloc(1);
		return *ret ? NULL : probe_error_no_memory();
	}
	in_flight = gather_flights(session);
	added = in_flight && merger_init(&m, session);
	/* Without keys, each probe that can have hits has a row. */
	for (size_t i = 0; i < session->probe_count && !m.key_count && added; i++)
		added = session->known[i].part.role == PAIR_BEGIN || row_of(&m, i, NULL, 0);
	if (added && snapshot_cells(&session->data.view, &parts, merge_cell, &m)) {
		/* Read the clock last, so that no hit is later than it. */
		clock_sync(&session->clock);
		for (size_t i = 0; i < session->probe_count; i++)
			session->probes[i].hits = 0;
		for (size_t i = 0; i < m.count; i++)
			session->probes[m.rows[i]->probe].hits += m.rows[i]->count;
		session_count_lost(session);
		*ret = pack(&m, clock_tick_ns(&session->clock), in_flight, count_ret);
	}
	map_clear(&m.by_key);
	free(m.rows);
	buffer_deinit(&m.shown);
	free(m.probe_of);
	return *ret ? NULL : probe_error_no_memory();
}

/* ==== Counts ================================================================================== */

enum { COUNTING_SHARE = 50 };

/* Counts a session's hits. The longer this takes, the less often it is done. */
static void count_gathered(struct probe_session *s)
{
	const struct view_keys keys = keys_of_view(s);
	uint64_t before = clock_monotonic_ns(), after;
	AUTO_FREE uint64_t *hits = NULL;

	if (before < s->data.count_again_ns && !s->stopped)
		return;
	hits = snapshot_hits(&s->data.view, &keys);
	/* If memory is short, the older counts stay. */
	for (size_t i = 0; hits && i < s->probe_count; i++)
		if (s->known[i].slot < s->data.view.layout.slot_capacity)
			s->probes[i].hits = hits[s->known[i].slot];
	after = clock_monotonic_ns();
	s->data.count_again_ns = after + COUNTING_SHARE * (after - before);
}

void session_update_counts(struct probe_session *s)
{
	AUTO_FREE uint64_t *flights = NULL;

	session_count_lost(s);
	for (size_t i = 0; i < s->probe_count; i++) {
		struct probe_session_probe *probe = &s->probes[i];

		if (s->options.kind == PROBE_SESSION_COUNT)
			probe->hits = snapshot_sum_hits(&s->data.view, s->known[i].slot);
		else if (s->options.kind == PROBE_SESSION_RECORD)
			probe->hits = s->known[i].consumed + probe->lost;
	}
	if (s->options.kind == PROBE_SESSION_GATHER)
		count_gathered(s);
	/* Open pairs are counted once the session has stopped. */
	if (!session_has_pairs(s) || !s->stopped || s->pairs.open_counted)
		return;
	flights = gather_flights(s);
	for (size_t i = 0; flights && i < s->probe_count; i++)
		if (s->known[i].part.role == PAIR_END)
			s->probes[i].in_flight = flights[s->known[i].part.pair];
	s->pairs.open_counted = flights != NULL;
}

/* ==== Start events without an end ============================================================= */

/*
 * Removes start events that will have no end, where forked children share their table
 * (arch_flights). If a process is killed in between, the entry stays, because no stub notices the
 * end; in a long trace, such entries would fill the table.
 *
 * So when half of the table is used, entries of threads that are gone get the depth 0, and any
 * thread may take them. A new thread with the same id keeps an entry. Removed start events still
 * count as in flight. Entries with the program's keys (--match) belong to no thread, and stay.
 *
 * Entries have the kernel's thread ids, except in a child of clone(2) without libc, which has its
 * parent's, and in pid namespaces made by children. If no thread of the machine has such an id, a
 * living thread's entry is removed, and its next end event has no start event.
 */

enum { LOOK_NS = 250 * 1000 * 1000 };

struct flights_scan {
	struct probe_session *session;
	uint32_t used;
	bool give_back;
};

/* Sets the depth of an entry to 0 if its thread is gone. */
static void look_at(void *data, uint64_t offset, const struct probe_flight *flight)
{
	struct flights_scan *look = data;
	struct probe_session *s = look->session;
	uint32_t pair = flight->state - FLIGHT_PAIR;
	uint64_t open, seen;

	look->used++;
	if (!look->give_back || pair >= s->pairs.left_count || !flight->tid ||
		getpgid((pid_t)flight->tid) >= 0 || errno != ESRCH)
		return;
	open = snapshot_open_begins(&s->data.view, offset, flight);
	/* State and depth are compared as one word (arch/stub/flight_entries.c). */
	seen = (uint64_t)flight->depth << 32 | flight->state;
	if (atomic_compare_exchange_strong(
		    (_Atomic uint64_t *)(s->data.rings.base + offset), &seen, flight->state))
		s->pairs.left[pair] += open;
}

void session_give_back_flights(struct probe_session *s)
{
	struct flights_scan look = {.session = s};
	uint64_t now = clock_monotonic_ns(), *left;

	if (!s->options.follow_children || !session_has_pairs(s) || s->options.gather.match ||
		s->processes.foreign || now < s->pairs.look_again_ns)
		return;
	s->pairs.look_again_ns = now + LOOK_NS;
	snapshot_walk_flights(&s->data.view, look_at, &look);
	if (look.used < s->data.view.layout.flight_entries / 2)
		return;
	/* If there is no memory to count removed start events, none of that pair is removed. */
	left = s->pairs.count > s->pairs.left_count
		       ? reallocarray(s->pairs.left, s->pairs.count, sizeof(*left))
		       : NULL;
	if (left) {
		s->pairs.left = left;
		while (s->pairs.left_count < s->pairs.count)
			left[s->pairs.left_count++] = 0;
	}
	look.give_back = true;
	snapshot_walk_flights(&s->data.view, look_at, &look);
}
