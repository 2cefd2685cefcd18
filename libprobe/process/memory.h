/* SPDX-License-Identifier: MIT */
/* Reading and writing a target's memory. Addresses are the target's. */
#ifndef LIBPROBE_PROCESS_MEMORY_H
#define LIBPROBE_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/error.h"

/* Reads memory (process_vm_readv(2)); returns how many bytes there were. */
size_t memory_read(pid_t pid, uint64_t address, void *buffer, size_t size);
/* The same, where all of it is needed. */
PROBE_MUST_CHECK struct probe_error *memory_read_all(
	pid_t pid, uint64_t address, void *buffer, size_t size);

/* Many places at once, each to a buffer of its own, with as few system calls as possible. */
struct memory_piece {
	uint64_t address;
	void *buffer;
	size_t size;
};
PROBE_MUST_CHECK struct probe_error *memory_read_pieces(
	pid_t pid, const struct memory_piece *pieces, size_t count);

/* Writes memory that the target itself could write (process_vm_writev(2)). */
PROBE_MUST_CHECK struct probe_error *memory_write_data(
	pid_t pid, uint64_t address, const void *buffer, size_t size);

/*
 * Writes any memory, also code, through /proc/PID/mem: a private page becomes
 * the target's own copy, the file is never changed. `fd` is from memory_open().
 * A write within one page is done as a whole or not at all.
 */
PROBE_MUST_CHECK struct probe_error *memory_write_code(
	int fd, uint64_t address, const void *buffer, size_t size);
PROBE_MUST_CHECK struct probe_error *memory_open(pid_t pid, int *fd_ret);

/*
 * Is the memory that a descriptor stands for still that of a process? After
 * execve(2), or the end of the process, it is not.
 */
bool memory_is_there(int fd);

/* In the entry of a page in /proc/PID/pagemap: present, or swapped. */
#define PAGE_THERE (UINT64_C(3) << 62)

/*
 * How many of `size` bytes from an address on, at least one, are all in memory, or all are not
 * (*there_ret). To read what is not would give the process pages of zeros. `pagemap` is a
 * descriptor of that file; what it does not tell counts as there.
 */
size_t memory_run(int pagemap, uint64_t address, size_t size, bool *there_ret);

#endif
