/* SPDX-License-Identifier: MIT */
/*
 * Finds symbols: names in the file's own hash table for the dynamic linker (SHT_GNU_HASH), or in
 * one built here for each symbol table; addresses in sorted tables of functions and of data. Each
 * is built when needed. .symtab (megabytes in a big library) is read only if .dynsym lacks the
 * symbol.
 *
 * In a relocatable object (ET_REL) values are offsets into sections, which overlap, so symbols
 * cannot be found by address.
 */
#include <elf.h>
#include <string.h>

#include "elf/internal.h"
#include "libprobe/base/array.h"
#include "libprobe/base/map.h"

enum { HASH_HEADER = 4 /* words of an SHT_GNU_HASH table before its Bloom filter */ };

/* A symbol table of the file. libelf owns the data, as long as object->elf. */
struct table {
	bool loaded;
	Elf_Data *data; /* NULL if missing or malformed */
	size_t count;
	const char *names;
	/* size of `names` up to its last NUL, so that every name ends */
	size_t names_size;
	Elf_Data *hash; /* SHT_GNU_HASH; NULL if missing or malformed */
	/*
	 * The index of a symbol in each bucket; 0 (the null symbol) if the bucket is free. NULL if
	 * not built.
	 */
	uint32_t *buckets;
	/* For each bucket, whether symbols of its name differ in value. */
	bool *several;
	size_t bucket_mask;
};

struct function {
	struct object_range range;
	uint64_t reach; /* highest end of this function and of all functions before it */
	const char *name;
	bool sized; /* the symbol has a size; if not, the function extends to the next one */
	bool global;
	bool is_ifunc; /* `range` is the resolver's, which returns the function's address */
};

struct by_address {
	struct function *items; /* sorted by start */
	size_t count;
	bool built;
};

struct symbols {
	struct table dynamic, full, stripped;
	struct object *debug; /* has the table `stripped`; NULL if `full` is there */
	struct by_address functions, data;
	struct by_address all; /* functions, also those that were stripped from the file */
};

/* Returns the first section of a type, or NULL. */
static Elf_Scn *find_section(const struct object *object, uint32_t type, GElf_Shdr *ret)
{
	Elf_Scn *section = NULL;

	do {
		section = object->section_table ? elf_nextscn(object->elf, section) : NULL;
		if (!section || !gelf_getshdr(section, ret))
			return NULL;
	} while (ret->sh_type != type);
	return section;
}

/* Returns the hash table of the symbols in section `symbols`, or NULL. */
static Elf_Data *find_hash(const struct object *object, size_t symbols)
{
	GElf_Shdr header;
	Elf_Scn *section = find_section(object, SHT_GNU_HASH, &header);
	Elf_Data *data = section && header.sh_link == symbols ? elf_getdata(section, NULL) : NULL;

	return data && data->d_buf && data->d_size >= HASH_HEADER * sizeof(uint32_t) ? data : NULL;
}

static void table_load(const struct object *object, struct table *table, uint32_t type)
{
	Elf_Scn *section, *names;
	GElf_Shdr header;
	Elf_Data *data;

	if (table->loaded)
		return;
	table->loaded = true;
	section = find_section(object, type, &header);
	if (!section)
		return;
	names = elf_getscn(object->elf, header.sh_link);
	data = names ? elf_getdata(names, NULL) : NULL;
	if (data && data->d_buf && data->d_size) {
		const char *last = memrchr(data->d_buf, 0, data->d_size);

		table->names = data->d_buf;
		table->names_size = last ? (size_t)(last - table->names) + 1 : 0;
	}
	data = elf_getdata(section, NULL);
	if (!data || !data->d_buf || data->d_type != ELF_T_SYM || !table->names_size)
		return;
	table->count = data->d_size / gelf_fsize(object->elf, ELF_T_SYM, 1, EV_CURRENT);
	if (table->count > UINT32_MAX / 2)
		table->count = UINT32_MAX / 2;
	table->data = data;
	if (type == SHT_DYNSYM)
		table->hash = find_hash(object, elf_ndxscn(section));
}

