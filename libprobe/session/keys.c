/* SPDX-License-Identifier: MIT */
/*
 * A key is a word for each part, followed by the bytes of its strings, each padded to 8 bytes; the
 * word of a string is its length, and flags (ring.md).
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/expr/norm.h"
#include "libprobe/session/keys.h"

enum { NAME_BYTES_MAX = 1024 /* of a name: C++ has longer ones */ };

void shown_keys_deinit(struct shown_keys *shown)
{
	free(shown->bytes);
}

bool keys_shown_as_string(const struct probe_session *session, size_t part)
{
	return session->asked.key_string[part] || session->asked.key_symbol[part];
}

static size_t padded(size_t length)
{
	return (length + 7) & ~(size_t)7;
}

static bool make_room(struct shown_keys *shown, size_t size)
{
	uint8_t *wider = size > shown->size ? realloc(shown->bytes, size) : shown->bytes;

	if (!wider)
		return false;
	if (size > shown->size)
		shown->size = size;
	shown->bytes = wider;
	return true;
}

/* Returns the bytes of an address's name, and sets its word. */
static uint32_t put_name(
	const struct probe_session *session, uint64_t address, uint8_t *to, uint64_t *word_ret)
{
	char room[SESSION_NAME_ROOM];
	const char *name = session_name(session, address, room);
	uint32_t length = (uint32_t)strnlen(name, NAME_BYTES_MAX);

	memcpy(to, name, length);
	*word_ret = length | (uint64_t)(name[length] != '\0') << RING_STRING_TRUNCATED_BIT;
	return length;
}

bool keys_show(struct shown_keys *shown, const uint8_t **key, size_t *bytes)
{
	const struct asked *asked = &shown->session->asked;
	size_t count = shown->session->options.gather.key_count, names = 0, others = 0;
	const uint8_t *text = *key + 8 * count;
	uint8_t *to;

	for (size_t i = 0; i < count; i++) {
		names += asked->key_symbol[i];
		others += asked->key_norm[i];
	}
	if (!names && !others)
		return true;
	if (!make_room(shown, *bytes + names * NAME_BYTES_MAX))
		return false;
	to = shown->bytes + 8 * count;
	for (size_t i = 0; i < count; i++) {
		uint32_t length = 0, shorter;
		uint64_t word;

		memcpy(&word, *key + 8 * i, sizeof(word));
		if (asked->key_string[i])
			length = (uint32_t)word;
		shorter = length;
		if (asked->key_symbol[i])
			shorter = put_name(shown->session, word, to, &word);
		else if (asked->key_norm[i])
			shorter = (uint32_t)norm_text(text, length, to);
		else
			memcpy(to, text, length);
		if (asked->key_norm[i])
			word = (word & ~(uint64_t)UINT32_MAX) | shorter;
		memset(to + shorter, 0, padded(shorter) - shorter);
		memcpy(shown->bytes + 8 * i, &word, sizeof(word));
		text += padded(length);
		to += padded(shorter);
	}
	*key = shown->bytes;
	*bytes = (size_t)(to - shown->bytes);
	return true;
}
