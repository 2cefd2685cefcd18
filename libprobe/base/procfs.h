/* SPDX-License-Identifier: MIT */
/* Single facts from /proc (proc(5)), and of the kernel. */
#ifndef LIBPROBE_BASE_PROCFS_H
#define LIBPROBE_BASE_PROCFS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

/* The NSpid line has a number for each of at most 33 pid namespaces (MAX_PID_NS_LEVEL is 32). */
enum { PROCFS_NUMBERS_MAX = 33 };

/*
 * The first number after a key of /proc/PID/status, or -1: errno is then 0 if the key is
 * missing.
 */
long procfs_status_number(pid_t pid, const char *key);
/* Reads all numbers after a key. Returns their count. */
size_t procfs_status_numbers(pid_t pid, const char *key, long ret[PROCFS_NUMBERS_MAX]);
/* The last number after a key, or -1. For NSpid, it is the pid in the process's own namespace. */
long procfs_status_last_number(pid_t pid, const char *key);
/* Whether the line of a key contains a word. */
bool procfs_status_has(pid_t pid, const char *key, const char *word);
/* Copies the first word after a key; false if there is none, or it does not fit. */
bool procfs_status_text(pid_t pid, const char *key, char *buffer, size_t size);
/* The number in a file, or -1. */
long procfs_file_number(const char *path);
/* The command name; "?" if the process is gone. */
void procfs_comm(pid_t pid, char *buffer, size_t size);
/* Opens the list of a process's threads; NULL and errno on failure. Use closedir(3). */
DIR *procfs_threads(pid_t pid);
/* Opens the folder that lists them; -1 and errno on failure. */
int procfs_open_threads(pid_t pid);
/* The list of all processes; as procfs_threads(). */
DIR *procfs_processes(void);
/* The next task or process; 0 after the last one, and if `list` is NULL. */
pid_t procfs_next_id(DIR *list);
/* Like procfs_next_id(), but skips the kernel's workers (procfs_is_worker()). */
pid_t procfs_next_thread(pid_t pid, DIR *threads);
/*
 * Is a task of a process one of the kernel's threads: a worker of io_uring or vhost? It uses the
 * process's memory and files, but never returns to the program. Its registers mean nothing, it
 * makes no system calls, and a stop would end its current operation with an error.
 */
bool procfs_is_worker(pid_t pid, pid_t tid);
/* The state letter of a thread, or 0 if it is gone. */
char procfs_thread_state(pid_t pid, pid_t tid);
/* The processor that a thread runs on or ran on last; -1: it is gone. */
int procfs_thread_cpu(pid_t pid, pid_t tid);
/*
 * Checks that /proc is mounted and uses the same process numbers as system calls. Errors:
 * PROBE_ERROR_UNSUPPORTED (not mounted, or of another pid namespace).
 */
PROBE_MUST_CHECK struct probe_error *procfs_check(void);
/* The error for a process that /proc does not have; it says so if there is no usable /proc. */
PROBE_MUST_CHECK struct probe_error *procfs_no_process(pid_t pid);
/* The id given out last, to a process or a thread, or -1; `fd` is of /proc/loadavg. */
long procfs_last_pid(int fd);
/* The parent of a process (or of a thread's process), or 0. */
pid_t procfs_parent(pid_t pid);
/*
 * A thread id through which /proc and process_vm_readv(2) reach the process's memory and files:
 * the main thread's, or, if that has ended (pthread_exit(3)) and others have not, another
 * one's.
 */
pid_t procfs_living(pid_t pid);
/* Is Linux of this version, or a later one, as uname(2) tells? False if it does not tell. */
bool procfs_kernel_is_since(int major, int minor);
/* Whether a process has ended, but its parent has not yet waited for it. */
bool procfs_is_zombie(pid_t pid);
/* Is it part of the kernel? Such a process has neither memory nor a program. */
bool procfs_is_kernel_thread(pid_t pid);
/*
 * Is a process ending, or has it ended: will none of its threads run again? Its locks are released
 * a little before it is a zombie.
 */
bool procfs_is_exiting(pid_t pid);
/*
 * Opens the regular file that an O_PATH descriptor names; -1 and errno if it is none (EINVAL).
 * Only regular files are ever opened, because opening a device can have effects.
 */
int procfs_open_regular(int path_fd, int flags);
/*
 * When a process started, in clock ticks since boot. 0 if it is gone, or unknown with an errno
 * that procfs_no_room() recognises.
 */
uint64_t procfs_start_time(pid_t pid);
/* How long a process has been there, a clock tick more or less; UINT64_MAX: not known. */
uint64_t procfs_age_ns(pid_t pid);
/* Like procfs_start_time(), for a stat file in another procfs. */
uint64_t procfs_start_time_of(const char *path);
/*
 * The wait status of a process that has ended but has not been waited for, if its start time
 * matches; false if it does not exist, or the status is unknown.
 */
bool procfs_exit_status(pid_t pid, uint64_t start_time, int *ret);
/*
 * Finds the type of the file system that has a device number, in the mounts of a process or of this
 * one (proc_pid_mountinfo(5)). Returns false if neither has mounted it. Accesses no file system.
 */
enum { PROCFS_MOUNT_TYPE = 64 };
bool procfs_mount_type(
	pid_t pid, uint32_t dev_major, uint32_t dev_minor, char type[PROCFS_MOUNT_TYPE]);
/*
 * Whether an errno of open(2) only says that descriptors or memory ran out, and nothing about
 * the file.
 */
bool procfs_no_room(int err);

/* Facts that may explain why the kernel has refused an access (EACCES, EPERM). */
enum { PROCFS_PROFILE = 256 };
struct procfs_access {
	pid_t pid;
	long tracer; /* the thread that traces it, or 0 */
	char tracer_name[32];
	bool is_unwritable; /* its memory may be read, but not written */
	long uid, own_uid;  /* -1: unknown */
	long scope;	    /* kernel.yama.ptrace_scope, or -1 */
	bool is_allowed;    /* by all rules except those of security modules */
	char own_profile[PROCFS_PROFILE], profile[PROCFS_PROFILE]; /* of AppArmor; "": none */
};

/*
 * The profile in the text of an attr/current file (AppArmor). False if there is none that forbids
 * anything.
 */
bool procfs_profile(const char *text, char profile[PROCFS_PROFILE]);

/* The error for a refused access; names the rule that forbids it. */
struct probe_error *procfs_denied(const struct procfs_access *access)
	__attribute__((returns_nonnull, warn_unused_result));

/* The same, for a target that may not be traced. */
struct probe_error *procfs_permission_error(pid_t pid)
	__attribute__((returns_nonnull, warn_unused_result));

/* The error for an access that a security module alone can have refused; NULL: others may have. */
PROBE_MUST_CHECK struct probe_error *procfs_module_error(pid_t pid);

#endif
