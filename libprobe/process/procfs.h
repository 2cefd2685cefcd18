/* SPDX-License-Identifier: MIT */
/* Single facts from /proc (proc(5)). */
#ifndef LIBPROBE_PROCESS_PROCFS_H
#define LIBPROBE_PROCESS_PROCFS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/error.h"

/* Reads a small file, whose text is then terminated; returns its length, or 0. */
size_t procfs_read(const char *path, char *buffer, size_t size);
/* The same in as many pieces as the kernel gives it in; what has no room is left out. */
size_t procfs_read_whole(const char *path, char *buffer, size_t size);
/*
 * The (first) number behind a key of /proc/PID/status, or -1: errno is then 0 if there is no
 * such key.
 */
long procfs_status_number(pid_t pid, const char *key);
/* The last of the numbers behind a key, or -1: of NSpid, the one in the process's namespace. */
long procfs_status_last_number(pid_t pid, const char *key);
/* Does the line of a key hold a word? */
bool procfs_status_has(pid_t pid, const char *key, const char *word);
/* Copies the first word behind a key; false where there is none, or no room. */
bool procfs_status_text(pid_t pid, const char *key, char *buffer, size_t size);
/* The number in a file, or -1. */
long procfs_file_number(const char *path);
/* The command name; "?" where the process is gone. */
void procfs_comm(pid_t pid, char *buffer, size_t size);
/*
 * The threads of a process, to be gone through: NULL and errno where there is none, else
 * to be given back with closedir(3).
 */
DIR *procfs_threads(pid_t pid);
/* The next one; 0 behind the last, and where `threads` is NULL. */
pid_t procfs_next_thread(DIR *threads);
/* The state letter of a thread, or 0 where it is gone. */
char procfs_thread_state(pid_t pid, pid_t tid);
/*
 * Is /proc there, and does it number processes as system calls do? Errors:
 * PROBE_ERROR_UNSUPPORTED (none is mounted, or that of another pid namespace).
 */
PROBE_MUST_CHECK struct probe_error *procfs_check(void);
/* The id that was given out last, to a process or a thread, or -1; `fd` is of /proc/loadavg. */
long procfs_last_pid(int fd);
/* The parent of a process, or of the process of a thread, or 0. */
pid_t procfs_parent(pid_t pid);
/*
 * A thread of a process by whose id /proc and process_vm_readv(2) know its memory and its files:
 * the main one, but where that has ended (pthread_exit(3)) and others have not, one of them.
 */
pid_t procfs_living(pid_t pid);
/* Has a process ended that its parent has not waited for yet? */
bool procfs_is_zombie(pid_t pid);
/*
 * Opens the regular file that a descriptor made with O_PATH names; -1 and errno
 * where it is none (EINVAL). So nothing but a regular file is ever opened: to
 * open a device can be to use it.
 */
int procfs_open_regular(int path_fd, int flags);
/*
 * When a process started, in clock ticks since boot; 0 where it is gone, or, with an errno
 * that procfs_no_room() knows, cannot be asked.
 */
uint64_t procfs_start_time(pid_t pid);
/*
 * The wait status of a process that has ended and that nobody has waited for, if it is
 * the one that started then; false where it is not there, or not to be known.
 */
bool procfs_exit_status(pid_t pid, uint64_t start_time, int *ret);
/* Does an errno of open(2) say nothing of the file, but that no descriptor or memory is left? */
bool procfs_no_room(int err);

/* The error for a target that may not be traced: says which rule forbids it. */
struct probe_error *procfs_permission_error(pid_t pid)
	__attribute__((returns_nonnull, warn_unused_result));

#endif
