/* SPDX-License-Identifier: MIT */
/*
 * Names a process's addresses. An address has one frame: its symbol is looked up once, and frames
 * can be compared as pointers. Names outlive the process.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/lines.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/session/session.h"
#include "probe/symbol.h"

/* ==== Naming ================================================================================== */

enum {
	REFRESH_NS = 50 * 1000 * 1000, /* pause between reads of the maps for unknown addresses */
	EARLY_LOOKS = 8, /* first reads without that pause: a new program maps many files */
	KNOWN_FRAMES_MAX = 1 << 20
};

/* The frame of an address, or of a return address. */
struct named {
	struct probe_frame frame;
	bool is_return;
	bool of_file;	   /* the symbol comes from a file */
	unsigned int seen; /* last seen generation of the names of generated code */
	char *label;	   /* owned; see naming_name(); NULL if not asked for or unknown */
	char text[];	   /* module's path, symbol, source file, build id, each with its NUL */
};

/* A module's debug information; NULL before the first use. */
struct reader {
	struct unwind *rules;
	struct lines *lines;
	bool lines_tried;
};

struct naming {
	pid_t pid;
	struct naming_options options;
	struct maps maps;
	struct modules modules;
	struct reader *readers; /* one for each module */
	struct jit_map *jit;
	uint64_t refreshed_ns;
	unsigned int early_looks;
	struct map frames; /* struct named * by address and whether it is a return address */
	/* frames that were removed from the map because another module is there now */
	struct named **old;
	size_t old_count;
};

/* ---- Modules ------------------------------------------------------------------------ */

/* Moves modules that are still mapped into the new list, with their data. Returns their number. */
static size_t keep_known(struct naming *n, struct modules *fresh, struct reader *readers)
{
	size_t kept = 0;

	for (size_t i = 0; i < fresh->count; i++) {
		struct module *module = &fresh->items[i], swapped = *module;

		for (size_t k = 0; k < n->modules.count; k++) {
			struct module *known = &n->modules.items[k];

			if (known->dev_major != swapped.dev_major ||
				known->dev_minor != swapped.dev_minor ||
				known->inode != swapped.inode || known->bias != swapped.bias ||
				strcmp(known->path, swapped.path))
				continue;
			*module = *known;
			*known = swapped;
			module->start = swapped.start;
			module->end = swapped.end;
			readers[i] = n->readers[k];
			n->readers[k] = (struct reader){0};
			kept++;
			break;
		}
	}
	return kept;
}

static void drop_modules(struct naming *n)
{
	for (size_t i = 0; i < n->modules.count; i++) {
		unwind_close(n->readers[i].rules);
		lines_close(n->readers[i].lines);
	}
	free(n->readers);
	modules_deinit(&n->modules);
}

/*
 * Empties the table, because addresses may have other names now. The frames are not freed: callers
 * still use them.
 */
static void forget_frames(struct naming *n)
{
	struct named **old = reallocarray(n->old, n->old_count + n->frames.count + 1, sizeof(*old));
	struct named **named;

	if (!old)
		return; /* an old name is better than no name */
	n->old = old;
	for (size_t i = 0; (named = map_next(&n->frames, &i));)
		if (*named)
			n->old[n->old_count++] = *named;
	map_clear(&n->frames);
}

static struct probe_error *refresh(struct naming *n)
{
	AUTO(modules_deinit) struct modules fresh = {0};
	AUTO(maps_deinit) struct maps maps = {0};
	struct reader *readers;
	struct probe_error *error = maps_read(n->pid, &maps);
	bool gone;

	n->refreshed_ns = clock_monotonic_ns();
	/* Generated code can be named only while the process lives. */
	jit_map_refresh(n->jit, true);
	error = error ?: modules_read(n->pid, NULL, &fresh);
	if (error)
		return error;
	readers = calloc(fresh.count + 1, sizeof(*readers));
	if (!readers)
		return probe_error_no_memory();
	gone = keep_known(n, &fresh, readers) < n->modules.count;
	drop_modules(n);
	maps_deinit(&n->maps);
	n->modules = fresh;
	n->readers = readers;
	n->maps = maps;
	fresh = (struct modules){0};
	maps = (struct maps){0};
	if (gone)
		forget_frames(n);
	return NULL;
}

void naming_refresh(struct naming *naming)
{
	probe_error_free(refresh(naming));
}

