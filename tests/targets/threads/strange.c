/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -pthread */
/*
 * A process with unusual threads. It takes one command per line, and answers with one line:
 *
 *	hit N	passes strange:hit(I, TEXT, NUMBER) N times	"hits N"
 *	check N	the same, with the alignment check on		"hits N", or "none" where only
 *	jump N	passes strange:jump N times, with the check on	the kernel can turn it on
 *	share N	makes N threads that have its thread pointer	"threads N"
 *	own N	makes N threads with a pointer of their own	"threads N"
 *	sealed N	the same as share, but they may not read the
 *		time stamp counter (PR_SET_TSC)			"threads N"
 *	seal	from now on, the main thread may not either	"sealed", or "none" where the
 *								kernel has no such limit
 *	go N	every thread passes the probe N times		"hits ALL"
 *
 * These threads are made with clone(2) and unknown to libc. Every second pass also passes
 * strange:back(I). TEXT is a string, NUMBER a number in memory; neither is aligned. If a result
 * differs from that without the probe, the process exits with status 3.
 */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/syscall.h>

#include "../target.h"

enum { STACK_BYTES = 1 << 16, BLOCK_BYTES = 1 << 13, THREADS_MAX = 16 };

static char bytes[] = "\0\0\0\x2a\0\0\0aligned nowhere, and rather long";

#ifdef __x86_64__
#define HIT_ARGUMENTS "8@%%rdi 8@%%rcx 4@(%%rsi)"
#else
#define HIT_ARGUMENTS "8@x0 8@x1 4@[x2]"
#endif

/* The number is an operand in memory. */
__attribute__((noinline)) static uint64_t work(uint64_t i, const char *number)
{
	uint64_t value = i * 3 + 7;
#ifdef __x86_64__
	register uint64_t first __asm__("rdi") = i;
	register const char *second __asm__("rcx") = number + 4, *third __asm__("rsi") = number;
#else
	register uint64_t first __asm__("x0") = i;
	register const char *second __asm__("x1") = number + 4, *third __asm__("x2") = number;
#endif

	__asm__ volatile("990: nop\n"
			 ".pushsection .note.stapsdt,\"?\",\"note\"\n"
			 ".balign 4\n"
			 ".4byte 992f-991f, 994f-993f, 3\n"
			 "991: .asciz \"stapsdt\"\n"
			 "992: .balign 4\n"
			 "993: .8byte 990b, _.stapsdt.base, 0\n"
			 ".asciz \"strange\"\n"
			 ".asciz \"hit\"\n"
			 ".asciz \"" HIT_ARGUMENTS "\"\n"
			 "994: .balign 4\n"
			 ".popsection\n"
			 :
			 : "r"(first), "r"(second), "r"(third)
			 : "memory");
	value ^= i * 0x9e3779b97f4a7c15;
	return value + (i << 7);
}

static uint64_t computed(uint64_t i)
{
	return ((i * 3 + 7) ^ (i * 0x9e3779b97f4a7c15)) + (i << 7);
}

#ifdef __x86_64__
enum { HAS_CHECK = 1 };
static void check_alignment(bool on)
{
	const uint64_t check = UINT64_C(1) << 18; /* AC */
	uint64_t flags;

	__asm__ volatile("pushfq; pop %0" : "=r"(flags) : : "memory");
	flags = on ? flags | check : flags & ~check;
	__asm__ volatile("push %0; popfq" : : "r"(flags) : "memory", "cc");
}

/*
 * Nothing but a return is behind the site, so the way to the stubs has a jump to anywhere, at an
 * address that is no multiple of anything.
 */
void strange_jump(void);
__asm__(".text\n"
	".type strange_jump, @function\n"
	"strange_jump: movq %xmm0, %rdx\n"
	"890: nop\n"
	"ret\n"
	".byte 0, 0, 0\n"
	".size strange_jump, . - strange_jump\n"
	".pushsection .note.stapsdt,\"?\",\"note\"\n"
	".balign 4\n"
	".4byte 892f-891f, 894f-893f, 3\n"
	"891: .asciz \"stapsdt\"\n"
	"892: .balign 4\n"
	"893: .8byte 890b, _.stapsdt.base, 0\n"
	".asciz \"strange\"\n"
	".asciz \"jump\"\n"
	".asciz \"\"\n"
	"894: .balign 4\n"
	".popsection\n");

