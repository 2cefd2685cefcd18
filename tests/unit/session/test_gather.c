/* SPDX-License-Identifier: MIT */
/*
 * Rows of gathered data: cells, tables and flights as stubs would leave them on several CPUs,
 * and as a lying target would.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/process.h"
#include "libprobe/base/procfs.h"
#include "libprobe/session/session.h"
#include "libprobe/registry/registry.h"

enum { CPUS = 2, PROBES = 3, SAMPLES = 20000 };
#define ADDRESS UINT64_C(0x7f0000000000)

struct host {
	struct probe_session session;
	struct probe_target target;
	struct probe_session_probe probes[PROBES];
	struct session_probe known[PROBES];
	uint8_t *base;
	struct probe_row *rows;
	size_t count;
};

/* A session as its options request it. Slots are in another order than probes. */
static struct host *host_create(const struct probe_session_options *options, size_t pairs)
{
	struct host *h = calloc(1, sizeof(*h));
	struct probe_session *s = &h->session;
	struct reg_session reg = {.id = 1, .cpus = CPUS};
	struct data_needs needs;

	assert_non_null(h);
	h->target =
		(struct probe_target){.pid = getpid(), .start_time = procfs_start_time(getpid())};
	s->target = &h->target;
	s->options = *options;
	assert_null(asked_init(&s->asked, options));
	s->probes = h->probes;
	s->known = h->known;
	s->probe_count = PROBES;
	s->pairs.count = pairs;
	for (uint32_t i = 0; i < PROBES; i++)
		h->known[i].slot = PROBES - 1 - i;
	needs = session_needs(s);
	assert_null(data_lay_out(&reg, PROBES, &needs));
	reg.data = ADDRESS;
	data_place(&reg);
	reg.slot_count = PROBES;
	s->data.fd = memfd_create("data", MFD_CLOEXEC);
	assert_int_equal(ftruncate(s->data.fd, (off_t)reg.data_size), 0);
	assert_null(rings_open(s->data.fd, &reg, &s->data.rings));
	h->base = s->data.rings.base;
	s->data.view = (struct snapshot){.base = h->base, .fd = s->data.fd, .layout = reg};
	clock_init(&s->clock, arch_process()->counter);
	return h;
}

static void host_free(struct host *h)
{
	free(h->rows);
	session_names_deinit(&h->session.names);
	rings_close(&h->session.data.rings);
	close(h->session.data.fd);
	asked_deinit(&h->session.asked);
	free(h);
}

static uint8_t *set_of(const struct host *h, uint32_t set)
{
	const struct reg_session *l = &h->session.data.view.layout;

	return h->base + (l->slots - l->data) + ((uint64_t)set << l->slots_shift);
}

static struct probe_cell *cell_of(const struct host *h, uint32_t set, size_t probe)
{
	const struct reg_session *l = &h->session.data.view.layout;

	return (struct probe_cell *)(set_of(h, set) + l->cells +
				     h->known[probe].slot * l->cell_bytes);
}

static uint64_t *entry_of(const struct host *h, uint32_t set, uint32_t entry)
{
	const struct reg_session *l = &h->session.data.view.layout;

	return (uint64_t *)(set_of(h, set) + l->cells + (uint64_t)entry * l->cell_bytes);
}

static struct probe_cell *entry_cell(const struct host *h, uint64_t *entry)
{
	return (struct probe_cell *)((uint8_t *)entry + h->session.data.view.layout.entry_cell);
}

/* Where arch/layout.h says a value is counted. */
static size_t bucket_of(uint64_t value)
{
	size_t shift = 0;

	if (value < 32)
		return value;
	while (value >> shift >= 64)
		shift++;
	return 32 * shift + (value >> shift);
}

/* Updates a cell as a stub does, with all parts. */
static void hit(
	struct probe_cell *cell, uint64_t value, bool is_signed, uint64_t time, bool buckets)
{
	uint64_t biased = value + (is_signed ? CELL_BIAS : 0);