struct probe_error *naming_create(pid_t pid, struct naming_options options, struct naming **ret)
{
	struct naming *n = calloc(1, sizeof(*n));
	struct probe_error *error;

	if (!n)
		return probe_error_no_memory();
	n->pid = pid;
	n->options = options;
	n->jit = jit_map_create(pid);
	error = n->jit ? refresh(n) : probe_error_no_memory();
	if (error)
		naming_free(n);
	else
		*ret = n;
	return error;
}

static void named_free(struct named *named)
{
	if (named)
		free(named->label);
	free(named);
}

void naming_free(struct naming *naming)
{
	struct named **named;

	if (!naming)
		return;
	drop_modules(naming);
	jit_map_free(naming->jit);
	maps_deinit(&naming->maps);
	for (size_t i = 0; (named = map_next(&naming->frames, &i));)
		named_free(*named);
	for (size_t i = 0; i < naming->old_count; i++)
		named_free(naming->old[i]);
	map_clear(&naming->frames);
	free(naming->old);
	free(naming);
}

static bool is_code(const struct naming *n, uint64_t address)
{
	const struct mapping *mapping = maps_find(&n->maps, address);

	return mapping && mapping->executable;
}

/* Returns the module with a segment at the address, or NULL; not for code between segments. */
static struct module *module_at(const struct naming *n, uint64_t address)
{
	struct module *module = modules_find(&n->modules, address);
	const struct object_segment *segments;
	size_t count;

	if (!module || !module->object)
		return module;
	segments = object_segments(module->object, &count);
	for (size_t i = 0; i < count; i++)
		if (address - module->bias - segments[i].address < segments[i].size)
			return module;
	return NULL;
}

/* Returns true if an address may have a name. Code and files' data may; the heap may not. */
static bool is_nameable(const struct naming *n, uint64_t address)
{
	return is_code(n, address) || (maps_find(&n->maps, address) && module_at(n, address));
}

/* Reads the modules again. Returns false if they were read a moment ago. */
static bool look_again(struct naming *n)
{
	if (clock_monotonic_ns() - n->refreshed_ns < REFRESH_NS && n->early_looks++ >= EARLY_LOOKS)
		return false;
	naming_refresh(n);
	return true;
}

/* Returns true if there is code at an address. Reads the modules again if it is unknown. */
static bool naming_find_code(struct naming *n, uint64_t address)
{
	return is_code(n, address) || (look_again(n) && is_code(n, address));
}

/* ---- Frames ------------------------------------------------------------------------- */

/* Finds an address's source line, if wanted and known. */
static void line_of(struct naming *n, const struct module *module, uint64_t link,
	const char **file_ret, int *line_ret)
{
	struct line line = {0};
	struct reader *reader;

	if (!n->options.lines || !module || !module->object)
		return;
	reader = &n->readers[module - n->modules.items];
	if (!reader->lines_tried)
		probe_error_free(lines_open(module->object, &reader->lines));
	reader->lines_tried = true;
	if (reader->lines)
		lines_find(reader->lines, &link, 1, &line);
	*file_ret = line.file;
	*line_ret = line.file ? line.number : 0;
}

/*
 * Makes a frame. The return address of a call at a function's end is in the next function. The
 * vDSO, to which signal handlers return, is named like a file; it may lie between segments of a
 * file.
 */
static struct named *make_frame(struct naming *n, uint64_t ip, bool is_return)
{
	const struct mapping *mapping = maps_find(&n->maps, ip);
	const struct mapping *vdso = mapping && !strcmp(mapping->path, "[vdso]") ? mapping : NULL;
	struct module *module = vdso ? NULL : module_at(n, ip - is_return);
	struct object *object = module ? module->object : NULL;
	uint64_t link = module ? ip - module->bias : vdso ? ip - vdso->start : ip, start = 0;
	const char *file = NULL, *id = object ? object_build_id(object) : NULL;
	const char *symbol = object ? object_symbol_at(object, link - is_return, &start) : NULL;
	bool of_file = symbol != NULL;
	struct object_function function = {0};
	AUTO_FREE char *demangled = NULL;
	struct named *named;
	const char *texts[4], *copies[4];
	size_t bytes = 0;
	char *at;
	int line = 0;

