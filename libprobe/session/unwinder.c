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
 * Frames are made once for each address and then shared: a symbol is looked up
 * once, and frames can be compared as pointers.
 */
#include <stdlib.h>
#include <string.h>

#include "elf/lines.h"
#include "elf/unwind.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/modules/jit_map.h"
#include "libprobe/modules/modules.h"
#include "libprobe/process/maps.h"
#include "libprobe/session/unwinder.h"
#include "probe/symbol.h"

enum {
	REFRESH_NS = 50 * 1000 * 1000, /* how often a new address is reason to look at the maps */
	EARLY_LOOKS = 8, /* ... at first at once: a program that has just been started maps a lot */
	FRAME_BYTES_MAX = 1 << 20, /* from one frame pointer to the next */
	KNOWN_FRAMES_MAX = 1 << 20,
	FRAMES_FIRST = 256,
	SP = 0, /* places in arch->unwind_registers */
	FP = 1
};

/* A frame by its address, and whether a call returns there. */
struct named {
	struct probe_frame frame;
	bool is_return;
	bool of_file;	   /* its symbol, if it has one */
	unsigned int seen; /* the generation of the names of generated code, of others */
	char text[]; /* the module's path, the symbol's name, the source file, each with its NUL */
};

/* What reads a module's debug information; NULL before the first use. */
struct reader {
	struct unwind *rules;
	struct lines *lines;
	bool lines_tried;
};

struct unwinder {
	const struct arch *arch;
	pid_t pid;
	struct unwinder_options options;
	struct maps maps;
	struct modules modules;
	struct reader *readers; /* of each module */
	struct jit_map *jit;
	uint64_t refreshed_ns;
	unsigned int early_looks;
	/*
	 * Open addressing; at most half of the buckets are taken. Frames that were taken out of it,
	 * because another module is there now, are in `old`.
	 */
	struct named **buckets, **old;
	size_t bucket_count, known, old_count;
	const struct probe_frame *frames[PROBE_FRAMES_MAX];
	size_t count;
};

/* ---- Modules ------------------------------------------------------------------------ */

static bool same_module(const struct module *a, const struct module *b)
{
	return a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
	       a->inode == b->inode && a->bias == b->bias && !strcmp(a->path, b->path);
}

/* Keeps what is known of modules that are still mapped: they are exchanged with the new ones. */
static size_t keep_known(struct unwinder *u, struct modules *fresh, struct reader *readers)
{
	size_t kept = 0;

	for (size_t i = 0; i < fresh->count; i++) {
		struct module *module = &fresh->items[i], swapped = *module;

		for (size_t k = 0; k < u->modules.count; k++) {
			struct module *known = &u->modules.items[k];

			if (!same_module(known, &swapped))
				continue;
			*module = *known;
			*known = swapped;
			module->start = swapped.start;
			module->end = swapped.end;
			readers[i] = u->readers[k];
			u->readers[k] = (struct reader){0};
			kept++;
			break;
		}
	}
	return kept;
}

static void drop_modules(struct unwinder *u)
{
	for (size_t i = 0; i < u->modules.count; i++) {
		unwind_close(u->readers[i].rules);
		lines_close(u->readers[i].lines);
	}
	free(u->readers);
	modules_deinit(&u->modules);
}

/* Addresses may mean something else now. The frames themselves have been handed out. */
static void forget_frames(struct unwinder *u)
{
	struct named **old = reallocarray(u->old, u->old_count + u->known + 1, sizeof(*old));

	if (!old)
		return; /* an old name is better than none */
	u->old = old;
	for (size_t i = 0; i < u->bucket_count; i++)
		if (u->buckets[i])
			u->old[u->old_count++] = u->buckets[i];
	free(u->buckets);
	u->buckets = NULL;
	u->bucket_count = u->known = 0;
}

static struct probe_error *refresh(struct unwinder *u)
{
	struct modules fresh = {0};
	struct maps maps = {0};
	struct reader *readers;
	struct probe_error *error = maps_read(u->pid, &maps);
	bool gone;

