/* SPDX-License-Identifier: MIT */
/*
 * Errors of the library.
 *
 * A function that can fail returns a `struct probe_error *`. NULL means success. The caller owns
 * any other value, and frees it with probe_error_free().
 */
#ifndef PROBE_ERROR_H
#define PROBE_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of a failure, for programs. The message is for people. */
enum probe_error_code {
	PROBE_ERROR_SYSTEM = 1,	 /* a system call failed: `err` says how */
	PROBE_ERROR_MEMORY,	 /* this process has no memory left */
	PROBE_ERROR_USAGE,	 /* an argument makes no sense */
	PROBE_ERROR_FORMAT,	 /* a file or the target holds malformed bytes */
	PROBE_ERROR_NOT_FOUND,	 /* no such process, file or probe */
	PROBE_ERROR_PERMISSION,	 /* the caller may not control the target */
	PROBE_ERROR_STATE,	 /* not possible now: for example, the probe to disable is off */
	PROBE_ERROR_REFUSED,	 /* a site cannot be patched safely */
	PROBE_ERROR_UNSUPPORTED, /* the library does not support this target, ISA or kernel */
	PROBE_ERROR_ENDED,	 /* a program that was started ended too early; `err` says how */
	/* Another process, named in the message, has the lock, or threads cannot stop: retry. */
	PROBE_ERROR_BUSY
};

struct probe_error {
	enum probe_error_code code;
	int err; /* a number of errno(3), or 0; for PROBE_ERROR_ENDED a status of waitpid(2) */
	/*
	 * One line without a newline: what failed, on what, why and, if it helps, what to do
	 * about it. Never NULL; owned by the error.
	 */
	char *message;
};

#define PROBE_MUST_CHECK __attribute__((warn_unused_result))

/* Frees an error. NULL is allowed. */
void probe_error_free(struct probe_error *error);

#ifdef __cplusplus
}
#endif
#endif
