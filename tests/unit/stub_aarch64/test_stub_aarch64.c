/* SPDX-License-Identifier: MIT */
/*
 * Stubs of aarch64 as its processor runs them: what they count and record, how they wait, and that
 * they leave no trace.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/process.h"
#include "arch/runtime.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/page.h"
#include "libprobe/registry/registry.h"
#include "tests/unit/query/expr_interpreter.h"
#include "tests/unit/query/expr_random.h"
#include "tests/unit/skip.h"
#include "tests/unit/stub_aarch64/patterns.h"
#include "tests/unit/wait.h"

/* Half of the stack is below a site: a stub may keep all that SVE has there. */
enum { STACK_WORDS = 4096, WAY_BYTES = 16, ROUNDS = 40, FPSR_BITS = 0x0800009f };

struct fixture {
	struct stub_host host;
	uint64_t *stack, random;
	uint64_t rate_word;
	uint32_t words[2]; /* 0 and 1 */
};

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	stub_host_init(&x->host, true);
	x->stack = aligned_alloc(16, STACK_WORDS * sizeof(uint64_t));
	x->random = 88172645463325252U;
	x->words[1] = 1;
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	stub_host_deinit(&x->host);
	free(x->stack);
	free(x);
	return 0;
}

static void fill(struct fixture *x, struct patterns *p)
{
	for (int i = 0; i < 31; i++)
		p->x[i] = expr_random(&x->random);
	p->sp = (uintptr_t)(x->stack + STACK_WORDS / 2);
	p->nzcv = (expr_random(&x->random) >> 33 & 15) << 28;
	p->streaming = 0;
	p->fpsr = expr_random(&x->random) & FPSR_BITS;
	for (int i = 0; i < 32; i++)
		for (int k = 0; k < 16; k++)
			p->v[i][k] = (uint8_t)(expr_random(&x->random) >> 40);
	for (int i = 0; i < STACK_WORDS; i++)
		x->stack[i] = expr_random(&x->random);
}

/* Zero again; code is not written where other code was, which some emulators do not see. */
static void reset(struct fixture *x)
{
	size_t used = x->host.code_used;

	stub_host_reset(&x->host);
	x->host.code_used = (used + 2 * WAY_BYTES + 63) & ~(size_t)63; /* of hit(), too */
	x->rate_word = 0;
}

/* A hit; checks that it changed nothing that the program can see. */
static void hit(struct fixture *x, const struct patterns *in, const void *entry)
{
	static const size_t above = STACK_WORDS / 2 * sizeof(uint64_t);
	uint64_t before[STACK_WORDS / 2];
	size_t used = x->host.code_used;
	struct patterns out;

	memcpy(before, x->stack + STACK_WORDS / 2, above);
	memset(&out, 0x55, sizeof(out));
	patterns_run(&x->host, in, &out, entry);
	x->host.code_used = used; /* the same again */
	for (int i = 0; i < 31; i++)
		if (out.x[i] != in->x[i])
			fail_msg("x%d: %#lx, was %#lx", i, out.x[i], in->x[i]);
	assert_int_equal(out.sp, in->sp);
	assert_int_equal(out.nzcv, in->nzcv);
	assert_int_equal(out.fpsr, in->fpsr);
	assert_int_equal(out.streaming, in->streaming);
	assert_memory_equal(out.v, in->v, sizeof(out.v));
	assert_memory_equal(x->stack + STACK_WORDS / 2, before, above);
}

/* All records, which have no arguments. */
static uint64_t records(const struct fixture *x)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < stub_host_ring_count(&x->host); i++) {
		const struct ring_header *ring = stub_host_ring(&x->host, i);
		uint64_t last = 0;

		assert_int_equal(ring->lock, 0);
		for (uint64_t at = ring->tail; at < ring->head; at += sizeof(struct ring_record)) {
			struct ring_record record;

			memcpy(&record, (const uint8_t *)(ring + 1) + at % HOST_RING_BYTES,
				sizeof(record));
			assert_int_equal(record.site, (uint32_t)HOST_SITE);
			assert_int_equal(record.tid, x->host.thread.has_tid ? gettid() : 0);
			assert_true(record.time >= last && record.time);
			last = record.time;
			count++;
		}
	}
	return count;
}

