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
 * A program may copy that, whole or only the registers. The word of the selectors tells it
 * from other memory, whatever the handler's restorer. Where no data names the places, as
 * inside of a program's function, every aligned word counts that is one of them.
 *
 * What glibc saves of a user context (ucontext_t) has the same layout, but 8 bytes less in
 * front, and no selectors. But the address of its floating-point state is that of its own
 * last part: a word that names the address 200 bytes behind itself.
 *
 * Sources: arch/x86/kernel/signal_64.c, struct rt_sigframe, and
 * arch/x86/include/uapi/asm/sigcontext.h of Linux; sysdeps/unix/sysv/linux/x86_64/getcontext.S
 * and sys/ucontext.h of glibc.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/array.h"
#include "libprobe/places.h"

enum {
	LINE_SHIFT = 6,
	IMAGE_STACK = 24,
	IMAGE_STACK_FLAGS = 32,
	IMAGE_STACK_SIZE = 40,
	IMAGE_RSP = 168,
	IMAGE_RIP = 176,
	IMAGE_SELECTORS = 192,
	IMAGE_STATE = 232,
	CONTEXT_RSP = 160, /* in ucontext_t */
	CONTEXT_STATE = 224,
	CONTEXT_DISTANCE = 200, /* from there to what it names */
	STACK_DISABLED = 2,	/* SS_DISABLE */
	STACK_INVALID = 7,	/* see libprobe/remote.c */
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

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
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
	qsort(places->items, places->count, sizeof(*places->items), compare_places);
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
	size_t low = 0, high = places->count;

	if (address - places->low >= places->span || !(places->filter[bit / 64] >> (bit % 64) & 1))
		return false;
	while (low < high) { /* the first that ends above it */
		size_t middle = low + (high - low) / 2;

		if (places->items[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < places->count && places->items[low].start <= address;
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

static bool tell_context(
	uint64_t address, const uint8_t *bytes, const struct place_visitor *visitor)
{
	const struct place_context context = {.at = address, .rsp = load(bytes + CONTEXT_RSP)};

	return !visitor->context || visitor->context(visitor->data, &context);
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

static bool tell_word(const struct places *places, const struct piece *p, size_t i,
	const struct place_visitor *visitor)
{
	const size_t selectors = i + IMAGE_SELECTORS - IMAGE_RIP;
	uint64_t word = load(p->bytes + i);
	bool is_context;

	if (!places_have(places, word))
		return true;
	is_context = selectors + 8 <= p->size && load(p->bytes + selectors) == SELECTORS;
	if (places->are_code && !is_context)
		return true;
	return visitor->word(visitor->data, p->address + i, word, is_context);
}

/* The words at [i, end). */
static bool look_closely(const struct places *places, const struct piece *p, size_t i, size_t end,
	const struct place_visitor *visitor)
{
	for (; i < end; i += 8) {
		uint64_t word = load(p->bytes + i);
		size_t image = i - IMAGE_SELECTORS, context = i - CONTEXT_STATE;
		bool ok = true;

		if (word == SELECTORS && begins(p, i, IMAGE_SELECTORS))
			ok = tell_image(
				p->address + image, p->bytes + image, p->size - image, visitor);
		else if (word == p->address + i + CONTEXT_DISTANCE && begins(p, i, CONTEXT_STATE))
			ok = tell_context(p->address + context, p->bytes + context, visitor);
		if (ok && i < p->step)
			ok = tell_word(places, p, i, visitor);
		if (!ok)
			return false;
	}
	return true;
}

bool places_scan(const struct places *places, uint64_t address, const uint8_t *bytes, size_t size,
	size_t step, const struct place_visitor *visitor)
{
	const struct piece piece = {address, bytes, size, step};
	uint64_t low = places->low, span = places->span;

	/* Hardly a word is anything: a block is looked at closely only if one may be. */
	for (size_t i = 0; i < size; i += BLOCK) {
		size_t end = size - i < BLOCK ? size : i + BLOCK;
		bool any = false;

		for (size_t k = i; k < end; k += 8) {
			uint64_t word = load(bytes + k);

			any |= (word - low < span) | (word == SELECTORS) |
			       (word - address - CONTEXT_DISTANCE == k);
		}
		if (any && !look_closely(places, &piece, i, end, visitor))
			return false;
	}
	return true;
}
