/* SPDX-License-Identifier: MIT */
/*
 * Unwinding copies of stacks: this program's own, through a handler and through code without rules,
 * truncated ones, and random bytes.
 */
/* Not under ThreadSanitizer: its own frames are between a handler and what it interrupts. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/session/session.h"

enum { STACK_BYTES = 16384, REGISTERS = 13, GARBAGE_ROUNDS = 20000, DEPTH = 6 };

struct fixture {
	struct naming *naming;
	struct unwinder *unwinder;
	uint64_t registers[REGISTERS];
	uint8_t bytes[STACK_BYTES];
	struct unwinder_thread thread;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || naming_create(getpid(), (struct naming_options){0}, &f->naming) ||
		unwinder_create(arch_host(), f->naming, &f->unwinder))
		return -1;
	assert_true(arch_host()->unwind_count <= REGISTERS);
	f->thread = (struct unwinder_thread){
		.registers = f->registers, .bytes = f->bytes, .length = sizeof(f->bytes)};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	unwinder_free(f->unwinder);
	naming_free(f->naming);
	free(f);
	return 0;
}

/* What a stub would copy here. The frames above stay unchanged until the test has ended. */
static __attribute__((noinline, no_sanitize("address", "undefined"))) void take(struct fixture *f)
{
	ucontext_t here;
	const volatile uint8_t *stack;

	getcontext(&here);
#ifdef __x86_64__
	const greg_t *regs = here.uc_mcontext.gregs;

	f->thread.pc = (uint64_t)regs[REG_RIP];
	f->registers[0] = (uint64_t)regs[REG_RSP];
	f->registers[1] = (uint64_t)regs[REG_RBP];
	f->registers[2] = (uint64_t)regs[REG_RBX];
	f->registers[3] = (uint64_t)regs[REG_R12];
	f->registers[4] = (uint64_t)regs[REG_R13];
	f->registers[5] = (uint64_t)regs[REG_R14];
	f->registers[6] = (uint64_t)regs[REG_R15];
#else
	f->thread.pc = here.uc_mcontext.pc;
	f->registers[0] = here.uc_mcontext.sp;
	for (int i = 1; i < REGISTERS; i++)
		f->registers[i] = here.uc_mcontext.regs[arch_host()->unwind_registers[i].reg];
#endif
	stack = (const volatile uint8_t *)f->registers[0];
	for (size_t i = 0; i < sizeof(f->bytes); i++)
		f->bytes[i] = stack[i];
}

static __attribute__((noinline)) int descend(struct fixture *f, int depth)
{
	int below = 0;

	if (depth == 1)
		take(f);
	else
		below = descend(f, depth - 1);
	__asm__ volatile("" : "+r"(below)); /* no tail call */
	return below + 1;
}

/* Room above, so that the copy does not extend past the end of the stack. */
static __attribute__((noinline)) void fill(struct fixture *f)
{
	volatile uint8_t room[STACK_BYTES];

	room[0] = room[sizeof(room) - 1] = 1;
	assert_int_equal(descend(f, DEPTH), DEPTH);
}

static bool is_named(const struct probe_frame *frame, const char *name)
{
	return frame->symbol && !strncmp(frame->symbol, name, strlen(name));
}

static void own_stack(void **state)
{
	struct fixture *f = *state;
	struct probe_stack stack, again;
	const struct probe_frame *first, *second;

	fill(f);
	assert_null(unwinder_copy(f->unwinder, &f->thread, &stack));
	assert_true(stack.count > DEPTH + 1);
	assert_true(is_named(stack.frames[0], "take"));
	for (int i = 1; i <= DEPTH; i++)
		assert_true(is_named(stack.frames[i], "descend"));
	assert_true(is_named(stack.frames[DEPTH + 1], "fill"));
	/* The room in fill() is as long as the copy; its return address may be below that. */
	assert_in_range(stack.count, DEPTH + 2, DEPTH + 3);
	assert_int_equal(stack.end, PROBE_STACK_TRUNCATED);
	/* The same frames are the same objects. */
	first = stack.frames[0];
	second = stack.frames[2];
	assert_ptr_equal(stack.frames[3], second);
	assert_null(unwinder_copy(f->unwinder, &f->thread, &again));
	assert_ptr_equal(again.frames[0], first);
	assert_ptr_equal(again.frames[2], second);
}

