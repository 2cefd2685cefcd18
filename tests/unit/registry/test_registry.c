/* SPDX-License-Identifier: MIT */
/*
 * The registry, kept in this process's own memory: stored, loaded, damaged, searched. Also the
 * allocation of code memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"
#include "probe/list.h"

enum {
	ONE_ARENA_BYTES = 1 << 20,
	DATA_BYTES = 1 << 20,
	/* Places in an image's header. */
	AT_MAGIC = 0,
	AT_VERSION = 8,
	AT_SIZE = 32,
	AT_ARENA_COUNT = 40
};

static void no_error(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

static void is_error(struct probe_error *error, enum probe_error_code code, const char *part)
{
	assert_non_null(error);
	if (error->code != code || !strstr(error->message, part))
		fail_msg("code %d: %s", error->code, error->message);
	probe_error_free(error);
}

/* ---- A process with a registry ------------------------------------------------------ */

struct host {
	uint64_t arena, data;
	int mem;
	struct registry registry; /* what is stored */
};

static void *map(size_t size, int prot, int flags, int fd)
{
	void *at = mmap(NULL, size, prot, flags, fd, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static int host_setup(void **state)
{
	struct host *h = calloc(1, sizeof(*h));
	int fd = memfd_create(SHARED_NAME, MFD_CLOEXEC);
	struct data_header *header;
	struct reg_session *session;

	assert_non_null(h);
	assert_int_equal(ftruncate(fd, DATA_BYTES), 0);
	header = map(DATA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	close(fd);
	fd = memfd_create(SHARED_NAME, MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, ONE_ARENA_BYTES), 0);
	h->arena = (uintptr_t)map(ONE_ARENA_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd);
	close(fd);
	h->data = (uintptr_t)header;
	*header = (struct data_header){.magic = DATA_MAGIC, .home = h->arena, .session = 1};
	no_error(memory_open(getpid(), &h->mem));
	h->registry = (struct registry){.home = h->arena, .next_session = 2, .guard = 0x1234};
	*registry_add_arena(&h->registry) =
		(struct reg_arena){.start = h->arena, .size = ONE_ARENA_BYTES};
	session = registry_add_session(&h->registry);
	*session = (struct reg_session){.id = 1,
		.flags = REG_SESSION_PERSISTENT,
		.cpus = 2,
		.data = h->data,
		.data_size = DATA_BYTES,
		.slots = h->data + REGISTRY_PAGE,
		.slot_count = 10,
		.slot_capacity = 16,
		.slots_shift = 9};
	*state = h;
	return 0;
}

static int host_teardown(void **state)
{
	struct host *h = *state;

	munmap((void *)h->arena, ONE_ARENA_BYTES);
	munmap((void *)h->data, DATA_BYTES);
	close(h->mem);
	registry_deinit(&h->registry);
	free(h);
	return 0;
}

static struct probe_error *load(struct registry *ret)
{
	struct maps maps;
	struct probe_error *error;

	no_error(maps_read(getpid(), &maps));
	error = registry_load(getpid(), &maps, ret);
	maps_deinit(&maps);
	return error;
}

static uint64_t image_of(const struct host *h)
{
	return h->arena + REGISTRY_PAGE;
}

static void store(struct host *h)
{
	no_error(registry_write(&h->registry, h->mem, image_of(h)));
	no_error(registry_publish(
		&h->registry, h->mem, image_of(h), registry_image_size(&h->registry)));
}

static void poke(const struct host *h, size_t offset, const void *bytes, size_t size)
{
	no_error(memory_write_code(h->mem, image_of(h) + offset, bytes, size));
}

/* ---- Storing and loading ------------------------------------------------------------ */

static void test_none(void **state)
{
	struct registry r;

	(void)state;
	no_error(load(&r));
	assert_int_equal(r.home, 0);
	assert_int_equal(r.next_session, 1);
	assert_int_equal(r.site_count, 0);
	assert_null(registry_site(&r, 0));
	assert_null(registry_probe(&r, 1, 1));
	assert_false(registry_is_stale(&r, getpid()));
	registry_deinit(&r);
}

static void add_things(struct registry *r, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t k = (i * 7919) % count; /* in random order */

		*registry_add_probe(r) =
			(struct reg_probe){.key = 1000 + k, .session = 1, .refcount = 1 + k % 3};
		*registry_add_site(r) = (struct reg_site){.pc = 0x10000 + 16 * k,
			.length = 5,
			.plan = PROBE_PLAN_RESERVED, /* of an older controller */
			.tail = 0x20000 + k};
		*registry_add_stub(r) = (struct reg_stub){.pc = 0x10000 + 16 * k,
			.key = 1000 + k,
			.start = 0x900000 + 64 * k,
			.size = 64,
			.next_jump = 59,
			.session = 1};
		*registry_add_semaphore(r) = (struct reg_semaphore){
			.key = 1000 + k, .address = 0x5000 + 2 * k, .session = 1, .added = 1};
	}
	registry_sort(r);
}

static void same_arrays(const struct registry *a, const struct registry *b)
{
#define X(type, name)                                                                              \
	assert_int_equal(a->type##_count, b->type##_count);                                        \
	assert_memory_equal(a->name, b->name, a->type##_count * sizeof(*a->name) + !a->name);
	REGISTRY_ARRAYS(X)
#undef X
	assert_int_equal(a->guard, b->guard);
	assert_int_equal(a->next_session, b->next_session);
}

static void test_round_trip(void **state)
{
	struct host *h = *state;
	struct registry r;

	add_things(&h->registry, 10);
	store(h);
	no_error(load(&r));
	assert_int_equal(r.home, h->arena);
	assert_int_equal(r.image, image_of(h));
	assert_int_equal(r.image_size, registry_image_size(&h->registry));
	same_arrays(&r, &h->registry);
	assert_false(registry_is_stale(&r, getpid()));
	registry_deinit(&r);
	assert_int_equal(r.next_session, 1);
}

/* An image does not exist until it is made the current one. */
static void test_publish(void **state)
{
	struct host *h = *state;
	uint64_t second = h->arena + ONE_ARENA_BYTES / 2;
	struct registry r;

	store(h);
	*registry_add_probe(&h->registry) = (struct reg_probe){.key = 1, .session = 1};
	no_error(registry_write(&h->registry, h->mem, second));
	no_error(load(&r));
	assert_int_equal(r.probe_count, 0);
	assert_false(registry_is_stale(&r, getpid()));
	no_error(registry_publish(&h->registry, h->mem, second, registry_image_size(&h->registry)));
	assert_true(registry_is_stale(&r, getpid()));
	registry_deinit(&r);
	no_error(load(&r));
	assert_int_equal(r.probe_count, 1);
	assert_int_equal(r.image, second);
	registry_deinit(&r);
}

/* An image stored by hand in another order is sorted when loaded. */
static void test_unsorted(void **state)
{
	struct host *h = *state;
	struct registry r;

	for (uint64_t i = 0; i < 3; i++)
		*registry_add_site(&h->registry) =
			(struct reg_site){.pc = 30 - 10 * i, .length = 1, .plan = PROBE_PLAN_PUN};
	store(h);
	no_error(load(&r));
	assert_int_equal(r.sites[0].pc, 10);
	assert_int_equal(r.sites[2].pc, 30);
	assert_ptr_equal(registry_site(&r, 20), &r.sites[1]);
	registry_deinit(&r);
}

/* ---- No home ------------------------------------------------------------------------ */

static void test_unfinished_home(void **state)
{
	struct registry r;

	(void)state; /* nothing was stored: the page is not a home yet */
	no_error(load(&r));
	assert_int_equal(r.home, 0);
	registry_deinit(&r);
}

static void test_home_in_writable_memory(void **state)
{
	struct host *h = *state;
	struct registry r;

	store(h);
	assert_int_equal(mprotect((void *)h->arena, ONE_ARENA_BYTES, PROT_READ | PROT_WRITE), 0);
	no_error(load(&r));
	assert_int_equal(r.home, 0);
	registry_deinit(&r);
}

/* A controller was killed before its data led to the home, or after it unmapped all but that. */
static void test_home_without_data(void **state)
{
	struct host *h = *state;
	struct registry r;

	store(h);
	((struct data_header *)h->data)->magic ^= 1;
	no_error(load(&r));
	assert_int_equal(r.home, h->arena);
	assert_int_equal(r.session_count, 1);
	registry_deinit(&r);
}

/* Data that leads to something else than a home is not followed. */
static void test_data_that_leads_astray(void **state)
{
	struct host *h = *state;
	struct registry r;

	store(h);
	((struct data_header *)h->data)->home = h->arena + REGISTRY_PAGE;
	no_error(load(&r));
	assert_int_equal(r.home, h->arena);
	registry_deinit(&r);
	((struct data_header *)h->data)->home = 1;
	no_error(load(&r));
	assert_int_equal(r.home, h->arena);
	registry_deinit(&r);
}

/* ---- Damage ------------------------------------------------------------------------- */

static void test_damaged_header(void **state)
{
	static const struct {
		size_t at;
		uint64_t value;
		size_t size;
		enum probe_error_code code;
		const char *message;
	} cases[] = {
		{AT_MAGIC, 0, 8, PROBE_ERROR_FORMAT, "damaged (no image)"},
		{AT_VERSION, 77, 4, PROBE_ERROR_UNSUPPORTED, "another version"},
		{AT_SIZE, 0, 8, PROBE_ERROR_FORMAT, "damaged (absurd size)"},
		{AT_SIZE, 16, 8, PROBE_ERROR_FORMAT, "damaged (absurd size)"},
		{AT_SIZE, UINT64_MAX, 8, PROBE_ERROR_FORMAT, "damaged (absurd size)"},
		{AT_SIZE, 1 << 29, 8, PROBE_ERROR_FORMAT, "readable bytes"},
		{AT_ARENA_COUNT, UINT64_MAX, 8, PROBE_ERROR_FORMAT, "too many arenas"},
		{AT_ARENA_COUNT, UINT64_MAX / 16 + 2, 8, PROBE_ERROR_FORMAT, "too many arenas"},
		{AT_ARENA_COUNT + 8, 1000, 8, PROBE_ERROR_FORMAT, "too many sessions"},
		{AT_ARENA_COUNT + 16, 1, 8, PROBE_ERROR_FORMAT, "too many probes"},
		{AT_ARENA_COUNT + 24, 1, 8, PROBE_ERROR_FORMAT, "too many sites"},
		{AT_ARENA_COUNT + 32, 1, 8, PROBE_ERROR_FORMAT, "too many stubs"},
		{AT_ARENA_COUNT + 40, 1, 8, PROBE_ERROR_FORMAT, "too many semaphores"},
	};
	struct host *h = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct registry r;

		store(h);
		poke(h, cases[i].at, &cases[i].value, cases[i].size);
		is_error(load(&r), cases[i].code, cases[i].message);
		assert_int_equal(r.home, 0);
		registry_deinit(&r);
	}
}

static void refused(struct host *h, const char *message)
{
	struct registry r;

	store(h);
	is_error(load(&r), PROBE_ERROR_FORMAT, message);
	registry_deinit(&r);
}

static void test_damaged_sessions(void **state)
{
	struct host *h = *state;
	struct reg_session *s = h->registry.sessions, good = *s;
	struct registry r;

#define BAD(field, value) (*s = good, s->field = (value), refused(h, "damaged (a session)"))
	BAD(id, 0);
	BAD(cpus, 0);
	BAD(cpus, UINT32_MAX);
	BAD(cpus, 4096); /* its slots do not fit into its data */
	BAD(slots_shift, 255);
	BAD(slots_shift, 8); /* 16 slots need 512 bytes */
	BAD(slot_count, 17);
	BAD(slot_capacity, UINT32_MAX);
	BAD(slots, h->data - 8);
	BAD(slots, h->data + DATA_BYTES - 8);
	BAD(data, UINT64_MAX - 8);
	BAD(data_size, 16);
	BAD(data_size, UINT64_MAX);
	BAD(ring_bytes, 4096); /* no rings within the data */
	good.ring_bytes = 1 << 16;
	good.rings_shift = 18;
	good.rings = h->data + 2 * REGISTRY_PAGE;
	good.data_size = 2 * REGISTRY_PAGE + (4 << 18); /* more than is mapped: it is not read */
	*s = good;
	store(h);
	no_error(load(&r));
	registry_deinit(&r);
	BAD(ring_bytes, 100000);
	BAD(rings_shift, 16);
	BAD(rings_shift, 200);
	BAD(rings, h->data + 4 * REGISTRY_PAGE);
	BAD(rings, 0);
#undef BAD
}

static void test_damaged_elements(void **state)
{
	struct host *h = *state;
	struct registry *r = &h->registry;

	add_things(r, 1);
	r->probes->session = 9;
	refused(h, "damaged (a probe)");
	r->probes->session = 1;
	r->probes->slot = 10;
	refused(h, "damaged (a probe)");
	r->probes->slot = 9;
	r->sites->length = 0;
	refused(h, "damaged (a site)");
	r->sites->length = 9;
	refused(h, "damaged (a site)");
	r->sites->length = 5;
	r->sites->plan = PROBE_PLAN_COUNT;
	refused(h, "damaged (a site)");
	r->sites->plan = PROBE_PLAN_PUN;
	r->sites->pun = 0x1001;
	refused(h, "damaged (a site)");
	r->sites->pun = 0x1000;
	r->sites->pun_size = 100;
	refused(h, "damaged (a site)");
	r->sites->pun_size = 0x1000;
	if (!arch_host()->far_jump) { /* nothing can lead from there */
		refused(h, "damaged (a site)");
		r->sites->pun = r->sites->pun_size = 0;
	}
	r->stubs->next_jump = r->stubs->size;
	refused(h, "damaged (a stub)");
	r->stubs->next_jump = 0;
	r->semaphores->added = UINT16_MAX + 1;
	refused(h, "damaged (a semaphore)");
	r->semaphores->added = 1;
	r->arenas->size = UINT64_MAX & ~UINT64_C(4095);
	refused(h, "damaged (an arena)");
	r->arenas->size = ONE_ARENA_BYTES + 1;
	refused(h, "damaged (an arena)");
}

/* ---- Searching ---------------------------------------------------------------------- */

static void test_search(void **state)
{
	enum { COUNT = 10007 };
	struct registry r = {0};
	size_t count;

	(void)state;
	add_things(&r, COUNT);
	assert_int_equal(r.site_count, COUNT);
	for (size_t k = 0; k < COUNT; k++) {
		uint64_t pc = 0x10000 + 16 * k;

		assert_int_equal(registry_site(&r, pc)->tail, 0x20000 + k);
		assert_null(registry_site(&r, pc + 1));
		assert_int_equal(registry_stubs(&r, pc, &count)->key, 1000 + k);
		assert_int_equal(count, 1);
		assert_int_equal(registry_probe(&r, 1000 + k, 1)->refcount, 1 + k % 3);
		assert_null(registry_probe(&r, 1000 + k, 2));
		assert_int_equal(
			registry_semaphores(&r, 1000 + k, &count)->address, 0x5000 + 2 * k);
	}
	assert_null(registry_site(&r, 0));
	assert_null(registry_site(&r, UINT64_MAX));
	assert_null(registry_stubs(&r, 5, &count));
	assert_int_equal(count, 0);
	assert_int_equal(registry_sites(&r, 0x10000, 0x10021, &count)->pc, 0x10000);
	assert_int_equal(count, 3);
	assert_null(registry_sites(&r, 0x10001, 0x10010, &count));
	registry_deinit(&r);
}

static void test_refcounts(void **state)
{
	struct registry r = {0};

	(void)state;
	*registry_add_session(&r) = (struct reg_session){.id = 1};
	*registry_add_session(&r) = (struct reg_session){.id = 2, .flags = REG_SESSION_PERSISTENT};
	*registry_add_probe(&r) = (struct reg_probe){.key = 5, .session = 2, .refcount = 3};
	*registry_add_probe(&r) = (struct reg_probe){.key = 5, .session = 1, .refcount = 1};
	*registry_add_probe(&r) = (struct reg_probe){.key = 6, .session = 1, .refcount = 1};
	registry_sort(&r);
	assert_int_equal(registry_refcount(&r, 5, false), 4);
	assert_int_equal(registry_refcount(&r, 5, true), 3);
	assert_int_equal(registry_refcount(&r, 6, true), 0);
	assert_int_equal(registry_refcount(&r, 7, false), 0);
	assert_int_equal(registry_persistent(&r, 5)->session, 2);
	assert_null(registry_persistent(&r, 6));
	/* Of several, one that has references left. */
	*registry_add_session(&r) = (struct reg_session){.id = 3, .flags = REG_SESSION_PERSISTENT};
	*registry_add_probe(&r) = (struct reg_probe){.key = 5, .session = 3, .refcount = 1};
	registry_sort(&r);
	registry_persistent(&r, 5)->refcount = 0;
	assert_true(registry_persistent(&r, 5)->refcount > 0);
	registry_persistent(&r, 5)->refcount = 0;
	assert_int_equal(registry_persistent(&r, 5)->refcount, 0);
	registry_deinit(&r);
}

/* The stubs of a site are in the order in which they were linked, whatever their session. */
static void test_order_of_stubs(void **state)
{
	static const uint32_t sessions[] = {2, 1, 3};
	struct registry r = {0};
	const struct reg_stub *stubs;
	size_t count;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		*registry_add_stub(&r) = (struct reg_stub){
			.pc = 8, .session = sessions[i], .order = i + 1, .start = 100 - i};
	*registry_add_stub(&r) = (struct reg_stub){.pc = 4};
	registry_sort(&r);
	stubs = registry_stubs(&r, 8, &count);
	assert_int_equal(count, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(stubs[i].session, sessions[i]);
	registry_deinit(&r);
}

static void test_drop(void **state)
{
	static const bool flags[] = {true, false, true, false, true};
	struct registry r = {0};

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		registry_add_site(&r)->pc = i;
	registry_drop_site(&r, flags);
	assert_int_equal(r.site_count, 2);
	assert_int_equal(r.sites[0].pc, 1);
	assert_int_equal(r.sites[1].pc, 3);
	registry_drop_site(&r, (const bool[]){true, false});
	assert_int_equal(r.site_count, 1);
	assert_int_equal(r.sites[0].pc, 3);
	/* Room is left over, and used again. */
	for (uint64_t i = 0; i < 20; i++)
		registry_add_site(&r)->pc = 10 + i;
	assert_int_equal(r.sites[20].pc, 29);
	assert_int_equal(r.sites[20].length, 0);
	registry_deinit(&r);
}

/* ---- Code memory -------------------------------------------------------------------- */

static bool overlaps(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

static void test_code_alloc(void **state)
{
	enum { BASE = 0x40000000, SIZE = 0x40000 };
	struct registry r = {.home = BASE, .image = BASE + 0x3000, .image_size = 0x800};
	struct code_taken taken = {0};
	uint64_t got[160];
	size_t count = 0;

	(void)state;
	*registry_add_arena(&r) =
		(struct reg_arena){.start = BASE - 0x100000, .size = REGISTRY_PAGE};
	*registry_add_arena(&r) = (struct reg_arena){.start = BASE, .size = SIZE};
	*registry_add_site(&r) = (struct reg_site){.tail = BASE + 0x1000, .tail_size = 30};
	*registry_add_stub(&r) = (struct reg_stub){.start = BASE + 0x1040, .size = 100};
	while (count < 160) {
		uint64_t at = code_alloc(&r, &taken, 0x700, 64, BASE, BASE + SIZE);

		if (!at)
			break;
		assert_int_equal(at % 64, 0);
		assert_true(at >= BASE + REGISTRY_PAGE && at + 0x700 <= BASE + SIZE);
		assert_false(overlaps(at, 0x700, BASE + 0x3000, 0x800));
		assert_false(overlaps(at, 0x700, BASE + 0x1000, 30));
		assert_false(overlaps(at, 0x700, BASE + 0x1040, 100));
		for (size_t i = 0; i < count; i++)
			assert_false(overlaps(at, 0x700, got[i], 0x700));
		got[count++] = at;
	}
	/* Little is wasted: all but a page, minus the image and the ends of the gaps. */
	assert_in_range(count, 138, (SIZE - REGISTRY_PAGE) / 0x700);
	assert_int_equal(taken.count, count);
	/* Smaller requests find the rest of the gaps. */
	assert_int_not_equal(code_alloc(&r, &taken, 16, 16, BASE, BASE + SIZE), 0);
	free(taken.items);
	registry_deinit(&r);
}

/* A pun's target is fixed: its bytes there are free, or not. */
static void test_code_take(void **state)
{
	enum { BASE = 0x40000000, SIZE = 0x8000 };
	struct registry r = {.home = BASE, .image = BASE + 0x3000, .image_size = 0x800};
	struct code_taken taken = {0};

	(void)state;
	*registry_add_arena(&r) =
		(struct reg_arena){.start = BASE - 0x100000, .size = REGISTRY_PAGE};
	*registry_add_arena(&r) = (struct reg_arena){.start = BASE, .size = SIZE};
	*registry_add_stub(&r) = (struct reg_stub){.start = BASE + 0x1040, .size = 100};
	*registry_add_site(&r) =
		(struct reg_site){.entry = BASE + 0x5002, .pun = BASE + 0x5002, .pun_size = 14};
	assert_true(code_arena(&r, BASE) && code_arena(&r, BASE + SIZE - 1));
	assert_false(code_arena(&r, BASE - 1) || code_arena(&r, BASE + SIZE));
	assert_false(code_arena(&r, BASE - 0x100000));
	assert_false(code_take(&r, &taken, BASE - 0x100000, 14));
	assert_false(code_take(&r, &taken, BASE + 0x800, 14));
	assert_false(code_take(&r, &taken, BASE + SIZE - 13, 14));
	assert_false(code_take(&r, &taken, BASE + 0x1033, 14));
	assert_false(code_take(&r, &taken, BASE + 0x37ff, 14));
	assert_false(code_take(&r, &taken, BASE + 0x500f, 14));
	assert_int_equal(taken.count, 0);
	assert_true(code_take(&r, &taken, BASE + 0x1032, 14));
	assert_true(code_take(&r, &taken, BASE + 0x3800, 14));
	assert_true(code_take(&r, &taken, BASE + 0x5010, 14));
	assert_true(code_take(&r, &taken, BASE + SIZE - 14, 14));
	assert_false(code_take(&r, &taken, BASE + 0x5011, 14));
	assert_int_equal(taken.count, 4);
	while (true) {
		uint64_t at = code_alloc(&r, &taken, 16, 16, BASE, BASE + SIZE);

		if (!at)
			break;
		assert_false(overlaps(at, 16, BASE + 0x5002, 14 + 14));
		assert_false(overlaps(at, 16, BASE + SIZE - 14, 14));
	}
	free(taken.items);
	registry_deinit(&r);
}

static void test_code_reach(void **state)
{
	const uint64_t reach = arch_host()->jump_reach;
	const uint64_t near = UINT64_C(0x7f0000000000), far = near + reach;
	struct registry r = {0};
	struct code_taken taken = {0};

	(void)state;
	*registry_add_arena(&r) = (struct reg_arena){.start = near, .size = 0x40000};
	assert_int_equal(code_alloc(&r, &taken, 64, 16, far, far + 0x1000), 0);
	assert_int_equal(code_alloc(&r, &taken, 64, 16, 0x400000, 0x500000), 0);
	assert_int_equal(
		code_alloc(&r, &taken, 64, 16, near + reach / 4, near + reach / 4 + 0x1000), near);
	/* The whole module must be in reach, on both sides. */
	assert_false(code_reaches(near, near + 64, near - 64, far));
	assert_false(code_reaches(near, near + 64, near - reach, near));
	assert_true(code_reaches(near, near + 64, near - reach / 2, near));
	free(taken.items);
	registry_deinit(&r);
}

/* ---- Names -------------------------------------------------------------------------- */

static void add_probe(struct registry *r, uint64_t key)
{
	*registry_add_probe(r) = (struct reg_probe){.key = key, .session = 1, .refcount = 1};
	registry_sort(r);
}

static void is_named(const struct registry *r, uint64_t key, const char *provider, const char *name)
{
	struct registry_names names;
	const struct reg_name *found;

	no_error(registry_names(r, &names));
	found = registry_names_find(&names, key);
	if (!name) {
		assert_null(found);
	} else {
		assert_non_null(found);
		assert_string_equal(found->provider, provider);
		assert_string_equal(found->name, name);
	}
	registry_names_deinit(&names);
}

static void test_names(void **state)
{
	struct host *h = *state;
	char name[300] = {0};
	const struct reg_name added[] = {{7, "first", "seven"}, {3, "first", "three"}};
	const struct reg_name more[] = {{5, "second", name}, {9, "second", "in no session"}};
	struct registry r;
	size_t size;
	char *text;

	memset(name, 'n', sizeof(name) - 1);
	add_probe(&h->registry, 7);
	add_probe(&h->registry, 3);
	add_probe(&h->registry, 4); /* as added by a controller that keeps no names */
	assert_true(registry_set_text(&h->registry, 1, "what the session was asked", 27));
	no_error(registry_add_names(&h->registry, added, 2));
	add_probe(&h->registry, 5);
	no_error(registry_add_names(&h->registry, more, 2));
	store(h);
	no_error(load(&r));
	is_named(&r, 3, "first", "three");
	is_named(&r, 4, NULL, NULL);
	is_named(&r, 5, "second", name);
	is_named(&r, 7, "first", "seven");
	is_named(&r, 9, NULL, NULL);
	text = registry_text(&r, 1, &size);
	assert_string_equal(text, "what the session was asked");
	free(text);
	/* When a probe goes, so does its name. */
	r.probe_count = 1;
	no_error(registry_add_names(&r, NULL, 0));
	is_named(&r, 3, "first", "three");
	is_named(&r, 7, NULL, NULL);
	r.probe_count = 0;
	no_error(registry_add_names(&r, NULL, 0));
	assert_int_equal(r.text_count, 1);
	registry_deinit(&r);
}

/* Nothing beyond the parts is read, whatever they hold. */
static void test_damaged_names(void **state)
{
	struct host *h = *state;
	const struct reg_name added[] = {{3, "provider", "name"}};
	struct registry_names names;
	struct registry *r = &h->registry;

	add_probe(r, 3);
	no_error(registry_add_names(r, added, 1));
	assert_int_equal(r->text_count, 1);
	memset(r->texts->bytes, 'x', sizeof(r->texts->bytes));
	is_named(r, 3, NULL, NULL);
	r->texts->bytes[20] = 0; /* the name does not end */
	no_error(registry_names(r, &names));
	assert_int_equal(names.count, 0);
	registry_names_deinit(&names);
	r->texts->index = UINT32_MAX;
	is_named(r, 3, NULL, NULL);
	no_error(registry_add_names(r, added, 1));
	is_named(r, 3, "provider", "name");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test_setup_teardown(test_round_trip, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_publish, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_unsorted, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_unfinished_home, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(
			test_home_in_writable_memory, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_home_without_data, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(
			test_data_that_leads_astray, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_damaged_header, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_damaged_sessions, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_damaged_elements, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_names, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_damaged_names, host_setup, host_teardown),
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_refcounts),
		cmocka_unit_test(test_order_of_stubs),
		cmocka_unit_test(test_drop),
		cmocka_unit_test(test_code_alloc),
		cmocka_unit_test(test_code_take),
		cmocka_unit_test(test_code_reach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
