/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/memory.h"
#include "libprobe/registry.h"

#define HOME_MAGIC UINT64_C(0x31656d6f68627270) /* "prbhome1" */
#define IMAGE_MAGIC UINT64_C(0x31676d6962727021)
/* Images of another layout are not read: the sizes of the elements are part of the version. */
enum {
	IMAGE_VERSION = 1
#define X(type, name) +(int)sizeof(struct reg_##type) * 256
	REGISTRY_ARRAYS(X)
#undef X
};

/* The home page. `image` is the one word that is ever changed. */
struct home_page {
	uint64_t magic;
	uint64_t image;
};

/* An image: this, then the arrays in the order of REGISTRY_ARRAYS. */
struct image_header {
	uint64_t magic;
	uint32_t version, next_session;
	uint64_t generation;
	uint64_t guard;
	uint64_t size;
#define X(type, name) uint64_t type##_count;
	REGISTRY_ARRAYS(X)
#undef X
};

#define X(type, name)                                                                              \
	struct reg_##type *registry_add_##type(struct registry *registry)                          \
	{                                                                                          \
		struct reg_##type *items =                                                         \
			reallocarray(registry->name, registry->type##_count + 1, sizeof(*items));  \
                                                                                                   \
		if (!items)                                                                        \
			return NULL;                                                               \
		registry->name = items;                                                            \
		items[registry->type##_count] = (struct reg_##type){0};                            \
		return &items[registry->type##_count++];                                           \
	}                                                                                          \
                                                                                                   \
	void registry_remove_##type(struct registry *registry, size_t index)                       \
	{                                                                                          \
		struct reg_##type *items = registry->name;                                         \
                                                                                                   \
		memmove(items + index, items + index + 1,                                          \
			(--registry->type##_count - index) * sizeof(*items));                      \
	}
REGISTRY_ARRAYS(X)
#undef X

void registry_deinit(struct registry *registry)
{
#define X(type, name) free(registry->name);
	REGISTRY_ARRAYS(X)
#undef X
	*registry = (struct registry){0};
}

size_t registry_image_size(const struct registry *registry)
{
	size_t size = sizeof(struct image_header);

#define X(type, name) size += registry->type##_count * sizeof(*registry->name);
	REGISTRY_ARRAYS(X)
#undef X
	return size;
}

/* ---- Loading ------------------------------------------------------------------- */

static struct probe_error *malformed(pid_t pid, const char *what)
{
	return probe_error_new(PROBE_ERROR_FORMAT,
		"the registry in process %d is damaged (%s): its probes cannot be changed", pid,
		what);
}

static bool read_home(pid_t pid, uint64_t address, struct home_page *ret)
{
	return memory_read(pid, address, ret, sizeof(*ret)) == sizeof(*ret) &&
	       ret->magic == HOME_MAGIC;
}

/*
 * The home page that some session's data leads to, or 0. Data may lead to a page
 * that has not become a home: its controller was killed before it stored the
 * first image, and so before it patched anything.
 */
static uint64_t find_home(pid_t pid, const struct maps *maps, struct home_page *ret)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *m = &maps->items[i];
		const struct mapping *home;
		struct data_header header;

		if (!m->is_shared || strcmp(m->path, "/memfd:" DATA_NAME) != 0)
			continue;
		if (memory_read(pid, m->start, &header, sizeof(header)) != sizeof(header) ||
			header.magic != DATA_MAGIC)
			continue;
		home = maps_find(maps, header.home);
		if (home && home->executable && !home->writable && read_home(pid, header.home, ret))
			return header.home;
	}
	return 0;
}

/* Takes the arrays out of an image's bytes. */
static struct probe_error *parse_image(
	pid_t pid, const uint8_t *bytes, size_t size, struct registry *ret)
{
	const struct image_header *header = (const void *)bytes;
	size_t at = sizeof(*header);

#define X(type, name)                                                                              \
	if (header->type##_count > (size - at) / sizeof(*ret->name))                               \
		return malformed(pid, "too many " #name);                                          \
	ret->name = malloc(header->type##_count * sizeof(*ret->name) + 1);                         \
	if (!ret->name)                                                                            \
		return probe_error_no_memory();                                                    \
	memcpy(ret->name, bytes + at, header->type##_count * sizeof(*ret->name));                  \
	ret->type##_count = header->type##_count;                                                  \
	at += header->type##_count * sizeof(*ret->name);
	REGISTRY_ARRAYS(X)
#undef X
	ret->generation = header->generation;
	ret->guard = header->guard;
	ret->next_session = header->next_session;
	return NULL;
}

static struct probe_error *load_image(pid_t pid, struct registry *ret)
{
	struct image_header header;
	struct probe_error *error;
	uint8_t *bytes;

	if (memory_read(pid, ret->image, &header, sizeof(header)) != sizeof(header) ||
		header.magic != IMAGE_MAGIC)
		return malformed(pid, "no image");
	if (header.version != IMAGE_VERSION)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d was patched by another version of probectl: use that one", pid);
	if (header.size < sizeof(header) || header.size > (UINT64_C(1) << 30))
		return malformed(pid, "absurd size");
	bytes = malloc(header.size);
	if (!bytes)
		return probe_error_no_memory();
	error = memory_read_all(pid, ret->image, bytes, header.size);
	if (!error) {
		memcpy(bytes, &header, sizeof(header)); /* what was checked is what is used */
		error = parse_image(pid, bytes, header.size, ret);
	}
	ret->image_size = header.size;
	free(bytes);
	return error;
}

struct probe_error *registry_load(pid_t pid, const struct maps *maps, struct registry *ret)
{
	struct probe_error *error;
	struct home_page home;

	*ret = (struct registry){.next_session = 1};
	ret->home = find_home(pid, maps, &home);
	if (!ret->home)
		return NULL;
	ret->image = home.image;
	error = load_image(pid, ret);
	if (error)
		registry_deinit(ret);
	return error;
}

bool registry_is_stale(const struct registry *registry, pid_t pid)
{
	struct home_page home;

	return registry->home &&
	       (!read_home(pid, registry->home, &home) || home.image != registry->image);
}

/* ---- Storing --------------------------------------------------------------------- */

struct probe_error *registry_store(struct registry *registry, int mem, uint64_t image)
{
	struct home_page home = {.magic = HOME_MAGIC, .image = image};
	struct image_header header = {.magic = IMAGE_MAGIC,
		.version = IMAGE_VERSION,
		.next_session = registry->next_session,
		.generation = registry->generation + 1,
		.guard = registry->guard,
		.size = registry_image_size(registry)};
	struct probe_error *error;
	uint8_t *bytes = malloc(header.size), *at;

	if (!bytes)
		return probe_error_no_memory();
	at = bytes + sizeof(header);
#define X(type, name)                                                                              \
	header.type##_count = registry->type##_count;                                              \
	if (registry->type##_count) {                                                              \
		memcpy(at, registry->name, registry->type##_count * sizeof(*registry->name));      \
		at += registry->type##_count * sizeof(*registry->name);                            \
	}
	REGISTRY_ARRAYS(X)
#undef X
	memcpy(bytes, &header, sizeof(header));
	error = memory_write_code(mem, image, bytes, header.size);
	free(bytes);
	if (!error && !registry->image)
		error = memory_write_code(mem, registry->home, &home, sizeof(home));
	else if (!error)
		error = memory_write_code(mem, registry->home + offsetof(struct home_page, image),
			&image, sizeof(image));
	if (error)
		return error;
	registry->generation++;
	registry->image = image;
	registry->image_size = header.size;
	return NULL;
}

/* ---- Looking up ------------------------------------------------------------------- */

struct reg_session *registry_session(const struct registry *registry, uint32_t id)
{
	for (size_t i = 0; i < registry->session_count; i++)
		if (registry->sessions[i].id == id)
			return &registry->sessions[i];
	return NULL;
}

struct reg_site *registry_site(const struct registry *registry, uint64_t pc)
{
	for (size_t i = 0; i < registry->site_count; i++)
		if (registry->sites[i].pc == pc)
			return &registry->sites[i];
	return NULL;
}

struct reg_probe *registry_probe(const struct registry *registry, uint64_t key, uint32_t session)
{
	for (size_t i = 0; i < registry->probe_count; i++)
		if (registry->probes[i].key == key && registry->probes[i].session == session)
			return &registry->probes[i];
	return NULL;
}

uint32_t registry_refcount(const struct registry *registry, uint64_t key, bool persistent_only)
{
	uint32_t count = 0;

	for (size_t i = 0; i < registry->probe_count; i++) {
		const struct reg_probe *probe = &registry->probes[i];
		const struct reg_session *session = registry_session(registry, probe->session);

		if (probe->key == key && session &&
			(!persistent_only || session->flags & REG_SESSION_PERSISTENT))
			count += probe->refcount;
	}
	return count;
}

/* ---- Code memory ------------------------------------------------------------------- */

bool code_reaches(uint64_t start, uint64_t end, uint64_t reach_start, uint64_t reach_end)
{
	uint64_t low = start < reach_start ? start : reach_start;
	uint64_t high = end > reach_end ? end : reach_end;

	return high - low < (UINT64_C(1) << 31) - REGISTRY_PAGE;
}

static int compare_extents(const void *a, const void *b)
{
	const struct code_extent *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Everything in use, sorted by address; NULL without memory. */
static struct code_extent *extents_in_use(
	const struct registry *registry, const struct code_taken *taken, size_t *count_ret)
{
	size_t count = 0, most = registry->site_count + registry->stub_count + taken->count + 2;
	struct code_extent *extents = calloc(most, sizeof(*extents));

	if (!extents)
		return NULL;
	if (registry->home)
		extents[count++] = (struct code_extent){registry->home, REGISTRY_PAGE};
	if (registry->image)
		extents[count++] = (struct code_extent){registry->image, registry->image_size};
	for (size_t i = 0; i < registry->site_count; i++)
		if (registry->sites[i].tail)
			extents[count++] = (struct code_extent){
				registry->sites[i].tail, registry->sites[i].tail_size};
	for (size_t i = 0; i < registry->stub_count; i++)
		extents[count++] =
			(struct code_extent){registry->stubs[i].start, registry->stubs[i].size};
	if (taken->count)
		memcpy(extents + count, taken->items, taken->count * sizeof(*extents));
	count += taken->count;
	qsort(extents, count, sizeof(*extents), compare_extents);
	*count_ret = count;
	return extents;
}

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

/* The first gap of an arena between extents, or 0. */
static uint64_t find_gap(const struct reg_arena *arena, const struct code_extent *extents,
	size_t count, size_t size, size_t alignment)
{
	uint64_t at = align_up(arena->start, alignment), end = arena->start + arena->size;

	for (size_t i = 0; i < count; i++) {
		const struct code_extent *e = &extents[i];

		if (e->start + e->size <= at || e->start >= end)
			continue;
		if (e->start >= at && e->start - at >= size)
			break;
		at = align_up(e->start + e->size, alignment);
	}
	return at < end && end - at >= size ? at : 0;
}

uint64_t code_alloc(const struct registry *registry, struct code_taken *taken, size_t size,
	size_t alignment, uint64_t reach_start, uint64_t reach_end)
{
	struct code_extent *items, *extents;
	uint64_t found = 0;
	size_t count;

	items = reallocarray(taken->items, taken->count + 1, sizeof(*items));
	if (!items)
		return 0;
	taken->items = items;
	extents = extents_in_use(registry, taken, &count);
	for (size_t i = 0; extents && i < registry->arena_count && !found; i++) {
		const struct reg_arena *arena = &registry->arenas[i];

		/* A single page is a pun's: it holds one jump. */
		if (arena->size > REGISTRY_PAGE &&
			code_reaches(
				arena->start, arena->start + arena->size, reach_start, reach_end))
			found = find_gap(arena, extents, count, size, alignment);
	}
	free(extents);
	if (found)
		taken->items[taken->count++] = (struct code_extent){found, size};
	return found;
}
