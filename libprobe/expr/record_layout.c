/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <string.h>

#include "arch/general.h"
#include "libprobe/expr/record_layout.h"

enum {
	STRING_BYTES_DEFAULT = 256,
	AGGREGATE_BYTES_MAX = 256,
	STACK_BYTES_DEFAULT = 8192,
	STACK_BYTES_MIN = 64
};

/* Whether these bytes stay mapped as long as the module. The note may name any address. */
static bool is_mapped(const struct object *object, uint64_t address, uint64_t size)
{
	const struct object_segment *segments;
	size_t count;

	segments = object_segments(object, &count);
	for (size_t i = 0; i < count; i++)
		if (segments[i].readable && address >= segments[i].address &&
			size <= segments[i].size &&
			address - segments[i].address <= segments[i].size - size)
			return true;
	return false;
}

/* Resolves the symbols that the argument names; false if it cannot be read. */
static bool resolve(struct arch_arg *arg, bool *is_static_ret, struct module *module)
{
	uint64_t value, size;

	*is_static_ret = false;
	if (arg->symbol) {
		if (!object_symbol(module->object, arg->symbol, arg->symbol_length, &value, &size))
			return false;
		value += arg->disp;
		arg->disp = value + module->bias;
		arg->symbol = NULL;
		/* With a register, the symbol is only the start of an address. */
		*is_static_ret = arg->kind == ARCH_ARG_MEMORY && arg->base < 0 && arg->index < 0 &&
				 is_mapped(module->object, value, arg->size);
	} else if (arg->base == ARCH_REG_PC) {
		return false; /* relative to an unknown instruction */
	}
	if (arg->base == ARCH_REG_PC)
		arg->base = ARCH_REG_NONE;
	return true;
}

/* Whether it holds a pointer: not in a vector register, too small, or a fraction. */
static bool may_be_string(const struct arch_arg *arg)
{
	bool is_whole = arg->size == 1 || arg->size == 2 || arg->size == 4 || arg->size == 8;

	return is_whole && !arg->is_float && arg->kind != ARCH_ARG_FP_REGISTER;
}

static int add_capture(struct record_layout *l, const struct arch *arch, const struct arch_arg *arg,
	bool is_static, bool is_string, size_t bytes)
{
	struct arch_capture capture = {.arg = *arg, .is_static = is_static, .is_string = is_string};

	if (l->capture_count == ARCH_ARGS_MAX || (is_string && !may_be_string(arg)))
		return -1;
	capture.bytes_max =
		is_string ? (bytes < PROBE_STRING_BYTES_MAX ? bytes : PROBE_STRING_BYTES_MAX)
			  : AGGREGATE_BYTES_MAX;
	if (!arch->capturable(&capture.arg))
		return -1;
	l->captures[l->capture_count] = capture;
	return l->capture_count++;
}

/* As many bytes at `arg` as `length` says. */
static int add_sized(struct record_layout *l, const struct record_layout_site *site,
	const struct arch_arg *arg, bool is_static, const struct arch_arg *length, size_t bytes)
{
	struct arch_capture *capture;
	struct arch_arg resolved = *length;
	bool length_is_static;
	int index;

	if (length->kind == ARCH_ARG_UNKNOWN || !may_be_string(length) ||
		!resolve(&resolved, &length_is_static, site->module) ||
		!site->arch->capturable(&resolved))
		return -1;
	/* The rest is as for a string. */
	index = add_capture(l, site->arch, arg, is_static, true, bytes);
	if (index < 0)
		return -1;
	capture = &l->captures[index];
	capture->is_string = false;
	capture->has_length = true;
	capture->length = resolved;
	capture->length_is_static = length_is_static;
	return index;
}

static bool may_point(const struct arch_arg *arg)
{
	return arg->size == 8 && !arg->is_float &&
	       (arg->kind == ARCH_ARG_REGISTER || arg->kind == ARCH_ARG_MEMORY);
}

static const struct arch_arg *spec_of(const struct record_layout_site *site, unsigned int arg)
{
	static const struct arch_arg absent = {.kind = ARCH_ARG_UNKNOWN};

	return arg < site->count ? &site->specs[arg] : &absent;
}

/* What is wanted of an argument; with a length, the bytes. Its index, or -1. */
static int add_wanted(struct record_layout *l, const struct record_layout_site *site,
	const struct capture *wanted, size_t bytes)
{
	struct arch_arg resolved = *spec_of(site, wanted->arg);
	struct arch_capture *capture;
	bool is_static;
	int index;

	if (resolved.kind == ARCH_ARG_UNKNOWN || !resolve(&resolved, &is_static, site->module) ||
		(wanted->step_count && !may_be_string(&resolved)))
		return -1;
	if (wanted->has_length)
		index = add_sized(
			l, site, &resolved, is_static, spec_of(site, wanted->length), bytes);
	else
		index = add_capture(l, site->arch, &resolved, is_static, wanted->is_string, bytes);
	if (index < 0)
		return -1;
	capture = &l->captures[index];
	capture->step_count = wanted->step_count;
	memcpy(capture->steps, wanted->steps, sizeof(capture->steps));
	return index;
}

