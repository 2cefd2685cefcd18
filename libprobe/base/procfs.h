/* SPDX-License-Identifier: MIT */
/* Functions that read single facts from /proc (proc(5)), and facts about the kernel. */
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
 * Returns the first number after a key of /proc/PID/status, or -1. errno is then 0 if the key is
 * missing.
 */
long procfs_status_number(pid_t pid, const char *key);
/* Reads all numbers after a key. Returns their count. */
size_t procfs_status_numbers(pid_t pid, const char *key, long ret[PROCFS_NUMBERS_MAX]);
/* Returns the last number after a key, or -1. For NSpid: the pid in the process's own namespace. */
long procfs_status_last_number(pid_t pid, const char *key);
/* Returns true if the line of a key contains a word. */
bool procfs_status_has(pid_t pid, const char *key, const char *word);
/* Copies the first word after a key. Returns false if the word is missing or does not fit. */
bool procfs_status_text(pid_t pid, const char *key, char *buffer, size_t size);
/* Returns the number in a file, or -1. */
long procfs_file_number(const char *path);
/* Copies the command name of a process, or "?" if the process is gone. */
void procfs_comm(pid_t pid, char *buffer, size_t size);
/* Opens the list of a process's threads; NULL and errno on failure. Close with closedir(3). */
DIR *procfs_threads(pid_t pid);
/* Opens the folder of a process's threads. Returns -1 and sets errno on failure. */
int procfs_open_threads(pid_t pid);
/* Opens the list of all processes, like procfs_threads(). */
DIR *procfs_processes(void);
/* Returns the next id in a list of threads or processes; 0 at the end, or if `list` is NULL. */
pid_t procfs_next_id(DIR *list);
/* Like procfs_next_id(), but skips the kernel's workers (procfs_is_worker()). */
pid_t procfs_next_thread(pid_t pid, DIR *threads);
/*
 * Returns true if a task of a process is a thread of the kernel that works for io_uring or vhost.
 * Such a task uses the process's memory and files, but never returns to the program. Its registers
 * mean nothing, it makes no system calls, and a stop would end its current operation with an error.
 */
bool procfs_is_worker(pid_t pid, pid_t tid);
/* Returns the state letter of a thread, or 0 if the thread is gone. */
char procfs_thread_state(pid_t pid, pid_t tid);
/*
 * Returns the processor on which a thread runs, or on which it ran last. Returns -1 if the thread
 * is gone.
 */
int procfs_thread_cpu(pid_t pid, pid_t tid);
/*
 * Checks that /proc is mounted and has the same process numbers as system calls. Error:
 * PROBE_ERROR_UNSUPPORTED (/proc is not mounted, or belongs to another pid namespace).
 */
PROBE_MUST_CHECK struct probe_error *procfs_check(void);
/* Returns the error for a process that is not in /proc, or for an unusable /proc. */
PROBE_MUST_CHECK struct probe_error *procfs_no_process(pid_t pid);
/*
 * Returns the id that was last given to a process or thread; -1 if unknown. `fd` is an open
 * /proc/loadavg.
 */
long procfs_last_pid(int fd);
/* Returns the parent of a process (or of a thread's process), or 0. */
pid_t procfs_parent(pid_t pid);
/*
 * Returns a thread id through which /proc and process_vm_readv(2) reach the process's memory and
 * files. This is the main thread or, if the main thread has ended before the others
 * (pthread_exit(3)), another thread.
 */
pid_t procfs_living(pid_t pid);
/*
 * Returns true if Linux has at least this version, according to uname(2). Returns false if the
 * version is unknown.
 */
bool procfs_kernel_is_since(int major, int minor);
/* Returns true if a process has ended and its parent has not waited for it yet. */
bool procfs_is_zombie(pid_t pid);
/*
 * Returns true if the process is a thread of the kernel. Such a process has neither memory nor a
 * program.
 */
bool procfs_is_kernel_thread(pid_t pid);
/*
 * Returns true if a process is ending or has ended, so that none of its threads will run again. A
 * process releases its locks shortly before it becomes a zombie.
 */
bool procfs_is_exiting(pid_t pid);
/*
 * Opens the regular file to which an O_PATH descriptor refers. Returns -1 and sets errno on failure
 * (EINVAL: not a regular file). Other files are never opened, because opening a device can have
 * effects.
 */
int procfs_open_regular(int path_fd, int flags);
/*
 * Returns when a process started, in clock ticks since boot. Returns 0 if the process is gone, or
 * if the time is unknown. In the second case, procfs_no_room() is true for errno.
 */
uint64_t procfs_start_time(pid_t pid);
/* Returns how long a process has existed, accurate to a clock tick; UINT64_MAX if unknown. */
uint64_t procfs_age_ns(pid_t pid);
/* Like procfs_start_time(), for a stat file in another procfs. */
uint64_t procfs_start_time_of(const char *path);
/*
 * Stores in *ret the wait status of a process that has ended but has not been waited for. Returns
 * false if there is no such process, if its start time is not `start_time`, or if the status is
 * unknown.
 */
bool procfs_exit_status(pid_t pid, uint64_t start_time, int *ret);
/*
 * Finds the type of the file system on a device. Searches the mounts of process `pid`, then those
 * of this process (proc_pid_mountinfo(5)). Returns false if neither process has mounted the device.
 * Accesses no file system.
 */
enum { PROCFS_MOUNT_TYPE = 64 };
bool procfs_mount_type(
	pid_t pid, uint32_t dev_major, uint32_t dev_minor, char type[PROCFS_MOUNT_TYPE]);
/*
 * Returns true if `err`, an errno of open(2), says that descriptors or memory ran out. Such an
 * error tells nothing about the file.
 */
bool procfs_no_room(int err);

/* Facts that may explain why the kernel has refused an access (EACCES, EPERM). */
enum { PROCFS_PROFILE = 256 };
struct procfs_access {
	pid_t pid;
	long tracer; /* id of the thread that traces the process, or 0 */
	char tracer_name[32];
	bool is_unwritable; /* the process's memory is readable, but not writable */
	long uid, own_uid;  /* users of the process and of this process; -1 if unknown */
	long scope;	    /* kernel.yama.ptrace_scope, or -1 */
	bool is_allowed;    /* no rule except a security module's forbids the access */
	/* AppArmor's profiles of this process and of the other one; "" if there is none. */
	char own_profile[PROCFS_PROFILE], profile[PROCFS_PROFILE];
};

/*
 * Extracts the profile from the text of an attr/current file (AppArmor). Returns false if no
 * profile restricts the process.
 */
bool procfs_profile(const char *text, char profile[PROCFS_PROFILE]);

/* Returns the error for a refused access. The message names the rule that forbids it. */
struct probe_error *procfs_denied(const struct procfs_access *access)
	__attribute__((returns_nonnull, warn_unused_result));

/* Returns the error for a target that may not be traced. */
struct probe_error *procfs_permission_error(pid_t pid)
	__attribute__((returns_nonnull, warn_unused_result));

/*
 * If an access was refused and nothing but a security module can have refused it, returns the
 * error; otherwise NULL.
 */
PROBE_MUST_CHECK struct probe_error *procfs_module_error(pid_t pid);

#endif
