/* SPDX-License-Identifier: MIT */
/* Words are found wherever a process can keep them; unreadable memory proves nothing. */
/* Not under ThreadSanitizer: its terabytes of memory are searched, and nothing has threads. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/process.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"
#include "tests/unit/victim.h"

enum { PAGE = 4096, KINDS = 13, UNTOUCHED = 256 << 20 };

/* An arbitrary value, computed so that this program contains no copy of it. */
static uint64_t place_of(uint64_t kind)
{
	volatile uint64_t high = 0x1234;

	return (high << 32) + 0x5000 + kind * 8;
}

static struct shared *shared;
static volatile uint64_t in_data[PAGE];

static uint64_t *map(size_t size, int sharing)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(3);
	return memory;
}

/* As the kernel saves a program counter: the mark of a frame follows it. */
static void put(volatile uint64_t *at, uint64_t kind)
{
	const struct arch_frame_layout *layout = arch_process()->layout;

	at[0] = place_of(kind);
	at[(layout->mark - layout->pc) / sizeof(*at)] = layout->mark_word;
}

/* Memory of a file whose pages the process drops. */
static void put_in_file(int fd, size_t size, size_t at, uint64_t kind)
{
	char *memory;

	if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
		_exit(3);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		_exit(3);
	put((uint64_t *)(memory + at), kind);
	if (madvise(memory, size, MADV_DONTNEED) != 0)
		_exit(3);
}

static int file_at(const char *folder)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/search.XXXXXX", folder);
	fd = mkstemp(path);
	unlink(path);
	return fd;
}

static void put_where_nobody_looks(void)
{
	uint64_t *dropped = map(PAGE * 20, MAP_SHARED);
	int fd = memfd_create("search", MFD_CLOEXEC);

	put(&dropped[3000], 8);
	if (madvise(dropped, PAGE * 20, MADV_DONTNEED) != 0)
		_exit(3);
	put_in_file(fd, UNTOUCHED, UNTOUCHED / 2 + 5, 9);
	/* Across the end of the file, in its last page. */
	fd = file_at("/dev/shm");
	put_in_file(fd, PAGE * 3 + 100, PAGE * 3 + 91, 10);
	close(fd);
	fd = file_at("/tmp");
	put_in_file(fd, PAGE * 300, PAGE * 299 + 7, 11);
	close(fd);
	put((uint64_t *)((char *)map(PAGE, MAP_PRIVATE) + 1003), 12);
}

/* A word in each kind of memory. */
static void holder_body(struct shared *s)
{
	uint64_t *on_heap = malloc(PAGE), *large = malloc(4 << 20),
		 *closed = map(PAGE, MAP_PRIVATE);
	uint64_t *many = map(64 << 20, MAP_PRIVATE), on_stack[64];

	put(&on_heap[7], 0);
	put(&large[100000], 1);
	put(&map(PAGE * 3, MAP_PRIVATE)[600], 2);
	put(&map(PAGE * 3, MAP_SHARED)[601], 3);
	put(&in_data[4000], 4);
	put(&on_stack[9], 5);
	put(&closed[508], 6);
	mprotect(closed, PAGE, PROT_NONE);
	/* Across the end of a block that is read at once. */
	put(&many[(33 << 20) / 8 - 1], 7);
	put_where_nobody_looks();
	/* A word alone is no context. */
	on_heap[40] = place_of(KINDS - 1) + 1;
	atomic_store(&s->ready, 1);
	for (;;)
		pause();
}

static bool has_word(const struct search *s, uint64_t word)
{
	for (size_t i = 0; i < s->find_count; i++)
		if (s->finds[i].word == word)
			return true;
	return false;
}

static bool has(const struct search *s, uint64_t kind)
{
	return has_word(s, place_of(kind));
}

static void add_places(struct places *places)
{
	assert_true(places_add(places, place_of(0), place_of(KINDS)));
	places_prepare(places);
}

