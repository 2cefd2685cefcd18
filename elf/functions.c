/* SPDX-License-Identifier: MIT */
/*
 * Finds the bounds of functions in the unwinder's tables.
 *
 * Stripped files have no symbols, but they can be unwound: .eh_frame describes every function part
 * that exceptions may pass through. The segment PT_GNU_EH_FRAME (.eh_frame_hdr) is a table of these
 * descriptions, sorted by address:
 *
 *	.eh_frame_hdr                       .eh_frame
 *	version 1, three encodings          CIE: augmentation "zPLR" says how
 *	address of .eh_frame                     the pointers below are written
 *	count                                FDE: distance to its CIE
 *	start of function | its FDE  ----->       start, length
 *	...                                       augmentation: LSDA pointer
 *
 * Source: Linux Standard Base Core 5.0, "Exception Frames"; DWARF 5, section 6.4; libgcc,
 * unwind-dw2-fde-dip.c. (CIE: common information entry; FDE: frame description entry; LSDA:
 * language-specific data area.)
 *
 * The first look-up reads the whole table (8 bytes per function); FDEs are read one at a time. An
 * FDE is used only if it covers the requested address.
 *
 * A static program has no such table: crtbegin.o hands .eh_frame itself to the unwinder, and the
 * unwinder sorts the FDEs when it first needs them. This file also sorts the FDEs, if the program
 * has section headers.
 */
#include <elf.h>
#include <string.h>

#include "elf/internal.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"

/*
 * Encoded pointers of exception frames (DW_EH_PE_*), in a byte: the format in the low four bits,
 * what to add in the next three; the top bit says that the sum is where the pointer is. Source:
 * Linux Standard Base Core 5.0, "DWARF Exception Header Encoding"; libgcc, unwind-pe.h.
 */

enum {
	EH_ABSPTR = 0x00, /* formats */
	EH_ULEB128 = 0x01,
	EH_UDATA2 = 0x02,
	EH_UDATA4 = 0x03,
	EH_UDATA8 = 0x04,
	EH_SIGNED = 0x08,
	EH_SLEB128 = 0x09,
	EH_SDATA2 = 0x0a,
	EH_SDATA4 = 0x0b,
	EH_SDATA8 = 0x0c,
	EH_FORMAT = 0x0f,
	EH_PCREL = 0x10, /* the base to add to the value */
	EH_TEXTREL = 0x20,
	EH_DATAREL = 0x30,
	EH_FUNCREL = 0x40,
	EH_ALIGNED = 0x50,
	EH_BASE = 0x70,
	EH_INDIRECT = 0x80,
	EH_OMIT = 0xff
};

/* The addresses to which relative pointers are added. */
struct eh_bases {
	bool has_data, has_function;
	uint64_t data, function;
};

/* ==== Bytes =================================================================================== */

static uint8_t bytes_u8(struct bytes *bytes)
{
	return (uint8_t)bytes_unsigned(bytes, 1);
}

static int64_t bytes_signed(struct bytes *bytes, size_t width)
{
	uint64_t value = bytes_unsigned(bytes, width);
	uint64_t sign = 1ull << (width * 8 - 1);

	return (int64_t)((value ^ sign) - sign);
}

/* Reads LEB128. *bits_ret becomes the number of bits, *last_ret the last byte. */
static uint64_t bytes_leb(struct bytes *bytes, unsigned int *bits_ret, uint8_t *last_ret)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = bytes_u8(bytes);
		if (shift > 63)
			bytes->failed = true;
		else
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && !bytes->failed);
	*bits_ret = shift;
	*last_ret = byte;
	return bytes->failed ? 0 : value;
}

/* Reads LEB128 (DWARF 5, section 7.6), of at most 64 bits. */
static uint64_t bytes_uleb(struct bytes *bytes)
{
	unsigned int bits;
	uint8_t last;

	return bytes_leb(bytes, &bits, &last);
}

static int64_t bytes_sleb(struct bytes *bytes)
{
	unsigned int bits;
	uint8_t last;
	uint64_t value = bytes_leb(bytes, &bits, &last);

	if (!bytes->failed && last & 0x40 && bits < 64)
		value |= ~0ull << bits;
	return (int64_t)value;
}

/* ==== Pointers ================================================================================ */

