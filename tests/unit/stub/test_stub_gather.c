/* SPDX-License-Identifier: MIT */
/*
 * Gathering stubs: cells and tables of keys, in one thread, and in many under a storm of
 * signals.
 */
/* Not under ThreadSanitizer: it knows no code that we make. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/norm.h"
#include "libprobe/base/page.h"
#include "tests/unit/stub/stub_gathering.h"

enum { ENTRIES = 64, OWNER = 5, LONG_TEXT = 8192 };

/* ---- Cells -------------------------------------------------------------------------- */

static void cells(void **state)
{
	static const uint64_t values[] = {0, 1, 31, 32, 63, 64, 65, 1000, 123456789, UINT64_MAX,
		UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, (uint64_t)-5};
	struct gathering *c = *state;

	for (int variant = 0; variant < 4; variant++) {
		bool is_signed = variant & 1, rseq = variant & 2;
		struct arch_stub stub = gathering_stub(c, rseq,
			ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES | ARCH_GATHER_LAST |
				ARCH_GATHER_BUCKETS);
		struct totals t;
		uint64_t sum = 0, bias = is_signed ? CELL_BIAS : 0, most = 0, least = 0;

		stub.actions[0].gather.is_signed = is_signed;
		stub_host_reset(&c->host);
		c->site = stub_host_emit_site(&c->host, &stub);
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
			uint64_t biased = values[i] + bias;

			c->site(values[i], 0, 0);
			sum += values[i];
			most = biased > most ? biased : most;
			least = ~biased > least ? ~biased : least;
		}
		t = gathering_totals(c);
		assert_int_equal(t.sum, sum);
		assert_int_equal(t.most, most);
		assert_int_equal(t.least, least);
		assert_int_equal(t.last, (uint64_t)-5);
		assert_int_equal(t.bucketed, sizeof(values) / sizeof(*values));
		assert_int_equal(t.count, 0);
		assert_int_equal(t.buckets[0], 1);
		assert_int_equal(t.buckets[31], 1);
		assert_int_equal(t.buckets[32], 1);
		assert_int_equal(t.buckets[63], 1);
		assert_int_equal(t.buckets[64], 2);
		assert_int_equal(t.buckets[4 * 32 + (1000 >> 4)], 1);
		assert_int_equal(t.buckets[CELL_NEGATIVE], is_signed ? 3 : 0);
		assert_int_equal(t.buckets[CELL_NEGATIVE - 1], is_signed ? 0 : 2);
		stub_host_reset(&c->host);
		stub.actions[0].gather.parts = 0;
		c->site = stub_host_emit_site(&c->host, &stub);
		for (int i = 0; i < 7; i++)
			c->site(1, 0, 0);
		assert_int_equal(gathering_totals(c).count, 7);
	}
}

static void hit_number(void *data, uint64_t number)
{
	struct gathering *c = data;

	c->site(number % 1000, number % 10, 0);
}

/* The sum of number % 1000 below `hits`. */
static uint64_t sum_below(uint64_t hits)
{
	uint64_t rest = hits % 1000;

	return hits / 1000 * 499500 + rest * (rest - (rest > 0)) / 2;
}

static void cells_by_many(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = gathering_stub(
			c, rseq, ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES | ARCH_GATHER_BUCKETS);
		struct totals t;

		stub_host_reset(&c->host);
		c->site = stub_host_emit_site(&c->host, &stub);
		gathering_run(c, hit_number, GATHERING_HITS, true);
		t = gathering_totals(c);
		assert_int_equal(
			t.bucketed, (uint64_t)GATHERING_THREADS * GATHERING_HITS + c->signals);
		assert_int_equal(t.sum,
			GATHERING_THREADS * sum_below(GATHERING_HITS) + sum_below(c->signals));
		assert_int_equal(t.most, 999);
		assert_int_equal(~t.least, 0);
	}
}

/* ---- Keys ----------------------------------------------------------------------------- */

static void add_keys(struct arch_stub *stub, bool string)
{
	struct arch_gather *g = &stub->actions[0].gather;

	g->keys[0] = string ? (struct arch_key){.string = 2}
			    : (struct arch_key){.number = &gathering_second};
	g->key_count = 1;
	g->owner = OWNER;
	g->entries = ENTRIES;
	g->entry_cell = 24 + (string ? GATHERING_STRING_MAX : 0);
	g->entry_bytes = (g->entry_cell + GATHERING_CELL_BYTES + 63) / 64 * 64;
}

static struct totals key_totals(
	const struct gathering *c, const struct arch_gather *g, uint64_t word, const char *bytes)
{
	struct totals t = {0};

	for (uint32_t set = 0; set <= c->host.cpus; set++)
		for (uint32_t i = 0; i < g->entries; i++) {
			const uint8_t *entry = gathering_set(c, set) + (size_t)i * g->entry_bytes;
			uint64_t head[3];

			memcpy(head, entry, sizeof(head));
			if (!head[0] || head[2] != word ||
				(bytes && memcmp(entry + 24, bytes, ring_string_length(word))))
				continue;
			assert_int_equal(head[0] & 1, 1);
			assert_int_equal(head[1], OWNER);
			t.entries++;
			gathering_add(&t, (const struct probe_cell *)(entry + g->entry_cell));
		}
	return t;
}