static void jump(int hits)
{
	for (int i = 0; i < hits; i++) {
		check_alignment(true);
		strange_jump();
		check_alignment(false);
	}
}
#else
enum { HAS_CHECK = 0 };
static void check_alignment(bool on)
{
	(void)on;
}

static void jump(int hits)
{
	(void)hits;
}
#endif

static void hit(int hits, bool checked)
{
	for (int i = 0; i < hits; i++) {
		uint64_t got;

		if (checked)
			check_alignment(true);
		got = work(i, bytes + 3);
		if (checked)
			check_alignment(false);
		if (got != computed(i))
			_exit(3);
		if (i % 2) {
			STAP_PROBE1(strange, back, i);
			target_room_behind();
		}
	}
}

/* ---- Threads unknown to libc ----------------------------------------------------------- */

/* The hits of each round, and how many threads have done the last one. */
static atomic_int rounds, round_hits, done;
static int threads;
static uint8_t *blocks[THREADS_MAX]; /* thread pointers point to the middle of these */

/* libc and its thread-local variables are off limits for these. */
static int run_thread(void *data)
{
	int round = 0;

	if (data)
		syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV);
	for (;;) {
		while (atomic_load(&rounds) == round)
			syscall(SYS_sched_yield);
		round++;
		hit(atomic_load(&round_hits), false);
		atomic_fetch_add(&done, 1);
	}
}

static uint8_t *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(4);
	return memory;
}

static void make_threads(int count, bool own, bool sealed)
{
	int flags = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_FS | CLONE_FILES |
		    CLONE_SYSVSEM | (own ? CLONE_SETTLS : 0);

	for (int i = 0; i < count && threads < THREADS_MAX; i++) {
		uint8_t *block = own ? map(BLOCK_BYTES) : NULL;

		if (clone(run_thread, map(STACK_BYTES) + STACK_BYTES, flags, sealed ? bytes : NULL,
			    NULL, own ? block + BLOCK_BYTES / 2 : NULL, NULL) < 0)
			_exit(4);
		blocks[threads++] = block;
	}
	printf("threads %d\n", threads);
}

static void go(int hits)
{
	atomic_store(&done, 0);
	atomic_store(&round_hits, hits);
	atomic_fetch_add(&rounds, 1);
	hit(hits, false);
	while (atomic_load(&done) < threads)
		usleep(1000);
	for (int i = 0; i < threads; i++)
		for (int k = 0; blocks[i] && k < BLOCK_BYTES; k++)
			if (blocks[i][k])
				_exit(3);
	printf("hits %d\n", hits * (threads + 1));
}

/* ---- Commands -------------------------------------------------------------------------- */

static void obey(const char *line)
{
	int number;

	if (sscanf(line, "hit %d", &number) == 1) {
		hit(number, false);
		printf("hits %d\n", number);
	} else if (!HAS_CHECK && (sscanf(line, "check %d", &number) == 1 ||
					 sscanf(line, "jump %d", &number) == 1)) {
		puts("none");
	} else if (sscanf(line, "check %d", &number) == 1) {
		hit(number, true);
		printf("hits %d\n", number);
	} else if (sscanf(line, "share %d", &number) == 1) {
		make_threads(number, false, false);
	} else if (sscanf(line, "jump %d", &number) == 1) {
		jump(number);
		printf("hits %d\n", number);
	} else if (sscanf(line, "own %d", &number) == 1) {
		make_threads(number, true, false);
	} else if (sscanf(line, "sealed %d", &number) == 1) {
		make_threads(number, false, true);
	} else if (strcmp(line, "seal") == 0) {
		puts(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) ? "none" : "sealed");
	} else if (sscanf(line, "go %d", &number) == 1) {
		go(number);
	}
}

int main(void)
{
	char line[100];

	STAP_PROBE(strange, started);
	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		obey(line);
		fflush(stdout);
	}
	return 0;
}