static void test_kinds(void **state)
{
	struct places places = {0};
	struct search search;
	struct victim v;
	int mem;

	(void)state;
	victim_start(&v, holder_body);
	add_places(&places);
	assert_done(memory_open(v.pid, &mem));
	assert_done(search_open(v.pid, mem, &places, 0, &search));
	for (int i = 0; i < 2; i++) { /* what was found before is dropped */
		size_t count = search.find_count;

		assert_done(search_all(&search));
		assert_null(search.unknown);
		for (uint64_t kind = 0; kind < KINDS; kind++)
			if (!has(&search, kind))
				fail_msg("kind %d is not found", (int)kind);
		assert_false(has_word(&search, place_of(KINDS - 1) + 1));
		assert_true(i == 0 || search.find_count == count);
	}
	search_close(&search);
	close(mem);
	/* Memory that the process itself may not read, nor any other: not searched. */
	assert_done(search_open(v.pid, -1, &places, 0, &search));
	assert_done(search_all(&search));
	assert_string_equal(search.unknown, "some of its memory cannot be read");
	search_close(&search);
	places_deinit(&places);
	victim_end(&v);
}

/* Searching does not allocate memory that was never touched. */
static void sparse_body(struct shared *s)
{
	map(UNTOUCHED, MAP_PRIVATE)[UNTOUCHED / 16] = 1;
	map(UNTOUCHED, MAP_SHARED)[UNTOUCHED / 16] = 1;
	put_in_file(memfd_create("sparse", MFD_CLOEXEC), UNTOUCHED, UNTOUCHED / 2, 0);
	atomic_store(&s->ready, 1);
	for (;;)
		pause();
}

static void test_sparse(void **state)
{
	struct places places = {0};
	struct search search;
	struct victim v;
	long resident, tables;
	int mem;

	(void)state;
	victim_start(&v, sparse_body);
	add_places(&places);
	assert_done(memory_open(v.pid, &mem));
	assert_done(search_open(v.pid, mem, &places, 0, &search));
	tables = procfs_status_number(v.pid, "VmPTE:");
	resident = procfs_status_number(v.pid, "RssShmem:");
	assert_done(search_all(&search));
	assert_null(search.unknown);
	assert_true(search.bytes < UNTOUCHED / 2);
	assert_int_equal(procfs_status_number(v.pid, "VmPTE:"), tables);
	assert_int_equal(procfs_status_number(v.pid, "RssShmem:"), resident);
	search_close(&search);
	close(mem);
	places_deinit(&places);
	victim_end(&v);
}

/* ---- Contexts --------------------------------------------------------------------------- */

static void stay(int signal)
{
	atomic_store(&shared->ready, (uint64_t)signal);
	for (;;)
		pause();
}

static void alternate_body(struct shared *s)
{
	stack_t stack = {.ss_sp = map(1 << 20, MAP_PRIVATE) + PAGE, .ss_size = 1 << 16};
	struct sigaction action = {.sa_handler = stay, .sa_flags = SA_ONSTACK};

	shared = s;
	s->result = (int64_t)(uintptr_t)stack.ss_sp;
	if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
		_exit(3);
	atomic_store(&s->ready, 1);
	for (;;)
		pause();
}

/* In a mapping with an alternate stack, only that stack may contain contexts. */
static void test_alternate_stack(void **state)
{
	struct places places = {0};
	struct search search;
	struct victim v;
	bool found = false;
	uint64_t stack;
	int mem;

	(void)state;
	victim_start(&v, alternate_body);
	stack = (uint64_t)v.shared->result;
	assert_int_equal(kill(v.pid, SIGUSR1), 0);
	await(&v.shared->ready, SIGUSR1);
	add_places(&places);
	assert_done(memory_open(v.pid, &mem));
	assert_done(search_open(v.pid, mem, &places, 0, &search));
	assert_done(search_all(&search));
	assert_null(search.unknown);
	for (size_t i = 0; i < search.part_count; i++) {
		const struct search_part *part = &search.parts[i];

		found = found || part->start == stack;
		if (part->start <= stack && stack < part->end)
			assert_int_equal(part->end - part->start, 1 << 16);
	}
	assert_true(found);
	search_close(&search);
	close(mem);
	places_deinit(&places);
	victim_end(&v);
}

static void test_no_process(void **state)
{
	struct places places = {0};
	struct search search;
	struct probe_error *error = search_open(0x7fffffff, -1, &places, 0, &search);

	(void)state;
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	probe_error_free(error);
	search_close(&search);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_sparse),
		cmocka_unit_test(test_alternate_stack),
		cmocka_unit_test(test_no_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
