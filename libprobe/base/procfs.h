/* SPDX-License-Identifier: MIT */
/* Reads single facts from /proc (proc(5)) and about the kernel. */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

/* A path below /proc: open(procfs_path("/proc/%d/mem", pid).text, flags). */
struct procfs_path {
	char text[96];
};
struct procfs_path procfs_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* NSpid has a number for each of at most 33 pid namespaces (MAX_PID_NS_LEVEL is 32). */
enum { PROCFS_NUMBERS_MAX = 33 };

/* Returns the first number after a key of /proc/PID/status, or -1 (errno is 0 if it is missing). */
long procfs_status_number(pid_t pid, const char *key);
/* Reads all numbers after a key. Returns their count. */
size_t procfs_status_numbers(pid_t pid, const char *key, long ret[PROCFS_NUMBERS_MAX]);
/*
 * Returns the last number after a key, or -1. For NSpid, this is the pid in the process's own
 * namespace.
 */
long procfs_status_last_number(pid_t pid, const char *key);
bool procfs_status_has(pid_t pid, const char *key, const char *word);
/* Copies the first word after a key. Returns false if it is missing or does not fit. */
bool procfs_status_text(pid_t pid, const char *key, char *buffer, size_t size);
/* Return true if a file, or a link, of /proc/PID has the same text for the process and for us. */
bool procfs_is_same_text(pid_t pid, const char *name);
bool procfs_is_same_link(pid_t pid, const char *name);
/* Returns the number in a file, or -1. */
long procfs_file_number(const char *path);
/* Copies the command name of a process, or "?". */
void procfs_comm(pid_t pid, char *buffer, size_t size);
/* Opens the list of threads, for closedir(3); NULL and errno on failure. */
DIR *procfs_threads(pid_t pid);
/* Opens the folder of threads; -1 and errno on failure. */
int procfs_open_threads(pid_t pid);
/* Opens the list of all processes, for closedir(3); NULL and errno on failure. */
DIR *procfs_processes(void);
/* Returns the next id in a list; 0 at the end, or if `list` is NULL. */
pid_t procfs_next_id(DIR *list);
/* Like procfs_next_id(), without the kernel's workers (procfs_is_worker()). */
pid_t procfs_next_thread(pid_t pid, DIR *threads);
/*
 * Returns true if a task is a kernel thread that works for io_uring or vhost. It uses the process's
 * memory and files, but never runs the program: it has no registers, makes no system calls, and a
 * stop would end its operation with an error.
 */
bool procfs_is_worker(pid_t pid, pid_t tid);
/* Returns the state letter of a thread, or 0. */
char procfs_thread_state(pid_t pid, pid_t tid);
/* Returns the processor on which a thread runs or ran last, or -1. */
int procfs_thread_cpu(pid_t pid, pid_t tid);
/* Checks that /proc is mounted and of our pid namespace. Errors: PROBE_ERROR_UNSUPPORTED. */
PROBE_MUST_CHECK struct probe_error *procfs_check(void);
/* Returns the error for a missing process, or an unusable /proc. */
PROBE_MUST_CHECK struct probe_error *procfs_no_process(pid_t pid);
/* Returns the id last given to a process or thread, or -1. `fd` is an open /proc/loadavg. */
long procfs_last_pid(int fd);
/* Returns the parent of a process, or of a thread's process; or 0. */
pid_t procfs_parent(pid_t pid);
/*
 * Returns a thread through which /proc and process_vm_readv(2) reach the process: the main thread
 * or, if that has ended (pthread_exit(3)), another one.
 */
pid_t procfs_living(pid_t pid);
/* Returns true if Linux has at least this version, according to uname(2). False if unknown. */
bool procfs_kernel_is_since(int major, int minor);
/* Returns true if a process has ended and was not waited for. */
bool procfs_is_zombie(pid_t pid);
/* Returns true for a kernel thread, which has no memory and no program. */
bool procfs_is_kernel_thread(pid_t pid);
/*
 * Returns true if a process is ending or has ended. It releases its locks shortly before it is a
 * zombie.
 */
bool procfs_is_exiting(pid_t pid);
/*
 * Opens the regular file of an O_PATH descriptor; -1 and errno on failure. Other files give EINVAL
 * and are not opened, because opening them may have effects.
 */
int procfs_open_regular(int path_fd, int flags);
/*
 * Returns when a process started, in clock ticks since boot; 0 if it is gone, or if
 * procfs_no_room(errno).
 */
uint64_t procfs_start_time(pid_t pid);
/* Returns a process's age, to a clock tick; UINT64_MAX if unknown. */
uint64_t procfs_age_ns(pid_t pid);
/* Like procfs_start_time(), for a stat file in another procfs. */
uint64_t procfs_start_time_of(const char *path);
/*
 * Gets the wait status of an ended process that was not waited for. Returns false if it does not
 * exist, has another start time, or the status is unknown.
 */
bool procfs_exit_status(pid_t pid, uint64_t start_time, int *ret);
/*
 * Finds a device's file system type in the mounts of a process, then ours (proc_pid_mountinfo(5)).
 * Returns false if neither has it. Accesses no file system.
 */
enum { PROCFS_MOUNT_TYPE = 64 };
bool procfs_mount_type(
	pid_t pid, uint32_t dev_major, uint32_t dev_minor, char type[PROCFS_MOUNT_TYPE]);
/* Returns true if an errno of open(2) says only that descriptors or memory ran out. */
bool procfs_no_room(int err);
