/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_variant.h"

void variant_set_up_state(struct variant *v)
{
	for (int i = 0; i < 16; i++) {
		v->state.gpr[i] = UINT64_C(0xf1e2d3c4b5a69780) + i * UINT64_C(0x0102030405060708);
		memset(v->state.xmm[i], 0x10 + i, 16);
		v->state.xmm[i][0] = 0xf0 + i;
	}
	v->state.gpr[RSP] = (uintptr_t)v->stack + STACK_BYTES / 2 + 64;
	v->state.flags = FLAGS_ALWAYS;
	for (int i = 0; i < STACK_BYTES; i++)
		v->stack[i] = i * 7 + (i >> 8);
}

void variant_init(struct variant *v, bool near, bool has_rseq)
{
	stub_host_init(&v->host, near);
	v->has_rseq = has_rseq;
	v->stack =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	v->pages = mmap(
		NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(v->stack, MAP_FAILED);
	assert_ptr_not_equal(v->pages, MAP_FAILED);
	assert_int_equal(mprotect(v->pages + 3 * PAGE, PAGE, PROT_NONE), 0);
	assert_int_equal(mprotect(v->pages + 5 * PAGE, PAGE, PROT_NONE), 0);
	variant_set_up_state(v);
}

void variant_deinit(struct variant *v)
{
	stub_host_deinit(&v->host);
	munmap(v->stack, STACK_BYTES);
	munmap(v->pages, PAGES * PAGE);
}

void variant_each(void (*check)(struct variant *v))
{
	for (int i = 0; i < 4; i++) {
		struct variant v;

		variant_init(&v, i & 1, i & 2);
		if (!v.has_rseq || v.host.thread.has_rseq)
			check(&v);
		else
			print_message("no rseq in this C library: left out\n");
		variant_deinit(&v);
	}
}

struct arch_stub variant_stub(struct variant *v, enum arch_action_kind kind)
{
	struct arch_stub stub = stub_host_stub(&v->host, v->has_rseq);

	stub.actions[0].kind = kind;
	stub.next = (uintptr_t)stub_harness_next;
	return stub;
}

void variant_hit(struct variant *v, const void *entry)
{
	static const size_t below = 128, above = STACK_BYTES / 4;
	size_t at = v->state.gpr[RSP] - (uintptr_t)v->stack;
	uint8_t before[128 + STACK_BYTES / 4];
	struct stub_state out;

	memcpy(before, v->stack + at - below, below + above);
	stub_harness_run(&v->state, &out, entry);
	for (int i = 0; i < 16; i++)
		assert_int_equal(out.gpr[i], v->state.gpr[i]);
	assert_int_equal(out.flags, v->state.flags);
	assert_memory_equal(out.xmm, v->state.xmm, sizeof(out.xmm));
	assert_memory_equal(v->stack + at - below, before, below + above);
}

struct arch_capture variant_capture(const char *spec)
{
	struct arch_arg args[ARCH_ARGS_MAX];

	assert_int_equal(arch_x86_64.parse_args(spec, args), 1);
	return (struct arch_capture){.arg = args[0], .bytes_max = 64};
}

const uint64_t *variant_record(
	struct variant *v, const struct arch_capture *captures, size_t count, size_t *bytes_ret)
{
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	const struct ring_record *r;

	stub_host_reset(&v->host);
	stub.captures = captures;
	stub.capture_count = stub.recorded = count;
	variant_hit(v, stub_host_emit(&v->host, &stub));
	r = stub_host_only_record(&v->host, bytes_ret);
	assert_non_null(r);
	assert_int_equal(stub_host_lost(&v->host), 0);
	assert_int_equal(stub_host_hits(&v->host), 0);
	assert_int_equal(r->tid, gettid());
	assert_int_equal(r->site, (uint32_t)HOST_SITE);
	assert_true(r->time > 0);
	return stub_host_open_record(captures, count, r, *bytes_ret);
}
