/* SPDX-License-Identifier: MIT */
/*
 * flags: -D_GNU_SOURCE -pthread
 *
 * A handler of signals that stays as long as the test wants if it has interrupted the code after a
 * probe, or code outside the program (a stub): in a frame of its own, by switching to the user
 * context that reads lines, or by saving the registers.
 *
 *	contexts stub|between near|far|switch|copy MEMORY RESTORER BYTES
 *
 * MEMORY is where the interrupted code's stack is: thread, array (in a frame of the thread's
 * own stack), malloc, mmap, static, shared; dropped, memfd, tmpfs and file are shared, too, and
 * their pages are released during the wait. RESTORER is what the handler returns to: mov, push,
 * xor, jump. BYTES is the size of the handler's frame (far), or of the stack. With copy, the
 * copied registers are at an address that is BYTES modulo 8.
 *
 * Prints "ready PID"; after one line "caught", after the next "free wrong M", where M counts
 * wrong results.
 */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>

#define PROVIDER contexts
#include "between.h"
#include "../target.h"

enum { STACK = 8 << 20, RESTORER = 0x04000000 /* SA_RESTORER */ };

/* struct kernel_sigaction of the kernel */
struct action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

extern char __executable_start, etext;
void restore_mov(void), restore_push(void), restore_xor(void), restore_jump(void);
/* clang-format off */
#ifdef __x86_64__
__asm__("	.text\n"
	"restore_mov: mov $15, %rax\n"
	"	syscall\n"
	"restore_push: push $15\n"
	"	pop %rax\n"
	"	syscall\n"
	"restore_xor: xor %eax, %eax\n"
	"	add $15, %eax\n"
	"	syscall\n"
	"restore_jump: jmp restore_push\n");
#else
__asm__("	.text\n"
	"restore_mov: mov x8, 139\n"
	"	svc 0\n"
	"restore_push: mov x9, 139\n"
	"	str x9, [sp, -16]!\n"
	"	ldr x8, [sp], 16\n"
	"	svc 0\n"
	"restore_xor: eor x8, x8, x8\n"
	"	add x8, x8, 139\n"
	"	svc 0\n"
	"restore_jump: b restore_push\n");
#endif
/* clang-format on */

/* General registers, stack pointer, program counter and flags, as a context has them. */
#ifdef __x86_64__
enum { REGISTERS_BYTES = sizeof(gregset_t) };
#else
enum {
	REGISTERS_BYTES = sizeof(mcontext_t) - offsetof(mcontext_t, regs) -
			  sizeof(((mcontext_t *)NULL)->__reserved)
};
#endif

static void *registers_of(ucontext_t *context)
{
#ifdef __x86_64__
	return context->uc_mcontext.gregs;
#else
	return context->uc_mcontext.regs;
#endif
}

static bool in_stub, far_away, switches, copies, drops;
static size_t bytes, stack_bytes;
static ucontext_t outside, inside;
static char stack_in_data[STACK];
static volatile sig_atomic_t caught, passing;
static unsigned long passes, wrong;
static uintptr_t between;
static char *copy;
static volatile sig_atomic_t goes_on;

static void set_timer(int microseconds)
{
	struct itimerval interval = {{0, microseconds}, {0, microseconds}};

	setitimer(ITIMER_REAL, &interval, NULL);
}

static void say(const char *text)
{
	printf("%s\n", text);
	fflush(stdout);
}

/* Continues outside. User contexts have neither flags nor selectors. */
static void set_aside(ucontext_t *context)
{
#ifdef __x86_64__
	greg_t *words = context->uc_mcontext.gregs;
	greg_t flags = words[REG_EFL], selectors = words[REG_CSGSFS];
#else
	uint64_t flags = context->uc_mcontext.pstate;
#endif

	memcpy(copy, registers_of(context), REGISTERS_BYTES);
	memcpy(registers_of(context), registers_of(&outside), REGISTERS_BYTES);
#ifdef __x86_64__
	words[REG_EFL] = flags;
	words[REG_CSGSFS] = selectors;
#else
	context->uc_mcontext.pstate = flags;
#endif
}

static void on_signal(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;
	uintptr_t pc = interrupted_at(context);
	bool is_own = pc >= (uintptr_t)&__executable_start && pc < (uintptr_t)&etext;
	volatile char *room;
	char line[64];

	(void)number;
	(void)info;
	if (goes_on) {
		goes_on = 0;
		memcpy(registers_of(context), copy, REGISTERS_BYTES);
		memset(copy, 0, REGISTERS_BYTES); /* or it would look like a frame to return to */
		return;
	}
	if (!passing || caught || (in_stub && is_own))
		return;
	set_timer(0);
	if (!in_stub && !step_to(context, between))
		return;
	caught = 1;
	if (copies) {
		set_aside(context);
		return;
	}
	if (switches) {
		swapcontext(&inside, &outside);
		return;
	}
	room = alloca(far_away ? bytes : 1);
	room[0] = 1;
	say("caught");
	(void)target_read_line(line, sizeof(line));
	room[0] = 2;
}