/* ---- Code without rules --------------------------------------------------------------- */

typedef void caller(void (*function)(struct fixture *), struct fixture *f);

/* Generated code that calls a function, with a frame of its own. */
static caller *generate(void)
{
#ifdef __x86_64__
	static const uint8_t code[] = {
		0x55,			/* push %rbp */
		0x48, 0x89, 0xe5,	/* mov %rsp, %rbp */
		0x48, 0x83, 0xec, 0x20, /* sub $32, %rsp */
		0x48, 0x89, 0xf8,	/* mov %rdi, %rax */
		0x48, 0x89, 0xf7,	/* mov %rsi, %rdi */
		0xff, 0xd0,		/* call *%rax */
		0xc9, 0xc3,		/* leave; ret */
	};
#else
	static const uint32_t code[] = {
		0xa9bd7bfd, /* stp x29, x30, [sp, #-48]! */
		0x910003fd, /* mov x29, sp */
		0xaa0003e8, /* mov x8, x0 */
		0xaa0103e0, /* mov x0, x1 */
		0xd63f0100, /* blr x8 */
		0xa8c37bfd, /* ldp x29, x30, [sp], #48 */
		0xd65f03c0, /* ret */
	};
#endif
	uint8_t *memory = mmap(
		NULL, sizeof(code), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	memcpy(memory, code, sizeof(code));
	assert_int_equal(mprotect(memory, sizeof(code), PROT_READ | PROT_EXEC), 0);
	__builtin___clear_cache((char *)memory, (char *)memory + sizeof(code));
	return (caller *)(uintptr_t)memory;
}

/* Its frame has no fixed size, and what is above it has to be found again. */
static __attribute__((noinline)) int around(caller *generated, struct fixture *f)
{
	volatile uint8_t room[100] = {1};

	generated(take, f);
	return room[0];
}

static __attribute__((noinline)) int above(caller *generated, struct fixture *f)
{
	volatile uint8_t room[STACK_BYTES] = {1};

	return around(generated, f) + room[0];
}

static void no_rules(void **state)
{
	struct fixture *f = *state;
	struct probe_stack stack;

	assert_int_equal(above(generate(), f), 2);
	assert_null(unwinder_copy(f->unwinder, &f->thread, &stack));
	assert_true(stack.count >= 4);
	assert_true(is_named(stack.frames[0], "take"));
	assert_null(stack.frames[1]->symbol);
	assert_true(is_named(stack.frames[2], "around"));
	assert_true(is_named(stack.frames[3], "above"));
}

/* ---- A handler ------------------------------------------------------------------------ */

static struct fixture *of_handler;

static __attribute__((noinline)) void on_signal(int number)
{
	(void)number;
	take(of_handler);
	__asm__ volatile("");
}

static __attribute__((noinline)) int signalled(void)
{
	volatile uint8_t room[STACK_BYTES] = {1};

	kill(getpid(), SIGUSR1);
	return room[0];
}

static void a_signal(void **state)
{
	struct fixture *f = *state;
	struct probe_stack stack;

	of_handler = f;
	signal(SIGUSR1, on_signal);
	assert_int_equal(signalled(), 1);
	signal(SIGUSR1, SIG_DFL);
	assert_null(unwinder_copy(f->unwinder, &f->thread, &stack));
	assert_true(stack.count >= 5);
	assert_true(is_named(stack.frames[0], "take"));
	assert_true(is_named(stack.frames[1], "on_signal"));
	/* The code that handlers return to, and kill(). */
	assert_non_null(stack.frames[2]->module);
	assert_true(is_named(stack.frames[4], "signalled"));
	assert_int_equal(stack.end, PROBE_STACK_TRUNCATED);
}

/* ---- Copies that are cut, and no copies ------------------------------------------------- */

/* However short the copy is, the frames in it are found, and it is reported as truncated. */
static void cut_stacks(void **state)
{
	struct fixture *f = *state;
	struct probe_stack stack;
	size_t last = 1;

	fill(f);
	for (size_t length = 0; length <= sizeof(f->bytes); length += 8) {
		f->thread.length = length;
		assert_null(unwinder_copy(f->unwinder, &f->thread, &stack));
		assert_int_equal(stack.end, PROBE_STACK_TRUNCATED);
		assert_true(stack.count >= last && stack.count <= DEPTH + 3);
		assert_true(is_named(stack.frames[0], "take"));
		for (size_t i = 1; i < stack.count && i <= DEPTH; i++)
			assert_true(is_named(stack.frames[i], "descend"));
		last = stack.count;
	}
	assert_in_range(last, DEPTH + 2, DEPTH + 3);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Garbage that leads on: addresses in the stack, addresses of code, small numbers. */
static uint64_t plausible(const struct fixture *f, uint64_t *seed)
{
	uint64_t random = next_random(seed);

	switch (random % 5) {
	case 0:
		return f->registers[0] + random / 8 % (2 * STACK_BYTES);
	case 1:
		return (uint64_t)(uintptr_t)take + random / 8 % 4096;
	case 2:
		return (uint64_t)(uintptr_t)strlen + random / 8 % 65536;
	case 3:
		return random / 8 % 64;
	default:
		return random;
	}
}

static void garbage(void **state)
{
	struct fixture *f = *state;
	uint64_t seed = 0x5eed;

	for (int round = 0; round < GARBAGE_ROUNDS; round++) {
		struct probe_stack stack;

		f->thread.length = next_random(&seed) % (sizeof(f->bytes) + 1);
		f->registers[0] = next_random(&seed) % 4 ? (uint64_t)(uintptr_t)f->bytes
							 : plausible(f, &seed);
		f->thread.pc = plausible(f, &seed);
		for (int i = 1; i < REGISTERS; i++)
			f->registers[i] = plausible(f, &seed);
		for (size_t i = 0; i + 8 <= sizeof(f->bytes); i += 8) {
			uint64_t word = plausible(f, &seed);

			memcpy(f->bytes + i, &word, sizeof(word));
		}
		assert_null(unwinder_copy(f->unwinder, &f->thread, &stack));
		assert_in_range(stack.count, 1, PROBE_FRAMES_MAX);
		assert_null(unwinder_frames(f->unwinder, f->thread.pc, f->registers[1], f->bytes,
			f->thread.length / 8, &stack));
		assert_in_range(stack.count, 1, PROBE_FRAMES_MAX);
	}
}

/* Frame pointers that point to each other, in code without rules. */
static void no_endless_loop(void **state)
{
	struct fixture *f = *state;
	struct probe_stack stack;
	uint64_t base, words[4];

	memset(f->bytes, 0, sizeof(f->bytes));
	f->registers[0] = base = UINT64_C(0x7ffc00000000);
	f->registers[1] = base + 16;
	f->thread.pc = 0x10;  /* no module */
	words[0] = base + 16; /* at base + 16: itself */
	words[1] = (uint64_t)(uintptr_t)take;
	memcpy(f->bytes + 16, words, 16);
	assert_null(unwinder_copy(f->unwinder, &f->thread, &stack));
	assert_in_range(stack.count, 1, 3);
	assert_int_not_equal(stack.end, PROBE_STACK_WHOLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(own_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(no_rules, setup, teardown),
		cmocka_unit_test_setup_teardown(a_signal, setup, teardown),
		cmocka_unit_test_setup_teardown(cut_stacks, setup, teardown),
		cmocka_unit_test_setup_teardown(garbage, setup, teardown),
		cmocka_unit_test_setup_teardown(no_endless_loop, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
