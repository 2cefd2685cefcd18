/* SPDX-License-Identifier: MIT */
/*
 * Parses bytes from a terminal into keys. Sources: ECMA-48 5.4 (CSI sequences: parameters
 * 0x30-0x3f, then 0x20-0x2f, then one final byte 0x40-0x7e), and xterm's keys.
 */
#include <string.h>

#include "cli/top/top.h"
#include "libprobe/base/utf8.h"

enum { ESCAPE = 0x1b };

size_t keys_add(struct top_keys *keys, const char *bytes, size_t count)
{
	size_t room = sizeof(keys->bytes) - keys->count;

	if (count > room)
		count = room;
	memcpy(keys->bytes + keys->count, bytes, count);
	keys->count += count;
	return count;
}

static void drop(struct top_keys *keys, size_t count)
{
	keys->count -= count;
	memmove(keys->bytes, keys->bytes + count, keys->count);
}

/* ---- Escape sequences -------------------------------------------------------------- */

static const struct {
	const char *sequence; /* the bytes of a sequence after its escape */
	enum top_key_kind kind;
} sequences[] = {
	{"[A", TOP_KEY_UP},
	{"OA", TOP_KEY_UP},
	{"[B", TOP_KEY_DOWN},
	{"OB", TOP_KEY_DOWN},
	{"[5~", TOP_KEY_PAGE_UP},
	{"[6~", TOP_KEY_PAGE_DOWN},
	{"[H", TOP_KEY_HOME},
	{"OH", TOP_KEY_HOME},
	{"[1~", TOP_KEY_HOME},
	{"[7~", TOP_KEY_HOME},
	{"[F", TOP_KEY_END},
	{"OF", TOP_KEY_END},
	{"[4~", TOP_KEY_END},
	{"[8~", TOP_KEY_END},
};

/* Returns the length of the escape sequence at the start, or 0 if it is incomplete. */
static size_t sequence_length(const struct top_keys *keys)
{
	if (keys->count < 2)
		return 0;
	if (keys->bytes[1] == 'O')
		return keys->count < 3 ? 0 : 3;
	if (keys->bytes[1] != '[')
		return 1;
	for (size_t i = 2; i < keys->count; i++) {
		unsigned char c = (unsigned char)keys->bytes[i];

		if (c >= 0x40 && c <= 0x7e)
			return i + 1;
		if (c < 0x20 || c > 0x3f)
			return i; /* this is not a sequence, so the byte is a key of its own */
	}
	/* No key has a sequence as long as the buffer, so drop the whole buffer. */
	return keys->count == sizeof(keys->bytes) ? keys->count : 0;
}

static bool sequence_key(const struct top_keys *keys, size_t length, struct top_key *ret)
{
	for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
		if (strlen(sequences[i].sequence) != length - 1 ||
			memcmp(sequences[i].sequence, keys->bytes + 1, length - 1) != 0)
			continue;
		ret->kind = sequences[i].kind;
		return true;
	}
	return false;
}

/* ---- Keys -------------------------------------------------------------------------- */

static bool control_key(char c, struct top_key *ret)
{
	switch (c) {
	case '\r':
	case '\n':
		ret->kind = TOP_KEY_ENTER;
		return true;
	case '\b':
	case 0x7f:
		ret->kind = TOP_KEY_ERASE;
		return true;
	case 'U' & 0x1f:
		ret->kind = TOP_KEY_CLEAR;
		return true;
	case 'L' & 0x1f:
		ret->kind = TOP_KEY_REDRAW;
		return true;
	default:
		return false;
	}
}

/* Returns true if the bytes begin a UTF-8 character whose rest is missing. */
static bool is_begin_of_character(const struct top_keys *keys)
{
	unsigned char first = (unsigned char)keys->bytes[0];
	size_t need = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;

	if (first < 0xc2 || first > 0xf4 || keys->count >= need)
		return false;
	for (size_t i = 1; i < keys->count; i++)
		if ((keys->bytes[i] & 0xc0) != 0x80)
			return false;
	return true;
}

/* Takes a key or unknown sequence. Sets *length_ret to its length, or 0 if it is incomplete. */
static bool take(const struct top_keys *keys, bool all, struct top_key *ret, size_t *length_ret)
{
	size_t length;

	*ret = (struct top_key){.kind = TOP_KEY_TEXT};
	if (keys->bytes[0] == ESCAPE) {
		length = sequence_length(keys);
		if (length > 1) {
			*length_ret = length;
			return sequence_key(keys, length, ret);
		}
		*length_ret = length || all;
		ret->kind = TOP_KEY_ESCAPE;
		return *length_ret;
	}
	length = utf8_character(keys->bytes, keys->count);
	if (!length) {
		*length_ret = !is_begin_of_character(keys) || all;
		return false;
	}
	*length_ret = length;
	if (length == 1 && ((unsigned char)keys->bytes[0] < ' ' || keys->bytes[0] == 0x7f))
		return control_key(keys->bytes[0], ret);
	memcpy(ret->text, keys->bytes, length);
	return true;
}

bool keys_next(struct top_keys *keys, bool all, struct top_key *ret)
{
	while (keys->count) {
		size_t length;
		bool found = take(keys, all, ret, &length);

		drop(keys, length);
		if (found)
			return true;
		if (!length)
			return false;
	}
	return false;
}
