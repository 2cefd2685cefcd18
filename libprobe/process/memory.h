/* SPDX-License-Identifier: MIT */
/*
 * Reading and writing a target's memory. Addresses are the target's.
 *
 * Reading never waits for a program that serves page faults: pages that the program has not
 * provided yet count as unreadable (served.c).
 */
#ifndef LIBPROBE_PROCESS_MEMORY_H
#define LIBPROBE_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

struct served;

/*
 * Whether our seccomp filters allow process_vm_readv(2) and process_vm_writev(2). If not, memory is
 * read and written through /proc/PID/mem; so it is before this call if there are filters.
 */
void memory_may_call(bool may);

/* Reads memory (process_vm_readv(2)); returns the number of bytes read. */
size_t memory_read(pid_t pid, uint64_t address, void *buffer, size_t size);
/* Like memory_read(), for one of many reads of a process: see served_begin(). */
size_t memory_read_known(struct served *known, uint64_t address, void *buffer, size_t size);
/*
 * Like memory_read(), but reads through `mem` (memory_open()) what the process itself may not read.
 */
size_t memory_read_forced(pid_t pid, int mem, uint64_t address, void *buffer, size_t size);
/* Like memory_read(), but fails unless everything can be read. */
PROBE_MUST_CHECK struct probe_error *memory_read_all(
	pid_t pid, uint64_t address, void *buffer, size_t size);

/* One of many places to read at once, with as few system calls as possible. */
struct memory_piece {
	uint64_t address;
	void *buffer;
	size_t size;
};
PROBE_MUST_CHECK struct probe_error *memory_read_pieces(
	pid_t pid, const struct memory_piece *pieces, size_t count);

/* Writes memory that the target itself can write (process_vm_writev(2)). */
PROBE_MUST_CHECK struct probe_error *memory_write_data(
	pid_t pid, uint64_t address, const void *buffer, size_t size);

/*
 * Reads memory through /proc/PID/mem: that of the program for which `fd` was opened, also where
 * the process has become another one meanwhile (PROBE_ERROR_NOT_FOUND: it is gone).
 */
PROBE_MUST_CHECK struct probe_error *memory_read_code(
	int fd, uint64_t address, void *buffer, size_t size);

/*
 * Writes any memory, including code, through /proc/PID/mem: a private page becomes the target's
 * own copy; the file never changes. `fd` comes from memory_open(). A write within one page
 * happens completely or not at all.
 */
PROBE_MUST_CHECK struct probe_error *memory_write_code(
	int fd, uint64_t address, const void *buffer, size_t size);
PROBE_MUST_CHECK struct probe_error *memory_open(pid_t pid, int *fd_ret);

/*
 * Whether the memory that a descriptor refers to still belongs to a process. After execve(2),
 * or when the process has ended, it does not.
 */
bool memory_is_there(int fd);

/* Bits of a page's entry in /proc/PID/pagemap: present, or swapped. */
#define PAGE_THERE (UINT64_C(3) << 62)

/* Opens /proc/PID/pagemap; -1 and errno if that fails. */
int memory_open_pagemap(pid_t pid);

/*
 * The length of the run, of at most `size` bytes from an address on and at least one, whose pages
 * are all in memory, or all not (*there_ret). Reading pages that are not in memory would allocate
 * pages of zeros. `pagemap` is a descriptor of that file; pages that it says nothing about count as
 * present.
 */
size_t memory_run(int pagemap, uint64_t address, size_t size, bool *there_ret);

#endif