	cell->sum += value;
	cell->most = biased > cell->most ? biased : cell->most;
	cell->least = ~biased > cell->least ? ~biased : cell->least;
	cell->last = value;
	cell->last_time = time;
	if (!buckets)
		cell->count++;
	else
		cell->buckets[is_signed && value >> 63 ? CELL_NEGATIVE : bucket_of(value)]++;
}

static void read_rows(struct host *h)
{
	struct probe_error *error;

	free(h->rows);
	error = probe_session_rows(&h->session, &h->rows, &h->count);
	if (error)
		fail_msg("%s", error->message);
}

static const struct probe_row *row_of(const struct host *h, size_t probe)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->rows[i].probe == probe)
			return &h->rows[i];
	fail_msg("there is no row of probe %zu", probe);
	return NULL;
}

/* ---- Without keys ------------------------------------------------------------------- */

static void test_cells(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.value = "arg0", .sum = true, .extremes = true, .last = true}};
	struct host *h = host_create(&options, 0);
	uint64_t now = h->session.clock.first_stamp;
	const struct probe_row *row;

	(void)state;
	h->known[1].types.value_signed = true;
	hit(cell_of(h, 0, 1), (uint64_t)-5, true, now + 10, false);
	hit(cell_of(h, 0, 1), 7, true, now + 40, false);
	hit(cell_of(h, 1, 1), (uint64_t)-9, true, now + 50, false);
	hit(cell_of(h, CPUS, 1), 3, true, now + 30, false); /* a thread without rseq */
	hit(cell_of(h, 1, 2), UINT64_MAX, false, now, false);
	hit(cell_of(h, 0, 2), UINT64_MAX, false, now, false);
	read_rows(h);
	assert_int_equal(h->count, 3);
	row = row_of(h, 1);
	assert_int_equal(row->count, 4);
	assert_true(row->has_value && row->is_signed);
	assert_true(row->sum == -4 && row->unit == 1);
	assert_int_equal(row->min.kind, PROBE_VALUE_SIGNED);
	assert_int_equal(row->min.i, -9);
	assert_int_equal(row->max.i, 7);
	assert_int_equal(row->last.i, -9); /* the newest of all CPUs */
	assert_true(row->last_time_ns >=
		    clock_realtime_ns(&h->session.clock, h->session.clock.first_stamp));
	assert_true(row->last_time_ns <= h->session.clock.last_ns);
	assert_null(row->buckets);
	assert_int_equal(row->begin, SIZE_MAX);
	row = row_of(h, 2);
	assert_int_equal(row->count, 2);
	assert_int_equal(row->min.kind, PROBE_VALUE_UNSIGNED);
	assert_true(row->min.u == UINT64_MAX && row->max.u == UINT64_MAX);
	/* Modulo 2^64, as if one CPU had counted both. */
	assert_true(row->sum == UINT64_MAX - 1);
	/* A probe without hits has a row without values. */
	row = row_of(h, 0);
	assert_int_equal(row->count, 0);
	assert_int_equal(row->min.kind, PROBE_VALUE_NULL);
	assert_int_equal(row->last.kind, PROBE_VALUE_NULL);
	assert_int_equal(row->last_time_ns, 0);
	assert_int_equal(h->probes[1].hits, 4);
	assert_int_equal(h->probes[0].hits, 0);
	host_free(h);
}

/* A reader in the middle of a hit: only one of the extremes has been stored. */
static void test_half_a_hit(void **state)
{
	static const struct probe_session_options options = {
		.kind = PROBE_SESSION_GATHER, .gather = {.value = "arg0", .extremes = true}};
	struct host *h = host_create(&options, 0);

	(void)state;
	cell_of(h, 0, 0)->most = 17;
	read_rows(h);
	assert_int_equal(row_of(h, 0)->min.u, 17);
	assert_int_equal(row_of(h, 0)->max.u, 17);
	host_free(h);
}

/* ---- Histograms ----------------------------------------------------------------------- */

