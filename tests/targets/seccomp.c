/* SPDX-License-Identifier: MIT */
/*
 * A program under a seccomp filter that passes seccomp:hit all the time.
 *
 *	seccomp KILLED	the process is killed for the system call KILLED (a
 *			number); 0: for none, the filter allows everything
 *
 * prints "ready PID", and "alive" for every line that it is given.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/sdt.h>
#include <sys/syscall.h>

#include "target.h"

int main(int argc, char **argv)
{
	uint32_t killed = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, killed ? killed : UINT32_MAX, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};
	char line[64];
	uint64_t hits = 0;

	target_allow_tracing();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("seccomp");
		return 1;
	}
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (;;) {
		struct pollfd input = {.fd = 0, .events = POLLIN};

		STAP_PROBE2(seccomp, hit, hits++, "text");
		if (poll(&input, 1, 1) != 1)
			continue;
		if (!target_read_line(line, sizeof(line)))
			return 0;
		puts("alive");
		fflush(stdout);
	}
}
