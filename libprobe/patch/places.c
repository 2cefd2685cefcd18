/* SPDX-License-Identifier: MIT */
/*
 * A thread that returns to an address has it somewhere in memory. The kernel saves the program
 * counter for a signal handler, on the stack that the handler runs on (struct arch_frame_layout).
 *
 * A program may copy that, whole or only the registers, to any address. The mark of the layout
 * tells it from other memory, whatever the handler's restorer is, so the search looks for this mark
 * at every byte. Registers of aarch64 have none: there a place counts between a stack pointer and
 * flags, at any byte, too. Where no data refers to the places, as inside a program's function, each
 * aligned word of a stack in use counts if it is one of them.
 */
#include <stdlib.h>
#include <string.h>

#include "arch/process.h"
#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"

enum {
	LINE_SHIFT = 6,
	STACK_DISABLED = 2, /* SS_DISABLE */
	STACK_ALIGN = 16,
	BLOCK = 64
};

/* ---- Places --------------------------------------------------------------------------- */

bool places_add(struct places *places, uint64_t start, uint64_t end)
{
	if (start >= end)
		return true;
	if (!ARRAY_ROOM(places->items, places->count))
		return false;
	places->items[places->count++] = (struct place){start, end};
	return true;
}

static void set_filter(struct places *places, const struct place *place)
{
	for (uint64_t line = place->start >> LINE_SHIFT; line <= (place->end - 1) >> LINE_SHIFT;
		line++) {
		uint64_t bit = line & ((1 << PLACES_FILTER_BITS) - 1);

		places->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
	}
}

void places_prepare(struct places *places)
{
	size_t kept = 0;

	if (!places->count)
		return;
	ARRAY_SORT(places->items, places->count, start);
	for (size_t i = 1; i < places->count; i++) {
		struct place *last = &places->items[kept];

		if (places->items[i].start > last->end)
			places->items[++kept] = places->items[i];
		else if (places->items[i].end > last->end)
			last->end = places->items[i].end;
	}
	places->count = kept + 1;
	places->low = places->items[0].start;
	places->span = places->items[kept].end - places->low;
	for (size_t i = 0; i < places->count; i++)
		set_filter(places, &places->items[i]);
}

bool places_have(const struct places *places, uint64_t address)
{
	uint64_t bit = address >> LINE_SHIFT & ((1 << PLACES_FILTER_BITS) - 1);
	size_t first;

	if (address - places->low >= places->span || !(places->filter[bit / 64] >> (bit % 64) & 1))
		return false;
	first = ARRAY_SEARCH_ABOVE(places->items, places->count, end, address);
	return first < places->count && places->items[first].start <= address;
}

void places_deinit(struct places *places)
{
	free(places->items);
	*places = (struct places){0};
}

/* ---- Looking at memory ------------------------------------------------------------------ */

