/* SPDX-License-Identifier: MIT */
/*
 * The bounds of functions, from the unwinder's tables.
 *
 * Stripped files have no symbols, but they can be unwound: .eh_frame describes every function
 * part that exceptions may pass through. The segment PT_GNU_EH_FRAME (.eh_frame_hdr) is a
 * table, sorted by address, that leads to the descriptions:
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
 * The first look-up reads the whole table (8 bytes per function); entries are read one at a
 * time. An entry is used only if it covers the requested address.
 *
 * A static program has no such table: crtbegin.o hands .eh_frame itself to the unwinder, which
 * sorts it on first use. This file does the same if the file has section headers.
 */
#include <elf.h>
#include <string.h>

#include "elf/internal.h"
#include "elf/pointers.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"

/* What a CIE says about its FDEs. */
struct cie {
	uint64_t address;
	bool valid;
	bool has_augmentation; /* 'z': FDEs have augmentation data */
	uint8_t pointer, lsda; /* encodings; lsda is EH_OMIT if there is none */
};

/* A function, as in a search table. */
struct known_fde {
	uint64_t start, fde;
};

struct cfi {
	struct known_fde *sorted; /* built if the file has no table */
	uint8_t *table;		  /* NULL if there is none that can be searched */
	size_t count;		  /* entries of `sorted` or `table` */
	size_t entry_size;
	uint8_t encoding;
	uint64_t address; /* of the table */
	struct eh_bases bases;
	struct cie cie; /* the last one read: a file has few */
};

enum {
	HEADER_BYTES_MAX = 4 + 2 * 8, /* of .eh_frame_hdr, before the table */
	/*
	 * Enough for every CIE's augmentation and every FDE's pointers; the call frame
	 * instructions after them are not needed.
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
	/* Entries of varying size cannot be searched; no linker writes them. */
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

void cfi_free(struct cfi *cfi)
{
	if (!cfi)
		return;
	free(cfi->sorted);
	free(cfi->table);
	free(cfi);
}

/* The function start in table entry `index`, and the address of its FDE. */
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

/* The FDE of the last entry that starts at or below the address. */
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
 * Reads the start of a CIE or FDE into `buffer`. Returns a reader positioned after the length;
 * it has failed if there is no entry.
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

/* Reads the part of a CIE's augmentation data that its FDEs depend on. */
static bool read_augmentation(struct bytes *bytes, const char *augmentation, struct cie *ret)
{
	/* A personality is only skipped, so the base of its pointer does not matter. */
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
		default: /* what follows is ambiguous */
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
	if (bytes_unsigned(&bytes, 4)) /* in an FDE: the distance to its CIE */
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
		/* Zero means "none", unless a relocation applies here: its addend is elsewhere. */
		if (object->type == ET_DYN && !(encoding & EH_BASE))
			return OBJECT_LSDA_UNKNOWN;
		return 0;
	}
	/* The target of an indirect pointer is known only at run time. */
	return encoding & EH_INDIRECT ? OBJECT_LSDA_UNKNOWN : value;
}

static bool read_fde(struct object *object, uint64_t address, struct object_function *ret)
{
	struct cfi *cfi = object->cfi;
	uint8_t buffer[ENTRY_BYTES_MAX];
	struct bytes bytes = read_entry(object, address, buffer);
	uint64_t here = bytes_here(&bytes), distance = bytes_unsigned(&bytes, 4), length;
	struct object_range *range = &ret->range;

	if (bytes.failed || !distance) /* it is a CIE */
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

/* Adds the FDEs of .eh_frame. False if one is unreadable: it could describe any function. */
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
		if (bytes_unsigned(frames, 4) != 0) { /* no CIE */
			if (!read_fde(object, address, &function))
				return false;
			if (!ARRAY_ROOM(cfi->sorted, cfi->count))
				return false;
			/* Functions that the linker discarded start at 0. */
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
	if (object->cfi && object->eh_frame_hdr_size)
		cfi_load(object, object->cfi);
	else if (object->cfi)
		cfi_sort(object, object->cfi);
	return object->cfi;
}

/*
 * The LSDA of a function that no FDE describes. With a search table, the unwinder stops at such
 * a function, so nothing lands in it. Without one, frames may be registered by other means: by
 * crtbegin.o, in a file without section headers to find them, or in .ARM.exidx on 32-bit ARM.
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
			found.lsda = OBJECT_LSDA_UNKNOWN; /* it has an FDE, but we cannot read it */
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
