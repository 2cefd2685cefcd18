/* SPDX-License-Identifier: MIT */
/*
 * Tests whether the kernel ends restartable sequences. On aarch64, Linux 6.19 and 7.0 end one only
 * if its thread has moved to another processor, not if another thread has run in between; both
 * threads then change the same counter or ring. Distributions fix this without a new version. So of
 * two processes that share a processor, one waits in a sequence: if it sees what the other has
 * written, the kernel has not ended the sequence.
 *
 * Both share our memory, so nothing is copied, and block all signals, because no handler may run in
 * these processes. The caller sleeps until they end (CLONE_VFORK), so they can use its thread-local
 * memory.
 *
 * Sources: clone(2), rseq(2); "rseq: refactoring in v6.19 broke everyone on arm64",
 * linux-arm-kernel, April 2026.
 */
#include <linux/rseq.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

enum {
	LINUX_MAJOR = 6, /* older kernels are not tested */
	LINUX_MINOR = 19,
	STACK_BYTES = 64 << 10,
	/* More rounds than fit into a time slice. */
	ROUNDS = 20000000,
	TRIES = 5
};
/* How long the second process waits for the sequence. */
#define PATIENCE_NS UINT64_C(1000000000)

/* The memory of both processes. */
struct trial {
	struct rseq area;
	uint32_t begun, told;
	enum arch_sequence ended;
	_Alignas(16) uint8_t stack[STACK_BYTES], other_stack[STACK_BYTES];
};

/* The second process. It runs only when the first, in the sequence, has lost the processor. */
static int tell(void *data)
{
	struct trial *trial = data;
	uint64_t end = clock_monotonic_ns() + PATIENCE_NS;

	while (!__atomic_load_n(&trial->begun, __ATOMIC_ACQUIRE) && clock_monotonic_ns() < end)
		sched_yield();
	__atomic_store_n(&trial->told, 1, __ATOMIC_RELEASE);
	return 0;
}

static int wait_in_sequence(void *data)
{
	struct trial *trial = data;
	unsigned int cpu;
	cpu_set_t cpus;
	pid_t other;

	/* Bind this process, and the one that it starts, to one processor. */
	if (syscall(SYS_getcpu, &cpu, NULL, NULL) != 0 || cpu >= CPU_SETSIZE)
		return 0;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0 ||
		syscall(SYS_rseq, &trial->area, sizeof(trial->area), 0,
			arch_process()->rseq_signature) != 0)
		return 0;
	other = clone(tell, trial->other_stack + sizeof(trial->other_stack), CLONE_VM, trial);
	if (other < 0)
		return 0;
	trial->ended = arch_process()->sequence(&trial->area, &trial->begun, &trial->told, ROUNDS);
	/* The sequence may have ended before its first instruction: end the second process. */
	__atomic_store_n(&trial->begun, 1, __ATOMIC_RELEASE);
	syscall(SYS_wait4, other, NULL, __WALL, NULL);
	return 0;
}

/* Runs the test once. Returns ARCH_SEQUENCE_OVER if the result is unknown. */
static enum arch_sequence try_once(struct trial *trial)
{
	sigset_t all, before;
	pid_t pid;

	trial->area = (struct rseq){.cpu_id = (uint32_t)RSEQ_CPU_ID_UNINITIALIZED};
	trial->begun = trial->told = 0;
	trial->ended = ARCH_SEQUENCE_OVER;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pid = clone(wait_in_sequence, trial->stack + sizeof(trial->stack), CLONE_VM | CLONE_VFORK,
		trial);
	if (pid > 0)
		syscall(SYS_wait4, pid, NULL, __WALL, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return trial->ended;
}

bool rseq_is_sound(void)
{
	static atomic_int known; /* 0 if not yet tested, 1 if sound, 2 if not sound */
	int found = known;

	if (!found) {
		enum arch_sequence ended = ARCH_SEQUENCE_OVER;
		struct trial *trial = MAP_FAILED;

		found = 1;
		if (arch_process()->sequence && procfs_kernel_is_since(LINUX_MAJOR, LINUX_MINOR)) {
			trial = mmap(NULL, sizeof(*trial), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			found = 2;
		}
		for (int i = 0; trial != MAP_FAILED && i < TRIES && ended == ARCH_SEQUENCE_OVER;
			i++)
			ended = try_once(trial);
		if (trial != MAP_FAILED)
			munmap(trial, sizeof(*trial));
		if (ended == ARCH_SEQUENCE_ABORTED)
			found = 1;
		known = found;
	}
	return found == 1;
}
