/* SPDX-License-Identifier: MIT */
/* Reads records, and the frames that stubs pass to functions, in the layout of record_layout.c. */
#include <ctype.h>
#include <string.h>

#include "libprobe/query/query.h"

/* ==== Record read ============================================================================= */

/* The bytes of one capture with variable length. */
struct span {
	const uint8_t *bytes;
	size_t length;
	bool truncated, is_null;
};

/*
 * Returns the offset in a record of the fixed part of capture number `count`. The fixed parts of
 * all captures before it precede it.
 */
static size_t fixed_place(const struct record_layout *layout, size_t count)
{
	size_t at = sizeof(struct ring_record);

	for (size_t i = 0; i < count; i++)
		at += arch_capture_fixed(&layout->captures[i]);
	return at;
}

/* Returns the length of a record without the bytes of strings and aggregates. */
static size_t fixed_bytes(const struct record_layout *layout)
{
	return fixed_place(layout, layout->recorded) +
	       (layout->checked ? ring_mask_bytes(layout->recorded) : 0);
}

size_t record_layout_bytes(const struct record_layout *layout)
{
	size_t bytes = fixed_bytes(layout);

	for (size_t i = 0; i < layout->recorded; i++)
		if (arch_capture_has_bytes(&layout->captures[i]))
			bytes += layout->captures[i].bytes_max;
	return ring_padded(bytes, RING_ALIGN);
}

/* Reads a number of 1, 2, 4 or 8 bytes. */
static uint64_t number_at(const uint8_t *at, uint32_t bytes)
{
	uint64_t eight;
	uint32_t four;
	uint16_t two;

	switch (bytes) {
	case 8:
		memcpy(&eight, at, sizeof(eight));
		return eight;
	case 4:
		memcpy(&four, at, sizeof(four));
		return four;
	case 2:
		memcpy(&two, at, sizeof(two));
		return two;
	default:
		return *at;
	}
}

/*
 * Returns true if all bytes are printable text. Whether they are valid UTF-8 is checked only in the
 * output.
 */
static bool is_text(const struct span *span)
{
	if (!span->length)
		return false;
	for (size_t i = 0; i < span->length; i++)
		if (span->bytes[i] < 0x80 && !isprint(span->bytes[i]) && !isspace(span->bytes[i]))
			return false;
	return true;
}

static void span_value(const struct span *span, enum probe_value_kind kind, struct probe_value *ret)
{
	ret->kind = span->is_null ? PROBE_VALUE_NULL : kind;
	ret->truncated = span->truncated;
	ret->bytes = (const char *)span->bytes;
	ret->length = span->length;
}

/* Reads an argument as a string. The user or the catalogue has said that it is a string. */
static void string_value(const struct arch_capture *capture, const struct record_layout_arg *arg,
	const struct span *span, struct probe_value *ret)
{
	const void *end = NULL;

	span_value(span,
		arg->is_known	? PROBE_VALUE_TEXT
		: arg->is_bytes ? PROBE_VALUE_BYTES
				: PROBE_VALUE_STRING,
		ret);
	ret->known = arg->is_known;
	if (capture->has_length && !arg->is_bytes && !span->is_null)
		end = memchr(span->bytes, '\0', span->length);
	if (!end)
		return;
	ret->length = (size_t)((const uint8_t *)end - span->bytes);
	ret->truncated = false;
}

/* Extends the lower `bytes` bytes of a word to 64 bits. */
static uint64_t extend(uint64_t word, unsigned int bytes, bool is_signed)
{
	unsigned int bits = bytes * 8;

	if (bits == 0 || bits >= 64)
		return word;
	word &= (UINT64_C(1) << bits) - 1;
	return is_signed && word >> (bits - 1) ? word | ~UINT64_C(0) << bits : word;
}