static uint64_t load(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* The memory that is being searched. */
struct file_piece {
	uint64_t address;
	const uint8_t *bytes;
	size_t size, step;
	const struct arch_frame_layout *layout;
	const struct maps *maps; /* NULL: unknown */
};

/* The image that begins at an offset of a piece. */
static bool tell_image(const struct file_piece *p, size_t at, const struct place_visitor *visitor)
{
	const struct arch_frame_layout *layout = p->layout;
	const uint8_t *bytes = p->bytes + at;
	uint64_t stack = load(bytes + layout->stack), length = load(bytes + layout->stack_size);
	uint32_t flags = (uint32_t)load(bytes + layout->stack_flags);
	struct place_image image = {.at = p->address + at,
		.sp = load(bytes + layout->sp),
		.pc = load(bytes + layout->pc),
		.is_remote = flags == ARCH_FRAME_STACK};

	if (layout->state && p->size - at >= layout->bytes)
		image.state = load(bytes + layout->state);
	if (flags != ARCH_FRAME_STACK && flags != STACK_DISABLED && length &&
		stack + length > stack) {
		image.stack = stack;
		image.stack_end = stack + length;
	}
	return visitor->image(visitor->data, &image);
}

/* Does something begin in a piece at this distance before i, and must it be reported? */
static bool begins(const struct file_piece *piece, size_t i, size_t before)
{
	return i >= before && i - before < piece->step;
}

/* A word at i, as the program counter of an image or not. */
static bool tell_word(const struct places *places, const struct file_piece *p, size_t i,
	uint64_t word, bool is_context, const struct place_visitor *visitor)
{
	return !places_have(places, word) ||
	       visitor->word(visitor->data, p->address + i, word, is_context);
}

static uint64_t unguarded(const struct places *places, uint64_t word)
{
	uint8_t shift = places->guard_shift;

	return (word >> shift | word << (-shift & 63)) ^ places->guard;
}

static bool is_context(const struct file_piece *p, size_t i)
{
	const size_t mark = i + p->layout->mark - p->layout->pc;

	return mark + 8 <= p->size && load(p->bytes + mark) == p->layout->mark_word;
}

/*
 * Do registers without a mark have their program counter at i? The stack pointer, it, the flags. No
 * stack is in code; the notes that a controller has of its code look like this otherwise.
 */
static bool is_in_registers(const struct file_piece *p, size_t i)
{
	const struct mapping *m;
	uint64_t sp;

	if (!p->layout->flag_bits || i < 8 || i + 16 > p->size || is_context(p, i))
		return false;
	sp = load(p->bytes + i - 8);
	if (!sp || sp % STACK_ALIGN || load(p->bytes + i + 8) & ~p->layout->flag_bits)
		return false;
	m = p->maps ? maps_find(p->maps, sp) : NULL;
	return !m || m->writable || !m->executable;
}

/* The aligned words at [i, end) that are no program counters of images. */
static bool look_at_words(const struct places *places, const struct file_piece *p, size_t i,
	size_t end, const struct place_visitor *visitor)
{
	for (; i < end && i < p->step; i += 8) {
		uint64_t word = load(p->bytes + i);

		if (is_context(p, i) || is_in_registers(p, i))
			continue;
		if (!tell_word(places, p, i, word, false, visitor) ||
			(places->guard &&
				!tell_word(places, p, i, unguarded(places, word), false, visitor)))
			return false;
	}
	return true;
}

/* The marks that begin at [i, end): of images, or of copies of the registers alone. */
static bool look_at_marks(const struct places *places, const struct file_piece *p, size_t i,
	size_t end, const struct place_visitor *visitor)
{
	const struct arch_frame_layout *layout = p->layout;

	for (; i < end && i + 8 <= p->size; i++) {
		const size_t image = i - layout->mark, pc = image + layout->pc;

		if (load(p->bytes + i) != layout->mark_word)
			continue;
		if (begins(p, i, layout->mark - layout->pc) &&
			!tell_word(places, p, pc, load(p->bytes + pc), true, visitor))
			return false;
		if (begins(p, i, layout->mark) && !tell_image(p, image, visitor))
			return false;
	}
	return true;
}

/* The registers without a mark whose stack pointers are at [i, end). */
static bool look_at_registers(const struct places *places, const struct file_piece *p, size_t i,
	size_t end, const struct place_visitor *visitor)
{
	for (; i < end && i < p->step && i + 24 <= p->size; i++) {
		const struct place_image image = {.at = p->address + i,
			.sp = load(p->bytes + i),
			.pc = load(p->bytes + i + 8)};

		if (!places_have(places, image.pc) || !is_in_registers(p, i + 8))
			continue;
		if (!visitor->word(visitor->data, image.at + 8, image.pc, true) ||
			!visitor->image(visitor->data, &image))
			return false;
	}
	return true;
}

/* Is one of the aligned words of a block near the places? */
static bool may_have_words(const struct places *places, const uint8_t *block)
{
	uint64_t low = places->low, span = places->span;
	bool any = false;

	for (size_t k = 0; k < BLOCK; k += 8)
		any |= load(block + k) - low < span;
	for (size_t k = 0; places->guard && k < BLOCK; k += 8)
		any |= unguarded(places, load(block + k)) - low < span;
	return any;
}

/*
 * May a mark begin in a block, at any byte? BLOCK + 7 bytes are read. A sum instead of an
 * early end, so that compilers make vector instructions of it.
 */
static bool may_have_mark(const uint8_t *block, uint64_t mark)
{
	const uint8_t first = (uint8_t)mark, seventh = (uint8_t)(mark >> 48);
	const uint8_t last = (uint8_t)(mark >> 56);
	uint8_t any = 0;

	for (size_t k = 0; k < BLOCK; k++)
		any |= (block[k] == first) & (block[k + 6] == seventh) & (block[k + 7] == last);
	return any;
}

/* May registers begin in a block, at any byte? BLOCK + 15 bytes are read. */
static bool may_have_registers(const struct places *places, const uint8_t *block)
{
	uint64_t low = places->low, span = places->span;
	bool any = false;

	for (size_t k = 0; k < BLOCK; k++)
		any |= load(block + k + 8) - low < span;
	return any;
}

bool places_scan(const struct places *places, uint64_t address, const uint8_t *bytes, size_t size,
	size_t step, const struct place_visitor *visitor)
{
	const struct arch_frame_layout *layout = arch_process()->layout;
	const struct file_piece piece = {address, bytes, size, step, layout, visitor->maps};
	bool has_words = !places->are_code && !visitor->only_images, ok = true;

	/* Few words matter: a block is examined only if it may contain one. */
	for (size_t i = 0; i < size && ok; i += BLOCK) {
		bool is_last = size - i < BLOCK + 15;
		size_t end = size - i < BLOCK ? size : i + BLOCK;

		if (has_words && (is_last || may_have_words(places, bytes + i)))
			ok = look_at_words(places, &piece, i, end, visitor);
		if (ok && (is_last || may_have_mark(bytes + i, layout->mark_word)))
			ok = look_at_marks(places, &piece, i, end, visitor);
		if (ok && layout->flag_bits && (is_last || may_have_registers(places, bytes + i)))
			ok = look_at_registers(places, &piece, i, end, visitor);
	}
	return ok;
}