/* Each way to make a stub, with a hit on each of many patterns. `taken`: of ROUNDS hits. */
static void each_way(struct fixture *x, struct arch_stub *stub, uint64_t taken)
{
	struct arch_thread thread = x->host.thread;
	struct patterns in;

	for (int way = 0; way < 4; way++) {
		const void *entry;

		stub->thread = thread;
		stub->thread.has_rseq = thread.has_rseq && way & 1;
		stub->thread.has_atomics = thread.has_atomics && way & 2;
		stub->next = (uintptr_t)patterns_next;
		reset(x);
		entry = stub_host_emit(&x->host, stub);
		for (int i = 0; i < ROUNDS; i++) {
			fill(x, &in);
			hit(x, &in, entry);
		}
		if (stub->actions[0].kind == ARCH_ACTION_RECORD)
			assert_int_equal(records(x), taken);
		else if (taken != UINT64_MAX)
			assert_int_equal(stub_host_hits(&x->host), taken);
	}
}

static void counting(void **state)
{
	struct fixture *x = *state;
	struct arch_stub stub = stub_host_stub(&x->host, true);

	each_way(x, &stub, ROUNDS);
	stub.on = (uintptr_t)&x->words[1];
	stub.off = (uintptr_t)&x->words[0];
	each_way(x, &stub, ROUNDS);
	stub.on = (uintptr_t)&x->words[0];
	each_way(x, &stub, 0);
	stub.on = 0;
	stub.off = (uintptr_t)&x->words[1];
	each_way(x, &stub, 0);
	stub.off = 0;
	stub.guard = (uintptr_t)&x->words[0];
	each_way(x, &stub, 0);
}

static void sampling(void **state)
{
	struct fixture *x = *state;
	struct arch_stub stub = stub_host_stub(&x->host, true);

	stub.every = 5;
	each_way(x, &stub, UINT64_MAX); /* on each CPU */
	stub.every = 0;
	stub.rate = 7;
	stub.rate_ticks = UINT64_C(1) << 60;
	stub.rate_word = (uintptr_t)&x->rate_word;
	each_way(x, &stub, 7);
	stub.every = 3;
	each_way(x, &stub, UINT64_MAX);
}

/* ---- Records, and waiting ------------------------------------------------------------------- */

static void recording(void **state)
{
	struct fixture *x = *state;
	struct arch_stub stub = stub_host_stub(&x->host, true);

	stub.actions[0].kind = ARCH_ACTION_RECORD;
	each_way(x, &stub, ROUNDS);
	stub.guard = (uintptr_t)&x->words[0];
	each_way(x, &stub, 0);
}

/* The kernel is asked for the time, as it is for threads that may not read the counter. */
static void clockless(void **state)
{
	struct fixture *x = *state;
	struct arch_stub stub = stub_host_stub(&x->host, false);
	struct patterns in;

	stub.actions[0].kind = ARCH_ACTION_RECORD;
	stub.next = (uintptr_t)patterns_next;
	stub.thread.no_counter = stub.may_ask_time = true;
	stub.thread.has_modes = false;
	for (int way = 0; way < 4; way++) {
		uint64_t before = clock_monotonic_ns();
		const struct ring_record *record;
		const void *entry;
		size_t bytes;

		stub.thread.has_atomics = x->host.thread.has_atomics && way & 1;
		stub.every = way & 2 ? 1 : 0;
		stub.rate = way & 2 ? 10 : 0; /* that asks for the time as well */
		stub.rate_ticks = 1000000000;
		stub.rate_word = (uintptr_t)&x->rate_word;
		reset(x);
		entry = stub_host_emit(&x->host, &stub);
		fill(x, &in);
		hit(x, &in, entry);
		record = stub_host_only_record(&x->host, &bytes);
		assert_non_null(record);
		assert_in_range(record->time, before, clock_monotonic_ns());
	}
}

/* No ring has room, and all are read: as if nothing had been written. */
static void fill_rings(struct fixture *x)
{
	for (uint32_t i = 0; i < stub_host_ring_count(&x->host); i++)
		stub_host_ring(&x->host, i)->head =
			stub_host_ring(&x->host, i)->tail + HOST_RING_BYTES;
}

struct later {
	struct fixture *x;
	struct probe_room *room;
};

static void *empty_rings(void *arg)
{
	struct later *later = arg;

	wait_until(__atomic_load_n(&later->room->gate.arrived, __ATOMIC_ACQUIRE));
	usleep(30000);
	for (uint32_t i = 0; i < stub_host_ring_count(&later->x->host); i++) {
		struct ring_header *ring = stub_host_ring(&later->x->host, i);
		uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);

		__atomic_store_n(&ring->tail, head, __ATOMIC_RELEASE);
	}
	room_tell(later->room);
	return NULL;
}

