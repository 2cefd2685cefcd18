/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_HELPER_H
#define LIBPROBE_SELF_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/buffer.h"
#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"
#include "probe/target.h"

/* ---- Message ------------------------------------------------------------------------------- */

/* The messages between the caller of a change and its controller. */

enum message_kind {
	MESSAGE_HELLO = 1, /* to the caller: says which build of the library the controller is */
	MESSAGE_WORK,	   /* to the controller: a request */
	MESSAGE_CALL,	   /* to the caller: asks it to make a system call; helper.c */
	/* To the caller: asks whether a function of the program selects a probe. */
	MESSAGE_MATCH,
	MESSAGE_ANSWER, /* to the controller: the answer to MESSAGE_CALL and MESSAGE_MATCH */
	MESSAGE_REPLY	/* to the caller: the result of a request; message.c */
};

/* A received message. Initialise with {0}. */
struct message {
	enum message_kind kind;
	char *bytes;
	size_t length, at;
	bool is_bad; /* more bytes were read than the message contains, or a text lacks its NUL */
};
void message_deinit(struct message *message);

/* Returns false if the receiver is gone, or if memory ran out while `bytes` was filled. */
bool message_send(int socket, enum message_kind kind, const struct buffer *bytes);

enum message_result { MESSAGE_GOT, MESSAGE_ENDED, MESSAGE_LATE };
/*
 * Receives a message, until `end_ns` (CLOCK_MONOTONIC; 0: without limit). Returns MESSAGE_ENDED if
 * the sender is gone or its message is invalid, or if memory is short. `process` is the sender's
 * pidfd, to notice its end even if another process has the socket open; or -1.
 */
enum message_result message_receive(int socket, int process, uint64_t end_ns, struct message *ret);

/* Reads the next bytes of a message; zeros if it is too short. */
void message_read(struct message *message, void *ret, size_t size);
/* Returns the next text, which the message owns; "" if the message is too short. */
const char *message_text(struct message *message);
/* Returns `count` if the message has that many items; else sets is_bad and returns 0. */
size_t message_count(struct message *message, uint64_t count, size_t item_bytes);
/* Appends a text with its NUL. */
void message_add_text(struct buffer *buffer, const char *text);

/* ---- Image --------------------------------------------------------------------------------- */

/* libprobe.so, when executed, is the controller of a process. */

enum { IMAGE_STACK_BYTES = 1 << 20 }; /* maximum stack that the controller needs */

/*
 * Opens the program of the controller, whose only argument is a socket's number. The caller closes
 * it. Returns -1 if there is no such file, seccomp might forbid execve(2), or the stack's hard
 * limit is below IMAGE_STACK_BYTES.
 */
int image_open(void);

/* The entry point (program.c, which only libprobe.so has). */
void image_entry(void) __attribute__((weak, visibility("hidden")));

/* ---- Reply --------------------------------------------------------------------------------- */

/* Sends an error (may be NULL), a report and a result. Does nothing if the socket is closed. */
void reply_send(int socket, const struct probe_error *error, const struct probe_report *report,
	const void *result, size_t result_bytes);

/*
 * Reads a reply: the error, the report, which is added to `report`, and the result. Returns false
 * if it is incomplete.
 */
bool reply_take(struct message *message, struct probe_error **error_ret,
	struct probe_report *report, void *result, size_t result_bytes);

/* ---- Proxy --------------------------------------------------------------------------------- */

/* A function of the program that selects probes: see probe_pattern_predicate(). */
struct proxy_predicate {
	int socket;
	uint64_t function, data;
};
/* Asks the caller to call the program's function (struct proxy_predicate) that selects probes. */
bool proxy_matches(const char *path, const char *provider, const char *name, void *predicate);

/* ---- Controller ---------------------------------------------------------------------------- */

/*
 * The controller is a process that changes its target for a thread of the target, the caller, which
 * waits at the other end of a socket. It is an executed program or a copy of the target (helper.c).
 */