/* Extends the number of a capture to 64 bits, as the code of a stub does for expressions. */
static uint64_t extended(const struct arch_capture *c, uint64_t number)
{
	bool is_signed =
		c->arg.is_signed && !c->arg.is_float && c->arg.kind != ARCH_ARG_FP_REGISTER;

	if (c->step_count)
		is_signed = c->steps[c->step_count - 1].is_signed;
	return extend(number, arch_capture_size(c), is_signed);
}

static void number_value(
	const struct record_layout_arg *arg, uint64_t word, struct probe_value *ret)
{
	float single;

	ret->kind = arg->is_signed ? PROBE_VALUE_SIGNED : PROBE_VALUE_UNSIGNED;
	ret->u = extend(word, arg->size, arg->is_signed);
	if (!arg->is_float)
		return;
	ret->kind = PROBE_VALUE_FLOAT;
	if (arg->size == 4) {
		memcpy(&single, &word, sizeof(single));
		ret->f = single;
	} else {
		memcpy(&ret->f, &word, sizeof(ret->f));
	}
}

bool record_layout_read_stack(
	const struct record_layout *layout, const uint8_t *record, struct record_layout_stack *ret)
{
	const uint8_t *first = record + sizeof(struct ring_record);
	size_t before = layout->stack - 1u; /* number of captures before the stack */
	uint64_t word;

	if (!layout->stack)
		return false;
	word = number_at(record + fixed_place(layout, before), sizeof(uint32_t));
	/* The stack is the first capture with variable length. */
	*ret = (struct record_layout_stack){
		.bytes = record + fixed_bytes(layout), .length = ring_string_length(word)};
	if (layout->captures[before].stack == ARCH_STACK_BYTES)
		ret->registers = first;
	else if (before)
		ret->caller = number_at(first, sizeof(uint64_t));
	return true;
}

/*
 * Returns the span of a capture with variable length. `word` has the length and flags of the bytes.
 */
static struct span span_of(const uint8_t *bytes, uint64_t word)
{
	return (struct span){.bytes = bytes,
		.length = ring_string_length(word),
		.truncated = word >> RING_STRING_TRUNCATED_BIT & 1,
		.is_null = word >> RING_STRING_NULL_BIT & 1};
}

/*
 * Sets the values of all arguments. words[i] is the number of capture i. Bit i of `valid` is set if
 * capture i was readable.
 */
static void read_values(const struct record_layout *layout, const uint64_t *words, uint64_t valid,
	const struct span *spans, struct probe_value *values)
{
	for (size_t i = 0; i < layout->arg_count; i++) {
		const struct record_layout_arg *arg = &layout->args[i];
		const struct span *string = arg->string >= 0 ? &spans[arg->string] : NULL;

		values[i] = (struct probe_value){.kind = PROBE_VALUE_NULL};
		if (arg->value >= 0 && valid >> arg->value & 1) {
			if (arch_capture_has_bytes(&layout->captures[arg->value]))
				span_value(&spans[arg->value], PROBE_VALUE_BYTES, &values[i]);
			else
				number_value(arg, words[arg->value], &values[i]);
		}
		/* If the string was unreadable, show only the number. */
		if (string && arg->is_known &&
			(string->is_null || values[i].kind == PROBE_VALUE_NULL))
			continue;
		if (string && !arg->is_guess)
			string_value(&layout->captures[arg->string], arg, string, &values[i]);
		else if (string && !string->is_null && is_text(string))
			span_value(string, PROBE_VALUE_TEXT, &values[i]);
	}
}

void record_layout_read_frame(const struct record_layout *layout, const uint64_t *frame,
	struct probe_value values[ARCH_ARGS_MAX])
{
	const uint64_t *pointers = frame + layout->recorded + 1;
	struct span spans[ARCH_ARGS_MAX];

	for (size_t i = 0; i < layout->recorded; i++)
		if (arch_capture_has_bytes(&layout->captures[i]))
			spans[i] = span_of((const uint8_t *)(uintptr_t)pointers[i], frame[i]);
	read_values(layout, frame, frame[layout->recorded], spans, values);
}

