/* SPDX-License-Identifier: MIT */
/*
 * Call stacks by function. Calls from different lines of one function are one frame, unless lines
 * are shown.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/event.h"
#include "libprobe/base/frame_text.h"
#include "libprobe/base/utf8.h"
#include "libprobe/output/output.h"

/* ==== Flame =================================================================================== */

/*
 * A flame graph as SVG 1.1, in one file that loads nothing.
 *
 *	|   leaf    | other |             A box for each frame, as wide as its weight and the
 *	|      caller       |  | third |  weight of all functions that it called. Equal
 *	|           thread             |  neighbours are one box.
 *	|             all              |
 *
 * Stacks are sorted so that stacks with the same first frames are neighbours. The order does not
 * depend on weights, so two graphs of one program can be compared. A box opens where a stack
 * differs from the previous one, and is drawn where it closes.
 *
 * The picture is complete without its script. With the script, a click on a box makes the box as
 * wide as the page. Names come from traced programs: all are made printable, then escaped.
 */

enum { WIDTH = 1200, MARGIN = 10, TOP = 30, ROW = 17, TEXT_INDENT = 3, TEXT_BASE = 12 };

/* A character's width in pixels, in browsers' monospace font of 12 pixels. */
static const double letter_width = 7.25;
/* Boxes narrower than this, in pixels, are only counted. */
static const double narrowest = 0.1;

static const char script[] =
	"<script><![CDATA[\n"
	"'use strict';\n"
	"const boxes = [...document.querySelectorAll('g')].map(g => {\n"
	"  const [title, box] = g.children;\n"
	"  const text = g.children[2] ||\n"
	"    g.appendChild(document.createElementNS(g.namespaceURI, 'text'));\n"
	"  const name = title.textContent.replace(/ \\([^(]*\\)$/, '');\n"
	"  text.setAttribute('y', +box.getAttribute('y') + 12);\n"
	"  return { g, box, text, name, x: +box.getAttribute('x'), w: "
	"+box.getAttribute('width') };\n"
	"});\n"
	"function zoom(to) {\n"
	"  for (const b of boxes) {\n"
	"    const left = Math.max(b.x, to.x), right = Math.min(b.x + b.w, to.x + "
	"to.w);\n"
	"    const w = (right - left) / to.w * 1180, x = 10 + (left - to.x) / to.w * "
	"1180;\n"
	"    const fit = Math.floor((w - 6) / 7.25);\n"
	"    b.g.style.display = w > 0.05 ? '' : 'none';\n"
	"    b.box.setAttribute('x', x);\n"
	"    b.box.setAttribute('width', Math.max(w, 0));\n"
	"    b.text.setAttribute('x', x + 3);\n"
	"    b.text.textContent = fit < 3 ? '' : b.name.length <= fit ? b.name :\n"
	"      b.name.slice(0, fit - 2) + '..';\n"
	"  }\n"
	"}\n"
	"for (const b of boxes)\n"
	"  b.g.addEventListener('click', () => zoom(b));\n"
	"]]></script>\n";

/* A box whose frame has not ended. */
struct flame_box {
	const char *name; /* points into the text of a stack */
	size_t length;
	double start;
};

struct flame {
	struct buffer *out;
	struct buffer name; /* made printable, not yet escaped */
	struct flame_box *boxes;
	size_t depth, deepest;
	double total, at; /* weight of all stacks; weight of the stacks before the current one */
	size_t narrow;	  /* number of boxes that were left out */
	enum flame_unit unit;
};

/* ---- Stacks -------------------------------------------------------------------------- */

/* The end of a frame sorts first, so that stacks with the same first frames are neighbours. */
static int compare_stacks(const void *a, const void *b)
{
	const char *x = ((const struct flame_stack *)a)->text;
	const char *y = ((const struct flame_stack *)b)->text;
	int left, right;

	while (*x && *x == *y) {
		x++;
		y++;
	}
	left = *x == ';' ? 1 : (unsigned char)*x;
	right = *y == ';' ? 1 : (unsigned char)*y;
	return left - right;
}

/* ---- Boxes --------------------------------------------------------------------------- */

/* Write three decimals, in the same way in any locale. */
static void put_pixels(struct buffer *out, double pixels)
{
	uint64_t thousandths = (uint64_t)(pixels * 1000 + 0.5);
	char digits[] = {'.', (char)('0' + thousandths / 100 % 10),
		(char)('0' + thousandths / 10 % 10), (char)('0' + thousandths % 10)};

	buffer_unsigned(out, thousandths / 1000);
	if (thousandths % 1000)
		buffer_bytes(out, digits, sizeof(digits));
}