	if (of_file)
		probe_error_free(probe_demangle(symbol, &demangled));
	if (demangled)
		symbol = demangled;
	if (!of_file) {
		jit_map_refresh(n->jit, false);
		symbol = jit_map_find(n->jit, ip - is_return, &start);
		link = symbol ? ip : link;
	}
	if (of_file || !symbol)
		line_of(n, module, link - is_return, &file, &line);
	/* The function's start is known also for files without symbols. */
	if (!symbol)
		start = object && object_function_at(object, link - is_return, &function)
				? function.range.start
				: 0;
	texts[0] = module ? module->path : vdso ? vdso->path : NULL;
	texts[1] = symbol;
	texts[2] = file;
	texts[3] = id && *id ? id : NULL;
	for (size_t i = 0; i < 4; i++)
		bytes += texts[i] ? strlen(texts[i]) + 1 : 0;
	named = malloc(sizeof(*named) + bytes);
	if (!named)
		return NULL;
	at = named->text;
	for (size_t i = 0; i < 4; i++) {
		copies[i] = texts[i] ? at : NULL;
		at = texts[i] ? stpcpy(at, texts[i]) + 1 : at;
	}
	named->frame = (struct probe_frame){.ip = ip,
		.module = copies[0],
		.symbol = copies[1],
		.offset = symbol ? link - start : link,
		.function = start,
		.file = copies[2],
		.line = line,
		.build_id = copies[3]};
	named->label = NULL;
	named->is_return = is_return;
	named->of_file = of_file;
	named->seen = jit_map_generation(n->jit);
	return named;
}

/*
 * Replaces a frame if generated code at its address has got a name since the frame was made, or is
 * other code now.
 */
static void renew(struct naming *n, struct named **place)
{
	const struct probe_frame *frame = &(*place)->frame;
	struct named **old, *fresh;
	const char *symbol;
	uint64_t start;

	jit_map_refresh(n->jit, false);
	if ((*place)->seen == jit_map_generation(n->jit))
		return;
	(*place)->seen = jit_map_generation(n->jit);
	symbol = jit_map_find(n->jit, frame->ip - (*place)->is_return, &start);
	if (!symbol || (frame->symbol && !strcmp(symbol, frame->symbol)))
		return;
	/* Keep the old frame, because callers may have it. */
	old = reallocarray(n->old, n->old_count + 1, sizeof(*old));
	if (!old)
		return;
	n->old = old;
	fresh = make_frame(n, frame->ip, (*place)->is_return);
	if (!fresh)
		return;
	n->old[n->old_count++] = *place;
	*place = fresh;
}

/* Returns true if the limit of frames is reached. */
static bool naming_is_full(const struct naming *naming)
{
	return naming->frames.count + naming->old_count >= KNOWN_FRAMES_MAX;
}

/* Finds or makes a frame; NULL if memory is short. */
static struct named *named_at(struct naming *n, uint64_t ip, bool is_return)
{
	struct named **place;

	if (naming_is_full(n))
		return NULL;
	place = map_add(
		&n->frames, sizeof(struct named *), MAP_KEY(MAP_OBJECT(ip), MAP_OBJECT(is_return)));
	if (place && !*place)
		*place = make_frame(n, ip, is_return);
	else if (place && !(*place)->of_file)
		renew(n, place);
	return place ? *place : NULL;
}

/* ---- Names ------------------------------------------------------------------------------ */

const char *naming_name(struct naming *n, uint64_t address)
{
	const char *symbol = NULL, *slash;
	const struct probe_frame *frame;
	struct module *module;
	struct named *named;

	if (!is_nameable(n, address) && (!look_again(n) || !is_nameable(n, address)))
		return NULL;
	named = named_at(n, address, false);
	if (!named)
		return NULL;
	frame = &named->frame;
	if (frame->symbol || named->label || !frame->module)
		return frame->symbol ? frame->symbol : named->label;
	/* An address outside functions has the name of data, or of a file and an offset. */
	module = module_at(n, frame->ip);
	if (module && module->object && !frame->function)
		symbol = object_data_at(module->object, frame->offset);
	if (symbol) {
		probe_error_free(probe_demangle(symbol, &named->label));
		if (!named->label)
			named->label = strdup(symbol);
		return named->label;
	}
	slash = strrchr(frame->module, '/');
	if (asprintf(&named->label, "%s+0x%jx", slash ? slash + 1 : frame->module,
		    (uintmax_t)(frame->function ? frame->function : frame->offset)) < 0)
		named->label = NULL;
	return named->label;
}

