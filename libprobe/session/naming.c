/* SPDX-License-Identifier: MIT */
/*
 * Frames are made once for each address and then shared: a symbol is looked up once, and frames can
 * be compared as pointers. What is known of the process is kept, so addresses have names after its
 * end, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/lines.h"
#include "elf/unwind.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/process/process.h"
#include "libprobe/session/session.h"
#include "probe/symbol.h"

enum {
	REFRESH_NS = 50 * 1000 * 1000, /* how often a new address is reason to look at the maps */
	EARLY_LOOKS = 8, /* ... at first at once: a program that has just been started maps a lot */
	KNOWN_FRAMES_MAX = 1 << 20,
	FRAMES_FIRST = 256
};

/* A frame by its address, and whether a call returns there. */
struct named {
	struct probe_frame frame;
	bool is_return;
	bool of_file;	   /* its symbol, if it has one */
	unsigned int seen; /* the generation of the names of generated code, of others */
	char *label;	   /* see naming_name(); owned; NULL: not asked for, or none */
	char text[]; /* the module's path, the symbol's name, the source file, each with its NUL */
};

/* What reads a module's debug information; NULL before the first use. */
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
};

/* ---- Modules ------------------------------------------------------------------------ */

static bool same_module(const struct module *a, const struct module *b)
{
	return a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
	       a->inode == b->inode && a->bias == b->bias && !strcmp(a->path, b->path);
}