/* Writes as much of the name as fits into the box. */
static void flame_put_label(struct flame *flame, double x, double y, double width)
{
	const struct buffer *name = &flame->name;
	size_t room =
		width < 2 * TEXT_INDENT ? 0 : (size_t)((width - 2 * TEXT_INDENT) / letter_width);
	size_t characters = 0, length = 0;

	if (room < 3)
		return;
	for (size_t i = 0; i < name->length; characters++) {
		if (characters < room - 2)
			length = i + utf8_character(name->data + i, name->length - i);
		i += utf8_character(name->data + i, name->length - i);
	}
	buffer_string(flame->out, "<text x=\"");
	put_pixels(flame->out, x + TEXT_INDENT);
	buffer_string(flame->out, "\" y=\"");
	put_pixels(flame->out, y + TEXT_BASE);
	buffer_string(flame->out, "\">");
	buffer_xml_escaped(flame->out, name->data, characters <= room ? name->length : length);
	buffer_string(flame->out, characters <= room ? "</text>" : "..</text>");
}

/* Draws a box. Level 0 is the lowest row, which holds everything. */
static void put_box(struct flame *flame, const struct flame_box *box, size_t level, double end)
{
	static const char *const one[] = {" hit", "", " byte"}, *const many[] = {
									" hits", "", " bytes"};
	struct buffer *out = flame->out;
	double weight = end - box->start;
	uint32_t hash = 2166136261u; /* FNV-1a */
	char colour[32];
	double scale = flame->total > 0 ? (WIDTH - 2 * MARGIN) / flame->total : 0;
	double x = MARGIN + box->start * scale, width = weight * scale;
	double y = TOP + (double)(flame->deepest - level) * ROW;

	if (width < narrowest) {
		flame->narrow++;
		return;
	}
	flame->name.length = 0;
	buffer_c_escaped(&flame->name, box->name, box->length, 0);
	buffer_string(out, "<g><title>");
	buffer_xml_escaped(out, flame->name.data, flame->name.length);
	buffer_string(out, " (");
	if (flame->unit == FLAME_TIME)
		text_duration(out, weight);
	else
		text_number(out, weight);
	buffer_string(out, (weight == 1 ? one : many)[flame->unit]);
	buffer_string(out, ", ");
	text_real(out, 100 * weight / flame->total, TEXT_POWER);
	buffer_string(out, " %)</title><rect x=\"");
	put_pixels(out, x);
	buffer_string(out, "\" y=\"");
	put_pixels(out, y);
	buffer_string(out, "\" width=\"");
	put_pixels(out, width);
	/* A warm colour, the same for the same name, on which black text is readable. */
	for (size_t i = 0; i < box->length; i++)
		hash = (hash ^ (unsigned char)box->name[i]) * 16777619u;
	snprintf(colour, sizeof(colour), "rgb(%u,%u,%u)", 220 + hash % 36, 120 + (hash >> 8) % 100,
		60 + (hash >> 16) % 50);
	buffer_string(out, "\" height=\"16\" fill=\"");
	buffer_string(out, colour);
	buffer_string(out, "\"/>");
	flame_put_label(flame, x, y, width);
	buffer_string(out, "</g>\n");
}

/* Closes and draws the boxes deeper than `depth`. */
static void close_boxes(struct flame *flame, size_t depth)
{
	while (flame->depth > depth) {
		flame->depth--;
		put_box(flame, &flame->boxes[flame->depth], flame->depth + 1, flame->at);
	}
}

static void put_stack(struct flame *flame, const struct flame_stack *stack)
{
	const char *frame = stack->text;
	bool same = true;

	for (size_t depth = 0; frame; depth++) {
		size_t length = strcspn(frame, ";");
		struct flame_box *box = &flame->boxes[depth];

		same = same && depth < flame->depth && box->length == length &&
		       !memcmp(box->name, frame, length);
		if (!same) {
			close_boxes(flame, depth);
			*box = (struct flame_box){frame, length, flame->at};
			flame->depth = depth + 1;
		}
		frame = frame[length] ? frame + length + 1 : NULL;
	}
	flame->at += (double)stack->weight;
}

/* ---- The picture ----------------------------------------------------------------------- */

