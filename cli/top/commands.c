/* SPDX-License-Identifier: MIT */
/* What the keys of `probectl top` do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/loop.h"
#include "probe/sink.h"

static const uint64_t intervals_ms[] = {100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};

enum { INTERVALS = sizeof(intervals_ms) / sizeof(intervals_ms[0]), NSEC_PER_MSEC = 1000000 };

/* Without memory, there is no message. */
static void say(struct top_loop *loop, const char *format, const char *what)
{
	char *text = NULL;

	if (asprintf(&text, format, what) < 0)
		text = NULL;
	loop_say(loop, text);
}

/* ---- The filter -------------------------------------------------------------------- */

static void set_filter(struct top_loop *loop, const char *text)
{
	if (!model_set_filter(&loop->model, text) && !loop->view.editing)
		say(loop, "'%s' is no PROBE: it is looked for as a text", text);
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
static bool edit(struct top_loop *loop, const struct top_key *key)
{
	char text[TOP_FILTER_BYTES];

	strcpy(text, loop->model.filter);
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
		loop->view.editing = false;
		break;
	case TOP_KEY_ENTER:
		loop->view.editing = false;
		break;
	default:
		return false;
	}
	set_filter(loop, text);
	return true;
}

/* ---- Switching --------------------------------------------------------------------- */

/* Makes the target what the rows say. */
static void apply(struct top_loop *loop)
{
	struct probe_error *error = source_switch(loop->source, &loop->model);
	char stop[PROBE_DURATION_BYTES];

	probe_duration_text(stop, (double)source_stop_ns(loop->source));
	if (error)
		say(loop, "%s", error->message);
	else
		say(loop, "done; the process stood still for %s", stop);
	probe_error_free(error);
	model_arrange(&loop->model);
}

static void toggle(struct top_loop *loop)
{
	struct top_row *row;

	/* The one that was under the cursor may be hidden by the filter. */
	if (model_cursor(&loop->model) == SIZE_MAX) {
		say(loop, "%s", "which probe? The arrow keys move the cursor");
		return;
	}
	row = &loop->model.rows[loop->model.selected];
	row->on = !row->on;
	apply(loop);
}

static void switch_shown(struct top_loop *loop, bool on)
{
	for (size_t i = 0; i < loop->model.shown_count; i++)
		loop->model.rows[loop->model.shown[i]].on = on;
	apply(loop);
}

/* ---- Commands ---------------------------------------------------------------------- */

static void set_order(struct top_loop *loop, enum top_order order)
{
	loop->model.order = order;
	loop->model.reversed = false;
	model_arrange(&loop->model);
}

/* The next interval of the list that is longer, or shorter. */
static void change_interval(struct top_loop *loop, bool longer)
{
	uint64_t now = loop->view.interval_ns, next = now;

	for (size_t i = 0; i < INTERVALS; i++) {
		uint64_t ns = intervals_ms[longer ? INTERVALS - 1 - i : i] * NSEC_PER_MSEC;

		if (longer ? ns > now : ns < now)
			next = ns;
	}
	loop->view.interval_ns = next;
	if (loop->next_ns > now)
		loop->next_ns = loop->next_ns - now + next;
}

static void toggle_flag(struct top_loop *loop, bool *flag)
{
	*flag = !*flag;
	model_arrange(&loop->model);
}

static void command(struct top_loop *loop, char c)
{
	switch (c) {
	case 'q':
		loop->over = true;
		break;
	case '?':
	case 'h':
		loop->view.help = true;
		break;
	case '/':
		loop->view.editing = true;
		break;
	case ' ':
		toggle(loop);
		break;
	case 'A':
	case 'O':
		switch_shown(loop, c == 'A');
		break;
	case 'r':
		set_order(loop, TOP_ORDER_RATE);
		break;
	case 't':
		set_order(loop, TOP_ORDER_TOTAL);
		break;
	case 'm':
		set_order(loop, TOP_ORDER_P50);
		break;
	case '9':
		set_order(loop, TOP_ORDER_P99);
		break;
	case 'n':
		set_order(loop, TOP_ORDER_NAME);
		break;
	case 'R':
		toggle_flag(loop, &loop->model.reversed);
		break;
	case 'c':
		toggle_flag(loop, &loop->model.since_start);
		break;
	case 'p':
		loop->view.paused = !loop->view.paused;
		break;
	case '+':
	case '-':
		change_interval(loop, c == '+');
		break;
	default:
		break;
	}
}

static void move(struct top_loop *loop, enum top_key_kind kind)
{
	long page = (long)draw_rows(&loop->view), all = (long)loop->model.shown_count;

	switch (kind) {
	case TOP_KEY_UP:
		model_move(&loop->model, -1);
		break;
	case TOP_KEY_DOWN:
		model_move(&loop->model, 1);
		break;
	case TOP_KEY_PAGE_UP:
		model_move(&loop->model, -page);
		break;
	case TOP_KEY_PAGE_DOWN:
		model_move(&loop->model, page);
		break;
	case TOP_KEY_HOME:
		model_move(&loop->model, -all);
		break;
	case TOP_KEY_END:
		model_move(&loop->model, all);
		break;
	case TOP_KEY_REDRAW:
		screen_forget(loop->screen);
		break;
	case TOP_KEY_ESCAPE:
		if (loop->model.selected != SIZE_MAX)
			loop->model.selected = SIZE_MAX;
		else
			set_filter(loop, "");
		break;
	default:
		break;
	}
}

void loop_key(struct top_loop *loop, const struct top_key *key)
{
	loop_say(loop, NULL);
	if (loop->view.help)
		loop->view.help = false;
	else if (loop->view.editing && edit(loop, key))
		return;
	else if (key->kind == TOP_KEY_TEXT)
		command(loop, key->text[0]);
	else
		move(loop, key->kind);
}