/* Reads symbol `index`. Returns false if it is undefined or nameless. */
static bool table_symbol(
	const struct table *table, size_t index, GElf_Sym *ret, const char **name_ret)
{
	if (!gelf_getsym(table->data, (int)index, ret) || ret->st_shndx == SHN_UNDEF ||
		!ret->st_name || ret->st_name >= table->names_size)
		return false;
	*name_ret = table->names + ret->st_name;
	return true;
}

/* ---- By name, in the dynamic linker's table ----------------------------------- */

/* Returns a word of the table, in the host's byte order (libelf). The caller has checked `at`. */
static uint32_t hash_word(const struct table *table, size_t at)
{
	uint32_t word;

	memcpy(&word, (const char *)table->hash->d_buf + at * sizeof(word), sizeof(word));
	return word;
}

static uint32_t gnu_hash(const char *name, size_t length)
{
	uint32_t value = 5381;

	for (size_t i = 0; i < length; i++)
		value = value * 33 + (uint8_t)name[i];
	return value;
}

/*
 * The table: number of buckets; first symbol's index; words of a Bloom filter, unused here; its
 * shift; the filter; the first symbol of each bucket; each symbol's hash, of which bit 0 marks the
 * last of a bucket.
 */
static bool hash_find(const struct object *object, const struct table *table, const char *name,
	size_t length, GElf_Sym *ret)
{
	size_t words = table->hash->d_size / sizeof(uint32_t);
	size_t count = hash_word(table, 0), first = hash_word(table, 1);
	size_t buckets = HASH_HEADER + hash_word(table, 2) * (object->wide ? 2ull : 1ull);
	size_t values = buckets + count;
	uint32_t wanted = gnu_hash(name, length), value = 0;
	size_t index;

	if (!count || values > words)
		return false;
	index = hash_word(table, buckets + wanted % count);
	for (; index >= first && index - first < words - values && !(value & 1); index++) {
		const char *found;

		value = hash_word(table, values + index - first);
		if ((value | 1) == (wanted | 1) && table_symbol(table, index, ret, &found) &&
			!strncmp(found, name, length) && !found[length])
			return true;
	}
	return false;
}

/* ---- By name, in a table of ours ---------------------------------------------- */

/* Returns the bucket of the name, or the free bucket where it belongs. */
static uint32_t *table_bucket(const struct table *table, const char *name, size_t length)
{
	size_t at = hash_bytes(0, name, length) & table->bucket_mask;

	for (;; at = (at + 1) & table->bucket_mask) {
		const char *found;
		GElf_Sym symbol;

		/* At most half of the buckets are used, so this ends. */
		if (!table->buckets[at])
			return &table->buckets[at];
		if (table_symbol(table, table->buckets[at], &symbol, &found) &&
			!strncmp(found, name, length) && !found[length])
			return &table->buckets[at];
	}
}

/* A global symbol replaces a local one of the same name; in other cases the first symbol stays. */
static void table_insert(struct table *table, size_t index)
{
	GElf_Sym symbol, held;
	const char *name, *held_name;
	uint32_t *bucket;

	if (!table_symbol(table, index, &symbol, &name))
		return;
	if (GELF_ST_TYPE(symbol.st_info) == STT_SECTION || GELF_ST_TYPE(symbol.st_info) == STT_FILE)
		return;
	bucket = table_bucket(table, name, strlen(name));
	if (*bucket && table_symbol(table, *bucket, &held, &held_name)) {
		if (held.st_value != symbol.st_value)
			table->several[bucket - table->buckets] = true;
		if (GELF_ST_BIND(symbol.st_info) == STB_LOCAL ||
			GELF_ST_BIND(held.st_info) != STB_LOCAL)
			return;
	}
	*bucket = (uint32_t)index;
}

static void table_forget_index(struct table *table)
{
	free(table->buckets);
	free(table->several);
	table->buckets = NULL;
	table->several = NULL;
}

static void symbols_free(struct symbols *symbols)
{
	table_forget_index(&symbols->dynamic);
	table_forget_index(&symbols->full);
	if (symbols->debug)
		object_close(symbols->debug);
	free(symbols->functions.items);
	free(symbols->all.items);
	free(symbols->data.items);
	free(symbols);
}

static struct symbols *symbols_of(struct object *object)
{
	if (!object->symbols)
		object->symbols = calloc(1, sizeof(*object->symbols));
	object->symbols_free = symbols_free;
	return object->symbols;
}

