/* SPDX-License-Identifier: MIT */
/*
 * Describes functions by their debug information, with libdw in a child process (see lines.c).
 *
 * Where an argument is at the entry follows from the types, by the calling convention: compilers
 * write the places of variables only for some addresses, and often not for the first. A function is
 * not described if its arguments may be elsewhere: a clone with other arguments (.isra.0), one that
 * the compiler has marked, one of a language with a convention of its own. From the first structure
 * on that is passed by value, arguments are unknown.
 *
 * Sources: DWARF 5; "System V ABI, AMD64 Architecture Processor Supplement", 3.2.3; "Procedure Call
 * Standard for the Arm 64-bit Architecture", 6.8.
 */
#include <ctype.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elf/internal.h"
#include "elf/types.h"
#include "libprobe/base/array.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/base/map.h"
#include "libprobe/base/worker.h"

/* time limit for an answer: enough for gigabytes of debug information */
#define ANSWER_NS UINT64_C(20000000000)

enum {
	INTEGERS_MAX = 10, /* as in struct arch_entry */
	FLOATS_MAX = 8,
	IN_REGISTERS = 16, /* bytes of the largest structure that is returned in registers */
	CHAIN_MAX = 32,	   /* typedefs and qualifiers of a type */
	NESTING_MAX = 64,  /* nesting of blocks and inlined functions */
	DEPTH_MAX = 8,	   /* nesting of name spaces, classes and anonymous structures */
	ENUMERATORS_MAX = 256,
	TEXT_MAX = 900 * 1024, /* a catalogue file has at most 1 MiB */
	PLACE_MAX = 256,
	LOOK_MS = 100
};

/* clang-format off */
#define FUNCTIONS(X) \
	X(begin, dwarf_begin) X(nextcu, dwarf_nextcu) X(offdie, dwarf_offdie) \
	X(cu_info, dwarf_cu_info) X(ranges, dwarf_ranges) X(child, dwarf_child) \
	X(siblingof, dwarf_siblingof) X(tag, dwarf_tag) X(attr, dwarf_attr) \
	X(integrate, dwarf_attr_integrate) X(formref, dwarf_formref_die) \
	X(formstring, dwarf_formstring) X(formudata, dwarf_formudata) \
	X(formsdata, dwarf_formsdata) X(whatform, dwarf_whatform)
/* clang-format on */

struct libdw {
	FUNCTIONS(LIBRARY_MEMBER)
};

/* ==== In the child ============================================================================ */

struct describer {
	const struct libdw *dw;
	const struct types_request *request;
	Dwarf_Die unit;
	bool has_function; /* has the unit code of one of the functions? */
	uint64_t language;
	struct buffer words; /* the types with words */
	struct buffer probes;
	unsigned int word_count; /* number of types with words */
	bool is_signed;		 /* has the last type that was written a sign? */
	struct map copies;	 /* struct copies by the functions' symbols */
};

/* The inlined copies of a function. */
struct copies {
	uint64_t count;
	struct object_range first;
};

/* ---- Attributes ------------------------------------------------------------------------- */

static uint64_t number_of(
	const struct describer *d, Dwarf_Die *die, unsigned int name, uint64_t other)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	return d->dw->integrate(die, name, &attr) && d->dw->formudata(&attr, &value) == 0 ? value
											  : other;
}

static const char *name_of(const struct describer *d, Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	return d->dw->integrate(die, DW_AT_name, &attr) ? d->dw->formstring(&attr) : NULL;
}

static const char *symbol_of(const struct describer *d, Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	return d->dw->integrate(die, DW_AT_linkage_name, &attr) ? d->dw->formstring(&attr)
								: name_of(d, die);
}

static bool follow(const struct describer *d, Dwarf_Die *die, unsigned int name, Dwarf_Die *ret)
{
	Dwarf_Attribute attr;

	return d->dw->integrate(die, name, &attr) && d->dw->formref(&attr, ret);
}