	u->refreshed_ns = clock_monotonic_ns();
	/* While the process is there. */
	jit_map_refresh(u->jit, true);
	if (error)
		return error;
	error = modules_read(u->pid, NULL, &fresh);
	readers = error ? NULL : calloc(fresh.count + 1, sizeof(*readers));
	if (!readers) {
		modules_deinit(&fresh);
		maps_deinit(&maps);
		return error ? error : probe_error_no_memory();
	}
	gone = keep_known(u, &fresh, readers) < u->modules.count;
	drop_modules(u);
	maps_deinit(&u->maps);
	u->modules = fresh;
	u->readers = readers;
	u->maps = maps;
	if (gone)
		forget_frames(u);
	return NULL;
}

void unwinder_refresh(struct unwinder *unwinder)
{
	probe_error_free(refresh(unwinder));
}

struct probe_error *unwinder_create(
	const struct arch *arch, pid_t pid, struct unwinder_options options, struct unwinder **ret)
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
	u->pid = pid;
	u->options = options;
	u->jit = jit_map_create(pid);
	error = u->jit ? refresh(u) : probe_error_no_memory();
	if (error)
		unwinder_free(u);
	else
		*ret = u;
	return error;
}

void unwinder_free(struct unwinder *unwinder)
{
	if (!unwinder)
		return;
	drop_modules(unwinder);
	jit_map_free(unwinder->jit);
	maps_deinit(&unwinder->maps);
	for (size_t i = 0; i < unwinder->bucket_count; i++)
		free(unwinder->buckets[i]);
	for (size_t i = 0; i < unwinder->old_count; i++)
		free(unwinder->old[i]);
	free(unwinder->buckets);
	free(unwinder->old);
	free(unwinder);
}

static bool is_code(const struct unwinder *u, uint64_t address)
{
	const struct mapping *mapping = maps_find(&u->maps, address);

	return mapping && mapping->executable;
}

/* Looks again: a library may have been opened, or code generated, since the last look. */
static bool find_code(struct unwinder *u, uint64_t address)
{
	if (is_code(u, address))
		return true;
	if (clock_monotonic_ns() - u->refreshed_ns < REFRESH_NS && u->early_looks++ >= EARLY_LOOKS)
		return false;
	unwinder_refresh(u);
	return is_code(u, address);
}

/* ---- Frames ------------------------------------------------------------------------- */

