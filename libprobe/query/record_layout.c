/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "libprobe/query/query.h"

enum {
	/* up to this distance from the stack pointer, the stack is certainly mapped */
	FRAME_AT_MAX = 4096 - 8,
	STRING_BYTES_DEFAULT = 256,
	AGGREGATE_BYTES_MAX = 256,
	STACK_BYTES_DEFAULT = 8192,
	STACK_BYTES_MIN = 64
};

/*
 * Returns true if an address is in a readable segment, and so mapped as long as the module. The
 * address is not trusted.
 */
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

/* Resolves an argument's symbols. Returns false if it cannot be read. */
static bool resolve(struct arch_arg *arg, bool *is_static_ret, struct module *module)
{
	uint64_t value, size;

	*is_static_ret = false;
	if (arg->symbol) {
		/* It is unknown which of several variables with this name is meant. */
		if (!object_symbol(
			    module->object, arg->symbol, arg->symbol_length, &value, &size) ||
			!object_symbol_is_only(module->object, arg->symbol, arg->symbol_length))
			return false;
		value += arg->disp;
		arg->disp = value + module->bias;
		if (arg->symbol_bits)
			arg->disp &= (INT64_C(1) << arg->symbol_bits) - 1;
		arg->symbol = NULL;
		/* If a register is involved, the address is not constant. */
		*is_static_ret = arg->kind == ARCH_ARG_MEMORY && arg->base < 0 && arg->index < 0 &&
				 is_mapped(module->object, value, arg->size);
	} else if (arg->base == ARCH_REG_PC) {
		return false; /* the address is relative to an instruction that is unknown */
	}
	if (arg->base == ARCH_REG_PC)
		arg->base = ARCH_REG_NONE;
	return true;
}

/* Returns true if an argument can be a pointer: a whole number that is not in a vector register. */
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
	if (!arch_capturable(arch, &capture.arg))
		return -1;
	l->captures[l->capture_count] = capture;
	return l->capture_count++;
}

/* Resolves an argument that is the length or index of a captured one. */
static bool resolve_whole(
	struct arch_arg *arg, bool *is_static_ret, const struct record_layout_site *site)
{
	return arg->kind != ARCH_ARG_UNKNOWN && may_be_string(arg) &&
	       resolve(arg, is_static_ret, site->module) && arch_capturable(site->arch, arg);
}

