/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/stub/plan.h"
#include "tests/unit/form/form_machine.h"

static int new_label(struct form *f)
{
	struct form_machine *m = (struct form_machine *)f;

	assert_true(m->labels < MACHINE_LABELS);
	m->places[m->labels] = SIZE_MAX;
	return m->labels++;
}

static void put(struct form *f, const struct form_insn *insn)
{
	struct form_machine *m = (struct form_machine *)f;

	assert_true(m->count < MACHINE_INSNS);
	if (insn->op == FORM_PLACE || insn->op == FORM_MARK) {
		assert_int_equal(m->places[insn->label], SIZE_MAX);
		m->places[insn->label] = m->count;
		m->data_places[insn->label] = m->data_bytes;
	}
	if (insn->op == FORM_WORD) {
		assert_true(m->data_bytes + insn->bytes <= sizeof(m->data));
		memcpy(m->data + m->data_bytes, &insn->value, insn->bytes);
		m->data_bytes += insn->bytes;
	}
	m->insns[m->count++] = *insn;
}

void form_machine_init(struct form_machine *m)
{
	m->form = (struct form){put, new_label};
	m->count = 0;
	m->labels = 0;
	m->data_bytes = 0;
}

/* ---- One instruction ------------------------------------------------------------------ */

static uint64_t extended(uint64_t value, unsigned int bytes, bool is_signed)
{
	unsigned int shift = 64 - 8 * bytes;

	value <<= shift;
	return is_signed ? (uint64_t)((int64_t)value >> shift) : value >> shift;
}

static uint64_t typed(uint64_t value, const struct form_insn *i, bool is_signed)
{
	return i->wide ? value : extended(value, sizeof(uint32_t), is_signed);
}

static uint8_t *address_of(const uint64_t *v, const struct form_world *world, struct form_mem m)
{
	uint64_t base;

	switch (m.base) {
	case FORM_FRAME:
	case FORM_CALLER:
		base = (uintptr_t)world->memory;
		break;
	case FORM_THREAD:
		base = (uintptr_t)__builtin_thread_pointer();
		break;
	case FORM_NONE:
		base = 0;
		break;
	default:
		base = v[m.base];
	}
	if (m.index != FORM_NONE)
		base += v[m.index] * m.scale;
	return (uint8_t *)(uintptr_t)(base + (uint64_t)(int64_t)m.disp);
}

static uint64_t word_at(const uint8_t *at, unsigned int bytes)
{
	uint64_t word = 0;

	memcpy(&word, at, bytes);
	return word;
}

/* Those that change memory: COUNT and others add, EXCHANGE swaps, FETCH_ADD does both. */
static void change(uint64_t *v, const struct form_insn *i, uint8_t *at)
{
	uint64_t before = word_at(at, i->bytes), operand = i->is_constant ? i->value : v[i->a];
	uint64_t after = i->op == FORM_EXCHANGE ? operand : before + operand;

	memcpy(at, &after, i->bytes);
	if (i->op == FORM_EXCHANGE || i->op == FORM_FETCH_ADD)
		v[i->a] = before;
}

/* CAS; whether it jumps. */
static bool compare_and_swap(uint64_t *v, const struct form_insn *i, uint8_t *at)
{
	uint64_t before = word_at(at, i->bytes);
	bool same = before == v[FORM_VALUE];

	if (same)
		memcpy(at, &v[i->a], i->bytes);
	v[FORM_VALUE] = before;
	return same == (i->when == FORM_EQ);
}

/* What the kernel itself answers. */
static uint64_t ask_kernel(const uint64_t *v, const struct form_insn *i)
{
	static const long calls[FORM_CALLS] = {
		[FORM_CALL_CLOCK_GETTIME] = SYS_clock_gettime,
		[FORM_CALL_FUTEX] = SYS_futex,
		[FORM_CALL_GETCPU] = SYS_getcpu,
		[FORM_CALL_GETPID] = SYS_getpid,
		[FORM_CALL_GETTID] = SYS_gettid,
		[FORM_CALL_MINCORE] = SYS_mincore,
		[FORM_CALL_PRCTL] = SYS_prctl,
		[FORM_CALL_SIGPROCMASK] = SYS_rt_sigprocmask,
	};
	long answer = syscall(calls[i->value], v[FORM_SET], v[FORM_FROM], v[FORM_SCRATCH],
		v[FORM_SPARE], v[FORM_POINTER], v[FORM_NEXT]);

	return (uint64_t)(answer < 0 ? -errno : answer);
}