/* Finds a DIE's type without typedefs and qualifiers. Returns false for void. */
static bool type_of(const struct describer *d, Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Die next = *die;

	for (int i = 0; i < CHAIN_MAX; i++) {
		if (!follow(d, &next, DW_AT_type, ret))
			return false;
		switch (d->dw->tag(ret)) {
		case DW_TAG_typedef:
		case DW_TAG_const_type:
		case DW_TAG_volatile_type:
		case DW_TAG_restrict_type:
		case DW_TAG_atomic_type:
			next = *ret;
			break;
		default:
			/* The unit only declares a type that has a unit of its own. */
			if (!follow(d, ret, DW_AT_signature, &next))
				return true;
			*ret = next;
			return true;
		}
	}
	return false;
}

static bool is_pointer(int tag)
{
	return tag == DW_TAG_pointer_type || tag == DW_TAG_reference_type ||
	       tag == DW_TAG_rvalue_reference_type;
}

static bool is_structure(int tag)
{
	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

/* ---- Types ------------------------------------------------------------------------------ */

static bool is_char(const struct describer *d, Dwarf_Die *type)
{
	const char *name = name_of(d, type);

	return d->dw->tag(type) == DW_TAG_base_type && name && strcmp(name, "char") == 0;
}

/* Writes a line `words` for an enumeration, and the name that it gets to `ret`. */
static bool write_enumeration(struct describer *d, Dwarf_Die *type, char ret[PLACE_MAX])
{
	const char *name = name_of(d, type);
	uint64_t size = number_of(d, type, DW_AT_byte_size, 4);
	bool is_signed = false;
	AUTO(buffer_deinit) struct buffer list = {0};
	Dwarf_Die child;
	int count = 0;

	for (int more = d->dw->child(type, &child); more == 0 && count < ENUMERATORS_MAX;
		more = d->dw->siblingof(&child, &child)) {
		const char *word = name_of(d, &child);
		Dwarf_Attribute attr;
		Dwarf_Word value;
		Dwarf_Sword number;

		if (d->dw->tag(&child) != DW_TAG_enumerator || !word || strpbrk(word, " \t\n\r") ||
			!d->dw->attr(&child, DW_AT_const_value, &attr))
			continue;
		if (d->dw->whatform(&attr) == DW_FORM_sdata) {
			if (d->dw->formsdata(&attr, &number))
				continue;
			is_signed |= number < 0;
		} else if (d->dw->formudata(&attr, &value)) {
			continue;
		} else {
			number = (Dwarf_Sword)value;
		}
		buffer_print(&list, " %jd=%s", (intmax_t)number, word);
		count++;
	}
	d->is_signed = is_signed;
	snprintf(ret, PLACE_MAX, "%s%" PRIu64, is_signed ? "s" : "u", 8 * size);
	if (count) {
		char bits[8];

		snprintf(bits, sizeof(bits), "%.7s", ret);
		snprintf(ret, PLACE_MAX, "%.64s_%u", name ? name : "enum", ++d->word_count);
		for (char *c = ret; *c; c++)
			if (!isalnum((unsigned char)*c))
				*c = '_';
		buffer_print(&d->words, "words %s:%s", ret, bits);
		buffer_bytes(&d->words, list.data, list.length);
		buffer_char(&d->words, '\n');
	}
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* Writes a scalar's type as catalogue files name it. Returns false for others. */
static bool write_type(struct describer *d, Dwarf_Die *type, char ret[PLACE_MAX])
{
	uint64_t size = number_of(d, type, DW_AT_byte_size, 0), encoding;
	int tag = d->dw->tag(type);
	Dwarf_Die target;

	d->is_signed = false;
	if (is_pointer(tag)) {
		bool is_text = type_of(d, type, &target) && is_char(d, &target);

		strcpy(ret, is_text && tag == DW_TAG_pointer_type ? "string" : "pointer");
		return true;
	}
	if (tag == DW_TAG_enumeration_type)
		return write_enumeration(d, type, ret);
	encoding = number_of(d, type, DW_AT_encoding, 0);
	if (tag != DW_TAG_base_type || (size != 1 && size != 2 && size != 4 && size != 8))
		return false;
	if (encoding == DW_ATE_float) {
		strcpy(ret, size == 8 ? "double" : "float");
		return size >= 4;
	}
	if (encoding == DW_ATE_boolean && size == 1) {
		strcpy(ret, "bool");
		return true;
	}
	if (encoding != DW_ATE_signed && encoding != DW_ATE_signed_char &&
		encoding != DW_ATE_unsigned && encoding != DW_ATE_unsigned_char &&
		encoding != DW_ATE_boolean && encoding != DW_ATE_UTF)
		return false;
	d->is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
	snprintf(ret, PLACE_MAX, "%c%" PRIu64, d->is_signed ? 's' : 'u', 8 * size);
	return true;
}

/* ---- Members of structures -------------------------------------------------------------- */

/* Finds a member by its name, also in anonymous structures and base classes. Adds its offset. */
static bool find_member(const struct describer *d, Dwarf_Die *structure, const char *name,
	size_t length, int depth, uint64_t *offset, Dwarf_Die *ret)
{
	if (depth == DEPTH_MAX || !is_structure(d->dw->tag(structure)))
		return false;
	for (int more = d->dw->child(structure, ret); more == 0;
		more = d->dw->siblingof(ret, ret)) {
		const char *its = name_of(d, ret);
		bool is_base = d->dw->tag(ret) == DW_TAG_inheritance;
		uint64_t at = number_of(d, ret, DW_AT_data_member_location, UINT64_MAX);
		Dwarf_Attribute attr;
		Dwarf_Die type, found;

		if (!is_base && d->dw->tag(ret) != DW_TAG_member)
			continue;
		/* Members of unions need no offset. Old compilers wrote an expression for it. */
		if (at == UINT64_MAX && d->dw->attr(ret, DW_AT_data_member_location, &attr))
			continue;
		at = at == UINT64_MAX ? 0 : at;
		/* A virtual base class is where an expression says. */
		if (d->dw->attr(ret, DW_AT_virtuality, &attr) ||
			d->dw->attr(ret, DW_AT_bit_size, &attr) ||
			d->dw->attr(ret, DW_AT_external, &attr))
			continue;
		if (its && !is_base && strlen(its) == length && strncmp(its, name, length) == 0) {
			*offset += at;
			return true;
		}
		if ((!its || is_base) && type_of(d, ret, &type)) {
			uint64_t inner = *offset + at;

			if (find_member(d, &type, name, length, depth + 1, &inner, &found)) {
				*offset = inner;
				*ret = found;
				return true;
			}
		}
	}
	return false;
}

/* Writes what is meant by a path such as "order->customer.name", of argument `index`. */
static void write_member(struct describer *d, const char *path, Dwarf_Die *type, size_t index)
{
	size_t length = strcspn(path, "-.");
	char base[PLACE_MAX], next[2 * PLACE_MAX], place[2 * PLACE_MAX], text[PLACE_MAX];
	const char *at = path + length;
	uint64_t offset = 0;
	bool is_address = false; /* `base` + `offset` is the address of `current` */
	Dwarf_Die current = *type, member;

	snprintf(base, sizeof(base), "arg%zu", index);
	while (*at) {
		bool is_arrow = *at == '-';
		int tag = d->dw->tag(&current);

		at += is_arrow ? 2 : 1;
		length = strcspn(at, "-.");
		if (is_pointer(tag) && (is_arrow || tag != DW_TAG_pointer_type)) {
			if (is_address) {
				if (snprintf(next, sizeof(next), "*(u64*)(%s+%" PRIu64 ")", base,
					    offset) >= (int)sizeof(base))
					return;
				strcpy(base, next);
			}
			offset = 0;
			if (!type_of(d, &current, &member))
				return;
			current = member;
		} else if (is_arrow || !is_address) {
			return;
		}
		if (!find_member(d, &current, at, length, 0, &offset, &member) ||
			offset > INT32_MAX || !type_of(d, &member, &current))
			return;
		is_address = true;
		at += length;
	}
	if (d->dw->tag(&current) == DW_TAG_array_type && type_of(d, &current, &member) &&
		is_char(d, &member)) {
		snprintf(place, sizeof(place), "%s+%" PRIu64, base, offset);
		strcpy(text, "string");
	} else if (write_type(d, &current, text) && strcmp(text, "float") != 0 &&
		   strcmp(text, "double") != 0) {
		snprintf(place, sizeof(place), "*(%c%" PRIu64 "*)(%s+%" PRIu64 ")",
			d->is_signed ? 's' : 'u', 8 * number_of(d, &current, DW_AT_byte_size, 8),
			base, offset);
	} else {
		return;
	}
	buffer_print(&d->probes, " %s:%s@%s", path, text, place);
}

static void write_members(struct describer *d, const char *name, Dwarf_Die *type, size_t index)
{
	const char *end = d->request->members + d->request->members_length;

	for (const char *path = d->request->members; path < end; path += strlen(path) + 1) {
		size_t length = strcspn(path, "-.");

		if (strlen(name) == length && strncmp(path, name, length) == 0)
			write_member(d, path, type, index);
	}
}

/* ---- Functions -------------------------------------------------------------------------- */

static bool is_c(const struct describer *d)
{
	return d->language == DW_LANG_C89 || d->language == DW_LANG_C ||
	       d->language == DW_LANG_C99 || d->language == DW_LANG_C11 || d->language == 0x2c;
}

/* Returns why a function's arguments are not where its types say, or NULL. */
static const char *why_unknown(
	const struct describer *d, Dwarf_Die *die, const struct types_function *function)
{
	const char *name = name_of(d, die);

	if (strcspn(function->symbol, ".") < strcspn(function->symbol, "@"))
		return "the compiler has made this clone, which may have other arguments";
	if (number_of(d, die, DW_AT_calling_convention, DW_CC_normal) != DW_CC_normal)
		return "the compiler has changed how this function is called";
	switch (d->language) {
	case DW_LANG_Go:
		return "Go has a calling convention of its own";
	case DW_LANG_Rust:
		return name && strcmp(name, function->symbol) == 0
			       ? NULL
			       : "Rust has no fixed calling convention but for extern \"C\"";
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DW_LANG_ObjC:
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case DW_LANG_ObjC_plus_plus:
	case 0x2b: /* C++17 */
	case 0x2c: /* C17 */
	case 0x2d: /* C++20, as DWARF 6 numbers them */
		return NULL;
	default:
		return "the calling convention of its language is not known";
	}
}

/* Is a member where its alignment forbids it? Such a structure is returned in memory. */
static bool is_packed(const struct describer *d, Dwarf_Die *structure)
{
	Dwarf_Die member, type;

	for (int more = d->dw->child(structure, &member); more == 0;
		more = d->dw->siblingof(&member, &member)) {
		uint64_t at = number_of(d, &member, DW_AT_data_member_location, 0), size;

		if (d->dw->tag(&member) != DW_TAG_member || !type_of(d, &member, &type))
			continue;
		size = number_of(d, &type, DW_AT_byte_size, 8);
		if (is_structure(d->dw->tag(&type)) ? is_packed(d, &type) : size && at % size != 0)
			return true;
	}
	return false;
}

/*
 * Does the caller pass the address of what is returned, as the first argument? Returns false with
 * *unknown_ret if this cannot be told.
 */
static bool has_result_address(const struct describer *d, Dwarf_Die *type, bool *unknown_ret)
{
	uint64_t convention = number_of(d, type, DW_AT_calling_convention, 0);

	if (!is_structure(d->dw->tag(type)) || !d->request->result_is_argument)
		return false;
	if (number_of(d, type, DW_AT_byte_size, 0) > IN_REGISTERS)
		return true;
	*unknown_ret = is_c(d) ? is_packed(d, type) : !convention;
	return convention == DW_CC_pass_by_reference;
}

static void write_name(struct describer *d, const char *name)
{
	/* Names of templates have blanks; `*` is a wildcard. */
	for (; *name; name++)
		buffer_char(&d->probes, isspace((unsigned char)*name) ? '*' : *name);
}

/*
 * May the next argument of the last line have this name? Arguments that were a pack share a name,
 * and names may have letters that no expression has.
 */
static bool is_usable(const struct describer *d, const char *name)
{
	const char *text = d->probes.data, *end = text + d->probes.length;
	const char *line = memrchr(text, '\n', d->probes.length);
	char word[PLACE_MAX + 2];

	snprintf(word, sizeof(word), " %s:", name);
	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '_')
			return false;
	text = line ? line : text;
	return *name && !isdigit((unsigned char)*name) &&
	       !memmem(text, (size_t)(end - text), word, strlen(word));
}

/* Writes the arguments. Returns why the last ones are left out, or NULL. */
static const char *write_args(struct describer *d, Dwarf_Die *function, size_t integers)
{
	size_t floats = 0, unnamed = 0;
	const char *why = NULL;
	bool is_open = false;
	Dwarf_Attribute attr;
	Dwarf_Die arg, type;

	for (int more = d->dw->child(function, &arg); more == 0;
		more = d->dw->siblingof(&arg, &arg)) {
		const char *its = name_of(d, &arg);
		char text[PLACE_MAX], name[PLACE_MAX];
		bool is_float;

		is_open |= d->dw->tag(&arg) == DW_TAG_unspecified_parameters;
		if (d->dw->tag(&arg) == DW_TAG_GNU_formal_parameter_pack) {
			why = "further arguments are not known";
			break;
		}
		if (d->dw->tag(&arg) != DW_TAG_formal_parameter)
			continue;
		snprintf(name, sizeof(name), "%.100s", its ? its : "");
		if (d->request->is_reserved(name, strlen(name)))
			strcat(name, "_");
		while (!d->probes.no_memory && !is_usable(d, name))
			snprintf(name, sizeof(name), "unnamed%zu", ++unnamed);
		why = "the debug information of their types is not there";
		if (!type_of(d, &arg, &type))
			break;
		why = "from a structure on that is passed by value, arguments are not known";
		if (!write_type(d, &type, text))
			break;
		why = "further arguments are not known";
		is_float = strcmp(text, "float") == 0 || strcmp(text, "double") == 0;
		/* Without a prototype, a float is passed as a double. */
		if (is_c(d) && strcmp(text, "float") == 0 &&
			!d->dw->integrate(function, DW_AT_prototyped, &attr))
			break;
		if (is_float ? floats == FLOATS_MAX : integers == INTEGERS_MAX)
			break;
		why = NULL;
		buffer_print(&d->probes, " %s:%s", name, text);
		if (is_float)
			floats++;
		else
			write_members(d, name, &type, integers++);
	}
	buffer_string(&d->probes, is_open || why ? " ..." : "");
	return why;
}

static void write_function(
	struct describer *d, Dwarf_Die *die, const struct types_function *function)
{
	const char *why = why_unknown(d, die, function);
	char returned[PLACE_MAX] = "void";
	bool is_unknown = false, is_known = true, has_address = false, is_described;
	const struct copies *copies;
	Dwarf_Die origin, type;

	/* An assembler says that it does not know. */
	if (type_of(d, die, &type) && d->dw->tag(&type) != DW_TAG_unspecified_type) {
		is_known = write_type(d, &type, returned);
		has_address = has_result_address(d, &type, &is_unknown);
		/* The address of a result is returned, too. */
		if (!is_known)
			strcpy(returned, has_address && !why ? "pointer" : "void");
		is_known |= has_address;
	}
	if (!why && is_unknown)
		why = "the structure that it returns may be passed in two ways";
	is_described = !why;
	buffer_string(&d->probes, "probe ");
	write_name(d, function->name);
	if (why) {
		buffer_string(&d->probes, " ...");
	} else {
		if (has_address)
			buffer_string(&d->probes, " result_address:pointer");
		/* A copy of an inlined function may lack arguments that it does not use. */
		if (!follow(d, die, DW_AT_abstract_origin, &origin))
			origin = *die;
		why = write_args(d, &origin, has_address);
	}
	if (is_described || !is_known)
		buffer_print(&d->probes, " -> %s", returned);
	buffer_char(&d->probes, '\n');
	if (why)
		buffer_print(&d->probes, "means Without its arguments: %s.\n", why);
	else if (!is_known)
		buffer_string(&d->probes,
			"means Without its result: no single register has it as a number.\n");
	copies = map_find(&d->copies, MAP_KEY(map_text(function->symbol)));
	if (copies && copies->count)
		buffer_print(&d->probes, "inlined %ju inlined %s not traced\n",
			(uintmax_t)copies->count, copies->count == 1 ? "copy is" : "copies are");
}

static struct types_function *function_at(const struct types_request *request, uint64_t address)
{
	size_t i = ARRAY_SEARCH(request->functions, request->count, address, address);

	return i < request->count && request->functions[i].address == address
		       ? &request->functions[i]
		       : NULL;
}

/* Is there another function of this name, as of two files' static functions? */
static bool is_ambiguous(const struct types_request *request, const struct types_function *function)
{
	for (size_t i = 0; i < request->count; i++)
		if (&request->functions[i] != function &&
			request->functions[i].address != function->address &&
			strcmp(request->functions[i].name, function->name) == 0)
			return true;
	return false;
}

/* Describes the functions among a DIE's children. */
static void walk(struct describer *d, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;

	for (int more = d->dw->child(parent, &die);
		more == 0 && d->probes.length + d->words.length < TEXT_MAX;
		more = d->dw->siblingof(&die, &die)) {
		int tag = d->dw->tag(&die);
		Dwarf_Addr base, start, end;
		ptrdiff_t at = 0;

		if (tag == DW_TAG_namespace || tag == DW_TAG_module || is_structure(tag)) {
			if (depth < DEPTH_MAX)
				walk(d, &die, depth + 1);
			continue;
		}
		/* The compiler may have split off a part, which has a range of its own. */
		while (tag == DW_TAG_subprogram &&
			(at = d->dw->ranges(&die, at, &base, &start, &end)) > 0) {
			const struct types_function *function = function_at(d->request, start);

			if (function && !is_ambiguous(d->request, function))
				write_function(d, &die, function);
		}
	}
}

static void count_copy(struct describer *d, Dwarf_Die *die)
{
	const char *symbol = symbol_of(d, die);
	AUTO_FREE char *plain =
		symbol && d->request->plain_name ? d->request->plain_name(symbol) : NULL;
	struct copies *copies =
		symbol ? map_find(&d->copies, MAP_KEY(map_text(plain ? plain : symbol))) : NULL;
	Dwarf_Addr base, start, end;

	if (copies && !copies->count++ && d->dw->ranges(die, 0, &base, &start, &end) > 0)
		copies->first = (struct object_range){start, end};
}

/* Counts the inlined copies of the functions among a DIE's children. */
static void count_copies(struct describer *d, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;

	for (int more = d->dw->child(parent, &die); more == 0;
		more = d->dw->siblingof(&die, &die)) {
		int tag = d->dw->tag(&die);

		if (tag == DW_TAG_inlined_subroutine)
			count_copy(d, &die);
		if (depth < NESTING_MAX &&
			(tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine ||
				tag == DW_TAG_lexical_block || tag == DW_TAG_namespace ||
				tag == DW_TAG_module || is_structure(tag)))
			count_copies(d, &die, depth + 1);
	}
}

/* Has the unit code of one of the functions? */
static bool has_function(const struct describer *d, Dwarf_Die *unit)
{
	const struct types_request *request = d->request;
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while ((at = d->dw->ranges(unit, at, &base, &start, &end)) > 0) {
		size_t i = ARRAY_SEARCH(request->functions, request->count, address, start);

		if (i < request->count && request->functions[i].address < end)
			return true;
	}
	return false;
}

static void write_all(int to, const char *text, size_t length)
{
	if (!file_write(to, text, length))
		_exit(EXIT_FAILURE);
}

/* Calls a function for each unit. With -gsplit-dwarf, most of a unit is in another file. */
static void visit_units(struct describer *d, Dwarf *dwarf, void (*visit)(struct describer *d))
{
	Dwarf_Off offset = 0, next;
	size_t header;

	for (; dwarf && d->dw->nextcu(dwarf, offset, &next, &header, NULL, NULL, NULL) == 0 &&
		next > offset;
		offset = next) {
		Dwarf_Die split;
		uint8_t kind;

		if (!d->dw->offdie(dwarf, offset + header, &d->unit))
			continue;
		d->has_function = has_function(d, &d->unit);
		if (d->dw->cu_info(d->unit.cu, NULL, &kind, NULL, &split, NULL, NULL, NULL) == 0 &&
			kind == DW_UT_skeleton && d->dw->tag(&split) != DW_TAG_invalid)
			d->unit = split;
		visit(d);
	}
}

static void count_in_unit(struct describer *d)
{
	count_copies(d, &d->unit, 0);
}

static void describe_unit(struct describer *d)
{
	if (!d->has_function)
		return;
	d->language = number_of(d, &d->unit, DW_AT_language, 0);
	walk(d, &d->unit, 0);
}

static _Noreturn void serve(const struct libdw *libdw, struct object *object,
	const struct types_request *request, int to)
{
	struct describer d = {.dw = libdw, .request = request};
	struct object *with = object_of_debug(object, "info");
	GElf_Shdr section;
	Dwarf *dwarf;

	unsetenv("DEBUGINFOD_URLS");
	for (size_t i = 0; i < request->count; i++)
		if (!map_add(&d.copies, sizeof(struct copies),
			    MAP_KEY(map_text(request->functions[i].symbol))))
			_exit(EXIT_FAILURE);
	dwarf = libdw->begin(with->fd, DWARF_C_READ);
	/* libdw takes references to a file by `dwz --dwarf-5` for others. It knows
	 * .gnu_debugaltlink. */
	if (object_section(with, ".debug_sup", &section))
		_exit(EXIT_SUCCESS);
	visit_units(&d, dwarf, count_in_unit);
	if (request->plain_name) {
		const struct copies *copies =
			map_find(&d.copies, MAP_KEY(map_text(request->functions->symbol)));

		buffer_print(
			&d.words, "%" PRIu64 " %" PRIu64, copies->first.start, copies->first.end);
		write_all(to, d.words.data, d.words.length);
		_exit(EXIT_SUCCESS);
	}
	visit_units(&d, dwarf, describe_unit);
	if (d.words.no_memory || d.probes.no_memory)
		_exit(EXIT_FAILURE);
	if (d.probes.length) {
		write_all(to, "provider ", 9);
		write_all(to, request->provider, strlen(request->provider));
		write_all(to, "\n", 1);
		write_all(to, d.words.data, d.words.length);
		write_all(to, d.probes.data, d.probes.length);
	}
	_exit(EXIT_SUCCESS);
}

/* ==== In the parent =========================================================================== */

/* Receives the child's text. Returns NULL if it ends in failure, or if there is none. */
static char *receive(int from, pid_t child)
{
	struct patience patience = patience_of(ANSWER_NS);
	AUTO(buffer_deinit) struct buffer text = {0};
	int status = 0;
	bool is_whole = false;

	while (!is_whole && text.length <= 2 * TEXT_MAX && !patience_is_over(&patience)) {
		struct pollfd channel = {.fd = from, .events = POLLIN};
		char part[16384];
		ssize_t got = poll(&channel, 1, LOOK_MS) > 0 ? read(from, part, sizeof(part)) : -1;

		if (got > 0)
			buffer_bytes(&text, part, (size_t)got);
		is_whole = got == 0;
	}
	is_whole = worker_end_child(child, is_whole ? ANSWER_NS : 0, &status) && is_whole &&
		   status == 0 && text.length && memchr(text.data, '\0', text.length) == NULL;
	if (is_whole)
		return buffer_take(&text, NULL);
	return NULL;
}

struct probe_error *types_describe(
	struct object *object, const struct types_request *request, char **ret)
{
	static const char *const names[] = {FUNCTIONS(LIBRARY_NAME) NULL};
	struct libdw libdw;
	struct probe_error *error = library_load(&LIBDW("types of arguments need"), names, &libdw);
	pid_t child;
	AUTO_FD int channel = -1;

	*ret = NULL;
	/* Types are optional: without libdw, arguments have no names. */
	if (error) {
		bool is_absent = error->code == PROBE_ERROR_UNSUPPORTED;

		if (is_absent)
			probe_error_free(error);
		return is_absent ? NULL : error;
	}
	child = libdw_fork(SOCK_STREAM, &channel);
	if (child == 0)
		serve(&libdw, object, request, channel);
	if (child < 0)
		return probe_error_system(errno, "%s: cannot read types", object->path);
	*ret = receive(channel, child);
	return NULL;
}

struct probe_error *types_inlined(struct object *object, const char *name,
	char *(*plain_name)(const char *symbol), struct object_range *ret)
{
	AUTO_FREE char *symbol = strdup(name), *text = NULL;
	char *end;
	struct types_function function = {.symbol = symbol, .name = symbol};
	const struct types_request request = {
		.functions = &function, .count = 1, .plain_name = plain_name};
	struct probe_error *error =
		symbol ? types_describe(object, &request, &text) : probe_error_no_memory();

	*ret = (struct object_range){0};
	if (!error && text) {
		ret->start = strtoull(text, &end, 10);
		ret->end = strtoull(end, NULL, 10);
	}
	return error;
}
