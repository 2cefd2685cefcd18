/* SPDX-License-Identifier: MIT */
/* The rows of `probectl top`; the actions of the keys; the program that `probectl top` starts. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/top/top.h"
#include "libprobe/base/array.h"
#include "probe/sink.h"

/* ==== Model =================================================================================== */

void model_init(struct top_model *model)
{
	*model = (struct top_model){.selected = SIZE_MAX};
}

void model_deinit(struct top_model *model)
{
	for (size_t i = 0; i < model->count; i++) {
		free(model->rows[i].key);
		free(model->rows[i].label);
		free(model->rows[i].provider);
		free(model->rows[i].name);
		free(model->rows[i].path);
		free(model->rows[i].reason);
		free(model->rows[i].begin);
	}
	free(model->rows);
	free(model->shown);
	probe_pattern_free(model->pattern);
	model_init(model);
}

/* ---- Rows -------------------------------------------------------------------------- */

/* The name of a row that is being looked up. */
struct wanted {
	const struct top_row *rows;
	const char *provider, *name, *key;
};

static int compare(const struct wanted *wanted, size_t index)
{
	int order = strcmp(wanted->rows[index].provider, wanted->provider);

	if (!order)
		order = strcmp(wanted->rows[index].name, wanted->name);
	return order ? order : strcmp(wanted->rows[index].key, wanted->key);
}

static bool is_before(const void *wanted, size_t index)
{
	return compare(wanted, index) < 0;
}

/* Returns the row or NULL. Sets *at_ret to its index, or to the index at which it belongs. */
static struct top_row *find(const struct top_model *model, const char *provider, const char *name,
	const char *key, size_t *at_ret)
{
	const struct wanted wanted = {model->rows, provider, name, key};

	*at_ret = array_partition(model->count, is_before, &wanted);
	return *at_ret < model->count && compare(&wanted, *at_ret) == 0 ? &model->rows[*at_ret]
									: NULL;
}

struct top_row *model_find(const struct top_model *model, const char *provider, const char *name)
{
	size_t at;

	return find(model, provider, name, "", &at);
}

static bool make_room(struct top_model *model)
{
	return ARRAY_ROOM(model->rows, model->count) && ARRAY_ROOM(model->shown, model->count);
}

struct top_row *model_row(struct top_model *model, const char *provider, const char *name)
{
	return model_key_row(model, provider, name, "");
}

struct top_row *model_key_row(
	struct top_model *model, const char *provider, const char *name, const char *key)
{
	static const struct top_times none = {NAN, NAN, NAN, NAN};
	struct top_row row = {.recent = none, .all = none};
	size_t at;
	struct top_row *found = find(model, provider, name, key, &at);

	if (found || !make_room(model))
		return found;
	row.provider = strdup(provider);
	row.name = strdup(name);
	row.key = strdup(key);
	if (asprintf(&row.label, "%s:%s%s%s", provider, name, key[0] ? " " : "", key) < 0)
		row.label = NULL;
	if (!row.provider || !row.name || !row.key || !row.label) {
		free(row.label);
		free(row.key);
		free(row.provider);
		free(row.name);
		return NULL;
	}
	memmove(&model->rows[at + 1], &model->rows[at], (model->count - at) * sizeof(row));
	model->rows[at] = row;
	model->count++;
	if (model->selected != SIZE_MAX && model->selected >= at)
		model->selected++;
	return &model->rows[at];
}

/* ---- Figures ----------------------------------------------------------------------- */

static double per_second(const struct top_model *model, double count)
{
	uint64_t ns = model->since_start ? model->elapsed_ns : model->interval_ns;

	return ns ? count * NSEC_PER_SEC / (double)ns : 0;
}

/* Returns a row's hits in the last interval or, if the user wants this, since the start. */
static uint64_t model_hits(const struct top_model *model, const struct top_row *row)
{
	return model->since_start ? row->total : row->new_hits;
}

double model_rate(const struct top_model *model, const struct top_row *row)
{
	return per_second(model, (double)model_hits(model, row));
}

double model_rate_all(const struct top_model *model)
{
	double sum = 0;

	for (size_t i = 0; i < model->count; i++)
		sum += model->rows[i].key[0] ? 0 : (double)model_hits(model, &model->rows[i]);
	return per_second(model, sum);
}

