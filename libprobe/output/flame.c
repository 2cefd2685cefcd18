/* SPDX-License-Identifier: MIT */
/*
 * A flame graph as SVG 1.1, in one file that loads nothing.
 *
 *	|   leaf    | other |             a box for each frame, as wide as its weight and that of
 *	|      caller       |  | third |  all that it called; equal neighbours are one box
 *	|           thread             |
 *	|             all              |
 *
 * Stacks are sorted so that those with the same first frames are neighbours, in an order that does
 * not depend on weights: two graphs of one program can be compared. A box opens where a stack
 * differs from the one before, and is drawn where it closes.
 *
 * The picture is whole without its script. With it, a click on a box makes that box as wide as the
 * page. Names come out of traced programs: all are made printable, then escaped.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/utf8.h"
#include "libprobe/output/output.h"

enum { WIDTH = 1200, MARGIN = 10, TOP = 30, ROW = 17, TEXT_INDENT = 3, TEXT_BASE = 12 };

/* Of a character, as browsers draw 12 pixels of their monospace font. */
static const double letter_width = 7.25;
/* Narrower boxes are left out, and counted. */
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

/* A frame that has begun and not ended. */
struct flame_box {
	const char *name; /* in the text of a stack */
	size_t length;
	double start;
};

struct flame {
	struct buffer *out;
	struct buffer name; /* printable, not yet escaped */
	struct flame_box *boxes;
	size_t depth, deepest;
	double total, at; /* weights: of all stacks, and of those before this one */
	size_t narrow;	  /* boxes that were left out */
	enum flame_unit unit;
};

/* ---- Stacks -------------------------------------------------------------------------- */

/* A frame's end comes before all characters, so that what begins equally stands together. */
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

static size_t count_frames(const char *text)
{
	size_t count = 1;

	for (; *text; text++)
		count += *text == ';';
	return count;
}

/* ---- Boxes --------------------------------------------------------------------------- */

/* In thousandths, whatever the locale. */
static void put_pixels(struct buffer *out, double pixels)
{
	uint64_t thousandths = (uint64_t)(pixels * 1000 + 0.5);
	char digits[] = {'.', (char)('0' + thousandths / 100 % 10),
		(char)('0' + thousandths / 10 % 10), (char)('0' + thousandths % 10)};

	buffer_unsigned(out, thousandths / 1000);
	if (thousandths % 1000)
		buffer_bytes(out, digits, sizeof(digits));
}

/* Warm colours, the same for the same name; black text can be read on all of them. */
static void put_colour(struct buffer *out, const char *name, size_t length)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)name[i]) * 16777619u;
	buffer_string(out, "rgb(");
	buffer_unsigned(out, 220 + hash % 36);
	buffer_char(out, ',');
	buffer_unsigned(out, 120 + (hash >> 8) % 100);
	buffer_char(out, ',');
	buffer_unsigned(out, 60 + (hash >> 16) % 50);
	buffer_char(out, ')');
}

static void put_weight(struct flame *flame, double weight)
{
	static const char *const one[] = {" hit", "", " byte"}, *const many[] = {
									" hits", "", " bytes"};

	if (flame->unit == FLAME_TIME)
		text_duration(flame->out, weight);
	else
		text_number(flame->out, weight);
	buffer_string(flame->out, (weight == 1 ? one : many)[flame->unit]);
}

/* As much of the name as has room. */
static void put_label(struct flame *flame, double x, double y, double width)
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

/* `level` 0 is the lowest row, which holds all. */
static void put_box(struct flame *flame, const struct flame_box *box, size_t level, double end)
{
	struct buffer *out = flame->out;
	double scale = flame->total > 0 ? (WIDTH - 2 * MARGIN) / flame->total : 0;
	double x = MARGIN + box->start * scale, width = (end - box->start) * scale;
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
	put_weight(flame, end - box->start);
	buffer_string(out, ", ");
	text_real(out, 100 * (end - box->start) / flame->total, TEXT_POWER);
	buffer_string(out, " %)</title><rect x=\"");
	put_pixels(out, x);
	buffer_string(out, "\" y=\"");
	put_pixels(out, y);
	buffer_string(out, "\" width=\"");
	put_pixels(out, width);
	buffer_string(out, "\" height=\"16\" fill=\"");
	put_colour(out, box->name, box->length);
	buffer_string(out, "\"/>");
	put_label(flame, x, y, width);
	buffer_string(out, "</g>\n");
}

/* Draws the boxes that no longer go on. */
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

static void put_head(struct flame *flame)
{
	static const char *const names[] = {"hits", "time", "bytes"};
	struct buffer *out = flame->out;
	uint64_t height = TOP + (flame->deepest + 1) * ROW + 2 * MARGIN;

	buffer_string(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
			   "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" "
			   "width=\"1200\" height=\"");
	buffer_unsigned(out, height);
	buffer_string(out, "\" viewBox=\"0 0 1200 ");
	buffer_unsigned(out, height);
	buffer_string(out, "\">\n<title>Flame graph</title>\n"
			   "<style>svg{background:#fff}text{font:12px monospace;fill:#000;"
			   "pointer-events:none}g:hover rect{stroke:#000}</style>\n"
			   "<text x=\"10\" y=\"18\">");
	buffer_string(out, names[flame->unit]);
	buffer_string(out, "; click on a box to enlarge it, on the lowest one for all</text>\n");
}

static void put_tail(struct flame *flame)
{
	struct buffer *out = flame->out;

	if (flame->narrow) {
		buffer_string(out, "<text x=\"10\" y=\"");
		put_pixels(out, TOP + (double)(flame->deepest + 1) * ROW + TEXT_BASE);
		buffer_string(out, "\">");
		buffer_unsigned(out, flame->narrow);
		buffer_string(out, flame->narrow == 1 ? " frame is" : " frames are");
		buffer_string(out, " too narrow to be drawn</text>\n");
	}
	buffer_string(out, script);
	buffer_string(out, "</svg>\n");
}

void flame_graph(struct buffer *out, struct flame_stack *stacks, size_t count, enum flame_unit unit)
{
	struct flame flame = {.out = out, .unit = unit};

	for (size_t i = 0; i < count; i++) {
		size_t depth = count_frames(stacks[i].text);

		flame.deepest = depth > flame.deepest ? depth : flame.deepest;
		flame.total += (double)stacks[i].weight;
	}
	flame.boxes = calloc(flame.deepest + 1, sizeof(*flame.boxes));
	if (flame.boxes && count)
		qsort(stacks, count, sizeof(*stacks), compare_stacks);
	put_head(&flame);
	for (size_t i = 0; i < count && flame.boxes; i++)
		put_stack(&flame, &stacks[i]);
	close_boxes(&flame, 0);
	if (flame.total > 0)
		put_box(&flame, &(struct flame_box){"all", 3, 0}, 0, flame.total);
	put_tail(&flame);
	out->no_memory |= !flame.boxes || flame.name.no_memory;
	free(flame.boxes);
	buffer_deinit(&flame.name);
}