static struct named **bucket_of(struct named **buckets, size_t count, uint64_t ip, bool is_return)
{
	size_t at =
		(size_t)(((ip * 2 + is_return) * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (count - 1);

	while (buckets[at] && (buckets[at]->frame.ip != ip || buckets[at]->is_return != is_return))
		at = (at + 1) & (count - 1);
	return &buckets[at];
}

static bool make_room(struct unwinder *u)
{
	size_t count = u->bucket_count ? 2 * u->bucket_count : FRAMES_FIRST;
	struct named **buckets;

	if (2 * (u->known + 1) <= u->bucket_count)
		return true;
	buckets = calloc(count, sizeof(struct named *));
	if (!buckets)
		return false;
	for (size_t i = 0; i < u->bucket_count; i++) {
		struct named *named = u->buckets[i];

		if (named)
			*bucket_of(buckets, count, named->frame.ip, named->is_return) = named;
	}
	free(u->buckets);
	u->buckets = buckets;
	u->bucket_count = count;
	return true;
}

/* Where the function begins: files without symbols know that, too. */
static uint64_t function_at(struct module *module, uint64_t link)
{
	struct object_function function;

	if (!module || !module->object || !object_function_at(module->object, link, &function))
		return 0;
	return function.range.start;
}

/* The symbol of a file, demangled into *demangled_ret; NULL if it has none. */
static const char *symbol_of(const struct unwinder *u, struct module *module, uint64_t link,
	uint64_t *start_ret, char **demangled_ret)
{
	const char *symbol = NULL;

	if (module && module->object)
		symbol = object_symbol_at(module->object, link, start_ret);
	if (symbol && !u->options.mangled)
		probe_error_free(probe_demangle(symbol, demangled_ret));
	return *demangled_ret ? *demangled_ret : symbol;
}

/* The source line of an address; false if it is not wanted or not known. */
static bool line_of(struct unwinder *u, const struct module *module, uint64_t link,
	const char **file_ret, int *line_ret)
{
	struct reader *reader;

	if (!u->options.lines || !module || !module->object)
		return false;
	reader = &u->readers[module - u->modules.items];
	if (!reader->lines_tried)
		probe_error_free(lines_open(module->object, &reader->lines));
	reader->lines_tried = true;
	return reader->lines && lines_find(reader->lines, link, file_ret, line_ret);
}

/*
 * A call may be the last instruction of its function; then its return address is in the next one.
 */
static struct named *make_frame(struct unwinder *u, uint64_t ip, bool is_return)
{
	struct module *module = modules_find(&u->modules, ip - is_return);
	const char *symbol, *path = module ? module->path : "", *file = NULL;
	size_t symbol_size = 0, path_size = strlen(path) + 1, file_size = 0;
	uint64_t link = module ? ip - module->bias : ip, start = 0;
	AUTO_FREE char *demangled = NULL;
	struct named *named;
	bool of_file;
	int line = 0;

	symbol = symbol_of(u, module, link - is_return, &start, &demangled);
	of_file = symbol != NULL;
	if (!of_file) {
		jit_map_refresh(u->jit, false);
		symbol = jit_map_find(u->jit, ip - is_return, &start);
		link = symbol ? ip : link;
	}
	if (symbol)
		symbol_size = strlen(symbol) + 1;
	if ((of_file || !symbol) && line_of(u, module, link - is_return, &file, &line))
		file_size = strlen(file) + 1;
	named = malloc(sizeof(*named) + symbol_size + path_size + file_size);
	if (!named)
		return NULL;
	memcpy(named->text, path, path_size);
	if (symbol)
		memcpy(named->text + path_size, symbol, symbol_size);
	if (file_size)
		memcpy(named->text + path_size + symbol_size, file, file_size);
	named->is_return = is_return;
	named->of_file = of_file;
	named->seen = jit_map_generation(u->jit);
	named->frame = (struct probe_frame){.ip = ip,
		.module = module ? named->text : NULL,
		.symbol = symbol ? named->text + path_size : NULL,
		.offset = symbol ? link - start : link,
		.function = symbol ? start : function_at(module, link - is_return),
		.file = file_size ? named->text + path_size + symbol_size : NULL,
		.line = line};
	return named;
}

/* Generated code may have got its name after it was seen, or be other code now. */
static void renew(struct unwinder *u, struct named **bucket)
{
	const struct probe_frame *frame = &(*bucket)->frame;
	struct named **old, *fresh;
	const char *symbol;
	uint64_t start;

	jit_map_refresh(u->jit, false);
	if ((*bucket)->seen == jit_map_generation(u->jit))
		return;
	(*bucket)->seen = jit_map_generation(u->jit);
	symbol = jit_map_find(u->jit, frame->ip - (*bucket)->is_return, &start);
	if (!symbol || (frame->symbol && !strcmp(symbol, frame->symbol)))
		return;
	/* The frame has been handed out. */
	old = reallocarray(u->old, u->old_count + 1, sizeof(*old));
	if (!old)
		return;
	u->old = old;
	fresh = make_frame(u, frame->ip, (*bucket)->is_return);
	if (!fresh)
		return;
	u->old[u->old_count++] = *bucket;
	*bucket = fresh;
}

/* Adds one to the stack. Without memory, *error_ret is set. False: that is all. */
static bool add_frame(
	struct unwinder *u, uint64_t ip, bool is_return, struct probe_error **error_ret)
{
	struct named **bucket;

	if (u->known + u->old_count >= KNOWN_FRAMES_MAX)
		return false;
	bucket = make_room(u) ? bucket_of(u->buckets, u->bucket_count, ip, is_return) : NULL;
	if (bucket && !*bucket) {
		*bucket = make_frame(u, ip, is_return);
		u->known += *bucket != NULL;
	} else if (bucket && !(*bucket)->of_file) {
		renew(u, bucket);
	}
	if (!bucket || !*bucket) {
		*error_ret = probe_error_no_memory();
		return false;
	}
	u->frames[u->count++] = &(*bucket)->frame;
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
	bool missed; /* something above the copy was asked for */
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

/* Without rules: [fp] is the caller's frame pointer, [fp + 8] the return address. */
static enum unwind_status step_by_frame_pointer(struct walk *walk)
{
	const struct arch_unwind_register *regs = walk->unwinder->arch->unwind_registers;
	struct unwind_registers next = {0};
	uint64_t fp, sp, caller_fp;
	bool fp_known, sp_known;

	fp = dwarf_register(walk, FP, &fp_known);
	sp = dwarf_register(walk, SP, &sp_known);
	if (fp_known && fp == 0)
		return UNWIND_OUTERMOST; /* so the ABI marks it */
	if (!fp_known || !sp_known || fp % 8 || fp < sp || fp - sp > FRAME_BYTES_MAX)
		return UNWIND_FAILED;
	if (!read_word(walk, fp, &caller_fp) || !read_word(walk, fp + 8, &next.pc))
		return UNWIND_FAILED;
	next.values[regs[FP].dwarf] = caller_fp;
	next.values[regs[SP].dwarf] = fp + 16;
	next.known = UINT64_C(1) << regs[FP].dwarf | UINT64_C(1) << regs[SP].dwarf;
	walk->registers = next;
	walk->is_signal = false;
	return next.pc ? UNWIND_CALLER : UNWIND_OUTERMOST;
}

static struct unwind *rules_of(struct unwinder *u, const struct module *module)
{
	struct reader *reader = &u->readers[module - u->modules.items];

	if (!reader->rules && module->object)
		probe_error_free(unwind_open(module->object, &reader->rules));
	return reader->rules;
}

int32_t unwinder_return_offset(struct unwinder *u, uint64_t pc)
{
	struct module *module = modules_find(&u->modules, pc);
	struct unwind *rules = module ? rules_of(u, module) : NULL;
	int32_t offset;

	if (rules && unwind_return_offset(rules, pc - module->bias,
			     u->arch->unwind_registers[SP].dwarf, &offset))
		return offset;
	return -1;
}

static enum unwind_status step(struct walk *walk, bool is_return)
{
	const struct unwind_memory memory = {read_word, walk};
	struct unwinder *u = walk->unwinder;
	uint64_t address = walk->registers.pc - is_return;
	struct module *module = modules_find(&u->modules, address);
	struct unwind *rules = module ? rules_of(u, module) : NULL;
	enum unwind_status status = UNWIND_NO_RULES;
	bool sp_known, was_known;
	uint64_t sp = dwarf_register(walk, SP, &was_known), next;

	if (rules)
		status = unwind_step(
			rules, address - module->bias, &memory, &walk->registers, &walk->is_signal);
	if (status == UNWIND_NO_RULES)
		status = step_by_frame_pointer(walk);
	if (status != UNWIND_CALLER)
		return status;
	/* A handler may have a stack of its own. */
	next = dwarf_register(walk, SP, &sp_known);
	if (!sp_known || (next <= sp && !walk->is_signal))
		return UNWIND_FAILED;
	return find_code(u, walk->registers.pc) ? UNWIND_CALLER : UNWIND_FAILED;
}

static void walk_init(struct walk *walk, struct unwinder *u, const struct unwinder_thread *thread)
{
	*walk = (struct walk){.unwinder = u,
		.thread = thread,
		.start = thread->registers[SP],
		.registers = {.pc = thread->pc}};
	for (size_t i = 0; i < u->arch->unwind_count; i++) {
		uint8_t dwarf = u->arch->unwind_registers[i].dwarf;

		walk->registers.values[dwarf] = thread->registers[i];
		walk->registers.known |= UINT64_C(1) << dwarf;
	}
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
	find_code(unwinder, thread->pc); /* a library that was opened meanwhile */
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

	unwinder->count = 0;
	find_code(unwinder, pc);
	add_frame(unwinder, pc, false, &error);
	if (count >= ARCH_FRAMES_MAX)
		end = PROBE_STACK_TRUNCATED;
	if (caller && !error && !find_code(unwinder, caller)) {
		end = PROBE_STACK_LOST; /* without it, there would be a gap */
		count = 0;
	} else if (caller && !error) {
		add_frame(unwinder, caller, true, &error);
	}
	for (size_t i = 0; i < count && unwinder->count < PROBE_FRAMES_MAX && !error; i++) {
		memcpy(&ip, (const uint8_t *)returns + 8 * i, sizeof(ip));
		if (!find_code(unwinder, ip) || !add_frame(unwinder, ip, true, &error)) {
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