/* Not in the table that all threads share. */
static uint32_t entries_used(const struct gathering *c, const struct arch_gather *g)
{
	uint32_t used = 0;

	for (uint32_t set = 0; set < c->host.cpus; set++)
		for (uint32_t i = 0; i < g->entries; i++)
			used += *(const uint64_t *)(gathering_set(c, set) +
						    (size_t)i * g->entry_bytes) != 0;
	return used;
}

static void number_keys(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub =
			gathering_stub(c, rseq, ARCH_GATHER_SUM | ARCH_GATHER_BUCKETS);
		uint64_t count = 0, sum = 0;

		add_keys(&stub, false);
		stub_host_reset(&c->host);
		c->site = stub_host_emit_site(&c->host, &stub);
		gathering_run(c, hit_number, GATHERING_HITS, true);
		for (uint64_t key = 0; key < 10; key++) {
			struct totals t = key_totals(c, &stub.actions[0].gather, key, NULL);

			assert_true(t.entries > 0);
			assert_true(
				t.bucketed >= (uint64_t)GATHERING_THREADS * GATHERING_HITS / 10);
			count += t.bucketed;
			sum += t.sum;
			for (uint64_t v = 0; v < 32; v++)
				assert_true(v % 10 == key ? t.buckets[v] > 0 : !t.buckets[v]);
		}
		assert_int_equal(count, (uint64_t)GATHERING_THREADS * GATHERING_HITS + c->signals);
		assert_int_equal(
			sum, GATHERING_THREADS * sum_below(GATHERING_HITS) + sum_below(c->signals));
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
		/* In a set of its own there is no interference. */
		if (rseq)
			assert_true(entries_used(c, &stub.actions[0].gather) <= 10 * c->host.cpus);
	}
}

static const char *const names[] = {"", "a", "ab", "abcdefg", "abcdefgh", "abcdefghi",
	"sixteen letters!", "sixteen letters?", "a string that is longer than is kept, and is cut"};
enum { NAMES = sizeof(names) / sizeof(*names) };

static void hit_name(void *data, uint64_t number)
{
	struct gathering *c = data;

	c->site((uintptr_t)names[number % NAMES], 0, 0);
}

static void string_keys(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = gathering_stub(c, rseq, 0);
		uint64_t total = 0;

		stub.actions[0].gather.value = NULL;
		add_keys(&stub, true);
		stub_host_reset(&c->host);
		c->site = stub_host_emit_site(&c->host, &stub);
		gathering_run(c, hit_name, GATHERING_HITS, true);
		for (size_t i = 0; i < NAMES; i++) {
			uint64_t word = strlen(names[i]);
			struct totals t;

			if (word > GATHERING_STRING_MAX)
				word = GATHERING_STRING_MAX | UINT64_C(1)
								      << RING_STRING_TRUNCATED_BIT;
			t = key_totals(c, &stub.actions[0].gather, word, names[i]);
			assert_true(
				t.count >= (uint64_t)GATHERING_THREADS * GATHERING_HITS / NAMES);
			total += t.count;
		}
		assert_int_equal(total, (uint64_t)GATHERING_THREADS * GATHERING_HITS + c->signals);
		c->site(8, 0, 0); /* no string: a key of its own */
		assert_int_equal(key_totals(c, &stub.actions[0].gather,
					 UINT64_C(1) << RING_STRING_NULL_BIT, NULL)
					 .count,
			1);
	}
}

/* Texts that differ in their literals have one entry in each table, however many there are. */
static void norm_keys(void **state)
{
	static const char *const forms[] = {"select ? from t2", "/a/N"};
	struct gathering *c = *state;
	char text[GATHERING_STRING_MAX + 40];

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = gathering_stub(c, rseq, 0);
		uint64_t total = 0;

		stub.actions[0].gather.value = NULL;
		add_keys(&stub, true);
		stub.actions[0].gather.keys[0].is_norm = true;
		stub_host_reset(&c->host);
		c->site = stub_host_emit_site(&c->host, &stub);
		for (unsigned int i = 0; i < 10000; i++) {
			snprintf(
				text, sizeof(text), i % 2 ? "select %u from t2" : "/a/%u", i * 977);
			c->site((uintptr_t)text, 0, 0);
		}
		for (size_t i = 0; i < 2; i++) {
			struct totals t =
				key_totals(c, &stub.actions[0].gather, strlen(forms[i]), forms[i]);

			assert_int_equal(t.count, 5000);
			assert_in_range(t.entries, 1, c->host.cpus + 1);
			total += t.count;
		}
		assert_int_equal(total, 10000);
		/* The text is cut, and then made normal. */
		memset(text, 'x', sizeof(text));
		memcpy(text, "a '", 3);
		text[sizeof(text) - 1] = '\0';
		c->site((uintptr_t)text, 0, 0);
		assert_int_equal(key_totals(c, &stub.actions[0].gather,
					 3 | UINT64_C(1) << RING_STRING_TRUNCATED_BIT, "a ?")
					 .count,
			1);
		c->site(8, 0, 0);
		assert_int_equal(key_totals(c, &stub.actions[0].gather,
					 UINT64_C(1) << RING_STRING_NULL_BIT, NULL)
					 .count,
			1);
	}
}