/* Returns a format's size in bytes; 0 if it varies (LEB128) or is unknown. */
static size_t eh_pointer_size(uint8_t encoding, bool wide)
{
	switch (encoding & EH_FORMAT) {
	case EH_ABSPTR:
	case EH_SIGNED:
		return wide ? 8 : 4;
	case EH_UDATA2:
	case EH_SDATA2:
		return 2;
	case EH_UDATA4:
	case EH_SDATA4:
		return 4;
	case EH_UDATA8:
	case EH_SDATA8:
		return 8;
	default:
		return 0;
	}
}

static uint64_t read_format(struct bytes *bytes, uint8_t encoding)
{
	size_t size = eh_pointer_size(encoding, bytes->wide);

	switch (encoding & EH_FORMAT) {
	case EH_ULEB128:
		return bytes_uleb(bytes);
	case EH_SLEB128:
		return (uint64_t)bytes_sleb(bytes);
	default:
		break;
	}
	if (!size) {
		bytes->failed = true;
		return 0;
	}
	if (encoding & EH_SIGNED)
		return (uint64_t)bytes_signed(bytes, size);
	return bytes_unsigned(bytes, size);
}

static uint64_t base_of(struct bytes *bytes, uint8_t encoding, const struct eh_bases *bases)
{
	switch (encoding & EH_BASE) {
	case EH_ABSPTR:
	case EH_ALIGNED:
		return 0;
	case EH_PCREL:
		return bytes_here(bytes);
	case EH_DATAREL:
		if (bases->has_data)
			return bases->data;
		break;
	case EH_FUNCREL:
		if (bases->has_function)
			return bases->function;
		break;
	default:
		break;
	}
	/* Linux systems have no pointers relative to the text segment. */
	bytes->failed = true;
	return 0;
}

/*
 * Reads a pointer; fails if the encoding or the base is unknown. *raw_ret (may be NULL) is the
 * value without the base; 0 means "none". The caller handles EH_INDIRECT and EH_OMIT.
 */
static uint64_t eh_pointer(
	struct bytes *bytes, uint8_t encoding, const struct eh_bases *bases, uint64_t *raw_ret)
{
	uint64_t width = bytes->wide ? 8 : 4;
	uint64_t base, raw, value;

	if ((encoding & EH_BASE) == EH_ALIGNED) {
		bytes_skip(bytes, -bytes_here(bytes) & (width - 1));
		encoding = EH_ABSPTR;
	}
	base = base_of(bytes, encoding, bases);
	raw = read_format(bytes, encoding);
	value = base + raw;
	if (raw_ret)
		*raw_ret = raw;
	return bytes->wide ? value : value & 0xffffffff;
}

/* ==== Functions =============================================================================== */

struct cie {
	uint64_t address;
	bool valid;
	/* the augmentation begins with 'z', so FDEs have augmentation data */
	bool has_augmentation;
	/* How pointers to functions and LSDAs are encoded; EH_OMIT if FDEs have no LSDA. */
	uint8_t pointer, lsda;
};

/* A function's start and its FDE's address, as in a search table. */
struct known_fde {
	uint64_t start, fde;
};

struct cfi {
	struct known_fde *sorted; /* built only if the file has no table */
	uint8_t *table;		  /* NULL if the file has no searchable table */
	size_t count;		  /* number of entries in `sorted` or `table` */
	size_t entry_size;
	uint8_t encoding;
	uint64_t address; /* address of the table */
	struct eh_bases bases;
	struct cie cie; /* the CIE that was read last, kept because a file has few */
};

enum {
	/* maximum size of the fields before the table in .eh_frame_hdr */
	HEADER_BYTES_MAX = 4 + 2 * 8,
	/*
	 * Number of bytes read of a CIE or FDE. This covers the augmentation and pointers; call
	 * frame instructions are not needed.
	 */
	ENTRY_BYTES_MAX = 256
};