static uint64_t original(const struct form_world *world, int number)
{
	if (number == world->live)
		return world->live_value;
	if (number == world->stack)
		return (uintptr_t)world->memory + (uint64_t)world->frame->size;
	return word_at(world->memory + world->frame->saved[number], sizeof(uint64_t));
}

static uint64_t right_of(
	const uint64_t *v, const struct form_insn *i, const struct form_world *world)
{
	if (i->is_constant)
		return i->value;
	return i->is_memory ? word_at(address_of(v, world, i->mem), i->bytes) : v[i->b];
}

static bool holds(const uint64_t *v, const struct form_insn *i, const struct form_world *world)
{
	uint64_t left = i->is_memory && i->is_constant
				? word_at(address_of(v, world, i->mem), i->bytes)
				: v[i->a];
	uint64_t a = typed(left, i, false), b = typed(right_of(v, i, world), i, false);
	int64_t sa = (int64_t)typed(a, i, true), sb = (int64_t)typed(b, i, true);
	bool results[] = {[FORM_EQ] = a == b,
		[FORM_NE] = a != b,
		[FORM_LT] = sa<sb, [FORM_GE] = sa >= sb, [FORM_GT] = sa> sb,
		[FORM_LE] = sa <= sb,
		[FORM_BELOW] = a<b, [FORM_NOT_BELOW] = a >= b, [FORM_ABOVE] = a> b,
		[FORM_NOT_ABOVE] = a <= b};

	return results[i->when];
}

static uint64_t divided(const struct form_insn *i, uint64_t a, uint64_t b)
{
	int64_t sa = (int64_t)typed(a, i, true), sb = (int64_t)typed(b, i, true);
	bool remainder = i->op == FORM_MOD;

	assert_int_not_equal(typed(b, i, false), 0);
	if (!i->is_signed) {
		a = typed(a, i, false);
		b = typed(b, i, false);
		return remainder ? a % b : a / b;
	}
	if (sb == -1)
		return remainder ? 0 : -(uint64_t)sa;
	return (uint64_t)(remainder ? sa % sb : sa / sb);
}

static uint64_t result(const uint64_t *v, const struct form_insn *i, const struct form_world *world)
{
	uint64_t a = v[i->a], b = right_of(v, i, world);
	unsigned int count = (unsigned int)b & (i->wide ? 63 : 31);

	switch (i->op) {
	case FORM_NEGATE:
		return -a;
	case FORM_COMPLEMENT:
		return ~a;
	case FORM_ADD:
		return a + b;
	case FORM_SUB:
		return a - b;
	case FORM_AND:
		return a & b;
	case FORM_OR:
		return a | b;
	case FORM_XOR:
		return a ^ b;
	case FORM_MUL:
		return a * b;
	case FORM_DIV:
	case FORM_MOD:
		return divided(i, a, b);
	case FORM_SHL:
		return a << count;
	case FORM_SHR:
		return i->is_signed ? (uint64_t)((int64_t)typed(a, i, true) >> count)
				    : typed(a, i, false) >> count;
	default:
		fail_msg("no instruction: %d", i->op);
		return 0;
	}
}

static double double_of(uint64_t bits)
{
	double number;

	memcpy(&number, &bits, sizeof(number));
	return number;
}

static uint64_t double_bits(double number)
{
	uint64_t bits;

	memcpy(&bits, &number, sizeof(bits));
	return bits;
}

/* As the processor that runs the tests has addresses. */
static uint64_t untagged(uint64_t address)
{
#if defined(__aarch64__)
	address &= UINT64_MAX >> 8;
#endif
	return address;
}

static uint64_t unsigned_return(uint64_t address)
{
#if defined(__aarch64__)
	register uint64_t link __asm__("x30") = address;

	__asm__("hint #7" : "+r"(link)); /* xpaclri */
	address = link;
#endif
	return address;
}

