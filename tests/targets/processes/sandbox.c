/* SPDX-License-Identifier: MIT */
/*
 * Installs seccomp filters and executes another program.
 *
 *	sandbox FILTER... -- COMMAND ARGS...
 *
 * Each FILTER adds one:
 *	container	what container runtimes install by default: a list of calls is
 *			allowed, clone3 is ENOSYS, anything else EPERM
 *	kill:CALL	system call CALL (a name of calls.h) kills the process
 *	trap:CALL	it raises SIGSYS
 *	errno:CALL	it fails with EPERM
 *	allow		allows everything
 *	landlock	no filter: no file may be written, and no process outside traced;
 *			status 77 if the kernel has no Landlock
 *	caps		no filter: permanently drops CAP_SYS_ADMIN, SYS_PTRACE and BPF
 */
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "calls.h"

/* From Docker's default profile, for kernels from 4.8 on, without capabilities. */
/* clang-format off */
static const uint16_t allowed[] = {
	SYS_accept, SYS_accept4, SYS_bind, SYS_brk, SYS_capget, SYS_capset, SYS_chdir,
	SYS_clock_getres, SYS_clock_gettime, SYS_clock_nanosleep, SYS_clone, SYS_close,
	SYS_close_range, SYS_connect, SYS_copy_file_range, SYS_dup, SYS_dup3, SYS_epoll_create1,
	SYS_epoll_ctl, SYS_epoll_pwait, SYS_eventfd2, SYS_execve, SYS_execveat, SYS_exit,
	SYS_exit_group, SYS_faccessat, SYS_faccessat2, SYS_fadvise64, SYS_fallocate, SYS_fchdir,
	SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_fcntl, SYS_fdatasync,
	SYS_fgetxattr, SYS_flistxattr, SYS_flock, SYS_fremovexattr, SYS_fsetxattr, SYS_fstat,
	SYS_fstatfs, SYS_fsync, SYS_ftruncate, SYS_futex, SYS_getcpu, SYS_getcwd,
	SYS_getdents64, SYS_getegid, SYS_geteuid, SYS_getgid, SYS_getgroups, SYS_getitimer,
	SYS_getpeername, SYS_getpgid, SYS_getpid, SYS_getppid, SYS_getpriority, SYS_getrandom,
	SYS_getresgid, SYS_getresuid, SYS_getrlimit, SYS_get_robust_list, SYS_getrusage,
	SYS_getsid, SYS_getsockname, SYS_getsockopt, SYS_gettid, SYS_gettimeofday, SYS_getuid,
	SYS_getxattr, SYS_inotify_add_watch, SYS_inotify_init1, SYS_inotify_rm_watch,
	SYS_io_cancel, SYS_ioctl, SYS_io_destroy, SYS_io_getevents, SYS_ioprio_get,
	SYS_ioprio_set, SYS_io_setup, SYS_io_submit, SYS_kill, SYS_lgetxattr, SYS_linkat,
	SYS_listen, SYS_listxattr, SYS_llistxattr, SYS_lremovexattr, SYS_lseek, SYS_lsetxattr,
	SYS_madvise, SYS_membarrier, SYS_memfd_create, SYS_mincore, SYS_mkdirat, SYS_mknodat,
	SYS_mlock, SYS_mlock2, SYS_mlockall, SYS_mmap, SYS_mprotect, SYS_mq_getsetattr,
	SYS_mq_notify, SYS_mq_open, SYS_mq_timedreceive, SYS_mq_timedsend, SYS_mq_unlink,
	SYS_mremap, SYS_msgctl, SYS_msgget, SYS_msgrcv, SYS_msgsnd, SYS_msync, SYS_munlock,
	SYS_munlockall, SYS_munmap, SYS_nanosleep, SYS_newfstatat, SYS_openat, SYS_openat2,
	SYS_pidfd_open, SYS_pidfd_send_signal, SYS_pipe2, SYS_pkey_alloc, SYS_pkey_free,
	SYS_pkey_mprotect, SYS_ppoll, SYS_prctl, SYS_pread64, SYS_preadv, SYS_preadv2,
	SYS_prlimit64, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pselect6, SYS_ptrace,
	SYS_pwrite64, SYS_pwritev, SYS_pwritev2, SYS_read, SYS_readahead, SYS_readlinkat,
	SYS_readv, SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg, SYS_remap_file_pages,
	SYS_removexattr, SYS_renameat, SYS_renameat2, SYS_restart_syscall, SYS_rseq,
	SYS_rt_sigaction, SYS_rt_sigpending, SYS_rt_sigprocmask, SYS_rt_sigqueueinfo,
	SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_tgsigqueueinfo,
	SYS_sched_getaffinity, SYS_sched_getattr, SYS_sched_getparam,
	SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_sched_getscheduler,
	SYS_sched_rr_get_interval, SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam,
	SYS_sched_setscheduler, SYS_sched_yield, SYS_seccomp, SYS_semctl, SYS_semget, SYS_semop,
	SYS_semtimedop, SYS_sendfile, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_setfsgid,
	SYS_setfsuid, SYS_setgid, SYS_setgroups, SYS_setitimer, SYS_setpgid, SYS_setpriority,
	SYS_setregid, SYS_setresgid, SYS_setresuid, SYS_setreuid, SYS_setrlimit,
	SYS_set_robust_list, SYS_setsid, SYS_setsockopt, SYS_set_tid_address, SYS_setuid,
	SYS_setxattr, SYS_shmat, SYS_shmctl, SYS_shmdt, SYS_shmget, SYS_shutdown,
	SYS_sigaltstack, SYS_signalfd4, SYS_socket, SYS_socketpair, SYS_splice, SYS_statfs,
	SYS_statx, SYS_symlinkat, SYS_sync, SYS_sync_file_range, SYS_syncfs, SYS_sysinfo,
	SYS_tee, SYS_tgkill, SYS_timer_create, SYS_timer_delete, SYS_timer_getoverrun,
	SYS_timer_gettime, SYS_timer_settime, SYS_timerfd_create, SYS_timerfd_gettime,
	SYS_timerfd_settime, SYS_times, SYS_tkill, SYS_truncate, SYS_umask, SYS_uname,
	SYS_unlinkat, SYS_utimensat, SYS_vmsplice, SYS_wait4, SYS_waitid, SYS_write, SYS_writev,
#ifdef __x86_64__
	SYS_access, SYS_alarm, SYS_arch_prctl, SYS_chmod, SYS_chown, SYS_creat, SYS_dup2,
	SYS_epoll_create, SYS_epoll_ctl_old, SYS_epoll_wait, SYS_epoll_wait_old, SYS_eventfd,
	SYS_fork, SYS_futimesat, SYS_getdents, SYS_getpgrp, SYS_get_thread_area,
	SYS_inotify_init, SYS_lchown, SYS_link, SYS_lstat, SYS_mkdir, SYS_mknod, SYS_open,
	SYS_pause, SYS_pipe, SYS_poll, SYS_readlink, SYS_rename, SYS_rmdir, SYS_select,
	SYS_set_thread_area, SYS_signalfd, SYS_stat, SYS_symlink, SYS_time, SYS_unlink,
	SYS_utime, SYS_utimes, SYS_vfork,
#endif
};
/* clang-format on */

