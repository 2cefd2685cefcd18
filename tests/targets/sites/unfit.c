/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE */
/*
 * A program with probes where no stub may run: in two of its own restartable sequences, one
 * described in a section, the other in a variable that is filled in; and, on x86-64, where %rsp
 * reads a table. Another probe, unfit:outside, is elsewhere.
 *
 *	count N		passes all of them N times, under a storm of signals	"counted N"
 *
 * It answers "lost N" if a signal did not abort the sequence that it interrupted, and ends with
 * status 3 if the table has changed.
 */
#include <signal.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/sdt.h>
#include <sys/time.h>

#include "../target.h"

enum { INTERVAL_US = 200 };

#ifdef __x86_64__
#define FIRST "%rdi"
#else
#define FIRST "x0"
#endif
#define NOTE(name)                                                                                 \
	"990: nop\n"                                                                               \
	".pushsection .note.stapsdt,\"?\",\"note\"\n"                                              \
	".balign 4\n"                                                                              \
	".4byte 992f-991f, 994f-993f, 3\n"                                                         \
	"991: .asciz \"stapsdt\"\n"                                                                \
	"992: .balign 4\n"                                                                         \
	"993: .8byte 990b, _.stapsdt.base, 0\n"                                                    \
	".asciz \"unfit\"\n"                                                                       \
	".asciz \"" name "\"\n"                                                                    \
	".asciz \"8@" FIRST "\"\n"                                                                 \
	"994: .balign 4\n"                                                                         \
	".popsection\n"

/*
 * long NAME(struct rseq *area, const void *descriptor, const volatile long *signals):
 * 0 if a signal came while it waited and did not abort it.
 */
#ifdef __x86_64__
#define SEQUENCE(name)                                                                             \
	".globl " name "\n.type " name ", @function\n" name ":\n"                                  \
	"mov $200, %eax\n"                                                                         \
	"mov %rsi, 8(%rdi)\n" name "_start:\n"                                                     \
	"mov (%rdx), %rcx\n"                                                                       \
	"2:\n" NOTE(name) "mov %rcx, %r8\n"                                                        \
			  "cmp (%rdx), %r8\n"                                                      \
			  "jne 1f\n"                                                               \
			  "sub $1, %eax\n"                                                         \
			  "jne 2b\n"                                                               \
			  "movq $0, 8(%rdi)\n" name "_end:\n"                                      \
			  "mov $1, %eax\n"                                                         \
			  "ret\n"                                                                  \
			  "1: movq $0, 8(%rdi)\n"                                                  \
			  "xor %eax, %eax\n"                                                       \
			  "ret\n"                                                                  \
			  ".long 0x53053053\n" name "_abort:\n"                                    \
			  "mov $2, %eax\n"                                                         \
			  "ret\n"                                                                  \
			  ".size " name ", . - " name "\n"
#else
/* clang-format off */
#define SEQUENCE(name)								\
	".globl " name "\n.type " name ", %function\n" name ":\n"		\
	"mov w9, #200\n"							\
	"str x1, [x0, #8]\n" name "_start:\n"					\
	"ldr x3, [x2]\n"							\
	"2:\n" NOTE(name) "mov x4, x3\n"					\
	"ldr x5, [x2]\n"							\
	"cmp x5, x4\n"								\
	"b.ne 1f\n"								\
	"subs w9, w9, #1\n"							\
	"b.ne 2b\n"								\
	"str xzr, [x0, #8]\n" name "_end:\n"					\
	"mov x0, #1\n"								\
	"ret\n"									\
	"1: str xzr, [x0, #8]\n"						\
	"mov x0, #0\n"								\
	"ret\n"									\
	".inst 0xd428bc00\n" name "_abort:\n"					\
	"mov x0, #2\n"								\
	"ret\n"									\
	".size " name ", . - " name "\n"
/* clang-format on */
#endif

/* clang-format off */
__asm__(".text\n" SEQUENCE("described") SEQUENCE("built")
	".pushsection __rseq_cs,\"aw\"\n"
	".balign 32\n"
	".globl described_cs\n"
	"described_cs: .long 0, 0\n"
	".quad described_start, described_end - described_start, described_abort\n"
	".popsection\n");
/* clang-format on */

#ifdef __x86_64__
/* uint64_t unstacked(const uint64_t *end): sums a table of which two words are left. */
__asm__(".text\n.globl unstacked\n.type unstacked, @function\n"
	"unstacked:\n"
	"mov %rsp, %r9\n"
	"mov %rdi, %rsp\n"
	"pop %rax\n" NOTE("unstacked") "pop %rcx\n"
				       "mov %r9, %rsp\n"
				       "add %rcx, %rax\n" NOTE(
					       "restacked") "nopl 0(%rax)\n"
							    "ret\n"
							    ".size unstacked, . - unstacked\n");
uint64_t unstacked(const uint64_t *end);

static void unstack(void)
{
	static uint64_t table[64];

	for (int k = 0; k < 64; k++)
		table[k] = (uint64_t)k;
	if (unstacked(table + 62) != 62 + 63)
		_exit(3);
	for (int k = 0; k < 64; k++)
		if (table[k] != (uint64_t)k)
			_exit(3);
}
#else
/* Its stack pointer points to a stack. */
static void unstack(void)
{
}
#endif

long described(struct rseq *area, const void *descriptor, const volatile long *signals);
long built(struct rseq *area, const void *descriptor, const volatile long *signals);
/* Hidden: GNU as and ld lose what a label of this file adds in an entry of aarch64's GOT. */
__attribute__((visibility("hidden"))) extern const char described_cs[], built_start[], built_end[],
	built_abort[];
static struct rseq_cs built_cs;
static volatile long signals;

static void on_signal(int number)
{
	(void)number;
	signals = signals + 1;
}

static void count(int rounds)
{
	struct itimerval storm = {{0, INTERVAL_US}, {0, INTERVAL_US}}, none = {{0, 0}, {0, 0}};
	struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
	long lost = 0;

	for (int i = 0; i < rounds; i++) {
		STAP_PROBE1(unfit, outside, i);
		unstack();
	}
	setitimer(ITIMER_REAL, &storm, NULL);
	for (int i = 0; i < rounds; i++) {
		lost += !described(area, described_cs, &signals);
		lost += !built(area, &built_cs, &signals);
	}
	setitimer(ITIMER_REAL, &none, NULL);
	printf("%s %ld\n", lost ? "lost" : "counted", lost ? lost : (long)rounds);
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	char line[64];
	int rounds;

	target_allow_tracing();
	if (!__rseq_size) {
		puts("none");
		return 0;
	}
	built_cs.start_ip = (uint64_t)built_start;
	built_cs.post_commit_offset = (uint64_t)(built_end - built_start);
	built_cs.abort_ip = (uint64_t)built_abort;
	sigaction(SIGALRM, &action, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line))) {
		if (sscanf(line, "count %d", &rounds) == 1)
			count(rounds);
		fflush(stdout);
	}
	return 0;
}
