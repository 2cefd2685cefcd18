/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/runtime/events/batch.h"

/* From Linux 5.1 on: no further mapping can write, and neither can write(2). */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/*
 * Creates a file in memory. Returns -1 and sets errno on an error. Never uses descriptors 0 to 2.
 * The pages are allocated at once: with vm.overcommit_memory=2, the program could otherwise get
 * SIGBUS when it names a probe.
 */
static int make_file(const char *name, size_t length)
{
	int low = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), fd, err;

	if (low < 0)
		return -1;
	fd = fcntl(low, F_DUPFD_CLOEXEC, 3);
	err = errno;
	close(low);
	errno = err;
	if (fd < 0 || fallocate(fd, 0, 0, (off_t)length) == 0)
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/* Only the existing mapping can write. */
static int seal(int fd)
{
	const int size = F_SEAL_SHRINK | F_SEAL_GROW;

	if (fcntl(fd, F_ADD_SEALS, size | F_SEAL_FUTURE_WRITE) != 0 &&
		fcntl(fd, F_ADD_SEALS, size) != 0)
		return -1;
	return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
}

/* Different in every file. */
static uint64_t make_id(const void *file)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) ^
	       (uint64_t)getpid() << 40 ^ (uintptr_t)file >> 12;
}

/* Maps code and data; NULL with errno. */
static uint8_t *map_probes(int fd, const struct image_layout *layout)
{
	uint8_t *base = mmap(NULL, layout->shared, PROT_READ, MAP_PRIVATE, fd, 0);
	int err;

	if (base == MAP_FAILED)
		return NULL;
	if (mmap(base + layout->code, layout->data - layout->code, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_FIXED, fd, (off_t)layout->code) != MAP_FAILED &&
		mmap(base + layout->data, layout->shared - layout->data, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_FIXED, fd, (off_t)layout->data) != MAP_FAILED)
		return base;
	err = errno;
	munmap(base, layout->shared);
	errno = err;
	return NULL;
}

static int fill(const struct arch_event *machine, int fd, struct batch *batch)
{
	const struct image_layout *layout = &batch->layout;
	uint8_t *file = mmap(NULL, layout->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int err;

	if (file == MAP_FAILED)
		return errno;
	image_make(machine, layout, make_id(file), file);
	if (seal(fd) == 0) {
		batch->base = map_probes(fd, layout);
		if (batch->base && munmap(file, layout->shared) == 0) {
			batch->shared = file + layout->shared;
			return 0;
		}
	}
	err = errno;
	if (batch->base)
		munmap(batch->base, layout->shared);
	munmap(file, layout->length);
	return err;
}

int batch_open(const struct arch_event *machine, uint32_t capacity, const char *provider,
	struct batch *ret)
{
	struct batch batch = {0};
	int fd, err;

	image_layout(machine, capacity, &batch.layout);
	fd = make_file(provider, batch.layout.length);
	if (fd < 0)
		return errno;
	err = fill(machine, fd, &batch);
	if (err)
		close(fd);
	else
		*ret = batch;
	return err;
}

bool batch_has_room(const struct batch *batch)
{
	return batch->count < batch->layout.capacity;
}

struct batch_probe batch_add(const struct arch_event *machine, struct batch *batch,
	const char *provider, const char *name)
{
	uintptr_t site = (uintptr_t)batch->base + image_site(&batch->layout, batch->count);
	struct batch_probe probe = {
		.semaphore = (const uint16_t *)(const void *)(batch->base +
							      image_semaphore(&batch->layout,
								      batch->count))};

	memcpy(&probe.site, &site, sizeof(site));
	image_add(machine, &batch->layout, batch->count, provider, name, batch->shared);
	batch->count++;
	return probe;
}
