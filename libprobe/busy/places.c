/* SPDX-License-Identifier: MIT */
/*
 * Whoever comes back to an address has it somewhere in memory. The kernel saves the program
 * counter for a signal handler, on the stack that the handler runs on:
 *
 *   frame + 0    where the handler returns to: code that calls rt_sigreturn(2)
 *         + 8    flags, link
 *         + 24   the thread's alternate stack: address, flags, size
 *         + 48   r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx
 *         + 168  rsp
 *         + 176  rip
 *         + 192  the selectors of code and stack: of a 64-bit thread always the same word
 *         + 232  address of the floating-point state, which is above, on the same stack
 *
 * A program may copy that, whole or only the registers, to any address. The word of the
 * selectors tells it from other memory, whatever the handler's restorer, and is looked for at
 * every byte. Where no data names the places, as inside of a program's function, every
 * aligned word of a stack in use counts that is one of them.
 *
 * Sources: arch/x86/kernel/signal_64.c, struct rt_sigframe, and
 * arch/x86/include/uapi/asm/sigcontext.h of Linux.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/busy/places.h"

enum {
	LINE_SHIFT = 6,
	IMAGE_STACK = 24,
	IMAGE_STACK_FLAGS = 32,
	IMAGE_STACK_SIZE = 40,
	IMAGE_RSP = 168,
	IMAGE_RIP = 176,
	IMAGE_SELECTORS = 192,
	IMAGE_STATE = 232,
	STACK_DISABLED = 2, /* SS_DISABLE */
	STACK_INVALID = 7,  /* see libprobe/stop/remote.c */
	GUARD_SHIFT = 17,   /* PTR_MANGLE */
	BLOCK = 64
};
#define SELECTORS UINT64_C(0x002b000000000033) /* cs, gs, fs, ss: __USER_CS, 0, 0, __USER_DS */

/* ---- Places --------------------------------------------------------------------------- */

bool places_add(struct places *places, uint64_t start, uint64_t end)
{
	struct place *items;

	if (start >= end)
		return true;
	items = array_grow(places->items, places->count, sizeof(*items));
	if (!items)
		return false;
	places->items = items;
	items[places->count++] = (struct place){start, end};
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

static bool tell_image(
	uint64_t address, const uint8_t *bytes, size_t size, const struct place_visitor *visitor)
{
	uint64_t stack = load(bytes + IMAGE_STACK), length = load(bytes + IMAGE_STACK_SIZE);
	uint32_t flags = (uint32_t)load(bytes + IMAGE_STACK_FLAGS);
	struct place_image image = {.at = address,
		.rsp = load(bytes + IMAGE_RSP),
		.rip = load(bytes + IMAGE_RIP),
		.state = size >= PLACE_IMAGE_BYTES ? load(bytes + IMAGE_STATE) : 0,
		.is_remote = flags == STACK_INVALID};

	if (flags != STACK_INVALID && flags != STACK_DISABLED && length && stack + length > stack) {
		image.stack = stack;
		image.stack_end = stack + length;
	}
	return visitor->image(visitor->data, &image);
}

/* What is being looked at. */
struct piece {
	uint64_t address;
	const uint8_t *bytes;
	size_t size, step;
};

/* Does something of a piece begin so far before i, and is it to be told? */
static bool begins(const struct piece *piece, size_t i, size_t before)
{
	return i >= before && i - before < piece->step;
}

/* A word at i, as the program counter of an image or not. */
static bool tell_word(const struct places *places, const struct piece *p, size_t i, uint64_t word,
	bool is_context, const struct place_visitor *visitor)
{
	return !places_have(places, word) ||
	       visitor->word(visitor->data, p->address + i, word, is_context);
}

static uint64_t unguarded(const struct places *places, uint64_t word)
{
	return (word >> GUARD_SHIFT | word << (64 - GUARD_SHIFT)) ^ places->guard;
}

static bool is_context(const struct piece *p, size_t i)
{
	const size_t selectors = i + IMAGE_SELECTORS - IMAGE_RIP;

	return selectors + 8 <= p->size && load(p->bytes + selectors) == SELECTORS;
}

/* The aligned words at [i, end) that are no program counters of images. */
static bool look_at_words(const struct places *places, const struct piece *p, size_t i, size_t end,
	const struct place_visitor *visitor)
{
	for (; i < end && i < p->step; i += 8) {
		uint64_t word = load(p->bytes + i);

		if (is_context(p, i))
			continue;
		if (!tell_word(places, p, i, word, false, visitor) ||
			(places->guard &&
				!tell_word(places, p, i, unguarded(places, word), false, visitor)))
			return false;
	}
	return true;
}

/* The selectors that begin at [i, end): of images, or of copies of the registers alone. */
static bool look_at_selectors(const struct places *places, const struct piece *p, size_t i,
	size_t end, const struct place_visitor *visitor)
{
	for (; i < end && i + 8 <= p->size; i++) {
		const size_t image = i - IMAGE_SELECTORS, rip = image + IMAGE_RIP;

		if (load(p->bytes + i) != SELECTORS)
			continue;
		if (begins(p, i, IMAGE_SELECTORS - IMAGE_RIP) &&
			!tell_word(places, p, rip, load(p->bytes + rip), true, visitor))
			return false;
		if (begins(p, i, IMAGE_SELECTORS) &&
			!tell_image(p->address + image, p->bytes + image, p->size - image, visitor))
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
 * May selectors begin in a block, at any byte? BLOCK + 7 bytes are read. A sum instead of an
 * early end, so that compilers make vector instructions of it.
 */
static bool may_have_selectors(const uint8_t *block)
{
	uint8_t any = 0;

	for (size_t k = 0; k < BLOCK; k++)
		any |= (block[k] == (uint8_t)SELECTORS) &
		       (block[k + 6] == (uint8_t)(SELECTORS >> 48)) & (block[k + 7] == 0);
	return any;
}

bool places_scan(const struct places *places, uint64_t address, const uint8_t *bytes, size_t size,
	size_t step, const struct place_visitor *visitor)
{
	const struct piece piece = {address, bytes, size, step};
	bool has_words = !places->are_code && !visitor->only_images, ok = true;

	/* Hardly a word is anything: a block is looked at closely only if one may be. */
	for (size_t i = 0; i < size && ok; i += BLOCK) {
		bool is_last = size - i < BLOCK + 7;
		size_t end = size - i < BLOCK ? size : i + BLOCK;

		if (has_words && (is_last || may_have_words(places, bytes + i)))
			ok = look_at_words(places, &piece, i, end, visitor);
		if (ok && (is_last || may_have_selectors(bytes + i)))
			ok = look_at_selectors(places, &piece, i, end, visitor);
	}
	return ok;
}