void flame_graph(struct buffer *out, struct flame_stack *stacks, size_t count, enum flame_unit unit)
{
	static const char *const names[] = {"hits", "time", "bytes"};
	struct flame flame = {.out = out, .unit = unit};
	uint64_t height;

	for (size_t i = 0; i < count; i++) {
		size_t depth = 1;

		for (const char *at = stacks[i].text; *at; at++)
			depth += *at == ';';
		flame.deepest = depth > flame.deepest ? depth : flame.deepest;
		flame.total += (double)stacks[i].weight;
	}
	flame.boxes = calloc(flame.deepest + 1, sizeof(*flame.boxes));
	if (flame.boxes && count)
		qsort(stacks, count, sizeof(*stacks), compare_stacks);
	height = TOP + (flame.deepest + 1) * ROW + 2 * MARGIN;
	buffer_print(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" "
		"width=\"1200\" height=\"%" PRIu64 "\" viewBox=\"0 0 1200 %" PRIu64 "\">\n"
		"<title>Flame graph</title>\n"
		"<style>svg{background:#fff}text{font:12px monospace;fill:#000;"
		"pointer-events:none}g:hover rect{stroke:#000}</style>\n"
		"<text x=\"10\" y=\"18\">"
		"%s; click on a box to enlarge it, on the lowest one for all</text>\n",
		height, height, names[unit]);
	for (size_t i = 0; i < count && flame.boxes; i++)
		put_stack(&flame, &stacks[i]);
	close_boxes(&flame, 0);
	if (flame.total > 0)
		put_box(&flame, &(struct flame_box){"all", 3, 0}, 0, flame.total);
	if (flame.narrow) {
		buffer_string(out, "<text x=\"10\" y=\"");
		put_pixels(out, TOP + (double)(flame.deepest + 1) * ROW + TEXT_BASE);
		buffer_string(out, "\">");
		text_counted(out, flame.narrow, " frame is", " frames are");
		buffer_string(out, " too narrow to be drawn</text>\n");
	}
	buffer_string(out, script);
	buffer_string(out, "</svg>\n");
	out->no_memory |= !flame.boxes || flame.name.no_memory;
	free(flame.boxes);
	buffer_deinit(&flame.name);
}

/* ==== Stacks ================================================================================== */

/* Returns the number of frames. The mark of an incomplete stack counts as the outermost frame. */
static size_t stacks_depth(const struct probe_stacks_row *row)
{
	return row->stack.count + (row->stack.end != PROBE_STACK_WHOLE);
}

/* Returns the frame at a depth (0: outermost), or NULL for the mark of an incomplete stack. */
static const struct probe_frame *frame_at(const struct probe_stacks_row *row, size_t depth)
{
	if (row->stack.end != PROBE_STACK_WHOLE && depth-- == 0)
		return NULL;
	return row->stack.frames[row->stack.count - 1 - depth];
}

/* NULL comes before all texts. */
static int compare_texts(const char *a, const char *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return strcmp(a, b);
}

static int compare_frames(const struct probe_frame *a, const struct probe_frame *b)
{
	int order;

	if (a == b)
		return 0;
	order = compare_texts(a->symbol, b->symbol) ?: compare_texts(a->module, b->module)
		?: compare_texts(a->file, b->file) ?: ORDER(a->line, b->line);
	return order || a->symbol ? order : ORDER(frame_text_place(a), frame_text_place(b));
}

/* Compares two rows' functions at a depth. An ended stack sorts first. */
static int stacks_compare_at(
	const struct probe_stacks_row *a, const struct probe_stacks_row *b, size_t depth)
{
	bool a_ends = depth >= stacks_depth(a), b_ends = depth >= stacks_depth(b);
	const struct probe_frame *left, *right;

	if (a_ends || b_ends)
		return (int)b_ends - (int)a_ends;
	left = frame_at(a, depth);
	right = frame_at(b, depth);
	if (!left && !right)
		return (int)a->stack.end - (int)b->stack.end;
	if (!left || !right)
		return (left != NULL) - (right != NULL);
	return compare_frames(left, right);
}

int stacks_compare(const struct probe_stacks_row *a, const struct probe_stacks_row *b)
{
	size_t a_depth = stacks_depth(a), b_depth = stacks_depth(b);
	size_t deepest = a_depth > b_depth ? a_depth : b_depth;
	int order = 0;

	for (size_t depth = 0; depth < deepest && !order; depth++)
		order = stacks_compare_at(a, b, depth);
	return order;
}

