/* SPDX-License-Identifier: MIT */
/* How much is left of the time limits of waits that a stop interrupts. */
#ifndef LIBPROBE_STOP_REMAINING_H
#define LIBPROBE_STOP_REMAINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/process.h"

struct control_thread;
struct remaining;
struct remaining_wait;

/*
 * Looks at the first threads of a list, which are traced and run, and notes in each what is
 * known of its wait. Changes nothing in them. NULL: of none is anything known.
 */
struct remaining *remaining_look(struct control_thread *threads, size_t count);
void remaining_free(struct remaining *remaining);

/* PTRACE_INTERRUPT, with the proof that the thread has slept in that wait up to then. */
void remaining_interrupt(struct remaining_wait *wait);

/*
 * Of a stopped thread whose wait is to be begun again: gives it the time that is left, where that
 * was proven. Else the registers stay as they are.
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