/* What goes straight on. */
static void step(uint64_t *v, const struct form_insn *i, const struct form_world *world)
{
	switch (i->op) {
	case FORM_CONST:
	case FORM_ADDRESS:
		v[i->a] = i->value;
		break;
	case FORM_MOVE:
		v[i->a] = extended(v[i->b], i->bytes, i->is_signed);
		break;
	case FORM_ORIGINAL:
		v[i->a] = extended(original(world, i->b) >> i->shift, i->bytes, i->is_signed);
		break;
	case FORM_STORE_ORIGINAL:
		v[FORM_VALUE] = original(world, i->b) >> i->shift;
		memcpy(address_of(v, world, i->mem), &v[FORM_VALUE], i->bytes);
		break;
	case FORM_VECTOR:
		v[i->a] = extended(world->vector_value, i->bytes, false);
		break;
	case FORM_CPU:
		v[i->a] = world->cpu;
		break;
	case FORM_LOAD:
	case FORM_ACQUIRE:
		v[i->a] = extended(
			word_at(address_of(v, world, i->mem), i->bytes), i->bytes, i->is_signed);
		break;
	case FORM_PUBLISH_ADD:
	case FORM_PUBLISH_ADD_WHOLE:
	case FORM_COUNT:
	case FORM_COUNT_SHARED:
	case FORM_EXCHANGE:
	case FORM_FETCH_ADD:
		change(v, i, address_of(v, world, i->mem));
		break;
	case FORM_KERNEL:
		v[FORM_VALUE] = ask_kernel(v, i);
		break;
	case FORM_STORE:
	case FORM_STORE_HALVES:
	case FORM_PUBLISH:
		memcpy(address_of(v, world, i->mem), i->is_constant ? &i->value : &v[i->a],
			i->bytes);
		break;
	case FORM_ADD_DOUBLE:
		v[FORM_RIGHT] = double_bits(double_of(v[FORM_RIGHT]) +
					    double_of(word_at(address_of(v, world, i->mem), 8)));
		break;
	case FORM_KEEP_VECTOR:
	case FORM_RESTORE_VECTOR:
	case FORM_FENCE:
	case FORM_YIELD:
		break;
	case FORM_COMPUTE:
		v[i->a] = (uintptr_t)address_of(v, world, i->mem);
		break;
	case FORM_MULTIPLY:
		v[i->a] = v[i->b] * i->value;
		break;
	case FORM_MUL_HIGH:
		v[FORM_VALUE] =
			(uint64_t)((unsigned __int128)v[FORM_VALUE] * v[FORM_RIGHT] >> i->shift);
		break;
	case FORM_UNTAG:
		v[i->a] = untagged(v[i->a]);
		break;
	case FORM_UNSIGN:
		v[i->a] = unsigned_return(v[i->a]);
		break;
	case FORM_STORE_VECTOR: /* the upper half is 0 */
		memcpy(address_of(v, world, i->mem), (uint64_t[2]){world->vector_value},
			2 * sizeof(uint64_t));
		break;
	case FORM_FLIP:
		v[i->a] ^= UINT64_C(1) << i->shift;
		break;
	case FORM_HIGHEST:
		assert_int_not_equal(v[i->b], 0);
		v[i->a] = 63 - (uint64_t)__builtin_clzll(v[i->b]);
		break;
	case FORM_LOWEST:
		assert_int_not_equal(v[i->b], 0);
		v[i->a] = (uint64_t)__builtin_ctzll(v[i->b]);
		break;
	default:
		v[i->a] = typed(result(v, i, world), i, false);
		break;
	}
}

/*
 * Changes what an instruction may change besides its result, so that whoever still needs it fails,
 * whatever the processor of the test does.
 */
static void spoil(uint64_t *v, const struct form_insn *i)
{
	static const uint64_t any = UINT64_C(0x5a17c0dedeadbeef);

	switch (i->op) {
	case FORM_JUMP_IF_WORD:
	case FORM_STORE_HALVES:
		v[i->a] = any;
		break;
	case FORM_STORE_ORIGINAL:
		v[FORM_VALUE] = any;
		break;
	case FORM_JUMP_UNLESS_BYTES:
		v[FORM_RIGHT] = any;
		break;
	case FORM_KERNEL:
		v[FORM_RIGHT] = v[FORM_SPARE_2] = any;
		break;
	case FORM_CALL_NEST:
	case FORM_ASK:
		v[FORM_SPARE_2] = any;
		break;
	case FORM_DIV:
	case FORM_MOD:
		v[FORM_RIGHT] = v[FORM_SCRATCH] = any;
		break;
	case FORM_MUL_HIGH:
		v[FORM_SCRATCH] = any;
		break;
	case FORM_ADD_DOUBLE:
		v[FORM_SCRATCH] = v[FORM_POINTER] = v[FORM_NEXT] = v[FORM_FROM] = any;
		v[FORM_SPARE] = v[FORM_SPARE_2] = any;
		break;
	default:
		break;
	}
}