static void cfi_load(struct object *object, struct cfi *cfi)
{
	uint8_t data[HEADER_BYTES_MAX], frame, count_encoding;
	struct bytes bytes;
	uint64_t count, size;

	size = object->eh_frame_hdr_size < sizeof(data) ? object->eh_frame_hdr_size : sizeof(data);
	bytes = object_bytes(object, data,
		object_read(object, object->eh_frame_hdr, data, (size_t)size),
		object->eh_frame_hdr);
	cfi->bases = (struct eh_bases){.has_data = true, .data = object->eh_frame_hdr};
	if (bytes_u8(&bytes) != 1)
		return;
	frame = bytes_u8(&bytes);
	count_encoding = bytes_u8(&bytes);
	cfi->encoding = bytes_u8(&bytes);
	if (bytes.failed || frame == EH_OMIT || count_encoding == EH_OMIT ||
		cfi->encoding == EH_OMIT || (count_encoding | cfi->encoding) & EH_INDIRECT)
		return;
	eh_pointer(&bytes, frame, &cfi->bases, NULL);
	count = eh_pointer(&bytes, count_encoding, &cfi->bases, NULL);
	cfi->entry_size = 2 * eh_pointer_size(cfi->encoding, object->wide);
	/* Entries of varying size cannot be searched, but no linker writes them. */
	if (bytes.failed || !cfi->entry_size)
		return;
	size = object->eh_frame_hdr_size - bytes.at;
	if (count > size / cfi->entry_size || size > object->file_size)
		return;
	size = count * cfi->entry_size;
	cfi->table = malloc((size_t)size + 1);
	if (!cfi->table)
		return;
	cfi->address = bytes_here(&bytes);
	size = object_read(object, cfi->address, cfi->table, (size_t)size);
	cfi->count = (size_t)size / cfi->entry_size;
}

static void cfi_free(struct cfi *cfi)
{
	free(cfi->sorted);
	free(cfi->table);
	free(cfi);
}

/* Returns the function's start in entry `index`, and the FDE's address. */
static uint64_t cfi_entry(
	const struct object *object, const struct cfi *cfi, size_t index, uint64_t *fde_ret)
{
	size_t at = index * cfi->entry_size;
	struct bytes bytes;
	uint64_t start;

	if (cfi->sorted) {
		*fde_ret = cfi->sorted[index].fde;
		return cfi->sorted[index].start;
	}
	bytes = object_bytes(object, cfi->table + at, cfi->entry_size, cfi->address + at);
	start = eh_pointer(&bytes, cfi->encoding, &cfi->bases, NULL);

	*fde_ret = eh_pointer(&bytes, cfi->encoding, &cfi->bases, NULL);
	return start;
}

struct wanted {
	const struct object *object;
	const struct cfi *cfi;
	uint64_t address;
};

static bool starts_at_or_below(const void *data, size_t index)
{
	const struct wanted *wanted = data;
	uint64_t fde;

	return cfi_entry(wanted->object, wanted->cfi, index, &fde) <= wanted->address;
}

/* Finds the FDE of the last entry at or below the address. */
static bool cfi_search(
	const struct object *object, const struct cfi *cfi, uint64_t address, uint64_t *fde_ret)
{
	const struct wanted wanted = {object, cfi, address};
	size_t above = array_partition(cfi->count, starts_at_or_below, &wanted);

	if (above)
		cfi_entry(object, cfi, above - 1, fde_ret);
	return above > 0;
}

/*
 * Reads the start of a CIE or FDE. Returns a cursor behind its length; the cursor has failed if no
 * entry is there.
 */
static struct bytes read_entry(
	const struct object *object, uint64_t address, uint8_t buffer[ENTRY_BYTES_MAX])
{
	size_t got = object_read(object, address, buffer, ENTRY_BYTES_MAX);
	struct bytes bytes = object_bytes(object, buffer, got, address);
	uint64_t length = bytes_unsigned(&bytes, 4);

	if (length == 0xffffffff)
		length = bytes_unsigned(&bytes, 8);
	if (!length) /* the terminator of .eh_frame */
		bytes.failed = true;
	if (length < bytes_left(&bytes))
		bytes.size = bytes.at + (size_t)length;
	return bytes;
}

