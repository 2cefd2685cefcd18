/* SPDX-License-Identifier: MIT */
/*
 * A target that uses what probectl shares with it against probectl.
 *
 *	hostile scribble SEED   writes random bytes all over the shared memory
 *	hostile fill BYTE       the same byte, everywhere, repeatedly
 *	hostile cut             keeps the memory's descriptor, and truncates the file
 *	hostile swap FILE       replaces the descriptor by another file
 *	hostile registry SEED   overwrites what controllers store for each other
 *	hostile named COUNT     has mappings of its own that are named as ours are, untouched
 *
 * In all modes but the last, one thread does so as soon and as often as it can; the main thread
 * passes hostile:tick and hostile:tock.
 * Prints "ready PID"; a line stops both, and is answered by "did N", the number of times it
 * found something to do. Another line ends it. Of descriptors, standard error tells the first time.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>

#include "../target.h"

enum { FILLED_BYTES_MAX = 8 << 20 };

static const char shared_name[] = "/memfd:probectl";

struct hostile {
	const char *mode, *argument;
	uint64_t random;
	int victim, mem; /* descriptors: `mem` is this process's memory */
	_Atomic bool over;
	_Atomic unsigned long did;
};

static uint64_t next_random(struct hostile *h)
{
	h->random ^= h->random << 13;
	h->random ^= h->random >> 7;
	h->random ^= h->random << 17;
	return h->random;
}

/* ---- What is mapped ------------------------------------------------------------------- */

/* Through the kernel, which also writes read-only memory, and tolerates unmapped memory. */
static void put(struct hostile *h, uint64_t at, const void *bytes, size_t size)
{
	h->did += pwrite(h->mem, bytes, size, (off_t)at) > 0;
}

/* Random words at random places, small and large ones: rings depend on both. */
static void scribble(struct hostile *h, uint64_t at, size_t size)
{
	for (int i = 0; i < 4096; i++) {
		uint64_t word = next_random(h) >> (next_random(h) & 63);
		uint64_t place = next_random(h) >> (next_random(h) & 63);

		put(h, at + place % (size - 7), &word, sizeof(word));
	}
}

static void fill(struct hostile *h, uint64_t at, size_t size)
{
	uint8_t bytes[65536];

	memset(bytes, atoi(h->argument), sizeof(bytes));
	for (size_t done = 0; done < size && done < FILLED_BYTES_MAX; done += sizeof(bytes))
		put(h, at + done, bytes, size - done < sizeof(bytes) ? size - done : sizeof(bytes));
}

/* The registry: after its magic number, version and size; now and then these, too. */
static void write_registry(struct hostile *h, uint64_t at)
{
	uint64_t home[2];

	if (pread(h->mem, home, sizeof(home), (off_t)at) != sizeof(home) ||
		memcmp(home, "prbhome1", 8) != 0)
		return;
	for (int i = 0; i < 8; i++) {
		uint64_t word = next_random(h) >> (next_random(h) & 63);
		uint64_t place = next_random(h) % 512;

		if (place >= 40 || next_random(h) % 16 == 0)
			put(h, home[1] + place, &word, sizeof(word));
	}
}

static void visit_maps(struct hostile *h)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512], permissions[8];
	uint64_t start, end;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, permissions) != 3)
			continue;
		if (!strcmp(h->mode, "registry")) {
			if (!strcmp(permissions, "r-xp"))
				write_registry(h, start);
		} else if (strstr(line, shared_name) && !strcmp(permissions, "rw-s")) {
			if (!strcmp(h->mode, "fill"))
				fill(h, start, end - start);
			else
				scribble(h, start, end - start);
		}
	}
	if (file)
		fclose(file);
}

/* ---- The descriptor ------------------------------------------------------------------- */

static void visit_descriptor(struct hostile *h, int fd)
{
	char path[64], name[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) < 0 ||
		strncmp(name, shared_name, strlen(shared_name)) != 0)
		return;
	if (!strcmp(h->mode, "swap")) {
		h->did += dup2(h->victim, fd) == fd;
	} else if (h->victim < 0) {
		h->victim = fcntl(fd, F_DUPFD_CLOEXEC, 100);
		h->did += h->victim >= 0;
	}
}

static void visit_descriptors(struct hostile *h)
{
	for (int fd = 3; fd < 16; fd++)
		if (fd != h->victim)
			visit_descriptor(h, fd);
	/* Processes that have it mapped get SIGBUS, unless the size is sealed. */
	if (!strcmp(h->mode, "cut") && h->victim >= 0 && ftruncate(h->victim, 0) == 0)
		h->did++;
}

static void *misbehave(void *data)
{
	struct hostile *h = data;
	bool told = false;

	while (!h->over && strcmp(h->mode, "named") != 0) {
		if (!strcmp(h->mode, "swap") || !strcmp(h->mode, "cut")) {
			visit_descriptors(h);
			if (h->did && !told)
				fputs("did something\n", stderr);
			told = h->did;
		} else {
			visit_maps(h);
		}
	}
	return NULL;
}

/* ---- Mappings of its own ------------------------------------------------------------------ */

static bool map_named(int count)
{
	int fd = memfd_create("probectl", MFD_CLOEXEC);
	bool ok = fd >= 0 && ftruncate(fd, 1 << 16) == 0;

	for (int i = 0; i < count && ok; i++)
		ok = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED;
	if (fd >= 0)
		close(fd);
	return ok;
}

/* ---- The program ------------------------------------------------------------------------- */

static bool line_is_there(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) > 0;
}

int main(int argc, char **argv)
{
	struct hostile h = {.victim = -1};
	unsigned long ticks = 0;
	pthread_t thread;
	char line[64];

	if (argc < 2)
		return 2;
	h.mode = argv[1];
	h.argument = argc > 2 ? argv[2] : "1";
	h.random = strtoull(h.argument, NULL, 0) * 0x9e3779b97f4a7c15 | 1;
	if (!strcmp(h.mode, "swap")) {
		h.victim = open(h.argument, O_RDONLY | O_CLOEXEC);
		if (h.victim < 0)
			return 2;
	}
	if (!strcmp(h.mode, "named") && !map_named(atoi(h.argument)))
		return 2;
	h.mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (h.mem < 0)
		return 2;
	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (pthread_create(&thread, NULL, misbehave, &h))
		return 1;
	while (ticks % 1024 || !line_is_there()) {
		STAP_PROBE2(hostile, tick, ticks++, argv[0]);
		target_room_behind();
		STAP_PROBE1(hostile, tock, ticks);
		target_room_behind();
	}
	(void)target_read_line(line, sizeof(line));
	h.over = true;
	pthread_join(thread, NULL);
	printf("did %lu\n", (unsigned long)h.did);
	fflush(stdout);
	target_wait();
	return 0;
}