void stacks_frame_label(
	struct buffer *out, const struct probe_frame *frame, enum probe_stack_end end)
{
	if (frame)
		frame_text(out, frame);
	else
		buffer_string(out, frame_text_end(end));
}

/* Writes the function or module+0xSTART or the address, without ';' and control bytes. */
static void stacks_label(struct buffer *out, const struct probe_stacks_row *row, size_t depth)
{
	stacks_frame_label(out, frame_at(row, depth), row->stack.end);
}

void text_hit_stack(struct buffer *out, const struct probe_stack *stack)
{
	for (size_t i = 0; i < stack->count + (stack->end != PROBE_STACK_WHOLE); i++) {
		buffer_char(out, '\t');
		stacks_frame_label(out, i < stack->count ? stack->frames[i] : NULL, stack->end);
		buffer_char(out, '\n');
	}
}

/* ---- Folded lines ------------------------------------------------------------------- */

/*
 * Writes a line that flamegraph.pl and speedscope read:
 *
 *	comm;outermost;...;innermost COUNT
 *
 * For a heap, BYTES replaces COUNT. Rows are in the order of folded_compare(). If there are several
 * probes, the probe is added as the innermost frame.
 */
static void folded_line(
	struct buffer *out, const struct probe_stacks_row *row, uint64_t count, bool many)
{
	frame_text_put(out, row->comm ? row->comm : "?");
	for (size_t i = 0; i < stacks_depth(row); i++) {
		buffer_char(out, ';');
		stacks_label(out, row, i);
	}
	if (many) {
		buffer_char(out, ';');
		frame_text_put(out, row->provider);
		buffer_char(out, ':');
		frame_text_put(out, row->name);
	}
	buffer_char(out, ' ');
	buffer_unsigned(out, count);
	buffer_char(out, '\n');
}

static int compare_probes(const struct probe_stacks_row *a, const struct probe_stacks_row *b)
{
	return strcmp(a->provider, b->provider) ?: strcmp(a->name, b->name);
}

static int folded_compare(const void *a, const void *b)
{
	const struct probe_stacks_row *const *left = a, *const *right = b;

	return compare_texts((*left)->comm, (*right)->comm) ?: stacks_compare(*left, *right)
		?: compare_probes(*left, *right);
}

static void folded_stacks(struct buffer *out, const struct probe_stacks_row *rows, size_t count)
{
	AUTO_FREE const struct probe_stacks_row **order = calloc(count + 1, sizeof(*order));
	uint64_t sum = 0;
	bool many = false;

	if (!order) {
		out->no_memory = true;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		order[i] = &rows[i];
		many |= compare_probes(&rows[i], &rows[0]) != 0;
	}
	qsort(order, count, sizeof(*order), folded_compare);
	for (size_t i = 0; i < count; i++) {
		sum += order[i]->count;
		if (i + 1 < count && !folded_compare(&order[i], &order[i + 1]))
			continue;
		/* If everything was freed, a heap's sum is 0: write no line. */
		if (sum)
			folded_line(out, order[i], sum, many);
		sum = 0;
	}
}

/* Draws folded lines as a flame graph. The weight follows the last blank of a line. */
static void flamegraph_stacks(struct buffer *out, const struct probe_stacks_row *rows, size_t count)
{
	AUTO_FREE struct flame_stack *stacks = calloc(count + 1, sizeof(*stacks));
	AUTO(buffer_deinit) struct buffer lines = {0};
	size_t used = 0;

	folded_stacks(&lines, rows, count);
	for (char *line = lines.data, *end;
		stacks && !lines.no_memory && line < lines.data + lines.length; line = end + 1) {
		char *space;

		end = memchr(line, '\n', (size_t)(lines.data + lines.length - line));
		space = memrchr(line, ' ', (size_t)(end - line));
		*space = '\0';
		stacks[used++] = (struct flame_stack){line, strtoull(space + 1, NULL, 10)};
	}
	if (stacks && !lines.no_memory)
		flame_graph(out, stacks, used, count && rows->is_heap ? FLAME_BYTES : FLAME_HITS);
	else
		out->no_memory = true;
}

/* ==== Protobuf ================================================================================ */

enum { VARINT = 0, LENGTH_DELIMITED = 2 };

