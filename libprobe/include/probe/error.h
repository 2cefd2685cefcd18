/* SPDX-License-Identifier: MIT */
/*
 * Errors of libprobe, and of the folders below it.
 *
 * A function that can fail returns a `struct probe_error *`: NULL is success,
 * anything else is owned by the caller and is given back with
 * probe_error_free().  A message is one line without a newline: what failed,
 * on what, why, and where it helps what to do about it.
 */
#ifndef PROBE_ERROR_H
#define PROBE_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* Why something failed, for programs; the message is for people. */
enum probe_error_code {
	PROBE_ERROR_SYSTEM = 1, /* a system call failed: see err */
	PROBE_ERROR_MEMORY,	/* no memory in this process */
	PROBE_ERROR_USAGE,	/* the caller asked for nonsense */
	PROBE_ERROR_FORMAT,	/* a file or the target holds malformed bytes */
	PROBE_ERROR_NOT_FOUND,	/* no such process, file or probe */
	PROBE_ERROR_PERMISSION, /* not allowed to control the target */
	PROBE_ERROR_STATE,	/* e.g. disabling a probe that is off */
	PROBE_ERROR_REFUSED,	/* a site cannot be patched safely */
	PROBE_ERROR_UNSUPPORTED /* this target, ISA or kernel is not served */
};

struct probe_error {
	enum probe_error_code code;
	int err;       /* errno, or 0 */
	char *message; /* owned by the error; never NULL */
};

#define PROBE_MUST_CHECK __attribute__((warn_unused_result))

/*
 * Makes an error. Never returns NULL: without memory it returns a static
 * error that probe_error_free() leaves alone.
 */
struct probe_error *probe_error_new(enum probe_error_code code, const char *format, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull, warn_unused_result));

/* The same for a failed system call: appends ": " and strerror(err). */
struct probe_error *probe_error_system(int err, const char *format, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull, warn_unused_result));

/* The error for a failed allocation; static, needs no memory. */
struct probe_error *probe_error_no_memory(void) __attribute__((returns_nonnull));

/*
 * Puts "what: " before the message of error (NULL stays NULL) and returns it.
 * Without memory the message stays as it was.
 */
struct probe_error *probe_error_prefix(struct probe_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3), warn_unused_result));

/* Gives an error back. NULL is allowed. */
void probe_error_free(struct probe_error *error);

#ifdef __cplusplus
}
#endif
#endif
