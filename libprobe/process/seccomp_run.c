/* SPDX-License-Identifier: MIT */
/*
 * Filters are small programs whose result depends only on the call, so they can be run here to
 * see what they would do.
 *
 * Source: Documentation/networking/filter.rst of Linux for the instructions.
 */
#include <string.h>

#include "libprobe/process/process.h"

/* The state of the machine. */
struct machine {
	uint32_t a, x;
	uint32_t memory[BPF_MEMWORDS];
};

static bool alu(struct machine *m, uint16_t code, uint32_t operand)
{
	switch (BPF_OP(code)) {
	case BPF_ADD:
		m->a += operand;
		return true;
	case BPF_SUB:
		m->a -= operand;
		return true;
	case BPF_MUL:
		m->a *= operand;
		return true;
	case BPF_DIV:
		if (!operand)
			return false;
		m->a /= operand;
		return true;
	case BPF_OR:
		m->a |= operand;
		return true;
	case BPF_AND:
		m->a &= operand;
		return true;
	case BPF_XOR:
		m->a ^= operand;
		return true;
	case BPF_LSH:
		m->a = operand < 32 ? m->a << operand : 0;
		return true;
	case BPF_RSH:
		m->a = operand < 32 ? m->a >> operand : 0;
		return true;
	case BPF_NEG:
		m->a = -m->a;
		return true;
	}
	return false;
}

static bool condition(const struct machine *m, uint16_t code, uint32_t operand)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return m->a == operand;
	case BPF_JGT:
		return m->a > operand;
	case BPF_JGE:
		return m->a >= operand;
	default:
		return m->a & operand;
	}
}

/* A load into either register; false if it is malformed. */
static bool load(const struct machine *m, const struct sock_filter *i,
	const struct seccomp_data *data, uint32_t *ret)
{
	switch (BPF_MODE(i->code)) {
	case BPF_IMM:
		*ret = i->k;
		return true;
	case BPF_LEN:
		*ret = sizeof(*data);
		return true;
	case BPF_MEM:
		if (i->k >= BPF_MEMWORDS)
			return false;
		*ret = m->memory[i->k];
		return true;
	case BPF_ABS:
		if (i->k % 4 || i->k > sizeof(*data) - 4)
			return false;
		memcpy(ret, (const uint8_t *)data + i->k, sizeof(*ret));
		return true;
	}
	return false;
}

/* One instruction other than a jump or a return. */
static bool step(struct machine *m, const struct sock_filter *i, const struct seccomp_data *data)
{
	uint32_t operand = BPF_SRC(i->code) == BPF_X ? m->x : i->k;

	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
		return load(m, i, data, &m->a);
	case BPF_LDX:
		return load(m, i, data, &m->x);
	case BPF_ST:
	case BPF_STX:
		if (i->k >= BPF_MEMWORDS)
			return false;
		m->memory[i->k] = BPF_CLASS(i->code) == BPF_ST ? m->a : m->x;
		return true;
	case BPF_ALU:
		return alu(m, i->code, operand);
	case BPF_MISC:
		if (BPF_MISCOP(i->code) == BPF_TAX)
			m->x = m->a;
		else
			m->a = m->x;
		return true;
	}
	return false;
}

uint32_t seccomp_run(
	const struct sock_filter *program, size_t length, const struct seccomp_data *data)
{
	struct machine m = {0};
	size_t at = 0;

	/* Jumps only go forward, so this terminates. */
	while (at < length) {
		const struct sock_filter *i = &program[at++];
		uint32_t operand = BPF_SRC(i->code) == BPF_X ? m.x : i->k;

		if (BPF_CLASS(i->code) == BPF_RET)
			return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
		if (BPF_CLASS(i->code) != BPF_JMP) {
			if (!step(&m, i, data))
				break;
		} else if (BPF_OP(i->code) == BPF_JA) {
			at += i->k;
		} else {
			at += condition(&m, i->code, operand) ? i->jt : i->jf;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}