uint64_t model_unkeyed(const struct top_model *model)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < model->count; i++)
		sum += model->rows[i].unkeyed;
	return sum;
}

const struct top_times *model_times(const struct top_model *model, const struct top_row *row)
{
	return model->since_start ? &row->all : &row->recent;
}

double model_time(const struct top_model *model, const struct top_row *row)
{
	return per_second(model, model_times(model, row)->sum);
}

/* ---- Order ------------------------------------------------------------------------- */

/* Returns the value that a row is sorted by, or, without one, a value below all others. */
static double figure(const struct top_model *model, const struct top_row *row)
{
	double value = -1;

	switch (model->order) {
	case TOP_ORDER_RATE:
		return (double)model_hits(model, row);
	case TOP_ORDER_TOTAL:
		return (double)row->total;
	case TOP_ORDER_P50:
		value = model_times(model, row)->p50;
		break;
	case TOP_ORDER_P99:
		value = model_times(model, row)->p99;
		break;
	case TOP_ORDER_TIME:
		value = model_times(model, row)->sum;
		break;
	case TOP_ORDER_NAME:
	case TOP_ORDER_COUNT:
		break;
	}
	return isnan(value) ? -1 : value;
}

/* Orders rows by value, highest first, then by name, which is the order of model->rows. */
static int compare_shown(const void *a, const void *b, void *data)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	const struct top_model *model = data;
	double left = figure(model, &model->rows[x]), right = figure(model, &model->rows[y]);
	int order = left > right ? -1 : left < right ? 1 : x < y ? -1 : 1;

	return model->reversed ? -order : order;
}

/* ---- The filter -------------------------------------------------------------------- */

static bool passes(const struct top_model *model, const struct top_row *row)
{
	if (model->pattern)
		return probe_pattern_matches(
			model->pattern, row->path ? row->path : "", row->provider, row->name);
	return strcasestr(row->label, model->filter) != NULL;
}

/* Returns true if a filter is a pattern: with glob characters, or between slashes. */
static bool is_pattern(const char *text)
{
	size_t length = strlen(text);

	return strpbrk(text, "*?[") || (length > 2 && text[0] == '/' && text[length - 1] == '/');
}

bool model_set_filter(struct top_model *model, const char *text)
{
	struct probe_error *error = NULL;

	probe_pattern_free(model->pattern);
	model->pattern = NULL;
	snprintf(model->filter, sizeof(model->filter), "%s", text);
	if (is_pattern(text))
		error = probe_pattern_parse(text, &model->pattern);
	model_arrange(model);
	if (!error)
		return true;
	probe_error_free(error);
	return false;
}

/* Copies the state of each probe from its own row to its rows with keys, which follow it. */
static void follow_probes(struct top_model *model)
{
	const struct top_row *probe = NULL;

	for (size_t i = 0; i < model->count; i++) {
		struct top_row *row = &model->rows[i];

		if (!row->key[0])
			probe = row;
		if (!row->key[0] || !probe)
			continue;
		row->on = probe->on;
		row->coverage = probe->coverage;
	}
}

void model_arrange(struct top_model *model)
{
	follow_probes(model);
	model->shown_count = 0;
	for (size_t i = 0; i < model->count; i++)
		if (passes(model, &model->rows[i]))
			model->shown[model->shown_count++] = i;
	if (model->shown_count)
		qsort_r(model->shown, model->shown_count, sizeof(*model->shown), compare_shown,
			model);
}

/* ---- The cursor -------------------------------------------------------------------- */

size_t model_cursor(const struct top_model *model)
{
	for (size_t i = 0; model->selected != SIZE_MAX && i < model->shown_count; i++)
		if (model->shown[i] == model->selected)
			return i;
	return SIZE_MAX;
}

void model_move(struct top_model *model, long by)
{
	size_t at = model_cursor(model), last = model->shown_count - 1;

	if (!model->shown_count)
		return;
	if (at == SIZE_MAX)
		at = by > 1 && (size_t)by > last ? last : 0;
	else if (by < 0)
		at = (size_t)-by > at ? 0 : at - (size_t)-by;
	else
		at = (size_t)by > last - at ? last : at + (size_t)by;
	model->selected = model->shown[at];
}