static void pass_until_caught(void)
{
	caught = 0;
	set_timer(150);
	passing = 1;
	while (!caught) {
		passes++;
		wrong += mix(passes) != passes * 0x9e3779b97f4a7c15 + 0x10001;
	}
	passing = 0;
	scrub(16384);
	printf("free wrong %lu\n", wrong);
	fflush(stdout);
}

static void work(void)
{
	for (;;) {
		pass_until_caught();
		swapcontext(&inside, &outside);
	}
}

static int open_file(const char *memory)
{
	char name[] = "/dev/shm/contexts.XXXXXX";
	int fd;

	if (strcmp(memory, "memfd") == 0)
		return memfd_create("contexts", MFD_CLOEXEC);
	if (strcmp(memory, "file") == 0)
		strcpy(name, "/tmp/contexts.XXXXXX");
	fd = mkstemp(name);
	if (fd >= 0)
		unlink(name);
	return fd;
}

static void *stack_of(const char *memory)
{
	int sharing = strcmp(memory, "mmap") == 0 ? MAP_PRIVATE : MAP_SHARED, fd = -1;
	void *stack;

	if (strcmp(memory, "static") == 0)
		return stack_in_data;
	if (strcmp(memory, "malloc") == 0)
		return malloc(stack_bytes);
	drops = sharing == MAP_SHARED && strcmp(memory, "shared") != 0;
	if (drops && strcmp(memory, "dropped") != 0) {
		fd = open_file(memory);
		if (fd < 0 || ftruncate(fd, (off_t)stack_bytes) != 0)
			exit(4);
	}
	stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE,
		sharing | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
	if (stack == MAP_FAILED)
		exit(4);
	/* Others than root can open a file without a name only where it is open. */
	if (strcmp(memory, "memfd") != 0)
		close(fd);
	return stack;
}

/* On the stack, until it returns by itself or is saved. */
static void go_inside(void)
{
	volatile bool is_back = false;

	if (!copies || !caught) {
		swapcontext(&outside, &inside);
		return;
	}
	getcontext(&outside);
	if (is_back)
		return;
	is_back = true;
	goes_on = 1;
	raise(SIGALRM);
}

static void pass_on(void *stack)
{
	char line[64];

	getcontext(&inside);
	inside.uc_stack = (stack_t){.ss_sp = stack, .ss_size = stack_bytes};
	makecontext(&inside, work, 0);
	do {
		caught = 0;
		go_inside();
		if (!switches && !copies)
			continue;
		if (drops)
			madvise(stack, stack_bytes, MADV_DONTNEED);
		say("caught");
		(void)target_read_line(line, sizeof(line));
		go_inside();
#ifdef __aarch64__
		scrub(16384); /* what go_inside() raised counts until it is overwritten */
#endif
	} while (target_read_line(line, sizeof(line)) && line[0] != 'q');
}

/* A thread that never receives signals. */
static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static int start_idle(void)
{
	sigset_t all, old;
	pthread_t thread;
	int failed;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	failed = pthread_create(&thread, NULL, idle, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return failed;
}

int main(int argc, char **argv)
{
	struct action action = {on_signal, SA_SIGINFO | SA_RESTART | RESTORER, restore_mov, 0};
	char line[64];

	if (argc != 6)
		return 2;
	target_allow_tracing();
	between = find_between();
	in_stub = strcmp(argv[1], "stub") == 0;
	far_away = strcmp(argv[2], "far") == 0;
	switches = strcmp(argv[2], "switch") == 0;
	copies = strcmp(argv[2], "copy") == 0;
	bytes = strtoul(argv[5], NULL, 10);
	if (strcmp(argv[4], "push") == 0)
		action.restorer = restore_push;
	if (strcmp(argv[4], "xor") == 0)
		action.restorer = restore_xor;
	if (strcmp(argv[4], "jump") == 0)
		action.restorer = restore_jump;
	if (syscall(SYS_rt_sigaction, SIGALRM, &action, NULL, sizeof(action.mask)) != 0 ||
		syscall(SYS_rt_sigaction, SIGTRAP, &action, NULL, sizeof(action.mask)) != 0 ||
		start_idle() != 0)
		return 3;
	stack_bytes = far_away ? STACK : bytes;
	copy = malloc(REGISTERS_BYTES + 8);
	copy += bytes % 8;
	target_wait();
	if (strcmp(argv[3], "array") == 0) {
		pass_on(alloca(stack_bytes));
		return 0;
	}
	if (strcmp(argv[3], "thread") != 0) {
		pass_on(stack_of(argv[3]));
		return 0;
	}
	do {
		pass_until_caught();
	} while (target_read_line(line, sizeof(line)) && line[0] != 'q');
	return 0;
}