static int compare_values(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Typical distributions of latencies and sizes: flat, many powers, few values. */
static uint64_t sample(int kind)
{
	uint64_t random = (uint64_t)lrand48() << 31 ^ (uint64_t)lrand48();

	return kind == 0 ? random % 100000 : kind == 1 ? random >> (lrand48() % 62) : random % 40;
}

static void test_percentiles(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.value = "arg0", .histogram = true, .extremes = true}};
	static const double percents[] = {0, 1, 10, 50, 90, 99, 99.9, 99.99, 100};
	static uint64_t values[SAMPLES];

	(void)state;
	srand48(1);
	for (int kind = 0; kind < 3; kind++) {
		struct host *h = host_create(&options, 0);

		for (size_t i = 0; i < SAMPLES; i++) {
			values[i] = sample(kind);
			hit(cell_of(h, (uint32_t)(i % (CPUS + 1)), 0), values[i], false, 1, true);
		}
		qsort(values, SAMPLES, sizeof(*values), compare_values);
		read_rows(h);
		assert_int_equal(row_of(h, 0)->count, SAMPLES);
		for (size_t i = 0; i < sizeof(percents) / sizeof(*percents); i++) {
			size_t rank = (size_t)ceil(percents[i] / 100 * SAMPLES - 1e-6);
			double exact = (double)values[rank ? rank - 1 : 0];
			double got = probe_row_percentile(row_of(h, 0), percents[i]);

			if (fabs(got - exact) > 0.016 * exact)
				fail_msg("%g %%: %g, not %g", percents[i], got, exact);
		}
		assert_true(isnan(probe_row_percentile(row_of(h, 1), 50)));
		host_free(h);
	}
}

static void test_bounds(void **state)
{
	uint64_t next = 0, high;
	int64_t low;

	(void)state;
	for (size_t i = 0; i < CELL_NEGATIVE; i++) {
		probe_bucket_range(i, &low, &high);
		assert_true((uint64_t)low == next && high >= next);
		assert_int_equal(bucket_of((uint64_t)low), i);
		assert_int_equal(bucket_of(high), i);
		next = high + 1;
	}
	assert_true(next == 0); /* the last one ends with UINT64_MAX */
}

/* ---- Keys ------------------------------------------------------------------------------- */

static void test_number_keys(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.keys = {"arg0", "arg1"},
			.key_count = 2,
			.keys_max = 8,
			.value = "arg2",
			.sum = true}};
	struct host *h = host_create(&options, 0);
	/* The same key at two places of the shared set, and on a CPU. */
	static const uint32_t sets[] = {0, CPUS, CPUS}, entries[] = {3, 0, 15};
	uint64_t *e;

	(void)state;
	h->known[0].types.key_signed[0] = true;
	for (int i = 0; i < 3; i++) {
		e = entry_of(h, sets[i], entries[i]);
		memcpy(e, (const uint64_t[]){0x51, h->known[0].slot, (uint64_t)-2, 6}, 32);
		hit(entry_cell(h, e), 100, false, 0, false);
	}
	e = entry_of(h, 1, 4); /* the same words for another probe */
	memcpy(e, (const uint64_t[]){0x51, h->known[1].slot, (uint64_t)-2, 6}, 32);
	hit(entry_cell(h, e), 1, false, 0, false);
	e = entry_of(h, 1, 5); /* created, but not hit yet */
	memcpy(e, (const uint64_t[]){0x53, h->known[0].slot, 1, 1}, 32);
	read_rows(h);
	assert_int_equal(h->count, 2);
	assert_int_equal(row_of(h, 0)->count, 3);
	assert_true(row_of(h, 0)->sum == 300);
	assert_int_equal(row_of(h, 0)->keys[0].kind, PROBE_VALUE_SIGNED);
	assert_int_equal(row_of(h, 0)->keys[0].i, -2);
	assert_int_equal(row_of(h, 0)->keys[1].u, 6);
	assert_int_equal(row_of(h, 1)->keys[0].kind, PROBE_VALUE_UNSIGNED);
	assert_int_equal(h->probes[0].hits, 3);
	host_free(h);
}

