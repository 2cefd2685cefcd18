/* SPDX-License-Identifier: MIT */
/* Reads and writes of this process's own memory, some of whose pages a program provides. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/page.h"
#include "libprobe/process/process.h"
#include "tests/unit/skip.h"
#include "tests/unit/wait.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_MINOR_SHMEM
#define UFFD_FEATURE_MINOR_SHMEM (1 << 10)
#define UFFDIO_REGISTER_MODE_MINOR ((uint64_t)1 << 2)
#endif

enum { PAGES = 4 };

static void no_error(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

/* Returns a userfaultfd(2) with these features; skips the test if there is none. */
static int open_faults(uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	/* For an unprivileged user, a fault in the kernel fails where it would wait. */
	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0)
		skip_because("this kernel, or a sandbox, lacks such page faults");
	return fd;
}

static void register_range(int fd, const uint8_t *memory, uint64_t mode)
{
	struct uffdio_register range = {
		.range = {(uintptr_t)memory, PAGES * page_bytes()}, .mode = mode};

	assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &range), 0);
}

static uint8_t *map(int flags, int fd)
{
	void *memory = mmap(
		NULL, PAGES * page_bytes(), PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

/* Tries every way to read; only the first page of `memory` is present. */
static void check_reads(const uint8_t *memory)
{
	const size_t page = page_bytes(), all = PAGES * page;
	uint64_t address = (uintptr_t)memory;
	uint8_t *buffer = malloc(all);
	struct memory_piece pieces[] = {{address, buffer, 8}, {address + 2 * page - 4, buffer, 8}};
	struct probe_error *error;
	int mem;

	assert_non_null(buffer);
	no_error(memory_open(getpid(), &mem));
	assert_int_equal(memory_read(getpid(), address, buffer, all), page);
	assert_int_equal(memory_read(getpid(), address + page - 4, buffer, 8), 4);
	assert_int_equal(memory_read(getpid(), address + page, buffer, 8), 0);
	assert_int_equal(memory_read_forced(getpid(), mem, address, buffer, all), page);
	assert_int_equal(memory_read_forced(getpid(), mem, address + page, buffer, 8), 0);
	no_error(memory_read_all(getpid(), address, buffer, page));
	error = memory_read_all(getpid(), address, buffer, page + 1);
	assert_int_equal(error->code, PROBE_ERROR_FORMAT);
	probe_error_free(error);
	no_error(memory_read_pieces(getpid(), pieces, 1));
	error = memory_read_pieces(getpid(), pieces, 2);
	assert_int_equal(error->code, PROBE_ERROR_FORMAT);
	probe_error_free(error);
	close(mem);
	free(buffer);
}

static void missing_pages(void **state)
{
	int fd = open_faults(0);
	uint8_t *memory = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);

	(void)state;
	memory[0] = 1;
	register_range(fd, memory, UFFDIO_REGISTER_MODE_MISSING);
	check_reads(memory);
	munmap(memory, PAGES * page_bytes());
	close(fd);
}

static void minor_pages(void **state)
{
	int fd = open_faults(UFFD_FEATURE_MINOR_SHMEM), file = memfd_create("served", MFD_CLOEXEC);
	uint8_t *other, *memory;
	volatile uint8_t first;

	(void)state;
	assert_int_equal(ftruncate(file, PAGES * (off_t)page_bytes()), 0);
	other = map(MAP_SHARED, file);
	memset(other, 1, PAGES * page_bytes());
	memory = map(MAP_SHARED, file);
	madvise(memory, PAGES * page_bytes(), MADV_RANDOM);
	first = memory[0];
	madvise(memory + page_bytes(), (PAGES - 1) * page_bytes(), MADV_DONTNEED);
	register_range(fd, memory, UFFDIO_REGISTER_MODE_MINOR);
	check_reads(memory);
	(void)first;
	munmap(memory, PAGES * page_bytes());
	munmap(other, PAGES * page_bytes());
	close(file);
	close(fd);
}

/* Missing pages that the kernel itself provides. */
static void plain_pages(void **state)
{
	uint8_t *memory = map(MAP_PRIVATE | MAP_ANONYMOUS, -1), *buffer;
	const size_t all = PAGES * page_bytes();

	(void)state;
	buffer = malloc(all);
	assert_non_null(buffer);
	assert_int_equal(memory_read(getpid(), (uintptr_t)memory, buffer, all), all);
	munmap(memory, all);
	assert_int_equal(memory_read(getpid(), (uintptr_t)memory, buffer, all), 0);
	free(buffer);
}

static void protected_pages(void **state)
{
	int fd = open_faults(UFFD_FEATURE_PAGEFAULT_FLAG_WP);
	uint8_t *memory = map(MAP_PRIVATE | MAP_ANONYMOUS, -1), byte;
	struct uffdio_writeprotect protect = {.range = {(uintptr_t)memory, PAGES * page_bytes()},
		.mode = UFFDIO_WRITEPROTECT_MODE_WP};
	struct edits edits = {0};
	struct probe_error *error;

	(void)state;
	memset(memory, 1, PAGES * page_bytes());
	register_range(fd, memory, UFFDIO_REGISTER_MODE_WP);
	assert_int_equal(ioctl(fd, UFFDIO_WRITEPROTECT, &protect), 0);
	assert_int_equal(memory_read(getpid(), (uintptr_t)memory, &byte, 1), 1);
	*edits_add(&edits, (uintptr_t)memory + 8, 1) =
		(struct edit){.address = (uintptr_t)memory + 8, .length = 1, .is_write = true};
	no_error(edits_prepare(&edits));
	error = edits_read(&edits, getpid());
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	assert_non_null(strstr(error->message, "userfaultfd"));
	probe_error_free(error);
	protect.mode = 0;
	assert_int_equal(ioctl(fd, UFFDIO_WRITEPROTECT, &protect), 0);
	no_error(edits_read(&edits, getpid()));
	edits_deinit(&edits);
	munmap(memory, PAGES * page_bytes());
	close(fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(missing_pages),
		cmocka_unit_test(minor_pages),
		cmocka_unit_test(plain_pages),
		cmocka_unit_test(protected_pages),
	};

	alarm(test_seconds()); /* a read that waits for this thread never ends */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
