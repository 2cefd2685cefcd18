/* SPDX-License-Identifier: MIT */
/*
 * Moved code must have the same effect as the original: here both run, on aarch64 or in an emulator
 * of it (make check-aarch64).
 *
 *	block	4 MiB of brk, each with a number of its own: all that is led to, or read as a
 * literal, is here. In the middle of it is one instruction that was chosen at random.
 *	copy	of that instruction, near the middle or as far away as a jump leads
 *	data	which registers point to, and a stack
 *
 * Nothing is called: a signal handler replaces the thread's whole state by one that was made at
 * random. The instruction runs, and whatever comes next raises a signal: the brk where it leads,
 * or its own fault. Then the handler keeps the state that it finds, and puts the test back. All
 * registers, the flags, the vector registers, the data and the stack have to be the same for the
 * original and for its copy.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmocka.h>

#include "arch/aarch64/encoding.h"
#include "arch/arch.h"
#include "tests/unit/skip.h"

#if defined(__aarch64__)

#include <asm/sigcontext.h>

enum {
	BLOCK_BYTES = 4 << 20,
	MIDDLE = BLOCK_BYTES / 2,
	NEAR = 512 << 10, /* from the middle, in the block */
	DATA_BYTES = 64 << 10,
	COPY_PAGE = 65536,
	RUNS = 500,
	PLAIN_RUNS = 20000,
	X30 = 30,
	WORDS = 34 /* x0 to x30, sp, pc, flags */
};
#define BRK UINT32_C(0xd4200000)
#define FLAGS UINT64_C(0xf0000000)

struct cpu {
	uint64_t words[WORDS];
	__uint128_t vectors[32];
	uint32_t fpsr;
	int signal;
};
enum { SP = 31, PC, FLAG_WORD };

struct block {
	uint32_t *code; /* the block */
	uint8_t *data, *stack;
	uint32_t *copies[3]; /* where a copy may be */
};

/* What the handler is told, and tells. */
static struct {
	struct cpu start, end;
	mcontext_t test;
	bool is_running;
} run;

static uint64_t random_state = 20261126;

static uint64_t draw(uint64_t limit)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (random_state >> 11) % limit;
}

/* The kernel's first record. */
static struct fpsimd_context *vectors_of(mcontext_t *context)
{
	return (struct fpsimd_context *)context->__reserved;
}

static void exchange(mcontext_t *context, const struct cpu *from, struct cpu *to)
{
	struct fpsimd_context *vectors = vectors_of(context);

	if (to) {
		memcpy(to->words, context->regs, sizeof(context->regs));
		to->words[SP] = context->sp;
		to->words[PC] = context->pc;
		to->words[FLAG_WORD] = context->pstate & FLAGS;
		memcpy(to->vectors, vectors->vregs, sizeof(to->vectors));
		to->fpsr = vectors->fpsr;
	}
	if (from) {
		memcpy(context->regs, from->words, sizeof(context->regs));
		context->sp = from->words[SP];
		context->pc = from->words[PC];
		context->pstate = (context->pstate & ~FLAGS) | from->words[FLAG_WORD];
		memcpy(vectors->vregs, from->vectors, sizeof(from->vectors));
		vectors->fpsr = from->fpsr;
		/* No other record: SVE's has the vector registers as well. */
		memset((char *)vectors + vectors->head.size, 0, sizeof(vectors->head));
	}
}

static void handle(int signal, siginfo_t *info, void *data)
{
	mcontext_t *context = &((ucontext_t *)data)->uc_mcontext;

	(void)info;
	if (!run.is_running) {
		run.test = *context;
		run.test.pc += AARCH64_INSN_LENGTH;
		exchange(context, &run.start, NULL);
	} else {
		exchange(context, NULL, &run.end);
		run.end.signal = signal;
		*context = run.test;
	}
	run.is_running = !run.is_running;
}

/* Runs from run.start until the next signal. */
static void run_code(uint64_t pc)
{
	run.start.words[PC] = pc;
	__asm__ volatile("brk #0" ::: "memory");
}