/* Captures `length` bytes at `arg`. */
static int add_sized(struct record_layout *l, const struct record_layout_site *site,
	const struct arch_arg *arg, bool is_static, const struct arch_arg *length, size_t bytes)
{
	struct arch_capture *capture;
	struct arch_arg resolved = *length;
	bool length_is_static;
	int index;

	if (!resolve_whole(&resolved, &length_is_static, site))
		return -1;
	/* First set the capture up as a string, then give it its length. */
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

static const struct arch_arg *spec_of(const struct record_layout_site *site, unsigned int arg)
{
	static const struct arch_arg absent = {.kind = ARCH_ARG_UNKNOWN};

	return arg < site->count ? &site->specs[arg] : &absent;
}

/* Returns the length that a capture wants: an argument, or a constant. */
static struct arch_arg length_of(
	const struct record_layout_site *site, const struct capture *wanted)
{
	if (!wanted->fixed_length)
		return *spec_of(site, wanted->length);
	return (struct arch_arg){.kind = ARCH_ARG_IMMEDIATE,
		.size = 8,
		.base = ARCH_REG_NONE,
		.index = ARCH_REG_NONE,
		.disp = wanted->fixed_length};
}

/* Captures an argument, or data that it points to, of a wanted length. Returns the index, or -1. */
static int add_wanted(struct record_layout *l, const struct record_layout_site *site,
	const struct capture *wanted, size_t bytes)
{
	struct arch_arg resolved = operand_cast(spec_of(site, wanted->arg), wanted->cast);
	struct arch_arg item = *spec_of(site, wanted->index);
	struct arch_arg length = length_of(site, wanted);
	struct arch_capture *capture;
	bool is_static, item_is_static = false;
	int index;

	if (resolved.kind == ARCH_ARG_UNKNOWN || !resolve(&resolved, &is_static, site->module) ||
		(wanted->step_count && !may_be_string(&resolved)) ||
		(wanted->has_index && !resolve_whole(&item, &item_is_static, site)))
		return -1;
	if (wanted->has_length)
		index = add_sized(l, site, &resolved, is_static, &length, bytes);
	else
		index = add_capture(l, site->arch, &resolved, is_static, wanted->is_string, bytes);
	if (index < 0)
		return -1;
	capture = &l->captures[index];
	capture->step_count = wanted->step_count;
	memcpy(capture->steps, wanted->steps, sizeof(capture->steps));
	capture->has_index = wanted->has_index;
	capture->index_is_static = item_is_static;
	if (wanted->has_index)
		capture->index = item;
	return index;
}

static void add_arg(struct record_layout *l, const struct record_layout_site *site,
	const struct capture *wanted, const struct probe_session_options *options)
{
	struct record_layout_arg *arg = &l->args[l->arg_count++];
	const struct arch_arg cast = operand_cast(spec_of(site, wanted->arg), wanted->cast);
	const struct arch_arg *spec = &cast;
	size_t bytes = options->string_bytes ? options->string_bytes : STRING_BYTES_DEFAULT;

	*arg = (struct record_layout_arg){.value = -1,
		.string = -1,
		.is_signed = spec->is_signed,
		.is_float = spec->is_float,
		.size = spec->size <= 8 ? spec->size : 0,
		.number = wanted->arg};
	/* A number shown beside a string is the argument itself. */
	if (wanted->step_count && !wanted->beside) {
		arg->is_signed = wanted->steps[wanted->step_count - 1].is_signed;
		arg->is_float = false;
		arg->size = wanted->steps[wanted->step_count - 1].size;
	}
	arg->is_symbol = wanted->is_symbol;
	arg->is_bytes = wanted->has_length && !wanted->is_string;
	if (wanted->beside) {
		arg->value = add_wanted(l, site, &(struct capture){.arg = wanted->arg}, bytes);
		arg->string = add_wanted(l, site, wanted, bytes);
		arg->is_known = true;
		return;
	}
	if (wanted->is_string || wanted->has_length) {
		arg->string = add_wanted(l, site, wanted, bytes);
		return;
	}
	arg->value = add_wanted(l, site, wanted, bytes);
	/* Only a whole word can be a pointer. */
	if (options->guess_strings && !wanted->is_symbol && !wanted->step_count &&
		spec->size == 8 && !spec->is_float &&
		(spec->kind == ARCH_ARG_REGISTER || spec->kind == ARCH_ARG_MEMORY)) {
		arg->is_guess = true;
		arg->string = add_wanted(
			l, site, &(struct capture){.arg = wanted->arg, .is_string = true}, bytes);
	}
}

/* Captures the address of a function's frame, as the last argument. */
static void add_frame(struct record_layout *l, const struct record_layout_site *site)
{
	struct arch_arg address = site->frame;
	int capture;

	address.kind = ARCH_ARG_ADDRESS;
	capture = add_capture(l, site->arch, &address, false, false, 0);
	if (capture >= 0)
		l->args[l->arg_count++] = (struct record_layout_arg){.value = (int8_t)capture,
			.string = -1,
			.size = sizeof(uint64_t),
			.number = RECORD_LAYOUT_FRAME};
}

void record_layout_site_init(struct record_layout_site *site, const struct arch *arch,
	struct module *module, const char *args)
{
	site->arch = arch;
	site->module = module;
	site->count = arch->parse_args(args, site->specs);
	site->kept = NULL;
	site->kept_count = 0;
	site->stack = PROBE_STACK_NONE;
	site->pc = 0;
	site->saved = (struct unwind_saved){-1, -1};
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

static struct arch_arg unwind_register(const struct arch *arch, size_t place)
{
	return (struct arch_arg){.kind = ARCH_ARG_REGISTER,
		.size = 8,
		.base = arch->unwind_registers[place].reg,
		.index = ARCH_REG_NONE,
		.width = 8};
}

/* Returns 8 bytes of the stack, `offset` above the stack pointer, as an argument. */
static struct arch_arg stack_word(const struct arch *arch, int32_t offset)
{
	return (struct arch_arg){.kind = ARCH_ARG_MEMORY,
		.size = 8,
		.base = arch->unwind_registers[0].reg,
		.index = ARCH_REG_NONE,
		.disp = offset};
}

int record_layout_capture_stack(struct record_layout *layout, const struct arch *arch,
	enum arch_capture_stack kind, uint16_t bytes, int32_t frame_at)
{
	if (!arch->unwind_registers || layout->capture_count == ARCH_ARGS_MAX)
		return -1;
	layout->captures[layout->capture_count] =
		(struct arch_capture){.stack = kind, .bytes_max = bytes};
	if (frame_at >= 0 && frame_at <= FRAME_AT_MAX)
		layout->captures[layout->capture_count].arg = stack_word(arch, frame_at);
	return layout->capture_count++;
}

int record_layout_capture_comm(struct record_layout *layout)
{
	if (layout->capture_count == ARCH_ARGS_MAX)
		return -1;
	layout->captures[layout->capture_count] = (struct arch_capture){.is_comm = true};
	return layout->capture_count++;
}

int record_layout_capture_return(
	struct record_layout *layout, const struct record_layout_site *site)
{
	const struct arch *arch = site->arch;
	bool in_register = site->saved.return_at == UNWIND_IN_REGISTER && arch->unwind_return;
	struct arch_capture capture = {0};

	if (layout->capture_count == ARCH_ARGS_MAX || (site->saved.return_at < 0 && !in_register))
		return -1;
	capture.arg = in_register ? unwind_register(arch, arch->unwind_return)
				  : stack_word(arch, site->saved.return_at);
	layout->captures[layout->capture_count] = capture;
	return layout->capture_count++;
}

/* Captures the registers and a copy of the stack, before other captures take the room. */
static void add_copy(struct record_layout *l, const struct arch *arch, size_t bytes)
{
	for (size_t i = 0; i < arch->unwind_count; i++)
		l->captures[l->capture_count++] =
			(struct arch_capture){.arg = unwind_register(arch, i)};
	if (bytes < STACK_BYTES_MIN)
		bytes = bytes ? STACK_BYTES_MIN : STACK_BYTES_DEFAULT;
	if (bytes > ARCH_STACK_MAX)
		bytes = ARCH_STACK_MAX;
	l->stack = (uint8_t)(1 + record_layout_capture_stack(
					 l, arch, ARCH_STACK_BYTES, bytes & ~7u, -1));
}

void record_layout_record_all(struct record_layout *layout, const struct arch *arch)
{
	layout->recorded = layout->capture_count;
	for (size_t i = 0; i < layout->recorded; i++)
		layout->checked |= arch_capture_checked(arch, &layout->captures[i]);
}

void record_layout_init(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *wanted, size_t wanted_count,
	const struct probe_session_options *options)
{
	*layout = (struct record_layout){0};
	/* The copy of the stack, or the frames on it, come before captures that take the room. */
	if (site->stack == PROBE_STACK_COPY) {
		add_copy(layout, site->arch, options->stack_bytes);
	} else if (site->stack == PROBE_STACK_FRAMES) {
		/* The chain of frame pointers may lack the function's return address: take it. */
		record_layout_capture_return(layout, site);
		layout->stack = (uint8_t)(1 + record_layout_capture_stack(layout, site->arch,
						      ARCH_STACK_FRAMES, 8 * ARCH_FRAMES_MAX,
						      site->saved.frame_at));
	}
	for (size_t i = 0; !wanted && i < site->count; i++)
		add_arg(layout, site, &(struct capture){.arg = (unsigned char)i}, options);
	for (size_t i = 0; i < wanted_count && layout->arg_count < ARCH_ARGS_MAX; i++)
		add_arg(layout, site, &wanted[i], options);
	if (options->frames && !options->spans && site->frame.kind == ARCH_ARG_MEMORY &&
		layout->arg_count < ARCH_ARGS_MAX)
		add_frame(layout, site);
	record_layout_record_all(layout, site->arch);
}

static bool same_operand(const struct arch_arg *a, const struct arch_arg *b)
{
	return a->spec == b->spec && a->spec_length == b->spec_length &&
	       (a->spec || a->disp == b->disp);
}

/* Returns true if an existing capture has `bytes` bytes of the wanted data. */
static bool serves(const struct arch_capture *c, const struct record_layout_site *site,
	const struct capture *wanted, uint16_t bytes)
{
	const struct arch_arg arg = operand_cast(spec_of(site, wanted->arg), wanted->cast);
	const struct arch_arg length = length_of(site, wanted);

	if (c->begun || !same_operand(&c->arg, &arg) || c->arg.size != arg.size ||
		c->arg.is_signed != arg.is_signed || c->is_string != wanted->is_string ||
		c->has_length != wanted->has_length)
		return false;
	if (c->has_length && !same_operand(&c->length, &length))
		return false;
	if (c->step_count != wanted->step_count || c->has_index != wanted->has_index)
		return false;
	if (c->has_index && !same_operand(&c->index, spec_of(site, wanted->index)))
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
