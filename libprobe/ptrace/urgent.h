/* SPDX-License-Identifier: MIT */
/* Running with priority while other threads are stopped for us. */
#ifndef LIBPROBE_PTRACE_URGENT_H
#define LIBPROBE_PTRACE_URGENT_H

/*
 * Makes the scheduler prefer the calling thread. Returns how it was scheduled before, for
 * urgent_end(), or NULL if nothing was changed.
 */
void *urgent_begin(void);
/* Ends this, and frees `before`, which may be NULL. */
void urgent_end(void *before);

#endif