/* Hits wait so long; they sleep for less than a second each time. */
static void let_wait(struct arch_stub *stub, uint64_t bound_ms)
{
	struct clock clock;

	clock_init(&clock, arch_process()->counter);
	stub->actions[0].record.wait_ticks = bound_ms * (clock_ticks_per_s(&clock) / 1000);
	stub->actions[0].record.wait_scale = clock_tick_ns32(&clock) / (bound_ms / 1000 + 1);
}

static void wait_once(struct fixture *x, struct arch_stub *stub, struct probe_room *room)
{
	struct later later = {x, room};
	struct patterns in;
	pthread_t thread;
	const void *entry;

	reset(x);
	let_wait(stub, 1000 * (uint64_t)test_seconds());
	entry = stub_host_emit(&x->host, stub);
	*room = (struct probe_room){.moved = 1};
	room->gate.turns[0].owner = 12345 | GATE_WAITED;
	fill(x, &in);
	hit(x, &in, entry);
	assert_int_equal(records(x), 1);
	assert_int_equal(room->waited, 0);
	fill_rings(x);
	assert_int_equal(pthread_create(&thread, NULL, empty_rings, &later), 0);
	fill(x, &in);
	hit(x, &in, entry);
	pthread_join(thread, NULL);
	assert_int_equal(room->waited, 1);
	assert_int_equal(records(x), 1);
	assert_int_equal(stub_host_lost(&x->host), 0);
	let_wait(stub, 50);
	entry = stub_host_emit(&x->host, stub);
	fill_rings(x);
	fill(x, &in);
	hit(x, &in, entry); /* too long */
	assert_int_equal(stub_host_lost(&x->host), 1);
	assert_int_equal(room->gave_up, room->moved);
}

static void waiting(void **state)
{
	struct fixture *x = *state;
	struct arch_stub stub = stub_host_stub(&x->host, true);
	struct arch_thread thread = x->host.thread;
	struct probe_room room;

	stub.actions[0].kind = ARCH_ACTION_RECORD;
	stub.actions[0].record.room = (uintptr_t)&room;
	stub.next = (uintptr_t)patterns_next;
	for (int way = 0; way < 4; way++) {
		stub.thread.has_rseq = thread.has_rseq && way & 1;
		stub.thread.has_atomics = thread.has_atomics && way & 2;
		wait_once(x, &stub, &room);
	}
}

static void gates(void **state)
{
	struct fixture *x = *state;
	struct arch_stub stub = stub_host_stub(&x->host, true);
	struct probe_gate gate = {.armed = 1, .pass = 1};
	struct patterns in;
	const void *entry;

	stub.actions[0].kind = ARCH_ACTION_GATE;
	stub.actions[0].gate.address = (uintptr_t)&gate;
	stub.actions[0].gate.unless = (uintptr_t)&x->words[1];
	stub.next = (uintptr_t)patterns_next;
	reset(x);
	entry = stub_host_emit(&x->host, &stub);
	fill(x, &in);
	hit(x, &in, entry);
	assert_int_equal(gate.pass, 1); /* it is not for this one */
	in.x[0] = ARCH_GATE_CALLER;
	hit(x, &in, entry);
	assert_int_equal(gate.pass, 0);
	/* Its owner has died. */
	gate.turns[1].owner = GATE_FLIP;
	hit(x, &in, entry);
	assert_int_equal(gate.arrived, 1);
	assert_int_equal(gate.armed, 0);
	hit(x, &in, entry);
	assert_int_equal(gate.arrived, 1);
}

/* ---- Filters ------------------------------------------------------------------------------ */

/* Registers 7, 6 and 2; and two words from the stack pointer on. */
static const char note[] = "8@%rdi -4@%esi 2@%dx 8@8(%rsp) -1@3(%rsp)";

static const char *const texts[] = {
	"arg0 > 9223372036854775807", /* of the first, so half of them */
	"arg1 < 0 && arg2 != 7",
	"arg0 ^ arg3 > 5 || arg4 == 3",
	"(arg0 + arg1 * arg2) % 3 == (arg3 - arg4) % 2",
	"pid != 0 && arg1 > 0",
	"tid != 0 && arg0 / (arg2 | 1) > 77",
};

/* The captures of the note are made for x86-64, whose stack pointer is register 4. */
static void on_aarch64(struct expr_case *c)
{
	for (int i = 0; i < c->layout.capture_count; i++)
		if (c->layout.captures[i].arg.base == 4)
			c->layout.captures[i].arg.base = 31;
}