/* Reads, from a CIE's augmentation data, the fields that its FDEs depend on. */
static bool read_augmentation(struct bytes *bytes, const char *augmentation, struct cie *ret)
{
	/* The personality's pointer is only skipped, so its base does not matter. */
	const struct eh_bases bases = {.has_data = true, .has_function = true};

	if (*augmentation != 'z')
		return !*augmentation;
	ret->has_augmentation = true;
	bytes_uleb(bytes);
	for (const char *c = augmentation + 1; *c; c++) {
		switch (*c) {
		case 'L':
			ret->lsda = bytes_u8(bytes);
			break;
		case 'P': {
			uint8_t encoding = bytes_u8(bytes);

			if (encoding != EH_OMIT)
				eh_pointer(bytes, encoding, &bases, NULL);
			break;
		}
		case 'R':
			ret->pointer = bytes_u8(bytes);
			break;
		case 'S': /* signal frame */
		case 'B': /* AArch64: return addresses signed with key B */
		case 'G': /* AArch64: memory tagging */
			break;
		default: /* an unknown letter, whose data has an unknown length */
			return false;
		}
	}
	return !bytes->failed;
}

static bool read_cie(const struct object *object, uint64_t address, struct cie *ret)
{
	uint8_t buffer[ENTRY_BYTES_MAX], version;
	struct bytes bytes = read_entry(object, address, buffer);
	const char *augmentation;

	*ret = (struct cie){.address = address, .pointer = EH_ABSPTR, .lsda = EH_OMIT};
	/* The word is 0 in a CIE; in an FDE it is the distance to its CIE. */
	if (bytes_unsigned(&bytes, 4))
		return false;
	version = bytes_u8(&bytes);
	augmentation = bytes_string(&bytes);
	if (bytes.failed || (version != 1 && version != 3 && version != 4))
		return false;
	if (!strcmp(augmentation, "eh")) { /* gcc 2: an extra pointer */
		bytes_address(&bytes);
		augmentation = "";
	}
	if (version == 4)
		bytes_skip(&bytes, 2); /* sizes of addresses and segment selectors */
	bytes_uleb(&bytes);	       /* code alignment */
	bytes_sleb(&bytes);	       /* data alignment */
	if (version == 1)
		bytes_u8(&bytes); /* return address column */
	else
		bytes_uleb(&bytes);
	ret->valid = !bytes.failed && read_augmentation(&bytes, augmentation, ret);
	return ret->valid;
}

static uint64_t read_lsda(const struct object *object, struct bytes *bytes, uint8_t encoding,
	const struct object_range *function)
{
	const struct eh_bases bases = {.has_function = true, .function = function->start};
	uint64_t raw, value;

	if (encoding == EH_OMIT)
		return 0;
	value = eh_pointer(bytes, encoding, &bases, &raw);
	if (bytes->failed)
		return OBJECT_LSDA_UNKNOWN;
	if (!raw) {
		/* Zero means "none", but a shared object's relocation may add to it. */
		if (object->type == ET_DYN && !(encoding & EH_BASE))
			return OBJECT_LSDA_UNKNOWN;
		return 0;
	}
	/* An indirect pointer's target is known only at run time. */
	return encoding & EH_INDIRECT ? OBJECT_LSDA_UNKNOWN : value;
}

static bool read_fde(struct object *object, uint64_t address, struct object_function *ret)
{
	struct cfi *cfi = object->cfi;
	uint8_t buffer[ENTRY_BYTES_MAX];
	struct bytes bytes = read_entry(object, address, buffer);
	uint64_t here = bytes_here(&bytes), distance = bytes_unsigned(&bytes, 4), length;
	struct object_range *range = &ret->range;

	if (bytes.failed || !distance) /* an entry whose distance to its CIE is 0 is itself a CIE */
		return false;
	if (cfi->cie.address != here - distance || !cfi->cie.valid) {
		if (!read_cie(object, here - distance, &cfi->cie))
			return false;
	}
	if (cfi->cie.pointer & EH_INDIRECT)
		return false;
	range->start = eh_pointer(&bytes, cfi->cie.pointer, &(struct eh_bases){0}, NULL);
	length = eh_pointer(&bytes, cfi->cie.pointer & EH_FORMAT, &(struct eh_bases){0}, NULL);
	if (bytes.failed || __builtin_add_overflow(range->start, length, &range->end))
		return false;
	ret->from_cfi = true;
	ret->lsda = 0;
	if (cfi->cie.has_augmentation) {
		bytes_uleb(&bytes);
		ret->lsda = read_lsda(object, &bytes, cfi->cie.lsda, range);
	}
	return true;
}

/* ---- Files without a search table ----------------------------------------------- */

/*
 * Adds the FDEs of .eh_frame. Returns false if an FDE is unreadable, because it could be any
 * function's.
 */