/* Runs an instruction that is none of a subroutine's; whether it jumps. */
static bool run_one(uint64_t *v, const struct form_insn *i, const struct form_world *world)
{
	bool jumps;

	switch (i->op) {
	case FORM_PLACE:
	case FORM_MARK:
	case FORM_NEST:
		return false;
	case FORM_JUMP:
		return true;
	case FORM_JUMP_IF:
		return holds(v, i, world);
	case FORM_SUB_JUMP_IF:
		jumps = holds(v, i, world);
		v[i->a] = typed(v[i->a] - right_of(v, i, world), i, false);
		return jumps;
	case FORM_JUMP_IF_BITS:
		return !(word_at(address_of(v, world, i->mem), i->bytes) & i->value) ==
		       (i->when == FORM_EQ);
	case FORM_JUMP_UNLESS_BYTES:
		return word_at(address_of(v, world, i->mem), i->bytes) != i->value;
	case FORM_JUMP_IF_WORD:
		return (*(const uint32_t *)(uintptr_t)i->value == 0) == (i->when == FORM_EQ);
	case FORM_CAS:
		return compare_and_swap(v, i, address_of(v, world, i->mem));
	default:
		step(v, i, world);
		return false;
	}
}

/* ---- Subroutines ------------------------------------------------------------------------ */

enum { STACK_MAX = 8 };

struct run {
	uint64_t v[FORM_REGISTERS];
	const struct form_machine *machine;
	const struct form_world *world;
	size_t at;		   /* the instruction */
	uint64_t stack[STACK_MAX]; /* of PUSH */
	size_t calls[2];	   /* the subroutine's, and the one's that it calls */
	int no[2];		   /* where each goes if the answer is no */
	int pushed, called;
};

static void go_to(struct run *r, int label)
{
	assert_true(r->machine->places[label] < r->machine->count);
	r->at = r->machine->places[label];
}

static void call(struct run *r, const struct form_insn *i)
{
	assert_true(r->called < 2);
	r->no[r->called] = i->op == FORM_ASK ? i->no : FORM_NONE;
	r->calls[r->called++] = r->at;
	go_to(r, i->label);
	assert_int_equal(r->machine->insns[r->at + 1].op == FORM_NEST, i->op == FORM_CALL_NEST);
	spoil(r->v, i);
}

static void back(struct run *r, bool answers, bool answer)
{
	assert_true(r->called > 0);
	r->at = r->calls[--r->called];
	assert_int_equal(r->no[r->called] != FORM_NONE, answers);
	spoil(r->v, &r->machine->insns[r->at]);
	if (answers && !answer)
		go_to(r, r->no[r->called]);
}

static void run_one_of_all(struct run *r, const struct form_insn *i)
{
	switch (i->op) {
	case FORM_CALL:
	case FORM_CALL_NEST:
	case FORM_ASK:
		call(r, i);
		break;
	case FORM_RETURN:
	case FORM_RETURN_NESTED:
		back(r, false, false);
		break;
	case FORM_YES:
	case FORM_NO:
		back(r, true, i->op == FORM_YES);
		break;
	case FORM_YES_IF:
		if (holds(r->v, i, r->world))
			back(r, true, true);
		break;
	case FORM_LABEL:
		r->v[i->a] = (uintptr_t)(r->machine->data + r->machine->data_places[i->label]);
		break;
	case FORM_PUSH:
		assert_true(r->pushed < STACK_MAX);
		r->stack[r->pushed++] = r->v[i->a];
		break;
	case FORM_POP:
		assert_true(r->pushed > 0);
		r->v[i->a] = r->stack[--r->pushed];
		break;
	default:
		if (run_one(r->v, i, r->world))
			go_to(r, i->label);
		spoil(r->v, i);
		break;
	}
}

void form_machine_run(const struct form_machine *m, const struct form_world *world)
{
	struct run r = {.machine = m, .world = world};

	for (; r.at < m->count; r.at++)
		run_one_of_all(&r, &m->insns[r.at]);
	assert_int_equal(r.called, 0);
	assert_int_equal(r.pushed, 0);
}