/* In each test: cmocka has handlers of its own around it. */
static void catch_signals(void)
{
	static const int signals[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
	static char room[64 << 10];
	const stack_t stack = {.ss_sp = room, .ss_size = sizeof(room)};
	struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	sigfillset(&action.sa_mask);
	assert_int_equal(sigaltstack(&stack, NULL), 0);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		assert_int_equal(sigaction(signals[i], &action, NULL), 0);
}

static void *map(void *where, size_t size, int protection)
{
	int fixed = where ? MAP_FIXED_NOREPLACE : 0;
	void *memory = mmap(where, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

/* A block, and copies 100 MiB below and above it: memory between is reserved, so that both are
 * free. */
static void make_block(struct block *ret)
{
	const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
	const size_t far = 100 << 20;
	uint8_t *area = map(NULL, 2 * far + BLOCK_BYTES, PROT_NONE);

	munmap(area, 2 * far + BLOCK_BYTES);
	ret->code = map(area + far, BLOCK_BYTES, all);
	for (uint32_t i = 0; i < BLOCK_BYTES / sizeof(uint32_t); i++)
		ret->code[i] = BRK | (i & 0xffff) << 5;
	ret->copies[0] = ret->code + (MIDDLE + NEAR) / sizeof(uint32_t);
	ret->copies[1] = map(area, COPY_PAGE, all);
	ret->copies[2] = map(area + 2 * far + BLOCK_BYTES - COPY_PAGE, COPY_PAGE, all);
	ret->data = map(NULL, DATA_BYTES, PROT_READ | PROT_WRITE);
	ret->stack = map(NULL, DATA_BYTES, PROT_READ | PROT_WRITE);
}

/*
 * Returns true if an instruction does not depend on its address: the next instruction follows, and
 * a copy far away is the same.
 */
static bool is_plain(uint32_t insn)
{
	const uint64_t from = UINT64_C(0x400000), far = UINT64_C(0x5000000);
	struct arch_moved moved;
	struct arch_insn decoded;
	uint8_t bytes[AARCH64_INSN_LENGTH];

	aarch64_store(bytes, insn);
	return arch_aarch64.decode(bytes, sizeof(bytes), from, &decoded) &&
	       decoded.flow == ARCH_FLOW_NONE &&
	       arch_aarch64.move(bytes, sizeof(bytes), from, far, sizeof(bytes), &moved) ==
		       ARCH_MOVE_OK &&
	       moved.code_length == sizeof(bytes) && aarch64_load(moved.code) == insn;
}

static void make_start(const struct block *block, struct cpu *ret)
{
	*ret = (struct cpu){0};
	for (int i = 0; i <= X30; i++) {
		uint64_t value = draw(UINT64_MAX);

		switch (draw(4)) {
		case 0: /* an instruction of the block, but not where it might be overwritten */
			if (is_plain(block->code[MIDDLE / 4]))
				break;
			value = (uint64_t)(block->code + draw(BLOCK_BYTES / 4));
			break;
		case 1: /* data */
			value = (uint64_t)block->data + DATA_BYTES / 2 + 8 * draw(64);
			break;
		case 2: /* a small number */
			value = draw(3) << draw(64);
			break;
		}
		ret->words[i] = value;
	}
	ret->words[SP] = (uint64_t)block->stack + DATA_BYTES / 2;
	ret->words[FLAG_WORD] = draw(16) << 28;
	for (int i = 0; i < 32; i++)
		ret->vectors[i] = (__uint128_t)draw(UINT64_MAX) << 64 | draw(UINT64_MAX);
}

/* Runs code, and keeps what it leaves behind. What is below the stack pointer is nobody's. */
static void observe(const struct block *block, const void *pc, struct cpu *ret, uint8_t *memory)
{
	memset(block->data, 0x5a, DATA_BYTES);
	memset(block->stack, 0xa5, DATA_BYTES);
	run_code((uint64_t)pc);
	*ret = run.end;
	memcpy(memory, block->data, DATA_BYTES);
	memcpy(memory + DATA_BYTES, block->stack + DATA_BYTES / 2, DATA_BYTES / 2);
}

/* What differs; NULL: nothing. */
static const char *difference(const struct cpu *a, const struct cpu *b)
{
	if (a->signal != b->signal)
		return "the signal";
	if (memcmp(a->words, b->words, PC * sizeof(uint64_t)))
		return "a register";
	if (a->words[PC] != b->words[PC])
		return "where it leads";
	if (a->words[FLAG_WORD] != b->words[FLAG_WORD])
		return "the flags";
	return memcmp(a->vectors, b->vectors, sizeof(a->vectors)) || a->fpsr != b->fpsr
		       ? "a vector register"
		       : NULL;
}

/* Writes the copy, and what leads back behind the original; false: it cannot be moved. */
static bool write_copy(const struct block *block, uint32_t *copy, struct arch_moved *moved)
{
	const uint32_t *site = block->code + MIDDLE / 4;
	uint64_t back = (uint64_t)(site + 1), end;

	if (arch_aarch64.move((const uint8_t *)site, AARCH64_INSN_LENGTH, (uint64_t)site,
		    (uint64_t)copy, AARCH64_INSN_LENGTH, moved) != ARCH_MOVE_OK)
		return false;
	end = (uint64_t)copy + moved->code_length;
	memcpy(copy, moved->code, moved->code_length);
	if (moved->falls_through)
		assert_int_equal(arch_aarch64.jump(end, back, (uint8_t *)end), 4);
	else
		*(uint32_t *)end = BRK;
	__builtin___clear_cache((char *)copy, (char *)end + 4);
	return true;
}

/* The instruction in the middle and its copy, from one random state; false: it cannot be moved. */
static bool compare(const struct block *block, uint32_t *copy)
{
	static uint8_t memory[2][2 * DATA_BYTES];
	uint32_t *site = block->code + MIDDLE / 4, kept[8];
	struct cpu original, moved_end;
	struct arch_moved moved;
	const char *differs;

	memcpy(kept, copy, sizeof(kept));
	__builtin___clear_cache((char *)site, (char *)(site + 1));
	/* The original first: a copy in the block would be found there. */
	make_start(block, &run.start);
	observe(block, site, &original, memory[0]);
	if (!write_copy(block, copy, &moved))
		return false;
	observe(block, copy, &moved_end, memory[1]);
	memcpy(copy, kept, sizeof(kept));
	/* A fault of the instruction itself. */
	if (moved_end.words[PC] == (uint64_t)copy)
		moved_end.words[PC] = (uint64_t)site;
	differs = difference(&original, &moved_end);
	if (!differs && memcmp(memory[0], memory[1], sizeof(memory[0])))
		differs = "memory";
	if (differs)
		fail_msg("%08x at %p, copied to %p: %s differs (signals %d, %d; to %#lx, %#lx)",
			*site, (void *)site, (void *)copy, differs, original.signal,
			moved_end.signal, (long)original.words[PC], (long)moved_end.words[PC]);
	return true;
}

static struct block block;

static int set_up(void **state)
{
	(void)state;
	make_block(&block);
	return 0;
}

/* Kinds that know their address: the rest of the word is drawn. */
static const struct form {
	const char *name;
	uint32_t mask, bits;
	bool is_long; /* the distance has 26 bits, and must stay in the block */
} forms[] = {
	{"adr", 0x9f000000, 0x10000000, false},
	{"adrp", 0x9f000000, 0x90000000, false},
	{"ldr w", 0xff000000, 0x18000000, false},
	{"ldr x", 0xff000000, 0x58000000, false},
	{"ldrsw", 0xff000000, 0x98000000, false},
	{"prfm", 0xff000000, 0xd8000000, false},
	{"ldr s", 0xff000000, 0x1c000000, false},
	{"ldr d", 0xff000000, 0x5c000000, false},
	{"ldr q", 0xff000000, 0x9c000000, false},
	{"b", 0xfc000000, 0x14000000, true},
	{"bl", 0xfc000000, 0x94000000, true},
	{"b.cond", 0xff000010, 0x54000000, false},
	{"cbz", 0x7e000000, 0x34000000, false},
	{"tbz", 0x7e000000, 0x36000000, false},
	{"br", 0xfffffc1f, 0xd61f0000, false},
	{"braaz", 0xfffff81f, 0xd61f081f, false},
	{"braa", 0xfffff800, 0xd71f0800, false},
	{"blr", 0xfffffc1f, 0xd63f0000, false},
	{"blraaz", 0xfffff81f, 0xd63f081f, false},
	{"blraa", 0xfffff800, 0xd73f0800, false},
	{"ret", 0xfffffc1f, 0xd65f0000, false},
};
enum { FORMS = sizeof(forms) / sizeof(*forms) };

static void what_knows_its_address(void **state)
{
	(void)state;
	catch_signals();
	for (int i = 0; i < FORMS; i++) {
		int moved = 0;

		for (int k = 0; k < RUNS; k++) {
			uint32_t insn = (uint32_t)draw(UINT64_C(1) << 32);

			insn = (insn & ~forms[i].mask) | forms[i].bits;
			if (forms[i].is_long)
				aarch64_set_distance(
					&insn, 0, 26, (int64_t)draw(BLOCK_BYTES / 4) * 4 - MIDDLE);
			block.code[MIDDLE / 4] = insn;
			moved += compare(&block, block.copies[k % 3]);
		}
		if (moved < RUNS * 8 / 10)
			fail_msg("%s: only %d of %d could be moved", forms[i].name, moved, RUNS);
	}
}

/* What another execution may find changed, whoever executes it; nor are SVE's registers set here.
 */
static bool is_steady(uint32_t insn)
{
	return (insn & 0xff000000) != 0xd5000000 && /* mrs, msr, dc ... */
	       (insn & 0x1e000000) != 0x04000000 && /* SVE */
	       (insn & 0xffe0fc00) != 0x9ac01000;   /* irg */
}

static void everything_else(void **state)
{
	int moved = 0;

	(void)state;
	catch_signals();
	for (int k = 0; k < PLAIN_RUNS; k++) {
		uint32_t insn = (uint32_t)draw(UINT64_C(1) << 32);

		if (!is_plain(insn) || !is_steady(insn))
			continue;
		block.code[MIDDLE / 4] = insn;
		assert_true(compare(&block, block.copies[k % 3]));
		moved++;
	}
	assert_true(moved > PLAIN_RUNS / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_knows_its_address),
		cmocka_unit_test(everything_else),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}

#else

int main(void)
{
	return skip_all("needs aarch64 (make check-aarch64)");
}

#endif
