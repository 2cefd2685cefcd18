/* SPDX-License-Identifier: MIT */
/* Changing many places of memory at once, and semaphores: in this process's own memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"

enum { PAGE = 65536 /* or a whole number of smaller ones */, PAGES = 8 };

struct host {
	uint8_t *memory; /* read-only for us, like code; the page after it is not mapped */
	int mem;
	struct edits edits;
	struct semaphores semaphores;
};

static void no_error(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

static int setup(void **state)
{
	struct host *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	h->memory = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(h->memory, MAP_FAILED);
	memset(h->memory, 0x90, PAGES * PAGE);
	mprotect(h->memory, PAGES * PAGE, PROT_READ);
	munmap(h->memory + PAGES * PAGE, PAGE);
	no_error(memory_open(getpid(), &h->mem));
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct host *h = *state;

	edits_deinit(&h->edits);
	semaphores_deinit(&h->semaphores);
	munmap(h->memory, PAGES * PAGE);
	close(h->mem);
	free(h);
	return 0;
}

static uint64_t at(const struct host *h, size_t offset)
{
	return (uintptr_t)h->memory + offset;
}

static void add_write(struct host *h, size_t offset, uint8_t byte, size_t length)
{
	struct edit *edit = edits_add(&h->edits, at(h, offset), length);

	assert_non_null(edit);
	memset(edit->bytes, byte, length);
	edit->is_write = true;
}

/* ---- Edits --------------------------------------------------------------------------- */

static void test_nothing(void **state)
{
	struct host *h = *state;

	no_error(edits_prepare(&h->edits));
	no_error(edits_read(&h->edits, getpid()));
	no_error(edits_pretouch(&h->edits, h->mem));
	no_error(edits_write(&h->edits, h->mem));
	edits_revert(&h->edits, h->mem);
}

/* Thousands of places in random order, dense and sparse, some across pages, some read-only. */
static void test_many(void **state)
{
	enum { COUNT = PAGES * PAGE / 8 - 1 };
	struct host *h = *state;
	static uint8_t wanted[PAGES * PAGE];

	memset(wanted, 0x90, sizeof(wanted));
	for (size_t i = 0; i < COUNT; i++) {
		size_t k = i * 1009 % COUNT, offset = 8 * k + 5;

		if (k % 7 == 0) {
			assert_non_null(edits_add(&h->edits, at(h, offset), 5));
			continue;
		}
		add_write(h, offset, (uint8_t)k, 5);
		memset(wanted + offset, (uint8_t)k, 5);
	}
	no_error(edits_prepare(&h->edits));
	assert_int_equal(h->edits.span_count, PAGES * PAGE / 4096); /* read in pieces */
	no_error(edits_read(&h->edits, getpid()));
	for (size_t i = 0; i < COUNT; i++)
		assert_memory_equal(edits_found(&h->edits, i), "\x90\x90\x90\x90\x90", 5);
	no_error(edits_pretouch(&h->edits, h->mem));
	assert_int_equal(h->memory[5], 0x90);
	no_error(edits_write(&h->edits, h->mem));
	assert_memory_equal(h->memory, wanted, sizeof(wanted));
	edits_revert(&h->edits, h->mem);
	memset(wanted, 0x90, sizeof(wanted));
	assert_memory_equal(h->memory, wanted, sizeof(wanted));
}

/* What was examined need not be again as long as it is there, and the same. */
static void test_noted(void **state)
{
	struct host *h = *state;

	assert_non_null(edits_add(&h->edits, at(h, 100), 5));
	add_write(h, PAGE + 7, 1, 3);
	no_error(edits_prepare(&h->edits));
	assert_false(edits_are_as_noted(&h->edits));
	no_error(edits_read(&h->edits, getpid()));
	assert_false(edits_are_as_noted(&h->edits));
	no_error(edits_note(&h->edits));
	no_error(edits_read(&h->edits, getpid()));
	assert_true(edits_are_as_noted(&h->edits));
	no_error(edits_write(&h->edits, h->mem));
	no_error(edits_read(&h->edits, getpid()));
	assert_false(edits_are_as_noted(&h->edits));
	no_error(edits_note(&h->edits));
	assert_true(edits_are_as_noted(&h->edits));
	munmap(h->memory + PAGE, PAGE);
	no_error(edits_read(&h->edits, getpid()));
	assert_false(edits_are_as_noted(&h->edits));
	no_error(edits_note(&h->edits)); /* something is missing: nothing is noted */
	assert_false(edits_are_as_noted(&h->edits));
}

/* Only adjacent places are written together: bytes in between are not ours. */
static void test_gaps(void **state)
{
	struct host *h = *state;

	add_write(h, 100, 1, 2);
	add_write(h, 102, 2, 2); /* adjacent */
	add_write(h, 108, 3, 2);
	/* Read as one piece, like a place that is checked and one that is written. */
	assert_non_null(edits_add(&h->edits, at(h, 100), 8));
	no_error(edits_prepare(&h->edits));
	assert_int_equal(h->edits.span_count, 1);
	no_error(edits_read(&h->edits, getpid()));
	/* Another tool writes in between: its bytes stay, even after reverting. */
	no_error(memory_write_code(h->mem, at(h, 104), "xyz", 3));
	no_error(edits_write(&h->edits, h->mem));
	assert_memory_equal(h->memory + 100, "\1\1\2\2xyz\x90\3\3", 10);
	no_error(memory_write_code(h->mem, at(h, 105), "Y", 1));
	edits_revert(&h->edits, h->mem);
	assert_memory_equal(h->memory + 100, "\x90\x90\x90\x90xYz\x90\x90\x90", 10);
}

/* Single edits may be withdrawn after reading. */
static void test_taken_back(void **state)
{
	struct host *h = *state;

	add_write(h, 10, 1, 4);
	add_write(h, 20, 2, 4);
	add_write(h, 30, 3, 4);
	no_error(edits_prepare(&h->edits));
	no_error(edits_read(&h->edits, getpid()));
	h->edits.items[1].is_write = false;
	no_error(edits_write(&h->edits, h->mem));
	assert_int_equal(h->memory[13], 1);
	assert_int_equal(h->memory[20], 0x90);
	assert_int_equal(h->memory[30], 3);
}

/* A library was unloaded: its places are skipped, the others are written. */
static void test_unreadable(void **state)
{
	struct host *h = *state;

	add_write(h, 10, 1, 4);
	add_write(h, PAGES * PAGE + 10, 2, 4);
	assert_non_null(edits_add(&h->edits, 8, 4));
	assert_non_null(edits_add(&h->edits, UINT64_MAX - 2, 4));
	no_error(edits_prepare(&h->edits));
	no_error(edits_read(&h->edits, getpid()));
	assert_non_null(edits_found(&h->edits, 0));
	assert_null(edits_found(&h->edits, 1));
	assert_null(edits_found(&h->edits, 2));
	assert_null(edits_found(&h->edits, 3));
	no_error(edits_pretouch(&h->edits, h->mem));
	no_error(edits_write(&h->edits, h->mem));
	assert_int_equal(h->memory[10], 1);
}

/* A failing write undoes those before it. */
static void test_all_or_nothing(void **state)
{
	struct host *h = *state;

	add_write(h, 10, 1, 4);
	add_write(h, 2 * PAGE, 2, 4);
	add_write(h, 5 * PAGE, 3, 4);
	no_error(edits_prepare(&h->edits));
	no_error(edits_read(&h->edits, getpid()));
	munmap(h->memory + 5 * PAGE, PAGE);
	assert_non_null(h->edits.spans);
	{
		struct probe_error *error = edits_write(&h->edits, h->mem);

		assert_non_null(error);
		probe_error_free(error);
	}
	assert_int_equal(h->memory[10], 0x90);
	assert_int_equal(h->memory[2 * PAGE], 0x90);
}

static void test_gone(void **state)
{
	struct host *h = *state;
	struct probe_error *error;

	add_write(h, 10, 1, 4);
	no_error(edits_prepare(&h->edits));
	error = edits_read(&h->edits, 0x7fffffff); /* no process has this id */
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	probe_error_free(error);
}

/* ---- Semaphores ------------------------------------------------------------------------ */

static void put_u16(struct host *h, size_t offset, uint16_t value)
{
	no_error(memory_write_code(h->mem, at(h, offset), &value, sizeof(value)));
}

static uint16_t get_u16(const struct host *h, size_t offset)
{
	uint16_t value;

	memcpy(&value, h->memory + offset, sizeof(value));
	return value;
}

static void change(struct host *h, size_t offset, int by)
{
	assert_true(semaphores_add(&h->semaphores, at(h, offset), 0, by));
}

static void apply(struct host *h)
{
	no_error(semaphores_prepare(&h->semaphores));
	no_error(semaphores_read(&h->semaphores, getpid()));
	no_error(edits_write(&h->semaphores.edits, h->mem));
	semaphores_deinit(&h->semaphores);
}

static void test_semaphores(void **state)
{
	struct host *h = *state;

	put_u16(h, 0, 0);
	put_u16(h, 2, 7);
	put_u16(h, 4, 1);
	put_u16(h, 6, 3);
	put_u16(h, 8, 9);
	change(h, 6, -5); /* another tool has lowered it: not below 0 */
	change(h, 0, 1);
	change(h, 2, 1);
	change(h, 0, 1); /* shared by two probes */
	change(h, 4, -1);
	change(h, 8, 0); /* --force */
	apply(h);
	assert_int_equal(get_u16(h, 0), 2);
	assert_int_equal(get_u16(h, 2), 8);
	assert_int_equal(get_u16(h, 4), 0);
	assert_int_equal(get_u16(h, 6), 0);
	assert_int_equal(get_u16(h, 8), 0);
	assert_int_equal(get_u16(h, 10), 0x9090);
}

static void test_semaphore_overflow(void **state)
{
	struct host *h = *state;
	struct probe_error *error;

	put_u16(h, 0, 4);
	put_u16(h, 2, UINT16_MAX - 1);
	change(h, 0, 1);
	change(h, 2, 1);
	apply(h);
	assert_int_equal(get_u16(h, 2), UINT16_MAX);
	change(h, 0, 1);
	change(h, 2, 1);
	no_error(semaphores_prepare(&h->semaphores));
	error = semaphores_read(&h->semaphores, getpid());
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	assert_non_null(strstr(error->message, "already at its maximum"));
	probe_error_free(error);
	assert_int_equal(get_u16(h, 0), 5);
}

static void test_semaphore_without_memory(void **state)
{
	struct host *h = *state;
	struct probe_error *error;

	put_u16(h, 0, 4);
	change(h, 0, -1);
	change(h, PAGES * PAGE, -1); /* its library was unloaded */
	apply(h);
	assert_int_equal(get_u16(h, 0), 3);
	change(h, PAGES * PAGE, 1);
	no_error(semaphores_prepare(&h->semaphores));
	error = semaphores_read(&h->semaphores, getpid());
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_FORMAT);
	assert_non_null(strstr(error->message, "no semaphore at"));
	probe_error_free(error);
}

