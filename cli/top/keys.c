/* SPDX-License-Identifier: MIT */
/*
 * The keys of `probectl top`, and what they do.
 *
 * Parses bytes from a terminal into keys. Sources: ECMA-48 5.4 (CSI sequences: parameters
 * 0x30-0x3f, then 0x20-0x2f, then one final byte 0x40-0x7e), and xterm's keys.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/top.h"
#include "libprobe/base/utf8.h"
#include "probe/sink.h"

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
	bool found = false;
	size_t length = 1;

	while (keys->count && length && !found) {
		found = take(keys, all, ret, &length);
		keys->count -= length;
		memmove(keys->bytes, keys->bytes + length, keys->count);
	}
	return found;
}

/* ==== Commands ================================================================================ */

enum {
	ESCAPE_NS = 50 * NSEC_PER_MSEC, /* maximum time between two bytes of one key */
	MESSAGE_S = 5			/* minimum time for which a message is shown */
};

void top_say(struct top *top, const char *format, ...)
{
	va_list values;

	free(top->message);
	top->message = NULL;
	top->message_ns = UINT64_MAX;
	if (!format)
		return;
	va_start(values, format);
	/* On lack of memory, no message is shown. */
	if (vasprintf(&top->message, format, values) < 0)
		top->message = NULL;
	else
		top->message_ns = clock_monotonic_ns() + (uint64_t)MESSAGE_S * NSEC_PER_SEC;
	va_end(values);
}

/* ---- The filter -------------------------------------------------------------------- */

static void set_filter(struct top *top, const char *text)
{
	if (!model_set_filter(&top->model, text) && !top->view.editing)
		top_say(top, "'%s' is not a PROBE; searching for it as text", text);
}

/* Changes the filter while the user edits it. Returns false if the key has no meaning there. */
static bool edit(struct top *top, const struct top_key *key)
{
	char text[TOP_FILTER_BYTES];
	size_t length;

	strcpy(text, top->model.filter);
	length = strlen(text);
	switch (key->kind) {
	case TOP_KEY_TEXT:
		if (length + strlen(key->text) < sizeof(text))
			strcat(text, key->text);
		break;
	case TOP_KEY_ERASE:
		/* Remove the last character with all its bytes. */
		while (length && ((unsigned char)text[--length] & 0xc0) == 0x80)
			;
		text[length] = '\0';
		break;
	case TOP_KEY_CLEAR:
		text[0] = '\0';
		break;
	case TOP_KEY_ESCAPE:
		text[0] = '\0';
		top->view.editing = false;
		break;
	case TOP_KEY_ENTER:
		top->view.editing = false;
		break;
	default:
		return false;
	}
	set_filter(top, text);
	return true;
}

/* ---- Switching --------------------------------------------------------------------- */

/* Switches the target's probes as the rows say. */
static void apply(struct top *top)
{
	struct probe_error *error = source_switch(top->source);
	char stop[PROBE_DURATION_BYTES];

	probe_duration_text(stop, (double)top->source->stop_ns);
	if (error)
		top_say(top, "%s", error->message);
	else
		top_say(top, "done; the process was stopped for %s", stop);
	probe_error_free(error);
	model_arrange(&top->model);
}

/* Returns the probe's own row. `index` may be that of a row with a key. */
static struct top_row *probe_of(struct top *top, size_t index)
{
	const struct top_row *row = &top->model.rows[index];

	return model_find(&top->model, row->provider, row->name);
}

static void toggle(struct top *top)
{
	struct top_row *row;

	/* A selected row may be hidden by the filter. */
	if (model_cursor(&top->model) == SIZE_MAX) {
		top_say(top, "no probe is selected; the arrow keys move the cursor");
		return;
	}
	row = probe_of(top, top->model.selected);
	row->on = !row->on;
	apply(top);
}

/* ---- Commands ---------------------------------------------------------------------- */

/* Changes to the next longer or the next shorter interval in the list. */
static void change_interval(struct top *top, bool longer)
{
	static const uint64_t all_ms[] = {100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};
	const size_t count = sizeof(all_ms) / sizeof(all_ms[0]);
	uint64_t now = top->view.interval_ns, next = now;

	for (size_t i = 0; i < count; i++) {
		uint64_t ns = all_ms[longer ? count - 1 - i : i] * NSEC_PER_MSEC;

		if (longer ? ns > now : ns < now)
			next = ns;
	}
	top->view.interval_ns = top->looks.every_ns = next;
	if (top->looks.next_ns > now)
		top->looks.next_ns += next - now;
}

static void command(struct top *top, char c)
{
	/* The keys of the orders, as in enum top_order. */
	static const char orders[TOP_ORDER_COUNT] = {'r', 't', 'm', '9', 's', 'n'};
	const char *order = memchr(orders, c, sizeof(orders));
	struct top_model *model = &top->model;

	if (order) {
		model->order = (enum top_order)(order - orders);
		model->reversed = false;
		model_arrange(model);
		return;
	}
	switch (c) {
	case 'q':
		top->events.over = true;
		break;
	case '?':
	case 'h':
		top->view.help = true;
		break;
	case '/':
		top->view.editing = true;
		break;
	case ' ':
		toggle(top);
		break;
	case 'A':
	case 'O':
		for (size_t i = 0; i < model->shown_count; i++)
			probe_of(top, model->shown[i])->on = c == 'A';
		apply(top);
		break;
	case 'R':
		model->reversed = !model->reversed;
		model_arrange(model);
		break;
	case 'c':
		model->since_start = !model->since_start;
		model_arrange(model);
		break;
	case 'p':
		top->view.paused = !top->view.paused;
		break;
	case 'j':
	case 'k':
		model_move(model, c == 'j' ? 1 : -1);
		break;
	case '+':
	case '-':
		change_interval(top, c == '+');
		break;
	default:
		break;
	}
}

static void move(struct top *top, enum top_key_kind kind)
{
	long page = (long)draw_rows(&top->view), all = (long)top->model.shown_count;

	switch (kind) {
	case TOP_KEY_UP:
	case TOP_KEY_DOWN:
		model_move(&top->model, kind == TOP_KEY_DOWN ? 1 : -1);
		break;
	case TOP_KEY_PAGE_UP:
	case TOP_KEY_PAGE_DOWN:
		model_move(&top->model, kind == TOP_KEY_PAGE_DOWN ? page : -page);
		break;
	case TOP_KEY_HOME:
	case TOP_KEY_END:
		model_move(&top->model, kind == TOP_KEY_END ? all : -all);
		break;
	case TOP_KEY_REDRAW:
		top->redraws = true;
		break;
	case TOP_KEY_ESCAPE:
		if (top->model.selected != SIZE_MAX)
			top->model.selected = SIZE_MAX;
		else
			set_filter(top, "");
		break;
	default:
		break;
	}
}

void top_take_keys(struct top *top, bool all)
{
	struct top_key key;

	while (keys_next(&top->keys, all, &key) && !top->events.over) {
		top_say(top, NULL);
		if (top->view.help)
			top->view.help = false;
		else if (top->view.editing && edit(top, &key))
			continue;
		else if (key.kind == TOP_KEY_TEXT)
			command(top, key.text[0]);
		else
			move(top, key.kind);
	}
	top->escape_ns = top->keys.count ? clock_monotonic_ns() + ESCAPE_NS : UINT64_MAX;
}
