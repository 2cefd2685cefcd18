/* SPDX-License-Identifier: MIT */
/*
 * A stub keeps what it knows: the bytes of a string, or of its normal form, and addresses. Rows
 * have what people tell apart: functions. So several entries may be one row. Their number is
 * bounded by that of the addresses in the program's code; that of texts would not be.
 *
 *	parts	word, word, ...   bytes of strings, each padded to 8
 *	key	word, word, ...   the same; a stack has the names of its functions, a line for each,
 *				  an address of code and the probe have their names
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/frame_text.h"
#include "libprobe/session/session.h"

struct view_keys keys_of_view(const struct probe_session *s)
{
	return (struct view_keys){.is_string = s->asked.parts.is_string,
		.count = s->asked.parts.count,
		.string_bytes = s->asked.parts.string_bytes};
}

/* Where the reader is in the parts of an entry. */
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

/* The bytes of a string, whose word has their number. */
static const uint8_t *next_bytes(struct reading *r, uint64_t word)
{
	const uint8_t *bytes = r->bytes;

	r->bytes += (ring_string_length(word) + UINT64_C(7)) & ~UINT64_C(7);
	return bytes;
}

/* ---- Names ------------------------------------------------------------------------------ */

/*
 * What the text of a stack or of an address was when it was first read stays: libraries are closed,
 * and generated code gets other names, but what was counted up to an interval has to be found in
 * the next one.
 */
struct kept_text {
	const uint8_t *raw; /* an address; or of a stack the site, the caller, return addresses */
	size_t raw_bytes, length;
	uint8_t bytes[]; /* both, if it is kept */
};

enum { NAME_BYTES = 8, STACK_BYTES = 16 /* and return addresses */ };

static int compare_texts(const void *a, const void *b)
{
	const struct kept_text *left = a, *right = b;

	if (left->raw_bytes != right->raw_bytes)
		return left->raw_bytes < right->raw_bytes ? -1 : 1;
	return memcmp(left->raw, right->raw, left->raw_bytes);
}

static void print_name(struct buffer *out, const struct probe_session *s, const uint8_t *raw)
{
	char room[SESSION_NAME_ROOM];
	uint64_t address;

	memcpy(&address, raw, sizeof(address));
	buffer_string(out, session_name(s, address, room));
}

static void print_stack(
	struct buffer *out, const struct probe_session *s, const uint8_t *raw, size_t raw_bytes)
{
	struct probe_stack stack;
	struct probe_error *error;
	uint64_t site, caller;

	memcpy(&site, raw, sizeof(site));
	memcpy(&caller, raw + 8, sizeof(caller));
	error = unwinder_frames(s->unwinder, site, caller, raw + STACK_BYTES,
		(raw_bytes - STACK_BYTES) / 8, &stack);
	if (!error)
		frame_text_stack(out, &stack);
	out->no_memory |= error != NULL;
	probe_error_free(error);
}

/* Keeps a text; NULL without memory. */
static const struct kept_text *keep_text(struct probe_session *s, const struct kept_text *wanted)
{
	struct buffer text = {0};
	struct kept_text *kept = NULL;

	if (wanted->raw_bytes == NAME_BYTES)
		print_name(&text, s, wanted->raw);
	else
		print_stack(&text, s, wanted->raw, wanted->raw_bytes);
	if (!text.no_memory)
		kept = malloc(sizeof(*kept) + wanted->raw_bytes + text.length);
	if (kept) {
		*kept = (struct kept_text){kept->bytes, wanted->raw_bytes, text.length};
		memcpy(kept->bytes, wanted->raw, wanted->raw_bytes);
		if (text.length)
			memcpy(kept->bytes + kept->raw_bytes, text.data, text.length);
		if (!tsearch(kept, &s->key_texts, compare_texts)) {
			free(kept);
			kept = NULL;
		}
	}
	buffer_deinit(&text);
	return kept;
}

