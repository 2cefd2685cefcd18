/* SPDX-License-Identifier: MIT */
/* The process in which a loaded tracer runs. */
#ifndef LIBPROBE_SESSION_GUEST_H
#define LIBPROBE_SESSION_GUEST_H

/*
 * Loads the tracer and serves it until the controller ends it, or is gone. Does not return.
 * `input` and `replies` are pipes; what the tracer prints goes to `output`; every other
 * descriptor is closed.
 */
_Noreturn void guest_run(const char *path, const char *options, int input, int replies, int output);

#endif