static bool is_plain(const struct record_layout *layout, const struct record_layout_arg *arg)
{
	if (arg->string >= 0)
		return !arg->is_guess && !arg->is_known &&
		       !layout->captures[arg->string].has_length;
	return arg->value >= 0 && !arg->is_float &&
	       !arch_capture_has_bytes(&layout->captures[arg->value]) &&
	       layout->captures[arg->value].arg.kind != ARCH_ARG_FP_REGISTER;
}

bool record_layout_is_plain(const struct record_layout *layout)
{
	for (size_t i = 0; i < layout->arg_count; i++)
		if (!is_plain(layout, &layout->args[i]))
			return false;
	return true;
}

/* The captures found in a record. */
struct found {
	/* Numbers, not yet extended; for strings and aggregates, words with length and flags. */
	uint64_t words[ARCH_ARGS_MAX];
	struct span spans[ARCH_ARGS_MAX]; /* bytes of each string or aggregate */
	uint64_t valid;			  /* bit i is set if capture i was readable */
};

/*
 * Finds the numbers and the bit mask in a record. Returns where the bytes of strings and aggregates
 * begin, or NULL if the record is too short.
 */
static const uint8_t *find_numbers(
	const struct record_layout *layout, const uint8_t *record, size_t size, struct found *ret)
{
	const uint8_t *at = record + sizeof(struct ring_record);
	size_t left = size - sizeof(struct ring_record);
	uint32_t mask = layout->checked ? ring_mask_bytes(layout->recorded) : 0;

	if (size < sizeof(struct ring_record))
		return NULL;
	for (size_t i = 0; i < layout->recorded; i++) {
		uint32_t fixed = arch_capture_fixed(&layout->captures[i]);

		if (fixed > left)
			return NULL;
		ret->words[i] = number_at(at, fixed);
		at += fixed;
		left -= fixed;
	}
	if (mask > left)
		return NULL;
	ret->valid = mask ? number_at(at, mask) : ~UINT64_C(0);
	return at + mask;
}

/*
 * Finds the captures in a record. Returns the length of the record. Returns 0 if this length
 * exceeds `size`, or if a capture is longer than stubs ever write it, because the target may have
 * written to the ring.
 */
static size_t find_captures(
	const struct record_layout *layout, const uint8_t *record, size_t size, struct found *ret)
{
	const uint8_t *bytes = find_numbers(layout, record, size, ret);
	size_t at;

	if (!bytes)
		return 0;
	at = (size_t)(bytes - record);
	for (size_t i = 0; i < layout->recorded; i++) {
		const struct arch_capture *c = &layout->captures[i];
		struct span *span = &ret->spans[i];

		if (!arch_capture_has_bytes(c))
			continue;
		*span = span_of(record + at, ret->words[i]);
		if (span->length > c->bytes_max || span->length > size - at)
			return 0;
		at += span->length;
	}
	at = ring_padded(at, RING_ALIGN);
	return at <= size ? at : 0;
}

size_t record_layout_read(const struct record_layout *layout, const uint8_t *record, size_t size,
	struct probe_value values[ARCH_ARGS_MAX])
{
	struct found found;
	size_t length = find_captures(layout, record, size, &found);

	if (length)
		read_values(layout, found.words, found.valid, found.spans, values);
	return length;
}

/* Finds the recorded captures of a record that record_layout_read() accepted. */
static void record_layout_captures(const struct record_layout *layout, const uint8_t *record,
	struct record_layout_captured ret[ARCH_ARGS_MAX])
{
	struct found found = {0};

	find_captures(layout, record, SIZE_MAX, &found);
	for (size_t i = 0; i < layout->recorded; i++) {
		const struct arch_capture *c = &layout->captures[i];

		ret[i] = (struct record_layout_captured){.is_null = !(found.valid >> i & 1)};
		if (arch_capture_has_bytes(c)) {
			ret[i].bytes = found.spans[i].bytes;
			ret[i].length = found.spans[i].length;
			ret[i].is_null |= found.spans[i].is_null;
		} else {
			ret[i].word = extended(c, found.words[i]);
		}
	}
}

