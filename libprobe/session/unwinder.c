/* SPDX-License-Identifier: MIT */
/*
 * Unwinding happens later: the thread has gone on, so only the copy of its stack and the files can
 * be used. A frame outside of the copy ends the stack, which then says so; the live stack would be
 * that of another call.
 *
 * Code without call frame information (a JIT's, or assembler) is unwound by its frame pointer, if
 * that points into the copy and the return address next to it points into code. The result may be
 * wrong, as with any tool, but is bounded: the stack pointer only goes up, except for the frame of
 * a signal, and there are at most PROBE_FRAMES_MAX frames.
 *
 * Where calls leave the return address in a register, functions that call nothing may have no
 * frame, and programs may sign the addresses that they save. A signature is taken off without a
 * look at it: what is read is not trusted in any case.
 */
#include <stdlib.h>
#include <string.h>

#include "elf/unwind.h"
#include "libprobe/process/process.h"
#include "libprobe/session/session.h"

enum {
	FRAME_BYTES_MAX = 1 << 20, /* from one frame pointer to the next */
	SP = 0,			   /* places in arch->unwind_registers */
	FP = 1
};

struct unwinder {
	const struct arch *arch;
	struct naming *naming; /* borrowed */
	uint64_t signature;    /* bits of return addresses */
	const struct probe_frame *frames[PROBE_FRAMES_MAX];
	size_t count;
};

struct probe_error *unwinder_create(
	const struct arch *arch, struct naming *naming, struct unwinder **ret)
{
	struct unwinder *u;
	struct probe_error *error = unwind_check();

	if (error)
		return error;
	if (!arch->unwind_registers)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"call stacks cannot be taken on this machine (%s)", arch->name);
	u = calloc(1, sizeof(*u));
	if (!u)
		return probe_error_no_memory();
	u->arch = arch;
	u->naming = naming;
	u->signature = arch_signature(arch);
	*ret = u;
	return NULL;
}

void unwinder_free(struct unwinder *unwinder)
{
	free(unwinder);
}

/* Adds one to the stack. Without memory, *error_ret is set. False: that is all. */
static bool add_frame(
	struct unwinder *u, uint64_t ip, bool is_return, struct probe_error **error_ret)
{
	const struct probe_frame *frame;

	if (naming_is_full(u->naming))
		return false;
	frame = naming_frame(u->naming, ip, is_return);
	if (!frame) {
		*error_ret = probe_error_no_memory();
		return false;
	}
	u->frames[u->count++] = frame;
	return true;
}

static struct probe_stack stack_of(const struct unwinder *u, enum probe_stack_end end)
{
	return (struct probe_stack){.frames = u->frames, .count = u->count, .end = end};
}

/* ---- Copies ------------------------------------------------------------------------- */

struct walk {
	struct unwinder *unwinder;
	const struct unwinder_thread *thread;
	uint64_t start; /* address of the copy */
	struct unwind_registers registers;
	uint64_t low; /* the stack pointer is not below that */
	bool missed;  /* something above the copy was asked for */
	bool is_signal;
};

static bool read_word(void *data, uint64_t address, uint64_t *ret)
{
	struct walk *walk = data;
	uint64_t offset = address - walk->start;
	size_t length = walk->thread->length;

	if (address < walk->start)
		return false;
	if (offset >= length || length - offset < sizeof(*ret)) {
		walk->missed = true;
		return false;
	}
	memcpy(ret, walk->thread->bytes + offset, sizeof(*ret));
	return true;
}

static uint64_t dwarf_register(const struct walk *walk, int place, bool *known_ret)
{
	uint8_t dwarf = walk->unwinder->arch->unwind_registers[place].dwarf;

	*known_ret = walk->registers.known >> dwarf & 1;
	return walk->registers.values[dwarf];
}

/* Without rules: the kernel may have pushed this frame for a handler; its registers are in it. */
static enum unwind_status step_over_signal(struct walk *walk)
{
	const struct arch *arch = walk->unwinder->arch;
	const struct arch_frame_layout *layout = arch->process->layout;
	struct unwind_registers next = {0};
	uint8_t sp_number = arch->unwind_registers[SP].dwarf;
	bool sp_known, missed = walk->missed;
	uint64_t sp = dwarf_register(walk, SP, &sp_known), mark;

