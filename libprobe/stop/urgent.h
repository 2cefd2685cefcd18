/* SPDX-License-Identifier: MIT */
/* Going first while others stand still for us. */
#ifndef LIBPROBE_STOP_URGENT_H
#define LIBPROBE_STOP_URGENT_H

/*
 * Makes the scheduler prefer the calling thread; returns how it was scheduled before, for
 * urgent_end(), or NULL where nothing was changed.
 */
void *urgent_begin(void);
/* Ends that, and gives `before` back, which may be NULL. */
void urgent_end(void *before);

#endif