/* Keeps what is known of modules that are still mapped: they are exchanged with the new ones. */
static size_t keep_known(struct naming *n, struct modules *fresh, struct reader *readers)
{
	size_t kept = 0;

	for (size_t i = 0; i < fresh->count; i++) {
		struct module *module = &fresh->items[i], swapped = *module;

		for (size_t k = 0; k < n->modules.count; k++) {
			struct module *known = &n->modules.items[k];

			if (!same_module(known, &swapped))
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

/* Addresses may mean something else now. The frames themselves have been handed out. */
static void forget_frames(struct naming *n)
{
	struct named **old = reallocarray(n->old, n->old_count + n->known + 1, sizeof(*old));

	if (!old)
		return; /* an old name is better than none */
	n->old = old;
	for (size_t i = 0; i < n->bucket_count; i++)
		if (n->buckets[i])
			n->old[n->old_count++] = n->buckets[i];
	free(n->buckets);
	n->buckets = NULL;
	n->bucket_count = n->known = 0;
}

static struct probe_error *refresh(struct naming *n)
{
	struct modules fresh = {0};
	struct maps maps = {0};
	struct reader *readers;
	struct probe_error *error = maps_read(n->pid, &maps);
	bool gone;

	n->refreshed_ns = clock_monotonic_ns();
	/* While the process is there. */
	jit_map_refresh(n->jit, true);
	if (error)
		return error;
	error = modules_read(n->pid, NULL, &fresh);
	readers = error ? NULL : calloc(fresh.count + 1, sizeof(*readers));
	if (!readers) {
		modules_deinit(&fresh);
		maps_deinit(&maps);
		return error ? error : probe_error_no_memory();
	}
	gone = keep_known(n, &fresh, readers) < n->modules.count;
	drop_modules(n);
	maps_deinit(&n->maps);
	n->modules = fresh;
	n->readers = readers;
	n->maps = maps;
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
	if (!naming)
		return;
	drop_modules(naming);
	jit_map_free(naming->jit);
	maps_deinit(&naming->maps);
	for (size_t i = 0; i < naming->bucket_count; i++)
		named_free(naming->buckets[i]);
	for (size_t i = 0; i < naming->old_count; i++)
		named_free(naming->old[i]);
	free(naming->buckets);
	free(naming->old);
	free(naming);
}

static bool is_code(const struct naming *n, uint64_t address)
{
	const struct mapping *mapping = maps_find(&n->maps, address);

	return mapping && mapping->executable;
}

/*
 * The module whose segment is there, or NULL: between two segments the kernel may have put code
 * that was generated.
 */
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

/* Can it have a name at all? Code, and the data of files; not the heap, nor what is no address. */
static bool is_nameable(const struct naming *n, uint64_t address)
{
	return is_code(n, address) || (maps_find(&n->maps, address) && module_at(n, address));
}

/* A library may have been opened, or code generated. False: it is too early. */
static bool look_again(struct naming *n)
{
	if (clock_monotonic_ns() - n->refreshed_ns < REFRESH_NS && n->early_looks++ >= EARLY_LOOKS)
		return false;
	naming_refresh(n);
	return true;
}

bool naming_find_code(struct naming *n, uint64_t address)
{
	return is_code(n, address) || (look_again(n) && is_code(n, address));
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

static bool make_room(struct naming *n)
{
	size_t count = n->bucket_count ? 2 * n->bucket_count : FRAMES_FIRST;
	struct named **buckets;

	if (2 * (n->known + 1) <= n->bucket_count)
		return true;
	buckets = calloc(count, sizeof(struct named *));
	if (!buckets)
		return false;
	for (size_t i = 0; i < n->bucket_count; i++) {
		struct named *named = n->buckets[i];

		if (named)
			*bucket_of(buckets, count, named->frame.ip, named->is_return) = named;
	}
	free(n->buckets);
	n->buckets = buckets;
	n->bucket_count = count;
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
static const char *symbol_of(
	struct module *module, uint64_t link, uint64_t *start_ret, char **demangled_ret)
{
	const char *symbol = NULL;

	if (module && module->object)
		symbol = object_symbol_at(module->object, link, start_ret);
	if (symbol)
		probe_error_free(probe_demangle(symbol, demangled_ret));
	return *demangled_ret ? *demangled_ret : symbol;
}

/* The source line of an address; false if it is not wanted or not known. */
static bool line_of(struct naming *n, const struct module *module, uint64_t link,
	const char **file_ret, int *line_ret)
{
	struct line line = {0};
	struct reader *reader;

	if (!n->options.lines || !module || !module->object)
		return false;
	reader = &n->readers[module - n->modules.items];
	if (!reader->lines_tried)
		probe_error_free(lines_open(module->object, &reader->lines));
	reader->lines_tried = true;
	if (reader->lines)
		lines_find(reader->lines, &link, 1, &line);
	if (!line.file)
		return false;
	*file_ret = line.file;
	*line_ret = line.number;
	return true;
}

/*
 * The code that the kernel brings, and where handlers return to, is named like a file. It may be
 * between the segments of one, where these are far apart.
 */
static const struct mapping *find_vdso(const struct naming *n, uint64_t ip)
{
	const struct mapping *mapping = maps_find(&n->maps, ip);

	return mapping && !strcmp(mapping->path, "[vdso]") ? mapping : NULL;
}

/*
 * A call may be the last instruction of its function; then its return address is in the next one.
 */
static struct named *make_frame(struct naming *n, uint64_t ip, bool is_return)
{
	const struct mapping *vdso = find_vdso(n, ip);
	struct module *module = vdso ? NULL : module_at(n, ip - is_return);
	const char *symbol, *path = module ? module->path : vdso ? vdso->path : "", *file = NULL;
	const char *id = module && module->object ? object_build_id(module->object) : NULL;
	size_t symbol_size = 0, path_size = strlen(path) + 1, file_size = 0;
	size_t id_size = id && *id ? strlen(id) + 1 : 0;
	uint64_t link = module ? ip - module->bias : vdso ? ip - vdso->start : ip, start = 0;
	AUTO_FREE char *demangled = NULL;
	struct named *named;
	bool of_file;
	int line = 0;

	symbol = symbol_of(module, link - is_return, &start, &demangled);
	of_file = symbol != NULL;
	if (!of_file) {
		jit_map_refresh(n->jit, false);
		symbol = jit_map_find(n->jit, ip - is_return, &start);
		link = symbol ? ip : link;
	}
	if (symbol)
		symbol_size = strlen(symbol) + 1;
	if ((of_file || !symbol) && line_of(n, module, link - is_return, &file, &line))
		file_size = strlen(file) + 1;
	named = malloc(sizeof(*named) + symbol_size + path_size + file_size + id_size);
	if (!named)
		return NULL;
	memcpy(named->text, path, path_size);
	if (symbol)
		memcpy(named->text + path_size, symbol, symbol_size);
	if (file_size)
		memcpy(named->text + path_size + symbol_size, file, file_size);
	if (id_size)
		memcpy(named->text + path_size + symbol_size + file_size, id, id_size);
	named->label = NULL;
	named->is_return = is_return;
	named->of_file = of_file;
	named->seen = jit_map_generation(n->jit);
	named->frame = (struct probe_frame){.ip = ip,
		.module = module || vdso ? named->text : NULL,
		.symbol = symbol ? named->text + path_size : NULL,
		.offset = symbol ? link - start : link,
		.function = symbol ? start : function_at(module, link - is_return),
		.file = file_size ? named->text + path_size + symbol_size : NULL,
		.line = line,
		.build_id = id_size ? named->text + path_size + symbol_size + file_size : NULL};
	return named;
}

/* Generated code may have got its name after it was seen, or be other code now. */
static void renew(struct naming *n, struct named **bucket)
{
	const struct probe_frame *frame = &(*bucket)->frame;
	struct named **old, *fresh;
	const char *symbol;
	uint64_t start;

	jit_map_refresh(n->jit, false);
	if ((*bucket)->seen == jit_map_generation(n->jit))
		return;
	(*bucket)->seen = jit_map_generation(n->jit);
	symbol = jit_map_find(n->jit, frame->ip - (*bucket)->is_return, &start);
	if (!symbol || (frame->symbol && !strcmp(symbol, frame->symbol)))
		return;
	/* The frame has been handed out. */
	old = reallocarray(n->old, n->old_count + 1, sizeof(*old));
	if (!old)
		return;
	n->old = old;
	fresh = make_frame(n, frame->ip, (*bucket)->is_return);
	if (!fresh)
		return;
	n->old[n->old_count++] = *bucket;
	*bucket = fresh;
}

bool naming_is_full(const struct naming *naming)
{
	return naming->known + naming->old_count >= KNOWN_FRAMES_MAX;
}

/* NULL without memory. */
static struct named *named_at(struct naming *n, uint64_t ip, bool is_return)
{
	struct named **bucket;

	if (naming_is_full(n))
		return NULL;
	bucket = make_room(n) ? bucket_of(n->buckets, n->bucket_count, ip, is_return) : NULL;
	if (bucket && !*bucket) {
		*bucket = make_frame(n, ip, is_return);
		n->known += *bucket != NULL;
	} else if (bucket && !(*bucket)->of_file) {
		renew(n, bucket);
	}
	return bucket ? *bucket : NULL;
}

const struct probe_frame *naming_frame(struct naming *n, uint64_t ip, bool is_return)
{
	const struct named *named = named_at(n, ip, is_return);

	return named ? &named->frame : NULL;
}

/* ---- Names ------------------------------------------------------------------------------ */

/* What is not in a function: the symbol of data, or else the file and the place in it. */
static char *make_label(const struct naming *n, const struct probe_frame *frame)
{
	struct module *module = module_at(n, frame->ip);
	const char *symbol = NULL, *slash = frame->module ? strrchr(frame->module, '/') : NULL;
	char *ret = NULL;

	if (!frame->module)
		return NULL;
	if (module && module->object && !frame->function)
		symbol = object_data_at(module->object, frame->offset);
	if (symbol)
		probe_error_free(probe_demangle(symbol, &ret));
	if (symbol)
		return ret ? ret : strdup(symbol);
	if (asprintf(&ret, "%s+0x%jx", slash ? slash + 1 : frame->module,
		    (uintmax_t)(frame->function ? frame->function : frame->offset)) < 0)
		return NULL;
	return ret;
}

const char *naming_name(struct naming *n, uint64_t address)
{
	struct named *named;

	if (!is_nameable(n, address) && (!look_again(n) || !is_nameable(n, address)))
		return NULL;
	named = named_at(n, address, false);
	if (!named || named->frame.symbol)
		return named ? named->frame.symbol : NULL;
	if (!named->label)
		named->label = make_label(n, &named->frame);
	return named->label;
}

struct unwind *naming_rules(struct naming *n, uint64_t address, uint64_t *bias_ret)
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
