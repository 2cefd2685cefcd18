/* SPDX-License-Identifier: MIT */
/*
 * A process that has kernel threads among its tasks: workers of io_uring.
 *
 *	workers FIFO [poll]
 *
 * A worker always has one operation in progress: it opens FIFO for reading, while nobody has it
 * open for writing. A signal or a stop would end it with an error. With `poll`, the kernel also has
 * a thread that takes operations from the ring (IORING_SETUP_SQPOLL). Commands, one per line:
 *
 *	hit N	passes the probe work N times; answers "passed N"
 *	open	opens the other end of FIFO; answers "opened" if the operation has got the file,
 *		or what it got; then the next operation begins
 *
 * The first line says how many workers there are, or "none: WHY".
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/syscall.h>

#include "../target.h"

enum { ENTRIES = 8, PATIENCE_MS = 10000 };

struct ring {
	int fd;
	uint32_t flags;
	uint8_t *memory;
	struct io_uring_params params;
	struct io_uring_sqe *operations;
};

static uint64_t passed;

__attribute__((noinline)) static uint64_t work(uint64_t number)
{
	STAP_PROBE1(workers, work, number);
	target_room_behind();
	return number * 7;
}

static void wait_ms(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static bool make_ring(struct ring *ring)
{
	size_t size;

	ring->params = (struct io_uring_params){.flags = ring->flags, .sq_thread_idle = 50};
	ring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &ring->params);
	if (ring->fd < 0)
		return false;
	size = ring->params.cq_off.cqes + ring->params.cq_entries * sizeof(struct io_uring_cqe);
	if (size < ring->params.sq_off.array + ENTRIES * sizeof(uint32_t))
		size = ring->params.sq_off.array + ENTRIES * sizeof(uint32_t);
	ring->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
		(off_t)IORING_OFF_SQ_RING);
	ring->operations = mmap(NULL, ENTRIES * sizeof(*ring->operations), PROT_READ | PROT_WRITE,
		MAP_SHARED, ring->fd, (off_t)IORING_OFF_SQES);
	return ring->params.features & IORING_FEAT_SINGLE_MMAP && ring->memory != MAP_FAILED &&
	       ring->operations != MAP_FAILED;
}

static uint32_t *word(const struct ring *ring, uint32_t offset)
{
	return (uint32_t *)(ring->memory + offset);
}

/* Starts an operation that opens a file in a worker. */
static void begin(struct ring *ring, const char *path)
{
	uint32_t *tail = word(ring, ring->params.sq_off.tail);
	uint32_t at = *tail & *word(ring, ring->params.sq_off.ring_mask);

	ring->operations[at] = (struct io_uring_sqe){.opcode = IORING_OP_OPENAT,
		.flags = IOSQE_ASYNC,
		.fd = AT_FDCWD,
		.addr = (uintptr_t)path,
		.open_flags = O_RDONLY | O_CLOEXEC};
	word(ring, ring->params.sq_off.array)[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring->fd, ring->flags ? 0 : 1, 0,
		ring->flags ? IORING_ENTER_SQ_WAKEUP : 0, NULL, 0);
}

/* Returns true and the result if the operation is over. */
static bool is_over(const struct ring *ring, int *result_ret)
{
	const struct io_uring_cqe *ends = (const void *)(ring->memory + ring->params.cq_off.cqes);
	uint32_t *head = word(ring, ring->params.cq_off.head);

	if (*head == __atomic_load_n(word(ring, ring->params.cq_off.tail), __ATOMIC_ACQUIRE))
		return false;
	*result_ret = ends[*head & *word(ring, ring->params.cq_off.ring_mask)].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return true;
}

static int count_tasks(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	while (tasks && readdir(tasks))
		count++;
	if (tasks)
		closedir(tasks);
	return count - 2; /* "." and ".." */
}

static int count_workers(int wanted)
{
	for (int i = 0; i < PATIENCE_MS && count_tasks() - 1 < wanted; i++)
		wait_ms();
	return count_tasks() - 1;
}

static void open_other_end(struct ring *ring, const char *path)
{
	int other = -1, result = 0;
	bool over = is_over(ring, &result);

	/* While no reader has the FIFO open, this open fails. */
	for (int i = 0; i < PATIENCE_MS && !over && other < 0; i++) {
		other = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		over = is_over(ring, &result);
		wait_ms();
	}
	for (int i = 0; i < PATIENCE_MS && !over; i++) {
		wait_ms();
		over = is_over(ring, &result);
	}
	if (over && result >= 0 && other >= 0)
		puts("opened");
	else
		printf("%s %d\n", over ? "got" : "never over", result);
	close(other);
	if (over && result >= 0)
		close(result);
	begin(ring, path);
}

int main(int argc, char **argv)
{
	bool polls = argc > 2 && strcmp(argv[2], "poll") == 0;
	struct ring ring = {.flags = polls ? IORING_SETUP_SQPOLL : 0};
	char line[64];

	target_allow_tracing();
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2 || !make_ring(&ring)) {
		printf("none: %s\n", strerror(errno));
		return 0;
	}
	begin(&ring, argv[1]);
	printf("%d\n", count_workers(polls ? 2 : 1));
	while (target_read_line(line, sizeof(line))) {
		unsigned long count = strncmp(line, "hit ", 4) ? 0 : strtoul(line + 4, NULL, 10);

		for (unsigned long i = 0; i < count; i++)
			passed += work(i) == i * 7;
		if (count)
			printf("passed %lu\n", (unsigned long)passed);
		else
			open_other_end(&ring, argv[1]);
		passed = 0;
	}
	return 0;
}