static const struct probe_session_options by_string = {.kind = PROBE_SESSION_GATHER,
	.string_bytes = 20,
	.gather = {.keys = {"str(arg0)", "arg1", "str(arg2)"}, .key_count = 3, .keys_max = 8}};

/* An entry with two strings and a number. */
static uint64_t *string_entry(const struct host *h, uint32_t set, uint32_t entry, const char *text,
	uint64_t flags, uint64_t number)
{
	uint64_t *e = entry_of(h, set, entry);

	memcpy(e, (const uint64_t[]){0x7, h->known[0].slot, strlen(text) | flags, number, 2}, 40);
	memset(e + 5, 'x', 8 * ((strlen(text) + 7) / 8)); /* padding has no meaning */
	memcpy(e + 5, text, strlen(text));
	memcpy(e + 5 + (strlen(text) + 7) / 8, "ab\xff\xff", 4);
	hit(entry_cell(h, e), 0, false, 0, false);
	return e;
}

static void test_string_keys(void **state)
{
	struct host *h = host_create(&by_string, 0);
	const struct probe_row *row = NULL;

	(void)state;
	memset(string_entry(h, 0, 1, "hello", 0, 4) + 5, 'y', 1);
	memset(string_entry(h, 1, 9, "hello", 0, 4) + 5, 'y', 1);
	string_entry(h, CPUS, 2, "", UINT64_C(1) << RING_STRING_NULL_BIT, 4);
	string_entry(h, 1, 3, "0123456789abcdefghij", UINT64_C(1) << RING_STRING_TRUNCATED_BIT, 4);
	read_rows(h);
	assert_int_equal(h->count, 3);
	for (size_t i = 0; i < h->count; i++)
		if (h->rows[i].keys[0].length == 5)
			row = &h->rows[i];
	assert_non_null(row);
	assert_int_equal(row->count, 2); /* two CPUs, whatever their padding */
	assert_int_equal(row->keys[0].kind, PROBE_VALUE_STRING);
	assert_memory_equal(row->keys[0].bytes, "yello", 5);
	assert_int_equal(row->keys[1].u, 4);
	assert_int_equal(row->keys[2].length, 2);
	assert_memory_equal(row->keys[2].bytes, "ab", 2);
	for (size_t i = 0; i < h->count; i++) {
		row = &h->rows[i];
		if (row->keys[0].length == 20)
			assert_true(row->keys[0].truncated);
		if (row->keys[0].kind == PROBE_VALUE_NULL)
			assert_memory_equal(row->keys[2].bytes, "ab", 2);
	}
	host_free(h);
}

/*
 * Without a process, addresses have no names: they are texts all the same. Normal forms are as
 * stubs have made them.
 */
static void test_name_keys(void **state)
{
	static const struct probe_session_options by_name = {.kind = PROBE_SESSION_GATHER,
		.string_bytes = 20,
		.gather = {.keys = {"norm(str(arg0))", "sym(arg1)", "str(arg2)"},
			.key_count = 3,
			.keys_max = 8}};
	struct host *h = host_create(&by_name, 0);

	(void)state;
	string_entry(h, 0, 1, "select ?", 0, UINT64_MAX);
	string_entry(h, 1, 2, "select ?", 0, UINT64_MAX);
	string_entry(h, 1, 3, "select ?", 0, 0x10);
	read_rows(h);
	assert_int_equal(h->count, 2);
	for (size_t i = 0; i < h->count; i++) {
		const struct probe_row *row = &h->rows[i];
		const char *name = row->count == 2 ? "0xffffffffffffffff" : "0x10";

		assert_memory_equal(row->keys[0].bytes, "select ?", 8);
		assert_int_equal(row->keys[1].kind, PROBE_VALUE_STRING);
		assert_false(row->keys[1].truncated);
		assert_int_equal(row->keys[1].length, strlen(name));
		assert_memory_equal(row->keys[1].bytes, name, strlen(name));
		assert_memory_equal(row->keys[2].bytes, "ab", 2);
	}
	host_free(h);
}