static uint64_t value_of(const struct fixture *x, const struct patterns *in, unsigned int arg)
{
	const uint8_t *stack = (const uint8_t *)(x->stack + STACK_WORDS / 2);
	uint64_t word;

	switch (arg) {
	case 0:
		return in->x[7];
	case 1:
		return (uint64_t)(int64_t)(int32_t)in->x[6];
	case 2:
		return (uint16_t)in->x[2];
	case 3:
		memcpy(&word, stack + 8, sizeof(word));
		return word;
	default:
		return (uint64_t)(int64_t)(int8_t)stack[3];
	}
}

static void filter(struct fixture *x, const char *text, bool has_rseq)
{
	struct arch_stub stub = stub_host_stub(&x->host, has_rseq);
	uint64_t words[ARCH_ARGS_MAX] = {0}, expected = 0, value;
	struct expr_case c;
	struct probe_error *error = expr_case_init(&c, note, text);
	struct patterns in;
	const void *entry;

	if (error)
		fail_msg("%s: %s", text, error->message);
	on_aarch64(&c);
	stub.captures = c.layout.captures;
	stub.capture_count = (uint8_t)c.layout.capture_count;
	stub.filter = &c.bound;
	stub.next = (uintptr_t)patterns_next;
	reset(x);
	entry = stub_host_emit(&x->host, &stub);
	for (int i = 0; i < 10 * ROUNDS; i++) {
		struct expr_input input = {.words = words, .pid = getpid(), .tid = gettid()};

		fill(x, &in);
		for (unsigned int k = 0; k < stub.capture_count; k++)
			words[k] = value_of(x, &in, expr_case_arg(&c, (uint8_t)k));
		expected += expr_evaluate(&c.bound, &input, &value) && value;
		hit(x, &in, entry);
		if (stub_host_hits(&x->host) != expected)
			fail_msg("%s: hit %d: %lu are counted, not %lu", text, i,
				stub_host_hits(&x->host), expected);
	}
	assert_true(expected > 0);
	expr_case_deinit(&c);
}

static void filters(void **state)
{
	struct fixture *x = *state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		for (int rseq = 0; rseq < 2; rseq++)
			filter(x, texts[i], rseq);
}

/* ---- Memory with tags, and the streaming mode ---------------------------------------------- */

/* <asm/mman.h> and <linux/prctl.h>; Linux 5.10. */
enum { WITH_TAGS = 0x20, SET_TAGGED = 55, TAGGED = 1, SYNCHRONOUS = 2, GRANULE = 16 };

static bool sets_tags(unsigned long mode)
{
	return !prctl(SET_TAGGED, mode, 0, 0, 0);
}

#ifdef __aarch64__
/* The page's address with that tag, which all of it has: some emulators do not know more. */
static uint8_t *tag(uint8_t *page, size_t bytes, uint8_t number)
{
	uint8_t *tagged = (uint8_t *)((uintptr_t)page | (uintptr_t)number << 56);

	for (size_t at = 0; at < bytes; at += GRANULE)
		__asm__ volatile(".arch armv8.5-a+memtag\nstg %0, [%0]" ::"r"(tagged + at)
				 : "memory");
	return tagged;
}

/* Whether tags are not checked; and so from now on. */
static uint64_t ignores_tags(void)
{
	uint64_t word;

	__asm__ volatile("mrs %0, s3_3_c4_c2_7" : "=r"(word));
	return word;
}

static void ignore_tags(uint64_t word)
{
	__asm__ volatile("msr s3_3_c4_c2_7, %0" ::"r"(word));
}
#else
static uint8_t *tag(uint8_t *page, size_t bytes, uint8_t number)
{
	(void)bytes, (void)number;
	return page;
}

static uint64_t ignores_tags(void)
{
	return 0;
}

static void ignore_tags(uint64_t word)
{
	(void)word;
}
#endif

/* Records what a register leads to: the word of the capture; then a mask, and the bytes. */
static const uint64_t *take(struct fixture *x, const struct patterns *in,
	const struct arch_arg *arg, bool is_string, bool has_rseq)
{
	struct arch_stub stub = stub_host_stub(&x->host, has_rseq);
	struct arch_capture capture = {
		.arg = *arg, .is_string = is_string, .bytes_max = is_string ? 64 : 0};
	const struct ring_record *record;
	size_t bytes;

	stub.actions[0].kind = ARCH_ACTION_RECORD;
	stub.captures = &capture;
	stub.capture_count = stub.recorded = 1;
	stub.next = (uintptr_t)patterns_next;
	reset(x);
	hit(x, in, stub_host_emit(&x->host, &stub));
	record = stub_host_only_record(&x->host, &bytes);
	assert_non_null(record);
	return stub_host_open_record(&capture, 1, record, bytes);
}