static bool add_fdes(struct object *object, struct cfi *cfi, struct bytes *frames)
{
	while (bytes_left(frames) >= 4) {
		uint64_t address = bytes_here(frames), length = bytes_unsigned(frames, 4);
		struct object_function function;
		size_t start;

		if (length == 0xffffffff)
			length = bytes_unsigned(frames, 8);
		if (!length) /* the terminator */
			break;
		start = frames->at;
		if (bytes_unsigned(frames, 4) != 0) { /* not a CIE */
			if (!read_fde(object, address, &function))
				return false;
			if (!ARRAY_ROOM(cfi->sorted, cfi->count))
				return false;
			/* Functions that the linker dropped start at 0. */
			if (function.range.start)
				cfi->sorted[cfi->count++] =
					(struct known_fde){function.range.start, address};
		}
		frames->at = start;
		bytes_skip(frames, length);
	}
	return !frames->failed && cfi->sorted;
}

static void cfi_sort(struct object *object, struct cfi *cfi)
{
	AUTO_FREE uint8_t *data = NULL;
	struct bytes frames;
	GElf_Shdr section;

	if (object->type == ET_REL || object->machine == EM_ARM || object->eh_frame_hdr_size ||
		!object_section(object, ".eh_frame", &section) ||
		section.sh_size > object->file_size)
		return;
	data = malloc((size_t)section.sh_size + 1);
	if (!data || object_read(object, section.sh_addr, data, (size_t)section.sh_size) !=
			     section.sh_size)
		return;
	frames = object_bytes(object, data, (size_t)section.sh_size, section.sh_addr);
	if (add_fdes(object, cfi, &frames)) {
		ARRAY_SORT(cfi->sorted, cfi->count, start);
		return;
	}
	free(cfi->sorted);
	cfi->sorted = NULL;
	cfi->count = 0;
}

static struct cfi *cfi_of(struct object *object)
{
	if (object->cfi)
		return object->cfi;
	object->cfi = calloc(1, sizeof(*object->cfi));
	object->cfi_free = cfi_free;
	if (object->cfi && object->eh_frame_hdr_size)
		cfi_load(object, object->cfi);
	else if (object->cfi)
		cfi_sort(object, object->cfi);
	return object->cfi;
}

/*
 * Returns the LSDA of a function without FDE: 0, or OBJECT_LSDA_UNKNOWN. If the file has a search
 * table, the unwinder stops at the function, so no exception lands in it. Without a table, the
 * unwinder may know the function from an .eh_frame that crtbegin.o registers but that we cannot
 * find without section headers, or from .ARM.exidx.
 */
static uint64_t lsda_without_fde(struct object *object)
{
	GElf_Shdr section;

	if (object->cfi && (object->cfi->table || object->cfi->sorted))
		return 0;
	if (object->machine == EM_ARM || !object->section_table ||
		object_section(object, ".eh_frame", &section))
		return OBJECT_LSDA_UNKNOWN;
	return 0;
}

bool object_function_at(struct object *object, uint64_t address, struct object_function *ret)
{
	struct cfi *cfi = cfi_of(object);
	bool has_fde = false;
	uint64_t fde;

	if (cfi && cfi->count && cfi_search(object, cfi, address, &fde)) {
		struct object_function found;

		if (!read_fde(object, fde, &found)) {
			/* The function has an FDE, but an unreadable one. */
			found.lsda = OBJECT_LSDA_UNKNOWN;
		} else if (address >= found.range.start && address < found.range.end) {
			*ret = found;
			return true;
		} else {
			found.lsda = 0;
		}
		ret->lsda = found.lsda;
		has_fde = true;
	}
	ret->from_cfi = false;
	if (!symbols_function_at(object, address, &ret->range))
		return false;
	if (!has_fde)
		ret->lsda = lsda_without_fde(object);
	return true;
}

bool object_next_function(struct object *object, uint64_t address, struct object_function *ret)
{
	struct cfi *cfi = cfi_of(object);
	const struct wanted wanted = {object, cfi, address - 1};
	size_t next = cfi && address ? array_partition(cfi->count, starts_at_or_below, &wanted) : 0;
	uint64_t fde, start, last = address;

	/* In a table that is not sorted, a walk could see each entry many times. */
	for (; cfi && next < cfi->count; next++, last = start) {
		start = cfi_entry(object, cfi, next, &fde);
		if (start < last)
			return false;
		if (read_fde(object, fde, ret) && ret->range.start == start)
			return true;
	}
	return false;
}

