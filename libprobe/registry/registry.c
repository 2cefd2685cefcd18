/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/permission.h"
#include "libprobe/base/procfs.h"
#include "libprobe/registry/registry.h"
#include "probe/list.h"

/* ==== Registry ================================================================================ */

#define HOME_MAGIC UINT64_C(0x31656d6f68627270) /* "prbhome1" */
#define IMAGE_MAGIC UINT64_C(0x31676d6962727021)
/*
 * The elements' sizes are part of the version: images of another layout are not read. So is the
 * number of plans: an older controller does not know the plans of a newer one.
 */
enum {
	IMAGE_VERSION = 3 /* increased when what is stored changes its meaning */
#define X(constant, number, name) +1
	PROBE_PLANS(X, )
#undef X
#define X(type, name) +(int)sizeof(struct reg_##type) * 256
		REGISTRY_ARRAYS(X)
#undef X
};

/*
 * If the caller does not hold the lock, an image may be replaced while it is read: load it again.
 */
enum { LOADS_MAX = 20 };

/* Only the word `image` changes later. */
struct home_page {
	uint64_t magic;
	uint64_t image;
};

/* This header, then the arrays in the order of REGISTRY_ARRAYS. */
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

/* ---- Arrays ----------------------------------------------------------------------- */

#define X(type, name)                                                                              \
	struct reg_##type *registry_add_##type(struct registry *registry)                          \
	{                                                                                          \
		if (!ARRAY_ROOM(registry->name, registry->type##_count))                           \
			return NULL;                                                               \
		registry->name[registry->type##_count] = (struct reg_##type){0};                   \
		return &registry->name[registry->type##_count++];                                  \
	}                                                                                          \
                                                                                                   \
	void registry_drop_##type(struct registry *registry, const bool *flags)                    \
	{                                                                                          \
		size_t kept = 0;                                                                   \
                                                                                                   \
		for (size_t i = 0; i < registry->type##_count; i++)                                \
			if (!flags[i])                                                             \
				registry->name[kept++] = registry->name[i];                        \
		registry->type##_count = kept;                                                     \
	}
REGISTRY_ARRAYS(X)
#undef X

static int compare_sites(const void *a, const void *b)
{
	const struct reg_site *x = a, *y = b;

	return ORDER(x->pc, y->pc);
}

static int compare_probes(const void *a, const void *b)
{
	const struct reg_probe *x = a, *y = b;

	return ORDER(x->key, y->key) ?: ORDER(x->session, y->session);
}

static int compare_stubs(const void *a, const void *b)
{
	const struct reg_stub *x = a, *y = b;

	return ORDER(x->pc, y->pc) ?: ORDER(x->order, y->order);
}

static int compare_semaphores(const void *a, const void *b)
{
	const struct reg_semaphore *x = a, *y = b;

	return ORDER(x->key, y->key) ?: ORDER(x->session, y->session)
		?: ORDER(x->address, y->address);
}

/* Sorts an array, unless it is already sorted, which is the usual case. */
static void sort(void *items, size_t count, size_t size, int (*order)(const void *, const void *))
{
	const char *at = items;

	for (size_t i = 1; i < count; i++, at += size) {
		if (order(at, at + size) <= 0)
			continue;
		qsort(items, count, size, order);
		return;
	}
}

void registry_sort(struct registry *registry)
{
	sort(registry->sites, registry->site_count, sizeof(*registry->sites), compare_sites);
	sort(registry->probes, registry->probe_count, sizeof(*registry->probes), compare_probes);
	sort(registry->stubs, registry->stub_count, sizeof(*registry->stubs), compare_stubs);
	sort(registry->semaphores, registry->semaphore_count, sizeof(*registry->semaphores),
		compare_semaphores);
}

void registry_deinit(struct registry *registry)
{
#define X(type, name) free(registry->name);
	REGISTRY_ARRAYS(X)
#undef X
	*registry = (struct registry){.next_session = 1};
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

static bool read_home(struct served *known, uint64_t address, struct home_page *ret)
{
	return memory_read_known(known, address, ret, sizeof(*ret)) == sizeof(*ret) &&
	       ret->magic == HOME_MAGIC;
}

/*
 * Finds the home page, the first page of a mapping of code; *ret is 0 if there is no home. A killed
 * controller may leave data without a home, or a home without data. Data is used only to choose
 * between several homes, because asking whether its page is present may read all mappings' flags.
 */
static struct probe_error *find_home(
	pid_t pid, const struct maps *maps, struct home_page *home_ret, uint64_t *ret)
{
	AUTO(served_end) struct served known = served_of(pid);
	struct home_page home;
	size_t count = 0;

	*ret = 0;
	errno = 0;
	for (size_t i = 0; i < maps->count && count < 2; i++) {
		uint64_t start = maps->items[i].start;

		if (!shared_is_code(&maps->items[i]) || !read_home(&known, start, &home))
			continue;
		if (!count++) {
			*home_ret = home;
			*ret = start;
		}
	}
	if (!count && errno == EPERM)
		return permission_trace_error(pid);
	for (size_t i = 0; i < maps->count && count > 1; i++) {
		const struct mapping *mapped;
		struct data_header header;

		if (!data_read_header(&known, &maps->items[i], &header))
			continue;
		mapped = maps_find(maps, header.home);
		if (!mapped || !shared_is_code(mapped) || !read_home(&known, header.home, &home))
			continue;
		*home_ret = home;
		*ret = header.home;
		break;
	}
	return NULL;
}

static struct probe_error *parse_image(
	pid_t pid, const uint8_t *bytes, size_t size, struct registry *ret)
{
	const struct image_header *header = (const void *)bytes;
	size_t at = sizeof(*header);

#define X(type, name)                                                                              \
	if (header->type##_count > (size - at) / sizeof(*ret->name))                               \
		return malformed(pid, "too many " #name);                                          \
	ret->name = reallocarray(NULL, array_room(header->type##_count), sizeof(*ret->name));      \
	if (!ret->name)                                                                            \
		return probe_error_no_memory();                                                    \
	memcpy(ret->name, bytes + at, header->type##_count * sizeof(*ret->name));                  \
	ret->type##_count = header->type##_count;                                                  \
	at += header->type##_count * sizeof(*ret->name);
	REGISTRY_ARRAYS(X)
#undef X
	ret->guard = header->guard;
	ret->next_session = header->next_session;
	return NULL;
}

bool site_is_chained(const struct reg_site *site)
{
	return site->pun && (site->plan == PROBE_PLAN_BEHIND || site->plan == PROBE_PLAN_HOP);
}

/*
 * Returns true if a site's `pun` is possible: a page, or an address in an arena at the site's entry
 * or shortly before it. On machines without far jumps, it can only be a neighbour's entry.
 */
static bool pun_makes_sense(const struct reg_site *site)
{
	if (site->pun && !site_is_chained(site) && !arch_host()->far_jump)
		return false;
	return (site->pun % REGISTRY_PAGE == 0 && site->pun_size % REGISTRY_PAGE == 0) ||
	       (site->entry - site->pun < REGISTRY_PAGE && site->pun_size < REGISTRY_PAGE);
}

/* Checks everything that decides what is written into the target, and where. */
static struct probe_error *check_registry(pid_t pid, const struct registry *r)
{
	for (size_t i = 0; i < r->arena_count; i++)
		if (r->arenas[i].start % REGISTRY_PAGE || r->arenas[i].size % REGISTRY_PAGE ||
			r->arenas[i].start > UINT64_MAX - r->arenas[i].size)
			return malformed(pid, "an arena");
	for (size_t i = 0; i < r->session_count; i++) {
		const struct reg_session *s = &r->sessions[i];
		uint64_t number = s->process - registry_guard_page(r) - GUARD_PROCESSES_OFFSET;

		/* The process's number must lie between the guards and the mark. */
		if (!data_makes_sense(s) ||
			(s->process &&
				(s->process % sizeof(uint32_t) != 0 ||
					number >= GUARD_MARK_OFFSET - GUARD_PROCESSES_OFFSET)))
			return malformed(pid, "a session");
	}
	for (size_t i = 0; i < r->probe_count; i++) {
		const struct reg_session *s = registry_session(r, r->probes[i].session);

		if (!s || r->probes[i].slot >= s->slot_count)
			return malformed(pid, "a probe");
	}
	for (size_t i = 0; i < r->site_count; i++) {
		const struct reg_site *site = &r->sites[i];

		if (!site->length || site->length > sizeof(site->original) ||
			site->plan >= PROBE_PLAN_COUNT || !pun_makes_sense(site))
			return malformed(pid, "a site");
	}
	for (size_t i = 0; i < r->stub_count; i++)
		if (r->stubs[i].next_jump >= r->stubs[i].size)
			return malformed(pid, "a stub");
	for (size_t i = 0; i < r->semaphore_count; i++)
		if (r->semaphores[i].added > UINT16_MAX)
			return malformed(pid, "a semaphore");
	return NULL;
}

static struct probe_error *load_image(pid_t pid, struct registry *ret)
{
	struct image_header header;
	struct probe_error *error;
	AUTO_FREE uint8_t *bytes = NULL;

	error = memory_read_all(pid, ret->image, &header, sizeof(header));
	if (error)
		return error;
	ret->generation = header.generation;
	if (header.magic != IMAGE_MAGIC)
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
		memcpy(bytes, &header, sizeof(header)); /* use the header that was checked */
		error = parse_image(pid, bytes, header.size, ret);
	}
	ret->image_size = header.size;
	error = error ?: check_registry(pid, ret);
	registry_sort(ret);
	return error;
}

/*
 * Returns true if the image is in our code memory. Reads the mappings again if they may be older
 * than the image.
 */
static bool has_image(pid_t pid, const struct maps *maps, uint64_t image)
{
	struct maps_part part = {image, sizeof(struct image_header)};
	const struct mapping *m = maps_find(maps, image);
	AUTO(maps_deinit) struct maps now = {0};

	if (m && shared_is_code(m))
		return true;
	probe_error_free(maps_read_parts(pid, &part, 1, &now));
	m = maps_find(&now, image);
	return m && shared_is_code(m);
}

struct probe_error *registry_load(pid_t pid, const struct maps *maps, struct registry *ret)
{
	struct probe_error *error = NULL;
	struct home_page home;

	*ret = (struct registry){.next_session = 1};
	for (int tries = 0; tries < LOADS_MAX; tries++) {
		registry_deinit(ret);
		probe_error_free(error);
		error = find_home(pid, maps, &home, &ret->home);
		if (!error && ret->home && !has_image(pid, maps, home.image))
			ret->home = 0;
		if (error || !ret->home)
			return error;
		ret->image = home.image;
		error = load_image(pid, ret);
		if (!registry_is_stale(ret, pid))
			break;
		if (!error)
			error = probe_error_new(PROBE_ERROR_STATE,
				"the probes of process %d change all the time: try again", pid);
	}
	if (error)
		registry_deinit(ret);
	return error;
}

struct probe_error *registry_is_inherited(const struct registry *registry, pid_t pid, bool *ret)
{
	uint32_t guard = 0;
	struct probe_error *error = memory_read_all(pid, registry->guard, &guard, sizeof(guard));

	*ret = !error && !guard;
	return error;
}

bool registry_is_stale(const struct registry *registry, pid_t pid)
{
	struct home_page home;
	struct image_header header;
	AUTO(served_end) struct served known = served_of(pid);

	/* A newer image may have the address of an older one, so compare the generation, too. */
	return registry->home &&
	       (!read_home(&known, registry->home, &home) || home.image != registry->image ||
		       memory_read_known(&known, home.image, &header, sizeof(header)) !=
			       sizeof(header) ||
		       header.generation != registry->generation);
}

/* ---- Storing --------------------------------------------------------------------- */

struct probe_error *registry_write(struct registry *registry, int mem, uint64_t image)
{
	struct image_header header = {.magic = IMAGE_MAGIC,
		.version = IMAGE_VERSION,
		.next_session = registry->next_session,
		.generation = registry->generation + 1,
		.guard = registry->guard,
		.size = registry_image_size(registry)};
	AUTO_FREE uint8_t *bytes = malloc(header.size);
	uint8_t *at;

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
	return memory_write_code(mem, image, bytes, header.size);
}

struct probe_error *registry_publish(
	struct registry *registry, int mem, uint64_t image, uint64_t size)
{
	struct home_page home = {.magic = HOME_MAGIC, .image = image};
	struct probe_error *error;

	if (!registry->image)
		error = memory_write_code(mem, registry->home, &home, sizeof(home));
	else
		error = memory_write_code(mem, registry->home + offsetof(struct home_page, image),
			&image, sizeof(image));
	if (error)
		return error;
	registry->generation++;
	registry->image = image;
	registry->image_size = size;
	return NULL;
}

struct probe_error *change_place_image(struct change *change, struct code_extent *ret)
{
	struct registry *r = &change->registry;

	ret->size = registry_image_size(r);
	/*
	 * An image is data, so it may be at any distance from other code. Without a home, it goes
	 * near the rest of our code (lost.c).
	 */
	return change_alloc_code(change, ret->size,
		&(struct code_extent){r->home	       ? r->home
				      : r->arena_count ? r->arenas[0].start
						       : change->modules.items[0].start,
			1},
		1, &ret->start);
}

struct probe_error *change_publish(struct change *change, struct code_extent image)
{
	return registry_publish(&change->registry, change->mem, image.start, image.size);
}

struct probe_error *change_write_image(struct change *change, struct code_extent image)
{
	return registry_write(&change->registry, change->mem, image.start)
		       ?: change_publish(change, image);
}

struct probe_error *change_store(struct change *change, bool may_stop)
{
	struct code_extent image;
	bool stops = false;
	struct probe_error *error = change_place_image(change, &image);

	if (!error && may_stop && image.size > CHANGE_PIECE_BYTES)
		error = change_fill(change, image.start, NULL, image.size);
	if (!error)
		error = may_stop ? change_begin_write(change, &stops) : change_confirm(change);
	if (error)
		return error;
	change->begun = true;
	error = change_write_image(change, image);
	change_end_write(change, stops);
	if (!error)
		code_release(&change->taken); /* the registry itself records where its image is */
	return error;
}

/* ---- Texts ----------------------------------------------------------------------- */

void registry_forget_texts(struct registry *registry, uint32_t session)
{
	size_t kept = 0;

	for (size_t i = 0; i < registry->text_count; i++)
		if (registry->texts[i].session != session)
			registry->texts[kept++] = registry->texts[i];
	registry->text_count = kept;
}

bool registry_set_text(struct registry *registry, uint32_t session, const char *bytes, size_t size)
{
	const size_t part = sizeof(registry->texts->bytes);

	registry_forget_texts(registry, session);
	for (size_t at = 0; at < size; at += part) {
		struct reg_text *added = registry_add_text(registry);

		if (!added)
			return false;
		added->session = session;
		added->index = (uint32_t)(at / part);
		memcpy(added->bytes, bytes + at, size - at < part ? size - at : part);
	}
	return true;
}

char *registry_text(const struct registry *registry, uint32_t session, size_t *size_ret)
{
	const size_t part = sizeof(registry->texts->bytes);
	size_t count = 0;
	char *text;

	for (size_t i = 0; i < registry->text_count; i++)
		count += registry->texts[i].session == session;
	text = count ? calloc(count, part + 1) : NULL;
	/* The target may have changed the parts: ignore parts with an impossible index. */
	for (size_t i = 0; text && i < registry->text_count; i++)
		if (registry->texts[i].session == session && registry->texts[i].index < count)
			memcpy(text + registry->texts[i].index * part, registry->texts[i].bytes,
				part);
	*size_ret = count * part;
	return text;
}

/* ---- Lookup ----------------------------------------------------------------------- */

struct reg_session *registry_session(const struct registry *registry, uint32_t id)
{
	for (size_t i = 0; i < registry->session_count; i++)
		if (registry->sessions[i].id == id)
			return &registry->sessions[i];
	return NULL;
}

const struct reg_arena *registry_arena(const struct registry *registry, uint64_t address)
{
	for (size_t i = 0; i < registry->arena_count; i++)
		if (address - registry->arenas[i].start < registry->arenas[i].size)
			return &registry->arenas[i];
	return NULL;
}

bool registry_has_data(const struct registry *registry, uint64_t address)
{
	for (size_t i = 0; i < registry->session_count; i++)
		if (registry->sessions[i].data == address)
			return true;
	return false;
}

/*
 * Finds the elements of a sorted array whose first member (u64) is in [start, end]. Returns the
 * index of the first, and their number.
 */
static size_t find_range(const void *items, size_t count, size_t size, uint64_t start, uint64_t end,
	size_t *count_ret)
{
	size_t first = array_search(items, count, size, 0, start);

	*count_ret = array_search_above(items, count, size, 0, end) - first;
	return first;
}

/* find_range() compares the first member of an element. */
_Static_assert(offsetof(struct reg_site, pc) == 0, "sites are found by pc");
_Static_assert(offsetof(struct reg_stub, pc) == 0, "stubs are found by pc");
_Static_assert(offsetof(struct reg_probe, key) == 0, "probes are found by key");
_Static_assert(offsetof(struct reg_semaphore, key) == 0, "semaphores are found by key");

struct reg_site *registry_sites(
	const struct registry *registry, uint64_t start, uint64_t end, size_t *count_ret)
{
	size_t first = find_range(registry->sites, registry->site_count, sizeof(*registry->sites),
		start, end - 1, count_ret);

	return *count_ret ? &registry->sites[first] : NULL;
}

struct reg_site *registry_site(const struct registry *registry, uint64_t pc)
{
	size_t count;

	return registry_sites(registry, pc, pc + 1, &count);
}

/* Each finds the elements of one address or key. */
#define X(type, name)                                                                              \
	struct reg_##type *registry_##name(                                                        \
		const struct registry *registry, uint64_t key, size_t *count_ret)                  \
	{                                                                                          \
		size_t first = find_range(registry->name, registry->type##_count,                  \
			sizeof(*registry->name), key, key, count_ret);                             \
                                                                                                   \
		return *count_ret ? &registry->name[first] : NULL;                                 \
	}
X(probe, probes)
X(stub, stubs)
X(semaphore, semaphores)
#undef X

struct reg_probe *registry_probe(const struct registry *registry, uint64_t key, uint32_t session)
{
	size_t count;
	struct reg_probe *probes = registry_probes(registry, key, &count);

	for (size_t i = 0; i < count; i++)
		if (probes[i].session == session)
			return &probes[i];
	return NULL;
}

static bool is_persistent(const struct registry *registry, uint32_t id)
{
	const struct reg_session *session = registry_session(registry, id);

	return session && session->flags & REG_SESSION_PERSISTENT;
}

void registry_retire(struct registry *registry, struct reg_session *session)
{
	session->flags |= REG_SESSION_RETIRED;
	for (size_t i = 0; i < registry->probe_count; i++)
		if (registry->probes[i].session == session->id)
			registry->probes[i].refcount = 0;
}

bool registry_is_dead(const struct reg_session *session)
{
	uint64_t start = session->owner ? procfs_start_time(session->owner) : 0;

	/* If we have too few descriptors to find out, assume that the controller is alive. */
	if (!session->owner || (!start && procfs_no_room(errno)))
		return false;
	return start != session->owner_start || procfs_is_exiting(session->owner);
}

uint32_t registry_refcount(const struct registry *registry, uint64_t key, bool persistent_only)
{
	size_t count;
	const struct reg_probe *probes = registry_probes(registry, key, &count);
	uint32_t sum = 0;

	for (size_t i = 0; i < count; i++)
		if (!persistent_only || is_persistent(registry, probes[i].session))
			sum += probes[i].refcount;
	return sum;
}

struct reg_probe *registry_persistent(const struct registry *registry, uint64_t key)
{
	size_t count;
	struct reg_probe *probes = registry_probes(registry, key, &count), *found = NULL;

	for (size_t i = 0; i < count; i++) {
		if (is_persistent(registry, probes[i].session) && (!found || !found->refcount))
			found = &probes[i];
	}
	return found;
}
