/* SPDX-License-Identifier: MIT */
/*
 * A program with a seccomp filter that passes seccomp:hit all the time.
 *
 *	seccomp KILLED [THREADS]	system call KILLED (a name of calls.h) kills the process;
 *		nothing: the filter allows everything
 *	THREADS		who has the filter
 *	all		the only thread, from the start
 *	worker		a second thread, which alone passes the probe
 *	strict		that thread is in strict mode instead
 *	later		the only thread, after the line "now"
 *	none		no thread
 *
 * prints "ready PID", and answers every line with "alive".
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/sdt.h>

#include "../target.h"
#include "calls.h"

static char variable[] = "variable";
static char *written; /* in memory that may go away */

static void install(uint32_t killed)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, killed, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("seccomp");
		exit(1);
	}
}

static void pass(uint64_t hits)
{
	char *text = written;

	/* In a register: where a variable is, a note for aarch64 cannot say (arch/aarch64/args.c).
	 */
	__asm__("" : "+r"(text));
	STAP_PROBE4(seccomp, hit, hits, "text", text, variable);
}

/* The filter of the worker; "ready" is printed after it is installed. */
static atomic_bool installed;

/* It may make no calls, or few: it makes none. */
static void *work(void *data)
{
	const uint32_t *killed = data;

	if (killed)
		install(*killed);
	else if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		exit(1);
	atomic_store(&installed, true);
	for (uint64_t hits = 0;; hits++) {
		for (volatile int i = 0; i < 100000; i++)
			;
		pass(hits);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *call = argc > 1 ? argv[1] : "nothing";
	uint32_t killed = strcmp(call, "nothing") ? call_number(call) : UINT32_MAX;
	const char *threads = argc > 2 ? argv[2] : "all";
	bool is_worker = !strcmp(threads, "worker") || !strcmp(threads, "strict");
	char line[64];
	uint64_t hits = 0;
	pthread_t worker;

	written = strdup("written");
	if (!written)
		return 1;
	target_allow_tracing();
	if (is_worker)
		pthread_create(&worker, NULL, work, strcmp(threads, "strict") ? &killed : NULL);
	else if (strcmp(threads, "all") == 0)
		install(killed);
	while (is_worker && !atomic_load(&installed))
		sched_yield();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (;;) {
		struct pollfd input = {.fd = 0, .events = POLLIN};

		if (!is_worker)
			pass(hits++);
		if (poll(&input, 1, 1) != 1)
			continue;
		if (!target_read_line(line, sizeof(line)))
			_exit(0);
		if (strcmp(line, "now") == 0)
			install(killed);
		puts("alive");
		fflush(stdout);
	}
}