/* ==== Commands ================================================================================ */

/* The actions of the keys of `probectl top`. */

static const uint64_t intervals_ms[] = {100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};

enum { INTERVALS = sizeof(intervals_ms) / sizeof(intervals_ms[0]) };

/* Shows a message. On lack of memory, shows no message. */
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

/* Removes the last character of a text. */
static void erase(char *text)
{
	size_t length = strlen(text);

	while (length && ((unsigned char)text[--length] & 0xc0) == 0x80)
		;
	text[length] = '\0';
}

/* Changes the filter while the user edits it. Returns false if the key has no meaning there. */
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

/* Switches the target's probes as the rows say. */
static void apply(struct top *top)
{
	struct probe_error *error = source_switch(top->source);
	char stop[PROBE_DURATION_BYTES];

	probe_duration_text(stop, (double)source_stop_ns(top->source));
	if (error)
		say(top, "%s", error->message);
	else
		say(top, "done; the process was stopped for %s", stop);
	probe_error_free(error);
	model_arrange(&top->model);
}

/* Returns true if a row is selected and visible. A selected row may be hidden by the filter. */
static bool is_selected(struct top *top)
{
	if (model_cursor(&top->model) != SIZE_MAX)
		return true;
	say(top, "%s", "no probe is selected; the arrow keys move the cursor");
	return false;
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

/* Changes to the next longer or the next shorter interval in the list. */
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

/* ==== Program ================================================================================= */

/*
 * The program that `probectl top` starts. If top shows a screen, the program's standard output and
 * standard error, if they are the terminal, become an unnamed file, and its standard input an empty
 * one. A pipe would kill the program if top were killed.
 */

enum { STANDARD_FILES = 3 };

static struct probe_error *open_kept(struct top_program *program)
{
	program->kept = tmpfile();
	/* The program may open /dev/stderr, and then has another file position. */
	if (!program->kept || fcntl(fileno(program->kept), F_SETFL, O_APPEND) < 0 ||
		fcntl(fileno(program->kept), F_SETFD, FD_CLOEXEC) < 0)
		return probe_error_system(errno, "cannot make a file for the program's output");
	return NULL;
}

/* Replaces those of our standard files that are the terminal; ours[] keeps the originals. */
static struct probe_error *swap_files(const struct top_program *program, int ours[STANDARD_FILES])
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), err = errno;
	bool ok = nothing >= 0;

	for (int fd = 0; fd < STANDARD_FILES; fd++) {
		int other = fd == STDIN_FILENO ? nothing : fileno(program->kept);

		if (!ok || !isatty(fd))
			continue;
		ours[fd] = fcntl(fd, F_DUPFD_CLOEXEC, STANDARD_FILES);
		ok = ours[fd] >= 0 && dup2(other, fd) >= 0;
		err = errno;
	}
	if (nothing >= 0)
		close(nothing);
	return ok ? NULL : probe_error_system(err, "cannot change the program's standard files");
}

static void restore_files(const int ours[STANDARD_FILES])
{
	for (int fd = 0; fd < STANDARD_FILES; fd++) {
		if (ours[fd] < 0)
			continue;
		dup2(ours[fd], fd);
		close(ours[fd]);
	}
}

struct probe_error *program_start(
	struct top_program *program, char *const argv[], bool is_screen, struct probe_target **ret)
{
	int ours[STANDARD_FILES] = {-1, -1, -1};
	struct probe_error *error = NULL;

	if (is_screen)
		error = open_kept(program);
	if (!error && is_screen)
		error = swap_files(program, ours);
	if (!error)
		error = child_start(argv, ret, &program->status);
	restore_files(ours);
	return error;
}

size_t program_read(struct top_program *program, char *bytes, size_t size)
{
	ssize_t count = -1;

	if (program->kept)
		count = pread(fileno(program->kept), bytes, size, program->read);
	if (count <= 0)
		return 0;
	program->read += count;
	return (size_t)count;
}

void program_deinit(struct top_program *program)
{
	if (program->kept)
		fclose(program->kept);
}