/*
 * Returns the rules for unwinding an address, and its module's bias; NULL if it has no rules. Owned
 * by `naming`; valid until naming_refresh() or naming_find_code().
 */
static struct unwind *naming_rules(struct naming *n, uint64_t address, uint64_t *bias_ret)
{
	struct module *module = modules_find(&n->modules, address);
	struct reader *reader;

	if (!module)
		return NULL;
	reader = &n->readers[module - n->modules.items];
	if (!reader->rules && module->object)
		probe_error_free(unwind_open(module->object, &reader->rules));
	*bias_ret = module->bias;
	return reader->rules;
}

/* ==== Unwinder ================================================================================ */

/*
 * Unwinds stacks of threads that have gone on, from a copy of the stack and from files, because the
 * live stack belongs to another call by now. A frame outside the copy ends the stack, marked as
 * truncated.
 *
 * Code without call frame information (JIT, assembler) is unwound by its frame pointer, if that
 * points into the copy and leads to a return address in code. The result may be wrong, but is
 * bounded: the stack pointer only goes up, except at a signal's frame, and there are at most
 * PROBE_FRAMES_MAX frames.
 *
 * Where calls leave the return address in a register, leaf functions may have no frame, and saved
 * addresses may be signed. A signature is removed unchecked: addresses are not trusted.
 */

enum {
	FRAME_BYTES_MAX = 1 << 20, /* maximum distance between two frame pointers */
	SP = 0,			   /* indexes in arch->unwind_registers */
	FP = 1
};

struct unwinder {
	const struct arch *arch;
	struct naming *naming; /* borrowed */
	uint64_t signature;    /* signature bits of return addresses */
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

/*
 * Adds a frame. Returns false if the stack must end with it. If memory is short, sets *error_ret.
 */
static bool add_frame(
	struct unwinder *u, uint64_t ip, bool is_return, struct probe_error **error_ret)
{
	const struct named *named;

	if (naming_is_full(u->naming))
		return false;
	named = named_at(u->naming, ip, is_return);
	if (!named) {
		*error_ret = probe_error_no_memory();
		return false;
	}
	u->frames[u->count++] = &named->frame;
	return true;
}

/* ---- Copies ------------------------------------------------------------------------- */

struct walk {
	struct unwinder *unwinder;
	const struct unwinder_thread *thread;
	uint64_t start; /* address of the copied stack */
	struct unwind_registers registers;
	uint64_t low; /* lower bound of the stack pointer */
	bool missed;  /* an address above the copy was read */
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

/* Returns a register by its index in arch->unwind_registers. */
static uint64_t dwarf_register(const struct walk *walk, int place, bool *known_ret)
{
	uint8_t dwarf = walk->unwinder->arch->unwind_registers[place].dwarf;

	*known_ret = walk->registers.known >> dwarf & 1;
	return walk->registers.values[dwarf];
}

/*
 * Steps without rules: if the frame is one that the kernel pushed for a signal, continues with its
 * registers.
 */
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
		walk->missed = missed; /* most frames: not a signal frame, so no rule was missed */
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

/* Steps without rules: [fp] is the caller's frame pointer, [fp + 8] the return address. */
static enum unwind_status step_by_frame_pointer(struct walk *walk)
{
	const struct arch *arch = walk->unwinder->arch;
	const struct arch_unwind_register *regs = arch->unwind_registers;
	struct unwind_registers next = {0};
	uint64_t fp, caller_fp;
	bool fp_known;

	fp = dwarf_register(walk, FP, &fp_known);
	if (fp_known && fp == 0)
		return UNWIND_OUTERMOST; /* 0 marks the outermost frame in the ABI */
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
	/*
	 * The stack pointer goes up from frame to frame, except to a signal handler's own stack,
	 * and to leaf functions without a frame.
	 */
	if (!walk->is_signal && walk->low < low + is_return)
		return UNWIND_FAILED;
	walk->registers.pc &= ~u->signature;
	return naming_find_code(u->naming, walk->registers.pc) ? UNWIND_CALLER : UNWIND_FAILED;
}

struct probe_error *unwinder_copy(
	struct unwinder *unwinder, const struct unwinder_thread *thread, struct probe_stack *ret)
{
	enum unwind_status status = UNWIND_CALLER;
	enum probe_stack_end end = PROBE_STACK_LOST;
	struct probe_error *error = NULL;
	const uint8_t *registers = thread->registers;
	bool is_return = false;
	struct walk walk = {.unwinder = unwinder, .thread = thread, .registers.pc = thread->pc};