/* Writes a number without a field number, as in packed lists. */
static void protobuf_varint(struct buffer *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		buffer_char(out, (char)(value | 0x80));
	buffer_char(out, (char)value);
}

static void protobuf_unsigned(struct buffer *out, unsigned int field, uint64_t value)
{
	if (!value)
		return;
	protobuf_varint(out, field << 3 | VARINT);
	protobuf_varint(out, value);
}

/* Writes a string, packed list or message, even if it is empty. */
static void protobuf_bytes(struct buffer *out, unsigned int field, const void *bytes, size_t length)
{
	protobuf_varint(out, field << 3 | LENGTH_DELIMITED);
	protobuf_varint(out, length);
	buffer_bytes(out, bytes, length);
}

/* Writes a message from its buffer, and empties the buffer. */
static void protobuf_message(struct buffer *out, unsigned int field, struct buffer *message)
{
	protobuf_bytes(out, field, message->data, message->length);
	out->no_memory |= message->no_memory;
	message->length = 0;
}

/* ==== Pprof =================================================================================== */

/*
 * Stacks as a profile that pprof and other tools for its format read:
 * github.com/google/pprof/proto/profile.proto. Readers also accept a profile that is not
 * compressed, like ours.
 *
 *	sample    values; locations, the innermost first; labels
 *	location  address in the file -> mapping, function, line
 *	mapping   a file and its build id
 *	function  name, source file
 *
 * Each of these is written when a row first needs it, and gets the next number of its kind, from 1
 * on. Strings are numbered from 0 on, and string 0 is empty. A map holds the key of each written
 * message. Fields may come in any order, but the strings must be in the order of their numbers.
 *
 * Addresses are addresses in the file, so the same function in several processes is one location.
 */

/* Field numbers of the messages. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING_TABLE = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,
	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT = 2,
	SAMPLE_LOCATION_ID = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_STR = 2,
	MAPPING_ID = 1,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	LOCATION_ID = 1,
	LOCATION_MAPPING_ID = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
	LINE_FUNCTION_ID = 1,
	LINE_LINE = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_FILENAME = 4
};

/* ---- Numbers of written messages ---------------------------------------------------- */

struct numbers {
	struct map known; /* uint64_t by what identifies the message */
	uint64_t next;
};

struct pprof {
	struct buffer *out;
	struct buffer text, message, part;
	struct numbers strings, locations, mappings, functions;
};

/* Returns a key's number. If *is_new, the key's message must be written. */
static uint64_t number_of(
	struct pprof *pprof, struct numbers *numbers, const void *key, size_t length, bool *is_new)
{
	size_t before = numbers->known.count;
	uint64_t *number = map_add(&numbers->known, sizeof(*number), MAP_KEY({key, length}));

	*is_new = numbers->known.count > before;
	if (*is_new)
		*number = numbers->next++;
	pprof->out->no_memory |= !number;
	return number ? *number : 0;
}

static uint64_t string_number(struct pprof *pprof, const char *text, size_t length)
{
	bool is_new;
	uint64_t number = number_of(pprof, &pprof->strings, text, length, &is_new);

	if (is_new)
		protobuf_bytes(pprof->out, PROFILE_STRING_TABLE, text, length);
	return number;
}

static uint64_t string_of(struct pprof *pprof, const char *text)
{
	pprof->text.length = 0;
	frame_text_put(&pprof->text, text ? text : "");
	return string_number(pprof, pprof->text.data, pprof->text.length);
}

/* ---- Locations ---------------------------------------------------------------------- */

static uint64_t mapping_of(struct pprof *pprof, const struct probe_frame *frame)
{
	uint64_t key[2] = {string_of(pprof, frame->module), string_of(pprof, frame->build_id)};
	bool is_new;
	uint64_t number = number_of(pprof, &pprof->mappings, key, sizeof(key), &is_new);

	if (!is_new)
		return number;
	protobuf_unsigned(&pprof->message, MAPPING_ID, number);
	protobuf_unsigned(&pprof->message, MAPPING_FILENAME, key[0]);
	protobuf_unsigned(&pprof->message, MAPPING_BUILD_ID, key[1]);
	protobuf_unsigned(&pprof->message, MAPPING_HAS_FUNCTIONS, 1);
	protobuf_message(pprof->out, PROFILE_MAPPING, &pprof->message);
	return number;
}