static void add_arg(struct record_layout *l, const struct record_layout_site *site,
	const struct capture *wanted, const struct probe_session_options *options)
{
	struct record_layout_arg *arg = &l->args[l->arg_count++];
	const struct arch_arg *spec = spec_of(site, wanted->arg);
	size_t bytes = options->string_bytes ? options->string_bytes : STRING_BYTES_DEFAULT;

	*arg = (struct record_layout_arg){.value = -1,
		.string = -1,
		.is_signed = spec->is_signed,
		.is_float = spec->is_float,
		.size = spec->size <= 8 ? spec->size : 0,
		.number = wanted->arg};
	if (wanted->step_count) {
		arg->is_signed = wanted->steps[wanted->step_count - 1].is_signed;
		arg->is_float = false;
		arg->size = wanted->steps[wanted->step_count - 1].size;
	}
	arg->is_bytes = wanted->has_length && !wanted->is_string;
	if (wanted->is_string || wanted->has_length) {
		arg->string = add_wanted(l, site, wanted, bytes);
		return;
	}
	arg->value = add_wanted(l, site, wanted, bytes);
	if (options->guess_strings && !wanted->step_count && may_point(spec)) {
		arg->is_guess = true;
		arg->string = add_wanted(
			l, site, &(struct capture){.arg = wanted->arg, .is_string = true}, bytes);
	}
}

void record_layout_site_init(struct record_layout_site *site, const struct arch *arch,
	struct module *module, const char *args)
{
	site->arch = arch;
	site->module = module;
	site->count = arch->parse_args(args, site->specs);
	site->kept = NULL;
	site->kept_count = 0;
	site->pc = 0;
	site->return_offset = -1;
}

const struct record_layout_kept *record_layout_find_kept(const struct record_layout_kept *kept,
	uint8_t count, const struct capture *what, uint16_t bytes)
{
	for (uint8_t i = 0; i < count; i++)
		if (capture_is(&kept[i].what, what) && kept[i].bytes == bytes)
			return &kept[i];
	return NULL;
}

int record_layout_capture_begun(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *what, uint16_t bytes)
{
	const struct record_layout_kept *kept =
		record_layout_find_kept(site->kept, site->kept_count, what, bytes);

	if (!kept)
		return -1;
	for (int i = 0; i < layout->capture_count; i++)
		if (layout->captures[i].begun == kept->offset)
			return i;
	if (layout->capture_count == ARCH_ARGS_MAX)
		return -1;
	layout->captures[layout->capture_count] = (struct arch_capture){
		.begun = kept->offset, .is_string = bytes > 0, .bytes_max = bytes};
	return layout->capture_count++;
}

int record_layout_capture_stack(struct record_layout *layout, const struct arch *arch,
	enum arch_capture_stack kind, uint16_t bytes)
{
	if (!arch->unwind_registers || layout->capture_count == ARCH_ARGS_MAX)
		return -1;
	layout->captures[layout->capture_count] =
		(struct arch_capture){.stack = kind, .bytes_max = bytes};
	return layout->capture_count++;
}

int record_layout_capture_word(
	struct record_layout *layout, const struct arch *arch, int32_t offset)
{
	struct arch_capture capture = {.arg = {.kind = ARCH_ARG_MEMORY,
					       .size = 8,
					       .base = arch->unwind_registers[0].reg,
					       .index = ARCH_REG_NONE,
					       .disp = offset}};

	if (layout->capture_count == ARCH_ARGS_MAX)
		return -1;
	layout->captures[layout->capture_count] = capture;
	return layout->capture_count++;
}

/* The registers, followed by the stack. They come first, so there is room for them. */
static void add_stack(struct record_layout *l, const struct arch *arch, size_t bytes)
{
	for (size_t i = 0; i < arch->unwind_count; i++)
		l->captures[l->capture_count++] =
			(struct arch_capture){.arg = {.kind = ARCH_ARG_REGISTER,
						      .size = 8,
						      .base = arch->unwind_registers[i].reg,
						      .index = ARCH_REG_NONE,
						      .width = 8}};
	if (bytes < STACK_BYTES_MIN)
		bytes = bytes ? STACK_BYTES_MIN : STACK_BYTES_DEFAULT;
	if (bytes > ARCH_STACK_MAX)
		bytes = ARCH_STACK_MAX;
	l->stack =
		(uint8_t)(1 + record_layout_capture_stack(l, arch, ARCH_STACK_BYTES, bytes & ~7u));
}

