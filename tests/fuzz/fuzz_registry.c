/* SPDX-License-Identifier: MIT */
/*
 * The registry of a hostile target: data header, home page and image. This process plays the
 * target: its own memory is read, and it provides what stands for /proc/PID/maps.
 *
 *	byte 0    which magic numbers are corrected, and where the image is
 *	then      the image; its first bytes serve as data header and home page
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"
#include "tests/fuzz/require.h"

enum {
	PLACE_BYTES = 1 << 16,
	HOME_OFFSET = 4096,
	IMAGE_OFFSET = 8192,
	FIX_DATA = 1, /* the data's magic and its pointer to the home page */
	FIX_HOME = 2, /* the home page's magic and its pointer to the image */
	FIX_IMAGE = 4 /* the image's magic, version and size */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The header of a correct image without elements. */
struct model {
	uint8_t home[16], image[40];
	size_t size;
};

/* Lets the registry write itself into a file, to learn its magic numbers. */
static void model_init(struct model *model)
{
	struct registry empty = {.home = HOME_OFFSET, .next_session = 1};
	int fd = memfd_create("model", MFD_CLOEXEC);

	require(fd >= 0 && !ftruncate(fd, PLACE_BYTES), "no memory for the model");
	require(!registry_write(&empty, fd, IMAGE_OFFSET) &&
			!registry_publish(&empty, fd, IMAGE_OFFSET, registry_image_size(&empty)),
		"an empty registry was not written");
	require(pread(fd, model->home, sizeof(model->home), HOME_OFFSET) == sizeof(model->home) &&
			pread(fd, model->image, sizeof(model->image), IMAGE_OFFSET) ==
				sizeof(model->image),
		"an empty registry was not read");
	close(fd);
}

/* What a controller does with a registry that it has loaded. */
static void use(struct registry *r, uint64_t place)
{
	struct code_taken taken = {0};
	struct registry_names names;
	uint64_t code, total = 0;
	size_t count;
	int fd;

	require(registry_image_size(r) <= PLACE_BYTES + r->image_size, "it grew");
	for (size_t i = 0; i < r->probe_count; i++) {
		require(registry_probes(r, r->probes[i].key, &count) && count,
			"a probe is not found");
		total += registry_refcount(r, r->probes[i].key, i & 1);
		(void)registry_persistent(r, r->probes[i].key);
		require(registry_session(r, r->probes[i].session) != NULL, "no session");
		require(registry_probe(r, r->probes[i].key, r->probes[i].session) != NULL,
			"a probe is not its session's");
	}
	for (size_t i = 0; i < r->site_count; i++) {
		require(registry_site(r, r->sites[i].pc) != NULL, "a site is not found");
		(void)registry_stubs(r, r->sites[i].pc, &count);
	}
	require(!registry_names(r, &names), "no memory for the names");
	for (size_t i = 0; i < names.count; i++)
		require(*names.items[i].name && registry_names_find(&names, names.items[i].key),
			"a name is not found");
	registry_names_deinit(&names);
	require(!registry_add_names(r, NULL, 0), "no memory for the names");
	for (size_t i = 0; i < r->semaphore_count; i++)
		require(registry_semaphores(r, r->semaphores[i].key, &count) && count,
			"a semaphore is not found");
	for (size_t i = 0; i < r->session_count; i++)
		total += registry_is_dead(&r->sessions[i]);
	code = code_alloc(r, &taken, 64 + total % 64, 32, place, place + PLACE_BYTES);
	require(code % 32 == 0, "code is not aligned");
	free(taken.items);
	fd = memfd_create("copy", MFD_CLOEXEC);
	if (fd >= 0) {
		require(!registry_write(r, fd, 0), "it cannot be written again");
		close(fd);
	}
}

static void place_input(uint8_t *place, const struct model *model, unsigned int fixes,
	const uint8_t *data, size_t size)
{
	uint8_t *image = place + IMAGE_OFFSET;
	uint64_t address;

	memset(place, 0, 2 * PLACE_BYTES);
	memcpy(place, data, size < 64 ? size : 64);
	memcpy(place + HOME_OFFSET, data, size < 16 ? size : 16);
	memcpy(image, data, size);
	if (fixes & FIX_DATA) {
		const uint64_t header[2] = {DATA_MAGIC, (uintptr_t)place + HOME_OFFSET};

		memcpy(place, header, sizeof(header));
	}
	if (fixes & FIX_HOME) {
		memcpy(place + HOME_OFFSET, model->home, 8);
		address = (uintptr_t)image;
		memcpy(place + HOME_OFFSET + 8, &address, sizeof(address));
	}
	if (fixes & FIX_IMAGE) {
		uint64_t claimed = size;

		memcpy(image, model->image, 12);
		memcpy(image + 32, &claimed, sizeof(claimed));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *place;
	static struct model model;
	struct probe_error *error;
	struct registry registry;
	struct mapping items[2];
	struct maps maps = {.items = items, .count = 2};

	if (!place) {
		place = mmap(NULL, 2 * PLACE_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		require(place != MAP_FAILED, "no memory");
		model_init(&model);
	}
	if (!size || size > PLACE_BYTES)
		return 0;
	place_input(place, &model, data[0], data + 1, size - 1);
	items[0] = (struct mapping){.start = (uintptr_t)place,
		.end = (uintptr_t)place + HOME_OFFSET,
		.readable = true,
		.writable = true,
		.is_shared = true,
		.path = "/memfd:" SHARED_NAME};
	items[1] = (struct mapping){.start = (uintptr_t)place + HOME_OFFSET,
		.end = (uintptr_t)place + 2 * PLACE_BYTES,
		.readable = true,
		.executable = true,
		.path = ""};
	error = registry_load(getpid(), &maps, &registry);
	if (!error && registry.home) {
		require(!registry_is_stale(&registry, getpid()), "nobody has changed it");
		use(&registry, (uintptr_t)place);
	}
	if (!error)
		registry_deinit(&registry);
	probe_error_free(error);
	return 0;
}