/* ==== Interpret =============================================================================== */

/*
 * Computes bound expressions outside the target, from the data in a record. This interpreter shares
 * no code with the parser or the code generator of stubs, because tests compare their results.
 */

/* ---- Values ------------------------------------------------------------------------------- */

/* A value of one of the four integer types. The node of the expression says which. */
union number {
	int32_t i;
	uint32_t u;
	int64_t l;
	uint64_t ul;
};

static union number from_word(const struct arch_expr_node *type, uint64_t word)
{
	union number n = {0};

	if (type->wide)
		n.ul = word;
	else
		n.u = (uint32_t)word;
	return n;
}

static uint64_t to_word(const struct arch_expr_node *type, union number n)
{
	if (type->wide)
		return n.ul;
	return type->is_signed ? (uint64_t)(int64_t)n.i : n.u;
}

/*
 * Compares two values. The result is negative if a < b, 0 if they are equal, and positive if a > b.
 */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static bool compare_doubles(enum arch_expr_kind kind, uint64_t left, uint64_t right)
{
	double a, b;

	memcpy(&a, &left, sizeof(a));
	memcpy(&b, &right, sizeof(b));
	switch (kind) {
	case ARCH_EXPR_LT:
		return a < b;
	case ARCH_EXPR_LE:
		return a <= b;
	case ARCH_EXPR_GT:
		return a > b;
	case ARCH_EXPR_GE:
		return a >= b;
	case ARCH_EXPR_EQ:
		return a == b;
	default:
		return a != b;
	}
}

static bool compare(const struct arch_expr_node *node, union number a, union number b)
{
	int order;

	if (node->is_double)
		return compare_doubles(node->kind, a.ul, b.ul);

	if (node->wide)
		order = node->is_signed ? ORDER(a.l, b.l) : ORDER(a.ul, b.ul);
	else
		order = node->is_signed ? ORDER(a.i, b.i) : ORDER(a.u, b.u);
	switch (node->kind) {
	case ARCH_EXPR_LT:
		return order < 0;
	case ARCH_EXPR_LE:
		return order <= 0;
	case ARCH_EXPR_GT:
		return order > 0;
	case ARCH_EXPR_GE:
		return order >= 0;
	case ARCH_EXPR_EQ:
		return order == 0;
	default:
		return order != 0;
	}
}

/*
 * Divides; returns false if the divisor is 0. The smallest number divided by -1 gives itself, with
 * remainder 0.
 */
static bool divide(const struct arch_expr_node *node, union number a, union number b, uint64_t *ret)
{
	bool is_mod = node->kind == ARCH_EXPR_MOD;
	bool by_minus_one = node->is_signed && (node->wide ? b.l == -1 : b.i == -1);
	union number zero = {0}, result = {0};

	if (node->wide ? b.ul == 0 : b.u == 0)
		return false;
	if (by_minus_one && is_mod)
		result = zero;
	else if (by_minus_one && node->wide)
		result.ul = 0 - a.ul;
	else if (by_minus_one)
		result.u = 0 - a.u;
	else if (node->wide && node->is_signed)
		result.l = is_mod ? a.l % b.l : a.l / b.l;
	else if (node->wide)
		result.ul = is_mod ? a.ul % b.ul : a.ul / b.ul;
	else if (node->is_signed)
		result.i = is_mod ? a.i % b.i : a.i / b.i;
	else
		result.u = is_mod ? a.u % b.u : a.u / b.u;
	*ret = to_word(node, result);
	return true;
}