static uint64_t function_of(
	struct pprof *pprof, const struct probe_frame *frame, enum probe_stack_end end)
{
	struct probe_frame bare = frame ? *frame : (struct probe_frame){0};
	uint64_t key[2], number;
	bool is_new;

	/* The location has the line, so the name is without it. */
	bare.file = NULL;
	pprof->text.length = 0;
	stacks_frame_label(&pprof->text, frame ? &bare : NULL, end);
	key[0] = string_number(pprof, pprof->text.data, pprof->text.length);
	key[1] = string_of(pprof, frame ? frame->file : NULL);
	number = number_of(pprof, &pprof->functions, key, sizeof(key), &is_new);
	if (!is_new)
		return number;
	protobuf_unsigned(&pprof->message, FUNCTION_ID, number);
	protobuf_unsigned(&pprof->message, FUNCTION_NAME, key[0]);
	protobuf_unsigned(&pprof->message, FUNCTION_FILENAME, key[1]);
	protobuf_message(pprof->out, PROFILE_FUNCTION, &pprof->message);
	return number;
}

/* Returns the location of a frame or, for NULL, of the missing part of a stack, as `end` says. */
static uint64_t location_of(
	struct pprof *pprof, const struct probe_frame *frame, enum probe_stack_end end)
{
	uint64_t key[4] = {
		frame && frame->module ? mapping_of(pprof, frame) : 0,
		!frame		? 0
		: frame->symbol ? frame->function + frame->offset
				: frame->offset,
		function_of(pprof, frame, end),
		frame && frame->file ? (uint64_t)frame->line : 0,
	};
	bool is_new;
	uint64_t number = number_of(pprof, &pprof->locations, key, sizeof(key), &is_new);

	if (!is_new)
		return number;
	protobuf_unsigned(&pprof->part, LINE_FUNCTION_ID, key[2]);
	protobuf_unsigned(&pprof->part, LINE_LINE, key[3]);
	protobuf_unsigned(&pprof->message, LOCATION_ID, number);
	protobuf_unsigned(&pprof->message, LOCATION_MAPPING_ID, key[0]);
	protobuf_unsigned(&pprof->message, LOCATION_ADDRESS, key[1]);
	protobuf_message(&pprof->message, LOCATION_LINE, &pprof->part);
	protobuf_message(pprof->out, PROFILE_LOCATION, &pprof->message);
	return number;
}

/* ---- Samples ------------------------------------------------------------------------ */

static void put_label(struct pprof *pprof, struct buffer *sample, const char *key, uint64_t text)
{
	protobuf_unsigned(&pprof->part, LABEL_KEY, string_of(pprof, key));
	protobuf_unsigned(&pprof->part, LABEL_STR, text);
	protobuf_message(sample, SAMPLE_LABEL, &pprof->part);
}

static void put_sample(struct pprof *pprof, const struct probe_stacks_row *row)
{
	struct buffer sample = {0}, list = {0};
	size_t count = row->stack.count;

	for (size_t i = 0; i < stacks_depth(row); i++)
		protobuf_varint(&list, location_of(pprof, i < count ? row->stack.frames[i] : NULL,
					       row->stack.end));
	protobuf_message(&sample, SAMPLE_LOCATION_ID, &list);
	/* The values are in the order of their types. */
	protobuf_varint(&list, row->is_heap ? row->total_count : row->count);
	if (row->is_heap) {
		protobuf_varint(&list, row->total_bytes);
		protobuf_varint(&list, row->live_count);
		protobuf_varint(&list, row->live_bytes);
	}
	protobuf_message(&sample, SAMPLE_VALUE, &list);
	if (row->comm)
		put_label(pprof, &sample, "comm", string_of(pprof, row->comm));
	pprof->text.length = 0;
	frame_text_put(&pprof->text, row->provider);
	buffer_char(&pprof->text, ':');
	frame_text_put(&pprof->text, row->name);
	put_label(pprof, &sample, "probe",
		string_number(pprof, pprof->text.data, pprof->text.length));
	protobuf_message(pprof->out, PROFILE_SAMPLE, &sample);
	buffer_deinit(&sample);
	buffer_deinit(&list);
}

/* ---- The profile -------------------------------------------------------------------- */

static void put_type(struct pprof *pprof, const char *type, const char *unit)
{
	protobuf_unsigned(&pprof->message, VALUE_TYPE_TYPE, string_of(pprof, type));
	protobuf_unsigned(&pprof->message, VALUE_TYPE_UNIT, string_of(pprof, unit));
	protobuf_message(pprof->out, PROFILE_SAMPLE_TYPE, &pprof->message);
}

