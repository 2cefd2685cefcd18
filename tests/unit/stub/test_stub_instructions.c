/* SPDX-License-Identifier: MIT */
/*
 * How many instructions a hit takes, from the jump at its site to the jump that leaves its stub:
 * counted as a debugger steps. Unlike a time, that can be compared between processors, of which
 * one may be emulated. The limits are the numbers that there were when they were set; and of
 * aarch64 at most 1.3 times those of x86-64.
 *
 * A step is a signal, which aborts a restartable sequence. So the kernel has to forget the
 * thread's, and does not change its number of the CPU any more. A system call is one instruction
 * here. A processor that has tags of memory, or vectors that a system call loses, needs more; that
 * is left out, but for the last row.
 */
/* Not under ThreadSanitizer: it knows no code that we make. */
#include <elf.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/stub/plan.h"
#include "libprobe/base/page.h"
#include "tests/unit/stub/stub_gathering.h"
#include "tests/unit/skip.h"

#ifdef __aarch64__
enum { ISA = 1 };
#define PC pc
#else
enum { ISA = 0 };
#define PC rip
#endif

enum {
	WARM = 3, /* hits before: entries for the thread and for the key are there */
	STEPS_MAX = 100000,
	RSEQ_BYTES = 32, /* as the C library registers it */
	RSEQ_UNREGISTER = 1,
	FLIGHTS = 64,
	DEPTH = 128
};

struct costs {
	struct gathering *c;
	const char *text;
	struct arch_stub stub;
	struct arch_capture captures[3];
};

/* ---- Stubs ------------------------------------------------------------------------------ */

static void record(struct costs *x, int captures)
{
	x->stub.actions[0].kind = ARCH_ACTION_RECORD;
	x->stub.captures = x->captures;
	x->stub.capture_count = x->stub.recorded = (uint8_t)captures;
}

static void make_count(struct costs *x)
{
	x->stub.actions[0].kind = ARCH_ACTION_COUNT;
}

/* The instructions that one more count adds to a stub. */
static void make_counts(struct costs *x)
{
	x->stub.actions[1] = x->stub.actions[0];
	x->stub.actions[1].slot_offset += sizeof(struct probe_slot);
	x->stub.action_count = 2;
}

static void make_filtered(struct costs *x, uint64_t least)
{
	static struct arch_expr_node nodes[] = {
		{.kind = ARCH_EXPR_CAPTURE, .wide = true},
		{.kind = ARCH_EXPR_CONST, .wide = true},
		{.kind = ARCH_EXPR_GT, .wide = true, .is_signed = true, .left = 0, .right = 1},
	};
	static const struct arch_expr filter = {nodes, 3};

	nodes[1].value = least;
	x->stub.captures = x->captures;
	x->stub.capture_count = 1;
	x->stub.filter = &filter;
}

static void make_passed(struct costs *x)
{
	make_filtered(x, 10);
}

static void make_rejected(struct costs *x)
{
	make_filtered(x, 1000000);
}

static void make_left_out(struct costs *x)
{
	x->stub.every = 100;
}

static void make_sampled(struct costs *x)
{
	x->stub.every = WARM + 1;
}

static void make_record(struct costs *x)
{
	record(x, 0);
}

static void make_integers(struct costs *x)
{
	record(x, 3);
}

static void make_string(struct costs *x)
{
	record(x, 2);
	x->captures[1].is_string = true;
	x->captures[1].bytes_max = GATHERING_STRING_MAX;
}

static void make_safe_string(struct costs *x)
{
	make_string(x);
	x->stub.safe.pages[0] = (struct arch_extent){(uintptr_t)x->text, page_bytes()};
	x->stub.safe.count = 1;
}

static void make_string_of_vectors(struct costs *x)
{
	make_string(x);
	x->stub.thread.loses_vectors = ISA == 1;
}

static void make_histogram(struct costs *x)
{
	x->stub = gathering_stub(
		x->c, true, ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES | ARCH_GATHER_BUCKETS);
	x->stub.capture_count = 1;
}

static void make_keyed(struct costs *x)
{
	struct arch_gather *g = &x->stub.actions[0].gather;

	x->stub = gathering_stub(x->c, true, 0);
	x->stub.capture_count = 2;
	g->value = NULL;
	g->keys[0].number = &gathering_first;
	g->key_count = 1;
	g->owner = 5;
	g->entries = 64;
	g->entry_cell = 24;
	g->entry_bytes = (g->entry_cell + GATHERING_CELL_BYTES + 63) / 64 * 64;
}

static void make_pair(struct costs *x, const struct arch_expr *match)
{
	make_histogram(x);
	x->stub.actions[0].gather.value = NULL;
	x->stub.actions[0].flights = (struct arch_flights){.table = (uintptr_t)x->c->extra,
		.entries = FLIGHTS,
		.depth = DEPTH,
		.pair = 3,
		.match = match};
}

static void make_by_thread(struct costs *x)
{
	make_pair(x, NULL);
}

static void make_by_key(struct costs *x)
{
	make_pair(x, &gathering_first);
}

/* ---- Counting ------------------------------------------------------------------------------ */

