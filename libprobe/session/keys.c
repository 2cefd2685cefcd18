/* SPDX-License-Identifier: MIT */
/*
 * A stub keeps what is cheap to tell apart: the bytes of a string, return addresses. Rows have what
 * people tell apart: normal forms of texts, functions. So several entries may be one row.
 *
 *	parts	word, word, ...   bytes of strings, each padded to 8
 *	key	word, word, ...   the same; a stack has the names of its functions, a line for each,
 *				  an address of code and the probe have their names
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/expr/norm.h"
#include "libprobe/session/frame_text.h"
#include "libprobe/session/keys.h"

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

/* The bytes of a string, whose word has their number in its lower half; the upper one has flags. */
static const uint8_t *next_bytes(struct reading *r, uint64_t word)
{
	const uint8_t *bytes = r->bytes;

	r->bytes += ((uint32_t)word + UINT64_C(7)) & ~UINT64_C(7);
	return bytes;
}

static void put_norm(struct buffer *out, const uint8_t *text, uint32_t length)
{
	uint8_t *to = (uint8_t *)buffer_reserve(out, length + 1);

	if (!to)
		return;
	out->length += norm_text(text, length, to);
}

/* ---- Stacks ----------------------------------------------------------------------------- */

/*
 * What the text of a stack was when it was first read stays: libraries are closed, and generated
 * code gets other names, but what was counted up to an interval has to be found in the next one.
 */
struct stack_text {
	size_t raw_bytes, length;
	uint8_t raw[16 + 8 * ARCH_FRAMES_MAX]; /* the site, the caller, return addresses */
	char text[];
};

static int compare_stacks(const void *a, const void *b)
{
	const struct stack_text *left = a, *right = b;

	if (left->raw_bytes != right->raw_bytes)
		return left->raw_bytes < right->raw_bytes ? -1 : 1;
	return memcmp(left->raw, right->raw, left->raw_bytes);
}

static bool print_stack(
	struct buffer *out, struct probe_session *s, const struct stack_text *wanted)
{
	struct probe_stack stack;
	struct probe_error *error;
	uint64_t site, caller;

	memcpy(&site, wanted->raw, sizeof(site));
	memcpy(&caller, wanted->raw + 8, sizeof(caller));
	error = unwinder_frames(
		s->unwinder, site, caller, wanted->raw + 16, (wanted->raw_bytes - 16) / 8, &stack);
	if (!error)
		frame_text_stack(out, &stack);
	out->no_memory |= error != NULL;
	probe_error_free(error);
	return !out->no_memory;
}

/* Keeps the text of a stack; NULL without memory. */
static const struct stack_text *keep_stack(struct probe_session *s, const struct stack_text *wanted)
{
	struct buffer text = {0};
	struct stack_text *kept = NULL;

	if (print_stack(&text, s, wanted))
		kept = malloc(sizeof(*kept) + text.length);
	if (kept) {
		*kept = *wanted;
		kept->length = text.length;
		memcpy(kept->text, text.data, text.length);
		if (!tsearch(kept, &s->stack_texts, compare_stacks)) {
			free(kept);
			kept = NULL;
		}
	}
	buffer_deinit(&text);
	return kept;
}

static void put_stack(struct buffer *out, struct probe_session *s, struct reading *r)
{
	uint64_t returns = next_word(r), site = next_word(r), caller = next_word(r);
	const uint8_t *bytes = next_bytes(r, returns);
	size_t length = (uint32_t)returns & ~UINT32_C(7);
	struct stack_text wanted = {0};
	const struct stack_text *const *found, *text;

	if (length > 8 * ARCH_FRAMES_MAX)
		length = 8 * ARCH_FRAMES_MAX;
	wanted.raw_bytes = 16 + length;
	memcpy(wanted.raw, &site, sizeof(site));
	memcpy(wanted.raw + 8, &caller, sizeof(caller));
	memcpy(wanted.raw + 16, bytes, length);
	found = tfind(&wanted, &s->stack_texts, compare_stacks);
	text = found ? *found : keep_stack(s, &wanted);
	if (text)
		buffer_bytes(out, text->text, text->length);
	out->no_memory |= !text;
}

void keys_deinit(struct probe_session *session)
{
	tdestroy(session->stack_texts, free);
	session->stack_texts = NULL;
}

/* ---- Keys ------------------------------------------------------------------------------- */

static void put_name(struct buffer *out, const struct probe_session *s, uint64_t address)
{
	char room[SESSION_NAME_ROOM];

	buffer_string(out, session_name(s, address, room));
}

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
		put_name(out, s, next_word(r));
	} else {
		word = next_word(r);
		if (s->asked.key_norm[i])
			put_norm(out, next_bytes(r, word), (uint32_t)word);
		else
			buffer_bytes(out, (const char *)next_bytes(r, word), (uint32_t)word);
	}
	word = (word >> 32 << 32) | (uint32_t)(out->length - start);
	while (out->length % 8 && !out->no_memory)
		buffer_char(out, '\0');
	return word;
}

/* Is a key something else than its part? */
static bool differs(const struct asked *asked)
{
	for (size_t i = 0; i < asked->key_count; i++)
		if (asked->key_norm[i] || asked->key_symbol[i] ||
			asked->key_word[i] == EXPR_USTACK || asked->key_word[i] == EXPR_PROBE)
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
			.length = (uint32_t)word};
	}
}