/* Says in the process's file that there is a function. */
static void name_code(FILE *map, const void *code, const char *name)
{
	assert_true(fprintf(map, "%jx 10 %s\n", (uintmax_t)(uintptr_t)code, name) > 0);
	assert_int_equal(fflush(map), 0);
}

/* Intervals are differences of tables: a name that is other code's now makes no other row. */
static void test_names_stay(void **state)
{
	static const struct probe_session_options by_name = {.kind = PROBE_SESSION_GATHER,
		.gather = {.keys = {"sym(arg0)"}, .key_count = 1, .keys_max = 8}};
	struct host *h = host_create(&by_name, 0);
	char path[64];
	void *code;
	FILE *map;

	(void)state;
	code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(code != MAP_FAILED);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "w");
	assert_non_null(map);
	assert_null(naming_create(getpid(), (struct naming_options){0}, &h->session.names.naming));
	name_code(map, code, "first");
	for (uint64_t i = 1; i <= 2; i++) {
		uint64_t *e = entry_of(h, 0, 3);

		memcpy(e, (const uint64_t[]){0x51, h->known[0].slot, (uintptr_t)code}, 24);
		hit(entry_cell(h, e), 0, false, 0, false);
		read_rows(h);
		assert_int_equal(h->count, 1);
		assert_int_equal(h->rows->count, i);
		assert_int_equal(h->rows->keys[0].length, 5);
		assert_memory_equal(h->rows->keys[0].bytes, "first", 5);
		name_code(map, code, "second");
	}
	naming_refresh(h->session.names.naming);
	assert_string_equal(naming_name(h->session.names.naming, (uintptr_t)code), "second");
	host_free(h);
	fclose(map);
	assert_int_equal(unlink(path), 0);
	munmap(code, 4096);
}

/* What a target may write: none of it is trusted, or read past. */
static void test_lies(void **state)
{
	struct host *h = host_create(&by_string, 0);
	uint64_t size;

	(void)state;
	string_entry(h, 0, 0, "good", 0, 1);
	string_entry(h, 0, 1, "bad", 0, 1)[2] = 21; /* longer than strings are captured */
	string_entry(h, 0, 2, "bad", 0, 1)[2] = UINT32_MAX;
	string_entry(h, 0, 3, "bad", 0, 1)[4] = 21;
	string_entry(h, 0, 4, "bad", 0, 1)[1] = PROBES; /* no such slot */
	string_entry(h, 0, 5, "bad", 0, 1)[1] = UINT64_MAX;
	string_entry(h, CPUS, 6, "bad", 0, 1)[0] = TABLE_TAG_FILLING;
	read_rows(h);
	assert_int_equal(h->count, 1);
	assert_memory_equal(h->rows[0].keys[0].bytes, "good", 4);
	session_update_counts(&h->session);
	assert_int_equal(h->probes[0].hits, 1);
	/* Random contents: it only has to finish without a fault. */
	size = h->session.data.view.layout.data_size;
	srand48(2);
	for (uint64_t i = 0; i < size; i += 4)
		memcpy(h->base + i, (const int32_t[]){(int32_t)mrand48()}, 4);
	read_rows(h);
	memset(h->base, 0xff, size);
	read_rows(h);
	host_free(h);
}

/* Reading a large, empty table allocates no memory. */
static void test_sparse(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.keys = {"arg0"},
			.key_count = 1,
			.value = "arg1",
			.histogram = true,
			.pairing = PROBE_PAIRING_NONE}};
	struct host *h = host_create(&options, 0);
	struct stat before, after;
	uint64_t *e = entry_of(h, 1, 5000);

	(void)state;
	memcpy(e, (const uint64_t[]){1, h->known[2].slot, 77}, 24);
	hit(entry_cell(h, e), 40, false, 0, true);
	assert_int_equal(fstat(h->session.data.fd, &before), 0);
	assert_true(before.st_size > 100 << 20);
	read_rows(h);
	assert_int_equal(fstat(h->session.data.fd, &after), 0);
	assert_int_equal(h->count, 1);
	assert_int_equal(h->rows[0].keys[0].u, 77);
	assert_int_equal(h->rows[0].buckets[bucket_of(40)], 1);
	/* Its own pages, and counters: fewer than 16. */
	assert_true((after.st_blocks - before.st_blocks) * 512 < 16 * sysconf(_SC_PAGESIZE));
	host_free(h);
}