static bool table_index(struct table *table)
{
	size_t buckets = 16;

	if (table->buckets)
		return true;
	while (buckets < table->count * 2)
		buckets *= 2;
	table->buckets = calloc(buckets, sizeof(*table->buckets));
	table->several = calloc(buckets, sizeof(*table->several));
	if (!table->buckets || !table->several) {
		table_forget_index(table);
		return false;
	}
	table->bucket_mask = buckets - 1;
	for (size_t i = 1; i < table->count; i++)
		table_insert(table, i);
	return true;
}

static bool table_find(const struct object *object, struct table *table, uint32_t type,
	const char *name, size_t length, GElf_Sym *ret)
{
	const char *found;
	uint32_t index;

	table_load(object, table, type);
	if (table->hash)
		return hash_find(object, table, name, length, ret);
	if (!table->data || !table_index(table))
		return false;
	index = *table_bucket(table, name, length);
	return index && table_symbol(table, index, ret, &found);
}

bool object_symbol(struct object *object, const char *name, size_t name_length, uint64_t *value_ret,
	uint64_t *size_ret)
{
	struct symbols *symbols = symbols_of(object);
	GElf_Sym symbol;

	if (!symbols || !name_length || memchr(name, 0, name_length))
		return false;
	if (!table_find(object, &symbols->dynamic, SHT_DYNSYM, name, name_length, &symbol) &&
		!table_find(object, &symbols->full, SHT_SYMTAB, name, name_length, &symbol))
		return false;
	*value_ret = symbol.st_value;
	*size_ret = symbol.st_size;
	return true;
}

bool object_symbol_is_only(struct object *object, const char *name, size_t name_length)
{
	struct symbols *symbols = symbols_of(object);
	struct table *table = symbols ? &symbols->full : NULL;

	if (table)
		table_load(object, table, SHT_SYMTAB);
	if (!table || !table->data)
		return table != NULL;
	return table_index(table) &&
	       !table->several[table_bucket(table, name, name_length) - table->buckets];
}

bool object_imports_none(
	struct object *object, bool (*match)(const char *name, void *data), void *data)
{
	struct symbols *symbols = symbols_of(object);
	struct table *table = symbols ? &symbols->dynamic : NULL;
	GElf_Sym symbol;

	if (table)
		table_load(object, table, SHT_DYNSYM);
	if (!table || !table->data)
		return false;
	for (size_t i = 1; i < table->count; i++)
		if (!gelf_getsym(table->data, (int)i, &symbol) ||
			symbol.st_name >= table->names_size ||
			(symbol.st_shndx == SHN_UNDEF &&
				match(table->names + symbol.st_name, data)))
			return false;
	return true;
}

/* ---- By address ------------------------------------------------------------- */

/* Counts leading underscores, which a library's own name has: malloc is also __libc_malloc. */
static size_t underscores(const struct function *function)
{
	return strspn(function->name, "_");
}

/*
 * Sorts by start. Of several symbols with one start, the last is shown: with a size, global, with
 * few underscores.
 */
static int compare_functions(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	/* The order of names does not matter, but must always be the same. */
	return ORDER(x->range.start, y->range.start) ?: x->sized - y->sized
		?: x->global - y->global ?: ORDER(underscores(y), underscores(x))
		?: strcmp(y->name, x->name);
}

static bool is_function(unsigned char type)
{
	return type == STT_FUNC || type == STT_GNU_IFUNC;
}

static bool is_data(unsigned char type)
{
	return type == STT_OBJECT;
}

static void add_functions(const struct object *object, const struct table *table,
	bool (*wanted)(unsigned char type), struct by_address *ret)
{
	for (size_t i = 1; i < table->count; i++) {
		struct function *function;
		const char *name;
		GElf_Sym symbol;

		if (!table_symbol(table, i, &symbol, &name) ||
			!wanted(GELF_ST_TYPE(symbol.st_info)))
			continue;
		/* Bit 0 of a function's address marks Thumb code (ELF for the Arm Architecture). */
		if (object->machine == EM_ARM && wanted == is_function)
			symbol.st_value &= ~1ull;
		function = &ret->items[ret->count++];
		*function = (struct function){.name = name,
			.sized = symbol.st_size,
			.global = GELF_ST_BIND(symbol.st_info) != STB_LOCAL,
			.is_ifunc = GELF_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC,
			.range = {symbol.st_value, symbol.st_value + symbol.st_size}};
		if (function->range.end < function->range.start)
			function->range.end = UINT64_MAX;
	}
}

