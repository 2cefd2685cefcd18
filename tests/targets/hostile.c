/* SPDX-License-Identifier: MIT */
/*
 * A target that turns what probectl shares with it against probectl.
 *
 *	hostile scribble SEED   writes random bytes all over the shared memory
 *	hostile fill BYTE       the same byte, everywhere, again and again
 *	hostile cut             keeps the memory's descriptor, and cuts the file short
 *	hostile swap FILE       puts another file in the place of the descriptor
 *	hostile registry SEED   makes the patched code writable, and scribbles there
 *
 * One thread does so as soon and as often as it can; the main thread passes
 * hostile:tick, which scribbling code must not lead elsewhere: with `registry`
 * it does not. Prints "ready PID"; a line makes the thread stop, and is
 * answered by "did N", how often it found something to do. Another line ends.
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

#include "target.h"

enum { PAGE = 4096, HOME_BYTES = 16, SHARED_BYTES_MAX = 8 << 20 };

static const char shared_name[] = "/memfd:probectl";

struct hostile {
	const char *mode, *argument;
	uint64_t random;
	int victim;
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

/* Random words at random places, small and large ones: rings look at both. */
static void scribble(struct hostile *h, uint8_t *at, size_t size)
{
	for (int i = 0; i < 4096; i++) {
		uint64_t word = next_random(h) >> (next_random(h) & 63);
		uint64_t place = next_random(h) >> (next_random(h) & 63);

		memcpy(at + (place % (size - 7)), &word, sizeof(word));
	}
}

static void write_shared(struct hostile *h, uint8_t *at, size_t size)
{
	if (!strcmp(h->mode, "fill"))
		memset(at, atoi(h->argument), size < SHARED_BYTES_MAX ? size : SHARED_BYTES_MAX);
	else
		scribble(h, at, size);
	h->did++;
}

/* The registry is code memory of ours, anonymous and executable: only its data is written. */
static void write_registry(struct hostile *h, uint8_t *at)
{
	uint64_t image;

	memcpy(&image, at + 8, sizeof(image));
	if (memcmp(at, "prbhome1", 8) || image < (uintptr_t)at ||
		image - (uintptr_t)at > (1 << 18) - 4096)
		return;
	if (mprotect(at, 1 << 18, PROT_READ | PROT_WRITE | PROT_EXEC))
		return;
	/* Behind the header's magic, version and size; now and then these, too. */
	for (int i = 0; i < 8; i++) {
		uint64_t word = next_random(h) >> (next_random(h) & 63);
		uint64_t place = next_random(h) % 512;

		if (place >= 40 || next_random(h) % 16 == 0)
			memcpy((uint8_t *)(uintptr_t)image + place, &word, sizeof(word));
	}
	mprotect(at, 1 << 18, PROT_READ | PROT_EXEC);
	h->did++;
}

static void visit_maps(struct hostile *h)
{
	FILE *file = fopen("/proc/self/maps", "re");
	bool registry = !strcmp(h->mode, "registry");
	char line[512], permissions[8];
	uint64_t start, end;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, permissions) != 3)
			continue;
		if (!registry && strstr(line, shared_name))
			write_shared(h, (uint8_t *)(uintptr_t)start, end - start);
		else if (registry && !strcmp(permissions, "r-xp") && !strchr(line, '/') &&
			 !strchr(line, '[') && end - start >= 1 << 18)
			write_registry(h, (uint8_t *)(uintptr_t)start);
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
	/* Those who have it mapped get SIGBUS, unless something forbids it. */
	if (!strcmp(h->mode, "cut") && h->victim >= 0 && ftruncate(h->victim, 0) == 0)
		h->did++;
}

static void *misbehave(void *data)
{
	struct hostile *h = data;

	while (!h->over) {
		if (!strcmp(h->mode, "swap") || !strcmp(h->mode, "cut"))
			visit_descriptors(h);
		else
			visit_maps(h);
	}
	return NULL;
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
	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (pthread_create(&thread, NULL, misbehave, &h))
		return 1;
	while (ticks % 1024 || !line_is_there())
		STAP_PROBE2(hostile, tick, ticks++, argv[0]);
	h.over = true;
	pthread_join(thread, NULL);
	printf("did %lu\n", (unsigned long)h.did);
	fflush(stdout);
	target_wait();
	return 0;
}