void record_layout_record_all(struct record_layout *layout, const struct arch *arch)
{
	layout->recorded = layout->capture_count;
	for (size_t i = 0; i < layout->recorded; i++)
		layout->checked |= arch->capture_checked(&layout->captures[i]);
}

void record_layout_init(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *wanted, size_t wanted_count,
	const struct probe_session_options *options)
{
	*layout = (struct record_layout){0};
	if (options->stack == PROBE_STACK_COPY)
		add_stack(layout, site->arch, options->stack_bytes);
	for (size_t i = 0; !wanted && i < site->count; i++)
		add_arg(layout, site, &(struct capture){.arg = (unsigned char)i}, options);
	for (size_t i = 0; i < wanted_count && layout->arg_count < ARCH_ARGS_MAX; i++)
		add_arg(layout, site, &wanted[i], options);
	record_layout_record_all(layout, site->arch);
}

static bool same_operand(const struct arch_arg *a, const struct arch_arg *b)
{
	return a->spec == b->spec && a->spec_length == b->spec_length;
}

/* Does it capture what is wanted, and as many bytes of it? */
static bool serves(const struct arch_capture *c, const struct record_layout_site *site,
	const struct capture *wanted, uint16_t bytes)
{
	if (c->begun || !same_operand(&c->arg, spec_of(site, wanted->arg)) ||
		c->is_string != wanted->is_string || c->has_length != wanted->has_length)
		return false;
	if (c->has_length && !same_operand(&c->length, spec_of(site, wanted->length)))
		return false;
	if (c->step_count != wanted->step_count)
		return false;
	for (size_t i = 0; i < c->step_count; i++)
		if (!arch_step_is(&c->steps[i], &wanted->steps[i]))
			return false;
	return !c->is_string || c->bytes_max >= bytes;
}

int record_layout_capture(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *wanted, uint16_t bytes)
{
	int index;

	if (spec_of(site, wanted->arg)->kind == ARCH_ARG_UNKNOWN)
		return -1;
	for (int i = 0; i < layout->capture_count; i++)
		if (serves(&layout->captures[i], site, wanted, bytes))
			return i;
	index = add_wanted(layout, site, wanted, bytes);
	if (index >= 0)
		layout->captures[index].is_string = wanted->is_string;
	return index;
}

/* ---- Reading back ----------------------------------------------------------------- */

/* Where the bytes of a capture are, once their length is known. */
struct span {
	const uint8_t *bytes;
	size_t length;
	bool truncated, is_null;
};

static bool has_bytes(const struct arch_capture *c)
{
	uint32_t size = arch_capture_size(c);

	return c->is_string || c->has_length || !(size == 1 || size == 2 || size == 4 || size == 8);
}

size_t record_layout_bytes(const struct record_layout *layout)
{
	size_t bytes = sizeof(struct ring_record) + 8 * (layout->recorded + layout->checked);

	for (size_t i = 0; i < layout->recorded; i++)
		if (has_bytes(&layout->captures[i]))
			bytes += (layout->captures[i].bytes_max + 15) & ~7u;
	return bytes;
}