	if (!layout->register_count || !sp_known)
		return UNWIND_NO_RULES;
	if (!read_word(walk, sp + layout->mark, &mark) || mark != layout->mark_word) {
		walk->missed = missed; /* it need not be there */
		return UNWIND_NO_RULES;
	}
	for (uint16_t i = 0; i < layout->register_count; i++)
		if (!read_word(walk, sp + layout->registers + 8 * i, &next.values[i]))
			return UNWIND_FAILED;
	if (!read_word(walk, sp + layout->sp, &next.values[sp_number]) ||
		!read_word(walk, sp + layout->pc, &next.pc))
		return UNWIND_FAILED;
	next.known = ((UINT64_C(1) << layout->register_count) - 1) | UINT64_C(1) << sp_number;
	walk->registers = next;
	walk->is_signal = true;
	return UNWIND_CALLER;
}

/* Without rules: [fp] is the caller's frame pointer, [fp + 8] the return address. */
static enum unwind_status step_by_frame_pointer(struct walk *walk)
{
	const struct arch *arch = walk->unwinder->arch;
	const struct arch_unwind_register *regs = arch->unwind_registers;
	struct unwind_registers next = {0};
	uint64_t fp, caller_fp;
	bool fp_known;

	fp = dwarf_register(walk, FP, &fp_known);
	if (fp_known && fp == 0)
		return UNWIND_OUTERMOST; /* so the ABI marks it */
	if (!fp_known || fp % 8 || fp < walk->low || fp - walk->low > FRAME_BYTES_MAX)
		return UNWIND_FAILED;
	if (!read_word(walk, fp, &caller_fp) || !read_word(walk, fp + 8, &next.pc))
		return UNWIND_FAILED;
	next.values[regs[FP].dwarf] = caller_fp;
	next.values[regs[SP].dwarf] = fp + arch->frame_record_end;
	next.known = UINT64_C(1) << regs[FP].dwarf;
	if (arch->frame_record_end)
		next.known |= UINT64_C(1) << regs[SP].dwarf;
	walk->low = fp + 16;
	walk->registers = next;
	walk->is_signal = false;
	return next.pc ? UNWIND_CALLER : UNWIND_OUTERMOST;
}

struct unwind_saved unwinder_saved(struct unwinder *u, uint64_t pc)
{
	const struct arch_unwind_register *regs = u->arch->unwind_registers;
	uint64_t bias;
	struct unwind *rules = naming_rules(u->naming, pc, &bias);

	return rules ? unwind_saved(rules, pc - bias, regs[SP].dwarf, regs[FP].dwarf)
		     : (struct unwind_saved){-1, -1};
}

static enum unwind_status step(struct walk *walk, bool is_return)
{
	const struct unwind_memory memory = {read_word, walk};
	struct unwinder *u = walk->unwinder;
	uint64_t address = walk->registers.pc - is_return;
	uint64_t bias;
	struct unwind *rules = naming_rules(u->naming, address, &bias);
	enum unwind_status status = UNWIND_NO_RULES;
	uint64_t low = walk->low, sp;
	bool sp_known;

	if (rules)
		status = unwind_step(rules, address - bias, u->arch->unwind_registers[FP].dwarf,
			&memory, &walk->registers, &walk->is_signal);
	if (status == UNWIND_NO_RULES)
		status = step_over_signal(walk);
	if (status == UNWIND_NO_RULES)
		status = step_by_frame_pointer(walk);
	if (status != UNWIND_CALLER)
		return status;
	sp = dwarf_register(walk, SP, &sp_known);
	if (sp_known)
		walk->low = sp;
	/* A handler may have a stack of its own; what has called nothing may have no frame. */
	if (!walk->is_signal && walk->low < low + is_return)
		return UNWIND_FAILED;
	walk->registers.pc &= ~u->signature;
	return naming_find_code(u->naming, walk->registers.pc) ? UNWIND_CALLER : UNWIND_FAILED;
}