/* Register 7, and the word behind where register 6 leads. */
static const struct arch_arg of_7 = {
	.kind = ARCH_ARG_REGISTER, .size = 8, .width = 8, .base = 7, .index = ARCH_REG_NONE};
static const struct arch_arg behind_6 = {.kind = ARCH_ARG_MEMORY,
	.size = 8,
	.width = 8,
	.base = 6,
	.disp = 8,
	.index = ARCH_REG_NONE};

static void tags(void **state)
{
	static const char text[] = "a text with a tag";
	struct fixture *x = *state;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const uint64_t *words;
	struct patterns in;
	uint8_t *memory, *at;

	if (!x->host.thread.checks_tags)
		skip_because("this processor or kernel has no tags of memory (MTE)");
	memory = mmap(
		NULL, page, PROT_READ | PROT_WRITE | WITH_TAGS, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	at = tag(memory, page, 3);
	memcpy(at, text, sizeof(text));
	assert_true(sets_tags(TAGGED | SYNCHRONOUS | 0xfffeUL << 3));
	for (int way = 0; way < 4; way++) {
		ignore_tags((uint64_t)(way & 1) << 25);
		fill(x, &in);
		in.x[7] = (uintptr_t)at;
		in.x[6] = (uintptr_t)memory; /* it has been freed, maybe */
		words = take(x, &in, &of_7, true, way & 2);
		assert_int_equal(ignores_tags(), (uint64_t)(way & 1) << 25);
		assert_int_equal(words[0], sizeof(text) - 1);
		assert_memory_equal(words + 1, text, sizeof(text) - 1);
		/* Not more than that it does not fail: the kernel may look at tags. */
		words = take(x, &in, &behind_6, false, way & 2);
		if (words[1])
			assert_memory_equal(words, text + 8, 8);
	}
	ignore_tags(0);
	assert_true(sets_tags(0));
	munmap(memory, page);
}

static void streaming(void **state)
{
	struct fixture *x = *state;
	char text[] = "a text that the kernel is asked for";
	size_t page = page_bytes();
	char *apart; /* in no page that stubs know */
	struct patterns in;

	if (!x->host.thread.has_modes)
		skip_because("this processor has no SME");
	apart = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(apart, MAP_FAILED);
	memcpy(apart, text, sizeof(text));
	for (int way = 0; way < 4; way++) {
		const uint64_t *words;

		fill(x, &in);
		in.streaming = way & 1;
		in.fpsr = way & 1 ? FPSR_BITS : in.fpsr;
		in.x[7] = (uintptr_t)apart;
		words = take(x, &in, &of_7, true, way & 2);
		assert_int_equal(
			words[0], in.streaming ? 1U << RING_STRING_NULL_BIT : strlen(text));
	}
	munmap(apart, page);
}

/* Without restartable sequences the kernel is asked for the number of the CPU. */
static void cpu_of_kernel(void **state)
{
	static const struct arch_expr_node nodes[] = {{.kind = ARCH_EXPR_CPU},
		{.kind = ARCH_EXPR_CONST, .value = 0},
		{.kind = ARCH_EXPR_EQ, .left = 0, .right = 1}};
	struct fixture *x = *state;
	struct arch_stub stub = stub_host_stub(&x->host, false);
	struct arch_stub_code code;
	struct arch_expr_node mine[3];
	const struct arch_expr filter = {mine, 3};
	uint8_t out[ARCH_STUB_MAX];
	struct patterns in;
	cpu_set_t before, one;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	stub.next = (uintptr_t)patterns_next;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &before))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
		memcpy(mine, nodes, sizeof(mine));
		for (int way = 0; way < 3; way++) {
			mine[1].value = (uint64_t)(way & 1 ? cpu : cpu + 1);
			stub.filter = &filter;
			reset(x);
			fill(x, &in);
			in.streaming = way == 2 && x->host.thread.has_modes;
			in.fpsr = in.streaming ? FPSR_BITS : in.fpsr;
			mine[2].kind = way == 2 ? ARCH_EXPR_NE : ARCH_EXPR_EQ;
			hit(x, &in, stub_host_emit(&x->host, &stub));
			assert_int_equal(
				stub_host_hits(&x->host), way == 1 || (way == 2 && !in.streaming));
		}
	}
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	stub.next = 0x10000;
	assert_int_equal(arch_make_stub(&arch_aarch64, &stub, 0x20000, out, sizeof(out), &code),
		ARCH_STUB_OK);
	assert_true(code.asks_cpu);
	stub.may_ask_cpu = false;
	assert_int_equal(arch_make_stub(&arch_aarch64, &stub, 0x20000, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
}

/* An id that only the kernel knows is right, or the hit is lost, or no filter lets it pass. */
static void streaming_ids(void **state)
{
	static const struct arch_expr_node node = {.kind = ARCH_EXPR_TID};
	const struct arch_expr filter = {&node, 1};
	struct fixture *x = *state;
	struct arch_stub stub = stub_host_stub(&x->host, true);
	const struct ring_record *record;
	struct patterns in;
	size_t bytes;

	if (!x->host.thread.has_modes)
		skip_because("this processor has no SME");
	stub.next = (uintptr_t)patterns_next;
	stub.thread.has_tid = stub.thread.has_rseq = false;
	for (int way = 0; way < 4; way++) {
		bool is_streaming = way & 1;

		stub.actions[0].kind = way & 2 ? ARCH_ACTION_RECORD : ARCH_ACTION_COUNT;
		stub.filter = way & 2 ? NULL : &filter;
		reset(x);
		fill(x, &in);
		in.streaming = is_streaming;
		in.fpsr = is_streaming ? FPSR_BITS : in.fpsr;
		hit(x, &in, stub_host_emit(&x->host, &stub));
		if (stub.actions[0].kind == ARCH_ACTION_COUNT) {
			assert_int_equal(stub_host_hits(&x->host), !is_streaming);
			continue;
		}
		assert_int_equal(stub_host_lost(&x->host), is_streaming);
		if (!is_streaming) {
			record = stub_host_only_record(&x->host, &bytes);
			assert_non_null(record);
			assert_int_equal(record->tid, gettid());
		}
	}
}

/* What there cannot be is refused. */
static void refused(void **state)
{
	struct fixture *x = *state;
	struct arch_stub stub = stub_host_stub(&x->host, false);
	uint8_t out[ARCH_STUB_MAX];
	struct arch_stub_code code;

	stub.next = 0x10000;
	stub.actions[0].kind = ARCH_ACTION_COUNT;
	assert_int_equal(arch_make_stub(&arch_aarch64, &stub, 0x20000, out, sizeof(out), &code),
		ARCH_STUB_OK);
	assert_int_equal(
		arch_make_stub(&arch_aarch64, &stub, 0x20000, out, 16, &code), ARCH_STUB_NO_ROOM);
	assert_int_equal(arch_make_stub(&arch_aarch64, &stub, 0x20000000, out, sizeof(out), &code),
		ARCH_STUB_OUT_OF_REACH);
	/* The time is asked for, unless a mode may forbid that. */
	stub.thread.no_counter = stub.may_ask_time = true;
	stub.thread.has_modes = false;
	assert_int_equal(arch_make_stub(&arch_aarch64, &stub, 0x20000, out, sizeof(out), &code),
		ARCH_STUB_OK);
	stub.thread.has_modes = true;
	assert_int_equal(arch_make_stub(&arch_aarch64, &stub, 0x20000, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(counting, setup, teardown),
		cmocka_unit_test_setup_teardown(sampling, setup, teardown),
		cmocka_unit_test_setup_teardown(recording, setup, teardown),
		cmocka_unit_test_setup_teardown(clockless, setup, teardown),
		cmocka_unit_test_setup_teardown(waiting, setup, teardown),
		cmocka_unit_test_setup_teardown(gates, setup, teardown),
		cmocka_unit_test_setup_teardown(filters, setup, teardown),
		cmocka_unit_test_setup_teardown(tags, setup, teardown),
		cmocka_unit_test_setup_teardown(streaming, setup, teardown),
		cmocka_unit_test_setup_teardown(streaming_ids, setup, teardown),
		cmocka_unit_test_setup_teardown(cpu_of_kernel, setup, teardown),
		cmocka_unit_test_setup_teardown(refused, setup, teardown),
	};

#ifndef __aarch64__
	return skip_all("these stubs only run on aarch64");
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