	memcpy(&walk.start, registers + SP * sizeof(uint64_t), sizeof(uint64_t));
	walk.low = walk.start;
	for (size_t i = 0; i < unwinder->arch->unwind_count; i++) {
		uint8_t dwarf = unwinder->arch->unwind_registers[i].dwarf;

		memcpy(&walk.registers.values[dwarf], registers + i * sizeof(uint64_t),
			sizeof(uint64_t));
		walk.registers.known |= UINT64_C(1) << dwarf;
	}
	unwinder->count = 0;
	/* in case a library was opened in the meantime */
	naming_find_code(unwinder->naming, thread->pc);
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
	*ret = (struct probe_stack){unwinder->frames, unwinder->count, end};
	return error;
}

/* ---- Return addresses ----------------------------------------------------------------- */

/*
 * Returns true if a stack begins with this frame. A complete chain of frame pointers ends in the C
 * library's function that starts main or a thread. Other chains were cut where code uses the
 * register for other values.
 *
 * In a stripped C library this function has no symbol. Other functions without a symbol that call
 * the program, such as qsort(), are mistaken for it.
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
		end = PROBE_STACK_LOST; /* without `caller`, the stack would have a gap */
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
	*ret = (struct probe_stack){unwinder->frames, unwinder->count, end};
	return error;
}

/* ==== Names =================================================================================== */

/* sym(argN): names for addresses, in values and keys. */

const char *session_name(
	const struct session_names *names, uint64_t address, char room[SESSION_NAME_ROOM])
{
	const char *name = names->naming ? naming_name(names->naming, address) : NULL;

	if (!name)
		snprintf(room, SESSION_NAME_ROOM, "%#" PRIx64, address);
	return name ? name : room;
}

/* ==== Stack =================================================================================== */

struct probe_error *session_stack_start(struct probe_session *session, const struct arch *arch)
{
	const struct naming_options options = {.lines = session->options.lines};
	bool unwinds = session->options.stack != PROBE_STACK_NONE || session->asked.ustack;
	struct session_names *names = &session->names;
	struct probe_error *error = NULL;
	bool has_names = unwinds;

	for (size_t i = 0; i < session->asked.key_count; i++)
		has_names |= session->asked.key_symbol[i];
	for (size_t i = 0; i < session->request.pattern_count; i++)
		has_names |= pattern_has_symbols(session->patterns[i]);
	if (has_names && !names->naming)
		error = naming_create(session->target->pid, options, &names->naming);
	if (!error && unwinds && !names->unwinder)
		error = unwinder_create(arch, names->naming, &names->unwinder);
	return error;
}

void session_names_refresh(struct session_names *names)
{
	if (names->naming)
		naming_refresh(names->naming);
}

void session_names_deinit(struct session_names *names)
{
	unwinder_free(names->unwinder);
	naming_free(names->naming);
	map_clear(&names->texts);
}

struct unwind_saved session_stack_saved(const struct probe_session *session, uint64_t pc)
{
	const struct unwinder *u = session->names.unwinder;
	const struct arch_unwind_register *regs;
	struct unwind *rules;
	uint64_t bias;

	if (session->options.stack != PROBE_STACK_FRAMES && !session->asked.ustack)
		return (struct unwind_saved){-1, -1};
	regs = u->arch->unwind_registers;
	rules = naming_rules(u->naming, pc, &bias);
	return rules ? unwind_saved(rules, pc - bias, regs[SP].dwarf, regs[FP].dwarf)
		     : (struct unwind_saved){-1, -1};
}

struct probe_error *probe_session_stack(
	struct probe_session *session, const struct probe_row *row, struct probe_stack *ret)
{
	const struct probe_value *returns, *site, *caller;

	if (!session->names.unwinder || !session->asked.stack)
		return probe_error_new(PROBE_ERROR_USAGE, "rows of this session have no stacks");
	returns = &row->keys[BIND_STACK_FRAMES];
	site = &row->keys[BIND_STACK_SITE];
	caller = &row->keys[BIND_STACK_CALLER];
	return unwinder_frames(session->names.unwinder, site->u, caller->u, returns->bytes,
		returns->kind == PROBE_VALUE_STRING ? returns->length / 8 : 0, ret);
}