static uint64_t shift(const struct arch_expr_node *node, union number a, uint64_t count)
{
	union number result = {0};

	if (node->kind == ARCH_EXPR_SHL && node->wide)
		result.ul = a.ul << count % 64;
	else if (node->kind == ARCH_EXPR_SHL)
		result.u = a.u << count % 32;
	else if (node->wide && node->is_signed)
		result.l = a.l >> count % 64;
	else if (node->wide)
		result.ul = a.ul >> count % 64;
	else if (node->is_signed)
		result.i = a.i >> count % 32;
	else
		result.u = a.u >> count % 32;
	return to_word(node, result);
}

/* Operators whose result does not depend on whether the operands are signed (two's complement). */
static uint64_t modular(const struct arch_expr_node *node, uint64_t a, uint64_t b)
{
	uint64_t result;

	switch (node->kind) {
	case ARCH_EXPR_NEGATE:
		result = 0 - a;
		break;
	case ARCH_EXPR_COMPLEMENT:
		result = ~a;
		break;
	case ARCH_EXPR_ADD:
		result = a + b;
		break;
	case ARCH_EXPR_SUB:
		result = a - b;
		break;
	case ARCH_EXPR_MUL:
		result = a * b;
		break;
	case ARCH_EXPR_AND:
		result = a & b;
		break;
	case ARCH_EXPR_OR:
		result = a | b;
		break;
	case ARCH_EXPR_XOR:
		result = a ^ b;
		break;
	default: /* ARCH_EXPR_CONVERT */
		result = a;
		break;
	}
	return to_word(node, from_word(node, result));
}

/* ---- Trees -------------------------------------------------------------------------------- */

static bool evaluate(const struct arch_expr_node *nodes, uint8_t index,
	const struct expr_input *input, uint64_t *ret);

static bool string_matches(const struct arch_expr_node *node, const struct expr_string *string)
{
	if (node->kind == ARCH_EXPR_STRING_IS && string->length != node->text_length)
		return false;
	/* An empty string may have NULL as its bytes. */
	return string->length >= node->text_length &&
	       (!node->text_length || memcmp(string->bytes, node->text, node->text_length) == 0);
}

/* Converts a captured double or float, given as bits, to a double, also as bits. */
static uint64_t double_bits(enum arch_expr_kind kind, uint64_t word)
{
	double value;
	float single;

	if (kind == ARCH_EXPR_FLOAT) {
		memcpy(&single, &word, sizeof(single));
		value = single;
	} else {
		memcpy(&value, &word, sizeof(value));
	}
	if (value == 0)
		value = 0;
	memcpy(&word, &value, sizeof(word));
	return word;
}

static void evaluate_leaf(
	const struct arch_expr_node *node, const struct expr_input *input, uint64_t *ret)
{
	switch (node->kind) {
	case ARCH_EXPR_CONST:
		*ret = node->value;
		break;
	case ARCH_EXPR_CAPTURE:
		*ret = input->words[node->capture];
		break;
	case ARCH_EXPR_DOUBLE:
	case ARCH_EXPR_FLOAT:
		*ret = double_bits(node->kind, input->words[node->capture]);
		break;
	case ARCH_EXPR_TID:
		*ret = (uint64_t)(int64_t)input->tid;
		break;
	case ARCH_EXPR_PID:
		*ret = (uint64_t)(int64_t)input->pid;
		break;
	case ARCH_EXPR_DURATION:
		*ret = input->duration;
		break;
	case ARCH_EXPR_CPU:
		*ret = (uint64_t)(int64_t)input->cpu;
		break;
	default:
		*ret = string_matches(node, &input->strings[node->capture]);
		break;
	}
}