static void put_text(
	struct buffer *out, struct probe_session *s, const uint8_t *raw, size_t raw_bytes)
{
	const struct kept_text wanted = {.raw = raw, .raw_bytes = raw_bytes};
	const struct kept_text *const *found = tfind(&wanted, &s->key_texts, compare_texts);
	const struct kept_text *text = found ? *found : keep_text(s, &wanted);

	if (text)
		buffer_bytes(out, (const char *)text->bytes + raw_bytes, text->length);
	out->no_memory |= !text;
}

static void put_name(struct buffer *out, struct probe_session *s, struct reading *r)
{
	uint64_t address = next_word(r);

	put_text(out, s, (const uint8_t *)&address, NAME_BYTES);
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

void keys_deinit(struct probe_session *session)
{
	tdestroy(session->key_texts, free);
	session->key_texts = NULL;
}

/* ---- Keys ------------------------------------------------------------------------------- */

static void put_probe(struct buffer *out, const struct probe_session_probe *probe)
{
	buffer_string(out, probe->provider);
	buffer_char(out, ':');
	buffer_string(out, probe->name);
}

/* Adds the bytes of a key that is no number, and returns its word. */
static uint64_t put_bytes(
	struct probe_session *s, size_t probe, size_t i, struct reading *r, struct buffer *out)
{
	size_t start = out->length;
	uint64_t word = 0;

	if (s->asked.key_word[i] == EXPR_USTACK) {
		put_stack(out, s, r);
	} else if (s->asked.key_word[i] == EXPR_PROBE) {
		put_probe(out, &s->probes[probe]);
	} else if (s->asked.key_symbol[i]) {
		put_name(out, s, r);
	} else {
		word = next_word(r);
		buffer_bytes(out, (const char *)next_bytes(r, word), ring_string_length(word));
	}
	word = (word & ~(uint64_t)RING_STRING_LENGTH) | (uint32_t)(out->length - start);
	while (out->length % 8 && !out->no_memory)
		buffer_char(out, '\0');
	return word;
}

void keys_refresh(struct probe_session *session)
{
	const struct asked *asked = &session->asked;
	bool named = asked->ustack;

	for (size_t i = 0; i < asked->key_count; i++)
		named |= asked->key_symbol[i];
	if (named)
		session_stack_refresh(session);
}

/* Is a key something else than its part? */
static bool differs(const struct asked *asked)
{
	for (size_t i = 0; i < asked->key_count; i++)
		if (asked->key_symbol[i] || asked->key_word[i] == EXPR_USTACK ||
			asked->key_word[i] == EXPR_PROBE)
			return true;
	return false;
}

bool keys_show(struct probe_session *s, size_t probe, const uint8_t *parts, struct buffer *room,
	const uint8_t **ret, size_t *bytes_ret)
{
	const struct asked *asked = &s->asked;
	const struct view_keys keys = keys_of_view(s);
	struct reading reading = {parts, parts ? parts + 8 * keys.count : NULL};
	size_t words = 8 * asked->key_count;

	*ret = parts;
	*bytes_ret = parts ? snapshot_key_bytes(&keys, parts) : 0;
	if (!differs(asked))
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

static struct probe_value number_of(const struct bound_types *types, size_t i, uint64_t word)
{
	struct probe_value value = {
		.kind = types->key_signed[i] ? PROBE_VALUE_SIGNED : PROBE_VALUE_UNSIGNED,
		.u = word};

	if (types->key_double[i]) {
		value.kind = PROBE_VALUE_FLOAT;
		memcpy(&value.f, &word, sizeof(value.f));
	}
	return value;
}

void keys_values(const struct probe_session *session, size_t probe, const uint8_t *key,
	struct probe_value *ret)
{
	const struct asked *asked = &session->asked;
	struct reading reading = {key, key + 8 * asked->key_count};

	for (size_t i = 0; i < asked->key_count; i++) {
		uint64_t word = next_word(&reading);

		if (!asked->key_string[i]) {
			ret[i] = number_of(&session->known[probe].types, i, word);
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