static void walk_init(struct walk *walk, struct unwinder *u, const struct unwinder_thread *thread)
{
	const uint8_t *registers = thread->registers;

	*walk = (struct walk){.unwinder = u, .thread = thread, .registers = {.pc = thread->pc}};
	memcpy(&walk->start, registers + SP * sizeof(uint64_t), sizeof(uint64_t));
	for (size_t i = 0; i < u->arch->unwind_count; i++) {
		uint8_t dwarf = u->arch->unwind_registers[i].dwarf;

		memcpy(&walk->registers.values[dwarf], registers + i * sizeof(uint64_t),
			sizeof(uint64_t));
		walk->registers.known |= UINT64_C(1) << dwarf;
	}
	walk->low = walk->start;
}

struct probe_error *unwinder_copy(
	struct unwinder *unwinder, const struct unwinder_thread *thread, struct probe_stack *ret)
{
	enum unwind_status status = UNWIND_CALLER;
	enum probe_stack_end end = PROBE_STACK_LOST;
	struct probe_error *error = NULL;
	bool is_return = false;
	struct walk walk;

	walk_init(&walk, unwinder, thread);
	unwinder->count = 0;
	naming_find_code(unwinder->naming, thread->pc); /* a library that was opened meanwhile */
	while (status == UNWIND_CALLER && unwinder->count < PROBE_FRAMES_MAX) {
		if (!add_frame(unwinder, walk.registers.pc, is_return, &error))
			break;
		status = step(&walk, is_return);
		is_return = !walk.is_signal;
	}
	if (status == UNWIND_OUTERMOST)
		end = PROBE_STACK_WHOLE;
	else if (walk.missed || unwinder->count == PROBE_FRAMES_MAX)
		end = PROBE_STACK_TRUNCATED;
	*ret = stack_of(unwinder, end);
	return error;
}

/* ---- Return addresses ----------------------------------------------------------------- */

/*
 * Does a stack begin here? Code without frame pointers uses the register for something else, so a
 * chain also ends where it has no more to do with the stack: that is the C library's start of main
 * or of a thread, which calls the first function, or the stack is cut. The start has no symbol in
 * stripped libraries, and neither have the few inner functions that call a program back (qsort):
 * these are taken for it.
 */
static bool is_start(const struct probe_frame *frame)
{
	static const char *const starts[] = {"main", "_start", "__libc_start_main",
		"__libc_start_call_main", "start_thread", "clone", "clone3", "__clone3"};
	static const char *const libraries[] = {"libc.", "libc-", "libpthread", "ld-musl"};
	const char *slash = frame->module ? strrchr(frame->module, '/') : NULL;

	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (frame->symbol && strcmp(frame->symbol, starts[i]) == 0)
			return true;
	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries) && !frame->symbol; i++)
		if (slash && strncmp(slash + 1, libraries[i], strlen(libraries[i])) == 0)
			return true;
	return false;
}

struct probe_error *unwinder_frames(struct unwinder *unwinder, uint64_t pc, uint64_t caller,
	const void *returns, size_t count, struct probe_stack *ret)
{
	enum probe_stack_end end = PROBE_STACK_WHOLE;
	struct probe_error *error = NULL;
	uint64_t ip;

	caller &= ~unwinder->signature;
	unwinder->count = 0;
	naming_find_code(unwinder->naming, pc);
	add_frame(unwinder, pc, false, &error);
	if (count >= ARCH_FRAMES_MAX)
		end = PROBE_STACK_TRUNCATED;
	if (caller && !error && !naming_find_code(unwinder->naming, caller)) {
		end = PROBE_STACK_LOST; /* without it, there would be a gap */
		count = 0;
	} else if (caller && !error) {
		add_frame(unwinder, caller, true, &error);
	}
	for (size_t i = 0; i < count && unwinder->count < PROBE_FRAMES_MAX && !error; i++) {
		memcpy(&ip, (const uint8_t *)returns + 8 * i, sizeof(ip));
		ip &= ~unwinder->signature;
		if (!naming_find_code(unwinder->naming, ip) ||
			!add_frame(unwinder, ip, true, &error)) {
			end = PROBE_STACK_LOST;
			break;
		}
	}
	if (end == PROBE_STACK_WHOLE && unwinder->count &&
		!is_start(unwinder->frames[unwinder->count - 1]))
		end = PROBE_STACK_LOST;
	*ret = stack_of(unwinder, end);
	return error;
}