/* Extends functions without a size (assembly) to the next function, within their segment. */
static void finish_functions(const struct object *object, struct by_address *all)
{
	uint64_t next = UINT64_MAX, reach = 0;

	for (size_t i = all->count; i-- > 0;) {
		struct function *function = &all->items[i];

		if (!function->sized) {
			const struct object_segment *segment =
				object_segment_of(object, function->range.start);
			uint64_t end = segment ? segment->address + segment->file_size : 0;

			function->range.end = end < next ? end : next;
		}
		if (!i || all->items[i - 1].range.start != function->range.start)
			next = function->range.start;
	}
	for (size_t i = 0; i < all->count; i++) {
		if (all->items[i].range.end > reach)
			reach = all->items[i].range.end;
		all->items[i].reach = reach;
	}
}

/*
 * With `stripped`, also the symbols of a debug file. Names of addresses do without: they would
 * differ from machine to machine, by the debug files that are installed.
 */
static void build(struct object *object, bool (*wanted)(unsigned char type), bool stripped,
	struct by_address *ret)
{
	struct symbols *symbols = object->symbols;

	ret->built = true;
	if (object->type == ET_REL)
		return;
	table_load(object, &symbols->dynamic, SHT_DYNSYM);
	table_load(object, &symbols->full, SHT_SYMTAB);
	if (stripped && !symbols->full.data && !symbols->stripped.loaded) {
		symbols->debug = object_open_debug(object);
		if (symbols->debug)
			table_load(symbols->debug, &symbols->stripped, SHT_SYMTAB);
		symbols->stripped.loaded = true;
	}
	ret->items =
		calloc(symbols->dynamic.count + symbols->full.count + symbols->stripped.count + 1,
			sizeof(*ret->items));
	if (!ret->items)
		return;
	add_functions(object, &symbols->dynamic, wanted, ret);
	add_functions(object, &symbols->full, wanted, ret);
	if (stripped)
		add_functions(object, &symbols->stripped, wanted, ret);
	qsort(ret->items, ret->count, sizeof(*ret->items), compare_functions);
	finish_functions(object, ret);
}

static const struct function *find(const struct by_address *all, uint64_t address, bool sized)
{
	size_t low = ARRAY_SEARCH_ABOVE(all->items, all->count, range.start, address);

	/* Find the innermost function, because assembly code has entry points inside functions. */
	while (low-- > 0 && all->items[low].reach > address) {
		const struct function *function = &all->items[low];

		if (function->range.end > address && (function->sized || !sized))
			return function;
	}
	return NULL;
}

static const struct function *function_at(struct object *object, uint64_t address, bool sized)
{
	struct symbols *symbols = symbols_of(object);

	if (symbols && !symbols->functions.built)
		build(object, is_function, false, &symbols->functions);
	return symbols ? find(&symbols->functions, address, sized) : NULL;
}

bool object_visit_functions(struct object *object,
	bool (*visit)(const struct object_symbol *symbol, void *data), void *data)
{
	struct symbols *symbols = symbols_of(object);

	if (symbols && !symbols->all.built)
		build(object, is_function, true, &symbols->all);
	if (!symbols || !symbols->all.items)
		return false;
	for (size_t i = 0; i < symbols->all.count; i++) {
		const struct function *its = &symbols->all.items[i];
		const struct object_symbol symbol = {
			.name = its->name, .range = its->range, .is_ifunc = its->is_ifunc};

		if (!visit(&symbol, data))
			return true;
	}
	return true;
}

const char *object_data_at(struct object *object, uint64_t address)
{
	struct symbols *symbols = symbols_of(object);
	const struct function *found;

	if (symbols && !symbols->data.built)
		build(object, is_data, false, &symbols->data);
	found = symbols ? find(&symbols->data, address, true) : NULL;
	return found ? found->name : NULL;
}

const char *object_symbol_at(struct object *object, uint64_t address, uint64_t *start_ret)
{
	const struct function *function = function_at(object, address, false);

	if (!function)
		return NULL;
	*start_ret = function->range.start;
	return function->name;
}