bool object_function_starts(struct object *object, struct object_range range)
{
	struct cfi *cfi = cfi_of(object);
	const struct wanted wanted = {object, cfi, range.end - 1};
	size_t above = cfi ? array_partition(cfi->count, starts_at_or_below, &wanted) : 0;
	uint64_t fde;

	return (above && cfi_entry(object, cfi, above - 1, &fde) >= range.start) ||
	       symbols_function_starts(object, range);
}

/* ==== Landing pads ============================================================================ */

/*
 * Landing pads are the places where exceptions may enter a function.
 *
 * The language-specific data of a function (.gcc_except_table) is:
 *
 *	encoding of LPStart (a byte), LPStart	base of the landing pads; the
 *						function's start if omitted
 *	encoding of the type table, its distance (ULEB128)
 *	encoding of the call sites, size of their table in bytes (ULEB128)
 *	call sites: start, length, landing pad or 0, action (ULEB128)
 *	...
 *
 * C++, Rust, Objective-C, Ada, D, Swift and C with -fexceptions share this format ("Itanium C++
 * ABI: Exception Handling", 2.5; LLVM, "Exception Handling"; libgcc, unwind-c.c). Each part of a
 * split function has its own FDE and its own table. Clang writes LPStart if it puts basic blocks
 * into sections of their own.
 */

enum { LSDA_HEADER_BYTES_MAX = 64 };

struct lsda {
	uint64_t pads_from;
	uint8_t encoding; /* encoding of the call sites */
	uint64_t table, table_size;
};

static bool read_header(
	const struct object *object, const struct object_function *function, struct lsda *ret)
{
	const struct eh_bases bases = {.has_function = true, .function = function->range.start};
	uint8_t buffer[LSDA_HEADER_BYTES_MAX], encoding;
	struct bytes bytes = object_bytes(object, buffer,
		object_read(object, function->lsda, buffer, sizeof(buffer)), function->lsda);

	ret->pads_from = function->range.start;
	encoding = bytes_u8(&bytes);
	if (encoding != EH_OMIT) {
		uint64_t raw;

		ret->pads_from = eh_pointer(&bytes, encoding, &bases, &raw);
		/* In a shared object a relocation may add to an absolute 0. */
		if (encoding & EH_INDIRECT ||
			(!raw && object->type == ET_DYN && !(encoding & EH_BASE)))
			return false;
	}
	encoding = bytes_u8(&bytes);
	if (encoding != EH_OMIT)
		bytes_uleb(&bytes);
	ret->encoding = bytes_u8(&bytes);
	ret->table_size = bytes_uleb(&bytes);
	ret->table = bytes_here(&bytes);
	/* Call sites must be offsets, to which no base is added. */
	return !bytes.failed && !(ret->encoding & ~EH_FORMAT);
}

bool object_landing_pads(struct object *object, const struct object_function *function,
	void (*visit)(uint64_t address, void *data), void *data)
{
	const struct eh_bases none = {0};
	AUTO_FREE uint8_t *buffer = NULL;
	struct bytes bytes;
	struct lsda lsda;

	if (!function->lsda)
		return true;
	if (function->lsda == OBJECT_LSDA_UNKNOWN || !read_header(object, function, &lsda) ||
		lsda.table_size > object->file_size)
		return false;
	buffer = malloc((size_t)lsda.table_size + 1);
	if (!buffer ||
		object_read(object, lsda.table, buffer, (size_t)lsda.table_size) != lsda.table_size)
		return false;
	bytes = object_bytes(object, buffer, (size_t)lsda.table_size, lsda.table);
	while (bytes_left(&bytes)) {
		uint64_t pad;

		eh_pointer(&bytes, lsda.encoding, &none, NULL); /* start */
		eh_pointer(&bytes, lsda.encoding, &none, NULL); /* length */
		pad = eh_pointer(&bytes, lsda.encoding, &none, NULL);
		bytes_uleb(&bytes); /* action */
		if (bytes.failed)
			return false;
		if (pad)
			visit(lsda.pads_from + pad, data);
	}
	return true;
}