static void test_semaphores_of(void **state)
{
	static struct select_site sites[200];
	struct select_probe probe = {.provider = "p", .first_site = 1, .site_count = 199};
	struct selection selection = {.sites = sites, .site_count = 200};
	uint64_t addresses[199];

	(void)state;
	/* Many sites, few semaphores, some without one. */
	for (size_t i = 0; i < 200; i++)
		sites[i].semaphore = i % 5 ? 0x1000 - 2 * (i % 7) : 0;
	sites[0].semaphore = 1;
	assert_int_equal(semaphores_of(&selection, &probe, false, addresses), 7);
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(addresses[i], 0x1000 - 12 + 2 * i);
	assert_int_equal(semaphores_of(&selection, &probe, true, addresses), 0);
	/* The count of OCaml's handlers follows the one that tracers raise. */
	probe.kind = sdt_kind_of("ocaml_1", "x");
	assert_int_equal(semaphores_of(&selection, &probe, false, addresses), 7);
	assert_int_equal(addresses[0], 0x1000 - 12);
	assert_int_equal(semaphores_of(&selection, &probe, true, addresses), 7);
	assert_int_equal(addresses[0], 0x1000 - 12 + 2);
	/* The first version has only one, of handlers. */
	probe.kind = sdt_kind_of("ocaml", "x");
	assert_int_equal(semaphores_of(&selection, &probe, false, addresses), 0);
	assert_int_equal(semaphores_of(&selection, &probe, true, addresses), 7);
	assert_int_equal(addresses[0], 0x1000 - 12);
	assert_int_equal(semaphore_offset(sdt_kind_of("ocaml.1", "x")), 2);
	assert_int_equal(semaphore_offset(sdt_kind_of("ocaml_2", "x")), 2);
	assert_int_equal(semaphore_offset(sdt_kind_of("ocaml_3", "x")), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_nothing),
		TEST(test_many),
		TEST(test_noted),
		TEST(test_gaps),
		TEST(test_taken_back),
		TEST(test_unreadable),
		TEST(test_all_or_nothing),
		TEST(test_gone),
		TEST(test_semaphores),
		TEST(test_semaphore_overflow),
		TEST(test_semaphore_without_memory),
		cmocka_unit_test(test_semaphores_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