/* The kernel forgets where the thread's sequences are, and on which CPU it is. */
static bool forget_sequences(const struct arch_thread *t)
{
	uint8_t *area = (uint8_t *)__builtin_thread_pointer() + t->rseq_offset;
	uint32_t cpu = 0;

	if (syscall(SYS_rseq, area, RSEQ_BYTES, RSEQ_UNREGISTER, t->rseq_signature) < 0)
		return false;
	memcpy(area + RSEQ_CPU_ID, &cpu, sizeof(cpu));
	return true;
}

/* In a child: some hits, a stop, and the hit that is counted. */
static void hits(const struct costs *x, bool ends)
{
	stub_host_site *site = x->c->site, *end = x->c->end;
	uintptr_t text = (uintptr_t)x->text;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || !forget_sequences(&x->stub.thread))
		_exit(1);
	for (int i = 0; i < WARM; i++) {
		site(1000, text, 3);
		if (end)
			end(1000, text, 3);
	}
	if (ends)
		site(1000, text, 3);
	raise(SIGSTOP);
	(ends ? end : site)(1000, text, 3);
	_exit(0);
}

/* A step of the child; where it is then. */
static uintptr_t step(pid_t child)
{
	struct user_regs_struct regs;
	struct iovec iov = {&regs, sizeof(regs)};
	int status;

	assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	assert_int_equal(ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &iov), 0);
	return regs.PC;
}

/* Without what returns from the function that is a site. */
static unsigned int instructions(const struct costs *x, bool ends)
{
	uintptr_t start = (uintptr_t)x->c->host.code;
	unsigned int count = 0, steps = 0;
	bool was_there = false, is_there;
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child)
		hits(x, ends);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	do {
		is_there = step(child) - start < HOST_CODE_BYTES;
		count += is_there;
		was_there |= is_there;
	} while ((is_there || !was_there) && ++steps < STEPS_MAX);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	assert_true(steps < STEPS_MAX);
	return count - 1;
}

/* ---- The table ------------------------------------------------------------------------------ */

static const struct row {
	const char *name;
	void (*make)(struct costs *x);
	enum { ALONE, BEGIN, END } part;
	unsigned int limits[2]; /* of x86-64, of aarch64; 0: there is no such thing */
} rows[] = {
	{"count", make_count, ALONE, {25, 26}},
	{"count, and a second count", make_counts, ALONE, {34, 39}},
	{"count, with a filter that it passes", make_passed, ALONE, {30, 29}},
	{"count, with a filter that it does not pass", make_rejected, ALONE, {21, 18}},
	{"count, one in N: left out", make_left_out, ALONE, {33, 32}},
	{"count, one in N: taken", make_sampled, ALONE, {43, 46}},
	{"record without arguments", make_record, ALONE, {43, 46}},
	{"record of 3 integers", make_integers, ALONE, {55, 51}},
	{"record of an integer and a constant string", make_safe_string, ALONE, {151, 153}},
	{"record of an integer and a string on the heap", make_string, ALONE, {158, 164}},
	{"histogram of an argument", make_histogram, ALONE, {69, 75}},
	{"count by a key", make_keyed, ALONE, {69, 74}},
	{"latency by thread: begin", make_by_thread, BEGIN, {58, 67}},
	{"latency by thread: end", make_by_thread, END, {103, 121}},
	{"latency by a key: begin", make_by_key, BEGIN, {82, 92}},
	{"latency by a key: end", make_by_key, END, {117, 133}},
	{"a string on the heap, with vectors to be kept", make_string_of_vectors, ALONE, {0, 268}},
};

static unsigned int count_row(struct gathering *c, const char *text, const struct row *row)
{
	struct costs x = {.c = c, .text = text};

	stub_host_reset(&c->host);
	memset(c->extra, 0, GATHERING_EXTRA_BYTES);
	c->host.thread.checks_tags = c->host.thread.has_modes = c->host.thread.loses_vectors =
		false;
	for (int i = 0; i < 3; i++)
		x.captures[i] = stub_host_argument(i);
	x.stub = stub_host_stub(&c->host, true);
	row->make(&x);
	c->end = NULL;
	if (row->part != ALONE) {
		c->end = stub_host_emit_site(&c->host, &x.stub);
		x.stub.actions[0].kind = ARCH_ACTION_BEGIN;
	}
	c->site = stub_host_emit_site(&c->host, &x.stub);
	return instructions(&x, row->part == END);
}

/* For tests/bench/instructions.sh: what was counted here, and of the other its limit. */
static void print_row(const struct row *row, unsigned int count)
{
	unsigned int counts[2] = {row->limits[0], row->limits[1]};

	counts[ISA] = count;
	print_message("row %u %u %s\n", counts[0], counts[1], row->name);
}

static void costs(void **state)
{
	struct gathering *c = *state;
	char *text = mmap(
		NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool is_over = false;

	assert_ptr_not_equal(text, MAP_FAILED);
	strcpy(text, "sixteen letters!");
	if (!c->host.thread.has_rseq)
		skip_because("the C library registers no restartable sequences");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct row *row = &rows[i];
		unsigned int count;

		if (!row->limits[ISA])
			continue;
		count = count_row(c, text, row);
		print_row(row, count);
		is_over |= count > row->limits[ISA];
	}
	munmap(text, page_bytes());
	assert_false(is_over);
}

/* Of what both have. */
static void ratios(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].limits[0] && rows[i].limits[1])
			assert_true(rows[i].limits[1] * 10 <= rows[i].limits[0] * 13);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ratios),
		cmocka_unit_test_setup_teardown(costs, gathering_setup, gathering_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
