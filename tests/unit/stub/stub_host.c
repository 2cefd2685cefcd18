/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/page.h"
#include "libprobe/ptrace/ptrace.h"
#include "tests/unit/stub/stub_host.h"

/* Maps `bytes` at a free address within 1 GiB below this program. */
static void *map_near(size_t bytes, int fd, int protection)
{
	uintptr_t here = (uintptr_t)&map_near & ~UINT64_C(0xfffff);

	for (uintptr_t at = here - (1 << 20); here - at < 1u << 30; at -= 1 << 20) {
		void *memory = mmap((void *)at, bytes, protection,
			MAP_FIXED_NOREPLACE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED),
			fd, 0);

		if (memory != MAP_FAILED)
			return memory;
	}
	fail_msg("no room near the program");
	return NULL;
}

/* What returns from a function that is a site. */
#ifdef __aarch64__
static const uint8_t way_back[] = {0xc0, 0x03, 0x5f, 0xd6};
#else
static const uint8_t way_back[] = {0xc3};
#endif
static const int8_t host_arguments[] = {HOST_FIRST, HOST_SECOND, HOST_THIRD};

static void find_thread(struct arch_thread *t)
{
	/* nptl_db's descriptor of a field: bits, number of elements, offset */
	const uint32_t *tid = dlsym(RTLD_DEFAULT, "_thread_db_pthread_tid");
	const uint32_t *block = dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");
	const ptrdiff_t *rseq = dlsym(RTLD_DEFAULT, "__rseq_offset");
	const unsigned int *rseq_size = dlsym(RTLD_DEFAULT, "__rseq_size");

	*t = (struct arch_thread){
		.has_tp = true,
		.rseq_signature = arch_process()->rseq_signature,
	};
	if (arch_process()->describe_processor)
		arch_process()->describe_processor(t);
	if (tid && tid[0] == 32 && block) {
		t->has_tid = true;
		t->tid_offset = (int32_t)(tid[2] - (arch_process()->tp_is_end ? *block : 0));
	}
	if (rseq && rseq_size && *rseq_size > 0 && rseq_is_sound()) {
		t->has_rseq = true;
		t->rseq_offset = *rseq;
	}
}

static size_t round_up(size_t bytes)
{
	return (bytes + 4095) & ~(size_t)4095;
}