/* A stub whose key is a normal form, with the longest text that there may be. */
static struct arch_stub long_norm(struct gathering *c, struct arch_capture captures[3])
{
	struct arch_stub stub = gathering_stub(c, c->host.thread.has_rseq, 0);

	memcpy(captures, gathering_captures, 3 * sizeof(*captures));
	captures[2].bytes_max = LONG_TEXT;
	stub.captures = captures;
	stub.actions[0].gather.value = NULL;
	add_keys(&stub, true);
	stub.actions[0].gather.keys[0].is_norm = true;
	stub.actions[0].gather.entry_cell = 24 + LONG_TEXT;
	stub.actions[0].gather.entry_bytes =
		(stub.actions[0].gather.entry_cell + GATHERING_CELL_BYTES + 63) / 64 * 64;
	stub_host_reset(&c->host);
	return stub;
}

static void long_norm_keys(void **state)
{
	struct gathering *c = *state;
	struct arch_capture captures[3];
	struct arch_stub stub = long_norm(c, captures);
	static char text[LONG_TEXT + 1], form[LONG_TEXT];
	size_t length = 0;

	c->site = stub_host_emit_site(&c->host, &stub);
	while (length + 8 <= LONG_TEXT)
		length += (size_t)snprintf(text + length, 9, "a%05zu, ", length % 99999);
	c->site((uintptr_t)text, 0, 0);
	assert_int_equal(key_totals(c, &stub.actions[0].gather, length, text).count, 1);
	for (size_t i = 0; i < length; i++)
		text[i] = text[i] == 'a' ? '-' : text[i];
	text[0] = ',';
	c->site((uintptr_t)text, 0, 0);
	length = norm_text((const uint8_t *)text, length, (uint8_t *)form);
	assert_in_range(length, LONG_TEXT / 8, LONG_TEXT / 2);
	assert_int_equal(key_totals(c, &stub.actions[0].gather, length, form).count, 1);
}

static void full_tables(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = gathering_stub(c, rseq, 0);
		uint64_t kept = 0, others = 0;

		stub.actions[0].gather.value = NULL;
		add_keys(&stub, false);
		stub_host_reset(&c->host);
		c->site = stub_host_emit_site(&c->host, &stub);
		for (uint64_t key = 0; key < 10000; key++)
			c->site(0, key, 0);
		for (uint64_t key = 0; key < 10000; key++)
			kept += key_totals(c, &stub.actions[0].gather, key, NULL).count;
		for (uint32_t set = 0; set <= c->host.cpus; set++) {
			const uint8_t *entry =
				gathering_set(c, set) +
				(size_t)(ENTRIES + OWNER) * stub.actions[0].gather.entry_bytes;
			struct totals t = {0};

			gathering_add(
				&t, (const struct probe_cell *)(entry +
								stub.actions[0].gather.entry_cell));
			others += t.count;
		}
		assert_int_equal(kept + others, 10000);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
		assert_true(kept >= TABLE_PROBES_MAX && kept <= (uint64_t)ENTRIES * c->host.cpus);
	}
}

/* ---- The end of a stack ------------------------------------------------------------------ */

static struct gathering *deep;

static void hit_deep(void)
{
	deep->site((uintptr_t) "select 1", 0, 0);
	_exit(0);
}

/*
 * A hit with less stack left than its stub needs ends the program at the guard page, and nothing
 * below that is written.
 */
static void ends_of_stacks(void **state)
{
	enum { BELOW = 3 };
	struct gathering *c = *state;
	struct arch_capture captures[3];
	struct arch_stub stub = long_norm(c, captures);
	size_t page = page_bytes();
	uint8_t *memory = mmap(NULL, (BELOW + 2) * page, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ucontext_t context, back;
	int status;
	pid_t child;

	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(mprotect(memory + BELOW * page, page, PROT_NONE), 0);
	deep = c;
	c->site = stub_host_emit_site(&c->host, &stub);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		getcontext(&context);
		context.uc_stack.ss_sp = memory + (BELOW + 1) * page;
		context.uc_stack.ss_size = 4096; /* of a page that may be larger */
		context.uc_link = &back;
		makecontext(&context, hit_deep, 0);
		swapcontext(&back, &context);
		_exit(1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	for (size_t i = 0; i < BELOW * page; i++)
		assert_int_equal(memory[i], 0);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
	munmap(memory, (BELOW + 2) * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cells, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(cells_by_many, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(number_keys, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(string_keys, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(norm_keys, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			long_norm_keys, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			ends_of_stacks, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(full_tables, gathering_setup, gathering_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
