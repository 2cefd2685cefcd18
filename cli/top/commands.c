/* SPDX-License-Identifier: MIT */
/* What the keys of `probectl top` do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/top.h"
#include "probe/sink.h"

static const uint64_t intervals_ms[] = {100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};

enum { INTERVALS = sizeof(intervals_ms) / sizeof(intervals_ms[0]) };

/* Without memory, there is no message. */
static void say(struct top *top, const char *format, const char *what)
{
	char *text = NULL;

	if (asprintf(&text, format, what) < 0)
		text = NULL;
	top_say(top, text);
}

/* ---- The filter -------------------------------------------------------------------- */

static void set_filter(struct top *top, const char *text)
{
	if (!model_set_filter(&top->model, text) && !top->view.editing)
		say(top, "'%s' is not a PROBE; searching for it as text", text);
}

/* Takes the last character off. */
static void erase(char *text)
{
	size_t length = strlen(text);

	while (length && ((unsigned char)text[--length] & 0xc0) == 0x80)
		;
	text[length] = '\0';
}

/* False: the key has no meaning here. */
static bool edit(struct top *top, const struct top_key *key)
{
	char text[TOP_FILTER_BYTES];

	strcpy(text, top->model.filter);
	switch (key->kind) {
	case TOP_KEY_TEXT:
		if (strlen(text) + strlen(key->text) < sizeof(text))
			strcat(text, key->text);
		break;
	case TOP_KEY_ERASE:
		erase(text);
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

/* Makes the target what the rows say. */
static void apply(struct top *top)
{
	struct probe_error *error = source_switch(top->source, &top->model);
	char stop[PROBE_DURATION_BYTES];

	probe_duration_text(stop, (double)source_stop_ns(top->source));
	if (error)
		say(top, "%s", error->message);
	else
		say(top, "done; the process was stopped for %s", stop);
	probe_error_free(error);
	model_arrange(&top->model);
}

/* The probe that was under the cursor may be hidden by the filter. */
static bool is_selected(struct top *top)
{
	if (model_cursor(&top->model) != SIZE_MAX)
		return true;
	say(top, "%s", "no probe is selected; the arrow keys move the cursor");
	return false;
}

/* The row of the probe that a row belongs to. */
static struct top_row *probe_of(struct top *top, size_t index)
{
	const struct top_row *row = &top->model.rows[index];

	return model_find(&top->model, row->provider, row->name);
}

static void toggle(struct top *top)
{
	struct top_row *row;

	if (!is_selected(top))
		return;
	row = probe_of(top, top->model.selected);
	row->on = !row->on;
	apply(top);
}

static void switch_shown(struct top *top, bool on)
{
	for (size_t i = 0; i < top->model.shown_count; i++)
		probe_of(top, top->model.shown[i])->on = on;
	apply(top);
}

/* ---- Commands ---------------------------------------------------------------------- */

static void set_order(struct top *top, enum top_order order)
{
	top->model.order = order;
	top->model.reversed = false;
	model_arrange(&top->model);
}

/* The next interval of the list that is longer, or shorter. */
static void change_interval(struct top *top, bool longer)
{
	uint64_t now = top->view.interval_ns, next = now;

	for (size_t i = 0; i < INTERVALS; i++) {
		uint64_t ns = intervals_ms[longer ? INTERVALS - 1 - i : i] * NSEC_PER_MSEC;

		if (longer ? ns > now : ns < now)
			next = ns;
	}
	top->view.interval_ns = top->looks.every_ns = next;
	if (top->looks.next_ns > now)
		top->looks.next_ns += next - now;
}

static void toggle_flag(struct top *top, bool *flag)
{
	*flag = !*flag;
	model_arrange(&top->model);
}

static void command(struct top *top, char c)
{
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
		switch_shown(top, c == 'A');
		break;
	case 'r':
		set_order(top, TOP_ORDER_RATE);
		break;
	case 't':
		set_order(top, TOP_ORDER_TOTAL);
		break;
	case 'm':
		set_order(top, TOP_ORDER_P50);
		break;
	case '9':
		set_order(top, TOP_ORDER_P99);
		break;
	case 's':
		set_order(top, TOP_ORDER_TIME);
		break;
	case 'n':
		set_order(top, TOP_ORDER_NAME);
		break;
	case 'R':
		toggle_flag(top, &top->model.reversed);
		break;
	case 'c':
		toggle_flag(top, &top->model.since_start);
		break;
	case 'p':
		top->view.paused = !top->view.paused;
		break;
	case 'j':
	case 'k':
		model_move(&top->model, c == 'j' ? 1 : -1);
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
		model_move(&top->model, -1);
		break;
	case TOP_KEY_DOWN:
		model_move(&top->model, 1);
		break;
	case TOP_KEY_PAGE_UP:
		model_move(&top->model, -page);
		break;
	case TOP_KEY_PAGE_DOWN:
		model_move(&top->model, page);
		break;
	case TOP_KEY_HOME:
		model_move(&top->model, -all);
		break;
	case TOP_KEY_END:
		model_move(&top->model, all);
		break;
	case TOP_KEY_REDRAW:
		screen_forget(top->screen);
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

static void take_key(struct top *top, const struct top_key *key)
{
	if (top->view.help)
		top->view.help = false;
	else if (top->view.editing && edit(top, key))
		return;
	else if (key->kind == TOP_KEY_TEXT)
		command(top, key->text[0]);
	else
		move(top, key->kind);
}

void top_take_key(struct top *top, const struct top_key *key)
{
	top_say(top, NULL);
	take_key(top, key);
}