static void pprof_stacks(struct buffer *out, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view)
{
	struct pprof pprof = {
		.out = out, .locations.next = 1, .mappings.next = 1, .functions.next = 1};

	string_of(&pprof, "");
	if (view->heap) { /* as in Go's heap profiles */
		put_type(&pprof, "alloc_objects", "count");
		put_type(&pprof, "alloc_space", "bytes");
		put_type(&pprof, "inuse_objects", "count");
		put_type(&pprof, "inuse_space", "bytes");
		protobuf_unsigned(out, PROFILE_DEFAULT_SAMPLE_TYPE,
			string_of(&pprof, view->live ? "inuse_space" : "alloc_space"));
	} else {
		put_type(&pprof, "hits", "count");
	}
	protobuf_unsigned(out, PROFILE_TIME_NANOS, view->time_ns);
	protobuf_unsigned(out, PROFILE_DURATION_NANOS, view->elapsed_ns);
	for (size_t i = 0; i < count; i++)
		put_sample(&pprof, &rows[i]);
	out->no_memory |= pprof.text.no_memory;
	buffer_deinit(&pprof.text);
	buffer_deinit(&pprof.message);
	buffer_deinit(&pprof.part);
	map_clear(&pprof.strings.known);
	map_clear(&pprof.locations.known);
	map_clear(&pprof.mappings.known);
	map_clear(&pprof.functions.known);
}

/* ==== Text stacks ============================================================================= */

/*
 * Stacks as a tree, callers above the functions that they call:
 *
 *	postgresql:lwlock__acquire: 1234 hits, 2 stacks
 *	        HITS        %  FRAME
 *	        1234  100.0 %  _start
 *	        1234  100.0 %  main
 *	         900   72.9 %  - exec_simple_query
 *	         900   72.9 %    PortalRun
 *	         334   27.1 %  - exec_execute_message
 *
 * If all stacks below a function continue with the same function, that function is in the same
 * column, on the next line. Where the stacks differ, each branch begins with a dash and is one step
 * further to the right. For a heap (probe/heap.h), bytes replace hits:
 *
 *	otel_memory:alloc: 40960 bytes allocated (10 allocations), 12288 bytes live (3
 *	allocations), 2 stacks
 *	       BYTES        %  FRAME
 */

enum { COUNT_WIDTH = 12 };

struct tree {
	struct buffer *out;
	const struct probe_stacks_row **rows; /* in the order of stacks_compare() */
	uint64_t total;
};

/* Rows with the same function at some depth. */
struct branch {
	size_t first, end;
	uint64_t count;
};

static void print_frame(const struct tree *tree, const struct branch *branch, size_t depth,
	size_t indent, bool dash)
{
	double percent = 100.0 * (double)branch->count / (double)tree->total;
	char figures[64];

	snprintf(figures, sizeof(figures), "%*llu  %3u.%u %%  ", COUNT_WIDTH,
		(unsigned long long)branch->count, (unsigned int)(percent + 0.05),
		(unsigned int)((percent + 0.05) * 10) % 10);
	buffer_string(tree->out, figures);
	for (size_t i = 0; i < indent; i++)
		buffer_string(tree->out, "  ");
	if (dash)
		buffer_string(tree->out, "- ");
	stacks_label(tree->out, tree->rows[branch->first], depth);
	buffer_char(tree->out, '\n');
}

static int compare_branches(const void *a, const void *b)
{
	const struct branch *left = a, *right = b;

	return ORDER(right->count, left->count) ?: ORDER(left->first, right->first);
}

/* Splits rows by their function at a depth. Rows of ended stacks come first, in no branch. */
static size_t part(
	const struct tree *tree, const struct branch *whole, size_t depth, struct branch *ret)
{
	size_t count = 0, at = whole->first;

	while (at < whole->end && stacks_depth(tree->rows[at]) <= depth)
		at++;
	for (; at < whole->end; at++) {
		if (!count ||
			stacks_compare_at(tree->rows[ret[count - 1].first], tree->rows[at], depth))
			ret[count++] = (struct branch){at, at, 0};
		ret[count - 1].end = at + 1;
		ret[count - 1].count += tree->rows[at]->count;
	}
	qsort(ret, count, sizeof(*ret), compare_branches);
	return count;
}