void stub_host_init(struct stub_host *host, bool near)
{
	size_t slots, rings;
	int fd = memfd_create("stubs", MFD_CLOEXEC);

	*host = (struct stub_host){.cpus = sysconf(_SC_NPROCESSORS_CONF)};
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, HOST_CODE_BYTES), 0);
	host->code = map_near(HOST_CODE_BYTES, fd, PROT_READ | PROT_EXEC);
	host->code_rw = mmap(NULL, HOST_CODE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(host->code_rw, MAP_FAILED);
	close(fd);

	slots = (size_t)(host->cpus + 1) << HOST_SLOTS_SHIFT;
	rings = (size_t)(host->cpus * 2) << HOST_RINGS_SHIFT;
	host->memory_bytes = 4096 + round_up(slots) + rings;
	host->memory = near ? map_near(host->memory_bytes, -1, PROT_READ | PROT_WRITE)
			    : mmap(NULL, host->memory_bytes, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(host->memory, MAP_FAILED);
	host->guard = (uint32_t *)host->memory;
	host->slots = host->memory + 4096;
	host->rings = host->slots + round_up(slots);
	*host->guard = 1;
	find_thread(&host->thread);
}

void stub_host_deinit(struct stub_host *host)
{
	munmap(host->code, HOST_CODE_BYTES);
	munmap(host->code_rw, HOST_CODE_BYTES);
	munmap(host->memory, host->memory_bytes);
}

int stub_host_setup(void **state)
{
	struct stub_host *host = calloc(1, sizeof(*host));

	stub_host_init(host, true);
	*state = host;
	return 0;
}

int stub_host_teardown(void **state)
{
	stub_host_deinit(*state);
	free(*state);
	return 0;
}

void stub_host_reset(struct stub_host *host)
{
	host->code_used = 0;
	memset(host->slots, 0, host->rings - host->slots);
	for (uint32_t i = 0; i < stub_host_ring_count(host); i++)
		memset(stub_host_ring(host, i), 0,
			sizeof(struct ring_header) + HOST_RING_BYTES + RING_RECORD_MAX);
	*host->guard = 1;
}

struct arch_stub stub_host_stub(const struct stub_host *host, bool has_rseq)
{
	struct arch_stub stub = {
		.thread = host->thread,
		.guard = (uintptr_t)host->guard,
		.cpus = host->cpus,
		.site = (uint32_t)HOST_SITE,
		.page_bytes = (uint32_t)page_bytes(),
		.may_call_kernel = true,
		.may_ask_name = true,
		.may_ask_cpu = true,
		.may_ask_stack = true,
		.action_count = 1,
		.actions = {{.slots = (uintptr_t)host->slots,
			.slots_shift = HOST_SLOTS_SHIFT,
			.slot_offset = HOST_SLOT_OFFSET,
			.record = {.rings = (uintptr_t)host->rings,
				.rings_shift = HOST_RINGS_SHIFT,
				.ring_bytes = HOST_RING_BYTES}}},
	};

	stub.thread.has_rseq = has_rseq && host->thread.has_rseq;
	return stub;
}

void stub_host_written(struct stub_host *host, size_t from)
{
	__builtin___clear_cache((char *)host->code + from, (char *)host->code + host->code_used);
}

void *stub_host_emit(struct stub_host *host, const struct arch_stub *stub)
{
	const struct arch *arch = arch_host();
	size_t at = (host->code_used + ARCH_STUB_ALIGN - 1) & ~(size_t)(ARCH_STUB_ALIGN - 1);
	uintptr_t start = (uintptr_t)host->code + at;
	struct arch_stub_code code = {0};

	assert_true(at < HOST_CODE_BYTES);
	assert_int_equal(
		arch_make_stub(arch, stub, start, host->code_rw + at, HOST_CODE_BYTES - at, &code),
		ARCH_STUB_OK);
	assert_true(code.length <= ARCH_STUB_MAX);
	assert_int_equal(
		arch->jump_target(start + code.next_jump, host->code_rw + at + code.next_jump),
		stub->next);
	host->code_used = at + code.length;
	stub_host_written(host, at);
	return host->code + at;
}

struct arch_capture stub_host_argument(int number)
{
	return (struct arch_capture){.arg = {.kind = ARCH_ARG_REGISTER,
					     .size = 8,
					     .width = 8,
					     .base = host_arguments[number],
					     .index = ARCH_REG_NONE}};
}

stub_host_site *stub_host_emit_site(struct stub_host *host, struct arch_stub *stub)
{
	size_t jump = arch_host()->jump_length, at = (host->code_used + 31) & ~(size_t)31;
	uintptr_t site = (uintptr_t)host->code + at;
	uint8_t *entry;

	assert_true(at + 32 <= HOST_CODE_BYTES);
	memcpy(host->code_rw + at + jump, way_back, sizeof(way_back));
	host->code_used = at + jump + sizeof(way_back);
	stub->next = site + jump;
	entry = stub_host_emit(host, stub);
	assert_int_equal(arch_host()->jump(site, (uintptr_t)entry, host->code_rw + at), jump);
	stub_host_written(host, at);
	return (stub_host_site *)site;
}

struct ring_header *stub_host_ring(const struct stub_host *host, uint32_t number)
{
	return (struct ring_header *)(host->rings + ((size_t)number << HOST_RINGS_SHIFT));
}

uint32_t stub_host_ring_count(const struct stub_host *host)
{
	return 2 * host->cpus;
}

static uint64_t sum(const struct stub_host *host, size_t field)
{
	uint64_t total = 0;

	for (uint32_t cpu = 0; cpu <= host->cpus; cpu++)
		total += *(const volatile uint64_t *)(host->slots +
						      ((size_t)cpu << HOST_SLOTS_SHIFT) +
						      HOST_SLOT_OFFSET + field);
	return total;
}

uint64_t stub_host_hits(const struct stub_host *host)
{
	return sum(host, offsetof(struct probe_slot, hits));
}

uint64_t stub_host_lost(const struct stub_host *host)
{
	return sum(host, offsetof(struct probe_slot, lost));
}

const struct ring_record *stub_host_only_record(const struct stub_host *host, size_t *bytes_ret)
{
	const uint8_t *found = NULL;

	*bytes_ret = 0;
	for (uint32_t i = 0; i < stub_host_ring_count(host); i++) {
		const struct ring_header *ring = stub_host_ring(host, i);

		assert_int_equal(ring->lock, 0);
		if (ring->head == ring->tail)
			continue;
		assert_null(found);
		found = (const uint8_t *)(ring + 1) + (ring->tail & (HOST_RING_BYTES - 1));
		*bytes_ret = ring->head - ring->tail;
	}
	return (const struct ring_record *)found;
}

/* The number of a capture at its place in a record. */
static uint64_t fixed_part(const struct arch_capture *c, const uint8_t *at, uint32_t size)
{
	bool is_signed =
		c->arg.is_signed && !c->arg.is_float && c->arg.kind != ARCH_ARG_FP_REGISTER;
	uint64_t word = 0;

	if (c->step_count)
		is_signed = c->steps[c->step_count - 1].is_signed;
	memcpy(&word, at, size);
	if (is_signed && size < 8 && !arch_capture_has_bytes(c) && word >> (8 * size - 1))
		word |= UINT64_MAX << (8 * size);
	return word;
}

const uint64_t *stub_host_open_record(const struct arch_capture *captures, size_t count,
	const struct ring_record *record, size_t bytes)
{
	static uint64_t words[2 * RING_RECORD_MAX / 8];
	const uint8_t *at = (const uint8_t *)(record + 1);
	size_t mask_bytes = count <= 8 ? 1 : count <= 16 ? 2 : 4, tail = count;
	bool checked = false;

	memset(words, 0, sizeof(words));
	for (size_t i = 0; i < count; i++) {
		uint32_t size = arch_capture_fixed(&captures[i]);

		words[i] = fixed_part(&captures[i], at, size);
		at += size;
		checked |= arch_capture_checked(&arch_x86_64, &captures[i]);
	}
	if (checked) {
		memcpy(&words[tail++], at, mask_bytes);
		at += mask_bytes;
	}
	for (size_t i = 0; i < count; i++) {
		size_t length =
			arch_capture_has_bytes(&captures[i]) ? ring_string_length(words[i]) : 0;

		memcpy(&words[tail], at, length);
		tail += (length + 7) / 8;
		at += length;
	}
	assert_int_equal(bytes, ((size_t)(at - (const uint8_t *)record) + 3) / 4 * 4);
	return words;
}