bool symbols_function_at(struct object *object, uint64_t address, struct object_range *ret)
{
	const struct function *function = function_at(object, address, true);

	if (!function)
		return false;
	*ret = function->range;
	return true;
}

bool symbols_function_starts(struct object *object, struct object_range range)
{
	struct symbols *symbols = symbols_of(object);
	const struct by_address *all;
	size_t i;

	if (symbols && !symbols->all.built && !symbols->functions.built)
		build(object, is_function, false, &symbols->functions);
	if (!symbols)
		return true;
	all = symbols->all.built ? &symbols->all : &symbols->functions;
	if (!all->items)
		return object->type != ET_REL;
	i = ARRAY_SEARCH(all->items, all->count, range.start, range.start);
	return i < all->count && all->items[i].range.start < range.end;
}

/* ---- Relocations ---------------------------------------------------------------------- */

/* Visits a section's relocations, with the names of its symbols. Returns false if it is told to. */
static bool visit_section(struct object *object, Elf_Scn *section, const GElf_Shdr *header,
	bool (*visit)(const struct object_relocation *relocation, void *data), void *data)
{
	Elf_Data *bytes = elf_getdata(section, NULL), *symbols;
	Elf_Scn *table = elf_getscn(object->elf, header->sh_link);
	size_t count = bytes && header->sh_entsize ? bytes->d_size / header->sh_entsize : 0;
	GElf_Shdr its = {0};
	GElf_Rela rela;
	GElf_Sym symbol;

	symbols = table && gelf_getshdr(table, &its) ? elf_getdata(table, NULL) : NULL;
	for (size_t i = 0; i < count && i < INT32_MAX && gelf_getrela(bytes, (int)i, &rela); i++) {
		struct object_relocation relocation = {.type = (uint32_t)GELF_R_TYPE(rela.r_info),
			.address = rela.r_offset,
			.addend = rela.r_addend,
			.symbol = ""};
		size_t index = GELF_R_SYM(rela.r_info);
		const char *name = NULL;

		if (index && symbols && index < INT32_MAX &&
			gelf_getsym(symbols, (int)index, &symbol))
			name = elf_strptr(object->elf, its.sh_link, symbol.st_name);
		relocation.symbol = name ? name : "";
		if (!visit(&relocation, data))
			return false;
	}
	return true;
}

void object_visit_relocations(struct object *object,
	bool (*visit)(const struct object_relocation *relocation, void *data), void *data)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while (object->section_table && (section = elf_nextscn(object->elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_RELA &&
			header.sh_flags & SHF_ALLOC &&
			!visit_section(object, section, &header, visit, data))
			return;
}

/* ---- Names of libraries: the file's own, and those that the file needs ------------------ */

typedef bool take_fn(const char *name, void *data);

/* Calls `take` for each name with a tag (DT_*) in a section, until it returns false. */
static bool walk_section(struct object *object, Elf_Scn *section, const GElf_Shdr *header,
	int64_t tag, take_fn *take, void *data)
{
	Elf_Data *bytes = elf_getdata(section, NULL);
	size_t count = bytes && header->sh_entsize ? bytes->d_size / header->sh_entsize : 0;
	GElf_Dyn entry;

	for (size_t i = 0; i < count && i < INT32_MAX; i++) {
		const char *name;

		if (!gelf_getdyn(bytes, (int)i, &entry) || entry.d_tag == DT_NULL)
			return true;
		if (entry.d_tag != tag)
			continue;
		name = elf_strptr(object->elf, header->sh_link, entry.d_un.d_val);
		if (name && !take(name, data))
			return false;
	}
	return true;
}

static void walk(struct object *object, int64_t tag, take_fn *take, void *data)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(object->elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNAMIC &&
			!walk_section(object, section, &header, tag, take, data))
			return;
}

void object_needed(struct object *object, bool (*take)(const char *name, void *data), void *data)
{
	walk(object, DT_NEEDED, take, data);
}

static bool take_first(const char *name, void *data)
{
	*(const char **)data = name;
	return false;
}

const char *object_soname(struct object *object)
{
	const char *name = NULL;

	walk(object, DT_SONAME, take_first, &name);
	return name;
}