static void print_branch(
	const struct tree *tree, const struct branch *whole, size_t depth, size_t indent)
{
	AUTO_FREE struct branch *branches =
		malloc((whole->end - whole->first + 1) * sizeof(*branches));
	size_t count;

	if (!branches) {
		tree->out->no_memory = true;
		return;
	}
	count = part(tree, whole, depth, branches);
	for (size_t i = 0; i < count; i++) {
		print_frame(tree, &branches[i], depth, indent, count > 1);
		print_branch(tree, &branches[i], depth + 1, indent + (count > 1));
	}
}

static int compare_rows(const void *a, const void *b)
{
	const struct probe_stacks_row *const *left = a, *const *right = b;

	return stacks_compare(*left, *right);
}

/* Writes bytes allocated and bytes live. */
static void heap_text(struct buffer *out, const struct probe_stacks_row **rows, size_t count)
{
	struct probe_stacks_row sum = {0};

	for (size_t i = 0; i < count; i++) {
		sum.total_bytes += rows[i]->total_bytes;
		sum.total_count += rows[i]->total_count;
		sum.live_bytes += rows[i]->live_bytes;
		sum.live_count += rows[i]->live_count;
	}
	text_counted(out, sum.total_bytes, " byte allocated (", " bytes allocated (");
	text_counted(out, sum.total_count, " allocation), ", " allocations), ");
	text_counted(out, sum.live_bytes, " byte live (", " bytes live (");
	text_counted(out, sum.live_count, " allocation), ", " allocations), ");
}

/* Writes a probe's `top` most frequent stacks; 0 means all. */
static void print_probe(
	struct buffer *out, const struct probe_stacks_row **rows, size_t count, size_t top)
{
	size_t shown, known = count;
	struct tree tree = {out, rows, 0};
	bool heap = rows[0]->is_heap;
	uint64_t hidden = 0;
	struct branch whole;

	/* Leave out rows without live bytes, which come last. */
	while (count && !rows[count - 1]->count)
		count--;
	shown = top && top < count ? top : count;
	whole = (struct branch){0, shown, 0};
	for (size_t i = 0; i < count; i++) {
		tree.total += rows[i]->count;
		if (i >= shown)
			hidden += rows[i]->count;
	}
	event_put_probe(out, rows[0]->provider, rows[0]->name);
	buffer_string(out, ": ");
	if (heap)
		heap_text(out, rows, known);
	else
		text_counted(out, tree.total, " hit, ", " hits, ");
	text_counted(out, count, " stack\n", " stacks\n");
	buffer_string(
		out, heap ? "       BYTES        %  FRAME\n" : "        HITS        %  FRAME\n");
	qsort(rows, shown, sizeof(*rows), compare_rows);
	print_branch(&tree, &whole, 0, 0);
	if (count > shown) {
		buffer_string(out, "... ");
		text_counted(out, count - shown, " more stack (--top), ", " more stacks (--top), ");
		text_counted(
			out, hidden, heap ? " byte\n" : " hit\n", heap ? " bytes\n" : " hits\n");
	}
}

void text_stack_trees(
	struct buffer *out, const struct probe_stacks_row *rows, size_t count, size_t top)
{
	AUTO_FREE const struct probe_stacks_row **left = calloc(2 * count + 1, sizeof(*left));
	const struct probe_stacks_row **its;
	bool any = false;

	if (!left) {
		out->no_memory = true;
		return;
	}
	its = left + count;
	for (size_t i = 0; i < count; i++)
		left[i] = &rows[i];
	while (count) {
		const struct probe_stacks_row *first = left[0];
		size_t taken = 0, kept = 0;

		/* Take the rows of the first row's probe; those of other probes keep their order.
		 */
		for (size_t i = 0; i < count; i++) {
			if (!compare_probes(left[i], first))
				its[taken++] = left[i];
			else
				left[kept++] = left[i];
		}
		count = kept;
		if (any)
			buffer_char(out, '\n');
		print_probe(out, its, taken, top);
		any = true;
	}
}

void text_stacks(struct format_context *context, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view)
{
	if (view->flamegraph) {
		flamegraph_stacks(&context->out, rows, count);
		return;
	}
	if (view->pprof) {
		pprof_stacks(&context->out, rows, count, view);
		return;
	}
	text_heading(context, view);
	if (view->folded)
		folded_stacks(&context->out, rows, count);
	else
		text_stack_trees(&context->out, rows, count, view->top);
}
