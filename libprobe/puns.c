/* SPDX-License-Identifier: MIT */
/*
 * Where a punned site jumps to is chance, and stands in its bytes:
 *
 *	site:	90 8d 87 01 00 ..	lea 1(%rdi),%eax behind the nop
 *		e9 8d 87 01 00 ..	jmp site + 5 + 0x1878d
 *
 * So its page is mapped first of all that a change maps: neither an arena nor the data of a
 * session can have come to lie there before. An arena of an earlier change may be there, by
 * chance as well, or because it is near the same module. Then the jump to the stub is written
 * into the arena, if its allocator has the bytes to give.
 *
 * The target maps memory, too. A page that it has taken since its maps were read is no reason
 * to fail: the sites are planned once more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "libprobe/memory.h"
#include "libprobe/puns.h"
#include "libprobe/space.h"

enum {
	PUNS_AT_ONCE = 64, /* one thread stands still while their pages are mapped */
	FAR_JUMP_BYTES = 14
};

static const char pun_taken[] =
	"the address that its bytes would jump to is in use, or where the heap or the stack grows";

static uint64_t page_of(uint64_t address)
{
	return address & ~(uint64_t)(SPACE_PAGE - 1);
}

/* ---- Taking -------------------------------------------------------------------------- */

/* Where a page is among the taken ones, which are sorted, or would be. */
static size_t page_index(const struct attach *a, uint64_t page)
{
	size_t low = 0, high = a->pun_page_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (a->pun_pages[middle] < page)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const char *puns_take(struct attach *attach, uint64_t entry)
{
	uint64_t page = page_of(entry), *pages = attach->pun_pages;
	size_t at = page_index(attach, page);

	/* The jump is written as a whole, also when it is led elsewhere later. */
	if (attach->no_puns || page_of(entry + FAR_JUMP_BYTES - 1) != page)
		return pun_taken;
	if (code_arena(&attach->change->registry, entry))
		return code_take(&attach->change->registry, &attach->change->taken, entry,
			       FAR_JUMP_BYTES)
			       ? NULL
			       : pun_taken;
	/* Puns do not share pages. */
	if ((at < attach->pun_page_count && pages[at] == page) ||
		!space_is_free(&attach->change->maps, page, page + SPACE_PAGE))
		return pun_taken;
	pages = reallocarray(pages, attach->pun_page_count + 1, sizeof(*pages));
	if (!pages)
		return "out of memory";
	attach->pun_pages = pages;
	memmove(pages + at + 1, pages + at, (attach->pun_page_count++ - at) * sizeof(*pages));
	pages[at] = page;
	return NULL;
}

const char *puns_take_any(struct attach *attach, unsigned int fixed, uint64_t *entry)
{
	int64_t step = INT64_C(1) << 8 * fixed, start = (int64_t)*entry, reach = INT64_C(1) << 31;

	/* Alternately above and below; the distance that it has is less than a step. */
	for (int64_t far = 0; far < reach - step; far += step) {
		if (!puns_take(attach, *entry = (uint64_t)(start + far)) ||
			!puns_take(attach, *entry = (uint64_t)(start - step - far)))
			return NULL;
	}
	return pun_taken;
}

void puns_place(
	const struct registry *registry, uint64_t entry, uint64_t *start_ret, uint32_t *size_ret)
{
	bool in_arena = code_arena(registry, entry);

	*start_ret = in_arena ? entry : page_of(entry);
	*size_ret = in_arena ? FAR_JUMP_BYTES : SPACE_PAGE;
}

/* ---- Mapping ------------------------------------------------------------------------- */

static void unmap_pages(struct change *change, const uint64_t *pages, size_t count)
{
	for (size_t done = 0; done < count;) {
		struct control_call calls[PUNS_AT_ONCE];
		size_t n = 0;

		for (; n < PUNS_AT_ONCE && done < count; n++, done++)
			calls[n] = (struct control_call){
				.number = SYS_munmap, .args = {pages[done], SPACE_PAGE}};
		probe_error_free(change_run(change, "unmap memory", calls, n));
	}
}

/*
 * Maps pages for code at addresses that were free when the maps were read; *done_ret: how many
 * of them. Fewer without an error: the next one is in use.
 */
static struct probe_error *map_pages(
	struct change *change, const uint64_t *pages, size_t count, size_t *done_ret)
{
	struct control_call calls[PUNS_AT_ONCE + 1], close;
	struct probe_error *error;
	int64_t fd;

	*done_ret = 0;
	/* One page for all: each writes its own copy. */
	error = change_code_file(change, SPACE_PAGE, &fd);
	if (error)
		return error;
	close = change_call_close(fd);
	for (size_t i = 0; i < count; i++)
		calls[i] = change_call_map_code(pages[i], SPACE_PAGE, fd);
	calls[count] = close;
	error = change_run(change, "map memory for code", calls, count + 1);
	while (*done_ret < count && calls[*done_ret].result == (int64_t)pages[*done_ret])
		++*done_ret;
	if (*done_ret == count)
		return error;
	/* A kernel before 4.17 has mapped it elsewhere. */
	if (!error && calls[*done_ret].result > 0)
		unmap_pages(change, &(uint64_t){(uint64_t)calls[*done_ret].result}, 1);
	probe_error_free(change_run(change, "close a file", &close, 1));
	if (error && calls[*done_ret].result != -EEXIST)
		return error;
	probe_error_free(error);
	return NULL;
}

struct probe_error *puns_map(struct attach *attach, bool *again_ret)
{
	struct probe_error *error = NULL;

	*again_ret = false;
	while (attach->puns_mapped < attach->pun_page_count && !error && !*again_ret) {
		size_t left = attach->pun_page_count - attach->puns_mapped, done;
		size_t count = left < PUNS_AT_ONCE ? left : PUNS_AT_ONCE;

		error = map_pages(
			attach->change, attach->pun_pages + attach->puns_mapped, count, &done);
		attach->puns_mapped += done;
		*again_ret = !error && done < count;
	}
	if (error || *again_ret)
		puns_drop(attach);
	if (!error && (*again_ret || attach->puns_mapped))
		error = change_reread_maps(attach->change);
	return error;
}

void puns_drop(struct attach *attach)
{
	unmap_pages(attach->change, attach->pun_pages, attach->puns_mapped);
	attach->puns_mapped = attach->pun_page_count = 0;
	attach->change->taken.count = 0;
}

/*
 * A pun's page is an arena: it goes with its site or, if the site's library is
 * closed, with the last session.
 */
struct probe_error *puns_announce(struct attach *attach)
{
	for (size_t i = 0; i < attach->puns_mapped; i++) {
		struct reg_arena *arena = registry_add_arena(&attach->change->registry);

		if (!arena)
			return probe_error_no_memory();
		*arena = (struct reg_arena){attach->pun_pages[i], SPACE_PAGE};
	}
	return attach->puns_mapped ? change_store(attach->change) : NULL;
}

struct probe_error *puns_write(const struct attach *attach)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < attach->selection->site_count && !error; i++) {
		const struct attach_site *as = &attach->sites[i];
		uint8_t jump[16];
		size_t length;

		if (!as->wanted || !as->is_new || !as->head || !as->reg.pun)
			continue;
		length = attach->change->arch->far_jump(as->reg.entry, as->head, jump);
		error = memory_write_code(attach->change->mem, as->reg.entry, jump, length);
	}
	return error;
}
