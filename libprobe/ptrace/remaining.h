/* SPDX-License-Identifier: MIT */
/* How much of its time limit a wait has left when a stop interrupts it. */
#ifndef LIBPROBE_PTRACE_REMAINING_H
#define LIBPROBE_PTRACE_REMAINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/process.h"

struct control_thread;
struct remaining;
struct remaining_wait;

/*
 * Looks at the first threads of a list, which are traced and running, and notes in each what is
 * known about its wait. Does not change the threads. NULL: nothing is known about any of them.
 */
struct remaining *remaining_look(struct control_thread *threads, size_t count);
void remaining_free(struct remaining *remaining);

/* PTRACE_INTERRUPT, with the proof that the thread has slept in that wait up to then. */
void remaining_interrupt(struct remaining_wait *wait);

/*
 * For a stopped thread whose wait will be restarted: sets the time that is left, if it is proven.
 * Otherwise the registers stay as they are.
 */
void remaining_apply(const struct remaining_wait *wait, struct arch_registers *regs);

/*
 * Milliseconds that are left of a time limit, never too few; the whole limit if the two
 * times cannot be right. The times are of one processor's scheduler clock, in ns.
 */
int remaining_ms(int limit_ms, uint64_t begun_ns, uint64_t now_ns);

/* May code of this file rely on the ABI alone at its functions' ends? It is the C library's. */
bool remaining_is_libc(const char *path);

#endif