enum { COUNT = sizeof(allowed) / sizeof(*allowed), ROOM = 2 * COUNT + 8 };

static void install(const struct sock_filter *code, size_t length)
{
	struct sock_fprog program = {.len = (unsigned short)length, .filter = (void *)code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("sandbox");
		exit(1);
	}
}

static void install_container(void)
{
	struct sock_filter code[ROOM], *at = code;
	uint32_t denied = SECCOMP_RET_ERRNO | EPERM;

	*at++ = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < COUNT; i++) {
		*at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
		*at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	*at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
	*at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
	*at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, denied);
	install(code, (size_t)(at - code));
}

static void install_one(uint32_t call, uint32_t action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	install(code, sizeof(code) / sizeof(*code));
}

static void drop_capabilities(void)
{
	const int dropped[] = {CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_BPF};
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	syscall(SYS_capget, &header, data);
	for (size_t i = 0; i < sizeof(dropped) / sizeof(*dropped); i++) {
		uint32_t keep = ~(UINT32_C(1) << dropped[i] % 32);

		prctl(PR_CAPBSET_DROP, dropped[i], 0, 0, 0);
		data[dropped[i] / 32].effective &= keep;
		data[dropped[i] / 32].permitted &= keep;
		data[dropped[i] / 32].inheritable &= keep;
	}
	if (syscall(SYS_capset, &header, data)) {
		perror("capset");
		exit(1);
	}
}

static void install_landlock(void)
{
	struct landlock_ruleset_attr rules = {.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE};
	int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);

	if (fd < 0)
		exit(77);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, fd, 0)) {
		perror("landlock");
		exit(1);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	int i = 1;

	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		char call[32] = "";

		if (strcmp(argv[i], "container") == 0)
			install_container();
		else if (strcmp(argv[i], "landlock") == 0)
			install_landlock();
		else if (strcmp(argv[i], "caps") == 0)
			drop_capabilities();
		else if (strcmp(argv[i], "allow") == 0)
			install_one(UINT32_MAX, SECCOMP_RET_ALLOW);
		else if (sscanf(argv[i], "kill:%31s", call) == 1)
			install_one(call_number(call), SECCOMP_RET_KILL_PROCESS);
		else if (sscanf(argv[i], "trap:%31s", call) == 1)
			install_one(call_number(call), SECCOMP_RET_TRAP);
		else if (sscanf(argv[i], "errno:%31s", call) == 1)
			install_one(call_number(call), SECCOMP_RET_ERRNO | EPERM);
		else
			return 2;
	}
	if (i + 1 >= argc)
		return 2;
	execvp(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return 127;
}
