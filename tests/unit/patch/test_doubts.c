/* SPDX-License-Identifier: MIT */
/*
 * Frames below the stack pointer of a thread: left over by a handler that has returned, or on
 * another stack that the program made there. A child has the memory; all that it holds
 * is written by us, so that nothing else in it points to a frame.
 *
 *	region   | words        | handler | frame | what it interrupted | low: in use |
 */
/* Not under ThreadSanitizer: its terabytes of memory are searched, and nothing has threads. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "tests/unit/skip.h"

enum {
	REGION_BYTES = 1 << 20,
	FRAME_AT = 512 << 10,
	FRAME_END_AT = FRAME_AT + 3000,
	LOW_AT = 640 << 10,
	REACH = 64 << 10,  /* of words that point below a frame */
	HANDLER = 16 << 10 /* below a frame, where words do not count */
};

struct host {
	pid_t child;
	int mem;
	uint64_t region;
	struct maps maps;
	struct frames_stack stack;
	struct frames frames;
	struct places places; /* of the search of contexts: none */
	struct search search;
	struct doubts doubts;
};

static void no_error(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

static int setup(void **state)
{
	struct host *h = calloc(1, sizeof(*h));
	void *region = mmap(
		NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_non_null(h);
	assert_ptr_not_equal(region, MAP_FAILED);
	memset(region, 0xff, REGION_BYTES); /* in RAM */
	h->region = (uintptr_t)region;
	h->child = fork();
	assert_true(h->child >= 0);
	if (h->child == 0)
		for (;;)
			pause();
	no_error(memory_open(h->child, &h->mem));
	no_error(maps_read(h->child, &h->maps));
	h->stack = (struct frames_stack){h->region + LOW_AT, h->region + REGION_BYTES, true};
	h->frames = (struct frames){.maps = &h->maps, .stacks = &h->stack, .stack_count = 1};
	no_error(search_open(h->child, h->mem, &h->places, 0, &h->search));
	no_error(search_all(&h->search));
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct host *h = *state;
	int status;

	doubts_deinit(&h->doubts);
	search_close(&h->search);
	maps_deinit(&h->maps);
	close(h->mem);
	kill(h->child, SIGKILL);
	waitpid(h->child, &status, 0);
	/* The region stays: our own stack, which the next child has, too, may point to it. */
	free(h);
	return 0;
}

static void put(const struct host *h, uint64_t offset, uint64_t word)
{
	no_error(memory_write_data(h->child, h->region + offset, &word, sizeof(word)));
}

static struct search_find find_at(const struct host *h, uint64_t frame, uint64_t end)
{
	return (struct search_find){.at = h->region + frame + 176,
		.word = 0x1234,
		.frame = h->region + frame,
		.frame_end = h->region + end};
}

static bool is_live(struct host *h, const struct search_find *find)
{
	return doubts_are_live(&h->doubts, &h->frames, &h->search, find);
}

/* Is a frame in the middle live, once that has been settled? */
static bool is_live_settled(struct host *h)
{
	struct search_find find = find_at(h, FRAME_AT, FRAME_END_AT);
	bool settled;

	assert_true(is_live(h, &find)); /* nobody knows yet */
	no_error(doubts_settle(&h->doubts, &h->search, &settled));
	assert_true(settled);
	return is_live(h, &find);
}

/* ---- Without a search -------------------------------------------------------------------- */

/* What is no frame of a thread's stack is somebody's. */
static void test_no_doubt(void **state)
{
	struct host *h = *state;
	struct search_find copy = {.at = h->region + FRAME_AT, .word = 1};
	struct search_find above = find_at(h, LOW_AT + 4096, LOW_AT + 8192);
	struct search_find elsewhere = {
		.at = 0x1000, .word = 1, .frame = 0x1000, .frame_end = 8192};
	bool settled;

	assert_true(is_live(h, &copy));
	assert_true(is_live(h, &above));
	assert_true(is_live(h, &elsewhere));
	assert_int_equal(h->doubts.count, 0);
	no_error(doubts_settle(&h->doubts, &h->search, &settled));
	assert_false(settled);
}

/* A stack that was not made for the thread is not all the thread's. */
static void test_foreign_stack(void **state)
{
	struct host *h = *state;
	struct search_find find = find_at(h, FRAME_AT, FRAME_END_AT);

	h->stack.is_threads = false;
	assert_true(is_live(h, &find));
	assert_int_equal(h->doubts.count, 0);
}

/* A thread uses the middle of it; our own calls come back by themselves. */
static void test_certainly_over(void **state)
{
	struct host *h = *state;
	struct search_find find = find_at(h, LOW_AT - 100, LOW_AT + 3000);
	struct search_find ours = find_at(h, FRAME_AT, FRAME_END_AT);

	ours.is_remote = true;
	assert_false(is_live(h, &find));
	assert_false(is_live(h, &ours));
	assert_int_equal(h->doubts.count, 0);
}

/* ---- Settled ------------------------------------------------------------------------------- */

static void test_nobody_refers(void **state)
{
	assert_false(is_live_settled(*state));
}

static void test_somebody_refers(void **state)
{
	static const int64_t points_to[] = {-REACH, -8, 0, FRAME_END_AT - FRAME_AT - 1};
	struct host *h = *state;

	for (size_t i = 0; i < sizeof(points_to) / sizeof(*points_to); i++) {
		doubts_deinit(&h->doubts);
		put(h, 64, h->region + FRAME_AT + points_to[i]);
		assert_true(is_live_settled(h));
	}
}

static void test_points_elsewhere(void **state)
{
	static const int64_t points_to[] = {-REACH - 1, FRAME_END_AT - FRAME_AT, LOW_AT - FRAME_AT};
	struct host *h = *state;

	for (size_t i = 0; i < sizeof(points_to) / sizeof(*points_to); i++)
		put(h, 64 + 8 * i, h->region + FRAME_AT + points_to[i]);
	assert_false(is_live_settled(h));
}

/* setjmp(3) of glibc stores pointers so. */
static void test_guarded(void **state)
{
	struct host *h = *state;
	uint64_t guard = 0x5a17c0ffee123400, word = (h->region + FRAME_AT) ^ guard;
	uint8_t shift = arch_process()->guard_shift;

	put(h, LOW_AT + 4096, shift ? word << shift | word >> (64 - shift) : word);
	h->doubts.guard = guard;
	assert_true(is_live_settled(h));
	doubts_deinit(&h->doubts);
	h->doubts.guard = guard ^ UINT64_C(1) << 40;
	assert_false(is_live_settled(h));
}

/* Frames hold pointers to each other: those in it, and in the handler's stack, do not count. */
static void test_its_own_pointers(void **state)
{
	struct host *h = *state;
	uint64_t frame = h->region + FRAME_AT;

	put(h, FRAME_AT - HANDLER, frame);
	put(h, FRAME_AT - 8, frame);
	put(h, FRAME_AT + 8, frame + 64);
	put(h, FRAME_END_AT - 8, frame);
	assert_false(is_live_settled(h));
	doubts_deinit(&h->doubts);
	put(h, FRAME_AT - HANDLER - 8, frame);
	assert_true(is_live_settled(h));
	put(h, FRAME_AT - HANDLER - 8, 0);
	doubts_deinit(&h->doubts);
	put(h, FRAME_END_AT, frame);
	assert_true(is_live_settled(h));
}

/* Several at once; what is known stays, and what comes later is a doubt of its own. */
static void test_several(void **state)
{
	enum { OTHER_AT = 200 << 10 };
	struct host *h = *state;
	struct search_find held = find_at(h, OTHER_AT, OTHER_AT + 3000);
	struct search_find over = find_at(h, FRAME_AT, FRAME_END_AT), later = over;
	bool settled;

	put(h, 64, held.frame);
	assert_true(is_live(h, &held));
	assert_true(is_live(h, &over));
	assert_int_equal(h->doubts.count, 2);
	no_error(doubts_settle(&h->doubts, &h->search, &settled));
	assert_true(settled);
	assert_true(is_live(h, &held));
	assert_false(is_live(h, &over));
	no_error(doubts_settle(&h->doubts, &h->search, &settled));
	assert_false(settled);
	later.word++;
	assert_true(is_live(h, &later));
	assert_int_equal(h->doubts.count, 3);
	no_error(doubts_settle(&h->doubts, &h->search, &settled));
	assert_true(settled);
	assert_false(is_live(h, &later));
	assert_true(is_live(h, &held));
}

/* A search that was not complete proves nothing. */
static void test_unknown(void **state)
{
	struct host *h = *state;

	close(h->search.pagemap);
	h->search.mem = h->search.pagemap = -1; /* there is memory that only these could tell of */
	h->search.pid = h->child;
	assert_true(is_live_settled(h));
}

/* Searches are not made for ever. */
static void test_gives_up(void **state)
{
	struct host *h = *state;
	bool settled = true;
	int searches = 0;

	for (uint64_t i = 0; settled && i < 100; i++) {
		struct search_find find = find_at(h, FRAME_AT, FRAME_END_AT);

		find.word += i;
		assert_true(is_live(h, &find));
		no_error(doubts_settle(&h->doubts, &h->search, &settled));
		assert_int_equal(is_live(h, &find), !settled);
		searches += settled;
	}
	assert_false(settled);
	assert_true(searches > 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_no_doubt),
		TEST(test_foreign_stack),
		TEST(test_certainly_over),
		TEST(test_nobody_refers),
		TEST(test_somebody_refers),
		TEST(test_points_elsewhere),
		TEST(test_guarded),
		TEST(test_its_own_pointers),
		TEST(test_several),
		TEST(test_unknown),
		TEST(test_gives_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