enum controller_act {
	CONTROLLER_SWITCH, /* enable and disable probes: self.c */
	CONTROLLER_ATTACH, /* install the stubs of a hook: hook.c */
	CONTROLLER_FOLLOW, /* install the loader's stub: hook.c */
	CONTROLLER_DETACH, /* remove the stubs of a hook: hook.c */
	CONTROLLER_STOP,   /* stop all threads for a moment: self.c */
	CONTROLLER_ACTS
};

/* Does the work of one act on the target. `request` is not trusted. `result` is zeroed before. */
typedef struct probe_error *controller_do(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes);
controller_do attach_act, follow_act, detach_act;

/* All acts, by enum controller_act. */
extern controller_do *const self_acts[CONTROLLER_ACTS];

struct probe_error *controller_bad_request(void)
	__attribute__((returns_nonnull, warn_unused_result));

/* The beginning of a request: facts that the caller knows about its process. */
struct controller_work {
	uint32_t act;	     /* enum controller_act */
	pid_t pid, tid;	     /* ids of the caller's process and of the caller itself */
	uint64_t start_time; /* start time of the process, in clock ticks since boot */
	uint64_t result_bytes;
	struct arch_gadgets gadgets;
	struct arch_thread model;
};

/* Identifies the build of the library. */
extern const char controller_identity[];

/* Serves the caller at the other end of the socket, then ends this process. */
void controller_main(int socket) __attribute__((noreturn));

/* ---- Helper -------------------------------------------------------------------------------- */

/*
 * Changes this process's probes from a controller, a process that ends before the lock is released.
 */

/* Limit of a request, after which the controller ends itself and its caller gives up. */
enum { HELPER_SECONDS = 20 };

struct helper_work {
	enum controller_act act;
	struct buffer request;	     /* arguments of the act; owned. Initialise with {0} */
	struct probe_report *report; /* gets the controller's report added to it */
	void *result;		     /* result_bytes long; unchanged if the controller died */
	size_t result_bytes;
	/* A controller died before it had reported. The next change undoes its changes. */
	bool died;
};

/*
 * Performs the work, for one thread at a time, and frees the request. Errors: the work's;
 * PROBE_ERROR_STATE (the controller died or took too long, twice), PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_MEMORY, PROBE_ERROR_UNSUPPORTED (on this instruction set).
 */
PROBE_MUST_CHECK struct probe_error *helper_run(struct helper_work *work);
/*
 * Ends the controller, which otherwise stays for more work until the lock is released. Kills it if
 * it is late, or does not end in time. The caller holds the lock.
 */
void helper_end(bool is_late);

/*
 * Lets a process trace this one: Yama may allow that only to ancestors, and to the one process that
 * was named last.
 */
void helper_allow(pid_t pid);
/* Lets the newest copy trace this process again, after a controller, or in a forked child. */
void helper_allow_copy(void);

/* A copy of this process. */
struct helper_copy {
	int socket;  /* our end */
	int process; /* its pidfd, or -1 */
	pid_t pid;
};
/*
 * Makes a copy of this process (fork(2)) that is not its child, and stays after the call. The copy
 * calls stay() with its end of the socket, with all signals blocked; stay() must not return, and
 * has the descriptors of this process. It may trace this process from its first message on. Errors:
 * as helper_run().
 */
PROBE_MUST_CHECK struct probe_error *helper_copy(
	void (*stay)(int socket, void *data), void *data, struct helper_copy *ret);
/* Closes what belongs to a copy, which ends when the socket is closed. */
void helper_leave_copy(struct helper_copy *copy);

/*
 * Loads libraries for helper_run(). The caller must not hold our lock: the loader's lock is taken,
 * whose holder may wait for ours.
 */
void helper_prepare(void);

/*
 * True in a copied controller, and in the caller and the forker while one is started. There,
 * connected functions, which are the program's, are not called. These threads have no record
 * (struct caller) meanwhile, so only hits without a record read this.
 */
extern __thread bool helper_is_quiet __attribute__((tls_model("initial-exec")));

#endif