/* ---- Pairs ------------------------------------------------------------------------------ */

static struct probe_flight *flight_of(const struct host *h, uint32_t entry)
{
	const struct reg_session *l = &h->session.data.view.layout;

	return (struct probe_flight *)(h->base + (l->flights - l->data) +
				       entry * data_flight_bytes(l));
}

/* An entry with `depth` begins, of which the last `open` wait for their ends. */
static void put_flight(
	const struct host *h, uint32_t entry, uint32_t state, uint32_t depth, uint32_t open)
{
	struct probe_flight *f = flight_of(h, entry);

	f->state = state;
	f->depth = depth;
	for (uint32_t i = 0; i < open; i++)
		f->times[(depth - 1 - i) % h->session.data.view.layout.flight_depth] = 1;
}

static void test_pairs(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_NAMES,
			.sum = true,
			.extremes = true,
			.histogram = true}};
	struct host *h = host_create(&options, 2);
	const struct probe_row *row;
	double tick;

	(void)state;
	h->known[0].part = (struct pair_part){.role = PAIR_END, .pair = 1};
	h->known[1].part = (struct pair_part){.role = PAIR_BEGIN, .pair = 1};
	h->known[2].part = (struct pair_part){.role = PAIR_END, .pair = 1};
	h->session.target_pid = (uint32_t)getpid();
	hit(cell_of(h, 0, 0), 1000000, false, 0, true);
	hit(cell_of(h, 1, 0), 3000000, false, 0, true);
	put_flight(h, 5, FLIGHT_PAIR + 1, 3, 3);
	flight_of(h, 5)->tid = (uint32_t)gettid();
	put_flight(h, 900, FLIGHT_PAIR + 1, 1, 1);
	put_flight(h, 7, FLIGHT_PAIR, 8, 8); /* another pair */
	put_flight(h, 8, FLIGHT_TAKEN, 1, 1);
	put_flight(h, 9, FLIGHT_PAIR + 2, 1, 1); /* none such */
	/* Some have lost their places; of the others, all but two have ended. */
	put_flight(h, 10, FLIGHT_PAIR + 1, 5000, 2);
	/* The thread is gone, and with it what it began. */
	put_flight(h, 11, FLIGHT_PAIR + 1, 1, 1);
	flight_of(h, 11)->tid = INT32_MAX;
	read_rows(h);
	assert_int_equal(h->count, 2); /* ends have rows */
	row = row_of(h, 0);
	assert_int_equal(row->count, 2);
	assert_int_equal(row->begin, 1);
	assert_int_equal(row->in_flight, 6);
	assert_int_equal(row_of(h, 2)->in_flight, 6);
	tick = row->unit;
	assert_true(tick > 0.01 && tick < 1000);
	assert_true(row->has_value && !row->is_signed);
	assert_true(fabsl(row->sum - 4e6L * tick) < 1);
	assert_int_equal(row->min.u, (uint64_t)(1e6 * tick + 0.5));
	assert_int_equal(row->max.u, (uint64_t)(3e6 * tick + 0.5));
	assert_true(fabs(probe_row_percentile(row, 50) - 1e6 * tick) <= 0.016 * 1e6 * tick);
	host_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_half_a_hit),
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_number_keys),
		cmocka_unit_test(test_string_keys),
		cmocka_unit_test(test_name_keys),
		cmocka_unit_test(test_names_stay),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_sparse),
		cmocka_unit_test(test_pairs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
