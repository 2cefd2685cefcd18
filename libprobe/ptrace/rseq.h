/* SPDX-License-Identifier: MIT */
/* Does the kernel end restartable sequences as rseq(2) promises? */
#ifndef LIBPROBE_PTRACE_RSEQ_H
#define LIBPROBE_PTRACE_RSEQ_H

#include <stdbool.h>

/*
 * False if this kernel does not always end the sequence of a thread that another one takes the
 * place of: then stubs must do without. It is found out once, on some kernels only, and takes some
 * milliseconds then, for which the caller sleeps. Thread-safe.
 */
bool rseq_is_sound(void);

#endif