static bool evaluate_binary(const struct arch_expr_node *nodes, uint8_t index,
	const struct expr_input *input, uint64_t *ret)
{
	const struct arch_expr_node *node = &nodes[index];
	union number a, b;
	uint64_t left, right;

	if (!evaluate(nodes, node->left, input, &left) ||
		!evaluate(nodes, node->right, input, &right))
		return false;
	a = from_word(node, left);
	b = from_word(node, right);
	if (node->kind == ARCH_EXPR_DIV || node->kind == ARCH_EXPR_MOD)
		return divide(node, a, b, ret);
	if (node->kind == ARCH_EXPR_SHL || node->kind == ARCH_EXPR_SHR)
		*ret = shift(node, a, right);
	else if (node->kind >= ARCH_EXPR_LT && node->kind <= ARCH_EXPR_NE)
		*ret = compare(node, a, b);
	else
		*ret = modular(node, left, right);
	return true;
}

static bool is_listed(const struct arch_expr_node *node, uint64_t value)
{
	for (size_t i = 0; i < node->list_count; i++) {
		union number a = from_word(node, value), b = from_word(node, node->list[i]);

		if (node->wide ? a.ul == b.ul : a.u == b.u)
			return true;
	}
	return false;
}

static bool evaluate(const struct arch_expr_node *nodes, uint8_t index,
	const struct expr_input *input, uint64_t *ret)
{
	const struct arch_expr_node *node = &nodes[index];

	if (node->kind < ARCH_EXPR_NEGATE) {
		evaluate_leaf(node, input, ret);
		return true;
	}
	if (node->kind >= ARCH_EXPR_ADD && node->kind <= ARCH_EXPR_NE)
		return evaluate_binary(nodes, index, input, ret);
	if (!evaluate(nodes, node->left, input, ret))
		return false;
	if (node->kind == ARCH_EXPR_BOTH || node->kind == ARCH_EXPR_EITHER) {
		if ((*ret != 0) == (node->kind == ARCH_EXPR_BOTH) &&
			!evaluate(nodes, node->right, input, ret))
			return false;
		*ret = *ret != 0;
	} else if (node->kind == ARCH_EXPR_NOT) {
		*ret = *ret == 0;
	} else if (node->kind == ARCH_EXPR_IN) {
		*ret = is_listed(node, *ret);
	} else {
		*ret = modular(node, *ret, 0);
	}
	return true;
}

static bool has_capture(const struct arch_expr_node *node)
{
	return node->kind == ARCH_EXPR_CAPTURE || node->kind == ARCH_EXPR_DOUBLE ||
	       node->kind == ARCH_EXPR_FLOAT || node->kind == ARCH_EXPR_STRING_IS ||
	       node->kind == ARCH_EXPR_STRING_BEGINS;
}

bool expr_interpret(const struct arch_expr *expr, const struct expr_input *input, uint64_t *ret)
{
	for (uint8_t i = 0; i < expr->count; i++)
		if (has_capture(&expr->nodes[i]) && input->unreadable >> expr->nodes[i].capture & 1)
			return false;
	return evaluate(expr->nodes, expr->count - 1, input, ret);
}

struct probe_value expr_record_value(const struct arch_expr *expr,
	const struct record_layout *layout, const uint8_t *record, int32_t tid, int32_t pid,
	int32_t cpu)
{
	const struct arch_expr_node *last = &expr->nodes[expr->count - 1];
	struct record_layout_captured captured[ARCH_ARGS_MAX];
	struct expr_string strings[ARCH_ARGS_MAX] = {0};
	uint64_t words[ARCH_ARGS_MAX] = {0}, value;
	struct expr_input input = {
		.words = words, .strings = strings, .tid = tid, .pid = pid, .cpu = cpu};

	record_layout_captures(layout, record, captured);
	for (size_t i = 0; i < layout->recorded; i++) {
		words[i] = captured[i].word;
		strings[i] =
			(struct expr_string){(const char *)captured[i].bytes, captured[i].length};
		input.unreadable |= (uint64_t)captured[i].is_null << i;
	}
	if (!expr_interpret(expr, &input, &value))
		return (struct probe_value){.kind = PROBE_VALUE_NULL};
	return (struct probe_value){
		.kind = expr_is_signed(last) ? PROBE_VALUE_SIGNED : PROBE_VALUE_UNSIGNED,
		.u = value};
}
