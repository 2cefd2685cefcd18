/* SPDX-License-Identifier: MIT */
/*
 * A host for generated stubs: code, counters and rings in the test's own process.
 */
#ifndef TESTS_UNIT_STUB_HOST_H
#define TESTS_UNIT_STUB_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "arch/layout.h"

enum {
	HOST_RING_BYTES = 1 << 16,
	HOST_RINGS_SHIFT = 18,
	HOST_SLOTS_SHIFT = 21,
	HOST_SLOT_OFFSET = 64,
	HOST_CODE_BYTES = 1 << 16,
	HOST_SITE = 0x8badf00d - (1LL << 32)
};

/* The registers in which a function has its arguments. */
#ifdef __aarch64__
enum { HOST_FIRST = 0, HOST_SECOND = 1, HOST_THIRD = 2 };
#else
enum { HOST_FIRST = 7, HOST_SECOND = 6, HOST_THIRD = 2 };
#endif

struct stub_host {
	uint8_t *code_rw, *code; /* one memory, twice: to be written, to be executed */
	size_t code_used;
	uint32_t *guard;
	uint8_t *slots, *rings;
	uint32_t cpus;
	struct arch_thread thread; /* of this process */
	uint8_t *memory;	   /* what guard, slots and rings are in */
	size_t memory_bytes;
};

/* `near`: the rings are within reach of the code's 32-bit displacements. */
void stub_host_init(struct stub_host *host, bool near);
void stub_host_deinit(struct stub_host *host);
/* For cmocka: *state is a new one, with near rings. */
int stub_host_setup(void **state);
int stub_host_teardown(void **state);
/* Everything empty and zero again, but for the guard, which is 1. */
void stub_host_reset(struct stub_host *host);

/* A description with everything but kind, captures and next. */
struct arch_stub stub_host_stub(const struct stub_host *host, bool has_rseq);
/* Code from an offset on has been written: the processor looks at it. */
void stub_host_written(struct stub_host *host, size_t from);
/* Emits a stub; fails the test if that fails. Its address. */
void *stub_host_emit(struct stub_host *host, const struct arch_stub *stub);
/*
 * A function that is a site: a jump to the stub, and a return, where the stub continues. The
 * arguments are where a function finds them.
 */
typedef void stub_host_site(uint64_t a, uint64_t b, uint64_t c);
/* The capture of all 64 bits of one of the arguments. */
struct arch_capture stub_host_argument(int number);
stub_host_site *stub_host_emit_site(struct stub_host *host, struct arch_stub *stub);

struct ring_header *stub_host_ring(const struct stub_host *host, uint32_t number);
uint32_t stub_host_ring_count(const struct stub_host *host);
/* Sums over all CPUs. */
uint64_t stub_host_hits(const struct stub_host *host);
uint64_t stub_host_lost(const struct stub_host *host);
/* The only record there is, and its bytes; NULL where there is none. */
const struct ring_record *stub_host_only_record(const struct stub_host *host, size_t *bytes_ret);

/*
 * What a record of exactly `bytes` bytes has of these captures, one after the other: a word for
 * each (numbers extended), one with the bits of what could be read if any is checked, and the
 * bytes, padded to 8. Valid until the next call.
 */
const uint64_t *stub_host_open_record(const struct arch_capture *captures, size_t count,
	const struct ring_record *record, size_t bytes);

#endif