static uint64_t word_at(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* Whether all bytes are readable text; UTF-8 is left to the output. */
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

/* What was requested as a string, or as bytes. */
static void string_value(const struct arch_capture *capture, const struct record_layout_arg *arg,
	const struct span *span, struct probe_value *ret)
{
	const void *end = NULL;

	span_value(span, arg->is_bytes ? PROBE_VALUE_BYTES : PROBE_VALUE_STRING, ret);
	if (capture->has_length && !arg->is_bytes && !span->is_null)
		end = memchr(span->bytes, '\0', span->length);
	if (!end)
		return;
	ret->length = (size_t)((const uint8_t *)end - span->bytes);
	ret->truncated = false;
}

/* Integers of less than 64 bits in a vector register are not extended yet. */
static uint64_t extend(const struct record_layout_arg *arg, uint64_t word)
{
	unsigned int bits = arg->size * 8;

	if (bits == 0 || bits >= 64)
		return word;
	word &= (UINT64_C(1) << bits) - 1;
	return arg->is_signed && word >> (bits - 1) ? word | ~UINT64_C(0) << bits : word;
}

static void number_value(
	const struct record_layout_arg *arg, uint64_t word, struct probe_value *ret)
{
	float single;

	ret->kind = arg->is_signed ? PROBE_VALUE_SIGNED : PROBE_VALUE_UNSIGNED;
	ret->u = extend(arg, word);
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
	const uint8_t *words = record + sizeof(struct ring_record);
	size_t at = sizeof(struct ring_record) + 8 * (layout->recorded + layout->checked);

	if (!layout->stack)
		return false;
	/* It comes first among the variable captures. */
	*ret = (struct record_layout_stack){.registers = (const uint64_t *)(const void *)words,
		.bytes = record + at,
		.length = (uint32_t)word_at(words + 8 * (layout->stack - 1))};
	return true;
}

/* A variable capture's word holds its length. */
static struct span span_of(const uint8_t *bytes, uint64_t word)
{
	return (struct span){.bytes = bytes,
		.length = (uint32_t)word,
		.truncated = word >> RING_STRING_TRUNCATED_BIT & 1,
		.is_null = word >> RING_STRING_NULL_BIT & 1};
}

/* `words` has one u64 per capture; a bit in `valid` says that it could be read. */
static void read_values(const struct record_layout *layout, const uint8_t *words, uint64_t valid,
	const struct span *spans, struct probe_value *values)
{
	for (size_t i = 0; i < layout->arg_count; i++) {
		const struct record_layout_arg *arg = &layout->args[i];
		const struct span *string = arg->string >= 0 ? &spans[arg->string] : NULL;

		values[i] = (struct probe_value){.kind = PROBE_VALUE_NULL};
		if (arg->value >= 0 && valid >> arg->value & 1) {
			if (has_bytes(&layout->captures[arg->value]))
				span_value(&spans[arg->value], PROBE_VALUE_BYTES, &values[i]);
			else
				number_value(arg, word_at(words + 8 * arg->value), &values[i]);
		}
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
		if (has_bytes(&layout->captures[i]))
			spans[i] = span_of((const uint8_t *)(uintptr_t)pointers[i], frame[i]);
	read_values(layout, (const uint8_t *)frame, frame[layout->recorded], spans, values);
}

static bool is_plain(const struct record_layout *layout, const struct record_layout_arg *arg)
{
	if (arg->string >= 0)
		return !arg->is_guess && !layout->captures[arg->string].has_length;
	return arg->value >= 0 && !arg->is_float && !has_bytes(&layout->captures[arg->value]) &&
	       layout->captures[arg->value].arg.kind != ARCH_ARG_FP_REGISTER;
}

bool record_layout_is_plain(const struct record_layout *layout)
{
	for (size_t i = 0; i < layout->arg_count; i++)
		if (!is_plain(layout, &layout->args[i]))
			return false;
	return true;
}

size_t record_layout_read(const struct record_layout *layout, const uint8_t *record, size_t size,
	struct probe_value values[ARCH_ARGS_MAX])
{
	const uint8_t *words = record + sizeof(struct ring_record);
	size_t at = sizeof(struct ring_record) + 8 * (layout->recorded + layout->checked);
	uint64_t valid = ~UINT64_C(0);
	struct span spans[ARCH_ARGS_MAX]; /* of the variable captures */

	if (at > size)
		return 0;
	if (layout->checked)
		valid = word_at(words + 8 * layout->recorded);
	for (size_t i = 0; i < layout->recorded; i++) {
		const struct arch_capture *c = &layout->captures[i];
		uint64_t word = word_at(words + 8 * i);
		size_t length = (uint32_t)word;

		if (!has_bytes(c))
			continue;
		/* Untrusted: the target can write here. */
		if (length > (size_t)c->bytes_max + 8 || at + ((length + 7) & ~(size_t)7) > size)
			return 0;
		spans[i] = span_of(record + at, word);
		at += (length + 7) & ~(size_t)7;
	}
	read_values(layout, words, valid, spans, values);
	return at;
}

void record_layout_captures(const struct record_layout *layout, const uint8_t *record,
	struct record_layout_captured ret[ARCH_ARGS_MAX])
{
	const uint8_t *words = record + sizeof(struct ring_record);
	size_t at = sizeof(struct ring_record) + 8 * (layout->recorded + layout->checked);
	uint64_t valid = layout->checked ? word_at(words + 8 * layout->recorded) : ~UINT64_C(0);

	for (size_t i = 0; i < layout->recorded; i++) {
		uint64_t word = word_at(words + 8 * i);
		struct span span = span_of(record + at, word);

		ret[i] =
			(struct record_layout_captured){.word = word, .is_null = !(valid >> i & 1)};
		if (!has_bytes(&layout->captures[i]))
			continue;
		ret[i].bytes = span.bytes;
		ret[i].length = span.length;
		ret[i].is_null |= span.is_null;
		at += (span.length + 7) & ~(size_t)7;
	}
}
